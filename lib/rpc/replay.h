/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exactly once across reconnects: a channel keeps its session number (wire_frame.session, chosen at random) and goes on counting
 * when it has to connect again (WIRE_GOES_ON), and says of requests that it sends a second time that it does (WIRE_RESENT). For each session
 * stands here the last request that was executed: they are executed in their order, so that all before it were too. A session
 * belongs to one stream or session of datagrams, its owner, at a time: the newest that sent a request of it; the one before is closed,
 * so that nothing of it is executed later, and what it has begun is waited for.
 *
 * REPLAY_SESSIONS are remembered, however many peers there may be: of those without an owner the oldest goes first. A peer that
 * finds no place has its requests executed all the same; of those that it sends again nobody knows. One thread, the stack's.
 */
#ifndef RPC_REPLAY_H
#define RPC_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

struct replay;
struct rpc_work;

enum { REPLAY_SESSIONS = 8192 };

/* For so many; NULL: no memory. secret: random, so that nobody can choose sessions that all meet in one place. */
struct replay *replay_create(uint32_t sessions, uint64_t secret);
void replay_destroy(struct replay *replay);

enum replay_verdict {
	REPLAY_RUN,
	REPLAY_WAIT,	  /* for what the session's former owner has begun */
	REPLAY_REPEATED,  /* it was executed */
	REPLAY_FORGOTTEN, /* nobody knows whether it was: its session may have been forgotten */
};

/* Of a request that is not begun yet. */
enum replay_verdict replay_look(struct replay *replay, struct rpc_work *work);

/* The request is at its end. executed: it was not refused, and so must not be executed again. */
void replay_done(struct replay *replay, struct rpc_work *work, bool executed);

/* The owner is gone. */
void replay_leave(struct replay *replay, struct rpc_work *work);

#endif
