/* SPDX-License-Identifier: BSD-3-Clause */
/* avx2.c's kernels for rows of float64. */
#pragma GCC target("avx2")
#include <float.h>
#include <immintrin.h>
#include <stdint.h>

#define real double
#define REAL_MAX DBL_MAX
#define LANES 4
#define vec __m256d
#define load _mm256_loadu_pd
#define store _mm256_storeu_pd
#define broadcast _mm256_set1_pd
#define square_root _mm256_sqrt_pd
#define maximum _mm256_max_pd
#define minimum _mm256_min_pd
#define KERNELS optim_kernels_avx2_64

static inline __m256i first(uint32_t count)
{
	return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
}

static inline __m256d load_part(const double *address, uint32_t count)
{
	return _mm256_maskload_pd(address, first(count));
}

static inline void store_part(double *address, __m256d v, uint32_t count)
{
	_mm256_maskstore_pd(address, first(count), v);
}

static inline __m256d unless_at_most(__m256d a, __m256d b, __m256d x)
{
	return _mm256_and_pd(_mm256_cmp_pd(a, b, _CMP_NLE_UQ), x);
}

struct sums {
	__m256d of[4];
};

static inline void add_squares(struct sums *s, uint32_t at, __m256d x)
{
	s->of[at / 4] += x * x;
}

#include "optim/kernels.inc"
