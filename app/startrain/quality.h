/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Quality of the trained vectors: the loss on held-out text, and the nearest neighbors of some words. It reads
 * parameters through a struct reader, so they may be anywhere, and changes none. One thread.
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
	/* Copies the rows of `count` keys, [count, dim], in their order; creates none. 0 or a negative errno. */
	int (*read)(void *ctx, enum side side, const uint64_t *keys, uint32_t count, float *rows,
		    struct star_error *err);
	void *ctx;
};

/* Computes the mean loss per pair on the held-out sentences. Pairs and negatives are the same in every call, for any
 * seed. 0 or a negative errno. */
int quality_held_out(const struct reader *reader, const struct training *t, const struct corpus *corpus,
		     const struct sampler *sampler, double *loss, struct star_error *err);

/* Returns all rows of one side by word id, [words, dim], to be freed; NULL with err. */
float *quality_read_all(const struct reader *reader, enum side side, uint32_t words, uint32_t dim,
			struct star_error *err);

enum { NEIGHBOURS_MAX = 32 };

/* Finds the `count` most similar words by cosine, most similar first. rows: from quality_read_all, of WORDS_IN. Returns
 * their number. */
uint32_t quality_neighbours(const struct vocabulary *v, const float *rows, uint32_t dim, uint32_t word, uint32_t count,
			    uint32_t *nearest);

/* Prints the `count` nearest neighbors of each of a dozen words: one line each, or a JSON object. */
void quality_print_neighbours(FILE *file, const struct vocabulary *v, const float *rows, uint32_t dim, uint32_t count,
			      bool json);

#endif
