/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A batch: pairs of a centre and a context word, with negatives, and the rows of both tables that they need, each once,
 * in the order in which they are met first. The pairs of one centre share their negatives (Ji, Satish, Li, Dubey,
 * "Parallelizing Word2Vec in Shared and Distributed Memory", 2016): that needs fewer rows, and it does not hurt.
 */
#ifndef STARTRAIN_BATCH_H
#define STARTRAIN_BATCH_H

#include "app/startrain/sampler.h"

enum { WINDOW_MAX = 64, NEGATIVES_MAX = 64 };

/* Rows of one table that a batch needs. */
struct row_set {
	uint64_t *keys; /* word ids, as the PS wants them */
	uint32_t count;
	uint32_t *place; /* by word: where in keys, when seen[word] is the current batch */
	uint32_t *seen;
	uint32_t batch;
};

/* A centre's part of a batch: rows are places in the sets. */
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
	uint32_t *contexts; /* one a pair: places in the set `out` */
	uint32_t pairs;
	uint32_t *negatives_drawn; /* likewise */
	uint32_t negatives_count;
	uint32_t pairs_max;
	uint32_t negatives; /* drawn for each centre */
};

int batch_init(struct batch *b, uint32_t vocabulary_size, uint32_t pairs, uint32_t negatives, struct star_error *err);
void batch_fini(struct batch *b);

/* Fills the batch with whole centres while there is room for another one; returns the number of pairs, 0 at the end. */
uint32_t batch_fill(struct batch *b, struct stream *stream);

/* The most rows of one table that a batch can need. */
uint32_t batch_rows_max(const struct batch *b);

#endif
