/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/push.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/table.h"

enum { KEYS_MAX = 1 << 30, ALIGN = 64 };

/* One key of the request. */
struct push_entry {
	store_row row;
	uint32_t first; /* the entry of the same row that came first in this operation; perhaps this one */
	/* Of a first entry: */
	uint32_t left; /* gradients to come for the row; 1 when the next step is to apply */
	uint32_t sum;  /* where in sums they are added up, if there are several */
};

/*
 * Entries of one row are found through a hash table of open addressing, whose cells hold positions: the number of keys
 * that all requests so far had before this one. Positions only grow, so those of earlier operations are known by being
 * smaller than the first of this one, and nothing is ever cleared. An operation uses as many cells as it needs for a load of
 * at most one half: those of a small one stay in the cache.
 */
struct store_push {
	uint32_t max_keys;
	uint32_t max_bytes;
	struct push_entry *entries; /* max_keys */
	uint64_t *cells;	    /* a power of two, at least 2 max_keys */
	float *sums;		    /* max_bytes / 2 */
	uint64_t salt;		    /* so that nobody can choose ids whose rows collide */

	uint64_t origin; /* the position of entry 0; from 1 */
	uint32_t keys;	 /* entries in use */
	uint32_t taken;	 /* entries whose gradients have come */
	uint32_t sums_used;
	uint64_t bytes; /* the gradients of all operations so far */

	struct store_table *table; /* of the operation whose keys come in */
	uint32_t op_first;
	uint32_t op_end;
	uint32_t op_mask; /* cells it uses, less one */
};

/* The least power of two that leaves half of the cells free. */
static uint32_t cells_for(uint32_t keys)
{
	return 1u << (32 - __builtin_clz(2 * keys - 1));
}

struct store_push *store_push_create(uint32_t max_keys, uint32_t max_bytes, struct star_error *err)
{
	uint64_t entries_bytes, cells_bytes, bytes;
	struct store_push *p;
	uint8_t *memory;

	if (max_keys < 1 || max_keys > KEYS_MAX) {
		star_error_set(err, -EINVAL, "a push of up to %u keys was asked for: 1 to %d are possible", max_keys,
			       KEYS_MAX);
		return NULL;
	}
	entries_bytes = (uint64_t)max_keys * sizeof(struct push_entry);
	cells_bytes = (uint64_t)cells_for(max_keys) * sizeof(uint64_t);
	bytes = sizeof(*p) + cells_bytes + entries_bytes + max_bytes / 2;
	memory = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
	if (!memory) {
		star_error_set(err, -ENOMEM, "no memory for pushes: %llu bytes", (unsigned long long)bytes);
		return NULL;
	}
	p = (struct store_push *)memory;
	*p = (struct store_push){ .max_keys = max_keys, .max_bytes = max_bytes, .origin = 1 };
	p->cells = (uint64_t *)(memory + sizeof(*p));
	p->entries = (struct push_entry *)(memory + sizeof(*p) + cells_bytes);
	p->sums = (float *)(memory + sizeof(*p) + cells_bytes + entries_bytes);
	p->salt = hash_mix((uintptr_t)memory ^ clock_cycles());
	memset(p->cells, 0, cells_bytes);
	return p;
}

void store_push_destroy(struct store_push *p)
{
	free(p);
}

void store_push_begin(struct store_push *p)
{
	p->origin += p->keys;
	p->keys = 0;
	p->taken = 0;
	p->sums_used = 0;
	p->bytes = 0;
	p->table = NULL;
	p->op_end = 0;
}

void store_push_op(struct store_push *p, struct store_table *table, uint32_t count)
{
	const uint32_t room = p->max_keys - p->keys;

	/* What is over the limit is refused with the first keys over it. */
	if (count > room)
		count = room;
	p->table = table;
	p->op_first = p->keys;
	p->op_end = p->keys + count;
	p->op_mask = count ? cells_for(count) - 1 : 0;
}

static uint32_t cell_of(const struct store_push *p, store_row row)
{
	return (uint32_t)hash_mix(row ^ p->salt) & p->op_mask;
}

/* Appends an entry, joined to the first one of its row. Ends, since at least half of the operation's cells are free;
 * and soon, since the salt spreads the rows. */
static void enter(struct store_push *p, store_row row, uint32_t cell)
{
	const uint64_t op_origin = p->origin + p->op_first;
	const uint32_t self = p->keys++;

	p->entries[self] = (struct push_entry){ .row = row, .first = self, .left = 1 };
	for (;; cell = (cell + 1) & p->op_mask) {
		const uint64_t position = p->cells[cell];
		struct push_entry *first;

		if (position < op_origin) {
			p->cells[cell] = p->origin + self;
			return;
		}
		first = &p->entries[position - p->origin];
		if (first->row == row) {
			first->left++;
			p->entries[self].first = (uint32_t)(position - p->origin);
			return;
		}
	}
}

int store_push_keys(struct store_push *p, struct store_table *table, const uint64_t *keys, unsigned n)
{
	const uint64_t bytes = (uint64_t)n * table->dim * sizeof(float);
	uint32_t cells[STORE_BATCH];
	store_row rows[STORE_BATCH];

	assert(n <= STORE_BATCH);
	if (p->table != table)
		store_push_op(p, table, p->max_keys);
	if (n > p->op_end - p->keys || bytes > p->max_bytes - p->bytes)
		return -EOVERFLOW;
	if (store_find(table, keys, n, 1, rows))
		return -ENOSPC;
	p->bytes += bytes;
	for (unsigned i = 0; i < n; i++) {
		cells[i] = cell_of(p, rows[i]);
		__builtin_prefetch(&p->cells[cells[i]]);
	}
	for (unsigned i = 0; i < n; i++)
		enter(p, rows[i], cells[i]);
	return 0;
}

/*
 * Memory for the sum of one row's gradients. It always suffices: each sum stands for at least two gradients of its size
 * in the request, no gradient belongs to two sums, and the request's gradients take at most max_bytes together; so all
 * its sums take at most max_bytes / 2.
 */
static float *take_sum(struct store_push *p, struct push_entry *first, uint32_t dim)
{
	first->sum = p->sums_used;
	p->sums_used += dim;
	assert((uint64_t)p->sums_used * sizeof(float) <= p->max_bytes / 2);
	return p->sums + first->sum;
}

static void take_gradient(struct store_push *p, struct store_table *table, const struct push_entry *e,
			  const float *gradient, float rate)
{
	struct push_entry *first = &p->entries[e->first];

	if (first == e) {
		if (first->left == 1)
			store_apply(table, first->row, gradient, rate);
		else
			memcpy(take_sum(p, first, table->dim), gradient, table->dim * sizeof(float));
		return;
	}
	table->optim.accumulate(p->sums + first->sum, gradient, table->dim);
	if (--first->left == 1)
		store_apply(table, first->row, p->sums + first->sum, rate);
}

void store_push_rows(struct store_push *p, struct store_table *table, const float *const *gradients, unsigned n,
		     float rate)
{
	const struct push_entry *entries = &p->entries[p->taken];

	assert(n <= STORE_BATCH && n <= p->keys - p->taken);
	for (unsigned i = 0; i < n; i++)
		store_prefetch(table, entries[i].row);
	for (unsigned i = 0; i < n; i++)
		take_gradient(p, table, &entries[i], gradients[i], rate);
	p->taken += n;
}
