/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executing a graph. graph_compile makes a plan: nodes that nothing needs are left out, the types of all values are inferred from
 * the greatest ones of the feeds, and memory is laid out in advance, by lifetimes. A run is the memory for one step in flight;
 * graph_run_step executes one step and allocates nothing. Feeds of a step may be smaller than the greatest.
 *
 * A step is the work of kernels in this process and of calls to PS tasks, which go through struct graph_ps: with a cut, one call
 * for each of its PS parts; without one, one for each node that only PS tasks can do, in topological order (the reference).
 *
 * Bits: the same for any number of threads. OpenBLAS is set to one thread, for the whole process, by the first plan: what is big is
 * divided here, by sizes alone.
 *
 * Threads: plans don't change once compiled, and are read by many. A run belongs to one thread at a time; runs of one plan may be
 * stepped at once in as many threads. The graph and the cut must outlive the plan unchanged, and the plan its runs.
 */
#ifndef GRAPH_EXEC_H
#define GRAPH_EXEC_H

#include "graph/cut.h"
#include "graph/graph.h"

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
	/* The greatest type of each value of the graph: node n's first is types[first[n]]. Sizes of feeds and fetches never exceed it. */
	const struct graph_type *types;
	const uint32_t *first;
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
	uint64_t step;	/* number of the step */
	bool waited_for; /* at once: nothing is done between start and wait, so nothing is lost if it is not sent before wait */
	const struct graph_tensor *feeds; /* in the part's order */
	/* In the part's order, data to be written. Sizes that only an execution knows are the most there can be: wait sets what they are. */
	struct graph_tensor *fetches;
};

/* PS tasks, as a session, a local store or a test has them. Calls come from the thread that steps the run. */
struct graph_ps {
	void *ctx;
	/* Once for each plan and each of its bodies: what it needs exists or is made. *prepared is handed to each call. */
	int (*prepare)(void *ctx, const struct graph_ps_plan *plan, void **prepared, struct star_error *err);
	void (*release)(void *ctx, void *prepared);
	/* Does not wait. On success *token goes to wait, exactly once, also if the step fails in between. */
	int (*start)(void *ctx, const struct graph_ps_call *call, void **token, struct star_error *err);
	int (*wait)(void *ctx, const struct graph_ps_call *call, void *token, struct star_error *err);
};

/* A feed and its greatest type: sizes of a step are at most these. */
struct graph_plan_feed {
	const char *name;
	struct graph_type type;
};

struct graph_plan_options {
	const struct graph_plan_feed *feeds;
	uint32_t feeds_count;
	const struct graph_ps *ps;   /* NULL: a graph without PS nodes; it must outlive the plan */
	uint32_t intra_op, inter_op; /* threads in a kernel, kernels at once; 0: 1 */
	uint64_t seed;		     /* of random numbers */
};

struct graph_plan;
struct graph_run;

/* NULL: the error names the node. */
struct graph_plan *graph_compile(const struct graph *graph, const struct graph_cut *cut,
				 const struct graph_plan_options *options, struct star_error *err);
void graph_plan_destroy(struct graph_plan *plan);

/* What a run takes, and what laying values out by lifetimes saved, in bytes. */
uint64_t graph_plan_bytes(const struct graph_plan *plan);
uint64_t graph_plan_bytes_apart(const struct graph_plan *plan);

struct graph_run *graph_run_create(struct graph_plan *plan, struct star_error *err);
void graph_run_destroy(struct graph_run *run);

/*
 * One step. Feeds are in the order of the plan's options; they are read where they are. Fetches, one for each result of the graph,
 * are set to where the results are: in the run's memory (or a feed's, or the graph's) until its next step. After an error no
 * fetch is valid, and the run is ready for another step. -EINVAL: a feed or an index is out of its bounds; what a PS call
 * failed with, otherwise.
 */
int graph_run_step(struct graph_run *run, uint64_t step, const struct graph_tensor *feeds, struct graph_tensor *fetches,
		   struct star_error *err);

#pragma GCC visibility pop

#endif
