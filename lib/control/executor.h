/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread that runs jobs one after the other, so that what takes long keeps nobody else waiting. */
#ifndef CONTROL_EXECUTOR_H
#define CONTROL_EXECUTOR_H

#include <stdbool.h>

#include "star_error.h"

/* Embedded in what is to be done, all zeroes before it is posted first. The executor's alone. */
struct executor_job {
	struct executor_job *next;
	void (*run)(struct executor_job *job, bool cancelled); /* NULL: it waits for no turn */
};

struct executor;

/* name: the thread's, at most 15 bytes. The thread blocks all signals. */
struct executor *control_executor_create(const char *name, struct star_error *err);

/* From any thread. run owns the job from its begin on: it may free it, and whoever posts it again then has it run
 * again. A job that waits for its turn already is as good as posted. cancelled: the executor stops, do nothing but
 * clean up. Who posts bounds how many jobs there are. */
void control_executor_post(struct executor *executor, struct executor_job *job,
			   void (*run)(struct executor_job *job, bool cancelled));

/* Waits for the job that runs, cancels the others. executor may be NULL. */
void control_executor_destroy(struct executor *executor);

#endif
