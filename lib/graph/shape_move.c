/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and shapes of operations that move elements: reshape, concat, slice, gather and their kind. */
#include "graph/shape.h"

/* The attribute shape, with at most one -1, which is computed from the rest. */
static int wanted_shape(struct graph_inference *in, struct graph_shape *shape)
{
	const int64_t n = graph_elements(&in->in[0].shape);
	char from[GRAPH_SHAPE_TEXT], to[GRAPH_SHAPE_TEXT];
	int64_t rest = 1;
	int open = -1;
	int rc;

	if (!graph_attr(in->node, "shape"))
		return shape_bad(in, "attribute shape is missing: give it, or a second input of that shape");
	rc = shape_shape(in, -1, shape);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < shape->ndim; i++) {
		if (shape->dims[i] < 0 && open >= 0)
			return shape_bad(in, "only one dimension of shape may be -1");
		if (shape->dims[i] < 0)
			open = (int)i;
		else if (shape->dims[i] > 0 && rest > GRAPH_ELEMENTS_MAX / shape->dims[i])
			return shape_bad(in, "shape has more than 2^48 elements");
		else
			rest *= shape->dims[i];
	}
	graph_shape_text(&in->in[0].shape, from);
	graph_shape_text(shape, to);
	if (open >= 0 && rest == 0)
		return shape_bad(in, "%s: with a dimension of 0 none may be -1", to);
	if (n < 0)
		return 0;
	if (open >= 0 && n % rest == 0)
		shape->dims[open] = n / rest;
	else if (open >= 0 || n != rest)
		return shape_bad(in, "%s and %s differ in their number of elements", from, to);
	return 0;
}

int shape_of_reshape(struct graph_inference *in)
{
	struct graph_shape shape = { 0 };
	int rc = 0;

	if (in->in_count == 1) {
		rc = wanted_shape(in, &shape);
	} else {
		const int64_t n = graph_elements(&in->in[0].shape), m = graph_elements(&in->in[1].shape);

		if (graph_attr(in->node, "shape"))
			return shape_bad(in, "the shape is that of its second input: remove the attribute");
		if (n >= 0 && m >= 0 && n != m)
			return shape_bad_pair(in, 0, 1, "they differ in their number of elements");
		shape = in->in[1].shape;
	}
	if (rc == 0)
		shape_out(in, in->in[0].dtype, &shape);
	return rc;
}

int shape_of_transpose(struct graph_inference *in)
{
	const struct graph_shape *x = &in->in[0].shape;
	struct graph_shape shape = *x;
	unsigned seen = 0;
	uint32_t count;
	const int64_t *perm = shape_ints(in, "perm", &count);
	char text[GRAPH_SHAPE_TEXT];

	for (uint32_t i = 0; i < count && count == x->ndim; i++)
		if (perm[i] >= 0 && perm[i] < x->ndim) {
			seen |= 1u << perm[i];
			shape.dims[i] = x->dims[perm[i]];
		}
	if (count != x->ndim || seen != (1u << x->ndim) - 1)
		return shape_bad(in, "perm must have each of 0 to %d once, for %s", x->ndim - 1,
				 graph_shape_text(x, text));
	shape_out(in, in->in[0].dtype, &shape);
	return 0;
}

int shape_of_concat(struct graph_inference *in)
{
	struct graph_shape shape = in->in[0].shape;
	unsigned axis;
	int64_t sum = 0;
	int rc = shape_axis(in, "axis", shape.ndim, &axis);

	for (uint32_t i = 0; rc == 0 && i < in->in_count; i++) {
		struct graph_shape other = in->in[i].shape;

		rc = shape_want_same_dtype(in, 0, i);
		if (rc < 0)
			return rc;
		if (other.ndim != shape.ndim)
			return shape_bad_pair(in, 0, i, "they differ in their number of dimensions");
		sum = sum < 0 || other.dims[axis] < 0 ? -1 : sum + other.dims[axis];
		other.dims[axis] = shape.dims[axis] = -1;
		if (!shape_unify_all(&shape, &other))
			return shape_bad_pair(in, 0, i, "they may differ along axis only");
	}
	if (rc < 0)
		return rc;
	shape.dims[axis] = sum;
	shape_out(in, in->in[0].dtype, &shape);
	return 0;
}

int shape_of_split(struct graph_inference *in)
{
	struct graph_shape shape = in->in[0].shape;
	char text[GRAPH_SHAPE_TEXT];
	uint32_t count;
	const int64_t *sizes = shape_ints(in, "sizes", &count);
	int64_t sum = 0;
	unsigned axis;
	const int rc = shape_axis(in, "axis", shape.ndim, &axis);

	if (rc < 0)
		return rc;
	if (count < 1 || count > GRAPH_OUTPUTS_MAX)
		return shape_bad(in, "there must be 1 to %d sizes, not %u", GRAPH_OUTPUTS_MAX, count);
	for (uint32_t i = 0; i < count; i++) {
		if (sizes[i] < 0 || sizes[i] > GRAPH_ELEMENTS_MAX)
			return shape_bad(in, "size %u is %lld; it must be from 0 to 2^48", i, (long long)sizes[i]);
		sum += sizes[i];
	}
	if (shape.dims[axis] >= 0 && shape.dims[axis] != sum)
		return shape_bad(in, "the sum of sizes is %lld, which differs from dimension %u of %s", (long long)sum,
				 axis, graph_shape_text(&in->in[0].shape, text));
	for (uint32_t i = 0; i < count; i++) {
		shape.dims[axis] = sizes[i];
		shape_out(in, in->in[0].dtype, &shape);
	}
	return 0;
}

/* An attribute's integers, one per dimension of input 0, each at least `least`. */
static int dims_attr(const struct graph_inference *in, const char *name, int64_t least, const int64_t **ints)
{
	const struct graph_shape *x = &in->in[0].shape;
	char text[GRAPH_SHAPE_TEXT];
	uint32_t count;

	*ints = shape_ints(in, name, &count);
	if (count != x->ndim)
		return shape_bad(in, "%s has %u numbers; it must have one per dimension of %s", name, count,
				 graph_shape_text(x, text));
	for (uint32_t i = 0; i < count; i++)
		if ((*ints)[i] < least || (*ints)[i] > GRAPH_ELEMENTS_MAX)
			return shape_bad(in, "number %u of %s is out of range: %lld", i, name, (long long)(*ints)[i]);
	return 0;
}

int shape_of_slice(struct graph_inference *in)
{
	struct graph_shape shape = in->in[0].shape;
	char text[GRAPH_SHAPE_TEXT];
	const int64_t *begin, *size;
	int rc = dims_attr(in, "begin", 0, &begin);

	if (rc == 0)
		rc = dims_attr(in, "size", -1, &size);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < shape.ndim; i++) {
		const int64_t n = shape.dims[i];

		if (n >= 0 && (begin[i] > n || size[i] > n - begin[i]))
			return shape_bad(in, "%lld elements from %lld on are outside dimension %u of %s",
					 (long long)size[i], (long long)begin[i], i,
					 graph_shape_text(&in->in[0].shape, text));
		shape.dims[i] = size[i] >= 0 ? size[i] : n >= 0 ? n - begin[i] : -1;
	}
	shape_out(in, in->in[0].dtype, &shape);
	return 0;
}

int shape_of_pad(struct graph_inference *in)
{
	struct graph_shape shape = in->in[0].shape;
	const int64_t *before, *after;
	int rc = dims_attr(in, "before", 0, &before);

	if (rc == 0)
		rc = dims_attr(in, "after", 0, &after);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < shape.ndim; i++)
		if (shape.dims[i] >= 0)
			shape.dims[i] += before[i] + after[i];
	shape_out(in, in->in[0].dtype, &shape);
	return 0;
}

int shape_of_pad_like(struct graph_inference *in)
{
	const struct graph_shape *x = &in->in[0].shape, *like = &in->in[1].shape;
	const int64_t *begin;
	const int rc = dims_attr(in, "begin", 0, &begin);

	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < x->ndim; i++)
		if (like->ndim != x->ndim ||
		    (like->dims[i] >= 0 && (begin[i] > like->dims[i] || x->dims[i] > like->dims[i] - begin[i])))
			return shape_bad_pair(in, 0, 1, "the first does not fit in the second");
	if (like->ndim != x->ndim)
		return shape_bad_pair(in, 0, 1, "the first does not fit in the second");
	shape_out(in, in->in[0].dtype, like);
	return 0;
}

/* Whether small can be broadcast to big, as far as is known. */
static bool broadcasts_to(const struct graph_shape *small, const struct graph_shape *big)
{
	struct graph_shape both;

	if (small->ndim > big->ndim || !shape_broadcast(small, big, &both))
		return false;
	for (unsigned i = 0; i < big->ndim; i++)
		if (big->dims[i] >= 0 && both.dims[i] >= 0 && both.dims[i] != big->dims[i])
			return false;
	return true;
}

int shape_of_expand(struct graph_inference *in)
{
	if (!broadcasts_to(&in->in[0].shape, &in->in[1].shape))
		return shape_bad_pair(in, 0, 1, "the first cannot be broadcast to the second");
	shape_out(in, in->in[0].dtype, &in->in[1].shape);
	return 0;
}

int shape_of_reduce_like(struct graph_inference *in)
{
	if (!broadcasts_to(&in->in[1].shape, &in->in[0].shape))
		return shape_bad_pair(in, 0, 1, "the second cannot be broadcast to the first");
	shape_out(in, in->in[0].dtype, &in->in[1].shape);
	return 0;
}

/* For x[i]: the shape of an element of x. */
static int want_index(const struct graph_inference *in, uint32_t x, uint32_t index)
{
	int rc = shape_want_ndim(in, x, 1, GRAPH_DIMS_MAX);

	if (rc == 0)
		rc = shape_want_dtype(in, index, STAR_INT64);
	if (rc == 0)
		rc = shape_want_ndim(in, index, 0, 0);
	return rc;
}

/* The dimensions of a shape from the given one on. */
static struct graph_shape tail(const struct graph_shape *shape, unsigned from)
{
	struct graph_shape rest = { 0 };

	for (unsigned i = from; i < shape->ndim; i++)
		rest.dims[rest.ndim++] = shape->dims[i];
	return rest;
}

int shape_of_index(struct graph_inference *in)
{
	const int rc = want_index(in, 0, 1);
	const struct graph_shape rest = tail(&in->in[0].shape, 1);

	if (rc == 0)
		shape_out(in, in->in[0].dtype, &rest);
	return rc;
}

int shape_of_index_grad(struct graph_inference *in)
{
	struct graph_shape rest = tail(&in->in[2].shape, 1);
	int rc = want_index(in, 2, 1);

	if (rc == 0)
		rc = shape_want_same_dtype(in, 0, 2);
	if (rc < 0)
		return rc;
	if (!shape_unify_all(&rest, &in->in[0].shape))
		return shape_bad_pair(in, 0, 2, "the first must have the shape of an element of the last");
	shape_out(in, in->in[0].dtype, &in->in[2].shape);
	return 0;
}

int shape_of_gather(struct graph_inference *in)
{
	const struct graph_shape *x = &in->in[0].shape;
	struct graph_shape shape = in->in[1].shape;
	int rc = shape_want_ndim(in, 0, 1, GRAPH_DIMS_MAX);

	if (rc == 0)
		rc = shape_want_dtype(in, 1, STAR_INT64);
	if (rc < 0)
		return rc;
	if (shape.ndim + x->ndim - 1u > GRAPH_DIMS_MAX)
		return shape_bad_pair(in, 0, 1, "the result would have more than 8 dimensions");
	for (unsigned i = 1; i < x->ndim; i++)
		shape.dims[shape.ndim++] = x->dims[i];
	shape_out(in, in->in[0].dtype, &shape);
	return 0;
}

int shape_of_columns(struct graph_inference *in)
{
	struct graph_shape shape = in->in[0].shape;
	int rc = shape_want_ndim(in, 0, 2, 2);

	if (rc == 0)
		rc = shape_want_ndim(in, 1, 1, 1);
	if (rc == 0)
		rc = shape_want_dtype(in, 1, STAR_INT64);
	if (rc < 0)
		return rc;
	shape.dims[1] = in->in[1].shape.dims[0];
	shape_out(in, in->in[0].dtype, &shape);
	return 0;
}

int shape_of_columns_grad(struct graph_inference *in)
{
	struct graph_shape taken = in->in[2].shape;
	int rc = shape_want_ndim(in, 2, 2, 2);

	if (rc == 0)
		rc = shape_want_ndim(in, 1, 1, 1);
	if (rc == 0)
		rc = shape_want_dtype(in, 1, STAR_INT64);
	if (rc == 0)
		rc = shape_want_float(in, 0);
	if (rc == 0)
		rc = shape_want_same_dtype(in, 0, 2);
	if (rc < 0)
		return rc;
	taken.dims[1] = in->in[1].shape.dims[0];
	if (!shape_unify_all(&taken, &in->in[0].shape))
		return shape_bad_pair(in, 0, 2, "the first must be [n, m], the second [m], the last [n, k]");
	shape_out(in, in->in[0].dtype, &in->in[2].shape);
	return 0;
}

int shape_of_scatter_add(struct graph_inference *in)
{
	const struct graph_shape *g = &in->in[0].shape, *i = &in->in[1].shape, *x = &in->in[2].shape;
	struct graph_shape index = *g, rest = tail(g, i->ndim), wanted = tail(x, 1);
	int rc = shape_want_ndim(in, 2, 1, GRAPH_DIMS_MAX);

	if (rc == 0)
		rc = shape_want_same_dtype(in, 0, 2);
	if (rc == 0)
		rc = shape_want_dtype(in, 1, STAR_INT64);
	if (rc < 0)
		return rc;
	if (g->ndim != i->ndim + x->ndim - 1)
		return shape_bad_pair(in, 0, 1, "the first must be [m..., ...], the second [m...]");
	index.ndim = i->ndim;
	if (!shape_unify_all(&index, i))
		return shape_bad_pair(in, 0, 1, "the first must be [m..., ...], the second [m...]");
	if (!shape_unify_all(&rest, &wanted))
		return shape_bad_pair(in, 0, 2, "the first must be [m..., ...], the last [n, ...]");
	shape_out(in, in->in[0].dtype, x);
	return 0;
}

/* If the count is a constant, the number of rows is known (graph.c has set it). */
int shape_of_head(struct graph_inference *in)
{
	struct graph_shape shape = in->in[0].shape;
	const int64_t rows = in->node->outputs ? in->node->outputs[0].shape.dims[0] : -1;
	const int rc = want_index(in, 0, 1);

	if (rc == 0 && shape.dims[0] >= 0 && rows > shape.dims[0])
		return shape_bad(in, "it has %lld rows, but its count is %lld", (long long)shape.dims[0],
				 (long long)rows);
	shape.dims[0] = rows;
	if (rc == 0)
		shape_out(in, in->in[0].dtype, &shape);
	return rc;
}
