/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes a validated request. Requests that only pull run at once. One with pushes is prepared first: all its rows are
 * found or made, so that a shard without room refuses it before any value has changed; from then on it is finished
 * whatever happens.
 */
#include "service/internal.h"

#include "wire/layout.h"

static bool owns(const struct service *service, const struct store_table *table, const uint64_t *keys, unsigned n)
{
	const uint64_t name = store_name_hash(table);
	const uint32_t partitions = service->options.partitions,
		       width = service->end_partition - service->first_partition;

	for (unsigned i = 0; i < n; i++)
		if (layout_partition(hash_key(name, keys[i]), partitions) - service->first_partition >= width)
			return false;
	return true;
}

static enum rpc_progress refuse_shard(struct rpc_request *request)
{
	return rpc_reply_fail(
		request, WIRE_WRONG_SHARD,
		"a key of the request belongs to another reactor: get the layout, and split by partition");
}

static enum rpc_progress refuse_room(struct rpc_request *request, const struct store_table *table)
{
	return rpc_reply_fail(
		request, WIRE_NO_MEMORY,
		"\"%.80s\" cannot get new rows: the reactor's parameter memory is full; raise memory.parameter_mib",
		store_table_spec(table)->name);
}

/* Takes the next operation's header, and sets the cursors to its keys and gradients. */
static void next_op(struct service *service, struct task *task)
{
	struct rpc_cursor body;

	rpc_cursor_copy(&task->at, &task->op, sizeof(task->op));
	body = task->at;
	task->ops_left--;
	if (task->ops_left)
		rpc_cursor_skip(&task->at, wire_padded(task->op.body_bytes));
	task->table = service->tables[task->op.object];
	task->keys = task->values = body;
	if (task->op.kind == WIRE_PUSH)
		rpc_cursor_skip(&task->values, task->op.count * (uint32_t)sizeof(uint64_t));
	task->done = 0;
	task->in_op = 1;
}

static void rewind_ops(struct rpc_request *request)
{
	struct task *task = request->task;

	task->at = request->payload;
	task->ops_left = task->ops;
	task->in_op = 0;
}

/* Rows of the operation's next batch: as many as the store takes, and no more bytes than a slice may have. */
static unsigned batch_rows(const struct task *task)
{
	const unsigned fit = SLICE_BYTES / (task->op.dim * (unsigned)sizeof(float));
	const unsigned most = RTE_MIN((unsigned)STORE_BATCH, fit);

	return RTE_MIN(task->op.count - task->done, most);
}

/* What a batch costs of a slice's budget of SLICE_KEYS. */
static int batch_cost(const struct task *task, unsigned n)
{
	const unsigned bytes = n * task->op.dim * (unsigned)sizeof(float);

	return (int)RTE_MAX(n, bytes / (SLICE_BYTES / SLICE_KEYS));
}

/* Reads the keys of the next batch. */
static unsigned read_keys(struct service *service, struct task *task)
{
	const unsigned n = batch_rows(task);

	rpc_cursor_copy(&task->keys, service->keys, n * (uint32_t)sizeof(uint64_t));
	return n;
}

/* Finds or makes the rows of one batch. RPC_DONE: refused. */
static enum rpc_progress prepare_batch(struct service *service, struct rpc_request *request, unsigned n)
{
	struct task *task = request->task;

	if (!owns(service, task->table, service->keys, n))
		return refuse_shard(request);
	if (task->op.kind == WIRE_PUSH) {
		if (store_push_keys(task->push, task->table, service->keys, n) < 0)
			return refuse_room(request, task->table);
	} else if (!(task->op.flags & WIRE_READ_ONLY)) {
		if (store_find(task->table, service->keys, n, 1, service->rows))
			return refuse_room(request, task->table);
	}
	return RPC_MORE;
}

/* One slice of preparation, or all of it if the request is small; *ready when all operations are prepared. */
static enum rpc_progress prepare(struct service *service, struct rpc_request *request, bool *ready)
{
	struct task *task = request->task;
	int budget = SLICE_KEYS;

	while (budget > 0 || !task->large) {
		unsigned n;

		if (!task->in_op) {
			if (task->ops_left == 0) {
				*ready = true;
				return RPC_MORE;
			}
			next_op(service, task);
			if (task->op.kind == WIRE_PUSH)
				store_push_op(task->push, task->table, task->op.count);
		}
		n = read_keys(service, task);
		if (prepare_batch(service, request, n) == RPC_DONE)
			return RPC_DONE;
		budget -= batch_cost(task, n);
		task->done += n;
		task->in_op = task->done < task->op.count;
	}
	return RPC_MORE;
}

static void put_result(struct rpc_request *request, const struct wire_op *op)
{
	const uint32_t body = op->kind == WIRE_PULL ? op->count * op->dim * (uint32_t)sizeof(float) : 0;
	const struct wire_result result = {
		.object = op->object, .count = op->count, .dim = op->dim, .body_bytes = body
	};

	rpc_reply_put(request, &result, sizeof(result));
}

/* Copies the rows of n keys into the reply. */
static enum rpc_progress pull_batch(struct service *service, struct rpc_request *request, unsigned n)
{
	struct task *task = request->task;
	const uint32_t bytes = task->op.dim * (uint32_t)sizeof(float);
	const bool create = !(task->op.flags & WIRE_READ_ONLY);

	/* What was prepared is finished, even if the layout has changed meanwhile. */
	if (!task->has_push && !owns(service, task->table, service->keys, n))
		return refuse_shard(request);
	if (store_find(task->table, service->keys, n, create, service->rows) && create)
		return refuse_room(request, task->table);
	for (unsigned i = 0; i < n; i++) {
		if (likely(service->rows[i] != STORE_NO_ROW)) {
			rpc_reply_put(request, store_values(task->table, service->rows[i]), bytes);
		} else {
			store_initial(task->table, service->keys[i], service->values);
			rpc_reply_put(request, service->values, bytes);
		}
	}
	service->counters.rows_pulled += n;
	return RPC_MORE;
}

/* Applies the gradients of n keys, in place where they lie in one piece. */
static void push_batch(struct service *service, struct task *task, unsigned n)
{
	const uint32_t dim = task->op.dim;

	for (unsigned i = 0; i < n; i++)
		service->gradients[i] = rpc_cursor_take(&task->values, dim * (uint32_t)sizeof(float), sizeof(float),
							service->values + (size_t)i * dim);
	store_push_rows(task->push, task->table, service->gradients, n, task->op.rate);
	service->counters.rows_pushed += n;
}

/* One batch of the current operation. RPC_DONE: refused. */
static enum rpc_progress run_batch(struct service *service, struct rpc_request *request, int *budget)
{
	struct task *task = request->task;
	const unsigned n = batch_rows(task);

	if (task->op.kind == WIRE_PULL) {
		read_keys(service, task);
		if (pull_batch(service, request, n) == RPC_DONE)
			return RPC_DONE;
	} else {
		push_batch(service, task, n);
	}
	*budget -= batch_cost(task, n);
	task->done += n;
	if (task->done == task->op.count) {
		task->in_op = 0;
		if (task->op.kind == WIRE_PULL)
			rpc_reply_pad(request);
	}
	return RPC_MORE;
}

static enum rpc_progress run(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;
	int budget = SLICE_KEYS;

	while (budget > 0) {
		if (!task->in_op) {
			if (task->ops_left == 0)
				return RPC_DONE;
			next_op(service, task);
			put_result(request, &task->op);
			if (task->op.kind == WIRE_PULL)
				service->counters.pulls++;
			else
				service->counters.pushes++;
		}
		if (run_batch(service, request, &budget) == RPC_DONE)
			return RPC_DONE;
	}
	return task->in_op || task->ops_left ? RPC_MORE : RPC_DONE;
}

/*
 * Takes what the request needs to be finished: room for its whole reply and, for pushes, the scratch, which a large push has
 * to itself. Nothing is held while anything is missing.
 */
static bool start(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;

	if (task->has_push && task->large && service->large_owner)
		return false;
	if (!rpc_reply_room(request, task->reply_bytes))
		return false;
	task->phase = TASK_RUN;
	if (task->has_push) {
		task->phase = TASK_PREPARE;
		task->push = task->large ? service->large_push : service->small_push;
		if (task->large)
			service->large_owner = task;
		store_push_begin(task->push);
		request->begun = true; /* it has the scratch now, and gives it back at its end */
	}
	return true;
}

/* A small push is prepared and run in one slice, so that its scratch serves many streams. */
static enum rpc_progress step(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;
	enum rpc_progress progress;
	bool ready = false;

	if (task->phase == TASK_NEW) {
		if (service_validate(service, request) == RPC_DONE)
			return RPC_DONE;
		rewind_ops(request);
		task->phase = TASK_WAIT;
	}
	if (task->phase == TASK_WAIT) {
		if (!start(service, request) || task->reply_bytes > SLICE_BYTES)
			return RPC_MORE; /* making so many mbufs was a slice's work */
	}
	if (task->phase == TASK_PREPARE) {
		progress = prepare(service, request, &ready);
		if (progress == RPC_DONE || !ready)
			return progress;
		rewind_ops(request);
		task->phase = TASK_RUN;
		if (task->large)
			return RPC_MORE;
	}
	do
		progress = run(service, request);
	while (progress == RPC_MORE && task->push && !task->large);
	return progress;
}

enum rpc_progress service_execute(void *ctx, struct rpc_request *request, uint64_t now_ns)
{
	struct service *service = ctx;
	struct task *task = request->task;
	const enum rpc_progress progress = step(service, request);

	if (progress == RPC_DONE && service->large_owner == task)
		service->large_owner = NULL;
	return progress;
}
