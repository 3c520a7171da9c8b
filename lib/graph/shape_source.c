/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and shapes of what values begin with: feeds, constants, random numbers, variables and tables on PS tasks. */
#include <errno.h>

#include "graph/shape.h"

int shape_of_feed(struct graph_inference *in)
{
	struct graph_shape shape = { 0 };
	uint8_t dtype;
	int rc = shape_dtype(in, &dtype);

	if (rc == 0)
		rc = shape_shape(in, -1, &shape);
	if (rc == 0)
		shape_out(in, dtype, &shape);
	return rc;
}

int shape_of_const(struct graph_inference *in)
{
	const struct graph_type *type = &graph_attr(in->node, "value")->type;

	shape_out(in, type->dtype, &type->shape);
	return 0;
}

int shape_of_random(struct graph_inference *in)
{
	const bool given = graph_attr(in->node, "shape") && graph_attr(in->node, "dtype");

	if (in->in_count == 1) {
		if (graph_attr(in->node, "shape") || graph_attr(in->node, "dtype"))
			return shape_bad(in, "dtype and shape are those of its input: remove the attributes");
		return shape_of_float(in);
	}
	if (!given)
		return shape_bad(in, "it needs dtype and shape, or an input that has them");
	if (shape_of_feed(in) < 0)
		return -EINVAL;
	if (in->out[0].dtype != STAR_FLOAT32 && in->out[0].dtype != STAR_FLOAT64)
		return shape_bad(in, "dtype must be float32 or float64");
	for (unsigned i = 0; i < in->out[0].shape.ndim; i++)
		if (in->out[0].shape.dims[i] < 0)
			return shape_bad(in, "shape must be fully known: give it an input of that shape instead");
	return 0;
}

/* ---- variables and tables ---- */

static int out_handle(struct graph_inference *in, const struct graph_shape *shape)
{
	const char *name = graph_attr_string(in->node, "dtype", "");
	const unsigned dtype = dtype_parse(name);

	if (dtype == 0 || dtype == STAR_INT8)
		return shape_bad(in,
				 "dtype must be one of float32, float16, bfloat16, float64, scaled_int8, int32 and "
				 "int64, not \"%.40s\"",
				 name);
	shape_out(in, 0, shape);
	in->out[0].element = (uint8_t)(dtype_is_real(dtype) && dtype != STAR_FLOAT64 ? STAR_FLOAT32 : dtype);
	return 0;
}

int shape_of_variable(struct graph_inference *in)
{
	struct graph_shape shape = { 0 };
	const int rc = shape_shape(in, 1, &shape);

	return rc < 0 ? rc : out_handle(in, &shape);
}

int shape_of_table(struct graph_inference *in)
{
	const int64_t dim = graph_attr_int(in->node, "dim", 0);
	const struct graph_shape shape = { .ndim = 2, .dims = { -1, dim } };

	if (dim < 1)
		return shape_bad(in, "dim must be at least 1, not %lld", (long long)dim);
	return out_handle(in, &shape);
}

/* Tables have an unknown number of rows; all dimensions of variables are known. */
static bool is_table(const struct graph_type *handle)
{
	return handle->shape.ndim == 2 && handle->shape.dims[0] < 0;
}

static int want_variable(const struct graph_inference *in)
{
	if (is_table(&in->in[0]))
		return shape_bad(in, "input 0 is a table, but must be a variable");
	return 0;
}

static int want_trained(const struct graph_inference *in)
{
	const unsigned element = in->in[0].element;

	if (element == STAR_FLOAT32 || element == STAR_FLOAT64)
		return 0;
	return shape_bad(in, "input 0 holds %s, and only floats have gradients", dtype_name(element));
}

int shape_of_read(struct graph_inference *in)
{
	const int rc = want_variable(in);

	if (rc == 0)
		shape_out(in, in->in[0].element, &in->in[0].shape);
	return rc;
}

/* [ids..., shape of a row of the handle] */
static int rows_shape(const struct graph_inference *in, struct graph_shape *shape)
{
	const struct graph_shape *handle = &in->in[0].shape, *ids = &in->in[1].shape;
	int rc = shape_want_ndim(in, 0, 1, GRAPH_DIMS_MAX);

	if (rc == 0)
		rc = shape_want_dtype(in, 1, STAR_INT64);
	if (rc < 0)
		return rc;
	if (ids->ndim + handle->ndim - 1u > GRAPH_DIMS_MAX)
		return shape_bad_pair(in, 0, 1, "rows would have more than 8 dimensions");
	*shape = *ids;
	for (unsigned i = 1; i < handle->ndim; i++)
		shape->dims[shape->ndim++] = handle->dims[i];
	return 0;
}

int shape_of_lookup(struct graph_inference *in)
{
	struct graph_shape shape;
	const int rc = rows_shape(in, &shape);

	if (rc == 0)
		shape_out(in, in->in[0].element, &shape);
	return rc;
}

static int want_element(const struct graph_inference *in, uint32_t input)
{
	return shape_want_dtype(in, input, in->in[0].element);
}

int shape_of_apply(struct graph_inference *in)
{
	struct graph_shape shape = in->in[0].shape;
	int rc = want_variable(in);

	if (rc == 0)
		rc = want_element(in, 1);
	if (rc == 0 && in->node->op == GRAPH_APPLY)
		rc = want_trained(in);
	if (rc < 0)
		return rc;
	if (!shape_unify_all(&shape, &in->in[1].shape))
		return shape_bad_pair(in, 0, 1, "their shapes must be equal");
	return 0;
}

int shape_of_apply_rows(struct graph_inference *in)
{
	struct graph_shape shape;
	char rows[GRAPH_SHAPE_TEXT], given[GRAPH_SHAPE_TEXT];
	int rc = rows_shape(in, &shape);

	if (rc == 0)
		rc = want_element(in, 2);
	if (rc == 0)
		rc = want_trained(in);
	if (rc < 0)
		return rc;
	graph_shape_text(&shape, rows);
	if (!shape_unify_all(&shape, &in->in[2].shape))
		return shape_bad(in, "gradients of these ids must be %s, not %s", rows,
				 graph_shape_text(&in->in[2].shape, given));
	return 0;
}

int shape_of_step_add(struct graph_inference *in)
{
	if (in->in[0].element != STAR_FLOAT64 || graph_elements(&in->in[0].shape) != 1)
		return shape_bad(in, "it needs a float64 variable of one element");
	return shape_of_read(in);
}
