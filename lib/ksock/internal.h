/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/ksock share. Everything belongs to the reactor's thread. */
#ifndef KSOCK_INTERNAL_H
#define KSOCK_INTERNAL_H

#include <rte_mbuf.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "ksock/ksock.h"
#include "net/crowd.h"

enum {
	KSOCK_EVENTS = 64,   /* that one epoll_wait returns at most */
	KSOCK_ACCEPTS = 32,  /* connections that one turn accepts */
	KSOCK_SEGMENTS = 16, /* mbufs that one readv fills */
	KSOCK_PIECES = 64,   /* mbufs that one sendmsg takes */
	KSOCK_BACKLOG = 1024,
	KSOCK_CLOSE_MS = 30000,	     /* limit for sending what a closing connection has queued */
	KSOCK_LINGER_MS = 2000,	     /* then limit for the peer to close too */
	KSOCK_DRAIN = 1 << 20,	     /* bytes of a closed connection that one turn drops */
	KSOCK_ACCEPT_PAUSE_MS = 100, /* pause after there was no descriptor for a connection */
	/* a connection that was silent for less is not closed for one of an address with as many */
	KSOCK_IDLE_MIN_MS = 10000,
	KSOCK_LOOKS = 64, /* connections examined each time that no place is free */
};

enum ksock_state { KSOCK_FREE, KSOCK_OPEN, KSOCK_CLOSING };

struct ksock_conn {
	struct ksock *ks;
	void *user;
	int fd;
	uint32_t generation; /* generation of this slot: recognizes events of an earlier connection */
	uint8_t state;
	uint8_t finished; /* the peer has closed its side */
	uint8_t paused;	  /* reading is paused: the reader has consumed too little */
	uint8_t full;	  /* the socket's buffer is full: EPOLLOUT reports when it has room */
	uint8_t listed;	  /* in ks->unsent */
	uint8_t shut;	  /* closing, and all was sent: what still arrives is dropped until the peer closes too */
	uint32_t armed;	  /* events that epoll watches for */
	uint32_t *crowd;  /* counter of its peer's address */
	uint32_t unread;
	uint32_t queued;
	uint64_t bytes_in, bytes_out;
	struct rte_mbuf *head, *tail; /* to be sent; each has one segment */
	uint64_t received_ns;
	uint64_t progress_ns; /* when the kernel last accepted queued data, or the queue became non-empty */
	struct wheel_timer close_timer;
	TAILQ_ENTRY(ksock_conn) by_age; /* in ks->open, the one that was silent longest first; or in the free list */
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
	bool listens; /* on `port` */
	uint16_t port;
	uint16_t segment_bytes; /* of an mbuf */
	uint32_t window, user_timeout_ms, keepalive_s;
	uint32_t connections_max;
	struct wheel_timer accept_timer; /* armed: accepting is paused */
	struct ksock_conn *conns;
	struct ksock_conns free, open, unsent;
	uint32_t unsent_count, open_count;
	uint32_t hand; /* where the search for a connection to close continues */
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
/* Sets the events that epoll watches for the connection: input, room to send, or neither. */
void ksock_watch(struct ksock_conn *conn);
/* Has the next ksock_transmit send for it, or close it. */
void ksock_will_send(struct ksock_conn *conn);
void ksock_read_address(const struct sockaddr_storage *from, struct net_address *address, uint16_t *port);
/* Closes it (reset: with a RST), frees its slot, and calls the handler's `closed`. */
void ksock_end(struct ksock_conn *conn, int reason, bool reset);

/* accept.c */
int ksock_listen(void *ctx, uint16_t port, const struct tcp_handler *handler, void *handler_ctx);
void ksock_unlisten(void *ctx);
void ksock_accept(struct ksock *ks);

#endif
