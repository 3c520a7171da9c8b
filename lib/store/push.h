/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes the push (and assign) operations of one request in slices. First rows are found or created, so that a push
 * for which there is no room is refused before it has changed a value. Then gradients are applied in the order of the
 * request. Gradients of the same id are summed in that order, in float32 (float64 for rows of float64), and applied
 * once. All memory is allocated beforehand. One thread, the store's.
 *
 *   store_push_create (once) ... store_push_begin; for each operation store_push_op and store_push_keys until all its
 *   keys are in; then for each whose table needs it store_push_look until all its gradients were seen, and again if
 *   store_push_look_again says so; then, operation by operation in the same order, store_push_step, store_push_rows
 *   until all rows are in, store_push_finish until true.
 *
 * From store_push_op to the end of the operation its rows are held: they are not evicted to make room, and the memory
 * of one that is deleted or swept is not reused. store_push_begin gives up what was under way. So call it also when a
 * request is dropped half-way; otherwise its rows stay held. A push that is given up before the first store_push_rows
 * has changed no value. (Rows that it created stay, with the initial values that a pull would have returned anyway.)
 * Gradients are summed within one operation only: two operations on one table are two pushes, applied one after the
 * other.
 */
#ifndef STORE_PUSH_H
#define STORE_PUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct store_push;

/* For requests of up to max_keys keys in WIRE_OPS_MAX operations, whose gradients have up to max_bytes in the request.
 * One allocation, on the control path. NULL with err. */
struct store_push *store_push_create(uint32_t max_keys, uint32_t max_bytes, struct star_error *err);
void store_push_destroy(struct store_push *p);

/* Begins a request. If the previous one has not ended, it is given up. */
void store_push_begin(struct store_push *p);

/* Begins the next operation, of `count` keys on `table`. */
void store_push_op(struct store_push *p, struct store_table *table, uint32_t count);

/* The same for an operation that assigns: its "gradients" are values, which are stored in rows in their order, without
 * the table's optimizer. Slots do not change. It counts as a push. */
void store_push_assign(struct store_push *p, struct store_table *table, uint32_t count);

/*
 * Adds the next n <= STORE_BATCH keys of the operation. 0; -ENOSPC: rows could not be created; -EOVERFLOW: more keys or
 * operations than allowed, or their sums would take more memory than max_bytes of gradients can; -EOPNOTSUPP: a push to
 * a table without an optimizer. After an error the whole request must be dropped. Without a store_push_op for this
 * table an operation begins that may have all keys for which there is room. step: as for store_find.
 */
int store_push_keys(struct store_push *p, struct store_table *table, const uint64_t *keys, unsigned n, uint64_t step);

/*
 * Checks the gradients of a request before its first row is changed, n rows of an operation at a time, in the order of
 * keys. -EDOM: the table refuses non-finite gradients and there is one; -ERANGE: gradients of one id have a sum that is
 * not finite; then the request must be dropped. It also adds up squares for clipping by the norm of a whole variable's
 * gradient. Operations on tables that do not need it may be left out.
 *
 * It may also be called after each store_push_keys, for the keys so far. After all gradients of the operation,
 * store_push_look_again says whether those of the same id have to be summed, for their norm or because a sum may be
 * infinite: then all the operation's gradients must be passed once more, from the first.
 */
bool store_push_look_again(struct store_push *p);
int store_push_look(struct store_push *p, struct store_table *table, const void *const *gradients, unsigned dtype,
		    unsigned n);

bool store_push_needs_look(const struct store_table *table);

/* Parameters of one operation's rows, passed once before its first row. */
struct store_push_step {
	bool has_rate;	  /* else the table's rate; the store applies schedule and staleness */
	bool has_scale;	  /* else gradients are used unscaled */
	bool has_version; /* else it is unknown to which pull the gradients belong */
	bool more;	  /* WIRE_MORE: a part of a push, but not its last one */
	bool by_row;	  /* for sums (store/sums.h): each row's sum is divided by the number of pushes to it */
	float rate, scale;
	uint64_t step;
	uint64_t version; /* wire_result.version of the last pull */
};
void store_push_step(struct store_push *p, struct store_table *table, const struct store_push_step *step);

/*
 * Applies the next n <= STORE_BATCH gradient rows of type dtype, all of one operation on `table`, in the order in which
 * their keys were added. gradients[i] points to a row, aligned for its type.
 */
void store_push_rows(struct store_push *p, struct store_table *table, const void *const *gradients, unsigned dtype,
		     unsigned n);

/* After an operation's last row: does at most `budget` rows of what needs all of them (LAMB's second pass over the
 * variable). true: the operation is finished, and counts as one push, unless it is a part of a push and not the last
 * one. */
bool store_push_finish(struct store_push *p, struct store_table *table, unsigned budget);

/*
 * A whole push at once, for n <= STORE_FEW keys and their gradients in float32, contiguous and aligned. It has the
 * effect of all the calls above. -ENOSPC: a row could not be created. -EAGAIN: not possible here (a key occurs twice, a
 * gradient is not finite): nothing has changed, except that rows may have been created; use the calls above. Only for
 * tables for which store_pushes_few is true: float32, without policies, versions and anything that needs all rows of a
 * push.
 */
enum { STORE_FEW = 8 };
bool store_pushes_few(const struct store_table *table);
int store_push_few(struct store_table *table, const uint64_t *keys, const float *gradients, unsigned n,
		   const struct store_push_step *step);

#endif
