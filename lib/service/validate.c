/* SPDX-License-Identifier: BSD-3-Clause */
/* Validates a request completely before its first slice: nothing that a peer sends is trusted before. */
#include "service/internal.h"

#include <inttypes.h>

#include "tensor/dtype.h"
#include "wire/object.h"

/* Sums over the operations of a request. */
struct sums {
	uint64_t keys, push_keys, gradient_bytes, reply_bytes;
	uint32_t version_ops, apart, push_ops;
	struct run_sums runs;
};

/* An operation while it is checked. */
struct check {
	struct service *service;
	struct rpc_request *request;
	const struct wire_op *op;
	const struct object_spec *spec; /* of the object that it works on; not for runs */
	struct rpc_cursor at;		/* after its header, ... */
	uint32_t left;			/* ... and how much of the payload is left there */
	struct sums *sums;
};

enum rpc_progress service_validate_layout(struct service *service, struct rpc_request *request)
{
	const struct wire_frame *frame = &request->frame;

	/* 0: it is not known yet whether the node continues its previous incarnation. */
	if (frame->incarnation != service->options.incarnation && service->options.incarnation)
		return rpc_reply_fail(
			request, WIRE_STALE_INCARNATION,
			"the node was restarted (incarnation %u, the request is for %u): what it held is lost",
			service->options.incarnation, frame->incarnation);
	if (service->epoch == 0)
		return rpc_reply_fail(
			request, WIRE_STALE_LAYOUT,
			"the node serves no layout at present: it waits for one, or nodes are being stopped");
	/* A request that was executed elsewhere: its keys are checked anyway. */
	if (frame->epoch != service->epoch && !(frame->flags & WIRE_KEPT))
		return rpc_reply_fail(request, WIRE_STALE_LAYOUT,
				      "the layout's epoch is %u, the request's %u: get the layout again",
				      service->epoch, frame->epoch);
	return RPC_MORE;
}

/* Checks a type that is converted from or to the table's. */
static enum rpc_progress check_dtype(struct rpc_request *request, const struct object_spec *spec, unsigned dtype,
				     bool needed)
{
	if (needed ? dtype_converts(dtype, spec->dtype) : dtype == 0)
		return RPC_MORE;
	if (!needed)
		return rpc_reply_fail(
			request, WIRE_BAD_REQUEST,
			"the operation on \"%.80s\" names an element type that it has no use for: it must be 0",
			spec->name);
	return rpc_reply_fail(request, WIRE_WRONG_TYPE,
			      "\"%.80s\" has elements of type %s, the request has %s: not the "
			      "same, and not converted",
			      spec->name, dtype_name(spec->dtype),
			      dtype_name(dtype) ? dtype_name(dtype) : "an unknown one");
}

/* The operation is neither push nor commit: their fields must be 0. */
static enum rpc_progress check_unscaled(const struct check *c)
{
	if (c->op->rate == 0 && c->op->scale == 0 && c->op->version == 0)
		return RPC_MORE;
	return rpc_reply_fail(c->request, WIRE_BAD_REQUEST,
			      "the operation on \"%.80s\" is not a push: its rate, scale and version must be 0",
			      c->spec->name);
}

static enum rpc_progress check_delete(const struct check *c)
{
	c->sums->apart++;
	if (c->spec->kind == OBJECT_VARIABLE)
		return rpc_reply_fail(c->request, WIRE_BAD_REQUEST,
				      "\"%.80s\" is a variable: its blocks cannot be deleted", c->spec->name);
	return check_unscaled(c);
}

static enum rpc_progress check_commit(const struct check *c)
{
	c->sums->apart++;
	return service_commit_check(c->request, c->spec, c->op);
}

/* Checks what a push to this object must have. */
static enum rpc_progress check_push(const struct check *c)
{
	const struct object_spec *spec = c->spec;
	struct rpc_request *request = c->request;
	const struct wire_op *op = c->op;

	if (spec->optim.kind == OPTIM_NONE)
		return rpc_reply_fail(request, WIRE_WRONG_TYPE,
				      "\"%.80s\" has no optimizer (element type %s): it takes no pushes", spec->name,
				      dtype_name(spec->dtype));
	if (!wire_op_step_is_good(op))
		return rpc_reply_fail(
			request, WIRE_BAD_REQUEST,
			"the learning rate or the scale of a push to \"%.80s\" is not a finite number of 0 or "
			"more, or its flag is missing",
			spec->name);
	if (op->version && !(op->flags & (WIRE_PULLED | WIRE_ACCUMULATE)))
		return rpc_reply_fail(request, WIRE_BAD_REQUEST,
				      "a push to \"%.80s\" has a version, and no flag that says of what", spec->name);
	if (spec->optim.kind == OPTIM_LAMB && op->count != wire_object_blocks(spec))
		return rpc_reply_fail(request, WIRE_BAD_REQUEST,
				      "a push to \"%.80s\" must have all its %" PRIu64
				      " blocks, it has %u: lamb works on the whole tensor",
				      spec->name, wire_object_blocks(spec), op->count);
	return RPC_MORE;
}

static unsigned flags_of(unsigned kind)
{
	switch (kind) {
#define X(KIND, flags, checked, prepared, begun) \
	case WIRE_##KIND: \
		return flags;
		SERVICE_OPS(X)
#undef X
	default:
		return 0;
	}
}

static enum rpc_progress check_flags(struct rpc_request *request, const struct object_spec *spec,
				     const struct wire_op *op)
{
	if (op->reserved)
		return rpc_reply_fail(request, WIRE_BAD_REQUEST,
				      "a reserved field of the operation on \"%.80s\" is not 0", spec->name);
	if (op->flags & ~flags_of(op->kind) || (op->flags & WIRE_ACCUMULATE && op->flags & WIRE_PULLED))
		return rpc_reply_fail(request, WIRE_BAD_REQUEST,
				      "the operation on \"%.80s\" has flags that it cannot have (%#x)", spec->name,
				      op->flags);
	if (op->flags & WIRE_VERSIONS && !spec->versions)
		return rpc_reply_fail(request, WIRE_BAD_REQUEST,
				      "the rows of \"%.80s\" have no versions: create it with versions=1", spec->name);
	return RPC_MORE;
}

/* A handle of another generation may be that of a table that now has the same name, and even the same definition. */
static enum rpc_progress refuse_unknown(struct rpc_request *request, uint32_t object)
{
	return rpc_reply_fail(request, WIRE_UNKNOWN_OBJECT,
			      "no table or variable has the id %u (generation %u): it was dropped, or never created; "
			      "look it up again, or create it first",
			      object_id_of(object), object >> OBJECT_ID_BITS);
}

static enum rpc_progress refuse_quota(const struct service *service, struct rpc_request *request, const char *table,
				      bool memory)
{
	const enum wire_status status = memory ? WIRE_QUOTA_MEMORY : WIRE_QUOTA_NEW_ROWS;

	service->options.over_quota(request, status);
	if (memory)
		return rpc_reply_fail(
			request, status,
			"\"%.80s\" accepts no new rows from this principal: the tables in which it may make some have "
			"as much memory as its quota allows (security.rights: limit ... memory=): delete rows, or "
			"raise it",
			table);
	return rpc_reply_fail(
		request, status,
		"\"%.80s\" accepts no new rows from this principal now: it makes more a second than its quota allows "
		"(security.rights: limit ... new_rows=); retry later",
		table);
}

enum rpc_progress service_refuse_right(const struct service *service, struct rpc_request *request, const char *table,
				       uint8_t lacks)
{
	if (lacks & (LACKS_NEW_ROWS | LACKS_MEMORY))
		return refuse_quota(service, request, table, lacks & LACKS_MEMORY);
	return rpc_reply_fail(
		request, WIRE_NOT_ALLOWED,
		"the key does not have the right \"%s\" to \"%.80s\" (security.rights; `starctl acl check`)",
		secure_right_name(lacks), table);
}

static enum rpc_progress check_rights(const struct check *c)
{
	const uint8_t lacks = service_lacks(c->service, c->request, object_id_of(c->op->object), op_needs(c->op));

	return likely(!lacks) ? RPC_MORE : service_refuse_right(c->service, c->request, c->spec->name, lacks);
}

static enum rpc_progress check_run(const struct check *c)
{
	return service_run_check(c->service, c->request, c->op, c->at, c->left, &c->sums->runs);
}

static enum rpc_progress check_kind(const struct check *c)
{
	switch (c->op->kind) {
#define X(KIND, flags, checked, prepared, begun) \
	case WIRE_##KIND: \
		return check_##checked(c);
		SERVICE_OPS(X)
#undef X
	default:
		return rpc_reply_fail(c->request, WIRE_BAD_REQUEST, "unknown operation %u", c->op->kind);
	}
}

/* Checks an operation against its table and the limits. */
static enum rpc_progress check_table_op(struct check *c)
{
	struct service *service = c->service;
	struct rpc_request *request = c->request;
	const struct wire_op *op = c->op;
	const struct object_spec *spec;
	uint64_t body;

	if (op->kind < WIRE_PULL || op->kind > WIRE_COMMIT)
		return check_kind(c);
	if (!service_table(service, op->object))
		return refuse_unknown(request, op->object);
	c->spec = spec = store_table_spec(service_table(service, op->object));
	if (check_rights(c) == RPC_DONE)
		return RPC_DONE;
	if (check_dtype(request, spec, op->dtype, op_pushes(op)) == RPC_DONE ||
	    check_dtype(request, spec, op->result_dtype, op_pulls(op)) == RPC_DONE)
		return RPC_DONE;
	if (op->dim != spec->dim)
		return rpc_reply_fail(request, WIRE_WRONG_DIM, "\"%.80s\" has rows of %u elements, the request has %u",
				      spec->name, spec->dim, op->dim);
	if (op->count == 0)
		return rpc_reply_fail(request, WIRE_NO_KEYS, "the operation on \"%.80s\" names no keys", spec->name);
	if (op->count > WIRE_KEYS_MAX)
		return rpc_reply_fail(request, WIRE_OVER_LIMIT, "%u keys in one request: at most %d are possible",
				      op->count, WIRE_KEYS_MAX);
	if (check_flags(request, spec, op) == RPC_DONE || check_kind(c) == RPC_DONE)
		return RPC_DONE;
	body = wire_op_bytes(op);
	if (op->body_bytes != body || wire_padded(op->body_bytes) > c->left)
		return rpc_reply_fail(request, WIRE_BAD_REQUEST,
				      "the operation on \"%.80s\" has a body of %u bytes: %" PRIu64
				      " are needed, %u are left",
				      spec->name, op->body_bytes, body, c->left);
	return op->flags & WIRE_ACCUMULATE ? service_commit_check_push(service, request, op) : RPC_MORE;
}

static void add_op(struct sums *sums, const struct wire_op *op, unsigned stored)
{
	sums->keys += op->count;
	sums->reply_bytes += sizeof(struct wire_result) + ((wire_op_result_bytes(op) + 7) & ~UINT64_C(7));
	sums->version_ops += op->flags & WIRE_VERSIONS ? 1 : 0;
	if (!op_pushes(op))
		return;
	sums->push_ops++;
	sums->push_keys += op->count;
	sums->gradient_bytes +=
		(uint64_t)op->count * op->dim * (stored == STAR_FLOAT64 ? sizeof(double) : sizeof(float));
}

/* RPC_DONE: refused; otherwise the operation is added to the sums. */
static enum rpc_progress check_op(struct check *c)
{
	if (c->op->kind == WIRE_RUN)
		return check_kind(c);
	if (check_table_op(c) == RPC_DONE)
		return RPC_DONE;
	add_op(c->sums, c->op, c->spec->dtype);
	return RPC_MORE;
}

static enum rpc_progress check_sums(const struct service *service, struct rpc_request *request, const struct sums *sums,
				    uint32_t ops)
{
	if (ops == 0)
		return rpc_reply_fail(request, WIRE_BAD_REQUEST, "the request has no operations");
	if (sums->keys > WIRE_KEYS_MAX)
		return rpc_reply_fail(request, WIRE_OVER_LIMIT,
				      "%" PRIu64 " keys in one request: at most %d are possible", sums->keys,
				      WIRE_KEYS_MAX);
	if (sums->reply_bytes > service->options.payload_max)
		return rpc_reply_fail(request, WIRE_OVER_LIMIT,
				      "the reply would have %" PRIu64
				      " bytes: at most %u are possible; split the request",
				      sums->reply_bytes, service->options.payload_max);
	if (sums->push_keys && (sums->version_ops || sums->apart))
		return rpc_reply_fail(request, WIRE_BAD_REQUEST,
				      "a request with pushes has %s as well: they must go apart",
				      sums->apart ? "deletes or commits" : "pulls with versions");
	if (sums->push_ops > WIRE_OPS_MAX)
		return rpc_reply_fail(request, WIRE_OVER_LIMIT,
				      "the operations and programs of one request push more than %d times",
				      WIRE_OPS_MAX);
	if (sums->runs.pool_bytes > service->pools_max)
		return rpc_reply_fail(request, WIRE_OVER_LIMIT,
				      "the pools and the rows by segment of one request have %" PRIu64
				      " bytes: at most %" PRIu64 " are possible",
				      sums->runs.pool_bytes, service->pools_max);
	return RPC_MORE;
}

/* Adds the sums of runs to those of all operations. */
static void add_runs(struct sums *sums)
{
	sums->keys += sums->runs.keys;
	sums->push_ops += sums->runs.push_ops;
	sums->push_keys += sums->runs.push_keys;
	sums->gradient_bytes += sums->runs.gradient_bytes;
	sums->reply_bytes += sums->runs.reply_bytes;
}

enum rpc_progress service_validate(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;
	struct rpc_cursor at = request->payload;
	uint32_t left = request->frame.payload_bytes;
	struct sums sums = { 0 };
	struct wire_op op;
	struct check c = { .service = service, .request = request, .op = &op, .sums = &sums };

	task->owned = KEPT_NONE;
	task->redefined = service->redefined;
	if (service_validate_layout(service, request) == RPC_DONE)
		return RPC_DONE;
	for (task->ops = 0; left; task->ops++) {
		if (left < sizeof(op))
			return rpc_reply_fail(request, WIRE_BAD_REQUEST, "%u bytes are left over after %u operations",
					      left, task->ops);
		if (task->ops == WIRE_OPS_MAX)
			return rpc_reply_fail(request, WIRE_OVER_LIMIT, "more than %d operations in one request",
					      WIRE_OPS_MAX);
		rpc_cursor_copy(&at, &op, sizeof(op));
		left -= sizeof(op);
		c.at = at;
		c.left = left;
		if (check_op(&c) == RPC_DONE) {
			task->op.object = op.object; /* the object at which it has failed */
			return RPC_DONE;
		}
		rpc_cursor_skip(&at, wire_padded(op.body_bytes));
		left -= wire_padded(op.body_bytes);
	}
	add_runs(&sums);
	if (check_sums(service, request, &sums, task->ops) == RPC_DONE)
		return RPC_DONE;
	task->has_push = sums.push_keys > 0;
	task->prepared = task->has_push || sums.version_ops > 0 || sums.runs.prepared;
	task->large = sums.keys > SMALL_KEYS || sums.gradient_bytes > SLICE_BYTES || sums.reply_bytes > SLICE_BYTES ||
		      sums.runs.work > SLICE_BYTES || sums.runs.pool_bytes > SLICE_BYTES;
	task->reply_bytes = (uint32_t)sums.reply_bytes;
	return RPC_MORE;
}
