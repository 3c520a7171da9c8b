/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lite moves to PS tasks before an apply_rows, so that less is sent. If the gradient of rows is a bag's gradient,
 * given to each of the bag's rows (gather, expand, the gradients of segment operations), the bags' gradients and
 * numbers are sent instead. The same holds for a bag's row that each of its rows multiplies by a number of its own (an
 * outer product). Row-wise operations in between move too. What moves may have no other user: nodes with one user form
 * a tree, which is walked from the apply_rows.
 */
#include <stdlib.h>

#include "offload/cut_internal.h"

enum { DEPTH_MAX = 16 };

struct back {
	struct cutter *cutter;
	uint32_t *users; /* of each value; a result counts as one */
	const struct graph_node *apply;
	const struct graph_node *pool; /* for the same rows, and moved there; NULL: none, or nothing is kept */
	int32_t place;
	bool mark; /* records the cheaper choice */
};

static uint64_t least(const struct back *b, struct graph_value value, unsigned depth);

static const struct graph_shape *shape_of(const struct back *b, struct graph_value value)
{
	return &graph_type(b->cutter->graph, value)->shape;
}

static bool is_workers(const struct back *b, struct graph_value value)
{
	return b->cutter->place[value.node] == GRAPH_PLACE_WORKER;
}

/* [n, 1, ...] to [n, k, ...], where ids are [n, k]. */
static bool is_neighbours(const struct back *b, const struct graph_node *node)
{
	const struct graph_shape *ids = shape_of(b, b->apply->inputs[1]), *from = shape_of(b, node->inputs[0]);
	const struct graph_shape *to = &node->outputs[0].shape;
	unsigned same = 0;

	if (from->ndim != to->ndim || to->ndim < ids->ndim)
		return false;
	while (same < ids->ndim && from->dims[same] == to->dims[same] && to->dims[same] == ids->dims[same])
		same++;
	for (unsigned i = same; i < ids->ndim; i++)
		if (from->dims[i] != 1)
			return false;
	return same > 0 && same < ids->ndim &&
	       (to->ndim == ids->ndim || from->dims[to->ndim - 1] == to->dims[to->ndim - 1]);
}

static bool is_outer(const struct back *b, const struct graph_node *node)
{
	return node->op == GRAPH_MATMUL &&
	       offload_cut_is_outer(node, shape_of(b, node->inputs[0]), shape_of(b, node->inputs[1]),
				    shape_of(b, b->apply->inputs[1]));
}

/* Whether its bags are neighbouring ids, which have numbers. */
static bool is_numbered(const struct graph_node *node)
{
	return node->op == GRAPH_EXPAND || node->op == GRAPH_MATMUL;
}

/* The lookup whose rows a moved node works on; NULL: none. */
static const struct graph_node *rows_of(const struct back *b, const struct graph_node *node)
{
	const struct graph *graph = b->cutter->graph;

	while (node->op != GRAPH_LOOKUP) {
		const struct graph_node *from = NULL;

		for (uint32_t i = 0; i < node->inputs_count && !from; i++)
			if (graph_reads(node, i) && b->cutter->place[node->inputs[i].node] == b->place)
				from = graph->nodes[node->inputs[i].node];
		if (!from)
			return NULL;
		node = from;
	}
	return node;
}

static const struct graph_node *find_pool(const struct back *b, uint32_t moved_count)
{
	const struct cutter *cutter = b->cutter;

	for (uint32_t i = 0; cutter->stays && i < moved_count; i++) {
		const struct graph_node *pool = cutter->graph->nodes[cutter->moved[i]], *rows;

		if (!cutter->pools[pool->id] || cutter->place[pool->id] != b->place)
			continue;
		rows = rows_of(b, pool);
		if (rows && graph_same(rows->inputs[1], b->apply->inputs[1]) &&
		    graph_resource(cutter->graph, rows->inputs[0]) ==
			    graph_resource(cutter->graph, b->apply->inputs[0]))
			return pool;
	}
	return NULL;
}

/* Segments may have been cast to a wider type. */
static struct graph_value narrow_back(const struct back *b, struct graph_value value)
{
	const struct graph_node *node = b->cutter->graph->nodes[value.node];

	return node->op == GRAPH_CAST ? node->inputs[0] : value;
}

/* Bytes of the bags' numbers, which are sent too, 4 each, unless the pool was sent the same ones. */
static uint64_t numbers_bytes(const struct back *b, const struct graph_node *node)
{
	const bool numbered = is_numbered(node);

	if (b->pool && (b->cutter->numbered[b->pool->id] != 0) == numbered &&
	    (numbered || graph_same(narrow_back(b, b->pool->inputs[1]), narrow_back(b, node->inputs[1]))))
		return 0;
	return numbered || b->cutter->stays ? offload_cut_numbers_bytes(b->cutter, b->apply->id)
					    : offload_cut_bytes(b->cutter, node->inputs[1]);
}

/* Bytes of the bags' rows and numbers. UINT64_MAX: it is not that operation. */
static uint64_t spread_bytes(const struct back *b, const struct graph_node *node)
{
	const uint64_t rows = offload_cut_bytes(b->cutter, node->inputs[0]) * cut_pieces(&b->cutter->options, b->place);

	if (!is_workers(b, node->inputs[0]))
		return UINT64_MAX;
	if (node->op == GRAPH_EXPAND)
		return is_neighbours(b, node) ? rows + numbers_bytes(b, node) : UINT64_MAX;
	return is_workers(b, node->inputs[1]) && shape_of(b, b->apply->inputs[1])->ndim == 1 &&
			       shape_of(b, node->inputs[1])->ndim == 1
		       ? rows + numbers_bytes(b, node)
		       : UINT64_MAX;
}

/* Bytes of a number for each row, and of the bags' rows and numbers. */
static uint64_t outer_bytes(const struct back *b, const struct graph_node *node)
{
	if (!is_workers(b, node->inputs[0]) || !is_workers(b, node->inputs[1]))
		return UINT64_MAX;
	return offload_cut_bytes(b->cutter, node->inputs[0]) + numbers_bytes(b, node) +
	       offload_cut_bytes(b->cutter, node->inputs[1]) * cut_pieces(&b->cutter->options, b->place);
}

/* Bytes of its inputs, or of what they are computed from. */
static uint64_t inputs_bytes(const struct back *b, const struct graph_node *node, unsigned depth)
{
	const struct graph_shape *out = &node->outputs[0].shape;
	const unsigned lead = shape_of(b, b->apply->inputs[1])->ndim;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < node->inputs_count; i++) {
		const struct graph_value input = node->inputs[i];

		if (!graph_reads(node, i))
			continue;
		if (cut_copied_to(b->cutter, input.node, b->place) &&
		    offload_cut_is_for_all_rows(shape_of(b, input), out->ndim, lead))
			continue;
		if (!is_workers(b, input) || !offload_cut_is_for_each_row(shape_of(b, input), out, lead))
			return UINT64_MAX;
		bytes += least(b, input, depth + 1);
	}
	return bytes;
}

/* Also true for values that have the rows' shape already. */
static bool is_by_row(const struct back *b, const struct graph_node *node)
{
	return offload_cut_is_elementwise(node->op) ||
	       (node->op == GRAPH_REDUCE_LIKE &&
		graph_shape_same(shape_of(b, node->inputs[0]), shape_of(b, node->inputs[1])));
}

static bool may_go(const struct back *b, const struct graph_node *node)
{
	return cut_is_free(b->cutter, node) && is_workers(b, (struct graph_value){ node->id, 0 }) &&
	       node->outputs_count == 1 && b->users[b->cutter->value_first[node->id]] == 1 &&
	       cut_may_move(b->cutter, node);
}

/* The fewest bytes with which a value can be sent. */
static uint64_t least(const struct back *b, struct graph_value value, unsigned depth)
{
	struct cutter *cutter = b->cutter;
	const struct graph_node *node = cutter->graph->nodes[value.node];
	/* Unmoved, it is sent with the ids, which a program already has there. */
	const uint64_t whole = offload_cut_bytes(cutter, value) +
			       (depth == 0 && b->pool ? offload_cut_bytes(cutter, b->apply->inputs[1]) : 0);
	uint64_t bytes = UINT64_MAX;
	struct back look = *b;

	if (depth == DEPTH_MAX || !may_go(b, node))
		return whole;
	look.mark = false;
	if (graph_op_info(node->op)->flags & GRAPH_SPREADS)
		bytes = spread_bytes(b, node);
	else if (is_outer(b, node))
		bytes = outer_bytes(b, node);
	else if (is_by_row(b, node))
		bytes = inputs_bytes(&look, node, depth);
	if (bytes >= whole)
		return whole;
	if (b->mark) {
		cutter->place[node->id] = b->place;
		cutter->moved[cutter->moved_count++] = node->id;
		cutter->numbered[node->id] = is_numbered(node) ? b->apply->id + 1 : 0;
		if (is_by_row(b, node))
			inputs_bytes(b, node, depth);
	}
	return bytes;
}

static int by_id(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

void offload_cut_move_back(struct cutter *cutter)
{
	const struct graph *graph = cutter->graph;
	const uint32_t n = graph->nodes_count, moved_count = cutter->moved_count;
	struct back b = { .cutter = cutter,
			  .users = offload_cut_memory(&cutter->pool, cutter->value_first[n] + UINT64_C(1),
						      sizeof(*b.users)),
			  .mark = true };

	if (!b.users)
		return;
	for (uint32_t v = 0; v < n; v++)
		for (uint32_t i = 0; i < graph->nodes[v]->inputs_count; i++)
			b.users[cutter->value_first[graph->nodes[v]->inputs[i].node] +
				graph->nodes[v]->inputs[i].output]++;
	for (uint32_t i = 0; i < graph->results_count; i++)
		b.users[cutter->value_first[graph->results[i].node] + graph->results[i].output]++;
	for (uint32_t v = 0; v < n; v++) {
		b.apply = graph->nodes[v];
		b.place = cutter->place[v];
		b.pool = b.apply->op == GRAPH_APPLY_ROWS ? find_pool(&b, moved_count) : NULL;
		if (b.apply->op == GRAPH_APPLY_ROWS && cut_may_move(cutter, b.apply) &&
		    is_workers(&b, b.apply->inputs[1]))
			least(&b, b.apply->inputs[2], 0);
	}
	qsort(cutter->moved, cutter->moved_count, sizeof(*cutter->moved), by_id);
}
