/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole file is compiled for AVX2 and F16C: convert.c calls it only where the machine has them. */
#pragma GCC target("avx2,f16c")
#include <immintrin.h>

#define LANES 8
#define PAIRS(a, b, which) \
	_mm256_permute2x128_si256(_mm256_unpacklo_epi64((__m256i)(a), (__m256i)(b)), \
				  _mm256_unpackhi_epi64((__m256i)(a), (__m256i)(b)), which)
#define interleave_low(a, b) ((wides)PAIRS(a, b, 0x20))
#define interleave_high(a, b) ((wides)PAIRS(a, b, 0x31))
#define half_to_float(x) ((floats)_mm256_cvtph_ps((__m128i)(x)))
#define half_from_float(x) ((halves)_mm256_cvtps_ph((__m256)(x), _MM_FROUND_TO_NEAREST_INT))
#define multiply_low(a, b) ((wides)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#define COUNTING \
	{ \
		0, 1, 2, 3 \
	}
#define LOWER \
	{ \
		0, 4, 1, 5 \
	}
#define UPPER \
	{ \
		2, 6, 3, 7 \
	}
#define CONVERTERS tensor_convert_avx2
#include "tensor/convert.inc"
