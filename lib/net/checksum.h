/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Internet checksum (RFC 1071). It adds 8 bytes at a time, or 64 if there is much data and the machine has AVX2: a
 * one's complement sum is the same for any word size, if it is folded at the end. (DPDK's rte_raw_cksum adds two bytes
 * at a time.) Sums and results are in network byte order as they stand in memory. Pure functions.
 */
#ifndef NET_CHECKSUM_H
#define NET_CHECKSUM_H

#include <rte_byteorder.h>
#include <smmintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "net/address.h"

enum { CHECKSUM_BLOCK = 64, CHECKSUM_BLOCKS_FROM = 256 /* bytes */ };

/* `sum` plus the sum of `blocks` blocks of CHECKSUM_BLOCK bytes. The machine must have AVX2. */
uint64_t net_checksum_add_blocks(uint64_t sum, const uint8_t *at, size_t blocks);

/* The sum of the last bytes, fewer than 8, of some data. */
static inline uint64_t checksum_end(const uint8_t *at, size_t bytes)
{
	uint64_t sum = 0;
	uint32_t four;
	uint16_t two;

	if (bytes & sizeof(four)) {
		memcpy(&four, at, sizeof(four));
		sum += four;
		at += sizeof(four);
	}
	if (bytes & sizeof(two)) {
		memcpy(&two, at, sizeof(two));
		sum += two;
		at += sizeof(two);
	}
	return bytes & 1 ? sum + *at : sum;
}

/* Four words of 16 bits, as one of 32 each. */
static inline __m128i checksum_four(const uint8_t *at)
{
	return _mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i *)at));
}

/* Adds data to a sum that has not been folded. At most 64 KiB in all, so that 64 bits never overflow. */
static inline uint64_t checksum_add(uint64_t sum, const void *data, size_t bytes)
{
	const uint8_t *at = data, *end;
	__m128i all = _mm_setzero_si128(); /* four sums of 16 bits each */

	if (bytes >= CHECKSUM_BLOCKS_FROM && __builtin_cpu_supports("avx2")) {
		sum = net_checksum_add_blocks(sum, at, bytes / CHECKSUM_BLOCK);
		at += bytes / CHECKSUM_BLOCK * CHECKSUM_BLOCK;
		bytes %= CHECKSUM_BLOCK;
	}
	for (end = at + bytes / 32 * 32; at != end; at += 32) {
		all = _mm_add_epi32(all, checksum_four(at));
		all = _mm_add_epi32(all, checksum_four(at + 8));
		all = _mm_add_epi32(all, checksum_four(at + 16));
		all = _mm_add_epi32(all, checksum_four(at + 24));
	}
	for (end = at + bytes % 32 / 8 * 8; at != end; at += 8)
		all = _mm_add_epi32(all, checksum_four(at));
	all = _mm_add_epi64(_mm_cvtepu32_epi64(all), _mm_srli_epi64(_mm_unpackhi_epi32(all, all), 32));
	return sum + (uint64_t)_mm_cvtsi128_si64(all) + (uint64_t)_mm_extract_epi64(all, 1) +
	       checksum_end(at, bytes % 8);
}

/* Folds a sum to 16 bits. Each step adds both halves and the carry: the upper half of the result has the carry of the
 * lower one. */
static inline uint16_t checksum_fold(uint64_t sum)
{
	uint32_t half = (uint32_t)((sum + (sum << 32 | sum >> 32)) >> 32);

	return (uint16_t)((half + (half << 16 | half >> 16)) >> 16);
}

/* The sum of an IPv4 header without options: 0xffff if its checksum is correct. */
static inline uint16_t checksum_ip4(const void *header)
{
	uint64_t a, b;
	uint32_t c;

	memcpy(&a, header, sizeof(a));
	memcpy(&b, (const uint8_t *)header + sizeof(a), sizeof(b));
	memcpy(&c, (const uint8_t *)header + sizeof(a) + sizeof(b), sizeof(c));
	return checksum_fold((a & UINT32_MAX) + (a >> 32) + (b & UINT32_MAX) + (b >> 32) + c);
}

/* The sum, not folded, of the pseudo header (RFC 9293, 3.1; RFC 8200, 8.1) of a segment or datagram. */
static inline uint64_t checksum_pseudo(const struct net_address *from, const struct net_address *to, uint8_t protocol,
				       uint16_t bytes)
{
	uint64_t sum = (uint64_t)rte_cpu_to_be_16(protocol) + rte_cpu_to_be_16(bytes);

	if (net_address_is_v4(from))
		sum += (uint64_t)net_address_to_v4(from) + net_address_to_v4(to);
	else
		for (int i = 0; i < 4; i++)
			sum += (uint64_t)from->words[i] + to->words[i];
	return sum;
}

/* The sum of the pseudo header and of a TCP segment or UDP datagram: 0xffff if its checksum is correct. */
static inline uint16_t checksum_transport(const struct net_address *from, const struct net_address *to,
					  uint8_t protocol, const void *data, uint16_t bytes)
{
	return checksum_fold(checksum_add(checksum_pseudo(from, to, protocol, bytes), data, bytes));
}

#endif
