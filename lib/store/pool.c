/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/pool.h"

enum {
	/* Small slabs first, so that a small table stays small. Slabs are never so large that an unused one matters. */
	SLAB_BYTES_MIN = 4096,
	SLAB_BYTES_MAX = 32768,
	SLAB_SHARE = 64, /* of the table's rows */
};

static store_row *link_of(const struct pool *pool, store_row row)
{
	return (store_row *)(pool->arena->base + ((uint64_t)row << pool->row_shift));
}

void store_pool_init(struct pool *pool, struct arena *arena, struct store_stats *stats, unsigned row_shift,
		     uint32_t row_bytes)
{
	const uint32_t unit = 1u << row_shift;

	*pool = (struct pool){
		.arena = arena,
		.stats = stats,
		.row_bytes = (row_bytes + unit - 1) & ~(unit - 1),
		.row_shift = (uint8_t)row_shift,
		.free = STORE_NO_ROW,
		.waiting = STORE_NO_ROW,
	};
}

/* How many rows fit into n bytes, at least one; and the bytes of the slab for them. */
static uint32_t slab_holds(uint32_t row_bytes, uint64_t *bytes)
{
	const uint64_t end = sizeof(struct pool_slab);
	const uint32_t rows = *bytes < row_bytes + end ? 1 : (uint32_t)((*bytes - end) / row_bytes);

	*bytes = arena_rounded((uint64_t)rows * row_bytes + end);
	return rows;
}

uint64_t store_pool_bytes(uint32_t row_bytes, uint64_t n)
{
	uint64_t bytes = SLAB_BYTES_MAX;
	const uint32_t holds = slab_holds(row_bytes, &bytes);

	/* The first slabs, which are small, lose as much at their ends as large ones. */
	return (n + holds - 1) / holds * bytes + SLAB_SHARE * (ARENA_ALIGN + sizeof(struct pool_slab));
}

/* Creates a slab for as many rows as fit into n bytes, and for at least one. */
static struct pool_slab *make_slab(struct pool *pool, uint64_t bytes, uint8_t **begin, uint32_t *rows)
{
	struct pool_slab *slab;

	*rows = slab_holds(pool->row_bytes, &bytes);
	*begin = store_arena_take(pool->arena, bytes);
	if (!*begin)
		return NULL;
	slab = (struct pool_slab *)(*begin + bytes) - 1;
	*slab = (struct pool_slab){ .next = pool->slabs, .bytes = bytes };
	return slab;
}

static bool take_slab(struct pool *pool, uint64_t rows)
{
	uint64_t bytes = rows / SLAB_SHARE * pool->row_bytes;
	struct pool_slab *slab;
	uint8_t *begin;

	if (arena_free(pool->arena) < pool->reserve)
		return false;
	if (bytes < SLAB_BYTES_MIN)
		bytes = SLAB_BYTES_MIN;
	if (bytes > SLAB_BYTES_MAX)
		bytes = SLAB_BYTES_MAX;
	/* The rest of the arena may consist of smaller pieces. */
	while (!(slab = make_slab(pool, bytes, &begin, &pool->slab_rows)) && pool->slab_rows > 1)
		bytes /= 2;
	if (!slab) {
		pool->slab_rows = 0;
		return false;
	}
	pool->slabs = slab;
	pool->stats->memory_bytes += slab->bytes;
	pool->slab_next = (store_row)((uint64_t)(begin - pool->arena->base) >> pool->row_shift);
	return true;
}

bool store_pool_drop_slab(struct pool *pool, uint8_t **slab, uint64_t *bytes)
{
	struct pool_slab *last = pool->slabs;

	if (!last)
		return false;
	pool->slabs = last->next;
	*bytes = last->bytes;
	*slab = (uint8_t *)(last + 1) - *bytes;
	store_arena_give(pool->arena, *slab, *bytes);
	return true;
}

store_row store_pool_take(struct pool *pool, uint64_t rows)
{
	store_row row = pool->free;

	if (row != STORE_NO_ROW) {
		pool->free = *link_of(pool, row);
		if (pool->free != STORE_NO_ROW)
			__builtin_prefetch(link_of(pool, pool->free));
		pool->stats->free_bytes -= pool->row_bytes;
		pool->stats->memory_bytes += pool->row_bytes;
		return row;
	}
	if (!pool->slab_rows && !take_slab(pool, rows))
		return STORE_NO_ROW;
	row = pool->slab_next;
	pool->slab_next += pool->row_bytes >> pool->row_shift;
	pool->slab_rows--;
	return row;
}

void store_pool_give(struct pool *pool, store_row row, bool wait)
{
	store_row *list = wait ? &pool->waiting : &pool->free;

	if (wait && *list == STORE_NO_ROW)
		pool->waiting_last = row;
	*link_of(pool, row) = *list;
	*list = row;
	pool->stats->free_bytes += pool->row_bytes;
	pool->stats->memory_bytes -= pool->row_bytes;
}

void store_pool_settle(struct pool *pool)
{
	if (pool->waiting == STORE_NO_ROW)
		return;
	*link_of(pool, pool->waiting_last) = pool->free;
	pool->free = pool->waiting;
	pool->waiting = STORE_NO_ROW;
}
