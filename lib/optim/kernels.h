/* SPDX-License-Identifier: BSD-3-Clause */
/* The row kernels of one SIMD level and one element width. Each such pair is a file of its own that says what a vector
 * is and takes the formulas from kernels.inc, where each stands once. "real" below is float or double, as the file has
 * it. */
#ifndef OPTIM_KERNELS_H
#define OPTIM_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "optim/optim.h"

/* What a kernel computes; several kinds share one, and a kind may have several. X(name, arrays of slots, terms): given,
 * where rate and epsilon are the push's and the optimizer's for all rows; by_row, where begin_update (optim.c) works
 * out those of each row, or others. */
#define OPTIM_FORMULAS(X) \
	X(sgd, 0, given) \
	X(adagrad, 1, given) \
	X(adagrad_decayed, 1, by_row) /* with the decay of the accumulator that is due */ \
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

/* Of one row and one push: what its count, the push and the options come to. */
struct optim_terms {
	double rate;	/* what the update's direction is multiplied by, bias correction included */
	double epsilon; /* the same in Adam's family */
	/* adamw: share of the weight that its decay leaves; ftrl: 1 / rate; lamb: rate times trust ratio */
	double keep;
	double scale, factor, l1, l2; /* what prepares the gradient; factor is that of the clip by the row's norm */
	int64_t next;		      /* optim_step's */
};

/* What a row's kernel does besides: nothing; it prepares the gradient first; it tells whether the gradient is
 * finite. */
enum optim_way { OPTIM_PLAIN, OPTIM_PREPARED, OPTIM_WATCHED, OPTIM_WAYS };

struct optim_kernels {
	/* [formula][way]. slots: arrays of n reals one after the other. True but for gradients that were watched and
	 * are not finite. */
	bool (*rows[OPTIM_FORMULA_COUNT][OPTIM_WAYS])(const struct optim *o, const struct optim_terms *t, void *value,
						      void *slots, const void *grad, uint32_t n);
	/* Of scaled gradients, each cut to [-clip, clip] (0: not). */
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
