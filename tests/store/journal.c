/* SPDX-License-Identifier: BSD-3-Clause */
/* What a store writes to a journal makes another store the same. */
#include "tests/store/snapshots.h"

#include <stdio.h>

#include "store/journal.h"

static struct shots shots;
static struct image want, found;

/* Applies what the ring has to the tables that have those ids; forgets it. */
static void apply(struct journal_ring *ring, struct store_table *const *tables, unsigned count)
{
	while (ring->tail != ring->head) {
		const struct journal_record *record = (const struct journal_record *)journal_at(ring, ring->tail);
		struct checkpoint_run run;
		const uint8_t *rows = (const uint8_t *)(record + 1) + sizeof(run);
		struct store_table *t = NULL;
		struct star_error err = { 0 };
		uint32_t object;

		memcpy(&object, record + 1, sizeof(object));
		for (unsigned i = 0; i < count; i++)
			if (object_wire_id(store_table_spec(tables[i])) == object)
				t = tables[i];
		if (record->kind != JOURNAL_MARK && !CHECK(t))
			return;
		if (record->kind == JOURNAL_CLEARED)
			store_load_cleared(t);
		memcpy(&run, record + 1, sizeof(run));
		run.object = object_id_of(run.object);
		for (uint32_t done = 0; record->kind == JOURNAL_RUN && done < run.count; done += STORE_LOAD_MAX) {
			const uint32_t left = run.count - done, n = left < STORE_LOAD_MAX ? left : STORE_LOAD_MAX;

			if (!CHECK_INT(store_load(t, &run, rows + (size_t)done * run.row_bytes, n, &err), 0))
				printf("# %s\n", err.text);
		}
		ring->tail += record->bytes;
	}
}

static void compare(struct journal_ring *ring, struct store_table **tables)
{
	store_journal_tables(shots.store);
	journal_mark(ring);
	apply(ring, tables, SHOT_TABLES);
	image_take(&shots, shots.tables, &want);
	image_take(&shots, tables, &found);
	image_is(&shots, &want, &found);
	for (unsigned i = 0; i < SHOT_TABLES; i++) {
		CHECK_UINT(found.pushes[i], want.pushes[i]);
		CHECK_UINT(tables[i]->stats.rows, shots.tables[i]->stats.rows);
	}
}

/* Pushes, pulls, deletes and sweeps of tables of nine kinds, with rows that go while a push holds them. */
static void run_seed(uint64_t seed)
{
	struct store_table *tables[SHOT_TABLES];
	struct fixture f = shots_tables(tables);
	struct journal_ring *ring = journal_ring_create(64 << 20, 1, NULL);

	shots_open(&shots, seed, STORE_SNAPSHOT_COPIES_MIN, 1 << 20);
	store_journal_begin(shots.store, ring);
	for (unsigned round = 0; round < 8; round++) {
		for (unsigned i = 0; i < 40; i++)
			shots_operate(&shots);
		if (round == 3)
			shots_grow(&shots);
		if (round == 5)
			shots_shrink(&shots);
		compare(ring, tables);
	}
	CHECK(!ring->lost);
	shots_close(&shots);
	fixture_close(&f);
	journal_ring_destroy(ring);
}

void a_journal_makes_the_same_store(void)
{
	unit_seeds(10, 300, run_seed);
}

/* Keys that wait: after the journal they wait for as much longer; and after a table was emptied for all. */
void a_journal_counts_who_waits(void)
{
	static const char *const filters[] = { "filter=counter, filter_frequency=4",
					       "filter=bloom, filter_frequency=4, filter_keys=1000" };

	for (unsigned i = 0; i < 2; i++) {
		struct fixture f = fixture_open(8 << 20), g = fixture_open(8 << 20);
		struct store_table *a = table_with(&f, "t", 2, OPTIM_SGD, STAR_FLOAT32, filters[i]),
				   *b = table_with(&g, "t", 2, OPTIM_SGD, STAR_FLOAT32, filters[i]);
		struct journal_ring *ring = journal_ring_create(1, 1, NULL);
		store_row row;

		store_journal_begin(f.store, ring);
		for (uint64_t key = 0; key < 50; key++)
			for (uint64_t times = 0; times < key % 4; times++)
				store_find(a, &key, 1, STORE_PULL, 0, &row);
		apply(ring, &b, 1);
		for (uint64_t key = 0; key < 50; key++)
			for (uint64_t times = key % 4; times < 4; times++) {
				store_find(b, &key, 1, STORE_PULL, 0, &row);
				if (times < 3)
					CHECK_UINT(row, STORE_UNADMITTED);
				else
					CHECK(row < STORE_UNADMITTED);
			}
		store_empty_begin(a);
		while (store_sweep_left(a))
			store_sweep(f.store, 64);
		apply(ring, &b, 1);
		for (uint64_t key = 100; key < 103; key++) {
			store_find(b, &key, 1, STORE_PULL, 0, &row);
			CHECK_UINT(row, STORE_UNADMITTED);
		}
		for (uint64_t key = 3; key < 50; key += 4) { /* had come three times */
			store_delete(b, &key, 1);
			store_find(b, &key, 1, STORE_PULL, 0, &row);
			CHECK_UINT(row, STORE_UNADMITTED);
		}
		journal_ring_destroy(ring);
		fixture_close(&f);
		fixture_close(&g);
	}
}

/* A sweep takes a row that a push has found: what the push makes of its memory is nobody's row. */
void a_row_that_went_under_a_push_stays_away(void)
{
	struct fixture f = fixture_open(8 << 20), g = fixture_open(8 << 20);
	struct store_table *a = table_of(&f, "t", 4, OPTIM_SGD), *b = table_of(&g, "t", 4, OPTIM_SGD);
	struct journal_ring *ring = journal_ring_create(1, 1, NULL);
	struct store_push *push = store_push_create(8, 1024, NULL);
	const uint64_t keys[3] = { 5, 6, 7 };
	float gradient[4] = { 1, 1, 1, 1 };
	const void *gradients[3] = { gradient, gradient, gradient };

	store_journal_begin(f.store, ring);
	store_push_begin(push);
	CHECK_INT(store_push_keys(push, a, keys, 3, 0), 0);
	CHECK_UINT(store_delete(a, &keys[1], 1), 1);
	store_push_rows(push, a, gradients, STAR_FLOAT32, 3);
	store_push_finish(push, a, UINT32_MAX);
	apply(ring, &b, 1);
	CHECK_UINT(store_table_stats(a)->rows, 2);
	CHECK_UINT(store_table_stats(b)->rows, 2);
	for (unsigned i = 0; i < 3; i++) {
		store_row rows[2];

		store_find(a, &keys[i], 1, STORE_LOOK, 0, &rows[0]);
		store_find(b, &keys[i], 1, STORE_LOOK, 0, &rows[1]);
		CHECK_INT(rows[1] == STORE_NO_ROW, rows[0] == STORE_NO_ROW);
		if (rows[0] != STORE_NO_ROW)
			CHECK_MEM(store_values(b, rows[1], STAR_FLOAT32), store_values(a, rows[0], STAR_FLOAT32), 16);
	}
	store_push_destroy(push);
	journal_ring_destroy(ring);
	fixture_close(&f);
	fixture_close(&g);
}
