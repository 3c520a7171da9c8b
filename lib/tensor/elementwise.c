/* SPDX-License-Identifier: BSD-3-Clause */
#include "tensor/elementwise.h"

#include <math.h>
#include <string.h>

#include "tensor/sums.h"

static inline float from_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static inline uint32_t to_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

/*
 * x = k ln 2 + r, |r| <= ln 2 / 2, e^r by its power series to r^7: the remainder is below 6e-9. k is read from the bits
 * of a sum with 1.5 * 2^23, which rounds: a conversion would be undefined for NaN. 2^k in two factors, because it may
 * be out of range.
 */
static inline float exponential(float x)
{
	static const float round = 0x1.8p23f;
	float t, k, r, sum;
	int32_t whole, half;

	x = x > 89.0f ? 89.0f : x;     /* infinity from there on, ... */
	x = x < -104.0f ? -104.0f : x; /* ... and 0 */
	t = x * 1.44269504f + round;
	k = t - round;
	/* ln 2 in two parts, the first of which ends with zeros, so that its product with k is exact. */
	r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
	sum = 1.0f / 5040;
	sum = sum * r + 1.0f / 720;
	sum = sum * r + 1.0f / 120;
	sum = sum * r + 1.0f / 24;
	sum = sum * r + 1.0f / 6;
	sum = sum * r + 0.5f;
	sum = sum * (r * r) + r + 1.0f;
	whole = (int32_t)(to_bits(t) - to_bits(round));
	half = whole >> 1;
	return sum * from_bits((uint32_t)(half + 127) << 23) * from_bits((uint32_t)(whole - half + 127) << 23);
}

static inline float sigmoid(float x)
{
	return 1.0f / (1.0f + exponential(-x));
}

/* (1 - e^-2|x|) / (1 + e^-2|x|), except near 0, where that would cancel: there the power series up to x^9, whose
 * remainder is below 1e-8. */
static inline float hyperbolic_tangent(float x)
{
	const float a = fabsf(x), e = exponential(-2 * a), far = (1.0f - e) / (1.0f + e), z = x * x;
	float near = 62.0f / 2835;

	near = near * z - 17.0f / 315;
	near = near * z + 2.0f / 15;
	near = near * z - 1.0f / 3;
	near = x + x * z * near;
	return a < 0.25f ? near : copysignf(far, x);
}

#define UNARY(name, formula) \
	static void name(const float *const *rows, unsigned n, uint32_t dim, float c, float *restrict to) \
	{ \
		for (unsigned i = 0; i < n; i++, to += dim) { \
			const float *restrict row = rows[i]; \
\
			for (uint32_t d = 0; d < dim; d++) { \
				const float x = row[d]; \
\
				to[d] = formula; \
			} \
		} \
		(void)c; \
	}

UNARY(unary_neg, -x)
UNARY(unary_relu, x < 0 ? 0 : x)
UNARY(unary_sigmoid, sigmoid(x))
UNARY(unary_tanh, hyperbolic_tangent(x))
UNARY(unary_exp, exponential(x))
UNARY(unary_square, x *x)
UNARY(unary_sqrt, sqrtf(x))
UNARY(unary_abs, x < 0 ? -x : x + 0) /* + 0, so that -0 becomes 0 */
UNARY(unary_sign, (float)((x > 0) - (x < 0)))
UNARY(unary_scale, x *c)
UNARY(unary_offset, x + c)

void tensor_elementwise_unary(unsigned op, float constant, const float *const *x, unsigned n, uint32_t dim, float *to)
{
	static void (*const kernels[])(const float *const *, unsigned, uint32_t, float, float *) = {
#define X(NAME, number, name, ...) [number - ELEMENTWISE_NEG] = unary_##name,
		ELEMENTWISE_UNARIES(X) ELEMENTWISE_CONSTANTS(X)
#undef X
	};

	kernels[op - ELEMENTWISE_NEG](x, n, dim, constant, to);
}

/* Three loops, so that each can be vectorized. */
#define BINARY(name, formula) \
	static inline float name##_of(float x, float y) \
	{ \
		return formula; \
	} \
	static void name(const float *const *xs, uint32_t x_dim, const float *const *ys, uint32_t y_dim, unsigned n, \
			 float *restrict to) \
	{ \
		const uint32_t dim = x_dim > y_dim ? x_dim : y_dim; \
\
		for (unsigned i = 0; i < n; i++, to += dim) { \
			const float *restrict x = xs[i], *restrict y = ys[i]; \
\
			if (x_dim == y_dim) \
				for (uint32_t d = 0; d < dim; d++) \
					to[d] = name##_of(x[d], y[d]); \
			else if (y_dim == 1) \
				for (uint32_t d = 0; d < dim; d++) \
					to[d] = name##_of(x[d], y[0]); \
			else \
				for (uint32_t d = 0; d < dim; d++) \
					to[d] = name##_of(x[0], y[d]); \
		} \
	}

BINARY(binary_add, x + y)
BINARY(binary_sub, x - y)
BINARY(binary_mul, x *y)
BINARY(binary_div, x / y)
/* NaN of either operand is kept. */
BINARY(binary_max, x > y || x != x ? x : y)
BINARY(binary_min, x < y || x != x ? x : y)
BINARY(binary_relu_grad, x > 0 ? y : 0)
BINARY(binary_sigmoid_grad, y *x *(1.0f - x))
BINARY(binary_tanh_grad, y *(1.0f - x * x))

void tensor_elementwise_binary(unsigned op, const float *const *x, uint32_t x_dim, const float *const *y,
			       uint32_t y_dim, unsigned n, float *to)
{
	static void (*const kernels[])(const float *const *, uint32_t, const float *const *, uint32_t, unsigned,
				       float *) = {
#define X(NAME, number, name, ...) [number - ELEMENTWISE_ADD] = binary_##name,
		ELEMENTWISE_BINARIES(X)
#undef X
	};

	kernels[op - ELEMENTWISE_ADD](x, x_dim, y, y_dim, n, to);
}

enum { LANES = 8 };

/* Lane d % 8 adds the elements of complete vectors; then the lanes are added by halves, then the remaining elements one
 * after the other. */
static float product_of(const float *x, const float *y, uint32_t dim)
{
	float lanes[LANES] = { 0 }, sum;
	uint32_t d = 0;

	for (; d + LANES <= dim; d += LANES)
		for (unsigned l = 0; l < LANES; l++)
			lanes[l] += x[d + l] * y[d + l];
	for (unsigned half = LANES / 2; half; half /= 2)
		for (unsigned l = 0; l < half; l++)
			lanes[l] += lanes[l + half];
	sum = lanes[0];
	for (; d < dim; d++)
		sum += x[d] * y[d];
	return sum;
}

static float greatest_of(const float *x, uint32_t dim)
{
	float greatest = -INFINITY;

	for (uint32_t d = 0; d < dim; d++)
		greatest = x[d] > greatest ? x[d] : greatest;
	return greatest;
}

void tensor_elementwise_reduce(unsigned op, const float *const *x, const float *const *y, unsigned n, uint32_t dim,
			       float *to)
{
	for (unsigned i = 0; i < n; i++) {
		double sum;

		switch (op) {
		case ELEMENTWISE_ROW_SUM:
			to[i] = (float)sums_row(x[i], dim);
			break;
		case ELEMENTWISE_ROW_MEAN:
			to[i] = (float)(sums_row(x[i], dim) / dim);
			break;
		case ELEMENTWISE_ROW_SUM64:
			sum = sums_row(x[i], dim);
			memcpy(&to[2 * i], &sum, sizeof(sum));
			break;
		case ELEMENTWISE_ROW_MAX:
			to[i] = greatest_of(x[i], dim);
			break;
		default:
			to[i] = product_of(x[i], y[i], dim);
		}
	}
}

void tensor_elementwise_add(float *restrict sum, const float *restrict row, uint32_t dim)
{
	for (uint32_t d = 0; d < dim; d++)
		sum[d] += row[d];
}
