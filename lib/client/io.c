/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The I/O threads are the waiters of channels for asynchronous calls; they also check the deadlines of these calls, and
 * run their callbacks. The relay is a thread that asks the control plane for the layout on behalf of asynchronous
 * calls, because that takes too long for an I/O thread.
 */
#include "client/client.h"
#include "client/keep.h"
#include "client/run.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sched.h>
#include <signal.h>

#include "base/clock.h"
#include "base/signals.h"

static _Thread_local struct waiter *own; /* of an I/O thread */

#define CALL_OF(t) ((struct call *)((char *)(t)-offsetof(struct call, timer)))

struct waiter *client_io_self(const struct star_cluster *cluster)
{
	struct waiter *self = own;

	return self && self->cluster == cluster ? self : NULL;
}

static void deadline_passed(struct wheel_timer *timer, uint64_t now_ns)
{
	struct call *call = CALL_OF(timer);

	call_cancel(call, -ETIMEDOUT, call->waiter);
}

static void start_calls(struct io *io, struct calls *incoming)
{
	struct call *call;

	while ((call = TAILQ_FIRST(incoming))) {
		TAILQ_REMOVE(incoming, call, running);
		TAILQ_INSERT_TAIL(&io->running, call, running);
		call->timer.fire = deadline_passed;
		wheel_arm(&io->wheel, &call->timer, call->deadline_ns);
	}
}

static bool to_relay(struct io *io, struct call *call)
{
	struct star_cluster *cluster = io->waiter.cluster;

	if (!client_call_goes_on(call))
		return false;
	pthread_mutex_lock(&cluster->lock);
	TAILQ_INSERT_TAIL(&cluster->relay_queue, call, link);
	client_catalogue_hurry(cluster);
	pthread_mutex_unlock(&cluster->lock);
	return true;
}

static void end_calls(struct io *io, struct calls *finished)
{
	struct waiter *k = &io->waiter;
	struct call *call;
	bool some = false;

	while ((call = TAILQ_FIRST(finished))) {
		TAILQ_REMOVE(finished, call, link);
		TAILQ_REMOVE(&io->running, call, running);
		wheel_cancel(&io->wheel, &call->timer);
		if (to_relay(io, call))
			continue;
		client_run_gather(call);
		if (call->callback)
			call->callback(call->arg, call->error.code, &call->error);
		/* From here on star_request_wait may free it. Pairs with client_io_await: either that sees this store,
		 * or we see that it waits. */
		atomic_store(&call->done, true);
		some = true;
	}
	if (!some || !atomic_load(&k->awaiting))
		return;
	pthread_mutex_lock(&k->lock);
	pthread_cond_broadcast(&k->done);
	pthread_mutex_unlock(&k->lock);
}

void client_io_await(struct waiter *k, struct call *call)
{
	if (atomic_load_explicit(&call->done, memory_order_acquire))
		return;
	pthread_mutex_lock(&k->lock);
	atomic_fetch_add(&k->awaiting, 1);
	while (!atomic_load(&call->done)) /* it has a deadline, at which its I/O thread ends it at the latest */
		pthread_cond_wait(&k->done, &k->lock);
	atomic_fetch_sub(&k->awaiting, 1);
	pthread_mutex_unlock(&k->lock);
}

static void cancel_all(struct io *io)
{
	struct call *call;

	TAILQ_FOREACH(call, &io->running, running)
	if (!call->cancelled)
		call_cancel(call, -ECANCELED, &io->waiter);
}

/* Takes the calls that other threads left here, and those of this thread itself. */
static void take_calls(struct waiter *k, struct calls *incoming, struct calls *finished)
{
	TAILQ_INIT(incoming);
	TAILQ_INIT(finished);
	TAILQ_CONCAT(incoming, &k->own_incoming, running);
	TAILQ_CONCAT(finished, &k->own_finished, link);
	client_waiter_collect(k, incoming, finished);
}

static void *run_io(void *arg)
{
	struct io *io = arg;
	struct waiter *k = &io->waiter;
	struct star_cluster *cluster = k->cluster;
	char name[16]; /* the kernel's limit; top and /proc show the name */

	snprintf(name, sizeof(name), "star-io/%u", (unsigned)(io - cluster->io) % 1000);
	pthread_setname_np(pthread_self(), name);
	own = k;
	for (;;) {
		struct calls incoming, finished;
		uint64_t look_ns, next_ns;

		take_calls(k, &incoming, &finished);
		start_calls(io, &incoming);
		end_calls(io, &finished);
		if (atomic_load(&cluster->closing))
			cancel_all(io);
		wheel_advance(&io->wheel, clock_ns(), TIMERS_PER_TURN);
		look_ns = client_keep_look(io, clock_ns());
		client_waiter_release(k, false);
		/* Changes by this thread itself (a cancelled call, a channel handed to itself) are not signalled. */
		if (waiter_has_news(k))
			continue;
		if (atomic_load(&cluster->stop) && TAILQ_EMPTY(&io->running))
			break;
		next_ns = wheel_next(&io->wheel);
		cluster->transport->turn(k, next_ns < look_ns ? next_ns : look_ns);
	}
	client_waiter_release(k, true);
	return NULL;
}

int client_io_init(struct io *io, struct star_cluster *cluster, int core, struct star_error *err)
{
	io->core = core;
	TAILQ_INIT(&io->running);
	wheel_init(&io->wheel, clock_ns());
	return client_waiter_init(&io->waiter, cluster, true, err);
}

int client_io_start(struct io *io, struct star_error *err)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int rc;

	pthread_attr_init(&attributes);
	if (io->core >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(io->core, &set);
		pthread_attr_setaffinity_np(&attributes, sizeof(set), &set);
	}
	base_signals_of_others(&all); /* signals are left to the program's own threads */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&io->thread, &attributes, run_io, io);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return rc ? star_error_set(err, -rc, "cannot start an I/O thread: %s; see ulimit -u", strerrordesc_np(rc)) : 0;
}

/* Called after the cluster's `stop` is set. */
void client_io_stop(struct io *io)
{
	waiter_wake(&io->waiter);
	pthread_join(io->thread, NULL);
}

void client_io_fini(struct io *io)
{
	client_waiter_fini(&io->waiter);
}

/* While nobody can connect to a node's old address: how long the layout is asked for, and how often at most. */
#define LAYOUT_LOOK_NS UINT64_C(3000000000)
#define LAYOUT_AGAIN_NS UINT64_C(200000000)

/* With the cluster's lock, which is released meanwhile. If there is no newer layout, each waiting call reports the
 * reason itself. */
static void look_at_layout(struct star_cluster *cluster)
{
	const uint32_t epoch = atomic_load(&cluster->route)->epoch;
	struct star_error err;

	cluster->layout_wanted = false;
	pthread_mutex_unlock(&cluster->lock);
	client_route_refresh(cluster, epoch, clock_ns() + LAYOUT_LOOK_NS, &err);
	pthread_mutex_lock(&cluster->lock);
}

void client_route_want(struct star_cluster *cluster, uint64_t now_ns)
{
	pthread_mutex_lock(&cluster->lock);
	if (atomic_load(&cluster->route) && now_ns - cluster->layout_wanted_ns >= LAYOUT_AGAIN_NS) {
		cluster->layout_wanted_ns = now_ns;
		cluster->layout_wanted = true;
		pthread_cond_broadcast(&cluster->changed);
	}
	pthread_mutex_unlock(&cluster->lock);
}

/* With the lock. The first call whose deadline has passed, or else the first: all wait for the same layout, and the
 * deadline of one may be far away. *until_ns: the next deadline. */
static struct call *next_call(const struct star_cluster *cluster, uint64_t *until_ns)
{
	const uint64_t now_ns = clock_ns();
	struct call *call;

	*until_ns = now_ns + LAYOUT_LOOK_NS;
	TAILQ_FOREACH(call, &cluster->relay_queue, link)
	{
		if (call->deadline_ns <= now_ns)
			return call;
		if (call->deadline_ns < *until_ns)
			*until_ns = call->deadline_ns;
	}
	return TAILQ_FIRST(&cluster->relay_queue);
}

/* With the cluster's lock, which is released meanwhile. False: nobody has answered yet, and the call must go on
 * waiting. */
static bool has_layout(struct star_cluster *cluster, const struct call *call, uint64_t until_ns)
{
	const uint32_t epoch = TAILQ_FIRST(&call->stale)->epoch;
	struct star_error err;
	int rc;

	if (call->deadline_ns <= clock_ns())
		return true;
	pthread_mutex_unlock(&cluster->lock);
	rc = client_route_refresh(cluster, epoch, until_ns, &err);
	pthread_mutex_lock(&cluster->lock);
	return !client_catalogue_is_away(rc);
}

static void *relay(void *arg)
{
	struct star_cluster *cluster = arg;
	struct call *call;
	uint64_t until_ns;

	pthread_mutex_lock(&cluster->lock);
	for (;;) {
		call = next_call(cluster, &until_ns);
		if (!call && cluster->relay_stop)
			break;
		if (!call && cluster->layout_wanted) {
			look_at_layout(cluster);
			continue;
		}
		if (!call) {
			pthread_cond_wait(&cluster->changed, &cluster->lock);
			continue;
		}
		if (!has_layout(cluster, call, until_ns))
			continue;
		TAILQ_REMOVE(&cluster->relay_queue, call, link);
		pthread_mutex_unlock(&cluster->lock);
		client_call_reroute(call);
		call_submit(call, NULL); /* without parts if that failed; then its I/O thread ends it */
		pthread_mutex_lock(&cluster->lock);
	}
	pthread_mutex_unlock(&cluster->lock);
	return NULL;
}

int client_relay_start(struct star_cluster *cluster, struct star_error *err)
{
	sigset_t all, before;
	int rc;

	base_signals_of_others(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&cluster->relay, NULL, relay, cluster);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc ? star_error_set(err, -rc, "cannot start a thread: %s; see ulimit -u", strerrordesc_np(rc)) : 0;
}

void client_relay_stop(struct star_cluster *cluster)
{
	pthread_mutex_lock(&cluster->lock);
	cluster->relay_stop = true;
	pthread_cond_broadcast(&cluster->changed);
	pthread_mutex_unlock(&cluster->lock);
	pthread_join(cluster->relay, NULL);
}
