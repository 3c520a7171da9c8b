/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests, the server's side, over TCP streams and over sessions of datagrams: checks frames whole (length, checksum),
 * runs them one after the other for each peer and by turns between peers, and sends the replies. What a request means
 * is the service's business. One thread, the stack's; it allocates at creation only.
 *
 * A request is executed in slices: rpc_run calls the service's execute again and again, in between those of other
 * peers, until it says that the request is done. A request that was begun is always finished, even when its peer has
 * died.
 */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include <stdbool.h>
#include <stdint.h>

#include "net/tcp.h"
#include "observe/observe.h"
#include "rpc/cursor.h"
#include "rpc/datagram.h"
#include "rpc/transport.h"
#include "star_error.h"
#include "wire/frame.h"

/* X(name, what it counts), or F, where something went wrong: `errors` of a node's status. */
#define RPC_COUNTERS(X, F) \
	X(requests, "requests executed") \
	X(replies, "replies sent") \
	X(errors, "requests answered with an error status") \
	F(bad_frames, "streams closed: malformed frame") \
	F(bad_checksums, "streams closed, or requests of sessions refused: wrong checksum") \
	F(bad_tags, "streams closed: a record was changed, moved, repeated or left out on the way") \
	F(strangers, "streams closed: no ticket, or none that is good") \
	F(revoked, "streams closed: their principal was revoked") \
	F(late, "requests refused: their deadline had passed") \
	F(repeated, "requests not executed: they were sent, and perhaps executed, before") \
	F(no_buffers, "requests refused: they would take too many mbufs") \
	F(stalled, "streams closed: no request came in time, or only in part") \
	F(no_stream, "connections or sessions refused: there are too many") \
	F(no_session, "requests refused: no place to remember their session, and none may be forgotten") \
	F(starved, "requests refused: no mbufs for their replies") \
	F(unread, "peers given up: mbufs were short, and they did not read") \
	F(abandoned, "requests finished for a peer that had gone") \
	F(quota_connections, "streams refused: their principal has as many as its quota allows") \
	F(quota_sessions, "sessions refused: their principal has as many as its quota allows") \
	F(quota_in_flight, "requests refused: over their principal's quota of bytes in flight") \
	F(quota_requests, "requests refused: over their principal's quota of requests a second") \
	F(quota_new_rows, "requests refused: over their principal's quota of new rows a second") \
	F(quota_memory, "requests refused: over their principal's quota of memory") \
	X(held, "replies that waited until what they tell of was durable")

struct rpc_counters {
#define X(name, text) uint64_t name;
	RPC_COUNTERS(X, X)
#undef X
};

/* A whole, checked request. */
struct rpc_request {
	struct wire_frame frame;
	struct rpc_cursor payload; /* at its first byte */
	uint64_t deadline_ns;	   /* UINT64_MAX: none */
	bool begun;		   /* set by the service: from now on it is finished whatever happens */
	bool changed;		   /* set by the service: `ended` is to be called */
	uint8_t why;		   /* enum observe_reason: what it has waited for */
	bool failed;		   /* rpc_reply_fail was called */
	uint32_t unread_bytes;	   /* budget.c's: of its stream, in a gap that costs no memory */
	void *task; /* task_bytes of memory for the service, zeroed before the first slice; NULL before */
};

enum rpc_progress {
	RPC_MORE, /* not done: call again, after other peers had their turn */
	RPC_DONE, /* the reply is complete */
};

/* How the last requests of a session ended. */
struct rpc_outcome {
	uint64_t session;
	uint64_t sequence; /* the highest that is at its end */
	const uint8_t
		*ended; /* of the last WIRE_IN_FLIGHT_MAX, by sequence: enum wire_status; NULL: all were executed */
	bool forgot;	/* sessions were forgotten before */
	bool unknown;	/* this one may have been */
	/* Another one that is forgotten for it, of which was told before; 0: none. Alone it is told of by the sequence
	 * REPLAY_GONE (replay.h). */
	uint64_t replaces;
};

struct rpc_service {
	void *ctx;
	uint32_t task_bytes;
	/* One slice of some tens of microseconds at most. Writes its results by rpc_reply_*. */
	enum rpc_progress (*execute)(void *ctx, struct rpc_request *request, uint64_t now_ns);
	/* May be NULL. Asked first: does a small request at once, without a task (RPC_DONE), or leaves it to execute
	 * (RPC_MORE). */
	enum rpc_progress (*direct)(void *ctx, struct rpc_request *request);
	/* May be NULL. A request whose payload begins with these bytes will be executed: starts loading what it will
	 * need; once more (imminent) when it is the next. Nothing is checked yet, and nothing is to be changed. */
	void (*prefetch)(void *ctx, const void *payload, uint32_t bytes, bool imminent);
	/* For requests that have `changed`: how the session's last requests have ended, with this one; session 0:
	 * nobody remembers. */
	void (*ended)(void *ctx, const struct rpc_outcome *outcome);
	/* May be NULL, where rpc_hold is not called. Of a request that has `changed`, after `ended`; NULL: of one that
	 * was executed when it was sent before. What rpc_release has to say before its reply leaves; 0: it leaves at
	 * once. Else never less than before. */
	uint64_t (*held_until)(void *ctx, const struct rpc_request *request);
};

struct secure_tickets;

struct rpc_server_options {
	struct net *net;
	uint16_t port;
	const struct rpc_transport *transport; /* NULL: lib/net's TCP */
	void *transport_ctx;
	bool closed; /* streams and sessions are taken when rpc_server_listen says so */
	uint32_t streams_max;
	struct dgram_options
		datagrams; /* sessions_max 0: none. The server fills in net, port, what it accepts and its handler. */
	uint32_t payload_max;	   /* bytes of a request's payload, up to WIRE_PAYLOAD_MAX */
	uint32_t send_queue_bytes; /* a peer with more unsent replies is not served until it has read */
	uint32_t held_mbufs_max;   /* mbufs that requests may occupy, all streams together, and as many all sessions */
	uint64_t stall_ns;	   /* over TCP a request must be whole within that time after its first byte */
	struct observe *observe;   /* remembers what was served; NULL: nothing does */
	/* NULL: whoever comes is served. Else streams and sessions come by ticket. */
	const struct secure_tickets *tickets;
	uint32_t reactors; /* of the node, among which a principal's quotas are divided; 0: 1 */
	struct rpc_service service;
};

struct rpc_server;

/* What the sender of a request may do with tables, by their ids (secure/rights.h); NULL: everything. */
const _Atomic(uint8_t) *rpc_request_rights(const struct rpc_request *request);

struct secure_account;
/* What the sender of a request has of this reactor, its bucket of rows filled; NULL: he has no quota of new rows or
 * memory. And: the request is refused for that. */
struct secure_account *rpc_request_account(const struct rpc_request *request);
void rpc_request_over_quota(const struct rpc_request *request, enum wire_status status);

struct secure_usage;
/* Adds what a principal uses of this reactor, by its account; its server takes tickets. From any thread: its figures
 * are read while they change. */
void rpc_quota_usage(const struct rpc_server *server, uint32_t account, struct secure_usage *sum);

struct rpc_server *rpc_server_create(const struct rpc_server_options *options, struct star_error *err);
/* From now on streams come in, also where the node had left its place and takes it back; nothing, where they do
 * already. On the stack's thread, once it runs. */
int rpc_server_listen(struct rpc_server *server, struct star_error *err);
/*
 * The node leaves its place to another one: nobody is taken from now on, and requests that are refused because there is
 * no layout any more (WIRE_STALE_LAYOUT) stay without an answer. When what was begun is at its end, rpc_server_hang_up
 * ends up to n streams and sessions from *at on, which is 0 at first, and adds to *left those that have a reply yet to
 * send, for another round; left NULL: that one waits for nothing. False: it has come to the last.
 */
void rpc_server_leave(struct rpc_server *server);
bool rpc_server_hang_up(struct rpc_server *server, uint32_t *at, unsigned n, uint32_t *left);
/* Before net_destroy. */
void rpc_server_destroy(struct rpc_server *server);

/* Executes slices, at most max; returns how many. 0: nothing to do. */
unsigned rpc_run(struct rpc_server *server, unsigned max, uint64_t now_ns);

/* With observe: the time stamp counter as the turn began, and at the end of its transmit burst. */
void rpc_turn_sent(struct rpc_server *server, uint64_t begun, uint64_t ended);
/* Another observe from the next turn on, or NULL: none. */
void rpc_observe(struct rpc_server *server, struct observe *observe);

/*
 * Durable replies: while it holds, replies wait for what service.held_until says of them, until rpc_release has said as
 * much; their peers' next requests wait behind them. So a peer has one of them at most, and nothing is allocated. Off,
 * which it is at first, those that wait leave at once. While any wait the stack's wheel has a timer, so that whoever
 * sleeps by it looks again after some milliseconds. retains: over TCP, what clients keep (WIRE_KEEPS) does not wait;
 * replies say how far it is durable, as rpc_release has said last. Said again while it is on, with the same retains, it
 * changes nothing.
 */
void rpc_hold(struct rpc_server *server, bool holds, bool retains);
bool rpc_retains(const struct rpc_server *server);
/* Replies that wait for no more than that leave, some of them: call it in each turn while rpc_held is not 0, or
 * rpc_retains. */
void rpc_release(struct rpc_server *server, uint64_t durable);
/* How many replies wait. From any thread: a figure. */
uint32_t rpc_held(const struct rpc_server *server);

/* Sends what datagrams are due: before each net_output of a turn. */
void rpc_transmit(struct rpc_server *server, uint64_t now_ns);

/* Whether datagrams will be due sooner than the stack's wheel tells: no time to sleep. */
bool rpc_datagrams_due(const struct rpc_server *server);

const struct rpc_counters *rpc_counters(const struct rpc_server *server);
/* NULL: it takes no datagrams. */
const struct dgram *rpc_datagrams(const struct rpc_server *server);
/* Of up to n sessions from *at on, which is 0 at first: false behind the last. And: a session as it was, before it has
 * sent anything. */
bool rpc_outcomes(struct rpc_server *server, uint32_t *at, unsigned n,
		  void (*visit)(void *ctx, const struct rpc_outcome *outcome), void *ctx);
void rpc_restore_outcome(struct rpc_server *server, const struct rpc_outcome *outcome);
/* The incarnation and epoch that replies carry. */
void rpc_server_set_layout(struct rpc_server *server, uint32_t epoch, uint32_t incarnation);

/*
 * The reply to the request that is being executed. Bytes are written once, into the mbufs that leave; rpc_reply_room
 * makes sure that the next n bytes can be written, and false means: nothing was taken, return RPC_MORE and try again in
 * the next slice. Ask for all of a reply at once, before its first byte and before the request is begun: the answer is
 * given by turning the request away when there are no mbufs for stall_ns, or never enough. For a request whose peer has
 * gone, writing costs nothing and always succeeds.
 */
bool rpc_reply_room(struct rpc_request *request, uint32_t n);
void rpc_reply_put(struct rpc_request *request, const void *data, uint32_t n);
/* The same for n rows of this many bytes. */
void rpc_reply_put_rows(struct rpc_request *request, const void *const *rows, unsigned n, uint32_t bytes);
void rpc_reply_pad(struct rpc_request *request); /* zeros up to a multiple of 8 */

/* For `direct`: a whole reply of n bytes in one piece, to be filled in; NULL when it is more than a packet holds, or
 * when there is no mbuf. rpc_reply_unput takes it back. */
void *rpc_reply_piece(struct rpc_request *request, uint32_t n);
void rpc_reply_unput(struct rpc_request *request);

/* Drops what was written, and answers with a status and a message instead (without the message when mbufs are short).
 * Returns RPC_DONE. */
enum rpc_progress rpc_reply_fail(struct rpc_request *request, enum wire_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
