/* SPDX-License-Identifier: BSD-3-Clause */
/* Eviction by age and by weight, in slices. */
#include "tests/store/cases.h"

#include "base/prng.h"
#include "store/table.h"

/* Pulls at a step. */
static void use(struct store_table *t, uint64_t first, uint64_t count, uint64_t step)
{
	for (uint64_t key = first; key < first + count; key++) {
		store_row row;

		CHECK_UINT(store_find(t, &key, 1, STORE_PULL, step, &row), 0);
	}
}

/* Slices until nothing is left to do for a while. */
static unsigned sweep_all(struct fixture *f, unsigned budget)
{
	unsigned evicted = 0;

	for (unsigned slices = 0; slices < 2000; slices++)
		evicted += store_sweep(f->store, budget);
	return evicted;
}

void old_rows_are_swept_away(void)
{
	struct fixture f = fixture_open(4 << 20);
	struct store_table *t = table_with(&f, "t", 4, OPTIM_SGD, STAR_FLOAT32, "steps_to_live=100"),
			   *u = table_with(&f, "u", 4, OPTIM_SGD, STAR_FLOAT32, "steps_to_live=10"),
			   *plain = table_of(&f, "plain", 4, OPTIM_SGD);

	/* No step is known yet: nothing ages. */
	use(t, 0, 5000, 0);
	use(plain, 0, 100, 0);
	CHECK_UINT(sweep_all(&f, 50), 0);
	use(t, 5000, 1000, 1000);
	CHECK_UINT(sweep_all(&f, 50), 0); /* those of no step count from now on */
	use(t, 0, 2000, 1050);
	use(t, 6000, 1, 1100);
	CHECK_UINT(sweep_all(&f, 50), 0);
	use(t, 6000, 1, 1101);
	CHECK_UINT(sweep_all(&f, 50), 0); /* a walk begins every seventh step, here */
	use(t, 6000, 1, 1107);
	CHECK_UINT(sweep_all(&f, 50), 4000);
	CHECK_UINT(store_table_stats(t)->rows, 2001);
	CHECK_UINT(store_table_stats(t)->evicted, 4000);
	/* Steps that go back make nothing younger or older. */
	use(t, 6000, 1, 3);
	use(u, 0, 10, 4);
	CHECK_UINT(sweep_all(&f, 50), 0);
	/* A long run: the low half of the step is kept. */
	use(t, 6000, 1, UINT64_C(0x1fffffff0));
	CHECK_UINT(sweep_all(&f, 50), 2000);
	use(t, 7000, 10, UINT64_C(0x200000000));
	use(t, 6000, 1, UINT64_C(0x20000000f));
	CHECK_UINT(sweep_all(&f, 50), 0);
	use(t, 6000, 1, UINT64_C(0x200000080));
	CHECK_UINT(sweep_all(&f, 50), 10);
	CHECK_UINT(store_table_stats(t)->rows, 1);
	CHECK_UINT(store_table_stats(u)->rows, 10);
	CHECK_UINT(store_table_stats(plain)->rows, 100);
	fixture_close(&f);
}

void keys_that_wait_too_long_are_forgotten(void)
{
	struct fixture f = fixture_open(4 << 20);
	struct store_table *t =
		table_with(&f, "t", 4, OPTIM_SGD, STAR_FLOAT32, "steps_to_live=50, filter=counter, filter_frequency=2");
	const struct store_stats *stats = store_table_stats(t);
	uint64_t taken;

	use(t, 0, 30000, 1);
	CHECK_UINT(t->filter.keys, 30000);
	taken = stats->memory_bytes;
	use(t, 0, 10, 40);
	use(t, 100000, 1, 70);
	sweep_all(&f, 50);
	CHECK_UINT(t->filter.keys, 1);
	CHECK_UINT(stats->rows, 10);
	CHECK(stats->memory_bytes + stats->free_bytes < taken + 8192 && stats->memory_bytes < taken / 4);
	CHECK_UINT(find_one(t, 20, STORE_PULL), STORE_UNADMITTED);
	fixture_close(&f);
}

/* Weight counts when somebody asks; a slice does the given amount of work and no more. */
void light_rows_are_swept_when_asked(void)
{
	enum { KEYS = 6000 };
	static const unsigned types[] = { STAR_FLOAT32, STAR_FLOAT64, STAR_FLOAT16, STAR_SCALED_INT8 };

	for (unsigned i = 0; i < 4; i++) {
		struct fixture f = fixture_open(4 << 20);
		struct store_table *t = table_with(&f, "t", 8, OPTIM_SGD, types[i],
						   i == 2 ? "l2_threshold=1.5, master=1" : "l2_threshold=1.5");
		unsigned heavy = 0, left = 0, slices = 0, evicted = 0;

		use(t, 0, KEYS, 1);
		CHECK_UINT(sweep_all(&f, 100), 0);
		store_sweep_begin(t);
		CHECK_UINT(store_sweep_left(t), KEYS);
		while (store_sweep_left(t) && CHECK(slices < KEYS)) {
			const unsigned some = store_sweep(f.store, 100);

			CHECK(some <= 100 + 64);
			evicted += some;
			slices++;
		}
		CHECK(slices > KEYS / 200);
		for (uint64_t key = 0; key < KEYS; key++) {
			double values[8], half = 0;
			const store_row row = find_one(t, key, STORE_LOOK);

			/* Values before an update are the initial ones. */
			store_read(t, row, key, STAR_FLOAT64, values);
			for (unsigned e = 0; e < 8; e++)
				half += values[e] * values[e] / 2;
			heavy += half >= 1.5;
			left += row != STORE_NO_ROW;
			CHECK((row != STORE_NO_ROW) == (half >= 1.5) || fabs(half - 1.5) < 0.02);
		}
		CHECK_NEAR(left, heavy, 20);
		CHECK_UINT(left + evicted, KEYS);
		CHECK_UINT(store_table_stats(t)->rows, left);
		CHECK(left > KEYS / 4 && evicted > KEYS / 10);
		fixture_close(&f);
	}
}

/* What a row weighs is what its master does, not what was rounded from it. */
void masters_are_weighed(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_with(&f, "t", 8, OPTIM_SGD, STAR_FLOAT16,
					   "initializer=ones, scale=0, master=1, l2_threshold=3.9999");
	const float gradient[8] = { 0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f };

	use(t, 1, 2, 1);
	push_one(t, 1, gradient, 1);
	CHECK_UINT(*(const uint16_t *)store_values(t, find_one(t, 1, STORE_LOOK), STAR_FLOAT16), 0x3c00);
	store_sweep_begin(t);
	CHECK_UINT(sweep_all(&f, 100), 1);
	CHECK_UINT(find_one(t, 1, STORE_LOOK), STORE_NO_ROW);
	CHECK(find_one(t, 2, STORE_LOOK) != STORE_NO_ROW);
	fixture_close(&f);
}

/* Deletions, new rows and a sweep all at once, in slices. */
void sweep_goes_on_while_rows_come_and_go(void)
{
	enum { KEYS = 20000 };
	struct fixture f = fixture_open(4 << 20);
	struct store_table *t = table_with(&f, "t", 2, OPTIM_SGD, STAR_FLOAT32, "steps_to_live=5");
	struct prng p;
	unsigned slices = 0;

	prng_seed(&p, 41);
	use(t, 0, KEYS, 10);
	use(t, 0, 100, 100);
	store_sweep_begin(t);
	while (store_sweep_left(t) && CHECK(slices++ < 100000)) {
		uint64_t key = prng_below(&p, KEYS);

		store_sweep(f.store, 3);
		if (key >= 100)
			store_delete(t, &key, 1);
		use(t, KEYS + key, 1, 100);
		/* More go than come, so that memory of the segment that is being looked at stays free. */
		for (unsigned i = 0; i < 4; i++) {
			key = 100 + prng_below(&p, KEYS - 100);
			store_delete(t, &key, 1);
		}
	}
	for (uint64_t key = 0; key < KEYS; key++)
		if (!CHECK_INT(find_one(t, key, STORE_LOOK) != STORE_NO_ROW, key < 100))
			break;
	CHECK_UINT(store_table_stats(t)->rows,
		   store_table_stats(t)->created - store_table_stats(t)->deleted - store_table_stats(t)->evicted);
	fixture_close(&f);
}

/* A row that a push holds is swept away: the push's update is lost, and its memory belongs to no row meanwhile. */
void sweep_under_a_push_in_flight(void)
{
	enum { KEYS = 500 };
	struct fixture f = fixture_open(4 << 20);
	struct store_table *t = table_with(&f, "t", 2, OPTIM_SGD, STAR_FLOAT32, "l2_threshold=1e9");
	struct store_push *p = open_push(KEYS, KEYS * 8);
	static uint64_t keys[KEYS];
	static float gradients[KEYS][2];
	float initial[2];

	for (unsigned i = 0; i < KEYS; i++) {
		keys[i] = i;
		gradients[i][0] = 1;
	}
	store_push_begin(p);
	store_push_op(p, t, KEYS);
	CHECK_INT(add_keys(p, t, keys, KEYS, 64), 0);
	store_sweep_begin(t);
	CHECK_UINT(sweep_all(&f, 100), KEYS);
	use(t, KEYS, KEYS, 1);
	add_rows(p, t, gradients, STAR_FLOAT32, 8, KEYS, 64, NULL);
	for (uint64_t key = KEYS; key < 2 * KEYS; key++) {
		store_initial(t, key, initial);
		CHECK_MEM(values_of(t, find_one(t, key, STORE_LOOK)), initial, sizeof(initial));
	}
	CHECK_UINT(store_table_stats(t)->free_bytes, KEYS * 16);
	use(t, 2 * KEYS, KEYS, 1);
	CHECK_UINT(store_table_stats(t)->free_bytes, 0);
	store_push_destroy(p);
	fixture_close(&f);
}

/* All rows that were there at the begin go, whatever comes and goes meanwhile; other tables keep theirs. */
void tables_are_emptied_in_slices(void)
{
	enum { KEYS = 20000 };
	struct fixture f = fixture_open(8 << 20);
	struct store_table *t = table_with(&f, "t", 4, OPTIM_SGD, STAR_FLOAT32, "versions=1"),
			   *u = table_of(&f, "u", 4, OPTIM_SGD);
	const struct store_stats *stats = store_table_stats(t);
	unsigned slices = 0, removed = 0;
	uint32_t version;
	uint64_t rows_memory;

	use(t, 0, KEYS, 1);
	use(u, 0, 100, 1);
	rows_memory = stats->memory_bytes + stats->free_bytes;
	version = store_version(t, find_one(t, 7, STORE_LOOK));
	store_empty_begin(t);
	CHECK_UINT(store_sweep_left(t), KEYS);
	while (store_sweep_left(t) && CHECK(slices < KEYS)) {
		const uint64_t key = KEYS + slices;
		const unsigned some = store_sweep(f.store, 64);

		CHECK(some <= 64 + 64);
		removed += some;
		slices++;
		use(t, key, 1, 1); /* the index grows while it shrinks */
		if (slices == 10)
			store_sweep_begin(t); /* does not end it */
	}
	CHECK(slices > KEYS / 128);
	CHECK(removed >= KEYS);
	CHECK_UINT(stats->deleted, removed);
	CHECK_UINT(stats->evicted, 0);
	CHECK_UINT(stats->rows, KEYS + slices - removed);
	for (uint64_t key = 0; key < KEYS; key++)
		CHECK_UINT(find_one(t, key, STORE_LOOK), STORE_NO_ROW);
	CHECK_UINT(store_table_stats(u)->rows, 100);
	CHECK(stats->memory_bytes < rows_memory / 8);
	/* It is used again as if it were new, but for versions, which do not come back. */
	use(t, 0, KEYS, 1);
	CHECK(store_version(t, find_one(t, 7, STORE_LOOK)) > version);
	CHECK(stats->memory_bytes + stats->free_bytes <= rows_memory + rows_memory / 16);
	CHECK_UINT(sweep_all(&f, 64), 0);
	CHECK_UINT(stats->rows, KEYS + KEYS + slices - removed);
	fixture_close(&f);
}

void filters_of_emptied_tables_forget(void)
{
	static const char *const filters[] = {
		"filter=counter, filter_frequency=3",
		"filter=bloom, filter_frequency=3, filter_keys=20000, filter_error=0.01"
	};

	for (unsigned i = 0; i < 2; i++) {
		struct fixture f = fixture_open(4 << 20);
		struct store_table *t = table_with(&f, "t", 4, OPTIM_SGD, STAR_FLOAT32, filters[i]);

		use(t, 0, 2000, 1);
		use(t, 0, 2000, 1);
		use(t, 0, 50, 1);
		CHECK_UINT(store_table_stats(t)->rows, 50);
		store_empty_begin(t);
		for (unsigned slices = 0; store_sweep_left(t) && CHECK(slices < 1000); slices++)
			store_sweep(f.store, 64);
		CHECK_UINT(store_table_stats(t)->rows, 0);
		CHECK_UINT(t->filter.keys, 0);
		use(t, 0, 2000, 1);
		use(t, 0, 2000, 1);
		CHECK_UINT(store_table_stats(t)->rows, 0);
		use(t, 0, 2000, 1);
		CHECK_UINT(store_table_stats(t)->rows, 2000);
		fixture_close(&f);
	}
}
