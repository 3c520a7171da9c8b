/* SPDX-License-Identifier: BSD-3-Clause */
/* The row kernels of one SIMD level and one element width. For each such pair there is a file that defines its vector
 * type and includes the formulas of kernels.inc, which has each of them once. "real" is float or double. Pure
 * functions. */
#ifndef OPTIM_KERNELS_H
#define OPTIM_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "optim/optim.h"

/* What a kernel computes. Several kinds of optimizer may share one, and a kind may have several. X(name, arrays of
 * slots, terms). given: rate and epsilon are those of the push and the optimizer, for all rows; by_row: begin_update
 * (optim.c) computes the terms of each row. */
#define OPTIM_FORMULAS(X) \
	X(sgd, 0, given) \
	X(adagrad, 1, given) \
	X(adagrad_decayed, 1, by_row) /* with the accumulator's pending decay */ \
	X(momentum, 1, given) \
	X(nesterov, 1, given) \
	X(rmsprop, 1, given) \
	X(rmsprop_momentum, 2, given) \
	X(rmsprop_centered, 2, given) \
	X(rmsprop_centered_momentum, 3, given) \
	X(adadelta, 2, given) \
	X(adam, 2, by_row) \
	X(amsgrad, 3, by_row) \
	X(adamw, 2, by_row) \
	X(sparse_rmsprop, 2, given) \
	X(ftrl, 2, by_row)	 /* power -1/2 */ \
	X(ftrl_power, 2, by_row) /* any other */ \
	X(lamb_moments, 2, by_row) \
	X(lamb_apply, 2, by_row)

enum optim_formula {
#define X(name, slots, terms) FORMULA_##name,
	OPTIM_FORMULAS(X)
#undef X
		OPTIM_FORMULA_COUNT
};

/* The parameters of the formula for one row and one push, computed from the row's count, the push and the options. */
struct optim_terms {
	double rate;	/* factor on the update's direction, including bias correction */
	double epsilon; /* the same in Adam's family */
	/* adamw: 1 minus the weight's decay; ftrl: 1 / rate; lamb: rate times trust ratio */
	double keep;
	double scale, factor, l1, l2; /* for preparing the gradient; factor is from clipping by the row's norm */
	int64_t next;		      /* optim_step's */
};

/* Variants of a row's kernel: plain; it prepares the gradient first; it checks whether the gradient is finite. */
enum optim_way { OPTIM_PLAIN, OPTIM_PREPARED, OPTIM_WATCHED, OPTIM_WAYS };

struct optim_kernels {
	/* [formula][way]. slots: arrays of n reals one after the other. Returns false only in OPTIM_WATCHED, for
	 * gradients that are not finite. */
	bool (*rows[OPTIM_FORMULA_COUNT][OPTIM_WAYS])(const struct optim *o, const struct optim_terms *t, void *value,
						      void *slots, const void *grad, uint32_t n);
	/* The sum of squares of scaled gradients, each clipped to [-clip, clip] (0: not clipped). */
	double (*square_sum)(const void *grad, uint32_t n, double scale, double clip);
	/* LAMB: adds the squares of weights and of update directions. */
	void (*lamb_norms)(const struct optim *o, const struct optim_terms *t, const void *value, const void *slots,
			   uint32_t n, double norms[2]);
	void (*accumulate)(void *sum, const void *grad, uint32_t n);
	bool (*finite)(const void *grad, uint32_t n);
	bool (*moderate)(const void *grad, uint32_t n);
	void (*make_finite)(void *grad, uint32_t n);
};

extern const struct optim_kernels optim_kernels_scalar, optim_kernels_scalar64;
extern const struct optim_kernels optim_kernels_avx2, optim_kernels_avx2_64;
extern const struct optim_kernels optim_kernels_avx512, optim_kernels_avx512_64;

#endif
