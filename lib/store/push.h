/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The push operations of one request, executed in slices: rows are found or made first (so that a push which does not fit
 * is refused before it changed a value), then gradients are applied in the order in which they lie in the request; the
 * gradients of one id are summed in that order and applied once. Works in memory set aside for it once, so a slice
 * allocates nothing. One thread.
 *
 *   store_push_create (once) ... store_push_begin; for each operation store_push_op and store_push_keys until all its
 *   keys are in; then, operation by operation in the same order, store_push_rows until all rows are in.
 *
 * begin may be called again at any time: an abandoned push has changed no value before the first store_push_rows (rows
 * that it made stay, with the initial values that they would have been read with anyway). Ids are summed within one
 * operation only: two operations on one table are two pushes, applied one after the other.
 */
#ifndef STORE_PUSH_H
#define STORE_PUSH_H

#include <stdint.h>

#include "store/store.h"

struct store_push;

/* For requests of up to max_keys keys whose gradients take up to max_bytes together. One allocation, on the control
 * path. NULL with err. */
struct store_push *store_push_create(uint32_t max_keys, uint32_t max_bytes, struct star_error *err);
void store_push_destroy(struct store_push *p);

/* Begins a request, whatever became of the one before. */
void store_push_begin(struct store_push *p);

/* Begins the next operation, of `count` keys on `table`. */
void store_push_op(struct store_push *p, struct store_table *table, uint32_t count);

/*
 * Adds the next n <= STORE_BATCH keys of the operation. 0; -ENOSPC when rows could not be made; -EOVERFLOW when these are
 * more keys than the operation has, or more keys or gradients than store_push_create was told. After an error the request
 * must be dropped as a whole. Without a store_push_op for this table an operation begins that may have all keys there is
 * room for.
 */
int store_push_keys(struct store_push *p, struct store_table *table, const uint64_t *keys, unsigned n);

/*
 * Takes the next n <= STORE_BATCH gradient rows, all of one operation on `table`, in the order in which their keys were
 * added; gradients[i] points at dim floats, 4-byte aligned. rate 0: the table's own.
 */
void store_push_rows(struct store_push *p, struct store_table *table, const float *const *gradients, unsigned n,
		     float rate);

#endif
