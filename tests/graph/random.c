/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/graph/random.h"

#include <math.h>
#include <string.h>

#include "graph/build.h"

static const uint8_t dtypes[] = { STAR_FLOAT32, STAR_FLOAT64, STAR_INT32, STAR_INT64 };

static unsigned any_dtype(struct prng *p)
{
	return dtypes[prng_below(p, 4)];
}

/* Any that is not a handle; there is one. */
static struct graph_value any_value(struct prng *p, const struct graph *graph)
{
	while (!graph->err.code) {
		const struct graph_value value = { prng_below(p, graph->nodes_count), 0 };
		const struct graph_type *type = graph_type(graph, value);

		if (type && type->dtype)
			return (struct graph_value){ value.node,
						     prng_below(p, graph->nodes[value.node]->outputs_count) };
	}
	return GRAPH_NONE;
}

static void add_feed(struct prng *p, struct graph *graph, bool open)
{
	int64_t dims[3];
	const unsigned ndim = prng_below(p, 4);

	for (unsigned i = 0; i < ndim; i++)
		dims[i] = (int64_t)prng_below(p, open ? 5 : 4) - open;
	graph_feed(graph, NULL, any_dtype(p), dims, ndim);
}

/* Numbers of all sizes, and what is hard to print. */
static void add_constant(struct prng *p, struct graph *graph)
{
	static const double hard[] = { 0.1, -0.0, 1e300, 5e-324, 1.0 / 3, (double)INFINITY, -(double)INFINITY, 1e23 };
	const unsigned dtype = any_dtype(p);
	const int64_t n = prng_below(p, 8) ? prng_below(p, 5) : 65 + prng_below(p, 30);
	uint64_t bits[100];

	for (unsigned i = 0; i < 100; i++) {
		bits[i] = prng_next(p);
		if (dtype == STAR_FLOAT64 && prng_below(p, 2))
			memcpy(&bits[i], &hard[prng_below(p, 8)], sizeof(bits[i]));
	}
	graph_constant(graph, dtype, &n, 1, bits);
}

/* The first rows of something, by a number that is known. */
static void add_head(struct prng *p, struct graph *graph)
{
	const struct graph_value x = any_value(p, graph);
	const struct graph_shape *shape = &graph_type(graph, x)->shape;
	const int64_t most = shape->ndim && shape->dims[0] > 0 ? shape->dims[0] : 0;

	if (shape->ndim)
		graph_op2(graph, GRAPH_HEAD, x, graph_number(graph, STAR_INT64, prng_below(p, (uint32_t)most + 1)));
}

static void add_object(struct prng *p, struct graph *graph, bool open)
{
	const struct graph_definition d = { .device = prng_below(p, 2) ? "/job:ps" : "/job:ps/task:3",
					    .rate = prng_unit(p),
					    .scale = prng_below(p, 3),
					    .initializer = "a \"text\"\\\x01\xff",
					    .seed = (int64_t)prng_next(p) };
	struct graph_value ids = graph_feed(graph, NULL, STAR_INT64, GRAPH_DIMS(open ? -1 : 4));
	struct graph_value table = graph_table(graph, NULL, 1 + prng_below(p, 4), &d);

	if (prng_below(p, 2))
		graph_lookup(graph, table, ids);
	else
		graph_read(graph, graph_identity(graph, graph_variable(graph, NULL, GRAPH_DIMS(2, 3), &d)));
}

/* Any operation on any inputs, with no or some attributes: it is added if it holds. */
static void add_any(struct prng *p, struct graph *graph)
{
	struct graph_node node = { .op = 1 + prng_below(p, GRAPH_OPS_END - 1) };
	const struct graph_op_info *info = graph_op_info(node.op);
	struct graph_value inputs[GRAPH_INPUTS_MAX];
	struct graph_type types[GRAPH_INPUTS_MAX], outputs[GRAPH_OUTPUTS_MAX];
	const int64_t ints[] = { (int64_t)prng_below(p, 3) - 1, prng_below(p, 3), 1 };
	const uint32_t count = prng_below(p, 4), after = prng_below(p, graph->nodes_count);
	struct graph_attr attrs[] = {
		GRAPH_ATTR_INT("axis", ints[0]),	   GRAPH_ATTR_INTS("axes", ints, count),
		GRAPH_ATTR_INTS("shape", ints, count),	   GRAPH_ATTR_INTS("perm", ints, count),
		GRAPH_ATTR_STRING("dtype", "float32"),	   GRAPH_ATTR_FLOAT("rate", prng_unit(p)),
		GRAPH_ATTR_FLOAT("epsilon", prng_unit(p)), GRAPH_ATTR_INT("transpose_b", 1),
	};
	uint32_t outputs_count;

	if (graph->err.code || info->place == GRAPH_ON_PS || node.op == GRAPH_WHILE || node.op == GRAPH_COND)
		return;
	node.inputs_count = info->inputs_min + prng_below(p, 3);
	if (node.inputs_count > info->inputs_max)
		node.inputs_count = info->inputs_max;
	for (uint32_t i = 0; i < node.inputs_count; i++) {
		inputs[i] = any_value(p, graph);
		types[i] = *graph_type(graph, inputs[i]);
	}
	node.attrs = attrs + prng_below(p, 8);
	node.attrs_count = prng_below(p, 2);
	if (graph_infer(&node, types, outputs, &outputs_count, NULL) < 0)
		return;
	if (node.op == GRAPH_HEAD && graph->nodes[inputs[1].node]->op == GRAPH_CONST)
		return; /* it may be too many: add_head makes them */
	graph_add(graph, &(struct graph_node_spec){ .op = node.op,
						    .inputs = inputs,
						    .inputs_count = node.inputs_count,
						    .attrs = node.attrs,
						    .attrs_count = node.attrs_count,
						    .device = prng_below(p, 4) ? NULL : "/job:worker",
						    .controls = &after,
						    .controls_count = prng_below(p, 8) == 0 });
}

static void fill(struct prng *p, struct graph *graph, unsigned nodes, unsigned depth, bool open);

static void add_loop(struct prng *p, struct graph *graph, unsigned depth, bool open)
{
	const struct graph_value i = graph_number(graph, STAR_INT64, 0);
	const struct graph_value values[] = { i, any_value(p, graph), any_value(p, graph) };
	struct graph_loop loop = graph_loop_begin(graph, values, 2, values + 2, 1);
	struct graph_value next[4] = { loop.in[0], loop.in[1] };

	fill(p, loop.body, 6, depth, open);
	next[0] = graph_plus(loop.body, next[0], graph_number(loop.body, STAR_INT64, 1));
	next[2] = next[3] = next[0];
	graph_loop_end(&loop, graph_less(loop.cond, loop.in[0], graph_number(loop.cond, STAR_INT64, 3)), next,
		       2 + prng_below(p, 3), 3);
}

static void add_branch(struct prng *p, struct graph *graph, unsigned depth, bool open)
{
	const struct graph_value values[] = { any_value(p, graph), any_value(p, graph) };
	struct graph_branch branch = graph_branch_begin(graph, graph_number(graph, STAR_INT32, 1), values, 2);

	fill(p, branch.yes, 4, depth, open);
	fill(p, branch.no, 2, depth, open);
	graph_branch_end(&branch, branch.in, branch.in, 2);
}

static void fill(struct prng *p, struct graph *graph, unsigned nodes, unsigned depth, bool open)
{
	for (unsigned i = 0; i < nodes; i++) {
		const unsigned what = prng_below(p, 20);

		if (what == 0 && !graph->outer)
			add_feed(p, graph, open);
		else if (what == 1)
			add_constant(p, graph);
		else if (what == 2 && !graph->outer)
			add_object(p, graph, open);
		else if (what == 3 && depth < 3)
			add_loop(p, graph, depth + 1, open);
		else if (what == 4 && depth < 3)
			add_branch(p, graph, depth + 1, open);
		else if (what == 5)
			add_head(p, graph);
		else
			for (unsigned k = 0; k < 20; k++)
				add_any(p, graph);
	}
}

struct graph *random_graph(struct prng *p, unsigned nodes, bool open)
{
	struct graph *graph = graph_create();
	struct graph_value results[3];

	add_feed(p, graph, open);
	add_constant(p, graph);
	fill(p, graph, nodes, 0, open);
	for (unsigned i = 0; i < 3; i++)
		results[i] = any_value(p, graph);
	graph_set_results(graph, results, prng_below(p, 4));
	return graph;
}
