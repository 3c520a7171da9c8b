/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records requests (lib/observe), except small ones. Their contents are read again in place, so that the service need
 * not know of it.
 */
#include <rte_branch_prediction.h>
#include <string.h>

#include "base/clock.h"
#include "rpc/record.h"

#define KIND(name) _Static_assert((int)OBSERVE_##name == (int)WIRE_##name, "a class is the kind of an operation")
KIND(PULL);
KIND(PUSH);
KIND(PUSH_PULL);
KIND(DELETE);
KIND(ASSIGN);
KIND(COMMIT);
_Static_assert((int)OBSERVE_PROGRAM == (int)WIRE_RUN, "the same");
_Static_assert((int)WIRE_KEYS_MAX < (int)OBSERVE_KEYS_MAX, "keys have their bits");
_Static_assert(sizeof(struct rpc_stream) % 16 == 0 && sizeof(struct rpc_session) % 16 == 0, "record_peer");

enum rpc_progress rpc_record_slice(struct rpc_work *w, uint64_t now_ns)
{
	const struct rpc_service *service = &w->server->options.service;
	struct observe *o = w->server->options.observe;
	const uint64_t begun = o->stamp ? o->stamp : clock_cycles(), arrived_ns = work_arrived_ns(w);
	const enum rpc_progress progress = service->execute(service->ctx, &w->request, now_ns);
	const bool waits = progress == RPC_MORE && w->request.why & OBSERVE_WAITS;

	w->request.why &= (uint8_t)~OBSERVE_WAITS;
	observe_slice(o, record_spent(w), arrived_ns, begun, clock_cycles(), !waits);
	return progress;
}

static uint64_t take_key(void *ctx, uint32_t number)
{
	struct rpc_cursor at = *(const struct rpc_cursor *)ctx;
	uint64_t key;

	rpc_cursor_skip(&at, number * (uint32_t)sizeof(key));
	rpc_cursor_copy(&at, &key, sizeof(key));
	return key;
}

/* Samples keys of an operation that was executed. It begins at the given place and lies within the remaining bytes of
 * the request. A program is sampled only if it has a single list of keys. */
static void sample_keys(struct observe *o, const struct wire_op *op, struct rpc_cursor keys, uint32_t left)
{
	uint64_t counts = op->count;
	const bool there = op->kind != WIRE_COMMIT && op->count < left / sizeof(uint64_t) + (op->kind != WIRE_RUN);

	if (there && op->kind == WIRE_RUN)
		rpc_cursor_copy(&keys, &counts, sizeof(counts));
	if (there && counts == op->count)
		observe_sample(o, op->count, op->object, take_key, &keys);
	else
		observe_pass(o);
}

void rpc_record_sample(struct rpc_work *w)
{
	struct rpc_cursor keys = w->request.payload;
	struct wire_op op;

	rpc_cursor_copy(&keys, &op, sizeof(op));
	sample_keys(w->server->options.observe, &op, keys, w->request.frame.payload_bytes - (uint32_t)sizeof(op));
}

/* Sums up a request that was executed, and is therefore valid: observe_what, and the object of its first operation. */
static uint32_t sum_operations(struct rpc_work *w, uint32_t slices, uint32_t *object)
{
	struct observe *o = w->server->options.observe;
	struct rpc_cursor at = w->request.payload;
	uint32_t left = w->request.frame.payload_bytes, keys = 0;
	unsigned class = OBSERVE_OTHER;

	for (unsigned ops = 0; ops < WIRE_OPS_MAX && left >= sizeof(struct wire_op); ops++) {
		struct wire_op op;

		rpc_cursor_copy(&at, &op, sizeof(op));
		if (ops == 0) {
			*object = op.object;
			class = op.kind & 7;
		} else if (op.kind != class) {
			class = OBSERVE_OTHER;
		}
		keys += op.count;
		left -= (uint32_t)sizeof(op);
		if (observe_wants_sample(o, op.count))
			sample_keys(o, &op, at, left);
		if (left <= wire_padded(op.body_bytes))
			break;
		left -= wire_padded(op.body_bytes);
		rpc_cursor_skip(&at, wire_padded(op.body_bytes));
	}
	return observe_what(RTE_MIN(keys, (uint32_t)OBSERVE_KEYS_MAX), slices, class);
}

void rpc_record_large(struct rpc_work *w, struct observe_record *r)
{
	struct observe *o = w->server->options.observe;
	const struct observe_spent *spent = w->request.task ? record_spent(w) : NULL;
	const uint32_t slices = spent ? RTE_MIN(spent->slices, (uint32_t)OBSERVE_SLICES_MAX) : 0;
	uint32_t object = 0;

	r->what = w->reply_status == WIRE_OK && w->request.frame.opcode == WIRE_EXECUTE
			  ? sum_operations(w, slices, &object)
			  : observe_what(0, slices, OBSERVE_OTHER);
	observe_end_of(r, object_id_of(object), w->reply_status, w->request.why);
	if (slices) {
		r->wait = observe_units(spent->wait_ns);
		r->run = observe_units(spent->run_ns);
		o->large++;
	}
}

void rpc_record_peer(struct rpc_work *w, const struct net_address *address, uint16_t port)
{
	observe_peer(w->server->options.observe, record_peer(w), address->bytes, port,
		     net_now_ns(w->server->options.net));
}

void rpc_turn_sent(struct rpc_server *server, uint64_t begun, uint64_t ended)
{
	if (server->options.observe)
		observe_sent(server->options.observe, begun, ended);
}

void rpc_observe(struct rpc_server *server, struct observe *observe)
{
	rpc_turn_sent(server, 0, 0);
	server->options.observe = observe;
}
