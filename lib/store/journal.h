/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a store's changes bring to its journal: rows as they are after each change, keys that go, counts of admission
 * filters and what is known of tables, as runs like those of a checkpoint (wire/journal.h). So nothing that decides
 * about rows needs to be done again, or in the same order of anything but changes of one row: neither admission and
 * eviction, nor sums, nor programs. One thread, the store's.
 */
#ifndef STORE_JOURNAL_H
#define STORE_JOURNAL_H

#include "journal/ring.h"
#include "store/store.h"

/* What is changed from now on is written to the ring. NULL: not any more. */
void store_journal_begin(struct store *store, struct journal_ring *ring);

/* What is known of tables as a whole, of those that have changed since it was written: before a mark. */
void store_journal_tables(struct store *store);

/*
 * Behind what a journal has of a life, when it is applied, and of `lives` - 1 of which it has nothing: the last moments
 * of each are not in it. Workers may have rows of those moments, with versions that pushes would now give again to
 * other values. So versions go on a good way above all that there can have been: more than some 100 ms can raise them
 * by. Rows keep what they have until they are changed.
 */
enum { STORE_LOST_VERSIONS = 1 << 24 };
void store_load_life_end(struct store_table *table, uint32_t lives);

/* JOURNAL_CLEARED, when it is applied: a table's admission filter forgets all. */
void store_load_cleared(struct store_table *table);

#endif
