/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/ksock share. */
#ifndef KSOCK_INTERNAL_H
#define KSOCK_INTERNAL_H

#include <rte_mbuf.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "ksock/ksock.h"
#include "net/crowd.h"

enum {
	KSOCK_EVENTS = 64,   /* that one look at the epoll descriptor takes */
	KSOCK_ACCEPTS = 32,  /* connections that one turn accepts */
	KSOCK_SEGMENTS = 16, /* mbufs that one readv fills */
	KSOCK_PIECES = 64,   /* mbufs that one sendmsg takes */
	KSOCK_BACKLOG = 1024,
	KSOCK_CLOSE_MS = 30000,	     /* for what a closing connection has not sent */
	KSOCK_LINGER_MS = 2000,	     /* for the peer's end, when all was sent */
	KSOCK_DRAIN = 1 << 20,	     /* bytes that one turn drops of a connection that is closed */
	KSOCK_ACCEPT_PAUSE_MS = 100, /* when there was no descriptor for a connection */
	KSOCK_IDLE_MIN_MS =
		10000,	  /* a connection that was silent for less is not closed for one of an address with as many */
	KSOCK_LOOKS = 64, /* connections looked at, each time that no place is free */
};

enum ksock_state { KSOCK_FREE, KSOCK_OPEN, KSOCK_CLOSING };

struct ksock_conn {
	struct ksock *ks;
	void *user;
	int fd;
	uint32_t generation; /* of this place: an event of an earlier connection is not this one's */
	uint8_t state;
	uint8_t finished; /* the peer sends no more */
	uint8_t paused;	  /* not read from: the reader has given too little back */
	uint8_t full;	  /* the socket's buffer is full: EPOLLOUT tells when it has room */
	uint8_t listed;	  /* in ks->unsent */
	uint8_t shut;	  /* closing, and all was sent: what still comes is dropped until the peer ends, too */
	uint32_t armed;	  /* events that epoll watches for */
	uint32_t *crowd;  /* of its peer's address */
	uint32_t unread;
	uint32_t queued;
	uint64_t bytes_in, bytes_out;
	struct rte_mbuf *head, *tail; /* to be sent, one segment each */
	uint64_t received_ns;
	uint64_t progress_ns; /* when the kernel last took something of what is queued, or the queue began */
	struct wheel_timer close_timer;
	TAILQ_ENTRY(ksock_conn) by_age; /* ks->open: the one that was silent for longest first; or the free list */
	TAILQ_ENTRY(ksock_conn) to_send;
};
TAILQ_HEAD(ksock_conns, ksock_conn);

struct ksock {
	struct rte_mempool *pool;
	struct wheel *wheel;
	struct net_address host;
	const struct tcp_handler *handler;
	void *handler_ctx;
	uint64_t now_ns;
	int epoll_fd, listen_fd;
	bool listens; /* at that */
	uint16_t port;
	uint16_t segment_bytes; /* of an mbuf */
	uint32_t window, user_timeout_ms, keepalive_s;
	uint32_t connections_max;
	struct wheel_timer accept_timer; /* armed: the listening socket rests */
	struct ksock_conn *conns;
	struct ksock_conns free, open, unsent;
	uint32_t unsent_count, open_count;
	uint32_t hand; /* where a connection to be ended for another one is looked for next */
	struct crowds crowds;
	struct rte_mbuf *spare[KSOCK_SEGMENTS]; /* for the next readv */
	unsigned spares;
	struct ksock_counters counters;
};

static inline struct ksock_conn *ksock_own(const struct tcp_conn *conn)
{
	return (struct ksock_conn *)(uintptr_t)conn;
}

static inline struct tcp_conn *ksock_foreign(struct ksock_conn *conn)
{
	return (struct tcp_conn *)conn;
}

/* connection.c */
/* Has epoll watch for what the connection waits for: input, room to send, or neither. */
void ksock_watch(struct ksock_conn *conn);
/* Its turn to send, or to be closed, comes in the next ksock_transmit. */
void ksock_will_send(struct ksock_conn *conn);
void ksock_read_address(const struct sockaddr_storage *from, struct net_address *address, uint16_t *port);
/* Closes it, with a RST when reset, frees its place, and tells the handler. */
void ksock_end(struct ksock_conn *conn, int reason, bool reset);

/* accept.c */
int ksock_listen(void *ctx, uint16_t port, const struct tcp_handler *handler, void *handler_ctx);
void ksock_unlisten(void *ctx);
void ksock_accept(struct ksock *ks);

#endif
