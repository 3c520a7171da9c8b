/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allocator of rows of one size. It takes slabs from the arena; freed rows go to a list, which is used first. While
 * a push may still have the handle of a freed row, the row waits in another list, so that it is not reused before the
 * push writes to it. Slabs are linked, and return to the arena when the pool's owner is dropped. One thread, the
 * store's.
 */
#ifndef STORE_POOL_H
#define STORE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "store/arena.h"
#include "store/store.h"

struct pool {
	struct arena *arena;
	struct store_stats *stats; /* memory_bytes, free_bytes */
	uint32_t row_bytes;	   /* a multiple of 2^row_shift */
	uint8_t row_shift;
	uint64_t reserve;    /* bytes of the arena that this pool must leave to others */
	uint32_t slab_rows;  /* rows left in the slab from which new ones are taken */
	store_row slab_next; /* the first of them */
	store_row free;	     /* the first freed row, or STORE_NO_ROW; each begins with the handle of the next one */
	store_row waiting, waiting_last;
	struct pool_slab *slabs; /* newest first */
};

/* The end of a slab. */
struct pool_slab {
	struct pool_slab *next;
	uint64_t bytes; /* including this */
};

/* row_bytes is rounded up to 2^row_shift. reserve is 0. */
void store_pool_init(struct pool *pool, struct arena *arena, struct store_stats *stats, unsigned row_shift,
		     uint32_t row_bytes);

/* A row, not zeroed. STORE_NO_ROW: there is no room. rows: how many rows the pool's owner has; slabs get larger with
 * it. */
store_row store_pool_take(struct pool *pool, uint64_t rows);

/* The bytes of the slabs for n rows, or a little more. row_bytes must have been rounded. */
uint64_t store_pool_bytes(uint32_t row_bytes, uint64_t n);

/* Frees a row; with `wait` it is not reused before the next store_pool_settle. */
void store_pool_give(struct pool *pool, store_row row, bool wait);
void store_pool_settle(struct pool *pool);

/* Returns the newest slab to the arena, with all its rows. *slab and *bytes say which. false: there is none. */
bool store_pool_drop_slab(struct pool *pool, uint8_t **slab, uint64_t *bytes);

#endif
