/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run computes for the keys of one tile: everything that needs only the rows of these keys. */
#include "service/internal.h"

void service_tile_forget(struct service *service)
{
	service->tile->once_of = NULL;
}

static float *values_of(struct tile *tile, const struct plan *plan, unsigned node)
{
	return (plan->shape.values[node].axis == PROGRAM_ONCE ? tile->once : tile->values) + plan->at[node];
}

/* Sets where the n rows of a node are: `step` elements apart. */
static void point(struct tile *tile, unsigned node, const float *at, uint32_t step, unsigned n)
{
	for (unsigned i = 0; i < n; i++, at += step)
		tile->rows[node][i] = at;
}

static void compute(struct tile *tile, const struct plan *plan, const struct plan_step *step, unsigned n)
{
	const struct program_value *a = &plan->shape.values[step->a], *b = &plan->shape.values[step->b];
	const float *const *x = tile->rows[step->a], *const *y = tile->rows[step->b];
	float *to = values_of(tile, plan, step->node);

	if (step->kind == PROGRAM_KIND_UNARY)
		tensor_elementwise_unary(step->op, step->constant, x, n, a->dim, to);
	else if (step->kind == PROGRAM_KIND_BINARY)
		tensor_elementwise_binary(step->op, x, a->dim, y, b->dim, n, to);
	else
		tensor_elementwise_reduce(step->op, x, y, n, a->dim, to);
}

/* Computes rows that exist once: the SHARED feeds, and what depends on them. */
static void compute_once(struct tile *tile, const struct task *task)
{
	const struct plan *plan = task->run.plan;
	struct rpc_cursor at = task->keys_begin;

	rpc_cursor_skip(&at, (uint32_t)program_padded(plan->shape.keys_count * sizeof(uint32_t)));
	for (unsigned i = 0; i < plan->program.count; i++) {
		const struct program_node *node = &plan->program.nodes[i];
		const uint32_t bytes = node->dim * (uint32_t)sizeof(float);

		if (node->op != PROGRAM_SHARED)
			continue;
		rpc_cursor_copy(&at, values_of(tile, plan, i), bytes);
		rpc_cursor_skip(&at, wire_padded(bytes) - bytes);
		point(tile, i, values_of(tile, plan, i), 0, STORE_BATCH);
	}
	for (unsigned i = 0; i < plan->once; i++) {
		compute(tile, plan, &plan->steps[i], 1);
		point(tile, plan->steps[i].node, values_of(tile, plan, plan->steps[i].node), 0, STORE_BATCH);
	}
	tile->once_of = task;
	tile->once_left = task->ops_left;
}

/* Widens numbers of one or two bytes to four, in place. */
static void widen(uint32_t *segments, unsigned n, uint32_t bytes)
{
	const uint8_t *from = (const uint8_t *)segments;
	uint16_t number;

	for (unsigned i = n; i-- > 0;) {
		if (bytes == 1) {
			segments[i] = from[i];
		} else {
			memcpy(&number, from + i * sizeof(number), sizeof(number));
			segments[i] = number;
		}
	}
}

static void take_segments(struct tile *tile, struct run *run, unsigned i, unsigned n, uint32_t bytes)
{
	rpc_cursor_copy(&run->aligned[i], tile->segments[i], n * bytes);
	if (bytes < sizeof(uint32_t))
		widen(tile->segments[i], n, bytes);
}

/* Takes values that are aligned with a tile's keys from an entry. */
static void take_kept(struct service *service, struct run *run, unsigned i, unsigned n, bool rows)
{
	struct tile *tile = service->tile;
	const struct plan *plan = run->plan;
	const unsigned node = plan->shape.keys[run->keys].aligned[i];
	const uint32_t dim = plan->shape.values[node].dim;
	float *to = values_of(tile, plan, node);

	if (dim == 0) {
		service_kept_read(service->kept, &run->kept[i], tile->segments[i], n * (uint32_t)sizeof(uint32_t));
	} else if (rows) {
		service_kept_read(service->kept, &run->kept[i], to, n * dim * (uint32_t)sizeof(float));
		point(tile, node, to, dim, n);
	}
}

void service_tile_take(struct service *service, struct task *task, unsigned n, bool rows)
{
	struct tile *tile = service->tile;
	const struct plan *plan = task->run.plan;
	const struct program_keys *keys = &plan->shape.keys[task->run.keys];

	for (unsigned i = 0; i < keys->aligned_count; i++) {
		const unsigned node = keys->aligned[i];
		const uint32_t dim = plan->shape.values[node].dim, bytes = dim * (uint32_t)sizeof(float);
		float *to = values_of(tile, plan, node);

		if (unlikely(task->run.entry && plan->program.nodes[node].flags & PROGRAM_KEPT)) {
			take_kept(service, &task->run, i, n, rows);
			continue;
		}
		if (dim == 0) {
			take_segments(tile, &task->run, i, n, program_segment_bytes(plan->program.nodes[node].op));
			continue;
		}
		for (unsigned k = 0; rows && k < n; k++, to += dim)
			tile->rows[node][k] = rpc_cursor_take(&task->run.aligned[i], bytes, _Alignof(float), to);
	}
}

/* Takes rows that store_find found, in place or converted to float32. */
static void take_rows(struct service *service, const struct task *task, unsigned n)
{
	struct tile *tile = service->tile;
	const struct plan *plan = task->run.plan;
	const struct plan_keys *keys = &plan->keys[task->run.keys];
	const unsigned node = plan->shape.keys[task->run.keys].lookup;
	const uint32_t dim = plan->shape.values[node].dim;
	const float **rows = tile->rows[node];
	const bool copies = keys->copies;

	for (unsigned i = 0; i < n; i++) {
		rows[i] = store_values(keys->table, service->rows[i], STAR_FLOAT32);
		if (unlikely(!rows[i] || copies)) {
			float *to = values_of(tile, plan, node) + (size_t)i * dim;

			store_read(keys->table, service->rows[i], service->keys[i], STAR_FLOAT32, to);
			rows[i] = to;
		}
	}
}

static void unpool(struct tile *tile, const struct task *task, const struct plan_step *step, unsigned n)
{
	const struct plan *plan = task->run.plan;
	const uint32_t dim = plan->shape.values[step->a].dim, *segments = tile->segments[plan->slot[step->b]];
	const uint8_t *rows = task->scratch->pools + task->run.pools;

	for (unsigned i = 0; i < step->a; i++)
		if (plan->program.nodes[i].op == PROGRAM_SEGMENT_ROWS)
			rows += program_padded((uint64_t)task->op.dim * plan->shape.values[i].dim * sizeof(float));
	for (unsigned i = 0; i < n; i++)
		tile->rows[step->node][i] = (const float *)rows + (uint64_t)segments[i] * dim;
}

/*
 * ---- the last block of a variable, if it is short: elements beyond its end count in no sum, and get no gradient ----
 */

static bool is_last(const struct service *service, const struct task *task, unsigned i)
{
	return service->keys[i] == task->blocks - UINT64_C(1);
}

/* Repeats a reduction of rows as wide as blocks without the elements beyond the end. */
static void reduce_last(const struct service *service, const struct task *task, const struct plan_step *step,
			unsigned n)
{
	struct tile *tile = service->tile;
	const struct plan *plan = task->run.plan;
	const struct plan_keys *keys = &plan->keys[task->run.keys];
	float *to = values_of(tile, plan, step->node);

	if (step->kind != PROGRAM_KIND_REDUCTION || plan->shape.values[step->a].dim != task->spec->dim)
		return;
	for (unsigned i = 0; i < n; i++)
		if (is_last(service, task, i))
			tensor_elementwise_reduce(step->op, &tile->rows[step->a][i], &tile->rows[step->b][i], 1,
						  keys->last, &to[i * elementwise_reduced(step->op)]);
}

static void clear_last(const struct service *service, const struct task *task, unsigned n)
{
	struct tile *tile = service->tile;
	const struct plan *plan = task->run.plan;
	const unsigned apply = plan->shape.keys[task->run.keys].apply;
	const uint32_t dim = task->spec->dim, last = plan->keys[task->run.keys].last;
	unsigned node;

	if (apply == PROGRAM_NONE)
		return;
	node = plan->program.nodes[apply].b;
	for (unsigned i = 0; i < n; i++) {
		float *to = values_of(tile, plan, node) + (size_t)i * dim;

		if (!is_last(service, task, i))
			continue;
		if (tile->rows[node][i] != to) /* otherwise it points to the request's memory, or to a segment's */
			memcpy(to, tile->rows[node][i], last * sizeof(*to));
		memset(to + last, 0, (dim - last) * sizeof(*to));
		tile->rows[node][i] = to;
	}
}

void service_tile_compute(struct service *service, struct task *task, unsigned n, bool look)
{
	struct tile *tile = service->tile;
	const struct plan *plan = task->run.plan;
	const struct plan_keys *keys = &plan->keys[task->run.keys];

	if (plan->shape.once_elements && (tile->once_of != task || tile->once_left != task->ops_left))
		compute_once(tile, task);
	if (plan->shape.keys[task->run.keys].lookup != PROGRAM_NONE && (!look || keys->looks_up))
		take_rows(service, task, n);
	for (unsigned s = keys->steps; s < keys[1].steps; s++) {
		const struct plan_step *step = &plan->steps[s];

		if (look && !step->look)
			continue;
		if (step->kind == PROGRAM_KIND_SPREAD) {
			unpool(tile, task, step, n);
			continue;
		}
		compute(tile, plan, step, n);
		if (unlikely(keys->last))
			reduce_last(service, task, step, n);
		point(tile, step->node, values_of(tile, plan, step->node), plan->shape.values[step->node].dim, n);
	}
	if (unlikely(keys->last))
		clear_last(service, task, n);
}

uint32_t service_tile_fetch(struct service *service, struct rpc_request *request, unsigned n)
{
	const struct tile *tile = service->tile;
	const struct task *task = request->task;
	const struct plan *plan = task->run.plan;
	const struct plan_keys *keys = &plan->keys[task->run.keys];
	uint32_t all = 0;

	if (likely(keys[1].fetches - keys->fetches == 1)) {
		const unsigned node = plan->fetches[keys->fetches];
		const uint32_t bytes = plan->shape.values[node].dim * (uint32_t)sizeof(float);

		rpc_reply_put_rows(request, (const void *const *)tile->rows[node], n, bytes);
		return n * bytes;
	}
	for (unsigned i = 0; i < n; i++)
		for (unsigned f = keys->fetches; f < keys[1].fetches; f++) {
			const unsigned node = plan->fetches[f];
			const uint32_t bytes = plan->shape.values[node].dim * (uint32_t)sizeof(float);

			rpc_reply_put(request, tile->rows[node][i], bytes);
			all += bytes;
		}
	return all;
}

/* A pool's sums follow the rows by segment, and the pools before it. */
void service_tile_pool(struct service *service, const struct task *task, unsigned n)
{
	const struct tile *tile = service->tile;
	const struct plan *plan = task->run.plan;
	const struct plan_keys *keys = &plan->keys[task->run.keys];
	unsigned done = 0;
	uint8_t *pools;

	if (keys->pools == keys[1].pools)
		return;
	pools = task->scratch->pools + task->run.pools +
		wire_program_segment_bytes(&plan->program, &plan->shape, PROGRAM_SEGMENT_ROWS, task->op.dim);
	for (unsigned p = keys->pools; p < keys[1].pools; p++) {
		const unsigned node = plan->pools[p];
		const uint32_t dim = plan->shape.values[node].dim;
		const uint32_t *segments = tile->segments[plan->slot[plan->program.nodes[node].b]];
		const float *const *rows = tile->rows[plan->program.nodes[node].a];

		for (; done < node; done++)
			if (plan->program.nodes[done].op == PROGRAM_POOL)
				pools += program_padded((uint64_t)task->op.dim * plan->shape.values[done].dim *
							sizeof(float));
		for (unsigned i = 0; i < n; i++)
			tensor_elementwise_add((float *)pools + (uint64_t)segments[i] * dim, rows[i], dim);
	}
}

void service_tile_keep(struct service *service, const struct task *task, unsigned n)
{
	const struct tile *tile = service->tile;
	const struct plan *plan = task->run.plan;
	struct kept_entry *entry = task->run.entry;

	if (plan->shape.begins)
		service_kept_append(service->kept, entry, KEPT_KEYS, service->keys, n * (uint32_t)sizeof(uint64_t));
	for (unsigned k = 0; k < plan->keeps_count; k++) {
		const struct program_node *keep = &plan->program.nodes[plan->keeps[k]];
		const uint32_t bytes = plan->shape.values[keep->a].dim * (uint32_t)sizeof(float);

		if (bytes == 0)
			service_kept_append(service->kept, entry, keep->b, tile->segments[plan->slot[keep->a]],
					    n * (uint32_t)sizeof(uint32_t));
		for (unsigned i = 0; bytes && i < n; i++)
			service_kept_append(service->kept, entry, keep->b, tile->rows[keep->a][i], bytes);
	}
}
