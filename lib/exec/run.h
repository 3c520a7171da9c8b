/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a run, for run.c and run_flow.c. Private to lib/exec. A run belongs to one thread at a time. */
#ifndef EXEC_RUN_H
#define EXEC_RUN_H

#include "exec/kernel.h"
#include "exec/plan.h"

struct graph_run {
	struct graph_plan *plan;
	uint32_t id;		      /* its number among the plan's runs */
	uint8_t *arena;		      /* a body's is part of the outer run's */
	struct graph_tensor *values;  /* of this step */
	uint64_t *changed;	      /* for each value the stamp of the step in which its type last changed */
	uint64_t stamp;		      /* incremented by each step, in a body by each iteration */
	bool fresh;		      /* all types must be inferred again: there was no step yet, or it failed */
	uint64_t step, counted;	      /* step number for random numbers; step number for PS tasks */
	struct graph_tensor *tensors; /* feeds and fetches of calls */
	struct graph_ps_call *calls;
	void **tokens;
	bool *started;			    /* started, and not waited for yet */
	struct graph_run **bodies, **conds; /* of each flow */
	struct team *team, *crew;	    /* threads within a kernel; threads for kernels in parallel */
	struct star_error *errors;	    /* of a level's items */
	const struct plan_level *level;	    /* the level being executed in parallel */
	bool is_inner;
	struct run_memory *memory;
};

/* Executes one step with the run's current feeds. */
int exec_run_execute(struct graph_run *run, uint64_t step, uint64_t counted, struct star_error *err);

/* Sets a feed's type and data, by its index among the plan's feeds. */
void exec_run_set_feed(struct graph_run *run, uint32_t feed, const struct graph_type *type, void *data);

/* Sets the type of a value in this step, and notes whether it has changed. */
void exec_run_set_type(struct graph_run *run, uint32_t value, const struct graph_type *type);

/* Infers the types of all values without executing anything: for a body that is not executed. */
int exec_run_types(struct graph_run *run, struct star_error *err);

static inline const struct graph_tensor *run_result(const struct graph_run *run, uint32_t result)
{
	return &run->values[plan_number(run->plan, run->plan->graph->results[result])];
}

/* run_flow.c: a while or cond. */
int exec_run_flow(struct graph_run *run, const struct plan_item *item, struct star_error *err);
int exec_run_flow_types(struct graph_run *run, uint32_t flow, struct star_error *err);

#endif
