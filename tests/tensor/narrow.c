/* SPDX-License-Identifier: BSD-3-Clause */
/* One element's conversions, all of them where there are few enough. */
#include "tests/tensor/cases.h"

#include <stdlib.h>

#include "base/prng.h"

enum { HALVES = 65536 };

/* The value of a binary16 by its definition (IEEE 754, 3.4); not for exponent 31. */
static double half_value(unsigned half)
{
	const int exponent = (int)(half >> 10 & 0x1f), mantissa = (int)(half & 0x3ff);
	const double size = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);

	return half & 0x8000 ? -size : size;
}

void every_float16_to_float32(void)
{
	uint16_t *halves = malloc(HALVES * sizeof(*halves));
	float *floats = malloc(HALVES * sizeof(*floats));

	for (unsigned i = 0; i < HALVES; i++)
		halves[i] = (uint16_t)i;
	for (enum convert_simd simd = CONVERT_SCALAR; simd < CONVERT_BEST; simd++) {
		const struct converter *c = level(STAR_FLOAT16, simd);

		if (!c)
			continue;
		c->to_float(floats, halves, HALVES);
		for (unsigned i = 0; i < HALVES; i++) {
			const uint32_t sign = (i & 0x8000) << 16, payload = (i & 0x3ff) << 13;

			if ((i & 0x7c00) != 0x7c00) {
				CHECK_NEAR(floats[i], half_value(i), 0);
				CHECK_UINT(bits_of(floats[i]) & 0x80000000, sign);
			} else {
				CHECK_UINT(bits_of(floats[i]), sign | 0x7f800000 | payload | (payload ? 0x400000 : 0));
			}
		}
	}
	free(halves);
	free(floats);
}

/* What one float becomes, at one level, alone and at the end of a row that fills a vector. */
static uint16_t narrowed(const struct converter *c, float x)
{
	float row[17] = { 0 };
	uint16_t alone, out[17];

	row[16] = x;
	c->from_float(&alone, &x, 1);
	c->from_float(out, row, 17);
	CHECK_UINT(out[16], alone);
	return alone;
}

/* Each float that lies half-way between two halves goes to the even one; its neighbours go where they are nearer. */
void every_boundary_of_float16(void)
{
	for (enum convert_simd simd = CONVERT_SCALAR; simd < CONVERT_BEST; simd++) {
		const struct converter *c = level(STAR_FLOAT16, simd);

		for (unsigned i = 0; c && i < 0x7c00; i++) {
			const double next = i == 0x7bff ? 65536 : half_value(i + 1);
			const float middle = (float)((half_value(i) + next) / 2);

			CHECK_NEAR(middle, (half_value(i) + next) / 2, 0); /* is a float */
			for (unsigned sign = 0; sign <= 0x8000; sign += 0x8000) {
				const float s = sign ? -1 : 1;

				CHECK_UINT(narrowed(c, s * (float)half_value(i)), sign | i);
				CHECK_UINT(narrowed(c, s * middle), sign | (i + (i & 1)));
				CHECK_UINT(narrowed(c, s * nextafterf(middle, 0)), sign | i);
				CHECK_UINT(narrowed(c, s * nextafterf(middle, INFINITY)), sign | (i + 1));
				CHECK_UINT(narrowed(c, s * nextafterf((float)next, 0)), sign | (i + 1));
			}
		}
		for (unsigned sign = 0; c && sign <= 0x8000; sign += 0x8000) {
			const float s = sign ? -1 : 1;

			CHECK_UINT(narrowed(c, s * 65519.996f), sign | 0x7bff);
			CHECK_UINT(narrowed(c, s * 65520), sign | 0x7c00);
			CHECK_UINT(narrowed(c, s * 3e38f), sign | 0x7c00);
			CHECK_UINT(narrowed(c, s * 0x1p-149f), sign);
		}
	}
}

void every_bfloat16_and_its_boundaries(void)
{
	for (enum convert_simd simd = CONVERT_SCALAR; simd < CONVERT_BEST; simd++) {
		const struct converter *c = level(STAR_BFLOAT16, simd);

		for (uint32_t i = 0; c && i < HALVES; i++) {
			const uint16_t narrow = (uint16_t)i;
			float x;

			c->to_float(&x, &narrow, 1);
			CHECK_UINT(bits_of(x), i << 16);
			if ((i & 0x7f80) == 0x7f80)
				continue;
			/* The greatest one's next is infinity: as IEEE 754 rounds. */
			CHECK_UINT(narrowed(c, float_of(i << 16)), i);
			CHECK_UINT(narrowed(c, float_of(i << 16 | 0x8000)), i + (i & 1));
			CHECK_UINT(narrowed(c, float_of(i << 16 | 0x7fff)), i);
			CHECK_UINT(narrowed(c, float_of(i << 16 | 0x8001)), i + 1);
		}
	}
}

void nan_and_infinity_stay(void)
{
	const uint32_t cases[] = { 0x7f800000, 0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fffffff, 0x7f802000 };

	for (enum convert_simd simd = CONVERT_SCALAR; simd < CONVERT_BEST; simd++) {
		const struct converter *half = level(STAR_FLOAT16, simd), *bfloat = level(STAR_BFLOAT16, simd);

		for (unsigned i = 0; half && i < 12; i++) {
			const uint32_t bits = cases[i / 2] | (i % 2 ? 0x80000000 : 0);
			const uint32_t quiet = i / 2 ? 1 : 0;

			CHECK_UINT(narrowed(half, float_of(bits)),
				   (bits >> 16 & 0x8000) | 0x7c00 | (bits >> 13 & 0x3ff) | quiet << 9);
			CHECK_UINT(narrowed(bfloat, float_of(bits)), bits >> 16 | quiet << 6);
		}
	}
}

void float64_rounds_to_float32(void)
{
	const struct {
		double x;
		uint32_t bits;
	} cases[] = {
		{ 1, 0x3f800000 },
		{ 1 + 0x1p-24, 0x3f800000 },
		{ 1 + 0x1p-24 + 0x1p-50, 0x3f800001 },
		{ 1 + 0x1.8p-23, 0x3f800002 },
		{ 1e300, 0x7f800000 },
		{ -1e-300, 0x80000000 },
		{ 0x1p-150, 0 },
		{ 0x1.8p-150, 1 },
		{ 0x1.ffffffp127, 0x7f800000 },
		{ 0x1.fffffefp127, 0x7f7fffff },
	};

	for (enum convert_simd simd = CONVERT_SCALAR; simd < CONVERT_BEST; simd++) {
		const struct converter *c = level(STAR_FLOAT64, simd);

		for (unsigned i = 0; c && i < sizeof(cases) / sizeof(cases[0]); i++) {
			double row[17] = { 0 }, back[17];
			float floats[17];

			row[16] = row[3] = cases[i].x;
			c->to_float(floats, row, 17);
			CHECK_UINT(bits_of(floats[16]), cases[i].bits);
			CHECK_UINT(bits_of(floats[3]), cases[i].bits);
			c->from_float(back, floats, 17);
			CHECK(back[16] == (double)floats[16]);
		}
	}
}

/* Each float32 to float16 and bfloat16 at every level against the scalar form; all 2^32 in the long form (STAR_SOAK),
 * else one in 127. */
void every_float32_at_every_level(void)
{
	enum { ROW = 4096 };
	const uint64_t stride = getenv("STAR_SOAK") ? 1 : 127;
	static float row[ROW];
	static uint16_t expected[ROW], actual[ROW];

	for (uint64_t first = 0; first < UINT64_C(1) << 32; first += ROW * stride) {
		for (unsigned i = 0; i < ROW; i++)
			row[i] = float_of((uint32_t)(first + i * stride));
		for (unsigned dtype = STAR_FLOAT16; dtype <= STAR_BFLOAT16; dtype++) {
			tensor_convert_find(dtype, CONVERT_SCALAR)->from_float(expected, row, ROW);
			for (enum convert_simd simd = CONVERT_AVX2; simd < CONVERT_BEST; simd++) {
				const struct converter *c = level(dtype, simd);

				if (!c)
					continue;
				c->from_float(actual, row, ROW);
				if (memcmp(actual, expected, sizeof(actual)))
					CHECK_MEM(actual, expected, sizeof(actual));
			}
		}
	}
}
