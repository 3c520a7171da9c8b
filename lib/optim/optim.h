/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Optimizers, row by row: they update values and slots of a row from its gradient, in float32 (float64 for rows of
 * float64). The results have the same bits at every SIMD level, and so on every machine: there is no fused multiply-add
 * and no approximation; mul, add, sqrt and div are exactly rounded in IEEE 754 for any number of lanes; powers of betas
 * are computed by our own code. Pure functions, for the fast path.
 *
 * docs/optimizers.rst has the formulas, their sources and defaults; kernels.inc has them as code. Order of a row's
 * update: scale, clip by value, clip by the row's norm, L2, L1, then the formula.
 */
#ifndef OPTIM_OPTIM_H
#define OPTIM_OPTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "optim/options.h"

enum { OPTIM_SLOTS_MAX = 3, OPTIM_POWERS = 64 };

enum optim_simd { OPTIM_SCALAR, OPTIM_AVX2, OPTIM_AVX512, OPTIM_BEST };

/* The parameters of a push, for each of its rows. */
struct optim_step {
	float rate;	/* learning rate, after schedule and staleness; 0 is a rate of zero */
	float scale;	/* factor on each gradient, from clipping by the whole gradient's norm; else 1 */
	uint64_t step;	/* the worker's training step, from 1; 0: it does not count */
	uint64_t count; /* pushes to the table, including this one: for count_per_table */
	/* bytes from this row to the next one, whose beginning is prefetched at the end of this one; 0: none */
	int64_t next;
};

struct optim_kernels; /* of one SIMD level and one element width */

struct optim {
	struct optim_options options;
	uint8_t slots; /* arrays of n elements beside the value */
	uint8_t words; /* uint32_t of state of a row beside them, initially 0: such as its number of updates */
	bool whole;    /* needs the whole tensor: use optim_lamb_*, not optim_apply */
	bool prepares; /* a gradient is clipped or regularized before the formula */
	bool alike; /* the formula's parameters are the same for all rows of a push, and gradients are not prepared */
	uint8_t formula;
	float initial_slots[OPTIM_SLOTS_MAX];
	const struct optim_kernels *kernels, *kernels64;
	/* beta1 and beta2 to the powers 0, 1, 2, ... and 0, 64, 128, ...: a row's bias correction is two products. */
	double powers[2][2][OPTIM_POWERS];
};

/* The state that a row has beside its values: arrays of n elements, and uint32_t words, in their order, with their
 * names for people (docs/optimizers.rst). 0, or -EINVAL: the options are invalid. */
struct optim_state {
	uint8_t slots, words;
	const char *slot_names[OPTIM_SLOTS_MAX];
	const char *word_name; /* NULL without words */
};
int optim_state(const struct optim_options *options, struct optim_state *state);

/* simd: OPTIM_BEST is the best level of this machine; tests use specific ones. 0; -EINVAL: the options are invalid;
 * -ENOTSUP: this machine lacks the level. */
int optim_init(struct optim *o, const struct optim_options *options, enum optim_simd simd);

/* Applies grad[n] to value[n], slots[o->slots][n] (one array after the other) and words[o->words]. */
void optim_apply(const struct optim *o, const struct optim_step *step, float *value, float *slots, uint32_t *words,
		 const float *grad, uint32_t n);
void optim_apply64(const struct optim *o, const struct optim_step *step, double *value, double *slots, uint32_t *words,
		   const double *grad, uint32_t n);

/* The same as optim_apply. Returns whether the gradient is finite, which is checked at the same time. */
bool optim_apply_watched(const struct optim *o, const struct optim_step *step, float *value, float *slots,
			 uint32_t *words, const float *grad, uint32_t n);

/*
 * LAMB on a tensor whose blocks are all in one place. First call optim_lamb_moments for all blocks: it updates the
 * moments, and adds the squares of weights and of update directions to norms[0] and norms[1]. Then call
 * optim_lamb_apply for all blocks with these norms. updates: the number of updates of the tensor, including this one;
 * one word counts it for all blocks.
 */
void optim_lamb_moments(const struct optim *o, const struct optim_step *step, const float *value, float *slots,
			const float *grad, uint32_t n, uint32_t updates, double norms[2]);
void optim_lamb_apply(const struct optim *o, const struct optim_step *step, float *value, const float *slots,
		      uint32_t n, uint32_t updates, const double norms[2]);
void optim_lamb_moments64(const struct optim *o, const struct optim_step *step, const double *value, double *slots,
			  const double *grad, uint32_t n, uint32_t updates, double norms[2]);
void optim_lamb_apply64(const struct optim *o, const struct optim_step *step, double *value, const double *slots,
			uint32_t n, uint32_t updates, const double norms[2]);

/* sum[i] += grad[i]: how the gradients of one id within a push are summed before they are applied. */
void optim_accumulate(const struct optim *o, float *sum, const float *grad, uint32_t n);
void optim_accumulate64(const struct optim *o, double *sum, const double *grad, uint32_t n);

/* The sum of squares of n elements, in float64, in an order that depends on n alone. */
double optim_square_sum(const struct optim *o, const float *grad, uint32_t n);
double optim_square_sum64(const struct optim *o, const double *grad, uint32_t n);

/* optim_finite: whether all elements are finite. optim_make_finite: replaces NaN by 0, and infinities by the largest
 * finite number of their sign. */
bool optim_finite(const struct optim *o, const float *grad, uint32_t n);
bool optim_finite64(const struct optim *o, const double *grad, uint32_t n);
/*
 * Whether all elements are finite and less than 2^97 (float64: 2^961) in magnitude. Sums of such numbers, rounded after
 * each addition, are finite, however many there are: a sum that is 2^25 (2^54) times as large as what is added does not
 * change any more.
 */
bool optim_moderate(const struct optim *o, const float *grad, uint32_t n);
bool optim_moderate64(const struct optim *o, const double *grad, uint32_t n);
void optim_make_finite(const struct optim *o, float *grad, uint32_t n);
void optim_make_finite64(const struct optim *o, double *grad, uint32_t n);

#endif
