/* SPDX-License-Identifier: BSD-3-Clause */
#include "tensor/elementary.h"

#include <math.h>
#include <string.h>

static const double ln_2 = 0.69314718055994531;

static double from_bits(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/*
 * x = m 2^e with m in [sqrt(1/2), sqrt(2)), and ln m by the series of Abramowitz and Stegun, 4.1.27: 2 (s + s^3/3 +
 * s^5/5 + ...), s = (m - 1) / (m + 1), |s| < 0.172. Up to s^15: the remainder is below 2e-14.
 */
double tensor_elementary_log(double x)
{
	double m, s, z, sum = 1.0 / 15;
	uint64_t bits;
	int e = 0;

	if (x < 0x1p-1022) {
		x *= 0x1p54;
		e = -54;
	}
	memcpy(&bits, &x, sizeof(bits));
	e += (int)(bits >> 52) - 1023;
	m = from_bits((bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000));
	if (m > 1.4142135623730951) {
		m *= 0.5;
		e++;
	}
	s = (m - 1) / (m + 1);
	z = s * s;
	for (int k = 13; k >= 1; k -= 2)
		sum = sum * z + 1.0 / k;
	return 2 * s * sum + e * ln_2;
}

/* x = k ln 2 + r with |r| <= ln 2 / 2, and e^r by its power series to r^13: the remainder is below 1e-17. */
double tensor_elementary_exp(double x)
{
	double k, r, sum = 1;
	int half;

	if (!(x > -745.2)) /* NaN too */
		return x < 0 ? 0 : x;
	if (x > 709.79)
		return (double)INFINITY;
	k = rint(x / ln_2);
	/* ln 2 in two parts, the first of which ends with zeros, so that its product with k is exact. */
	r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
	for (int i = 13; i >= 1; i--)
		sum = 1 + sum * r / i;
	/* In two factors, because 2^k alone may be out of range. */
	half = (int)k / 2;
	return sum * from_bits((uint64_t)(half + 1023) << 52) * from_bits((uint64_t)((int)k - half + 1023) << 52);
}

double tensor_elementary_pow(double x, double y)
{
	if (y == 0)
		return 1;
	if (!(x > 0) || x > 0x1.fffffffffffffp1023) /* 0, infinity and NaN are returned unchanged */
		return x < 0 ? (double)NAN : y > 0 ? x : 1 / x;
	return tensor_elementary_exp(y * tensor_elementary_log(x));
}

/*
 * The nearest multiple of a quarter turn is subtracted exactly, in integers; the remaining |x| <= pi/4 is computed by
 * the power series of Abramowitz and Stegun, 4.3.65 and 4.3.66, up to x^13 and x^14: the remainder is below 3e-14.
 */
void tensor_elementary_sincos(uint32_t turn, double *sine, double *cosine)
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
