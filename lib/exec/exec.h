/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes a graph. graph_compile makes a plan: nodes that nothing needs are omitted, the types of all values are
 * inferred from the largest ones of the feeds, and memory is laid out in advance by lifetimes. A run is the memory for
 * one step in flight; graph_run_step executes one step and allocates nothing. Feeds of a step may be smaller than the
 * largest ones.
 *
 * A step consists of kernels in this process and of calls to PS tasks through struct graph_ps: with a cut, one call for
 * each of its PS parts; without one, one for each node that only PS tasks can execute, in topological order (the
 * reference).
 *
 * Bits: the same for any number of threads. The first plan sets OpenBLAS to one thread for the whole process: large
 * operations are divided here, by sizes alone.
 *
 * Threads: plans do not change after compilation, and may be read by many. A run belongs to one thread at a time;
 * different runs of one plan may be executed in as many threads at the same time. The graph and the cut must outlive
 * the plan unchanged, and the plan its runs.
 */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include "graph/ps.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

/* A feed and its largest type: sizes of a step are at most these. */
struct graph_plan_feed {
	const char *name;
	struct graph_type type;
};

struct graph_plan_options {
	const struct graph_plan_feed *feeds;
	uint32_t feeds_count;
	const struct graph_ps *ps;   /* NULL: the graph has no PS nodes; must outlive the plan */
	uint32_t intra_op, inter_op; /* threads of a kernel, kernels at the same time; 0: 1 */
	uint64_t seed;		     /* for random numbers */
};

struct graph_plan;
struct graph_run;

/* NULL with err: -EINVAL (the graph has an error, a feed is missing, given twice or of another type, or a size has no
 * bound; the error names the node), -ENOMEM, or the error of ps->prepare. cut may be NULL. */
struct graph_plan *graph_compile(const struct graph *graph, const struct graph_cut *cut,
				 const struct graph_plan_options *options, struct star_error *err);
void graph_plan_destroy(struct graph_plan *plan); /* NULL is allowed; destroy its runs first */

/* Bytes of a run, and what they would be if values did not share memory by lifetimes. */
uint64_t graph_plan_bytes(const struct graph_plan *plan);
uint64_t graph_plan_bytes_apart(const struct graph_plan *plan);

/* NULL: -ENOMEM, with the size in err. */
struct graph_run *graph_run_create(struct graph_plan *plan, struct star_error *err);
void graph_run_destroy(struct graph_run *run); /* NULL is allowed */

/*
 * Executes one step. Feeds are in the order of the plan's options, and are read in place. Fetches, one for each result
 * of the graph, are set to point to the results, in the run's memory (or a feed's, or the graph's); these are valid
 * until the run's next step. After an error no fetch is valid, and the run is ready for another step. 0; -EINVAL: a
 * feed or an index is out of bounds; or the error of a PS call.
 */
int graph_run_step(struct graph_run *run, uint64_t step, const struct graph_tensor *feeds, struct graph_tensor *fetches,
		   struct star_error *err);
/* The same, with a number of its own for what PS tasks count by (graph_ps_call.step); `step` is for random numbers. */
int graph_run_counted(struct graph_run *run, uint64_t step, uint64_t counted, const struct graph_tensor *feeds,
		      struct graph_tensor *fetches, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
