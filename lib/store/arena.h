/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a store, handed out once and for good: rows, directories and tables from the bottom, index pages from
 * the top, so that the index lies together and costs few TLB entries. It is full when the two meet. One thread.
 */
#ifndef STORE_ARENA_H
#define STORE_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum { ARENA_ALIGN = 64, ARENA_PAGE = 8192 };

struct arena {
	uint8_t *base; /* aligned to ARENA_PAGE */
	uint64_t low;  /* bytes taken from the bottom */
	uint64_t high; /* where the pages taken from the top begin */
};

static inline uint64_t arena_left(const struct arena *a)
{
	return a->high - a->low;
}

/* `bytes`, rounded up to ARENA_ALIGN and so aligned; NULL when there is no room. Not zeroed. */
static inline void *arena_take(struct arena *a, uint64_t bytes)
{
	void *taken = a->base + a->low;

	bytes = (bytes + ARENA_ALIGN - 1) & ~(uint64_t)(ARENA_ALIGN - 1);
	if (bytes > arena_left(a))
		return NULL;
	a->low += bytes;
	return taken;
}

/* A page, aligned to its size; NULL when there is no room. Not zeroed. */
static inline void *arena_take_page(struct arena *a)
{
	if (arena_left(a) < ARENA_PAGE)
		return NULL;
	a->high -= ARENA_PAGE;
	return a->base + a->high;
}

#endif
