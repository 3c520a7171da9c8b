/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes room for a new row by evicting an old one from the buckets around the new row's bucket. Of the first dozen rows
 * or so there, which are a random sample as the hash is random, the least recently used one is evicted (LRU), or the
 * least frequently used one (LFU; the least recently used one of equals). Redis's sampled LRU is close to an exact one
 * with ten samples. There is no list to maintain, the work is bounded, and the index need not grow for the new row.
 */
#include "base/probe.h"
#include "store/journal_note.h"
#include "store/snapshot.h"
#include "store/touch.h"

enum {
	SAMPLE = 8, /* buckets are added until they have this many rows ... */
	SAMPLE_MAX = SAMPLE + INDEX_ENTRIES,
	BUCKETS_MAX = 2 * INDEX_BUCKETS, /* ... or this many were read: usually two or three are enough */
	BUCKET_BIT = 40,		 /* of the hash */
	SEGMENTS_MAX = 256,		 /* read to find one with rows if none is near: 2 MiB, hardly ever */
};

static uint32_t used(const struct store_table *t, store_row row)
{
	return *row_word(table_row(t, row), t->at.used);
}

static uint32_t age(const struct store_table *t, store_row row)
{
	return t->tick + 1 - used(t, row);
}

/* A row that a push in flight, or the current look-up, uses. */
static bool is_pinned(const struct store_table *t, store_row row)
{
	return age(t, row) < TABLE_TICK || table_holds(t, used(t, row));
}

static bool worth_less(const struct store_table *t, store_row a, store_row b)
{
	if (t->at.frequency) {
		const uint32_t count_a = *row_word(table_row(t, a), t->at.frequency);
		const uint32_t count_b = *row_word(table_row(t, b), t->at.frequency);

		if (count_a != count_b)
			return count_a < count_b;
	}
	return age(t, a) > age(t, b);
}

static unsigned take_bucket(const struct store_table *t, const struct index_bucket *bucket, store_row *rows)
{
	unsigned n = 0;

	for (uint32_t mask = index_used(bucket); mask; mask &= mask - 1) {
		rows[n] = bucket->rows[__builtin_ctz(mask)];
		__builtin_prefetch(table_row(t, rows[n++]));
	}
	return n;
}

/* The least valuable of n rows that is not pinned; STORE_NO_ROW: all are. */
static store_row choose_victim(const struct store_table *t, const store_row *rows, unsigned n)
{
	store_row least = STORE_NO_ROW;

	for (unsigned i = 0; i < n; i++)
		if (!is_pinned(t, rows[i]) && (least == STORE_NO_ROW || worth_less(t, rows[i], least)))
			least = rows[i];
	return least;
}

/* Begins with the new key's bucket. If that is full, its own rows are enough, so evicting one of them makes room. */
static store_row choose_near(const struct store_table *t, uint64_t hash)
{
	store_row rows[SAMPLE_MAX], least = STORE_NO_ROW;
	unsigned n = 0;

	/* The buckets of the segment, then those of the next one, which the hash's low bits select. */
	for (unsigned i = 0; i < BUCKETS_MAX && least == STORE_NO_ROW; i++) {
		const uint64_t near = hash + i / INDEX_BUCKETS + ((uint64_t)(i % INDEX_BUCKETS) << BUCKET_BIT);

		n += take_bucket(t, index_home(&t->index, near), rows + n);
		if (n >= SAMPLE) {
			least = choose_victim(t, rows, n);
			n = 0;
		}
	}
	return least != STORE_NO_ROW ? least : choose_victim(t, rows, n);
}

/* If keys came in the order of a walk, as from an import, their rows are in a few adjacent segments of the index. These
 * are visited in turn, each with a random sample, and then again from the first. */
static store_row choose_far(struct store_table *t)
{
	store_row rows[INDEX_SEGMENT_ENTRIES], least = STORE_NO_ROW;
	bool gap = false;

	for (unsigned i = 0; i < SEGMENTS_MAX && least == STORE_NO_ROW; i++) {
		const uint64_t at = t->victims.at;
		const unsigned n = store_index_walk(&t->index, &t->victims, rows);
		const unsigned from = n > SAMPLE ? index_hash(t->stats.evicted) % (n - SAMPLE + 1) : 0;

		t->victims.over = false; /* the walk begins again */
		if (n == 0 && !gap)
			t->victims.at = t->victims_from;
		else if (gap)
			t->victims_from = at;
		gap = n == 0;
		least = choose_victim(t, rows + from, n < SAMPLE ? n : SAMPLE);
	}
	return least;
}

static bool evict(struct store_table *t, store_row row)
{
	uint64_t hash;

	if (row == STORE_NO_ROW)
		return false;
	hash = index_hash(index_key(&t->index, row));
	if (t->store->snapshot.touching)
		store_snapshot_gone(t, hash, row);
	journal_note_gone(t, row_key(table_row(t, row)));
	/* Its memory is free at once, despite pushes in flight, as none of them uses it. */
	store_index_erase(&t->index, hash, row);
	store_pool_give(&t->pool, row, false);
	t->stats.rows--;
	t->stats.evicted++;
	PROBE(eviction, t->spec.name, 1, 0);
	return true;
}

bool store_evict_near(struct store_table *t, uint64_t hash)
{
	return evict(t, choose_near(t, hash));
}

bool store_evict_one(struct store_table *t, uint64_t hash)
{
	return store_evict_near(t, hash) || evict(t, choose_far(t));
}

unsigned store_trim(struct store_table *table, unsigned budget)
{
	unsigned evicted = 0, passed = 0;

	if (!table->evicts || table->stats.rows <= table->rows_max)
		return 0;
	/* The last look-up has ended: its rows may be evicted, too. */
	table->tick += TABLE_TICK;
	while (evicted < budget && table->stats.rows > table->rows_max && passed <= table->index.segments)
		if (store_evict_one(table, index_hash(table->stats.evicted))) {
			evicted++;
			passed = 0;
		} else {
			passed += SEGMENTS_MAX;
		}
	return evicted;
}
