/* SPDX-License-Identifier: BSD-3-Clause */
/* What a training run is, apart from where its parameters live; one table yields names, defaults, bounds and help. */
#ifndef STARTRAIN_TRAINING_H
#define STARTRAIN_TRAINING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "star_error.h"

struct training {
	uint64_t seed;
	uint64_t min_count; /* rarer words are left out */
	uint32_t epochs;
	uint32_t dim;
	uint32_t batch; /* pairs */
	uint32_t window;
	uint32_t negatives;
	float rate;		   /* of Adagrad */
	float initial_accumulator; /* of Adagrad: keeps the first steps of a row small */
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

/* WordNet's files, where Debian's wordnet-base puts them: the text when none is named. */
enum { TRAINING_TEXTS = 4 };
extern const char *const training_texts[TRAINING_TEXTS];

void training_default(struct training *t);

/* Sets one option from text. 0, or -EINVAL with the allowed range. */
int training_set(struct training *t, const struct training_option *option, const char *text, struct star_error *err);

/* Whole numbers in text, for other options: 0, or -EINVAL with the allowed range. */
int training_parse_number(const char *name, const char *text, double low, double high, uint64_t *number,
			  struct star_error *err);
int training_parse_count(const char *name, const char *text, double low, double high, uint32_t *count,
			 struct star_error *err);
int training_parse_seconds(const char *name, const char *text, uint64_t *us, struct star_error *err); /* 1 s to 1 h */

/* One line an option. */
void training_print_help(FILE *file);

#endif
