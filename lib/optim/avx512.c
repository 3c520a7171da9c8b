/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole file is compiled for AVX-512F: optim.c calls it only where the machine has that. */
#pragma GCC target("avx512f")
#include <immintrin.h>
#include <stdint.h>

#define LANES 16
#define vec __m512
#define load _mm512_loadu_ps
#define store _mm512_storeu_ps
#define square_root _mm512_sqrt_ps
#define KERNELS optim_kernels_avx512

static inline __m512 load_part(const float *address, uint32_t count)
{
	return _mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), address);
}

static inline void store_part(float *address, __m512 v, uint32_t count)
{
	_mm512_mask_storeu_ps(address, (__mmask16)((1u << count) - 1), v);
}

#include "optim/kernels.inc"
