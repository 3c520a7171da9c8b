/* SPDX-License-Identifier: BSD-3-Clause */
/* avx512.c's kernels for rows of float64. */
#pragma GCC target("avx512f")
#include <float.h>
#include <immintrin.h>
#include <stdint.h>

#define real double
#define REAL_MAX DBL_MAX
#define LANES 8
#define vec __m512d
#define load _mm512_loadu_pd
#define store _mm512_storeu_pd
#define broadcast _mm512_set1_pd
#define square_root _mm512_sqrt_pd
#define maximum _mm512_max_pd
#define minimum _mm512_min_pd
#define KERNELS optim_kernels_avx512_64

static inline __m512d load_part(const double *address, uint32_t count)
{
	return _mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1), address);
}

static inline void store_part(double *address, __m512d v, uint32_t count)
{
	_mm512_mask_storeu_pd(address, (__mmask8)((1u << count) - 1), v);
}

static inline __m512d unless_at_most(__m512d a, __m512d b, __m512d x)
{
	return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a, b, _CMP_NLE_UQ), x);
}

struct sums {
	__m512d of[2];
};

static inline void add_squares(struct sums *s, uint32_t at, __m512d x)
{
	s->of[at / 8] += x * x;
}

#include "optim/kernels.inc"
