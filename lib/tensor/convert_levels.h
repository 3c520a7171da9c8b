/* SPDX-License-Identifier: BSD-3-Clause */
/* The converters of each SIMD level, by dtype, for tensor_convert_find. Each level has its own file. Constant data. */
#ifndef TENSOR_CONVERT_LEVELS_H
#define TENSOR_CONVERT_LEVELS_H

#include "tensor/convert.h"

enum { CONVERT_TYPES = STAR_SCALED_INT8 + 1 };

extern const struct converter tensor_convert_scalar[CONVERT_TYPES];
extern const struct converter tensor_convert_avx2[CONVERT_TYPES];
extern const struct converter tensor_convert_avx512[CONVERT_TYPES];

#endif
