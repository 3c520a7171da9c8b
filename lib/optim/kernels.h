/* SPDX-License-Identifier: BSD-3-Clause */
/* The row kernels of one SIMD level. Each level is a file of its own that says what a vector is and takes the formulas
 * from kernels.inc, where each stands once. */
#ifndef OPTIM_KERNELS_H
#define OPTIM_KERNELS_H

#include "optim/optim.h"

struct optim_kernels {
	void (*sgd)(const struct optim *o, float rate, float *value, float *slot, const float *grad, uint32_t n);
	void (*adagrad)(const struct optim *o, float rate, float *value, float *slot, const float *grad, uint32_t n);
	void (*accumulate)(float *sum, const float *grad, uint32_t n);
};

extern const struct optim_kernels optim_kernels_scalar;
extern const struct optim_kernels optim_kernels_avx2;
extern const struct optim_kernels optim_kernels_avx512;

#endif
