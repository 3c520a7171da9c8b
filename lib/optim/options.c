/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/options.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A bit for each option. */
enum option {
#define X(name, ...) bit_##name,
	OPTIM_NUMBERS(X) OPTIM_SWITCHES(X)
#undef X
		OPTIONS
};
_Static_assert(OPTIONS <= 32, "the options of a kind are a mask of 32 bits");

#define OPTION(name) (1u << bit_##name)
/* The options of every kind that accepts gradients: a rate, and those for preparing a gradient. */
#define EVERY (OPTION(rate) | OPTION(clip_value) | OPTION(clip_norm) | OPTION(l1) | OPTION(l2))
#define ADAM (EVERY | OPTION(epsilon) | OPTION(beta1) | OPTION(beta2) | OPTION(count_per_table))

/*
 * The options that a kind uses, and its defaults other than 0. tests/optim compares the table in the docs with this.
 * PyTorch's numbers if it has the optimizer; those of DeepRec, TensorFlow or the paper for the others.
 */
static const struct {
	uint32_t uses;
	struct optim_options defaults;
} kinds[] = {
	[OPTIM_SGD] = { EVERY, { .rate = 0.01f } },
	[OPTIM_ADAGRAD] = { EVERY | OPTION(epsilon) | OPTION(initial_accumulator),
			    { .rate = 0.01f, .epsilon = 1e-10f } },
	[OPTIM_MOMENTUM] = { EVERY | OPTION(momentum), { .rate = 0.01f, .momentum = 0.9f } },
	[OPTIM_NESTEROV] = { EVERY | OPTION(momentum), { .rate = 0.01f, .momentum = 0.9f } },
	[OPTIM_ADAGRAD_DECAY] = { EVERY | OPTION(initial_accumulator) | OPTION(decay_rate) | OPTION(decay_steps),
				  { .rate = 0.01f,
				    .initial_accumulator = 0.1f,
				    .decay_rate = 0.9f,
				    .decay_steps = 100000 } },
	[OPTIM_RMSPROP] = { EVERY | OPTION(epsilon) | OPTION(initial_accumulator) | OPTION(momentum) | OPTION(rho) |
				    OPTION(centered),
			    { .rate = 0.01f, .epsilon = 1e-8f, .rho = 0.99f } },
	[OPTIM_ADADELTA] = { EVERY | OPTION(epsilon) | OPTION(rho), { .rate = 1, .epsilon = 1e-6f, .rho = 0.9f } },
	[OPTIM_ADAM] = { ADAM, { .rate = 0.001f, .epsilon = 1e-8f, .beta1 = 0.9f, .beta2 = 0.999f } },
	[OPTIM_AMSGRAD] = { ADAM, { .rate = 0.001f, .epsilon = 1e-8f, .beta1 = 0.9f, .beta2 = 0.999f } },
	[OPTIM_ADAMW] = { ADAM | OPTION(weight_decay),
			  { .rate = 0.001f, .epsilon = 1e-8f, .beta1 = 0.9f, .beta2 = 0.999f, .weight_decay = 0.01f } },
	[OPTIM_ADAM_ASYNC] = { ADAM | OPTION(sparse_rmsprop),
			       { .rate = 0.001f,
				 .epsilon = 1e-8f,
				 .beta1 = 0.9f,
				 .beta2 = 0.999f,
				 .count_per_table = 1 } },
	[OPTIM_FTRL] = { EVERY | OPTION(initial_accumulator) | OPTION(l2_shrinkage) | OPTION(power),
			 { .rate = 0.01f, .initial_accumulator = 0.1f, .power = -0.5f } },
	[OPTIM_LAMB] = { EVERY | OPTION(epsilon) | OPTION(beta1) | OPTION(beta2) | OPTION(weight_decay) |
				 OPTION(trust_max),
			 { .rate = 0.001f, .epsilon = 1e-6f, .beta1 = 0.9f, .beta2 = 0.999f, .weight_decay = 0.01f } },
	[OPTIM_NONE] = { 0, { .rate = 0 } },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
#define X(NAME, ...) +1
_Static_assert(KINDS == 1 OPTIM_KINDS(X), "every optimizer has its line in kinds");
#undef X

/* The value of an option that a kind does not use: 0, or the nearest possible one. */
static float idle_value(double least, double most)
{
	return (float)(least > 0 ? least : most < 0 ? most : 0);
}

int optim_defaults(struct optim_options *options, unsigned kind)
{
	if (!optim_kind_name(kind))
		return -EINVAL;
	*options = kinds[kind].defaults;
	options->kind = (uint8_t)kind;
#define X(name, least, most, text) \
	if (!(kinds[kind].uses & OPTION(name))) \
		options->name = idle_value(least, most);
	OPTIM_NUMBERS(X)
#undef X
	return 0;
}

int optim_uses(unsigned kind, const char *name)
{
	if (!optim_kind_name(kind))
		return 0;
#define X(option, ...) \
	if (strcmp(name, #option) == 0) \
		return (kinds[kind].uses & OPTION(option)) != 0;
	OPTIM_NUMBERS(X)
	OPTIM_SWITCHES(X)
#undef X
	return 0;
}

static int check_number(const struct optim_options *have, uint32_t option, const char *name, float value, float idle,
			double least, double most, struct star_error *err)
{
	const char *kind = optim_kind_name(have->kind);

	if (!(kinds[have->kind].uses & option)) {
		if (value == idle)
			return 0;
		return star_error_set(err, -EINVAL, "%s is %g, but optimizer %s does not use it: leave it out", name,
				      (double)value, kind);
	}
	if (isfinite(value) && value >= (float)least && value <= (float)most)
		return 0;
	return star_error_set(err, -EINVAL, "%s of optimizer %s is %.9g: it must be between %.9g and %.9g", name, kind,
			      (double)value, least, most);
}

static int check_switch(const struct optim_options *have, uint32_t option, const char *name, unsigned value,
			struct star_error *err)
{
	const char *kind = optim_kind_name(have->kind);

	if (value && !(kinds[have->kind].uses & option))
		return star_error_set(err, -EINVAL, "%s is on, but optimizer %s does not use it: leave it out", name,
				      kind);
	if (value > 1)
		return star_error_set(err, -EINVAL, "%s of optimizer %s is %u: it must be 0 or 1", name, kind, value);
	return 0;
}

int optim_options_check(const struct optim_options *options, struct star_error *err)
{
	int result = 0;

	if (!optim_kind_name(options->kind))
		return star_error_set(err, -EINVAL, "there is no optimizer number %u: the optimizers are %s",
				      options->kind, optim_kind_names());
#define X(name, least, most, text) \
	if (!result) \
		result = check_number(options, OPTION(name), #name, options->name, idle_value(least, most), least, \
				      most, err);
	OPTIM_NUMBERS(X)
#undef X
#define X(name, text) \
	if (!result) \
		result = check_switch(options, OPTION(name), #name, options->name, err);
	OPTIM_SWITCHES(X)
#undef X
	if (result)
		return result;
	if (options->kind == OPTIM_ADAGRAD_DECAY && !(options->initial_accumulator > 0))
		return star_error_set(err, -EINVAL,
				      "initial_accumulator of optimizer adagrad_decay is 0: it must be above 0, since "
				      "nothing else keeps its divisor from 0");
	return 0;
}

const char *optim_kind_name(unsigned kind)
{
	switch (kind) {
#define X(NAME, number, text) \
	case number: \
		return text;
		OPTIM_KINDS(X)
#undef X
	}
	return NULL;
}

unsigned optim_kind_parse(const char *name)
{
#define X(NAME, number, text) \
	if (strcmp(name, text) == 0) \
		return number;
	OPTIM_KINDS(X)
#undef X
	return 0;
}

const char *optim_kind_names(void)
{
#define X(NAME, number, text) ", " text
	return &OPTIM_KINDS(X)[2];
#undef X
}
