/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole file is compiled for AVX-512F: convert.c calls it only where the machine has that. */
#pragma GCC target("avx512f")
#include <immintrin.h>

#define LANES 16
#define PAIRS(a, b, first) \
	_mm512_permutex2var_epi64((__m512i)(a), \
				  _mm512_setr_epi64(first, first + 8, first + 1, first + 9, first + 2, first + 10, \
						    first + 3, first + 11), \
				  (__m512i)(b))
#define interleave_low(a, b) ((wides)PAIRS(a, b, 0))
#define interleave_high(a, b) ((wides)PAIRS(a, b, 4))
#define half_to_float(x) ((floats)_mm512_cvtph_ps((__m256i)(x)))
#define half_from_float(x) ((halves)_mm512_cvtps_ph((__m512)(x), _MM_FROUND_TO_NEAREST_INT))
#define multiply_low(a, b) ((wides)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))
#define COUNTING \
	{ \
		0, 1, 2, 3, 4, 5, 6, 7 \
	}
#define LOWER \
	{ \
		0, 8, 1, 9, 2, 10, 3, 11 \
	}
#define UPPER \
	{ \
		4, 12, 5, 13, 6, 14, 7, 15 \
	}
#define CONVERTERS tensor_convert_avx512
#include "tensor/convert.inc"
