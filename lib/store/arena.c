/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/arena.h"

#include <stdlib.h>

enum {
	WORD = 64,
	LOOK_MAX = 8, /* extents of one size that are examined; some may be too small, and then a larger one is cut */
	LOOK_HARD_MAX = 256, /* ... if there is no larger one */
	/* Memory of dropped tables is reclaimed at once when it is needed: this many times this many steps, which takes
	 * a millisecond or so. More than one of them is rarely needed. */
	RECLAIM_TRIES = 256,
	RECLAIM_STEPS = 4,
};

enum side { BOTTOM, TOP };

/* The header of a free extent; its size is also in its last word. */
struct arena_extent {
	uint64_t bytes;
	struct arena_extent *next, *before;
};
_Static_assert(sizeof(struct arena_extent) + sizeof(uint64_t) <= ARENA_ALIGN, "the least extent has room for both");

bool store_arena_init(struct arena *a)
{
	a->low = 0;
	a->high = a->end;
	a->edges = calloc(a->end / ARENA_ALIGN / WORD + 1, sizeof(*a->edges));
	return a->edges != NULL;
}

void store_arena_fini(struct arena *a)
{
	free(a->edges);
}

static bool is_edge(const struct arena *a, uint64_t at)
{
	return a->edges[at / ARENA_ALIGN / WORD] >> (at / ARENA_ALIGN % WORD) & 1;
}

static void set_edge(struct arena *a, uint64_t at, bool edge)
{
	const uint64_t bit = UINT64_C(1) << (at / ARENA_ALIGN % WORD);

	if (edge)
		a->edges[at / ARENA_ALIGN / WORD] |= bit;
	else
		a->edges[at / ARENA_ALIGN / WORD] &= ~bit;
}

static unsigned size_of(uint64_t bytes)
{
	return 63u - (unsigned)__builtin_clzll(bytes / ARENA_ALIGN);
}

static uint64_t extent_place(const struct arena *a, const struct arena_extent *e)
{
	return (uint64_t)((const uint8_t *)e - a->base);
}

/* The last word of an extent that ends there. */
static uint64_t *last_word(const struct arena *a, uint64_t end)
{
	return (uint64_t *)(a->base + end) - 1;
}

/* An extent stays on its side, however low and high move. */
static struct arena_extents *side_of(struct arena *a, uint64_t at)
{
	return &a->extents[at >= a->high ? TOP : BOTTOM];
}

static void insert(struct arena *a, uint64_t at, uint64_t bytes)
{
	struct arena_extents *side = side_of(a, at);
	const unsigned size = size_of(bytes);
	struct arena_extent *e = (struct arena_extent *)(a->base + at);

	*e = (struct arena_extent){ .bytes = bytes, .next = side->first[size] };
	if (e->next)
		e->next->before = e;
	side->first[size] = e;
	side->sizes |= UINT64_C(1) << size;
	*last_word(a, at + bytes) = bytes;
	set_edge(a, at, true);
	set_edge(a, at + bytes - ARENA_ALIGN, true);
	a->free_bytes += bytes;
}

static void take_out_extent(struct arena *a, struct arena_extent *e)
{
	const uint64_t at = extent_place(a, e);
	struct arena_extents *side = side_of(a, at);
	const unsigned size = size_of(e->bytes);

	*(e->before ? &e->before->next : &side->first[size]) = e->next;
	if (e->next)
		e->next->before = e->before;
	if (!side->first[size])
		side->sizes &= ~(UINT64_C(1) << size);
	set_edge(a, at, false);
	set_edge(a, at + e->bytes - ARENA_ALIGN, false);
	a->free_bytes -= e->bytes;
}

/* Where in an extent a piece aligned to `align` fits; UINT64_MAX: nowhere. */
static uint64_t fit(const struct arena *a, const struct arena_extent *e, uint64_t bytes, uint64_t align)
{
	const uint64_t at = extent_place(a, e), from = (at + align - 1) & ~(align - 1);

	return from + bytes <= at + e->bytes ? from : UINT64_MAX;
}

/* Finds an extent of one size class with enough room. */
static struct arena_extent *look_for_extent(const struct arena *a, const struct arena_extents *side, unsigned size,
					    uint64_t bytes, uint64_t align, unsigned most)
{
	struct arena_extent *e = side->first[size];

	for (unsigned looked = 0; e && looked < most; looked++, e = e->next)
		if (fit(a, e, bytes, align) != UINT64_MAX)
			return e;
	return NULL;
}

static void *cut(struct arena *a, struct arena_extent *e, uint64_t bytes, uint64_t align)
{
	const uint64_t at = extent_place(a, e), end = at + e->bytes, from = fit(a, e, bytes, align);

	take_out_extent(a, e);
	if (from > at)
		insert(a, at, from - at);
	if (from + bytes < end)
		insert(a, from + bytes, end - from - bytes);
	return a->base + from;
}

static void *take_extent(struct arena *a, enum side which, uint64_t bytes, uint64_t align)
{
	const struct arena_extents *side = &a->extents[which];
	const unsigned size = size_of(bytes);
	struct arena_extent *e = NULL;

	if (!(side->sizes >> size))
		return NULL;
	e = look_for_extent(a, side, size, bytes, align, LOOK_MAX);
	for (uint64_t left = side->sizes >> size >> 1 << size << 1; !e && left; left &= left - 1)
		e = look_for_extent(a, side, (unsigned)__builtin_ctzll(left), bytes, align, LOOK_MAX);
	if (!e)
		e = look_for_extent(a, side, size, bytes, align, LOOK_HARD_MAX);
	return e ? cut(a, e, bytes, align) : NULL;
}

static void *take_low(struct arena *a, uint64_t bytes)
{
	void *taken = a->base + a->low;

	if (bytes > arena_left(a))
		return NULL;
	a->low += bytes;
	return taken;
}

static void *take_high(struct arena *a)
{
	if (arena_left(a) < ARENA_PAGE)
		return NULL;
	a->high -= ARENA_PAGE;
	return a->base + a->high;
}

static void *take_once(struct arena *a, uint64_t bytes, bool page)
{
	const uint64_t align = page ? ARENA_PAGE : ARENA_ALIGN;
	void *taken = a->free_bytes ? take_extent(a, page ? TOP : BOTTOM, bytes, align) : NULL;

	if (!taken)
		taken = page ? take_high(a) : take_low(a, bytes);
	if (!taken && a->free_bytes)
		taken = take_extent(a, page ? BOTTOM : TOP, bytes, align);
	return taken;
}

static void *take_unless_kept(struct arena *a, uint64_t bytes, bool page)
{
	return arena_for_new(a) >= bytes ? take_once(a, bytes, page) : NULL;
}

static void *take_or_reclaim(struct arena *a, uint64_t bytes, bool page)
{
	void *taken = take_unless_kept(a, bytes, page);

	for (unsigned tries = 0; !taken && tries < RECLAIM_TRIES && store_arena_reclaim(a, RECLAIM_STEPS); tries++)
		taken = take_unless_kept(a, bytes, page);
	return taken;
}

void *store_arena_take(struct arena *a, uint64_t bytes)
{
	return take_or_reclaim(a, arena_rounded(bytes), false);
}

void *store_arena_take_page(struct arena *a)
{
	return take_or_reclaim(a, ARENA_PAGE, true);
}

void store_arena_give(struct arena *a, void *piece, uint64_t bytes)
{
	uint64_t at = (uint64_t)((uint8_t *)piece - a->base), end = at + arena_rounded(bytes), whole;

	/* If the unit before this piece is an edge, it is the end of a free extent; if the unit after it is, the
	 * beginning of one. */
	if (at > 0 && at != a->high && is_edge(a, at - ARENA_ALIGN)) {
		const uint64_t before = *last_word(a, at);

		take_out_extent(a, (struct arena_extent *)(a->base + at - before));
		at -= before;
	}
	if (end == a->low) {
		a->low = at;
		return;
	}
	if (end < a->end && is_edge(a, end)) {
		struct arena_extent *next = (struct arena_extent *)(a->base + end);

		end += next->bytes;
		take_out_extent(a, next);
	}
	if (at == a->high) {
		whole = (end - at) / ARENA_PAGE * ARENA_PAGE;
		a->high += whole;
		at += whole;
	}
	if (at < end)
		insert(a, at, end - at);
}
