/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients against central differences, in float64: what both cost is a few steps of one plan. */
#ifndef TESTS_GRAPH_NUMERIC_H
#define TESTS_GRAPH_NUMERIC_H

#include "base/prng.h"
#include "graph/build.h"
#include "tests/graph/plain_ps.h"

enum { NUMERIC_FEEDS = 16 };

/* A graph and what it is fed with. */
struct numeric {
	struct graph *g;
	struct prng p;
	bool unknown; /* first sizes of feeds are not known before a step */
	uint32_t count;
	struct graph_plan_feed feeds[NUMERIC_FEEDS];
	struct graph_tensor tensors[NUMERIC_FEEDS];
	struct graph_value values[NUMERIC_FEEDS];
	struct plain_ps ps;
};

void numeric_init(struct numeric *n, uint64_t seed, bool unknown);
void numeric_fini(struct numeric *n);

/* A feed of these sizes, with random numbers in [least, most). */
struct graph_value numeric_feed(struct numeric *n, unsigned dtype, const int64_t *dims, size_t ndim, double least,
				double most);
/* Another name for what the model has made itself: the feed that has the name gets these sizes and numbers. */
void numeric_fill(struct numeric *n, const char *name, const int64_t *dims, size_t ndim, double least, double most);

/* That the loss's gradients are right, of all float64 feeds and all variables and tables. */
void numeric_check(struct numeric *n, const char *what, struct graph_value loss);

#endif
