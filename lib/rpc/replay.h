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
 *
 * REPLAY_SESSIONS are remembered, however many peers there may be: of those without an owner the oldest goes first. A
 * peer that finds no place has its requests executed all the same; of those that it sends again nobody knows. One
 * thread, the stack's.
 */
#ifndef RPC_REPLAY_H
#define RPC_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/frame.h"

struct replay;
struct rpc_outcome;
struct rpc_work;

enum { REPLAY_SESSIONS = 8192 };

/* For this many; NULL: no memory. secret: random, so that nobody can choose sessions that all meet in one place. */
struct replay *rpc_replay_create(uint32_t sessions, uint64_t secret);
void rpc_replay_destroy(struct replay *replay);

enum replay_verdict {
	REPLAY_RUN,
	REPLAY_WAIT,	  /* for what the session's former owner has begun */
	REPLAY_REPEATED,  /* it was executed */
	REPLAY_REFUSED,	  /* it was refused, with this status */
	REPLAY_FORGOTTEN, /* nobody knows whether it was: its session may have been forgotten */
};

/* Of a request that is not begun yet: also of one that will be refused, whatever the reason, before it is. */
enum replay_verdict rpc_replay_look(struct replay *replay, struct rpc_work *work, enum wire_status *status);

/* The request is at its end: executed (WIRE_OK), or refused. Not of one that rpc_replay_look has answered. */
void rpc_replay_done(struct replay *replay, struct rpc_work *work, enum wire_status status);

/* How the session's last requests have ended; session 0: it has no place. Points into the table. */
struct rpc_outcome rpc_replay_outcome(const struct replay *replay, const struct rpc_work *work);
/* The next place from *at on that has a session; false: there is none. */
bool rpc_replay_next(const struct replay *replay, uint32_t *at, struct rpc_outcome *outcome);
/* A session as it was, in place of what is known of it. */
void rpc_replay_restore(struct replay *replay, const struct rpc_outcome *outcome);

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

/* The owner is gone. */
void rpc_replay_leave(struct replay *replay, struct rpc_work *work);

#endif
