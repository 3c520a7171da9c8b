/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of an optimizer, which are part of a table's definition (wire/object.h). Pure data and pure functions. */
#ifndef OPTIM_OPTIONS_H
#define OPTIM_OPTIONS_H

#include <stdint.h>

#include "star_error.h"

/* The numbers are part of the protocol. X(NAME, number, "name") */
#define OPTIM_KINDS(X) \
	X(SGD, 1, "sgd") \
	X(ADAGRAD, 2, "adagrad") \
	X(MOMENTUM, 3, "momentum") \
	X(NESTEROV, 4, "nesterov") \
	X(ADAGRAD_DECAY, 5, "adagrad_decay") \
	X(RMSPROP, 6, "rmsprop") \
	X(ADADELTA, 7, "adadelta") \
	X(ADAM, 8, "adam") \
	X(AMSGRAD, 9, "amsgrad") \
	X(ADAMW, 10, "adamw") \
	X(ADAM_ASYNC, 11, "adam_async") \
	X(FTRL, 12, "ftrl") \
	X(LAMB, 13, "lamb") \
	X(NONE, 14, "none") /* stores values, accepts no gradients: the only one for integer types */

enum optim_kind {
#define X(NAME, number, name) OPTIM_##NAME = number,
	OPTIM_KINDS(X)
#undef X
};

/* X(name, least, most, text): float32 each; their defaults are the kind's (optim_defaults). */
#define OPTIM_NUMBERS(X) \
	X(rate, 0, 1e30, "learning rate") \
	X(epsilon, 0, 1e30, "prevents division by zero; see the formulas for its position") \
	X(initial_accumulator, 0, 1e30, "first value of a sum or mean of squares") \
	X(momentum, 0, 1, "share of the previous update that is added") \
	X(beta1, 0, 0x1.fffffep-1, "decay of the mean of gradients; below 1") \
	X(beta2, 0, 0x1.fffffep-1, "decay of the mean of squared gradients; below 1") \
	X(rho, 0, 1, "decay of the mean of squared gradients (rmsprop, adadelta)") \
	X(l1, 0, 1e30, "L1 regularization") \
	X(l2, 0, 1e30, "L2 regularization: added to the gradient; ftrl applies both in its own way") \
	X(l2_shrinkage, 0, 1e30, "ftrl: L2 of the magnitude only") \
	X(weight_decay, 0, 1e30, "decoupled weight decay (adamw, lamb)") \
	X(power, -1, 0, "ftrl: power of the accumulator by which the rate decreases") \
	X(decay_rate, 0, 1, "adagrad_decay: factor on the accumulator") \
	X(decay_steps, 1, 1e30, "adagrad_decay: training steps between decays") \
	X(clip_value, 0, 1e30, "each element of a gradient is clipped to [-x, x]; 0: not") \
	X(clip_norm, 0, 1e30, "a row's gradient is scaled down to this L2 norm; 0: not") \
	X(trust_max, 0, 1e30, "lamb: maximum of the trust ratio; 0: none")

/* X(name, text): switches. */
#define OPTIM_SWITCHES(X) \
	X(centered, "rmsprop: divides by the variance instead of the mean square") \
	X(count_per_table, \
	  "bias correction counts the steps of the table, as TensorFlow does, not the updates of the row") \
	X(sparse_rmsprop, "adam_async: apply_sparse_rmsprop of DeepRec")

struct optim_options {
	uint8_t kind; /* enum optim_kind */
#define X(name, text) uint8_t name;
	OPTIM_SWITCHES(X)
#undef X
#define X(name, least, most, text) float name;
	OPTIM_NUMBERS(X)
#undef X
};

/* The defaults of a kind, all numbers and switches; -EINVAL for an unknown kind. */
int optim_defaults(struct optim_options *options, unsigned kind);

/* Whether a kind uses the option with that name. */
int optim_uses(unsigned kind, const char *name);

/* Checks bounds and finiteness, and that options which the kind does not use have their defaults. 0, or -EINVAL with
 * err, which names the option, its value and the optimizer. */
int optim_options_check(const struct optim_options *options, struct star_error *err);

const char *optim_kind_name(unsigned kind);  /* NULL for an unknown one */
unsigned optim_kind_parse(const char *name); /* 0 for an unknown one */
const char *optim_kind_names(void);	     /* "sgd, adagrad, ..." for messages */

#endif
