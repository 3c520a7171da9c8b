/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of gradients, and their commits: how a step of a synchronous job, to which many workers contribute, is applied once. An object's
 * sums have a tag; pushes to them carry it, so that what comes late, or from a worker that was taken for dead meanwhile, is
 * refused. Sums are closed while they are emptied, which goes on in slices; who asks for it again helps. So a commit that was begun and
 * given up, with its connection or its worker, is finished by the next one.
 *
 * A large push to sums that were closed between its preparation and its run adds to rows that are no longer in them: it is lost, as it would
 * have been had it come later.
 */
#include "service/internal.h"

#include <inttypes.h>
#include <math.h>

#include "store/sums.h"

static enum rpc_progress refuse_kind(struct rpc_request *request, const struct object_spec *spec)
{
	return rpc_reply_fail(request, WIRE_WRONG_TYPE, "gradients of \"%.80s\" cannot be summed up for a commit: %s",
			      spec->name,
			      spec->optim.kind == OPTIM_NONE   ? "it has no optimizer"
			      : spec->optim.kind == OPTIM_LAMB ? "optimizer lamb needs all of a gradient at once"
							       : "clip_global_norm needs all of a gradient at once");
}

enum rpc_progress commit_check(struct rpc_request *request, const struct object_spec *spec, const struct wire_op *op)
{
	if (!store_sums_possible(spec))
		return refuse_kind(request, spec);
	if (op->count != 1 || op->version == 0 || op->version == UINT64_MAX)
		return rpc_reply_fail(request, WIRE_BAD_REQUEST,
				      "a commit of \"%.80s\" names one key, and a tag that is neither 0 nor the last",
				      spec->name);
	if (!isfinite(op->rate) || op->rate < 0 || !isfinite(op->scale) || op->scale < 0)
		return rpc_reply_fail(
			request, WIRE_BAD_REQUEST,
			"the learning rate or the scale of a commit of \"%.80s\" is not a finite number of 0 or more",
			spec->name);
	return RPC_MORE;
}

static enum rpc_progress refuse_tag(const struct service *service, struct rpc_request *request,
				    const struct wire_op *op)
{
	const struct accumulator *a = &service->accumulators[op->object];

	return rpc_reply_fail(request, WIRE_CLOSED, "the sums %" PRIu64 " of \"%.80s\" are not open: %s (%" PRIu64 ")",
			      op->version, store_table_spec(service->tables[op->object])->name,
			      !a->sums	    ? "none were yet"
			      : a->emptying ? "others are being committed"
					    : "others are",
			      a->open);
}

enum rpc_progress commit_check_push(struct service *service, struct rpc_request *request, const struct wire_op *op)
{
	const struct object_spec *spec = store_table_spec(service->tables[op->object]);
	const struct accumulator *a = &service->accumulators[op->object];

	if (!store_sums_possible(spec))
		return refuse_kind(request, spec);
	if (op->rate != 0)
		return rpc_reply_fail(
			request, WIRE_BAD_REQUEST,
			"the learning rate of gradients of \"%.80s\" that are summed up is their commit's", spec->name);
	if (a->sums && !a->emptying && a->open == op->version)
		return RPC_MORE;
	service->counters.late++;
	return refuse_tag(service, request, op);
}

/* Some rows go out. True: it is done. */
static bool empty(struct service *service, struct task *task, struct accumulator *a, int64_t *budget)
{
	struct store_table *table = operation_object(service, task);
	unsigned taken;

	if (a->applies && !snapshot_room(service, table, task->batch, STORE_PUSH)) {
		*budget = 0;
		return false;
	}
	if (store_sums_take(a->sums, table, a->applies ? &a->step : NULL, task->batch, &taken)) {
		/* A segment was read for them, which counts as some rows. */
		*budget -= operation_cost(task, taken) + SLICE_BYTES / 4;
		return false;
	}
	service->counters.commits += a->applies;
	a->emptying = false;
	a->open = a->next;
	return true;
}

static enum rpc_progress done(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;
	const struct wire_result result = {
		.object = task->op.object,
		.count = task->op.count,
		.dim = task->op.dim,
		.version = store_table_stats(task->table)->pushes,
	};

	(void)service;
	rpc_reply_put(request, &result, sizeof(result));
	task->stage = STAGE_NEXT;
	return RPC_MORE;
}

static void begin(struct rpc_request *request, struct accumulator *a, uint64_t next, bool applies)
{
	const struct task *task = request->task;

	store_sums_begin(a->sums);
	a->emptying = true;
	a->applies = applies;
	a->next = next;
	a->step = op_step(&task->op);
	a->step.version = 0;
	request->begun = true;
}

static enum rpc_progress create(struct service *service, struct rpc_request *request, struct accumulator *a)
{
	const struct task *task = request->task;
	const double share =
		(double)(service->end_partition - service->first_partition) / (double)service->options.partitions;

	a->sums = store_sums_create(service->sums, task->table, share, NULL);
	if (!a->sums)
		return rpc_reply_fail(
			request, WIRE_NO_MEMORY,
			"the reactor's parameter memory is full: it has no room for sums of \"%.80s\"; raise "
			"memory.parameter_mib",
			task->spec->name);
	a->open = 0;
	return RPC_MORE;
}

enum rpc_progress commit_slice(struct service *service, struct rpc_request *request, int64_t *budget)
{
	struct task *task = request->task;
	const struct wire_op *op = &task->op;
	struct accumulator *a = &service->accumulators[op->object];

	if (task->done == 0) {
		if (operation_check_keys(service, request, operation_keys(service, task)) == RPC_DONE)
			return RPC_DONE;
		task->done = 1;
	}
	while (a->emptying && *budget > 0)
		empty(service, task, a, budget);
	if (a->emptying)
		return RPC_MORE;
	if (op->flags & WIRE_OPEN) {
		if (!a->sums && create(service, request, a) == RPC_DONE)
			return RPC_DONE;
		if (a->open == op->version)
			return done(service, request);
		if (a->open > op->version)
			return refuse_tag(service, request, op);
		begin(request, a, op->version, false);
		return RPC_MORE;
	}
	if (a->sums && a->open == op->version + 1)
		return done(service, request);
	if (!a->sums || a->open != op->version)
		return refuse_tag(service, request, op);
	begin(request, a, op->version + 1, true);
	return RPC_MORE;
}
