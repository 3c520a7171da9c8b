/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/queue.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "client/star.h"

enum { WAIT_US = 500000, AWAY_US = 200000 };

struct train_queue {
	struct star_cluster *cluster;
	struct star_queue *queue;
	struct input_plan plan;
	struct input_slices slices;
	uint64_t recovery_us;
	uint64_t away_ns; /* since when PS task 0 has been away; 0: it is not */
};

/* Errors of a PS task 0 that may come back. */
static bool is_away(int code)
{
	switch (-code) {
	case ECONNREFUSED:
	case ECONNRESET:
	case ECONNABORTED:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EPIPE:
	case ETIMEDOUT:
		return true;
	default:
		return false;
	}
}

static int take(void *arg, bool wait, struct input_slice *slice, struct star_error *err)
{
	struct train_queue *q = arg;
	struct star_slice taken;
	const int rc = star_queue_take(q->queue, &taken, wait ? WAIT_US : 0, err);
	const uint64_t now_ns = clock_ns();

	if (rc < 0 && is_away(rc)) {
		const struct timespec pause = clock_timespec(now_ns + AWAY_US * UINT64_C(1000));

		if (!q->away_ns)
			q->away_ns = now_ns;
		if (now_ns - q->away_ns > q->recovery_us * 1000)
			return rc;
		while (wait && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &pause, NULL) == EINTR)
			continue;
		return -EAGAIN; /* meanwhile, training continues with what was read */
	}
	q->away_ns = 0;
	if (rc > 0)
		*slice = (struct input_slice){ .number = taken.number, .epoch = taken.epoch, .handle = taken.handle };
	return rc;
}

static void done(void *arg, const struct input_slice *slice)
{
	const struct train_queue *q = arg;
	const struct star_slice taken = { .number = slice->number, .epoch = slice->epoch, .handle = slice->handle };

	star_queue_done(q->queue, &taken); /* a slice that was lost belongs to another worker */
}

struct train_queue *train_queue_open(const char *ps, const struct train_queue_options *o, struct star_error *err)
{
	struct train_queue *q = calloc(1, sizeof(*q));
	const uint32_t epochs = o->epochs ? o->epochs : 1;
	struct star_queue_spec spec;

	if (!q) {
		star_error_set(err, -ENOMEM, "no memory for a queue");
		return NULL;
	}
	q->recovery_us = o->recovery_us ? o->recovery_us : UINT64_C(300000000);
	if (input_plan_make(o->paths, o->paths_count, o->slice_bytes, o->seed, &q->plan, err) < 0)
		goto fail;
	q->cluster = star_open(ps, o->deadline_us, err);
	if (!q->cluster)
		goto fail;
	spec = (struct star_queue_spec){ .name = o->name,
					 .text = q->plan.text,
					 .digest = q->plan.digest,
					 .slices = q->plan.slices,
					 .epochs = epochs,
					 .lease_us = o->lease_us,
					 .deadline_us = o->deadline_us };
	q->queue = star_queue_open(q->cluster, &spec, err);
	if (!q->queue)
		goto fail;
	q->slices = (struct input_slices){ .arg = q, .plan = &q->plan, .epochs = epochs, .take = take, .done = done };
	return q;
fail:
	star_close(q->cluster);
	input_plan_fini(&q->plan);
	free(q);
	return NULL;
}

const struct input_slices *train_queue_slices(const struct train_queue *q)
{
	return &q->slices;
}

uint64_t train_queue_lost(const struct train_queue *q)
{
	return star_queue_lost(q->queue);
}

int train_queue_close(struct train_queue *q, struct star_error *err)
{
	int rc;

	if (!q)
		return 0;
	rc = star_queue_close(q->queue, err);
	star_close(q->cluster);
	input_plan_fini(&q->plan);
	free(q);
	return rc;
}
