/* SPDX-License-Identifier: BSD-3-Clause */
/* Element types, and the sizes of rows. The numbers are part of the protocol. Pure functions. */
#ifndef TENSOR_DTYPE_H
#define TENSOR_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

enum star_dtype {
	STAR_FLOAT32 = 1,
	STAR_FLOAT16 = 2,  /* IEEE 754 binary16 */
	STAR_BFLOAT16 = 3, /* the upper half of a float32 */
	STAR_FLOAT64 = 4,
	STAR_INT8 = 5,
	STAR_INT32 = 6,
	STAR_INT64 = 7,
	/* A row is one float32 scale, then an int8 for each element, padded with zeros to 4 bytes: element i is scale *
	 * q[i]. The scale is the row's greatest magnitude / 127, so that q is in [-127, 127]. */
	STAR_SCALED_INT8 = 8,
};

/* Bytes of an element (of the int8 alone in a scaled row), or 0 for an unknown type. */
unsigned dtype_bytes(unsigned dtype);

/* Bytes of a row of n elements; 0 for an unknown type. 64 bits: n may still be unchecked. */
uint64_t dtype_row_bytes(unsigned dtype, uint64_t n);

/* The required alignment of a row's address. */
unsigned dtype_alignment(unsigned dtype);

/* float16, bfloat16, float32, float64 and scaled_int8: the types that optimizers work on. */
bool dtype_is_real(unsigned dtype);

/* Whether rows of one type can be converted to the other for pulls and pushes: all pairs of real types, and equal
 * types. */
bool dtype_converts(unsigned from, unsigned to);

/* "float32"; NULL for an unknown type. */
const char *dtype_name(unsigned dtype);

/* The type of that name, or 0. */
unsigned dtype_parse(const char *name);

/* "float32, float16, ..." for messages. */
const char *dtype_names(void);

#endif
