/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ids of a batch, each once: the rows of a popular id travel once, and are handed out here; its gradients are summed
 * here, in the order of their places and in float32, as a PS task would (store/push.h), so that nothing changes by a
 * bit. Looked for once a step, for a tensor's look-ups and updates.
 *
 * Threads: a list has one at a time; an entry is a run's, and stays as it is from a call's start to its end.
 */
#ifndef TRAIN_DEDUP_H
#define TRAIN_DEDUP_H

#include <stdbool.h>

#include "graph/graph.h"

/* Of a tensor of ids, in a run. */
struct dedup {
	struct dedup *next;
	struct graph_value value;
	uint32_t run, most; /* ids that there can be */
	uint32_t n, count;  /* ids as they are, and those that differ, as they come first in keys */
	uint64_t *ids, *keys;
	uint32_t *inverse; /* of each id: its place in keys, never beyond its own place */
	uint32_t *slots, mask;
	uint32_t skip; /* steps for which it is not tried again */
};

/* The list's entry of a value in a run, which is made if need be; NULL: no memory. */
struct dedup *train_dedup_get(struct dedup **list, struct graph_value value, uint32_t run, uint32_t most);
void train_dedup_free(struct dedup *list);

/* Whether so few of n ids differ that it is worth it; keys, where and count are set then. */
bool train_dedup_find(struct dedup *dedup, const uint64_t *ids, uint32_t n);

/* count rows to n, in place. */
void train_dedup_expand(const struct dedup *dedup, void *rows, size_t row_bytes);
/* n rows of float32 to sums, count of them. */
void train_dedup_sum(const struct dedup *dedup, const float *rows, size_t dim, float *sums);

#endif
