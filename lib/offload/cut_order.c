/* SPDX-License-Identifier: BSD-3-Clause */
/* The start of a cut: where each node is, what it waits for, and star_server's waves. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "offload/cut_internal.h"
#include "graph/handle.h"

struct cut_block {
	struct cut_block *next;
	_Alignas(16) uint8_t data[];
};

void *offload_cut_memory(struct cut_pool *pool, size_t count, size_t bytes)
{
	struct cut_block *block = calloc(1, sizeof(*block) + count * bytes);

	if (!block) {
		pool->failed = true;
		return NULL;
	}
	block->next = pool->blocks;
	pool->blocks = block;
	return block->data;
}

void offload_cut_pool_free(struct cut_pool *pool)
{
	for (struct cut_block *block = pool->blocks, *next; block; block = next) {
		next = block->next;
		free(block);
	}
	*pool = (struct cut_pool){ 0 };
}

/* ---- the order of stateful nodes ---- */

/* A node that reads or changes a variable or table, by itself or in its bodies. */
struct use {
	const char *resource;
	uint32_t node;
	bool changes;
};

struct uses {
	struct use *all;
	uint32_t count, room;
	bool failed;
};

static bool op_changes(enum graph_op op)
{
	return op == GRAPH_APPLY || op == GRAPH_APPLY_ROWS || op == GRAPH_ASSIGN || op == GRAPH_STEP_ADD;
}

static void add_use(struct uses *uses, struct use use)
{
	if (uses->count == uses->room) {
		const uint32_t room = uses->room ? uses->room * 2 : 64;
		struct use *more = reallocarray(uses->all, room, sizeof(*more));

		if (!more) {
			uses->failed = true;
			return;
		}
		uses->all = more;
		uses->room = room;
	}
	uses->all[uses->count++] = use;
}

/* as: the node of the outermost graph; UINT32_MAX: the graph's own nodes. Bodies are nested up to GRAPH_DEPTH_MAX
 * deep. */
static void find_uses(struct uses *uses, const struct graph *graph, uint32_t as)
{
	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i], *resource;
		const uint32_t id = as == UINT32_MAX ? i : as;

		if (node->body)
			find_uses(uses, node->body, id);
		if (node->cond)
			find_uses(uses, node->cond, id);
		if (graph_is_handle(node) || !node->inputs_count || graph_type(graph, node->inputs[0])->dtype != 0)
			continue;
		resource = graph_resource(graph, node->inputs[0]);
		if (resource)
			add_use(uses, (struct use){ resource->name, id, op_changes(node->op) });
	}
}

static int by_use(const void *a, const void *b)
{
	const struct use *x = a, *y = b;
	const int names = strcmp(x->resource, y->resource);

	if (names)
		return names;
	return x->node != y->node ? (x->node < y->node ? -1 : 1) : (int)x->changes - (int)y->changes;
}

static int by_second(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return x[1] != y[1] ? (x[1] < y[1] ? -1 : 1) : x[0] < y[0] ? -1 : x[0] > y[0];
}

static void add_state(struct cutter *cutter, uint32_t from, uint32_t to)
{
	if (from == to)
		return;
	cutter->state[cutter->state_count][0] = from;
	cutter->state[cutter->state_count++][1] = to;
}

/* A change comes after the reads since the last change, or after that change; a read comes after the last change: at
 * most two edges per use. */
static void chain(struct cutter *cutter, const struct use *uses, uint32_t count)
{
	uint32_t last = UINT32_MAX, reads = 0; /* the last change; the first read after it */

	for (uint32_t i = 0; i < count; i++) {
		if (last != UINT32_MAX)
			add_state(cutter, uses[last].node, uses[i].node);
		if (!uses[i].changes)
			continue;
		for (uint32_t r = reads; r < i; r++)
			add_state(cutter, uses[r].node, uses[i].node);
		last = i;
		reads = i + 1;
	}
}

static int order_state(struct cutter *cutter)
{
	struct uses uses = { 0 };

	find_uses(&uses, cutter->graph, UINT32_MAX);
	cutter->state = offload_cut_memory(&cutter->pool, 2 * (size_t)uses.count + 1, sizeof(*cutter->state));
	if (uses.failed || !cutter->state) {
		free(uses.all);
		return -ENOMEM;
	}
	if (uses.count)
		qsort(uses.all, uses.count, sizeof(*uses.all), by_use);
	for (uint32_t i = 0, to; i < uses.count; i = to) {
		for (to = i + 1; to < uses.count && !strcmp(uses.all[to].resource, uses.all[i].resource);)
			to++;
		chain(cutter, uses.all + i, to - i);
	}
	free(uses.all);
	qsort(cutter->state, cutter->state_count, sizeof(*cutter->state), by_second);
	return 0;
}

/* ---- places ---- */

/* At least as many PS tasks as the graph or one of its bodies names. */
static uint32_t count_tasks(const struct graph *graph, uint32_t tasks)
{
	for (uint32_t v = 0; v < graph->nodes_count; v++) {
		const struct graph_node *node = graph->nodes[v];

		if (node->device.job == GRAPH_PS && node->device.task >= (int32_t)tasks)
			tasks = (uint32_t)node->device.task + 1;
		if (node->body)
			tasks = count_tasks(node->cond, count_tasks(node->body, tasks));
	}
	return tasks;
}

static int32_t device_place(const struct graph_node *node, bool worker_only)
{
	if (node->device.job != GRAPH_PS ||
	    (worker_only && !graph_is_handle(node) && graph_op_info(node->op)->place != GRAPH_ON_PS))
		return GRAPH_PLACE_WORKER;
	return node->device.task < 0 ? GRAPH_PLACE_ALL : node->device.task;
}

static int find_places(struct cutter *cutter, struct star_error *err)
{
	if (!cutter->options.ps_tasks)
		cutter->options.ps_tasks = count_tasks(cutter->graph, 1);
	for (uint32_t v = 0; v < cutter->graph->nodes_count; v++) {
		const struct graph_node *node = cutter->graph->nodes[v];
		const struct graph_device device = node->device;

		cutter->place[v] = device_place(node, cutter->options.worker_only);
		if (device.job == GRAPH_PS && device.task >= (int32_t)cutter->options.ps_tasks)
			return star_error_set(err, -EINVAL,
					      "node \"%s\" is on /job:ps/task:%d, but there are %u PS tasks, from 0",
					      node->name, device.task, cutter->options.ps_tasks);
	}
	return 0;
}

int offload_cut_order_init(struct cutter *cutter, const struct graph *graph, const struct graph_cut_options *options,
			   struct star_error *err)
{
	const size_t n = graph->nodes_count;
	size_t edges = 0, values = 0;
	int rc;

	*cutter = (struct cutter){ .graph = graph, .options = *options };
	if (cutter->options.batch < 1)
		cutter->options.batch = 1;
	for (size_t v = 0; v < n; v++)
		edges += graph->nodes[v]->inputs_count + graph->nodes[v]->controls_count;
	rc = order_state(cutter);
	cutter->place = offload_cut_memory(&cutter->pool, n + 1, sizeof(*cutter->place));
	cutter->kind = offload_cut_memory(&cutter->pool, n + 1, sizeof(*cutter->kind));
	cutter->first = offload_cut_memory(&cutter->pool, n + 1, sizeof(*cutter->first));
	cutter->data_end = offload_cut_memory(&cutter->pool, n + 1, sizeof(*cutter->data_end));
	cutter->level = offload_cut_memory(&cutter->pool, n + 1, sizeof(*cutter->level));
	cutter->value_first = offload_cut_memory(&cutter->pool, n + 1, sizeof(*cutter->value_first));
	cutter->moved = offload_cut_memory(&cutter->pool, n + 1, sizeof(*cutter->moved));
	cutter->pools = offload_cut_memory(&cutter->pool, n + 1, sizeof(*cutter->pools));
	cutter->numbered = offload_cut_memory(&cutter->pool, n + 1, sizeof(*cutter->numbered));
	cutter->warnings = offload_cut_memory(&cutter->pool, CUT_WARNINGS_MAX + 1, sizeof(*cutter->warnings));
	cutter->deps = offload_cut_memory(&cutter->pool, edges + cutter->state_count + 1, sizeof(*cutter->deps));
	if (rc < 0 || cutter->pool.failed)
		return star_error_set(err, -ENOMEM, "out of memory");
	for (size_t v = 0; v < n; v++) {
		cutter->value_first[v] = (uint32_t)values;
		cutter->pools[v] = graph_op_info(graph->nodes[v]->op)->flags & GRAPH_POOLS;
		values += graph->nodes[v]->outputs_count;
	}
	cutter->value_first[n] = (uint32_t)values;
	rc = find_places(cutter, err);
	offload_cut_order_update(cutter);
	return rc;
}

/* A constant that is copied to PS nodes is still executed in the worker if anything else needs it. */
static void find_kinds(struct cutter *cutter)
{
	const struct graph *graph = cutter->graph;

	for (uint32_t v = 0; v < graph->nodes_count; v++) {
		const struct graph_node *node = graph->nodes[v];

		cutter->kind[v] = graph_is_handle(node) ? CUT_HANDLE : CUT_WORK;
		for (uint32_t i = 0; i < node->inputs_count; i++)
			if (cut_copied_to(cutter, node->inputs[i].node, cutter->place[v]))
				cutter->kind[node->inputs[i].node] = CUT_COPIED;
	}
	if (!cutter->copies)
		return;
	for (uint32_t v = 0; v < graph->nodes_count; v++)
		for (uint32_t i = 0; i < graph->nodes[v]->inputs_count; i++) {
			const uint32_t input = graph->nodes[v]->inputs[i].node;

			if (cutter->kind[input] == CUT_COPIED && !cut_copied_to(cutter, input, cutter->place[v]))
				cutter->kind[input] = CUT_WORK;
		}
	for (uint32_t i = 0; i < graph->results_count; i++)
		if (cutter->kind[graph->results[i].node] == CUT_COPIED)
			cutter->kind[graph->results[i].node] = CUT_WORK;
}

void offload_cut_order_update(struct cutter *cutter)
{
	const struct graph *graph = cutter->graph;
	uint32_t at = 0, s = 0;

	find_kinds(cutter);
	for (uint32_t v = 0; v < graph->nodes_count; v++) {
		const struct graph_node *node = graph->nodes[v];
		const bool works = cutter->kind[v] == CUT_WORK;

		cutter->first[v] = at;
		for (uint32_t i = 0; works && i < node->inputs_count; i++) {
			const uint32_t input = node->inputs[i].node;

			if (graph_reads(node, i) && cutter->kind[input] == CUT_WORK &&
			    !cut_copied_to(cutter, input, cutter->place[v]))
				cutter->deps[at++] = input;
		}
		cutter->data_end[v] = at;
		for (uint32_t i = 0; works && i < node->inputs_count; i++) /* a shape is known after the value */
			if (!graph_reads(node, i) && cutter->kind[node->inputs[i].node] == CUT_WORK &&
			    !cut_copied_to(cutter, node->inputs[i].node, cutter->place[v]))
				cutter->deps[at++] = node->inputs[i].node;
		for (uint32_t i = 0; works && i < node->controls_count; i++)
			if (cutter->kind[node->controls[i]] == CUT_WORK)
				cutter->deps[at++] = node->controls[i];
		for (; s < cutter->state_count && cutter->state[s][1] == v; s++)
			cutter->deps[at++] = cutter->state[s][0];
	}
	cutter->first[graph->nodes_count] = at;
}

/* ---- waves ---- */

uint32_t offload_cut_levels(const struct cutter *cutter, bool ps_first, uint32_t *level)
{
	uint32_t top = 0;

	for (uint32_t v = 0; v < cutter->graph->nodes_count; v++) {
		const int32_t place = cutter->place[v];

		if (cutter->kind[v] != CUT_WORK)
			continue;
		level[v] = place != GRAPH_PLACE_WORKER ? 1 : ps_first ? 2 : 0;
		for (uint32_t i = cutter->first[v]; i < cutter->first[v + 1]; i++) {
			const uint32_t u = cutter->deps[i];
			const uint32_t least = level[u] + cut_step(cutter->place[u], place);

			if (least > level[v])
				level[v] = least;
		}
		if (place != GRAPH_PLACE_WORKER && level[v] > top)
			top = level[v];
	}
	return top;
}

static int by_number(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

uint32_t offload_cut_requests(struct cutter *cutter, const uint32_t *level)
{
	const uint32_t n = cutter->graph->nodes_count;
	uint64_t *pairs = malloc((n + 1) * sizeof(*pairs));
	uint32_t count = 0, requests = 0;

	if (!pairs) {
		cutter->pool.failed = true;
		return 0;
	}
	for (uint32_t v = 0; v < n; v++)
		if (cutter->kind[v] == CUT_WORK && cutter->place[v] != GRAPH_PLACE_WORKER)
			pairs[count++] = (uint64_t)level[v] << 32 | (uint32_t)cutter->place[v];
	qsort(pairs, count, sizeof(*pairs), by_number);
	for (uint32_t i = 0; i < count; i++)
		if (i == 0 || pairs[i] != pairs[i - 1])
			requests += cut_tasks(&cutter->options, (int32_t)(uint32_t)pairs[i]);
	free(pairs);
	return requests;
}

/*
 * Why no cut can have fewer waves. Call a path through the graph that visits PS tasks k times (two consecutive PS nodes
 * count once if they are on the same task) a path of k rounds. In any cut, its k visits are in k different parts (what
 * is between them is elsewhere, and parts have no cycles), each of which waits for the previous one: at least k
 * dependent round trips. A node's level here is 2 k - 1 (PS) for the longest such path to it, so the last wave is that
 * of the longest path: no cut has fewer, and all nodes have their lowest level at the same time, so nothing is lost by
 * it.
 *
 * Starting with what PS tasks can do without the worker cannot reduce the number, by the same argument; it adds one if
 * the longest path starts in the worker. If it does not, the first wave may save a request of a later one, and then PS
 * tasks are first.
 */
void offload_cut_waves(struct cutter *cutter)
{
	uint32_t *other = offload_cut_memory(&cutter->pool, cutter->graph->nodes_count + 1, sizeof(*other));
	uint32_t top;

	cutter->top = offload_cut_levels(cutter, false, cutter->level);
	if (!other)
		return;
	top = offload_cut_levels(cutter, true, other);
	if (top <= cutter->top && offload_cut_requests(cutter, other) < offload_cut_requests(cutter, cutter->level)) {
		cutter->top = top;
		cutter->level = other;
	}
}
