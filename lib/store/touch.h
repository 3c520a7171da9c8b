/* SPDX-License-Identifier: BSD-3-Clause */
/* What snapshots want to know of rows: marks are set, rows copied and logged when they are touched for the first
 * time. */
#ifndef STORE_TOUCH_H
#define STORE_TOUCH_H

#include "store/table.h"

enum {
	MARK_SHIFT = 4,	     /* log2 of the bytes that a mark stands for */
	MARK_BYTE_SHIFT = 6, /* and a byte of them */
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

/* Rows and tables are told apart by where they lie in the arena, in units of its alignment. */
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

/* Whether a look-up changes rows that it finds, and somebody wants to know. */
static inline bool snapshot_touches(const struct store_table *t, enum store_find_mode mode)
{
	return t->store->snapshot.touching &&
	       (mode == STORE_PUSH || (mode == STORE_PULL && (t->at.used || t->at.seen)));
}

/* Starts loading the marks of what may be rows. */
void store_snapshot_prefetch(const struct store_table *t, const store_row *rows, unsigned n);

/* touch.c: before a row is changed for the first time since the instant. */
void store_snapshot_first_touch(struct store_table *t, uint64_t hash, store_row row);

/* Before a row of this hash is changed. */
static inline void snapshot_touch(struct store_table *t, uint64_t hash, store_row row)
{
	if (!snapshot_marked(t->store, row, t->store->snapshot.generation))
		store_snapshot_first_touch(t, hash, row);
}

/* The same for those of n that are rows. */
void store_snapshot_touch_rows(struct store_table *t, const uint64_t *hashes, const store_row *rows, unsigned n);

/* A row was made. */
void store_snapshot_made(struct store_table *t, store_row row);

/* Before a row is taken out of the index. */
void store_snapshot_gone(struct store_table *t, uint64_t hash, store_row row);

/* Deltas cannot tell what has happened: the next snapshot is to be a full one, and the one after one that is under way,
 * too. */
void store_snapshot_ask_full(struct store *store);

/* record.c: a row as it is in a checkpoint, at->record bytes, whose `used` counts back from that tick. `to` is aligned
 * to 8. */
void store_record_write(const struct store_table *t, const uint8_t *row, uint8_t *to, uint32_t tick);

#endif
