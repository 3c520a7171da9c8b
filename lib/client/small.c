/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's side of small calls; see small.h. */
#include "client/small.h"

#include <stdlib.h>

#include "client/codec.h"
#include "wire/layout.h"

/* Cannot happen: the buffer holds the largest row. */
static void past_the_end(struct codec_out *out)
{
	abort();
}

/* Sets what all requests of a call have in common, as the general path writes it. */
static void fill_small(struct call *call, bool pushes)
{
	struct small *small = &call->small;
	struct part *part = TAILQ_FIRST(&call->parts);
	struct call_op *op = &call->ops[0];
	const struct wire_frame reply = {
		.magic = WIRE_MAGIC, .version = WIRE_VERSION, .opcode = WIRE_REPLY, .status = WIRE_OK
	};
	const uint32_t result[4] = { object_wire_id(&op->table->spec), 1, op->table->spec.dim,
				     pushes ? 0 : op->row_bytes };
	char payload[sizeof(struct wire_op) + sizeof(uint64_t) + SMALL_ROW_BYTES];
	struct codec_out out = { .at = payload, .end = payload + sizeof(payload), .next = past_the_end };

	client_codec_request(part, &out);
	memset(&small->head, 0, sizeof(small->head));
	small->deadline_us = 0;
	small->head.magic = WIRE_MAGIC;
	small->head.version = WIRE_VERSION;
	small->head.opcode = WIRE_EXECUTE;
	small->head.epoch = part->epoch;
	small->head.payload_bytes = part->request_bytes;
	memcpy(&small->head.op, payload, sizeof(small->head.op));
	memcpy(&small->reply_head, &reply, sizeof(small->reply_head));
	memcpy(&small->object_count, &result[0], sizeof(small->object_count));
	memcpy(&small->dim_bytes, &result[2], sizeof(small->dim_bytes));
	small->request_bytes = (uint32_t)sizeof(struct wire_frame) + part->request_bytes;
	small->reply_bytes = (uint32_t)sizeof(struct small_reply) + (pushes ? 0 : op->row_bytes);
	small->op = op;
	small->pushes = pushes;
	small->part = part;
}

static struct call *make_small(const struct small_op *o, const struct route *route, struct star_error *err)
{
	const struct star_op op = { .kind = o->kind,
				    .flags = o->flags,
				    .table = o->table,
				    .keys = o->keys,
				    .count = 1,
				    .values = o->values,
				    .step = o->step };
	struct call *call = client_call_make(o->table->cluster, &op, 1, 0, err);

	if (!call)
		return NULL;
	call->small.route = route;
	fill_small(call, o->kind == STAR_PUSH);
	return call;
}

/* Reuses a finished call for this one. */
static inline void renew_small(struct call *call, const struct small_op *o, const struct route *route)
{
	struct small *small = &call->small;
	struct call_op *op = small->op;

	op->keys = o->keys;
	op->gradients = op->results = o->values;
	op->step = small->head.op.step = o->step;
	small->head.op.flags = op->flags = o->flags & STAR_READ_ONLY ? WIRE_READ_ONLY : 0;
	small->part->busy = 0;
	small->part->channel = route->channels[0];
	if (route->reactors != 1) {
		const uint64_t hash = hash_key(o->table->name_hash, *o->keys);

		small->part->channel = route->channels[layout_owner(route->partitions, route->reactors,
								    layout_partition(hash, route->partitions))];
	}
}

/* Takes one of the cluster's waiters, which is reserved for calls like this, without its lock. */
static inline struct waiter *take_waiter(struct star_cluster *cluster, struct star_error *err)
{
	struct waiter *k = atomic_exchange_explicit(&cluster->spare, NULL, memory_order_acquire);

	return k ? k : client_waiter_get(cluster, err);
}

static inline void put_waiter(struct star_cluster *cluster, struct waiter *k)
{
	k = atomic_exchange_explicit(&cluster->spare, k, memory_order_acq_rel);
	if (k)
		client_waiter_put(k);
}

/* Prepares a call that is about to be submitted. */
static inline void begin_small(struct call *call, bool waits, uint64_t deadline_us)
{
	struct small *small = &call->small;

	if (deadline_us != small->given_us || !small->deadline_us) {
		small->given_us = deadline_us;
		small->deadline_us = deadline_bounded(deadline_us);
		small->head.deadline_us = small->deadline_us > UINT32_MAX ? UINT32_MAX : (uint32_t)small->deadline_us;
	}
	small->plain = false;
	call->waits = waits;
	call->start_ns = 0;
	call->deadline_ns = small->deadline_us * 1000;
}

/* Whether a finished call is unchanged, and so can be reused. One that took the general path may be, too. */
static inline bool is_reusable(const struct call *call)
{
	const struct small *small = &call->small;

	return small->plain ||
	       (!call->error.code && !call->cancelled && !call->retries && !small->part->busy && !small->part->applied);
}

static int run_small(struct call *call, struct waiter *k, uint64_t deadline_us, struct star_error *err)
{
	begin_small(call, true, deadline_us);
	call->waiter = k;
	call->cluster->transport->small(call, k);
	return call->small.plain ? 0 : client_call_finish(k, call, err);
}

int client_small_execute(const struct small_op *o, uint64_t deadline_us, struct star_error *err)
{
	struct star_cluster *cluster = o->table->cluster;
	_Atomic(struct call *) *spare = &o->table->spare[o->kind == STAR_PUSH];
	struct waiter *k = NULL;
	const struct route *route;
	struct star_error ignored;
	struct call *call;
	bool ready;
	int rc;

	if (!err)
		err = &ignored;
	rc = client_cluster_enter(cluster, true, err);
	if (rc < 0)
		return rc;
	route = atomic_load_explicit(&cluster->route, memory_order_acquire);
	call = atomic_exchange_explicit(spare, NULL, memory_order_acquire);
	if (call && call->small.route == route) {
		renew_small(call, o, route);
	} else {
		if (call)
			client_call_free(call);
		call = make_small(o, route, err);
	}
	ready = call != NULL;
	if (ready && !cluster->transport->unattended) {
		k = take_waiter(cluster, err);
		ready = k != NULL;
	}
	rc = ready ? run_small(call, k, deadline_us, err) : err->code;
	if (k)
		put_waiter(cluster, k);
	if (ready && is_reusable(call))
		call = atomic_exchange_explicit(spare, call, memory_order_acq_rel);
	if (call)
		client_call_free(call);
	client_cluster_leave(cluster);
	return rc;
}

static void drop_ahead(struct call *call)
{
	atomic_fetch_sub_explicit(&call->cluster->ahead_count, 1, memory_order_relaxed);
	client_call_free(call);
}

struct call *client_small_begin(const struct small_op *o, uint64_t deadline_us)
{
	struct star_cluster *cluster = o->table->cluster;
	const struct route *route = atomic_load_explicit(&cluster->route, memory_order_acquire);
	struct call *call = client_call_stack_pop(&cluster->pool, &o->table->ahead[o->kind == STAR_PUSH]);

	if (call && call->small.route == route) {
		renew_small(call, o, route);
	} else {
		if (call)
			drop_ahead(call);
		if (atomic_load_explicit(&cluster->ahead_count, memory_order_relaxed) >= SMALL_AHEAD_MAX)
			return NULL;
		call = make_small(o, route, NULL);
		if (!call)
			return NULL;
		atomic_fetch_add_explicit(&cluster->ahead_count, 1, memory_order_relaxed);
	}
	begin_small(call, false, deadline_us);
	return call;
}

void client_small_end(struct call *call)
{
	if (is_reusable(call))
		client_call_stack_push(&call->small.op->table->ahead[call->small.pushes], call);
	else
		drop_ahead(call);
}
