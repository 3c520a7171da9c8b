/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The initial values of rows. They depend only on (seed, table name, key, element), and have the same bits on every
 * machine. Pure functions.
 *
 * Element e of the row of `key` is made from word e % 4 of Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011) with
 *   counter  (low half of key, high half of key, e / 4, attempt)
 *   key      (low half of k, high half of k), k = hash_mix(seed ^ hash_name(table's name))
 *
 * uniform:  scale * (2^-23 * (word >> 8) - 1), in float32: one rounding, by the last product. In [-scale, scale).
 * normal:   Box and Muller (Ann. Math. Stat. 29, 1958) on the words in pairs (a, b) = (0, 1) and (2, 3), in float64:
 *             r = sqrt(-2 ln(2^-32 (a + 1))),  t = 2 pi 2^-32 b,  the first element r cos t, the second r sin t,
 *           rounded to float32 and multiplied by scale. ln, sin and cos are those of tensor/elementary.h. truncated
 *           normal: the same, from the first attempt, counted from 0, whose r cos t or r sin t is within [-2, 2]. The
 *           mean is added last. The rest follows from these: glorot and he (Glorot, Bengio, AISTATS 2010; He, Zhang,
 *           Ren, Sun, ICCV 2015) have as scale for uniform the bound that initializer's name stands for, sqrt(3
 *           variance), and for truncated normal sqrt(variance) / 0.8796..., which is what two standard deviations leave
 *           of one. Fans as TensorFlow counts them.
 *
 * Elements of a variable's last block beyond the variable's end are 0, so that they do not affect norms.
 */
#ifndef STORE_INITIAL_H
#define STORE_INITIAL_H

#include <stdint.h>

#include "wire/object.h"

struct initial {
	uint8_t kind; /* OBJECT_CONSTANT, _UNIFORM, _NORMAL or _TRUNCATED_NORMAL */
	float scale, mean;
	uint32_t key[2];
	uint64_t elements; /* of a variable; 0 for a table */
};

void store_initial_init(struct initial *in, const struct object_spec *spec);
void store_initial_values(const struct initial *in, uint64_t key, float *values, uint32_t dim);

#endif
