/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of one size: taken from the arena by slabs, given back to a list, and taken from there first. While a push is in
 * flight that may still hold a row's handle, a row given back waits aside, so that it is nobody else's when the push
 * writes to it. Slabs are linked, and go back to the arena when the pool's owner is dropped. One thread.
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
	uint64_t reserve;    /* bytes of the arena that this pool leaves to others */
	uint32_t slab_rows;  /* left in the slab that new rows are taken from */
	store_row slab_next; /* the first of them */
	store_row free;	     /* the first row given back; each begins with the next one's handle; or STORE_NO_ROW */
	store_row waiting, waiting_last;
	struct pool_slab *slabs; /* the last one first */
};

/* What a slab ends with. */
struct pool_slab {
	struct pool_slab *next;
	uint64_t bytes; /* with this */
};

/* row_bytes is rounded up to 2^row_shift. reserve is 0. */
void store_pool_init(struct pool *pool, struct arena *arena, struct store_stats *stats, unsigned row_shift,
		     uint32_t row_bytes);

/* A row, not zeroed; STORE_NO_ROW when there is no room. rows: how many the pool's owner has, which is what slabs grow
 * by. */
store_row store_pool_take(struct pool *pool, uint64_t rows);

/* The bytes of the slabs that n rows take, or a little more. row_bytes is rounded already. */
uint64_t store_pool_bytes(uint32_t row_bytes, uint64_t n);

/* Gives a row back; with wait only after the next store_pool_settle. */
void store_pool_give(struct pool *pool, store_row row, bool wait);
void store_pool_settle(struct pool *pool);

/* Gives the slab that was taken last back to the arena, whatever rows it has; *slab, *bytes: which. false: there is
 * none. */
bool store_pool_drop_slab(struct pool *pool, uint8_t **slab, uint64_t *bytes);

#endif
