/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and shapes: each operation's rule, and the checks that the rules share. */
#include "graph/shape.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define AXES \
	{ \
		{ "axes", GRAPH_INTS, false }, \
		{ \
			"keep", GRAPH_INT, false \
		} \
	}
#define SEED \
	{ \
		"seed", GRAPH_INT, true \
	}
#define EPSILON \
	{ \
		{ \
			"epsilon", GRAPH_FLOAT, false \
		} \
	}
#define SCALE \
	{ \
		{ \
			"scale", GRAPH_FLOAT, false \
		} \
	}

static const struct graph_rule rules[GRAPH_OPS_END] = {
	[GRAPH_FEED] = { shape_of_feed, { { "dtype", GRAPH_STRING, true }, { "shape", GRAPH_INTS, true } } },
	[GRAPH_CONST] = { shape_of_const, { { "value", GRAPH_TENSOR, true } } },
	[GRAPH_RANDOM] = { shape_of_random,
			   { SEED, { "dtype", GRAPH_STRING, false }, { "shape", GRAPH_INTS, false } } },
	[GRAPH_VARIABLE] = { shape_of_variable,
			     { { "dtype", GRAPH_STRING, true },
			       { "shape", GRAPH_INTS, true },
			       { "trainable", GRAPH_INT, false } } },
	[GRAPH_TABLE] = { shape_of_table,
			  { { "dtype", GRAPH_STRING, true },
			    { "dim", GRAPH_INT, true },
			    { "trainable", GRAPH_INT, false } } },
	[GRAPH_READ] = { shape_of_read, {} },
	[GRAPH_LOOKUP] = { shape_of_lookup, { { "read_only", GRAPH_INT, false } } },
	[GRAPH_APPLY] = { shape_of_apply, { { "rate", GRAPH_FLOAT, false }, { "scale", GRAPH_FLOAT, false } } },
	[GRAPH_APPLY_ROWS] = { shape_of_apply_rows,
			       { { "rate", GRAPH_FLOAT, false }, { "scale", GRAPH_FLOAT, false } } },
	[GRAPH_ASSIGN] = { shape_of_apply, {} },
	[GRAPH_STEP_ADD] = { shape_of_step_add, {} },
	[GRAPH_NEG] = { shape_of_same, {} },
	[GRAPH_EXP] = { shape_of_float, {} },
	[GRAPH_LOG] = { shape_of_float, {} },
	[GRAPH_SQRT] = { shape_of_float, {} },
	[GRAPH_SQUARE] = { shape_of_same, {} },
	[GRAPH_ABS] = { shape_of_same, {} },
	[GRAPH_SIGN] = { shape_of_same, {} },
	[GRAPH_RELU] = { shape_of_float, {} },
	[GRAPH_SIGMOID] = { shape_of_float, {} },
	[GRAPH_TANH] = { shape_of_float, {} },
	[GRAPH_CAST] = { shape_of_cast, { { "dtype", GRAPH_STRING, true } } },
	[GRAPH_ADD] = { shape_of_binary, {} },
	[GRAPH_SUB] = { shape_of_binary, {} },
	[GRAPH_MUL] = { shape_of_binary, {} },
	[GRAPH_DIV] = { shape_of_binary, {} },
	[GRAPH_MAX] = { shape_of_binary, {} },
	[GRAPH_MIN] = { shape_of_binary, {} },
	[GRAPH_LESS] = { shape_of_compare, {} },
	[GRAPH_EQUAL] = { shape_of_compare, {} },
	[GRAPH_SELECT] = { shape_of_select, {} },
	[GRAPH_ADD_N] = { shape_of_add_n, {} },
	[GRAPH_DROPOUT] = { shape_of_dropout, { { "rate", GRAPH_FLOAT, true }, SEED } },
	[GRAPH_IDENTITY] = { shape_of_same, {} },
	[GRAPH_STOP_GRADIENT] = { shape_of_same, {} },
	[GRAPH_RESHAPE] = { shape_of_reshape, { { "shape", GRAPH_INTS, false } } },
	[GRAPH_TRANSPOSE] = { shape_of_transpose, { { "perm", GRAPH_INTS, true } } },
	[GRAPH_CONCAT] = { shape_of_concat, { { "axis", GRAPH_INT, true } } },
	[GRAPH_SPLIT] = { shape_of_split, { { "axis", GRAPH_INT, true }, { "sizes", GRAPH_INTS, true } } },
	[GRAPH_SLICE] = { shape_of_slice, { { "begin", GRAPH_INTS, true }, { "size", GRAPH_INTS, true } } },
	[GRAPH_PAD] = { shape_of_pad, { { "before", GRAPH_INTS, true }, { "after", GRAPH_INTS, true } } },
	[GRAPH_PAD_LIKE] = { shape_of_pad_like, { { "begin", GRAPH_INTS, true } } },
	[GRAPH_EXPAND] = { shape_of_expand, {} },
	[GRAPH_REDUCE_LIKE] = { shape_of_reduce_like, {} },
	[GRAPH_INDEX] = { shape_of_index, {} },
	[GRAPH_INDEX_GRAD] = { shape_of_index_grad, {} },
	[GRAPH_GATHER] = { shape_of_gather, {} },
	[GRAPH_SCATTER_ADD] = { shape_of_scatter_add, {} },
	[GRAPH_COLUMNS] = { shape_of_columns, {} },
	[GRAPH_COLUMNS_GRAD] = { shape_of_columns_grad, {} },
	[GRAPH_HEAD] = { shape_of_head, {} },
	[GRAPH_SUM] = { shape_of_reduction, AXES },
	[GRAPH_MEAN] = { shape_of_reduction, AXES },
	[GRAPH_REDUCE_MAX] = { shape_of_reduction, AXES },
	[GRAPH_SEGMENT_SUM] = { shape_of_segment, {} },
	[GRAPH_SEGMENT_MEAN] = { shape_of_segment, {} },
	[GRAPH_SEGMENT_SQRTN] = { shape_of_segment, {} },
	[GRAPH_SEGMENT_MEAN_GRAD] = { shape_of_segment_grad, {} },
	[GRAPH_SEGMENT_SQRTN_GRAD] = { shape_of_segment_grad, {} },
	[GRAPH_UNIQUE] = { shape_of_unique, {} },
	[GRAPH_HASH_CROSS] = { shape_of_hash_cross, { { "buckets", GRAPH_INT, true }, { "salt", GRAPH_INT, false } } },
	[GRAPH_MATMUL] = { shape_of_matmul,
			   { { "transpose_a", GRAPH_INT, false }, { "transpose_b", GRAPH_INT, false } } },
	[GRAPH_SOFTMAX] = { shape_of_float, {} },
	[GRAPH_SOFTMAX_GRAD] = { shape_of_softmax_grad, {} },
	[GRAPH_LAYER_NORM] = { shape_of_layer_norm, EPSILON },
	[GRAPH_LAYER_NORM_GRAD] = { shape_of_layer_norm_grad, {} },
	[GRAPH_BATCH_NORM] = { shape_of_batch_norm, EPSILON },
	[GRAPH_BATCH_NORM_GRAD] = { shape_of_batch_norm_grad, EPSILON },
	[GRAPH_ATTENTION] = { shape_of_attention, SCALE },
	[GRAPH_ATTENTION_GRAD] = { shape_of_attention_grad, SCALE },
	[GRAPH_SIGMOID_LOSS] = { shape_of_sigmoid_loss, {} },
	[GRAPH_SIGMOID_LOSS_GRAD] = { shape_of_sigmoid_loss, {} },
	[GRAPH_SOFTMAX_LOSS] = { shape_of_softmax_loss, {} },
	[GRAPH_SOFTMAX_LOSS_GRAD] = { shape_of_softmax_loss_grad, {} },
	[GRAPH_WHILE] = { shape_of_while, { { "carried", GRAPH_INT, true }, { "most", GRAPH_INT, true } } },
	[GRAPH_COND] = { shape_of_cond, {} },
};

const struct graph_rule *graph_rule(enum graph_op op)
{
	return &rules[op];
}

/* ---- messages ---- */

int shape_bad(const struct graph_inference *in, const char *format, ...)
{
	char text[400];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return star_error_set(in->err, -EINVAL, "%s: %s", graph_op_name(in->node->op), text);
}

int shape_bad_pair(const struct graph_inference *in, uint32_t a, uint32_t b, const char *why)
{
	char one[GRAPH_SHAPE_TEXT], other[GRAPH_SHAPE_TEXT];

	return shape_bad(in, "input %u is %s, input %u is %s: %s", a, graph_shape_text(&in->in[a].shape, one), b,
			 graph_shape_text(&in->in[b].shape, other), why);
}

static const char *type_name(const struct graph_type *type)
{
	return type->dtype ? dtype_name(type->dtype) : "a variable or table";
}

int shape_want_float(const struct graph_inference *in, uint32_t input)
{
	const unsigned dtype = in->in[input].dtype;

	if (dtype == STAR_FLOAT32 || dtype == STAR_FLOAT64)
		return 0;
	return shape_bad(in, "input %u must be float32 or float64, but is %s", input, type_name(&in->in[input]));
}

int shape_want_dtype(const struct graph_inference *in, uint32_t input, unsigned dtype)
{
	if (in->in[input].dtype == dtype)
		return 0;
	return shape_bad(in, "input %u must be %s, but is %s", input, dtype_name(dtype), type_name(&in->in[input]));
}

int shape_want_same_dtype(const struct graph_inference *in, uint32_t a, uint32_t b)
{
	if (in->in[a].dtype == in->in[b].dtype)
		return 0;
	return shape_bad(in, "input %u is %s, but input %u is %s: cast one of them", a, type_name(&in->in[a]), b,
			 type_name(&in->in[b]));
}

int shape_want_ndim(const struct graph_inference *in, uint32_t input, unsigned least, unsigned most)
{
	const struct graph_shape *shape = &in->in[input].shape;
	char text[GRAPH_SHAPE_TEXT];

	if (shape->ndim >= least && shape->ndim <= most)
		return 0;
	graph_shape_text(shape, text);
	if (least == most)
		return shape_bad(in, "input %u must have %u dimensions, but is %s", input, least, text);
	if (most == GRAPH_DIMS_MAX)
		return shape_bad(in, "input %u must have %u dimensions or more, but is %s", input, least, text);
	return shape_bad(in, "input %u must have %u to %u dimensions, but is %s", input, least, most, text);
}

/* ---- sizes ---- */

bool shape_unify(int64_t *a, int64_t b)
{
	if (*a < 0)
		*a = b;
	return b < 0 || *a == b;
}

bool shape_unify_all(struct graph_shape *a, const struct graph_shape *b)
{
	if (a->ndim != b->ndim)
		return false;
	for (unsigned i = 0; i < a->ndim; i++)
		if (!shape_unify(&a->dims[i], b->dims[i]))
			return false;
	return true;
}

bool shape_broadcast(const struct graph_shape *a, const struct graph_shape *b, struct graph_shape *result)
{
	const unsigned ndim = a->ndim > b->ndim ? a->ndim : b->ndim;

	result->ndim = (uint8_t)ndim;
	for (unsigned i = 0; i < ndim; i++) {
		const int64_t x = i + a->ndim < ndim ? 1 : a->dims[i + a->ndim - ndim];
		const int64_t y = i + b->ndim < ndim ? 1 : b->dims[i + b->ndim - ndim];

		/* Beside a known size other than 1, an unknown one can only be 1 or the same. */
		if (x == 1 || y == 1)
			result->dims[i] = x == 1 ? y : x;
		else if (x < 0 || y < 0 || x == y)
			result->dims[i] = x < 0 ? y : x;
		else
			return false;
	}
	return true;
}

void shape_out(struct graph_inference *in, unsigned dtype, const struct graph_shape *shape)
{
	in->out[in->out_count++] = (struct graph_type){ .dtype = (uint8_t)dtype, .shape = *shape };
}

/* ---- attributes ---- */

int shape_axis(const struct graph_inference *in, const char *name, unsigned ndim, unsigned *axis)
{
	const int64_t given = graph_attr_int(in->node, name, 0);

	*axis = (unsigned)(given < 0 ? given + ndim : given);
	if (given >= -(int64_t)ndim && given < (int64_t)ndim)
		return 0;
	return shape_bad(in, "%s is %lld, but there are %u dimensions", name, (long long)given, ndim);
}

const int64_t *shape_ints(const struct graph_inference *in, const char *name, uint32_t *count)
{
	const struct graph_attr *attr = graph_attr(in->node, name);

	*count = attr->ints_count;
	return attr->ints;
}

int shape_dtype(const struct graph_inference *in, uint8_t *dtype)
{
	const char *name = graph_attr_string(in->node, "dtype", "");

	*dtype = (uint8_t)dtype_parse(name);
	if (*dtype == STAR_FLOAT32 || *dtype == STAR_FLOAT64 || *dtype == STAR_INT32 || *dtype == STAR_INT64)
		return 0;
	return shape_bad(in, "dtype must be float32, float64, int32 or int64, not \"%.40s\"", name);
}

int shape_shape(const struct graph_inference *in, int64_t least, struct graph_shape *shape)
{
	uint32_t count;
	const int64_t *dims = shape_ints(in, "shape", &count);

	if (count > GRAPH_DIMS_MAX)
		return shape_bad(in, "shape has %u dimensions; at most %d are allowed", count, GRAPH_DIMS_MAX);
	shape->ndim = (uint8_t)count;
	for (uint32_t i = 0; i < count; i++) {
		if (dims[i] < least)
			return shape_bad(in, "dimension %u of shape is %lld; it must be at least %lld", i,
					 (long long)dims[i], (long long)least);
		shape->dims[i] = dims[i];
	}
	return 0;
}

/* "axes, keep" */
static void list_attrs(const struct graph_rule *rule, char *text, size_t bytes)
{
	size_t at = 0;

	snprintf(text, bytes, "none");
	for (const struct graph_attr_rule *attr = rule->attrs; attr->name && at < bytes; attr++)
		at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? ", " : "", attr->name);
}

static int check_attr(const struct graph_inference *in, const struct graph_rule *rule, const struct graph_attr *attr)
{
	static const char *const kinds[] = { "", "an integer", "a number", "a text", "a list of integers", "a tensor" };
	/* Other attributes are options of the definition, which are checked when it is created. */
	const bool open = in->node->op == GRAPH_VARIABLE || in->node->op == GRAPH_TABLE;
	const struct graph_attr_rule *known = rule->attrs;
	char names[120];

	while (known->name && strcmp(known->name, attr->name) != 0)
		known++;
	if (known->name) {
		if (attr->kind == known->kind || (known->kind == GRAPH_FLOAT && attr->kind == GRAPH_INT))
			return 0;
		return shape_bad(in, "attribute %s must be %s", known->name, kinds[known->kind]);
	}
	if (open && attr->kind != GRAPH_INTS && attr->kind != GRAPH_TENSOR)
		return 0;
	if (open)
		return shape_bad(in, "option %.60s must be an integer, a number or a text", attr->name);
	list_attrs(rule, names, sizeof(names));
	return shape_bad(in, "it has no attribute \"%.60s\"; its attributes: %s", attr->name, names);
}

static int check_attrs(const struct graph_inference *in, const struct graph_rule *rule)
{
	for (uint32_t i = 0; i < in->node->attrs_count; i++) {
		const int rc = check_attr(in, rule, &in->node->attrs[i]);

		if (rc < 0)
			return rc;
	}
	for (const struct graph_attr_rule *attr = rule->attrs; attr->name; attr++)
		if (attr->required && !graph_attr(in->node, attr->name))
			return shape_bad(in, "attribute %s is missing", attr->name);
	return 0;
}

bool shape_fits(const struct graph_shape *shape)
{
	int64_t n = 1;

	for (unsigned i = 0; i < shape->ndim; i++) {
		if (shape->dims[i] > GRAPH_ELEMENTS_MAX / n)
			return false;
		n *= shape->dims[i] > 1 ? shape->dims[i] : 1;
	}
	return true;
}

static int check_output(const struct graph_inference *in, uint32_t output)
{
	const struct graph_shape *shape = &in->out[output].shape;
	char text[GRAPH_SHAPE_TEXT];

	if (shape_fits(shape))
		return 0;
	return shape_bad(in, "output %u would be %s: more than 2^48 elements", output, graph_shape_text(shape, text));
}

int graph_infer(const struct graph_node *node, const struct graph_type *inputs, struct graph_type *outputs,
		uint32_t *outputs_count, struct star_error *err)
{
	struct graph_inference in = {
		.node = node, .in = inputs, .in_count = node->inputs_count, .out = outputs, .err = err
	};
	const struct graph_rule *rule = graph_rule(node->op);
	int rc = check_attrs(&in, rule);

	if (rc == 0)
		rc = rule->infer(&in);
	for (uint32_t i = 0; rc == 0 && i < in.out_count; i++)
		rc = check_output(&in, i);
	*outputs_count = rc == 0 ? in.out_count : 0;
	return rc;
}
