/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of a push share: push.c gathers keys, apply.c takes gradients. */
#ifndef STORE_PUSH_INTERNAL_H
#define STORE_PUSH_INTERNAL_H

#include "store/push.h"
#include "store/table.h"

#define PUSH_NO_SUM UINT32_MAX
enum { PUSH_SUM_ALIGN = 8, PUSH_LAST = 0 };

/* One key of the request. */
struct push_entry {
	store_row row;	/* STORE_UNADMITTED: its gradient is dropped */
	uint32_t first; /* the entry of the same row that came first in this operation; perhaps this one */
	/* Of a first entry: gradients to come for the row; 1 when the next step is to apply. Of another: PUSH_LAST, if
	 * a look has found it to be the row's last one. */
	uint32_t left;
	/* Of a first entry: */
	uint32_t sum; /* where in sums they are added up, in units of PUSH_SUM_ALIGN; PUSH_NO_SUM: there is one only */
};

struct push_op {
	struct store_table *table;
	uint32_t first; /* entry */
	uint32_t end;	/* of the entries that it may have */
	uint32_t keys;	/* entries that it has */
	uint32_t looked, taken, finished;
	bool open;   /* the table knows of it: its rows are kept */
	bool summed; /* store_push_look has added up the gradients of one row */
	bool begun;  /* step is there */
	bool assign; /* what comes in is values */
	bool sums;   /* a row has several gradients */
	bool large;  /* a gradient was looked at that is not moderate: sums may overflow */
	bool more;   /* of store_push_step */
	/* each key so far was above the one before it: no two are the same, and no entry has a cell yet */
	bool ordered;
	uint64_t last; /* of them */
	struct optim_step step;
	double squares;	 /* of its gradients */
	double norms[2]; /* LAMB's, of the variable */
};

/*
 * Entries of one row are found through a hash table of open addressing, whose cells hold positions: the number of keys
 * that all requests so far had before this one. Positions only grow, so those of earlier operations are known by being
 * smaller than the first of this one, and nothing is cleared but once in some four billion keys. An operation uses as
 * many cells as it needs for a load of at most one quarter: those of a small one stay in the cache. One whose keys come
 * in order needs none.
 */
struct store_push {
	uint32_t max_keys;
	uint64_t sums_bytes;
	struct push_entry *entries; /* max_keys */
	uint32_t *cells;	    /* a power of two, at least 4 max_keys */
	uint32_t cells_count;
	uint8_t *sums; /* sums_bytes */
	uint64_t salt; /* so that nobody can choose ids whose rows collide */

	uint32_t origin; /* the position of entry 0; from 1 */
	uint32_t keys;	 /* entries in use */
	uint64_t sums_used;
	uint32_t op_mask; /* cells that the operation whose keys come in uses, less one */

	uint32_t ops_count, look, run; /* the operations there are, and those whose gradients come in */
	struct push_op ops[WIRE_OPS_MAX];
};

/* apply.c: what a push of gradients with this sum of squares brings to each of its rows. */
struct optim_step store_push_apply_step(struct store_table *t, const struct store_push_step *step, double squares);

/* apply.c: n gradients, in the type that the table is worked on in, each of a row of its own; STORE_UNADMITTED and
 * STORE_NO_ROW are left out, and so are those that are not finite, if the table refuses them. counts, or NULL: what
 * each of them is divided by. */
void store_push_apply(struct store_table *t, const struct optim_step *step, const store_row *rows,
		      const void *const *gradients, const uint32_t *counts, unsigned n);

/* push.c: the operation is over, or given up. */
void store_push_close(struct push_op *op);

static inline void *push_sum(const struct store_push *p, const struct push_entry *first)
{
	return p->sums + (uint64_t)first->sum * PUSH_SUM_ALIGN;
}

#endif
