/* SPDX-License-Identifier: BSD-3-Clause */
/* Building models: values, operations, loops. */
#include "graph/build.h"

#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct graph_value graph_node_add(struct graph *graph, enum graph_op op, const char *name,
				  const struct graph_value *inputs, size_t inputs_count, const struct graph_attr *attrs,
				  size_t attrs_count)
{
	return graph_add(graph, &(struct graph_node_spec){ .op = op,
							   .name = name,
							   .inputs = inputs,
							   .inputs_count = (uint32_t)inputs_count,
							   .attrs = attrs,
							   .attrs_count = (uint32_t)attrs_count });
}

struct graph_value graph_op1(struct graph *graph, enum graph_op op, struct graph_value x)
{
	return graph_node_add(graph, op, NULL, &x, 1, NULL, 0);
}

struct graph_value graph_op2(struct graph *graph, enum graph_op op, struct graph_value a, struct graph_value b)
{
	return graph_node_add(graph, op, NULL, (struct graph_value[]){ a, b }, 2, NULL, 0);
}

struct graph_value graph_op3(struct graph *graph, enum graph_op op, struct graph_value a, struct graph_value b,
			     struct graph_value c)
{
	return graph_node_add(graph, op, NULL, (struct graph_value[]){ a, b, c }, 3, NULL, 0);
}

/* Adds a node with one attribute. */
static struct graph_value with(struct graph *graph, enum graph_op op, struct graph_value x, struct graph_attr attr)
{
	return graph_node_add(graph, op, NULL, &x, 1, &attr, 1);
}

struct graph_value graph_feed(struct graph *graph, const char *name, unsigned dtype, const int64_t *dims, size_t ndim)
{
	const char *type = dtype_name(dtype);
	const struct graph_attr attrs[] = { GRAPH_ATTR_STRING("dtype", type ? type : "unknown"),
					    GRAPH_ATTR_INTS("shape", dims, (uint32_t)ndim) };

	return graph_node_add(graph, GRAPH_FEED, name, NULL, 0, attrs, 2);
}

struct graph_value graph_constant(struct graph *graph, unsigned dtype, const int64_t *dims, size_t ndim,
				  const void *data)
{
	struct graph_attr value = { .name = "value", .kind = GRAPH_TENSOR };

	if (ndim > GRAPH_DIMS_MAX)
		return graph_fail(graph, NULL, "a constant may have at most %d dimensions", GRAPH_DIMS_MAX);
	value.type.dtype = (uint8_t)dtype;
	value.type.shape.ndim = (uint8_t)ndim;
	for (size_t i = 0; i < ndim; i++)
		value.type.shape.dims[i] = dims[i];
	value.data = data;
	return graph_node_add(graph, GRAPH_CONST, NULL, NULL, 0, &value, 1);
}

struct graph_value graph_number(struct graph *graph, unsigned dtype, double value)
{
	union {
		float f;
		double d;
		int32_t i;
		int64_t l;
	} data = { .l = 0 };

	if (dtype == STAR_FLOAT32)
		data.f = (float)value;
	else if (dtype == STAR_FLOAT64)
		data.d = value;
	else if (dtype == STAR_INT32)
		data.i = (int32_t)value;
	else
		data.l = (int64_t)value;
	return graph_constant(graph, dtype, GRAPH_SCALAR, &data);
}

/* ---- operations ---- */

struct graph_value graph_scale(struct graph *graph, struct graph_value x, double factor)
{
	const struct graph_type *type = graph_type(graph, x);

	if (!type)
		return graph_fail(graph, NULL, "graph_scale: not a value of this graph");
	return graph_times(graph, x, graph_number(graph, type->dtype, factor));
}

struct graph_value graph_cast(struct graph *graph, struct graph_value x, unsigned dtype)
{
	const char *type = dtype_name(dtype);

	return with(graph, GRAPH_CAST, x, GRAPH_ATTR_STRING("dtype", type ? type : "unknown"));
}

struct graph_value graph_reshape(struct graph *graph, struct graph_value x, const int64_t *dims, size_t ndim)
{
	return with(graph, GRAPH_RESHAPE, x, GRAPH_ATTR_INTS("shape", dims, (uint32_t)ndim));
}

struct graph_value graph_transpose(struct graph *graph, struct graph_value x, const int64_t *perm, size_t ndim)
{
	return with(graph, GRAPH_TRANSPOSE, x, GRAPH_ATTR_INTS("perm", perm, (uint32_t)ndim));
}

struct graph_value graph_concat(struct graph *graph, const struct graph_value *values, size_t count, int64_t axis)
{
	struct graph_value result = GRAPH_NONE, *parts;
	size_t n = 0;

	if (count <= GRAPH_INPUTS_MAX)
		return graph_node_add(graph, GRAPH_CONCAT, NULL, values, count, &GRAPH_ATTR_INT("axis", axis), 1);
	/* A node has only this many inputs, so groups are concatenated first. */
	parts = malloc((count / GRAPH_INPUTS_MAX + 1) * sizeof(*parts));
	if (!parts) {
		graph_fail(graph, NULL, "no memory to put %zu values together", count);
		return result;
	}
	for (size_t done = 0, some; done < count; done += some) {
		some = count - done < GRAPH_INPUTS_MAX ? count - done : GRAPH_INPUTS_MAX;
		parts[n++] = graph_concat(graph, values + done, some, axis);
	}
	result = graph_concat(graph, parts, n, axis);
	free(parts);
	return result;
}

struct graph_value graph_add_n(struct graph *graph, const struct graph_value *values, size_t count)
{
	return graph_node_add(graph, GRAPH_ADD_N, NULL, values, count, NULL, 0);
}

struct graph_value graph_split(struct graph *graph, struct graph_value x, int64_t axis, const int64_t *sizes,
			       size_t count)
{
	const struct graph_attr attrs[] = { GRAPH_ATTR_INT("axis", axis),
					    GRAPH_ATTR_INTS("sizes", sizes, (uint32_t)count) };

	return graph_node_add(graph, GRAPH_SPLIT, NULL, &x, 1, attrs, 2);
}

struct graph_value graph_slice(struct graph *graph, struct graph_value x, const int64_t *begin, const int64_t *size,
			       size_t ndim)
{
	const struct graph_attr attrs[] = { GRAPH_ATTR_INTS("begin", begin, (uint32_t)ndim),
					    GRAPH_ATTR_INTS("size", size, (uint32_t)ndim) };

	return graph_node_add(graph, GRAPH_SLICE, NULL, &x, 1, attrs, 2);
}

struct graph_value graph_reduce(struct graph *graph, enum graph_op op, struct graph_value x, int64_t axis)
{
	return with(graph, op, x, GRAPH_ATTR_INTS("axes", &axis, 1));
}

struct graph_value graph_sum(struct graph *graph, struct graph_value x)
{
	return graph_op1(graph, GRAPH_SUM, x);
}

struct graph_value graph_mean(struct graph *graph, struct graph_value x)
{
	return graph_op1(graph, GRAPH_MEAN, x);
}

struct graph_value graph_matmul_transposed(struct graph *graph, struct graph_value a, struct graph_value b)
{
	return graph_node_add(graph, GRAPH_MATMUL, NULL, (struct graph_value[]){ a, b }, 2,
			      &GRAPH_ATTR_INT("transpose_b", 1), 1);
}

/* A seed that no other node of the graph, or of its bodies, has. */
static int64_t seed_here(const struct graph *graph)
{
	uint64_t seed = graph->nodes_count;

	for (const struct graph *g = graph->outer; g; g = g->outer)
		seed = seed * 0x9e3779b97f4a7c15u + g->nodes_count + 1;
	return (int64_t)(seed >> 1);
}

struct graph_value graph_dropout(struct graph *graph, struct graph_value x, double rate)
{
	const struct graph_attr attrs[] = { GRAPH_ATTR_FLOAT("rate", rate), GRAPH_ATTR_INT("seed", seed_here(graph)) };

	return graph_node_add(graph, GRAPH_DROPOUT, NULL, &x, 1, attrs, 2);
}

struct graph_value graph_hash_cross(struct graph *graph, const struct graph_value *columns, size_t count,
				    int64_t buckets)
{
	return graph_node_add(graph, GRAPH_HASH_CROSS, NULL, columns, count, &GRAPH_ATTR_INT("buckets", buckets), 1);
}

struct graph_value graph_attention(struct graph *graph, struct graph_value q, struct graph_value k,
				   struct graph_value v, struct graph_value mask, double scale)
{
	const struct graph_value inputs[] = { q, k, v, mask };

	return graph_node_add(graph, GRAPH_ATTENTION, NULL, inputs, graph_is_none(mask) ? 3 : 4,
			      &GRAPH_ATTR_FLOAT("scale", scale), scale != 0);
}

struct graph_value graph_sigmoid_loss(struct graph *graph, struct graph_value logits, struct graph_value labels)
{
	return graph_mean(graph, graph_op2(graph, GRAPH_SIGMOID_LOSS, logits, labels));
}

struct graph_value graph_softmax_loss(struct graph *graph, struct graph_value logits, struct graph_value classes)
{
	return graph_mean(graph, graph_op2(graph, GRAPH_SOFTMAX_LOSS, logits, classes));
}

/* ---- loops and branches ---- */

/* Creates two bodies that begin with feeds for these values. */
static void begin_bodies(struct graph *graph, const struct graph_value *outside, uint32_t count, struct graph **a,
			 struct graph **b, struct graph_value *in)
{
	struct graph_type types[GRAPH_INPUTS_MAX];

	for (uint32_t i = 0; i < count; i++) {
		const struct graph_type *type = graph_type(graph, outside[i]);

		if (!type || !type->dtype) {
			graph_fail(graph, NULL,
				   "an input of a body must be a value of this graph, and not a handle of a variable "
				   "or table");
			count = 0;
			break;
		}
		types[i] = *type;
		in[i] = (struct graph_value){ i, 0 };
	}
	*a = graph_body_create(graph, types, count);
	*b = graph_body_create(graph, types, count);
	if (!*a || !*b) /* they are nested too deep: the graph itself has the error, and accepts nothing more */
		*a = *b = graph;
}

/* Concatenates the two lists of values. */
static uint32_t join_values(struct graph *graph, struct graph_value *all, const struct graph_value *a, uint32_t a_count,
			    const struct graph_value *b, uint32_t b_count)
{
	if (a_count > GRAPH_INPUTS_MAX || b_count > GRAPH_INPUTS_MAX - a_count) {
		graph_fail(graph, NULL, "a body takes at most %d values", GRAPH_INPUTS_MAX);
		return 0;
	}
	if (a_count)
		memcpy(all, a, a_count * sizeof(*all));
	if (b_count)
		memcpy(all + a_count, b, b_count * sizeof(*all));
	return a_count + b_count;
}

struct graph_loop graph_loop_begin(struct graph *graph, const struct graph_value *carried, uint32_t carried_count,
				   const struct graph_value *captures, uint32_t captures_count)
{
	struct graph_loop loop = { .graph = graph, .carried = carried_count };

	loop.count = join_values(graph, loop.outside, carried, carried_count, captures, captures_count);
	begin_bodies(graph, loop.outside, loop.count, &loop.body, &loop.cond, loop.in);
	return loop;
}

struct graph_value graph_loop_end(struct graph_loop *loop, struct graph_value more, const struct graph_value *results,
				  uint32_t results_count, int64_t most)
{
	const struct graph_attr attrs[] = { GRAPH_ATTR_INT("carried", loop->carried), GRAPH_ATTR_INT("most", most) };

	if (loop->graph->err.code)
		return GRAPH_NONE;
	graph_set_results(loop->body, results, results_count);
	graph_set_results(loop->cond, &more, 1);
	return graph_add(loop->graph, &(struct graph_node_spec){ .op = GRAPH_WHILE,
								 .inputs = loop->outside,
								 .inputs_count = loop->count,
								 .attrs = attrs,
								 .attrs_count = 2,
								 .body = loop->body,
								 .cond = loop->cond });
}

struct graph_branch graph_branch_begin(struct graph *graph, struct graph_value condition,
				       const struct graph_value *captures, uint32_t captures_count)
{
	struct graph_branch branch = { .graph = graph };

	branch.count = join_values(graph, branch.outside, &condition, 1, captures, captures_count);
	begin_bodies(graph, branch.outside + 1, branch.count ? branch.count - 1 : 0, &branch.yes, &branch.no,
		     branch.in);
	return branch;
}

struct graph_value graph_branch_end(struct graph_branch *branch, const struct graph_value *yes,
				    const struct graph_value *no, uint32_t count)
{
	if (branch->graph->err.code)
		return GRAPH_NONE;
	graph_set_results(branch->yes, yes, count);
	graph_set_results(branch->no, no, count);
	return graph_add(branch->graph, &(struct graph_node_spec){ .op = GRAPH_COND,
								   .inputs = branch->outside,
								   .inputs_count = branch->count,
								   .body = branch->yes,
								   .cond = branch->no });
}
