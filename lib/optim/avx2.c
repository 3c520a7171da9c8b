/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole file is compiled for AVX2: optim.c calls it only where the machine has that. */
#pragma GCC target("avx2")
#include <immintrin.h>
#include <stdint.h>

#define LANES 8
#define vec __m256
#define load _mm256_loadu_ps
#define store _mm256_storeu_ps
#define square_root _mm256_sqrt_ps
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

#include "optim/kernels.inc"
