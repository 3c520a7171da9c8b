/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elementary functions with the same bits on every machine (C libraries differ in the last bits), for initial values of
 * rows, schedules and bias corrections. They only use additions, multiplications and divisions of float64, in the order
 * written. Relative error at most 1e-13. Pure functions.
 */
#ifndef TENSOR_ELEMENTARY_H
#define TENSOR_ELEMENTARY_H

#include <stdint.h>

/* Natural logarithm of x > 0. */
double tensor_elementary_log(double x);

/* e^x: 0 below -745, infinity above 709.78. */
double tensor_elementary_exp(double x);

/* x^y = e^(y ln x) for x >= 0, with a relative error of 1e-13 (1 + |y ln x|) at most. 0^y is 0 for y > 0, and 0^0 is
 * 1. */
double tensor_elementary_pow(double x, double y);

/* Sine and cosine of the angle turn * 2^-32 * 2 pi. */
void tensor_elementary_sincos(uint32_t turn, double *sine, double *cosine);

#endif
