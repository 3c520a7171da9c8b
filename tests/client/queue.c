/* SPDX-License-Identifier: BSD-3-Clause */
/* Work queues: what a worker holds, and what it hears of that. */
#include "tests/client/cases.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { TAKE_S = 20 };

struct taking {
	struct star_queue *queue;
	struct star_slice slice;
	struct star_error err;
	int rc;
};

static void *take(void *arg)
{
	struct taking *t = arg;

	t->rc = star_queue_take(t->queue, &t->slice, LONG_US, &t->err);
	return NULL;
}

/* It is done with its last slice while it hears that it has lost that one: there is news, and nothing to tell. */
void a_queue_goes_on_when_the_last_slice_is_lost(void)
{
	const struct star_queue_spec spec = { .name = "q", .slices = 2, .lease_us = LONG_US, .deadline_us = LONG_US };
	struct bench b = bench_start(1, 1, 4);
	struct star_error err = { 0 };
	struct taking t = { .queue = star_queue_open(b.cluster, &spec, &err) };
	struct star_slice slices[2];
	struct timespec until;
	pthread_t thread;

	if (!CHECK(t.queue)) {
		bench_stop(&b);
		return;
	}
	for (unsigned i = 0; i < 2; i++)
		CHECK_INT(star_queue_take(t.queue, &slices[i], LONG_US, &err), 1);
	peer_misbehave(b.peer, FAULT_NONE, 0, 0); /* closes the gate */
	CHECK_INT(star_queue_done(t.queue, &slices[0]), 0);
	CHECK(peer_wait_held(b.peer, 1));
	CHECK_INT(star_queue_done(t.queue, &slices[1]), 0);
	peer_open_gate(b.peer);
	pthread_create(&thread, NULL, take, &t);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += TAKE_S;
	if (pthread_timedjoin_np(thread, NULL, &until) != 0) {
		unit_fail(__FILE__, __LINE__, "the queue did not answer within %d s", TAKE_S);
		abort(); /* its thread has the lock for good */
	}
	CHECK_INT(t.rc, 0);
	CHECK_UINT(star_queue_lost(t.queue), 1);
	CHECK_INT(star_queue_close(t.queue, &err), 0);
	bench_stop(&b);
}
