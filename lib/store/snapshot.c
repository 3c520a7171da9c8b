/* SPDX-License-Identifier: BSD-3-Clause */
/* The beginning and end of a snapshot. */
#include "store/snapshot.h"

#include <errno.h>
#include <string.h>

#include "store/touch.h"

enum {
	CLEAR_BYTES = 64 << 10, /* marks per call, which takes some microseconds */
	CLEAR_STEP = 64,
};

size_t store_snapshot_memory(size_t arena_bytes)
{
	return ((arena_bytes >> MARK_BYTE_SHIFT) + CLEAR_STEP - 1) / CLEAR_STEP * CLEAR_STEP;
}

int store_snapshot_init(struct store *store, const struct store_snapshot_options *options, struct star_error *err)
{
	struct snapshot *s = &store->snapshot;

	if (!options->marks)
		return 0;
	if (!options->copies || options->copies_bytes < options->log_bytes ||
	    options->copies_bytes - options->log_bytes < STORE_SNAPSHOT_COPIES_MIN)
		return star_error_set(
			err, -EINVAL,
			"%zu bytes for the rows that change while a checkpoint is written, %zu of them for "
			"the list of what changes between two: %d beside these at least",
			options->copies_bytes, options->log_bytes, STORE_SNAPSHOT_COPIES_MIN);
	s->marks = options->marks;
	s->marks_bytes = store_snapshot_memory(store->arena.high);
	s->copies = options->copies;
	s->log_slots = options->log_bytes / sizeof(uint64_t);
	s->copies_bytes = options->copies_bytes / sizeof(uint64_t) * sizeof(uint64_t) - s->log_slots * sizeof(uint64_t);
	s->log = (uint64_t *)(s->copies + s->copies_bytes);
	return 0;
}

bool store_snapshot_possible(const struct store *store)
{
	return store->snapshot.marks != NULL;
}

bool store_snapshot_delta_possible(const struct store *store)
{
	return !store->snapshot.kind && store->snapshot.based && store->snapshot.logging;
}

/* Marks exist for the memory that rows may lie in, which is what was taken from the arena's ends. */
static uint64_t marked_from(const struct store *store, uint64_t at)
{
	const struct arena *arena = &store->arena;
	const uint64_t low = arena->low >> MARK_BYTE_SHIFT, high = arena->high >> MARK_BYTE_SHIFT;

	return at >= low && at < high ? high / CLEAR_STEP * CLEAR_STEP : at;
}

bool store_snapshot_ready(struct store *store)
{
	struct snapshot *s = &store->snapshot;
	const uint64_t others = UINT64_C(0x5555555555555555) << s->generation; /* bits of the generation in use */

	if (s->kind || !s->marks)
		return false;
	for (unsigned cleared = 0; s->dirty && cleared < CLEAR_BYTES; cleared += CLEAR_STEP) {
		uint64_t *words;

		s->clean_at = marked_from(store, s->clean_at);
		s->dirty = s->clean_at < s->marks_bytes;
		if (!s->dirty)
			break;
		words = (uint64_t *)(s->marks + s->clean_at);
		for (unsigned i = 0; i < CLEAR_STEP / sizeof(*words); i++)
			if (words[i])
				words[i] &= others;
		s->clean_at += CLEAR_STEP;
	}
	return !s->dirty;
}

/* Records the state of all tables at the snapshot's instant. */
static void note_tables(struct store *store, bool full)
{
	struct snapshot *s = &store->snapshot;

	s->record_max = 0;
	for (struct store_table *t = store->tables; t; t = t->next) {
		t->snapshot = (struct table_snapshot){ .walk = full ? TABLE_AHEAD : TABLE_PAST,
						       .tick = t->tick,
						       .step = t->step,
						       .pushes = t->stats.pushes,
						       /* Both counts keep versions from being used again. */
						       .removed = table_removed(t) + t->uncounted };
		if (t->at.record > s->record_max)
			s->record_max = t->at.record;
		s->total += full ? t->stats.rows : 0;
	}
	s->first = s->table = store->tables;
}

static bool push_in_flight(const struct store *store)
{
	for (const struct store_table *t = store->tables; t; t = t->next)
		if (t->pushes_open)
			return true;
	return false;
}

bool store_snapshot_begin(struct store *store, enum store_snapshot_kind kind)
{
	struct snapshot *s = &store->snapshot;
	const bool full = kind == STORE_SNAPSHOT_FULL;

	if (!s->marks || s->kind || s->dirty || push_in_flight(store))
		return false;
	if (!full && (kind != STORE_SNAPSHOT_DELTA || !store_snapshot_delta_possible(store)))
		return false;
	s->kind = (uint8_t)kind;
	s->phase = SNAPSHOT_TABLES;
	s->generation = !s->generation;
	s->lost = false;
	if (full) {
		s->log_tail = s->log_head;
		s->log_deleted = 0;
	}
	s->log_scan = s->log_ahead = s->log_tail;
	s->log_split = s->log_head;
	s->logging = s->log_slots > 0;
	s->touching = true;
	s->copies_tail = s->copies_head = 0;
	s->walk = (struct index_walk){ 0 };
	s->from = 0;
	s->rows_count = 0;
	s->written = s->deleted = s->copied = s->put_off = s->step = 0;
	s->total = s->log_split - s->log_tail;
	note_tables(store, full);
	return true;
}

void store_snapshot_end(struct store *store, bool kept)
{
	struct snapshot *s = &store->snapshot;
	const bool done = s->phase == SNAPSHOT_OVER && !s->lost;

	if (!s->kind)
		return;
	s->based = kept && done;
	s->logging = s->logging && s->based;
	s->touching = s->logging;
	/* A delta that was written completely has cleared its marks itself. */
	s->dirty = s->kind == STORE_SNAPSHOT_FULL || !done;
	s->clean_at = 0;
	s->kind = 0;
}

bool store_snapshot_lost(const struct store *store)
{
	return store->snapshot.lost;
}

uint64_t store_snapshot_need(const struct store_table *table, unsigned n, enum store_find_mode mode)
{
	const uint64_t copy = sizeof(struct snapshot_copy) + table->at.record;

	if (!table->store->snapshot.kind || !snapshot_touches(table, mode))
		return 0;
	/* A key may cause copies of its own row, or of one or two rows that are evicted for it. */
	return n * copy * (table->evicts ? 2 : 1);
}

bool store_snapshot_room(struct store *store, uint64_t need)
{
	struct snapshot *s = &store->snapshot;
	const uint64_t waiting = s->copies_head - s->copies_tail;

	if (need == 0 || !s->kind || s->lost || waiting == 0)
		return true;
	if (waiting + need + sizeof(struct snapshot_copy) + s->record_max <= s->copies_bytes)
		return true;
	s->put_off++;
	return false;
}

struct store_snapshot_progress store_snapshot_progress(const struct store *store)
{
	const struct snapshot *s = &store->snapshot;

	return (struct store_snapshot_progress){
		.rows = s->written,
		.deleted = s->deleted,
		.left = !s->kind || s->phase == SNAPSHOT_OVER || s->written >= s->total ? 0 : s->total - s->written,
		.copied = s->copied,
		.put_off = s->put_off,
		.step = s->step,
	};
}
