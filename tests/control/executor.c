/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs of a thread of their own: each is done once for all that posted it before its turn. */
#include "control/executor.h"

#include <pthread.h>

#include "tests/control/cases.h"
#include "tests/unit.h"

struct counted {
	struct executor_job job;
	struct executor *executor;
	unsigned runs, cancels, agains; /* agains: how often it is still to post itself */
};

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void wait_at_gate(struct executor_job *job, bool cancelled)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
}

static void count(struct executor_job *job, bool cancelled)
{
	struct counted *c = (struct counted *)job;

	c->runs += !cancelled;
	c->cancels += cancelled;
	if (!c->agains)
		return;
	c->agains--;
	control_executor_post(c->executor, job, count);
}

/* The thread is held up meanwhile. A job that has begun is posted again, also by itself. */
void a_job_that_waits_is_not_posted_twice(void)
{
	struct star_error err = { 0 };
	struct executor *executor = control_executor_create("test-exec", &err);
	struct executor_job held = { 0 };
	struct counted one = { .executor = executor, .agains = 2 }, other = { .executor = executor };

	if (!CHECK(executor))
		return;
	pthread_mutex_lock(&gate);
	control_executor_post(executor, &held, wait_at_gate);
	/* Were the first one queued a second time, the one behind it would be lost. */
	control_executor_post(executor, &one.job, count);
	control_executor_post(executor, &other.job, count);
	control_executor_post(executor, &one.job, count);
	pthread_mutex_unlock(&gate);
	control_executor_destroy(executor);
	CHECK_UINT(one.runs + one.cancels, 3);
	CHECK_UINT(other.runs + other.cancels, 1);
}
