/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of a push share: push.c collects keys, apply.c applies gradients. One thread, the store's. */
#ifndef STORE_PUSH_INTERNAL_H
#define STORE_PUSH_INTERNAL_H

#include "store/push.h"
#include "store/table.h"

#define PUSH_NO_SUM UINT32_MAX
enum { PUSH_SUM_ALIGN = 8, PUSH_LAST = 0 };

/* One key of the request. */
struct push_entry {
	store_row row;	/* STORE_UNADMITTED: its gradient is dropped */
	uint32_t first; /* the first entry of the same row in this operation; possibly this one */
	/* In a first entry: gradients still to come for the row; 1: the next one is to be applied. In another:
	 * PUSH_LAST if store_push_look has found it to be the row's last one. */
	uint32_t left;
	/* In a first entry: */
	/* offset of the row's sum in `sums`, in units of PUSH_SUM_ALIGN; PUSH_NO_SUM: the row has one gradient */
	uint32_t sum;
};

struct push_op {
	struct store_table *table;
	uint32_t first; /* entry */
	uint32_t end;	/* of the entries that it may have, exclusive */
	uint32_t keys;	/* entries that it has */
	uint32_t looked, taken, finished;
	bool open;   /* it is open in the table: its rows are held */
	bool summed; /* store_push_look has added up the gradients of one row */
	bool begun;  /* `step` is set */
	bool assign; /* it assigns: gradients are values */
	bool sums;   /* a row has several gradients */
	bool large;  /* a gradient was found that is so large that sums may overflow */
	bool more;   /* of store_push_step */
	/* keys so far are in strictly ascending order: all are different, and no entry needs a cell */
	bool ordered;
	uint64_t last; /* the last of these keys */
	struct optim_step step;
	double squares;	 /* of its gradients */
	double norms[2]; /* of the variable, for LAMB */
};

/*
 * Entries of the same row are found through a hash table with open addressing. Its cells hold positions: the number of
 * keys that all requests had before this one. Positions only grow, so those of earlier operations are recognized
 * because they are smaller than the first of this one, and cells are cleared only once in some four billion keys. An
 * operation uses as many cells as it needs for a load of at most one quarter, so those of a small one stay in the
 * cache. One whose keys are in ascending order needs none.
 */
struct store_push {
	uint32_t max_keys;
	uint64_t sums_bytes;
	struct push_entry *entries; /* max_keys */
	uint32_t *cells;	    /* a power of two, at least 4 max_keys */
	uint32_t cells_count;
	uint8_t *sums; /* sums_bytes */
	uint64_t salt; /* random, so that nobody can choose ids that collide */

	uint32_t origin; /* the position of entry 0; from 1 */
	uint32_t keys;	 /* entries in use */
	uint64_t sums_used;
	uint32_t op_mask; /* number of cells used by the operation whose keys are being added, minus one */

	uint32_t ops_count, look, run; /* number of operations; the one being checked; the one being applied */
	struct push_op ops[WIRE_OPS_MAX];
};

/* apply.c: the optimizer's parameters for each row of a push whose gradients have this sum of squares. */
struct optim_step store_push_apply_step(struct store_table *t, const struct store_push_step *step, double squares);

/* apply.c: applies n gradients, in the type in which the table's values are computed, to n different rows.
 * STORE_UNADMITTED and STORE_NO_ROW are left out, and so are gradients that are not finite, if the table refuses them.
 * counts: what each gradient is divided by, or NULL. */
void store_push_apply(struct store_table *t, const struct optim_step *step, const store_row *rows,
		      const void *const *gradients, const uint32_t *counts, unsigned n);

/* push.c: the operation is finished, or given up. */
void store_push_close(struct push_op *op);

static inline void *push_sum(const struct store_push *p, const struct push_entry *first)
{
	return p->sums + (uint64_t)first->sum * PUSH_SUM_ALIGN;
}

#endif
