/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/ksock share. Everything belongs to the reactor's thread. */
#ifndef KSOCK_INTERNAL_H
#define KSOCK_INTERNAL_H

#include <rte_mbuf.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ksock/ksock.h"
#include "net/crowd.h"

enum {
	KSOCK_ACCEPTS = 32, /* connections that one turn accepts */
	KSOCK_PIECES = 64,  /* mbufs that one sendmsg takes */
	KSOCK_BACKLOG = 1024,
	KSOCK_CLOSE_MS = 30000,	     /* limit for sending what a closing connection has queued */
	KSOCK_LINGER_MS = 2000,	     /* then limit for the peer to close too */
	KSOCK_ACCEPT_PAUSE_MS = 100, /* pause after there was no descriptor for a connection */
	/* a connection that was silent for less is not closed for one of an address with as many */
	KSOCK_IDLE_MIN_MS = 10000,
	KSOCK_LOOKS = 64,	/* connections examined each time that no place is free */
	KSOCK_UNREAD_SHARE = 8, /* if one in this many mbufs of the pool waits unread, windows are small */
	KSOCK_REPLY_SHARE = 8,	/* nothing is received if no more than one in this many mbufs is free */
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
	uint8_t full;	  /* the socket's buffer is full: the kernel reports when it has room */
	uint8_t listed;	  /* in ks->unsent */
	uint8_t shut;	  /* closing, and all was sent: what still arrives is dropped until the peer closes too */
	uint8_t sending;  /* io_uring: the result of a send is outstanding */
	uint8_t stopped;  /* io_uring: operations of `armed` that are being cancelled */
	uint8_t goes_on;  /* io_uring: its receive goes on after the first mbuf (multishot) */
	uint32_t armed;	  /* events that epoll watches for, or operations that io_uring has */
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

/* One way to have the kernel report what is ready, to read and to write. All but open and close are for the reactor's
 * thread. */
struct ksock_io {
	const char *name;
	int (*open)(struct ksock *ks); /* 0 or a negative errno; then `close` is called nevertheless */
	/* Ends everything that is under way. */
	void (*close)(struct ksock *ks);
	/* Reports that somebody wants to connect, by ksock_accept; or does so no longer. 0 or a negative errno. */
	int (*watch_listener)(struct ksock *ks, bool on);
	/* A new connection, and one that is about to be closed. */
	int (*add)(struct ksock_conn *conn);
	void (*remove)(struct ksock_conn *conn);
	/* What is to be reported of a connection may have changed: input (ksock_reads), room (full), errors always. */
	void (*watch)(struct ksock_conn *conn);
	unsigned (*receive)(struct ksock *ks);
	void (*transmit)(struct ksock *ks);
	void (*sleep)(struct ksock *ks, int wake_fd, uint64_t ns);
};

struct ksock {
	const struct ksock_io *io;
	int io_refused;		   /* with KSOCK_IO_AUTO: why it is not io_uring, a negative errno */
	struct ksock_epoll *epoll; /* one of these two, which is the io's */
	struct ksock_uring *uring;
	struct rte_mempool *pool;
	struct wheel *wheel;
	struct net_address host;
	const struct tcp_handler *handler;
	void *handler_ctx;
	uint64_t now_ns;
	int listen_fd;
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
	uint64_t unread;     /* of all connections */
	uint64_t unread_max; /* from here on connections share it evenly */
	uint32_t buffers;    /* empty mbufs that the kernel has */
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

/* Whether so much waits unread that it must be limited, or it would take the mbufs from the replies. */
static inline bool ksock_is_tight(const struct ksock *ks)
{
	return ks->unread > ks->unread_max;
}

/* How many mbufs may be taken to receive. The last ones are left to replies: requests free theirs only when they have
 * been answered. */
static inline uint32_t ksock_spare_mbufs(const struct ksock *ks)
{
	const uint32_t avail = net_mempool_free(ks->pool, rte_mempool_default_cache(ks->pool, rte_lcore_id()));
	const uint32_t kept = ks->pool->size / KSOCK_REPLY_SHARE;

	return avail > kept ? avail - kept : 0;
}

/* How many bytes of a connection may wait unread. */
static inline uint32_t ksock_window(const struct ksock *ks)
{
	uint64_t part = ks->window;

	if (ksock_is_tight(ks))
		part = ks->unread_max / ks->open_count;
	if (part < ks->segment_bytes)
		part = ks->segment_bytes;
	return part < ks->window ? (uint32_t)part : ks->window;
}

/* Whether its input is wanted: the reader keeps up, or what arrives is dropped until the peer closes too. */
static inline bool ksock_reads(const struct ksock_conn *conn)
{
	return conn->shut || (conn->state == KSOCK_OPEN && !conn->finished && !conn->paused);
}

static inline uint32_t ksock_index(const struct ksock_conn *conn)
{
	return (uint32_t)(conn - conn->ks->conns);
}

/* The connection of a report that was asked for at this generation; NULL: it has ended since. */
static inline struct ksock_conn *ksock_find(const struct ksock *ks, uint32_t index, uint32_t generation)
{
	struct ksock_conn *conn = &ks->conns[index];

	return conn->state != KSOCK_FREE && conn->generation == generation ? conn : NULL;
}

/* Clears the event descriptor after a write by another thread. */
static inline void ksock_read_wake(int wake_fd)
{
	uint64_t count;

	if (read(wake_fd, &count, sizeof(count)) < 0)
		return; /* it is clear already */
}

/* epoll.c, uring.c */
extern const struct ksock_io ksock_io_epoll, ksock_io_uring;

/* connection.c */
/* Has the next ksock_transmit send for it, or close it. */
void ksock_will_send(struct ksock_conn *conn);
void ksock_read_address(const struct sockaddr_storage *from, struct net_address *address, uint16_t *port);
/* Frees the mbufs of a queue, each of which has one segment. */
void ksock_free_queue(struct rte_mbuf *m);
/* Closes it (reset: with a RST), frees its slot, and calls the handler's `closed`. */
void ksock_end(struct ksock_conn *conn, int reason, bool reset);

/* stream.c: what every way to read and write does with the kernel's answers. */
/* Counts what was read from it. Then each mbuf is delivered. */
void ksock_count_read(struct ksock_conn *conn, size_t bytes);
/* Passes the mbuf to the reader, or frees it if the connection is no longer open, or not of this generation. */
void ksock_deliver(struct ksock_conn *conn, uint32_t generation, struct rte_mbuf *m, uint16_t bytes);
/* Before it is read: whether its reader has kept up. If not, reading is paused. */
bool ksock_has_window(struct ksock_conn *conn);
/* The peer has closed its side. */
void ksock_finish(struct ksock_conn *conn);
/* A read or a write failed. */
void ksock_fail(struct ksock_conn *conn, int error);
/* The kernel reported an error without saying which. */
void ksock_fail_unknown(struct ksock_conn *conn);
/* The socket has room again. */
void ksock_has_room(struct ksock_conn *conn);
/* The next one of ks->unsent, which leaves it, with something queued; connections with nothing queued are shut down if
 * they are closing. NULL: there is none. *left is the number that may still be taken. */
struct ksock_conn *ksock_next_unsent(struct ksock *ks, unsigned *left);
/* Its queue, in at most KSOCK_PIECES pieces. */
unsigned ksock_pieces(const struct ksock_conn *conn, struct iovec *pieces);
/* A send's result: bytes, or a negative errno. */
void ksock_sent(struct ksock_conn *conn, ssize_t result);

/* accept.c */
int ksock_listen(void *ctx, uint16_t port, const struct tcp_handler *handler, void *handler_ctx);
void ksock_unlisten(void *ctx);
void ksock_accept(struct ksock *ks);

#endif
