/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A large table through all of its life: filled, pulled, updated, evicted to a tenth, filled again. The memory that the
 * store reports is compared with the kernel's figures, within 2 %. A million rows by default; 50 million with
 * STAR_SOAK=1 in the
 * environment.
 */
#include "tests/store/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "store/table.h"

enum { DIM = 16, ROWS_SHORT = 1000000, ROWS_LONG = 50000000, LIVE_STEPS = 10 };

/* Bytes of the mapping that are in memory, by the kernel's own map of it, in pages that it reports one by one. */
static uint64_t resident(void *memory, size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), some = (size_t)1 << 14;
	unsigned char *map = malloc(some);
	uint64_t pages = 0;

	for (size_t at = 0; at < bytes; at += some * page) {
		const size_t part = bytes - at < some * page ? bytes - at : some * page;

		if (mincore((char *)memory + at, part, map))
			unit_fail(__FILE__, __LINE__, "mincore failed");
		for (size_t i = 0; i < (part + page - 1) / page; i++)
			pages += map[i] & 1;
	}
	free(map);
	return pages * page;
}

static uint64_t key_of(uint64_t i)
{
	return hash_mix(i);
}

/* Pulls keys from..to at a step; all must have rows, or be given some. */
static void pull(struct store_table *t, uint64_t from, uint64_t to, uint64_t stride, uint64_t step)
{
	uint64_t keys[STORE_BATCH];
	store_row rows[STORE_BATCH];
	unsigned n = 0;

	for (uint64_t i = from; i < to; i += stride) {
		keys[n++] = key_of(i);
		if (n < STORE_BATCH && i + stride < to)
			continue;
		if (!CHECK_UINT(store_find(t, keys, n, STORE_PULL, step, rows), 0))
			return;
		n = 0;
	}
}

/* Pushes a gradient of 1 to each of the first rows, in operations as large as requests are. */
static void push_all(struct store_table *t, uint64_t rows)
{
	enum { KEYS = 4096 };
	static float gradients[KEYS][DIM];
	static uint64_t keys[KEYS];
	struct store_push *p = open_push(KEYS, sizeof(gradients));

	for (unsigned i = 0; i < KEYS; i++)
		for (unsigned e = 0; e < DIM; e++)
			gradients[i][e] = 1;
	for (uint64_t at = 0; at < rows; at += KEYS) {
		const unsigned n = rows - at < KEYS ? (unsigned)(rows - at) : KEYS;

		for (unsigned i = 0; i < n; i++)
			keys[i] = key_of(at + i);
		store_push_begin(p);
		store_push_op(p, t, n);
		if (!CHECK_INT(add_keys(p, t, keys, n, STORE_BATCH), 0) ||
		    !CHECK_INT(look_at(p, t, gradients, STAR_FLOAT32, sizeof(gradients[0]), n, STORE_BATCH), 0))
			break;
		add_rows(p, t, gradients, STAR_FLOAT32, sizeof(gradients[0]), n, STORE_BATCH, NULL);
	}
	store_push_destroy(p);
}

static void check_values(struct store_table *t, uint64_t rows, uint64_t stride, float lowered)
{
	float initial[DIM];

	for (uint64_t i = 0; i < rows; i += stride * 997) {
		const store_row row = find_one(t, key_of(i), STORE_LOOK);

		store_initial(t, key_of(i), initial);
		if (!CHECK(row != STORE_NO_ROW) ||
		    !CHECK_NEAR(values_of(t, row)[DIM - 1], initial[DIM - 1] - lowered, 1e-5))
			break;
	}
}

/* With the index pages that are free for anything: the middle of the arena takes no part. */
static uint64_t touched(const struct store_table *t)
{
	return t->stats.memory_bytes + t->stats.free_bytes + t->store->arena.free_bytes;
}

static void check_memory(const struct store_table *t, void *memory, size_t bytes, double row_bytes)
{
	const struct store_stats *stats = store_table_stats(t);
	const double said = (double)touched(t);

	CHECK_NEAR((double)resident(memory, bytes), said, 0.02 * said);
	/* Key, last step and index: what a row takes beside values and slots. */
	CHECK((double)stats->memory_bytes >= (double)stats->rows * row_bytes);
	CHECK((double)stats->memory_bytes <= (double)stats->rows * (row_bytes + 14) * 1.02);
}

void large_table_takes_the_memory_it_says(void)
{
	const uint64_t rows = getenv("STAR_SOAK") ? ROWS_LONG : ROWS_SHORT;
	const double row_bytes = 8 + 8 + 2 * DIM * sizeof(float); /* key, step and padding, value and slot */
	const size_t bytes = (size_t)((double)rows * (row_bytes + 14)) + (16 << 20);
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct star_error err = { 0 };
	struct fixture f = { .memory = memory };
	const struct store_stats *stats;
	struct store_table *t;
	uint64_t taken;

	if (memory == MAP_FAILED) {
		unit_fail(__FILE__, __LINE__, "no address space");
		return;
	}
	madvise(memory, bytes, MADV_NOHUGEPAGE); /* so that what is not touched is not there */
	f.store = store_create(memory, bytes, &err);
	t = table_with(&f, "large", DIM, OPTIM_ADAGRAD, STAR_FLOAT32, "steps_to_live=10");
	stats = store_table_stats(t);
	pull(t, 0, rows, 1, 1);
	check_memory(t, memory, bytes, row_bytes);
	check_values(t, rows, 1, 0);
	pull(t, 0, rows, 7, 1);
	push_all(t, rows);
	check_memory(t, memory, bytes, row_bytes);
	check_values(t, rows, 1, 0.1f / sqrtf(1.125f));
	taken = touched(t);
	CHECK_UINT(stats->rows, rows);

	/* A tenth is used on; the others' time passes. */
	pull(t, 0, rows, 10, LIVE_STEPS + 2);
	while (stats->rows > (rows + 9) / 10 && CHECK(store_sweep_left(t) || stats->rows == rows))
		store_sweep(f.store, 1000);
	CHECK_UINT(stats->rows, (rows + 9) / 10);
	CHECK_UINT(stats->evicted, rows - stats->rows);
	check_values(t, rows, 10, 0.1f / sqrtf(1.125f));
	check_memory(t, memory, bytes, row_bytes);
	CHECK(stats->memory_bytes < taken / 9);
	CHECK_UINT(touched(t), taken);

	/* Others take their place in the same memory. */
	pull(t, rows, 2 * rows - stats->rows, 1, LIVE_STEPS + 2);
	CHECK_UINT(stats->rows, rows);
	CHECK_NEAR((double)touched(t), (double)taken, 0.02 * (double)taken);
	check_memory(t, memory, bytes, row_bytes);
	CHECK(stats->moved_max <= INDEX_SEGMENT_ENTRIES);
	store_destroy(f.store);
	munmap(memory, bytes);
}
