/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/executor.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "jsonrpc/thread.h"

struct executor {
	pthread_t thread;
	pthread_mutex_t lock; /* protects all that follows */
	pthread_cond_t posted;
	struct executor_job *first, **last;
	bool stopping;
};

static void *executor_loop(void *arg)
{
	struct executor *executor = arg;

	pthread_mutex_lock(&executor->lock);
	for (;;) {
		struct executor_job *job = executor->first;
		const bool stopping = executor->stopping;

		if (job) {
			void (*run)(struct executor_job * job, bool cancelled) = job->run;

			executor->first = job->next;
			if (!executor->first)
				executor->last = &executor->first;
			job->run = NULL;
			pthread_mutex_unlock(&executor->lock);
			run(job, stopping);
			pthread_mutex_lock(&executor->lock);
		} else if (stopping) {
			break;
		} else {
			pthread_cond_wait(&executor->posted, &executor->lock);
		}
	}
	pthread_mutex_unlock(&executor->lock);
	return NULL;
}

struct executor *control_executor_create(const char *name, struct star_error *err)
{
	struct executor *executor = calloc(1, sizeof(*executor));

	if (!executor) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&executor->lock, NULL);
	pthread_cond_init(&executor->posted, NULL);
	executor->last = &executor->first;
	if (jsonrpc_thread_start(&executor->thread, name, executor_loop, executor, err) < 0) {
		pthread_cond_destroy(&executor->posted);
		pthread_mutex_destroy(&executor->lock);
		free(executor);
		return NULL;
	}
	return executor;
}

void control_executor_post(struct executor *executor, struct executor_job *job,
			   void (*run)(struct executor_job *job, bool cancelled))
{
	pthread_mutex_lock(&executor->lock);
	if (!job->run) {
		job->run = run;
		job->next = NULL;
		*executor->last = job;
		executor->last = &job->next;
		pthread_cond_signal(&executor->posted);
	}
	pthread_mutex_unlock(&executor->lock);
}

void control_executor_destroy(struct executor *executor)
{
	if (!executor)
		return;
	pthread_mutex_lock(&executor->lock);
	executor->stopping = true;
	pthread_cond_signal(&executor->posted);
	pthread_mutex_unlock(&executor->lock);
	pthread_join(executor->thread, NULL);
	pthread_cond_destroy(&executor->posted);
	pthread_mutex_destroy(&executor->lock);
	free(executor);
}
