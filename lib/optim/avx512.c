/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole file is compiled for AVX-512F: optim.c calls it only where the machine has that. */
#pragma GCC target("avx512f")
#include <float.h>
#include <immintrin.h>
#include <stdint.h>

#define real float
#define REAL_MAX FLT_MAX
#define LANES 16
#define vec __m512
#define load _mm512_loadu_ps
#define store _mm512_storeu_ps
#define broadcast _mm512_set1_ps
#define square_root _mm512_sqrt_ps
#define maximum _mm512_max_ps
#define minimum _mm512_min_ps
#define KERNELS optim_kernels_avx512

static inline __m512 load_part(const float *address, uint32_t count)
{
	return _mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), address);
}

static inline void store_part(float *address, __m512 v, uint32_t count)
{
	_mm512_mask_storeu_ps(address, (__mmask16)((1u << count) - 1), v);
}

static inline __m512 unless_at_most(__m512 a, __m512 b, __m512 x)
{
	return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLE_UQ), x);
}

struct sums {
	__m512d of[2];
};

static inline void add_squares(struct sums *s, uint32_t at, __m512 x)
{
	const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
	const __m512d high = _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1)));

	s->of[0] += low * low;
	s->of[1] += high * high;
}

#include "optim/kernels.inc"
