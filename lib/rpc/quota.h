/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a principal may use of this reactor (secure/quota.h). If nobody has a quota, a request costs one predictable
 * branch. Connections and sessions are always counted, because a quota may be set later. On the stack's thread.
 */
#ifndef RPC_QUOTA_H
#define RPC_QUOTA_H

#include "rpc/sealed.h"

int rpc_quota_init(struct rpc_server *server);

static inline bool quota_any(const struct rpc_server *server)
{
	return server->limits && atomic_load_explicit(&server->limits->any, memory_order_relaxed);
}

/* Where a stream or session with a ticket has the index of its principal's account. */
static inline uint16_t *quota_account(struct rpc_work *w)
{
	return w->is_session ? &session_of(w)->account : &seal_of(stream_of(w))->account;
}

/*
 * All of these are for peers with tickets. rpc_quota_enter: a peer has come; WIRE_OK, or the status for the quota of
 * streams or sessions that it exceeds. rpc_quota_leave: it has gone.
 */
enum wire_status rpc_quota_enter(struct rpc_work *work, const struct secure_guest *guest);
void rpc_quota_leave(struct rpc_work *work);

/* Counts the bytes of a request or message as in flight, until rpc_quota_give_bytes. false: that would exceed the
 * quota. */
bool rpc_quota_take_bytes(struct rpc_work *work, uint32_t bytes);
void rpc_quota_give_bytes(struct rpc_work *work, uint32_t bytes);

/* A request is complete: sets work->refusal if its sender has sent too many. */
void rpc_quota_request(struct rpc_work *work);

/* Answers a refused request with the quota that it exceeded. */
enum rpc_progress rpc_quota_refuse(struct rpc_work *work);
/* An error message without figures, for peers that were not admitted. */
const char *rpc_quota_text(enum wire_status status);

#endif
