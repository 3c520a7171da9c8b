/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xoshiro256** 1.0 (Blackman, Vigna, 2018): the generator of tests and of the trainer's sampling. Not for secrets.
 * Each thread has its own state.
 */
#ifndef BASE_PRNG_H
#define BASE_PRNG_H

#include <stdint.h>

#include "base/hash.h"

struct prng {
	uint64_t s[4];
};

static inline void prng_seed(struct prng *p, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		p->s[i] = hash_mix(seed += 0x9e3779b97f4a7c15u);
}

static inline uint64_t prng_next(struct prng *p)
{
	uint64_t *s = p->s;
	const uint64_t r5 = s[1] * 5, result = ((r5 << 7) | (r5 >> 57)) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = (s[3] << 45) | (s[3] >> 19);
	return result;
}

/* Uniform in [0, n), n > 0; by multiplication, with a bias below n / 2^32. */
static inline uint32_t prng_below(struct prng *p, uint32_t n)
{
	return (uint32_t)(((prng_next(p) >> 32) * n) >> 32);
}

/* Uniform in [0, 1). */
static inline double prng_unit(struct prng *p)
{
	return (double)(prng_next(p) >> 11) * 0x1.0p-53;
}

#endif
