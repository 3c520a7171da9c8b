/* SPDX-License-Identifier: BSD-3-Clause */
/* One element at a time, with integers where possible: runs on every machine, and is the reference for tests. */
#include <math.h>
#include <string.h>

#include "tensor/convert_levels.h"
#include "tensor/philox.h"

static uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static float float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* The random word of element i; each block of four is computed once, because elements come in order. */
static uint32_t random_word(const uint32_t key[2], uint64_t counter, uint32_t i, uint32_t words[4])
{
	const uint32_t block[4] = { (uint32_t)counter, (uint32_t)(counter >> 32), i / 4, 0 };

	if (i % 4 == 0)
		philox(block, key, words);
	return words[i % 4];
}

/* A random number of 24 bits in [0, 1). */
static float unit(uint32_t word)
{
	return (float)(word >> 8) * 0x1p-24f;
}

static void copy_floats(float *to, const void *from, uint32_t n)
{
	memcpy(to, from, n * sizeof(*to));
}

static void store_floats(void *to, const float *from, uint32_t n)
{
	memcpy(to, from, n * sizeof(*from));
}

static void from_doubles(float *to, const void *from, uint32_t n)
{
	const double *doubles = from;

	for (uint32_t i = 0; i < n; i++)
		to[i] = (float)doubles[i];
}

static void to_doubles(void *to, const float *from, uint32_t n)
{
	double *doubles = to;

	for (uint32_t i = 0; i < n; i++)
		doubles[i] = from[i];
}

/* binary16: 1 bit of sign, 5 of exponent (bias 15), 10 of mantissa. A signalling NaN becomes a quiet one. */
static float half_to_float(uint16_t half)
{
	const uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 0x1f, mantissa = half & 0x3ff;

	if (exponent == 0x1f)
		return float_of(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0));
	if (exponent == 0)
		return float_of(sign | bits_of((float)mantissa * 0x1p-24f));
	return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

static uint16_t float_to_half(float x)
{
	const uint32_t sign = bits_of(x) >> 16 & 0x8000, a = bits_of(x) & 0x7fffffff;

	if (a > 0x7f800000)
		return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
	if (a >= bits_of(65536))
		return (uint16_t)(sign | 0x7c00);
	/* Below the smallest normal number, 2^-14, a step is 2^-24, as for floats from 0.5 on: the addition rounds. */
	if (a < bits_of(0x1p-14f))
		return (uint16_t)(sign | (bits_of(float_of(a) + 0.5f) - bits_of(0.5f)));
	return (uint16_t)(sign | ((a - (112u << 23) + 0xfff + (a >> 13 & 1)) >> 13));
}

static uint16_t float_to_half_stochastic(float x, uint32_t word)
{
	const uint32_t sign = bits_of(x) >> 16 & 0x8000, a = bits_of(x) & 0x7fffffff;
	uint32_t steps;
	float exact;

	if (a >= bits_of(65536))
		return float_to_half(x);
	if (a >= bits_of(0x1p-14f))
		return (uint16_t)(sign | ((a - (112u << 23) + (word >> 19)) >> 13));
	exact = float_of(a) * 0x1p24f;
	steps = (uint32_t)exact;
	return (uint16_t)(sign | (steps + (unit(word) < exact - (float)steps)));
}

static void from_halves(float *to, const void *from, uint32_t n)
{
	const uint16_t *halves = from;

	for (uint32_t i = 0; i < n; i++)
		to[i] = half_to_float(halves[i]);
}

static void to_halves(void *to, const float *from, uint32_t n)
{
	uint16_t *halves = to;

	for (uint32_t i = 0; i < n; i++)
		halves[i] = float_to_half(from[i]);
}

static void to_halves_stochastic(void *to, const float *from, uint32_t n, const uint32_t key[2], uint64_t counter)
{
	uint16_t *halves = to;
	uint32_t words[4];

	for (uint32_t i = 0; i < n; i++)
		halves[i] = float_to_half_stochastic(from[i], random_word(key, counter, i, words));
}

static void from_bfloats(float *to, const void *from, uint32_t n)
{
	const uint16_t *bfloats = from;

	for (uint32_t i = 0; i < n; i++)
		to[i] = float_of((uint32_t)bfloats[i] << 16);
}

/* add: what is added to the 16 bits that are cut off. */
static uint16_t float_to_bfloat(float x, uint32_t add)
{
	const uint32_t bits = bits_of(x), a = bits & 0x7fffffff;

	if (a > 0x7f800000)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + (a == 0x7f800000 ? 0 : add)) >> 16);
}

static void to_bfloats(void *to, const float *from, uint32_t n)
{
	uint16_t *bfloats = to;

	for (uint32_t i = 0; i < n; i++)
		bfloats[i] = float_to_bfloat(from[i], 0x7fff + (bits_of(from[i]) >> 16 & 1));
}

static void to_bfloats_stochastic(void *to, const float *from, uint32_t n, const uint32_t key[2], uint64_t counter)
{
	uint16_t *bfloats = to;
	uint32_t words[4];

	for (uint32_t i = 0; i < n; i++)
		bfloats[i] = float_to_bfloat(from[i], random_word(key, counter, i, words) >> 16);
}

static void from_scaled(float *to, const void *from, uint32_t n)
{
	const float scale = *(const float *)from;
	const int8_t *q = (const int8_t *)from + sizeof(scale);

	for (uint32_t i = 0; i < n; i++)
		to[i] = scale * (float)q[i];
}

/* The row's scale: its largest magnitude / 127, or the NaN or infinity that it contains. */
static float scale_of(const float *from, uint32_t n)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < n; i++)
		most = (bits_of(from[i]) & 0x7fffffff) > most ? bits_of(from[i]) & 0x7fffffff : most;
	return most > 0x7f800000 ? float_of(0x7fc00000) : float_of(most) / 127;
}

static void to_scaled_by(void *to, const float *from, uint32_t n, const uint32_t *key, uint64_t counter)
{
	const float scale = scale_of(from, n);
	int8_t *q = (int8_t *)to + sizeof(scale);
	uint32_t words[4];

	memcpy(to, &scale, sizeof(scale));
	memset(q, 0, (n + 3) & ~3u);
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t word = key ? random_word(key, counter, i, words) : 0;
		float y;

		if (!(scale < INFINITY)) { /* only the sign remains */
			q[i] = signbit(from[i]) ? -1 : 1;
			continue;
		}
		y = scale > 0 ? from[i] / scale : 0;
		y = key ? floorf(y) + (unit(word) < y - floorf(y)) : rintf(y);
		q[i] = (int8_t)(y > 127 ? 127 : y < -127 ? -127 : y);
	}
}

static void to_scaled(void *to, const float *from, uint32_t n)
{
	to_scaled_by(to, from, n, NULL, 0);
}

static void to_scaled_stochastic(void *to, const float *from, uint32_t n, const uint32_t key[2], uint64_t counter)
{
	to_scaled_by(to, from, n, key, counter);
}

const struct converter tensor_convert_scalar[CONVERT_TYPES] = {
	[STAR_FLOAT32] = { copy_floats, store_floats, NULL },
	[STAR_FLOAT16] = { from_halves, to_halves, to_halves_stochastic },
	[STAR_BFLOAT16] = { from_bfloats, to_bfloats, to_bfloats_stochastic },
	[STAR_FLOAT64] = { from_doubles, to_doubles, NULL },
	[STAR_SCALED_INT8] = { from_scaled, to_scaled, to_scaled_stochastic },
};
