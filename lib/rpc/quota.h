/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a principal may use of this reactor (secure/quota.h). Where nobody has a quota a request costs one predictable
 * branch; connections and sessions are counted in any case, for a quota may come later.
 */
#ifndef RPC_QUOTA_H
#define RPC_QUOTA_H

#include "rpc/sealed.h"

int rpc_quota_init(struct rpc_server *server);

static inline bool quota_any(const struct rpc_server *server)
{
	return server->limits && atomic_load_explicit(&server->limits->any, memory_order_relaxed);
}

/* Where it stands whose a stream or session that came by ticket is. */
static inline uint16_t *quota_account(struct rpc_work *w)
{
	return w->is_session ? &session_of(w)->account : &seal_of(stream_of(w))->account;
}

/*
 * All of these are for those who came by ticket. Somebody has come: WIRE_OK, or the status of the quota of streams, or
 * of sessions, that he is over. And: he has gone.
 */
enum wire_status rpc_quota_enter(struct rpc_work *work, const struct secure_guest *guest);
void rpc_quota_leave(struct rpc_work *work);

/* Of a request or message of this many bytes: false: over the quota; else they count until they are given back. */
bool rpc_quota_take_bytes(struct rpc_work *work, uint32_t bytes);
void rpc_quota_give_bytes(struct rpc_work *work, uint32_t bytes);

/* A request is whole: sets work->refusal if its sender has sent too many. */
void rpc_quota_request(struct rpc_work *work);

/* Says what a request was refused for. */
enum rpc_progress rpc_quota_refuse(struct rpc_work *work);
/* A sentence without figures, for who has not been let in. */
const char *rpc_quota_text(enum wire_status status);

#endif
