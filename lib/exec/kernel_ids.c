/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: distinct ones, and crosses of columns. */
#include "exec/kernel_internal.h"

#include <string.h>

#include "base/hash.h"

/* A power of two, at least twice the ids: probes stay short. */
static uint64_t slots_for(uint64_t ids)
{
	uint64_t slots = 16;

	while (slots < 2 * ids)
		slots *= 2;
	return slots;
}

uint64_t kernel_scratch_unique(const struct graph_node *node, const struct graph_type *const *in,
			       const struct graph_type *const *out)
{
	return slots_for((uint64_t)in[0]->shape.dims[0]) * sizeof(uint64_t);
}

/* In the order of their first occurrence. A slot has 1 + the index of an id among the distinct ones, or 0. */
int kernel_unique(const struct kernel_call *call)
{
	const size_t n = kernel_count(call->in[0]);
	const uint64_t mask = slots_for(n) - 1;
	const int64_t *ids = call->in[0]->data;
	int64_t *seen = call->out[0]->data, *where = call->out[1]->data;
	uint64_t *slots = call->scratch, count = 0;

	memset(slots, 0, (mask + 1) * sizeof(*slots));
	for (size_t i = 0; i < n; i++) {
		uint64_t at = hash_mix((uint64_t)ids[i]) & mask;

		while (slots[at] && seen[slots[at] - 1] != ids[i])
			at = (at + 1) & mask;
		if (!slots[at]) {
			seen[count] = ids[i];
			slots[at] = ++count;
		}
		where[i] = (int64_t)slots[at] - 1;
	}
	call->out[0]->type.shape.dims[0] = (int64_t)count;
	return 0;
}

struct cross_work {
	const struct kernel_call *call;
	uint64_t buckets, salt;
	size_t n;
};

enum { GRAIN = 4096 };

static void cross_part(void *context, uint64_t part)
{
	const struct cross_work *w = context;
	const size_t from = part * GRAIN, to = w->n - from < GRAIN ? w->n : from + GRAIN;
	int64_t *out = w->call->out[0]->data;

	for (size_t i = from; i < to; i++) {
		uint64_t hash = w->salt;

		for (uint32_t k = 0; k < w->call->node->inputs_count; k++)
			hash = hash_key(hash, ((const uint64_t *)w->call->in[k]->data)[i]);
		out[i] = (int64_t)(hash % w->buckets);
	}
}

int kernel_hash_cross(const struct kernel_call *call)
{
	struct cross_work w = {
		.call = call,
		.buckets = (uint64_t)graph_attr_int(call->node, "buckets", 1),
		.salt = hash_mix((uint64_t)graph_attr_int(call->node, "salt", 0)),
		.n = kernel_count(call->out[0]),
	};

	exec_team_run(call->team, kernel_parts(w.n, GRAIN), cross_part, &w);
	return 0;
}
