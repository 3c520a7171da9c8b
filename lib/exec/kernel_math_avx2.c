/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole file is compiled for AVX2: kernel_math.c calls it only where the machine has that. */
#pragma GCC target("avx2")
#include "exec/kernel_math.h"

#define EXP_MANY kernel_exp_many_avx2
#include "exec/kernel_math.inc"
