/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/bucket.h"
#include "base/clock.h"
#include "base/crc32.h"
#include "base/hash.h"
#include "base/power_law.h"
#include "base/prng.h"
#include "base/star_error.h"
#include "base/wheel.h"
#include "tests/base/cases.h"
#include "tests/unit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static void crc_is_the_ethernet_fcs(void)
{
	CHECK_UINT(base_crc32("123456789", 9), 0xcbf43926);
	CHECK_UINT(base_crc32("", 0), 0);
}

static uint32_t crc_by_bits(const uint8_t *data, size_t bytes)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < bytes; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
	}
	return ~crc;
}

/* The data end where the memory does, so that a sanitizer sees whoever reads on; or, the other way round, begin
 * there. */
static void crc_of_all_lengths_is_that_by_bits(void)
{
	enum { LONGEST = 700 };
	struct prng p;

	prng_seed(&p, 2);
	for (size_t bytes = 0; bytes <= LONGEST; bytes++) {
		uint8_t *data = malloc(bytes + 1);

		for (size_t i = 0; i <= bytes; i++)
			data[i] = (uint8_t)prng_next(&p);
		CHECK_UINT(base_crc32(data, bytes), crc_by_bits(data, bytes));
		CHECK_UINT(base_crc32(data + 1, bytes), crc_by_bits(data + 1, bytes));
		free(data);
	}
}

static void crc_of_parts_is_the_crc_of_the_whole(void)
{
	struct crc32_length length = { 0 };
	uint8_t bytes[4096];
	struct prng p;

	prng_seed(&p, 1);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)prng_next(&p);
	for (size_t cut = 0; cut <= sizeof(bytes); cut += 1 + prng_below(&p, 70)) {
		CHECK_UINT(base_crc32_combine(base_crc32(bytes, cut), base_crc32(bytes + cut, sizeof(bytes) - cut),
					      sizeof(bytes) - cut),
			   base_crc32(bytes, sizeof(bytes)));
		CHECK_UINT(base_crc32_join(&length, base_crc32(bytes, cut),
					   base_crc32(bytes + cut, sizeof(bytes) - cut), sizeof(bytes) - cut),
			   base_crc32(bytes, sizeof(bytes)));
		/* Once more, by the length that is known now. */
		CHECK_UINT(base_crc32_join(&length, (uint32_t)cut, 1, sizeof(bytes) - cut),
			   base_crc32_combine((uint32_t)cut, 1, sizeof(bytes) - cut));
	}
}

static void error_text_is_cut_and_code_returned(void)
{
	struct star_error err = { 0 };
	char longer[2048];

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	CHECK_INT(star_error_set(&err, -EINVAL, "%s", longer), -EINVAL);
	CHECK_INT(err.code, -EINVAL);
	CHECK_UINT(strlen(err.text), sizeof(err.text) - 1);
	CHECK_INT(star_error_set(NULL, -ENOMEM, "nobody reads this"), -ENOMEM);
	/* A terminal would do what it says. */
	CHECK_INT(star_error_set(&err, -EINVAL, "no \"%s\"", "\33[2J\t\177\r\nx\303\251"), -EINVAL);
	CHECK_STR(err.text, "no \"?[2J\t???x\303\251\"");
}

static void small_consecutive_keys_spread_evenly(void)
{
	unsigned counts[64] = { 0 };

	for (uint64_t key = 0; key < 64000; key++)
		counts[hash_key(hash_name("words"), key) >> 58]++;
	for (int i = 0; i < 64; i++)
		CHECK_NEAR(counts[i], 1000, 160); /* five standard deviations of a fair throw */
}

struct probe {
	struct wheel_timer timer;
	uint64_t when, fired_at;
	unsigned times;
	struct wheel *wheel;
};

static void probe_fire(struct wheel_timer *timer, uint64_t now)
{
	struct probe *p = (struct probe *)timer;

	p->fired_at = now;
	p->times++;
}

#define TICK_NS (UINT64_C(1) << WHEEL_TICK_SHIFT)

static void wheel_fires_each_once_and_on_time(void)
{
	enum { COUNT = 2000 };
	static struct probe probes[COUNT];
	static struct wheel w;
	uint64_t now = 12345678901u, start = now;
	struct prng p;

	prng_seed(&p, 7);
	memset(probes, 0, sizeof(probes));
	wheel_init(&w, now);
	for (int i = 0; i < COUNT; i++) {
		/* spread over all four levels: from now to some 20 hours */
		probes[i].when = start + (prng_next(&p) >> (18 + prng_below(&p, 40)));
		probes[i].timer.fire = probe_fire;
		wheel_arm(&w, &probes[i].timer, probes[i].when);
	}
	for (int i = 0; i < COUNT; i += 5)
		wheel_cancel(&w, &probes[i].timer);
	while (w.armed) {
		uint64_t next = wheel_next(&w);

		for (int i = 0; i < COUNT; i++)
			if (wheel_armed(&probes[i].timer) && !CHECK(next <= probes[i].when + TICK_NS))
				return;
		now = next > now ? next : now + TICK_NS;
		wheel_advance(&w, now, 1000000);
	}
	for (int i = 0; i < COUNT; i++) {
		CHECK_UINT(probes[i].times, i % 5 ? 1 : 0);
		if (i % 5) {
			CHECK(probes[i].fired_at >= probes[i].when);
			CHECK(probes[i].fired_at <= probes[i].when + 2 * TICK_NS);
		}
	}
}

static void rearm_fire(struct wheel_timer *timer, uint64_t now)
{
	struct probe *p = (struct probe *)timer;

	if (++p->times < 100)
		wheel_arm(p->wheel, timer, now); /* "now" must not be lost behind the wheel */
}

static void wheel_timer_may_arm_itself_for_now(void)
{
	static struct wheel w;
	struct probe p = { .timer.fire = rearm_fire, .wheel = &w };
	uint64_t now = 0;

	wheel_init(&w, now);
	wheel_arm(&w, &p.timer, 1);
	for (int i = 0; i < 400; i++)
		wheel_advance(&w, now += TICK_NS, 16);
	CHECK_UINT(p.times, 100);
	CHECK_UINT(w.armed, 0);
}

static void wheel_fires_at_most_max_a_call(void)
{
	static struct wheel w;
	static struct probe probes[100];
	unsigned fired = 0, calls = 0;

	memset(probes, 0, sizeof(probes));
	wheel_init(&w, 0);
	for (int i = 0; i < 100; i++) {
		probes[i].timer.fire = probe_fire;
		wheel_arm(&w, &probes[i].timer, 5 * TICK_NS);
	}
	for (uint64_t now = 5 * TICK_NS; fired < 100 && calls < 100; now += TICK_NS, calls++) {
		unsigned n = wheel_advance(&w, now, 7);

		CHECK(n <= 7);
		fired += n;
	}
	CHECK_UINT(fired, 100);
	for (int i = 0; i < 100; i++)
		CHECK_UINT(probes[i].times, 1);
}

/* Against the law's own probabilities: each rank's count within five standard deviations, the tail's too. */
static void power_law_draws_as_the_law_says(void)
{
	enum { N = 1000, DRAWS = 200000, HEAD = 50 };
	static unsigned counts[N];

	for (int turn = 0; turn < 2; turn++) {
		const double s = turn ? 2.5 : 1.2;
		struct power_law law;
		struct prng p;
		double total = 0, tail = 0;
		unsigned in_tail = 0;

		memset(counts, 0, sizeof(counts));
		power_law_init(&law, s, N);
		prng_seed(&p, 3);
		for (int i = 0; i < DRAWS; i++) {
			const uint32_t rank = power_law_draw(&law, &p);

			if (!CHECK(rank < N))
				return;
			counts[rank]++;
		}
		for (int k = 1; k <= N; k++)
			total += pow(k, -s);
		for (int k = 1; k <= N; k++) {
			const double expected = DRAWS * pow(k, -s) / total;

			if (k <= HEAD)
				CHECK_NEAR(counts[k - 1], expected, 5 * sqrt(expected) + 1);
			else
				tail += expected;
			in_tail += k > HEAD ? counts[k - 1] : 0;
		}
		CHECK_NEAR(in_tail, tail, 5 * sqrt(tail));
	}
}

static void power_law_over_one_rank_draws_it(void)
{
	struct power_law law;
	struct prng p;

	power_law_init(&law, 1.2, 1);
	prng_seed(&p, 1);
	for (int i = 0; i < 1000; i++)
		CHECK_UINT(power_law_draw(&law, &p), 0);
}

/* The time of a checkpoint is one that its readers take. */
static void dates_before_1970_are_0(void)
{
	CHECK_UINT(clock_date_us_of(&(struct timespec){ -96672489, 345999999 }), 0);
	CHECK_UINT(clock_date_us_of(&(struct timespec){ -1, 999999999 }), 0);
	CHECK_UINT(clock_date_us_of(&(struct timespec){ 0, 1999 }), 1);
	CHECK_UINT(clock_date_us_of(&(struct timespec){ 1795490660, 5000 }), UINT64_C(1795490660000005));
	CHECK(clock_date_us() > 0);
}

static void computed_time_follows_the_clock(void)
{
	struct clock c = { 0 };
	uint64_t last = 0;

	for (int i = 0; i < 200000; i++) {
		const uint64_t told = clock_read(&c), after = clock_ns();

		/* A cycle is told as a nanosecond at most. */
		CHECK(told >= last && told <= after + CLOCK_TRUST_CYCLES);
		last = told;
	}
	for (int i = 0; i < 20; i++) {
		const uint64_t cycles = clock_cycles();
		uint64_t before;

		while (clock_cycles() - cycles <= CLOCK_TRUST_CYCLES)
			;
		before = clock_ns();
		CHECK(clock_read(&c) >= before); /* read again */
	}
	/* Whatever the counter did meanwhile. */
	c.cycles += UINT64_C(1) << 40;
	CHECK(clock_read(&c) >= last);
	c.scale = UINT32_MAX;
	last = clock_read(&c);
	c.cycles -= UINT64_C(1) << 40;
	CHECK(clock_read(&c) >= last);
	CHECK(c.scale <= UINT32_MAX);
}

/* 10 a second, 3 at once: tokens that come between two takes are not lost, and no more than a burst is saved. */
static void bucket_gives_what_comes_in(void)
{
	const uint64_t begin_ns = UINT64_C(1) << 40, each_ns = 100000000;
	struct bucket b = { 0 };
	unsigned given = 0;

	for (unsigned i = 0; i < 5; i++)
		given += bucket_take(&b, begin_ns, 10, 3);
	CHECK_UINT(given, 3);
	CHECK(!bucket_take(&b, begin_ns + each_ns - 1, 10, 3));
	CHECK(bucket_take(&b, begin_ns + each_ns + each_ns / 2, 10, 3));
	CHECK(!bucket_take(&b, begin_ns + 2 * each_ns - 1, 10, 3));
	CHECK(bucket_take(&b, begin_ns + 2 * each_ns, 10, 3));
	for (given = 0; bucket_take(&b, begin_ns + 1000 * each_ns, 10, 3); given++)
		;
	CHECK_UINT(given, 3);
}

const char *const unit_suite = "base";
const struct unit_case unit_cases[] = {
	{ "crc_is_the_ethernet_fcs", crc_is_the_ethernet_fcs },
	{ "crc_of_all_lengths_is_that_by_bits", crc_of_all_lengths_is_that_by_bits },
	{ "crc_of_parts_is_the_crc_of_the_whole", crc_of_parts_is_the_crc_of_the_whole },
	{ "dates_before_1970_are_0", dates_before_1970_are_0 },
	{ "computed_time_follows_the_clock", computed_time_follows_the_clock },
	{ "error_text_is_cut_and_code_returned", error_text_is_cut_and_code_returned },
	{ "small_consecutive_keys_spread_evenly", small_consecutive_keys_spread_evenly },
	{ "wheel_fires_each_once_and_on_time", wheel_fires_each_once_and_on_time },
	{ "wheel_timer_may_arm_itself_for_now", wheel_timer_may_arm_itself_for_now },
	{ "wheel_fires_at_most_max_a_call", wheel_fires_at_most_max_a_call },
	{ "steering_hash_is_the_published_one", steering_hash_is_the_published_one },
	{ "steering_ports_lead_to_their_queue", steering_ports_lead_to_their_queue },
	{ "power_law_draws_as_the_law_says", power_law_draws_as_the_law_says },
	{ "power_law_over_one_rank_draws_it", power_law_over_one_rank_draws_it },
	{ "output that arrives is no error", output_that_arrives_is_no_error },
	{ "output to a full disk is told", output_to_a_full_disk_is_told },
	{ "output that failed before is told", output_that_failed_before_is_told },
	{ "output that was closed matters when there is some", output_that_was_closed_matters_when_there_is_some },
	{ "a_slow_reader_and_signals_get_all_bytes", a_slow_reader_and_signals_get_all_bytes },
	{ "a_slow_writer_and_signals_give_all_bytes", a_slow_writer_and_signals_give_all_bytes },
	{ "a_write_that_does_not_fit_is_an_error", a_write_that_does_not_fit_is_an_error },
	{ "what_is_appended_is_whole_or_nothing", what_is_appended_is_whole_or_nothing },
	{ "what_is_replaced_is_whole_or_as_it_was", what_is_replaced_is_whole_or_as_it_was },
	{ "a_short_file_is_told", a_short_file_is_told },
	{ "what_is_no_file_is_not_opened", what_is_no_file_is_not_opened },
	{ "a_first_line_is_read", a_first_line_is_read },
	{ "log_lines_have_their_date_and_level", log_lines_have_their_date_and_level },
	{ "log_lines_are_cut", log_lines_are_cut },
	{ "log_says_how_much_it_held_back", log_says_how_much_it_held_back },
	{ "log_waits_for_no_reader", log_waits_for_no_reader },
	{ "log_levels_have_names", log_levels_have_names },
	{ "log_events_are_kept", log_events_are_kept },
	{ "bucket_gives_what_comes_in", bucket_gives_what_comes_in },
	{ NULL, NULL },
};
