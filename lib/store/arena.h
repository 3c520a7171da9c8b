/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a store: rows, directories, filters and tables are taken from the bottom and for good (pool.h keeps the rows
 * that are given back), index pages from the top, so that the index lies together and costs few TLB entries. It is full when
 * the two meet. Pages that the index gives back are kept in a list, for any index, and for rows once all else is gone. One
 * thread.
 */
#ifndef STORE_ARENA_H
#define STORE_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum { ARENA_ALIGN = 64, ARENA_PAGE = 8192 };
#define ARENA_NO_PAGE UINT32_MAX

struct arena {
	uint8_t *base;		     /* aligned to ARENA_PAGE */
	uint64_t low;		     /* bytes taken from the bottom */
	uint64_t high;		     /* where the pages taken from the top begin */
	uint32_t free;		     /* the first page given back, by number; or ARENA_NO_PAGE */
	uint64_t nobodys_free_bytes; /* of pages given back by tables that came to nothing */
};

/* What a page that was given back begins with. */
struct arena_free_page {
	uint32_t next;
	uint64_t *free_bytes; /* where it is counted until somebody takes it */
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
	if (a->free != ARENA_NO_PAGE) {
		struct arena_free_page *page = (struct arena_free_page *)(a->base + (uint64_t)a->free * ARENA_PAGE);

		a->free = page->next;
		*page->free_bytes -= ARENA_PAGE;
		return page;
	}
	if (arena_left(a) < ARENA_PAGE)
		return NULL;
	a->high -= ARENA_PAGE;
	return a->base + a->high;
}

static inline void arena_give_page(struct arena *a, void *page, uint64_t *free_bytes)
{
	*(struct arena_free_page *)page = (struct arena_free_page){ .next = a->free, .free_bytes = free_bytes };
	*free_bytes += ARENA_PAGE;
	a->free = (uint32_t)((uint64_t)((uint8_t *)page - a->base) / ARENA_PAGE);
}

#endif
