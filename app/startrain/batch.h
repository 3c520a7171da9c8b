/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A batch of word2vec: pairs of a center and a context word, with negatives; and the rows of both tables that they
 * need, deduplicated, in order of first use. The pairs of one center share their negatives (Ji, Satish, Li, Dubey,
 * "Parallelizing Word2Vec in Shared and Distributed Memory", 2016): this needs fewer rows at no loss of quality. One
 * thread.
 */
#ifndef STARTRAIN_BATCH_H
#define STARTRAIN_BATCH_H

#include "app/startrain/sampler.h"

enum { WINDOW_MAX = 64, NEGATIVES_MAX = 64 };

/* Rows of one table that a batch needs. */
struct row_set {
	uint64_t *keys; /* word ids: the keys to pull and push */
	uint32_t count;
	uint32_t *place; /* by word: its index in keys, if seen[word] is the current batch */
	uint32_t *seen;
	uint32_t batch;
};

/* A center's part of a batch. Rows are given by index in a set. */
struct group {
	uint32_t center;	/* in the set `in` */
	uint32_t first_context; /* in batch.contexts */
	uint32_t contexts;
	uint32_t first_negative; /* in batch.negatives_drawn */
	uint32_t negatives;
};

struct batch {
	struct row_set in, out;
	struct group *groups;
	uint32_t groups_count;
	uint32_t *contexts; /* for each pair: its index in the set `out` */
	uint32_t pairs;
	uint32_t *negatives_drawn; /* likewise */
	uint32_t negatives_count;
	uint32_t pairs_max;
	uint32_t negatives; /* drawn for each center */
};

/* 0 or a negative errno. */
int batch_init(struct batch *b, uint32_t vocabulary_size, uint32_t pairs, uint32_t negatives, struct star_error *err);
void batch_fini(struct batch *b);

/* Fills the batch with whole centers while there is room for another one. Returns the number of pairs, 0 at the end. */
uint32_t batch_fill(struct batch *b, struct stream *stream);

/* Upper bound of the rows of one table that a batch needs. */
uint32_t batch_rows_max(const struct batch *b);

#endif
