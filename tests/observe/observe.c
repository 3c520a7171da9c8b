/* SPDX-License-Identifier: BSD-3-Clause */
/* What a reactor remembers of its requests, and what a reader makes of it. */
#include <pthread.h>
#include <stdlib.h>

#include "base/prng.h"
#include "observe/observe_read.h"
#include "tests/unit.h"

const char *const unit_suite = "observe";

enum { HZ = 2000000000, CYCLES_US = 2000 };

static struct observe *create(void)
{
	struct star_error err = { 0 };
	struct observe *o = observe_create(HZ, &err);

	CHECK(o != NULL);
	return o;
}

/* A request that arrived then, and waited so long; slices 0: a small one. */
static void serve(struct observe *o, uint64_t arrived_ns, uint32_t keys, enum observe_class class, uint32_t slices,
		  uint64_t run_ns)
{
	struct observe_record *r = observe_next(o);

	*r = (struct observe_record){ .arrived_ns = arrived_ns,
				      .what = observe_what(keys, slices, class),
				      .wait = observe_units(observe_waited(o, arrived_ns)),
				      .run = observe_units(run_ns) };
	o->large += slices != 0;
	observe_commit(o);
}

static uint64_t times(const struct observe *o, enum observe_class class, unsigned size, enum observe_time time,
		      struct observe_histogram *h)
{
	memset(h, 0, sizeof(*h));
	return observe_add(o, class, size, time, h);
}

/* Two digits, from 1 us to a minute; below, to the 16 ns of a unit. */
static void times_have_two_digits(void)
{
	static const double shares[] = { 0.001, 0.1, 0.5, 0.9, 0.999 };

	for (uint64_t ns = 100; ns < UINT64_C(60000000000); ns = ns * 11 / 10 + 1) {
		struct observe *o = create();
		struct observe_histogram h;

		observe_turn(o, 1000);
		serve(o, 1000, 1, OBSERVE_PULL, 1, ns);
		observe_sent(o, 0, ns * (HZ / 1000000000));
		observe_idle(o);
		for (unsigned t = 0; t < OBSERVE_TIMES_COUNT; t++) {
			CHECK_UINT(times(o, OBSERVE_PULL, 0, t, &h), 1);
			for (unsigned i = 0; t != OBSERVE_wait && i < sizeof(shares) / sizeof(shares[0]); i++)
				CHECK_NEAR(observe_quantile(&h, shares[i]), (double)ns, 16 + (double)ns * 0.008);
		}
		observe_destroy(o);
	}
}

static void quantiles_are_those_of_what_was_served(void)
{
	enum { REQUESTS = 20000 };
	struct observe *o = create();
	struct observe_histogram h;

	for (unsigned i = 1; i <= REQUESTS; i++) { /* totals from 1 us to 20 ms, evenly; each waits for half of it */
		observe_turn(o, i * UINT64_C(1000000000));
		serve(o, o->turn_ns - i * 500, 5, OBSERVE_PUSH, 0, 0);
		observe_sent(o, 7, 7 + i * CYCLES_US / 2);
	}
	observe_idle(o);
	CHECK_UINT(times(o, OBSERVE_PUSH, 1, OBSERVE_total, &h), REQUESTS);
	CHECK_NEAR(observe_quantile(&h, 0.5), 10e6, 1e5);
	CHECK_NEAR(observe_quantile(&h, 0.99), 19.8e6, 2e5);
	CHECK_NEAR(observe_mean(&h), 10e6, 1e5);
	CHECK_NEAR((double)observe_at_most(&h, 5000000), REQUESTS / 4.0, REQUESTS / 100.0);
	CHECK_UINT(times(o, OBSERVE_PUSH, 1, OBSERVE_wait, &h), REQUESTS);
	CHECK_NEAR(observe_quantile(&h, 0.5), 5e6, 5e4);
	CHECK_UINT(times(o, OBSERVE_PUSH, 1, OBSERVE_run, &h), REQUESTS);
	CHECK_NEAR(observe_quantile(&h, 0.5), 5e6, 5e4);
	CHECK_UINT(times(o, OBSERVE_PULL, 1, OBSERVE_total, &h), 0);
	CHECK_NEAR(observe_quantile(&h, 0.5), 0, 0);
	observe_destroy(o);
}

/* What metrics are made of has as many as whole histograms, and the sum to the unit. */
static void octaves_have_what_histograms_have(void)
{
	enum { REQUESTS = 4000 };
	static const uint32_t keys[OBSERVE_SIZES] = { 1, 9, 90, 9000 };
	struct observe *o = create();
	double exact[OBSERVE_TIMES_COUNT] = { 0 };
	struct prng prng;

	prng_seed(&prng, 5);
	for (unsigned i = 1; i <= REQUESTS; i++) {
		const struct observe_record *r = observe_next(o);
		const uint64_t run_ns = prng_next(&prng) >> (29 + prng_below(&prng, 35));

		observe_turn(o, i * UINT64_C(100000000000));
		serve(o, o->turn_ns - (i % 3 ? prng_next(&prng) >> (29 + prng_below(&prng, 35)) : 0),
		      keys[i % OBSERVE_SIZES], OBSERVE_PULL, 1, run_ns);
		observe_sent(o, 7, 7 + (prng_next(&prng) >> (44 + prng_below(&prng, 20))));
		exact[OBSERVE_total] += (double)observe_units_ns(r->total);
		exact[OBSERVE_wait] += (double)observe_units_ns(r->wait);
		exact[OBSERVE_run] += (double)observe_units_ns(r->run);
	}
	observe_idle(o);
	for (enum observe_time t = 0; t < OBSERVE_TIMES_COUNT; t++) {
		uint64_t counts[OBSERVE_OCTAVES + 1], all = 0;
		struct observe_histogram h = { 0 };
		double sum;

		for (unsigned size = 0; size < OBSERVE_SIZES; size++)
			all += observe_add(o, OBSERVE_PULL, size, t, &h);
		CHECK_UINT(all, REQUESTS);
		CHECK_UINT(observe_octaves(o, OBSERVE_PULL, t, counts, &sum), REQUESTS);
		for (unsigned i = 0; i <= OBSERVE_OCTAVES; i++) /* a unit less than the bound */
			CHECK_UINT(counts[i], observe_at_most(&h, (UINT64_C(1024) << i) - 16));
		CHECK(counts[0] > 0 && counts[0] < counts[10] && counts[10] < counts[20] && counts[20] < REQUESTS);
		CHECK_NEAR(sum, exact[t], 0);
		CHECK_UINT(observe_octaves(o, OBSERVE_PUSH, t, counts, &sum), 0);
		CHECK_UINT(counts[OBSERVE_OCTAVES], 0);
		CHECK_NEAR(sum, 0, 0);
	}
	observe_destroy(o);
}

/* Small requests have equal shares of what their turn took but for slices of large ones, which make later ones wait. */
static void small_requests_share_their_turn(void)
{
	for (unsigned small = 1; small <= 20; small++) {
		struct observe *o = create();
		struct observe_record records[32];
		struct observe_spent spent = { 0 };
		uint64_t from = 0;

		observe_turn(o, 50000);
		serve(o, 50000, 1, OBSERVE_PULL, 0, 0);
		observe_slice(o, &spent, 20000, 1000, 1000 + 40 * CYCLES_US, false); /* it only looked */
		observe_slice(o, &spent, 20000, 1000, 1000 + 60 * CYCLES_US, true);
		CHECK_UINT(spent.slices, 1);
		CHECK_NEAR((double)spent.wait_ns, 30000 + 40000, 2);
		CHECK_NEAR((double)spent.run_ns, 60000, 2);
		serve(o, 20000, 3000, OBSERVE_PUSH, spent.slices, spent.run_ns);
		for (unsigned i = 1; i < small; i++)
			serve(o, 50000, 1, OBSERVE_PULL, 0, 0);
		observe_sent(o, 500, 500 + 180 * CYCLES_US);
		observe_idle(o);
		CHECK_UINT(observe_copy(o, &from, records, 32), small + 1);
		CHECK_NEAR((double)observe_units_ns(records[0].wait), 0, 16);
		CHECK_NEAR((double)observe_units_ns(records[0].run), 80000.0 / small, 32);
		CHECK_NEAR((double)observe_units_ns(records[1].run), 60000, 16);
		CHECK_NEAR((double)observe_units_ns(records[1].total), 210000, 16);
		if (small > 1) {
			CHECK_NEAR((double)observe_units_ns(records[2].wait), 100000, 16);
			CHECK_NEAR((double)observe_units_ns(records[2].run), 80000.0 / small, 32);
			CHECK_NEAR((double)observe_units_ns(records[2].total), 180000, 16);
		}
		observe_destroy(o);
	}
}

/* As `starctl latency` and the documentation say. */
static void sizes_are_as_they_are_told(void)
{
	for (uint32_t keys = 0; keys <= OBSERVE_KEYS_MAX; keys++) {
		const unsigned size = observe_size(keys), told = keys <= 1 ? 0 : keys <= 63 ? 1 : keys <= 1023 ? 2 : 3;

		if (size != told && !CHECK_UINT(size, told))
			break;
	}
	CHECK_STR(observe_size_text(0), "1");
	CHECK_STR(observe_size_text(1), "2-63");
	CHECK_STR(observe_size_text(2), "64-1023");
	CHECK_STR(observe_size_text(3), "1024-");
}

/* Nobody has said when a turn ended: requests count all the same, and no record is written twice. */
static void turns_without_an_end_count(void)
{
	struct observe *o = create();
	struct observe_histogram h;

	observe_turn(o, 9000);
	for (unsigned i = 0; i < 3 * OBSERVE_RECORDS; i++)
		serve(o, 5000, 1, OBSERVE_OTHER, 0, 0);
	observe_sent(o, 0, 0);
	observe_idle(o);
	CHECK_UINT(times(o, OBSERVE_OTHER, 0, OBSERVE_total, &h), 3 * OBSERVE_RECORDS);
	CHECK_NEAR(observe_quantile(&h, 0.5), 4000, 48);
	CHECK_UINT(times(o, OBSERVE_OTHER, 0, OBSERVE_wait, &h), 3 * OBSERVE_RECORDS);
	observe_destroy(o);
}

/* The last ones, from any number on. */
static void copies_are_of_the_last_records(void)
{
	enum { TAKEN = 1000, KEPT = OBSERVE_RECORDS - 2 * OBSERVE_TURN_MAX };
	struct observe_record *records = malloc(OBSERVE_RECORDS * sizeof(*records));
	struct observe *o = create();
	uint64_t from = 0, n;

	CHECK_UINT(observe_copy(o, &from, records, OBSERVE_RECORDS), 0);
	for (uint64_t i = 0; i < 5 * OBSERVE_RECORDS / 2; i++) {
		observe_turn(o, 1000 + i);
		serve(o, i, 1, OBSERVE_PULL, 0, 0);
		observe_sent(o, 0, 0);
		if (i + 1 == TAKEN) {
			observe_idle(o);
			from = 7;
			CHECK_UINT(observe_copy(o, &from, records, OBSERVE_RECORDS), TAKEN - 7);
			CHECK_UINT(from, 7);
			CHECK_UINT(records[0].arrived_ns, 7);
			from = TAKEN + 5;
			CHECK_UINT(observe_copy(o, &from, records, 10), 0);
			CHECK_UINT(from, TAKEN);
		}
	}
	observe_idle(o);
	from = 0;
	n = observe_copy(o, &from, records, OBSERVE_RECORDS);
	CHECK_UINT(n, KEPT);
	CHECK_UINT(from, 5 * OBSERVE_RECORDS / 2 - KEPT);
	for (uint64_t i = 0; i < n; i++)
		if (records[i].arrived_ns != from + i && !CHECK_UINT(records[i].arrived_ns, from + i))
			break;
	observe_destroy(o);
	free(records);
}

static void *write_on(void *ctx)
{
	struct observe *o = ctx;

	for (uint64_t i = 0; i < 40 * (uint64_t)OBSERVE_RECORDS; i++) {
		struct observe_record *r = observe_next(o);

		observe_turn(o, i);
		*r = (struct observe_record){ .arrived_ns = i, .peer = (uint32_t)i, .what = observe_what(1, 0, 1) };
		observe_commit(o);
		observe_sent(o, 0, 0);
	}
	observe_idle(o);
	__atomic_store_n(&o->random, 0, __ATOMIC_RELEASE);
	return NULL;
}

/* While the reactor goes on, each record that is copied is whole, and the one that belongs there. */
static void copies_are_whole_while_the_reactor_writes(void)
{
	struct observe_record *records = malloc(OBSERVE_RECORDS * sizeof(*records));
	struct observe *o = create();
	uint64_t copies = 0, bad = 0;
	pthread_t writer;

	pthread_create(&writer, NULL, write_on, o);
	while (__atomic_load_n(&o->random, __ATOMIC_ACQUIRE) || !copies) {
		uint64_t from = 0;
		const size_t n = observe_copy(o, &from, records, OBSERVE_RECORDS);

		for (size_t i = 0; i < n; i++)
			bad += records[i].arrived_ns != from + i || records[i].peer != (uint32_t)(from + i);
		copies += n != 0;
	}
	pthread_join(writer, NULL);
	CHECK_UINT(bad, 0);
	observe_destroy(o);
	free(records);
}

static uint64_t key_at(void *ctx, uint32_t number)
{
	const uint64_t *keys = ctx;

	return keys[number];
}

static uint64_t number_below(void *ctx, uint32_t number)
{
	CHECK(number < *(const uint32_t *)ctx);
	return number;
}

/* Requests whose keys cannot be had may come in any order among others. */
static void samples_are_of_the_request_at_hand(void)
{
	struct observe *o = create();
	uint32_t keys;

	for (unsigned i = 0; i < 100000; i++) {
		keys = 1 + i * 7919 % 300;
		if (!observe_wants_sample(o, keys))
			continue;
		if (i % 3)
			observe_pass(o);
		else
			observe_sample(o, keys, 7, number_below, &keys);
	}
	CHECK(o->sampled > 0);
	observe_destroy(o);
}

/* However many keys a request has, each is as likely to be remembered as it is to be asked for, by its weight. */
static void samples_are_fair(void)
{
	static uint64_t keys[65536];
	static const uint32_t sizes[] = { 1, 2, 16, 64, 100, 1000, 4000, 65536 };

	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct observe_sample *samples = malloc(OBSERVE_SAMPLES * sizeof(*samples));
		struct observe *o = create();
		double hot = 0, all = 0;
		uint64_t served = 0;
		struct prng prng;
		size_t n;

		prng_seed(&prng, s + 1);
		while (o->sampled < OBSERVE_SAMPLES) {
			for (uint32_t i = 0; i < sizes[s]; i++) /* a fifth is one key */
				keys[i] = (served + i) % 5 == 0 ? 1 : prng_below(&prng, 1000000) + 10;
			served += sizes[s];
			if (observe_wants_sample(o, sizes[s]))
				observe_sample(o, sizes[s], 7, key_at, keys);
		}
		n = observe_copy_samples(o, samples);
		CHECK(n >= OBSERVE_SAMPLES - 1);
		for (size_t i = 0; i < n; i++) {
			CHECK_UINT(samples[i].object, 7);
			all += samples[i].weight;
			hot += samples[i].key == 1 ? samples[i].weight : 0;
		}
		CHECK_NEAR(all * OBSERVE_SAMPLE_MEAN / (double)served, n / (double)o->sampled, 0.05);
		CHECK_NEAR(hot / all, 0.2, 0.02);
		observe_destroy(o);
		free(samples);
	}
}

static void peers_are_those_of_that_time(void)
{
	const uint8_t first[16] = { 1 }, second[16] = { 2 };
	struct observe *o = create();
	struct observe_peer found;

	CHECK(!observe_find_peer(o, 18, 1000, &found));
	observe_peer(o, 18, first, 4000, 500);
	CHECK(observe_find_peer(o, 18, 1000, &found));
	CHECK_MEM(found.address, first, 16);
	CHECK_UINT(found.port, 4000);
	CHECK(!observe_find_peer(o, 35, 1000, &found));
	observe_peer(o, 18, second, 4001, 2000);
	CHECK(!observe_find_peer(o, 18, 1000, &found)); /* the record is older than the one that has its place now */
	CHECK(observe_find_peer(o, 18, 2000, &found));
	CHECK_MEM(found.address, second, 16);
	observe_destroy(o);
}

#define CASE(name) \
	{ \
#name, name \
	}
const struct unit_case unit_cases[] = {
	CASE(times_have_two_digits),
	CASE(quantiles_are_those_of_what_was_served),
	CASE(octaves_have_what_histograms_have),
	CASE(small_requests_share_their_turn),
	CASE(sizes_are_as_they_are_told),
	CASE(turns_without_an_end_count),
	CASE(copies_are_of_the_last_records),
	CASE(copies_are_whole_while_the_reactor_writes),
	CASE(samples_are_of_the_request_at_hand),
	CASE(samples_are_fair),
	CASE(peers_are_those_of_that_time),
	{ NULL, NULL },
};
