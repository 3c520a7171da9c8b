/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How good the vectors are: the loss on text that was held out, and the nearest neighbours of some words. Reads
 * parameters through a struct reader, so that it does not matter where they live, and changes none.
 */
#ifndef STARTRAIN_QUALITY_H
#define STARTRAIN_QUALITY_H

#include <stdbool.h>
#include <stdio.h>

#include "app/startrain/corpus.h"
#include "app/startrain/sampler.h"
#include "app/startrain/training.h"

enum side { WORDS_IN, WORDS_OUT, SIDES };

struct reader {
	/* Copies the rows of count keys, in their order; creates none. 0 or a negative errno. */
	int (*read)(void *ctx, enum side side, const uint64_t *keys, uint32_t count, float *rows,
		    struct star_error *err);
	void *ctx;
};

/* The mean loss of a pair on held-out sentences; pairs and negatives are the same at each call, whatever the seed. */
int quality_held_out(const struct reader *reader, const struct training *t, const struct corpus *corpus,
		     const struct sampler *sampler, double *loss, struct star_error *err);

/* All rows of one side by word id, to be freed; NULL with err. */
float *quality_read_all(const struct reader *reader, enum side side, uint32_t words, uint32_t dim,
			struct star_error *err);

enum { NEIGHBOURS_MAX = 32 };

/* The most similar words by the cosine of words-in, best first; returns their number. rows as by quality_read_all. */
uint32_t quality_neighbours(const struct vocabulary *v, const float *rows, uint32_t dim, uint32_t word, uint32_t count,
			    uint32_t *nearest);

/* Prints the neighbours of a dozen words: a line each, or a JSON object. */
void quality_print_neighbours(FILE *file, const struct vocabulary *v, const float *rows, uint32_t dim, uint32_t count,
			      bool json);

#endif
