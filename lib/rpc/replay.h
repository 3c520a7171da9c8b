/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exactly once across reconnects: a channel keeps its session number (wire_frame.session, chosen at random) and goes on
 * counting when it has to connect again (WIRE_GOES_ON), and says of requests that it sends a second time that it does
 * (WIRE_RESENT). Here is kept, for each session, how its last WIRE_IN_FLIGHT_MAX requests ended: executed, or refused
 * and with which status. A request that comes again is answered by that. Requests of a session are executed in their
 * order, so one that is later than the last has never come. A refused one is not tried again: those behind it may have
 * been executed. A session belongs to one stream or session of datagrams, its owner, at a time: the newest that sent a
 * request of it; the one before is closed, so that nothing of it is executed later, and what it has begun is waited
 * for.
 * There are places for as many as may have an owner at once, and REPLAY_LEFT more. A session may still send again as
 * long as it has an owner, or what a former one has begun is being executed; then for REPLAY_LEASE_S, and until what it
 * has changed is durable. Only others are forgotten for a new one: first those whose peers have ended in order, with
 * all answers, the oldest first; then those whose lease is over. So that nobody fills the table by coming and going,
 * those beyond the share of one address count as ended, unless they have something that is not durable. A session that
 * finds no place has nothing executed, so each that has had something executed is remembered, or was forgotten by these
 * rules. What the journal or a standby knows of is told of together with what takes its place: these have no rules of
 * their own, and the same sessions. One thread, the stack's.
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
	REPLAY_SHARES = 4, /* sessions that were last at one address have 1 of so many of REPLAY_LEFT places at most */
	REPLAY_CROWDS = 1025,	   /* addresses, by a hash, ... */
	REPLAY_ANYBODY = 1024,	   /* ... and those of which none is known, or that others bound: they have no share */
	REPLAY_UNDURABLE_MAX = 16, /* so many are passed over, whose lease is over, in search of one to be forgotten */
};
/* In place of an outcome's sequence: the session is forgotten. */
#define REPLAY_GONE UINT64_MAX

/* For this many; NULL: no memory. secret: random, so that nobody can choose sessions that all meet in one place. */
struct replay *rpc_replay_create(uint32_t sessions, uint64_t secret);
void rpc_replay_destroy(struct replay *replay);

enum replay_verdict {
	REPLAY_RUN,
	REPLAY_WAIT,	  /* for what the session's former owner has begun */
	REPLAY_REPEATED,  /* it was executed */
	REPLAY_REFUSED,	  /* it was refused, with this status */
	REPLAY_FORGOTTEN, /* nobody knows whether it was: its session may have been forgotten */
	REPLAY_FULL,	  /* its session finds no place: it is not to be executed */
};

/* Of a request that is not begun yet: also of one that will be refused, whatever the reason, before it is. */
enum replay_verdict rpc_replay_look(struct replay *replay, struct rpc_work *work, uint64_t now_ns,
				    enum wire_status *status);

/* The request is at its end: executed (WIRE_OK), or refused. Not of one that rpc_replay_look has answered. */
void rpc_replay_done(struct replay *replay, struct rpc_work *work, enum wire_status status);

/* How the session's last requests have ended, which is told to whoever goes on from here; session 0: it has no place.
 * Points into the table. */
struct rpc_outcome rpc_replay_outcome(struct replay *replay, const struct rpc_work *work);
/* The next place from *at on that has a session; false: there is none. */
bool rpc_replay_next(struct replay *replay, uint32_t *at, struct rpc_outcome *outcome);
/* A session as it was, in place of what is known of it; or that it is forgotten. */
void rpc_replay_restore(struct replay *replay, const struct rpc_outcome *outcome, uint64_t now_ns);
/* Who owned the sessions that are restored has had no chance to come back before. */
void rpc_replay_begin(struct replay *replay, uint64_t now_ns);
/* How many are remembered. */
uint32_t rpc_replay_count(const struct replay *replay);

/*
 * How far what a session has changed is durable (held.c), for clients that keep what is not. A life is one use of
 * rpc_hold: what was noted in an earlier one waits for nothing any more.
 */
/* The request is durable when that position is; they only grow. False: its session has no place. */
bool rpc_replay_note(struct replay *replay, struct rpc_work *work, uint32_t life, uint64_t until);
/* wire_frame.behind of the reply; UINT32_MAX: nobody knows. */
uint32_t rpc_replay_behind(struct replay *replay, const struct rpc_work *work, uint32_t life, uint64_t durable);
/* Of a work whose request was kept and is REPEATED: how many of its session's next ones would be, too. */
uint32_t rpc_replay_ahead(struct replay *replay, const struct rpc_work *work);

/* The owner is gone, who was at an address that counts as `crowd`. ended: in order, and it has had all answers. */
void rpc_replay_leave(struct replay *replay, struct rpc_work *work, uint32_t crowd, uint64_t now_ns, bool ended);

#endif
