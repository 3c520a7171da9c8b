/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a step asks of PS tasks: the values of a step, and the calls by which the executor (exec/exec.h) has PS tasks do
 * their parts of a cut. A training session implements them over libstar, a local store in this process, and tests as
 * they need.
 *
 * Threads: calls come from the thread that steps the run.
 */
#ifndef GRAPH_PS_H
#define GRAPH_PS_H

#include "graph/parts.h"

#pragma GCC visibility push(default) /* of libstartrain.so */

/* A value in a step: all sizes known; row-major, aligned for its elements. */
struct graph_tensor {
	struct graph_type type;
	void *data;
};

/* What a plan asks of PS tasks; parts by number are those of graph_ps_plan.parts. */
struct graph_ps_plan {
	const struct graph *graph;   /* or a body of it */
	const struct graph_cut *cut; /* NULL: parts were made one for each node */
	const struct graph_part *parts;
	uint32_t parts_count;
	/* The greatest type of each value of the graph: node n's first is types[first[n]]. Sizes of feeds and fetches
	 * never exceed it. */
	const struct graph_type *types;
	const uint32_t *first;
	/* Where the cut keeps what these parts have been compiled to (offload/compile.h); NULL: nowhere. */
	struct compile_plan **compiled;
};

static inline const struct graph_type *graph_ps_type(const struct graph_ps_plan *plan, struct graph_value value)
{
	return &plan->types[plan->first[value.node] + value.output];
}

/* One call: a PS part of a step. All of it stays as it is from start to the end of wait. */
struct graph_ps_call {
	const struct graph_ps_plan *plan;
	void *prepared; /* by prepare */
	uint32_t part;	/* of plan->parts */
	uint32_t run;	/* which of the plan's runs this is, from 0: at most one call of a run and part is in flight */
	uint64_t step;	/* number of the step, as tables count */
	/* at once: nothing is done between start and wait, so nothing is lost if it is not sent before wait */
	bool waited_for;
	const struct graph_tensor *feeds; /* in the part's order */
	/* In the part's order, data to be written. Sizes that only an execution knows are the most there can be: wait
	 * sets what they are. */
	struct graph_tensor *fetches;
};

/* PS tasks, as a session, a local store or a test has them. Calls come from the thread that steps the run. */
struct graph_ps {
	void *ctx;
	/* Once for each plan and each of its bodies: what it needs exists or is made. *prepared is handed to each
	 * call. */
	int (*prepare)(void *ctx, const struct graph_ps_plan *plan, void **prepared, struct star_error *err);
	void (*release)(void *ctx, void *prepared);
	/* Does not wait. On success *token goes to wait, exactly once, also if the step fails in between. */
	int (*start)(void *ctx, const struct graph_ps_call *call, void **token, struct star_error *err);
	int (*wait)(void *ctx, const struct graph_ps_call *call, void *token, struct star_error *err);
};

#pragma GCC visibility pop

#endif
