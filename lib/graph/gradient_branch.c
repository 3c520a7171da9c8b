/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gradients of branches: a branch on the same condition. What the branches read from PS tasks becomes an output, so
 * that it is not read again. A branch that was not taken gives zeros, and no rows.
 */
#include <stdlib.h>
#include <string.h>

#include "backward.h"
#include "internal.h"

/* What a branch reads from PS tasks. */
struct reads {
	struct graph_value values[GRAPH_OUTPUTS_MAX];
	uint32_t count;
};

struct branching {
	struct backward *b;
	const struct graph_node *node; /* in b->from */
	struct graph_node *branch;     /* in b->graph */
	const struct graph_value *g;
	uint32_t captures, outputs;
	struct reads reads[2]; /* for body and for cond */
	struct graph_value outside[GRAPH_INPUTS_MAX];
	uint32_t outside_count;
	struct graph_value results[2][GRAPH_OUTPUTS_MAX];
	uint32_t results_count;
};

static struct graph *side(const struct graph_node *node, unsigned i)
{
	return i ? node->cond : node->body;
}

static void find_reads(const struct graph *body, struct reads *reads)
{
	for (uint32_t n = 0; n < body->nodes_count; n++)
		for (uint32_t i = 0; i < body->nodes[n]->outputs_count; i++)
			if (graph_op_info(body->nodes[n]->op)->place == GRAPH_ON_PS &&
			    body->nodes[n]->outputs[i].dtype && reads->count < GRAPH_OUTPUTS_MAX)
				reads->values[reads->count++] = (struct graph_value){ n, i };
}

/* Adds to both branches the outputs that either reads: the branch that reads them gives the values, the other one
 * zeros. */
static bool extend_branch(struct branching *u)
{
	struct graph *graph = u->b->graph;

	for (unsigned s = 0; s < 2; s++)
		find_reads(side(u->branch, s), &u->reads[s]);
	if (u->outputs + u->reads[0].count + u->reads[1].count > GRAPH_OUTPUTS_MAX) {
		graph_fail(graph, u->node->name, "its gradient would have more than %d outputs", GRAPH_OUTPUTS_MAX);
		return false;
	}
	for (unsigned s = 0; s < 2; s++) {
		struct graph *body = side(u->branch, s);
		struct graph_value results[GRAPH_OUTPUTS_MAX];
		uint32_t count = body->results_count;

		if (count)
			memcpy(results, body->results, count * sizeof(*results));
		for (unsigned of = 0; of < 2; of++)
			for (uint32_t i = 0; i < u->reads[of].count; i++) {
				const struct graph_type *type = graph_type(side(u->branch, of), u->reads[of].values[i]);

				results[count++] = of == s ? u->reads[of].values[i]
							   : graph_backward_zeros(body, type->dtype, &type->shape);
			}
		graph_set_results(body, results, count);
	}
	return graph_renew_outputs(graph, u->branch) == 0;
}

/* The condition, captures, existing gradients, and what was read. */
static bool add_feeds(struct branching *u)
{
	const uint32_t reads = u->reads[0].count + u->reads[1].count;
	uint32_t count = 0;

	for (uint32_t i = 0; i <= u->captures; i++)
		u->outside[count++] = backward_in(u->b, u->node, i);
	for (uint32_t i = 0; i < u->outputs && count < GRAPH_INPUTS_MAX; i++)
		if (!graph_is_none(u->g[i]))
			u->outside[count++] = u->g[i];
	if (count + reads > GRAPH_INPUTS_MAX) {
		graph_fail(u->b->graph, u->node->name, "its gradient would take more than %d values", GRAPH_INPUTS_MAX);
		return false;
	}
	for (uint32_t i = 0; i < reads; i++)
		u->outside[count++] = (struct graph_value){ u->branch->id, u->outputs + i };
	u->outside_count = count;
	return !u->b->graph->err.code;
}

/* Walks through one branch. */
static void walk_branch(struct branching *u, unsigned s, struct backward *inner)
{
	const struct graph *from = side(u->node, s);
	uint32_t next = u->captures, read = u->outside_count - 1 - u->reads[0].count - u->reads[1].count;

	for (uint32_t i = 0; i < u->captures; i++) {
		inner->map[inner->first[i]] = (struct graph_value){ i, 0 };
		inner->wanted[i] = graph_backward_wants(u->b, u->node->inputs[i + 1]);
	}
	for (uint32_t i = 0; i < u->outputs; i++)
		if (!graph_is_none(u->g[i]))
			graph_backward_add(inner, from->results[i], (struct graph_value){ next++, 0 });
	read += s ? u->reads[0].count : 0;
	for (uint32_t i = 0; i < u->reads[s].count; i++)
		graph_backward_set(inner, u->reads[s].values[i], (struct graph_value){ read + i, 0 });
	graph_backward_mark(inner);
	graph_backward_walk(inner);
}

static void add_results(struct branching *u, struct graph_value yes, struct graph_value no)
{
	if (u->results_count == GRAPH_OUTPUTS_MAX) {
		graph_fail(u->b->graph, u->node->name, "its gradient would have more than %d outputs",
			   GRAPH_OUTPUTS_MAX);
		return;
	}
	u->results[0][u->results_count] = yes;
	u->results[1][u->results_count++] = no;
}

/* Gradients of captures: zeros for the branch that has none. */
static void captures_results(struct branching *u, struct backward *inner, bool *has)
{
	for (uint32_t i = 0; i < u->captures; i++) {
		const struct graph_value feed = { i, 0 };
		struct graph_value sums[2];

		has[i] = inner[0].wanted[i] && (inner[0].terms[inner[0].first[i]] || inner[1].terms[inner[1].first[i]]);
		if (!has[i])
			continue;
		for (unsigned s = 0; s < 2; s++) {
			sums[s] = graph_backward_sum(&inner[s], feed);
			if (graph_is_none(sums[s]))
				sums[s] = graph_backward_zeros_like(inner[s].graph, feed);
		}
		add_results(u, sums[0], sums[1]);
	}
}

static struct backward_object *find_backward_object(struct backward_object *objects, const char *name)
{
	while (objects && strcmp(objects->name, name) != 0)
		objects = objects->next;
	return objects;
}

static struct graph_value dense_or_zeros(struct backward *inner, const struct backward_object *like)
{
	struct backward_object *mine = find_backward_object(inner->objects, like->name);

	return mine && mine->dense ? graph_backward_sum_terms(inner->graph, &mine->dense)
				   : graph_backward_zeros(inner->graph, like->element, &like->shape);
}

/*
 * [n..., tail...] -> [-1, tail...], with a first dimension that is unknown before a step: the other branch has no rows.
 */
static struct graph_value flat_rows(struct graph *graph, struct graph_value x, const struct graph_shape *row)
{
	int64_t dims[GRAPH_DIMS_MAX + 1] = { -1 };
	const struct graph_type *type;
	struct graph_value rows;

	for (unsigned i = 1; i < row->ndim; i++)
		dims[i] = row->dims[i];
	x = graph_reshape(graph, x, dims, row->ndim);
	type = graph_type(graph, x);
	if (type && type->shape.dims[0] >= 0) { /* a constant count would make the dimension known */
		rows = graph_identity(graph, graph_number(graph, STAR_INT64, (double)type->shape.dims[0]));
		x = graph_op2(graph, GRAPH_HEAD, x, rows);
	}
	return x;
}

static struct graph_value none(struct graph *graph, unsigned dtype, const struct graph_shape *row)
{
	struct graph_shape shape = *row;

	shape.dims[0] = 0;
	return graph_backward_zeros(graph, dtype, &shape);
}

static void pairs_results(struct branching *u, struct backward *inner, unsigned s)
{
	static const struct graph_shape id = { .ndim = 1, .dims = { 0 } };

	for (const struct backward_object *o = inner[s].objects; o; o = o->next)
		for (const struct backward_pair *pair = o->pairs; pair; pair = pair->next) {
			const struct graph_value ids = flat_rows(inner[s].graph, pair->ids, &id);
			const struct graph_value rows = flat_rows(inner[s].graph, pair->rows, &o->shape);
			const struct graph_value no_ids = none(inner[!s].graph, STAR_INT64, &id);
			const struct graph_value no_rows = none(inner[!s].graph, o->element, &o->shape);

			add_results(u, s ? no_ids : ids, s ? ids : no_ids);
			add_results(u, s ? no_rows : rows, s ? rows : no_rows);
		}
}

static struct backward_object *object_like(struct backward *b, const struct backward_object *o)
{
	struct graph_type type = { .shape = o->shape, .element = o->element };
	const struct graph_node resource = { .name = o->name, .outputs = &type };

	return graph_backward_object(b, &resource);
}

/* Whether the first branch has an object of that name with a dense gradient; then it includes the second one's. */
static bool is_first(const struct backward *inner, unsigned s, const struct backward_object *o)
{
	struct backward_object *other = s ? find_backward_object(inner[0].objects, o->name) : NULL;

	return o->dense && !(other && other->dense);
}

static void give_all(struct branching *u, struct backward *inner, const bool *has, struct graph_value branch)
{
	uint32_t next = 0;

	for (uint32_t i = 0; i < u->captures; i++)
		if (has[i])
			graph_backward_give(u->b, u->node, i + 1, graph_output(branch, next++));
	for (unsigned s = 0; s < 2; s++)
		for (const struct backward_object *o = inner[s].objects; o; o = o->next)
			if (is_first(inner, s, o))
				graph_backward_add_dense(u->b, object_like(u->b, o), graph_output(branch, next++));
	for (unsigned s = 0; s < 2; s++)
		for (const struct backward_object *o = inner[s].objects; o; o = o->next)
			for (const struct backward_pair *pair = o->pairs; pair; pair = pair->next, next += 2)
				graph_backward_add_pair(u->b, object_like(u->b, o), graph_output(branch, next),
							graph_output(branch, next + 1));
}

static void finish_branches(struct branching *u, struct backward *inner)
{
	struct graph *graph = u->b->graph;
	bool has[GRAPH_INPUTS_MAX];
	struct graph_value branch;

	for (unsigned s = 0; s < 2; s++)
		walk_branch(u, s, &inner[s]);
	captures_results(u, inner, has);
	for (unsigned s = 0; s < 2; s++)
		for (const struct backward_object *o = inner[s].objects; o; o = o->next)
			if (is_first(inner, s, o))
				add_results(u, dense_or_zeros(&inner[0], o), dense_or_zeros(&inner[1], o));
	for (unsigned s = 0; s < 2; s++)
		pairs_results(u, inner, s);
	if (u->results_count == 0 || graph->err.code)
		return;
	for (unsigned s = 0; s < 2; s++)
		graph_set_results(inner[s].graph, u->results[s], u->results_count);
	branch = graph_add(graph, &(struct graph_node_spec){ .op = GRAPH_COND,
							     .inputs = u->outside,
							     .inputs_count = u->outside_count,
							     .body = inner[0].graph,
							     .cond = inner[1].graph });
	if (!graph_is_none(branch))
		give_all(u, inner, has, branch);
}

void graph_gradient_cond(struct backward *b, const struct graph_node *node, const struct graph_value *g)
{
	const struct graph_value here = backward_out(b, node, 0);
	struct branching u = {
		.b = b, .node = node, .g = g, .captures = node->inputs_count - 1, .outputs = node->outputs_count
	};
	struct graph_type types[GRAPH_INPUTS_MAX];
	struct backward inner[2];
	struct graph *bodies[2];

	if (graph_is_none(here))
		return;
	if (b->map && (graph_backward_touches(node->body, NULL) || graph_backward_touches(node->cond, NULL))) {
		graph_fail(b->graph, node->name,
			   "no gradient: a branch within a loop uses variables or tables; read them outside, and pass "
			   "the values in");
		return;
	}
	u.branch = b->graph->nodes[here.node];
	if (!extend_branch(&u) || !add_feeds(&u))
		return;
	for (uint32_t i = 1; i < u.outside_count; i++)
		types[i - 1] = *graph_type(b->graph, u.outside[i]);
	for (unsigned s = 0; s < 2; s++)
		bodies[s] = graph_body_create(b->graph, types, u.outside_count - 1);
	if (!bodies[0] || !bodies[1] || !graph_backward_init(&inner[0], bodies[0], node->body, true, b->asked))
		return;
	if (graph_backward_init(&inner[1], bodies[1], node->cond, true, b->asked)) {
		finish_branches(&u, inner);
		graph_backward_fini(&inner[1]);
	}
	graph_backward_fini(&inner[0]);
}
