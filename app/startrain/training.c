/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/training.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/startrain/batch.h"
#include "app/startrain/model.h"

#define FIELD(name) offsetof(struct training, name)
const struct training_option training_options[TRAINING_OPTIONS] = {
	{ "seed", "of all random numbers", FIELD(seed), TRAINING_U64, 1, 0, 0x1p53 },
	{ "epochs", "passes over the text", FIELD(epochs), TRAINING_U32, 4, 1, 1000 },
	{ "dim", "elements of a word's vector", FIELD(dim), TRAINING_U32, 64, 1, MODEL_DIM_MAX },
	{ "batch", "pairs of words in a batch", FIELD(batch), TRAINING_U32, 2048, 2 * WINDOW_MAX, 65536 },
	{ "window", "words on each side of a center, at most", FIELD(window), TRAINING_U32, 5, 1, WINDOW_MAX },
	{ "negatives", "negative samples of a pair", FIELD(negatives), TRAINING_U32, 5, 1, NEGATIVES_MAX },
	{ "rate", "learning rate of Adagrad", FIELD(rate), TRAINING_FLOAT, 0.15, 1e-6, 10 },
	{ "accumulator", "first value of Adagrad's accumulators", FIELD(initial_accumulator), TRAINING_FLOAT, 1, 0,
	  1e6 },
	{ "subsampling", "frequency above which a word is subsampled", FIELD(subsampling), TRAINING_DOUBLE, 3e-4, 1e-9,
	  1 },
	{ "min-count", "rarer words are omitted", FIELD(min_count), TRAINING_U64, 5, 1, 1e9 },
};

const char *const training_texts[TRAINING_TEXTS] = {
	"/usr/share/wordnet/data.noun",
	"/usr/share/wordnet/data.verb",
	"/usr/share/wordnet/data.adj",
	"/usr/share/wordnet/data.adv",
};

static void set_field(struct training *t, const struct training_option *o, double value)
{
	void *field = (char *)t + o->offset;

	switch (o->type) {
	case TRAINING_U64:
		*(uint64_t *)field = (uint64_t)value;
		break;
	case TRAINING_U32:
		*(uint32_t *)field = (uint32_t)value;
		break;
	case TRAINING_FLOAT:
		*(float *)field = (float)value;
		break;
	case TRAINING_DOUBLE:
		*(double *)field = value;
		break;
	}
}

void training_default(struct training *t)
{
	memset(t, 0, sizeof(*t));
	for (int i = 0; i < TRAINING_OPTIONS; i++)
		set_field(t, &training_options[i], training_options[i].value);
}

static int parse_bounded(const char *name, const char *text, int whole, double low, double high, double *value,
			 struct star_error *err)
{
	char *end;

	errno = 0;
	*value = strtod(text, &end);
	if (errno == 0 && end != text && *end == 0 && !isspace((unsigned char)*text) && *value >= low &&
	    *value <= high && (!whole || *value == floor(*value)))
		return 0;
	return star_error_set(err, -EINVAL, "--%s %s: not a %snumber from %.16g to %.16g", name, text,
			      whole ? "whole " : "", low, high);
}

int training_parse_number(const char *name, const char *text, double low, double high, uint64_t *number,
			  struct star_error *err)
{
	double value;
	int rc = parse_bounded(name, text, 1, low, high, &value, err);

	if (rc == 0)
		*number = (uint64_t)value;
	return rc;
}

int training_parse_count(const char *name, const char *text, double low, double high, uint32_t *count,
			 struct star_error *err)
{
	uint64_t number = 0;
	const int rc = training_parse_number(name, text, low, high, &number, err);

	*count = (uint32_t)number;
	return rc;
}

int training_parse_seconds(const char *name, const char *text, uint64_t *us, struct star_error *err)
{
	uint64_t seconds = 0;
	const int rc = training_parse_number(name, text, 1, 3600, &seconds, err);

	*us = seconds * 1000000;
	return rc;
}

int training_set(struct training *t, const struct training_option *o, const char *text, struct star_error *err)
{
	double value;
	int rc = parse_bounded(o->name, text, o->type == TRAINING_U64 || o->type == TRAINING_U32, o->low, o->high,
			       &value, err);

	if (rc == 0)
		set_field(t, o, value);
	return rc;
}

void training_print_help(FILE *file)
{
	for (const struct training_option *o = training_options; o < training_options + TRAINING_OPTIONS; o++) {
		char option[32];

		snprintf(option, sizeof(option), "--%s N", o->name);
		fprintf(file, "  %-20s %s [%g]\n", option, o->help, o->value);
	}
}
