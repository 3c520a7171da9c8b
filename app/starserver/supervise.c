/* SPDX-License-Identifier: BSD-3-Clause */
#include "supervise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "jsonrpc/thread.h"
#include "node/crash.h"

enum {
	LOOK_US = 1000000, /* between checks; a quarter of the watchdog's timeout if that is less */
	/* A reactor sleeps for at most one second (lib/reactor/idle.c); a turn takes far less. */
	STUCK_US = 2500000,
};

struct supervise {
	const struct node *node;
	uint64_t keepalive_us; /* the watchdog's timeout; 0: no keepalives are wanted */
	pthread_t thread;

	pthread_mutex_t lock; /* protects the two members below */
	pthread_cond_t wake;
	struct control *control; /* NULL: not set yet */
	bool stopping;

	/* used by the thread only */
	bool ready, alive;
	char state[CONTROL_STATE_MAX];
	struct {
		uint64_t turns, moved_us;
	} reactors[WIRE_REACTORS_MAX];
};

/* Whether each reactor has taken a turn recently. */
static bool reactors_alive(struct supervise *s)
{
	const uint64_t now_us = clock_us();
	bool alive = true;

	for (unsigned i = 0; i < s->node->shards_count; i++) {
		const struct reactor_stats *stats = reactor_stats(s->node->shards[i].reactor);
		const uint64_t turns = __atomic_load_n(&stats->turns, __ATOMIC_RELAXED);

		if (turns != s->reactors[i].turns || !s->reactors[i].moved_us) {
			s->reactors[i].turns = turns;
			s->reactors[i].moved_us = now_us;
		} else if (now_us - s->reactors[i].moved_us >= STUCK_US) {
			if (s->alive) {
				log_error("reactor %u has not taken a turn for %.1f s: keepalives to the service "
					  "manager stop, and its watchdog restarts the node",
					  i, (double)(now_us - s->reactors[i].moved_us) / 1e6);
				node_crash_stuck(i);
			}
			alive = false;
		}
	}
	if (alive && !s->alive) {
		log_warn("all reactors are running again");
		node_crash_moves();
	}
	s->alive = alive;
	return alive;
}

static void report_state(struct supervise *s)
{
	char state[CONTROL_STATE_MAX] = "starting";
	const bool serves = s->control && control_serves(s->control, state);

	/* A node of a pair is ready when it answers requests: which of the two serves is decided by both. */
	if ((serves || (s->control && s->node->pair)) && !s->ready) {
		sd_notify(0, "READY=1");
		s->ready = true;
	}
	if (strcmp(state, s->state) == 0)
		return;
	strcpy(s->state, state);
	sd_notifyf(0, "STATUS=%s", state);
}

static void *supervise_loop(void *arg)
{
	struct supervise *s = arg;
	const uint64_t look_us = s->keepalive_us && s->keepalive_us / 4 < LOOK_US ? s->keepalive_us / 4 : LOOK_US;
	struct timespec next;

	pthread_mutex_lock(&s->lock);
	while (!s->stopping) {
		report_state(s);
		if (reactors_alive(s) && s->keepalive_us)
			sd_notify(0, "WATCHDOG=1");
		next = clock_timespec(clock_ns() + look_us * 1000);
		pthread_cond_timedwait(&s->wake, &s->lock, &next); /* earlier if something changes */
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

struct supervise *supervise_start(const struct node *node)
{
	struct star_error err = { 0 };
	struct supervise *s;

	if (!getenv("NOTIFY_SOCKET"))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s) {
		log_warn("cannot report to the service manager (sd_notify): out of memory");
		return NULL;
	}
	s->node = node;
	s->alive = true;
	if (sd_watchdog_enabled(0, &s->keepalive_us) <= 0)
		s->keepalive_us = 0;
	clock_condition_init(&s->wake);
	pthread_mutex_init(&s->lock, NULL);
	if (jsonrpc_thread_start(&s->thread, "supervise", supervise_loop, s, &err) == 0)
		return s;
	log_warn("cannot report to the service manager (sd_notify): %s", err.text);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

void supervise_control(struct supervise *s, struct control *control)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->control = control;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

void supervise_stop(struct supervise *s, bool again)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stopping = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	/* Restarts the watchdog's timeout, which must last until the node checks its reactors again. */
	sd_notify(0, again ? "WATCHDOG=1\nSTATUS=rolling back to a checkpoint" : "STOPPING=1\nSTATUS=stopping");
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
