/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/crc32.h"

#include <immintrin.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/ipsec_mb.h"

enum { SHORT_END = 256, SHORT_FIRST = 4 };

/* x^(8 * 2^k) modulo the polynomial, bit-reflected: the factor for bit k of a length in base_crc32_combine. */
static uint32_t shift_power[64];
/* The contribution of a byte at distance k from the end of four, times x^32: reduces 64 bits to 32. */
static uint32_t fold[4][256];
static bool has_clmul, has_avx; /* has_avx: and carry-less multiplication */
IMB_MGR *base_ipsec_mb;

/* a * b modulo the polynomial; x^0 is the top bit. The reference of multiply_fast. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (int i = 31; i >= 0; i--) {
		if (a >> i & 1)
			product ^= b;
		b = b & 1 ? (b >> 1) ^ 0xedb88320u : b >> 1;
	}
	return product;
}

/* The same with one carry-less multiplication, whose upper half is the part of the remainder below x^32. */
__attribute__((target("pclmul"))) static uint32_t multiply_fast(uint32_t a, uint32_t b)
{
	const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)a), _mm_cvtsi32_si128((int)b), 0);
	const uint64_t wide = (uint64_t)_mm_cvtsi128_si64(product) << 1;
	const uint32_t low = (uint32_t)wide;

	return (uint32_t)(wide >> 32) ^ fold[3][low & 0xff] ^ fold[2][low >> 8 & 0xff] ^ fold[1][low >> 16 & 0xff] ^
	       fold[0][low >> 24];
}

/* A constructor, because computing a CRC cannot fail: afterwards everything here is constant. */
__attribute__((constructor)) static void crc32_setup(void)
{
	base_ipsec_mb = alloc_mb_mgr(0);
	if (!base_ipsec_mb)
		abort(); /* out of memory before main */
	init_mb_mgr_auto(base_ipsec_mb, NULL);
	shift_power[0] = 0x80000000u >> 8;
	for (int k = 1; k < 64; k++)
		shift_power[k] = multiply(shift_power[k - 1], shift_power[k - 1]);
	for (unsigned byte = 0; byte < 256; byte++)
		for (unsigned k = 0; k < 4; k++)
			/* A byte at the top of a word is x^0 to x^7; 8k bits further down and a word behind: x^(32 +
			 * 8k). */
			fold[k][byte] = multiply(byte << 24, multiply(0x80000000u >> 8 * k, multiply(1, 0x40000000u)));
	has_clmul = __builtin_cpu_supports("pclmul");
	has_avx = has_clmul && __builtin_cpu_supports("avx");
}

/* Folds 128 bits onto the next ones: they are multiplied by the constants, and added. */
__attribute__((target("pclmul,avx"))) static inline __m128i fold_onto(__m128i x, __m128i by, __m128i next)
{
	return _mm_xor_si128(next, _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)));
}

/* Reduces the last 128 bits, by Barrett's method. */
__attribute__((target("pclmul,avx"))) static inline uint32_t reduce(__m128i x, __m128i by_128)
{
	const __m128i by_64 = _mm_cvtsi64_si128(0x163cd6124), barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
	const __m128i low = _mm_setr_epi32(-1, 0, -1, 0);
	__m128i y = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, by_128, 0x10));

	x = _mm_xor_si128(_mm_srli_si128(y, 4), _mm_clmulepi64_si128(_mm_and_si128(y, low), by_64, 0x00));
	y = _mm_clmulepi64_si128(_mm_and_si128(x, low), barrett, 0x10);
	y = _mm_clmulepi64_si128(_mm_and_si128(y, low), barrett, 0x00);
	return ~(uint32_t)_mm_extract_epi32(_mm_xor_si128(x, y), 1);
}

/*
 * For 16 bytes and more: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction"
 * (Intel, 2009), with its constants for this polynomial. Leading zeros change nothing, so it begins with an incomplete
 * block, after which whole blocks of 16 bytes follow: there is no remainder at the end. A request of 120 bytes takes
 * some 80 instructions.
 */
__attribute__((target("pclmul,avx"))) static uint32_t crc32_short(const uint8_t *at, size_t bytes)
{
	static const uint8_t places[32] = { [0] = 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
					    128,       128, 128, 128, 128, 0,	1,   2,	  3,   4,   5,
					    6,	       7,   8,	 9,   10,  11,	12,  13,  14,  15 };
	const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
	const __m128i by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
	const size_t first = ((bytes - 1) & 15) + 1; /* at least SHORT_FIRST: they contain the initial value */
	const __m128i up = _mm_loadu_si128((const __m128i *)(places + first));
	const __m128i *p = (const __m128i *)(at + first), *end = (const __m128i *)(at + bytes);
	__m128i x = _mm_xor_si128(_mm_loadu_si128((const __m128i *)at), _mm_cvtsi32_si128(-1));

	x = _mm_shuffle_epi8(x, up);
	if (end - p >= 3) {
		__m128i a = _mm_loadu_si128(p), b = _mm_loadu_si128(p + 1), c = _mm_loadu_si128(p + 2);

		for (p += 3; end - p >= 4; p += 4) {
			x = fold_onto(x, by_512, _mm_loadu_si128(p));
			a = fold_onto(a, by_512, _mm_loadu_si128(p + 1));
			b = fold_onto(b, by_512, _mm_loadu_si128(p + 2));
			c = fold_onto(c, by_512, _mm_loadu_si128(p + 3));
		}
		x = fold_onto(fold_onto(fold_onto(x, by_128, a), by_128, b), by_128, c);
	}
	for (; p < end; p++)
		x = fold_onto(x, by_128, _mm_loadu_si128(p));
	return reduce(x, by_128);
}

uint32_t base_crc32(const void *data, size_t bytes)
{
	if (bytes < SHORT_END && bytes >= 16 && ((bytes - 1) & 15) >= SHORT_FIRST - 1 && has_avx)
		return crc32_short(data, bytes);
	return IMB_CRC32_ETHERNET_FCS(base_ipsec_mb, data, bytes);
}

static inline uint32_t product(uint32_t a, uint32_t b)
{
	return has_clmul ? multiply_fast(a, b) : multiply(a, b);
}

static uint32_t shift_by(uint32_t crc, size_t bytes)
{
	for (int k = 0; bytes; k++, bytes >>= 1)
		if (bytes & 1)
			crc = product(shift_power[k], crc);
	return crc;
}

uint32_t base_crc32_combine(uint32_t crc_a, uint32_t crc_b, size_t bytes_b)
{
	return shift_by(crc_a, bytes_b) ^ crc_b;
}

uint32_t base_crc32_join(struct crc32_length *last, uint32_t crc_a, uint32_t crc_b, size_t bytes_b)
{
	if (bytes_b != last->bytes || bytes_b == 0)
		*last = (struct crc32_length){ bytes_b, shift_by(0x80000000u, bytes_b) };
	return product(last->shift, crc_a) ^ crc_b;
}
