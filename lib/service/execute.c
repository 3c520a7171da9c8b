/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes a validated request. Most pulls and deletes run at once. A request with pushes, or with conditional pulls,
 * is prepared first (prepare.c), so that it can be refused before any value has changed; after that it is always
 * finished.
 */
#include "service/internal.h"

enum { FINISH_PARTS = 3 }; /* parts of a row that store_push_finish may go through: value, first and second moment */

static void put_result(struct service *service, struct rpc_request *request, uint32_t count, uint64_t body)
{
	const struct task *task = request->task;
	const struct wire_result result = {
		.object = task->op.object,
		.count = count,
		.dim = task->op.dim,
		.body_bytes = (uint32_t)body,
		.version = store_table_stats(task->table)->pushes,
	};

	operation_stats(service, task)->bytes_out += sizeof(result) + wire_padded((uint32_t)body);
	rpc_reply_put(request, &result, sizeof(result));
}

/* Copies rows that store_find found into the reply: unchanged if they have the requested type. */
static void put_rows(struct service *service, struct rpc_request *request, unsigned n)
{
	const struct task *task = request->task;
	const unsigned dtype = task->op.result_dtype;
	const uint32_t bytes = task->pull_bytes;
	struct store_stats *stats = store_table_counters(task->table);

	service->counters.rows_pulled += n;
	stats->rows_pulled += n;
	if (likely(store_values_of(task->table, service->rows, n, dtype, service->gradients))) {
		rpc_reply_put_rows(request, service->gradients, n, bytes);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		const void *values = store_values(task->table, service->rows[i], dtype);

		if (!values) {
			stats->missed += task->op.flags & WIRE_READ_ONLY && service->rows[i] >= STORE_UNADMITTED;
			store_read(task->table, service->rows[i], service->keys[i], dtype, service->values);
			values = service->values;
		}
		rpc_reply_put(request, values, bytes);
	}
}

/* Moves those of the n keys of a batch whose rows are sent to the front. */
static unsigned choose_sent(struct service *service, const struct task *task, unsigned n)
{
	const uint8_t *sent = task->scratch->sent + task->versions_used + task->done;
	unsigned chosen = 0;

	for (unsigned i = 0; i < n; i++)
		if (sent[i])
			service->keys[chosen++] = service->keys[i];
	return chosen;
}

static enum rpc_progress pull_batch(struct service *service, struct rpc_request *request, unsigned n)
{
	struct task *task = request->task;
	/* The rows of a prepared request were found or created, and counted, before. It is finished even if the layout
	 * has changed meanwhile. */
	const bool look = task->prepared || (task->op.flags & WIRE_READ_ONLY);

	if (!task->prepared && service_operation_check_keys(service, request, n) == RPC_DONE)
		return RPC_DONE;
	if (task->op.flags & WIRE_VERSIONS)
		n = choose_sent(service, task, n);
	if (store_find(task->table, service->keys, n, look ? STORE_LOOK : STORE_PULL, task->op.step, service->rows))
		return service_operation_refuse_room(request, task->table);
	put_rows(service, request, n);
	return RPC_MORE;
}

/* Applies the gradients of n keys. */
static void push_batch(struct service *service, struct task *task, unsigned n)
{
	service_operation_gradients(service, task, n);
	store_push_rows(task->scratch->push, task->table, service->gradients, task->op.dtype, n);
	service->counters.rows_pushed += n;
	operation_stats(service, task)->rows_pushed += n;
}

static void begin_push(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;
	const struct wire_op *op = &task->op;
	struct store_push_step step = op_step(op);

	if (unlikely(op->flags & WIRE_ACCUMULATE)) /* see store/sums.h */
		step = (struct store_push_step){
			.has_rate = true, .has_scale = true, .rate = 1, .scale = step.has_scale ? -step.scale : -1
		};
	store_push_step(task->scratch->push, task->table, &step);
	service->counters.pushes++;
	task->stage = STAGE_PUSH;
}

static void begin_pull(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;
	const struct wire_op *op = &task->op;
	const bool versions = op->flags & WIRE_VERSIONS;
	const uint32_t rows = versions ? task->scratch->sent_count[task->ops - 1 - task->ops_left] : op->count;

	put_result(service, request, op->count,
		   (uint64_t)rows * task->pull_bytes + (versions ? wire_versions_bytes(op->count) : 0));
	service->counters.pulls++;
	operation_stats(service, task)->pulls++;
	task->keys = task->keys_begin;
	task->done = 0;
	task->stage = versions ? STAGE_VERSIONS : STAGE_PULL;
}

static void begin_delete(struct service *service, struct rpc_request *request)
{
	(void)service;
	((struct task *)request->task)->stage = STAGE_DELETE;
}

static void begin_run(struct service *service, struct rpc_request *request)
{
	service_run_begin(service, request);
}

static void begin_commit(struct service *service, struct rpc_request *request)
{
	(void)service;
	((struct task *)request->task)->stage = STAGE_COMMIT;
}

static void begin_operation(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;

	service_operation_next(service, task);
	if (task->op.kind != WIRE_RUN)
		operation_stats(service, task)->bytes_in += sizeof(task->op) + wire_padded(task->op.body_bytes);
	switch (task->op.kind) {
#define X(KIND, flags, checked, prepared, begun) \
	case WIRE_##KIND: \
		begin_##begun(service, request); \
		break;
		SERVICE_OPS(X)
#undef X
	default:
		break; /* there are no others: see validate.c */
	}
}

/* All keys of the current stage are done. */
static void end_stage(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;
	const uint8_t stage = task->stage;

	task->stage = STAGE_NEXT;
	if (stage == STAGE_PUSH) {
		task->stage = STAGE_FINISH;
	} else if (stage == STAGE_FINISH) {
		if (op_pulls(&task->op))
			begin_pull(service, request);
		else
			put_result(service, request, task->op.count, 0);
	} else if (stage == STAGE_VERSIONS) {
		rpc_reply_pad(request);
		task->done = 0;
		task->stage = STAGE_PULL;
	} else if (stage == STAGE_PULL) {
		rpc_reply_pad(request);
		if (task->op.flags & WIRE_VERSIONS)
			task->versions_used += task->op.count;
	} else {
		put_result(service, request, task->deleted, 0);
	}
}

static void finish_push(struct service *service, struct rpc_request *request, int64_t *budget)
{
	const struct task *task = request->task;
	const uint32_t rows = SLICE_BYTES / (FINISH_PARTS * task->row_cost) + 1;

	if (store_push_finish(task->scratch->push, task->table, rows))
		end_stage(service, request);
	else
		*budget -= SLICE_BYTES;
}

/* A prepared request has found its rows; a small one, whatever it does, has made sure of room for all of it. */
static bool must_wait(struct service *service, const struct task *task, unsigned n)
{
	if (task->prepared && (!task->large || task->stage != STAGE_DELETE))
		return false;
	return !snapshot_room(service, task->table, n, op_mode(&task->op));
}

/* Executes one batch of the current operation. RPC_DONE: refused. */
static enum rpc_progress run_batch(struct service *service, struct rpc_request *request, int64_t *budget)
{
	struct task *task = request->task;
	unsigned n = RTE_MIN(task->op.count - task->done, task->batch);

	if (must_wait(service, task, n)) {
		request->why |= OBSERVE_WHY_SNAPSHOT;
		*budget = 0;
		return RPC_MORE;
	}
	switch (task->stage) {
	case STAGE_FINISH:
		finish_push(service, request, budget);
		return RPC_MORE;
	case STAGE_VERSIONS:
		n = RTE_MIN(task->op.count - task->done, (uint32_t)STORE_BATCH);
		rpc_reply_put(request, task->scratch->versions + task->versions_used + task->done,
			      n * (uint32_t)sizeof(uint32_t));
		break;
	case STAGE_PUSH:
		push_batch(service, task, n);
		break;
	case STAGE_PULL:
		n = service_operation_keys(service, task);
		if (pull_batch(service, request, n) == RPC_DONE)
			return RPC_DONE;
		break;
	default:
		if (task->op.count > n && !service_snapshot_lets_change(service, request)) {
			*budget = 0;
			return RPC_MORE;
		}
		n = service_operation_keys(service, task);
		if (service_operation_check_keys(service, request, n) == RPC_DONE)
			return RPC_DONE;
		task->deleted += store_delete(task->table, service->keys, n);
	}
	*budget -= operation_cost(task, n);
	task->done += n;
	if (task->done == task->op.count)
		end_stage(service, request);
	return RPC_MORE;
}

static enum rpc_progress run_operations(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;
	int64_t budget = SLICE_BYTES;

	while (budget > 0) {
		if (task->stage == STAGE_NEXT) {
			if (task->ops_left == 0)
				return RPC_DONE;
			begin_operation(service, request);
		}
		if (task->stage == STAGE_RUN) {
			if (service_run_slice(service, request, &budget) == RPC_DONE)
				return RPC_DONE;
			continue;
		}
		if (task->stage == STAGE_COMMIT) {
			if (service_commit_slice(service, request, &budget) == RPC_DONE)
				return RPC_DONE;
			continue;
		}
		if (run_batch(service, request, &budget) == RPC_DONE)
			return RPC_DONE;
	}
	return task->stage != STAGE_NEXT || task->ops_left ? RPC_MORE : RPC_DONE;
}

/*
 * Gets what the request needs to be finished: room for the whole reply and, if it is prepared, the scratch memory,
 * which a large request has to itself. Nothing is held while anything is missing.
 */
static bool start_operation(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;

	if (task->prepared && task->large &&
	    (service->large_owner || service->snapshots.holds || drop_waits(service) || journal_holds(service))) {
		request->why |= service->large_owner	   ? OBSERVE_WHY_LARGE
				: service->snapshots.holds ? OBSERVE_WHY_SNAPSHOT
				: drop_waits(service)	   ? OBSERVE_WHY_DROP
							   : OBSERVE_WHY_JOURNAL;
		return false;
	}
	if (task->prepared && !task->large && !snapshot_room_small(service, request)) {
		request->why |= OBSERVE_WHY_SNAPSHOT;
		return false;
	}
	if (!rpc_reply_room(request, task->reply_bytes))
		return false;
	task->phase = TASK_RUN;
	if (task->prepared) {
		task->phase = TASK_PREPARE;
		task->scratch = task->large ? &service->large : &service->small;
		if (task->large)
			service->large_owner = task;
		if (task->has_push)
			store_push_begin(task->scratch->push);
		request->begun = true; /* it has the scratch memory now, and returns it at its end */
	}
	return true;
}

/* A small request is prepared and run in one slice, so that the scratch memory serves many streams. */
static enum rpc_progress step_request(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;
	enum rpc_progress progress;
	bool ready = false;

	if (unlikely(task->redefined != service->redefined)) {
		if (task->phase == TASK_WAIT)
			task->phase = TASK_NEW;
		else if (task->phase != TASK_NEW && !service_drop_spares(service, request))
			return rpc_reply_fail(request, WIRE_UNKNOWN_OBJECT,
					      "a table that the request works on was dropped while it was executed");
		task->redefined = service->redefined;
	}
	if (task->phase == TASK_NEW) {
		if (service_validate(service, request) == RPC_DONE)
			return RPC_DONE;
		service_operation_rewind(request);
		task->phase = TASK_WAIT;
	} else if (task->phase == TASK_WAIT && service_validate_layout(service, request) == RPC_DONE) {
		return RPC_DONE; /* the layout has changed, or was withdrawn, since */
	}
	if (task->phase == TASK_WAIT) {
		if (!start_operation(service, request)) {
			request->why |= OBSERVE_WAITS;
			return RPC_MORE;
		}
		if (task->reply_bytes > SLICE_BYTES)
			return RPC_MORE; /* allocating that many mbufs was a slice's work */
	}
	if (task->phase == TASK_PREPARE) {
		progress = service_prepare_slice(service, request, &ready);
		if (progress == RPC_DONE || !ready)
			return progress;
		service_operation_rewind(request);
		task->phase = TASK_RUN;
		if (task->large)
			return RPC_MORE;
	}
	do
		progress = run_operations(service, request);
	while (progress == RPC_MORE && task->prepared && !task->large);
	return progress;
}

/* Counts the failure at the table that was being used. For a run this is the table of the current keys, if it has
 * begun, and no object was dropped since. */
static void count_refusal(struct service *service, const struct task *task)
{
	struct store_table *table = service_table(service, task->op.object);

	if (!table && task->phase > TASK_WAIT && task->redefined == service->redefined)
		table = task->table;
	if (table)
		store_table_counters(table)->requests_refused++;
}

static enum rpc_progress execute_request(struct service *service, struct rpc_request *request, uint64_t now_ns)
{
	struct task *task = request->task;
	enum rpc_progress progress;

	service->now_ns = now_ns;
	service_tile_forget(service);
	progress = step_request(service, request);
	if (progress != RPC_DONE)
		return progress;
	if (unlikely(request->failed))
		count_refusal(service, task);
	if (task->phase == TASK_PREPARE && task->has_push)
		store_push_begin(task->scratch->push); /* it was refused, and holds no rows any more */
	if (unlikely(task->owned != KEPT_NONE))
		service_kept_disown(service->kept, &task->owned, task->phase == TASK_RUN, now_ns);
	if (service->large_owner == task)
		service->large_owner = NULL;
	if (unlikely(task->changes))
		service->changing--;
	return progress;
}

static enum rpc_progress execute_counted(struct service *service, struct rpc_request *request, uint64_t now_ns)
{
	const struct quota_count count = service_quota_begin(service, request);
	const enum rpc_progress progress = execute_request(service, request, now_ns);

	service_quota_end(service, &count);
	return progress;
}

enum rpc_progress service_execute(void *ctx, struct rpc_request *request, uint64_t now_ns)
{
	struct service *service = ctx;
	struct journal_ring *journal = service->journal;
	enum rpc_progress progress;
	uint64_t changes;

	if (likely(!journal))
		return execute_counted(service, request, now_ns);
	if (journal_is_behind(journal, now_ns)) {
		request->why |= OBSERVE_WHY_JOURNAL | OBSERVE_WAITS;
		return RPC_MORE;
	}
	changes = journal->changes;
	progress = execute_counted(service, request, now_ns);
	request->changed |= changes != journal->changes;
	return progress;
}
