/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables are dropped: what they had of the arena is there for others, and nothing of them is left in snapshots. */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "store/table.h"
#include "tests/store/cases.h"
#include "tests/store/snapshots.h"

enum { DROP_ARENA = 4 << 20 };

/* Rows of many keys, by two pulls each, as filters want it, until the store refuses some. */
static uint64_t fill_up(struct store_table *t, uint64_t first)
{
	uint64_t keys[STORE_BATCH];
	store_row rows[STORE_BATCH];
	unsigned refused = 0;

	for (uint64_t key = first; !refused; key += STORE_BATCH) {
		for (unsigned i = 0; i < STORE_BATCH; i++)
			keys[i] = key + i;
		refused = store_find(t, keys, STORE_BATCH, STORE_PULL, 0, rows);
		refused += store_find(t, keys, STORE_BATCH, STORE_PULL, 0, rows);
	}
	return t->stats.rows;
}

/* All that dropped tables leave behind. */
static uint64_t spare_bytes(const struct store *store)
{
	uint64_t bytes = 0;

	for (const struct store_table *t = store->arena.spare; t; t = t->next)
		bytes += arena_rounded(sizeof(*t));
	return bytes;
}

/* One table fills the arena, again and again, in another shape each time: as many rows fit as at first, about: pieces
 * that are given back on demand lie in another order. */
void dropped_tables_memory_is_used_again(void)
{
	static const struct {
		uint32_t dim;
		unsigned optimizer, dtype;
		const char *options;
	} shapes[] = {
		{ 8, OPTIM_ADAM, STAR_FLOAT32, NULL },
		{ 1, OPTIM_SGD, STAR_FLOAT16, NULL },
		{ WIRE_DIM_MAX, OPTIM_ADAM, STAR_FLOAT64, NULL },
		{ 300, OPTIM_ADAGRAD, STAR_FLOAT32, "versions=1" },
		{ 16, OPTIM_SGD, STAR_FLOAT32, "filter=counter, filter_frequency=2" },
		{ 16, OPTIM_SGD, STAR_FLOAT32, "filter=bloom, filter_frequency=2, filter_keys=20000" },
	};
	enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };
	struct fixture f = fixture_open(DROP_ARENA);
	uint64_t first[SHAPES] = { 0 };

	for (unsigned round = 0; round < 100; round++) {
		const unsigned shape = round % SHAPES;
		struct store_table *t = table_with(&f, "t", shapes[shape].dim, shapes[shape].optimizer,
						   shapes[shape].dtype, shapes[shape].options);
		uint64_t rows;

		rows = fill_up(t, (uint64_t)round << 32);
		if (!first[shape])
			first[shape] = rows;
		if (!CHECK_NEAR((double)rows, (double)first[shape], (double)first[shape] * 0.08))
			break;
		store_table_drop(t);
		/* Every other time the next one has to get it by itself. */
		while (round % 2 && store_reclaim(f.store, 16))
			;
	}
	while (store_reclaim(f.store, 16))
		;
	CHECK_UINT(arena_taken(&f.store->arena), spare_bytes(f.store));
	fixture_close(&f);
}

/* Some of several tables go, in any order, while others grow and shrink: other tables' rows are not harmed, and nothing
 * is lost. */
void tables_come_and_go_beside_others(void)
{
	enum { TABLES = 6, STEPS = 4000 };
	struct fixture f = fixture_open(12 * DROP_ARENA);
	struct store_table *tables[TABLES] = { NULL };
	uint64_t made[TABLES] = { 0 };
	struct prng prng;

	prng_seed(&prng, 17);
	for (unsigned step = 0; step < STEPS; step++) {
		const unsigned i = (unsigned)prng_below(&prng, TABLES);
		uint64_t keys[STORE_BATCH];
		store_row rows[STORE_BATCH];

		store_reclaim(f.store, (unsigned)prng_below(&prng, 4));
		if (!tables[i]) {
			tables[i] = table_of(&f, "t", (uint32_t)(1 + prng_below(&prng, 500)), OPTIM_SGD);
			made[i] = 0;
			continue;
		}
		if (prng_below(&prng, 40) == 0) {
			store_table_drop(tables[i]);
			tables[i] = NULL;
			continue;
		}
		for (unsigned k = 0; k < STORE_BATCH; k++)
			keys[k] = made[i] + k;
		if (prng_below(&prng, 4) == 0 && made[i] >= STORE_BATCH) {
			for (unsigned k = 0; k < STORE_BATCH; k++)
				keys[k] = made[i] - 1 - k;
			made[i] -= STORE_BATCH;
			CHECK_UINT(store_delete(tables[i], keys, STORE_BATCH), STORE_BATCH);
		} else if (made[i] < 3000) {
			made[i] += STORE_BATCH;
			CHECK_UINT(store_find(tables[i], keys, STORE_BATCH, STORE_PULL, 0, rows), 0);
		}
	}
	for (unsigned i = 0; i < TABLES; i++) {
		float initial[500];

		for (uint64_t key = 0; tables[i] && key < made[i]; key++) {
			const store_row row = find_one(tables[i], key, STORE_LOOK);

			store_initial(tables[i], key, initial);
			if (!CHECK(row != STORE_NO_ROW) ||
			    !CHECK_MEM(values_of(tables[i], row), initial, tables[i]->dim * sizeof(float)))
				break;
		}
		if (tables[i])
			store_table_drop(tables[i]);
	}
	while (store_reclaim(f.store, 1))
		;
	CHECK_UINT(arena_taken(&f.store->arena), spare_bytes(f.store));
	fixture_close(&f);
}

/* Sums of a table, in a store beside it, go back to the same arena. */
void dropped_sums_leave_nothing(void)
{
	struct fixture f = fixture_open(DROP_ARENA);
	struct star_error err = { 0 };
	struct store *beside = store_create_beside(f.store, &err);
	uint64_t taken = 0;

	for (unsigned round = 0; round < 20; round++) {
		struct store_table *t = table_of(&f, "t", 64, OPTIM_SGD), *sums;
		struct object_spec spec = spec_of("sums", 64, OPTIM_SGD);

		sums = store_table_create(beside, &spec, 1, &err);
		fill_up(sums, 0);
		store_table_drop(sums);
		store_table_drop(t);
		while (store_reclaim(f.store, 16))
			;
		if (round == 0)
			taken = arena_taken(&f.store->arena);
		CHECK_UINT(arena_taken(&f.store->arena), taken);
	}
	store_destroy(beside);
	fixture_close(&f);
}

/* A table is dropped before, during and after a snapshot: that one is lost, and the next full one has the others' rows
 * and no other. What is made in its memory afterwards is in the delta that follows. */
void snapshots_know_nothing_of_dropped_tables(void)
{
	static struct shots shots;

	for (unsigned when = 0; when < 4; when++) {
		struct store_table *loaded[1][SHOT_TABLES], *made;
		struct fixture f = shots_tables(loaded[0]);
		struct capture chain[3] = { { 0 } };
		struct object_spec spec = spec_of("made", 3, OPTIM_SGD);
		size_t at = 0;
		const uint8_t *records;
		const struct checkpoint_run *run;
		uint64_t delta_rows = 0;
		store_row row;
		struct star_error err;

		shots_open(&shots, 300 + when, STORE_SNAPSHOT_COPIES_MIN, 2 << 20);
		for (unsigned i = 0; i < 500; i++)
			shots_operate(&shots);
		shots.capture = NULL;
		CHECK(shots_begin(&shots, STORE_SNAPSHOT_FULL, &chain[0]));
		for (unsigned slices = 0; slices < when * 3; slices++)
			shots_slice(&shots);
		if (when == 3)
			CHECK(shots_finish(&shots));
		spec.id = shots.tables[1]->spec.id;
		store_table_drop(shots.tables[1]);
		CHECK(store_snapshot_lost(shots.store));
		shots.capture = NULL;
		store_snapshot_end(shots.store, true);
		CHECK(!store_snapshot_delta_possible(shots.store));
		made = store_table_create(shots.store, &spec, 1, &err);
		while (store_reclaim(shots.store, 16))
			;
		CHECK(shots_begin(&shots, STORE_SNAPSHOT_FULL, &chain[1]));
		CHECK(shots_finish(&shots));
		shots.capture = NULL;
		store_snapshot_end(shots.store, true);
		while ((run = capture_next(&chain[1], &at, &records)))
			CHECK(run->object != spec.id || run->kind == CHECKPOINT_TABLE);
		/* Its rows lie where the dropped table's were. */
		for (uint64_t key = 0; key < 2000; key++)
			CHECK_UINT(store_find(made, &key, 1, STORE_PULL, 0, &row), 0);
		CHECK(shots_begin(&shots, STORE_SNAPSHOT_DELTA, &chain[2]));
		CHECK(shots_finish(&shots));
		shots.capture = NULL;
		store_snapshot_end(shots.store, true);
		for (at = 0; (run = capture_next(&chain[2], &at, &records));)
			delta_rows += run->object == spec.id && run->kind == CHECKPOINT_ROWS ? run->count : 0;
		CHECK_UINT(delta_rows, 2000);
		for (unsigned i = 0; i < 3; i++)
			free(chain[i].bytes);
		shots_close(&shots);
		fixture_close(&f);
	}
}
