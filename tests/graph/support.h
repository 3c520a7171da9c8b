/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of plans and runs share. */
#ifndef TESTS_GRAPH_SUPPORT_H
#define TESTS_GRAPH_SUPPORT_H

#include "exec/exec.h"

/* A plan and one run of it. */
struct stepper {
	struct graph_plan *plan;
	struct graph_run *run;
	struct star_error err; /* of the last call */
};

/* False: the error says why. */
bool stepper_begin(struct stepper *s, const struct graph *graph, const struct graph_cut *cut,
		   const struct graph_plan_options *options);
void stepper_end(struct stepper *s);

/* Calls of malloc and its kind so far, of the whole process; 0 for ever under a sanitizer, which has its own. */
uint64_t allocations(void);

#endif
