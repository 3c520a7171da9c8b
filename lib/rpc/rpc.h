/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's side of requests, over TCP streams and over datagram sessions: checks whole frames (length, checksum),
 * runs requests one after the other for each peer and alternating between peers, and sends the replies. The service
 * executes them. One thread, the stack's; memory is allocated at creation only.
 *
 * A request is executed in slices: rpc_run calls the service's execute again and again, alternating with those of other
 * peers, until it reports that the request is done. A request that has begun is always finished, even if its peer is
 * gone.
 */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include <stdbool.h>
#include <stdint.h>

#include "net/tcp.h"
#include "observe/observe.h"
#include "rpc/counters.h"
#include "rpc/cursor.h"
#include "rpc/datagram.h"
#include "rpc/transport.h"
#include "star_error.h"
#include "wire/frame.h"

/* A whole, checked request. */
struct rpc_request {
	struct wire_frame frame;
	struct rpc_cursor payload; /* at its first byte */
	uint64_t deadline_ns;	   /* UINT64_MAX: none */
	bool begun;		   /* set by the service: from now on it is finished in any case */
	bool changed;		   /* set by the service: `ended` has to be called */
	uint8_t why;		   /* enum observe_reason: what it has waited for */
	bool failed;		   /* rpc_reply_fail was called */
	uint32_t unread_bytes;	   /* budget.c's, for its stream; fills a gap in the structure */
	void *task; /* memory of task_bytes for the service, zeroed before the first slice; NULL before */
};

enum rpc_progress {
	RPC_MORE, /* not done: call again, after other peers' turns */
	RPC_DONE, /* the reply is complete */
};

/* How the last requests of a session ended. */
struct rpc_outcome {
	uint64_t session;
	uint64_t sequence; /* the highest completed one */
	/* enum wire_status of the last WIRE_IN_FLIGHT_MAX, by sequence; NULL: all were executed */
	const uint8_t *ended;
	bool forgot;  /* sessions were forgotten earlier */
	bool unknown; /* this one may have been among them */
	/* Another session that is forgotten for this one, and was reported before; 0: none. If it is forgotten without
	 * a successor, the sequence REPLAY_GONE (replay.h) reports that. */
	uint64_t replaces;
};

struct rpc_service {
	void *ctx;
	uint32_t task_bytes;
	/* Executes one slice of at most some tens of microseconds. Writes its results by rpc_reply_*. */
	enum rpc_progress (*execute)(void *ctx, struct rpc_request *request, uint64_t now_ns);
	/* May be NULL. Called first: executes a small request at once, without a task (RPC_DONE), or leaves it to
	 * execute (RPC_MORE). */
	enum rpc_progress (*direct)(void *ctx, struct rpc_request *request);
	/* May be NULL. A request whose payload begins with these bytes will be executed: prefetches what it will need;
	 * called again with imminent when it is the next. Nothing is checked yet, and nothing may be changed. */
	void (*prefetch)(void *ctx, const void *payload, uint32_t bytes, bool imminent);
	/* For requests that have `changed`: the results of the session's last requests, including this one; session 0:
	 * the session is not recorded. */
	void (*ended)(void *ctx, const struct rpc_outcome *outcome);
	/* May be NULL if rpc_hold is not called. For a request that has `changed`, after `ended`; NULL: for one that
	 * was executed when it was sent before. Returns the value that rpc_release has to reach before its reply
	 * leaves; 0: it leaves at once. Otherwise never less than before. */
	uint64_t (*held_until)(void *ctx, const struct rpc_request *request);
};

struct secure_tickets;

struct rpc_server_options {
	struct net *net;
	uint16_t port;
	const struct rpc_transport *transport; /* NULL: lib/net's TCP */
	void *transport_ctx;
	bool closed; /* streams and sessions are accepted only after rpc_server_listen */
	uint32_t streams_max;
	struct dgram_options datagrams; /* sessions_max 0: none. The server sets net, port, accepts and handler. */
	uint32_t payload_max;		/* bytes of a request's payload, up to WIRE_PAYLOAD_MAX */
	uint32_t send_queue_bytes;	/* a peer with more unsent replies is not served until it has read some */
	/* mbufs that requests may occupy: this many for all streams together, and as many for all sessions */
	uint32_t held_mbufs_max;
	uint64_t stall_ns;	 /* over TCP a request must be complete this long after its first byte */
	struct observe *observe; /* records what was served; NULL: nothing does */
	/* NULL: everyone is served. Otherwise streams and sessions need tickets. */
	const struct secure_tickets *tickets;
	uint32_t reactors; /* of the node; a principal's quotas are divided among them; 0: 1 */
	struct rpc_service service;
};

struct rpc_server;

/* The rights of a request's sender to tables, by their ids (secure/rights.h); NULL: all. */
const _Atomic(uint8_t) *rpc_request_rights(const struct rpc_request *request);

struct secure_account;
/* The account of a request's sender on this reactor, with its bucket of rows refilled; NULL: the sender has no quota of
 * new rows or memory. rpc_request_over_quota refuses the request for that. */
struct secure_account *rpc_request_account(const struct rpc_request *request);
void rpc_request_over_quota(const struct rpc_request *request, enum wire_status status);

struct secure_usage;
/* Adds what a principal uses of this reactor, by its account; the server must accept tickets. From any thread: the
 * figures may change while they are read. */
void rpc_quota_usage(const struct rpc_server *server, uint32_t account, struct secure_usage *sum);

struct rpc_server *rpc_server_create(const struct rpc_server_options *options, struct star_error *err);
/* Accepts streams from now on, also after rpc_server_leave; no effect if it already does. On the stack's thread, once
 * it runs. */
int rpc_server_listen(struct rpc_server *server, struct star_error *err);
/*
 * The node gives up its place to another one: nobody is accepted from now on, and requests that are refused because
 * there is no layout any more (WIRE_STALE_LAYOUT) get no answer. When all requests that had begun are finished,
 * rpc_server_hang_up closes up to n streams and sessions from *at on, which starts as 0, and adds to *left the number
 * of those that still have a reply to send, for another round; left NULL: it waits for none. False: it has reached the
 * last.
 */
void rpc_server_leave(struct rpc_server *server);
bool rpc_server_hang_up(struct rpc_server *server, uint32_t *at, unsigned n, uint32_t *left);
/* Before net_destroy. */
void rpc_server_destroy(struct rpc_server *server);

/* Executes at most max slices; returns how many. 0: nothing to do. */
unsigned rpc_run(struct rpc_server *server, unsigned max, uint64_t now_ns);

/* With observe: the time stamp counter at the beginning of the turn, and at the end of its transmit burst. */
void rpc_turn_sent(struct rpc_server *server, uint64_t begun, uint64_t ended);
/* Sets observe from the next turn on; NULL: none. */
void rpc_observe(struct rpc_server *server, struct observe *observe);

/*
 * Durable replies. While `holds` is set, replies wait until rpc_release has reached the value that service.held_until
 * returned for them, and their peers' next requests wait behind them. So each peer has at most one waiting reply, and
 * nothing is allocated. If it is reset, as it is at first, waiting replies leave at once. While any wait, the stack's
 * wheel has a timer, so that a sleeping reactor checks again after some milliseconds. retains: over TCP, replies to
 * requests that clients keep (WIRE_KEEPS) do not wait; replies say how far the session is durable, by the last
 * rpc_release. Setting it again with the same retains has no effect.
 */
void rpc_hold(struct rpc_server *server, bool holds, bool retains);
bool rpc_retains(const struct rpc_server *server);
/* Sends replies that wait for no more than `durable`, some of them: call it in each turn while rpc_held is not 0, or
 * rpc_retains. */
void rpc_release(struct rpc_server *server, uint64_t durable);
/* The number of waiting replies. From any thread. */
uint32_t rpc_held(const struct rpc_server *server);

/* Sends datagrams that are due: before each net_output of a turn. */
void rpc_transmit(struct rpc_server *server, uint64_t now_ns);

/* Whether datagrams will be due sooner than the stack's wheel says, so that the reactor must not sleep. */
bool rpc_datagrams_due(const struct rpc_server *server);

const struct rpc_counters *rpc_counters(const struct rpc_server *server);
/* NULL: no datagrams are accepted. */
const struct dgram *rpc_datagrams(const struct rpc_server *server);
/* Visits up to n sessions from *at on, which starts as 0; false after the last. rpc_restore_outcome restores a
 * session's state before it has sent anything. */
bool rpc_outcomes(struct rpc_server *server, uint32_t *at, unsigned n,
		  void (*visit)(void *ctx, const struct rpc_outcome *outcome), void *ctx);
void rpc_restore_outcome(struct rpc_server *server, const struct rpc_outcome *outcome);
/* The incarnation and epoch that replies carry. */
void rpc_server_set_layout(struct rpc_server *server, uint32_t epoch, uint32_t incarnation);

/*
 * The reply to the request that is being executed. Bytes are written once, into the mbufs that are sent. rpc_reply_room
 * makes sure that the next n bytes can be written; if it returns false, nothing was taken: return RPC_MORE and try
 * again in the next slice. Ask for the room of the whole reply at once, before its first byte and before the request
 * begins: if there are no mbufs for stall_ns, or never enough, the request is refused. For a request whose peer is
 * gone, writing costs nothing and always succeeds.
 */
bool rpc_reply_room(struct rpc_request *request, uint32_t n);
void rpc_reply_put(struct rpc_request *request, const void *data, uint32_t n);
/* The same for n rows of this many bytes. */
void rpc_reply_put_rows(struct rpc_request *request, const void *const *rows, unsigned n, uint32_t bytes);
void rpc_reply_pad(struct rpc_request *request); /* zeros up to a multiple of 8 */

/* For `direct`: room for a whole reply of n bytes in one piece, to be filled in; NULL if it does not fit in a packet,
 * or there is no mbuf. rpc_reply_unput takes it back. */
void *rpc_reply_piece(struct rpc_request *request, uint32_t n);
void rpc_reply_unput(struct rpc_request *request);

/* Drops what was written, and replies with a status and a message instead (without the message if mbufs are short).
 * Returns RPC_DONE. */
enum rpc_progress rpc_reply_fail(struct rpc_request *request, enum wire_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
