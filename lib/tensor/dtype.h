/* SPDX-License-Identifier: BSD-3-Clause */
/* Element types. The numbers are part of the protocol. */
#ifndef TENSOR_DTYPE_H
#define TENSOR_DTYPE_H

enum star_dtype {
	STAR_FLOAT32 = 1,
};

/* Bytes of an element, or 0 for an unknown type. */
unsigned dtype_bytes(unsigned dtype);

/* "float32"; NULL for an unknown type. */
const char *dtype_name(unsigned dtype);

/* The type of that name, or 0. */
unsigned dtype_parse(const char *name);

#endif
