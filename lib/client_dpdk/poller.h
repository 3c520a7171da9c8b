/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport by DPDK: one port, one stack and one endpoint of datagrams per process, which all its cluster handles
 * share.
 *
 * Which thread drives it. All of it belongs to one thread at a time, the driver, which holds the poller's lock. The
 * driver is a thread that waits in star_execute, which then sends its own request and receives its own reply without a
 * hand-over or a system call; otherwise it is an I/O thread. The rules:
 *
 *  1. No thread sleeps with the lock, and none waits for it for long: a driver releases it when its own call is
 *     finished, when nothing has happened for SPIN_NS, or when another thread wants it (dpdk_poller_lock). With
 *     `polling` the I/O thread drives as long as no other thread wants to.
 *  2. A call that is made while another thread drives goes to the inbox, which the driver empties in each turn, and
 *     before it starts a call of its own: so calls keep the order in which they were made.
 *  3. A thread that has a call in flight and does not drive sleeps, for at most DOZE_MAX_NS, and then tries to drive. A
 *     driver that leaves wakes one of the sleepers; a driver that finishes a call wakes its thread.
 *  4. An I/O thread sleeps until something is due (a heartbeat, a retransmission). For WATCH_NS after there was
 *     something to do, it checks every DOZE_MAX_NS, so that what the last caller left (an acknowledgement that waits
 *     for data to be sent with) is sent.
 *  5. A small call that does not wait may be sent together with those made next (may_defer in transport.c): in the next
 *     turn of the thread that drives.
 *  6. The driver copies a reply to the caller's rows after its part was taken off the channel. The call's owner keeps
 *     the deadline, and needs the lock to take its parts off: so nothing is written to memory that was returned to the
 *     caller.
 */
#ifndef CLIENT_DPDK_POLLER_H
#define CLIENT_DPDK_POLLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "client/client.h"
#include "net/net.h"
#include "port/port.h"
#include "rpc/datagram.h"

enum poller_times {
	SPIN_NS = 50000,	   /* an I/O thread with nothing to do stops driving after this time */
	SPIN_WAITING_NS = 2000000, /* and one that waits for a call: a peer would take a longer pause for congestion */
	DOZE_MIN_NS = 20000,	   /* a sleep grows with the time in which nothing has arrived, from this ... */
	DOZE_MAX_NS = 1000000,	   /* ... to this */
	WATCH_NS = 10000000,	   /* for how long an I/O thread checks often after something has happened */
	LINK_CHECK_NS = 10000000,  /* between checks of the port's link */
	LINK_RETRY_NS = 2000000,   /* the same while it has none */
	IDLE_MAX_NS = 1000000000,
	ACK_DELAY_NS = 2000, /* how long an acknowledgement waits for data to be sent with */
};

/* Packets that may be queued in a session before further requests wait: enough to fill any path, and few enough for the
 * pool. */
enum { DPDK_QUEUED_MAX = 2048 };

/* A channel's part of this transport. The driver's. */
struct stream {
	struct channel *ch;
	struct poller *poller;
	struct dgram_session *session; /* NULL: none */
	struct net_address address;    /* its address now, or earlier: the channel's at that time */
	uint16_t port;
	bool was_open;		  /* since the session was made */
	bool paired;		  /* there was another address at the last check */
	bool looks;		  /* it is time to check whether the node is there */
	uint8_t silent_looks;	  /* number in a row without an answer */
	uint64_t looked_heard_ns; /* when the node had last been heard from, at the last check */
	bool dirty;		  /* in the poller's list, because there may be something to do */
	struct dgram_seal *seal;  /* keys of its sessions, if the node requires tickets; otherwise NULL */
	uint64_t ticket;	  /* number of the last one that was used */
	int doom;		  /* it must be closed, with this errno */
	bool lost;		  /* with that: what is in flight may be sent again */
	char why[WIRE_ERROR_TEXT_MAX + 64];
	struct wheel_timer timer; /* for what the channel waits for */
	struct wheel_timer watch; /* for the next check of an open session */
	TAILQ_ENTRY(stream) link;
};
TAILQ_HEAD(streams, stream);

struct poller {
	/* used by any thread */
	_Atomic(uint32_t) locked;
	_Alignas(64) _Atomic(struct call *) inbox; /* the newest first */
	_Atomic(uint32_t) wanted;		   /* threads in dpdk_poller_lock */
	_Atomic(uint64_t) watch_ns;		   /* an I/O thread will check by then */
	_Atomic(uint32_t) sleepers_count;
	_Atomic(uint64_t) busy_ns; /* the last turn that had something to do */
	pthread_mutex_t sleepers_lock;
	struct sleeper *sleepers;
	_Atomic(struct star_view *) released; /* views whose mbufs the driver has to free */

	/* the driver's */
	_Alignas(64) struct waiter *driver; /* that of an I/O thread; otherwise NULL */
	const struct call *awaited;	    /* by the driver; NULL: none */
	bool done;			    /* a call of the driver's has finished */
	bool starved;			    /* mbufs were short: streams wait for them in `dirty` */
	uint32_t deferred;		    /* calls that were written, and wait to be sent with others */
	unsigned *lcore_at;		    /* the thread's number of an lcore, */
	unsigned lcore;			    /* and what it was: see borrow_lcore */
	struct streams dirty;
	struct clock clock;
	uint64_t now_ns;	      /* of the turn */
	uint64_t turned_ns;	      /* the last turn that did everything */
	uint64_t entered_ns, left_ns; /* when the last call was made, and the last driver left */
	uint64_t link_ns;	      /* the next check of the link */
	bool link_down;		      /* at the last check */
	struct port *port;
	struct net *net;
	struct dgram *dgram;
	struct rte_mempool *pool;
	uint64_t sent, dropped;
	uint32_t viewed, viewed_max; /* mbufs in views */
	bool kept;		     /* a view has the last message */

	/* protected by the lock of setup.c */
	unsigned users;
	struct config_port config;
};

/* A thread that sleeps until it is woken, or until its time. */
struct sleeper {
	struct sleeper *next;
	struct call *call;
};

/* setup.c: the process's one poller. With a worker's file; NULL with err. */
struct poller *dpdk_poller_get(const struct config *config, struct star_error *err);
void dpdk_poller_put(struct poller *p);
/* For the driver: brings the link up again, if the device leaves that to us. */
void dpdk_poller_link(struct poller *p);

/* poller.c */
/* k: that of an I/O thread, or NULL; call: what the thread waits for, or NULL. */
bool dpdk_poller_try(struct poller *p, struct waiter *k, const struct call *call);
/* For short work that cannot wait. */
void dpdk_poller_lock(struct poller *p);
void dpdk_poller_leave(struct poller *p);
/* For the driver: sends what can be sent. */
void dpdk_poller_flush(struct poller *p);
/* The same, before a call: receives what has arrived while no thread was driving. If a session was closed meanwhile,
 * the call does not fail. */
void dpdk_poller_catch_up(struct poller *p);
/* Passes a call to the driver. */
void dpdk_poller_post(struct poller *p, struct call *call);
/* For the driver, before it leaves: notifies sleeping I/O threads that there was something to do. */
void dpdk_poller_tell_watcher(struct poller *p, struct star_cluster *cluster);
/* For the driver, before a call; returns the time. */
uint64_t dpdk_poller_begin(struct poller *p);
/* Sends a small call, and waits for its reply. False: it has not finished yet; if start_ns is 0, it was not sent
 * either. */
bool dpdk_poller_small(struct call *call);
/* For the driver: does what streams have to do. */
void dpdk_poller_pump_all(struct poller *p);
static inline void dpdk_poller_pump(struct poller *p)
{
	if (unlikely(!TAILQ_EMPTY(&p->dirty)))
		dpdk_poller_pump_all(p);
}
/* Takes calls that were posted. */
void dpdk_poller_drain_all(struct poller *p);
static inline void dpdk_poller_drain(struct poller *p)
{
	if (unlikely(atomic_load_explicit(&p->released, memory_order_relaxed) ||
		     atomic_load_explicit(&p->inbox, memory_order_relaxed)))
		dpdk_poller_drain_all(p);
}
/* For the driver: frees the mbufs of released views (message.c). */
void dpdk_poller_reclaim(struct poller *p);
void dpdk_poller_wait(struct waiter *k, struct call *call);
void dpdk_poller_turn(struct waiter *k, uint64_t until_ns);

/* calls.c: for the driver */
void dpdk_call_start(struct poller *p, struct call *call);
/* Fails its remaining parts. */
void dpdk_call_abort(struct poller *p, struct call *call, int code);
void dpdk_part_end(struct poller *p, struct part *part, const struct star_error *err);
void dpdk_part_end_stale(struct poller *p, struct part *part);

/* stream.c: for the driver */
extern const struct dgram_handler dpdk_stream_handler;
void dpdk_stream_enqueue(struct stream *s, struct part *part);
/* Takes a part off the channel, unless it was taken, and sets err. */
bool dpdk_stream_cancel(struct stream *s, struct part *part, int code, struct star_error *err);
/* Does what can be done now. */
void dpdk_stream_pump(struct stream *s);
void dpdk_stream_touch(struct stream *s);
/* Closes the session, and drops what was in flight. */
void dpdk_stream_close(struct stream *s);

/* message.c: requests into mbufs, replies out of them */
/* False: there are not enough mbufs now. */
bool dpdk_message_send(struct stream *s, struct part *part);
/* The same for the next one that has to be sent again. */
bool dpdk_message_resend(struct stream *s);
/* The same for a small call that may be sent before all others; false: it may not, and nothing has changed. */
bool dpdk_message_send_small(struct stream *s, struct call *call);
/* Handles a reply, or several in one packet, and frees them. */
void dpdk_message_received(struct stream *s, struct rte_mbuf *message, uint32_t bytes, enum wire_status status);

#endif
