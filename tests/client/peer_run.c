/* SPDX-License-Identifier: BSD-3-Clause */
/* The double's runs of programs: look-ups, rows, pools, applications and fetches, one key after the other. */
#include <stdlib.h>
#include <string.h>

#include "tests/client/peer.h"

/* A KEYS feed of a run, and where what is aligned with it lies. */
struct keys {
	const char *ids;
	const char *aligned[PROGRAM_ALIGNED_MAX];
	uint32_t count;
};

struct run {
	struct peer_reactor *r;
	const struct program *program;
	struct program_shape shape;
	const struct wire_op *op;
	struct keys keys[PROGRAM_KEYS_MAX];
	char *to;
};

static const struct object_spec *table_of(const struct run *run, unsigned k)
{
	return &run->r->peer->objects[run->program->nodes[run->shape.keys[k].node].object - 1];
}

static struct peer_row *row_of(const struct run *run, unsigned k, uint32_t i)
{
	uint64_t key;

	memcpy(&key, run->keys[k].ids + i * sizeof(key), sizeof(key));
	return peer_row(run->r, table_of(run, k), key);
}

/* The row of a LOOKUP or of a ROWS feed. */
static void value_of(const struct run *run, unsigned node, uint32_t i, float *to)
{
	const struct program_value *v = &run->shape.values[node];
	const struct program_keys *keys = &run->shape.keys[v->keys];

	if (run->program->nodes[node].op == PROGRAM_LOOKUP)
		memcpy(to, row_of(run, v->keys, i)->values, v->dim * sizeof(float));
	for (unsigned a = 0; a < keys->aligned_count; a++)
		if (keys->aligned[a] == node)
			memcpy(to, run->keys[v->keys].aligned[a] + i * v->dim * sizeof(float), v->dim * sizeof(float));
}

static void put_padded(struct run *run, const void *from, size_t bytes)
{
	memcpy(run->to, from, bytes);
	memset(run->to + bytes, 0, program_padded(bytes) - bytes);
	run->to += program_padded(bytes);
}

static void fetch_keys(struct run *run, unsigned k)
{
	char *begun = run->to;

	for (uint32_t i = 0; i < run->keys[k].count; i++)
		for (unsigned n = 0; n < run->program->count; n++) {
			const unsigned of = run->program->nodes[n].a;

			if (run->program->nodes[n].op != PROGRAM_FETCH ||
			    run->shape.values[of].axis != PROGRAM_BY_KEY || run->shape.values[of].keys != k)
				continue;
			value_of(run, of, i, (float *)run->to);
			run->to += run->shape.values[of].dim * sizeof(float);
		}
	memset(run->to, 0, program_padded((size_t)(run->to - begun)) - (size_t)(run->to - begun));
	run->to = begun + program_padded((size_t)(run->to - begun));
}

static void fetch_pool(struct run *run, const struct program_node *n)
{
	const struct program_value *v = &run->shape.values[n->a];
	const struct program_keys *keys = &run->shape.keys[v->keys];
	float *sums = calloc(run->op->dim * v->dim, sizeof(*sums)), row[WIRE_DIM_MAX];
	unsigned a = 0;

	while (keys->aligned[a] != n->b)
		a++;
	for (uint32_t i = 0; i < run->keys[v->keys].count; i++) {
		const uint32_t bytes = program_segment_bytes(run->program->nodes[n->b].op);
		uint32_t segment = 0; /* little endian */

		memcpy(&segment, run->keys[v->keys].aligned[a] + i * bytes, bytes);
		value_of(run, n->a, i, row);
		for (uint32_t d = 0; d < v->dim; d++)
			sums[segment * v->dim + d] += row[d];
	}
	put_padded(run, sums, run->op->dim * v->dim * sizeof(*sums));
	free(sums);
}

/* As a push: `applied` counts keys. */
static void apply(struct run *run, unsigned k)
{
	const unsigned node = run->program->nodes[run->shape.keys[k].apply].b;
	uint32_t *before = calloc(run->keys[k].count, sizeof(*before));
	float gradient[WIRE_DIM_MAX];

	for (uint32_t i = 0; i < run->keys[k].count; i++) {
		struct peer_row *row = row_of(run, k, i);

		before[i] = row->applied;
		value_of(run, node, i, gradient);
		for (uint32_t d = 0; d < run->shape.values[node].dim; d++)
			row->values[d] -= gradient[d];
	}
	for (uint32_t i = 0; i < run->keys[k].count; i++)
		row_of(run, k, i)->applied = before[i] + 1;
	free(before);
}

/* Finds the feeds; false: they are not as long as they must be, or not for this reactor. */
static bool read_feeds(struct run *run, const char *body, uint32_t left)
{
	const char *at = body;
	uint32_t counts[PROGRAM_KEYS_MAX], sum = 0;

	if (left < run->shape.keys_count * sizeof(*counts))
		return false;
	memcpy(counts, body, run->shape.keys_count * sizeof(*counts));
	for (unsigned k = 0; k < run->shape.keys_count; k++)
		sum += counts[k];
	if (sum != run->op->count || run->op->body_bytes > left ||
	    wire_program_request_bytes(run->program, &run->shape, counts, run->op->dim, run->op->flags & WIRE_ALONE) !=
		    run->op->body_bytes)
		return false;
	at += wire_program_head_bytes(run->program, &run->shape, run->op->dim);
	for (unsigned k = 0; k < run->shape.keys_count; k++) {
		const struct program_keys *keys = &run->shape.keys[k];

		run->keys[k] = (struct keys){ .ids = at, .count = counts[k] };
		at += counts[k] * sizeof(uint64_t);
		for (unsigned a = 0; a < keys->aligned_count; a++) {
			run->keys[k].aligned[a] = at;
			at += program_padded((uint64_t)counts[k] *
					     program_aligned_bytes(&run->program->nodes[keys->aligned[a]]));
		}
		for (uint32_t i = 0; i < counts[k]; i++) {
			uint64_t key;

			memcpy(&key, run->keys[k].ids + i * sizeof(key), sizeof(key));
			if (peer_owner(run->r->peer, table_of(run, k), key) != run->r->index)
				return false;
		}
	}
	return true;
}

/* This peer keeps nothing: it can tell so, and what was kept is gone. */
enum wire_status peer_run_keeps(const struct peer_reactor *r, const struct wire_op *op)
{
	const struct peer *p = r->peer;
	struct program_shape shape;
	unsigned node;

	if (op->flags & WIRE_ALONE || op->object < 1 || op->object > p->objects_count ||
	    wire_program_check(&p->objects[op->object - 1].program, &shape, &node) || !program_has_entry(&shape))
		return WIRE_OK;
	return !shape.begins ? WIRE_GONE : p->full ? WIRE_NOT_KEPT : WIRE_OK;
}

int64_t peer_run(struct peer_reactor *r, const struct wire_op *op, const char *body, uint32_t left, char *to)
{
	struct peer *p = r->peer;
	struct run run = { .r = r, .op = op, .to = to };
	unsigned node;

	if (op->object < 1 || op->object > p->objects_count || p->objects[op->object - 1].kind != OBJECT_PROGRAM)
		return -1;
	run.program = &p->objects[op->object - 1].program;
	if (wire_program_check(run.program, &run.shape, &node) || op->flags & ~(WIRE_APPLIED | WIRE_ALONE) ||
	    op->dtype || op->result_dtype || op->reserved)
		return -1;
	if ((program_has_entry(&run.shape) && !(op->flags & WIRE_ALONE)) != (op->version != 0) ||
	    (!program_has_entry(&run.shape) && op->flags & WIRE_ALONE))
		return -1;
	if (!read_feeds(&run, body, left))
		return -1;
	for (unsigned k = 0; k < run.shape.keys_count; k++)
		fetch_keys(&run, k);
	for (unsigned n = 0; n < run.program->count; n++)
		if (run.program->nodes[n].op == PROGRAM_POOL)
			fetch_pool(&run, &run.program->nodes[n]);
	for (unsigned k = 0; k < run.shape.keys_count; k++)
		if (run.shape.keys[k].apply != PROGRAM_NONE && !(op->flags & WIRE_APPLIED))
			apply(&run, k);
	return run.to - to;
}
