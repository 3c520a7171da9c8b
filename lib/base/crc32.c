/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/crc32.h"

#include <intel-ipsec-mb.h>
#include <stdlib.h>

/* x^(8 * 2^k) modulo the polynomial, bit-reflected: what crc32_combine shifts by for bit k of a length. */
static uint32_t shift_power[64];
static IMB_MGR *manager;

/* a * b modulo the polynomial; x^0 is the top bit. */
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
}

uint32_t crc32(const void *data, size_t bytes)
{
	return IMB_CRC32_ETHERNET_FCS(manager, data, bytes);
}

uint32_t crc32_combine(uint32_t crc_a, uint32_t crc_b, size_t bytes_b)
{
	for (int k = 0; bytes_b; k++, bytes_b >>= 1)
		if (bytes_b & 1)
			crc_a = multiply(shift_power[k], crc_a);
	return crc_a ^ crc_b;
}
