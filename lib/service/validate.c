/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks a request whole before its first slice: nothing that a peer sends is believed before. */
#include "service/internal.h"

#include <inttypes.h>
#include <math.h>

#include "tensor/dtype.h"
#include "wire/object.h"

static enum rpc_progress check_layout(struct service *service, struct rpc_request *request)
{
	const struct wire_frame *frame = &request->frame;

	if (frame->incarnation != service->options.incarnation)
		return rpc_reply_fail(
			request, WIRE_STALE_INCARNATION,
			"the node was restarted (incarnation %u, the request is for %u): what it held is lost",
			service->options.incarnation, frame->incarnation);
	if (frame->epoch != service->epoch || service->epoch == 0)
		return rpc_reply_fail(request, WIRE_STALE_LAYOUT,
				      "the layout's epoch is %u, the request's %u: get the layout again",
				      service->epoch, frame->epoch);
	return RPC_MORE;
}

/* One operation's header against its table and the limits. bytes_left: of the payload, after the header. */
static enum rpc_progress check_op(struct service *service, struct rpc_request *request, const struct wire_op *op,
				  uint32_t bytes_left)
{
	const struct object_spec *spec;
	const unsigned element = dtype_bytes(op->dtype);
	uint64_t body;

	if (op->kind != WIRE_PULL && op->kind != WIRE_PUSH)
		return rpc_reply_fail(request, WIRE_BAD_REQUEST, "unknown operation %u", op->kind);
	if (op->object > WIRE_OBJECTS_MAX || !service->tables[op->object])
		return rpc_reply_fail(request, WIRE_UNKNOWN_OBJECT,
				      "no table or variable has the id %u: create it first", op->object);
	spec = store_table_spec(service->tables[op->object]);
	if (op->dtype != spec->dtype)
		return rpc_reply_fail(request, WIRE_WRONG_TYPE, "\"%.80s\" has elements of type %s, the request has %s",
				      spec->name, dtype_name(spec->dtype),
				      dtype_name(op->dtype) ? dtype_name(op->dtype) : "an unknown one");
	if (op->dim != spec->dim)
		return rpc_reply_fail(request, WIRE_WRONG_DIM, "\"%.80s\" has rows of %u elements, the request has %u",
				      spec->name, spec->dim, op->dim);
	if (op->count == 0)
		return rpc_reply_fail(request, WIRE_NO_KEYS, "the operation on \"%.80s\" names no keys", spec->name);
	if (op->count > WIRE_KEYS_MAX)
		return rpc_reply_fail(request, WIRE_OVER_LIMIT, "%u keys in one request: at most %d are possible",
				      op->count, WIRE_KEYS_MAX);
	if (!isfinite(op->rate))
		return rpc_reply_fail(request, WIRE_BAD_REQUEST,
				      "the learning rate for \"%.80s\" is not a finite number", spec->name);
	body = op->kind == WIRE_PULL ? wire_pull_request_bytes(op->count)
				     : wire_push_request_bytes(op->count, op->dim, element);
	if (op->body_bytes != body || wire_padded(op->body_bytes) > bytes_left)
		return rpc_reply_fail(request, WIRE_BAD_REQUEST,
				      "the operation on \"%.80s\" has a body of %u bytes: %" PRIu64
				      " are needed, %u are left",
				      spec->name, op->body_bytes, body, bytes_left);
	return RPC_MORE;
}

/* Sums over the operations of a request. */
struct sums {
	uint64_t keys, push_keys, push_bytes, reply_bytes;
};

static void add(struct sums *sums, const struct wire_op *op)
{
	const unsigned element = dtype_bytes(op->dtype);

	sums->keys += op->count;
	sums->reply_bytes += sizeof(struct wire_result);
	if (op->kind == WIRE_PULL) {
		sums->reply_bytes += (wire_pull_result_bytes(op->count, op->dim, element) + 7) & ~UINT64_C(7);
	} else {
		sums->push_keys += op->count;
		sums->push_bytes += (uint64_t)op->count * op->dim * element;
	}
}

enum rpc_progress service_validate(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;
	struct rpc_cursor at = request->payload;
	uint32_t left = request->frame.payload_bytes;
	struct sums sums = { 0 };

	if (check_layout(service, request) == RPC_DONE)
		return RPC_DONE;
	for (task->ops = 0; left; task->ops++) {
		struct wire_op op;

		if (left < sizeof(op))
			return rpc_reply_fail(request, WIRE_BAD_REQUEST, "%u bytes are left over after %u operations",
					      left, task->ops);
		if (task->ops == WIRE_OPS_MAX)
			return rpc_reply_fail(request, WIRE_OVER_LIMIT, "more than %d operations in one request",
					      WIRE_OPS_MAX);
		rpc_cursor_copy(&at, &op, sizeof(op));
		left -= sizeof(op);
		if (check_op(service, request, &op, left) == RPC_DONE)
			return RPC_DONE;
		rpc_cursor_skip(&at, wire_padded(op.body_bytes));
		left -= wire_padded(op.body_bytes);
		add(&sums, &op);
	}
	if (task->ops == 0)
		return rpc_reply_fail(request, WIRE_BAD_REQUEST, "the request has no operations");
	if (sums.keys > WIRE_KEYS_MAX)
		return rpc_reply_fail(request, WIRE_OVER_LIMIT,
				      "%" PRIu64 " keys in one request: at most %d are possible", sums.keys,
				      WIRE_KEYS_MAX);
	if (sums.reply_bytes > WIRE_PAYLOAD_MAX)
		return rpc_reply_fail(request, WIRE_OVER_LIMIT,
				      "the reply would have %" PRIu64
				      " bytes: at most %d are possible; split the request",
				      sums.reply_bytes, WIRE_PAYLOAD_MAX);
	task->has_push = sums.push_keys > 0;
	task->large = sums.keys > SMALL_PUSH_KEYS || sums.push_bytes > SLICE_BYTES || sums.reply_bytes > SLICE_BYTES;
	task->reply_bytes = (uint32_t)sums.reply_bytes;
	return RPC_MORE;
}
