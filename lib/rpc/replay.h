/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exactly-once execution across reconnects. A channel that reconnects keeps its session number (wire_frame.session,
 * chosen at random) and its numbering (WIRE_GOES_ON), and marks requests that it sends a second time (WIRE_RESENT).
 * This table has, for each session, the results of its last WIRE_IN_FLIGHT_MAX requests: executed, or refused with
 * which status. A request that is sent again gets that result. Requests of a session are executed in order, so one that
 * is later than the last was never received. A refused one is not tried again, because later ones may have been
 * executed. A session belongs to one stream or datagram session, its owner, at a time: the newest one that has sent one
 * of its requests. The previous owner is closed, so nothing of it is executed later, and what it has begun is waited
 * for.
 *
 * There are places for as many sessions as may have an owner at the same time, and REPLAY_LEFT more. A session may
 * still send something again as long as it has an owner, or what a former one has begun is being executed; then for
 * REPLAY_LEASE_S, and until its changes are durable. Only other sessions are forgotten for a new one: first those whose
 * peers have closed in order, with all replies, the oldest first; then those whose lease is over. To prevent a peer
 * from filling the table by connecting and leaving, sessions beyond the share of one address count as closed, unless
 * they have something that is not durable. A session without a place has executed nothing, so every session that has
 * executed something is in the table, or was forgotten by these rules.
 *
 * The journal and a standby learn of a forgotten session together with the one that takes its place: they have no rules
 * of their own, and the same sessions. Threads: one, the stack's.
 */
#ifndef RPC_REPLAY_H
#define RPC_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/frame.h"

struct replay;
struct rpc_outcome;
struct rpc_work;

enum {
	REPLAY_LEFT = 8192,
	REPLAY_LEASE_S = 300,
	REPLAY_SHARES = 4,     /* sessions that were last at one address have at most a fourth of REPLAY_LEFT places */
	REPLAY_CROWDS = 1025,  /* addresses, by a hash, ... */
	REPLAY_ANYBODY = 1024, /* ... and those without a known address, or limited otherwise: they have no share */
	REPLAY_UNDURABLE_MAX = 16, /* how many with an expired lease are skipped in search of one to be forgotten */
};
/* Instead of an outcome's sequence: the session is forgotten. */
#define REPLAY_GONE UINT64_MAX

/* For this many sessions; NULL: no memory. secret: random, so that nobody can choose sessions that all collide. */
struct replay *rpc_replay_create(uint32_t sessions, uint64_t secret);
void rpc_replay_destroy(struct replay *replay);

enum replay_verdict {
	REPLAY_RUN,
	REPLAY_WAIT,	  /* wait for what the session's former owner has begun */
	REPLAY_REPEATED,  /* it was executed */
	REPLAY_REFUSED,	  /* it was refused, with this status */
	REPLAY_FORGOTTEN, /* it is unknown whether it was executed: its session may have been forgotten */
	REPLAY_FULL,	  /* its session gets no place: it must not be executed */
};

/* For a request that has not begun yet: also for one that will be refused for any reason, before it is. */
enum replay_verdict rpc_replay_look(struct replay *replay, struct rpc_work *work, uint64_t now_ns,
				    enum wire_status *status);

/* The request is finished: executed (WIRE_OK), or refused. Not for one that rpc_replay_look has answered. */
void rpc_replay_done(struct replay *replay, struct rpc_work *work, enum wire_status status);

/* The results of the session's last requests, for nodes that continue from here; session 0: it has no place. Points
 * into the table. */
struct rpc_outcome rpc_replay_outcome(struct replay *replay, const struct rpc_work *work);
/* The next place from *at on that has a session; false: there are no more. */
bool rpc_replay_next(struct replay *replay, uint32_t *at, struct rpc_outcome *outcome);
/* Restores a session's state, replacing what is known of it; or records that it is forgotten. */
void rpc_replay_restore(struct replay *replay, const struct rpc_outcome *outcome, uint64_t now_ns);
/* Starts the leases of restored sessions: their owners could not come back before. */
void rpc_replay_begin(struct replay *replay, uint64_t now_ns);
/* Number of sessions in the table. */
uint32_t rpc_replay_count(const struct replay *replay);

/*
 * How far a session's changes are durable (held.c), for clients that keep what is not. A life is one use of rpc_hold:
 * what was noted in an earlier one waits for nothing any more.
 */
/* The request is durable when that position is; positions only grow. False: its session has no place. */
bool rpc_replay_note(struct replay *replay, struct rpc_work *work, uint32_t life, uint64_t until);
/* wire_frame.behind of the reply; UINT32_MAX: unknown. */
uint32_t rpc_replay_behind(struct replay *replay, const struct rpc_work *work, uint32_t life, uint64_t durable);
/* For a work whose request was kept and is REPEATED: how many of its session's next ones would be too. */
uint32_t rpc_replay_ahead(struct replay *replay, const struct rpc_work *work);

/* The owner, at an address that counts as `crowd`, is gone. ended: it closed in order, and has had all replies. */
void rpc_replay_leave(struct replay *replay, struct rpc_work *work, uint32_t crowd, uint64_t now_ns, bool ended);

#endif
