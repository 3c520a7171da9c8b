/* SPDX-License-Identifier: BSD-3-Clause */
/* Backpropagation: walks a graph backwards. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backward.h"
#include "internal.h"
#include "origin.h"

/* ---- a walk ---- */

bool graph_backward_init(struct backward *b, struct graph *graph, const struct graph *from, bool with_map,
			 const struct backward_asked *asked)
{
	uint32_t values = 0;

	*b = (struct backward){ .graph = graph, .from = from, .nodes_count = from->nodes_count, .asked = asked };
	b->first = calloc(from->nodes_count + 1, sizeof(*b->first));
	b->wanted = calloc(from->nodes_count + 1, sizeof(*b->wanted));
	for (uint32_t i = 0; b->first && i < from->nodes_count; i++) {
		b->first[i] = values;
		values += from->nodes[i]->outputs_count;
	}
	b->terms = calloc(values + 1, sizeof(*b->terms));
	b->used = calloc(values + 1, sizeof(*b->used));
	b->map = with_map ? malloc((values + 1) * sizeof(*b->map)) : NULL;
	if (!b->first || !b->wanted || !b->terms || !b->used || (with_map && !b->map)) {
		graph_fail(graph, NULL, "out of memory");
		graph_backward_fini(b);
		return false;
	}
	for (uint32_t i = 0; with_map && i < values; i++)
		b->map[i] = GRAPH_NONE;
	return true;
}

void graph_backward_fini(struct backward *b)
{
	free(b->first);
	free(b->wanted);
	free(b->terms);
	free(b->used);
	free(b->map);
}

bool graph_backward_asks(const struct backward_asked *asked, const char *name)
{
	for (uint32_t i = 0; i < asked->count; i++)
		if (strcmp(asked->names[i], name) == 0)
			return true;
	return false;
}

bool graph_backward_touches(const struct graph *body, const struct backward_asked *asked)
{
	for (uint32_t i = 0; i < body->nodes_count; i++) {
		const struct graph_node *node = body->nodes[i];

		if (node->body &&
		    (graph_backward_touches(node->body, asked) || graph_backward_touches(node->cond, asked)))
			return true;
		if (node->op == GRAPH_VARIABLE || node->op == GRAPH_TABLE
			    ? !asked || graph_backward_asks(asked, node->name)
			    : !asked && graph_op_info(node->op)->place == GRAPH_ON_PS)
			return true;
	}
	return false;
}

bool graph_backward_is_float(const struct graph_type *type)
{
	return type && (type->dtype == STAR_FLOAT32 || type->dtype == STAR_FLOAT64);
}

void graph_backward_mark(struct backward *b)
{
	for (uint32_t n = 0; n < b->nodes_count; n++) {
		const struct graph_node *node = b->from->nodes[n];

		if (node->op == GRAPH_READ || node->op == GRAPH_LOOKUP) {
			const struct graph_node *resource = graph_resource(b->from, node->inputs[0]);

			b->wanted[n] |=
				graph_backward_is_float(node->outputs) && graph_backward_asks(b->asked, resource->name);
			continue;
		}
		for (uint32_t i = 0; i < node->inputs_count && graph_backward_passes(node->op); i++)
			b->wanted[n] |= graph_backward_wants(b, node->inputs[i]);
		if (node->body)
			b->wanted[n] |= graph_backward_touches(node->body, b->asked) ||
					graph_backward_touches(node->cond, b->asked);
	}
}

/* Places the nodes that a rule has added where the original node is, if that is on a PS task. */
static void place_like(struct graph *graph, uint32_t first, const struct graph_node *node)
{
	for (uint32_t n = first; n < graph->nodes_count && node->device.job != GRAPH_UNPLACED; n++) {
		struct graph_node *added = graph->nodes[n];

		if (added->device.job == GRAPH_UNPLACED &&
		    (node->device.job == GRAPH_WORKER || graph_op_info(added->op)->place == GRAPH_ANYWHERE))
			added->device = node->device;
	}
}

/* Names the node that the author wrote, as the origin of the nodes that a rule has added. */
static void set_origins(struct graph *graph, uint32_t first, const struct graph_node *node)
{
	const char *origin = graph_origin(node);

	for (uint32_t n = first; n < graph->nodes_count; n++)
		graph_set_origin(graph->nodes[n], origin ? origin : node->name);
}

void graph_backward_walk(struct backward *b)
{
	for (uint32_t n = b->nodes_count; n-- > 0 && !b->graph->err.code;) {
		const struct graph_node *node = b->from->nodes[n];
		const uint32_t outputs = node->outputs_count, before = b->graph->nodes_count;
		backward_rule *rule = graph_backward_rule_of(node->op);
		struct graph_value g[GRAPH_OUTPUTS_MAX];
		bool some = false;

		if (!b->wanted[n] || node->op == GRAPH_FEED)
			continue;
		for (uint32_t i = 0; i < outputs; i++) {
			g[i] = graph_backward_sum(b, (struct graph_value){ n, i });
			some |= !graph_is_none(g[i]);
		}
		if (!some)
			continue;
		if (!rule) {
			graph_fail(b->graph, node->name, "%s has no gradient", graph_op_name(node->op));
			return;
		}
		rule(b, node, g);
		set_origins(b->graph, before, node);
		if (node->op != GRAPH_READ && node->op != GRAPH_LOOKUP && !node->body)
			place_like(b->graph, before, node);
	}
}

/* ---- values ---- */

void graph_backward_set(struct backward *b, struct graph_value value, struct graph_value is)
{
	b->map[backward_number(b, value)] = is;
}

/* Recomputes a node of `from`, and all that it needs, in graph: from the first to the last node, so that inputs come
 * first. */
static void compute_again(struct backward *b, uint32_t wanted)
{
	bool *needed = calloc(wanted + 1, sizeof(*needed));

	if (!needed) {
		graph_fail(b->graph, NULL, "out of memory");
		return;
	}
	needed[wanted] = true;
	for (uint32_t n = wanted + 1; n-- > 0;)
		for (uint32_t i = 0; needed[n] && i < b->from->nodes[n]->inputs_count; i++) {
			const struct graph_value input = b->from->nodes[n]->inputs[i];

			if (graph_is_none(b->map[backward_number(b, input)]))
				needed[input.node] = true;
			else
				b->used[backward_number(b, input)] = true;
		}
	for (uint32_t n = 0; n <= wanted && !b->graph->err.code; n++) {
		const struct graph_node *node = b->from->nodes[n];
		struct graph_value inputs[GRAPH_INPUTS_MAX], copy;

		if (!needed[n])
			continue;
		for (uint32_t i = 0; i < node->inputs_count; i++)
			inputs[i] = b->map[backward_number(b, node->inputs[i])];
		copy = graph_copy_node(b->graph, node, inputs);
		for (uint32_t i = 0; i < node->outputs_count && !graph_is_none(copy); i++)
			graph_backward_set(b, (struct graph_value){ n, i }, graph_output(copy, i));
	}
	free(needed);
}

struct graph_value graph_backward_value(struct backward *b, struct graph_value value)
{
	const uint32_t number = backward_number(b, value);

	if (!b->map)
		return value;
	if (graph_is_none(b->map[number]))
		compute_again(b, value.node);
	else
		b->used[number] = true;
	return b->map[number];
}

static void add_term(struct graph *graph, struct backward_term **terms, struct graph_value value)
{
	struct backward_term *term = graph_memory(graph, sizeof(*term));

	if (!term)
		return;
	*term = (struct backward_term){ .next = *terms, .value = value };
	*terms = term;
}

void graph_backward_add(struct backward *b, struct graph_value value, struct graph_value term)
{
	if (!graph_is_none(term))
		add_term(b->graph, &b->terms[backward_number(b, value)], term);
}

struct graph_value graph_backward_sum_terms(struct graph *graph, struct backward_term **terms)
{
	while (*terms && (*terms)->next) {
		struct graph_value values[GRAPH_INPUTS_MAX];
		uint32_t count = 0;

		for (; *terms && count < GRAPH_INPUTS_MAX; *terms = (*terms)->next)
			values[count++] = (*terms)->value;
		add_term(graph, terms, graph_add_n(graph, values, count));
		if (graph->err.code)
			return GRAPH_NONE;
	}
	return *terms ? (*terms)->value : GRAPH_NONE;
}

struct graph_value graph_backward_sum(struct backward *b, struct graph_value value)
{
	return graph_backward_sum_terms(b->graph, &b->terms[backward_number(b, value)]);
}

bool graph_backward_wants(const struct backward *b, struct graph_value value)
{
	return b->wanted[value.node] && graph_backward_is_float(graph_type(b->from, value));
}

void graph_backward_give(struct backward *b, const struct graph_node *node, uint32_t input, struct graph_value gradient)
{
	if (graph_backward_wants(b, node->inputs[input]))
		graph_backward_add(b, node->inputs[input], gradient);
}

/* ---- variables and tables ---- */

struct backward_object *graph_backward_object(struct backward *b, const struct graph_node *resource)
{
	struct backward_object *object = b->objects;

	while (object && strcmp(object->name, resource->name) != 0)
		object = object->next;
	if (object)
		return object;
	object = graph_memory(b->graph, sizeof(*object));
	if (!object)
		return NULL;
	*object = (struct backward_object){ .next = b->objects,
					    .name = resource->name,
					    .shape = resource->outputs[0].shape,
					    .element = resource->outputs[0].element };
	b->objects = object;
	return object;
}

void graph_backward_add_dense(struct backward *b, struct backward_object *object, struct graph_value term)
{
	if (object && !graph_is_none(term))
		add_term(b->graph, &object->dense, term);
}

void graph_backward_add_pair(struct backward *b, struct backward_object *object, struct graph_value ids,
			     struct graph_value rows)
{
	struct backward_pair *pair = object ? graph_memory(b->graph, sizeof(*pair)) : NULL;

	if (!pair || graph_is_none(rows))
		return;
	*pair = (struct backward_pair){ .next = object->pairs, .ids = ids, .rows = rows };
	object->pairs = pair;
}

/* ---- zeros ---- */

struct graph_value graph_backward_zeros_like(struct graph *graph, struct graph_value value)
{
	const struct graph_type *type = graph_type(graph, value);

	return type ? graph_expand(graph, graph_number(graph, type->dtype, 0), value) : GRAPH_NONE;
}

struct graph_value graph_backward_zeros(struct graph *graph, unsigned dtype, const struct graph_shape *shape)
{
	static const uint8_t none[sizeof(int64_t)];
	const int64_t before[GRAPH_DIMS_MAX] = { 0 };
	int64_t one[GRAPH_DIMS_MAX], after[GRAPH_DIMS_MAX];
	bool empty = false;
	const struct graph_attr attrs[] = { GRAPH_ATTR_INTS("before", before, shape->ndim),
					    GRAPH_ATTR_INTS("after", after, shape->ndim) };
	struct graph_value zero;

	for (unsigned i = 0; i < shape->ndim; i++) {
		one[i] = shape->dims[i] < 0 ? 0 : shape->dims[i];
		empty |= one[i] == 0;
	}
	if (empty)
		return graph_constant(graph, dtype, one, shape->ndim, none);
	for (unsigned i = 0; i < shape->ndim; i++) {
		after[i] = one[i] - 1;
		one[i] = 1;
	}
	zero = graph_constant(graph, dtype, one, shape->ndim, none);
	return shape->ndim ? graph_node_add(graph, GRAPH_PAD, NULL, &zero, 1, attrs, 2) : zero;
}

/* ---- the whole ---- */

static int fill_gradient(struct backward *b, struct graph *graph, struct graph_value of,
			 struct graph_gradient *gradient)
{
	const struct graph_node *resource = graph_type(graph, of)->dtype == 0 ? graph_resource(graph, of) : NULL;
	struct backward_object *object = b->objects;
	uint32_t count = 0;

	*gradient = (struct graph_gradient){ .dense = GRAPH_NONE };
	if (!resource) {
		gradient->dense = graph_backward_sum(b, of);
		return graph->err.code;
	}
	while (object && strcmp(object->name, resource->name) != 0)
		object = object->next;
	if (!object)
		return 0;
	gradient->dense = graph_backward_sum_terms(graph, &object->dense);
	for (const struct backward_pair *pair = object->pairs; pair; pair = pair->next)
		count++;
	gradient->pairs = graph_memory(graph, count * sizeof(*gradient->pairs));
	if (!gradient->pairs)
		return graph->err.code;
	for (const struct backward_pair *pair = object->pairs; pair; pair = pair->next)
		gradient->pairs[gradient->pairs_count++] = (struct graph_pair){ pair->ids, pair->rows };
	return graph->err.code;
}

/* Records what gradients are requested for; the caller frees its names. */
static bool note_asked(struct graph *graph, const struct graph_value *of, uint32_t count, struct backward_asked *asked)
{
	asked->names = calloc(count + 1, sizeof(*asked->names));
	for (uint32_t i = 0; asked->names && i < count; i++) {
		const struct graph_type *type = graph_type(graph, of[i]);

		if (type && type->dtype == 0) {
			asked->names[asked->count++] = graph_resource(graph, of[i])->name;
		} else if (!graph_backward_is_float(type)) {
			graph_fail(graph, NULL,
				   "gradients exist only for floats, variables and tables, and number %u is not one of "
				   "these",
				   i);
			return false;
		}
	}
	if (!asked->names)
		graph_fail(graph, NULL, "out of memory");
	return asked->names;
}

int graph_gradients(struct graph *graph, struct graph_value loss, const struct graph_value *of, uint32_t count,
		    struct graph_gradient *gradients)
{
	const struct graph_type *type = graph_type(graph, loss);
	struct backward_asked asked = { 0 };
	struct backward b;

	for (uint32_t i = 0; i < count; i++)
		gradients[i] = (struct graph_gradient){ .dense = GRAPH_NONE };
	if (graph->err.code)
		return graph->err.code;
	if (!graph_backward_is_float(type) || type->shape.ndim != 0) {
		graph_fail(graph, type ? graph->nodes[loss.node]->name : NULL, "a loss must be a float scalar");
		return graph->err.code;
	}
	if (note_asked(graph, of, count, &asked) && graph_backward_init(&b, graph, graph, false, &asked)) {
		for (uint32_t i = 0; i < count; i++)
			if (graph_type(graph, of[i])->dtype)
				b.wanted[of[i].node] = true;
		graph_backward_mark(&b);
		if (b.wanted[loss.node])
			graph_backward_add(&b, loss, graph_number(graph, type->dtype, 1));
		graph_backward_walk(&b);
		for (uint32_t i = 0; i < count && !graph->err.code; i++)
			fill_gradient(&b, graph, of[i], &gradients[i]);
		graph_backward_fini(&b);
	}
	free(asked.names);
	return graph->err.code;
}
