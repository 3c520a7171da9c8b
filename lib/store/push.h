/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The push (and assign) operations of one request, executed in slices: rows are found or made first (so that a push
 * which does not fit is refused before it changed a value), then gradients are applied in the order in which they lie
 * in the request; the gradients of one id are summed in that order, in float32 (float64 for rows of float64), and
 * applied once. Works in memory set aside for it once, so a slice allocates nothing. One thread.
 *
 *   store_push_create (once) ... store_push_begin; for each operation store_push_op and store_push_keys until all its
 *   keys are in; then for each whose table needs it store_push_look until all its gradients were seen, and again if
 *   store_push_look_again says so; then, operation by operation in the same order, store_push_step, store_push_rows
 *   until all rows are in, store_push_finish until true.
 *
 * From store_push_op to the end of the operation its rows are held: none makes room for another row, and the memory of
 * one that is deleted or swept away is not used again. begin gives up what was under way, so it is also to be called
 * when a request is dropped half-way, else its rows stay held. A push that is given up before the first store_push_rows
 * has changed no value (rows that it made stay, with the initial values that they would have been read with anyway).
 * Ids are summed within one operation only: two operations on one table are two pushes, applied one after the other.
 */
#ifndef STORE_PUSH_H
#define STORE_PUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct store_push;

/* For requests of up to max_keys keys in WIRE_OPS_MAX operations, whose gradients take up to max_bytes together, as
 * they come. One allocation, on the control path. NULL with err. */
struct store_push *store_push_create(uint32_t max_keys, uint32_t max_bytes, struct star_error *err);
void store_push_destroy(struct store_push *p);

/* Begins a request, whatever became of the one before. */
void store_push_begin(struct store_push *p);

/* Begins the next operation, of `count` keys on `table`. */
void store_push_op(struct store_push *p, struct store_table *table, uint32_t count);

/* The same for an operation that assigns: its gradients are values, which the rows get in their order, whatever
 * optimizer the table has, or none. Slots stay as they are. Counts as a push. */
void store_push_assign(struct store_push *p, struct store_table *table, uint32_t count);

/*
 * Adds the next n <= STORE_BATCH keys of the operation. 0; -ENOSPC when rows could not be made; -EOVERFLOW when these
 * are more keys or operations than there may be, or their sums would take more memory than max_bytes of gradients can;
 * -EOPNOTSUPP for a push to a table without an optimizer. After an error the request must be dropped as a whole.
 * Without a store_push_op for this table an operation begins that may have all keys there is room for. step: as for
 * store_find.
 */
int store_push_keys(struct store_push *p, struct store_table *table, const uint64_t *keys, unsigned n, uint64_t step);

/*
 * Before the first row of a request: looks at its gradients, n rows of an operation at a time, in the keys' order.
 * -EDOM when the table refuses non-finite ones and there is one, -ERANGE when those of one id add up to one: the
 * request must be dropped. Adds the squares for a clip by the norm of a whole variable's gradient. Operations of a
 * table that needs no look may be left out.
 *
 * It may also be called after each store_push_keys, for the keys so far. When all gradients of the operation were
 * looked at, store_push_look_again says whether those of one id have yet to be summed, for their norm or because a sum
 * may be infinite: then all the operation's gradients are to be looked at once more, from the first.
 */
bool store_push_look_again(struct store_push *p);
int store_push_look(struct store_push *p, struct store_table *table, const void *const *gradients, unsigned dtype,
		    unsigned n);

bool store_push_needs_look(const struct store_table *table);

/* What the rows of one operation have in common: given once, before its first row. */
struct store_push_step {
	bool has_rate;	  /* else it is the table's own; schedule and staleness are the store's work */
	bool has_scale;	  /* else gradients are as they come */
	bool has_version; /* else it is unknown from which pull the gradients come */
	bool more;	  /* WIRE_MORE: a part of a push, and not the last one */
	bool by_row;	  /* of sums (store/sums.h): each row's is divided by the number of pushes to it */
	float rate, scale;
	uint64_t step;
	uint64_t version; /* wire_result.version of the last pull */
};
void store_push_step(struct store_push *p, struct store_table *table, const struct store_push_step *step);

/*
 * Takes the next n <= STORE_BATCH gradient rows of dtype, all of one operation on `table`, in the order in which their
 * keys were added; gradients[i] points at a row, aligned as its type wants it.
 */
void store_push_rows(struct store_push *p, struct store_table *table, const void *const *gradients, unsigned dtype,
		     unsigned n);

/* After an operation's last row: what needs all of them (LAMB's second pass over the variable), at most `budget` rows
 * of it. True when the operation is finished, and counts as one push, if it is not a part of one before the last. */
bool store_push_finish(struct store_push *p, struct store_table *table, unsigned budget);

/*
 * A whole push at once, for n <= STORE_FEW keys and their gradients in float32, one after the other and aligned: what
 * all the calls above would do. -ENOSPC: a row could not be made. -EAGAIN: it is not so simple (a key stands there
 * twice, a gradient is not finite): nothing has changed but that rows may have been made; take the calls above. Not for
 * tables but those of which store_pushes_few is true: float32 without policies, versions and anything that needs all
 * rows of a push.
 */
enum { STORE_FEW = 8 };
bool store_pushes_few(const struct store_table *table);
int store_push_few(struct store_table *table, const uint64_t *keys, const float *gradients, unsigned n,
		   const struct store_push_step *step);

#endif
