/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and shapes of elementwise operations, reductions, dense algebra and losses. */
#include <errno.h>

#include "graph/shape.h"

int shape_of_same(struct graph_inference *in)
{
	in->out[in->out_count++] = in->in[0];
	return 0;
}

int shape_of_float(struct graph_inference *in)
{
	int rc = shape_want_float(in, 0);

	if (rc == 0 && in->node->op == GRAPH_SOFTMAX)
		rc = shape_want_ndim(in, 0, 1, GRAPH_DIMS_MAX);
	return rc < 0 ? rc : shape_of_same(in);
}

int shape_of_cast(struct graph_inference *in)
{
	uint8_t dtype;
	const int rc = shape_dtype(in, &dtype);

	if (rc == 0)
		shape_out(in, dtype, &in->in[0].shape);
	return rc;
}

static int out_broadcast(struct graph_inference *in, unsigned dtype)
{
	struct graph_shape shape;

	if (!shape_broadcast(&in->in[0].shape, &in->in[1].shape, &shape))
		return shape_bad_pair(in, 0, 1, "their shapes cannot be broadcast together");
	shape_out(in, dtype, &shape);
	return 0;
}

int shape_of_binary(struct graph_inference *in)
{
	int rc = shape_want_same_dtype(in, 0, 1);

	if (rc == 0 && in->node->op == GRAPH_DIV)
		rc = shape_want_float(in, 0);
	return rc < 0 ? rc : out_broadcast(in, in->in[0].dtype);
}

int shape_of_compare(struct graph_inference *in)
{
	const int rc = shape_want_same_dtype(in, 0, 1);

	return rc < 0 ? rc : out_broadcast(in, STAR_INT32);
}

int shape_of_select(struct graph_inference *in)
{
	struct graph_shape both, all;
	int rc = shape_want_dtype(in, 0, STAR_INT32);

	if (rc == 0)
		rc = shape_want_same_dtype(in, 1, 2);
	if (rc < 0)
		return rc;
	if (!shape_broadcast(&in->in[1].shape, &in->in[2].shape, &both))
		return shape_bad_pair(in, 1, 2, "their shapes cannot be broadcast together");
	if (!shape_broadcast(&in->in[0].shape, &both, &all))
		return shape_bad_pair(in, 0, 1, "their shapes cannot be broadcast together");
	shape_out(in, in->in[1].dtype, &all);
	return 0;
}

/* All inputs from first to last must have one type and shape; combines what is known of the shape. */
static int want_alike(const struct graph_inference *in, uint32_t first, uint32_t last, struct graph_shape *shape)
{
	*shape = in->in[first].shape;
	for (uint32_t i = first; i <= last; i++) {
		const int rc = shape_want_same_dtype(in, first, i);

		if (rc < 0)
			return rc;
		if (!shape_unify_all(shape, &in->in[i].shape))
			return shape_bad_pair(in, first, i, "their shapes must be equal");
	}
	return 0;
}

int shape_of_add_n(struct graph_inference *in)
{
	struct graph_shape shape;
	const int rc = want_alike(in, 0, in->in_count - 1, &shape);

	if (rc == 0)
		shape_out(in, in->in[0].dtype, &shape);
	return rc;
}

int shape_of_dropout(struct graph_inference *in)
{
	const double rate = graph_attr_float(in->node, "rate", 0);

	if (!(rate >= 0 && rate < 1))
		return shape_bad(in, "rate must be in [0, 1), not %g", rate);
	return shape_of_float(in);
}

int shape_of_reduction(struct graph_inference *in)
{
	const struct graph_shape *x = &in->in[0].shape;
	const bool keep = graph_attr_int(in->node, "keep", 0) != 0;
	struct graph_shape shape = { 0 };
	bool gone[GRAPH_DIMS_MAX] = { false };
	uint32_t count = 0;
	const int64_t *axes = graph_attr(in->node, "axes") ? shape_ints(in, "axes", &count) : NULL;

	if (in->node->op == GRAPH_MEAN && shape_want_float(in, 0) < 0)
		return -EINVAL;
	for (unsigned i = 0; i < x->ndim; i++)
		gone[i] = !axes;
	for (uint32_t i = 0; i < count; i++) {
		const int64_t axis = axes[i] < 0 ? axes[i] + x->ndim : axes[i];

		if (axes[i] < -(int64_t)x->ndim || axes[i] >= (int64_t)x->ndim)
			return shape_bad(in, "axis is %lld, but there are %u dimensions", (long long)axes[i], x->ndim);
		if (gone[axis])
			return shape_bad(in, "axis %lld is given twice", (long long)axes[i]);
		gone[axis] = true;
	}
	for (unsigned i = 0; i < x->ndim; i++)
		if (!gone[i] || keep)
			shape.dims[shape.ndim++] = gone[i] ? 1 : x->dims[i];
	shape_out(in, in->in[0].dtype, &shape);
	return 0;
}

int shape_of_matmul(struct graph_inference *in)
{
	const bool ta = graph_attr_int(in->node, "transpose_a", 0) != 0;
	const bool tb = graph_attr_int(in->node, "transpose_b", 0) != 0;
	const struct graph_shape *a = &in->in[0].shape, *b = &in->in[1].shape;
	struct graph_shape shape = *a;
	int64_t inner;
	int rc = shape_want_float(in, 0);

	if (rc == 0)
		rc = shape_want_same_dtype(in, 0, 1);
	if (rc == 0)
		rc = shape_want_ndim(in, 0, 2, GRAPH_DIMS_MAX);
	if (rc < 0)
		return rc;
	if (a->ndim != b->ndim)
		return shape_bad_pair(in, 0, 1,
				      "both must be matrices, or batches of matrices with equal leading dimensions");
	for (unsigned i = 0; i + 2 < a->ndim; i++)
		if (!shape_unify(&shape.dims[i], b->dims[i]))
			return shape_bad_pair(in, 0, 1, "leading dimensions must be equal");
	inner = a->dims[a->ndim - (ta ? 2 : 1)];
	if (!shape_unify(&inner, b->dims[b->ndim - (tb ? 1 : 2)]))
		return shape_bad_pair(in, 0, 1,
				      ta || tb ? "inner dimensions differ (after transposing)"
					       : "inner dimensions differ");
	shape.dims[a->ndim - 2] = a->dims[a->ndim - (ta ? 1 : 2)];
	shape.dims[a->ndim - 1] = b->dims[b->ndim - (tb ? 2 : 1)];
	shape_out(in, in->in[0].dtype, &shape);
	return 0;
}

int shape_of_softmax_grad(struct graph_inference *in)
{
	const int rc = shape_want_float(in, 0);

	return rc < 0 ? rc : shape_of_add_n(in);
}

/* ---- norms ---- */

/* Whether an input is a vector [k] of the type of input 0. */
static int want_vector(const struct graph_inference *in, uint32_t input, int64_t *k)
{
	int rc = shape_want_same_dtype(in, 0, input);

	if (rc == 0)
		rc = shape_want_ndim(in, input, 1, 1);
	if (rc < 0)
		return rc;
	if (!shape_unify(k, in->in[input].shape.dims[0]))
		return shape_bad_pair(in, 0, input, "the last dimensions must be equal");
	return 0;
}

/* x at input `x`, followed by gamma and perhaps beta; combines what is known of the last dimension. */
static int want_norm(const struct graph_inference *in, uint32_t x, uint32_t vectors, struct graph_shape *shape)
{
	int rc = shape_want_float(in, x);

	if (rc == 0)
		rc = shape_want_ndim(in, x, 1, GRAPH_DIMS_MAX);
	if (rc < 0)
		return rc;
	if (x > 0)
		rc = want_alike(in, 0, x, shape);
	else
		*shape = in->in[x].shape;
	for (uint32_t i = 1; rc == 0 && i <= vectors; i++)
		rc = want_vector(in, x + i, &shape->dims[shape->ndim - 1]);
	return rc;
}

static void last_of(const struct graph_shape *shape, struct graph_shape *vector)
{
	*vector = (struct graph_shape){ .ndim = 1, .dims = { shape->dims[shape->ndim - 1] } };
}

int shape_of_layer_norm(struct graph_inference *in)
{
	struct graph_shape shape;
	const int rc = want_norm(in, 0, 2, &shape);

	if (rc < 0)
		return rc;
	shape_out(in, in->in[0].dtype, &shape);
	shape.ndim--;
	shape_out(in, in->in[0].dtype, &shape);
	shape_out(in, in->in[0].dtype, &shape);
	return 0;
}

static void out_norm_grad(struct graph_inference *in, const struct graph_shape *shape)
{
	struct graph_shape vector;

	last_of(shape, &vector);
	shape_out(in, in->in[0].dtype, shape);
	shape_out(in, in->in[0].dtype, &vector);
	shape_out(in, in->in[0].dtype, &vector);
}

int shape_of_layer_norm_grad(struct graph_inference *in)
{
	struct graph_shape shape, rows;
	const int rc = want_norm(in, 1, 1, &shape);

	if (rc < 0)
		return rc;
	rows = shape;
	rows.ndim--;
	for (uint32_t i = 3; i <= 4; i++) {
		if (shape_want_same_dtype(in, 0, i) < 0)
			return -EINVAL;
		if (!shape_unify_all(&rows, &in->in[i].shape))
			return shape_bad_pair(in, 0, i,
					      "it must have the shape of the first without its last dimension");
	}
	out_norm_grad(in, &shape);
	return 0;
}

int shape_of_batch_norm(struct graph_inference *in)
{
	struct graph_shape shape, vector;
	const int rc = want_norm(in, 0, 2, &shape);

	if (rc < 0)
		return rc;
	last_of(&shape, &vector);
	shape_out(in, in->in[0].dtype, &shape);
	shape_out(in, in->in[0].dtype, &vector);
	shape_out(in, in->in[0].dtype, &vector);
	return 0;
}

int shape_of_batch_norm_grad(struct graph_inference *in)
{
	struct graph_shape shape;
	const int rc = want_norm(in, 1, 3, &shape);

	if (rc == 0)
		out_norm_grad(in, &shape);
	return rc;
}

/* ---- attention ---- */

/* q [b, m, k], k [b, n, k], v [b, n, d] from input `first` on. */
static int want_attention(const struct graph_inference *in, uint32_t first, int64_t *b, int64_t *m, int64_t *n,
			  int64_t *k, int64_t *d)
{
	const struct graph_type *q = &in->in[first], *key = q + 1, *v = q + 2;

	for (uint32_t i = first; i < first + 3; i++) {
		int rc = shape_want_float(in, i);

		if (rc == 0)
			rc = shape_want_same_dtype(in, first, i);
		if (rc == 0)
			rc = shape_want_ndim(in, i, 3, 3);
		if (rc < 0)
			return rc;
	}
	*b = q->shape.dims[0];
	*m = q->shape.dims[1];
	*k = q->shape.dims[2];
	*n = key->shape.dims[1];
	*d = v->shape.dims[2];
	if (!shape_unify(b, key->shape.dims[0]) || !shape_unify(k, key->shape.dims[2]))
		return shape_bad_pair(in, first, first + 1, "queries must be [b, m, k], keys [b, n, k]");
	if (!shape_unify(b, v->shape.dims[0]) || !shape_unify(n, v->shape.dims[1]))
		return shape_bad_pair(in, first + 1, first + 2, "keys must be [b, n, k], values [b, n, d]");
	return 0;
}

int shape_of_attention(struct graph_inference *in)
{
	int64_t b, m, n, k, d;
	int rc = want_attention(in, 0, &b, &m, &n, &k, &d);

	if (rc == 0 && in->in_count == 4) {
		rc = shape_want_dtype(in, 3, STAR_INT32);
		if (rc == 0)
			rc = shape_want_ndim(in, 3, 2, 2);
		if (rc == 0 && (!shape_unify(&b, in->in[3].shape.dims[0]) || !shape_unify(&n, in->in[3].shape.dims[1])))
			return shape_bad_pair(in, 1, 3, "keys must be [b, n, k], the mask [b, n]");
	}
	if (rc < 0)
		return rc;
	shape_out(in, in->in[0].dtype, &(struct graph_shape){ .ndim = 3, .dims = { b, m, d } });
	shape_out(in, in->in[0].dtype, &(struct graph_shape){ .ndim = 3, .dims = { b, m, n } });
	return 0;
}

int shape_of_attention_grad(struct graph_inference *in)
{
	int64_t b, m, n, k, d;
	struct graph_shape g = in->in[0].shape, weights = in->in[4].shape;
	int rc = want_attention(in, 1, &b, &m, &n, &k, &d);

	if (rc == 0)
		rc = shape_want_same_dtype(in, 0, 1);
	if (rc == 0)
		rc = shape_want_same_dtype(in, 0, 4);
	if (rc < 0)
		return rc;
	if (!shape_unify_all(&g, &(struct graph_shape){ .ndim = 3, .dims = { b, m, d } }))
		return shape_bad_pair(in, 0, 1, "the gradient must be [b, m, d], queries [b, m, k]");
	if (!shape_unify_all(&weights, &(struct graph_shape){ .ndim = 3, .dims = { b, m, n } }))
		return shape_bad_pair(in, 4, 1, "weights must be [b, m, n], queries [b, m, k]");
	shape_out(in, in->in[0].dtype, &(struct graph_shape){ .ndim = 3, .dims = { b, m, k } });
	shape_out(in, in->in[0].dtype, &(struct graph_shape){ .ndim = 3, .dims = { b, n, k } });
	shape_out(in, in->in[0].dtype, &(struct graph_shape){ .ndim = 3, .dims = { b, n, d } });
	return 0;
}

/* ---- losses ---- */

int shape_of_sigmoid_loss(struct graph_inference *in)
{
	const int rc = shape_want_float(in, 0);

	return rc < 0 ? rc : shape_of_add_n(in);
}

static int want_classes(const struct graph_inference *in, uint32_t scores, uint32_t classes, int64_t *n)
{
	int rc = shape_want_float(in, scores);

	if (rc == 0)
		rc = shape_want_ndim(in, scores, 2, 2);
	if (rc == 0)
		rc = shape_want_dtype(in, classes, STAR_INT64);
	if (rc == 0)
		rc = shape_want_ndim(in, classes, 1, 1);
	if (rc < 0)
		return rc;
	*n = in->in[scores].shape.dims[0];
	if (!shape_unify(n, in->in[classes].shape.dims[0]))
		return shape_bad_pair(in, scores, classes, "each row needs one class");
	return 0;
}

int shape_of_softmax_loss(struct graph_inference *in)
{
	struct graph_shape shape = in->in[0].shape;
	int64_t n;
	const int rc = want_classes(in, 0, 1, &n);

	if (rc < 0)
		return rc;
	shape.dims[0] = n;
	shape_out(in, in->in[0].dtype, &(struct graph_shape){ .ndim = 1, .dims = { n } });
	shape_out(in, in->in[0].dtype, &shape);
	return 0;
}

int shape_of_softmax_loss_grad(struct graph_inference *in)
{
	struct graph_shape shape = in->in[1].shape;
	int64_t n;
	int rc = want_classes(in, 1, 2, &n);

	if (rc == 0)
		rc = shape_want_same_dtype(in, 0, 1);
	if (rc == 0)
		rc = shape_want_ndim(in, 0, 1, 1);
	if (rc < 0)
		return rc;
	if (!shape_unify(&n, in->in[0].shape.dims[0]))
		return shape_bad_pair(in, 0, 1, "each row needs one gradient");
	shape.dims[0] = n;
	shape_out(in, in->in[0].dtype, &shape);
	return 0;
}
