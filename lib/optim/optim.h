/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Optimizers by row: value, slots and gradient of one row, in float32 (float64 for rows of float64), the same bits at
 * every SIMD level and so on every machine: no fused multiply-add, no approximations; mul, add, sqrt and div are exact
 * in IEEE 754 whatever the lane count, powers of betas are our own. Pure functions; the fast path's.
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

/* What one push brings to each of its rows. */
struct optim_step {
	float rate;	/* learning rate, after schedule and staleness; 0 is a rate of zero */
	float scale;	/* on each gradient: that of a clip by the whole gradient's norm; else 1 */
	uint64_t step;	/* the worker's training step, from 1; 0: it does not count */
	uint64_t count; /* of the table, with this push, from 1: for count_per_table */
	/* bytes from this row to the next one's, whose beginning is then loaded along with this one's end; 0: none */
	int64_t next;
};

struct optim_kernels; /* of one SIMD level and one element width */

struct optim {
	struct optim_options options;
	uint8_t slots; /* arrays of n elements beside the value */
	uint8_t words; /* uint32_t of state of the row beside them, 0 at first: e.g. how often it was updated */
	bool whole;    /* needs the whole tensor: optim_apply is not for it, optim_lamb_* is */
	bool prepares; /* a gradient is clipped or regularized before the formula */
	bool alike;    /* the formula's terms are the same for all rows of a push, and gradients are not prepared */
	uint8_t formula;
	float initial_slots[OPTIM_SLOTS_MAX];
	const struct optim_kernels *kernels, *kernels64;
	/* beta1 and beta2 to the powers 0, 1, 2, ... and 0, 64, 128, ...: a row's bias correction is two products. */
	double powers[2][2][OPTIM_POWERS];
};

/* What a row keeps beside its values: arrays of n elements, and uint32_t words, in their order; and what they are
 * called where people see them (docs/optimizers.rst). 0, or -EINVAL for options that do not hold. */
struct optim_state {
	uint8_t slots, words;
	const char *slot_names[OPTIM_SLOTS_MAX];
	const char *word_name; /* NULL without words */
};
int optim_state(const struct optim_options *options, struct optim_state *state);

/* simd: OPTIM_BEST for what the machine has; tests name levels. Returns 0, -EINVAL for options that do not hold, or
 * -ENOTSUP for a level that this machine lacks. */
int optim_init(struct optim *o, const struct optim_options *options, enum optim_simd simd);

/* Applies grad[n] to value[n], slots[o->slots][n] (one array after the other) and words[o->words]. */
void optim_apply(const struct optim *o, const struct optim_step *step, float *value, float *slots, uint32_t *words,
		 const float *grad, uint32_t n);
void optim_apply64(const struct optim *o, const struct optim_step *step, double *value, double *slots, uint32_t *words,
		   const double *grad, uint32_t n);

/* optim_apply, and whether the gradient is finite: looked at as it goes by. */
bool optim_apply_watched(const struct optim *o, const struct optim_step *step, float *value, float *slots,
			 uint32_t *words, const float *grad, uint32_t n);

/*
 * LAMB on a tensor that lies in one place, block by block: first all blocks through optim_lamb_moments, which brings
 * the moments up to date and adds the squares of weights and of update directions to norms[0] and norms[1]; then all
 * through optim_lamb_apply with the finished norms. updates is how many the tensor has had, this one counted: it has
 * one word for all its blocks.
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

/* Whether all are finite; make_finite: with all finite put in, NaN becomes 0, an infinity the greatest finite number of
 * its sign. */
bool optim_finite(const struct optim *o, const float *grad, uint32_t n);
bool optim_finite64(const struct optim *o, const double *grad, uint32_t n);
/*
 * Whether all are finite and less than 2^97 (2^961 of float64) in magnitude. Sums of such, rounded after each addition,
 * are finite, however many there are: one that is 2^25 (2^54) times as large as what is added stays as it is.
 */
bool optim_moderate(const struct optim *o, const float *grad, uint32_t n);
bool optim_moderate64(const struct optim *o, const double *grad, uint32_t n);
void optim_make_finite(const struct optim *o, float *grad, uint32_t n);
void optim_make_finite64(const struct optim *o, double *grad, uint32_t n);

#endif
