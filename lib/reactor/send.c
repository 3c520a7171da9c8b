/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends what ops have queued to the ports. A full transmit ring is no reason to drop a frame, as TCP would take that
 * for a loss in the network. What does not fit waits in the port's backlog, as in the kernel's queue before a NIC, and
 * goes first in the next turn. A memif port has no backlog: its ring belongs to its client, which must not make the
 * reactor wait.
 */
#include "reactor/internal.h"

#include "base/clock.h"

enum {
	TRANSMIT_BURSTS_MAX = 16, /* per turn, so that the other stages do not wait */
	SEND_TRIES = 3,
	STUCK_TRIES = 1000, /* and STUCK_NS: a reactor that has lost its core for a while has not tried this often */
	STUCK_NS = 100000000,
	LAST_TRIES = 1000, /* and LAST_NS, in reactor_transmit_all: a slow ring may need seconds */
	LAST_NS = 300000000,
};

static unsigned send_now(struct reactor *r, const struct port *port, struct rte_mbuf **frames, unsigned n)
{
	uint64_t refused = 0;
	unsigned sent = 0;

	for (unsigned try = 0; sent < n && try < SEND_TRIES; try++)
		sent += port_transmit(port, (uint16_t)r->index, frames + sent, (uint16_t)(n - sent), &refused);
	r->stats.sent += sent - refused;
	r->stats.transmit_refused += refused;
	return sent;
}

static void send_drop(struct reactor *r, struct rte_mbuf **frames, unsigned n)
{
	r->stats.transmit_dropped += n;
	rte_pktmbuf_free_bulk(frames, n);
}

static struct reactor_backlog *backlog_of(struct reactor *r, const struct port *port)
{
	return port && port->id < RTE_MAX_ETHPORTS ? &r->backlogs[port->id] : NULL;
}

/*
 * Adds to the backlog, and drops the rest: if there is no room, or if mbufs are so short that nothing could be
 * received.
 */
static void backlog_add(struct reactor *r, struct reactor_backlog *backlog, struct rte_mbuf **frames, unsigned n)
{
	unsigned fit = 0;

	if (backlog && !backlog->stuck && !port_mempool_low(r->pool))
		fit = RTE_MIN(n, RTE_DIM(backlog->frames) - backlog->n);
	if (fit) {
		if (backlog->n == 0) {
			backlog->tries = 0;
			backlog->progress_ns = clock_ns();
		}
		memcpy(backlog->frames + backlog->n, frames, fit * sizeof(frames[0]));
		backlog->n += fit;
		r->waiting += fit;
	}
	if (fit < n)
		send_drop(r, frames + fit, n - fit);
}

static void backlog_take(struct reactor *r, struct reactor_backlog *backlog, unsigned n)
{
	backlog->n -= n;
	r->waiting -= n;
	memmove(backlog->frames, backlog->frames + n, backlog->n * sizeof(backlog->frames[0]));
}

static void backlog_drop(struct reactor *r, struct reactor_backlog *backlog)
{
	send_drop(r, backlog->frames, backlog->n);
	backlog_take(r, backlog, backlog->n);
}

/* Sends all that the ring takes: what is queued in a turn may be many bursts, and would otherwise find the backlog
 * full. Without a link most drivers take frames until the ring is full, and then none: nothing waits for that. */
static void backlog_send(struct reactor *r, const struct port *port, struct reactor_backlog *backlog)
{
	const uint64_t now_ns = clock_ns(); /* read before the attempt: the core may be lost for a long time after it */
	unsigned sent = 0, part, asked;

	do {
		asked = RTE_MIN(backlog->n - sent, (unsigned)PORT_BURST);
		part = asked ? send_now(r, port, backlog->frames + sent, asked) : 0;
		sent += part;
	} while (part && part == asked);
	if (sent) {
		backlog_take(r, backlog, sent);
		backlog->tries = 0;
		backlog->progress_ns = clock_ns();
	} else if (++backlog->tries > STUCK_TRIES && now_ns > backlog->progress_ns + STUCK_NS) {
		backlog->stuck = true;
		backlog_drop(r, backlog);
	}
}

static void send_run(struct reactor *r, struct rte_mbuf **frames, unsigned n)
{
	const uint16_t id = frames[0]->port;
	const struct port *port = id < PORT_IDS_MAX ? r->port_of[id] : NULL;
	struct reactor_backlog *backlog = backlog_of(r, port);
	unsigned sent = 0;

	if (unlikely(r->capture != NULL))
		reactor_capture_frames(r->capture, id, REACTOR_CAPTURE_OUT, frames, n);
	if (port && likely(!backlog || backlog->n == 0)) {
		sent = send_now(r, port, frames, n);
		if (backlog && sent)
			backlog->stuck = false;
	}
	if (unlikely(sent < n))
		backlog_add(r, backlog, frames + sent, n - sent);
}

unsigned reactor_transmit(struct reactor *r)
{
	struct rte_mbuf *frames[PORT_BURST];
	unsigned total = 0, n = PORT_BURST;

	for (unsigned i = 0; unlikely(r->waiting) && i < r->ports_count; i++) {
		struct reactor_backlog *backlog = backlog_of(r, r->ports[i]);

		if (backlog && backlog->n)
			backlog_send(r, r->ports[i], backlog);
	}
	for (unsigned burst = 0; n == PORT_BURST && burst < TRANSMIT_BURSTS_MAX; burst++) {
		n = r->ops.transmit(r->ops.ctx, frames, PORT_BURST);
		total += n;
		/* Runs of frames for the same port; nearly always the whole burst. */
		for (unsigned from = 0, to; from < n; from = to) {
			for (to = from + 1; to < n && frames[to]->port == frames[from]->port; to++)
				;
			send_run(r, frames + from, to - from);
		}
	}
	return total + r->waiting;
}

static unsigned waiting_for(struct reactor *r, const struct port *port)
{
	const struct reactor_backlog *backlog = backlog_of(r, port);

	return backlog ? backlog->n : 0;
}

void reactor_transmit_all(struct reactor *r, const struct port *port)
{
	enum { ROUNDS = 16 }; /* ops bound how much is queued, but one round may trigger the next */
	const uint64_t begin_ns = clock_ns();
	unsigned tries = 0;

	/* Until the ring has taken everything, or is stuck, or the time is over. */
	for (unsigned round = 0; round < ROUNDS && reactor_transmit(r) > 0; round++)
		while ((port ? waiting_for(r, port) : r->waiting) &&
		       (tries++ < LAST_TRIES || clock_ns() - begin_ns < LAST_NS))
			reactor_transmit(r);
	for (unsigned i = 0; i < r->ports_count; i++)
		if ((!port || r->ports[i] == port) && waiting_for(r, r->ports[i]))
			backlog_drop(r, backlog_of(r, r->ports[i]));
}

bool reactor_drain_port(struct reactor *r, const struct port *port)
{
	reactor_transmit(r);
	return waiting_for(r, port) == 0;
}
