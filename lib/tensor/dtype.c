/* SPDX-License-Identifier: BSD-3-Clause */
#include "tensor/dtype.h"

#include <stddef.h>
#include <string.h>

static const struct {
	const char *name;
	unsigned bytes;
} types[] = {
	[STAR_FLOAT32] = { "float32", 4 },
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

unsigned dtype_bytes(unsigned dtype)
{
	return dtype < TYPES ? types[dtype].bytes : 0;
}

const char *dtype_name(unsigned dtype)
{
	return dtype < TYPES ? types[dtype].name : NULL;
}

unsigned dtype_parse(const char *name)
{
	for (unsigned t = 1; t < TYPES; t++)
		if (strcmp(types[t].name, name) == 0)
			return t;
	return 0;
}
