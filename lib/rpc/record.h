/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records a finished request in lib/observe, if rpc_server_options.observe is set. For a small request that costs some
 * tens of instructions and no function call. The request is read once more from its mbufs, so that the service need not
 * be involved. On the stack's thread.
 */
#ifndef RPC_RECORD_H
#define RPC_RECORD_H

#include <rte_branch_prediction.h>

#include "rpc/internal.h"
#include "wire/object.h"

/* Executes a slice by the service, and reads the clock before and after. */
enum rpc_progress rpc_record_slice(struct rpc_work *work, uint64_t now_ns);
/* A stream or session belongs to this peer from now on. */
void rpc_record_peer(struct rpc_work *work, const struct net_address *address, uint16_t port);
/* For requests other than small ones that were executed: what they were, and how long they took. */
void rpc_record_large(struct rpc_work *work, struct observe_record *record);
/* Samples some of the keys of a request of one operation. */
void rpc_record_sample(struct rpc_work *work);

/* For a request that has a task. */
static inline struct observe_spent *record_spent(const struct rpc_work *w)
{
	return (struct observe_spent *)((char *)w->request.task + w->server->spent_offset);
}

/* A distinct number for each stream and session. Both structs begin at multiples of 16. */
static inline uint32_t record_peer(const struct rpc_work *w)
{
	return (uint32_t)((uintptr_t)w >> 4);
}

/* The request is done, and still has its task. The record counts once observe_commit is called. */
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
		/* Done at once, so its payload is contiguous. One with reply_due may have had a task. */
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
