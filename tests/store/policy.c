/* SPDX-License-Identifier: BSD-3-Clause */
/* Admission, and what happens when there is no room. */
#include "tests/store/cases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/prng.h"
#include "store/table.h"

static struct store_table *table_on(struct fixture *f, const char *options)
{
	return table_with(f, "t", 4, OPTIM_ADAGRAD, STAR_FLOAT32, options);
}

void counter_admits_at_its_frequency(void)
{
	struct fixture f = fixture_open(2 << 20);
	struct store_table *t = table_on(&f, "filter=counter, filter_frequency=3, filter_value=0.5");
	const struct store_stats *stats = store_table_stats(t);
	const float gradient[4] = { 1, 1, 1, 1 };
	const uint64_t before = stats->memory_bytes;
	const uint64_t keys[6] = { 1, 2, 1, 2, 1, 3 };
	store_row rows[6];
	float values[4];

	/* Each place counts, so a key can be admitted in the middle of a batch. */
	CHECK_UINT(store_find(t, keys, 6, STORE_PULL, 0, rows), 0);
	CHECK(rows[0] == STORE_UNADMITTED && rows[2] == STORE_UNADMITTED && rows[4] < STORE_UNADMITTED);
	CHECK(rows[1] == STORE_UNADMITTED && rows[3] == STORE_UNADMITTED && rows[5] == STORE_UNADMITTED);
	CHECK_UINT(stats->unadmitted, 5);
	store_read(t, rows[1], 2, STAR_FLOAT32, values);
	CHECK_NEAR(values[3], 0.5, 0);
	/* Reading counts nothing. */
	for (unsigned i = 0; i < 10; i++)
		CHECK_UINT(find_one(t, 2, STORE_LOOK), STORE_UNADMITTED);
	CHECK_UINT(stats->unadmitted, 5);
	/* A push counts; what it brings to a key that stays out is dropped. */
	push_one(t, 3, gradient, 1);
	CHECK_UINT(find_one(t, 3, STORE_LOOK), STORE_UNADMITTED);
	push_one(t, 3, gradient, 1);
	CHECK_NEAR(slots_of(t, find_one(t, 3, STORE_LOOK))[0], 1.125, 0);
	CHECK_UINT(stats->rows, 2);
	CHECK_UINT(stats->unadmitted, 6);
	CHECK_UINT(stats->pushes, 2);
	/* A row that was deleted must be earned again. */
	CHECK_UINT(store_delete(t, keys, 1), 1);
	CHECK_UINT(find_one(t, 1, STORE_PULL), STORE_UNADMITTED);
	CHECK_UINT(find_one(t, 1, STORE_PULL), STORE_UNADMITTED);
	CHECK(find_one(t, 1, STORE_PULL) < STORE_UNADMITTED);
	/* Counts of admitted keys are given back: two were enough. */
	CHECK_UINT(t->filter.keys, 1);
	CHECK_UINT(stats->free_bytes, sizeof(struct filter_count));
	CHECK(stats->memory_bytes - before < 3 * 4096);
	fixture_close(&f);
}

/* Keys without end wait, each seen once, in an arena that they have filled: those that come often get in all the
 * same. */
void counter_in_a_full_arena_still_counts(void)
{
	enum { OFTEN = 200, FULL = 100000, PULLS = 12 };
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_on(&f, "filter=counter, filter_frequency=4");
	unsigned admitted = 0;

	for (uint64_t key = 0; key < FULL + OFTEN * PULLS * 50; key++) {
		find_one(t, 1000 + key, STORE_PULL);
		if (key >= FULL && key % 50 == 0)
			find_one(t, (key - FULL) / 50 % OFTEN, STORE_PULL);
	}
	for (uint64_t key = 0; key < OFTEN; key++)
		admitted += find_one(t, key, STORE_LOOK) < STORE_UNADMITTED;
	CHECK_NEAR((double)(f.store->arena.high - f.store->arena.low), (1 << 20) / 8, 40000);
	CHECK(admitted >= OFTEN * 9 / 10);
	CHECK_UINT(store_table_stats(t)->rows, admitted);
	fixture_close(&f);
}

/* What counted for a key before it was admitted counts for its row. */
void frequency_goes_on_from_the_filter(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_on(&f, "filter=counter, filter_frequency=5, full=evict_lfu");
	store_row row = STORE_UNADMITTED;

	for (unsigned i = 0; i < 8; i++)
		row = find_one(t, 3, STORE_PULL);
	CHECK_UINT(*row_word(table_row(t, row), t->at.frequency), 8);
	fixture_close(&f);
}

void bloom_errors_stay_within_the_bound(void)
{
	enum { KEYS = 50000 };
	static const double errors[] = { 0.1, 0.01, 0.001 };

	for (unsigned e = 0; e < 3; e++) {
		struct fixture f = fixture_open(8 << 20);
		char options[128];
		struct store_table *t;
		unsigned early = 0, admitted = 0;
		double counters;

		snprintf(options, sizeof(options), "filter=bloom, filter_frequency=2, filter_keys=%d, filter_error=%g",
			 KEYS, errors[e]);
		t = table_on(&f, options);
		counters = KEYS * -log(errors[e]) / (log(2) * log(2));
		CHECK_NEAR((double)store_table_stats(t)->memory_bytes, counters, 0.02 * counters + 24576);
		for (uint64_t key = 0; key < KEYS; key++)
			early += find_one(t, key, STORE_PULL) != STORE_UNADMITTED;
		CHECK(early < KEYS * errors[e] / 2); /* it was not full yet */
		for (uint64_t key = 0; key < KEYS; key++)
			admitted += find_one(t, key, STORE_PULL) != STORE_UNADMITTED;
		CHECK_UINT(admitted, KEYS); /* none too late */
		fixture_close(&f);

		/* Now that it holds what it is laid out for: the share of others that get in at once. */
		f = fixture_open(8 << 20);
		t = table_on(&f, options);
		for (uint64_t key = 0; key < KEYS; key++)
			find_one(t, key, STORE_PULL);
		early = 0;
		for (uint64_t key = KEYS; key < KEYS + KEYS / 10; key++)
			early += find_one(t, key, STORE_PULL) != STORE_UNADMITTED;
		CHECK(early <= KEYS / 10 * errors[e] * 1.3 + 5 && early >= KEYS / 10 * errors[e] * 0.5 - 5);
		fixture_close(&f);
	}
}

/* Only the smallest of a key's counters go up: else those that keys share would let many in too early. */
void bloom_updates_conservatively(void)
{
	enum { KEYS = 20000, TIMES = 4 };
	struct fixture f = fixture_open(2 << 20);
	struct store_table *t = table_on(&f, "filter=bloom, filter_frequency=5, filter_keys=20000, filter_error=0.05");
	unsigned early = 0;

	for (unsigned times = 0; times < TIMES; times++)
		for (uint64_t key = 0; key < KEYS; key++)
			early += find_one(t, key, STORE_PULL) != STORE_UNADMITTED;
	CHECK(early < 500); /* all counters up: 1,926 */
	fixture_close(&f);
}

/* Counters of one, two and four bytes. */
void bloom_counts_as_far_as_needed(void)
{
	static const uint32_t frequencies[] = { 1, 2, 255, 256, 65535, 65536, 100000 };

	for (unsigned i = 0; i < sizeof(frequencies) / sizeof(frequencies[0]); i++) {
		struct fixture f = fixture_open(1 << 20);
		char options[128];
		struct store_table *t;
		uint32_t pulls = 1;

		snprintf(options, sizeof(options), "filter=bloom, filter_keys=1000, filter_frequency=%u",
			 frequencies[i]);
		t = table_on(&f, options);
		while (find_one(t, 42, STORE_PULL) == STORE_UNADMITTED)
			pulls++;
		CHECK_UINT(pulls, frequencies[i]);
		CHECK_UINT(store_table_stats(t)->unadmitted, pulls - 1);
		/* It remembers keys whose rows are gone. */
		store_delete(t, &(uint64_t){ 42 }, 1);
		CHECK(find_one(t, 42, STORE_PULL) < STORE_UNADMITTED);
		fixture_close(&f);
	}
}

void bloom_that_does_not_fit_is_refused(void)
{
	struct fixture f = fixture_open(4 << 20);
	struct object_spec spec = spec_of("t", 4, OPTIM_SGD);
	struct star_error err = { 0 };
	const uint64_t low = f.store->arena.low;

	CHECK_INT(wire_object_spec_options(&spec, "filter=bloom, filter_frequency=2, filter_keys=1000000000000", &err),
		  0);
	CHECK(!store_table_create(f.store, &spec, 1, &err));
	CHECK_INT(err.code, -ENOMEM);
	CHECK_HAS(err.text, "no parameter memory left for \"t\"");
	CHECK_UINT(f.store->arena.low, low);
	spec.filter_keys = 10000000;
	CHECK(!store_table_create(f.store, &spec, 1, &err));
	CHECK_UINT(f.store->arena.low, low);
	/* A hundredth of it does. */
	CHECK(store_table_create(f.store, &spec, 0.01, &err) != NULL);
	CHECK(!store_table_create(f.store, &spec, 0, &err));
	CHECK_HAS(err.text, "a share of 0");
	CHECK(!store_table_create(f.store, &spec, 1.5, &err));
	fixture_close(&f);
}

void rows_max_refuses_and_serves_the_rest(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct object_spec spec = spec_of("t", 4, OPTIM_SGD);
	struct star_error err = { 0 };
	struct store_push *p = open_push(64, 64 * 16);
	struct store_table *t;
	uint64_t keys[4] = { 0, 200, 1, 201 };
	store_row rows[4];
	unsigned made = 0;

	spec.rows_max = 1000;
	t = store_table_create(f.store, &spec, 0.1, &err);
	if (!CHECK(t != NULL))
		return;
	for (uint64_t key = 0; key < 200; key++)
		made += find_one(t, key, STORE_PULL) != STORE_NO_ROW;
	CHECK_UINT(made, 100);
	CHECK_UINT(store_find(t, keys, 4, STORE_PULL, 0, rows), 2);
	CHECK(rows[0] < STORE_UNADMITTED && rows[1] == STORE_NO_ROW && rows[2] < STORE_UNADMITTED);
	CHECK_UINT(store_table_stats(t)->refused, 102);
	store_push_begin(p);
	store_push_op(p, t, 4);
	CHECK_INT(store_push_keys(p, t, keys, 4, 0), -ENOSPC);
	store_push_begin(p);
	/* A deletion makes room for one. */
	CHECK_UINT(store_delete(t, keys, 1), 1);
	CHECK_UINT(store_find(t, keys + 1, 1, STORE_PULL, 0, rows), 0);
	CHECK_UINT(store_find(t, keys, 1, STORE_PULL, 0, rows), 1);
	store_push_destroy(p);
	fixture_close(&f);
}

/* Hits of an exact LRU, or LFU, of n rows on the same keys. */
static unsigned exact_hits(const uint32_t *keys, unsigned n, unsigned range, unsigned rows_max, bool lfu)
{
	uint64_t *used = calloc(range, sizeof(*used)), *count = calloc(range, sizeof(*count));
	uint32_t *rows = malloc(rows_max * sizeof(*rows));
	unsigned hits = 0, there = 0;

	for (unsigned i = 0; i < n; i++) {
		const uint32_t key = keys[i];

		if (used[key]) {
			hits++;
		} else if (there < rows_max) {
			rows[there++] = key;
		} else {
			unsigned least = 0;

			for (unsigned r = 1; r < there; r++)
				if (lfu && count[rows[r]] != count[rows[least]] ? count[rows[r]] < count[rows[least]]
										: used[rows[r]] < used[rows[least]])
					least = r;
			used[rows[least]] = count[rows[least]] = 0;
			rows[least] = key;
		}
		used[key] = i + 1;
		count[key]++;
	}
	free(used);
	free(count);
	free(rows);
	return hits;
}

/* A power law, exponent 1, by inversion. */
static void draw_skewed(uint32_t *keys, unsigned n, unsigned range)
{
	struct prng p;

	prng_seed(&p, 31);
	for (unsigned i = 0; i < n; i++) {
		keys[i] = (uint32_t)pow(range, prng_unit(&p)) - 1;
		if (i > n / 2) /* the world changes */
			keys[i] = (keys[i] + range / 3) % range;
	}
}

void sampled_eviction_is_near_the_exact(void)
{
	enum { RANGE = 5000, N = 60000, ROWS = 400 };
	static uint32_t keys[N];

	draw_skewed(keys, N, RANGE);
	for (unsigned lfu = 0; lfu < 2; lfu++) {
		struct fixture f = fixture_open(1 << 20);
		struct store_table *t =
			table_on(&f, lfu ? "full=evict_lfu, rows_max=400" : "full=evict_lru, rows_max=400");
		const struct store_stats *stats = store_table_stats(t);
		unsigned hits = 0, exact;

		for (unsigned i = 0; i < N; i++) {
			const uint64_t created = stats->created;

			CHECK(find_one(t, keys[i], STORE_PULL) < STORE_UNADMITTED);
			hits += stats->created == created;
		}
		exact = exact_hits(keys, N, RANGE, ROWS, lfu);
		CHECK_UINT(stats->rows, ROWS);
		CHECK_UINT(stats->evicted, stats->created - ROWS);
		CHECK_UINT(stats->refused, 0);
		/* An exact LFU does worse here: it keeps rows that were used often, which a sampled one may evict. */
		CHECK(hits > exact * 0.95 && hits < exact * (lfu ? 1.5 : 1.05) && exact > N / 3);
		fixture_close(&f);
	}
}

/* No rows_max: the arena itself is full, with index and all. */
void full_arena_evicts(void)
{
	enum { KEYS = 300000, RECENT = 2000 };
	struct fixture f = fixture_open(2 << 20);
	struct store_table *t = table_on(&f, "full=evict_lru"), *other = table_of(&f, "other", 4, OPTIM_SGD);
	const struct store_stats *stats = store_table_stats(t);
	uint64_t keys[STORE_BATCH], most = 0;
	store_row rows[STORE_BATCH];
	unsigned recent = 0;

	find_one(other, 1, STORE_PULL);
	for (uint64_t key = 0; key < KEYS; key += 50) {
		for (unsigned i = 0; i < 50; i++)
			keys[i] = hash_mix(key + i);
		if (!CHECK_UINT(store_find(t, keys, 50, STORE_PULL, 0, rows), 0))
			break;
		most = stats->rows > most ? stats->rows : most;
	}
	CHECK(most * 48 > (2 << 20) * 0.7);
	CHECK(stats->rows >= most - 300 && stats->evicted == KEYS - stats->rows);
	CHECK(stats->moved_max <= INDEX_SEGMENT_ENTRIES);
	for (uint64_t key = KEYS - RECENT; key < KEYS; key++)
		recent += find_one(t, hash_mix(key), STORE_LOOK) != STORE_NO_ROW;
	CHECK_UINT(recent, RECENT);
	/* It evicts its own rows only. */
	CHECK(find_one(other, 1, STORE_LOOK) != STORE_NO_ROW);
	fixture_close(&f);
}

/* A push in flight over many look-ups keeps what it has found, even if nothing else can go. */
void push_in_flight_is_not_evicted(void)
{
	enum { ROWS = 300 };
	static const char *const options[] = { "full=evict_lru, rows_max=300", "full=evict_lfu, rows_max=300" };

	for (unsigned i = 0; i < 2; i++) {
		struct fixture f = fixture_open(1 << 20);
		struct store_table *t = table_on(&f, options[i]);
		struct store_push *p = open_push(ROWS + 1, (ROWS + 1) * 16);
		static uint64_t keys[ROWS + 1];
		static float gradients[ROWS + 1][4];
		unsigned refused = 0;

		for (unsigned k = 0; k <= ROWS; k++)
			keys[k] = k;
		for (uint64_t key = 5000; key < 6000; key++)
			find_one(t, key, STORE_PULL);
		store_push_begin(p);
		store_push_op(p, t, ROWS - 1);
		CHECK_INT(add_keys(p, t, keys, ROWS - 1, 32), 0);
		/* Pulled by others meanwhile, they are still the push's. */
		for (uint64_t key = 0; key < ROWS - 1; key++)
			find_one(t, key, STORE_PULL);
		/* One row belongs to no table: others come and go there. */
		for (uint64_t key = 7000; key < 8000; key++)
			CHECK(find_one(t, key, STORE_PULL) < STORE_UNADMITTED);
		CHECK_UINT(look_up(t, keys, 64, (store_row[STORE_BATCH]){ 0 }), 0);
		add_rows(p, t, gradients, STAR_FLOAT32, 16, ROWS - 1, 64, NULL);
		for (uint64_t key = 9000; key < 10000; key++)
			CHECK(find_one(t, key, STORE_PULL) < STORE_UNADMITTED);
		/* All rows are the push's, and one too many. */
		store_push_begin(p);
		store_push_op(p, t, ROWS + 1);
		CHECK_INT(add_keys(p, t, keys, ROWS, 64), 0);
		CHECK_INT(store_push_keys(p, t, keys + ROWS, 1, 0), -ENOSPC);
		for (uint64_t key = 7000; key < 7100; key++)
			refused += find_one(t, key, STORE_PULL) == STORE_NO_ROW;
		CHECK_UINT(refused, 100);
		CHECK_UINT(store_table_stats(t)->refused, 101);
		/* Given up: all may go again. */
		store_push_begin(p);
		for (uint64_t key = 7000; key < 8000; key++)
			CHECK(find_one(t, key, STORE_PULL) < STORE_UNADMITTED);
		store_push_destroy(p);
		fixture_close(&f);
	}
}
