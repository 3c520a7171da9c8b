/* SPDX-License-Identifier: BSD-3-Clause */
/* A run's bytes for one reactor; wire/program.h describes them. */
#include <string.h>

#include "client/run.h"

enum { NARROW_BYTES = 256 }; /* of segment numbers at a time; even */

static void pad(struct codec_out *out, uint64_t bytes)
{
	if (bytes % 8)
		client_codec_put_zeros(out, 8 - bytes % 8);
}

/* Writes the elements of a feed, `each` bytes long, for this reactor's keys. */
static void put_aligned(struct codec_out *out, const struct run_share *share, unsigned k, const void *data, size_t each)
{
	const uint32_t count = share->counts[k], *order = share->orders[k];

	if (!order && count)
		client_codec_put(out, data, count * each);
	for (uint32_t i = 0; order && i < count; i++)
		client_codec_put(out, (const char *)data + order[i] * each, each);
	pad(out, count * (uint64_t)each);
}

/* The same for segment numbers, which the caller has as uint32, in one or two bytes. */
static void put_segments(struct codec_out *out, const struct run_share *share, unsigned k, const uint32_t *segments,
			 uint32_t bytes)
{
	const uint32_t count = share->counts[k], *order = share->orders[k];
	uint8_t numbers[NARROW_BYTES];
	uint32_t used = 0;

	for (uint32_t i = 0; i < count; i++) {
		const uint32_t number = segments[order ? order[i] : i];

		numbers[used++] = (uint8_t)number;
		if (bytes == 2)
			numbers[used++] = (uint8_t)(number >> 8);
		if (used == sizeof(numbers)) {
			client_codec_put(out, numbers, used);
			used = 0;
		}
	}
	if (used)
		client_codec_put(out, numbers, used);
	pad(out, count * (uint64_t)bytes);
}

/* Writes the feeds of this operation that every reactor gets. */
static void put_same(struct codec_out *out, const struct call_op *op, unsigned kind, uint64_t rows)
{
	const struct star_program *p = op->run->program;
	const struct program *program = run_program(op);

	for (unsigned f = 0; f < p->feeds_count; f++) {
		const struct program_node *n = &program->nodes[p->feeds[f]];

		if (n->op != kind)
			continue;
		client_codec_put(out, op->run->feeds[f].data, rows * n->dim * sizeof(float));
		pad(out, rows * n->dim * sizeof(float));
	}
}

static void put_keys(struct codec_out *out, const struct call_op *op, const struct run_share *share, unsigned k,
		     bool alone)
{
	const struct star_program *p = op->run->program;
	const struct program_keys *keys = &p->shape.keys[k];
	const struct star_feed *feeds = op->run->feeds;

	if (alone || !keys->kept)
		put_aligned(out, share, k, feeds[p->feed_of[keys->node]].data, sizeof(uint64_t));
	for (unsigned i = 0; i < keys->aligned_count; i++) {
		const struct program_node *n = &run_program(op)->nodes[keys->aligned[i]];

		const void *data = feeds[p->feed_of[keys->aligned[i]]].data;
		const uint32_t bytes = program_aligned_bytes(n);

		if (!alone && n->flags & PROGRAM_KEPT)
			continue;
		if (bytes < sizeof(uint32_t))
			put_segments(out, share, k, data, bytes);
		else
			put_aligned(out, share, k, data, bytes);
	}
}

void client_run_request(const struct part *part, const struct call_op *op, const struct slice *s, struct codec_out *out)
{
	const struct program_shape *shape = &op->run->program->shape;
	const struct run_share *share = s->share;
	const bool entry = program_has_entry(shape) && !part->alone;
	const unsigned flags = op->flags | (part->applied && shape->applies ? WIRE_APPLIED : 0) |
			       (program_has_entry(shape) && part->alone ? WIRE_ALONE : 0) |
			       (entry && op->run->frees ? WIRE_LAST : 0);
	const struct wire_op head = {
		.kind = WIRE_RUN,
		.flags = flags,
		.object = object_wire_id(&op->table->spec),
		.count = share->keys,
		.dim = op->run->segments,
		.body_bytes = part->alone ? share->alone_bytes : share->request_bytes,
		.rate = op->rate,
		.scale = op->scale,
		.step = op->step,
		.version = entry ? op->run->tag : 0,
	};

	client_codec_put(out, &head, sizeof(head));
	client_codec_put(out, share->counts, shape->keys_count * sizeof(*share->counts));
	pad(out, shape->keys_count * sizeof(*share->counts));
	put_same(out, op, PROGRAM_SHARED, 1);
	put_same(out, op, PROGRAM_SEGMENT_ROWS, op->run->segments);
	for (unsigned k = 0; k < shape->keys_count; k++)
		put_keys(out, op, share, k, part->alone);
}

bool client_run_check_result(const struct call_op *op, const struct slice *s, const struct wire_result *result)
{
	return result->object == object_wire_id(&op->table->spec) && result->count == s->share->keys &&
	       result->dim == op->run->segments && result->body_bytes == s->share->reply_bytes;
}

/* Reads the records of one feed's keys. */
static void take_records(const struct call_op *op, const struct run_share *share, unsigned k, struct codec_in *in)
{
	const struct star_program *p = op->run->program;
	const uint32_t count = share->counts[k], bytes = p->shape.keys[k].record_bytes;

	for (uint32_t i = 0; bytes && i < count; i++) {
		const uint64_t at = share->orders[k] ? share->orders[k][i] : i;

		for (unsigned f = 0; f < p->fetches_count; f++) {
			const struct program_value *v = &p->shape.values[p->fetches[f]];

			if (v->axis == PROGRAM_BY_KEY && v->keys == k)
				client_codec_get(in, op->run->fetches[f] + at * v->dim, v->dim * sizeof(float));
		}
	}
	client_codec_skip(in, (size_t)(wire_program_record_bytes(&p->shape, k, count) - (uint64_t)count * bytes));
}

void client_run_scatter(const struct call_op *op, const struct slice *s, struct codec_in in)
{
	const struct program_shape *shape = &op->run->program->shape;
	struct run_share *share = s->share;

	for (unsigned k = 0; k < shape->keys_count; k++)
		take_records(op, share, k, &in);
	if (share->pools)
		client_codec_get(&in, share->pools,
				 wire_program_segment_bytes(run_program(op), shape, PROGRAM_POOL, op->run->segments));
	share->came = true;
}
