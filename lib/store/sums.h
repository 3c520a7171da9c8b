/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of gradients that are applied together later, as one: of an object's gradients, by row, in float32 (float64 for
 * rows of float64). They are rows of a table of their own, in a store beside the object's (store_create_beside): pushes
 * to it, whose scale is the negative of what it is to be, add up (its optimizer is plain gradient descent with rate 1,
 * from zeros). Nothing that the object's table has for its rows, such as clips and versions, takes place before they
 * are applied. The object's rows are to be made beforehand: an index cannot be filled within bounds in the order of
 * another one. One thread, the store's.
 */
#ifndef STORE_SUMS_H
#define STORE_SUMS_H

#include <stdbool.h>

#include "store/push.h"
#include "store/store.h"

/* Whether gradients of such an object can be summed by row and applied a few at a time: not those of which the
 * optimizer or a clip needs all (LAMB, clip_global_norm), nor of objects without an optimizer. */
bool store_sums_possible(const struct object_spec *spec);

/* A table for the sums of an object's gradients; share: as of its table. NULL with err. */
struct store_table *store_sums_create(struct store *beside, const struct store_table *of, double share,
				      struct star_error *err);

/*
 * Whether it is counted for each row how many pushes have added to it: each once, however often it names the row. The
 * count is a word of the row, so it goes where the sum goes. It may change where there are no rows; at first they are
 * not counted, which is faster.
 */
void store_sums_set_by_row(struct store_table *sums, bool by_row);
bool store_sums_by_row(const struct store_table *sums);

/* Begins to empty it into the object's table; NULL: they will be thrown away. */
void store_sums_begin(struct store_table *sums, struct store_table *of);

/*
 * Takes up to n <= STORE_BATCH rows out, and applies each once to its row of the object; step NULL: throws them away,
 * as store_sums_begin was told. step->by_row: of sums that count, each row's is divided by its count. *taken: how many
 * there were; fewer than n do not mean the end. False: all are out, and a step was counted as a push. Rows that come
 * meanwhile may stay. What needs room for copies in a snapshot must have asked for it: for n rows of the object.
 */
bool store_sums_take(struct store_table *sums, struct store_table *of, const struct store_push_step *step, unsigned n,
		     unsigned *taken);

#endif
