/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots against plain copies of all rows, taken at the same instants while random operations go on: what slices
 * wrote is loaded into fresh stores, and must be what was copied.
 */
#include "tests/store/snapshots.h"

#include <stdio.h>
#include <stdlib.h>

static struct shots shots;
static struct image image, found;

/* Each row once; in a delta only those that somebody named. */
static bool check_capture(const struct shots *s, struct capture *c, const bool touched[SHOT_TABLES][SHOT_KEYS])
{
	static bool seen[SHOT_TABLES][SHOT_KEYS];
	const struct checkpoint_run *run;
	const uint8_t *records;
	bool rows = false;
	size_t at = 0;

	memset(seen, 0, sizeof(seen));
	while ((run = capture_next(c, &at, &records))) {
		c->rows += run->kind == CHECKPOINT_ROWS ? run->count : 0;
		c->deleted += run->kind == CHECKPOINT_DELETED ? run->count : 0;
		c->counts += run->kind == CHECKPOINT_COUNTS ? run->count : 0;
		rows |= run->kind == CHECKPOINT_ROWS;
		if (!CHECK(run->kind == CHECKPOINT_ROWS || run->kind == CHECKPOINT_COUNTS ||
			   run->kind == CHECKPOINT_BLOOM || !rows))
			return false;
		for (uint32_t i = 0; run->kind == CHECKPOINT_ROWS && i < run->count; i++) {
			const uint64_t key = row_key(records + (size_t)i * run->row_bytes);
			unsigned k = 0;

			while (k < SHOT_KEYS && s->keys[k] != key)
				k++;
			if (!CHECK(k < SHOT_KEYS && !seen[run->object - 1][k] &&
				   (!touched || touched[run->object - 1][k])))
				return false;
			seen[run->object - 1][k] = true;
		}
	}
	return true;
}

/* Several captures, one after the other, are the image. */
static bool check_chain(const struct shots *s, struct capture *chain, unsigned n, unsigned shards)
{
	static struct store_table *tables[16][SHOT_TABLES];
	static struct image part;
	struct fixture f[16];
	bool same;

	for (unsigned i = 0; i < shards; i++)
		f[i] = shots_tables(tables[i]);
	for (unsigned c = 0; c < n; c++)
		capture_load(s, &chain[c], tables, shards);
	image_take(s, tables[0], &found);
	for (unsigned i = 1; i < shards; i++) {
		image_take(s, tables[i], &part);
		for (unsigned t = 0; t < SHOT_TABLES; t++)
			for (unsigned k = 0; k < SHOT_KEYS; k++)
				if (capture_shard(s->tables[t], s->keys[k], shards) == i)
					found.rows[t][k] = part.rows[t][k];
				else
					CHECK(!part.rows[t][k].there);
	}
	same = image_is(s, &image, &found);
	for (unsigned i = 0; i < shards; i++) {
		for (unsigned t = 0; t < SHOT_TABLES; t++)
			same = same && CHECK_UINT(tables[i][t]->step, image.step[t]) &&
			       CHECK_UINT(tables[i][t]->stats.pushes, image.pushes[t]);
		fixture_close(&f[i]);
	}
	return same;
}

static void operate(unsigned operations)
{
	for (unsigned i = 0; i < operations; i++)
		shots_operate(&shots);
}

/* Begins one, with an image of the same instant. */
static bool begin(enum store_snapshot_kind kind, struct capture *c)
{
	if (!shots_begin(&shots, kind, c))
		return false;
	image_take(&shots, shots.tables, &image);
	return true;
}

/* All of it, while operations go on. */
static bool finish(struct capture *c, unsigned operations)
{
	operate(operations);
	if (!CHECK(shots_finish(&shots)))
		return false;
	CHECK_UINT(store_snapshot_progress(shots.store).left, 0);
	return true;
}

static bool full_is_the_image(unsigned operations)
{
	struct capture c;
	bool good = CHECK(begin(STORE_SNAPSHOT_FULL, &c)) && finish(&c, operations) &&
		    check_capture(&shots, &c, NULL) && CHECK_UINT(store_snapshot_progress(shots.store).rows, c.rows) &&
		    check_chain(&shots, &c, 1, 1);

	store_snapshot_end(shots.store, good);
	capture_free(&c);
	return good;
}

void snapshots_are_of_one_instant(void)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		bool good = true;

		shots_open(&shots, seed, STORE_SNAPSHOT_COPIES_MIN, 0);
		shots.slice_rows = seed % 2 ? 40 : 400;
		for (unsigned i = 0; i < 5 && good; i++) {
			operate(400);
			good = full_is_the_image(600);
		}
		CHECK(!store_snapshot_delta_possible(shots.store));
		CHECK(!shots.store->snapshot.touching);
		shots_close(&shots);
		if (!good) {
			printf("# seed %llu\n", (unsigned long long)seed);
			break;
		}
	}
}

void snapshots_wait_for_room(void)
{
	for (uint64_t seed = 10; seed < 13; seed++) {
		bool good = true;

		/* Hardly more than one batch. */
		shots_open(&shots, seed, 100 << 10, 0);
		shots.slice_rows = 100;
		for (unsigned i = 0; i < 4 && good; i++) {
			operate(400);
			good = full_is_the_image(300);
		}
		CHECK(shots.waits > 0);
		shots_close(&shots);
		if (!good) {
			printf("# seed %llu\n", (unsigned long long)seed);
			break;
		}
	}
}

void deltas_follow_a_full_snapshot(void)
{
	static bool touched[SHOT_TABLES][SHOT_KEYS];
	static const unsigned shards[] = { 1, 2, 5, 16 };

	for (uint64_t seed = 20; seed < 25; seed++) {
		struct capture chain[6] = { { 0 } };
		bool good = true;

		shots_open(&shots, seed, seed % 2 ? STORE_SNAPSHOT_COPIES_MIN : 100 << 10, 2 << 20);
		operate(500);
		CHECK(!store_snapshot_delta_possible(shots.store));
		for (unsigned i = 0; i < 6 && good; i++) {
			memcpy(touched, shots.touched, sizeof(touched));
			good = CHECK(begin(i ? STORE_SNAPSHOT_DELTA : STORE_SNAPSHOT_FULL, &chain[i])) &&
			       finish(&chain[i], i % 3 * 150) && check_capture(&shots, &chain[i], i ? touched : NULL);
			/* Operations between the last slice and the end belong to the next. */
			operate(20);
			store_snapshot_end(shots.store, true);
			good = good && check_chain(&shots, chain, i + 1, shards[i % 4]);
			good = good && CHECK(store_snapshot_delta_possible(shots.store));
			operate(i == 3 ? 0 : 40);
		}
		CHECK(chain[2].deleted > 0);
		for (unsigned i = 0; i < 6; i++)
			capture_free(&chain[i]);
		shots_close(&shots);
		if (!good) {
			printf("# seed %llu\n", (unsigned long long)seed);
			break;
		}
	}
}

void log_overflow_allows_full_snapshots_only(void)
{
	struct capture c;

	shots_open(&shots, 30, STORE_SNAPSHOT_COPIES_MIN, 4096);
	operate(300);
	full_is_the_image(0);
	CHECK(store_snapshot_delta_possible(shots.store));
	for (unsigned i = 0; i < 100 && store_snapshot_delta_possible(shots.store); i++)
		operate(1);
	CHECK(!store_snapshot_delta_possible(shots.store));
	CHECK(!shots.store->snapshot.touching);
	CHECK(!begin(STORE_SNAPSHOT_DELTA, &c));
	full_is_the_image(0);
	CHECK(store_snapshot_delta_possible(shots.store));
	/* One that overflows while the snapshot is written is of no use afterwards. */
	full_is_the_image(300);
	CHECK(!store_snapshot_delta_possible(shots.store));
	shots_close(&shots);
}

void snapshots_are_given_up(void)
{
	struct capture c;

	for (uint64_t seed = 40; seed < 44; seed++) {
		shots_open(&shots, seed, STORE_SNAPSHOT_COPIES_MIN, 1 << 20);
		operate(500);
		full_is_the_image(100);
		for (unsigned i = 0; i < 6; i++) {
			const enum store_snapshot_kind kind = i % 2 ? STORE_SNAPSHOT_DELTA : STORE_SNAPSHOT_FULL;

			/* In the middle, or after its last slice, with what was written not kept. */
			CHECK(begin(kind, &c));
			operate(i * 10);
			if (i >= 4)
				shots_finish(&shots);
			shots.capture = NULL;
			store_snapshot_end(shots.store, false);
			capture_free(&c);
			CHECK(!store_snapshot_delta_possible(shots.store) && !shots.store->snapshot.touching);
			operate(i % 3 * 30);
			if (!full_is_the_image(200))
				break;
		}
		shots_close(&shots);
	}
}

/* Nobody asks for room: the snapshot is lost, and nothing else is. */
void snapshots_are_lost_without_room(void)
{
	struct capture c;
	store_row rows[STORE_BATCH];

	shots_open(&shots, 50, 8 << 10, 0);
	operate(1000);
	CHECK(begin(STORE_SNAPSHOT_FULL, &c));
	CHECK(!store_snapshot_lost(shots.store));
	for (unsigned k = 0; k + STORE_BATCH <= SHOT_KEYS && !store_snapshot_lost(shots.store); k += STORE_BATCH)
		store_delete(shots.tables[0], shots.keys + k, STORE_BATCH);
	CHECK(store_snapshot_lost(shots.store));
	CHECK(store_snapshot_room(shots.store, UINT64_MAX / 2));
	CHECK_UINT(store_find(shots.tables[0], shots.keys, STORE_BATCH, STORE_PULL, 0, rows), 0);
	shots_slice(&shots);
	CHECK(c.over);
	shots.capture = NULL;
	store_snapshot_end(shots.store, true);
	CHECK(!store_snapshot_delta_possible(shots.store));
	capture_free(&c);
	shots.store->snapshot.copies_bytes = STORE_SNAPSHOT_COPIES_MIN;
	full_is_the_image(100);
	shots_close(&shots);
}

/* A sweep that may not copy waits, and goes on. */
void sweeps_are_put_off(void)
{
	struct capture c;
	uint64_t rows;

	shots_open(&shots, 60, 20 << 10, 0);
	operate(300);
	for (unsigned k = 0; k + STORE_BATCH <= SHOT_KEYS; k += STORE_BATCH) {
		store_row row[STORE_BATCH];

		store_find(shots.tables[6], shots.keys + k, STORE_BATCH, STORE_PULL, shots.step, row);
	}
	shots.step += 1000;
	store_find(shots.tables[6], shots.keys, 1, STORE_PULL, shots.step, (store_row[1]){ 0 });
	CHECK(begin(STORE_SNAPSHOT_FULL, &c));
	rows = shots.tables[6]->stats.rows;
	CHECK(rows > 3000);
	for (unsigned i = 0; i < 1000; i++)
		store_sweep(shots.store, 1000);
	CHECK(!store_snapshot_lost(shots.store));
	CHECK(shots.tables[6]->stats.rows < rows && shots.tables[6]->stats.rows > rows / 2);
	while (!c.over) {
		shots_slice(&shots);
		store_sweep(shots.store, 1000);
	}
	CHECK(shots_finish(&shots));
	for (unsigned i = 0; i < 1000; i++)
		store_sweep(shots.store, 1000);
	CHECK_UINT(shots.tables[6]->stats.rows, 1);
	CHECK(check_chain(&shots, &c, 1, 1));
	store_snapshot_end(shots.store, true);
	capture_free(&c);
	shots_close(&shots);
}

/* A chain that goes on over an emptying has neither rows nor counts from before. */
void emptied_tables_stay_empty_in_deltas(void)
{
	static const unsigned emptied[] = { 0, 3, 5, 7 }; /* the last two have filters */

	for (unsigned i = 0; i < sizeof(emptied) / sizeof(emptied[0]); i++) {
		struct store_table *loaded[1][SHOT_TABLES], *t;
		struct fixture f = shots_tables(loaded[0]);
		struct capture chain[2] = { { 0 } };
		const bool filtered = i >= 2;

		shots_open(&shots, 90 + i, STORE_SNAPSHOT_COPIES_MIN, 2 << 20);
		t = shots.tables[emptied[i]];
		operate(500);
		CHECK(begin(STORE_SNAPSHOT_FULL, &chain[0]));
		/* Emptied while the full one is written, which has all rows of its instant. */
		store_empty_begin(t);
		for (unsigned slices = 0; i % 2 && store_sweep_left(t) && CHECK(slices < 100000); slices++) {
			store_sweep(shots.store, 16);
			shots_slice(&shots);
		}
		CHECK(finish(&chain[0], 0));
		CHECK(check_capture(&shots, &chain[0], NULL));
		store_snapshot_end(shots.store, true);
		for (unsigned slices = 0; store_sweep_left(t) && CHECK(slices < 100000); slices++)
			store_sweep(shots.store, 16);
		CHECK_UINT(t->stats.rows, 0);
		CHECK(store_snapshot_delta_possible(shots.store) == !filtered);
		CHECK(begin(filtered ? STORE_SNAPSHOT_FULL : STORE_SNAPSHOT_DELTA, &chain[1]));
		CHECK(finish(&chain[1], 0));
		store_snapshot_end(shots.store, true);
		for (unsigned c = filtered; c < 2; c++)
			capture_load(&shots, &chain[c], loaded, 1);
		CHECK_UINT(loaded[0][emptied[i]]->stats.rows, 0);
		CHECK_UINT(loaded[0][emptied[i]]->filter.keys, 0);
		CHECK_UINT(loaded[0][1]->stats.rows, shots.tables[1]->stats.rows);
		for (unsigned c = 0; c < 2; c++)
			capture_free(&chain[c]);
		shots_close(&shots);
		fixture_close(&f);
	}
}
