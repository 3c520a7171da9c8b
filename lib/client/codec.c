/* SPDX-License-Identifier: BSD-3-Clause */
/* A part's bytes: its request's payload from the caller's memory, and a reply's payload back into it. */
#include "client/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static inline uint64_t position(const struct slice *s, uint32_t i)
{
	return s->order ? s->order[i] : s->first + i;
}

/* Bytes of row `at` that are the caller's: the last block of a variable may be shorter than a row. */
static inline size_t real_bytes(const struct call_op *op, uint64_t at)
{
	return at + 1 < op->count ? op->row_bytes : op->last_bytes;
}

/* Whether a slice's rows lie in the caller's memory one behind the other, as they do in a frame. */
static inline bool contiguous(const struct call_op *op, const struct slice *s)
{
	return !s->order && !op->pieces && real_bytes(op, s->first + s->count - 1) == op->row_bytes;
}

static char *put_keys(const struct call_op *op, const struct slice *s, char *to)
{
	if (!s->order && op->keys) {
		memcpy(to, op->keys + s->first, s->count * sizeof(uint64_t));
		return to + s->count * sizeof(uint64_t);
	}
	for (uint32_t i = 0; i < s->count; i++, to += sizeof(uint64_t)) {
		const uint64_t at = position(s, i), key = op->keys ? op->keys[at] : at;

		memcpy(to, &key, sizeof(key));
	}
	return to;
}

static char *put_versions(const struct call_op *op, const struct slice *s, char *to)
{
	for (uint32_t i = 0; i < s->count; i++)
		memcpy(to + i * sizeof(uint32_t), &op->versions[position(s, i)], sizeof(uint32_t));
	return to + s->count * sizeof(uint32_t); /* a body's padding is theirs too: no rows follow */
}

/* Where the elements of a row begin, and what one takes: of a scaled row the scale comes first. */
static inline size_t elements_at(const struct call_op *op, uint32_t element)
{
	return (op->dtype == STAR_SCALED_INT8 ? sizeof(float) : 0) + (size_t)element * dtype_bytes(op->dtype);
}

/* The rows of a variable that lie in block `at`, and zeros. */
static void put_pieces(const struct call_op *op, uint64_t at, char *to)
{
	const struct pieces *pieces = op->pieces;

	memset(to, 0, op->row_bytes);
	for (uint32_t i = pieces->first[at]; i < pieces->first[at + 1]; i++) {
		const struct piece *piece = &pieces->of[i];
		const char *row = op->gradients + (size_t)piece->position * pieces->bytes;

		memcpy(to, row, elements_at(op, 0));
		memcpy(to + elements_at(op, piece->offset), row + elements_at(op, 0),
		       pieces->elements * dtype_bytes(op->dtype));
	}
}

static void take_pieces(const struct call_op *op, uint64_t at, const char *from)
{
	const struct pieces *pieces = op->pieces;

	for (uint32_t i = pieces->first[at]; i < pieces->first[at + 1]; i++) {
		const struct piece *piece = &pieces->of[i];
		char *row = op->results + (size_t)piece->position * pieces->bytes;
		const size_t bytes = elements_at(op, pieces->elements);

		memcpy(row, from, elements_at(op, 0));
		memcpy(row + elements_at(op, 0), from + elements_at(op, piece->offset),
		       pieces->elements * dtype_bytes(op->dtype));
		memset(row + bytes, 0, pieces->bytes - bytes);
	}
}

/* Between the elements of a variable's last block, which may be fewer, and its row in a frame: the rest is zero. */
static void put_row(const struct call_op *op, uint64_t at, char *to)
{
	const size_t real = real_bytes(op, at);

	memcpy(to, op->gradients + at * op->row_bytes, real);
	memset(to + real, 0, op->row_bytes - real);
}

static void take_row(const struct call_op *op, uint64_t at, const char *from)
{
	const size_t real = real_bytes(op, at);
	const struct star_table *t = op->table;
	size_t used = real;

	/* What pads a short block's int8s to 4 bytes are elements that nobody reads. */
	if (real != op->row_bytes && op->dtype == STAR_SCALED_INT8)
		used = elements_at(op, (uint32_t)(t->elements - (t->blocks - 1) * t->spec.dim));
	memcpy(op->results + at * op->row_bytes, from, used);
	memset(op->results + at * op->row_bytes + used, 0, real - used);
}

static char *put_rows(const struct call_op *op, const struct slice *s, char *to)
{
	const size_t row_bytes = op->row_bytes;

	if (contiguous(op, s)) {
		memcpy(to, op->gradients + s->first * row_bytes, s->count * row_bytes);
		return to + s->count * row_bytes;
	}
	for (uint32_t i = 0; i < s->count; i++, to += row_bytes) {
		if (op->pieces)
			put_pieces(op, position(s, i), to);
		else
			put_row(op, position(s, i), to);
	}
	return to;
}

/* What the node is to know about the pull that a gradient comes from. */
static uint64_t pulled_version(const struct part *part, const struct call_op *op)
{
	const uint64_t *seen = part->channel->seen;

	return op_pushes(op) && op->table->spec.staleness && seen ? seen[op->table->spec.id] : 0;
}

void codec_request(const struct part *part, char *payload)
{
	for (const struct slice *s = part->slices; s; s = s->next) {
		const struct call_op *op = &part->call->ops[s->op];
		const struct wire_op head = {
			.kind = op->kind,
			.dtype = op_pushes(op) ? op->dtype : 0,
			.result_dtype = op_pulls(op) ? op->dtype : 0,
			.flags = op->flags,
			.object = op->table->spec.id,
			.count = s->count,
			.dim = op->table->spec.dim,
			.body_bytes = op_request_bytes(op, s->count),
			.rate = op->rate,
			.step = op->step,
			.version = pulled_version(part, op),
			.scale = op->scale,
		};
		char *end;

		memcpy(payload, &head, sizeof(head));
		end = put_keys(op, s, payload + sizeof(head));
		if (op_pushes(op))
			end = put_rows(op, s, end);
		if (op->versions)
			end = put_versions(op, s, end);
		payload += sizeof(head) + wire_padded(head.body_bytes);
		memset(end, 0, (size_t)(payload - end));
	}
}

/* The version of position i as it was asked for, and as it came; whether its row came too. */
static inline bool row_came(const struct call_op *op, const struct slice *s, uint32_t i, const char *versions,
			    uint32_t *now)
{
	const uint32_t had = op->versions[position(s, i)];

	memcpy(now, versions + i * sizeof(*now), sizeof(*now));
	return had == 0 || had != *now;
}

static uint32_t rows_that_came(const struct call_op *op, const struct slice *s, const char *versions)
{
	uint32_t rows = 0, now;

	for (uint32_t i = 0; i < s->count; i++)
		rows += row_came(op, s, i, versions, &now);
	return rows;
}

/* left: bytes from the result's body on; that they hold all of it is still to be seen. */
static bool check_result(const struct call_op *op, const struct slice *s, const struct wire_result *result,
			 const char *body, uint32_t left)
{
	const uint32_t versions = op->versions ? (uint32_t)wire_versions_bytes(s->count) : 0;
	uint32_t rows = op_pulls(op) ? s->count : 0;

	if (result->object != op->table->spec.id || result->dim != op->table->spec.dim ||
	    (op->kind == STAR_DELETE ? result->count > s->count : result->count != s->count) || left < versions)
		return false;
	if (op->versions)
		rows = rows_that_came(op, s, body);
	return result->body_bytes == versions + rows * op->row_bytes;
}

const char *codec_check(const struct part *part, const char *payload, uint32_t bytes)
{
	if (bytes > part->reply_bytes)
		return "answered with a payload of the wrong length";
	for (const struct slice *s = part->slices; s; s = s->next) {
		const struct call_op *op = &part->call->ops[s->op];
		struct wire_result result;

		if (bytes < sizeof(result))
			return "answered with a payload of the wrong length";
		memcpy(&result, payload, sizeof(result));
		payload += sizeof(result);
		bytes -= (uint32_t)sizeof(result);
		if (!check_result(op, s, &result, payload, bytes))
			return "answered with results that are not those of the request";
		if (wire_padded(result.body_bytes) > bytes)
			return "answered with a payload of the wrong length";
		payload += wire_padded(result.body_bytes);
		bytes -= wire_padded(result.body_bytes);
	}
	return bytes ? "answered with a payload of the wrong length" : NULL;
}

void codec_remember(const struct part *part, const char *payload)
{
	struct channel *ch = part->channel;

	for (const struct slice *s = part->slices; s; s = s->next) {
		const struct call_op *op = &part->call->ops[s->op];
		struct wire_result result;

		memcpy(&result, payload, sizeof(result));
		payload += sizeof(result) + wire_padded(result.body_bytes);
		if (!op_pulls(op) || !op->table->spec.staleness)
			continue;
		if (!ch->seen)
			ch->seen = calloc(WIRE_OBJECTS_MAX + 1, sizeof(*ch->seen));
		if (ch->seen) /* else the node is told nothing, and takes the gradients for fresh ones */
			ch->seen[op->table->spec.id] = result.version;
	}
}

/* Only what is new. The caller's versions are read again: whatever became of them, no more rows are taken than came. */
static void scatter_new(const struct call_op *op, const struct slice *s, const char *body, uint32_t bytes)
{
	const char *row = body + wire_versions_bytes(s->count), *end = body + bytes;

	for (uint32_t i = 0; i < s->count; i++) {
		const uint64_t at = position(s, i);
		uint32_t now;

		if (!row_came(op, s, i, body, &now) || row + op->row_bytes > end)
			continue;
		take_row(op, at, row);
		op->versions[at] = now;
		row += op->row_bytes;
	}
}

static void scatter(const struct call_op *op, const struct slice *s, const char *row)
{
	const size_t row_bytes = op->row_bytes;

	if (contiguous(op, s)) {
		memcpy(op->results + s->first * row_bytes, row, s->count * row_bytes);
		return;
	}
	for (uint32_t i = 0; i < s->count; i++, row += row_bytes) {
		if (op->pieces)
			take_pieces(op, position(s, i), row);
		else
			take_row(op, position(s, i), row);
	}
}

void codec_scatter(const struct part *part, const char *payload)
{
	for (const struct slice *s = part->slices; s; s = s->next) {
		const struct call_op *op = &part->call->ops[s->op];
		const char *body = payload + sizeof(struct wire_result);
		struct wire_result result;

		memcpy(&result, payload, sizeof(result));
		payload = body + wire_padded(result.body_bytes);
		if (op->versions)
			scatter_new(op, s, body, result.body_bytes);
		else if (op_pulls(op))
			scatter(op, s, body);
	}
}

int codec_errno(unsigned status)
{
	switch (status) {
	case WIRE_STALE_INCARNATION:
		return -ESTALE;
	case WIRE_UNKNOWN_OBJECT:
		return -ENOENT;
	case WIRE_WRONG_DIM:
	case WIRE_WRONG_TYPE:
	case WIRE_NO_KEYS:
		return -EINVAL;
	case WIRE_OVER_LIMIT:
		return -E2BIG;
	case WIRE_NO_MEMORY:
		return -ENOSPC;
	case WIRE_DEADLINE:
		return -ETIMEDOUT;
	case WIRE_BUSY:
		return -EBUSY;
	case WIRE_SHUTTING_DOWN:
		return -ECONNRESET;
	case WIRE_NOT_FINITE:
		return -EDOM;
	default:
		return -EPROTO;
	}
}
