/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/optim.h"

#include <errno.h>
#include <stddef.h>

#include "optim/kernels.h"

/* NULL where the machine lacks the level. The answers of __builtin_cpu_supports were found before main. */
static const struct optim_kernels *kernels_of(enum optim_simd simd)
{
	switch (simd) {
	case OPTIM_SCALAR:
		return &optim_kernels_scalar;
	case OPTIM_AVX2:
		return __builtin_cpu_supports("avx2") ? &optim_kernels_avx2 : NULL;
	case OPTIM_AVX512:
		return __builtin_cpu_supports("avx512f") ? &optim_kernels_avx512 : NULL;
	case OPTIM_BEST:
		break;
	}
	if (__builtin_cpu_supports("avx512f"))
		return &optim_kernels_avx512;
	return __builtin_cpu_supports("avx2") ? &optim_kernels_avx2 : &optim_kernels_scalar;
}

int optim_init(struct optim *o, unsigned kind, float rate, float epsilon, float initial_slot, enum optim_simd simd)
{
	const struct optim_kernels *kernels;

	if (simd > OPTIM_BEST)
		return -EINVAL;
	kernels = kernels_of(simd);
	if (!kernels)
		return -ENOTSUP;
	*o = (struct optim){ .kind = (uint8_t)kind,
			     .rate = rate,
			     .epsilon = epsilon,
			     .initial_slot = initial_slot,
			     .accumulate = kernels->accumulate };
	switch (kind) {
	case OPTIM_SGD:
		o->apply = kernels->sgd;
		return 0;
	case OPTIM_ADAGRAD:
		o->slots = 1;
		o->apply = kernels->adagrad;
		return 0;
	}
	return -EINVAL;
}

void optim_accumulate(float *sum, const float *grad, uint32_t n)
{
	kernels_of(OPTIM_BEST)->accumulate(sum, grad, n);
}
