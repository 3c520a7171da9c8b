/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which thread receives.
 *
 * Any thread may put parts on a channel and send them, under the channel's lock. All other work of a channel
 * (connecting, sending what the socket did not take at once, receiving, noticing its death) is done by one thread at a
 * time: its waiter. A waiter is either a thread inside star_execute, which then receives its own reply without a
 * hand-over between threads, or one of the I/O threads. The rules:
 *
 *  1. While a channel has live parts (queued or sent, and not cancelled) it has a waiter. The thread that puts the
 *     first one there assigns it, under the same hold of the channel's lock: itself for a synchronous call, otherwise
 *     the channel's I/O thread.
 *  2. A waiter stays until it gives up the channel (client_waiter_release): a synchronous caller when its own call is
 *     finished, an I/O thread when the channel has no live part. If there are live parts then, the waiter of the oldest
 *     one becomes the channel's, again under the channel's lock; a signal on its event fd notifies it.
 *  3. A synchronous caller does not leave before its call is finished. For that all its parts must be finished, and
 *     each part is taken off its channel under the channel's lock. So a caller that is assigned as waiter by rule 2 is
 *     still there; and as it empties its inbox before it leaves, no channel is forgotten.
 *  4. Each part is finished once: by the thread that marks it PART_TAKEN under the channel's lock (the waiter that
 *     received its reply or noticed the channel's death; or the owner of the call when the deadline has passed or the
 *     cluster is closed).
 *  5. A reply is received into memory of the channel, and copied to the caller's rows only after its part was taken. If
 *     the deadline passes later, the part is already taken, and the owner waits for that copy. If the reply arrives
 *     later, there is no part with its sequence number, and it is dropped. So nothing is ever written to memory that
 *     has been returned to the caller.
 *
 * It follows from 1 and 2 that every live part has a thread that polls its channel. That thread's poll wakes at its own
 * call's deadline at the latest; every other call's owner wakes at its own. So no call outlives its deadline by more
 * than a copy.
 */
#include "client/client.h"

#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

#define INTERRUPTED_NS UINT64_C(20000000)

int client_waiter_init(struct waiter *k, struct star_cluster *cluster, bool io, struct star_error *err)
{
	k->cluster = cluster;
	k->io = io;
	TAILQ_INIT(&k->incoming);
	TAILQ_INIT(&k->finished);
	TAILQ_INIT(&k->own_incoming);
	TAILQ_INIT(&k->own_finished);
	k->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (k->event_fd < 0)
		return star_error_set(err, -errno, "cannot make an event fd: %s; see ulimit -n",
				      strerrordesc_np(errno));
	k->polls = malloc(sizeof(*k->polls));
	if (!k->polls) {
		close(k->event_fd);
		return star_error_set(err, -ENOMEM, "out of memory for a thread's state");
	}
	clock_condition_init(&k->done);
	pthread_mutex_init(&k->lock, NULL);
	return 0;
}

void client_waiter_fini(struct waiter *k)
{
	pthread_mutex_destroy(&k->lock);
	pthread_cond_destroy(&k->done);
	free(k->polls);
	free(k->kept);
	close(k->event_fd);
}

void client_waiter_give(struct waiter *k, struct channel *ch, struct waiter *self)
{
	ch->waiter = k;
	pthread_mutex_lock(&k->lock);
	ch->inbox_next = k->inbox;
	k->inbox = ch;
	waiter_signal(k, self);
	pthread_mutex_unlock(&k->lock);
}

/* In both arrays; polls has one more, for the event fd. */
bool client_waiter_may_keep(struct waiter *k)
{
	const uint32_t size = k->kept_size ? k->kept_size * 2 : 8;
	struct channel **kept;
	struct pollfd *polls;

	if (k->kept_count < k->kept_size)
		return true;
	kept = realloc(k->kept, size * sizeof(*kept));
	if (!kept)
		return false;
	k->kept = kept;
	polls = realloc(k->polls, (size + 1) * sizeof(*polls));
	if (!polls)
		return false;
	k->polls = polls;
	k->kept_size = size;
	return true;
}

void client_waiter_collect(struct waiter *k, struct calls *incoming, struct calls *finished)
{
	struct channel *ch;
	uint64_t count;

	if (!atomic_load_explicit(&k->news, memory_order_relaxed))
		return;
	pthread_mutex_lock(&k->lock);
	if (k->signalled) {
		k->signalled = false;
		while (read(k->event_fd, &count, sizeof(count)) < 0 && errno == EINTR)
			;
	}
	k->news = false;
	ch = k->inbox;
	k->inbox = NULL;
	if (k->io) {
		TAILQ_CONCAT(incoming, &k->incoming, running);
		TAILQ_CONCAT(finished, &k->finished, link);
	}
	pthread_mutex_unlock(&k->lock);
	while (ch) {
		struct channel *next = ch->inbox_next;

		if (client_waiter_may_keep(k)) {
			k->kept[k->kept_count++] = ch;
		} else {
			client_channel_die(ch, -ENOMEM, "cannot be served: out of memory", k);
			client_channel_release(ch, k);
		}
		ch = next;
	}
}

/* Fills the poll array; returns the earliest time at which a channel must be checked again. */
static uint64_t prepare_waits(struct waiter *k, uint64_t until_ns, bool *all_open)
{
	*all_open = true;
	k->polls[0] = (struct pollfd){ .fd = k->event_fd, .events = POLLIN };
	for (uint32_t i = 0; i < k->kept_count; i++) {
		struct pollfd *p = &k->polls[i + 1];
		uint64_t when = UINT64_MAX;

		*p = (struct pollfd){ 0 };
		p->fd = client_channel_interest(k->kept[i], &p->events, &when);
		if (!(p->events & POLLIN))
			*all_open = false;
		if (when < until_ns)
			until_ns = when;
	}
	return until_ns;
}

static void wait_for_events(struct waiter *k, uint64_t until_ns)
{
	const uint64_t now = clock_ns();
	const uint64_t left = until_ns > now ? until_ns - now : 0;
	const struct timespec timeout = { (time_t)(left / 1000000000), (long)(left % 1000000000) };

	/* An error (EINTR) counts as no event: the caller looks at the clock and comes again. */
	if (ppoll(k->polls, k->kept_count + 1, until_ns == UINT64_MAX ? NULL : &timeout, NULL) < 0)
		for (uint32_t i = 0; i <= k->kept_count; i++)
			k->polls[i].revents = 0;
}

void client_waiter_turn(struct waiter *k, uint64_t until_ns)
{
	/* An idle I/O thread sleeps even with polling on: it has nothing to poll. */
	const bool spin = k->cluster->polling && (k->kept_count || !k->io);
	bool all_open;
	uint64_t now;

	until_ns = prepare_waits(k, until_ns, &all_open);
	if (!spin) {
		wait_for_events(k, until_ns);
	} else if (all_open) {
		/* Asking each socket for data takes one system call; polling first would take two. */
		for (uint32_t i = 1; i <= k->kept_count; i++)
			k->polls[i].revents = k->polls[i].events;
		__builtin_ia32_pause();
	} else {
		wait_for_events(k, 0);
	}
	now = clock_ns();
	for (uint32_t i = 0; i < k->kept_count; i++)
		client_channel_serve(k->kept[i], k->polls[i + 1].revents, now, k);
}

void client_waiter_release(struct waiter *k, bool all)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < k->kept_count; i++) {
		if (all || client_channel_idle(k->kept[i]))
			client_channel_release(k->kept[i], k);
		else
			k->kept[kept++] = k->kept[i];
	}
	k->kept_count = kept;
}

static bool is_finished(struct waiter *k, const struct call *call)
{
	bool finished;

	pthread_mutex_lock(&k->lock);
	finished = call->finished == CALL_FINISHED;
	pthread_mutex_unlock(&k->lock);
	return finished;
}

static _Thread_local struct {
	star_interrupted *ask; /* NULL: there is no callback to ask */
	void *arg;
} interrupted;

void star_set_interrupted(star_interrupted *ask, void *arg)
{
	interrupted.ask = ask;
	interrupted.arg = arg;
}

void client_waiter_wait(struct waiter *k, struct call *call)
{
	uint64_t ask_ns = interrupted.ask ? clock_ns() + INTERRUPTED_NS : UINT64_MAX;

	for (;;) {
		uint64_t now;

		client_waiter_collect(k, NULL, NULL);
		if (is_finished(k, call))
			break;
		if (call->cancelled) { /* it waits for copies that have begun; their end is signalled */
			client_waiter_turn(k, UINT64_MAX);
			continue;
		}
		now = clock_ns();
		if (atomic_load(&k->cluster->closing)) {
			call_cancel(call, -ECANCELED, k);
		} else if (now >= call->deadline_ns) {
			call_cancel(call, -ETIMEDOUT, k);
		} else if (now < ask_ns) {
			client_waiter_turn(k, call->deadline_ns < ask_ns ? call->deadline_ns : ask_ns);
		} else {
			ask_ns = now + INTERRUPTED_NS;
			if (interrupted.ask(interrupted.arg))
				call_cancel(call, -EINTR, k);
		}
	}
	/* A channel may have been added between collect and the end of the last part: rule 3. */
	client_waiter_collect(k, NULL, NULL);
	client_waiter_release(k, true);
}

static struct waiter *waiter_create(struct star_cluster *cluster, struct star_error *err)
{
	struct waiter *k = calloc(1, sizeof(*k));

	if (!k) {
		star_error_set(err, -ENOMEM, "out of memory for a thread's state");
		return NULL;
	}
	if (client_waiter_init(k, cluster, false, err) < 0) {
		free(k);
		return NULL;
	}
	pthread_mutex_lock(&cluster->lock);
	k->next_all = cluster->waiters;
	cluster->waiters = k;
	pthread_mutex_unlock(&cluster->lock);
	return k;
}

struct waiter *client_waiter_get(struct star_cluster *cluster, struct star_error *err)
{
	struct waiter *k;

	pthread_mutex_lock(&cluster->lock);
	k = cluster->waiters_free;
	if (k)
		cluster->waiters_free = k->next_free;
	pthread_mutex_unlock(&cluster->lock);
	return k ? k : waiter_create(cluster, err);
}

void client_waiter_put(struct waiter *k)
{
	struct star_cluster *cluster = k->cluster;

	pthread_mutex_lock(&cluster->lock);
	k->next_free = cluster->waiters_free;
	cluster->waiters_free = k;
	pthread_mutex_unlock(&cluster->lock);
}
