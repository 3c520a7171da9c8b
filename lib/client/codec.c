/* SPDX-License-Identifier: BSD-3-Clause */
/* A part's bytes: its request's payload from the caller's memory, and a reply's payload back into it. */
#include "client/client.h"

#include <errno.h>
#include <string.h>

static inline uint64_t position(const struct slice *s, uint32_t i)
{
	return s->order ? s->order[i] : s->first + i;
}

/* Bytes of row `at` that are the caller's: the last block of a variable may be shorter than a row. */
static inline size_t real_bytes(const struct call_op *op, uint64_t at)
{
	const struct star_table *t = op->table;

	if (!t->blocks || at + 1 < t->blocks)
		return t->row_bytes;
	return t->row_bytes - (t->blocks * t->spec.dim - t->elements) * dtype_bytes(t->spec.dtype);
}

/* Whether a slice's rows lie in the caller's memory one behind the other, as they do in a frame. */
static inline bool contiguous(const struct call_op *op, const struct slice *s)
{
	return !s->order && real_bytes(op, s->first + s->count - 1) == op->table->row_bytes;
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

static char *put_rows(const struct call_op *op, const struct slice *s, char *to)
{
	const size_t row_bytes = op->table->row_bytes;

	if (contiguous(op, s)) {
		memcpy(to, op->values + s->first * row_bytes, s->count * row_bytes);
		return to + s->count * row_bytes;
	}
	for (uint32_t i = 0; i < s->count; i++, to += row_bytes) {
		const uint64_t at = position(s, i);
		const size_t real = real_bytes(op, at);

		memcpy(to, op->values + at * row_bytes, real);
		memset(to + real, 0, row_bytes - real);
	}
	return to;
}

void codec_request(const struct part *part, char *payload)
{
	for (const struct slice *s = part->slices; s; s = s->next) {
		const struct call_op *op = &part->call->ops[s->op];
		const struct wire_op head = {
			.kind = op->kind,
			.dtype = op->table->spec.dtype,
			.flags = op->flags,
			.object = op->table->spec.id,
			.count = s->count,
			.dim = op->table->spec.dim,
			.body_bytes = s->count * op_request_key_bytes(op),
			.rate = op->rate,
			.step = op->step,
		};
		const uint32_t padding = wire_padded(head.body_bytes) - head.body_bytes;

		memcpy(payload, &head, sizeof(head));
		payload = put_keys(op, s, payload + sizeof(head));
		if (op->kind == STAR_PUSH)
			payload = put_rows(op, s, payload);
		memset(payload, 0, padding);
		payload += padding;
	}
}

const char *codec_check(const struct part *part, const char *payload, uint32_t bytes)
{
	if (bytes != part->reply_bytes)
		return "answered with a payload of the wrong length";
	for (const struct slice *s = part->slices; s; s = s->next) {
		const struct call_op *op = &part->call->ops[s->op];
		const uint32_t body = s->count * op_reply_key_bytes(op);
		struct wire_result result;

		memcpy(&result, payload, sizeof(result));
		if (result.object != op->table->spec.id || result.count != s->count ||
		    result.dim != op->table->spec.dim || result.body_bytes != body)
			return "answered with results that are not those of the request";
		/* In bounds, because these very sizes were summed up to reply_bytes when the part was made. */
		payload += sizeof(result) + wire_padded(body);
	}
	return NULL;
}

void codec_scatter(const struct part *part, const char *payload)
{
	for (const struct slice *s = part->slices; s; s = s->next) {
		const struct call_op *op = &part->call->ops[s->op];
		const size_t row_bytes = op->table->row_bytes;
		const char *row = payload + sizeof(struct wire_result);

		payload = row + wire_padded(s->count * op_reply_key_bytes(op));
		if (op->kind != STAR_PULL)
			continue;
		if (contiguous(op, s)) {
			memcpy(op->values + s->first * row_bytes, row, s->count * row_bytes);
			continue;
		}
		for (uint32_t i = 0; i < s->count; i++, row += row_bytes) {
			const uint64_t at = position(s, i);

			memcpy(op->values + at * row_bytes, row, real_bytes(op, at));
		}
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
	default:
		return -EPROTO;
	}
}
