/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Optimizers by row: value, slots and gradient of one row, in float32, the same bits at every SIMD level and so on every
 * machine (no fused multiply-add, no approximations: mul, add, sqrt and div are exact in IEEE 754 whatever the lane
 * count). Pure functions.
 *
 * SGD:      w -= rate * g
 * Adagrad:  a += g * g;  w -= (rate * g) / (sqrt(a) + epsilon)
 *           (Duchi, Hazan, Singer, JMLR 12, 2011; epsilon outside the root, as PyTorch and ElasticDL have it)
 *
 * Every operation above rounds once to float32, in the order written. Pointers need the alignment of a float only.
 */
#ifndef OPTIM_OPTIM_H
#define OPTIM_OPTIM_H

#include <stdint.h>

enum optim_kind { OPTIM_SGD = 1, OPTIM_ADAGRAD = 2 }; /* the numbers of wire/object.h */

struct optim {
	uint8_t kind;
	uint8_t slots; /* floats of state beside each element: 0 or 1 */
	float rate;    /* when a push brings none */
	float epsilon;
	float initial_slot; /* the slot's own first value */
	/* Applies grad[n] to value[n] and slots[slots * n]. */
	void (*apply)(const struct optim *o, float rate, float *value, float *slot, const float *grad, uint32_t n);
	/* sum[i] += grad[i]; optim_accumulate at this optimizer's SIMD level. */
	void (*accumulate)(float *sum, const float *grad, uint32_t n);
};

enum optim_simd { OPTIM_SCALAR, OPTIM_AVX2, OPTIM_AVX512, OPTIM_BEST };

/* simd: OPTIM_BEST for what the machine has; tests name levels. Returns 0, -EINVAL for an unknown kind or level, or
 * -ENOTSUP for a level that this machine lacks. */
int optim_init(struct optim *o, unsigned kind, float rate, float epsilon, float initial_slot, enum optim_simd simd);

/* sum[i] += grad[i]: how the gradients of one id within a push are summed before they are applied. */
void optim_accumulate(float *sum, const float *grad, uint32_t n);

#endif
