/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking up, creating and deleting rows. */
#include <assert.h>

#include "store/journal_note.h"
#include "store/touch.h"

/* A table up to this size is assumed to stay in the L2 cache. */
enum { CACHED_BYTES = 1 << 20 };

void store_prefetch(const struct store_table *table, store_row row)
{
	if (table->value_lines > table->find_lines && row < STORE_UNADMITTED)
		table_load(table, row, table->value_lines);
}

uint32_t store_table_first_version(const struct store_table *t)
{
	const uint64_t removed = table_removed(t);
	const uint64_t raised = t->stats.pushes + t->pushes_open + t->uncounted;
	const uint32_t version = removed ? (uint32_t)(1 + removed + raised) : 1;

	if (t->sums)
		return 0;
	return version ? version : 1; /* 0 means no row */
}

/* Initializes a row. frequency: how often its key was requested before it was admitted. */
static void fill_row(struct store_table *t, store_row row, uint64_t key, uint32_t frequency)
{
	uint8_t *record = table_row(t, row);
	float *values = t->spec.dtype == STAR_FLOAT32 ? (float *)(record + t->at.values)
			: t->at.master		      ? (float *)(record + t->at.master)
						      : (float *)t->store->scratch[0];

	*(uint64_t *)record = key;
	store_initial_values(&t->initial, key, values, t->dim);
	if (t->spec.dtype != STAR_FLOAT32)
		store_table_store_floats(t, record + t->at.values, values);
	/* Slots do not get the initializer's values: with a negative sum, Adagrad's square root would be NaN. */
	for (unsigned s = 0; s < t->optim.slots; s++) {
		const float first = t->optim.initial_slots[s];

		for (uint32_t i = s * t->dim; i < (s + 1) * t->dim; i++)
			if (t->wide)
				((double *)(record + t->at.slots))[i] = (double)first;
			else
				((float *)(record + t->at.slots))[i] = first;
	}
	for (unsigned w = 0; w < t->optim.words; w++)
		row_word(record, t->at.words)[w] = 0;
	if (t->at.version)
		*row_word(record, t->at.version) = store_table_first_version(t);
	if (t->at.rounds)
		*row_word(record, t->at.rounds) = 0;
	if (t->at.frequency)
		*row_word(record, t->at.frequency) = frequency;
	if (t->at.used)
		*row_word(record, t->at.used) = 0;
	if (t->at.seen)
		*row_word(record, t->at.seen) = 0;
}

/* As store_table_place, without counting. */
static store_row place_row(struct store_table *t, uint64_t hash, uint64_t rows_max, table_insert *insert)
{
	store_row row = STORE_NO_ROW;

	if (t->stats.rows < rows_max)
		row = store_pool_take(&t->pool, t->stats.rows);
	if (row == STORE_NO_ROW && t->evicts && store_evict_one(t, hash))
		row = store_pool_take(&t->pool, t->stats.rows);
	if (row == STORE_NO_ROW)
		return row;
	if (insert(&t->index, hash, row) || (t->evicts && store_evict_near(t, hash) && insert(&t->index, hash, row)))
		return row;
	store_pool_give(&t->pool, row, false);
	return STORE_NO_ROW;
}

store_row store_table_place(struct store_table *t, uint64_t hash, uint64_t rows_max, table_insert *insert)
{
	const store_row row = place_row(t, hash, rows_max, insert);

	if (row == STORE_NO_ROW) {
		t->stats.refused++;
		return row;
	}
	t->stats.rows++;
	t->stats.created++;
	t->store->made++;
	if (t->store->snapshot.touching)
		store_snapshot_made(t, row);
	return row;
}

static store_row make_row(struct store_table *t, uint64_t key, uint64_t hash, uint32_t frequency)
{
	const store_row row = store_table_place(t, hash, t->rows_max, store_index_insert);

	if (row == STORE_NO_ROW)
		return row;
	fill_row(t, row, key, frequency);
	if (!t->policies) /* tables without policies change it at once */
		journal_note_row(t, row);
	return row;
}

void store_table_remove(struct store_table *t, uint64_t hash, store_row row)
{
	if (t->store->snapshot.touching)
		store_snapshot_gone(t, hash, row);
	journal_note_gone(t, row_key(table_row(t, row)));
	store_index_erase(&t->index, hash, row);
	store_pool_give(&t->pool, row, t->pushes_open != 0);
	t->stats.rows--;
}

/* The first row in the bucket that may be the key's, or STORE_NO_ROW. All candidates are prefetched; two are rare. */
static inline __attribute__((always_inline)) store_row candidate(const struct store_table *t,
								 const struct index_bucket *bucket, uint8_t tag,
								 unsigned row_lines)
{
	uint32_t mask = index_match(bucket, tag);
	store_row row;

	if (!mask)
		return STORE_NO_ROW;
	row = bucket->rows[__builtin_ctz(mask)];
	table_load(t, row, row_lines);
	while (mask &= mask - 1)
		table_load(t, bucket->rows[__builtin_ctz(mask)], row_lines);
	return row;
}

void store_prefetch_key(const struct store_table *table, uint64_t key, enum store_find_mode mode, bool imminent)
{
	const uint64_t hash = index_hash(key);
	const struct index_bucket *home;

	if (table->stats.memory_bytes < CACHED_BYTES)
		return;
	home = index_home(&table->index, hash);
	if (imminent)
		candidate(table, home, index_tag(hash), mode == STORE_PUSH ? table->row_lines : table->find_lines);
	else
		table_prefetch(home);
}

/* For each key, prefetches a row that may be its own, or gives STORE_NO_ROW. Works in passes, so that the cache misses
 * of all keys overlap. making: keys without a row will get one. */
static inline __attribute__((always_inline)) void guess(const struct store_table *t, const uint64_t *keys, unsigned n,
							unsigned row_lines, bool making, uint64_t *hashes,
							store_row *rows)
{
	const struct index_bucket *homes[STORE_BATCH], *others[STORE_BATCH];
	uint8_t away[STORE_BATCH];
	unsigned aways = 0;

	for (unsigned i = 0; i < n; i++) {
		hashes[i] = index_hash(keys[i]);
		homes[i] = index_home(&t->index, hashes[i]);
		table_prefetch(homes[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		const uint8_t tag = index_tag(hashes[i]);

		rows[i] = candidate(t, homes[i], tag, row_lines);
		if (rows[i] != STORE_NO_ROW)
			continue;
		if (making)
			index_load_to_learn(&t->index, homes[i]);
		if (homes[i]->strayed) {
			others[aways] = index_other(homes[i], tag);
			table_prefetch(others[aways]);
			away[aways++] = (uint8_t)i;
		}
	}
	for (unsigned i = 0; i < aways; i++)
		rows[away[i]] = candidate(t, others[i], index_tag(hashes[away[i]]), row_lines);
}

/* The rare cases: the candidate belongs to another key, or there was none. */
static store_row find_or_make(struct store_table *t, uint64_t key, uint64_t hash, enum store_find_mode mode)
{
	/* An earlier key of this batch may be the same one, and may have created the row. */
	store_row row = store_index_find(&t->index, key, hash);

	if (row == STORE_NO_ROW && mode != STORE_LOOK) {
		t->stats.missed++;
		row = make_row(t, key, hash, 0);
	}
	return row;
}

static void touch(struct store_table *t, store_row row, enum store_find_mode mode, uint32_t stamp)
{
	uint8_t *record = table_row(t, row);
	uint32_t *used = row_word(record, t->at.used);

	if (t->at.frequency && *row_word(record, t->at.frequency) < UINT32_MAX)
		++*row_word(record, t->at.frequency);
	if (t->at.used)
		*used = t->tick | (mode == STORE_PUSH || table_holds(t, *used));
	if (t->at.seen && stamp)
		*row_word(record, t->at.seen) = stamp;
}

/* A key without a row: counts it, and creates its row if it is admitted. */
static store_row admit(struct store_table *t, uint64_t key, uint64_t hash, uint32_t stamp)
{
	store_row row;
	uint32_t count = 1;

	t->stats.missed++;
	if (t->filtered) {
		count = store_filter_count(&t->filter, key, hash, stamp);
		if (journal_is_on(t) && count)
			store_journal_count(t, key, count, stamp);
		if (count < t->filter.frequency) {
			t->stats.unadmitted++;
			return STORE_UNADMITTED;
		}
	}
	row = make_row(t, key, hash, count - 1);
	if (row != STORE_NO_ROW) {
		t->stats.admitted += t->filtered;
		store_filter_forget(&t->filter, key, hash);
	}
	return row;
}

/* The rest of a look-up in a table with policies. Existing rows are touched before new ones are created, so that no row
 * of this batch is evicted for another. */
static unsigned find_by_policy(struct store_table *t, const uint64_t *keys, const uint64_t *hashes, unsigned n,
			       enum store_find_mode mode, uint64_t step, store_row *rows)
{
	const bool look = mode == STORE_LOOK, touching = !look && snapshot_touches(t, mode);
	uint8_t missing[STORE_BATCH];
	unsigned missings = 0, refused = 0;
	uint32_t stamp;

	if (touching)
		store_snapshot_prefetch(t, rows, n);
	if (!look) {
		t->tick += TABLE_TICK;
		if (step > t->step)
			t->step = step;
	}
	/* The latest step of all workers: rows used by a worker that lags behind, or counts no steps, are in use now
	 * anyway. */
	stamp = t->step ? step_stamp(t->step) : 0;
	for (unsigned i = 0; i < n; i++) {
		if (rows[i] != STORE_NO_ROW && index_key(&t->index, rows[i]) != keys[i])
			rows[i] = store_index_find(&t->index, keys[i], hashes[i]);
		if (rows[i] != STORE_NO_ROW) {
			if (touching)
				snapshot_touch(t, hashes[i], rows[i]);
			if (!look)
				touch(t, rows[i], mode, stamp);
		} else if (look) {
			rows[i] = t->filtered ? STORE_UNADMITTED : STORE_NO_ROW;
		} else {
			missing[missings++] = (uint8_t)i;
			if (t->filtered)
				store_filter_prefetch(&t->filter, keys[i], hashes[i]);
		}
	}
	for (unsigned m = 0; m < missings; m++) {
		const unsigned i = missing[m];

		rows[i] = store_index_find(&t->index, keys[i], hashes[i]);
		if (rows[i] == STORE_NO_ROW)
			rows[i] = admit(t, keys[i], hashes[i], stamp);
		refused += rows[i] == STORE_NO_ROW;
		if (rows[i] < STORE_UNADMITTED)
			touch(t, rows[i], mode, stamp);
	}
	/* A push writes existing rows to the journal when it changes them. If it is refused here, they have been used
	 * anyway. */
	if (journal_is_on(t) && (mode == STORE_PULL || (mode == STORE_PUSH && refused)))
		store_journal_rows(t, rows, n);
	else if (journal_is_on(t) && mode == STORE_PUSH)
		for (unsigned m = 0; m < missings; m++)
			store_journal_rows(t, &rows[missing[m]], 1);
	return refused;
}

static inline __attribute__((always_inline)) unsigned find_rows(struct store_table *table, const uint64_t *keys,
								unsigned n, enum store_find_mode mode, uint64_t step,
								store_row *rows)
{
	uint64_t hashes[STORE_BATCH];
	unsigned missing = 0;

	guess(table, keys, n, table->find_lines, mode != STORE_LOOK && !table->filtered, hashes, rows);
	if (table->policies)
		return find_by_policy(table, keys, hashes, n, mode, step, rows);
	for (unsigned i = 0; i < n; i++) {
		if (rows[i] == STORE_NO_ROW || index_key(&table->index, rows[i]) != keys[i])
			rows[i] = find_or_make(table, keys[i], hashes[i], mode);
		missing += rows[i] == STORE_NO_ROW;
	}
	if (table->store->snapshot.touching && mode == STORE_PUSH)
		store_snapshot_touch_rows(table, hashes, rows, n);
	return mode == STORE_LOOK ? 0 : missing;
}

static __attribute__((noinline)) unsigned find_in_passes(struct store_table *table, const uint64_t *keys, unsigned n,
							 enum store_find_mode mode, uint64_t step, store_row *rows)
{
	return find_rows(table, keys, n, mode, step, rows);
}

/*
 * Looks up one key whose row is in its home bucket, in a table where nothing else is to be done. False: use the passes.
 */
static inline bool find_usual(const struct store_table *t, uint64_t key, enum store_find_mode mode, store_row *found)
{
	const uint64_t hash = index_hash(key);
	const struct index_bucket *home;
	store_row row;

	if (t->policies || (t->store->snapshot.touching && mode == STORE_PUSH))
		return false;
	home = index_home(&t->index, hash);
	row = candidate(t, home, index_tag(hash), t->find_lines);
	if (row == STORE_NO_ROW || index_key(&t->index, row) != key)
		return false;
	*found = row;
	return true;
}

unsigned store_find(struct store_table *table, const uint64_t *keys, unsigned n, enum store_find_mode mode,
		    uint64_t step, store_row *rows)
{
	assert(n <= STORE_BATCH);
	/* A single key needs no passes. */
	return n == 1 && find_usual(table, keys[0], mode, rows) ? 0 : find_in_passes(table, keys, n, mode, step, rows);
}

unsigned store_delete(struct store_table *table, const uint64_t *keys, unsigned n)
{
	uint64_t hashes[STORE_BATCH];
	store_row rows[STORE_BATCH];
	unsigned deleted = 0;

	assert(n <= STORE_BATCH);
	guess(table, keys, n, 1, false, hashes, rows);
	for (unsigned i = 0; i < n; i++) {
		/* Looked up again, because an earlier key of this batch may have deleted the row; then its first word
		 * may be a link of the free list. */
		const store_row row = store_index_find(&table->index, keys[i], hashes[i]);

		if (row == STORE_NO_ROW)
			continue;
		store_table_remove(table, hashes[i], row);
		deleted++;
	}
	table->stats.deleted += deleted;
	return deleted;
}
