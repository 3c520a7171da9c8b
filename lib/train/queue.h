/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's work queue: PS task 0 assigns slices of the job's files to whichever worker asks, and a reader of
 * input/input.h gets them from here (star.h has the queue itself). When PS tasks are away it waits for them, as a
 * session does.
 *
 * Threads: the reader's, and that of its program.
 */
#ifndef TRAIN_QUEUE_H
#define TRAIN_QUEUE_H

#include "input/input.h"
#include "star_error.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

struct train_queue;

/* Zero means the default in brackets. All but the times must be the same for all workers. */
struct train_queue_options {
	const char *name;
	const char *const *paths;
	uint32_t paths_count;
	uint32_t epochs;      /* [1] */
	uint64_t slice_bytes; /* as for input_plan_make */
	uint64_t seed;	      /* for the order of slices [that of the files] */
	uint64_t lease_us;    /* of a worker that is not heard from [10 s] */
	uint64_t deadline_us; /* of each request [30 s] */
	uint64_t recovery_us; /* how long to wait for PS tasks that are away [300 s] */
};

/* ps: as for star_open. NULL with err: as star_open, star_queue_open and input_plan_make. */
struct train_queue *train_queue_open(const char *ps, const struct train_queue_options *options, struct star_error *err);

/* For input_options.slices; valid until it is closed. */
const struct input_slices *train_queue_slices(const struct train_queue *queue);

/* Slices that were assigned to other workers because this one was not heard from for a lease, or PS task 0 was
 * restarted. */
uint64_t train_queue_lost(const struct train_queue *queue);

/* Close the reader first. Slices that are not done go to other workers at once. 0, or the error of reporting that. NULL
 * is allowed. */
int train_queue_close(struct train_queue *queue, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
