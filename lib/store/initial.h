/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first values of rows: a function of (seed, table name, key, element) alone, with the same bits on every machine.
 * Pure functions.
 *
 * Element e of the row of `key` is made from word e % 4 of Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011) with
 *   counter  (low half of key, high half of key, e / 4, 0)
 *   key      (low half of k, high half of k), k = hash_mix(seed ^ hash_name(table's name))
 *
 * uniform:  scale * (2^-23 * (word >> 8) - 1), in float32: one rounding, by the last product. In [-scale, scale).
 * normal:   Box and Muller (Ann. Math. Stat. 29, 1958) on the words in pairs (a, b) = (0, 1) and (2, 3), in float64:
 *             r = sqrt(-2 ln(2^-32 (a + 1))),  t = 2 pi 2^-32 b,  the first element r cos t, the second r sin t,
 *           rounded to float32 and multiplied by scale. ln, sin and cos are our own: C libraries differ in last bits.
 */
#ifndef STORE_INITIAL_H
#define STORE_INITIAL_H

#include <stdint.h>

#include "wire/object.h"

struct initial {
	uint8_t kind; /* enum object_initializer */
	float scale;
	uint32_t key[2];
};

void initial_init(struct initial *in, const struct object_spec *spec);
void initial_values(const struct initial *in, uint64_t key, float *values, uint32_t dim);

/* One block of Philox4x32-10. */
void initial_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4]);

/* For the tests: natural logarithm of 0 < x <= 1; sine and cosine of turn * 2^-32 of a whole turn. Good to 1e-13. */
double initial_log(double x);
void initial_sincos(uint32_t turn, double *sine, double *cosine);

#endif
