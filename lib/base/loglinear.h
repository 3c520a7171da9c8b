/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buckets of a log-linear histogram, as in HdrHistogram: each octave is divided into 2^bits equal buckets. Values below
 * 2^(bits+1) have buckets of their own; above, a bucket's width is at most 1 / 2^bits of its values. Pure functions.
 */
#ifndef BASE_LOGLINEAR_H
#define BASE_LOGLINEAR_H

#include <stdint.h>

#define LOGLINEAR_BUCKETS(bits, octaves) (((octaves) + 1) << (bits))

/* The bucket of a value, below LOGLINEAR_BUCKETS; values beyond the octaves fall into the last one. */
static inline unsigned loglinear_bucket(uint64_t value, unsigned bits, unsigned octaves)
{
	unsigned shift;

	if (value < UINT64_C(1) << bits)
		return (unsigned)value;
	shift = 63 - bits - (unsigned)__builtin_clzll(value);
	return shift < octaves ? (shift << bits) + (unsigned)(value >> shift) : LOGLINEAR_BUCKETS(bits, octaves) - 1;
}

/* The value in the middle of a bucket. */
static inline double loglinear_middle(unsigned bucket, unsigned bits)
{
	unsigned shift;

	if (bucket < 2u << bits)
		return bucket;
	shift = (bucket >> bits) - 1;
	return ((bucket - (shift << bits)) + 0.5) * (double)(UINT64_C(1) << shift);
}

#endif
