/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dropping tables. The store forgets a table at once; its memory returns to the arena a slab or a segment at a time,
 * when there is time for it or when it is needed. Its rows are not visited.
 */
#include <string.h>

#include "store/journal_note.h"
#include "store/snapshot.h"
#include "store/touch.h"

/* Free memory must have no marks, of either generation. */
static void clear_marks(const struct store *store, const uint8_t *slab, uint64_t bytes)
{
	if (store->snapshot.marks)
		memset(store->snapshot.marks + ((uint64_t)(slab - store->arena.base) >> MARK_BYTE_SHIFT), 0,
		       bytes >> MARK_BYTE_SHIFT);
}

/* *steps: how many are left. */
static bool give_rows_back(struct store_table *t, unsigned *steps)
{
	uint64_t bytes;
	uint8_t *slab;

	for (; *steps; --*steps) {
		if (!store_pool_drop_slab(&t->pool, &slab, &bytes))
			return store_index_drop(&t->index, &t->given_back, *steps);
		clear_marks(t->store, slab, bytes);
	}
	return false;
}

bool store_table_give_back(struct store_table *t, unsigned steps)
{
	if (!t->rows_given) {
		if (!give_rows_back(t, &steps))
			return false;
		t->rows_given = true;
		t->given_back = 0;
	}
	return store_filter_give_back(&t->filter, t->store->memory, &t->given_back, steps ? steps : 1);
}

bool store_arena_reclaim(struct arena *a, unsigned steps)
{
	struct store_table *t = a->dropped;

	if (!t)
		return false;
	if (store_table_give_back(t, steps)) {
		a->dropped = t->next;
		t->next = a->spare;
		a->spare = t;
	}
	return true;
}

static void unlink_table(struct store_table *t)
{
	struct store_table **at = &t->store->tables;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
}

/* A snapshot in progress may have rows of the table, or its number; so may the log for the next delta. */
static void leave_snapshots(struct store *store)
{
	struct snapshot *s = &store->snapshot;

	store_snapshot_ask_full(store);
	if (!s->kind)
		return;
	s->lost = true;
	s->first = s->table = NULL;
	s->rows_count = 0;
}

void store_table_drop(struct store_table *table)
{
	struct store *store = table->store;

	unlink_table(table);
	store_journal_forget(table);
	if (store->sweeping == table) {
		store->sweeping = table->next;
		store->sweep_rows_count = 0;
	}
	leave_snapshots(store);
	table->next = store->memory->dropped;
	store->memory->dropped = table;
}

bool store_reclaim(struct store *store, unsigned budget)
{
	store_arena_reclaim(store->memory, budget);
	return store->memory->dropped != NULL;
}
