/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store.h"

#include <errno.h>
#include <stdlib.h>

#include "store/table.h"

enum {
	ARENA_BYTES_MIN = 1 << 20,
	/* Of the arena: a partly used slab has at most a 64th of its table's rows. In addition this many bytes, or as
	 * much again if that is less, for some pages of indexes and the smallest slabs. */
	KEPT_SHARE = 64,
	KEPT_BYTES = 1 << 16,
	ROW_SHIFT_MIN = 3, /* rows begin with a uint64_t */
	ROW_SHIFT_MAX = 6, /* slabs are aligned to ARENA_ALIGN */
};
_Static_assert(1 << ROW_SHIFT_MAX == ARENA_ALIGN, "a slab begins at a row's alignment");

static uint64_t kept_of(uint64_t bytes)
{
	const uint64_t share = bytes / KEPT_SHARE;

	return share + (share < KEPT_BYTES ? share : KEPT_BYTES);
}

struct store *store_create(void *arena, size_t arena_bytes, struct star_error *err)
{
	const uintptr_t begin = ((uintptr_t)arena + ARENA_PAGE - 1) & ~(uintptr_t)(ARENA_PAGE - 1);
	const uintptr_t end = ((uintptr_t)arena + arena_bytes) & ~(uintptr_t)(ARENA_PAGE - 1);
	unsigned shift = ROW_SHIFT_MIN;
	struct store *store;

	if (arena_bytes < ARENA_BYTES_MIN) {
		star_error_set(err, -EINVAL, "the parameter memory of a shard is %zu bytes: give it at least %d",
			       arena_bytes, ARENA_BYTES_MIN);
		return NULL;
	}
	/* STORE_NO_ROW and STORE_UNADMITTED must be larger than any row's handle. */
	while (shift < ROW_SHIFT_MAX && (end - begin) >> shift > STORE_UNADMITTED)
		shift++;
	if ((end - begin) >> shift > STORE_UNADMITTED) {
		star_error_set(err, -EINVAL,
			       "the parameter memory of a shard is %zu bytes: at most 256 GiB are possible, use more "
			       "reactors",
			       arena_bytes);
		return NULL;
	}
	store = malloc(sizeof(*store));
	if (!store) {
		star_error_set(err, -ENOMEM, "no memory left to create a store");
		return NULL;
	}
	*store = (struct store){ .arena = { .base = (uint8_t *)begin, .end = end - begin }, .row_shift = shift };
	if (!store_arena_init(&store->arena)) {
		free(store);
		star_error_set(err, -ENOMEM, "no memory left to create a store");
		return NULL;
	}
	store->arena.kept = kept_of(store->arena.end);
	store->memory = &store->arena;
	return store;
}

uint64_t store_made(const struct store *store)
{
	return store->made;
}

struct store *store_create_beside(struct store *store, struct star_error *err)
{
	struct store *beside = malloc(sizeof(*beside));

	if (!beside) {
		star_error_set(err, -ENOMEM, "no memory left to create a store");
		return NULL;
	}
	*beside = (struct store){ .memory = store->memory, .row_shift = store->row_shift };
	return beside;
}

void store_destroy(struct store *store)
{
	if (store)
		store_arena_fini(&store->arena);
	free(store);
}
