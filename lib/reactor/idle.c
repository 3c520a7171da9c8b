/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a reactor without work sleeps. The one file of the loop that makes system calls: a sleep is one, and so is waking
 * a sleeper. A reactor that has work, or polls, makes none, and nor does who gives work to one that is awake.
 *
 * No wake-up is lost. The sleeper and who wakes it each write one place and then read the other's (Dekker's pattern):
 *
 *	sleeper: sleeping = 1;          full barrier;  look at rings, mailbox and stop;  ppoll
 *	waker:   enqueue (or stop = 1); full barrier;  if (sleeping) write the event fd
 *
 * With both barriers at least one of the two reads sees the other's write: either the sleeper finds the work and does
 * not sleep, or the waker finds it sleeping and writes. An event fd keeps its count, so a write between the look and
 * ppoll ends ppoll at once. A waker that reads an old `sleeping` of 1 writes in vain: that costs one short sleep more,
 * no more. Ports need no flag: their descriptors are readable as long as frames wait (or port_wait_arm says that frames
 * are there).
 */
#include "reactor/internal.h"

#include <errno.h>
#include <poll.h>
#include <rte_atomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static const uint64_t blind_sleep_ns = 1000000;	 /* if a port has no interrupt */
static const uint64_t sleep_max_ns = 1000000000; /* an upper bound for every sleep */

void reactor_idle_wake(struct reactor *r)
{
	const uint64_t one = 1;

	if (r->polling)
		return;
	rte_smp_mb(); /* pairs with the one in reactor_idle_sleep */
	/* It fails only if the counter is near 2^64, and then the reactor wakes up anyway. */
	if (__atomic_load_n(&r->sleeping, __ATOMIC_RELAXED) && write(r->event_fd, &one, sizeof(one)) < 0)
		return;
}

static bool work_waiting(const struct reactor *r)
{
	return __atomic_load_n(&r->stop, __ATOMIC_RELAXED) || !rte_ring_empty(r->mailbox) ||
	       reactor_hand_over_waiting(r);
}

/* How long nothing is due; at most a millisecond if a port has no interrupt, and 0 if there are frames. */
static uint64_t arm(const struct reactor *r, struct pollfd *fds, nfds_t *count)
{
	const uint64_t due = wheel_next(r->ops.wheel), now = clock_ns();
	uint64_t sleep_ns = due > now ? due - now : 0;

	if (sleep_ns > sleep_max_ns)
		sleep_ns = sleep_max_ns;
	for (unsigned i = 0; i < r->ports_count; i++) {
		const struct port *port = r->ports[i];
		const int ret = port_wait_arm(port, (uint16_t)r->index);

		if (ret == -EAGAIN)
			sleep_ns = 0;
		else if (ret != 0 && sleep_ns > blind_sleep_ns)
			sleep_ns = blind_sleep_ns;
		if (port->wait_fds[r->index] >= 0)
			fds[(*count)++] = (struct pollfd){ .fd = port->wait_fds[r->index], .events = POLLIN };
	}
	return sleep_ns;
}

static void disarm(const struct reactor *r, const struct pollfd *fds, nfds_t count)
{
	uint64_t rings;

	/* A wake-up that comes after ppoll has returned ends the next sleep at once, which does no harm. */
	if ((fds[0].revents & POLLIN) && read(r->event_fd, &rings, sizeof(rings)) < 0)
		rings = 0;
	for (nfds_t i = 1; i < count; i++) {
		int error;
		socklen_t bytes = sizeof(error);

		/* An interface that went down leaves an error on its socket, which would end each sleep at once until
		 * it is read. Its counters show the rest. */
		if (fds[i].revents & (POLLERR | POLLHUP))
			getsockopt(fds[i].fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	}
	for (unsigned i = 0; i < r->ports_count; i++)
		port_wait_disarm(r->ports[i], (uint16_t)r->index);
}

void reactor_idle_sleep(struct reactor *r)
{
	struct pollfd fds[1 + CONFIG_PORTS_MAX] = { { .fd = r->event_fd, .events = POLLIN } };
	nfds_t count = 1;
	uint64_t sleep_ns;

	__atomic_store_n(&r->sleeping, 1, __ATOMIC_RELAXED);
	rte_smp_mb(); /* pairs with the one in reactor_idle_wake */
	if (work_waiting(r)) {
		__atomic_store_n(&r->sleeping, 0, __ATOMIC_RELAXED);
		return;
	}
	sleep_ns = arm(r, fds, &count);
	if (sleep_ns && r->ops.sleep) {
		r->stats.sleeps++;
		r->ops.sleep(r->ops.ctx, r->event_fd, sleep_ns);
	} else if (sleep_ns) {
		const struct timespec timeout = clock_timespec(sleep_ns);

		r->stats.sleeps++;
		ppoll(fds, count, &timeout, NULL);
	}
	__atomic_store_n(&r->sleeping, 0, __ATOMIC_RELAXED);
	disarm(r, fds, count);
}
