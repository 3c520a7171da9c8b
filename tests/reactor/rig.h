/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test rig: reactors on ports that are made of rings in this process, so that neither root nor an interface is
 * needed. What is put into a queue is a number; the port's receive function makes a frame of it, in the reactor's
 * thread and from its pool, as a driver does. Queues are chosen by the test: it plays the driver that spreads flows
 * wrongly.
 */
#ifndef TESTS_REACTOR_RIG_H
#define TESTS_REACTOR_RIG_H

#include <rte_mempool.h>
#include <rte_ring.h>

#include "reactor/reactor.h"

enum { RIG_FRAMES_MAX = 1 << 16, RIG_PORTS_MAX = 2, RIG_PORT_ID = 20 };

/* What a node does with a frame that it receives. */
enum rig_mode {
	RIG_FREE,
	RIG_HOLD,
	RIG_ECHO,
	RIG_LATE, /* holds them, and echoes them when the reactor ends */
	RIG_GIVE, /* the first gives to the second, which frees */
};

/* The owner of a reactor's ops. */
struct rig_node {
	struct rig *rig;
	unsigned index;
	struct reactor *reactor;
	struct rte_mempool *pool;
	struct wheel wheel;
	enum rig_mode mode;
	struct rte_mbuf *held[4096];
	unsigned held_count;
	unsigned dawdle;       /* how long transmit takes, in pauses */
	uint64_t work;	       /* slices of work left */
	uint64_t housekeeping; /* and of what is done at a turn's end */
	uint64_t sent,
		ended; /* turns that were told when their transmit burst ended, and when; read by the test's thread */
	uint64_t ends; /* calls of end on the reactor's thread */
	uint64_t received; /* read by the test's thread */
	uint64_t before;   /* of them before this turn */
	uint64_t turn_max; /* the most in one turn; read by the test's thread */
	/* frames that are damaged, of a foreign pool, on a foreign thread, or not sent at a turn's end */
	uint64_t wrong;
	uint8_t seen[RIG_FRAMES_MAX];
	pthread_t thread; /* the first that called */
};

struct rig_queue {
	struct rte_ring *numbers;
	struct rte_mempool *pool;
	int ring_fd; /* readable when numbers may be there; -1: the port cannot ring */
	uint16_t port;
	/* The transmit side. */
	uint32_t room;	  /* frames that it takes, and then no more */
	uint32_t refuses; /* this many calls, before it takes any */
	uint32_t nap_us;  /* before it says so for the last time */
	uint32_t slow;	  /* it takes one frame in this many calls; 0: it does not hesitate */
	uint32_t calls;
	uint64_t pause_ns; /* it takes one frame, and then none for this long; 0: it does not rest */
	uint64_t took_ns;
	uint64_t sent;
	uint32_t order[256]; /* the first numbers that were sent */
	struct rte_mbuf *kept[512];
	unsigned kept_count;
};

struct rig_options {
	unsigned reactors, ports;
	uint32_t mbufs;
	bool polling, rings; /* rings: the ports have wait fds */
	uint32_t spin_us;
	enum rig_mode mode;
};

struct rig {
	struct rig_options options;
	struct rig_node *nodes[REACTOR_MAX];
	struct port ports[RIG_PORTS_MAX];
	struct rig_queue queues[RIG_PORTS_MAX][REACTOR_MAX];
	void *rx_data[RIG_PORTS_MAX][REACTOR_MAX], *tx_data[RIG_PORTS_MAX][REACTOR_MAX];
	void *callbacks[REACTOR_MAX]; /* none */
};

/* Starts the EAL when that was not done yet. */
void rig_eal(void);

struct rig *rig_create(const struct rig_options *options);
/* The options of one of its reactors, to change and use. */
void rig_reactor_options(struct rig *rig, unsigned index, struct reactor_options *options);
void rig_start(struct rig *rig);
/* Stops and destroys the reactors, and checks that all mbufs are back. */
void rig_destroy(struct rig *rig);

/* The first queue's driver keeps what it has sent until it is told to clean up, as some do. One rig at a time. */
void rig_keep_sent(struct rig *rig);

/* Puts a frame with this number into a queue, to be steered to a reactor (or REACTOR_HERE, REACTOR_ALL). */
void rig_inject(struct rig *rig, unsigned port, unsigned queue, unsigned to, uint32_t number);

/* Waits until *counter, which another thread writes, is at least value; false after ten seconds. */
bool rig_await(const uint64_t *counter, uint64_t value);
uint64_t rig_read(const uint64_t *counter);
uint64_t rig_received(const struct rig *rig);
/* Waits until all nodes together have received that many frames. */
bool rig_await_received(const struct rig *rig, uint64_t value);

/* Keeps a reactor busy from now until the release: in rig_block it has arrived there. */
struct rig_block {
	struct reactor_message message;
	uint32_t arrived, released;
};
void rig_block(struct reactor *reactor, struct rig_block *block);
void rig_release(struct rig_block *block);

#endif
