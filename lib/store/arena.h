/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a store: rows, directories, filters and tables are taken from the bottom, index pages from the top, so
 * that the index lies together and costs few TLB entries. Between the two lies what was never taken. What is given back
 * becomes a free extent: it is joined with free neighbours, and with the untouched middle where it borders on it, and
 * is taken before the middle by whoever needs memory on its side; once the middle is used up, by anybody. So a table
 * that was dropped leaves room for any other.
 *
 * Free extents are kept by size (TLSF: Masmano, Ripoll, Crespo, Real, ECRTS 2004): taking and giving back cost the same
 * however many there are. Their heads and ends lie in themselves; a bitmap says where they are. One thread.
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
	uint64_t sizes; /* bit i: first[i] is there */
	struct arena_extent *first[ARENA_SIZES];
};

struct arena {
	uint8_t *base;			 /* aligned to ARENA_PAGE */
	uint64_t end;			 /* its bytes */
	uint64_t low;			 /* bytes taken from the bottom */
	uint64_t high;			 /* where the pages taken from the top begin */
	uint64_t free_bytes;		 /* in extents */
	struct arena_extents extents[2]; /* below low, and from high on */
	uint64_t *edges;		 /* a bit for each unit: it is the first or the last of a free extent */
	struct store_table *dropped;	 /* tables whose memory is being given back: drop.c */
	struct store_table *spare;	 /* what they leave behind: the table itself, to be used by the next one */
};

/* base and end are set, the rest is 0. false: there is no memory for the bitmap. */
bool store_arena_init(struct arena *a);
void store_arena_fini(struct arena *a);

/* What was never taken, in one piece; and all that is free. */
static inline uint64_t arena_left(const struct arena *a)
{
	return a->high - a->low;
}
static inline uint64_t arena_free(const struct arena *a)
{
	return a->high - a->low + a->free_bytes;
}

/* All but that. */
static inline uint64_t arena_taken(const struct arena *a)
{
	return a->end - arena_free(a);
}

static inline uint64_t arena_rounded(uint64_t bytes)
{
	return (bytes + ARENA_ALIGN - 1) & ~(uint64_t)(ARENA_ALIGN - 1);
}

/* `bytes`, rounded up to ARENA_ALIGN and so aligned; NULL when there is no room. Not zeroed. */
void *store_arena_take(struct arena *a, uint64_t bytes);

/* A page, aligned to its size; NULL when there is no room. Not zeroed. */
void *store_arena_take_page(struct arena *a);

/* Gives back what was taken, of that size, or neighbouring pieces as one. */
void store_arena_give(struct arena *a, void *piece, uint64_t bytes);

/* drop.c: gives back some of the memory of dropped tables, in about n steps of a microsecond. false: there is none to
 * give. */
bool store_arena_reclaim(struct arena *a, unsigned steps);

#endif
