/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a part: writes a request's payload from the caller's memory, and copies a reply's payload back into it.
 * The transport's memory comes in pieces, whose boundaries can be anywhere.
 */
#include "client/codec.h"
#include "client/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/stream.h"

enum { STREAM_ROW_MIN = 512, STREAM_BYTES = 1 << 20, VIEW_PARTS_FIRST = 64 };

static inline uint64_t position(const struct slice *s, uint32_t i)
{
	return s->order ? s->order[i] : s->first + i;
}

/* How many bytes of row `at` are the caller's: the last block of a variable may be shorter than a row. */
static inline size_t real_bytes(const struct call_op *op, uint64_t at)
{
	return at + 1 < op->count ? op->row_bytes : op->last_bytes;
}

/* Whether a slice's rows are contiguous in the caller's memory, as they are in a frame. */
static inline bool contiguous(const struct call_op *op, const struct slice *s)
{
	return !s->order && !op->pieces && real_bytes(op, s->first + s->count - 1) == op->row_bytes;
}

/* The bytes left in the current piece, or in the next one if that is used up: at most n. */
static size_t out_bytes(struct codec_out *out, size_t most)
{
	size_t n;

	while (out->at == out->end)
		out->next(out);
	n = (size_t)(out->end - out->at);
	return n < most ? n : most;
}

static size_t in_bytes(struct codec_in *in, size_t most)
{
	size_t n;

	while (in->at == in->end)
		in->next(in);
	n = (size_t)(in->end - in->at);
	return n < most ? n : most;
}

static void put_spanning(struct codec_out *out, const char *from, size_t bytes)
{
	while (bytes) {
		const size_t n = out_bytes(out, bytes);

		memcpy(out->at, from, n);
		out->at += n;
		from += n;
		bytes -= n;
	}
}

static inline void codec_put(struct codec_out *out, const void *from, size_t bytes)
{
	if (bytes <= (size_t)(out->end - out->at)) {
		memcpy(out->at, from, bytes);
		out->at += bytes;
	} else {
		put_spanning(out, from, bytes);
	}
}

static void put_zeros(struct codec_out *out, size_t bytes)
{
	while (bytes) {
		const size_t n = out_bytes(out, bytes);

		memset(out->at, 0, n);
		out->at += n;
		bytes -= n;
	}
}

static inline void copy_part(const struct codec_in *in, char *to, size_t bytes)
{
	if (in->streams && bytes >= STREAM_ROW_MIN)
		stream_copy(to, in->at, bytes);
	else
		memcpy(to, in->at, bytes);
}

static void get_spanning(struct codec_in *in, char *to, size_t bytes)
{
	while (bytes) {
		const size_t n = in_bytes(in, bytes);

		if (to) {
			copy_part(in, to, n);
			to += n;
		}
		in->at += n;
		bytes -= n;
	}
}

static inline void codec_get(struct codec_in *in, void *to, size_t bytes)
{
	if (bytes <= (size_t)(in->end - in->at)) {
		copy_part(in, to, bytes);
		in->at += bytes;
	} else {
		get_spanning(in, to, bytes);
	}
}

static inline void skip(struct codec_in *in, size_t bytes)
{
	if (bytes <= (size_t)(in->end - in->at))
		in->at += bytes;
	else
		get_spanning(in, NULL, bytes);
}

void client_codec_put(struct codec_out *out, const void *from, size_t bytes)
{
	codec_put(out, from, bytes);
}

void client_codec_put_zeros(struct codec_out *out, size_t bytes)
{
	put_zeros(out, bytes);
}

void client_codec_get(struct codec_in *in, void *to, size_t bytes)
{
	codec_get(in, to, bytes);
}

void client_codec_skip(struct codec_in *in, size_t bytes)
{
	skip(in, bytes);
}

static void put_keys(const struct call_op *op, const struct slice *s, struct codec_out *out)
{
	if (!s->order && op->keys) {
		codec_put(out, op->keys + s->first, s->count * sizeof(uint64_t));
		return;
	}
	for (uint32_t i = 0; i < s->count; i++) {
		const uint64_t at = position(s, i), key = op->keys ? op->keys[at] : at;

		codec_put(out, &key, sizeof(key));
	}
}

static void put_versions(const struct call_op *op, const struct slice *s, struct codec_out *out)
{
	for (uint32_t i = 0; i < s->count; i++)
		codec_put(out, &op->versions[position(s, i)],
			  sizeof(uint32_t)); /* this includes the padding of the body, as no rows follow */
}

/* Where the elements of a row begin, and the size of each: a scaled row begins with its scale. */
static inline size_t elements_at(const struct call_op *op, uint32_t element)
{
	return (op->dtype == STAR_SCALED_INT8 ? sizeof(float) : 0) + (size_t)element * dtype_bytes(op->dtype);
}

/*
 * Writes the rows of a variable that are in block `at`, and zeros. In a push they are all different and in order, and a
 * row with a scale is alone.
 */
static void put_pieces(const struct call_op *op, uint64_t at, struct codec_out *out)
{
	const struct pieces *pieces = op->pieces;
	const size_t scale = elements_at(op, 0), bytes = elements_at(op, pieces->elements) - scale;
	size_t used = scale;

	codec_put(out, op->gradients + (size_t)pieces->of[pieces->first[at]].position * pieces->bytes, scale);
	for (uint32_t i = pieces->first[at]; i < pieces->first[at + 1]; i++) {
		const struct piece *piece = &pieces->of[i];
		const size_t place = elements_at(op, piece->offset);

		put_zeros(out, place - used);
		codec_put(out, op->gradients + (size_t)piece->position * pieces->bytes + scale, bytes);
		used = place + bytes;
	}
	put_zeros(out, op->row_bytes - used);
}

static void take_pieces(const struct call_op *op, uint64_t at, struct codec_in *in)
{
	const struct pieces *pieces = op->pieces;

	for (uint32_t i = pieces->first[at]; i < pieces->first[at + 1]; i++) {
		const struct piece *piece = &pieces->of[i];
		char *row = op->results + (size_t)piece->position * pieces->bytes;
		const size_t scale = elements_at(op, 0), bytes = elements_at(op, pieces->elements);
		struct codec_in from = *in; /* a pull may name a row twice */

		codec_get(&from, row, scale);
		skip(&from, elements_at(op, piece->offset) - scale);
		codec_get(&from, row + scale, bytes - scale);
		memset(row + bytes, 0, pieces->bytes - bytes);
	}
	skip(in, op->row_bytes);
}

/* Writes the elements of a variable's last block, which may be fewer than a row's, and zeros up to a row. */
static void put_row(const struct call_op *op, uint64_t at, struct codec_out *out)
{
	const size_t real = real_bytes(op, at);

	codec_put(out, op->gradients + at * op->row_bytes, real);
	put_zeros(out, op->row_bytes - real);
}

static void take_pulled_row(const struct call_op *op, uint64_t at, struct codec_in *in)
{
	const size_t real = real_bytes(op, at);
	const struct star_table *t = op->table;
	size_t used = real;

	/* The int8s that pad a short block to 4 bytes are elements that nobody reads. */
	if (real != op->row_bytes && op->dtype == STAR_SCALED_INT8)
		used = elements_at(op, (uint32_t)(t->elements - (t->blocks - 1) * t->spec.dim));
	codec_get(in, op->results + at * op->row_bytes, used);
	skip(in, op->row_bytes - used);
	memset(op->results + at * op->row_bytes + used, 0, real - used);
}

static void put_rows(const struct call_op *op, const struct slice *s, struct codec_out *out)
{
	if (contiguous(op, s)) {
		codec_put(out, op->gradients + s->first * op->row_bytes, s->count * (size_t)op->row_bytes);
		return;
	}
	for (uint32_t i = 0; i < s->count; i++) {
		if (op->pieces)
			put_pieces(op, position(s, i), out);
		else
			put_row(op, position(s, i), out);
	}
}

/* What the node must know about the pull that a gradient comes from: 1 + its version; 0: nothing. */
static uint64_t pulled_version(const struct part *part, const struct call_op *op)
{
	const struct channel_seen *seen = part->channel->seen;

	if (!op->table->spec.staleness || op->kind == STAR_ASSIGN || op->tag || !seen)
		return 0;
	return seen[op->table->spec.id].of == &op->table->spec ? seen[op->table->spec.id].version : 0;
}

static uint32_t request_bytes(const struct part *part, const struct call_op *op, uint32_t count)
{
	return part->applied && op_pushes(op) ? count * (uint32_t)sizeof(uint64_t) : op_request_bytes(op, count);
}

bool client_codec_leave_pulls(struct part *part)
{
	struct slice **link = &part->slices;

	part->applied = true;
	part->request_bytes = 0;
	while (*link) {
		struct slice *s = *link;
		const struct call_op *op = &part->call->ops[s->op];

		if (!op_pulls(op) && !(op->run && run_fetches(op))) {
			*link = s->next;
			continue;
		}
		part->request_bytes +=
			(uint32_t)sizeof(struct wire_op) + wire_padded(!s->share     ? request_bytes(part, op, s->count)
								       : part->alone ? s->share->alone_bytes
										     : s->share->request_bytes);
		link = &s->next;
	}
	return part->slices != NULL;
}

bool client_codec_bring_all(struct part *part)
{
	uint32_t more = 0;

	for (const struct slice *s = part->slices; s; s = s->next) {
		const struct call_run *run = part->call->ops[s->op].run;

		if (!run || !program_has_entry(&run->program->shape))
			continue;
		if (!run->may_bring)
			return false;
		more += wire_padded(s->share->alone_bytes) - wire_padded(s->share->request_bytes);
	}
	if (part->alone)
		return false;
	part->alone = true;
	part->request_bytes += more;
	return true;
}

static inline void fill_head(struct unaligned_op *at, const struct part *part, const struct call_op *op,
			     const struct slice *s)
{
	const bool pushes = op_pushes(op) && !part->applied, steps = pushes || op->kind == STAR_COMMIT;
	const uint64_t pulled = pushes ? pulled_version(part, op) : 0;

	at->op = (struct wire_op){
		.kind = part->applied ? WIRE_PULL : op->kind,
		.dtype = pushes ? op->dtype : 0,
		.result_dtype = op_pulls(op) ? op->dtype : 0,
		.object = object_wire_id(&op->table->spec),
		.count = s->count,
		.dim = op->table->spec.dim,
		.body_bytes = request_bytes(part, op, s->count),
		.rate = steps ? op->rate : 0,
		.step = op->step,
		.version = op->tag  ? op->tag
			   : pulled ? pulled - 1
				    : 0,
		.scale = steps ? op->scale : 0,
		.flags = (steps ? op->flags : op->flags & ~(uint32_t)(WIRE_RATE | WIRE_SCALE)) |
			 (pulled ? WIRE_PULLED : 0) | (pushes && s->more ? WIRE_MORE : 0) |
			 (part->applied ? WIRE_READ_ONLY : 0),
	};
}

static void put_head(struct codec_out *out, const struct part *part, const struct call_op *op, const struct slice *s)
{
	struct unaligned_op head;

	if ((size_t)(out->end - out->at) >= sizeof(head)) {
		fill_head((struct unaligned_op *)out->at, part, op, s);
		out->at += sizeof(head);
	} else {
		fill_head(&head, part, op, s);
		codec_put(out, &head, sizeof(head));
	}
}

void client_codec_request(const struct part *part, struct codec_out *out)
{
	for (const struct slice *s = part->slices; s; s = s->next) {
		const struct call_op *op = &part->call->ops[s->op];
		const bool pushes = op_pushes(op) && !part->applied;
		const uint32_t body_bytes = request_bytes(part, op, s->count);
		uint32_t unpadded = body_bytes;

		if (op->run) {
			client_run_request(part, op, s, out);
			continue;
		}
		put_head(out, part, op, s);
		put_keys(op, s, out);
		if (pushes)
			put_rows(op, s, out);
		if (op->versions) {
			put_versions(op, s, out);
			unpadded -= (uint32_t)wire_versions_bytes(s->count) - s->count * (uint32_t)sizeof(uint32_t);
		}
		if (wire_padded(body_bytes) != unpadded)
			put_zeros(out, wire_padded(body_bytes) - unpadded);
	}
}

/* Compares the version of position i that was requested with the one that came; returns whether its row came, too. */
static inline bool row_came(const struct call_op *op, const struct slice *s, uint32_t i, struct codec_in *versions,
			    uint32_t *now)
{
	const uint32_t had = op->versions[position(s, i)];

	codec_get(versions, now, sizeof(*now));
	return had == 0 || had != *now;
}

static uint32_t rows_that_came(const struct call_op *op, const struct slice *s, struct codec_in versions)
{
	uint32_t rows = 0, now;

	for (uint32_t i = 0; i < s->count; i++)
		rows += row_came(op, s, i, &versions, &now);
	return rows;
}

/* left: bytes from the beginning of the result's body on; whether they contain all of it is checked here. */
static bool check_result(const struct call_op *op, const struct slice *s, const struct wire_result *result,
			 const struct codec_in *body, uint32_t left)
{
	const uint32_t versions = op->versions ? (uint32_t)wire_versions_bytes(s->count) : 0;
	uint32_t rows = op_pulls(op) ? s->count : 0;

	if (op->run)
		return client_run_check_result(op, s, result);
	if (result->object != object_wire_id(&op->table->spec) || result->dim != op->table->spec.dim ||
	    (op->kind == STAR_DELETE ? result->count > s->count : result->count != s->count) || left < versions)
		return false;
	if (op->versions)
		rows = rows_that_came(op, s, *body);
	return result->body_bytes == versions + rows * op->row_bytes;
}

const char *client_codec_check(const struct part *part, struct codec_in in, uint32_t bytes)
{
	if (bytes > part->reply_bytes)
		return "answered with a payload of the wrong length";
	for (const struct slice *s = part->slices; s; s = s->next) {
		const struct call_op *op = &part->call->ops[s->op];
		struct wire_result result;

		if (bytes < sizeof(result))
			return "answered with a payload of the wrong length";
		codec_get(&in, &result, sizeof(result));
		bytes -= (uint32_t)sizeof(result);
		if (!check_result(op, s, &result, &in, bytes))
			return "answered with results that are not those of the request";
		if (wire_padded(result.body_bytes) > bytes)
			return "answered with a payload of the wrong length";
		skip(&in, wire_padded(result.body_bytes));
		bytes -= wire_padded(result.body_bytes);
	}
	return bytes ? "answered with a payload of the wrong length" : NULL;
}

void client_codec_remember(const struct part *part, struct codec_in in)
{
	struct channel *ch = part->channel;

	for (const struct slice *s = part->slices; s; s = s->next) {
		const struct call_op *op = &part->call->ops[s->op];
		struct wire_result result;

		codec_get(&in, &result, sizeof(result));
		skip(&in, wire_padded(result.body_bytes));
		/* Later parts of a pull may come later; gradients count from its first part. */
		if (!op_pulls(op) || !op->table->spec.staleness || s->goes_on)
			continue;
		if (!ch->seen)
			ch->seen = calloc(WIRE_OBJECTS_MAX + 1, sizeof(*ch->seen));
		if (ch->seen) /* otherwise the node is told nothing, and takes the gradients as fresh */
			ch->seen[op->table->spec.id] =
				(struct channel_seen){ .of = &op->table->spec, .version = result.version + 1 };
	}
}

/* Copies only new rows. The caller's versions are read again: even if they have changed since, no more rows are read
 * than came. */
static void scatter_new(const struct call_op *op, const struct slice *s, struct codec_in versions, uint32_t bytes)
{
	struct codec_in rows = versions;

	bytes -= (uint32_t)wire_versions_bytes(s->count);
	skip(&rows, wire_versions_bytes(s->count));
	for (uint32_t i = 0; i < s->count; i++) {
		const uint64_t at = position(s, i);
		uint32_t now;

		if (!row_came(op, s, i, &versions, &now) || bytes < op->row_bytes)
			continue;
		take_pulled_row(op, at, &rows);
		op->versions[at] = now;
		bytes -= op->row_bytes;
	}
}

static void scatter(const struct call_op *op, const struct slice *s, struct codec_in in)
{
	if (contiguous(op, s)) {
		codec_get(&in, op->results + s->first * op->row_bytes, s->count * (size_t)op->row_bytes);
		return;
	}
	for (uint32_t i = 0; i < s->count; i++) {
		if (op->pieces)
			take_pieces(op, position(s, i), &in);
		else
			take_pulled_row(op, position(s, i), &in);
	}
}

void client_codec_scatter(const struct part *part, struct codec_in in)
{
	bool streamed = false;

	for (const struct slice *s = part->slices; s; s = s->next) {
		const struct call_op *op = &part->call->ops[s->op];
		struct wire_result result;

		codec_get(&in, &result, sizeof(result));
		/* Rows that exceed a core's cache would only evict what is in it. */
		in.streams = op->count * (uint64_t)op->row_bytes >= STREAM_BYTES;
		if (op->versions)
			scatter_new(op, s, in, result.body_bytes);
		else if (op_pulls(op))
			scatter(op, s, in);
		else if (op->run)
			client_run_scatter(op, s, in);
		streamed |= in.streams;
		in.streams = false;
		skip(&in, wire_padded(result.body_bytes));
	}
	if (streamed)
		stream_end(); /* a thread that sees the call finished must also see its rows */
}

/* Bytes that follow the last part, both in the sequence and in memory, extend it. */
static bool show_values(struct star_view *view, uint64_t offset, const char *data, size_t bytes)
{
	struct star_view_part *last = view->parts_count ? &view->parts[view->parts_count - 1] : NULL;

	if (last && last->offset + last->bytes == offset && (const char *)last->data + last->bytes == data) {
		last->bytes += bytes;
		return true;
	}
	if (view->parts_count == view->parts_size) {
		const uint32_t size = view->parts_size ? 2 * view->parts_size : VIEW_PARTS_FIRST;
		struct star_view_part *parts = realloc(view->parts, size * sizeof(*parts));

		if (!parts)
			return false;
		view->parts = parts;
		view->parts_size = size;
	}
	view->parts[view->parts_count++] = (struct star_view_part){ offset, data, bytes };
	return true;
}

static bool show_bytes(struct star_view *view, struct codec_in *in, uint64_t offset, size_t bytes)
{
	while (bytes) {
		const size_t n = in_bytes(in, bytes);

		if (!show_values(view, offset, in->at, n))
			return false;
		in->at += n;
		offset += n;
		bytes -= n;
	}
	return true;
}

bool client_codec_show(const struct part *part, struct codec_in in)
{
	const struct slice *s = part->slices;
	const struct call_op *op = &part->call->ops[s->op];
	const uint32_t before = op->view->parts_count;

	skip(&in, sizeof(struct wire_result));
	for (uint32_t i = 0; i < s->count; i++) {
		const uint64_t at = position(s, i);

		if (!show_bytes(op->view, &in, at * op->row_bytes, real_bytes(op, at))) {
			op->view->parts_count = before;
			return false;
		}
	}
	return true;
}

int client_codec_errno(unsigned status)
{
	switch (status) {
	/* the caller's: what libstar makes of a call is well-formed, and its connection goes on */
	case WIRE_BAD_REQUEST:
		return -EINVAL;
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
	case WIRE_FORGOTTEN:
		return -ECONNRESET;
	case WIRE_NOT_FINITE:
		return -EDOM;
	case WIRE_NOT_ALLOWED:
		return -EPERM;
	case WIRE_QUOTA_CONNECTIONS:
	case WIRE_QUOTA_SESSIONS:
	case WIRE_QUOTA_IN_FLIGHT:
	case WIRE_QUOTA_REQUESTS:
	case WIRE_QUOTA_NEW_ROWS:
	case WIRE_QUOTA_MEMORY:
		return -EDQUOT;
	case WIRE_NO_TICKET:
		return -EACCES;
	case WIRE_GONE:
		return -ENODATA;
	case WIRE_NOT_KEPT:
		return -ENOBUFS;
	case WIRE_CLOSED:
		return -EALREADY;
	default:
		return -EPROTO;
	}
}
