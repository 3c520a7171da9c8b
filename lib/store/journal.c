/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/journal.h"

#include <string.h>

#include "store/journal_note.h"
#include "store/touch.h"

enum {
	LINE_BYTES = 64,
	LINES_AHEAD = 32, /* of a stream, prefetched before they are written: no cache has them */
};

void store_journal_begin(struct store *store, struct journal_ring *ring)
{
	store->journal = ring;
	while (!ring && store->journal_tables)
		store_journal_forget(store->journal_tables);
	for (struct store_table *t = store->tables; t; t = t->next)
		t->journal_tick = t->tick + 1; /* ticks are never odd, so nothing counts as written */
}

void store_journal_table_changed(struct store_table *t)
{
	t->store->journal->changes++;
	if (t->journal_due)
		return;
	t->journal_due = true;
	t->journal_next = t->store->journal_tables;
	t->store->journal_tables = t;
}

void store_journal_forget(struct store_table *t)
{
	struct store_table **at = &t->store->journal_tables;

	while (*at && *at != t)
		at = &(*at)->journal_next;
	if (*at)
		*at = t->journal_next;
	t->journal_due = false;
}

/* Room for one record, in a run of its own kind. */
static void *take_run_room(struct store_table *t, unsigned kind, uint32_t bytes)
{
	struct journal_ring *ring = t->store->journal;
	struct checkpoint_run *run = ring->record ? (struct checkpoint_run *)(ring->record + 1) : NULL;
	void *at;

	if (run && run->object == t->journal_object && run->kind == kind && ring->record->bytes < JOURNAL_RUN_BYTES) {
		at = journal_take_more(ring, bytes);
		run->count += at != NULL;
		return at;
	}
	run = journal_take(ring, JOURNAL_RUN, 0, (uint32_t)sizeof(*run) + bytes);
	if (!run)
		return NULL;
	ring->record = (struct journal_record *)run - 1;
	*run = (struct checkpoint_run){
		.object = t->journal_object, .kind = (uint16_t)kind, .count = 1, .row_bytes = bytes
	};
	return run + 1;
}

static void write_table(struct store_table *t)
{
	struct checkpoint_table *table = take_run_room(t, CHECKPOINT_TABLE, sizeof(*table));

	if (!table)
		return;
	*table = (struct checkpoint_table){ .step = t->step,
					    .pushes = t->stats.pushes,
					    .removed = table_removed(t) + t->uncounted,
					    .looks = t->tick / TABLE_TICK };
	t->store->journal->record = NULL; /* one each */
	t->journal_tick = t->tick;
}

void store_journal_tables(struct store *store)
{
	struct store_table *t;

	while ((t = store->journal_tables)) {
		store->journal_tables = t->journal_next;
		t->journal_due = false;
		write_table(t);
	}
}

/* A row that a push holds may have been deleted meanwhile: its memory is kept until the push ends, and its updates have
 * no effect. */
static bool has_gone(const struct store_table *t, store_row row)
{
	const uint64_t key = row_key(table_row(t, row));

	return t->pool.waiting != STORE_NO_ROW && store_index_find(&t->index, key, index_hash(key)) != row;
}

void store_journal_row(struct store_table *t, store_row row)
{
	const uint8_t *record = table_row(t, row);
	uint8_t *to;

	if (has_gone(t, row))
		return;
	if (!t->journal_due)
		store_journal_table_changed(t);
	/* `used` counts back from the table's last record. */
	if (t->at.used && t->journal_tick != t->tick)
		write_table(t);
	to = take_run_room(t, CHECKPOINT_ROWS, t->at.record);
	if (!to)
		return;
	if (t->at.as_it_lies)
		memcpy(to, record, t->at.record);
	else
		store_record_write(t, record, to, t->tick);
}

/* Room for one row, and for up to n - 1 more after it, contiguous; *took: for how many. */
static uint8_t *take_rows_room(struct store_table *t, unsigned n, unsigned *took)
{
	struct journal_ring *ring = t->store->journal;
	uint8_t *to = take_run_room(t, CHECKPOINT_ROWS, t->at.record);
	uint32_t more;

	*took = to != NULL;
	if (!to || ring->record->bytes >= JOURNAL_RUN_BYTES)
		return to;
	more = (JOURNAL_RUN_BYTES - ring->record->bytes) / t->at.record;
	more = more < n - 1 ? more : n - 1;
	if (more && journal_take_more(ring, more * t->at.record)) {
		((struct checkpoint_run *)(ring->record + 1))->count += more;
		*took += more;
	}
	return to;
}

/* The same for many rows in place: none is deleted, and no tick is recorded. */
static void write_rows(struct store_table *t, const store_row *rows, unsigned n)
{
	const uint32_t bytes = t->at.record;
	unsigned took;

	for (; n; rows += took, n -= took) {
		uint8_t *to = take_rows_room(t, n, &took);

		if (!to)
			return;
		for (unsigned i = 0; i < took; i++, to += bytes) {
			for (uint32_t line = 0; line < bytes; line += LINE_BYTES)
				__builtin_prefetch(to + LINES_AHEAD * LINE_BYTES + line, 1);
			memcpy(to, table_row(t, rows[i]), bytes);
		}
	}
}

void store_journal_changed(struct store_table *t, const store_row *rows, unsigned n)
{
	if (t->pool.waiting != STORE_NO_ROW || !t->at.as_it_lies) {
		store_journal_rows(t, rows, n);
	} else if (n) {
		if (!t->journal_due)
			store_journal_table_changed(t);
		write_rows(t, rows, n);
	}
}

void store_journal_rows(struct store_table *t, const store_row *rows, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (rows[i] < STORE_UNADMITTED)
			store_journal_row(t, rows[i]);
}

void store_journal_deleted(struct store_table *t, uint64_t key)
{
	uint64_t *to;

	store_journal_table_changed(t);
	to = take_run_room(t, CHECKPOINT_DELETED, sizeof(*to));
	if (to)
		*to = key;
}

void store_journal_count(struct store_table *t, uint64_t key, uint32_t count, uint32_t seen)
{
	struct checkpoint_count *to;

	store_journal_table_changed(t);
	to = take_run_room(t, CHECKPOINT_COUNTS, sizeof(*to));
	if (to)
		*to = (struct checkpoint_count){ .key = key, .count = count, .seen = seen };
}

void store_journal_cleared(struct store_table *t)
{
	struct journal_object *object = journal_take(t->store->journal, JOURNAL_CLEARED, 0, sizeof(*object));

	if (object)
		*object = (struct journal_object){ .object = t->journal_object };
}

/* Counts as if this many rows had been deleted: checkpoints and the journal have the new number from then on. */
void store_load_life_end(struct store_table *t, uint32_t lives)
{
	if (!t->at.version)
		return;
	t->removed_before += (uint64_t)lives * STORE_LOST_VERSIONS;
	t->version_least = store_table_first_version(t);
}

void store_load_cleared(struct store_table *t)
{
	store_row *rows = t->store->sweep_rows;
	struct index_walk walk = { 0 };
	uint32_t slot = 0;

	t->store->sweep_rows_count = 0;
	while (t->spec.filter == FILTER_COUNTER && !walk.over) {
		const unsigned n = store_index_walk(&t->filter.index, &walk, rows);

		for (unsigned i = 0; i < n; i++)
			store_filter_drop(&t->filter, rows[i]);
	}
	if (t->spec.filter == FILTER_BLOOM)
		store_filter_bloom_clear(&t->filter, &slot, t->filter.slots);
}
