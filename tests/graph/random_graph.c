/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/graph/random_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/build.h"
#include "exec/kernel.h"

enum { WIDTH = 8, POOL = 64, RESOURCES = 4 };

/* Values [batch, 8] so far, and where PS nodes are. */
struct maker {
	struct prng prng;
	struct graph *graph;
	struct graph_value pool[POOL];
	uint32_t count;
	uint32_t ps_tasks;
	struct graph_value variables[RESOURCES], tables[RESOURCES]; /* [8, 8], dim 8 */
	uint32_t last[RESOURCES]; /* of tables that are applied to: the node that did it, plus 1 */
	struct graph_value ids, segments;
	struct graph_value weights; /* a constant [8, 8] */
};

static struct graph_value pick(struct maker *m)
{
	/* Late ones more often, so that graphs are deep too. */
	const uint32_t a = prng_below(&m->prng, m->count), b = prng_below(&m->prng, m->count);

	return m->pool[a > b ? a : b];
}

static void keep(struct maker *m, struct graph_value value)
{
	if (m->count < POOL)
		m->pool[m->count++] = value;
	else
		m->pool[prng_below(&m->prng, POOL)] = value;
}

static struct graph_value add(struct maker *m, enum graph_op op, const struct graph_value *inputs, uint32_t count,
			      const struct graph_attr *attrs, uint32_t attrs_count)
{
	return graph_add(m->graph, &(struct graph_node_spec){ .op = op,
							      .inputs = inputs,
							      .inputs_count = count,
							      .attrs = attrs,
							      .attrs_count = attrs_count });
}

static void add_elementwise(struct maker *m)
{
	static const enum graph_op one[] = { GRAPH_NEG, GRAPH_RELU,    GRAPH_SIGMOID,	    GRAPH_TANH,
					     GRAPH_ABS, GRAPH_SOFTMAX, GRAPH_STOP_GRADIENT, GRAPH_IDENTITY };
	static const enum graph_op two[] = { GRAPH_ADD, GRAPH_SUB, GRAPH_MUL, GRAPH_MAX, GRAPH_MIN };

	if (prng_below(&m->prng, 2))
		keep(m, graph_op1(m->graph, one[prng_below(&m->prng, 8)], pick(m)));
	else
		keep(m, graph_op2(m->graph, two[prng_below(&m->prng, 5)], pick(m), pick(m)));
}

/* Something of another shape, and back. */
static void add_shapes(struct maker *m)
{
	const struct graph_value x = pick(m);
	struct graph_value parts[2];

	switch (prng_below(&m->prng, 6)) {
	case 0:
		parts[0] = graph_split(m->graph, x, -1, (const int64_t[]){ 3, 5 }, 2);
		parts[1] = graph_output(parts[0], 1);
		keep(m, graph_concat(m->graph, (struct graph_value[]){ parts[1], parts[0] }, 2, 1));
		break;
	case 1:
		parts[0] = graph_reduce(m->graph, GRAPH_MEAN, x, 0);
		keep(m, graph_minus(m->graph, pick(m), parts[0]));
		break;
	case 2:
		parts[0] = graph_reshape(m->graph, x, GRAPH_DIMS(-1, 4, 2));
		parts[0] = graph_transpose(m->graph, parts[0], (const int64_t[]){ 0, 2, 1 }, 3);
		keep(m, graph_reshape_like(m->graph, parts[0], x));
		break;
	case 3:
		keep(m, graph_matmul(m->graph, x, m->weights));
		break;
	case 4:
		parts[0] = graph_op2(m->graph, GRAPH_REDUCE_LIKE, x, graph_reduce(m->graph, GRAPH_SUM, x, 0));
		keep(m, graph_tanh(m->graph, graph_expand(m->graph, parts[0], pick(m))));
		break;
	default:
		keep(m, graph_dropout(m->graph, x, 0.25));
	}
}

/* Ids that differ, rows for them, and a bag. */
static void add_bag(struct maker *m)
{
	const struct graph_value unique = graph_unique(m->graph, m->ids), x = pick(m);
	struct graph_value rows;

	if (m->ps_tasks)
		rows = graph_lookup(m->graph, m->tables[prng_below(&m->prng, RESOURCES / 2)], unique);
	else
		rows = graph_gather(m->graph, m->weights, unique);
	rows = graph_gather(m->graph, rows, graph_output(unique, 1));
	keep(m, add(m, GRAPH_SEGMENT_MEAN, (struct graph_value[]){ rows, m->segments, x }, 3, NULL, 0));
}

/* Of a variable as a whole: where it lies by its author's will or not, all of it or a sum, that is the worker's to go
 * on with. */
static void add_whole(struct maker *m, uint32_t which)
{
	const struct graph_value number = graph_number(m->graph, STAR_FLOAT32, 0.25);
	const bool placed = prng_below(&m->prng, 2);
	struct graph_value value = graph_read(m->graph, m->variables[which]);
	char device[40];

	snprintf(device, sizeof(device), "/job:ps/task:%u", which % m->ps_tasks);
	for (uint32_t left = prng_below(&m->prng, 4); left; left--) {
		const struct graph_value inputs[] = { value, prng_below(&m->prng, 2) ? value : number };

		value = graph_add(m->graph,
				  &(struct graph_node_spec){ .op = prng_below(&m->prng, 2) ? GRAPH_MUL : GRAPH_SUB,
							     .device = placed ? device : NULL,
							     .inputs = inputs,
							     .inputs_count = 2 });
	}
	if (prng_below(&m->prng, 2)) {
		keep(m, graph_tanh(m->graph, graph_matmul(m->graph, pick(m), value)));
		return;
	}
	value = graph_add(m->graph, &(struct graph_node_spec){ .op = prng_below(&m->prng, 2) ? GRAPH_SUM : GRAPH_MEAN,
							       .device = placed ? device : NULL,
							       .inputs = &value,
							       .inputs_count = 1 });
	keep(m, graph_minus(m->graph, pick(m), graph_tanh(m->graph, value)));
}

static void add_ps(struct maker *m)
{
	uint32_t which = prng_below(&m->prng, RESOURCES);
	struct graph_value value;
	char name[40], device[40];

	switch (prng_below(&m->prng, 5)) {
	case 0:
		keep(m, graph_matmul(m->graph, pick(m), graph_read(m->graph, m->variables[which])));
		break;
	case 3:
		add_whole(m, which);
		break;
	case 1: /* read, then applied to, then read by the next one: of tables that nobody else reads */
		which = RESOURCES / 2 + which % (RESOURCES / 2);
		value = graph_lookup(m->graph, m->tables[which], m->ids);
		if (m->last[which])
			graph_add_control(m->graph, m->last[which] - 1, value.node);
		add(m, GRAPH_APPLY_ROWS, (struct graph_value[]){ m->tables[which], m->ids, pick(m) }, 3, NULL, 0);
		m->last[which] = m->graph->nodes_count;
		graph_add_control(m->graph, value.node, m->last[which] - 1);
		keep(m, value);
		break;
	case 2:
		value = graph_op1(m->graph, GRAPH_TANH, graph_read(m->graph, m->variables[which]));
		snprintf(name, sizeof(name), "on_ps_%u", m->graph->nodes_count);
		snprintf(device, sizeof(device), "/job:ps/task:%u", which % m->ps_tasks);
		value = graph_add(m->graph, &(struct graph_node_spec){ .op = GRAPH_NEG,
								       .name = name,
								       .device = device,
								       .inputs = &value,
								       .inputs_count = 1 });
		keep(m, graph_matmul(m->graph, pick(m), value));
		break;
	default:
		value = graph_op1(m->graph, GRAPH_NEG, pick(m));
		snprintf(device, sizeof(device), "/job:ps/task:%u", prng_below(&m->prng, m->ps_tasks));
		keep(m, graph_add(m->graph,
				  &(struct graph_node_spec){
					  .op = GRAPH_TANH, .device = device, .inputs = &value, .inputs_count = 1 }));
	}
}

/* Two values carried, which change places; a tape; with PS tasks, a read in each iteration. */
static void add_loop(struct maker *m)
{
	struct graph *g = m->graph;
	const struct graph_value zero = graph_constant(g, STAR_INT64, GRAPH_SCALAR, &(int64_t){ 0 });
	const struct graph_value times =
		graph_constant(g, STAR_INT64, GRAPH_SCALAR, &(int64_t){ prng_below(&m->prng, 4) });
	const struct graph_value carried[] = { zero, pick(m), pick(m) }, captures[] = { times, pick(m), m->weights };
	struct graph_loop loop = graph_loop_begin(g, carried, 3, captures, 3);
	const struct graph_value more = graph_less(loop.cond, loop.in[0], loop.in[3]);
	struct graph_value by = loop.in[5], next[4], end;

	if (m->ps_tasks) {
		char name[16];

		snprintf(name, sizeof(name), "v%u", prng_below(&m->prng, RESOURCES));
		by = graph_read(loop.body, graph_use(loop.body, name));
	}
	next[0] = graph_plus(loop.body, loop.in[0], graph_number(loop.body, STAR_INT64, 1));
	next[1] = prng_below(&m->prng, 2) ? loop.in[2] : graph_plus(loop.body, loop.in[2], loop.in[4]);
	next[2] = graph_tanh(loop.body, graph_matmul(loop.body, loop.in[1], by));
	next[3] = graph_reduce(loop.body, GRAPH_SUM, next[2], 0);
	end = graph_loop_end(&loop, more, next, 4, 4);
	keep(m, graph_output(end, 1));
	keep(m, graph_output(end, 2));
	keep(m, graph_minus(g, pick(m), graph_reduce(g, GRAPH_SUM, graph_output(end, 4), 0)));
}

static void set_up(struct maker *m)
{
	float weights[WIDTH * WIDTH];
	char device[40], name[16];

	for (unsigned i = 0; i < WIDTH * WIDTH; i++)
		weights[i] = (float)(prng_unit(&m->prng) - 0.5);
	m->weights = graph_constant(m->graph, STAR_FLOAT32, GRAPH_DIMS(WIDTH, WIDTH), weights);
	for (uint32_t i = 0; m->ps_tasks && i < RESOURCES; i++) {
		const struct graph_definition definition = { .device = device };

		snprintf(device, sizeof(device), "/job:ps/task:%u", i % m->ps_tasks);
		snprintf(name, sizeof(name), "v%u", i);
		m->variables[i] = graph_variable(m->graph, name, GRAPH_DIMS(WIDTH, WIDTH), &definition);
		snprintf(name, sizeof(name), "t%u", i);
		m->tables[i] = graph_table(m->graph, name, WIDTH, &definition);
	}
}

void random_graph_make(struct random_graph *random, uint64_t seed, const struct random_graph_options *options)
{
	struct maker m = { .graph = graph_create(), .ps_tasks = options->ps_tasks };
	struct graph_value results[RANDOM_RESULTS];
	uint32_t results_count = 0;
	const size_t n = (size_t)options->batch;

	prng_seed(&m.prng, seed);
	*random = (struct random_graph){
		.graph = m.graph,
		.feeds = { { "x", { .dtype = STAR_FLOAT32, .shape = { 2, { options->batch, WIDTH } } } },
			   { "ids", { .dtype = STAR_INT64, .shape = { 1, { options->batch } } } },
			   { "segments", { .dtype = STAR_INT32, .shape = { 1, { options->batch } } } } },
		.x = malloc(n * WIDTH * sizeof(float)),
		.ids = malloc(n * sizeof(int64_t)),
		.segments = malloc(n * sizeof(int32_t)),
	};
	for (size_t i = 0; i < n * WIDTH; i++)
		random->x[i] = (float)(prng_unit(&m.prng) * 2 - 1);
	for (size_t i = 0; i < n; i++) {
		random->ids[i] = prng_below(&m.prng, WIDTH); /* rows of a table, or of the constant */
		random->segments[i] = 0;
	}
	keep(&m, graph_feed(m.graph, "x", STAR_FLOAT32, GRAPH_DIMS(-1, WIDTH)));
	m.ids = graph_feed(m.graph, "ids", STAR_INT64, GRAPH_DIMS(-1));
	m.segments = graph_feed(m.graph, "segments", STAR_INT32, GRAPH_DIMS(-1));
	set_up(&m);
	while (m.graph->nodes_count < options->nodes && !m.graph->err.code) {
		const uint32_t kind = prng_below(&m.prng, 12);

		if (kind == 0)
			add_bag(&m);
		else if (kind < 4 && options->ps_tasks)
			add_ps(&m);
		else if (kind == 4 && options->loops)
			add_loop(&m);
		else if (kind < 8)
			add_shapes(&m);
		else
			add_elementwise(&m);
	}
	for (uint32_t i = 0; i < RANDOM_RESULTS - 1; i++)
		results[results_count++] = pick(&m);
	results[results_count++] = graph_mean(m.graph, pick(&m));
	graph_set_results(m.graph, results, results_count);
}

void random_graph_free(struct random_graph *random)
{
	graph_destroy(random->graph);
	free(random->x);
	free(random->ids);
	free(random->segments);
}

void random_graph_feed(const struct random_graph *random, int64_t n, struct graph_tensor feeds[RANDOM_FEEDS])
{
	feeds[0] = (struct graph_tensor){ random->feeds[0].type, random->x };
	feeds[1] = (struct graph_tensor){ random->feeds[1].type, random->ids };
	feeds[2] = (struct graph_tensor){ random->feeds[2].type, random->segments };
	for (unsigned i = 0; i < RANDOM_FEEDS; i++)
		feeds[i].type.shape.dims[0] = n;
}

/* ---- the interpreter ---- */

static int interpret_node(const struct graph_node *node, struct graph_tensor **values, struct star_error *err)
{
	const struct graph_tensor *in[GRAPH_INPUTS_MAX];
	struct graph_tensor *out[GRAPH_OUTPUTS_MAX];
	const struct graph_type *in_types[GRAPH_INPUTS_MAX], *out_types[GRAPH_OUTPUTS_MAX];
	struct graph_type types[GRAPH_INPUTS_MAX], made[GRAPH_OUTPUTS_MAX];
	struct kernel_call call = { .node = node, .in = in, .out = out, .seed = 1, .step = 7, .err = err };
	uint32_t count;
	int rc;

	for (uint32_t i = 0; i < node->inputs_count; i++) {
		in[i] = &values[node->inputs[i].node][node->inputs[i].output];
		types[i] = in[i]->type;
		in_types[i] = &in[i]->type;
	}
	rc = graph_infer(node, types, made, &count, err);
	for (uint32_t o = 0; rc == 0 && o < count; o++) {
		out[o] = &values[node->id][o];
		out_types[o] = &out[o]->type;
		out[o]->type = made[o];
		if (node->op == GRAPH_UNIQUE && o == 0)
			out[o]->type.shape.dims[0] = types[0].shape.dims[0];
		out[o]->data = malloc(graph_type_bytes(&out[o]->type) + 1);
	}
	call.scratch = aligned_alloc(64, (kernel_scratch(node, in_types, out_types) + 64) / 64 * 64);
	if (rc == 0)
		rc = kernel_run(&call);
	free(call.scratch);
	return rc;
}

int interpret(const struct graph *graph, const struct graph_tensor *feeds, struct graph_tensor *results,
	      struct star_error *err)
{
	struct graph_tensor **values = calloc(graph->nodes_count, sizeof(*values));
	int rc = 0;

	for (uint32_t n = 0; n < graph->nodes_count; n++)
		values[n] = calloc(graph->nodes[n]->outputs_count + 1, sizeof(**values));
	for (uint32_t n = 0; n < graph->nodes_count && rc == 0; n++)
		if (graph->nodes[n]->op == GRAPH_FEED)
			values[n][0] = *feeds++;
		else
			rc = interpret_node(graph->nodes[n], values, err);
	for (uint32_t i = 0; i < graph->results_count && rc == 0; i++) {
		const struct graph_tensor *value = &values[graph->results[i].node][graph->results[i].output];

		results[i].type = value->type;
		results[i].data = malloc(graph_type_bytes(&value->type) + 1);
		memcpy(results[i].data, value->data, graph_type_bytes(&value->type));
	}
	for (uint32_t n = 0; n < graph->nodes_count; n++) {
		for (uint32_t o = 0; o < graph->nodes[n]->outputs_count && graph->nodes[n]->op != GRAPH_FEED; o++)
			free(values[n][o].data);
		free(values[n]);
	}
	free(values);
	return rc;
}
