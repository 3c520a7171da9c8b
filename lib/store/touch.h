/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls by which the files of this library report changes of rows to snapshots (store/snapshot_state.h). On its first
 * change since the instant a row is marked, logged, and copied if necessary. One thread, the store's. */
#ifndef STORE_TOUCH_H
#define STORE_TOUCH_H

#include "store/table.h"

enum {
	MARK_SHIFT = 4,	     /* log2 of the arena's bytes for each mark */
	MARK_BYTE_SHIFT = 6, /* and for each byte of marks */
};

static inline uint8_t *snapshot_mark(const struct store *store, store_row row)
{
	return store->snapshot.marks + ((uint64_t)row << store->row_shift >> MARK_BYTE_SHIFT);
}

/* generation: 0 or 1. */
static inline uint8_t snapshot_bit(const struct store *store, store_row row, unsigned generation)
{
	return (uint8_t)(1u << (((uint64_t)row << store->row_shift >> MARK_SHIFT & 3) * 2 + generation));
}

static inline bool snapshot_marked(const struct store *store, store_row row, unsigned generation)
{
	return *snapshot_mark(store, row) & snapshot_bit(store, row, generation);
}

/* A table's number in the log: its offset in the arena, in units of ARENA_ALIGN. */
static inline uint32_t snapshot_table_number(const struct store_table *t)
{
	return (uint32_t)((uint64_t)((const uint8_t *)t - t->store->arena.base) / ARENA_ALIGN);
}

static inline struct store_table *snapshot_table(const struct store *store, uint32_t number)
{
	return (struct store_table *)(store->arena.base + (uint64_t)number * ARENA_ALIGN);
}

static inline uint64_t table_removed(const struct store_table *t)
{
	return t->stats.deleted + t->stats.evicted + t->removed_before;
}

/* Whether a look-up in this mode changes rows that it finds, and changes have to be marked. */
static inline bool snapshot_touches(const struct store_table *t, enum store_find_mode mode)
{
	return t->store->snapshot.touching &&
	       (mode == STORE_PUSH || (mode == STORE_PULL && (t->at.used || t->at.seen)));
}

/* Prefetches the marks of rows; entries that are no rows are allowed. */
void store_snapshot_prefetch(const struct store_table *t, const store_row *rows, unsigned n);

/* touch.c: call it before a row is changed for the first time since the instant. */
void store_snapshot_first_touch(struct store_table *t, uint64_t hash, store_row row);

/* Call it before a row is changed. hash: of its key. */
static inline void snapshot_touch(struct store_table *t, uint64_t hash, store_row row)
{
	if (!snapshot_marked(t->store, row, t->store->snapshot.generation))
		store_snapshot_first_touch(t, hash, row);
}

/* The same for n rows; entries that are no rows are left out. */
void store_snapshot_touch_rows(struct store_table *t, const uint64_t *hashes, const store_row *rows, unsigned n);

/* A row was created. */
void store_snapshot_made(struct store_table *t, store_row row);

/* Call it before a row is removed from the index. */
void store_snapshot_gone(struct store_table *t, uint64_t hash, store_row row);

/* Call it after a change that a delta cannot express: the next snapshot must be full, and also the one after one that
 * is under way. */
void store_snapshot_ask_full(struct store *store);

/* record.c: writes a row as in a checkpoint, at->record bytes, with `used` relative to that tick. `to` is aligned to
 * 8. */
void store_record_write(const struct store_table *t, const uint8_t *row, uint8_t *to, uint32_t tick);

#endif
