/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and shapes of embedding bags and of ids. */
#include "graph/shape.h"

/* ---- embedding bags ---- */

/* Inputs 0 and 2 have rows, the first of floats; input 1 has segments. */
static int want_segments(const struct graph_inference *in)
{
	int rc = shape_want_float(in, 0);

	if (rc == 0)
		rc = shape_want_ndim(in, 0, 1, GRAPH_DIMS_MAX);
	if (rc == 0)
		rc = shape_want_dtype(in, 1, STAR_INT32);
	if (rc == 0)
		rc = shape_want_ndim(in, 1, 1, 1);
	if (rc == 0)
		rc = shape_want_ndim(in, 2, 1, GRAPH_DIMS_MAX);
	return rc;
}

int shape_of_segment(struct graph_inference *in)
{
	struct graph_shape shape = in->in[0].shape;
	const int rc = want_segments(in);
	int64_t n = -1;

	if (rc < 0)
		return rc;
	shape_unify(&n, in->in[0].shape.dims[0]);
	if (!shape_unify(&n, in->in[1].shape.dims[0]))
		return shape_bad_pair(in, 0, 1, "each row needs one segment");
	shape.dims[0] = in->in[2].shape.dims[0];
	shape_out(in, in->in[0].dtype, &shape);
	return 0;
}

/* g [m, ...], segments [n], rows [n, ...] -> the shape of rows */
int shape_of_segment_grad(struct graph_inference *in)
{
	struct graph_shape shape = in->in[2].shape, g = in->in[0].shape;
	int rc = want_segments(in);

	if (rc == 0)
		rc = shape_want_same_dtype(in, 0, 2);
	if (rc < 0)
		return rc;
	if (!shape_unify(&shape.dims[0], in->in[1].shape.dims[0]))
		return shape_bad_pair(in, 1, 2, "each row needs one segment");
	g.dims[0] = -1;
	if (!shape_unify_all(&shape, &g))
		return shape_bad_pair(in, 0, 2, "they differ in more than the first dimension");
	shape_out(in, in->in[0].dtype, &shape);
	return 0;
}

/* ---- ids ---- */

int shape_of_unique(struct graph_inference *in)
{
	const struct graph_shape some = { .ndim = 1, .dims = { -1 } };
	int rc = shape_want_dtype(in, 0, STAR_INT64);

	if (rc == 0)
		rc = shape_want_ndim(in, 0, 1, 1);
	if (rc < 0)
		return rc;
	shape_out(in, STAR_INT64, &some);
	shape_out(in, STAR_INT64, &in->in[0].shape);
	return 0;
}

int shape_of_hash_cross(struct graph_inference *in)
{
	const int64_t buckets = graph_attr_int(in->node, "buckets", 0);
	struct graph_shape shape = in->in[0].shape;

	if (buckets < 1)
		return shape_bad(in, "buckets must be at least 1, not %lld", (long long)buckets);
	for (uint32_t i = 0; i < in->in_count; i++) {
		const int rc = shape_want_dtype(in, i, STAR_INT64);

		if (rc < 0)
			return rc;
		if (!shape_unify_all(&shape, &in->in[i].shape))
			return shape_bad_pair(in, 0, i, "all columns must have the same shape");
	}
	shape_out(in, STAR_INT64, &shape);
	return 0;
}
