/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/reactor share. The members of struct reactor are grouped by which thread writes them. */
#ifndef REACTOR_INTERNAL_H
#define REACTOR_INTERNAL_H

#include <pthread.h>
#include <rte_ring.h>
#include <semaphore.h>

#include "reactor/capture.h"
#include "reactor/reactor.h"

enum {
	/* Size of a ring: frames under way from one reactor to another, plus one. A reactor that was descheduled for
	 * some milliseconds must find them all when it continues, because a lost one costs its sender a retransmission
	 * timeout. */
	HAND_OVER_RING = 2048,
	HAND_OVER_RING_MANY = 512, /* with more than HAND_OVER_FEW reactors, because there are many pairs */
	HAND_OVER_FEW = 16,
	MAILBOX_RING = 256,
	BACKLOG = 512, /* frames that wait for a port: half of the kernel's queue, and of CONFIG_OWN_MBUFS */
};

/*
 * The rings for frames from one reactor, the owner of their mempool, to another one, the consumer. A pool has one
 * producer and one consumer, so the consumer must not free a frame: it copies it, and returns the original by the
 * return ring. The owner counts frames under way (`in_flight`) and stops at the rings' capacity, so neither ring can
 * overflow.
 */
struct link {
	struct rte_ring *hand_over_ring, *return_ring; /* both single-producer, single-consumer */
};

/* Frames for which a port's transmit ring had no room, in order (send.c). */
struct reactor_backlog {
	unsigned n;
	unsigned tries;	      /* failed attempts since the ring last accepted something */
	uint64_t progress_ns; /* when that was */
	bool stuck;	      /* the ring accepts nothing: frames are dropped at once until it does */
	struct rte_mbuf *frames[BACKLOG];
};

struct reactor {
	/* Constant while the thread runs. */
	unsigned index, count;
	bool polling;
	int core;
	uint64_t spin_ns;
	struct reactor_ops ops;
	struct rte_mempool *pool;
	int event_fd;
	struct rte_ring *mailbox;
	struct reactor *peers[REACTOR_MAX];
	struct link out[REACTOR_MAX]; /* for our frames; created and freed by this reactor */
	struct link in[REACTOR_MAX];  /* for frames of others */
	pthread_t thread;
	bool running;
	sem_t registered; /* posted by the thread when start_result is set */
	int start_result;

	/* Written by the reactor's thread alone, once it runs. Ports change between turns (ports.c). */
	struct reactor_stats stats __rte_cache_aligned;
	struct port *ports[CONFIG_PORTS_MAX];
	unsigned ports_count;
	struct reactor_capture *capture;		   /* NULL: nothing is captured */
	const struct port *port_of[PORT_IDS_MAX];	   /* by id */
	uint32_t in_flight[REACTOR_MAX];		   /* frames on the way to each other reactor, or back */
	unsigned next_peer;				   /* the peer whose frames are received first */
	uint64_t busy_ns;				   /* when there was last work */
	unsigned waiting;				   /* frames in all backlogs */
	struct reactor_backlog backlogs[RTE_MAX_ETHPORTS]; /* by port id */

	/* Written by the reactor's thread, read by all threads that may wake it. */
	uint32_t sleeping __rte_cache_aligned;

	/* Written by the control path. */
	uint32_t stop __rte_cache_aligned;
	pthread_mutex_t mailbox_lock; /* protects mailbox's producer side, and closed */
	bool closed;
};

/* The thread's main function; argument: a struct reactor. */
void *reactor_loop(void *argument);

/* send.c: sends the frames of ops through the ports. Returns their number, plus that of frames that wait for room. */
unsigned reactor_transmit(struct reactor *r);
/* The same until ops have nothing more, and nothing waits for the port (NULL: for any port). What a slow ring does not
 * accept after a while is dropped. */
void reactor_transmit_all(struct reactor *r, const struct port *port);

/* handover.c: the rings between two reactors, and their use by owner and consumer. */
int reactor_hand_over_create(struct reactor *owner, struct reactor *consumer);
void reactor_hand_over_destroy(struct reactor *owner, unsigned consumer);
/* Hands a frame over to another reactor, or drops and counts it. */
void reactor_hand_over_give(struct reactor *r, unsigned consumer, struct rte_mbuf *frame);
/* Hands a copy over to each other reactor. The caller keeps the frame. */
void reactor_hand_over_give_all(struct reactor *r, struct rte_mbuf *frame);
/* Receives frames from other reactors, and passes copies to ops.receive. Returns their number. */
unsigned reactor_hand_over_take(struct reactor *r, uint64_t now_ns);
/* Frees our own frames that were returned. */
void reactor_hand_over_reclaim(struct reactor *r);
bool reactor_hand_over_waiting(const struct reactor *r);

/* idle.c: sleeps until there is work. */
void reactor_idle_sleep(struct reactor *r);
/* Wakes r, after something was put where it finds it. From any thread. */
void reactor_idle_wake(struct reactor *r);

#endif
