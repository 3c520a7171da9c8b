/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/optim.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>

#include "optim/kernels.h"

static const uint8_t formula_slots[] = {
#define X(name, slots, terms) [FORMULA_##name] = slots,
	OPTIM_FORMULAS(X)
#undef X
};

enum { TERMS_given = true, TERMS_by_row = false };
static const bool formula_has_given_terms[] = {
#define X(name, slots, terms) [FORMULA_##name] = TERMS_##terms,
	OPTIM_FORMULAS(X)
#undef X
};

/* Finds the kernels of a level for both widths; false: the machine lacks it. __builtin_cpu_supports was initialized
 * before main. */
static bool find_kernels(struct optim *o, enum optim_simd simd)
{
	if (simd == OPTIM_BEST)
		return find_kernels(o, OPTIM_AVX512) || find_kernels(o, OPTIM_AVX2) || find_kernels(o, OPTIM_SCALAR);
	switch (simd) {
	case OPTIM_AVX512:
		o->kernels = &optim_kernels_avx512;
		o->kernels64 = &optim_kernels_avx512_64;
		return __builtin_cpu_supports("avx512f");
	case OPTIM_AVX2:
		o->kernels = &optim_kernels_avx2;
		o->kernels64 = &optim_kernels_avx2_64;
		return __builtin_cpu_supports("avx2");
	default:
		o->kernels = &optim_kernels_scalar;
		o->kernels64 = &optim_kernels_scalar64;
		return true;
	}
}

static unsigned find_formula(const struct optim_options *p)
{
	/* Without a default: the compiler names a kind that has no case. OPTIM_NONE is never applied. */
	switch ((enum optim_kind)p->kind) {
	case OPTIM_NONE:
	case OPTIM_SGD:
		break;
	case OPTIM_ADAGRAD:
	case OPTIM_ADAGRAD_DECAY:
		return FORMULA_adagrad;
	case OPTIM_MOMENTUM:
		return FORMULA_momentum;
	case OPTIM_NESTEROV:
		return FORMULA_nesterov;
	case OPTIM_RMSPROP:
		if (p->centered)
			return p->momentum > 0 ? FORMULA_rmsprop_centered_momentum : FORMULA_rmsprop_centered;
		return p->momentum > 0 ? FORMULA_rmsprop_momentum : FORMULA_rmsprop;
	case OPTIM_ADADELTA:
		return FORMULA_adadelta;
	case OPTIM_ADAM:
		return FORMULA_adam;
	case OPTIM_AMSGRAD:
		return FORMULA_amsgrad;
	case OPTIM_ADAMW:
		return FORMULA_adamw;
	case OPTIM_ADAM_ASYNC:
		return p->sparse_rmsprop ? FORMULA_sparse_rmsprop : FORMULA_adam;
	case OPTIM_FTRL:
		return p->power == -0.5f ? FORMULA_ftrl : FORMULA_ftrl_power;
	case OPTIM_LAMB:
		return FORMULA_lamb_moments;
	}
	return FORMULA_sgd;
}

/* powers[0][i] = beta^i, powers[1][i] = beta^(64 i), each computed from the previous one by a multiplication. */
static void find_powers(double powers[2][OPTIM_POWERS], double beta)
{
	for (unsigned level = 0; level < 2; level++) {
		double power = 1;

		for (unsigned i = 0; i < OPTIM_POWERS; i++) {
			powers[level][i] = power;
			power *= beta;
		}
		beta = power;
	}
}

/* In the order of the formulas' slots. */
static const char *const formula_slot_names[OPTIM_FORMULA_COUNT][OPTIM_SLOTS_MAX] = {
	[FORMULA_adagrad] = { "accumulator" },
	[FORMULA_momentum] = { "momentum" },
	[FORMULA_nesterov] = { "momentum" },
	[FORMULA_rmsprop] = { "mean_square" },
	[FORMULA_rmsprop_momentum] = { "mean_square", "momentum" },
	[FORMULA_rmsprop_centered] = { "mean_square", "mean" },
	[FORMULA_rmsprop_centered_momentum] = { "mean_square", "mean", "momentum" },
	[FORMULA_adadelta] = { "mean_square", "mean_square_update" },
	[FORMULA_adam] = { "m", "v" },
	[FORMULA_amsgrad] = { "m", "v", "v_max" },
	[FORMULA_adamw] = { "m", "v" },
	[FORMULA_sparse_rmsprop] = { "m", "v" },
	[FORMULA_ftrl] = { "n", "z" },
	[FORMULA_ftrl_power] = { "n", "z" },
	[FORMULA_lamb_moments] = { "m", "v" },
	[FORMULA_lamb_apply] = { "m", "v" },
};

/* Whether each row counts its own updates (adagrad_decay: its decays). */
static bool counts_by_row(const struct optim_options *options, unsigned formula)
{
	switch (options->kind) {
	case OPTIM_ADAM:
	case OPTIM_AMSGRAD:
	case OPTIM_ADAMW:
	case OPTIM_ADAM_ASYNC:
		return !options->count_per_table && formula != FORMULA_sparse_rmsprop;
	default:
		return options->kind == OPTIM_LAMB || options->kind == OPTIM_ADAGRAD_DECAY;
	}
}

int optim_state(const struct optim_options *options, struct optim_state *state)
{
	unsigned formula;

	if (optim_options_check(options, NULL) < 0)
		return -EINVAL;
	formula = find_formula(options);
	*state = (struct optim_state){ .slots = formula_slots[formula], .words = counts_by_row(options, formula) };
	for (unsigned i = 0; i < state->slots; i++)
		state->slot_names[i] = formula_slot_names[formula][i];
	if (state->words)
		state->word_name = options->kind == OPTIM_ADAGRAD_DECAY ? "decays" : "updates";
	return 0;
}

int optim_init(struct optim *o, const struct optim_options *options, enum optim_simd simd)
{
	const unsigned kind = options->kind;
	struct optim_state state;

	if ((unsigned)simd > OPTIM_BEST || optim_state(options, &state) < 0)
		return -EINVAL;
	*o = (struct optim){ .options = *options };
	if (!find_kernels(o, simd))
		return -ENOTSUP;
	o->formula = (uint8_t)find_formula(options);
	o->slots = state.slots;
	o->words = state.words;
	o->whole = kind == OPTIM_LAMB;
	o->prepares = options->clip_value > 0 || options->clip_norm > 0 ||
		      (kind != OPTIM_FTRL && (options->l1 > 0 || options->l2 > 0));
	o->alike = formula_has_given_terms[o->formula] && !o->words && !o->prepares && kind != OPTIM_NONE;
	o->initial_slots[0] = options->initial_accumulator;
	find_powers(o->powers[0], options->beta1);
	find_powers(o->powers[1], options->beta2);
	return 0;
}

/* A beta to the power of a count: beyond the tables by squaring, at most 52 times. */
static double power_of(const double powers[2][OPTIM_POWERS], uint64_t count)
{
	double power = powers[0][count % OPTIM_POWERS] * powers[1][count / OPTIM_POWERS % OPTIM_POWERS];
	double square = powers[1][OPTIM_POWERS - 1] * powers[1][1];

	for (count /= (uint64_t)OPTIM_POWERS * OPTIM_POWERS; count; count /= 2) {
		if (count % 2)
			power *= square;
		square *= square;
	}
	return power;
}

/* Includes bias correction in rate and epsilon: a m' / (sqrt(v') + e), m' = m / (1 - beta1^t) and v' = v / (1 -
 * beta2^t), is a sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + e sqrt(1 - beta2^t)). */
static void correct_bias(const struct optim *o, struct optim_terms *t, double rate, uint64_t count)
{
	const double root = sqrt(1 - power_of(o->powers[1], count));

	t->rate = rate * root / (1 - power_of(o->powers[0], count));
	t->epsilon = o->options.epsilon;
	if (o->options.kind != OPTIM_ADAM_ASYNC) /* its epsilon is the paper's "epsilon hat" */
		t->epsilon *= root;
}

static void count_up(uint32_t *word)
{
	*word += *word != UINT32_MAX;
}

/* The count for bias correction, including this update. */
static uint64_t count_of(const struct optim *o, const struct optim_step *step, uint32_t *words)
{
	uint64_t count;

	if (!o->options.count_per_table) {
		count_up(words);
		return *words;
	}
	count = step->step ? step->step : step->count;
	return count ? count : 1;
}

/* As in DeepRec: an update decays the accumulator once if the row has had fewer decays than the training has had
 * periods. */
static bool decay_is_due(const struct optim *o, const struct optim_step *step, uint32_t *words)
{
	const uint64_t now = step->step ? step->step : step->count;

	if (!(floor((double)now / (double)o->options.decay_steps) > *words))
		return false;
	count_up(words);
	return true;
}

/* Fills in the terms, and returns the formula of this row's update; OPTIM_FORMULA_COUNT: none. */
static unsigned begin_update(const struct optim *o, const struct optim_step *step, uint32_t *words,
			     struct optim_terms *t)
{
	t->rate = step->rate;
	t->epsilon = o->options.epsilon;
	t->next = step->next;
	switch (o->options.kind) {
	case OPTIM_ADAGRAD_DECAY:
		return decay_is_due(o, step, words) ? FORMULA_adagrad_decayed : FORMULA_adagrad;
	case OPTIM_ADAMW:
		t->keep = 1 - (double)step->rate * (double)o->options.weight_decay;
		/* fall through */
	case OPTIM_ADAM:
	case OPTIM_AMSGRAD:
		correct_bias(o, t, step->rate, count_of(o, step, words));
		break;
	case OPTIM_ADAM_ASYNC:
		if (o->formula == FORMULA_adam)
			correct_bias(o, t, step->rate, count_of(o, step, words));
		break;
	case OPTIM_FTRL:
		if (!(step->rate > 0))
			return OPTIM_FORMULA_COUNT; /* the limit: the weight does not change */
		t->keep = 1 / (double)step->rate;
		break;
	case OPTIM_NONE:
		return OPTIM_FORMULA_COUNT;
	}
	return o->formula;
}

/* Whether the gradient must be prepared, and how. */
static enum optim_way prepares(const struct optim *o, const struct optim_step *step,
			       const struct optim_kernels *kernels, const void *grad, uint32_t n, struct optim_terms *t)
{
	const struct optim_options *p = &o->options;
	double norm;

	if (!o->prepares && step->scale == 1)
		return OPTIM_PLAIN;
	t->scale = step->scale;
	t->factor = 1;
	t->l1 = p->kind == OPTIM_FTRL ? 0 : p->l1;
	t->l2 = p->kind == OPTIM_FTRL ? 0 : p->l2;
	if (p->clip_norm > 0) {
		norm = sqrt(kernels->square_sum(grad, n, step->scale, p->clip_value));
		if (norm > p->clip_norm)
			t->factor = p->clip_norm / norm;
	}
	return OPTIM_PREPARED;
}

static __attribute__((noinline)) void apply_each(const struct optim *o, const struct optim_kernels *kernels,
						 const struct optim_step *step, void *value, void *slots,
						 uint32_t *words, const void *grad, uint32_t n)
{
	struct optim_terms t = { 0 };
	const unsigned formula = begin_update(o, step, words, &t);

	assert(!o->whole);
	if (formula != OPTIM_FORMULA_COUNT)
		kernels->rows[formula][prepares(o, step, kernels, grad, n, &t)](o, &t, value, slots, grad, n);
}

/* Short rows take less time than the decision how to process them, and most need none. */
static inline void apply_row(const struct optim *o, const struct optim_kernels *kernels, const struct optim_step *step,
			     void *value, void *slots, uint32_t *words, const void *grad, uint32_t n)
{
	const struct optim_terms t = { .rate = step->rate, .epsilon = o->options.epsilon, .next = step->next };

	if (o->alike && step->scale == 1)
		kernels->rows[o->formula][OPTIM_PLAIN](o, &t, value, slots, grad, n);
	else
		apply_each(o, kernels, step, value, slots, words, grad, n);
}

void optim_apply(const struct optim *o, const struct optim_step *step, float *value, float *slots, uint32_t *words,
		 const float *grad, uint32_t n)
{
	apply_row(o, o->kernels, step, value, slots, words, grad, n);
}

void optim_apply64(const struct optim *o, const struct optim_step *step, double *value, double *slots, uint32_t *words,
		   const double *grad, uint32_t n)
{
	apply_row(o, o->kernels64, step, value, slots, words, grad, n);
}

bool optim_apply_watched(const struct optim *o, const struct optim_step *step, float *value, float *slots,
			 uint32_t *words, const float *grad, uint32_t n)
{
	struct optim_terms t = { 0 };
	const unsigned formula = begin_update(o, step, words, &t);
	const bool prepare = prepares(o, step, o->kernels, grad, n, &t) == OPTIM_PREPARED;

	assert(!o->whole);
	if (formula == OPTIM_FORMULA_COUNT)
		return optim_finite(o, grad, n);
	if (!prepare)
		return o->kernels->rows[formula][OPTIM_WATCHED](o, &t, value, slots, grad, n);
	o->kernels->rows[formula][OPTIM_PREPARED](o, &t, value, slots, grad, n);
	return optim_finite(o, grad, n);
}

static void lamb_moments(const struct optim *o, const struct optim_kernels *kernels, const struct optim_step *step,
			 const void *value, void *slots, const void *grad, uint32_t n, uint32_t updates,
			 double norms[2])
{
	struct optim_terms t = { 0 };
	const enum optim_way way = prepares(o, step, kernels, grad, n, &t);

	correct_bias(o, &t, 1, updates ? updates : 1);
	/* The formula does not change the value. */
	kernels->rows[FORMULA_lamb_moments][way](o, &t, (void *)(uintptr_t)value, slots, grad, n);
	kernels->lamb_norms(o, &t, value, slots, n, norms);
}

/* The trust ratio |w| / |u|, or 1 if one of them is 0 (You et al., ICLR 2020, algorithm 2, with phi(z) = z). */
static double trust(const struct optim *o, const double norms[2])
{
	const double most = o->options.trust_max;
	const double ratio = norms[0] > 0 && norms[1] > 0 ? sqrt(norms[0]) / sqrt(norms[1]) : 1;

	return most > 0 && ratio > most ? most : ratio;
}

static void lamb_apply(const struct optim *o, const struct optim_kernels *kernels, const struct optim_step *step,
		       void *value, const void *slots, uint32_t n, uint32_t updates, const double norms[2])
{
	struct optim_terms t = { 0 };

	correct_bias(o, &t, 1, updates ? updates : 1);
	t.keep = step->rate * trust(o, norms);
	/* The formula only reads the slots. */
	kernels->rows[FORMULA_lamb_apply][OPTIM_PLAIN](o, &t, value, (void *)(uintptr_t)slots, NULL, n);
}

void optim_lamb_moments(const struct optim *o, const struct optim_step *step, const float *value, float *slots,
			const float *grad, uint32_t n, uint32_t updates, double norms[2])
{
	lamb_moments(o, o->kernels, step, value, slots, grad, n, updates, norms);
}

void optim_lamb_moments64(const struct optim *o, const struct optim_step *step, const double *value, double *slots,
			  const double *grad, uint32_t n, uint32_t updates, double norms[2])
{
	lamb_moments(o, o->kernels64, step, value, slots, grad, n, updates, norms);
}

void optim_lamb_apply(const struct optim *o, const struct optim_step *step, float *value, const float *slots,
		      uint32_t n, uint32_t updates, const double norms[2])
{
	lamb_apply(o, o->kernels, step, value, slots, n, updates, norms);
}

void optim_lamb_apply64(const struct optim *o, const struct optim_step *step, double *value, const double *slots,
			uint32_t n, uint32_t updates, const double norms[2])
{
	lamb_apply(o, o->kernels64, step, value, slots, n, updates, norms);
}

void optim_accumulate(const struct optim *o, float *sum, const float *grad, uint32_t n)
{
	o->kernels->accumulate(sum, grad, n);
}

void optim_accumulate64(const struct optim *o, double *sum, const double *grad, uint32_t n)
{
	o->kernels64->accumulate(sum, grad, n);
}

double optim_square_sum(const struct optim *o, const float *grad, uint32_t n)
{
	return o->kernels->square_sum(grad, n, 1, 0);
}

double optim_square_sum64(const struct optim *o, const double *grad, uint32_t n)
{
	return o->kernels64->square_sum(grad, n, 1, 0);
}

bool optim_finite(const struct optim *o, const float *grad, uint32_t n)
{
	return o->kernels->finite(grad, n);
}

bool optim_finite64(const struct optim *o, const double *grad, uint32_t n)
{
	return o->kernels64->finite(grad, n);
}

bool optim_moderate(const struct optim *o, const float *grad, uint32_t n)
{
	return o->kernels->moderate(grad, n);
}

bool optim_moderate64(const struct optim *o, const double *grad, uint32_t n)
{
	return o->kernels64->moderate(grad, n);
}

void optim_make_finite(const struct optim *o, float *grad, uint32_t n)
{
	o->kernels->make_finite(grad, n);
}

void optim_make_finite64(const struct optim *o, double *grad, uint32_t n)
{
	o->kernels64->make_finite(grad, n);
}
