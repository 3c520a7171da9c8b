/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deduplicates the ids of a batch. The row of an id that occurs several times is pulled once and copied in the worker;
 * its gradients are summed in the worker, in the order of the batch and in float32, as a PS task would do
 * (store/push.h), so that every bit is the same. It is computed once per step, for all look-ups and updates with the
 * same tensor of ids.
 *
 * Threads: a list is used by one at a time. An entry belongs to a run, and must not change from a call's start to its
 * end.
 */
#ifndef TRAIN_DEDUP_H
#define TRAIN_DEDUP_H

#include <stdbool.h>

#include "graph/graph.h"

/* The result for a tensor of ids in a run. */
struct dedup {
	struct dedup *next;
	struct graph_value value;
	uint32_t run, most; /* the largest possible number of ids */
	uint32_t n, count;  /* number of ids, and of distinct ids, which are the first ones in keys */
	uint64_t *ids, *keys;
	uint32_t *inverse; /* for each id its index in keys, which is never above its own index */
	uint32_t *slots, mask;
	uint32_t skip; /* for how many steps it is not tried again */
};

/* The list's entry for a value in a run, which is created if necessary. NULL: no memory. */
struct dedup *train_dedup_get(struct dedup **list, struct graph_value value, uint32_t run, uint32_t most);
void train_dedup_free(struct dedup *list);

/* Whether few enough of n ids are distinct to make it worthwhile. Then keys, inverse and count are set. */
bool train_dedup_find(struct dedup *dedup, const uint64_t *ids, uint32_t n);

/* Expands `count` rows to n, in place. */
void train_dedup_expand(const struct dedup *dedup, void *rows, size_t row_bytes);
/* Adds n rows of float32 up to `count` sums. */
void train_dedup_sum(const struct dedup *dedup, const float *rows, size_t dim, float *sums);

#endif
