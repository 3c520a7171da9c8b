/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole file is compiled for AVX2: optim.c calls it only where the machine has that. */
#pragma GCC target("avx2")
#include <float.h>
#include <immintrin.h>
#include <stdint.h>

#define real float
#define REAL_MAX FLT_MAX
#define LANES 8
#define vec __m256
#define load _mm256_loadu_ps
#define store _mm256_storeu_ps
#define broadcast _mm256_set1_ps
#define square_root _mm256_sqrt_ps
#define maximum _mm256_max_ps
#define minimum _mm256_min_ps
#define KERNELS optim_kernels_avx2

static inline __m256i first(uint32_t count)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline __m256 load_part(const float *address, uint32_t count)
{
	return _mm256_maskload_ps(address, first(count));
}

static inline void store_part(float *address, __m256 v, uint32_t count)
{
	_mm256_maskstore_ps(address, first(count), v);
}

static inline __m256 unless_at_most(__m256 a, __m256 b, __m256 x)
{
	return _mm256_and_ps(_mm256_cmp_ps(a, b, _CMP_NLE_UQ), x);
}

struct sums {
	__m256d of[4];
};

static inline void add_squares(struct sums *s, uint32_t at, __m256 x)
{
	const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
	const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));

	s->of[at / 4] += low * low;
	s->of[at / 4 + 1] += high * high;
}

#include "optim/kernels.inc"
