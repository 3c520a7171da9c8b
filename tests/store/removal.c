/* SPDX-License-Identifier: BSD-3-Clause */
/* Deletion: rows, their memory and the index. */
#include "tests/store/cases.h"

#include <stdlib.h>

#include "base/prng.h"
#include "store/table.h"

enum { SEGMENT = INDEX_BUCKETS * INDEX_ENTRIES };

static void fill(struct store_table *t, uint64_t first, uint64_t count)
{
	uint64_t keys[STORE_BATCH];
	store_row rows[STORE_BATCH];
	unsigned n;

	for (uint64_t key = first; key < first + count; key += n) {
		n = first + count - key < STORE_BATCH ? (unsigned)(first + count - key) : STORE_BATCH;
		for (unsigned i = 0; i < n; i++)
			keys[i] = key + i;
		if (!CHECK_UINT(store_find(t, keys, n, STORE_PULL, 0, rows), 0))
			break;
	}
}

/* Deletes keys from..to of each ten. */
static void delete_tenths(struct store_table *t, uint64_t count, unsigned from, unsigned to)
{
	uint64_t keys[STORE_BATCH];
	unsigned n = 0;

	for (uint64_t key = 0; key < count; key++) {
		if (key % 10 >= from && key % 10 < to)
			keys[n++] = key;
		if (n == STORE_BATCH || key == count - 1) {
			CHECK_UINT(store_delete(t, keys, n), n);
			n = 0;
		}
	}
}

void deleted_rows_are_gone(void)
{
	enum { KEYS = 20000 };
	struct fixture f = fixture_open(8 << 20);
	struct store_table *t = table_of(&f, "t", 5, OPTIM_ADAGRAD);
	const float gradient[5] = { 1, 2, 3, 4, 5 };
	uint64_t keys[4] = { 7, 7, KEYS + 1, 8 };
	float initial[5];

	CHECK_UINT(store_delete(t, keys, 4), 0);
	fill(t, 0, KEYS);
	push_one(t, 7, gradient, 1);
	CHECK_UINT(store_delete(t, keys, 4), 2);
	CHECK_UINT(store_delete(t, keys, 0), 0);
	CHECK_UINT(find_one(t, 7, STORE_LOOK), STORE_NO_ROW);
	CHECK_UINT(find_one(t, 8, STORE_LOOK), STORE_NO_ROW);
	CHECK(find_one(t, 9, STORE_LOOK) != STORE_NO_ROW);
	CHECK_UINT(store_table_stats(t)->deleted, 2);
	CHECK_UINT(store_table_stats(t)->rows, store_table_stats(t)->created - 2);
	/* A new row of a key knows nothing of the old one. */
	store_initial(t, 7, initial);
	CHECK_MEM(values_of(t, find_one(t, 7, STORE_PULL)), initial, sizeof(initial));
	CHECK_NEAR(slots_of(t, find_one(t, 7, STORE_LOOK))[4], 0.125, 0);
	fixture_close(&f);
}

/* The memory that the store reports is what the arena has given, and a table that shrank can grow without taking any
 * more. */
void deleted_rows_memory_comes_back(void)
{
	enum { ROWS = 300000, DIM = 6 };
	struct fixture f = fixture_open(40 << 20);
	struct store_table *t = table_of(&f, "t", DIM, OPTIM_SGD);
	const struct store_stats *stats = store_table_stats(t);
	const struct arena *arena = &f.store->arena;
	const uint64_t row_bytes = sizeof(uint64_t) + DIM * sizeof(float);
	uint64_t taken, full;
	unsigned segments;

	fill(t, 0, ROWS);
	full = stats->memory_bytes;
	segments = t->index.segments;
	CHECK_UINT(arena_taken(arena), full);
	delete_tenths(t, ROWS, 1, 10);
	CHECK_UINT(stats->rows, (ROWS + 9) / 10);
	/* Index pages are joined: at most a third as full as they may be. */
	CHECK(t->index.segments < segments / 4 && t->index.segments > stats->rows / SEGMENT);
	CHECK_UINT(stats->free_bytes, (ROWS - stats->rows) * row_bytes);
	taken = arena_taken(arena);
	CHECK_UINT(stats->memory_bytes + stats->free_bytes, taken);
	CHECK_UINT(taken, full - (uint64_t)(segments - t->index.segments) * ARENA_PAGE);
	/* Other keys: the same memory does. */
	fill(t, UINT64_C(1) << 40, ROWS - stats->rows);
	CHECK_NEAR((double)arena_taken(arena), (double)full, 0.02 * (double)full);
	CHECK(stats->free_bytes < taken / 50);
	CHECK(stats->moved_max <= SEGMENT);
	fixture_close(&f);
}

/* All of it, many times over: neither index nor rows leak. */
void filling_and_emptying_leaks_nothing(void)
{
	enum { ROWS = 50048 }; /* whole batches */
	struct fixture f = fixture_open(8 << 20);
	struct store_table *t = table_of(&f, "t", 8, OPTIM_SGD);
	const struct store_stats *stats = store_table_stats(t);
	uint64_t taken = 0;

	for (unsigned round = 0; round < 10; round++) {
		const uint64_t first = (uint64_t)round << 32;
		uint64_t keys[STORE_BATCH];

		fill(t, first, ROWS);
		if (round == 0)
			taken = f.store->arena.low;
		for (uint64_t key = 0; key < ROWS; key += STORE_BATCH) {
			for (unsigned i = 0; i < STORE_BATCH; i++)
				keys[i] = first + key + i;
			CHECK_UINT(store_delete(t, keys, STORE_BATCH), STORE_BATCH);
		}
		CHECK_UINT(stats->rows, 0);
		CHECK(stats->memory_bytes < 256 << 10);
	}
	CHECK(f.store->arena.low <= taken + 65536);
	CHECK_UINT(stats->created, 10 * ROWS);
	fixture_close(&f);
}

/* A page of the index is a slab of rows once nothing else is left. */
void given_back_pages_serve_rows(void)
{
	struct fixture f = fixture_open(3 << 20);
	struct store_table *t = table_of(&f, "t", 2, OPTIM_SGD), *u = table_of(&f, "u", 6, OPTIM_SGD);
	uint64_t made = 0, more = 0;

	fill(t, 0, 40000);
	while (find_one(u, made, STORE_PULL) != STORE_NO_ROW)
		made++;
	delete_tenths(t, 40000, 0, 10);
	CHECK(store_table_stats(t)->memory_bytes < 128 << 10);
	while (find_one(u, made + more, STORE_PULL) != STORE_NO_ROW)
		more++;
	CHECK(more >= 20 * (ARENA_PAGE / 32));
	for (uint64_t key = 0; key < made + more; key++)
		if (!CHECK(find_one(u, key, STORE_LOOK) != STORE_NO_ROW))
			break;
	fixture_close(&f);
}

/* Keys come and go at random, the walk goes on in between: it meets all that stay. */
void walk_meets_what_stays(void)
{
	enum { KEYS = 30000, LASTING = 3000 };
	struct fixture f = fixture_open(8 << 20);
	struct store_table *t = table_of(&f, "t", 1, OPTIM_SGD);
	static unsigned char met[KEYS];
	struct prng p;

	prng_seed(&p, 21);
	for (unsigned round = 0; round < 30; round++) {
		struct index_walk walk = { 0 };
		unsigned calls = 0, missed = 0;

		for (uint64_t key = 0; key < LASTING; key++)
			find_one(t, key, STORE_PULL);
		memset(met, 0, sizeof(met));
		while (!walk.over && CHECK(++calls < 100000)) {
			store_row rows[INDEX_SEGMENT_ENTRIES];
			const unsigned n = store_index_walk(&t->index, &walk, rows);

			for (unsigned i = 0; i < n; i++)
				met[index_key(&t->index, rows[i])] = 1;
			for (unsigned i = 0; i < 500; i++) {
				/* The number of rows rises and falls, so that segments split and join. */
				const uint64_t key = LASTING + prng_below(&p, KEYS - LASTING);

				if (round / 3 % 2 == 0)
					find_one(t, key, STORE_PULL);
				else
					store_delete(t, &key, 1);
			}
		}
		for (uint64_t key = 0; key < LASTING; key++)
			missed += !met[key];
		CHECK_UINT(missed, 0);
	}
	fixture_close(&f);
}

/* When nothing happens meanwhile, each entry once, also of segments of different depth. */
void quiet_walk_meets_each_once(void)
{
	enum { KEYS = 26000 };
	struct fixture f = fixture_open(8 << 20);
	struct store_table *t = table_of(&f, "t", 1, OPTIM_SGD);
	static unsigned char met[KEYS];
	unsigned mixed = 0;

	for (uint64_t keys = 100; keys <= KEYS; keys += 100) {
		struct index_walk walk = { 0 };
		unsigned wrong = 0;

		fill(t, keys - 100, 100);
		memset(met, 0, sizeof(met));
		while (!walk.over) {
			store_row rows[INDEX_SEGMENT_ENTRIES];
			const unsigned n = store_index_walk(&t->index, &walk, rows);

			for (unsigned i = 0; i < n; i++)
				met[index_key(&t->index, rows[i])]++;
		}
		for (uint64_t key = 0; key < KEYS; key++)
			wrong += met[key] != (key < keys);
		CHECK_UINT(wrong, 0);
		mixed += t->index.segments != t->index.mask + 1;
	}
	CHECK(mixed > 5);
	fixture_close(&f);
}

void versions_rise_over_deletion(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_with(&f, "t", 1, OPTIM_SGD, STAR_FLOAT32, "versions=1");
	const uint64_t key = 5;
	const float gradient = 1;
	uint32_t last = 0;
	struct prng p;

	prng_seed(&p, 22);
	CHECK_UINT(store_version(t, find_one(t, key, STORE_LOOK)), 0);
	CHECK_UINT(store_version(t, find_one(t, key, STORE_PULL)), 1);
	/* A version of 0 is that of no row, even after four billion pushes. */
	*row_word(table_row(t, find_one(t, key, STORE_LOOK)), t->at.version) = UINT32_MAX;
	push_one(t, key, &gradient, 1);
	CHECK_UINT(store_version(t, find_one(t, key, STORE_LOOK)), 1);
	for (unsigned i = 0; i < 2000; i++) {
		uint32_t version;

		switch (prng_below(&p, 4)) {
		case 0:
			push_one(t, 6 + prng_below(&p, 2), &gradient, 1);
			break;
		case 1:
			if (store_delete(t, &key, 1))
				CHECK_UINT(store_version(t, find_one(t, key, STORE_LOOK)), 0);
			version = store_version(t, find_one(t, key, STORE_PULL));
			CHECK(version > last);
			last = version;
			break;
		default:
			last = store_version(t, find_one(t, key, STORE_PULL));
			push_one(t, key, &gradient, 1);
			CHECK_UINT(store_version(t, find_one(t, key, STORE_LOOK)), last + 1);
			last++;
		}
	}
	fixture_close(&f);
}

/* Rows are deleted under a push in flight: what it writes is lost, and nobody else's. */
void push_holds_the_memory_of_deleted_rows(void)
{
	enum { KEYS = 200, DIM = 4 };
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", DIM, OPTIM_ADAGRAD);
	struct store_push *p = open_push(KEYS, KEYS * DIM * sizeof(float));
	uint64_t keys[KEYS], taken;
	float gradients[KEYS * DIM], initial[DIM];

	for (unsigned i = 0; i < KEYS; i++)
		keys[i] = i;
	for (unsigned i = 0; i < KEYS * DIM; i++)
		gradients[i] = 1;
	/* Some memory is free beforehand. */
	fill(t, 7000, 10);
	for (uint64_t key = 7000; key < 7010; key++)
		store_delete(t, &key, 1);
	store_push_begin(p);
	store_push_op(p, t, KEYS);
	CHECK_INT(add_keys(p, t, keys, KEYS, 64), 0);
	fill(t, 8000, 10);
	for (uint64_t key = 7000; key < 7010; key++)
		find_one(t, key, STORE_PULL);
	for (unsigned i = 0; i < KEYS; i += 2)
		CHECK_UINT(store_delete(t, &keys[i], 1), 1);
	CHECK_UINT(store_table_stats(t)->free_bytes, KEYS / 2 * 40);
	for (unsigned i = 0; i < KEYS; i++)
		find_one(t, i % 2 ? 1000 + i : i, STORE_PULL);
	store_push_op(p, table_of(&f, "other", 1, OPTIM_SGD), 1); /* one more operation, never run */
	add_rows(p, t, gradients, STAR_FLOAT32, DIM * sizeof(float), KEYS, 64, NULL);
	for (unsigned i = 0; i < KEYS; i++) {
		const uint64_t key = i % 2 ? 1000 + i : i;

		store_initial(t, key, initial);
		CHECK_MEM(values_of(t, find_one(t, key, STORE_LOOK)), initial, sizeof(initial));
		if (i % 2)
			CHECK_NEAR(slots_of(t, find_one(t, i, STORE_LOOK))[0], 1.125, 0);
	}
	/* Now their memory serves again, and so does what was free before. */
	for (uint64_t key = 8000; key < 8010; key++)
		store_delete(t, &key, 1);
	store_push_begin(p);
	store_push_op(p, t, 1);
	store_delete(t, &(uint64_t){ 7000 }, 1);
	store_push_begin(p);
	taken = f.store->arena.low;
	fill(t, 5000, KEYS / 2 + 11);
	CHECK_UINT(store_table_stats(t)->free_bytes, 0);
	CHECK_UINT(f.store->arena.low, taken);
	store_push_destroy(p);
	fixture_close(&f);
}
