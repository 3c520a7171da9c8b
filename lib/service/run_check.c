/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks a run's header and the counts of its feeds before anything in it is trusted. */
#include <inttypes.h>

#include "service/internal.h"

/* Whether it keeps something, or uses what was kept. */
static bool has_entry(const struct program_shape *shape, const struct wire_op *op)
{
	return program_has_entry(shape) && !(op->flags & WIRE_ALONE);
}

static unsigned flags_of(const struct program_shape *shape, const struct wire_op *op)
{
	unsigned flags = shape->applies ? WIRE_APPLIED | WIRE_RATE | WIRE_SCALE : 0;

	if (program_has_entry(shape))
		flags |= WIRE_ALONE;
	return has_entry(shape, op) && !shape->begins ? flags | WIRE_LAST : flags;
}

/* Checks the operation as a whole. */
static enum rpc_progress check_head(struct rpc_request *request, const struct wire_op *op, const struct plan *plan)
{
	const struct program_shape *shape = &plan->shape;

	if (op->dtype || op->result_dtype || op->reserved || op->flags & ~flags_of(shape, op) ||
	    (has_entry(shape, op) ? op->version == 0 || request->frame.session == 0 : op->version != 0))
		return rpc_reply_fail(
			request, WIRE_BAD_REQUEST,
			"the run of program %u has a type, a tag or flags that it cannot have, or lacks a tag",
			op->object);
	if (!wire_op_step_is_good(op))
		return rpc_reply_fail(
			request, WIRE_BAD_REQUEST,
			"the learning rate or the scale of a run of program %u is not a finite number of 0 "
			"or more, or its flag is missing, or it has one and applies nothing",
			op->object);
	if (shape->segments ? op->dim < 1 || op->dim > PROGRAM_SEGMENTS_MAX : op->dim != 0)
		return rpc_reply_fail(request, WIRE_BAD_REQUEST, "a run of program %u names %u segments: %s",
				      op->object, op->dim, shape->segments ? "1 to 65536 are possible" : "it has none");
	if (op->count == 0)
		return rpc_reply_fail(request, WIRE_NO_KEYS, "the run of program %u names no keys", op->object);
	if (op->count > WIRE_KEYS_MAX)
		return rpc_reply_fail(request, WIRE_OVER_LIMIT, "%u keys in one request: at most %d are possible",
				      op->count, WIRE_KEYS_MAX);
	return RPC_MORE;
}

/* Checks the rights to each table that it reads or pushes to. */
static enum rpc_progress check_rights(const struct service *service, struct rpc_request *request,
				      const struct plan *plan, const struct wire_op *op)
{
	const bool applies = plan->shape.applies && !(op->flags & WIRE_APPLIED);

	for (unsigned k = 0; k < plan->shape.keys_count; k++) {
		const struct object_spec *spec = store_table_spec(plan->keys[k].table);
		const bool pushes = applies && plan->shape.keys[k].apply != PROGRAM_NONE;
		const uint8_t needs = SECURE_PULL | (plan->keys[k].makes ? SECURE_CREATE : 0) |
				      (pushes ? SECURE_PUSH | SECURE_CREATE : 0);
		const uint8_t lacks = service_lacks(service, request, spec->id, needs);

		if (lacks)
			return service_refuse_right(service, request, spec->name, lacks);
	}
	return RPC_MORE;
}

/* Reads the number of keys of each feed, and compares it with the header. */
static enum rpc_progress read_counts(struct rpc_request *request, const struct wire_op *op, const struct plan *plan,
				     struct rpc_cursor at, uint32_t left, uint32_t *counts)
{
	const uint32_t bytes = plan->shape.keys_count * (uint32_t)sizeof(*counts);
	uint64_t sum = 0;

	if (left < bytes)
		return rpc_reply_fail(request, WIRE_BAD_REQUEST,
				      "the run of program %u ends before the counts of its feeds", op->object);
	rpc_cursor_copy(&at, counts, bytes);
	for (unsigned k = 0; k < plan->shape.keys_count; k++)
		sum += counts[k];
	return sum == op->count ? RPC_MORE
				: rpc_reply_fail(request, WIRE_BAD_REQUEST,
						 "the run of program %u says %u keys, and its feeds have %" PRIu64,
						 op->object, op->count, sum);
}

static void add_run_sums(struct run_sums *sums, const struct wire_op *op, const struct plan *plan,
			 const uint32_t *counts)
{
	const struct program_shape *shape = &plan->shape;
	const bool applies = shape->applies && !(op->flags & WIRE_APPLIED);

	sums->keys += op->count;
	sums->reply_bytes +=
		sizeof(struct wire_result) + wire_program_reply_bytes(&plan->program, shape, counts, op->dim);
	sums->pool_bytes += wire_program_segment_bytes(&plan->program, shape, PROGRAM_SEGMENT_ROWS, op->dim) +
			    wire_program_segment_bytes(&plan->program, shape, PROGRAM_POOL, op->dim);
	sums->prepared |= shape->segments || has_entry(shape, op);
	sums->work += shape->once_elements * sizeof(float);
	for (unsigned k = 0; k < shape->keys_count; k++) {
		const struct object_spec *spec = store_table_spec(plan->keys[k].table);

		sums->work += (uint64_t)counts[k] * plan->keys[k].cost;
		if (!applies || shape->keys[k].apply == PROGRAM_NONE)
			continue;
		sums->push_ops++;
		sums->push_keys += counts[k];
		sums->gradient_bytes += (uint64_t)counts[k] * spec->dim *
					(spec->dtype == STAR_FLOAT64 ? sizeof(double) : sizeof(float));
	}
}

enum rpc_progress service_run_check(struct service *service, struct rpc_request *request, const struct wire_op *op,
				    struct rpc_cursor at, uint32_t left, struct run_sums *sums)
{
	const struct plan *plan = service_plan(service, op->object);
	uint32_t counts[PROGRAM_KEYS_MAX];
	uint64_t body;

	if (!plan)
		return rpc_reply_fail(
			request, WIRE_UNKNOWN_OBJECT,
			"no program has the id %u: register it first; or a table that it works on was dropped",
			op->object);
	if (!service_plan_is_bound(service, plan))
		return rpc_reply_fail(
			request, WIRE_UNKNOWN_OBJECT,
			"a table that program %u works on is not the one that it was registered for: register "
			"it again",
			op->object);
	if (service->options.rights && check_rights(service, request, plan, op) == RPC_DONE)
		return RPC_DONE;
	if (check_head(request, op, plan) == RPC_DONE || read_counts(request, op, plan, at, left, counts) == RPC_DONE)
		return RPC_DONE;
	body = wire_program_request_bytes(&plan->program, &plan->shape, counts, op->dim, op->flags & WIRE_ALONE);
	if (op->body_bytes != body || wire_padded(op->body_bytes) > left)
		return rpc_reply_fail(request, WIRE_BAD_REQUEST,
				      "the run of program %u has a body of %u bytes: %" PRIu64
				      " are needed, %u are left",
				      op->object, op->body_bytes, body, left);
	add_run_sums(sums, op, plan, counts);
	return RPC_MORE;
}
