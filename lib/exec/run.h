/* SPDX-License-Identifier: BSD-3-Clause */
/* A run, as run.c and run_flow.c share it. Private to lib/graph. */
#ifndef EXEC_RUN_H
#define EXEC_RUN_H

#include "exec/kernel.h"
#include "exec/plan.h"

struct graph_run {
	struct graph_plan *plan;
	uint32_t id;		      /* among the plan's runs */
	uint8_t *arena;		      /* a body's lies in that of its outer run */
	struct graph_tensor *values;  /* of this step */
	uint64_t *changed;	      /* of each value: the stamp of the step in which its type changed */
	uint64_t stamp;		      /* grows with each step, in a body with each iteration */
	bool fresh;		      /* types are to be inferred from scratch: there was no step, or it failed */
	uint64_t step, counted;	      /* numbers of the step: for random words, and for PS tasks */
	struct graph_tensor *tensors; /* feeds and fetches of calls */
	struct graph_ps_call *calls;
	void **tokens;
	bool *started;			    /* and not waited for */
	struct graph_run **bodies, **conds; /* of each flow */
	struct team *team, *crew;	    /* in a kernel; for kernels at once */
	struct star_error *errors;	    /* of a level's items */
	const struct plan_level *level;	    /* that is executed at once */
	bool is_inner;
	struct run_memory *memory;
};

/* One step of what the run's feeds are set to. */
int exec_run_execute(struct graph_run *run, uint64_t step, uint64_t counted, struct star_error *err);

/* A feed's type and data, by its place among the plan's feeds. */
void exec_run_set_feed(struct graph_run *run, uint32_t feed, const struct graph_type *type, void *data);

/* The type of a value in this step; notes whether it is another than before. */
void exec_run_set_type(struct graph_run *run, uint32_t value, const struct graph_type *type);

/* Types of all values, without executing anything: of a body that is not executed. */
int exec_run_types(struct graph_run *run, struct star_error *err);

static inline const struct graph_tensor *run_result(const struct graph_run *run, uint32_t result)
{
	return &run->values[plan_number(run->plan, run->plan->graph->results[result])];
}

/* run_flow.c: a while or cond. */
int exec_run_flow(struct graph_run *run, const struct plan_item *item, struct star_error *err);
int exec_run_flow_types(struct graph_run *run, uint32_t flow, struct star_error *err);

#endif
