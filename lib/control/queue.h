/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work queues, after DeepRec's WorkQueue: the slices of a job's files, numbered through all epochs; each worker
 * gets the next one when it asks. A slice that was handed out has a lease; when that ends, because its worker is dead
 * or stands still, it is handed out again. So each is done at least once, and without failures exactly once.
 *
 * A worker says each time which slices it has, and which it has done. So a request may be sent twice, or be lost with
 * its answer: what the queue takes a worker to have, and the worker does not name, goes to another one.
 *
 * Pure: time is handed in. Threads: one at a time; PS task 0's are under its lock.
 */
#ifndef CONTROL_QUEUE_H
#define CONTROL_QUEUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "star_error.h"

enum control_queue_limits {
	QUEUES_MAX = 64,
	QUEUE_NAME_MAX = 64,
	QUEUE_TEXT_MAX = 255,
	QUEUE_HELD_MAX = 1024,	/* slices that a worker has at once */
	QUEUE_LEFT_MAX = 65536, /* slices that were handed out, and are not done */
	QUEUE_SLICES_MAX = 1 << 24,
	QUEUE_EPOCHS_MAX = 1000000,
	QUEUE_LEASE_MIN_MS = 200,
	QUEUE_LEASE_MAX_MS = 3600000,
};

struct control_queue;

struct control_queues {
	struct control_queue *of[QUEUES_MAX];
	unsigned count;
};
void control_queues_fini(struct control_queues *queues);

/* What all workers of a queue must say alike: what the slices are, in a number and, for people, in words. */
struct control_queue_spec {
	const char *name, *text;
	uint64_t digest;
	uint64_t slices; /* of an epoch */
	uint32_t epochs, lease_ms;
};

/*
 * Makes it, or finds it. More epochs than it has are added; another lease holds from now on. -EEXIST: it is one of
 * other slices, or of more epochs; -ENOSPC: there are too many queues.
 */
int control_queue_open(struct control_queues *queues, const struct control_queue_spec *spec, struct star_error *err);
/* NULL: there is none. */
struct control_queue *control_queue_find(const struct control_queues *queues, const char *name);
void control_queue_drop(struct control_queues *queues, struct control_queue *queue);
/* Whether its slices are those that a worker takes it to have. */
bool control_queue_is(const struct control_queue *queue, uint64_t digest);

/* What a worker asks. */
struct control_queue_call {
	uint64_t worker; /* a number that it has drawn; not 0 */
	const uint64_t *has, *done;
	uint32_t has_count, done_count;
	bool wants; /* another slice */
};
struct control_queue_answer {
	enum { QUEUE_NOTHING, QUEUE_SLICE, QUEUE_WAIT, QUEUE_OVER } what; /* over: all is done */
	uint64_t slice;
	uint32_t wait_ms;		   /* before it asks again: others have the last slices */
	uint64_t lost[2 * QUEUE_HELD_MAX]; /* that it has named, and has no longer: another one does them */
	uint32_t lost_count;
};
/* 0 or -ENOMEM, and nothing has changed then. */
int control_queue_work(struct control_queue *queue, const struct control_queue_call *call, uint64_t now_us,
		       struct control_queue_answer *answer, struct star_error *err);

/* For a checkpoint, and from one: without leases, so that all that is not done is handed out again, first. */
json_t *control_queues_save(const struct control_queues *queues);
/* Into an empty set. -EINVAL: these are none, and why; queues are then empty. */
int control_queues_load(struct control_queues *queues, const json_t *saved, struct star_error *err);

/* For people: name, figures, and who has which slice; a new reference. */
json_t *control_queues_show(struct control_queues *queues, uint64_t now_us);

#endif
