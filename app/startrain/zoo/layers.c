/* SPDX-License-Identifier: BSD-3-Clause */
/* The building blocks of models. */
#include <stdio.h>
#include <stdlib.h>

#include "exec/exec.h"
#include "app/startrain/zoo/zoo.h"

const char *zoo_own_name(const struct zoo *zoo, const char *name, char own[static ZOO_NAME_ROOM])
{
	snprintf(own, ZOO_NAME_ROOM, "%s/%s", zoo->options->model->name, name);
	return own;
}

struct graph_value zoo_feed(struct graph *g, struct estimator_spec *spec, const char *name, struct graph_type most)
{
	struct graph_shape shape = most.shape;

	spec->feeds[spec->feeds_count++] = (struct graph_plan_feed){ .name = name, .type = most };
	shape.dims[0] = -1;
	return graph_feed(g, name, most.dtype, shape.dims, shape.ndim);
}

/* The common definition of variables. */
static struct graph_definition dense_definition(const struct zoo_options *o)
{
	return (struct graph_definition){ .optimizer = o->dense_optimizer,
					  .rate = o->dense_rate,
					  .seed = (int64_t)o->seed,
					  .options = o->dense.attrs,
					  .options_count = o->dense.count };
}

static struct graph_value look_up_rows(struct zoo *zoo, const char *name, int64_t dim, struct graph_value ids)
{
	const struct zoo_options *o = zoo->options;
	char own[ZOO_NAME_ROOM];
	const char *table = zoo_own_name(zoo, name, own);
	const struct graph_node *there = graph_find(zoo->graph, table);
	const struct graph_definition definition = {
		.dtype = o->dtype,
		.initializer = dim == 1 ? "zeros" : "normal",
		.scale = dim == 1 ? 0 : 0.01,
		.optimizer = o->optimizer,
		.rate = o->rate,
		.seed = (int64_t)o->seed,
		.options = o->table.attrs,
		.options_count = o->table.count,
	};
	const struct graph_value handle =
		there ? (struct graph_value){ there->id, 0 } : graph_table(zoo->graph, table, dim, &definition);

	return zoo->train ? graph_lookup(zoo->graph, handle, ids) : graph_lookup_read_only(zoo->graph, handle, ids);
}

/* Each column's rows from its own table, side by side: [n, k, dim]. */
static struct graph_value look_columns_up(struct zoo *zoo, const char *name, int64_t dim, struct graph_value ids,
					  int64_t columns)
{
	struct graph_value *rows = calloc((size_t)columns, sizeof(*rows)), all;

	for (int64_t i = 0; rows && i < columns; i++) {
		const int64_t begin[] = { 0, i }, size[] = { -1, 1 };
		char column[32];

		snprintf(column, sizeof(column), "%s/%d", name, (int)i);
		rows[i] = look_up_rows(zoo, column, dim, graph_slice(zoo->graph, ids, begin, size, 2));
	}
	all = rows ? graph_concat(zoo->graph, rows, (uint32_t)columns, 1) : GRAPH_NONE;
	free(rows);
	return all;
}

struct graph_value zoo_embed(struct zoo *zoo, const char *name, int64_t dim, struct graph_value ids)
{
	const struct graph_type *type = graph_type(zoo->graph, ids);
	const int64_t columns = type && type->shape.ndim == 2 ? type->shape.dims[1] : 0;

	if (zoo->options->apart && columns > 1)
		return look_columns_up(zoo, name, dim, ids, columns);
	return look_up_rows(zoo, name, dim, ids);
}

struct graph_value zoo_embed_lists(struct zoo *zoo, const char *name, int64_t dim, const struct zoo_inputs *in)
{
	const struct zoo_lists *lists = &in->lists;
	struct graph *g = zoo->graph;
	struct graph_value sum, divisor;
	char own[ZOO_NAME_ROOM];

	snprintf(own, sizeof(own), "%s/lists", name);
	sum = graph_op3(g, GRAPH_SEGMENT_SUM, look_up_rows(zoo, zoo->options->apart ? own : name, dim, lists->ids),
			lists->segments, lists->lengths);
	divisor = graph_maximum(g, lists->lengths, graph_number(g, STAR_FLOAT32, 1));
	return graph_reshape(g, graph_divide(g, sum, graph_reshape(g, divisor, GRAPH_DIMS(-1, 1))),
			     GRAPH_DIMS(-1, in->lists_count, dim));
}

struct graph_value zoo_embed_columns(struct zoo *zoo, const char *name, int64_t dim, const struct zoo_inputs *in)
{
	struct graph_value parts[2];
	uint32_t count = 0;

	if (in->fields)
		parts[count++] = zoo_embed(zoo, name, dim, in->ids);
	if (in->lists_count)
		parts[count++] = zoo_embed_lists(zoo, name, dim, in);
	return count == 1 ? parts[0] : graph_concat(zoo->graph, parts, count, 1);
}

struct graph_value zoo_mlp(struct zoo *zoo, struct graph_value x, const int64_t *units, size_t layers,
			   enum graph_op last, const char *name)
{
	struct graph_definition definition = dense_definition(zoo->options);
	char own[ZOO_NAME_ROOM];

	for (size_t i = 0; i < layers; i++) {
		char layer[32];

		definition.seed++; /* layers with the same shape have different initial values */
		snprintf(layer, sizeof(layer), "%s/%zu", name, i);
		if (zoo->options->batch_norm && i + 1 < layers) {
			x = graph_dense(zoo->graph, x, units[i], GRAPH_NO_OP, zoo_own_name(zoo, layer, own),
					&definition);
			x = graph_relu(zoo->graph, graph_batch_norm_running(zoo->graph, x, zoo->train, 0.1, 1e-5, own,
									    &definition));
			continue;
		}
		x = graph_dense(zoo->graph, x, units[i], i + 1 < layers ? GRAPH_RELU : last,
				zoo_own_name(zoo, layer, own), &definition);
	}
	return x;
}

struct graph_value zoo_dense(struct zoo *zoo, struct graph_value x, int64_t units, enum graph_op activation,
			     const char *name)
{
	const struct graph_definition definition = dense_definition(zoo->options);
	char own[ZOO_NAME_ROOM];

	return graph_dense(zoo->graph, x, units, activation, zoo_own_name(zoo, name, own), &definition);
}

struct graph_value zoo_variable(struct zoo *zoo, const char *name, const int64_t *dims, size_t ndim,
				const char *initializer, double scale)
{
	struct graph_definition definition = dense_definition(zoo->options);
	char own[ZOO_NAME_ROOM];

	definition.initializer = initializer;
	definition.scale = scale;
	return graph_read(zoo->graph,
			  graph_variable(zoo->graph, zoo_own_name(zoo, name, own), dims, ndim, &definition));
}

struct graph_value zoo_linear(struct zoo *zoo, struct graph_value x, const char *name)
{
	struct graph_definition zeros = dense_definition(zoo->options);
	char own[ZOO_NAME_ROOM];

	zeros.initializer = "zeros";
	zeros.seed = 0;
	return graph_dense(zoo->graph, x, 1, GRAPH_NO_OP, zoo_own_name(zoo, name, own), &zeros);
}

struct graph_value zoo_column(struct zoo *zoo, struct graph_value x)
{
	return graph_reshape(zoo->graph, x, GRAPH_DIMS(-1));
}
