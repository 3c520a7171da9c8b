/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011, section 3.3): a counter-based generator: four random words as a
 * function of a counter and a key. Initial values of rows and stochastic rounding are drawn from it. Pure functions.
 */
#ifndef TENSOR_PHILOX_H
#define TENSOR_PHILOX_H

#include <stdint.h>

#define PHILOX_M0 UINT32_C(0xd2511f53)
#define PHILOX_M1 UINT32_C(0xcd9e8d57)
#define PHILOX_W0 UINT32_C(0x9e3779b9)
#define PHILOX_W1 UINT32_C(0xbb67ae85)
enum { PHILOX_ROUNDS = 10 };

static inline void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4])
{
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
	uint32_t k0 = key[0], k1 = key[1];

	for (int round = 0; round < PHILOX_ROUNDS; round++) {
		const uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;

		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
		k0 += PHILOX_W0;
		k1 += PHILOX_W1;
	}
	words[0] = c0;
	words[1] = c1;
	words[2] = c2;
	words[3] = c3;
}

#endif
