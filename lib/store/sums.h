/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of an object's gradients, row by row, that are applied later as one gradient, in float32 (float64 for rows of
 * float64). The sums are rows of another table, in a store beside the object's (store_create_beside). That table's
 * optimizer is plain gradient descent with rate 1 from zeros, so pushes to it add up, if their scale is negated.
 * Clipping, versions and the like happen only when sums are applied to the object's table. The object's rows must be
 * created beforehand, because filling an index in the order of another one would take unbounded time. One thread, the
 * store's.
 */
#ifndef STORE_SUMS_H
#define STORE_SUMS_H

#include <stdbool.h>

#include "store/push.h"
#include "store/store.h"

/* Whether gradients of such an object can be summed by row and applied a few rows at a time. Not if the optimizer or
 * clipping needs all of them (LAMB, clip_global_norm), and not without an optimizer. */
bool store_sums_possible(const struct object_spec *spec);

/* Creates a table for the sums of an object's gradients. share: as for the object's table. NULL with err. */
struct store_table *store_sums_create(struct store *beside, const struct store_table *of, double share,
				      struct star_error *err);

/*
 * Whether the number of pushes to each row is counted; a push counts once, however often it names the row. The count is
 * stored in the row of the sum. It can be changed only while there are no rows. By default nothing is counted, which is
 * faster.
 */
void store_sums_set_by_row(struct store_table *sums, bool by_row);
bool store_sums_by_row(const struct store_table *sums);

/* Begins to apply the sums to the object's table; NULL: to drop them. */
void store_sums_begin(struct store_table *sums, struct store_table *of);

/*
 * Removes up to n <= STORE_BATCH rows, and applies each to its row of the object; step NULL: drops them, if that was
 * begun. step->by_row: each sum is divided by its count. *taken: how many rows were removed; fewer than n do not mean
 * the end. false: all are removed, and, if they were applied, that was counted as a push. Rows that are added meanwhile
 * may stay. If a snapshot may be under way, ask for room for copies of n rows of the object before.
 */
bool store_sums_take(struct store_table *sums, struct store_table *of, const struct store_push_step *step, unsigned n,
		     unsigned *taken);

#endif
