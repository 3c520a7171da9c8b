/* SPDX-License-Identifier: BSD-3-Clause */
/* Small numbers that can be followed by hand, and what surrounds the formulas. */
#include "tests/optim/cases.h"

#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>

struct optim_options defaults_of(unsigned kind)
{
	struct optim_options options;

	CHECK_INT(optim_defaults(&options, kind), 0);
	return options;
}

struct optim make(const struct optim_options *options, enum optim_simd simd)
{
	struct star_error err = { 0 };
	struct optim o;

	if (optim_init(&o, options, simd) < 0) {
		optim_options_check(options, &err);
		unit_fail(__FILE__, __LINE__, "no optimizer: %s", err.text);
	}
	return o;
}

bool has(enum optim_simd simd)
{
	static const char *const names[] = { "scalar form", "AVX2", "AVX-512" };
	const struct optim_options options = defaults_of(OPTIM_SGD);
	struct optim o;

	if (optim_init(&o, &options, simd) == 0)
		return true;
	printf("# this machine has no %s: that level is not tested\n", names[simd]);
	return false;
}

unsigned run_length(unsigned brief)
{
	return getenv("STAR_SOAK") ? 10000 : brief;
}

void init_says_what_it_takes(void)
{
	const struct {
		unsigned kind, slots, words;
		float first;
	} cases[] = {
		{ OPTIM_SGD, 0, 0, 0 },
		{ OPTIM_ADAGRAD, 1, 0, 0 },
		{ OPTIM_MOMENTUM, 1, 0, 0 },
		{ OPTIM_NESTEROV, 1, 0, 0 },
		{ OPTIM_ADAGRAD_DECAY, 1, 1, 0.1f },
		{ OPTIM_RMSPROP, 1, 0, 0 },
		{ OPTIM_ADADELTA, 2, 0, 0 },
		{ OPTIM_ADAM, 2, 1, 0 },
		{ OPTIM_AMSGRAD, 3, 1, 0 },
		{ OPTIM_ADAMW, 2, 1, 0 },
		{ OPTIM_ADAM_ASYNC, 2, 0, 0 },
		{ OPTIM_FTRL, 2, 0, 0.1f },
		{ OPTIM_LAMB, 2, 1, 0 },
		{ OPTIM_NONE, 0, 0, 0 },
	};
	struct optim_options options;
	struct optim o;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		options = defaults_of(cases[i].kind);
		o = make(&options, OPTIM_BEST);
		CHECK_UINT(o.slots, cases[i].slots);
		CHECK_UINT(o.words, cases[i].words);
		CHECK_NEAR(o.initial_slots[0], cases[i].first, 0);
		CHECK_NEAR(o.initial_slots[1], 0, 0);
		CHECK_NEAR(o.initial_slots[2], 0, 0);
		CHECK_INT(o.whole, cases[i].kind == OPTIM_LAMB);
	}
	options = defaults_of(OPTIM_RMSPROP);
	options.centered = 1;
	CHECK_UINT(make(&options, OPTIM_BEST).slots, 2);
	options.momentum = 0.5f;
	CHECK_UINT(make(&options, OPTIM_BEST).slots, 3);
	options.centered = 0;
	CHECK_UINT(make(&options, OPTIM_BEST).slots, 2);
	options = defaults_of(OPTIM_ADAM);
	options.count_per_table = 1;
	CHECK_UINT(make(&options, OPTIM_BEST).words, 0);
	options = defaults_of(OPTIM_ADAM_ASYNC);
	options.count_per_table = 0;
	CHECK_UINT(make(&options, OPTIM_BEST).words, 1);
	options.sparse_rmsprop = 1;
	CHECK_UINT(make(&options, OPTIM_BEST).words, 0);
	options.rate = -1;
	CHECK_INT(optim_init(&o, &options, OPTIM_BEST), -EINVAL);
	options = defaults_of(OPTIM_SGD);
	CHECK_INT(optim_init(&o, &options, (enum optim_simd)(OPTIM_BEST + 1)), -EINVAL);
	options.kind = 0;
	CHECK_INT(optim_init(&o, &options, OPTIM_BEST), -EINVAL);
}

void values_by_hand(void)
{
	const struct {
		unsigned kind;
		float rate, epsilon, value, slot, grad, value_after, slot_after;
	} cases[] = {
		{ OPTIM_SGD, 0.5f, 0, 1, 3, 4, -1, 3 },
		{ OPTIM_SGD, 0.5f, 0, 1, 3, 0, 1, 3 },
		{ OPTIM_SGD, 0, 0, 1, 3, 7, 1, 3 },
		{ OPTIM_ADAGRAD, 0.5f, 0, 1, 0, 3, 0.5f, 9 },
		/* the root is 4: epsilon inside it would give -6.28 */
		{ OPTIM_ADAGRAD, 10, 1, 1, 7, 3, -5, 16 },
		{ OPTIM_ADAGRAD, 10, 1, 1, 7, -3, 7, 16 },
		{ OPTIM_ADAGRAD, 0.5f, 0.25f, 2, 0, 0, 2, 0 },
		{ OPTIM_MOMENTUM, 0.5f, 0, 1, 2, 3, -1, 4 }, /* momentum 1/2 */
		{ OPTIM_NESTEROV, 0.5f, 0, 1, 2, 3, -1.5f, 4 },
		{ OPTIM_NONE, 0.5f, 0, 1, 2, 3, 1, 2 },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct optim_options options = defaults_of(cases[i].kind);
		const struct optim_step step = step_of(cases[i].rate);
		double value64 = cases[i].value, slot64 = cases[i].slot, grad64 = cases[i].grad;
		float value = cases[i].value, slot = cases[i].slot;
		struct optim o;

		if (options.momentum > 0)
			options.momentum = 0.5f;
		if (optim_uses(options.kind, "epsilon"))
			options.epsilon = cases[i].epsilon;
		o = make(&options, OPTIM_BEST);
		optim_apply(&o, &step, &value, &slot, NULL, &cases[i].grad, 1);
		optim_apply64(&o, &step, &value64, &slot64, NULL, &grad64, 1);
		CHECK_NEAR(value, cases[i].value_after, 0);
		CHECK_NEAR(slot, cases[i].slot_after, 0);
		CHECK_NEAR(value64, cases[i].value_after, 0);
		CHECK_NEAR(slot64, cases[i].slot_after, 0);
	}
}

/* Scale, clip by value, clip by the row's norm, L2, L1. */
void gradients_are_prepared_in_order(void)
{
	struct optim_options options = defaults_of(OPTIM_SGD);
	struct optim_step step = step_of(1);
	float value[4] = { 10, -10, 0, 20 };
	double value64[4] = { 10, -10, 0, 20 };
	struct optim o;

	step.scale = 2;
	options.clip_value = 3;
	options.clip_norm = 2.5f;
	options.l2 = 0.1f;
	options.l1 = 0.25f;
	o = make(&options, OPTIM_BEST);
	/* scaled 8, -1, 4, 0; cut to 3, -1, 3, 0 of norm 4.36; then scaled to 2.5 */
	optim_apply(&o, &step, value, NULL, NULL, (const float[]){ 4, -0.5f, 2, 0 }, 4);
	CHECK_NEAR(value[0], 10 - (3 * 2.5 / sqrt(19) + 1 + 0.25), 1e-5);
	CHECK_NEAR(value[1], -10 - (-1 * 2.5 / sqrt(19) - 1 - 0.25), 1e-5);
	CHECK_NEAR(value[2], -3 * 2.5 / sqrt(19), 1e-5);
	CHECK_NEAR(value[3], 20 - (2 + 0.25), 1e-5);
	optim_apply64(&o, &step, value64, NULL, NULL, (const double[]){ 4, -0.5, 2, 0 }, 4);
	for (unsigned i = 0; i < 4; i++)
		CHECK_NEAR(value64[i], value[i], 1e-5);
	/* A scale of 0 leaves nothing of a gradient. */
	options = defaults_of(OPTIM_SGD);
	o = make(&options, OPTIM_BEST);
	step.scale = 0;
	optim_apply(&o, &step, value + 3, NULL, NULL, (const float[]){ 1e30f }, 1);
	CHECK_NEAR(value[3], 17.75, 1e-5);
}

void rows_are_clipped_by_their_norm(void)
{
	struct optim_options options = defaults_of(OPTIM_SGD);
	const struct optim_step step = step_of(1);
	float value[100], grad[100];
	struct optim o;

	options.clip_norm = 5;
	o = make(&options, OPTIM_BEST);
	for (unsigned n = 1; n <= 100; n++) {
		const float sizes[] = { 1e-20f, 4.99999f / sqrtf((float)n), 0.6f, 1e20f, 3e38f };

		for (unsigned s = 0; s < 5; s++) {
			const double norm = (double)sizes[s] * sqrt(n);
			const double left = (double)sizes[s] * (norm > 5 ? 5 / norm : 1);

			for (unsigned i = 0; i < n; i++) {
				value[i] = 0;
				grad[i] = i % 2 ? -sizes[s] : sizes[s];
			}
			optim_apply(&o, &step, value, NULL, NULL, grad, n);
			for (unsigned i = 0; i < n; i++)
				CHECK_NEAR(value[i], i % 2 ? left : -left,
					   (s < 4 ? 3e-7 : 1e-4) * left); /* the factor is not a normal float32 */
		}
	}
	/* NaN stays NaN. */
	value[0] = value[1] = 0;
	optim_apply(&o, &step, value, NULL, NULL, (const float[]){ 1, NAN }, 2);
	CHECK_NEAR(value[0], -1, 0);
	CHECK(isnan(value[1]));
}

/* With a constant gradient Adam's step is the rate, whatever the count, if the count is right. */
void counts_of_bias_correction(void)
{
	struct optim_options options = defaults_of(OPTIM_ADAM);
	struct optim_step step = step_of(0.5f);
	double value = 0, slots[2] = { 0 };
	uint32_t word = 0;
	struct optim o = make(&options, OPTIM_BEST);

	for (unsigned i = 1; i <= 20000; i++) {
		step.step = 7; /* nothing to it */
		value = 0;
		optim_apply64(&o, &step, &value, slots, &word, &(double){ -3 }, 1);
		CHECK_UINT(word, i);
		CHECK_NEAR(value, 0.5, 1e-8);
	}
	word = UINT32_MAX; /* the most that it counts */
	value = 0;
	optim_apply64(&o, &step, &value, slots, &word, &(double){ -3 }, 1);
	CHECK_UINT(word, UINT32_MAX);
	CHECK_NEAR(value, 0.5, 1e-8);

	options.count_per_table = 1;
	o = make(&options, OPTIM_BEST);
	slots[0] = slots[1] = 0;
	for (unsigned i = 1; i <= 200; i++) {
		step.step = i % 2 ? i : 0; /* the training step, or the table's count */
		step.count = i % 2 ? 1000000 : i;
		value = 0;
		optim_apply64(&o, &step, &value, slots, NULL, &(double){ -3 }, 1);
		CHECK_NEAR(value, 0.5, 1e-8);
	}
	/* Neither is known: the first. */
	slots[0] = slots[1] = value = 0;
	step.step = step.count = 0;
	optim_apply64(&o, &step, &value, slots, NULL, &(double){ -3 }, 1);
	CHECK_NEAR(value, 0.5, 1e-8);
}

void accumulators_decay_when_due(void)
{
	struct optim_options options = defaults_of(OPTIM_ADAGRAD_DECAY);
	const struct {
		uint64_t step, count;
		float slot;
		uint32_t decays;
	} cases[] = {
		{ 9, 0, 64, 0 },
		{ 10, 0, 32, 1 },
		{ 19, 0, 32, 1 },
		{ 50, 0, 16, 2 },
		{ 50, 0, 8, 3 },
		{ 50, 0, 4, 4 },
		/* one at a time */ { 50, 0, 3, 5 }, /* not below its first value */
		{ 50, 1000000, 3, 5 },
		{ 0, 60, 3, 6 },
		{ 0, 0, 3, 6 },
	};
	struct optim_step step = step_of(0);
	float value = 1, slot = 64;
	uint32_t decays = 0;
	struct optim o;

	options.decay_rate = 0.5f;
	options.decay_steps = 10;
	options.initial_accumulator = 3;
	o = make(&options, OPTIM_BEST);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		step.step = cases[i].step;
		step.count = cases[i].count;
		optim_apply(&o, &step, &value, &slot, &decays, &(float){ 0 }, 1);
		CHECK_NEAR(slot, cases[i].slot, 0);
		CHECK_UINT(decays, cases[i].decays);
	}
	decays = UINT32_MAX;
	step.step = UINT64_MAX;
	slot = 64;
	optim_apply(&o, &step, &value, &slot, &decays, &(float){ 0 }, 1);
	CHECK_UINT(decays, UINT32_MAX);
}

/* With a gradient that does not change the variance is 0, give or take its roundings: it must not become negative. */
void variances_are_not_negative(void)
{
	struct optim_options options = defaults_of(OPTIM_RMSPROP);
	struct optim_step step = step_of(0.001f);
	float value[64] = { 0 }, slots[2 * 64] = { 0 }, grad[64];
	struct optim o;

	options.centered = 1;
	options.rho = 0.5f;
	o = make(&options, OPTIM_BEST);
	for (unsigned i = 0; i < 64; i++)
		grad[i] = 0.1f + 0.013f * (float)i;
	for (unsigned t = 0; t < 200; t++)
		optim_apply(&o, &step, value, slots, NULL, grad, 64);
	for (unsigned i = 0; i < 64; i++)
		CHECK(isfinite(value[i]));
}

/* Sums of squares that are 0, and a rate of 0: no 0 / 0 reaches the weight. */
void ftrl_divides_by_no_zero(void)
{
	struct optim_options options = defaults_of(OPTIM_FTRL);
	struct optim_step step = step_of(0.5f);
	float value[3] = { 1, 1, 1 }, slots[6] = { 0 };
	const float grad[3] = { 0, 1e-25f, 3 }; /* the square of the second is 0 */
	struct optim o;

	options.initial_accumulator = 0;
	options.l1 = 0.25f;
	o = make(&options, OPTIM_BEST);
	optim_apply(&o, &step, value, slots, NULL, grad, 3);
	CHECK_NEAR(value[0], 0, 0);
	CHECK_NEAR(value[1], 0, 0);
	CHECK_NEAR(slots[2], 9, 0);
	CHECK_NEAR(slots[5], 3 - 6, 0);		    /* g - (3 - 0) / 0.5 * 1 */
	CHECK_NEAR(value[2], (3 - 0.25) / 6, 1e-7); /* -(z + l1) / (3 / 0.5) */
	step.rate = 0;
	optim_apply(&o, &step, value, slots, NULL, grad, 3);
	CHECK_NEAR(value[2], (3 - 0.25) / 6, 1e-7);
	CHECK_NEAR(slots[2], 9, 0);
	step.rate = 0.5f;
	optim_apply(&o, &step, value, slots, NULL, (const float[]){ NAN, 0, 0 }, 3);
	CHECK(isnan(value[0])); /* NaN is seen, not made 0 */
}

void nothing_to_do_touches_nothing(void)
{
	const struct optim_step step = step_of(1);

	for (enum optim_simd simd = OPTIM_SCALAR; simd < OPTIM_BEST; simd++) {
		struct optim_options options = defaults_of(OPTIM_ADAGRAD);
		struct optim o;
		uint32_t word = 5;

		if (!has(simd))
			continue;
		options.clip_norm = 1;
		o = make(&options, simd);
		optim_apply(&o, &step, NULL, NULL, NULL, NULL, 0);
		optim_apply64(&o, &step, NULL, NULL, NULL, NULL, 0);
		optim_accumulate(&o, NULL, NULL, 0);
		optim_make_finite(&o, NULL, 0);
		CHECK(optim_finite(&o, NULL, 0));
		CHECK_NEAR(optim_square_sum(&o, NULL, 0), 0, 0);
		options = defaults_of(OPTIM_NONE);
		o = make(&options, simd);
		optim_apply(&o, &step, NULL, NULL, &word, NULL, 100);
		CHECK_UINT(word, 5);
	}
}

void sums_keep_their_order(void)
{
	const struct optim_options options = defaults_of(OPTIM_SGD);
	const struct optim o = make(&options, OPTIM_BEST);
	const float parts[] = { 1, 0x1p25f, -0x1p25f };
	double sum64 = 0;
	float sum = 0, reverse = 0;

	for (int i = 0; i < 3; i++) {
		optim_accumulate(&o, &sum, &parts[i], 1);
		optim_accumulate(&o, &reverse, &parts[2 - i], 1);
		optim_accumulate64(&o, &sum64, &(double){ parts[i] }, 1);
	}
	CHECK_NEAR(sum, 0, 0); /* the 1 is lost in 2^25 */
	CHECK_NEAR(reverse, 1, 0);
	CHECK_NEAR(sum64, 1, 0);
}

void square_sums(void)
{
	const struct optim_options options = defaults_of(OPTIM_SGD);
	const struct optim o = make(&options, OPTIM_BEST);
	double reals[70], expected;
	float floats[70];
	struct prng p;

	prng_seed(&p, 20);
	for (unsigned n = 1; n <= 70; n++) {
		expected = 0;
		for (unsigned i = 0; i < n; i++) {
			floats[i] = (float)(2 * prng_unit(&p) - 1);
			reals[i] = floats[i];
			expected += reals[i] * reals[i];
		}
		CHECK_NEAR(optim_square_sum(&o, floats, n), expected, 1e-14 * expected);
		CHECK_NEAR(optim_square_sum64(&o, reals, n), optim_square_sum(&o, floats, n), 0);
	}
	/* Squares that float32 does not have. */
	CHECK_NEAR(optim_square_sum(&o, (const float[]){ 3e38f, 1e-30f }, 2) / 9e76, 1, 1e-6);
	CHECK_NEAR(optim_square_sum(&o, (const float[]){ 1e-30f, 1e-30f }, 2) / 2e-60, 1, 1e-6);
}

/* At the bound, and below it, at each place of a row of n; what is behind the row is not looked at. */
static void check_moderate(const struct optim *o, unsigned n)
{
	static const float beyond[] = { 0x1p97f, -0x1p97f, FLT_MAX, INFINITY, -INFINITY, NAN };
	static const double beyond64[] = { 0x1p961, -0x1p961, DBL_MAX, INFINITY, -INFINITY, NAN };
	float row[41];
	double row64[41];

	for (unsigned i = 0; i <= 40; i++) {
		row[i] = i >= n ? NAN : i % 2 ? 0x1.fffffep96f : -0x1p-149f;
		row64[i] = i >= n ? NAN : i % 2 ? 0x1.fffffffffffffp960 : -0x1p-1074;
	}
	CHECK(optim_moderate(o, row, n));
	CHECK(optim_moderate64(o, row64, n));
	for (unsigned b = 0; b < 6 * n; b++) {
		const float was = row[b / 6];
		const double was64 = row64[b / 6];

		row[b / 6] = beyond[b % 6];
		row64[b / 6] = beyond64[b % 6];
		CHECK(!optim_moderate(o, row, n));
		CHECK(!optim_moderate64(o, row64, n));
		row[b / 6] = was;
		row64[b / 6] = was64;
	}
}

/* What optim_moderate promises of sums. */
void sums_of_moderate_are_finite(void)
{
	float sum = 0;

	for (unsigned i = 0; i < 1 << 27; i++)
		sum += 0x1.fffffep96f;
	CHECK(sum > 0x1p120f && sum <= 0x1p122f); /* in real numbers it would be 2^124 */
}

void finite_or_not(void)
{
	const float bad[] = { INFINITY, -INFINITY, NAN, -NAN };
	const float good[] = { FLT_MAX, -FLT_MAX, 0, 0 };
	const struct optim_options options = defaults_of(OPTIM_SGD);

	for (enum optim_simd simd = OPTIM_SCALAR; simd < OPTIM_BEST; simd++) {
		struct optim o;

		if (!has(simd))
			continue;
		o = make(&options, simd);
		for (unsigned n = 1; n <= 40; n++) {
			float row[41];
			double row64[41];

			check_moderate(&o, n);
			for (unsigned i = 0; i <= 40; i++)
				row64[i] = row[i] = i < n ? (i % 2 ? FLT_MAX : -0x1p-149f) : NAN;
			CHECK(optim_finite(&o, row, n));
			CHECK(optim_finite64(&o, row64, n));
			for (unsigned b = 0; b < 4 * n; b++) {
				const unsigned at = b / 4;
				const float was = row[at];

				row64[at] = row[at] = bad[b % 4];
				CHECK(!optim_finite(&o, row, n));
				CHECK(!optim_finite64(&o, row64, n));
				optim_make_finite(&o, row, n);
				optim_make_finite64(&o, row64, n);
				CHECK_NEAR(row[at], good[b % 4], 0);
				CHECK_NEAR(row64[at], b % 4 < 2 ? (b % 4 ? -DBL_MAX : DBL_MAX) : 0, 0);
				row64[at] = row[at] = was;
				for (unsigned i = 0; i < n; i++) {
					CHECK_NEAR(row[i], i % 2 ? FLT_MAX : -0x1p-149f, 0);
					CHECK_NEAR(row64[i], row[i], 0);
				}
				CHECK(n > 40 || isnan(row[n]));
			}
		}
	}
}

/* Weights of norm 5, and a first step whose direction has elements of size 1: the ratio is 5 / 2. */
void lamb_trusts_by_the_whole_tensor(void)
{
	struct optim_options options = defaults_of(OPTIM_LAMB);
	const struct optim_step step = step_of(0.5f);
	const double bounds[] = { 0, 2, 100 }, ratios[] = { 2.5, 2, 2.5 };

	options.weight_decay = 0;
	options.epsilon = 0;
	for (unsigned i = 0; i < 3; i++) {
		float value[4] = { 3, 4, 0, 0 }, slots[4][2] = { 0 };
		const float grad[4] = { 7, 1e-3f, -2, 4 };
		double norms[2] = { 0, 0 };
		struct optim o;

		options.trust_max = (float)bounds[i];
		o = make(&options, OPTIM_BEST);
		for (unsigned b = 0; b < 4; b++) /* in blocks of one */
			optim_lamb_moments(&o, &step, value + b, slots[b], grad + b, 1, 1, norms);
		CHECK_NEAR(norms[0], 25, 1e-5);
		CHECK_NEAR(norms[1], 4, 1e-5);
		for (unsigned b = 0; b < 4; b++)
			optim_lamb_apply(&o, &step, value + b, slots[b], 1, 1, norms);
		CHECK_NEAR(value[0], 3 - 0.5 * ratios[i], 1e-5);
		CHECK_NEAR(value[1], 4 - 0.5 * ratios[i], 1e-5);
		CHECK_NEAR(value[2], 0.5 * ratios[i], 1e-5);
		CHECK_NEAR(value[3], -0.5 * ratios[i], 1e-5);
	}
	/* Weights of zero would never leave it: their ratio is 1. */
	for (unsigned zero_grad = 0; zero_grad < 2; zero_grad++) {
		float value = 0, slots[2] = { 0 }, grad = zero_grad ? 0 : 3;
		double norms[2] = { 0, 0 };
		struct optim o;

		options.epsilon = 1e-6f;
		options.trust_max = 0;
		o = make(&options, OPTIM_BEST);
		optim_lamb_moments(&o, &step, &value, slots, &grad, 1, 1, norms);
		optim_lamb_apply(&o, &step, &value, slots, 1, 1, norms);
		CHECK_NEAR(value, zero_grad ? 0 : -0.5, 1e-5);
	}
}

const char *const unit_suite = "optim";
const struct unit_case unit_cases[] = {
#define X(name) { #name, name },
	OPTIM_CASES(X)
#undef X
		{ NULL, NULL },
};
