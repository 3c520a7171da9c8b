/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is remembered of a request (lib/observe), with rpc_server_options.observe. A small request costs some tens of
 * instructions here, and no function call. What it asked for is read once more where it lies, so that the service need
 * not know of it.
 */
#ifndef RPC_RECORD_H
#define RPC_RECORD_H

#include <rte_branch_prediction.h>

#include "rpc/internal.h"
#include "wire/object.h"

/* A slice by the service, with the clock read before and after. */
enum rpc_progress rpc_record_slice(struct rpc_work *work, uint64_t now_ns);
/* A stream, or a session, is a peer's from now on. */
void rpc_record_peer(struct rpc_work *work, const struct net_address *address, uint16_t port);
/* Of other requests than small ones that were executed: what they were, and how long they took. */
void rpc_record_large(struct rpc_work *work, struct observe_record *record);
/* Some of the keys of a request of one operation. */
void rpc_record_sample(struct rpc_work *work);

/* Of a request that has a task. */
static inline struct observe_spent *record_spent(const struct rpc_work *w)
{
	return (struct observe_spent *)((char *)w->request.task + w->server->spent_offset);
}

/* A number of its own for each stream and session: both structs begin at multiples of 16. */
static inline uint32_t record_peer(const struct rpc_work *w)
{
	return (uint32_t)((uintptr_t)w >> 4);
}

/* The request is done; counts with observe_commit. While it still has its task. */
static inline void record_request(struct rpc_work *w)
{
	const struct rpc_request *request = &w->request;
	struct observe *o = w->server->options.observe;
	struct observe_record *r = observe_next(o);
	const uint64_t arrived_ns = work_arrived_ns(w);

	r->arrived_ns = arrived_ns;
	r->peer = record_peer(w);
	r->wait = observe_units(observe_waited(o, arrived_ns));
	if (likely(!request->task && w->reply_status == WIRE_OK && request->frame.opcode == WIRE_EXECUTE &&
		   !w->reply_due)) {
		/* Done at once, and so in one piece. One whose reply is due has had a task, perhaps. */
		struct wire_op op; /* only its beginning */

		memcpy(&op, rte_pktmbuf_mtod_offset(request->payload.m, const void *, request->payload.offset),
		       offsetof(struct wire_op, dim));
		r->what = observe_what(op.count, 0, op.kind & 7);
		observe_end_of(r, object_id_of(op.object), WIRE_OK, request->why);
		if (observe_wants_sample(o, op.count))
			rpc_record_sample(w);
	} else {
		rpc_record_large(w, r);
	}
}

#endif
