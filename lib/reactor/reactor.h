/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reactor: one thread that owns a queue pair of every port, and what is built on it (its stack, its shard), and runs
 * them in turns: receive, hand-over, work, timers, mailbox, transmit, housekeeping. It knows neither TCP nor
 * parameters: those are behind struct reactor_ops.
 *
 * Threads: everything but reactor_post, reactor_stats and the calls of the control path (create, start, stop, destroy)
 * belongs to the reactor's own thread. Between reactors there are single-producer single-consumer rings only.
 */
#ifndef REACTOR_REACTOR_H
#define REACTOR_REACTOR_H

#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/wheel.h"
#include "port/port.h"
#include "star_error.h"

enum { REACTOR_MAX = 64, REACTOR_HERE = 0xfffe, REACTOR_ALL = 0xffff };

/* A message from the control path; the sender owns it, and waits for done with reactor_wait. */
struct reactor_message {
	void (*run)(void *ctx, struct reactor_message *message); /* on the reactor's thread; ctx is reactor_ops' */
	uint32_t done;						 /* set by the reactor after run, with release */
};

struct reactor_ops {
	void *ctx;
	/* Which reactor a received frame belongs to: its index, REACTOR_HERE, or REACTOR_ALL (a copy for each: ARP and
	 * ND). An index beyond the reactors is taken for REACTOR_HERE. Reads the frame only; it may be damaged or
	 * hostile. */
	unsigned (*steer)(void *ctx, const struct rte_mbuf *frame);
	/* Instead of ports: receives what has come by other ways, some of it, and returns how much it did. NULL: there
	 * are ports. */
	unsigned (*poll)(void *ctx, uint64_t now_ns);
	/* Takes n <= PORT_BURST frames, all of the own pool, and owns them. frame->port is DPDK's id of the port that
	 * they came in by. */
	void (*receive)(void *ctx, struct rte_mbuf **frames, unsigned n, uint64_t now_ns);
	/* One slice of pending work (requests); returns how much it did, 0 when there is none: it may sleep then. */
	unsigned (*work)(void *ctx, uint64_t now_ns);
	/* Gives up to max frames to send, each with ->port set; called again while it returns max. */
	unsigned (*transmit)(void *ctx, struct rte_mbuf **frames, unsigned max);
	/* After the transmit burst of a turn that did work: the time stamp counter as it began, and now. NULL: nobody
	 * wants to know. */
	void (*sent)(void *ctx, uint64_t begun, uint64_t ended);
	/* At the end of a turn, when what it had to send is on its way: a slice of what no request waits for, up to
	 * some tens of microseconds. Returns as work does. NULL: there is none. */
	unsigned (*housekeeping)(void *ctx, uint64_t now_ns);
	/* The stack's timers. A reactor with nothing to do sleeps until the next is due. */
	struct wheel *wheel;
};

/* Plain counters with one writer, the reactor; any thread may read them. X(name, what it counts), or F,
 * where something went wrong: `errors` of a node's status. */
#define REACTOR_COUNTERS(X, F) \
	X(turns, "turns of the loop") \
	X(busy_turns, "turns that did work") \
	X(sleeps, "times it slept") \
	X(received, "frames taken from ports") \
	X(sent, "frames given to ports") \
	X(handed_over, "frames given to another reactor") \
	X(handed_in, "frames taken from another reactor") \
	F(hand_over_full, "frames dropped: the other reactor's ring, or the own mempool, was full") \
	F(transmit_dropped, "frames dropped: the port took none for long, or too many waited for it") \
	F(transmit_refused, "frames that the driver finds wrong for the device")

struct reactor_stats {
#define X(name, text) uint64_t name;
	REACTOR_COUNTERS(X, X)
#undef X
	uint64_t busy_cycles, idle_cycles; /* of turns that did work, and of the others, sleep included */
};

struct reactor_options {
	unsigned index;
	bool polling;	  /* never sleep */
	int core;	  /* pin the thread there; -1: do not */
	uint32_t spin_us; /* without polling: how long to spin before a sleep */
	struct port *const *ports;
	unsigned ports_count;
	int poll_fd;		  /* with ops.poll: readable when there is something for it; else -1 */
	struct rte_mempool *pool; /* for copies of handed-over frames */
	struct reactor_ops ops;
};

struct reactor;

/*
 * Reactors are created first, all of them, then joined, then started. The join makes the hand-over rings between each
 * two (33 KiB a pair and direction, 9 KiB with more than 16 reactors), and refuses more polling reactors than there are
 * usable cores, a core that is not usable, and one core for two. All are stopped before the first is destroyed: that
 * frees what still lies in the rings, so that every mbuf that ops do not hold is back in its pool.
 */
struct reactor *reactor_create(const struct reactor_options *options, struct star_error *err);
int reactor_join(struct reactor *const *reactors, unsigned count, struct star_error *err);
int reactor_start(struct reactor *reactor, struct star_error *err);
/* Asks, and waits for the thread: its turn and the messages posted until now are run first, and what waits for a slow
 * port is sent, for some tenths of a second. May be called twice. */
void reactor_stop(struct reactor *reactor);
void reactor_destroy(struct reactor *reactor);

/* From ops, on the reactor's own thread: gives a frame of the own pool to another reactor, as if steer had said so. */
void reactor_give(struct reactor *reactor, unsigned to, struct rte_mbuf *frame);

/*
 * From a message's run, on the reactor's own thread: the set of its ports changes between turns, and costs the turn
 * nothing. Before a port is removed, what ops have to send is sent, as far as its ring takes it within some tenths of a
 * second: nothing else is done meanwhile, so reactor_drain_port is asked first, in messages, until nothing waits for
 * the port any more. What ops still send to it later is dropped and counted. -ENOSPC when there are CONFIG_PORTS_MAX
 * already.
 */
int reactor_add_port(struct reactor *reactor, struct port *port);
bool reactor_drain_port(struct reactor *reactor, const struct port *port);
void reactor_remove_port(struct reactor *reactor, const struct port *port);

/* From a message's run: the frames that come and go are captured from now on; NULL: they are not any more. */
struct reactor_capture;
void reactor_set_capture(struct reactor *reactor, struct reactor_capture *capture);

/* Puts a message into the mailbox (from any control thread) and wakes the reactor. A message that was accepted is run,
 * unless the reactor is never started. -EAGAIN when the mailbox is full, -ESHUTDOWN once reactor_stop was called. */
int reactor_post(struct reactor *reactor, struct reactor_message *message);

/* Waits until the message was run; -ETIMEDOUT after timeout_us (the message must then stay alive until it was). */
int reactor_wait(const struct reactor_message *message, uint64_t timeout_us);

const struct reactor_stats *reactor_stats(const struct reactor *reactor);

#endif
