/* SPDX-License-Identifier: BSD-3-Clause */
/* The control path: creating, joining, starting and ending reactors; their mailboxes. */
#include "reactor/internal.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/signals.h"

static int check_options(const struct reactor_options *options, struct star_error *err)
{
	const struct reactor_ops *ops = &options->ops;

	if (options->index >= REACTOR_MAX || options->ports_count > CONFIG_PORTS_MAX)
		return star_error_set(err, -EINVAL,
				      "reactor %u with %u ports: at most %u reactors and %u ports are possible",
				      options->index, options->ports_count, REACTOR_MAX, CONFIG_PORTS_MAX);
	if (!ops->steer || !ops->receive || !ops->work || !ops->transmit || !ops->wheel || !options->pool)
		return star_error_set(err, -EINVAL, "reactor %u lacks an operation, its wheel or its mempool",
				      options->index);
	for (unsigned i = 0; i < options->ports_count; i++)
		if (options->index >= options->ports[i]->queues)
			return star_error_set(err, -EINVAL, "port %s has %u queues, none for reactor %u",
					      options->ports[i]->name, options->ports[i]->queues, options->index);
	return 0;
}

static int init_mailbox(struct reactor *r)
{
	r->mailbox = aligned_alloc(RTE_CACHE_LINE_SIZE, (size_t)rte_ring_get_memsize(MAILBOX_RING));
	if (!r->mailbox)
		return -ENOMEM;
	rte_ring_init(r->mailbox, "mailbox", MAILBOX_RING, RING_F_SP_ENQ | RING_F_SC_DEQ);
	r->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (r->event_fd >= 0)
		return 0;
	free(r->mailbox);
	return -errno;
}

struct reactor *reactor_create(const struct reactor_options *options, struct star_error *err)
{
	struct reactor *r;
	int ret;

	if (check_options(options, err) != 0)
		return NULL;
	r = aligned_alloc(RTE_CACHE_LINE_SIZE, sizeof(*r));
	if (!r) {
		star_error_set(err, -ENOMEM, "no memory for reactor %u", options->index);
		return NULL;
	}
	memset(r, 0, sizeof(*r));
	ret = init_mailbox(r);
	if (ret) {
		star_error_set(err, ret, "no mailbox for reactor %u: %s", options->index, strerror(-ret));
		free(r);
		return NULL;
	}
	r->index = options->index;
	r->polling = options->polling;
	r->core = options->core;
	r->spin_ns = (uint64_t)options->spin_us * 1000;
	r->ops = options->ops;
	r->pool = options->pool;
	r->ports_count = options->ports_count;
	for (unsigned i = 0; i < options->ports_count; i++) {
		r->ports[i] = options->ports[i];
		r->port_of[options->ports[i]->id] = options->ports[i];
	}
	pthread_mutex_init(&r->mailbox_lock, NULL);
	sem_init(&r->registered, 0, 0);
	return r;
}

static int check_cores(struct reactor *const *reactors, unsigned count, struct star_error *err)
{
	cpu_set_t usable, taken;
	unsigned polling = 0;

	if (sched_getaffinity(0, sizeof(usable), &usable) != 0)
		return star_error_set(err, -errno, "cannot read the cores that this process may use: %m");
	CPU_ZERO(&taken);
	for (unsigned i = 0; i < count; i++) {
		const int core = reactors[i]->core;

		polling += reactors[i]->polling;
		if (core < 0)
			continue;
		if (core >= CPU_SETSIZE || !CPU_ISSET(core, &usable))
			return star_error_set(
				err, -EINVAL,
				"reactor %u cannot be pinned to core %d: this process may use %d cores, and "
				"that is not one of them",
				i, core, CPU_COUNT(&usable));
		if (CPU_ISSET(core, &taken))
			return star_error_set(
				err, -EINVAL,
				"two reactors are pinned to core %d: give each its own, or turn pinning off", core);
		CPU_SET(core, &taken);
	}
	if (polling > (unsigned)CPU_COUNT(&usable))
		return star_error_set(
			err, -EINVAL,
			"%u polling reactors need as many cores, and this process may use %d: ask for fewer "
			"reactors, or turn polling off",
			polling, CPU_COUNT(&usable));
	return 0;
}

int reactor_join(struct reactor *const *reactors, unsigned count, struct star_error *err)
{
	int ret;

	if (count == 0 || count > REACTOR_MAX)
		return star_error_set(err, -EINVAL, "%u reactors: 1 to %u are possible", count, REACTOR_MAX);
	for (unsigned i = 0; i < count; i++)
		if (reactors[i]->index != i || reactors[i]->count)
			return star_error_set(err, -EINVAL, "reactor %u is joined as number %u, or a second time",
					      reactors[i]->index, i);
	ret = check_cores(reactors, count, err);
	if (ret)
		return ret;
	for (unsigned i = 0; i < count; i++) {
		reactors[i]->count = count;
		memcpy(reactors[i]->peers, reactors, count * sizeof(reactors[0]));
	}
	for (unsigned owner = 0; owner < count; owner++)
		for (unsigned consumer = 0; consumer < count; consumer++)
			if (owner != consumer && reactor_hand_over_create(reactors[owner], reactors[consumer]) != 0)
				return star_error_set(err, -ENOMEM, "no memory for the hand-over between %u reactors",
						      count);
	return 0;
}

static int create_thread(struct reactor *r)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	cpu_set_t core;
	int ret;

	pthread_attr_init(&attributes);
	if (r->core >= 0) {
		CPU_ZERO(&core);
		CPU_SET(r->core, &core);
		pthread_attr_setaffinity_np(&attributes, sizeof(core), &core);
	}
	/* Signals are for the control path; the thread inherits the mask. */
	base_signals_of_others(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = -pthread_create(&r->thread, &attributes, reactor_loop, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return ret;
}

int reactor_start(struct reactor *r, struct star_error *err)
{
	int ret;

	if (r->running || r->closed)
		return star_error_set(err, -EALREADY, "reactor %u was started before", r->index);
	if (!r->peers[r->index])
		return star_error_set(err, -EINVAL, "reactor %u was not joined with the others", r->index);
	ret = create_thread(r);
	if (ret)
		return star_error_set(err, ret, "no thread for reactor %u: %s", r->index, strerror(-ret));
	while (sem_wait(&r->registered) != 0 && errno == EINTR)
		;
	if (r->start_result) {
		pthread_join(r->thread, NULL);
		return star_error_set(err, r->start_result,
				      "reactor %u cannot register with DPDK (%s): is the EAL started?", r->index,
				      strerror(-r->start_result));
	}
	r->running = true;
	return 0;
}

void reactor_stop(struct reactor *r)
{
	pthread_mutex_lock(&r->mailbox_lock);
	r->closed = true;
	pthread_mutex_unlock(&r->mailbox_lock);
	if (!r->running)
		return;
	__atomic_store_n(&r->stop, 1, __ATOMIC_RELEASE);
	reactor_idle_wake(r);
	pthread_join(r->thread, NULL);
	r->running = false;
}

void reactor_destroy(struct reactor *r)
{
	if (!r)
		return;
	reactor_stop(r);
	for (unsigned peer = 0; peer < r->count; peer++) {
		reactor_hand_over_destroy(r, peer);
		if (r->peers[peer])
			r->peers[peer]->peers[r->index] = NULL;
	}
	close(r->event_fd);
	free(r->mailbox);
	sem_destroy(&r->registered);
	pthread_mutex_destroy(&r->mailbox_lock);
	free(r);
}

int reactor_post(struct reactor *r, struct reactor_message *message)
{
	int ret = -ESHUTDOWN;

	__atomic_store_n(&message->done, 0, __ATOMIC_RELAXED);
	pthread_mutex_lock(&r->mailbox_lock);
	if (!r->closed)
		ret = rte_ring_sp_enqueue(r->mailbox, message) == 0 ? 0 : -EAGAIN;
	pthread_mutex_unlock(&r->mailbox_lock);
	if (ret == 0)
		reactor_idle_wake(r);
	return ret;
}

int reactor_wait(const struct reactor_message *message, uint64_t timeout_us)
{
	const uint64_t begin_us = clock_us();
	long pause_ns = 20000;

	/* By polling, not by a futex, which would cost the reactor a system call per message. */
	while (!__atomic_load_n(&message->done, __ATOMIC_ACQUIRE)) {
		const struct timespec pause = { .tv_nsec = pause_ns };

		if (clock_us() - begin_us >= timeout_us)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
		if (pause_ns < 1000000)
			pause_ns *= 2;
	}
	return 0;
}

const struct reactor_stats *reactor_stats(const struct reactor *r)
{
	return &r->stats;
}
