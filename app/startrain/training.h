/* SPDX-License-Identifier: BSD-3-Clause */
/* Hyperparameters of word2vec; one table has their names, defaults, bounds and help. Plain data. */
#ifndef STARTRAIN_TRAINING_H
#define STARTRAIN_TRAINING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "star_error.h"

struct training {
	uint64_t seed;
	uint64_t min_count; /* words with fewer occurrences are left out */
	uint32_t epochs;
	uint32_t dim;
	uint32_t batch; /* pairs */
	uint32_t window;
	uint32_t negatives;
	float rate;		   /* of Adagrad */
	float initial_accumulator; /* of Adagrad: keeps a row's first steps small */
	double subsampling;	   /* the threshold t of sampler.h */
};

struct training_option {
	const char *name; /* as on the command line, without the dashes */
	const char *help;
	size_t offset; /* in struct training */
	enum { TRAINING_U64, TRAINING_U32, TRAINING_FLOAT, TRAINING_DOUBLE } type;
	double value; /* the default */
	double low, high;
};

enum { TRAINING_OPTIONS = 10 };
extern const struct training_option training_options[TRAINING_OPTIONS];

/* The default text: WordNet's files, where Debian's wordnet-base installs them. */
enum { TRAINING_TEXTS = 4 };
extern const char *const training_texts[TRAINING_TEXTS];

void training_default(struct training *t);

/* Sets one option from text. 0, or -EINVAL with the allowed range. */
int training_set(struct training *t, const struct training_option *option, const char *text, struct star_error *err);

/* Parse whole numbers of other options. 0, or -EINVAL with the allowed range. */
int training_parse_number(const char *name, const char *text, double low, double high, uint64_t *number,
			  struct star_error *err);
int training_parse_count(const char *name, const char *text, double low, double high, uint32_t *count,
			 struct star_error *err);
int training_parse_seconds(const char *name, const char *text, uint64_t *us, struct star_error *err); /* 1 s to 1 h */

/* Prints one line per option. */
void training_print_help(FILE *file);

#endif
