/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Internet checksum (RFC 1071), 16 bytes at a time, of much data 64 where the machine has AVX2: one's complement
 * sums are the same in any word size that is folded in the end. DPDK's rte_raw_cksum takes two at a time. Pure
 * functions.
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

/* The sum and that of n blocks; the machine has AVX2. */
uint64_t net_checksum_add_blocks(uint64_t sum, const uint8_t *at, size_t blocks);

/* Adds data to a sum that has not been folded; at most 64 KiB together, so that 64 bits never overflow. */
static inline uint64_t checksum_add(uint64_t sum, const void *data, size_t bytes)
{
	const uint8_t *at = data;
	uint64_t word;

	if (bytes >= CHECKSUM_BLOCKS_FROM && __builtin_cpu_supports("avx2")) {
		sum = net_checksum_add_blocks(sum, at, bytes / CHECKSUM_BLOCK);
		at += bytes / CHECKSUM_BLOCK * CHECKSUM_BLOCK;
		bytes %= CHECKSUM_BLOCK;
	}
	if (bytes >= 2 * sizeof(__m128i)) {
		const __m128i low = _mm_set1_epi64x(UINT32_MAX);
		__m128i a = _mm_setzero_si128();

		for (; bytes >= sizeof(a); bytes -= sizeof(a), at += sizeof(a)) {
			const __m128i x = _mm_loadu_si128((const __m128i *)at);

			a = _mm_add_epi64(a, _mm_add_epi64(_mm_and_si128(x, low), _mm_srli_epi64(x, 32)));
		}
		sum += (uint64_t)_mm_cvtsi128_si64(a) + (uint64_t)_mm_extract_epi64(a, 1);
	}
	for (; bytes >= sizeof(word); bytes -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		sum += (word & UINT32_MAX) + (word >> 32);
	}
	word = 0;
	memcpy(&word, at, bytes);
	return sum + (word & UINT32_MAX) + (word >> 32);
}

static inline uint16_t checksum_fold(uint64_t sum)
{
	sum = (sum & UINT32_MAX) + (sum >> 32);
	sum = (sum & UINT32_MAX) + (sum >> 32);
	sum = (sum & UINT16_MAX) + (sum >> 16);
	sum = (sum & UINT16_MAX) + (sum >> 16);
	return (uint16_t)sum;
}

/* The sum of an IPv4 header without options; 0xffff where its checksum holds. */
static inline uint16_t checksum_ip4(const void *header)
{
	uint64_t a, b;
	uint32_t c;

	memcpy(&a, header, sizeof(a));
	memcpy(&b, (const uint8_t *)header + sizeof(a), sizeof(b));
	memcpy(&c, (const uint8_t *)header + sizeof(a) + sizeof(b), sizeof(c));
	return checksum_fold((a & UINT32_MAX) + (a >> 32) + (b & UINT32_MAX) + (b >> 32) + c);
}

/* The sum, not folded, of the pseudo header (RFC 9293, 3.1; RFC 8200, 8.1) of n bytes. */
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

/* The sum of the pseudo header and of a TCP segment or UDP datagram; 0xffff where its checksum holds. */
static inline uint16_t checksum_transport(const struct net_address *from, const struct net_address *to,
					  uint8_t protocol, const void *data, uint16_t bytes)
{
	return checksum_fold(checksum_add(checksum_pseudo(from, to, protocol, bytes), data, bytes));
}

#endif
