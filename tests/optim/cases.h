/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of the optimizers' test program, by file, and what they share. */
#ifndef TESTS_OPTIM_CASES_H
#define TESTS_OPTIM_CASES_H

#include "base/prng.h"
#include "optim/optim.h"
#include "tests/unit.h"

#define OPTIM_CASES(X) \
	/* options.c */ \
	X(kinds_and_their_names) \
	X(defaults_hold_and_are_documented) \
	X(slots_have_names) \
	X(options_out_of_bounds_are_refused) \
	X(options_without_use_are_refused) \
	/* optim.c */ \
	X(init_says_what_it_takes) \
	X(values_by_hand) \
	X(gradients_are_prepared_in_order) \
	X(rows_are_clipped_by_their_norm) \
	X(counts_of_bias_correction) \
	X(accumulators_decay_when_due) \
	X(variances_are_not_negative) \
	X(ftrl_divides_by_no_zero) \
	X(nothing_to_do_touches_nothing) \
	X(sums_keep_their_order) \
	X(square_sums) \
	X(sums_of_moderate_are_finite) \
	X(finite_or_not) \
	X(lamb_trusts_by_the_whole_tensor) \
	/* levels.c */ \
	X(levels_give_the_same_bits) \
	X(levels_give_the_same_bits_for_lamb) \
	/* reference.c */ \
	X(float64_follows_the_reference) \
	X(float32_follows_the_reference_step_by_step) \
	X(float32_follows_the_reference_to_the_end) \
	X(lamb_follows_the_reference) \
	/* golden.c */ \
	X(golden_vectors_of_pytorch)

#define X(name) void name(void);
OPTIM_CASES(X)
#undef X

/* The options of a kind at their defaults, and an optimizer of such. */
struct optim_options defaults_of(unsigned kind);
struct optim make(const struct optim_options *options, enum optim_simd simd);

/* Whether the machine has a level; says so if not, since a case is then skipped. */
bool has(enum optim_simd simd);

/* Options of a kind drawn at random, within what training uses; each that may be off is now and then. */
struct optim_options random_options(unsigned kind, struct prng *p);

/* Uniform in [low, high). */
static inline float between(struct prng *p, double low, double high)
{
	return (float)(low + (high - low) * prng_unit(p));
}

/* The steps of a long run: 10,000 in the long form of the tests (STAR_SOAK=1), else `brief`. */
unsigned run_length(unsigned brief);

/* A step of one push with rate, and nothing else. */
static inline struct optim_step step_of(float rate)
{
	return (struct optim_step){ .rate = rate, .scale = 1 };
}

#endif
