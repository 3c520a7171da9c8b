/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/narrow.h"

#include <errno.h>
#include <stddef.h>

#include "tensor/convert.h"
#include "tensor/dtype.h"

int train_narrow_parse(const char *name, struct star_error *err)
{
	const unsigned dtype = name ? dtype_parse(name) : STAR_FLOAT32;

	if (dtype == STAR_FLOAT16 || dtype == STAR_BFLOAT16 || dtype == STAR_SCALED_INT8)
		return (int)dtype;
	return dtype == STAR_FLOAT32
		       ? 0
		       : star_error_set(
				 err, -EINVAL,
				 "wire = %.40s: rows and gradients travel as float32, float16, bfloat16 or scaled_int8",
				 name);
}

void train_narrow_pack(void *to, unsigned dtype, const float *rows, uint32_t count, uint32_t dim)
{
	const uint64_t bytes = dtype_row_bytes(dtype, dim);

	for (uint32_t i = 0; i < count; i++)
		tensor_convert_row((char *)to + i * bytes, dtype, rows + (uint64_t)i * dim, STAR_FLOAT32, dim, NULL);
}

void train_narrow_unpack(float *rows, const void *from, unsigned dtype, uint32_t count, uint32_t dim)
{
	const uint64_t bytes = dtype_row_bytes(dtype, dim);

	for (uint32_t i = 0; i < count; i++)
		tensor_convert_row(rows + (uint64_t)i * dim, STAR_FLOAT32, (const char *)from + i * bytes, dtype, dim,
				   NULL);
}
