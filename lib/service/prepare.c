/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The preparation of requests with pushes or with conditional pulls. All rows of pushes are found or created, and their
 * gradients checked if the table requires it, so that all reasons for a refusal are found before any value has changed.
 * For conditional pulls the rows to be sent are determined: the reply says which before its first row, and other
 * requests may change rows while it is written. A row that changes meanwhile is sent as it is then, with the earlier
 * version, so the next pull brings it again.
 */
#include "service/internal.h"

#include <errno.h>

/* LAMB needs a whole tensor: a push carries all of it. */
static enum rpc_progress check_dense(const struct service *service, struct rpc_request *request, unsigned n)
{
	const struct task *task = request->task;

	for (unsigned i = 0; i < n; i++)
		if (service->keys[i] != task->done + i)
			return rpc_reply_fail(request, WIRE_BAD_REQUEST,
					      "a push to \"%.80s\" must name all its %u blocks in order: lamb works on "
					      "the whole tensor",
					      task->spec->name, task->blocks);
	return RPC_MORE;
}

enum rpc_progress service_prepare_keys(struct service *service, struct rpc_request *request, unsigned n)
{
	const struct task *task = request->task;
	const int rc = store_push_keys(task->scratch->push, task->table, service->keys, n, task->op.step);

	if (rc == -ENOSPC)
		return service_operation_refuse_room(request, task->table);
	if (rc < 0)
		return rpc_reply_fail(request, WIRE_OVER_LIMIT,
				      "the request has more gradients than a shard takes at once");
	return RPC_MORE;
}

enum rpc_progress service_prepare_look(struct rpc_request *request, const void *const *gradients, unsigned dtype,
				       unsigned n)
{
	const struct task *task = request->task;

	const int rc = store_push_look(task->scratch->push, task->table, gradients, dtype, n);

	if (rc == -ERANGE && task->op.kind == WIRE_ASSIGN)
		return rpc_reply_fail(request, WIRE_NOT_FINITE,
				      "a value for \"%.80s\" is too great for its element type: nothing was applied; "
				      "with nonfinite=clip or pass it would be, as an infinity",
				      task->spec->name);
	if (rc == -ERANGE)
		return rpc_reply_fail(request, WIRE_NOT_FINITE,
				      "gradients of one key for \"%.80s\" add up to infinities: nothing was applied; "
				      "with nonfinite=clip or pass it would be",
				      task->spec->name);
	if (rc < 0)
		return rpc_reply_fail(request, WIRE_NOT_FINITE,
				      "a %s for \"%.80s\" has NaN or infinities: nothing was applied; with "
				      "nonfinite=clip or pass it "
				      "would be",
				      task->op.kind == WIRE_ASSIGN ? "value" : "gradient", task->spec->name);
	return RPC_MORE;
}

static enum rpc_progress look_up_keys(struct service *service, struct rpc_request *request, unsigned n)
{
	struct task *task = request->task;

	service_operation_gradients(service, task, n);
	return service_prepare_look(request, service->gradients, task->op.dtype, n);
}

static enum rpc_progress push_keys(struct service *service, struct rpc_request *request, unsigned n)
{
	struct task *task = request->task;

	if (task->spec->optim.kind == OPTIM_LAMB && task->op.kind != WIRE_ASSIGN &&
	    check_dense(service, request, n) == RPC_DONE)
		return RPC_DONE;
	if (unlikely(task->op.flags & WIRE_ACCUMULATE)) {
		/* The sums may have been closed since the last slice; rows that are created from now on would be in the
		 * next sums. */
		if (service_commit_check_push(service, request, &task->op) == RPC_DONE)
			return RPC_DONE;
		/* A commit visits rows in index order, in which new rows cannot be inserted in bounded time, so they
		 * are created now. So the push is also refused now if there is no memory for them. */
		if (store_find(operation_object(service, task), service->keys, n, STORE_PULL, task->op.step,
			       service->rows))
			return service_operation_refuse_room(request, operation_object(service, task));
	}
	if (service_prepare_keys(service, request, n) == RPC_DONE)
		return RPC_DONE;
	return task->look ? look_up_keys(service, request, n) : RPC_MORE;
}

/* Compares the versions that the worker has with those of the rows. */
static void note_versions(struct service *service, struct task *task, unsigned n)
{
	struct prepared *scratch = task->scratch;
	uint32_t given[STORE_BATCH], *versions = scratch->versions + task->versions_used + task->done;
	uint8_t *sent = scratch->sent + task->versions_used + task->done;
	uint32_t *count = &scratch->sent_count[task->ops - 1 - task->ops_left];

	if (task->done == 0)
		*count = 0;
	rpc_cursor_copy(&task->values, given, n * (uint32_t)sizeof(*given));
	for (unsigned i = 0; i < n; i++) {
		versions[i] = service->rows[i] < STORE_UNADMITTED ? store_version(task->table, service->rows[i]) : 0;
		sent[i] = given[i] == 0 || given[i] != versions[i];
		*count += sent[i];
	}
}

static enum rpc_progress pull_keys(struct service *service, struct rpc_request *request, unsigned n)
{
	struct task *task = request->task;
	const bool make = !(task->op.flags & WIRE_READ_ONLY), versions = task->op.flags & WIRE_VERSIONS;

	if ((make || versions) &&
	    store_find(task->table, service->keys, n, make ? STORE_PULL : STORE_LOOK, task->op.step, service->rows))
		return service_operation_refuse_room(request, task->table);
	if (versions)
		note_versions(service, task, n);
	return RPC_MORE;
}

/* Prepares one batch. RPC_DONE: refused. */
static enum rpc_progress prepare_batch(struct service *service, struct rpc_request *request, unsigned n)
{
	struct task *task = request->task;

	if (task->stage == STAGE_LOOK)
		return look_up_keys(service, request, n);
	if (service_operation_check_keys(service, request, n) == RPC_DONE)
		return RPC_DONE;
	if (task->stage == STAGE_DELETE)
		return RPC_MORE;
	return task->stage == STAGE_PUSH ? push_keys(service, request, n) : pull_keys(service, request, n);
}

/* A snapshot has no room for copies of the rows. No value has changed yet, so the deadline still applies. */
static enum rpc_progress wait_for_room(const struct service *service, struct rpc_request *request)
{
	if (service->now_ns <= request->deadline_ns)
		return RPC_MORE;
	return rpc_reply_fail(request, WIRE_DEADLINE,
			      "the deadline passed while it waited for a checkpoint to write down rows that it changes "
			      "(checkpoint.copies_mib)");
}

/* All keys of the operation have been processed. */
static bool look_again(struct task *task)
{
	if (!task->look || !store_push_look_again(task->scratch->push))
		return false;
	service_operation_again(task);
	task->stage = STAGE_LOOK;
	return true;
}

static enum rpc_progress prepare_pull(struct service *service, struct rpc_request *request)
{
	(void)service;
	((struct task *)request->task)->stage = STAGE_PULL;
	return RPC_MORE;
}

static enum rpc_progress prepare_push(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;

	/* It may have waited for scratch memory or for room since it was validated. */
	if (unlikely(task->op.flags & WIRE_ACCUMULATE) &&
	    service_commit_check_push(service, request, &task->op) == RPC_DONE)
		return RPC_DONE;
	store_push_op(task->scratch->push, task->table, task->op.count);
	task->stage = STAGE_PUSH;
	return RPC_MORE;
}

static enum rpc_progress prepare_assign(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;

	(void)service;
	store_push_assign(task->scratch->push, task->table, task->op.count);
	task->stage = STAGE_PUSH;
	return RPC_MORE;
}

static enum rpc_progress prepare_run(struct service *service, struct rpc_request *request)
{
	(void)service;
	((struct task *)request->task)->stage = STAGE_RUN;
	return RPC_MORE;
}

/* For a delete or a commit: checks that the keys are this shard's; no rows are created. */
static enum rpc_progress prepare_keys(struct service *service, struct rpc_request *request)
{
	(void)service;
	((struct task *)request->task)->stage = STAGE_DELETE;
	return RPC_MORE;
}

/* Takes the next operation, and begins its preparation. */
static enum rpc_progress prepare_next(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;

	service_operation_next(service, task);
	switch (task->op.kind) {
#define X(KIND, flags, checked, prepared, begun) \
	case WIRE_##KIND: \
		return prepare_##prepared(service, request);
		SERVICE_OPS(X)
#undef X
	default:
		return RPC_MORE; /* there are no others: see validate.c */
	}
}

enum rpc_progress service_prepare_slice(struct service *service, struct rpc_request *request, bool *ready)
{
	struct task *task = request->task;
	int64_t budget = SLICE_BYTES;

	while (budget > 0 || !task->large) {
		unsigned n;

		if (task->stage == STAGE_NEXT) {
			if (task->ops_left == 0) {
				*ready = true;
				return RPC_MORE;
			}
			if (prepare_next(service, request) == RPC_DONE)
				return RPC_DONE;
		}
		if (task->stage == STAGE_RUN) {
			bool waits = false;

			if (service_run_prepare(service, request, &budget, &waits) == RPC_DONE)
				return RPC_DONE;
			if (waits)
				return wait_for_room(service, request);
			continue;
		}
		n = RTE_MIN(task->op.count - task->done, task->batch);
		if (task->large && task->stage != STAGE_LOOK &&
		    !snapshot_room(service, operation_object(service, task), n, op_mode(&task->op)))
			return wait_for_room(service, request);
		if (task->stage != STAGE_LOOK)
			n = service_operation_keys(service, task);
		if (prepare_batch(service, request, n) == RPC_DONE)
			return RPC_DONE;
		budget -= operation_cost(task, n);
		task->done += n;
		if (task->done < task->op.count || look_again(task))
			continue;
		task->stage = STAGE_NEXT;
		if (task->op.flags & WIRE_VERSIONS)
			task->versions_used += task->op.count;
	}
	return RPC_MORE;
}
