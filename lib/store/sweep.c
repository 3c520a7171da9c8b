/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eviction by age and by weight: walks over a table's index, in slices. Walks by age begin by themselves. Weights are
 * checked on request, as DeepRec does at a checkpoint, because a row that is still learning has a small weight. A row
 * that a push in flight uses may be evicted; its memory is freed when the push ends, and the update has no effect.
 *
 * A table is emptied by such a walk, too: a walk meets every entry that does not change, so all rows that existed at
 * its beginning are gone at its end.
 */
#include "base/probe.h"
#include "store/journal_note.h"
#include "store/snapshot.h"
#include "store/touch.h"

enum {
	AGAIN_SHARE = 16,  /* a walk by age starts again after this fraction of the steps to live */
	TABLES_MAX = 16,   /* checked per slice for one that has work */
	SOME = 16,	   /* rows that are prefetched together */
	SEGMENT_COST = 64, /* the cost of reading a segment of the index, in rows */
	SOME_SLOTS = 1024, /* of a Bloom filter: some microseconds */
};

/* A stamp must not be later than the table's step. A row whose last step is unknown counts as used in the first step
 * that is known. */
static bool is_expired(const struct store_table *t, uint32_t *seen)
{
	if (*seen == 0)
		*seen = t->step ? step_stamp(t->step) : 0;
	return *seen && (uint32_t)t->step - *seen > t->spec.steps_to_live;
}

/* Whether half the sum of squares is below the threshold. */
static bool is_light(const struct store_table *t, const uint8_t *row)
{
	double *doubles = t->store->scratch[0], half = 0;
	const float *floats = (const float *)doubles;
	const void *values = row + t->at.values;

	if (t->wide)
		doubles = (double *)values;
	else if (t->at.master)
		floats = (const float *)(row + t->at.master);
	else if (t->narrow)
		t->converter->to_float((float *)doubles, values, t->dim);
	else
		floats = values;
	for (uint32_t i = 0; i < t->dim; i++) {
		const double x = t->wide ? doubles[i] : (double)floats[i];

		half += x * x / 2;
	}
	return half < (double)t->spec.l2_threshold;
}

/* Rows of a segment that was read in an earlier slice may be deleted by now, or belong to another key; only the index
 * knows. It is asked only about rows that are to be evicted. */
static bool is_there(const struct store_index *ix, store_row row)
{
	const uint64_t key = index_key(ix, row);

	return store_index_find(ix, key, index_hash(key)) == row;
}

/* Called before is_expired changes a row. It does not matter if the row was deleted: nothing in its memory is kept. */
static void note_first_step(struct store_table *t, store_row row)
{
	const uint8_t *record = table_row(t, row);

	if (t->store->snapshot.touching && t->at.seen && t->step && *row_word((uint8_t *)record, t->at.seen) == 0 &&
	    is_there(&t->index, row))
		snapshot_touch(t, index_hash(row_key(record)), row);
}

static unsigned empty_rows(struct store_table *t, const store_row *rows, unsigned n)
{
	unsigned removed = 0;

	for (unsigned i = 0; i < n; i++)
		__builtin_prefetch(table_row(t, rows[i]));
	for (unsigned i = 0; i < n; i++) {
		if (!is_there(&t->index, rows[i]))
			continue;
		store_table_remove(t, index_hash(row_key(table_row(t, rows[i]))), rows[i]);
		removed++;
	}
	t->stats.deleted += removed;
	return removed;
}

static unsigned sweep_rows(struct store_table *t, const store_row *rows, unsigned n)
{
	const bool weigh = t->sweep.weigh && t->spec.l2_threshold > 0;
	unsigned evicted = 0;

	for (unsigned i = 0; i < n; i++)
		__builtin_prefetch(table_row(t, rows[i]));
	for (unsigned i = 0; i < n; i++) {
		uint8_t *row = table_row(t, rows[i]);
		const bool unknown = journal_is_on(t) && t->at.seen && t->step && *row_word(row, t->at.seen) == 0;

		note_first_step(t, rows[i]);
		if (!(t->at.seen && is_expired(t, row_word(row, t->at.seen))) && !(weigh && is_light(t, row))) {
			if (unknown && is_there(&t->index, rows[i]))
				store_journal_row(t, rows[i]);
			continue;
		}
		if (!is_there(&t->index, rows[i]))
			continue;
		store_table_remove(t, index_hash(row_key(row)), rows[i]);
		evicted++;
	}
	t->stats.evicted += evicted;
	if (evicted)
		PROBE(eviction, t->spec.name, evicted, 1);
	return evicted;
}

/* Removes the counts of keys that have waited too long for admission, or all counts. */
static void sweep_counts(struct store_table *t, const store_row *rows, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct filter_count *count = index_record(&t->filter.index, rows[i]);

		if ((t->sweep.empties || is_expired(t, &count->seen)) && is_there(&t->filter.index, rows[i]))
			store_filter_drop(&t->filter, rows[i]);
	}
}

static bool begin_pass(struct store_table *t, bool weigh, bool empties)
{
	const bool counts = t->spec.filter == FILTER_COUNTER && (t->spec.steps_to_live || empties);

	if (t->store->sweeping == t)
		t->store->sweep_rows_count = 0;
	t->sweep = (struct table_sweep){
		.running = true, .weigh = weigh, .empties = empties, .step = t->step, .counts = { .over = !counts }
	};
	return true;
}

/* Deltas do not record what a filter has forgotten. */
static void end_pass(struct store_table *t)
{
	if (t->sweep.empties && t->filtered) {
		store_snapshot_ask_full(t->store);
		if (journal_is_on(t))
			store_journal_cleared(t);
	}
	t->sweep.running = t->sweep.weigh = t->sweep.empties = false;
}

static bool has_work(struct store_table *t)
{
	const uint64_t passed = t->step - t->sweep.step, wanted = t->spec.steps_to_live / AGAIN_SHARE + 1;

	return t->sweep.running || (t->spec.steps_to_live && passed >= wanted && begin_pass(t, false, false));
}

/* Checks some rows of the segment that was read last. */
static unsigned sweep_some(struct store_table *t, unsigned *evicted)
{
	struct store *store = t->store;
	const unsigned n = store->sweep_rows_count < SOME ? store->sweep_rows_count : SOME;
	const store_row *rows = store->sweep_rows + store->sweep_rows_count - n;

	if (t->sweep.counting)
		sweep_counts(t, rows, n);
	else
		*evicted += t->sweep.empties ? empty_rows(t, rows, n) : sweep_rows(t, rows, n);
	store->sweep_rows_count -= n;
	return n;
}

/* Reads the next segment, or ends the pass. */
static void sweep_on(struct store_table *t)
{
	struct store *store = t->store;

	t->sweep.counting = t->sweep.rows.over;
	if (!t->sweep.rows.over)
		store->sweep_rows_count = store_index_walk(&t->index, &t->sweep.rows, store->sweep_rows);
	else if (!t->sweep.counts.over)
		store->sweep_rows_count = store_index_walk(&t->filter.index, &t->sweep.counts, store->sweep_rows);
	else if (!t->sweep.empties || store_filter_bloom_clear(&t->filter, &t->sweep.slot, SOME_SLOTS))
		end_pass(t);
}

unsigned store_sweep(struct store *store, unsigned budget)
{
	unsigned evicted = 0, spent = 0;

	for (unsigned tables = 0; tables < TABLES_MAX && spent < budget; tables++) {
		struct store_table *t = store->sweeping ? store->sweeping : store->tables;

		if (!t)
			break;
		store->sweeping = t;
		while (spent < budget && has_work(t)) {
			if (store->sweep_rows_count) {
				/* Waits until slices of a snapshot have made room for copies. */
				if (!store_snapshot_room(store, store_snapshot_need(t, SOME, STORE_PUSH)))
					return evicted;
				spent += sweep_some(t, &evicted);
			} else {
				sweep_on(t);
				spent += SEGMENT_COST;
			}
		}
		if (!has_work(t))
			store->sweeping = t->next;
	}
	return evicted;
}

void store_sweep_begin(struct store_table *table)
{
	/* A table that is being emptied has nothing to evict. */
	if (!table->sweep.empties)
		begin_pass(table, true, false);
}

void store_empty_begin(struct store_table *table)
{
	begin_pass(table, false, true);
}

uint64_t store_sweep_left(const struct store_table *table)
{
	const struct index_walk *walk = &table->sweep.rows;
	const double share = walk->over ? 0 : 1 - (double)walk->at * 0x1p-64;
	const uint64_t left = (uint64_t)(share * (double)table->stats.rows);

	if (!table->sweep.running)
		return 0;
	return left ? left : 1;
}
