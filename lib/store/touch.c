/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/touch.h"

#include <string.h>

#include "store/snapshot.h"

void store_snapshot_prefetch(const struct store_table *t, const store_row *rows, unsigned n)
{
	const uint8_t *const marks = t->store->snapshot.marks;
	const unsigned shift = t->store->row_shift;

	/* Also for values that are not rows: prefetching any address is harmless. */
	for (unsigned i = 0; i < n; i++)
		table_prefetch(marks + ((uint64_t)rows[i] << shift >> MARK_BYTE_SHIFT));
}

/* From now on only a full snapshot is possible. */
static void stop_logging(struct snapshot *s)
{
	s->logging = false;
	s->touching = s->kind != 0;
}

static void put_slot(struct snapshot *s, uint64_t slot)
{
	s->log[s->log_at] = slot;
	s->log_head++;
	s->log_at = s->log_at + 1 < s->log_slots ? s->log_at + 1 : 0;
}

static bool has_slots(struct snapshot *s, unsigned slots)
{
	if (s->logging && s->log_head - s->log_tail + slots > s->log_slots)
		stop_logging(s);
	return s->logging;
}

static void note_row(const struct store_table *t, struct snapshot *s, store_row row)
{
	if (has_slots(s, 1))
		put_slot(s, (uint64_t)snapshot_table_number(t) << 32 | row);
}

static void note_deleted(const struct store_table *t, struct snapshot *s, uint64_t key)
{
	if (!has_slots(s, 2))
		return;
	put_slot(s, (uint64_t)snapshot_table_number(t) << 32 | STORE_NO_ROW);
	put_slot(s, key);
	s->log_deleted++;
}

/* Where a row's handle is in the segment that the walk is writing; rows_count: it is not there. */
static unsigned place_in_segment(const struct snapshot *s, uint64_t hash, store_row row)
{
	const uint64_t order = index_order(hash);

	if (order >= s->from && (s->walk.over || order < s->walk.at))
		for (unsigned i = 0; i < s->rows_count; i++)
			if (s->rows[i] == row)
				return i;
	return s->rows_count;
}

/* Whether a row without a mark has yet to be written. */
static bool is_to_write(const struct store_table *t, uint64_t hash, store_row row)
{
	const struct snapshot *s = &t->store->snapshot;

	if (!s->kind || s->lost)
		return false;
	if (s->kind == STORE_SNAPSHOT_DELTA)
		return snapshot_marked(t->store, row, !s->generation);
	if (t->snapshot.walk != TABLE_HERE)
		return t->snapshot.walk == TABLE_AHEAD;
	return (!s->walk.over && index_order(hash) >= s->walk.at) || place_in_segment(s, hash, row) < s->rows_count;
}

/* Memory after the last copy, or NULL. If there is too little left before the ring's end, that is skipped. */
static void *take_copy(struct snapshot *s, uint32_t table, uint32_t record_bytes)
{
	const uint64_t bytes = sizeof(struct snapshot_copy) + record_bytes, at = s->copies_head % s->copies_bytes,
		       end = s->copies_bytes - at, passed = bytes > end ? end : 0;
	struct snapshot_copy *copy = (struct snapshot_copy *)(s->copies + at);

	if (s->copies_head + passed + bytes - s->copies_tail > s->copies_bytes)
		return NULL;
	if (passed) {
		copy->table = SNAPSHOT_WRAP;
		copy = (struct snapshot_copy *)s->copies;
	}
	s->copies_head += passed + bytes;
	*copy = (struct snapshot_copy){ .table = table, .bytes = record_bytes };
	return copy + 1;
}

static void copy_row(struct store_table *t, store_row row)
{
	struct snapshot *s = &t->store->snapshot;
	void *record = take_copy(s, snapshot_table_number(t), t->at.record);

	if (!record) {
		s->lost = true;
		return;
	}
	store_record_write(t, table_row(t, row), record, t->snapshot.tick);
	s->copied++;
}

static void unmark(const struct store *store, store_row row, unsigned generation)
{
	*snapshot_mark(store, row) &= (uint8_t)~snapshot_bit(store, row, generation);
}

/* Copies the row if it has yet to be written; it counts as written then. */
static void save(struct store_table *t, uint64_t hash, store_row row)
{
	const struct snapshot *s = &t->store->snapshot;

	if (!is_to_write(t, hash, row))
		return;
	copy_row(t, row);
	if (s->kind == STORE_SNAPSHOT_DELTA)
		unmark(t->store, row, !s->generation);
}

void store_snapshot_first_touch(struct store_table *t, uint64_t hash, store_row row)
{
	struct snapshot *s = &t->store->snapshot;

	save(t, hash, row);
	*snapshot_mark(t->store, row) |= snapshot_bit(t->store, row, s->generation);
	note_row(t, s, row);
}

void store_snapshot_touch_rows(struct store_table *t, const uint64_t *hashes, const store_row *rows, unsigned n)
{
	const struct store *store = t->store;
	const uint8_t *const marks = store->snapshot.marks;
	const unsigned shift = store->row_shift, generation = store->snapshot.generation;

	store_snapshot_prefetch(t, rows, n);
	for (unsigned i = 0; i < n; i++) {
		const uint64_t at = (uint64_t)rows[i] << shift;

		if (rows[i] < STORE_UNADMITTED &&
		    !(marks[at >> MARK_BYTE_SHIFT] >> ((at >> MARK_SHIFT & 3) * 2 + generation) & 1))
			store_snapshot_first_touch(t, hashes[i], rows[i]);
	}
}

void store_snapshot_made(struct store_table *t, store_row row)
{
	struct snapshot *s = &t->store->snapshot;

	*snapshot_mark(t->store, row) |= snapshot_bit(t->store, row, s->generation);
	note_row(t, s, row);
}

void store_snapshot_gone(struct store_table *t, uint64_t hash, store_row row)
{
	struct snapshot *s = &t->store->snapshot;
	unsigned place;

	if (!snapshot_marked(t->store, row, s->generation))
		save(t, hash, row);
	/* Its memory may soon belong to another row, or be free. */
	place = s->kind && t->snapshot.walk == TABLE_HERE ? place_in_segment(s, hash, row) : s->rows_count;
	if (place < s->rows_count)
		s->rows[place] = s->rows[--s->rows_count];
	unmark(t->store, row, s->generation);
	note_deleted(t, s, row_key(table_row(t, row)));
}

void store_snapshot_ask_full(struct store *store)
{
	stop_logging(&store->snapshot);
}
