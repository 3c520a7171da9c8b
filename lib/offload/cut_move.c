/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lite moves to PS tasks: operations after a lookup or read, so that less comes back. The rows of a PS task are on
 * many reactors, so an operation may only be moved if each reactor can do its share: row by row (also with a row of the
 * worker's for each), over the elements of a row, or sums over rows in parts. A value's "rows" are the lookup to whose
 * rows it belongs, or the variable that was read; there each element is a row, because blocks may end anywhere. A
 * forward pass finds what could be moved, a backward pass what that would save: fewest(v) is the minimum of bytes that
 * must come back for what v computes, if v is on the PS task. Both are repeated, because what was sent for one moved
 * operation costs nothing for another one. The caller compares the complete cuts, and so notices wrong estimates.
 */
#include <string.h>

#include "offload/cut_internal.h"

enum { NO_ROWS = UINT32_MAX };

struct moving {
	struct cutter *cutter;
	int32_t *place;	  /* where each node is, or could be moved */
	uint32_t *rows;	  /* of its outputs; NO_ROWS: none, or partial sums */
	uint8_t *lead;	  /* the number of their dimensions that count rows: those of the ids; for a variable all */
	uint64_t *fewest; /* for each value: the bytes of all its movable users */
	bool *movable;
	bool *wanted, *away; /* for each value: needed by nodes that could be moved to it; needed elsewhere */
	uint64_t *fed;	     /* for each value: 1 + level and place of a PS part that it is sent to */
};

bool offload_cut_is_elementwise(enum graph_op op)
{
	return (graph_op_info(op)->flags & GRAPH_ELEMENTWISE) == GRAPH_ELEMENTWISE;
}

/* Whether a shape of ndim dimensions has the same value for each row: 1 in those dimensions, or no such dimensions. */
bool offload_cut_is_for_all_rows(const struct graph_shape *shape, unsigned ndim, unsigned lead)
{
	if (shape->ndim > ndim)
		return false;
	for (unsigned i = 0; i + ndim < lead + shape->ndim; i++)
		if (shape->dims[i] != 1)
			return false;
	return true;
}

bool offload_cut_is_for_each_row(const struct graph_shape *shape, const struct graph_shape *rows, unsigned lead)
{
	if (shape->ndim != rows->ndim || shape->ndim < lead)
		return false;
	for (unsigned i = 0; i < lead; i++)
		if (shape->dims[i] != rows->dims[i])
			return false;
	return true;
}

bool offload_cut_is_outer(const struct graph_node *product, const struct graph_shape *a, const struct graph_shape *b,
			  const struct graph_shape *ids)
{
	const unsigned lead = ids->ndim;
	const bool transposed = graph_attr_int(product, "transpose_b", 0);

	if (product->op != GRAPH_MATMUL || graph_attr_int(product, "transpose_a", 0) || lead < 2 ||
	    a->ndim != lead + 1 || b->ndim != lead + 1 || a->dims[lead] != 1 ||
	    b->dims[transposed ? lead : lead - 1] != 1)
		return false;
	for (unsigned i = 0; i < lead; i++)
		if (a->dims[i] != ids->dims[i] || (i + 1 < lead && b->dims[i] != ids->dims[i]))
			return false;
	return true;
}

/* Whether the worker has it before the rows are requested. */
static bool is_early(const struct moving *m, uint32_t input, uint32_t rows)
{
	const struct cutter *cutter = m->cutter;

	return cutter->place[input] == GRAPH_PLACE_WORKER && !m->movable[input] && cutter->kind[input] == CUT_WORK &&
	       cutter->level[input] <= cutter->level[rows];
}

/* All inputs are rows of one place, or constants that are the same for each row, or have a row for each. at: the first
 * one. */
static bool is_rowwise(const struct moving *m, const struct graph_node *node, uint32_t at)
{
	const struct graph *graph = m->cutter->graph;
	const struct graph_shape *out = &node->outputs[0].shape;
	const uint32_t rows = m->rows[node->inputs[at].node];
	const unsigned lead = m->lead[node->inputs[at].node];

	if (!(graph_op_info(node->op)->flags & GRAPH_ROWWISE) || rows == NO_ROWS)
		return false;
	for (uint32_t i = 0; i < node->inputs_count; i++) {
		const struct graph_value input = node->inputs[i];
		const struct graph_shape *shape = &graph_type(graph, input)->shape;

		if (m->place[input.node] == GRAPH_PLACE_WORKER) {
			if (cut_copied_to(m->cutter, input.node, 0)
				    ? !offload_cut_is_for_all_rows(shape, out->ndim,
								   lead) /* as much as the rows would be sent */
				    : !offload_cut_is_elementwise(node->op) ||
					      !offload_cut_is_for_each_row(shape, out, lead) ||
					      !is_early(m, input.node, node->inputs[at].node))
				return false;
			continue;
		}
		if (m->rows[input.node] != rows)
			return false;
		if (offload_cut_is_elementwise(node->op) ? shape->ndim != out->ndim : shape->ndim <= lead)
			return false;
	}
	return true;
}

/* The dimensions of a reduction, as bits; 0: all of them, or it is none. */
static unsigned axes_of(const struct moving *m, const struct graph_node *node)
{
	const struct graph_attr *axes = graph_attr(node, "axes");
	const unsigned ndim = graph_type(m->cutter->graph, node->inputs[0])->shape.ndim;
	unsigned bits = 0;

	for (uint32_t i = 0; axes && i < axes->ints_count; i++)
		bits |= 1U << (axes->ints[i] < 0 ? axes->ints[i] + ndim : axes->ints[i]);
	return bits;
}

/* A reduction over dimensions that are all within a row. */
static bool is_within_rows(const struct moving *m, const struct graph_node *node)
{
	const unsigned axes = axes_of(m, node), lead = m->lead[node->inputs[0].node];

	return axes && !(axes & ((1U << lead) - 1)) && m->rows[node->inputs[0].node] != NO_ROWS;
}

/* Whether rows are those of a lookup. */
static bool are_looked_up(const struct moving *m, uint32_t rows)
{
	return rows != NO_ROWS && m->cutter->graph->nodes[rows]->op == GRAPH_LOOKUP;
}

/* A sum or mean over the rows of neighbouring ids [n, k]. */
static bool is_neighbours(const struct moving *m, const struct graph_node *node)
{
	const uint32_t rows = m->rows[node->inputs[0].node];
	const unsigned axes = axes_of(m, node), lead = m->lead[node->inputs[0].node];
	unsigned from = 1;

	if (!are_looked_up(m, rows) || !offload_is_sum_or_mean(node->op))
		return false;
	while (from < lead && axes != (1U << lead) - (1U << from))
		from++;
	return from < lead;
}

/* A sum or mean over all of a variable. */
static bool is_total(const struct moving *m, const struct graph_node *node)
{
	const uint32_t rows = m->rows[node->inputs[0].node];

	return offload_is_sum_or_mean(node->op) && rows != NO_ROWS && !are_looked_up(m, rows) &&
	       graph_elements(&node->outputs[0].shape) == 1;
}

/* A sum over rows, whose segments the worker has before the rows are requested. */
static bool is_pooling(const struct moving *m, const struct graph_node *node)
{
	const uint32_t rows = node->inputs[0].node;

	if (!(graph_op_info(node->op)->flags & GRAPH_POOLS) || !are_looked_up(m, m->rows[rows]) || m->lead[rows] != 1)
		return false;
	for (uint32_t i = 1; i < node->inputs_count; i++)
		if (!cut_copied_to(m->cutter, node->inputs[i].node, m->place[rows]) &&
		    !is_early(m, node->inputs[i].node, rows))
			return false;
	return true;
}

/* The first input whose elements could be on a PS task, if all such inputs are on the same one; inputs_count: there is
 * none. */
static uint32_t first_there(const struct moving *m, const struct graph_node *node)
{
	uint32_t at = node->inputs_count;

	for (uint32_t i = node->inputs_count; i-- > 0;) {
		const int32_t place = m->place[node->inputs[i].node];

		if (place == GRAPH_PLACE_WORKER || !graph_reads(node, i))
			continue;
		if (at < node->inputs_count && m->place[node->inputs[at].node] != place)
			return node->inputs_count;
		at = i;
	}
	return at;
}

/* Nodes that could be moved get the levels that they would have with their rows. */
static void look_at_movable(struct moving *m, uint32_t v)
{
	struct cutter *cutter = m->cutter;
	const struct graph_node *node = cutter->graph->nodes[v];
	uint32_t at;

	m->place[v] = cutter->place[v];
	m->rows[v] = NO_ROWS;
	cutter->numbered[v] = 0;
	if ((node->op == GRAPH_LOOKUP || node->op == GRAPH_READ) && !cut_may_move(cutter, node))
		return;
	if (node->op == GRAPH_LOOKUP) {
		m->rows[v] = v;
		m->lead[v] = graph_type(cutter->graph, node->inputs[1])->shape.ndim;
	} else if (node->op == GRAPH_READ) {
		m->rows[v] = v;
		m->lead[v] = node->outputs[0].shape.ndim;
	}
	if (!cut_is_free(cutter, node))
		return;
	at = first_there(m, node);
	if (at == node->inputs_count || !cut_may_move(cutter, node))
		return;
	m->lead[v] = m->lead[node->inputs[at].node];
	if (is_rowwise(m, node, at) || (at == 0 && is_within_rows(m, node)))
		m->rows[v] = m->rows[node->inputs[at].node];
	else if (at == 0 && is_neighbours(m, node))
		cutter->numbered[v] = m->rows[node->inputs[0].node] + 1;
	else if (at != 0 || (!is_pooling(m, node) && !is_total(m, node)))
		return;
	cutter->pools[v] |= cutter->numbered[v] != 0;
	m->movable[v] = true;
	m->place[v] = m->place[node->inputs[at].node];
	for (uint32_t i = at; i < node->inputs_count; i++) {
		const uint32_t input = node->inputs[i].node;

		if (m->place[input] == m->place[v] && graph_reads(node, i) &&
		    (i == at || cutter->level[input] > cutter->level[v]))
			cutter->level[v] = cutter->level[input];
	}
}

static uint64_t part_key(const struct moving *m, uint32_t v)
{
	return ((uint64_t)m->cutter->level[v] << 32 | (uint32_t)m->place[v]) + 1;
}

/* What must come back for a value: itself, or what is computed from it there, and the inputs that only v uses. */
static uint64_t fewest_of(const struct moving *m, uint32_t v)
{
	const struct cutter *cutter = m->cutter;
	const struct graph_node *node = cutter->graph->nodes[v];
	uint64_t bytes = cutter->numbered[v] ? offload_cut_numbers_bytes(cutter, cutter->numbered[v] - 1) : 0;

	for (uint32_t o = 0; o < node->outputs_count; o++) {
		const uint32_t value = cutter->value_first[v] + o;
		const uint64_t whole = offload_cut_bytes(cutter, (struct graph_value){ v, o }) *
				       (cutter->pools[v] ? cut_pieces(&cutter->options, m->place[v]) : 1);

		if (m->away[value])
			bytes += whole;
		else if (m->wanted[value])
			bytes += m->fewest[value] < whole ? m->fewest[value] : whole;
	}
	for (uint32_t i = 0; i < node->inputs_count; i++)
		if (m->place[node->inputs[i].node] == GRAPH_PLACE_WORKER && graph_reads(node, i) &&
		    !cut_copied_to(cutter, node->inputs[i].node, m->place[v]) &&
		    m->fed[cutter->value_first[node->inputs[i].node] + node->inputs[i].output] != part_key(m, v))
			bytes += offload_cut_bytes(cutter, node->inputs[i]);
	return bytes;
}

/* Tells a node's inputs what it needs of them; all users of v were processed before. */
static void weigh(struct moving *m, uint32_t v)
{
	const struct cutter *cutter = m->cutter;
	const struct graph_node *node = cutter->graph->nodes[v];
	uint32_t rows = 0;
	uint64_t bytes = 0;

	if (m->movable[v]) {
		for (uint32_t i = 0; i < node->inputs_count; i++)
			rows += m->place[node->inputs[i].node] == m->place[v] && graph_reads(node, i);
		bytes = fewest_of(m, v) / rows;
	}
	for (uint32_t i = 0; i < node->inputs_count; i++) {
		const uint32_t input = node->inputs[i].node;
		const uint32_t value = cutter->value_first[input] + node->inputs[i].output;

		if (m->place[input] == GRAPH_PLACE_WORKER || !graph_reads(node, i))
			continue;
		if (m->movable[v] && m->place[input] == m->place[v]) {
			m->wanted[value] = true;
			m->fewest[value] += bytes;
		} else if (cutter->place[v] != m->place[input]) {
			m->away[value] = true;
		}
	}
}

/* Whether the users of a value move with it: all of them, if that is less. */
static bool users_follow(const struct moving *m, struct graph_value value)
{
	const uint32_t v = m->cutter->value_first[value.node] + value.output;

	return m->wanted[v] && !m->away[v] && m->fewest[v] < offload_cut_bytes(m->cutter, value);
}

static bool decide(struct moving *m)
{
	struct cutter *cutter = m->cutter;
	const struct graph *graph = cutter->graph;

	for (uint32_t v = 0; v < graph->nodes_count; v++) {
		const struct graph_node *node = graph->nodes[v];
		bool follows = m->movable[v];

		for (uint32_t i = 0; i < node->inputs_count && follows; i++) {
			const uint32_t input = node->inputs[i].node;

			if (m->place[input] == m->place[v] && graph_reads(node, i))
				follows = cutter->place[input] == m->place[v] && users_follow(m, node->inputs[i]);
		}
		if (!follows)
			continue;
		cutter->place[v] = m->place[v];
		cutter->moved[cutter->moved_count++] = v;
	}
	return cutter->moved_count > 0;
}

/* Records what is sent where at present; nothing is needed yet. */
static void begin_moving(struct moving *m)
{
	struct cutter *cutter = m->cutter;
	const struct graph *graph = cutter->graph;
	const uint32_t values = cutter->value_first[graph->nodes_count];

	memset(m->fewest, 0, values * sizeof(*m->fewest));
	memset(m->wanted, 0, values * sizeof(*m->wanted));
	memset(m->away, 0, values * sizeof(*m->away));
	for (uint32_t i = 0; i < graph->results_count; i++)
		m->away[cutter->value_first[graph->results[i].node] + graph->results[i].output] = true;
	for (uint32_t v = 0; v < graph->nodes_count; v++) {
		const struct graph_node *node = graph->nodes[v];

		if (cutter->place[v] == GRAPH_PLACE_WORKER)
			continue;
		for (uint32_t i = 0; i < node->inputs_count; i++)
			m->fed[cutter->value_first[node->inputs[i].node] + node->inputs[i].output] = part_key(m, v);
	}
	for (uint32_t i = 0; i < cutter->moved_count; i++)
		cutter->place[cutter->moved[i]] = GRAPH_PLACE_WORKER;
	cutter->moved_count = 0;
}

bool offload_cut_move(struct cutter *cutter)
{
	const struct graph *graph = cutter->graph;
	const uint32_t n = graph->nodes_count, values = cutter->value_first[n];
	struct moving m = {
		.cutter = cutter,
		.place = offload_cut_memory(&cutter->pool, n + 1, sizeof(*m.place)),
		.rows = offload_cut_memory(&cutter->pool, n + 1, sizeof(*m.rows)),
		.lead = offload_cut_memory(&cutter->pool, n + 1, sizeof(*m.lead)),
		.fewest = offload_cut_memory(&cutter->pool, values + 1, sizeof(*m.fewest)),
		.movable = offload_cut_memory(&cutter->pool, n + 1, sizeof(*m.movable)),
		.wanted = offload_cut_memory(&cutter->pool, values + 1, sizeof(*m.wanted)),
		.away = offload_cut_memory(&cutter->pool, values + 1, sizeof(*m.away)),
		.fed = offload_cut_memory(&cutter->pool, values + 1, sizeof(*m.fed)),
	};

	if (cutter->pool.failed)
		return false;
	offload_cut_waves(cutter); /* the order in which values become available */
	for (uint32_t v = 0; v < n; v++)
		look_at_movable(&m, v);
	for (unsigned turn = 0; turn < 2; turn++) {
		begin_moving(&m);
		for (uint32_t v = n; v-- > 0;)
			weigh(&m, v);
		if (!decide(&m))
			break;
	}
	offload_cut_move_back(cutter);
	for (uint32_t v = 0; v < n; v++)
		if (cutter->place[v] == GRAPH_PLACE_WORKER || graph->nodes[v]->device.job == GRAPH_PS)
			cutter->numbered[v] = 0;
	return cutter->moved_count > 0;
}
