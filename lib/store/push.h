/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One push operation, executed in slices: rows are found or made first (so that a push which does not fit is refused
 * before it changed a value), then gradients are applied in the order in which they lie in the request; the gradients of
 * one id are summed in that order and applied once. Works in memory set aside for it once, so a slice allocates nothing.
 * One thread.
 *
 *   store_push_init (once) ... store_push_begin, store_push_keys until all keys are in, store_push_rows until all rows
 *   are in. begin may be called again at any time: an abandoned push has changed no value before the first
 *   store_push_rows.
 */
#ifndef STORE_PUSH_H
#define STORE_PUSH_H

#include <stdint.h>

#include "store/store.h"

struct store_push;

/* For pushes of up to max_keys keys whose gradients take up to max_bytes together. One allocation, on the control path. */
struct store_push *store_push_create(uint32_t max_keys, uint32_t max_bytes, struct star_error *err);
void store_push_destroy(struct store_push *p);

/* Keys of several operations of one request may be added one after the other: begin is called once a request. */
void store_push_begin(struct store_push *p);

/*
 * Adds the next n <= STORE_BATCH keys of the operation on `table`. 0, or -ENOSPC when rows could not be made (the request
 * must then be dropped as a whole). dim floats a gradient.
 */
int store_push_keys(struct store_push *p, struct store_table *table, const uint64_t *keys, unsigned n);

/*
 * Takes the next n <= STORE_BATCH gradient rows, in the order in which their keys were added; gradients[i] points at dim
 * floats, 4-byte aligned.
 */
void store_push_rows(struct store_push *p, struct store_table *table, const float *const *gradients, unsigned n,
		     float rate);

#endif
