/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of programs, feed by feed and tile by tile. A request that changes something, or keeps something from tile to
 * tile, is prepared first, like other operations: rows are found or created, segments and gradients checked, rows by
 * segment copied to the scratch memory, and pools initialized. A run that only looks up and computes is executed at
 * once.
 */
#include "service/internal.h"

static uint64_t rows_bytes(const struct task *task)
{
	return wire_program_segment_bytes(&task->run.plan->program, &task->run.plan->shape, PROGRAM_SEGMENT_ROWS,
					  task->op.dim);
}

static uint64_t pool_bytes(const struct task *task)
{
	return wire_program_segment_bytes(&task->run.plan->program, &task->run.plan->shape, PROGRAM_POOL, task->op.dim);
}

void service_run_next(const struct service *service, struct task *task)
{
	struct run *run = &task->run;

	run->plan = service->plans[object_id_of(task->op.object)];
	run->pools = task->pools_used;
	run->at = 0;
	run->stage = RUN_HEAD;
	run->keys = 0;
	run->alone = task->op.flags & WIRE_ALONE;
	run->applies = run->plan->shape.applies && !(task->op.flags & WIRE_APPLIED);
	run->counts = task->keys_begin;
	run->next = task->keys_begin;
	rpc_cursor_skip(&run->next,
			(uint32_t)wire_program_head_bytes(&run->plan->program, &run->plan->shape, task->op.dim));
	task->pools_used += rows_bytes(task) + pool_bytes(task);
}

static bool applies_to(const struct task *task)
{
	return task->run.applies && task->run.plan->shape.keys[task->run.keys].apply != PROGRAM_NONE;
}

static bool looks_up(const struct task *task)
{
	return task->run.plan->shape.keys[task->run.keys].lookup != PROGRAM_NONE;
}

/* How the feed's look-up treats missing rows. If the feed is applied to, that creates them. */
static enum store_find_mode mode(const struct task *task)
{
	const struct run *run = &task->run;

	if (applies_to(task))
		return STORE_PUSH;
	return run->plan->keys[run->keys].makes && !(task->op.flags & WIRE_APPLIED) ? STORE_PULL : STORE_LOOK;
}

/* Goes to the next feed: its count, and where its parts begin. False: there is none. */
static bool next_keys(struct task *task)
{
	struct run *run = &task->run;
	const struct program_shape *shape = &run->plan->shape;
	const struct program_keys *keys;
	const struct plan_keys *of;

	if (run->keys == shape->keys_count)
		return false;
	keys = &shape->keys[run->keys];
	of = &run->plan->keys[run->keys];
	run->count_at = run->counts;
	rpc_cursor_copy(&run->counts, &run->count, sizeof(run->count));
	run->entry = NULL;
	run->begin = run->next;
	run->keys_at = run->next;
	run->bytes = !keys->kept || run->alone ? run->count * (uint32_t)sizeof(uint64_t) : 0;
	rpc_cursor_skip(&run->next, run->bytes);
	for (unsigned i = 0; i < keys->aligned_count; i++) {
		const struct program_node *node = &run->plan->program.nodes[keys->aligned[i]];

		run->aligned[i] = run->next;
		if (!(node->flags & PROGRAM_KEPT) || run->alone) {
			const uint32_t bytes = wire_padded(run->count * program_aligned_bytes(node));

			rpc_cursor_skip(&run->next, bytes);
			run->bytes += bytes;
		}
	}
	task->table = of->table;
	task->spec = store_table_spec(of->table);
	task->blocks = task->spec->kind == OBJECT_VARIABLE ? (uint32_t)wire_object_blocks(task->spec) : 0;
	task->done = 0;
	return true;
}

/* Reads a tile's keys. */
static unsigned take_keys(struct service *service, struct task *task)
{
	struct run *run = &task->run;
	const unsigned n = RTE_MIN(run->count - task->done, (uint32_t)run->plan->keys[run->keys].tile);

	if (unlikely(run->entry && run->plan->shape.keys[run->keys].kept))
		service_kept_read(service->kept, &run->kept_keys, service->keys, n * (uint32_t)sizeof(uint64_t));
	else
		rpc_cursor_copy(&run->keys_at, service->keys, n * (uint32_t)sizeof(uint64_t));
	return n;
}

static void tile_done(struct task *task, unsigned n, int64_t *budget)
{
	*budget -= (int64_t)n * task->run.plan->keys[task->run.keys].cost;
	task->done += n;
}

/* ---- preparation ---- */

/* Copies rows by segment to the scratch memory, as many as fit into a slice, or initializes the pools behind them. */
static void prepare_head(struct task *task, int64_t *budget)
{
	struct run *run = &task->run;
	const uint64_t rows = rows_bytes(task), all = rows + pool_bytes(task);
	uint8_t *to = task->scratch->pools + run->pools + run->at;
	uint32_t n;

	if (run->at == all) {
		run->stage = RUN_KEYS;
		return;
	}
	if (run->at == 0) {
		run->keys_at = task->keys_begin;
		rpc_cursor_skip(&run->keys_at,
				(uint32_t)program_padded(run->plan->shape.keys_count * sizeof(uint32_t)) +
					run->plan->shape.once_bytes);
	}
	if (run->at < rows) {
		n = (uint32_t)RTE_MIN(rows - run->at, (uint64_t)SLICE_BYTES);
		rpc_cursor_copy(&run->keys_at, to, n);
	} else {
		n = (uint32_t)RTE_MIN(all - run->at, (uint64_t)SLICE_BYTES);
		memset(to, 0, n);
	}
	run->at += n;
	*budget -= n;
}

static enum rpc_progress check_segments(const struct service *service, struct rpc_request *request, unsigned n)
{
	const struct task *task = request->task;
	const struct plan *plan = task->run.plan;
	const struct program_keys *keys = &plan->shape.keys[task->run.keys];

	for (unsigned i = 0; i < keys->aligned_count; i++) {
		if (!program_segment_bytes(plan->program.nodes[keys->aligned[i]].op))
			continue;
		for (unsigned k = 0; k < n; k++)
			if (service->tile->segments[i][k] >= task->op.dim)
				return rpc_reply_fail(request, WIRE_BAD_REQUEST,
						      "the run of program %u names segment %u of %u", task->op.object,
						      service->tile->segments[i][k], task->op.dim);
	}
	return RPC_MORE;
}

/* Finds or creates rows, and checks their gradients. */
static enum rpc_progress prepare_rows(struct service *service, struct rpc_request *request, unsigned n)
{
	struct task *task = request->task;
	const struct plan_keys *keys = &task->run.plan->keys[task->run.keys];
	const unsigned apply = task->run.plan->shape.keys[task->run.keys].apply;

	if (!applies_to(task)) {
		if (looks_up(task) && mode(task) == STORE_PULL &&
		    store_find(task->table, service->keys, n, STORE_PULL, task->op.step, service->rows))
			return service_operation_refuse_room(request, task->table);
		return RPC_MORE;
	}
	if (!task->run.again && service_prepare_keys(service, request, n) == RPC_DONE)
		return RPC_DONE;
	if (!keys->looks)
		return RPC_MORE;
	if (keys->looks_up)
		store_find(task->table, service->keys, n, STORE_LOOK, task->op.step, service->rows);
	service_tile_compute(service, task, n, true);
	return service_prepare_look(request,
				    (const void *const *)service->tile->rows[task->run.plan->program.nodes[apply].b],
				    STAR_FLOAT32, n);
}

static enum rpc_progress prepare_tile(struct service *service, struct rpc_request *request, int64_t *budget)
{
	struct task *task = request->task;
	const struct run *run = &task->run;
	const unsigned n = take_keys(service, task);

	if (service_operation_check_keys(service, request, n) == RPC_DONE)
		return RPC_DONE;
	service_tile_take(service, task, n, applies_to(task) && run->plan->keys[run->keys].looks);
	if (check_segments(service, request, n) == RPC_DONE || prepare_rows(service, request, n) == RPC_DONE)
		return RPC_DONE;
	tile_done(task, n, budget);
	return RPC_MORE;
}

/* All keys of the feed have been processed. Returns whether its gradients must be checked again, from the first. */
static bool look_again(struct service *service, const struct rpc_request *request)
{
	struct task *task = request->task;
	struct run *run = &task->run;

	if (!applies_to(task) || !run->count || !run->plan->keys[run->keys].looks ||
	    !store_push_look_again(task->scratch->push))
		return false;
	run->again = true;
	run->counts = run->count_at;
	run->next = run->begin;
	next_keys(task);
	service_run_entry_open(service, request);
	return true;
}

enum rpc_progress service_run_prepare(struct service *service, struct rpc_request *request, int64_t *budget,
				      bool *waits)
{
	struct task *task = request->task;
	struct run *run = &task->run;

	switch (run->stage) {
	case RUN_HEAD:
		prepare_head(task, budget);
		return RPC_MORE;
	case RUN_KEYS:
		if (!next_keys(task)) {
			task->stage = STAGE_NEXT;
			return RPC_MORE;
		}
		if (service_run_entry_prepare(service, request) == RPC_DONE)
			return RPC_DONE;
		if (applies_to(task) && run->count)
			store_push_op(task->scratch->push, task->table, run->count);
		run->again = false;
		run->stage = RUN_TILES;
		return RPC_MORE;
	default:
		if (task->done == run->count) {
			if (look_again(service, request))
				return RPC_MORE;
			run->keys++;
			run->stage = RUN_KEYS;
			return RPC_MORE;
		}
		*waits = task->large && !run->again &&
			 !snapshot_room(service, task->table,
					RTE_MIN(run->count - task->done, (uint32_t)run->plan->keys[run->keys].tile),
					mode(task));
		return *waits ? RPC_MORE : prepare_tile(service, request, budget);
	}
}

/* ---- the run itself ---- */

void service_run_begin(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;
	const struct plan *plan = task->run.plan;
	struct rpc_cursor at = task->keys_begin;
	uint32_t counts[PROGRAM_KEYS_MAX];
	struct wire_result result = { .object = task->op.object, .count = task->op.count, .dim = task->op.dim };

	rpc_cursor_copy(&at, counts, plan->shape.keys_count * (uint32_t)sizeof(*counts));
	result.body_bytes = (uint32_t)wire_program_reply_bytes(&plan->program, &plan->shape, counts, task->op.dim);
	rpc_reply_put(request, &result, sizeof(result));
	task->run.stage = RUN_KEYS;
	task->stage = STAGE_RUN;
	service->counters.runs++;
}

static void begin_keys(struct service *service, const struct rpc_request *request)
{
	struct task *task = request->task;
	struct run *run = &task->run;
	struct store_stats *stats = store_table_counters(task->table);

	run->stage = RUN_TILES;
	if (run->count == 0)
		return;
	service_run_entry_open(service, request);
	service->counters.pulls += looks_up(task);
	stats->pulls += looks_up(task);
	stats->bytes_in += run->bytes;
	if (applies_to(task)) {
		const struct store_push_step step = op_step(&task->op);

		store_push_step(task->scratch->push, task->table, &step);
		service->counters.pushes++;
	}
}

/* All keys of a feed are done. */
static void end_keys(struct rpc_request *request)
{
	struct task *task = request->task;
	struct run *run = &task->run;

	/* Nothing is left to do that needs all rows: tables for which there is are not applied to (plan.c). */
	if (applies_to(task) && run->count)
		store_push_finish(task->scratch->push, task->table, UINT32_MAX);
	rpc_reply_pad(request);
	run->keys++;
	run->stage = RUN_KEYS;
}

/* A run that was not prepared looks its keys up now, and may find no room. */
static enum rpc_progress find_rows(struct service *service, struct rpc_request *request, unsigned n)
{
	const struct task *task = request->task;
	const enum store_find_mode how = task->prepared ? STORE_LOOK : mode(task);
	struct store_stats *stats = store_table_counters(task->table);

	if (!task->prepared && service_operation_check_keys(service, request, n) == RPC_DONE)
		return RPC_DONE;
	if (!looks_up(task))
		return RPC_MORE;
	if (store_find(task->table, service->keys, n, how, task->op.step, service->rows))
		return service_operation_refuse_room(request, task->table);
	service->counters.rows_pulled += n;
	stats->rows_pulled += n;
	/* Look-ups that create rows have counted misses already. */
	for (unsigned i = 0; mode(task) == STORE_LOOK && i < n; i++)
		stats->missed += service->rows[i] >= STORE_UNADMITTED;
	return RPC_MORE;
}

static enum rpc_progress run_tile(struct service *service, struct rpc_request *request, int64_t *budget)
{
	struct task *task = request->task;
	const struct run *run = &task->run;
	struct store_stats *stats = store_table_counters(task->table);
	const unsigned n = take_keys(service, task);

	service_tile_take(service, task, n, true);
	if (find_rows(service, request, n) == RPC_DONE)
		return RPC_DONE;
	service_tile_compute(service, task, n, false);
	stats->bytes_out += service_tile_fetch(service, request, n);
	service_tile_pool(service, task, n);
	if (unlikely(run->entry))
		service_tile_keep(service, task, n);
	if (applies_to(task)) {
		const unsigned gradients = run->plan->program.nodes[run->plan->shape.keys[run->keys].apply].b;

		store_push_rows(task->scratch->push, task->table, (const void *const *)service->tile->rows[gradients],
				STAR_FLOAT32, n);
		service->counters.rows_pushed += n;
		stats->rows_pushed += n;
	}
	tile_done(task, n, budget);
	return RPC_MORE;
}

/* All pooled rows are contiguous. */
static void put_pools(struct rpc_request *request, int64_t *budget)
{
	struct task *task = request->task;
	struct run *run = &task->run;
	const uint64_t all = pool_bytes(task);
	const uint32_t n = (uint32_t)RTE_MIN(all - run->at, (uint64_t)SLICE_BYTES);

	if (n)
		rpc_reply_put(request, task->scratch->pools + run->pools + rows_bytes(task) + run->at, n);
	run->at += n;
	*budget -= n;
	if (run->at == all)
		task->stage = STAGE_NEXT;
}

enum rpc_progress service_run_slice(struct service *service, struct rpc_request *request, int64_t *budget)
{
	struct task *task = request->task;
	struct run *run = &task->run;

	switch (run->stage) {
	case RUN_KEYS:
		if (next_keys(task))
			begin_keys(service, request);
		else
			run->stage = RUN_POOLED;
		return RPC_MORE;
	case RUN_POOLED:
		put_pools(request, budget);
		return RPC_MORE;
	default:
		if (task->done == run->count) {
			end_keys(request);
			return RPC_MORE;
		}
		if (!task->prepared &&
		    !snapshot_room(service, task->table,
				   RTE_MIN(run->count - task->done, (uint32_t)run->plan->keys[run->keys].tile),
				   mode(task))) {
			*budget = 0;
			return RPC_MORE;
		}
		return run_tile(service, request, budget);
	}
}

uint64_t service_run_snapshot_need(const struct task *task)
{
	struct task at = *task;
	uint64_t need = 0;

	for (; next_keys(&at); at.run.keys++)
		if (at.run.count)
			need += store_snapshot_need(at.table, at.run.count, mode(&at));
	return need;
}
