/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a store: rows, directories, filters and tables are taken from the bottom, index pages from the top, so
 * that the index is contiguous and needs few TLB entries. Between the two is memory that was never taken. Returned
 * memory becomes a free extent: it is merged with free neighbours, and with the unused middle if it is adjacent to
 * that. Requests use extents of their own side before the middle and, when the middle is used up, those of the other
 * side. So a dropped table leaves room for any other.
 *
 * Free extents are kept by size (TLSF: Masmano, Ripoll, Crespo, Real, ECRTS 2004): taking and returning cost the same
 * for any number of them. Their headers and ends are inside them; a bitmap says where they are. Threads: one.
 */
#ifndef STORE_ARENA_H
#define STORE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARENA_ALIGN = 64, ARENA_PAGE = 8192, ARENA_SIZES = 33 };

struct store_table;

/* Free extents of one side, by the power of two of their units (of ARENA_ALIGN bytes). */
struct arena_extents {
	uint64_t sizes; /* bit i: first[i] is not NULL */
	struct arena_extent *first[ARENA_SIZES];
};

struct arena {
	uint8_t *base;	     /* aligned to ARENA_PAGE */
	uint64_t end;	     /* its bytes */
	uint64_t low;	     /* bytes taken from the bottom */
	uint64_t high;	     /* where the pages that were taken from the top begin */
	uint64_t free_bytes; /* in extents */
	/* Bytes that must stay free: only store_load takes them. The same rows, loaded in another order, take a little
	 * more than they took before, in slabs that are not used up and in splits of the index. */
	uint64_t kept;
	struct arena_extents extents[2]; /* below low, and from high on */
	/* a bit for each unit: whether it is the first or the last one of a free extent */
	uint64_t *edges;
	struct store_table *dropped; /* tables whose memory is being returned: drop.c */
	/* what remains of them: the table structure itself, to be reused by the next one */
	struct store_table *spare;
};

/* base and end are set, the rest is 0. false: there is no memory for the bitmap. */
bool store_arena_init(struct arena *a);
void store_arena_fini(struct arena *a);

/* The memory that was never taken, in one piece; and all that is free. */
static inline uint64_t arena_left(const struct arena *a)
{
	return a->high - a->low;
}
static inline uint64_t arena_free(const struct arena *a)
{
	return a->high - a->low + a->free_bytes;
}

/* What of that there is for new rows and tables. */
static inline uint64_t arena_for_new(const struct arena *a)
{
	return arena_free(a) > a->kept ? arena_free(a) - a->kept : 0;
}

/* All other memory. */
static inline uint64_t arena_taken(const struct arena *a)
{
	return a->end - arena_free(a);
}

static inline uint64_t arena_rounded(uint64_t bytes)
{
	return (bytes + ARENA_ALIGN - 1) & ~(uint64_t)(ARENA_ALIGN - 1);
}

/* Takes `bytes`, rounded up to ARENA_ALIGN and aligned to it; NULL: there is no room. Not zeroed. */
void *store_arena_take(struct arena *a, uint64_t bytes);

/* Takes a page, aligned to its size; NULL: there is no room. Not zeroed. */
void *store_arena_take_page(struct arena *a);

/* Returns what was taken, with its size, or neighbouring pieces as one. */
void store_arena_give(struct arena *a, void *piece, uint64_t bytes);

/* drop.c: frees some memory of dropped tables, in about `steps` steps of a microsecond. False: there is none left. */
bool store_arena_reclaim(struct arena *a, unsigned steps);

#endif
