/* SPDX-License-Identifier: BSD-3-Clause */
/* The gradient of each operation: g is that of its output y, x are its inputs. */
#include <string.h>

#include "backward.h"
#include "internal.h"

#define RULE(name) \
	static void name(struct backward *b, const struct graph_node *node, \
			 const struct graph_value g[] __attribute__((unused)))
#define X(i) backward_in(b, node, i)
#define Y(i) backward_out(b, node, i)
#define WANTS(i) graph_backward_wants(b, node->inputs[i])
#define GIVE(i, value) graph_backward_give(b, node, i, value)

/* A constant of an output's type. */
static struct graph_value constant(struct backward *b, const struct graph_node *node, double value)
{
	return graph_number(b->graph, node->outputs[0].dtype, value);
}

/* Sums a gradient that was broadcast to the shape of x. */
static struct graph_value fit(struct backward *b, struct graph_value g, struct graph_value x)
{
	const struct graph_type *from = graph_type(b->graph, g), *to = graph_type(b->graph, x);

	if (!from || !to)
		return GRAPH_NONE;
	if (graph_shape_same(&from->shape, &to->shape) && graph_elements(&from->shape) >= 0)
		return g;
	return graph_op2(b->graph, GRAPH_REDUCE_LIKE, g, x);
}

/* ---- elementwise ---- */

RULE(of_neg)
{
	GIVE(0, graph_neg(b->graph, g[0]));
}

RULE(of_exp)
{
	GIVE(0, graph_times(b->graph, g[0], Y(0)));
}

RULE(of_log)
{
	GIVE(0, graph_divide(b->graph, g[0], X(0)));
}

RULE(of_sqrt)
{
	GIVE(0, graph_divide(b->graph, g[0], graph_scale(b->graph, Y(0), 2)));
}

RULE(of_square)
{
	GIVE(0, graph_times(b->graph, g[0], graph_scale(b->graph, X(0), 2)));
}

RULE(of_abs)
{
	GIVE(0, graph_times(b->graph, g[0], graph_op1(b->graph, GRAPH_SIGN, X(0))));
}

RULE(of_relu)
{
	struct graph_value zero = constant(b, node, 0);

	GIVE(0, graph_select(b->graph, graph_less(b->graph, zero, X(0)), g[0], zero));
}

RULE(of_sigmoid)
{
	struct graph_value slope = graph_minus(b->graph, Y(0), graph_square(b->graph, Y(0)));

	GIVE(0, graph_times(b->graph, g[0], slope));
}

RULE(of_tanh)
{
	struct graph_value slope = graph_minus(b->graph, constant(b, node, 1), graph_square(b->graph, Y(0)));

	GIVE(0, graph_times(b->graph, g[0], slope));
}

RULE(of_cast)
{
	if (WANTS(0))
		GIVE(0, graph_cast(b->graph, g[0], graph_type(b->from, node->inputs[0])->dtype));
}

RULE(of_add)
{
	for (uint32_t i = 0; i < 2; i++)
		if (WANTS(i))
			GIVE(i, fit(b, g[0], X(i)));
}

RULE(of_sub)
{
	if (WANTS(0))
		GIVE(0, fit(b, g[0], X(0)));
	if (WANTS(1))
		GIVE(1, fit(b, graph_neg(b->graph, g[0]), X(1)));
}

RULE(of_mul)
{
	for (uint32_t i = 0; i < 2; i++)
		if (WANTS(i))
			GIVE(i, fit(b, graph_times(b->graph, g[0], X(1 - i)), X(i)));
}

RULE(of_div)
{
	struct graph_value of = graph_divide(b->graph, g[0], X(1));

	if (WANTS(0))
		GIVE(0, fit(b, of, X(0)));
	if (WANTS(1))
		GIVE(1, fit(b, graph_neg(b->graph, graph_times(b->graph, of, Y(0))), X(1)));
}

/* g where the condition holds, else 0, to input i. */
static void give_where(struct backward *b, const struct graph_node *node, uint32_t i, struct graph_value condition,
		       bool is, struct graph_value g)
{
	struct graph_value zero;

	if (!WANTS(i))
		return;
	zero = constant(b, node, 0);
	GIVE(i, fit(b, graph_select(b->graph, condition, is ? g : zero, is ? zero : g), X(i)));
}

/* If both are equal, the gradient goes to the first. */
RULE(of_max)
{
	struct graph_value second = graph_less(b->graph, X(0), X(1));

	give_where(b, node, 0, second, false, g[0]);
	give_where(b, node, 1, second, true, g[0]);
}

RULE(of_min)
{
	struct graph_value second = graph_less(b->graph, X(1), X(0));

	give_where(b, node, 0, second, false, g[0]);
	give_where(b, node, 1, second, true, g[0]);
}

RULE(of_select)
{
	give_where(b, node, 1, X(0), true, g[0]);
	give_where(b, node, 2, X(0), false, g[0]);
}

RULE(of_add_n)
{
	for (uint32_t i = 0; i < node->inputs_count; i++)
		GIVE(i, g[0]);
}

RULE(of_identity)
{
	GIVE(0, g[0]);
}

/* The same mask again: it depends only on seed, step and element. */
RULE(of_dropout)
{
	GIVE(0, graph_node_add(b->graph, GRAPH_DROPOUT, NULL, g, 1, node->attrs, node->attrs_count));
}

/* ---- shapes ---- */

RULE(of_reshape)
{
	GIVE(0, graph_reshape_like(b->graph, g[0], X(0)));
}

RULE(of_transpose)
{
	const struct graph_attr *perm = graph_attr(node, "perm");
	int64_t back[GRAPH_DIMS_MAX];

	for (uint32_t i = 0; i < perm->ints_count; i++)
		back[perm->ints[i]] = i;
	GIVE(0, graph_transpose(b->graph, g[0], back, perm->ints_count));
}

static unsigned axis_of(const struct graph_node *node)
{
	const int64_t axis = graph_attr_int(node, "axis", 0);

	return (unsigned)(axis < 0 ? axis + node->outputs[0].shape.ndim : axis);
}

/* Splits the gradient along the axis. After an input of unknown size no offset is known. */
RULE(of_concat)
{
	const unsigned axis = axis_of(node), ndim = node->outputs[0].shape.ndim;
	int64_t begin[GRAPH_DIMS_MAX] = { 0 }, size[GRAPH_DIMS_MAX];

	for (unsigned i = 0; i < ndim; i++)
		size[i] = -1;
	for (uint32_t i = 0; i < node->inputs_count; i++) {
		const int64_t n = graph_type(b->from, node->inputs[i])->shape.dims[axis];

		if (n < 0 && i + 1 < node->inputs_count) {
			graph_fail(
				b->graph, node->name,
				"no gradient: its input %u has a dimension, axis %u, that is not known before a step",
				i, axis);
			return;
		}
		size[axis] = n;
		GIVE(i, graph_slice(b->graph, g[0], begin, size, ndim));
		begin[axis] += n;
	}
}

RULE(of_split)
{
	struct graph_value parts[GRAPH_OUTPUTS_MAX];

	for (uint32_t i = 0; i < node->outputs_count; i++)
		parts[i] = graph_is_none(g[i]) ? graph_backward_zeros_like(b->graph, Y(i)) : g[i];
	GIVE(0, graph_concat(b->graph, parts, node->outputs_count, axis_of(node)));
}

RULE(of_slice)
{
	const struct graph_attr *begin = graph_attr(node, "begin");

	GIVE(0, graph_node_add(b->graph, GRAPH_PAD_LIKE, NULL, (struct graph_value[]){ g[0], X(0) }, 2, begin, 1));
}

/* The slice of g that belongs to x. */
static void give_part(struct backward *b, const struct graph_node *node, struct graph_value g, const int64_t *begin,
		      const int64_t *after)
{
	const struct graph_shape *x = &graph_type(b->from, node->inputs[0])->shape;

	for (unsigned i = 0; i < x->ndim; i++)
		if (x->dims[i] < 0 && (!after || after[i] != 0)) {
			graph_fail(b->graph, node->name,
				   "no gradient: dimension %u of its input is not known before a step", i);
			return;
		}
	GIVE(0, graph_slice(b->graph, g, begin, x->dims, x->ndim));
}

RULE(of_pad)
{
	give_part(b, node, g[0], graph_attr(node, "before")->ints, graph_attr(node, "after")->ints);
}

RULE(of_pad_like)
{
	give_part(b, node, g[0], graph_attr(node, "begin")->ints, NULL);
}

RULE(of_expand)
{
	GIVE(0, fit(b, g[0], X(0)));
}

RULE(of_reduce_like)
{
	GIVE(0, graph_expand(b->graph, g[0], X(0)));
}

RULE(of_index)
{
	GIVE(0, graph_op3(b->graph, GRAPH_INDEX_GRAD, g[0], X(1), X(0)));
}

RULE(of_index_grad)
{
	GIVE(0, graph_index(b->graph, g[0], X(1)));
}

RULE(of_gather)
{
	GIVE(0, graph_op3(b->graph, GRAPH_SCATTER_ADD, g[0], X(1), X(0)));
}

RULE(of_scatter_add)
{
	GIVE(0, graph_gather(b->graph, g[0], X(1)));
}

RULE(of_columns)
{
	GIVE(0, graph_op3(b->graph, GRAPH_COLUMNS_GRAD, g[0], X(1), X(0)));
}

RULE(of_columns_grad)
{
	GIVE(0, graph_columns(b->graph, g[0], X(1)));
}

RULE(of_head)
{
	const struct graph_shape *x = &graph_type(b->from, node->inputs[0])->shape;
	const int64_t begin[GRAPH_DIMS_MAX] = { 0 };

	GIVE(0, graph_node_add(b->graph, GRAPH_PAD_LIKE, NULL, (struct graph_value[]){ g[0], X(0) }, 2,
			       &GRAPH_ATTR_INTS("begin", begin, x->ndim), 1));
}

/* ---- reductions ---- */

/* A reduction's value with the reduced dimensions as 1, so that it broadcasts to the input. */
static struct graph_value kept(struct backward *b, const struct graph_node *node, struct graph_value value)
{
	const struct graph_shape *x = &graph_type(b->from, node->inputs[0])->shape;
	const struct graph_attr *axes = graph_attr(node, "axes");
	struct graph_attr keep[2] = { GRAPH_ATTR_INT("keep", 1) };
	struct graph_shape shape = *x;
	struct graph_value like;
	unsigned open = 0;

	if (!axes || graph_attr_int(node, "keep", 0))
		return value;
	for (uint32_t i = 0; i < axes->ints_count; i++)
		shape.dims[axes->ints[i] + (axes->ints[i] < 0 ? x->ndim : 0)] = 1;
	for (unsigned i = 0; i < shape.ndim; i++)
		open += shape.dims[i] < 0;
	if (open < 2)
		return graph_reshape(b->graph, value, shape.dims, shape.ndim);
	keep[1] = *axes;
	like = backward_in(b, node, 0);
	like = graph_node_add(b->graph, GRAPH_SUM, NULL, &like, 1, keep, 2);
	return graph_reshape_like(b->graph, value, like);
}

RULE(of_sum)
{
	if (WANTS(0))
		GIVE(0, graph_expand(b->graph, kept(b, node, g[0]), X(0)));
}

static struct graph_value count_of(struct backward *b, struct graph_value value)
{
	const struct graph_type *type = graph_type(b->graph, value);
	const int64_t n = type ? graph_elements(&type->shape) : -1;

	if (!type)
		return GRAPH_NONE;
	if (n >= 0)
		return graph_number(b->graph, type->dtype, (double)n);
	return graph_sum(b->graph, graph_expand(b->graph, graph_number(b->graph, type->dtype, 1), value));
}

/* g divided by the number of elements in each mean. */
RULE(of_mean)
{
	struct graph_value share;

	if (!WANTS(0))
		return;
	share = graph_divide(b->graph, count_of(b, Y(0)), count_of(b, X(0)));
	GIVE(0, graph_expand(b->graph, kept(b, node, graph_times(b->graph, g[0], share)), X(0)));
}

/* Divided equally among all that equal the maximum. */
RULE(of_reduce_max)
{
	const uint8_t dtype = node->outputs[0].dtype;
	struct graph_value greatest, number_of, share;

	if (!WANTS(0))
		return;
	greatest = graph_cast(b->graph, graph_equal(b->graph, X(0), kept(b, node, Y(0))), dtype);
	number_of = graph_node_add(b->graph, GRAPH_SUM, NULL, &greatest, 1, node->attrs, node->attrs_count);
	share = graph_divide(b->graph, g[0], number_of);
	GIVE(0, graph_times(b->graph, greatest, kept(b, node, share)));
}

/* ---- embedding bags ---- */

RULE(of_segment_sum)
{
	if (WANTS(0))
		GIVE(0, graph_gather(b->graph, g[0], graph_cast(b->graph, X(1), STAR_INT64)));
}

RULE(of_segment_mean)
{
	GIVE(0, graph_op3(b->graph, GRAPH_SEGMENT_MEAN_GRAD, g[0], X(1), X(0)));
}

RULE(of_segment_sqrtn)
{
	GIVE(0, graph_op3(b->graph, GRAPH_SEGMENT_SQRTN_GRAD, g[0], X(1), X(0)));
}

/* ---- dense algebra ---- */

static struct graph_value matrix_product(struct backward *b, struct graph_value x, struct graph_value y,
					 bool transpose_x, bool transpose_y)
{
	const struct graph_attr attrs[] = { GRAPH_ATTR_INT("transpose_a", transpose_x),
					    GRAPH_ATTR_INT("transpose_b", transpose_y) };

	return graph_node_add(b->graph, GRAPH_MATMUL, NULL, (struct graph_value[]){ x, y }, 2, attrs, 2);
}

RULE(of_matmul)
{
	const bool ta = graph_attr_int(node, "transpose_a", 0) != 0, tb = graph_attr_int(node, "transpose_b", 0) != 0;

	if (WANTS(0))
		GIVE(0, ta ? matrix_product(b, X(1), g[0], tb, true) : matrix_product(b, g[0], X(1), false, !tb));
	if (WANTS(1))
		GIVE(1, tb ? matrix_product(b, g[0], X(0), true, ta) : matrix_product(b, X(0), g[0], !ta, false));
}

RULE(of_softmax)
{
	GIVE(0, graph_op2(b->graph, GRAPH_SOFTMAX_GRAD, g[0], Y(0)));
}

/* Whether only the first output has a gradient; the others cannot pass one on. */
static bool first_alone(struct backward *b, const struct graph_node *node, const struct graph_value *g)
{
	for (uint32_t i = 1; i < node->outputs_count; i++)
		if (!graph_is_none(g[i])) {
			graph_fail(b->graph, node->name, "output %u of %s has no gradient", i, graph_op_name(node->op));
			return false;
		}
	return true;
}

/* Passes the outputs of a gradient node to the inputs, beginning with the given one. */
static void give_outputs(struct backward *b, const struct graph_node *node, struct graph_value of, uint32_t count)
{
	for (uint32_t i = 0; i < count && !graph_is_none(of); i++)
		GIVE(i, graph_output(of, i));
}

RULE(of_norm)
{
	const struct graph_value inputs[] = { g[0], X(0), X(1), Y(1), Y(2) };
	const bool batch = node->op == GRAPH_BATCH_NORM;

	if (first_alone(b, node, g))
		give_outputs(b, node,
			     graph_node_add(b->graph, batch ? GRAPH_BATCH_NORM_GRAD : GRAPH_LAYER_NORM_GRAD, NULL,
					    inputs, 5, node->attrs, batch ? node->attrs_count : 0),
			     3);
}

RULE(of_attention)
{
	const struct graph_value inputs[] = { g[0], X(0), X(1), X(2), Y(1) };

	if (first_alone(b, node, g))
		give_outputs(b, node,
			     graph_node_add(b->graph, GRAPH_ATTENTION_GRAD, NULL, inputs, 5, node->attrs,
					    node->attrs_count),
			     3);
}

/* ---- losses ---- */

RULE(of_sigmoid_loss)
{
	if (WANTS(0))
		GIVE(0, graph_op3(b->graph, GRAPH_SIGMOID_LOSS_GRAD, g[0], X(0), X(1)));
	if (WANTS(1))
		GIVE(1, graph_neg(b->graph, graph_times(b->graph, g[0], X(0))));
}

RULE(of_softmax_loss)
{
	if (first_alone(b, node, g))
		GIVE(0, graph_op3(b->graph, GRAPH_SOFTMAX_LOSS_GRAD, g[0], Y(1), X(1)));
}

/* ---- what PS tasks hold ---- */

RULE(of_read)
{
	graph_backward_add_dense(b, graph_backward_object(b, graph_resource(b->from, node->inputs[0])), g[0]);
}

RULE(of_lookup)
{
	graph_backward_add_pair(b, graph_backward_object(b, graph_resource(b->from, node->inputs[0])), X(1), g[0]);
}

static backward_rule *const rules[GRAPH_OPS_END] = {
	[GRAPH_READ] = of_read,
	[GRAPH_LOOKUP] = of_lookup,
	[GRAPH_NEG] = of_neg,
	[GRAPH_EXP] = of_exp,
	[GRAPH_LOG] = of_log,
	[GRAPH_SQRT] = of_sqrt,
	[GRAPH_SQUARE] = of_square,
	[GRAPH_ABS] = of_abs,
	[GRAPH_RELU] = of_relu,
	[GRAPH_SIGMOID] = of_sigmoid,
	[GRAPH_TANH] = of_tanh,
	[GRAPH_CAST] = of_cast,
	[GRAPH_ADD] = of_add,
	[GRAPH_SUB] = of_sub,
	[GRAPH_MUL] = of_mul,
	[GRAPH_DIV] = of_div,
	[GRAPH_MAX] = of_max,
	[GRAPH_MIN] = of_min,
	[GRAPH_SELECT] = of_select,
	[GRAPH_ADD_N] = of_add_n,
	[GRAPH_DROPOUT] = of_dropout,
	[GRAPH_IDENTITY] = of_identity,
	[GRAPH_RESHAPE] = of_reshape,
	[GRAPH_TRANSPOSE] = of_transpose,
	[GRAPH_CONCAT] = of_concat,
	[GRAPH_SPLIT] = of_split,
	[GRAPH_SLICE] = of_slice,
	[GRAPH_PAD] = of_pad,
	[GRAPH_PAD_LIKE] = of_pad_like,
	[GRAPH_EXPAND] = of_expand,
	[GRAPH_REDUCE_LIKE] = of_reduce_like,
	[GRAPH_INDEX] = of_index,
	[GRAPH_INDEX_GRAD] = of_index_grad,
	[GRAPH_GATHER] = of_gather,
	[GRAPH_COLUMNS] = of_columns,
	[GRAPH_COLUMNS_GRAD] = of_columns_grad,
	[GRAPH_SCATTER_ADD] = of_scatter_add,
	[GRAPH_HEAD] = of_head,
	[GRAPH_SUM] = of_sum,
	[GRAPH_MEAN] = of_mean,
	[GRAPH_REDUCE_MAX] = of_reduce_max,
	[GRAPH_SEGMENT_SUM] = of_segment_sum,
	[GRAPH_SEGMENT_MEAN] = of_segment_mean,
	[GRAPH_SEGMENT_SQRTN] = of_segment_sqrtn,
	[GRAPH_MATMUL] = of_matmul,
	[GRAPH_SOFTMAX] = of_softmax,
	[GRAPH_LAYER_NORM] = of_norm,
	[GRAPH_BATCH_NORM] = of_norm,
	[GRAPH_ATTENTION] = of_attention,
	[GRAPH_SIGMOID_LOSS] = of_sigmoid_loss,
	[GRAPH_SOFTMAX_LOSS] = of_softmax_loss,
	[GRAPH_WHILE] = graph_gradient_while,
	[GRAPH_COND] = graph_gradient_cond,
};

backward_rule *graph_backward_rule_of(enum graph_op op)
{
	return rules[op];
}

/* An operation without a rule, whose result is not constant, stops the walk with an error: there are no second
 * derivatives. */
bool graph_backward_passes(enum graph_op op)
{
	switch (op) {
	case GRAPH_STOP_GRADIENT:
	case GRAPH_SIGN:
	case GRAPH_RANDOM:
	case GRAPH_LESS:
	case GRAPH_EQUAL:
	case GRAPH_UNIQUE:
	case GRAPH_HASH_CROSS:
	case GRAPH_STEP_ADD:
		return false;
	default:
		return true;
	}
}
