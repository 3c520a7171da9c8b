/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elementary functions with the same bits on every machine (C libraries differ in their last bits), for first values of
 * rows, schedules and bias corrections: additions, multiplications and divisions of float64 in the order written. Good
 * to 1e-13, relative. Pure functions.
 */
#ifndef TENSOR_ELEMENTARY_H
#define TENSOR_ELEMENTARY_H

#include <stdint.h>

/* Natural logarithm of x > 0. */
double tensor_elementary_log(double x);

/* e^x: 0 below -745, infinity above 709.78. */
double tensor_elementary_exp(double x);

/* x^y = e^(y ln x) for x >= 0, good to 1e-13 (1 + |y ln x|); of 0 it is 0 for y > 0, and 1 for y = 0. */
double tensor_elementary_pow(double x, double y);

/* Sine and cosine of turn * 2^-32 of a whole turn. */
void tensor_elementary_sincos(uint32_t turn, double *sine, double *cosine);

#endif
