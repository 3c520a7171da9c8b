/* SPDX-License-Identifier: BSD-3-Clause */
#include "tensor/dtype.h"

#include <stddef.h>
#include <string.h>

/* X(number, name, bytes of an element, alignment of a row, real). dtype_names is built from this list. */
#define TYPES(X) \
	X(STAR_FLOAT32, "float32", 4, 4, true) \
	X(STAR_FLOAT16, "float16", 2, 2, true) \
	X(STAR_BFLOAT16, "bfloat16", 2, 2, true) \
	X(STAR_FLOAT64, "float64", 8, 8, true) \
	X(STAR_INT8, "int8", 1, 1, false) \
	X(STAR_INT32, "int32", 4, 4, false) \
	X(STAR_INT64, "int64", 8, 8, false) \
	X(STAR_SCALED_INT8, "scaled_int8", 1, 4, true)

static const struct {
	const char *name;
	uint8_t bytes, alignment;
	bool real;
} types[] = {
#define X(number, text, size, align, is_real) [number] = { text, size, align, is_real },
	TYPES(X)
#undef X
};

enum { COUNT = sizeof(types) / sizeof(types[0]) };

unsigned dtype_bytes(unsigned dtype)
{
	return dtype < COUNT ? types[dtype].bytes : 0;
}

uint64_t dtype_row_bytes(unsigned dtype, uint64_t n)
{
	if (dtype == STAR_SCALED_INT8)
		return sizeof(float) + ((n + 3) & ~UINT64_C(3));
	return n * dtype_bytes(dtype);
}

unsigned dtype_alignment(unsigned dtype)
{
	return dtype < COUNT ? types[dtype].alignment : 0;
}

bool dtype_is_real(unsigned dtype)
{
	return dtype < COUNT && types[dtype].real;
}

bool dtype_converts(unsigned from, unsigned to)
{
	return (dtype_is_real(from) && dtype_is_real(to)) || (from == to && dtype_bytes(from));
}

const char *dtype_name(unsigned dtype)
{
	return dtype < COUNT ? types[dtype].name : NULL;
}

unsigned dtype_parse(const char *name)
{
	for (unsigned t = 1; t < COUNT; t++)
		if (types[t].name && strcmp(types[t].name, name) == 0)
			return t;
	return 0;
}

const char *dtype_names(void)
{
#define X(number, text, size, align, is_real) ", " text
	return &TYPES(X)[2];
#undef X
}
