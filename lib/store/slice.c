/* SPDX-License-Identifier: BSD-3-Clause */
/* A snapshot's slices: runs of records. */
#include <assert.h>
#include <string.h>

#include "store/snapshot.h"
#include "store/touch.h"
#include "wire/checkpoint.h"

enum {
	ROWS_AHEAD = 12,	/* prefetched */
	BYTES_PER_ROW = 256,	/* longer ones count as several */
	SEGMENT_COST = 64,	/* the cost of reading a segment of the index, in rows */
	SLOTS_OF_A_ROW = 16,	/* slots of the log, which is read sequentially */
	LOG_AHEAD = ROWS_AHEAD, /* slots */
};

/* The output of a slice. */
struct out {
	uint8_t *at;
	size_t left, written;
	struct checkpoint_run *run; /* the current run, or NULL */
	int64_t budget;		    /* rows */
	bool full;
};

/* Room for one record in a run of its own kind; NULL: there is none. */
static void *take_record(struct out *o, const struct store_table *t, unsigned kind, uint32_t bytes)
{
	const bool same = o->run && o->run->object == t->spec.id && o->run->kind == kind && o->run->row_bytes == bytes;
	const size_t head = same ? 0 : sizeof(*o->run);
	void *record;

	if (head + bytes > o->left) {
		o->full = true;
		return NULL;
	}
	if (!same) {
		o->run = (struct checkpoint_run *)o->at;
		*o->run = (struct checkpoint_run){ .object = t->spec.id, .kind = (uint16_t)kind, .row_bytes = bytes };
		o->at += head;
	}
	o->run->count++;
	record = o->at;
	o->at += bytes;
	o->left -= head + bytes;
	o->written += head + bytes;
	o->budget -= 1 + bytes / BYTES_PER_ROW;
	return record;
}

static void write_table(struct snapshot *s, struct out *o)
{
	const struct store_table *t = s->table;
	const struct checkpoint_table table = { .step = t->snapshot.step,
						.pushes = t->snapshot.pushes,
						.removed = t->snapshot.removed,
						.looks = t->snapshot.tick / TABLE_TICK };
	void *record = take_record(o, t, CHECKPOINT_TABLE, sizeof(table));

	if (!record)
		return;
	memcpy(record, &table, sizeof(table));
	if (table.step > s->step)
		s->step = table.step;
	s->table = t->next;
	o->run = NULL; /* one run each, even if there are two tables with one id */
}

static uint64_t slot_at(const struct snapshot *s, uint64_t position)
{
	return s->log[position % s->log_slots];
}

static void write_deleted(struct store *store, struct out *o)
{
	struct snapshot *s = &store->snapshot;

	for (unsigned i = 0; i < SLOTS_OF_A_ROW && s->log_scan != s->log_split; i++) {
		const uint64_t slot = slot_at(s, s->log_scan);
		void *record;

		if ((store_row)slot != STORE_NO_ROW) {
			s->log_scan++;
			continue;
		}
		record = take_record(o, snapshot_table(store, (uint32_t)(slot >> 32)), CHECKPOINT_DELETED,
				     sizeof(uint64_t));
		if (!record)
			return;
		memcpy(record, &(uint64_t){ slot_at(s, s->log_scan + 1) }, sizeof(uint64_t));
		s->log_scan += 2;
		s->deleted++;
	}
	o->budget--;
}

static void *take_snapshot_row(struct snapshot *s, struct out *o, const struct store_table *t)
{
	void *record = take_record(o, t, CHECKPOINT_ROWS, t->at.record);

	s->written += record != NULL;
	return record;
}

/* Writes the first of the copied rows. */
static void write_copy(struct store *store, struct out *o)
{
	struct snapshot *s = &store->snapshot;
	const uint64_t at = s->copies_tail % s->copies_bytes;
	const struct snapshot_copy *copy = (const struct snapshot_copy *)(s->copies + at);
	void *record;

	if (copy->table == SNAPSHOT_WRAP) {
		s->copies_tail += s->copies_bytes - at;
		return;
	}
	record = take_snapshot_row(s, o, snapshot_table(store, copy->table));
	if (!record)
		return;
	memcpy(record, copy + 1, copy->bytes);
	s->copies_tail += sizeof(*copy) + copy->bytes;
	if (s->copies_tail == s->copies_head)
		s->copies_tail = s->copies_head = 0;
}

/* Removes rows that the walk has met before, which happens in a segment that was merged from two since. */
static unsigned keep_new(const struct store_index *ix, store_row *rows, unsigned n, uint64_t from)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++) {
		if (i + ROWS_AHEAD < n)
			table_prefetch(index_record(ix, rows[i + ROWS_AHEAD]));
		if (index_order(index_hash(index_key(ix, rows[i]))) >= from)
			rows[kept++] = rows[i];
	}
	return kept;
}

static void read_segment(struct snapshot *s, struct store_index *ix, struct out *o)
{
	const uint64_t from = s->walk.at;
	const unsigned depth = index_depth(ix, index_order(from));
	const bool joined = depth < 64 && from << depth;

	s->from = from;
	s->rows_count = store_index_walk(ix, &s->walk, s->rows);
	if (joined)
		s->rows_count = keep_new(ix, s->rows, s->rows_count, from);
	o->budget -= SEGMENT_COST;
}

/* Writes the last of the segment's remaining rows. */
static void write_row(struct store *store, struct out *o)
{
	struct snapshot *s = &store->snapshot;
	const struct store_table *t = s->table;
	const store_row row = s->rows[s->rows_count - 1];
	void *record;

	if (s->rows_count > ROWS_AHEAD) {
		const store_row next = s->rows[s->rows_count - 1 - ROWS_AHEAD];

		table_load_once(t, next, t->row_lines);
		table_prefetch(snapshot_mark(store, next));
	}
	if (!snapshot_marked(store, row, s->generation)) {
		record = take_snapshot_row(s, o, t);
		if (!record)
			return;
		store_record_write(t, table_row(t, row), record, t->snapshot.tick);
	} else {
		o->budget--;
	}
	s->rows_count--;
}

static void write_rows(struct store *store, struct out *o)
{
	struct snapshot *s = &store->snapshot;
	struct store_table *t = s->table;

	t->snapshot.walk = TABLE_HERE;
	if (s->rows_count) {
		write_row(store, o);
	} else if (!s->walk.over) {
		read_segment(s, &t->index, o);
	} else {
		t->snapshot.walk = TABLE_PAST;
		s->table = t->next;
		s->walk = (struct index_walk){ 0 };
		s->from = 0;
		o->budget--;
	}
}

/* Prefetches rows that the log will come to soon. */
static void load_logged(struct store *store)
{
	struct snapshot *s = &store->snapshot;

	while (s->log_ahead != s->log_split && s->log_ahead - s->log_tail < LOG_AHEAD) {
		const uint64_t slot = slot_at(s, s->log_ahead);
		const store_row row = (store_row)slot;
		const struct store_table *t = snapshot_table(store, (uint32_t)(slot >> 32));

		if (row == STORE_NO_ROW) {
			s->log_ahead += 2;
			continue;
		}
		table_load_once(t, row, t->row_lines);
		table_prefetch(snapshot_mark(store, row));
		s->log_ahead++;
	}
}

/* Writes the next row of the log. If it has no mark, it was copied, or was deleted. */
static void write_logged(struct store *store, struct out *o)
{
	struct snapshot *s = &store->snapshot;
	const uint64_t slot = slot_at(s, s->log_tail);
	const store_row row = (store_row)slot;
	const unsigned generation = !s->generation;

	if (row == STORE_NO_ROW) {
		s->log_tail += 2;
		o->budget--;
		return;
	}
	load_logged(store);
	if (snapshot_marked(store, row, generation)) {
		const struct store_table *t = snapshot_table(store, (uint32_t)(slot >> 32));
		void *record = take_snapshot_row(s, o, t);

		if (!record)
			return;
		store_record_write(t, table_row(t, row), record, t->snapshot.tick);
		*snapshot_mark(store, row) &= (uint8_t)~snapshot_bit(store, row, generation);
	} else {
		o->budget--;
	}
	s->log_tail++;
}

/* Writes a Bloom filter slot by slot: the slot's blocks, from number `from` on. */
static void write_bloom(struct snapshot *s, struct out *o)
{
	const struct filter *f = &s->table->filter;

	for (unsigned i = 0; i < SLOTS_OF_A_ROW && s->walk.at < f->slots; i++) {
		const uint8_t *counters = store_filter_bloom_block(f, (uint32_t)s->walk.at, &s->from);
		struct checkpoint_bloom *block;

		if (!counters) {
			s->walk.at++;
			s->from = 0;
			continue;
		}
		block = take_record(o, s->table, CHECKPOINT_BLOOM, sizeof(*block));
		if (!block)
			return;
		block->number = s->from++;
		memcpy(block->counters, counters, sizeof(block->counters));
	}
	s->walk.over = s->walk.at >= f->slots;
	o->budget--;
}

/* Writes the counts of keys that wait for admission. Those read in an earlier slice may be gone, or belong to other
 * keys. */
static void write_counts(struct snapshot *s, struct out *o)
{
	struct store_index *ix = &s->table->filter.index;
	const struct filter_count *count;
	void *record;

	if (s->rows_count) {
		count = index_record(ix, s->rows[s->rows_count - 1]);
		if (s->rows_count > ROWS_AHEAD)
			table_prefetch(index_record(ix, s->rows[s->rows_count - 1 - ROWS_AHEAD]));
		if (store_index_find(ix, count->key, index_hash(count->key)) == s->rows[s->rows_count - 1]) {
			record = take_record(o, s->table, CHECKPOINT_COUNTS, sizeof(*count));
			if (!record)
				return;
			memcpy(record, count, sizeof(*count));
		}
		s->rows_count--;
		o->budget--;
	} else if (s->table->spec.filter == FILTER_COUNTER && !s->walk.over) {
		s->rows_count = store_index_walk(ix, &s->walk, s->rows);
		o->budget -= SEGMENT_COST;
	} else if (s->table->spec.filter == FILTER_BLOOM && !s->walk.over) {
		write_bloom(s, o);
	} else {
		s->table = s->table->next;
		s->walk = (struct index_walk){ 0 };
		o->budget--;
	}
}

/* Goes on to the next phase when the current one has nothing left. */
static void next_phase(struct snapshot *s)
{
	const bool full = s->kind == STORE_SNAPSHOT_FULL;

	s->phase = s->phase == SNAPSHOT_TABLES	       ? SNAPSHOT_DELETED
		   : s->phase == SNAPSHOT_DELETED      ? SNAPSHOT_ROWS
		   : s->phase == SNAPSHOT_ROWS && full ? SNAPSHOT_COUNTS
						       : SNAPSHOT_OVER;
	s->table = s->first;
	s->walk = (struct index_walk){ 0 };
	s->from = 0;
}

static void step_snapshot(struct store *store, struct out *o)
{
	struct snapshot *s = &store->snapshot;
	const bool full = s->kind == STORE_SNAPSHOT_FULL;

	if (s->phase == SNAPSHOT_TABLES && s->table)
		write_table(s, o);
	else if (s->phase == SNAPSHOT_DELETED && s->log_scan != s->log_split)
		write_deleted(store, o);
	else if (s->phase == SNAPSHOT_ROWS && s->copies_tail != s->copies_head)
		write_copy(store, o);
	else if (s->phase == SNAPSHOT_ROWS && full && s->table)
		write_rows(store, o);
	else if (s->phase == SNAPSHOT_ROWS && !full && s->log_tail != s->log_split)
		write_logged(store, o);
	else if (s->phase == SNAPSHOT_COUNTS && s->table)
		write_counts(s, o);
	else
		next_phase(s);
}

size_t store_snapshot_slice(struct store *store, void *to, size_t bytes, unsigned rows, bool *over)
{
	struct snapshot *s = &store->snapshot;
	struct out o = { .at = to, .left = bytes, .budget = rows };

	assert(bytes >= STORE_SNAPSHOT_SLICE_MIN);
	while (s->kind && s->phase != SNAPSHOT_OVER && !s->lost && o.budget > 0 && !o.full)
		step_snapshot(store, &o);
	*over = !s->kind || s->phase == SNAPSHOT_OVER || s->lost;
	return o.written;
}
