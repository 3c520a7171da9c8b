/* SPDX-License-Identifier: BSD-3-Clause */
/* Building models: variables, tables, and layers with parameters. */
#include <stdio.h>
#include <string.h>

#include "graph/build.h"
#include "internal.h"

static const struct graph_definition plain;

/* Appends the definition to the attributes. */
static struct graph_value define(struct graph *graph, enum graph_op op, const char *name, struct graph_attr what,
				 const struct graph_definition *d, const char *initializer, double scale)
{
	struct graph_attr attrs[GRAPH_ATTRS_MAX];
	uint32_t count = 0;

	attrs[count++] = GRAPH_ATTR_STRING("dtype", d->dtype ? d->dtype : "float32");
	attrs[count++] = what;
	if (d->initializer || initializer)
		attrs[count++] = GRAPH_ATTR_STRING("initializer", d->initializer ? d->initializer : initializer);
	if (d->scale != 0 || (scale != 0 && !d->initializer))
		attrs[count++] = GRAPH_ATTR_FLOAT("scale", d->scale != 0 ? d->scale : scale);
	if (d->seed)
		attrs[count++] = GRAPH_ATTR_INT("seed", d->seed);
	if (d->optimizer)
		attrs[count++] = GRAPH_ATTR_STRING("optimizer", d->optimizer);
	if (d->rate != 0)
		attrs[count++] = GRAPH_ATTR_FLOAT("rate", d->rate);
	if (d->frozen)
		attrs[count++] = GRAPH_ATTR_INT("trainable", 0);
	if (d->options_count > GRAPH_ATTRS_MAX - count)
		return graph_fail(graph, name, "a definition may have at most %u options", GRAPH_ATTRS_MAX - count);
	for (uint32_t i = 0; i < d->options_count; i++)
		attrs[count++] = d->options[i];
	return graph_add(graph,
			 &(struct graph_node_spec){
				 .op = op, .name = name, .device = d->device, .attrs = attrs, .attrs_count = count });
}

struct graph_value graph_variable(struct graph *graph, const char *name, const int64_t *dims, size_t ndim,
				  const struct graph_definition *definition)
{
	return define(graph, GRAPH_VARIABLE, name, GRAPH_ATTR_INTS("shape", dims, (uint32_t)ndim),
		      definition ? definition : &plain, NULL, 0);
}

struct graph_value graph_table(struct graph *graph, const char *name, int64_t dim,
			       const struct graph_definition *definition)
{
	return define(graph, GRAPH_TABLE, name, GRAPH_ATTR_INT("dim", dim), definition ? definition : &plain, "uniform",
		      0.05);
}

struct graph_value graph_use(struct graph *body, const char *name)
{
	for (const struct graph *g = body; g; g = g->outer) {
		const struct graph_node *node = graph_find(g, name);
		char device[GRAPH_DEVICE_TEXT];

		if (!node || (node->op != GRAPH_VARIABLE && node->op != GRAPH_TABLE))
			continue;
		if (g == body)
			return (struct graph_value){ node->id, 0 };
		return graph_add(body, &(struct graph_node_spec){ .op = node->op,
								  .name = name,
								  .device = graph_device_text(node->device, device),
								  .attrs = node->attrs,
								  .attrs_count = node->attrs_count });
	}
	return graph_fail(body, NULL, "no enclosing graph has a variable or table \"%.127s\"", name);
}

struct graph_value graph_read(struct graph *graph, struct graph_value variable)
{
	return graph_op1(graph, GRAPH_READ, variable);
}

struct graph_value graph_lookup(struct graph *graph, struct graph_value table, struct graph_value ids)
{
	return graph_op2(graph, GRAPH_LOOKUP, table, ids);
}

struct graph_value graph_lookup_read_only(struct graph *graph, struct graph_value table, struct graph_value ids)
{
	const struct graph_attr read_only = GRAPH_ATTR_INT("read_only", 1);

	return graph_add(graph, &(struct graph_node_spec){ .op = GRAPH_LOOKUP,
							   .inputs = (const struct graph_value[]){ table, ids },
							   .inputs_count = 2,
							   .attrs = &read_only,
							   .attrs_count = 1 });
}

struct graph_value graph_assign(struct graph *graph, struct graph_value variable, struct graph_value value)
{
	return graph_op2(graph, GRAPH_ASSIGN, variable, value);
}

static struct graph_value step_variable(struct graph *graph)
{
	static const struct graph_definition step = {
		.dtype = "float64", .initializer = "zeros", .optimizer = "sgd", .rate = 1, .frozen = true
	};

	return graph_variable(graph, "global_step", GRAPH_SCALAR, &step);
}

struct graph_value graph_global_step(struct graph *graph)
{
	return graph_op1(graph, GRAPH_STEP_ADD, step_variable(graph));
}

struct graph_value graph_global_step_read(struct graph *graph)
{
	return graph_op1(graph, GRAPH_READ, step_variable(graph));
}

struct graph_value graph_bag(struct graph *graph, struct graph_value table, struct graph_value ids,
			     struct graph_value segments, struct graph_value like, enum graph_op pooling)
{
	return graph_op3(graph, pooling, graph_lookup(graph, table, ids), segments, like);
}

/* ---- layers ---- */

/* Reads "<name>/<what>". The definition applies to weights; other parameters use `initializer`. */
static struct graph_value parameter(struct graph *graph, const char *name, const char *what, const int64_t *dims,
				    size_t ndim, const struct graph_definition *definition, const char *initializer)
{
	struct graph_definition d = definition ? *definition : plain;
	char full[GRAPH_NAME_MAX + 2];

	if (!d.initializer || strcmp(what, "weights") != 0) {
		d.initializer = initializer;
		d.scale = 0;
	}
	snprintf(full, sizeof(full), "%s/%s", name, what);
	return graph_read(graph, graph_variable(graph, full, dims, ndim, &d));
}

/* The last dimension of a value's shape, which must be known; -1: it is not, and the graph has an error. */
static int64_t last_size(struct graph *graph, const char *name, const struct graph_shape *shape)
{
	char text[GRAPH_SHAPE_TEXT];

	if (shape->ndim > 0 && shape->dims[shape->ndim - 1] > 0)
		return shape->dims[shape->ndim - 1];
	graph_fail(graph, name, "the last dimension of its input must be known, but its shape is %s",
		   graph_shape_text(shape, text));
	return -1;
}

struct graph_value graph_dense(struct graph *graph, struct graph_value x, int64_t units, enum graph_op activation,
			       const char *name, const struct graph_definition *definition)
{
	const struct graph_type *type = graph_type(graph, x);
	struct graph_shape shape;
	struct graph_value y;
	int64_t k;

	if (!type)
		return graph_fail(graph, name, "its input is not a value of this graph");
	shape = type->shape;
	k = last_size(graph, name, &shape);
	if (k < 0)
		return GRAPH_NONE;
	if (shape.ndim != 2)
		x = graph_reshape(graph, x, GRAPH_DIMS(-1, k));
	y = graph_matmul(graph, x,
			 parameter(graph, name, "weights", GRAPH_DIMS(k, units), definition, "glorot_uniform"));
	y = graph_plus(graph, y, parameter(graph, name, "bias", GRAPH_DIMS(units), definition, "zeros"));
	if (activation != GRAPH_NO_OP)
		y = graph_op1(graph, activation, y);
	shape.dims[shape.ndim - 1] = units;
	return shape.ndim == 2 ? y : graph_reshape(graph, y, shape.dims, shape.ndim);
}

static struct graph_value norm(struct graph *graph, enum graph_op op, struct graph_value x, double epsilon,
			       const char *name, const struct graph_definition *definition)
{
	const struct graph_type *type = graph_type(graph, x);
	struct graph_value inputs[3] = { x };
	int64_t k;

	if (!type)
		return graph_fail(graph, name, "its input is not a value of this graph");
	k = last_size(graph, name, &type->shape);
	if (k < 0)
		return GRAPH_NONE;
	inputs[1] = parameter(graph, name, "gamma", &k, 1, definition, "ones");
	inputs[2] = parameter(graph, name, "beta", &k, 1, definition, "zeros");
	return graph_node_add(graph, op, NULL, inputs, 3, &GRAPH_ATTR_FLOAT("epsilon", epsilon), 1);
}

struct graph_value graph_layer_norm(struct graph *graph, struct graph_value x, double epsilon, const char *name,
				    const struct graph_definition *definition)
{
	return norm(graph, GRAPH_LAYER_NORM, x, epsilon, name, definition);
}

struct graph_value graph_batch_norm(struct graph *graph, struct graph_value x, double epsilon, const char *name,
				    const struct graph_definition *definition)
{
	return norm(graph, GRAPH_BATCH_NORM, x, epsilon, name, definition);
}

/* ---- batch norm with running statistics ---- */

static struct graph_value running(struct graph *graph, const char *name, const char *what, int64_t k,
				  const struct graph_definition *definition)
{
	/* A gradient for sgd at rate 1 is what is subtracted, whoever else subtracts something meanwhile. */
	const struct graph_definition d = { .device = definition ? definition->device : NULL,
					    .dtype = definition ? definition->dtype : NULL,
					    .initializer = strcmp(what, "mean") ? "ones" : "zeros",
					    .optimizer = "sgd",
					    .rate = 1,
					    .frozen = true };
	char full[GRAPH_NAME_MAX + 2];

	snprintf(full, sizeof(full), "%s/%s", name, what);
	return graph_variable(graph, full, &k, 1, &d);
}

static void move_on(struct graph *graph, struct graph_value variable, struct graph_value batch, double momentum,
		    unsigned dtype)
{
	const struct graph_value away = graph_minus(graph, graph_read(graph, variable), batch);

	graph_op2(graph, GRAPH_APPLY, variable, graph_times(graph, away, graph_number(graph, dtype, momentum)));
}

/* n / (n - 1) for x [..., k] with n rows; 1 for one row. */
static struct graph_value unbias(struct graph *graph, struct graph_value x, int64_t k, unsigned dtype)
{
	const int64_t begin[] = { 0, 0 }, size[] = { -1, 1 };
	const struct graph_value flat = graph_reshape(graph, x, GRAPH_DIMS(-1, k));
	const struct graph_value column = graph_slice(graph, flat, begin, size, 2);
	const struct graph_value one = graph_number(graph, dtype, 1);
	const struct graph_value zeros = graph_cast(graph, graph_less(graph, column, column), dtype);
	const struct graph_value n = graph_sum(graph, graph_plus(graph, zeros, one));

	return graph_divide(graph, n, graph_maximum(graph, graph_minus(graph, n, one), one));
}

struct graph_value graph_batch_norm_running(struct graph *graph, struct graph_value x, bool training, double momentum,
					    double epsilon, const char *name, const struct graph_definition *definition)
{
	const struct graph_type *type = graph_type(graph, x);
	const unsigned dtype = type ? type->dtype : 0;
	struct graph_value y, mean, variance, scale;
	int64_t k;

	if (!type)
		return graph_fail(graph, name, "its input is not a value of this graph");
	if (!(momentum > 0 && momentum <= 1) || !(epsilon > 0))
		return graph_fail(graph, name, "momentum must be above 0 and at most 1, and epsilon above 0");
	k = last_size(graph, name, &type->shape);
	if (k < 0)
		return GRAPH_NONE;
	mean = running(graph, name, "mean", k, definition);
	variance = running(graph, name, "variance", k, definition);
	if (!training) {
		const struct graph_value gamma = parameter(graph, name, "gamma", &k, 1, definition, "ones");
		const struct graph_value beta = parameter(graph, name, "beta", &k, 1, definition, "zeros");
		const struct graph_value square =
			graph_plus(graph, graph_read(graph, variance), graph_number(graph, dtype, epsilon));

		scale = graph_divide(graph, gamma, graph_sqrt(graph, square));
		y = graph_times(graph, graph_minus(graph, x, graph_read(graph, mean)), scale);
		return graph_plus(graph, y, beta);
	}
	y = norm(graph, GRAPH_BATCH_NORM, x, epsilon, name, definition);
	move_on(graph, mean, graph_output(y, 1), momentum, dtype);
	move_on(graph, variance, graph_times(graph, graph_output(y, 2), unbias(graph, x, k, dtype)), momentum, dtype);
	return y;
}
