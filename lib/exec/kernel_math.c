/* SPDX-License-Identifier: BSD-3-Clause */
#include "exec/kernel_math.h"

#define EXP_MANY kernel_exp_many_any
#include "exec/kernel_math.inc"

void kernel_exp_many(const double *x, double *y, size_t n)
{
	if (__builtin_cpu_supports("avx2"))
		kernel_exp_many_avx2(x, y, n);
	else
		kernel_exp_many_any(x, y, n);
}
