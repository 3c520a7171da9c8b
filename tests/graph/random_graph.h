/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs at random, with feeds for them; and an interpreter that has memory of its own for each value. */
#ifndef TESTS_GRAPH_RANDOM_GRAPH_H
#define TESTS_GRAPH_RANDOM_GRAPH_H

#include "base/prng.h"
#include "exec/exec.h"

enum { RANDOM_FEEDS = 3, RANDOM_RESULTS = 12 };

struct random_graph_options {
	uint32_t nodes;
	int64_t batch;	   /* greatest size of the feeds */
	uint32_t ps_tasks; /* 0: no PS nodes */
	bool loops;
};

struct random_graph {
	struct graph *graph;
	struct graph_plan_feed feeds[RANDOM_FEEDS]; /* x [batch, 8], ids [batch], segments [batch] */
	float *x;
	int64_t *ids;
	int32_t *segments;
};

void random_graph_make(struct random_graph *random, uint64_t seed, const struct random_graph_options *options);
void random_graph_free(struct random_graph *random);
/* The feeds of a step, with this many of the batch. */
void random_graph_feed(const struct random_graph *random, int64_t n, struct graph_tensor feeds[RANDOM_FEEDS]);

/* Executes node after node, a graph without loops or PS nodes; results are the caller's to free. */
int interpret(const struct graph *graph, const struct graph_tensor *feeds, struct graph_tensor *results,
	      struct star_error *err);

#endif
