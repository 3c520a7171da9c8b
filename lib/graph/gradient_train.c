/* SPDX-License-Identifier: BSD-3-Clause */
/* Training: computes all gradients of a loss, clips them together, and applies them. */
#include <stdlib.h>
#include <string.h>

#include "backward.h"
#include "internal.h"

/* A trained object and its gradient: dense, or rows by ids. */
struct trained {
	struct graph_value *handles;
	struct graph_gradient *gradients;
	uint32_t count, room;
};

static bool trainable(const struct graph_node *node)
{
	const bool holds = node->op == GRAPH_VARIABLE || node->op == GRAPH_TABLE;
	const unsigned element = holds ? node->outputs[0].element : 0;

	return holds && graph_attr_int(node, "trainable", 1) && (element == STAR_FLOAT32 || element == STAR_FLOAT64);
}

/* Finds everything trainable, in the graph and in bodies, where the same name means the same object; adds handles to
 * the graph. */
static void find_trained(struct graph *graph, const struct graph *in, struct trained *t)
{
	const uint32_t count = in->nodes_count;

	for (uint32_t n = 0; n < count && !graph->err.code; n++) {
		const struct graph_node *node = in->nodes[n];
		const struct graph_node *here = graph_find(graph, node->name);

		if (node->body) {
			find_trained(graph, node->body, t);
			find_trained(graph, node->cond, t);
		}
		if (!trainable(node) || (in != graph && here && trainable(here)))
			continue;
		if (in != graph && here) {
			graph_fail(graph, node->name,
				   "this name is a variable or table in a body, but another node outside: rename one");
			return;
		}
		if (t->count == t->room) {
			void *more = realloc(t->handles, (2 * (size_t)t->room + 8) * sizeof(*t->handles));

			if (!more) {
				graph_fail(graph, NULL, "out of memory");
				return;
			}
			t->handles = more;
			t->room = 2 * t->room + 8;
		}
		t->handles[t->count++] =
			in == graph ? (struct graph_value){ n, 0 } : graph_copy_node(graph, node, NULL);
	}
}

/* [n..., tail...] -> [-1, tail...] */
static struct graph_value flat_gradient(struct graph *graph, struct graph_value x, const struct graph_shape *row,
					unsigned ndim)
{
	const struct graph_type *type = graph_type(graph, x);
	int64_t dims[GRAPH_DIMS_MAX] = { -1 };

	if (!type || type->shape.ndim == ndim)
		return x;
	for (unsigned i = 1; i < ndim; i++)
		dims[i] = row->dims[i];
	return graph_reshape(graph, x, dims, ndim);
}

/* Concatenates all pairs of ids and rows: rows with equal ids are summed when they are applied. */
static void join_gradient(struct graph *graph, const struct graph_shape *row, struct graph_gradient *gradient)
{
	struct graph_value ids[GRAPH_INPUTS_MAX], rows[GRAPH_INPUTS_MAX];

	while (gradient->pairs_count > 1) {
		uint32_t count = 0;

		while (gradient->pairs_count && count < GRAPH_INPUTS_MAX) {
			const struct graph_pair *pair = &gradient->pairs[--gradient->pairs_count];

			ids[count] = flat_gradient(graph, pair->ids, row, 1);
			rows[count++] = flat_gradient(graph, pair->rows, row, row->ndim);
		}
		gradient->pairs[gradient->pairs_count++] = (struct graph_pair){
			graph_concat(graph, ids, count, 0),
			graph_concat(graph, rows, count, 0),
		};
	}
}

/* If a variable is also read as a whole, its rows are added to the dense gradient. */
static void settle_gradient(struct graph *graph, struct graph_value handle, struct graph_gradient *gradient)
{
	const struct graph_shape row = graph_type(graph, handle)->shape;
	struct graph_value sum;

	join_gradient(graph, &row, gradient);
	if (!gradient->pairs_count || graph_is_none(gradient->dense))
		return;
	sum = graph_op3(graph, GRAPH_SCATTER_ADD, gradient->pairs[0].rows, gradient->pairs[0].ids, gradient->dense);
	gradient->dense = graph_plus(graph, gradient->dense, sum);
	gradient->pairs_count = 0;
}

static struct graph_value *value_of(struct graph_gradient *gradient)
{
	if (!graph_is_none(gradient->dense))
		return &gradient->dense;
	return gradient->pairs_count ? &gradient->pairs[0].rows : NULL;
}

/* The norm of all gradients together, in the type of the loss; rows with equal ids are not summed before. */
static struct graph_value norm_of(struct graph *graph, struct trained *t, unsigned dtype)
{
	struct backward_term *terms = NULL;

	for (uint32_t i = 0; i < t->count && !graph->err.code; i++) {
		struct graph_value *value = value_of(&t->gradients[i]);
		struct backward_term *term = value ? graph_memory(graph, sizeof(*term)) : NULL;

		if (!term)
			continue;
		term->value = graph_sum(graph, graph_square(graph, *value));
		if (!graph->err.code && graph_type(graph, term->value)->dtype != dtype)
			term->value = graph_cast(graph, term->value, dtype);
		term->next = terms;
		terms = term;
	}
	return terms ? graph_sqrt(graph, graph_backward_sum_terms(graph, &terms)) : GRAPH_NONE;
}

static void clip(struct graph *graph, struct trained *t, struct graph_value norm, unsigned dtype, double most)
{
	struct graph_value factor = graph_minimum(graph, graph_number(graph, dtype, 1),
						  graph_divide(graph, graph_number(graph, dtype, most), norm));

	for (uint32_t i = 0; i < t->count && !graph->err.code; i++) {
		struct graph_value *value = value_of(&t->gradients[i]), scale = factor;

		if (!value)
			continue;
		if (graph_type(graph, *value)->dtype != dtype)
			scale = graph_cast(graph, factor, graph_type(graph, *value)->dtype);
		*value = graph_times(graph, *value, scale);
	}
}

static void apply_gradient(struct graph *graph, struct graph_value handle, const struct graph_gradient *gradient)
{
	if (!graph_is_none(gradient->dense))
		graph_op2(graph, GRAPH_APPLY, handle, gradient->dense);
	else if (gradient->pairs_count)
		graph_op3(graph, GRAPH_APPLY_ROWS, handle, gradient->pairs[0].ids, gradient->pairs[0].rows);
}

int graph_train(struct graph *graph, struct graph_value loss, const struct graph_train_options *options,
		struct graph_value *norm)
{
	struct trained t = { 0 };
	struct graph_value all = GRAPH_NONE;
	bool some = false;

	find_trained(graph, graph, &t);
	t.gradients = calloc(t.count + 1, sizeof(*t.gradients));
	if (!t.gradients)
		graph_fail(graph, NULL, "out of memory");
	else
		graph_gradients(graph, loss, t.handles, t.count, t.gradients);
	for (uint32_t i = 0; i < t.count && !graph->err.code; i++) {
		settle_gradient(graph, t.handles[i], &t.gradients[i]);
		some |= value_of(&t.gradients[i]) != NULL;
	}
	if (!graph->err.code && !some)
		graph_fail(graph, graph->nodes[loss.node]->name,
			   "the loss does not depend on any trainable variable or table");
	if (!graph->err.code && options && options->clip_norm > 0) {
		const unsigned dtype = graph_type(graph, loss)->dtype;

		all = norm_of(graph, &t, dtype);
		clip(graph, &t, all, dtype, options->clip_norm);
	}
	for (uint32_t i = 0; i < t.count && !graph->err.code; i++)
		apply_gradient(graph, t.handles[i], &t.gradients[i]);
	if (norm)
		*norm = all;
	free(t.handles);
	free(t.gradients);
	return graph->err.code;
}
