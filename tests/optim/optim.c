/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/optim.h"

#include <errno.h>
#include <stdio.h>

#include "base/prng.h"
#include "tests/unit.h"

static struct optim make(unsigned kind, float rate, float epsilon, enum optim_simd simd)
{
	struct optim o;

	CHECK_INT(optim_init(&o, kind, rate, epsilon, 0.125f, simd), 0);
	return o;
}

/* Whether the machine has a level; says so if not, since a case is then skipped. */
static bool has(enum optim_simd simd)
{
	static const char *const names[] = { "scalar", "AVX2", "AVX-512" };
	struct optim o;

	if (optim_init(&o, OPTIM_SGD, 0, 0, 0, simd) == 0)
		return true;
	printf("# this machine has no %s: that level is not tested\n", names[simd]);
	return false;
}

static void values_by_hand(void)
{
	const struct {
		unsigned kind;
		float rate, epsilon, value, slot, grad, value_after, slot_after;
	} cases[] = {
		{ OPTIM_SGD, 0.5f, 0, 1, 3, 4, -1, 3 },
		{ OPTIM_SGD, 0.5f, 0, 1, 3, 0, 1, 3 },
		{ OPTIM_ADAGRAD, 0.5f, 0, 1, 0, 3, 0.5f, 9 },
		/* the root is 4: epsilon inside it would give -6.28 */
		{ OPTIM_ADAGRAD, 10, 1, 1, 7, 3, -5, 16 },
		{ OPTIM_ADAGRAD, 10, 1, 1, 7, -3, 7, 16 },
		{ OPTIM_ADAGRAD, 0.5f, 0.25f, 2, 0, 0, 2, 0 },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct optim o = make(cases[i].kind, 99, cases[i].epsilon, OPTIM_BEST);
		float value = cases[i].value, slot = cases[i].slot;

		o.apply(&o, cases[i].rate, &value, &slot, &cases[i].grad, 1);
		CHECK_NEAR(value, cases[i].value_after, 0);
		CHECK_NEAR(slot, cases[i].slot_after, 0);
	}
}

static void init_says_what_it_takes(void)
{
	struct optim o;

	CHECK_INT(optim_init(&o, OPTIM_SGD, 0.5f, 0.25f, 0.125f, OPTIM_BEST), 0);
	CHECK_UINT(o.slots, 0);
	CHECK_NEAR(o.rate, 0.5, 0);
	CHECK_INT(optim_init(&o, OPTIM_ADAGRAD, 0.5f, 0.25f, 0.125f, OPTIM_SCALAR), 0);
	CHECK_UINT(o.kind, OPTIM_ADAGRAD);
	CHECK_UINT(o.slots, 1);
	CHECK_NEAR(o.epsilon, 0.25, 0);
	CHECK_NEAR(o.initial_slot, 0.125, 0);
	CHECK_INT(optim_init(&o, 0, 0, 0, 0, OPTIM_BEST), -EINVAL);
	CHECK_INT(optim_init(&o, 99, 0, 0, 0, OPTIM_BEST), -EINVAL);
	CHECK_INT(optim_init(&o, OPTIM_SGD, 0, 0, 0, (enum optim_simd)(OPTIM_BEST + 1)), -EINVAL);
}

/* The formulas in float64, over 300 steps. */
static void follows_a_float64_reference(void)
{
	enum { N = 37, STEPS = 300 };
	float value[2][N], slot[N], grad[N];
	double sgd[N], adagrad[N], sums[N];
	struct optim o[2] = { make(OPTIM_SGD, 0, 0, OPTIM_BEST), make(OPTIM_ADAGRAD, 0, 1e-3f, OPTIM_BEST) };
	struct prng p;

	prng_seed(&p, 2);
	for (unsigned i = 0; i < N; i++) {
		value[0][i] = value[1][i] = (float)prng_unit(&p);
		sgd[i] = adagrad[i] = value[0][i];
		sums[i] = slot[i] = 0.125f;
	}
	for (unsigned step = 0; step < STEPS; step++) {
		const float rate = 0.01f + 0.1f * (float)prng_unit(&p);

		for (unsigned i = 0; i < N; i++) {
			grad[i] = (float)(4 * prng_unit(&p) - 2);
			sgd[i] -= (double)rate * grad[i];
			sums[i] += (double)grad[i] * grad[i];
			adagrad[i] -= (double)rate * grad[i] / (sqrt(sums[i]) + 1e-3);
		}
		o[0].apply(&o[0], rate, value[0], NULL, grad, N);
		o[1].apply(&o[1], rate, value[1], slot, grad, N);
	}
	for (unsigned i = 0; i < N; i++) {
		CHECK_NEAR(value[0][i], sgd[i], 1e-4);
		CHECK_NEAR(value[1][i], adagrad[i], 1e-4);
		CHECK_NEAR(slot[i], sums[i], 1e-4 * sums[i]);
	}
}

/* Any finite float, and now and then what a SIMD unit might treat in its own way. */
static float awkward(struct prng *p)
{
	static const float special[] = { 0.0f,	   -0.0f,    INFINITY, -INFINITY, NAN,	   0x1p-149f, -0x1p-130f,
					 0x1p-74f, 0x1p127f, 1.0f,     -3e38f,	  0x1p64f, 1e-20f };
	const uint32_t draw = prng_below(p, 8);
	uint32_t bits = (uint32_t)prng_next(p);
	float x;

	if (draw == 0)
		return special[prng_below(p, sizeof(special) / sizeof(special[0]))];
	if (draw < 5)
		return (float)(2 * prng_unit(p) - 1);
	bits &= ~(draw == 5 ? 0x7f800000u : 0x40000000u); /* denormal, or below 2 */
	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* The same bits; of two NaNs the payloads may differ. */
static bool same_bits(const float *a, const float *b, unsigned n, const char *what, unsigned row)
{
	for (unsigned i = 0; i < n; i++)
		if (memcmp(&a[i], &b[i], sizeof(float)) && !(isnan(a[i]) && isnan(b[i])))
			return unit_fail(__FILE__, __LINE__, "%s, n = %u: element %u is %a, not %a", what, row, i, a[i],
					 b[i]);
	return true;
}

enum { MOST = 67, GUARD = 17, ROOM = MOST + GUARD + 1 };

/* One row of n elements at each level: same bits as the scalar form, and nothing written beyond. */
static void compare_levels(enum optim_simd simd, unsigned n, struct prng *p)
{
	float values[3][ROOM], slots[3][ROOM], grad[ROOM];
	const unsigned shift = prng_below(p, 2); /* rows are aligned as floats are, no better */
	const float rate = awkward(p);
	struct optim o[2][2];

	for (unsigned i = 0; i < ROOM; i++) {
		values[0][i] = awkward(p);
		slots[0][i] = prng_below(p, 4) ? fabsf(awkward(p)) : awkward(p);
		grad[i] = awkward(p);
	}
	for (unsigned kind = OPTIM_SGD; kind <= OPTIM_ADAGRAD; kind++) {
		for (unsigned level = 0; level < 2; level++) {
			o[kind - 1][level] = make(kind, 0, 1e-8f, level ? simd : OPTIM_SCALAR);
			memcpy(values[1 + level], values[0], sizeof(values[0]));
			memcpy(slots[1 + level], slots[0], sizeof(slots[0]));
			o[kind - 1][level].apply(&o[kind - 1][level], rate, values[1 + level] + shift,
						 slots[1 + level] + shift, grad + shift, n);
		}
		same_bits(values[2], values[1], ROOM, "value", n);
		same_bits(slots[2], slots[1], ROOM, "slot", n);
		same_bits(values[2] + shift + n, values[0] + shift + n, ROOM - shift - n, "beyond the value", n);
		same_bits(slots[2] + shift + n, slots[0] + shift + n, ROOM - shift - n, "beyond the slot", n);
	}
	for (unsigned level = 0; level < 2; level++) {
		memcpy(values[1 + level], values[0], sizeof(values[0]));
		o[0][level].accumulate(values[1 + level] + shift, grad + shift, n);
	}
	same_bits(values[2], values[1], ROOM, "sum", n);
	memcpy(values[2], values[0], sizeof(values[0]));
	optim_accumulate(values[2] + shift, grad + shift, n);
	same_bits(values[2], values[1], ROOM, "sum at the best level", n);
}

static void levels_give_the_same_bits(void)
{
	struct prng p;

	prng_seed(&p, 3);
	for (enum optim_simd simd = OPTIM_SCALAR; simd < OPTIM_BEST; simd++) {
		if (!has(simd))
			continue;
		for (unsigned n = 1; n <= MOST; n++)
			for (unsigned round = 0; round < 40; round++)
				compare_levels(simd, n, &p);
	}
}

static void nothing_to_do_touches_nothing(void)
{
	for (enum optim_simd simd = OPTIM_SCALAR; simd < OPTIM_BEST; simd++) {
		struct optim o;

		if (!has(simd))
			continue;
		o = make(OPTIM_ADAGRAD, 1, 0, simd);
		o.apply(&o, 1, NULL, NULL, NULL, 0);
		o.accumulate(NULL, NULL, 0);
	}
}

static void sums_keep_their_order(void)
{
	const float parts[] = { 1, 0x1p25f, -0x1p25f };
	float sum = 0, reverse = 0;

	for (int i = 0; i < 3; i++) {
		optim_accumulate(&sum, &parts[i], 1);
		optim_accumulate(&reverse, &parts[2 - i], 1);
	}
	CHECK_NEAR(sum, 0, 0); /* the 1 is lost in 2^25 */
	CHECK_NEAR(reverse, 1, 0);
}

const char *const unit_suite = "optim";
const struct unit_case unit_cases[] = {
	{ "values_by_hand", values_by_hand },
	{ "init_says_what_it_takes", init_says_what_it_takes },
	{ "follows_a_float64_reference", follows_a_float64_reference },
	{ "levels_give_the_same_bits", levels_give_the_same_bits },
	{ "nothing_to_do_touches_nothing", nothing_to_do_touches_nothing },
	{ "sums_keep_their_order", sums_keep_their_order },
	{ NULL, NULL },
};
