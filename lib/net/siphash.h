/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SipHash-2-4 (Aumasson, Bernstein, 2012) of a few words, with a key of 128 bits: without the key nobody can predict
 * the result, even for words of his choice. Pure functions.
 */
#ifndef NET_SIPHASH_H
#define NET_SIPHASH_H

#include <stdint.h>

static inline uint64_t siphash_rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static inline void siphash_round(uint64_t v[4])
{
	v[0] += v[1], v[2] += v[3];
	v[1] = siphash_rotate(v[1], 13) ^ v[0], v[3] = siphash_rotate(v[3], 16) ^ v[2];
	v[0] = siphash_rotate(v[0], 32);
	v[2] += v[1], v[0] += v[3];
	v[1] = siphash_rotate(v[1], 17) ^ v[2], v[3] = siphash_rotate(v[3], 21) ^ v[0];
	v[2] = siphash_rotate(v[2], 32);
}

static inline void siphash_take(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	siphash_round(v), siphash_round(v);
	v[0] ^= word;
}

/* The hash of `count` words of 64 bits, in the byte order of the machine. */
static inline uint64_t siphash(const uint64_t key[2], const uint64_t *words, unsigned count)
{
	uint64_t v[4] = { key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
			  key[1] ^ 0x7465646279746573u };

	for (unsigned i = 0; i < count; i++)
		siphash_take(v, words[i]);
	siphash_take(v, (uint64_t)count * 8 << 56);
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		siphash_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
