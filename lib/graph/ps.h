/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface between a step and PS tasks: the values of a step, and the calls by which the executor (exec/exec.h)
 * has PS tasks execute their parts of a cut. A training session implements them with libstar, a local store in this
 * process, and tests as they need.
 *
 * Threads: all calls come from the thread that executes the step.
 */
#ifndef GRAPH_PS_H
#define GRAPH_PS_H

#include "graph/parts.h"

#pragma GCC visibility push(default) /* of libstartrain.so */

/* A value in a step: all sizes are known; row-major, aligned for its elements. */
struct graph_tensor {
	struct graph_type type;
	void *data;
};

/* The parts of a plan that PS tasks execute. Part numbers are indices into `parts`. */
struct graph_ps_plan {
	const struct graph *graph;   /* or a body of it */
	const struct graph_cut *cut; /* NULL: there is one part for each node */
	const struct graph_part *parts;
	uint32_t parts_count;
	/* The largest type of each value of the graph: that of node n's first output is types[first[n]]. Sizes of feeds
	 * and fetches never exceed it. */
	const struct graph_type *types;
	const uint32_t *first;
	/* Where the cut stores these parts in compiled form (offload/compile.h); NULL: nowhere. */
	struct compile_plan **compiled;
};

static inline const struct graph_type *graph_ps_type(const struct graph_ps_plan *plan, struct graph_value value)
{
	return &plan->types[plan->first[value.node] + value.output];
}

/* One call: a PS part of a step. It does not change from start to the end of wait. */
struct graph_ps_call {
	const struct graph_ps_plan *plan;
	void *prepared; /* by prepare */
	uint32_t part;	/* of plan->parts */
	/* which of the plan's runs this is, from 0. A run has at most one call of each part in flight */
	uint32_t run;
	uint64_t step; /* number of the step by which tables count */
	/* wait follows start immediately: the request need not be sent before wait */
	bool waited_for;
	const struct graph_tensor *feeds; /* in the part's order */
	/* In the part's order; their data is written by the call. A size that is known only after the execution has its
	 * largest possible value first, and wait sets the actual one. */
	struct graph_tensor *fetches;
};

/* An implementation of PS tasks: of a session, a local store or a test. All calls come from the thread that executes
 * the step. */
struct graph_ps {
	void *ctx;
	/* Called once for each plan and each of its bodies: creates what it needs, unless it exists. *prepared is
	 * passed to each call. */
	int (*prepare)(void *ctx, const struct graph_ps_plan *plan, void **prepared, struct star_error *err);
	void (*release)(void *ctx, void *prepared);
	/* Does not wait. On success *token must be passed to wait, exactly once, even if the step fails in between. */
	int (*start)(void *ctx, const struct graph_ps_call *call, void **token, struct star_error *err);
	int (*wait)(void *ctx, const struct graph_ps_call *call, void *token, struct star_error *err);
};

#pragma GCC visibility pop

#endif
