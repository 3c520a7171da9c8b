/* SPDX-License-Identifier: BSD-3-Clause */
/* A request's operations, read in place: what preparation and execution share. */
#include "service/internal.h"

void service_operation_rewind(struct rpc_request *request)
{
	struct task *task = request->task;

	task->at = request->payload;
	task->ops_left = task->ops;
	task->versions_used = 0;
	task->pools_used = 0;
	task->stage = STAGE_NEXT;
}

void service_operation_next(struct service *service, struct task *task)
{
	const struct object_spec *spec;
	struct wire_op *op = &task->op;
	uint32_t widest;

	rpc_cursor_copy(&task->at, op, sizeof(*op));
	task->keys_begin = task->keys = task->values = task->at;
	if (--task->ops_left)
		rpc_cursor_skip(&task->at, wire_padded(op->body_bytes));
	if (op->kind == WIRE_RUN) {
		service_run_next(service, task);
		return;
	}
	task->table = operation_object(service, task);
	task->spec = spec = store_table_spec(task->table);
	if (unlikely(op->flags & WIRE_ACCUMULATE))
		task->table = service->accumulators[object_id_of(op->object)].sums;
	task->push_bytes = op_pushes(op) ? (uint32_t)dtype_row_bytes(op->dtype, op->dim) : 0;
	task->pull_bytes = op_pulls(op) ? (uint32_t)dtype_row_bytes(op->result_dtype, op->dim) : 0;
	if (task->push_bytes || op->flags & WIRE_VERSIONS)
		rpc_cursor_skip(&task->values, op->count * (uint32_t)sizeof(uint64_t));
	/* Converted rows cost as much as in the type in which they are computed. */
	widest = op->dim * (uint32_t)(spec->dtype == STAR_FLOAT64 ? sizeof(double) : sizeof(float));
	widest = RTE_MAX(widest, task->push_bytes);
	task->row_cost = RTE_MAX(widest, task->pull_bytes);
	task->batch = RTE_MIN((uint32_t)STORE_BATCH, SLICE_BYTES / task->row_cost);
	task->blocks = spec->kind == OBJECT_VARIABLE ? (uint32_t)wire_object_blocks(spec) : 0;
	task->look = op_pushes(op) && store_push_needs_look(task->table);
	task->done = 0;
	task->deleted = 0;
}

void service_operation_again(struct task *task)
{
	task->keys = task->values = task->keys_begin;
	rpc_cursor_skip(&task->values, task->op.count * (uint32_t)sizeof(uint64_t));
	task->done = 0;
}

unsigned service_operation_keys(struct service *service, struct task *task)
{
	const unsigned n = RTE_MIN(task->op.count - task->done, task->batch);

	rpc_cursor_copy(&task->keys, service->keys, n * (uint32_t)sizeof(uint64_t));
	return n;
}

void service_operation_gradients(struct service *service, struct task *task, unsigned n)
{
	const uint32_t bytes = task->push_bytes, alignment = dtype_alignment(task->op.dtype);

	for (unsigned i = 0; i < n; i++)
		service->gradients[i] =
			rpc_cursor_take(&task->values, bytes, alignment, service->values + (size_t)i * bytes);
}

static bool owns(const struct service *service, uint64_t name, const uint64_t *keys, unsigned n)
{
	if (service->end_partition - service->first_partition == service->options.partitions)
		return true; /* there is only this reactor */
	for (unsigned i = 0; i < n; i++)
		if (!service_owns(service, name, keys[i]))
			return false;
	return true;
}

static enum rpc_progress refuse_block(struct rpc_request *request, uint64_t key)
{
	const struct task *task = request->task;

	return rpc_reply_fail(request, WIRE_BAD_REQUEST,
			      "variable \"%.80s\" has %u blocks, the request names block %llu", task->spec->name,
			      task->blocks, (unsigned long long)key);
}

enum rpc_progress service_operation_check_keys(struct service *service, struct rpc_request *request, unsigned n)
{
	static const uint64_t home =
		0; /* as object_partition_key: all blocks of a whole variable are in the partition of its first block */
	const struct task *task = request->task;
	const uint64_t name = store_name_hash(task->table);

	for (unsigned i = 0; task->blocks && i < n; i++)
		if (service->keys[i] >= task->blocks)
			return refuse_block(request, service->keys[i]);
	if (task->spec->whole ? owns(service, name, &home, 1) : owns(service, name, service->keys, n))
		return RPC_MORE;
	return rpc_reply_fail(
		request, WIRE_WRONG_SHARD,
		"a key of the request belongs to another reactor: get the layout, and split by partition");
}

enum rpc_progress service_operation_refuse_room(struct rpc_request *request, const struct store_table *table)
{
	const struct object_spec *spec = store_table_spec(table);

	if (spec->rows_max && spec->full != FULL_REFUSE)
		return rpc_reply_fail(
			request, WIRE_NO_MEMORY,
			"\"%.80s\" cannot get new rows: the request names more than this shard's share of "
			"its rows_max of %llu, or the reactor's parameter memory, has room for; rows that a "
			"request uses are not evicted for others of its own: raise rows_max, or send fewer keys at "
			"once",
			spec->name, (unsigned long long)spec->rows_max);
	if (spec->rows_max)
		return rpc_reply_fail(
			request, WIRE_NO_MEMORY,
			"\"%.80s\" cannot get new rows: this shard's share of its rows_max of %llu, or the "
			"reactor's parameter memory, is full; raise it, or choose full=evict_lru",
			spec->name, (unsigned long long)spec->rows_max);
	return rpc_reply_fail(
		request, WIRE_NO_MEMORY,
		"\"%.80s\" cannot get new rows: the reactor's parameter memory is full; raise memory.parameter_mib",
		spec->name);
}
