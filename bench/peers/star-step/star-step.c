/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * startrain, whose calls of libstar are recorded in one of its steps: which begin and which are waited for, in what
 * order, with copies of their keys and gradients. Then it trains no more. It prints that step (peers/step.h), and obeys
 * commands: "run SECONDS" makes these calls again and again, without what the model computes in between, and prints
 * how many steps a second that is. Everything runs in the one thread that trains.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/peers/step.h"
#include "star.h"
#include "train/session.h"

/* By then everything that is made once has been made. */
enum { RECORDED_STEP = 20 };

struct event {
	bool begins, waits; /* both: a call that waits */
	uint32_t call;
};

struct call {
	struct star_cluster *cluster;
	struct star_op *ops;
	uint32_t count;
	uint64_t deadline_us, to, from;
	struct star_request *request; /* in the recording, or under way */
};

static struct event events[STEP_EVENTS_MAX];
static struct call calls[STEP_EVENTS_MAX];
static uint32_t events_count, calls_count, steps;
static bool recording;

static void die(const char *what)
{
	fprintf(stderr, "star-step: %s\n", what);
	exit(EXIT_FAILURE);
}

/* ---- recording ---- */

static void *copy_of(const void *from, size_t bytes)
{
	void *copy = malloc(bytes ? bytes : 1);

	if (!copy)
		die("no memory");
	if (from)
		memcpy(copy, from, bytes);
	return copy;
}

/* What its memory has now is what is sent later. */
static void keep_op(struct call *call, struct star_op *op)
{
	const size_t bytes = op->kind == STAR_RUN ? 0 : star_bytes(op->table, op->dtype) * (op->keys ? op->count : 1);

	if (op->kind == STAR_RUN || op->view || op->versions)
		die("this step has programs, views or versions, which are not made again here");
	if (op->keys)
		op->keys = copy_of(op->keys, op->count * sizeof(*op->keys));
	if (op->values)
		op->values = copy_of(op->kind == STAR_PULL ? NULL : op->values, bytes);
	if (op->results)
		op->results = copy_of(NULL, bytes);
	call->to += op->count * sizeof(*op->keys) + (op->kind != STAR_PULL && op->values ? bytes : 0);
	call->from += op->kind == STAR_PULL || op->results ? bytes : 0;
}

static struct event *add_event(uint32_t call)
{
	if (events_count == STEP_EVENTS_MAX)
		die("a step of too many calls");
	events[events_count] = (struct event){ .call = call };
	return &events[events_count++];
}

static struct event *record(struct star_cluster *cluster, const struct star_op *ops, uint32_t count,
			    uint64_t deadline_us)
{
	struct call *call = &calls[calls_count];
	struct event *event = add_event(calls_count++);

	*call = (struct call){ .cluster = cluster,
			       .ops = copy_of(ops, count * sizeof(*ops)),
			       .count = count,
			       .deadline_us = deadline_us };
	for (uint32_t i = 0; i < count; i++)
		keep_op(call, &call->ops[i]);
	event->begins = true;
	return event;
}

int __real_star_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t count, uint64_t deadline_us,
			struct star_error *err);
struct star_request *__real_star_execute_async(struct star_cluster *cluster, const struct star_op *ops, uint32_t count,
					       uint64_t deadline_us, star_done *done, void *arg,
					       struct star_error *err);
int __real_star_request_wait(struct star_request *request, struct star_error *err);
int __real_session_take(struct session *session, const struct graph_tensor **results, struct star_error *err);
int __wrap_star_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t count, uint64_t deadline_us,
			struct star_error *err);
struct star_request *__wrap_star_execute_async(struct star_cluster *cluster, const struct star_op *ops, uint32_t count,
					       uint64_t deadline_us, star_done *done, void *arg,
					       struct star_error *err);
int __wrap_star_request_wait(struct star_request *request, struct star_error *err);
int __wrap_session_take(struct session *session, const struct graph_tensor **results, struct star_error *err);

int __wrap_star_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t count, uint64_t deadline_us,
			struct star_error *err)
{
	if (recording)
		record(cluster, ops, count, deadline_us)->waits = true;
	return __real_star_execute(cluster, ops, count, deadline_us, err);
}

struct star_request *__wrap_star_execute_async(struct star_cluster *cluster, const struct star_op *ops, uint32_t count,
					       uint64_t deadline_us, star_done *done, void *arg, struct star_error *err)
{
	const struct event *event = recording ? record(cluster, ops, count, deadline_us) : NULL;
	struct star_request *request = __real_star_execute_async(cluster, ops, count, deadline_us, done, arg, err);

	if (event)
		calls[event->call].request = request;
	return request;
}

int __wrap_star_request_wait(struct star_request *request, struct star_error *err)
{
	for (uint32_t c = 0; recording && c < calls_count; c++)
		if (calls[c].request == request) {
			add_event(c)->waits = true;
			calls[c].request = NULL; /* its memory may be that of a later one */
		}
	return __real_star_request_wait(request, err);
}

/* ---- making it again ---- */

static void show_step(void)
{
	for (uint32_t e = 0; e < events_count; e++) {
		if (events[e].begins)
			printf("begin %llu %llu\n", (unsigned long long)calls[events[e].call].to,
			       (unsigned long long)calls[events[e].call].from);
		if (events[e].waits)
			printf("wait %u\n", events[e].call);
	}
	puts("end");
	fflush(stdout);
}

static void make_step(void)
{
	struct star_error err;
	int rc = 0;

	for (uint32_t e = 0; rc == 0 && e < events_count; e++) {
		struct call *c = &calls[events[e].call];

		if (events[e].begins && events[e].waits) {
			rc = __real_star_execute(c->cluster, c->ops, c->count, c->deadline_us, &err);
		} else if (events[e].begins) {
			c->request = __real_star_execute_async(c->cluster, c->ops, c->count, c->deadline_us, NULL, NULL,
							       &err);
			rc = c->request ? 0 : err.code;
		} else {
			rc = __real_star_request_wait(c->request, &err);
			c->request = NULL;
		}
	}
	for (uint32_t c = 0; rc == 0 && c < calls_count; c++)
		if (calls[c].request)
			rc = __real_star_request_wait(calls[c].request, &err), calls[c].request = NULL;
	if (rc < 0)
		die(err.text);
}

static void obey(void)
{
	char line[64];
	double seconds;

	while (fgets(line, sizeof(line), stdin) && sscanf(line, "run %lf", &seconds) == 1) {
		const uint64_t began = clock_ns(), until = began + (uint64_t)(seconds * 1e9);
		uint64_t made = 0, now;

		for (now = began; now < until; now = clock_ns(), made++)
			make_step();
		printf("{\"steps_per_s\": %.2f}\n", (double)made * 1e9 / (double)(now - began));
		fflush(stdout);
	}
	exit(EXIT_SUCCESS);
}

int __wrap_session_take(struct session *session, const struct graph_tensor **results, struct star_error *err)
{
	int rc;

	recording = ++steps == RECORDED_STEP;
	rc = __real_session_take(session, results, err);
	if (!recording || rc < 0)
		return rc;
	recording = false;
	show_step();
	obey();
	return rc;
}
