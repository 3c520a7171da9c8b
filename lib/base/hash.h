/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hashes that are part of the protocol: clients and servers must agree on them, so they never change within a protocol
 * version. Pure functions.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdint.h>

/* A bijection of 64 bits in which every input bit reaches every output bit (Stafford's variant 13 of MurmurHash3's
 * finalizer, as in SplitMix64: Steele, Lea, Flood, OOPSLA 2014). */
static inline uint64_t hash_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* FNV-1a, finished by hash_mix; of a table's or variable's name. */
static inline uint64_t hash_name(const char *name)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 0x100000001b3u;
	return hash_mix(h);
}

/* The hash of a key of the table whose name hashes to name_hash. Small consecutive keys spread evenly. */
static inline uint64_t hash_key(uint64_t name_hash, uint64_t key)
{
	return hash_mix(hash_mix(key + 0x9e3779b97f4a7c15u) ^ name_hash);
}

/* The key of a word in a column of training examples, the same for any table; at most 2^63 - 1. */
static inline uint64_t hash_word(uint32_t column, const char *word)
{
	return hash_mix(hash_name(word) + column) >> 1;
}

#endif
