/* SPDX-License-Identifier: BSD-3-Clause */
#include "tensor/convert.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "tensor/convert_levels.h"

/* F16C is older than AVX2, so only a virtual machine could lack it; clang 14 cannot check for it. */
static bool has_avx2(void)
{
#ifdef __clang__
	return __builtin_cpu_supports("avx2");
#else
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
#endif
}

/* NULL: the machine lacks the level. __builtin_cpu_supports was initialized before main. */
static const struct converter *level_of(enum convert_simd simd)
{
	switch (simd) {
	case CONVERT_SCALAR:
		return tensor_convert_scalar;
	case CONVERT_AVX2:
		return has_avx2() ? tensor_convert_avx2 : NULL;
	case CONVERT_AVX512:
		return __builtin_cpu_supports("avx512f") ? tensor_convert_avx512 : NULL;
	case CONVERT_BEST:
		break;
	}
	if (__builtin_cpu_supports("avx512f"))
		return tensor_convert_avx512;
	return has_avx2() ? tensor_convert_avx2 : tensor_convert_scalar;
}

const struct converter *tensor_convert_find(unsigned dtype, enum convert_simd simd)
{
	const struct converter *level = level_of(simd);

	return level && dtype_is_real(dtype) ? &level[dtype] : NULL;
}

/*
 * Converts doubles to floats on their way to a narrower type, without double rounding: an inexact result becomes the
 * neighbour whose last bit is 1 (round to odd), which is on the same side of every rounding boundary of the narrower
 * type (Boldo and Melquiond, Emulation of a FMA and correctly rounded sums, IEEE TC 2008).
 */
static void round_to_odd(float *to, const double *from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t bits;

		to[i] = (float)from[i];
		if ((double)to[i] == from[i] || isnan(from[i]))
			continue;
		memcpy(&bits, &to[i], sizeof(bits));
		/* Towards zero; infinity becomes the largest finite number. */
		bits = (bits - (fabs((double)to[i]) > fabs(from[i]))) | 1;
		memcpy(&to[i], &bits, sizeof(bits));
	}
}

void tensor_convert_row(void *to, unsigned to_dtype, const void *from, unsigned from_dtype, uint32_t n, float *scratch)
{
	assert(dtype_converts(from_dtype, to_dtype));
	if (to_dtype == from_dtype) {
		memcpy(to, from, dtype_row_bytes(to_dtype, n));
		return;
	}
	if (from_dtype == STAR_FLOAT32) {
		tensor_convert_find(to_dtype, CONVERT_BEST)->from_float(to, from, n);
		return;
	}
	if (to_dtype == STAR_FLOAT32) {
		tensor_convert_find(from_dtype, CONVERT_BEST)->to_float(to, from, n);
		return;
	}
	if (from_dtype == STAR_FLOAT64 && to_dtype != STAR_SCALED_INT8)
		round_to_odd(scratch, from, n);
	else
		tensor_convert_find(from_dtype, CONVERT_BEST)->to_float(scratch, from, n);
	tensor_convert_find(to_dtype, CONVERT_BEST)->from_float(to, scratch, n);
}
