/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits' arithmetic: plain fused loops over n floats in vectors of eight; n is a multiple of 16. Pure
 * functions. */
#ifndef STARBENCH_STORE_PLAIN_H
#define STARBENCH_STORE_PLAIN_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>

#define PLAIN __attribute__((target("avx2"))) static inline

PLAIN void plain_sgd(float *w, const float *g, size_t n)
{
	const __m256 rate = _mm256_set1_ps(0.01f);

	for (size_t i = 0; i < n; i += 8)
		_mm256_storeu_ps(w + i, _mm256_loadu_ps(w + i) - rate * _mm256_loadu_ps(g + i));
}

PLAIN bool plain_finite(const float *g, size_t n)
{
	const __m256 zero = _mm256_setzero_ps();
	__m256 all[2] = { zero, zero };

	for (size_t i = 0; i + 16 <= n; i += 16) {
		all[0] += _mm256_loadu_ps(g + i) * zero;
		all[1] += _mm256_loadu_ps(g + i + 8) * zero;
	}
	return _mm256_movemask_ps(_mm256_cmp_ps(all[0] + all[1], zero, _CMP_EQ_OQ)) == 255;
}

PLAIN void plain_adagrad(float *w, float *a, const float *g, size_t n)
{
	const __m256 rate = _mm256_set1_ps(0.01f), epsilon = _mm256_set1_ps(1e-10f);

	for (size_t i = 0; i < n; i += 8) {
		const __m256 x = _mm256_loadu_ps(g + i), sum = _mm256_loadu_ps(a + i) + x * x;

		_mm256_storeu_ps(a + i, sum);
		_mm256_storeu_ps(w + i, _mm256_loadu_ps(w + i) - rate * x / (_mm256_sqrt_ps(sum) + epsilon));
	}
}

PLAIN void plain_adam(float *w, float *m, float *v, const float *g, size_t n)
{
	const __m256 rate = _mm256_set1_ps(0.001f), epsilon = _mm256_set1_ps(1e-8f);
	const __m256 beta1 = _mm256_set1_ps(0.9f), rest1 = _mm256_set1_ps(0.1f);
	const __m256 beta2 = _mm256_set1_ps(0.999f), rest2 = _mm256_set1_ps(0.001f);

	for (size_t i = 0; i < n; i += 8) {
		const __m256 x = _mm256_loadu_ps(g + i);
		const __m256 mean = beta1 * _mm256_loadu_ps(m + i) + rest1 * x;
		const __m256 square = beta2 * _mm256_loadu_ps(v + i) + rest2 * x * x;

		_mm256_storeu_ps(m + i, mean);
		_mm256_storeu_ps(v + i, square);
		_mm256_storeu_ps(w + i, _mm256_loadu_ps(w + i) - rate * mean / (_mm256_sqrt_ps(square) + epsilon));
	}
}

#endif
