/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls by which the files of this library write to the journal (store/journal.h). Without a journal each one costs a
 * branch. One thread, the store's. */
#ifndef STORE_JOURNAL_NOTE_H
#define STORE_JOURNAL_NOTE_H

#include "store/journal.h"
#include "store/table.h"

/* journal.c: only for tables whose store has a journal. */
void store_journal_table_changed(struct store_table *t);
void store_journal_row(struct store_table *t, store_row row);
void store_journal_rows(struct store_table *t, const store_row *rows, unsigned n);
/* The same, and none of them is STORE_NO_ROW or STORE_UNADMITTED. */
void store_journal_changed(struct store_table *t, const store_row *rows, unsigned n);
void store_journal_deleted(struct store_table *t, uint64_t key);
void store_journal_count(struct store_table *t, uint64_t key, uint32_t count, uint32_t seen);
void store_journal_cleared(struct store_table *t);
/* Before the table is dropped. */
void store_journal_forget(struct store_table *t);

static inline bool journal_is_on(const struct store_table *t)
{
	return __builtin_expect(t->store->journal != NULL, 0);
}

/* A row has changed. */
static inline void journal_note_row(struct store_table *t, store_row row)
{
	if (journal_is_on(t))
		store_journal_row(t, row);
}

/* A row is about to be removed. */
static inline void journal_note_gone(struct store_table *t, uint64_t key)
{
	if (journal_is_on(t))
		store_journal_deleted(t, key);
}

/* A push has ended, whether or not it has changed rows. */
static inline void journal_note_push(struct store_table *t)
{
	if (journal_is_on(t))
		store_journal_table_changed(t);
}

#endif
