/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/checksum.h"

#include <immintrin.h>

/* 32-bit words are added in 64-bit lanes. */
__attribute__((target("avx2"))) uint64_t net_checksum_add_blocks(uint64_t sum, const uint8_t *at, size_t blocks)
{
	const __m256i low = _mm256_set1_epi64x(UINT32_MAX);
	__m256i a = _mm256_setzero_si256(), b = a;
	__m128i both;

	for (; blocks; blocks--, at += CHECKSUM_BLOCK) {
		const __m256i x = _mm256_loadu_si256((const __m256i *)at);
		const __m256i y = _mm256_loadu_si256((const __m256i *)(at + sizeof(x)));

		a = _mm256_add_epi64(a, _mm256_add_epi64(_mm256_and_si256(x, low), _mm256_srli_epi64(x, 32)));
		b = _mm256_add_epi64(b, _mm256_add_epi64(_mm256_and_si256(y, low), _mm256_srli_epi64(y, 32)));
	}
	a = _mm256_add_epi64(a, b);
	both = _mm_add_epi64(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
	return sum + (uint64_t)_mm_cvtsi128_si64(both) + (uint64_t)_mm_extract_epi64(both, 1);
}
