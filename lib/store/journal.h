/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a store writes to its journal: rows as they are after each change, removed keys, counts of admission filters,
 * and totals of tables, as runs like those of a checkpoint (wire/journal.h). So applying a journal does not repeat any
 * decision about rows (admission, eviction, sums, programs); only the order of changes to the same row matters. One
 * thread, the store's.
 */
#ifndef STORE_JOURNAL_H
#define STORE_JOURNAL_H

#include "journal/ring.h"
#include "store/store.h"

/* From now on changes are written to the ring. NULL ends that. */
void store_journal_begin(struct store *store, struct journal_ring *ring);

/* Writes the totals of tables that have changed since they were last written. Call it before each mark. */
void store_journal_tables(struct store *store);

/*
 * Call it after applying what a journal has of `lives` lives. The last moments of each life are not in it, and workers
 * may have rows from then, with versions that would be given again to other values. So later versions are raised by
 * STORE_LOST_VERSIONS for each life, which is more than pushes can add in the some 100 ms that may be lost. Rows keep
 * their versions until they are changed.
 */
enum { STORE_LOST_VERSIONS = 1 << 24 };
void store_load_life_end(struct store_table *table, uint32_t lives);

/* Applies JOURNAL_CLEARED: a table's admission filter forgets all keys. */
void store_load_cleared(struct store_table *table);

#endif
