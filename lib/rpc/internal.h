/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/rpc share. */
#ifndef RPC_INTERNAL_H
#define RPC_INTERNAL_H

#include <sys/queue.h>

#include "base/wheel.h"
#include "rpc/rpc.h"

enum rpc_stream_state {
	STREAM_FREE,
	STREAM_HEADER,	 /* waiting for a header */
	STREAM_PAYLOAD,	 /* waiting for the rest of a request */
	STREAM_READY,	 /* a request is being executed, or waits for its turn */
	STREAM_BLOCKED,	 /* a request waits for the peer to read earlier replies */
	STREAM_DRAINING, /* an error was answered: input is ignored until the peer closes */
};

struct rpc_stream {
	struct rpc_server *server;
	struct tcp_conn *conn;	 /* NULL once it is gone */
	struct rpc_stream *next; /* in the ready or the free list */
	uint8_t state;
	uint8_t peer_finished;
	uint8_t waiting;   /* for the budget */
	uint8_t reply_due; /* the request is done, but there was no mbuf for its reply */
	uint32_t mbufs;	   /* in the chain */
	/* received: a chain of mbufs, in order; the first starts at the current frame */
	struct rte_mbuf *head, *tail;
	uint32_t have;	  /* bytes in the chain */
	uint32_t granted; /* of them: given back to TCP's window, because the current frame needs them */
	/* the checksum of the current request's payload, as far as it has come */
	struct rte_mbuf *crc_at;
	uint32_t crc, crc_done;
	/* the reply */
	struct rte_mbuf *reply_head, *reply_tail;
	uint32_t reply_bytes; /* of payload */
	uint8_t reply_status;
	uint8_t hopeless;	  /* it needs more mbufs than there are */
	uint64_t starved_ns;	  /* since when it has found none; 0: it has not waited */
	struct wheel_timer timer; /* stall, or draining */
	TAILQ_ENTRY(rpc_stream) wait_link;
	struct rpc_request request;
};

/* An idle established connection is a TCP connection, at most twice four bytes of its table, and a stream; mbufs, and a task for
 * what is executed, it has only while there is something to do. */
_Static_assert(TCP_CONN_BYTES + 8 + sizeof(struct rpc_stream) <= 1024, "memory of an idle connection");

struct rpc_server {
	struct rpc_server_options options;
	uint32_t epoch, incarnation;
	struct rpc_stream *streams, *free_list;
	struct rpc_stream *ready_head, *ready_tail;
	char *tasks;
	void *free_tasks; /* each begins with a pointer to the next */
	uint32_t held_mbufs;
	/* budget.c */
	struct rpc_stream *favoured; /* whose window is opened while mbufs are short */
	uint64_t favoured_ns;	     /* when it was last given something */
	struct wheel_timer favour_timer;
	TAILQ_HEAD(, rpc_stream) waiting;
	uint8_t short_of_mbufs; /* a reply found none */
	uint64_t relieved_ns;
	struct rpc_counters counters;
};

/* budget.c */
/* Gives TCP's window back what belongs to the current frame, n bytes long; what follows it waits, unread. */
void budget_grant(struct rpc_stream *s, uint32_t n);
/* The request is whole, or the stream has ended. */
void budget_leave(struct rpc_stream *s);
/* Fires while streams wait. */
void budget_timer(struct wheel_timer *timer, uint64_t now_ns);
/* Mbufs have become free: streams that wait go on. */
void budget_resume(struct rpc_server *server);
/* A reply found no mbuf: closes a stream whose peer does not read. */
void budget_relieve(struct rpc_server *server);

/* reply.c */
void reply_drop(struct rpc_stream *s);
bool reply_send(struct rpc_stream *s);

#endif
