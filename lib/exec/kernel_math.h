/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor_elementary_exp of n numbers, with the same bits, with the best instructions of the machine. Pure functions. */
#ifndef EXEC_KERNEL_MATH_H
#define EXEC_KERNEL_MATH_H

#include <stddef.h>
#include <stdint.h>

void kernel_exp_many(const double *x, double *y, size_t n);

/* Its implementations for each instruction set. */
void kernel_exp_many_any(const double *x, double *y, size_t n);
void kernel_exp_many_avx2(const double *x, double *y, size_t n);

#endif
