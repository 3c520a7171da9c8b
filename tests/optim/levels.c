/* SPDX-License-Identifier: BSD-3-Clause */
/* The same bits at every SIMD level, for every kind, any length, and numbers that SIMD units might treat in their own
 * way. */
#include "tests/optim/cases.h"

#include <float.h>
#include <stdlib.h>

struct optim_options random_options(unsigned kind, struct prng *p)
{
	struct optim_options o = defaults_of(kind);

#define DRAW(name, low, high) \
	if (optim_uses(kind, #name)) \
		o.name = prng_below(p, 2) ? between(p, low, high) : o.name;
	DRAW(rate, 0.001, 0.1)
	DRAW(epsilon, 1e-8, 1e-2)
	DRAW(initial_accumulator, 0.01, 1)
	DRAW(momentum, 0.1, 0.95)
	DRAW(beta1, 0, 0.95)
	DRAW(beta2, 0.5, 0.9999)
	DRAW(rho, 0.5, 0.99)
	DRAW(l1, 0, 0.01)
	DRAW(l2, 0, 0.1)
	DRAW(l2_shrinkage, 0, 0.1)
	DRAW(weight_decay, 0, 0.1)
	DRAW(power, -1, 0)
	DRAW(decay_rate, 0.1, 0.99)
	DRAW(decay_steps, 1, 100)
	DRAW(clip_value, 0.1, 1)
	DRAW(clip_norm, 0.1, 3)
	DRAW(trust_max, 0.1, 10)
#undef DRAW
#define X(name, text) \
	if (optim_uses(kind, #name)) \
		o.name = (uint8_t)prng_below(p, 2);
	OPTIM_SWITCHES(X)
#undef X
	return o;
}

/* Any finite float, and now and then one that is not finite, or a rare one. */
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

enum { GUARD = 17, MOST = 70, ROOM = 3 * 1029 + 3 * GUARD };

/* A row of one width: memory as bytes, since float and double are compared alike. */
struct memory {
	double value[ROOM], slots[3 * ROOM], grad[ROOM];
	uint32_t word;
};

static void fill(struct memory *m, bool wide, bool tame, struct prng *p)
{
	double *const arrays[] = { m->value, m->slots, m->grad };
	const unsigned sizes[] = { ROOM, 3 * ROOM, ROOM };

	for (unsigned a = 0; a < 3; a++)
		for (unsigned i = 0; i < sizes[a]; i++) {
			float x = awkward(p);

			if (tame)
				x = between(p, -2, 2);
			if (a == 1 && prng_below(p, 8))
				x = fabsf(x);
			if (wide)
				arrays[a][i] = x * (tame || prng_below(p, 4) ? 1 + 1e-9 * (double)x : 1e-290);
			else
				((float *)arrays[a])[i] = x;
		}
	m->word = prng_below(p, 3) ? prng_below(p, 5000) : (uint32_t)prng_next(p);
}

/* The same bits; of two NaNs the payloads may differ. */
static bool same_bits(const void *actual, const void *expected, bool wide, unsigned n, const char *what, unsigned kind,
		      unsigned row)
{
	for (unsigned i = 0; i < n; i++) {
		const double a = wide ? ((const double *)actual)[i] : (double)((const float *)actual)[i];
		const double b = wide ? ((const double *)expected)[i] : (double)((const float *)expected)[i];

		if (memcmp(&a, &b, sizeof(a)) && !(isnan(a) && isnan(b)))
			return unit_fail(__FILE__, __LINE__, "%s of %s, n = %u: element %u is %a, not %a", what,
					 optim_kind_name(kind), row, i, a, b);
	}
	return true;
}

static void update(const struct optim *o, const struct optim_step *step, struct memory *m, bool wide, unsigned shift,
		   unsigned n)
{
	if (wide)
		optim_apply64(o, step, m->value + shift, m->slots + shift, &m->word, m->grad + shift, n);
	else
		optim_apply(o, step, (float *)m->value + shift, (float *)m->slots + shift, &m->word,
			    (float *)m->grad + shift, n);
}

/* A row that is watched as it is updated: what the scalar form computes for it, and whether its gradient is finite. */
static void compare_watched(const struct optim *o, const struct optim_step *step, const struct memory *from,
			    const struct memory *scalar, unsigned shift, unsigned n)
{
	static struct memory m;
	const float *grad = (const float *)m.grad + shift;
	bool finite = true;

	m = *from;
	for (unsigned i = 0; i < n; i++)
		finite &= isfinite(grad[i]) != 0;
	CHECK_INT(optim_apply_watched(o, step, (float *)m.value + shift, (float *)m.slots + shift, &m.word, grad, n),
		  finite);
	CHECK_UINT(m.word, scalar->word);
	same_bits(m.value, scalar->value, false, ROOM, "watched value", o->options.kind, n);
	same_bits(m.slots, scalar->slots, false, 3 * ROOM, "watched slot", o->options.kind, n);
}

static void compare_sums(const struct optim *scalar, const struct optim *o, const struct memory *from, bool wide,
			 unsigned shift, unsigned n)
{
	static struct memory m[2];
	double squares[2];

	for (unsigned i = 0; i < 2; i++) {
		const struct optim *which = i ? o : scalar;
		float *value = (float *)m[i].value + shift;
		const float *grad = (const float *)m[i].grad + shift;

		m[i] = *from;
		if (wide) {
			optim_accumulate64(which, m[i].value + shift, m[i].grad + shift, n);
			optim_make_finite64(which, m[i].slots + shift, n);
			squares[i] = optim_square_sum64(which, m[i].grad + shift, n);
		} else {
			optim_accumulate(which, value, grad, n);
			optim_make_finite(which, (float *)m[i].slots + shift, n);
			squares[i] = optim_square_sum(which, grad, n);
		}
	}
	same_bits(m[1].value, m[0].value, wide, ROOM, "sum", o->options.kind, n);
	same_bits(m[1].slots, m[0].slots, wide, 3 * ROOM, "finite row", o->options.kind, n);
	same_bits(&squares[1], &squares[0], true, 1, "sum of squares", o->options.kind, n);
}

/* One row of n elements at each level, from the same memory: same bits as the scalar form, nothing written beyond. */
static void compare_levels(unsigned kind, unsigned n, bool wide, bool tame, struct prng *p)
{
	static struct memory before, scalar, other;
	const struct optim_options options = random_options(kind, p);
	const unsigned shift = prng_below(p, 3), slots = make(&options, OPTIM_SCALAR).slots;
	const struct optim_step step = { .rate = tame ? between(p, 0, 0.1) : awkward(p),
					 .scale = prng_below(p, 2) ? 1 : between(p, 0, 1),
					 .step = prng_below(p, 2) ? prng_below(p, 300) : prng_next(p),
					 .count = prng_below(p, 100000),
					 .next = prng_below(p, 8192) };
	struct optim o[2];

	fill(&before, wide, tame, p);
	for (enum optim_simd simd = OPTIM_SCALAR; simd < OPTIM_BEST; simd++) {
		struct memory *m = simd ? &other : &scalar;

		if (optim_init(&o[simd > 0], &options, simd) < 0)
			continue;
		*m = before;
		update(&o[simd > 0], &step, m, wide, shift, n);
		if (!wide)
			compare_watched(&o[simd > 0], &step, &before, &scalar, shift, n);
		if (!simd)
			continue;
		CHECK_UINT(m->word, scalar.word);
		same_bits(m->value, scalar.value, wide, ROOM, "value", kind, n);
		same_bits(m->slots, scalar.slots, wide, 3 * ROOM, "slot", kind, n);
		compare_sums(&o[0], &o[1], &before, wide, shift, n);
	}
	for (unsigned i = 0; i < ROOM; i++)
		if (i < shift || i >= shift + n)
			same_bits((uint8_t *)scalar.value + i * (wide ? 8 : 4),
				  (uint8_t *)before.value + i * (wide ? 8 : 4), wide, 1, "beyond the value", kind, n);
	for (unsigned i = 0; i < ROOM; i++)
		if (i < shift || i >= shift + slots * n)
			same_bits((uint8_t *)scalar.slots + i * (wide ? 8 : 4),
				  (uint8_t *)before.slots + i * (wide ? 8 : 4), wide, 1, "beyond the slots", kind, n);
}

void levels_give_the_same_bits(void)
{
	const unsigned lengths[] = { 127, 128, 1000, 1029 }, rounds = getenv("STAR_SOAK") ? 40 : 2;
	struct prng p;

	prng_seed(&p, 3);
	has(OPTIM_AVX2);
	has(OPTIM_AVX512);
	for (unsigned kind = 1; optim_kind_name(kind); kind++) {
		if (kind == OPTIM_LAMB)
			continue;
		for (unsigned n = 1; n <= MOST + 4; n++)
			for (unsigned round = 0; round < 4 * rounds; round++)
				compare_levels(kind, n <= MOST ? n : lengths[n - MOST - 1], round % 2, round / 2 % 2,
					       &p);
	}
}

/* A tensor of three blocks. */
static void lamb(const struct optim *o, const struct optim_step *step, struct memory *m, bool wide, unsigned n,
		 double norms[2])
{
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned b = 0; b < 3; b++) {
			float *value = (float *)m->value + b * n, *slots = (float *)m->slots + 2 * b * n;

			if (wide && pass)
				optim_lamb_apply64(o, step, m->value + b * n, m->slots + 2 * b * n, n, m->word, norms);
			else if (wide)
				optim_lamb_moments64(o, step, m->value + b * n, m->slots + 2 * b * n, m->grad + b * n,
						     n, m->word, norms);
			else if (pass)
				optim_lamb_apply(o, step, value, slots, n, m->word, norms);
			else
				optim_lamb_moments(o, step, value, slots, (float *)m->grad + b * n, n, m->word, norms);
		}
}

void levels_give_the_same_bits_for_lamb(void)
{
	static struct memory before, scalar, other;
	struct prng p;

	prng_seed(&p, 4);
	for (unsigned n = 1; n <= 1029; n += n < 70 ? 1 : 137)
		for (unsigned round = 0; round < 8; round++) {
			const struct optim_options options = random_options(OPTIM_LAMB, &p);
			const struct optim_step step = { .rate = between(&p, 0, 0.1), .scale = between(&p, 0, 1) };
			const bool wide = round % 2;
			double norms[2][2] = { { 0 } };

			fill(&before, wide, round % 4 < 2, &p);
			for (enum optim_simd simd = OPTIM_SCALAR; simd < OPTIM_BEST; simd++) {
				struct memory *m = simd ? &other : &scalar;
				struct optim o;

				if (optim_init(&o, &options, simd) < 0)
					continue;
				*m = before;
				norms[simd > 0][0] = norms[simd > 0][1] = 0;
				lamb(&o, &step, m, wide, n, norms[simd > 0]);
				if (!simd)
					continue;
				same_bits(norms[1], norms[0], true, 2, "norms", OPTIM_LAMB, n);
				same_bits(m->value, scalar.value, wide, ROOM, "value", OPTIM_LAMB, n);
				same_bits(m->slots, scalar.slots, wide, 3 * ROOM, "slot", OPTIM_LAMB, n);
			}
		}
}
