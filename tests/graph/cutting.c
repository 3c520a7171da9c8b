/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/graph/cutting.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "offload/cut.h"
#include "tests/unit.h"

/* ---- graphs in few words ---- */

static const int64_t matrix[] = { 4, 3 };
static const float ones[12] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };

struct graph_value put(struct graph *graph, enum graph_op op, const char *name, const char *device,
		       struct graph_value a, struct graph_value b, struct graph_value c)
{
	const struct graph_value inputs[] = { a, b, c };
	const struct graph_type type = { .dtype = STAR_FLOAT32, .shape = { 2, { 4, 3 } } };
	struct graph_attr attrs[2];
	struct graph_node_spec spec = { .op = op, .name = name, .device = device, .inputs = inputs, .attrs = attrs };

	while (spec.inputs_count < 3 && !graph_is_none(inputs[spec.inputs_count]))
		spec.inputs_count++;
	if (op == GRAPH_FEED || op == GRAPH_VARIABLE || op == GRAPH_TABLE)
		attrs[spec.attrs_count++] = GRAPH_ATTR_STRING("dtype", "float32");
	if (op == GRAPH_FEED || op == GRAPH_VARIABLE)
		attrs[spec.attrs_count++] = GRAPH_ATTR_INTS("shape", matrix, 2);
	if (op == GRAPH_TABLE)
		attrs[spec.attrs_count++] = GRAPH_ATTR_INT("dim", 3);
	if (op == GRAPH_CONST) {
		attrs[spec.attrs_count].name = "value";
		attrs[spec.attrs_count].kind = GRAPH_TENSOR;
		attrs[spec.attrs_count].type = type;
		attrs[spec.attrs_count++].data = ones;
	}
	return graph_add(graph, &spec);
}

struct graph_value put_feed(struct graph *graph, const char *name, const char *dtype, int64_t rows, int64_t columns)
{
	const int64_t sizes[] = { rows, columns };
	const struct graph_attr attrs[] = { GRAPH_ATTR_STRING("dtype", dtype),
					    GRAPH_ATTR_INTS("shape", sizes, columns ? 2 : 1) };

	return graph_add(graph,
			 &(struct graph_node_spec){ .op = GRAPH_FEED, .name = name, .attrs = attrs, .attrs_count = 2 });
}

struct graph_value put_sum(struct graph *graph, const char *name, struct graph_value x, int64_t axis)
{
	const struct graph_attr attrs[] = { GRAPH_ATTR_INTS("axes", &axis, 1) };

	return graph_add(graph, &(struct graph_node_spec){ .op = GRAPH_SUM,
							   .name = name,
							   .inputs = &x,
							   .inputs_count = 1,
							   .attrs = attrs,
							   .attrs_count = 1 });
}

/* ---- random graphs ---- */

enum { POOL = 256 };

struct maker {
	struct graph *graph;
	struct prng *random;
	unsigned tasks, depth;
	struct graph_value values[POOL]; /* of [4, 3] */
	unsigned values_count;
	struct graph_value variables[8], tables[4], ids[4], segments, like;
	unsigned variables_count, tables_count, ids_count;
};

static unsigned below(struct maker *m, unsigned bound)
{
	return prng_below(m->random, bound);
}

static struct graph_value any(struct maker *m)
{
	/* rather new ones: graphs are deep, not only wide */
	const unsigned last = m->values_count < 6 || below(m, 3) == 0 ? m->values_count : 6;

	return m->values[m->values_count - 1 - below(m, last)];
}

static void remember(struct maker *m, struct graph_value value)
{
	if (m->values_count < POOL)
		m->values[m->values_count++] = value;
}

static const char *device_text(struct maker *m, char text[static GRAPH_DEVICE_TEXT])
{
	const int task = (int)below(m, m->tasks + 1) - 1;

	return graph_device_text((struct graph_device){ GRAPH_PS, task }, text);
}

static void put_elementwise(struct maker *m)
{
	static const enum graph_op ops[] = { GRAPH_NEG, GRAPH_RELU, GRAPH_IDENTITY, GRAPH_ADD, GRAPH_MUL };
	const enum graph_op op = ops[below(m, 5)];
	char text[GRAPH_DEVICE_TEXT];
	const char *device = below(m, 3) ? NULL : below(m, 4) ? device_text(m, text) : "/job:worker";

	remember(m, put(m->graph, op, NULL, device, any(m), graph_op_info(op)->inputs_min == 2 ? any(m) : GRAPH_NONE,
			GRAPH_NONE));
}

static void put_flow(struct maker *m)
{
	const struct graph_type types[] = { { .dtype = STAR_FLOAT32, .shape = { 2, { 4, 3 } } },
					    { .dtype = STAR_FLOAT32, .shape = { 2, { 4, 3 } } } };
	const struct graph_attr attrs[] = { GRAPH_ATTR_INT("carried", 1), GRAPH_ATTR_INT("most", 5) };
	const struct graph_value inputs[] = { any(m), any(m) };
	struct graph_node_spec spec = { .op = GRAPH_WHILE,
					.inputs = inputs,
					.inputs_count = 2,
					.attrs = attrs,
					.attrs_count = 2,
					.body = graph_body_create(m->graph, types, 2),
					.cond = graph_body_create(m->graph, types, 2) };

	for (unsigned i = 0; i < 2; i++) {
		struct maker inner = { .graph = i ? spec.cond : spec.body,
				       .random = m->random,
				       .tasks = m->tasks,
				       .depth = m->depth + 1 };
		struct graph_value result;

		remember(&inner, (struct graph_value){ 0, 0 });
		remember(&inner, (struct graph_value){ 1, 0 });
		for (unsigned k = 2 + below(m, 5); k > 0; k--) {
			if (below(m, 3) == 0) {
				/* a variable of the outer graph, or one that only loops have */
				char name[16];
				struct graph_value variable;

				snprintf(name, sizeof(name), "v%u", below(m, 6));
				if (graph_find(inner.graph, name))
					continue;
				variable = PUT0(inner.graph, GRAPH_VARIABLE, name,
						below(m, 2) ? "/job:ps" : "/job:ps/task:0");
				remember(&inner, PUT1(inner.graph, GRAPH_READ, NULL, NULL, variable));
				if (below(m, 2))
					PUT2(inner.graph, GRAPH_APPLY, NULL, NULL, variable, any(&inner));
			} else {
				put_elementwise(&inner);
			}
		}
		if (inner.depth < 2 && below(m, 4) == 0)
			put_flow(&inner);
		result = inner.values[inner.values_count - 1];
		if (i) { /* an int32 scalar */
			result = put_sum(inner.graph, NULL, put_sum(inner.graph, NULL, result, 0), 0);
			result = PUT2(inner.graph, GRAPH_LESS, NULL, NULL, result, result);
		}
		graph_set_results(inner.graph, &result, 1);
	}
	remember(m, graph_add(m->graph, &spec));
}

static void put_stateful(struct maker *m)
{
	const struct graph_value variable = m->variables[below(m, m->variables_count)];
	const struct graph_value table = m->tables[below(m, m->tables_count)], ids = m->ids[below(m, m->ids_count)];

	switch (below(m, 7)) {
	case 0:
	case 1:
		remember(m, PUT1(m->graph, GRAPH_READ, NULL, NULL, variable));
		break;
	case 2:
	case 3:
		remember(m, PUT2(m->graph, GRAPH_LOOKUP, NULL, NULL, table, ids));
		break;
	case 4:
		PUT2(m->graph, below(m, 3) ? GRAPH_APPLY : GRAPH_ASSIGN, NULL, NULL, variable, any(m));
		break;
	default:
		put(m->graph, GRAPH_APPLY_ROWS, NULL, NULL, table, ids, any(m));
		break;
	}
}

static void put_some(struct maker *m)
{
	const unsigned kind = below(m, 40);

	if (kind < 10)
		put_stateful(m);
	else if (kind < 12)
		remember(m, PUT0(m->graph, GRAPH_CONST, NULL, NULL));
	else if (kind < 14)
		put_sum(m->graph, NULL, any(m), 1);
	else if (kind < 16)
		put(m->graph, GRAPH_SEGMENT_SUM, NULL, NULL, any(m), m->segments, m->like);
	else if (kind < 17)
		put_flow(m);
	else
		put_elementwise(m);
}

struct graph *random_placed_graph(struct prng *random, unsigned nodes, unsigned tasks)
{
	struct maker m = { .graph = graph_create(), .random = random, .tasks = tasks };
	struct graph_value results[4];
	unsigned results_count = 0;

	remember(&m, PUT0(m.graph, GRAPH_FEED, "x", NULL));
	m.ids[m.ids_count++] = put_feed(m.graph, "ids", "int64", 4, 0);
	m.segments = put_feed(m.graph, "segments", "int32", 4, 0);
	m.like = put_feed(m.graph, "like", "float32", 2, 0);
	for (unsigned i = 0; i < 1 + below(&m, 4); i++) {
		char name[16], text[GRAPH_DEVICE_TEXT];

		snprintf(name, sizeof(name), "v%u", i);
		m.variables[m.variables_count++] = PUT0(m.graph, GRAPH_VARIABLE, name, device_text(&m, text));
	}
	for (unsigned i = 0; i < 1 + below(&m, 3); i++) {
		char text[GRAPH_DEVICE_TEXT];

		m.tables[m.tables_count++] = PUT0(m.graph, GRAPH_TABLE, NULL, device_text(&m, text));
	}
	while (m.graph->nodes_count < nodes && !m.graph->err.code) {
		const uint32_t before = m.graph->nodes_count;

		put_some(&m);
		if (below(&m, 5) == 0 && before < m.graph->nodes_count)
			graph_add_control(m.graph, below(&m, before), m.graph->nodes_count - 1);
	}
	while (results_count < 3 && below(&m, 3)) {
		const uint32_t node = below(&m, m.graph->nodes_count);
		const struct graph_type *type = graph_type(m.graph, (struct graph_value){ node, 0 });

		if (type && type->dtype)
			results[results_count++] = (struct graph_value){ node, 0 };
	}
	graph_set_results(m.graph, results, results_count);
	return m.graph;
}

void print_graph(const struct graph *graph)
{
	char text[GRAPH_DEVICE_TEXT];

	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		printf("#   %u %s %s @%s (", i, node->name, graph_op_name(node->op),
		       graph_device_text(node->device, text));
		for (uint32_t k = 0; k < node->inputs_count; k++)
			printf(" %u:%u", node->inputs[k].node, node->inputs[k].output);
		printf(" )");
		for (uint32_t k = 0; k < node->controls_count; k++)
			printf(" ^%u", node->controls[k]);
		printf("\n");
	}
}

struct graph_cut *cut_by(const struct graph *graph, enum graph_protocol protocol, bool fuse)
{
	const struct graph_cut_options options = { .protocol = protocol, .fuse = fuse };
	struct star_error err = { 0 };
	struct graph_cut *cut = graph_cut_create(graph, &options, &err);

	if (!cut)
		unit_fail(__FILE__, __LINE__, "not cut: %s", err.text);
	return cut;
}
