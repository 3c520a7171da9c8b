/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/reactor share. */
#ifndef REACTOR_INTERNAL_H
#define REACTOR_INTERNAL_H

#include <pthread.h>
#include <rte_ring.h>
#include <semaphore.h>

#include "reactor/capture.h"
#include "reactor/reactor.h"

enum {
	/* Frames under way from one reactor to another, less one. A reactor that has lost its core for some
	 * milliseconds must find them all when it comes back: senders pay a lost one with a retransmission timeout. */
	HAND_OVER_RING = 2048,
	HAND_OVER_RING_MANY = 512, /* with more than HAND_OVER_FEW reactors, whose pairs are many */
	HAND_OVER_FEW = 16,
	MAILBOX_RING = 256,
	BACKLOG = 512, /* frames that wait for a port: half of the kernel's queue, and of CONFIG_OWN_MBUFS */
};

/*
 * Frames from one reactor, the owner of their pool, to another one, the consumer. A pool has one producer and one
 * consumer, so the consumer may not free a frame: it copies it, and puts the original on the way back. The owner counts
 * what is under way (`in_flight`) and stops at the rings' capacity; so neither can overflow.
 */
struct link {
	struct rte_ring *hand_over_ring, *return_ring; /* SP/SC both */
};

/* What a port's ring had no room for, in order (send.c). */
struct reactor_backlog {
	unsigned n;
	unsigned tries;	      /* in vain, since the ring took something */
	uint64_t progress_ns; /* when it did */
	bool stuck;	      /* it takes nothing: frames are dropped at once until it does */
	struct rte_mbuf *frames[BACKLOG];
};

struct reactor {
	/* Constant while the thread runs. */
	unsigned index, count;
	bool polling;
	int core;
	int poll_fd; /* of ops.poll */
	uint64_t spin_ns;
	struct reactor_ops ops;
	struct rte_mempool *pool;
	int event_fd;
	struct rte_ring *mailbox;
	struct reactor *peers[REACTOR_MAX];
	struct link out[REACTOR_MAX]; /* our frames; made and freed by us */
	struct link in[REACTOR_MAX];  /* theirs */
	pthread_t thread;
	bool running;
	sem_t registered; /* posted by the thread when start_result holds */
	int start_result;

	/* Written by the reactor's thread alone, once it runs. Ports change between turns (ports.c). */
	struct reactor_stats stats __rte_cache_aligned;
	struct port *ports[CONFIG_PORTS_MAX];
	unsigned ports_count;
	struct reactor_capture *capture;		   /* NULL: nobody looks */
	const struct port *port_of[PORT_IDS_MAX];	   /* by id */
	uint32_t in_flight[REACTOR_MAX];		   /* frames on the way to each other reactor, or back */
	unsigned next_peer;				   /* whose frames are taken first */
	uint64_t busy_ns;				   /* when there was work last */
	unsigned waiting;				   /* frames in all backlogs */
	struct reactor_backlog backlogs[RTE_MAX_ETHPORTS]; /* by port id */

	/* Written by the reactor's thread, read by all that could wake it. */
	uint32_t sleeping __rte_cache_aligned;

	/* Written by the control path. */
	uint32_t stop __rte_cache_aligned;
	pthread_mutex_t mailbox_lock; /* protects mailbox's producer side, and closed */
	bool closed;
};

/* The thread's main function; takes a struct reactor. */
void *reactor_loop(void *argument);

/* send.c: gives what ops have to send to the ports; returns how many frames that were, and how many wait for room. */
unsigned reactor_transmit(struct reactor *r);
/* The same until ops have nothing more, and nothing waits for the port (NULL: for any); what a slow ring has not taken
 * after a while is dropped. */
void reactor_transmit_all(struct reactor *r, const struct port *port);

/* handover.c: the rings between two reactors, and their use by owner and consumer. */
int reactor_hand_over_create(struct reactor *owner, struct reactor *consumer);
void reactor_hand_over_destroy(struct reactor *owner, unsigned consumer);
/* Gives a frame to another reactor, or drops and counts it. */
void reactor_hand_over_give(struct reactor *r, unsigned consumer, struct rte_mbuf *frame);
/* Gives a copy to each other reactor; the frame stays. */
void reactor_hand_over_give_all(struct reactor *r, struct rte_mbuf *frame);
/* Takes what others gave, and passes it to ops.receive; returns how many. */
unsigned reactor_hand_over_take(struct reactor *r, uint64_t now_ns);
/* Frees the own frames that came back. */
void reactor_hand_over_reclaim(struct reactor *r);
bool reactor_hand_over_waiting(const struct reactor *r);

/* idle.c: sleeping, and waking the sleeper. */
void reactor_idle_sleep(struct reactor *r);
/* After something was put where r finds it. From any thread. */
void reactor_idle_wake(struct reactor *r);

#endif
