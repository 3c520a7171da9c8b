/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conversion of rows between element types. Rounding is to nearest, ties to even. Values beyond the range of float16
 * and bfloat16 become infinite, as in IEEE 754. If a row has a NaN or an infinity, that becomes the scale of a
 * scaled_int8 row, so that all its elements are NaN or infinite and the error stays visible. The results have the same
 * bits at every SIMD level; tests use the scalar form as the reference. Pure functions, for the fast path.
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

/* The converter of a real type. NULL for other types, or for a level that this machine lacks. */
const struct converter *tensor_convert_find(unsigned dtype, enum convert_simd simd);

/* Converts a row between any pair of dtype_converts, with one rounding (to scaled_int8 through float32); equal types
 * are copied. scratch: n floats; may be NULL if one of the types is float32. */
void tensor_convert_row(void *to, unsigned to_dtype, const void *from, unsigned from_dtype, uint32_t n, float *scratch);

#endif
