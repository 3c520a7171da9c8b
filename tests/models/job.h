/* SPDX-License-Identifier: BSD-3-Clause */
/* Models of the zoo with batches of made-up examples, as golden.py has them: small ones, the same in each run. */
#ifndef TESTS_MODELS_JOB_H
#define TESTS_MODELS_JOB_H

#include "app/startrain/zoo/zoo.h"
#include "exec/exec.h"

/* As in golden.py. */
enum {
	BATCH = 16,
	DIM = 4,
	SEED = 7,
	DENSE = 3,
	FIELDS = 4,
	IDS = 20,
	HISTORY = 5,
	WINDOW = 6,
	CLASSES = 30,
	NEGATIVES = 3
};

struct batch {
	float labels[BATCH], second_labels[BATCH], dense[BATCH][DENSE], near[BATCH][NEGATIVES + 1];
	float history_labels[BATCH];
	int64_t history_ids[BATCH][3], items[BATCH * HISTORY], categories[BATCH * HISTORY], others[BATCH * HISTORY];
	int64_t first[BATCH], lengths[BATCH], clicks;
	int32_t segments[BATCH * HISTORY];
	int64_t ids[BATCH][FIELDS], words[BATCH][WINDOW + 1], centers[BATCH], targets[BATCH][NEGATIVES + 1];
};

enum { FEEDS = 8, CLICKS_FEEDS = 4 };

/* A model's graph, and the batch's parts that it is fed with. */
struct job {
	struct zoo_options options;
	struct graph *graph;
	struct batch batch;
	struct graph_plan_feed feeds[FEEDS];
	struct graph_tensor tensors[FEEDS];
	uint32_t feeds_count;
	bool open;
	uint32_t clicks_feed; /* the first of the CLICKS_FEEDS that have a row for each click; FEEDS: there are none */
};

/* A graph that trains: options has its model, optimizers and rates; the rest is golden.py's. Its only result is its
 * loss. open: batches may be of any size. */
void job_build(struct job *j, const struct zoo_options *options, bool open);

/* The batch of a step. full: each row has HISTORY clicks. */
void job_fill(struct job *j, uint64_t step, bool full);

#endif
