/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/crc32.h"

#include <immintrin.h>
#include <intel-ipsec-mb.h>
#include <stdbool.h>
#include <stdlib.h>

/* x^(8 * 2^k) modulo the polynomial, bit-reflected: what crc32_combine shifts by for bit k of a length. */
static uint32_t shift_power[64];
/* What a byte at distance k from the end of four contributes, times x^32: takes 64 bits down to 32. */
static uint32_t fold[4][256];
static bool has_clmul;
static IMB_MGR *manager;

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

/* The same by one carry-less multiplication, whose upper half is the remainder's part below x^32. */
__attribute__((target("pclmul"))) static uint32_t multiply_fast(uint32_t a, uint32_t b)
{
	const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)a), _mm_cvtsi32_si128((int)b), 0);
	const uint64_t wide = (uint64_t)_mm_cvtsi128_si64(product) << 1;
	const uint32_t low = (uint32_t)wide;

	return (uint32_t)(wide >> 32) ^ fold[3][low & 0xff] ^ fold[2][low >> 8 & 0xff] ^ fold[1][low >> 16 & 0xff] ^
	       fold[0][low >> 24];
}

/* A constructor, because a CRC has no place to fail: after it, everything here is constant. */
__attribute__((constructor)) static void crc32_setup(void)
{
	manager = alloc_mb_mgr(0);
	if (!manager)
		abort(); /* out of memory before main */
	init_mb_mgr_auto(manager, NULL);
	shift_power[0] = 0x80000000u >> 8;
	for (int k = 1; k < 64; k++)
		shift_power[k] = multiply(shift_power[k - 1], shift_power[k - 1]);
	for (unsigned byte = 0; byte < 256; byte++)
		for (unsigned k = 0; k < 4; k++)
			/* A byte at the top of a word is x^0 to x^7; 8k bits further down and a word behind: x^(32 + 8k). */
			fold[k][byte] = multiply(byte << 24, multiply(0x80000000u >> 8 * k, multiply(1, 0x40000000u)));
	has_clmul = __builtin_cpu_supports("pclmul");
}

uint32_t crc32(const void *data, size_t bytes)
{
	return IMB_CRC32_ETHERNET_FCS(manager, data, bytes);
}

uint32_t crc32_combine(uint32_t crc_a, uint32_t crc_b, size_t bytes_b)
{
	for (int k = 0; bytes_b; k++, bytes_b >>= 1)
		if (bytes_b & 1)
			crc_a = has_clmul ? multiply_fast(shift_power[k], crc_a) : multiply(shift_power[k], crc_a);
	return crc_a ^ crc_b;
}
