/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reactor: one thread that owns a queue pair of every port and what is built on it (its stack, its shard), and runs
 * them in turns: receive, hand-over, work, timers, mailbox, transmit, housekeeping. It knows neither TCP nor
 * parameters: those are behind struct reactor_ops.
 *
 * Threads: everything but reactor_post, reactor_stats and the calls of the control path (create, start, stop, destroy)
 * belongs to the reactor's own thread. Between reactors there are only single-producer single-consumer rings.
 */
#ifndef REACTOR_REACTOR_H
#define REACTOR_REACTOR_H

#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/wheel.h"
#include "port/port.h"
#include "reactor/counters.h"
#include "star_error.h"

enum { REACTOR_MAX = 64, REACTOR_HERE = 0xfffe, REACTOR_ALL = 0xffff };

/* A message from the control path; the sender owns it, and waits for done with reactor_wait. */
struct reactor_message {
	void (*run)(void *ctx, struct reactor_message *message); /* on the reactor's thread; ctx is reactor_ops' */
	uint32_t done;						 /* set by the reactor after run, with release */
};

struct reactor_ops {
	void *ctx;
	/* Returns the reactor to which a received frame belongs: its index, REACTOR_HERE, or REACTOR_ALL (a copy for
	 * each: ARP and ND). An index without a reactor means REACTOR_HERE. Only reads the frame, which may be damaged
	 * or hostile. */
	unsigned (*steer)(void *ctx, const struct rte_mbuf *frame);
	/* Instead of ports: receives some of what has arrived otherwise, and returns how much it did. NULL: there are
	 * ports. */
	unsigned (*poll)(void *ctx, uint64_t now_ns);
	/* With poll: sleeps until there is something for it, the event descriptor wake_fd is written, or ns nanoseconds
	 * are over; sometimes for less. It reads what was written. */
	void (*sleep)(void *ctx, int wake_fd, uint64_t ns);
	/* Takes ownership of n <= PORT_BURST frames, all of the reactor's own pool. frame->port is DPDK's id of the
	 * port by which they arrived. */
	void (*receive)(void *ctx, struct rte_mbuf **frames, unsigned n, uint64_t now_ns);
	/* Executes one slice of pending work (requests); returns how much it did; 0: there is none, and the reactor may
	 * sleep. */
	unsigned (*work)(void *ctx, uint64_t now_ns);
	/* Returns up to max frames to send, each with ->port set; called again while it returns max. */
	unsigned (*transmit)(void *ctx, struct rte_mbuf **frames, unsigned max);
	/* After the transmit burst of a turn that did work: the time stamp counter at the turn's beginning, and now.
	 * NULL: not needed. */
	void (*sent)(void *ctx, uint64_t begun, uint64_t ended);
	/* At the end of a turn, when its frames are sent: executes a slice of at most some tens of microseconds of work
	 * for which no request waits. Returns as work does. NULL: there is none. */
	unsigned (*housekeeping)(void *ctx, uint64_t now_ns);
	/* Once, after the last turn: completes what must not stay half done. Nothing is received any more, and what it
	 * leaves to transmit is sent. NULL: there is nothing. */
	void (*end)(void *ctx);
	/* The stack's timers. A reactor with nothing to do sleeps until the next is due. */
	struct wheel *wheel;
};

struct reactor_options {
	unsigned index;
	bool polling;	  /* never sleep */
	int core;	  /* pin the thread to this core; -1: do not */
	uint32_t spin_us; /* without polling: how long to spin before a sleep */
	struct port *const *ports;
	unsigned ports_count;
	struct rte_mempool *pool; /* for copies of handed-over frames */
	struct reactor_ops ops;
};

struct reactor;

/*
 * First all reactors are created, then joined, then started. reactor_join creates the hand-over rings between each two
 * (33 KiB per pair and direction, 9 KiB with more than 16 reactors). It refuses more polling reactors than there are
 * usable cores, a core that is not usable, and one core for two reactors. All must be stopped before the first is
 * destroyed: that frees what is left in the rings, so that every mbuf that ops do not hold is back in its pool.
 */
struct reactor *reactor_create(const struct reactor_options *options, struct star_error *err);
int reactor_join(struct reactor *const *reactors, unsigned count, struct star_error *err);
int reactor_start(struct reactor *reactor, struct star_error *err);
/* Stops the thread and waits for it: it first finishes its turn and the messages posted until now, and sends what waits
 * for a slow port, for some tenths of a second. May be called twice. */
void reactor_stop(struct reactor *reactor);
void reactor_destroy(struct reactor *reactor);

/* From ops, on the reactor's own thread: passes a frame of its own pool to another reactor, as if steer had returned
 * that one. */
void reactor_give(struct reactor *reactor, unsigned to, struct rte_mbuf *frame);

/*
 * From a message's run, on the reactor's own thread: the set of its ports changes between turns, at no cost to the
 * turn. Before a port is removed, frames of ops for it are sent, as far as its ring takes them within some tenths of a
 * second. Nothing else is done meanwhile, so call reactor_drain_port first, in messages, until nothing waits for the
 * port. Frames that ops send to it later are dropped and counted. -ENOSPC: there are CONFIG_PORTS_MAX already.
 */
int reactor_add_port(struct reactor *reactor, struct port *port);
bool reactor_drain_port(struct reactor *reactor, const struct port *port);
void reactor_remove_port(struct reactor *reactor, const struct port *port);

/* From a message's run: captures received and sent frames from now on; NULL: no longer. */
struct reactor_capture;
void reactor_set_capture(struct reactor *reactor, struct reactor_capture *capture);

/* Puts a message into the mailbox (from any control thread) and wakes the reactor. An accepted message is run, unless
 * the reactor is never started. -EAGAIN: the mailbox is full; -ESHUTDOWN: reactor_stop was called. */
int reactor_post(struct reactor *reactor, struct reactor_message *message);

/* Waits until the message was run; -ETIMEDOUT after timeout_us (then the message must stay valid until it was run). */
int reactor_wait(const struct reactor_message *message, uint64_t timeout_us);

const struct reactor_stats *reactor_stats(const struct reactor *reactor);

#endif
