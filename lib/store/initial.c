/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/initial.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"

void initial_init(struct initial *in, const struct object_spec *spec)
{
	const uint64_t key = hash_mix(spec->seed ^ hash_name(spec->name));

	*in = (struct initial){ .kind = spec->initializer,
				.scale = spec->scale,
				.key = { (uint32_t)key, (uint32_t)(key >> 32) } };
}

void initial_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4])
{
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
	uint32_t k0 = key[0], k1 = key[1];

	for (int round = 0; round < 10; round++) {
		const uint64_t p0 = UINT64_C(0xd2511f53) * c0, p1 = UINT64_C(0xcd9e8d57) * c2;

		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
		k0 += 0x9e3779b9;
		k1 += 0xbb67ae85;
	}
	words[0] = c0;
	words[1] = c1;
	words[2] = c2;
	words[3] = c3;
}

/*
 * x = m 2^e with m in [sqrt(1/2), sqrt(2)), and ln m by the series of Abramowitz and Stegun, 4.1.27:
 * 2 (s + s^3/3 + s^5/5 + ...), s = (m - 1) / (m + 1), |s| < 0.172. Ends at s^15: the rest is below 2e-14.
 */
double initial_log(double x)
{
	uint64_t bits;
	double m, s, z, sum = 1.0 / 15;
	int e;

	memcpy(&bits, &x, sizeof(bits));
	e = (int)(bits >> 52) - 1023;
	bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
	memcpy(&m, &bits, sizeof(m));
	if (m > 1.4142135623730951) {
		m *= 0.5;
		e++;
	}
	s = (m - 1) / (m + 1);
	z = s * s;
	for (int k = 13; k >= 1; k -= 2)
		sum = sum * z + 1.0 / k;
	return 2 * s * sum + e * 0.69314718055994531;
}

/*
 * The nearest quarter turn is taken off exactly, in integers; what is left, |x| <= pi/4, goes through the power series of
 * Abramowitz and Stegun, 4.3.65 and 4.3.66, to x^13 and x^14: the rest is below 3e-14.
 */
void initial_sincos(uint32_t turn, double *sine, double *cosine)
{
	const uint32_t quarter = (turn + (1u << 29)) >> 30;
	const double x = (int32_t)(turn - (quarter << 30)) * (6.283185307179586 * 0x1p-32), z = x * x;
	double s = 1, c = 1;

	for (int k = 12; k >= 2; k -= 2) {
		s = 1 - s * z / (k * (k + 1));
		c = 1 - c * z / ((k + 1) * (k + 2));
	}
	s *= x;
	c = 1 - c * z / 2;
	switch (quarter & 3) {
	case 0:
		*sine = s;
		*cosine = c;
		break;
	case 1:
		*sine = c;
		*cosine = -s;
		break;
	case 2:
		*sine = -s;
		*cosine = -c;
		break;
	default:
		*sine = -c;
		*cosine = s;
		break;
	}
}

static void uniform(const struct initial *in, const uint32_t words[4], float values[4])
{
	for (int i = 0; i < 4; i++)
		values[i] = in->scale * ((float)(words[i] >> 8) * 0x1p-23f - 1.0f);
}

static void normal(const struct initial *in, const uint32_t words[4], float values[4])
{
	double radius, sine, cosine;

	for (int i = 0; i < 4; i += 2) {
		radius = sqrt(-2 * initial_log(((double)words[i] + 1) * 0x1p-32));
		initial_sincos(words[i + 1], &sine, &cosine);
		values[i] = (float)(radius * cosine) * in->scale;
		values[i + 1] = (float)(radius * sine) * in->scale;
	}
}

void initial_values(const struct initial *in, uint64_t key, float *values, uint32_t dim)
{
	uint32_t counter[4] = { (uint32_t)key, (uint32_t)(key >> 32), 0, 0 }, words[4];
	float four[4];

	if (in->kind != OBJECT_UNIFORM && in->kind != OBJECT_NORMAL) {
		for (uint32_t i = 0; i < dim; i++)
			values[i] = in->kind == OBJECT_CONSTANT ? in->scale : 0;
		return;
	}
	for (uint32_t i = 0; i < dim; i += 4) {
		const uint32_t n = dim - i < 4 ? dim - i : 4;

		counter[2] = i / 4;
		initial_philox(counter, in->key, words);
		if (in->kind == OBJECT_UNIFORM)
			uniform(in, words, four);
		else
			normal(in, words, four);
		memcpy(values + i, four, n * sizeof(*four));
	}
}
