/* SPDX-License-Identifier: BSD-3-Clause */
/* The reactor's turn. */
#include "reactor/internal.h"

#include <pthread.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_prefetch.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "base/clock.h"

/* Limits per turn, so that no stage keeps the others waiting; the rest is done in the next turn. */
enum {
	TIMERS_MAX = 64,
	MESSAGES_MAX = 16,
	RECEIVE_BURSTS_MAX = 4, /* per port: room for the ACKs of what a turn sends, one for several segments */
};

/* Distributes a burst: frames of other reactors go to the rings, those of this reactor to the stack, in one call. A
 * single reactor keeps all. */
static void distribute(struct reactor *r, struct rte_mbuf **frames, unsigned n, uint64_t now_ns)
{
	uint64_t given = 0; /* one bit per reactor */
	unsigned mine = 0;

	for (unsigned i = 0; i < n; i++)
		rte_prefetch0(rte_pktmbuf_mtod(frames[i], void *));
	if (r->count == 1) {
		r->ops.receive(r->ops.ctx, frames, n, now_ns);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		struct rte_mbuf *frame = frames[i];
		const unsigned to = r->ops.steer(r->ops.ctx, frame);

		if (to < r->count && to != r->index) {
			reactor_hand_over_give(r, to, frame);
			given |= UINT64_C(1) << to;
			continue;
		}
		if (to == REACTOR_ALL) {
			reactor_hand_over_give_all(r, frame);
			given |= UINT64_MAX;
		}
		frames[mine++] = frame;
	}
	for (unsigned to = 0; given && to < r->count; to++)
		if (to != r->index && given >> to & 1)
			reactor_idle_wake(r->peers[to]);
	if (mine)
		r->ops.receive(r->ops.ctx, frames, mine, now_ns);
}

static unsigned receive_port(struct reactor *r, const struct port *port, uint64_t now_ns)
{
	struct rte_mbuf *frames[PORT_BURST];
	unsigned received = 0, n = PORT_BURST;

	for (unsigned burst = 0; n == PORT_BURST && burst < RECEIVE_BURSTS_MAX; burst++) {
		n = port_receive(port, (uint16_t)r->index, frames, PORT_BURST);
		if (unlikely(r->capture != NULL))
			reactor_capture_frames(r->capture, port->id, REACTOR_CAPTURE_IN, frames, n);
		if (n)
			distribute(r, frames, n, now_ns);
		received += n;
	}
	return received;
}

static unsigned receive(struct reactor *r, uint64_t now_ns)
{
	const unsigned polled = r->ops.poll ? r->ops.poll(r->ops.ctx, now_ns) : 0;
	unsigned received = 0;

	for (unsigned i = 0; i < r->ports_count; i++)
		received += receive_port(r, r->ports[i], now_ns);
	r->stats.received += received;
	return polled + received;
}

static unsigned run_messages(struct reactor *r, unsigned max)
{
	unsigned n;

	for (n = 0; n < max; n++) {
		struct reactor_message *message;

		if (rte_ring_sc_dequeue(r->mailbox, (void **)&message) != 0)
			break;
		message->run(r->ops.ctx, message);
		/* The last access: its sender may free it now. */
		__atomic_store_n(&message->done, 1, __ATOMIC_RELEASE);
	}
	return n;
}

/*
 * A driver may keep transmitted mbufs until it transmits more, and the pool may lack them for receiving and answering.
 */
static void clean(struct reactor *r)
{
	for (unsigned i = 0; i < r->ports_count; i++)
		port_clean(r->ports[i], (uint16_t)r->index);
}

/*
 * Returns whether there was something to do. *cycles is the time stamp counter at the beginning of the turn, and then
 * at its end: read after the transmit burst, so that ops can use it, unless there was no work, or housekeeping has done
 * some. So the counter is read once in most turns, and what comes after that burst counts for the next turn.
 */
static bool turn(struct reactor *r, uint64_t now_ns, uint64_t *cycles)
{
	const uint64_t begun = *cycles;
	unsigned work, kept = 0;

	reactor_hand_over_reclaim(r);
	work = receive(r, now_ns);
	work += reactor_hand_over_take(r, now_ns);
	work += r->ops.work(r->ops.ctx, now_ns);
	/* A timer alone is not work, as it would make an idle reactor spin. What it triggers is. */
	wheel_advance(r->ops.wheel, now_ns, TIMERS_MAX);
	work += run_messages(r, MESSAGES_MAX);
	work += reactor_transmit(r);
	if (work) {
		*cycles = clock_cycles();
		if (r->ops.sent)
			r->ops.sent(r->ops.ctx, begun, *cycles);
	}
	if (unlikely(port_mempool_low(r->pool)))
		clean(r);
	if (r->ops.housekeeping)
		kept = r->ops.housekeeping(r->ops.ctx, now_ns);
	if (!work || kept)
		*cycles = clock_cycles();
	return work + kept != 0;
}

static void account(struct reactor_stats *stats, bool busy, uint64_t cycles)
{
	stats->turns++;
	if (busy) {
		stats->busy_turns++;
		stats->busy_cycles += cycles;
	} else {
		stats->idle_cycles += cycles;
	}
}

static void run_turns(struct reactor *r)
{
	uint64_t cycles = clock_cycles();

	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
		const uint64_t now_ns = clock_ns();
		uint64_t end = cycles;
		const bool busy = turn(r, now_ns, &end);

		if (busy) {
			r->busy_ns = now_ns;
		} else if (!r->polling && now_ns - r->busy_ns >= r->spin_ns) {
			reactor_idle_sleep(r); /* counted as idle, because it belongs to this turn */
			end = clock_cycles();
		}
		account(&r->stats, busy, end - cycles);
		cycles = end;
	}
	/* Nothing is posted after the stop; messages posted before are run. */
	run_messages(r, MAILBOX_RING);
	if (r->ops.end)
		r->ops.end(r->ops.ctx);
	reactor_transmit_all(r, NULL);
	reactor_hand_over_reclaim(r);
}

void *reactor_loop(void *argument)
{
	struct reactor *r = argument;
	char name[16];

	snprintf(name, sizeof(name), "reactor-%u", r->index);
	pthread_setname_np(pthread_self(), name);
	/* An lcore id of its own, for the mempool's caches. */
	r->start_result = rte_thread_register() == 0 ? 0 : -rte_errno;
	/* Otherwise the kernel rounds sleeps up by 50 us; the stack's timers are as short as that. */
	prctl(PR_SET_TIMERSLACK, 1);
	sem_post(&r->registered);
	if (r->start_result == 0) {
		run_turns(r);
		rte_thread_unregister();
	}
	return NULL;
}
