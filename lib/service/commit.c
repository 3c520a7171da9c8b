/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of gradients, and their commits: how a step of a synchronous job, to which many workers contribute, is applied
 * exactly once. The sums of an object have a tag, and pushes to them carry it. So a push that is late, or comes from a
 * worker that was declared dead, is refused. Sums are closed while they are emptied, which takes several slices;
 * whoever requests the commit again continues it. So a commit that was abandoned, with its connection or its worker, is
 * finished by the next one.
 *
 * If sums are closed between the preparation and the run of a large push, it adds to rows that are no longer in them.
 * It is lost, as it would have been if it had come later.
 */
#include "service/internal.h"

#include <inttypes.h>

#include "store/sums.h"

static enum rpc_progress refuse_kind(struct rpc_request *request, const struct object_spec *spec)
{
	return rpc_reply_fail(request, WIRE_WRONG_TYPE, "gradients of \"%.80s\" cannot be summed up for a commit: %s",
			      spec->name,
			      spec->optim.kind == OPTIM_NONE   ? "it has no optimizer"
			      : spec->optim.kind == OPTIM_LAMB ? "optimizer lamb needs all of a gradient at once"
							       : "clip_global_norm needs all of a gradient at once");
}

enum rpc_progress service_commit_check(struct rpc_request *request, const struct object_spec *spec,
				       const struct wire_op *op)
{
	if (!store_sums_possible(spec))
		return refuse_kind(request, spec);
	if (op->count != 1 || op->version == 0 || op->version == UINT64_MAX)
		return rpc_reply_fail(request, WIRE_BAD_REQUEST,
				      "a commit of \"%.80s\" names one key, and a tag that is neither 0 nor the last",
				      spec->name);
	if (!wire_op_step_is_good(op))
		return rpc_reply_fail(request, WIRE_BAD_REQUEST,
				      "the learning rate or the scale of a commit of \"%.80s\" is not a finite number "
				      "of 0 or more, or its "
				      "flag is missing",
				      spec->name);
	return RPC_MORE;
}

static enum rpc_progress refuse_tag(const struct service *service, struct rpc_request *request,
				    const struct wire_op *op)
{
	const struct accumulator *a = &service->accumulators[object_id_of(op->object)];

	return rpc_reply_fail(request, WIRE_CLOSED, "the sums %" PRIu64 " of \"%.80s\" are not open: %s (%" PRIu64 ")",
			      op->version, store_table_spec(service->tables[object_id_of(op->object)])->name,
			      !a->sums	    ? "none were yet"
			      : a->emptying ? "others are being committed"
					    : "others are",
			      a->open);
}

enum rpc_progress service_commit_check_push(struct service *service, struct rpc_request *request,
					    const struct wire_op *op)
{
	const struct object_spec *spec = store_table_spec(service->tables[object_id_of(op->object)]);
	const struct accumulator *a = &service->accumulators[object_id_of(op->object)];

	if (!store_sums_possible(spec))
		return refuse_kind(request, spec);
	if (op->flags & WIRE_RATE)
		return rpc_reply_fail(
			request, WIRE_BAD_REQUEST,
			"the learning rate of gradients of \"%.80s\" that are summed up is their commit's", spec->name);
	if (a->sums && !a->emptying && a->open == op->version)
		return RPC_MORE;
	service->counters.late++;
	return refuse_tag(service, request, op);
}

/* Applies and removes some rows. True: done. */
static bool empty_sums(struct service *service, struct task *task, struct accumulator *a, int64_t *budget)
{
	struct store_table *table = operation_object(service, task);
	unsigned taken;

	if (a->applies && !snapshot_room(service, table, task->batch, STORE_PUSH)) {
		*budget = 0;
		return false;
	}
	if (store_sums_take(a->sums, table, a->applies ? &a->step : NULL, task->batch, &taken)) {
		/* A segment was read for this, which costs as much as some rows. */
		*budget -= operation_cost(task, taken) + SLICE_BYTES / 4;
		return false;
	}
	if (a->applies) {
		service->counters.commits++;
		a->committed = a->open;
	}
	a->emptying = false;
	a->open = a->next;
	store_sums_set_by_row(a->sums, a->next_by_row);
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

	operation_stats(service, task)->bytes_out += sizeof(result);
	rpc_reply_put(request, &result, sizeof(result));
	task->stage = STAGE_NEXT;
	return RPC_MORE;
}

/* A request commits all its sums either before or after a snapshot's instant. False: not now. */
static bool begin_commit(struct service *service, struct rpc_request *request, struct accumulator *a, uint64_t next,
			 bool by_row, bool applies)
{
	const struct task *task = request->task;

	if (!service_snapshot_lets_change(service, request))
		return false;
	store_sums_begin(a->sums, applies ? operation_object(service, task) : NULL);
	a->emptying = true;
	a->applies = applies;
	a->next = next;
	a->next_by_row = by_row;
	a->step = op_step(&task->op);
	request->begun = true;
	return true;
}

static enum rpc_progress create_sums(struct service *service, struct rpc_request *request, struct accumulator *a)
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
	service->sums_opened = true;
	if (unlikely(service->journal))
		service_journal_sums(service);
	return RPC_MORE;
}

/* Two contributors to the same sums disagree on how these are divided. */
static enum rpc_progress refuse_by_row(struct rpc_request *request, const struct task *task)
{
	return rpc_reply_fail(request, WIRE_BAD_REQUEST,
			      "the sums %" PRIu64
			      " of \"%.80s\" were %sopened to be divided by row: is mean_by_row the same for all "
			      "workers of the job?",
			      task->op.version, task->spec->name, task->op.flags & WIRE_BY_ROW ? "not " : "");
}

/* Checks that the sums with this tag are open, and are divided as the request says. */
static enum rpc_progress open_slice(struct service *service, struct rpc_request *request, struct accumulator *a,
				    int64_t *budget)
{
	const struct task *task = request->task;
	const struct wire_op *op = &task->op;
	const bool by_row = op->flags & WIRE_BY_ROW;

	if (!a->sums && create_sums(service, request, a) == RPC_DONE)
		return RPC_DONE;
	if (a->open == op->version)
		return store_sums_by_row(a->sums) == by_row ? done(service, request) : refuse_by_row(request, task);
	if (a->open > op->version)
		return refuse_tag(service, request, op);
	if (!begin_commit(service, request, a, op->version, by_row, false))
		*budget = 0;
	return RPC_MORE;
}

enum rpc_progress service_commit_slice(struct service *service, struct rpc_request *request, int64_t *budget)
{
	struct task *task = request->task;
	const struct wire_op *op = &task->op;
	struct accumulator *a = &service->accumulators[object_id_of(op->object)];

	if (task->done == 0) {
		if (service_operation_check_keys(service, request, service_operation_keys(service, task)) == RPC_DONE)
			return RPC_DONE;
		task->done = 1;
	}
	while (a->emptying && *budget > 0)
		empty_sums(service, task, a, budget);
	if (a->emptying)
		return RPC_MORE;
	/* Since it was validated, the node may have closed for a last checkpoint, or may have got another layout. */
	if (!request->begun && service_validate_layout(service, request) == RPC_DONE)
		return RPC_DONE;
	if (op->flags & WIRE_OPEN)
		return open_slice(service, request, a, budget);
	/* Not by the open tag: sums of earlier tags may have been dropped. */
	if (a->committed == op->version)
		return done(service, request);
	if (!a->sums || a->open != op->version)
		return refuse_tag(service, request, op);
	if (op->flags & WIRE_BY_ROW && !store_sums_by_row(a->sums))
		return refuse_by_row(request, task);
	if (!begin_commit(service, request, a, op->version + 1, store_sums_by_row(a->sums), true))
		*budget = 0;
	return RPC_MORE;
}
