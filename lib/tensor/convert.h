/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of one element type made from rows of another. Rounding is to nearest, ties to even; beyond the range of the
 * target float16 and bfloat16 become infinite, as IEEE 754 has it; a scaled_int8 row with a NaN or an infinity has that
 * as its scale's (all its elements become NaN or infinite: an error upstream stays visible). The same bits at every
 * SIMD level; the scalar form is the tests' reference. Pure functions; the fast path's.
 */
#ifndef TENSOR_CONVERT_H
#define TENSOR_CONVERT_H

#include <stdint.h>

#include "tensor/dtype.h"

enum convert_simd { CONVERT_SCALAR, CONVERT_AVX2, CONVERT_AVX512, CONVERT_BEST };

struct converter {
	/* n elements each; from and to do not overlap; both aligned as dtype_alignment says. */
	void (*to_float)(float *to, const void *from, uint32_t n);
	void (*from_float)(void *to, const float *from, uint32_t n);
	/*
	 * Stochastic rounding (Gupta, Agrawal, Gopalakrishnan, Narayanan, ICML 2015): up or down at random, so that the
	 * expected value is the number itself, to 2^-24 of a step. The random bits of element i are Philox4x32-10's
	 * (tensor/philox.h) word i % 4 for counter (counter's low half, its high half, i / 4, 0) under key, from the
	 * upper end: 13 for a normal float16 and 16 for a bfloat16, which are added to the bits that are cut off; else
	 * 24, which make a number in [0, 1) that is compared with the fraction. Beyond the greatest finite number "up"
	 * is infinity. float16, bfloat16 and scaled_int8 only; NULL else.
	 */
	void (*from_float_stochastic)(void *to, const float *from, uint32_t n, const uint32_t key[2], uint64_t counter);
};

/* For a real type; NULL for others, or for a level that this machine lacks. */
const struct converter *tensor_convert_find(unsigned dtype, enum convert_simd simd);

/* Any pair of dtype_converts, rounded once (to scaled_int8 by way of float32); equal types are copied. scratch: n
 * floats; NULL is allowed to and from float32. */
void tensor_convert_row(void *to, unsigned to_dtype, const void *from, unsigned from_dtype, uint32_t n, float *scratch);

#endif
