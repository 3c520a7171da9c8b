/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executing a graph. graph_compile makes a plan: nodes that nothing needs are left out, the types of all values are
 * inferred from the greatest ones of the feeds, and memory is laid out in advance, by lifetimes. A run is the memory
 * for one step in flight; graph_run_step executes one step and allocates nothing. Feeds of a step may be smaller than
 * the greatest.
 *
 * A step is the work of kernels in this process and of calls to PS tasks, which go through struct graph_ps: with a cut,
 * one call for each of its PS parts; without one, one for each node that only PS tasks can do, in topological order
 * (the reference).
 *
 * Bits: the same for any number of threads. OpenBLAS is set to one thread, for the whole process, by the first plan:
 * what is big is divided here, by sizes alone.
 *
 * Threads: plans don't change once compiled, and are read by many. A run belongs to one thread at a time; runs of one
 * plan may be stepped at once in as many threads. The graph and the cut must outlive the plan unchanged, and the plan
 * its runs.
 */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include "graph/ps.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

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

/* NULL with err: -EINVAL (the graph has an error, a feed is missing, given twice or of another type, or nothing bounds
 * a size; the error names the node), -ENOMEM, or what ps->prepare failed with. cut may be NULL. */
struct graph_plan *graph_compile(const struct graph *graph, const struct graph_cut *cut,
				 const struct graph_plan_options *options, struct star_error *err);
void graph_plan_destroy(struct graph_plan *plan); /* NULL is allowed; not before its runs */

/* What a run takes, and what laying values out by lifetimes saved, in bytes. */
uint64_t graph_plan_bytes(const struct graph_plan *plan);
uint64_t graph_plan_bytes_apart(const struct graph_plan *plan);

/* NULL: -ENOMEM, with how much it takes. */
struct graph_run *graph_run_create(struct graph_plan *plan, struct star_error *err);
void graph_run_destroy(struct graph_run *run); /* NULL is allowed */

/*
 * One step. Feeds are in the order of the plan's options; they are read where they are. Fetches, one for each result
 * of the graph, are set to where the results are: in the run's memory (or a feed's, or the graph's) until its next
 * step. Both arrays have an element for each. After an error no fetch is valid, and the run is ready for another step.
 * -EINVAL: a feed or an index is out of its bounds; what a PS call failed with, otherwise.
 */
int graph_run_step(struct graph_run *run, uint64_t step, const struct graph_tensor *feeds, struct graph_tensor *fetches,
		   struct star_error *err);
/* The same with another number for what PS tasks count by (graph_ps_call.step) than the one that random words are drawn
 * by. */
int graph_run_counted(struct graph_run *run, uint64_t step, uint64_t counted, const struct graph_tensor *feeds,
		      struct graph_tensor *fetches, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
