/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums, means and maxima over some dimensions. Floats are summed in float64, in an order that depends on the shape
 * alone.
 */
#include "exec/kernel_internal.h"

#include "tensor/sums.h"

enum { COLUMNS = 128, GRAIN = 16384, LANES = 8 };

/* A tensor whose neighbouring dimensions are merged if both are reduced or both are kept. */
struct reduction {
	const void *in;
	void *out;
	enum kernel_type type;
	bool greatest, mean, columns; /* columns: the last dimension is kept */
	size_t divisor;
	unsigned kept_count, gone_count;
	size_t kept[GRAPH_DIMS_MAX], kept_strides[GRAPH_DIMS_MAX]; /* kept dimensions, without the last one */
	size_t gone[GRAPH_DIMS_MAX], gone_strides[GRAPH_DIMS_MAX]; /* reduced dimensions, without the last one */
	size_t last;						   /* size of the last dimension */
	size_t block;						   /* of neighbours summed together (tensor/sums.h) */
	size_t rows;						   /* product of the reduced dimensions */
	size_t blocks;						   /* of columns in the last dimension; 1 if it is
								    * reduced */
	size_t units, grain;					   /* units of work, and how many are done together */
};

static size_t offset_of(size_t index, unsigned count, const size_t *dims, const size_t *strides)
{
	size_t at = 0;

	for (unsigned i = count; i-- > 0; index /= dims[i])
		at += index % dims[i] * strides[i];
	return at;
}

/* Sums of neighbours: for float32 in the order that PS tasks use too (tensor/sums.h), for others in eight lanes. */
static double sum_float(double so_far, const float *x, size_t n, size_t block)
{
	return tensor_sums_add(so_far, x, n, block);
}

#define SUM(T, A, U) \
	static A sum_##T(A so_far, const T *x, size_t n, size_t block) \
	{ \
		A lanes[LANES] = { 0 }; \
		size_t i = 0; \
\
		for (; i + LANES <= n; i += LANES) \
			for (unsigned k = 0; k < LANES; k++) \
				lanes[k] = (A)((U)lanes[k] + (U)x[i + k]); \
		for (unsigned k = 0; i < n; i++, k++) \
			lanes[k] = (A)((U)lanes[k] + (U)x[i]); \
		for (unsigned k = LANES / 2; k > 0; k /= 2) \
			for (unsigned m = 0; m < k; m++) \
				lanes[m] = (A)((U)lanes[m] + (U)lanes[m + k]); \
		return (A)((U)so_far + (U)lanes[0]); \
	}
SUM(double, double, double)
SUM(int32_t, int64_t, uint64_t)
SUM(int64_t, int64_t, uint64_t)

/* T: type of elements, A: type of sums, U: type of additions (integers wrap around). */
#define REDUCTION(T, A, U, least) \
	static A run_##T(const struct reduction *r, const T *x, A so_far) \
	{ \
		if (!r->greatest) \
			return sum_##T(so_far, x, r->last, r->block); \
		for (size_t i = 0; i < r->last; i++) \
			so_far = so_far > (A)x[i] || so_far != so_far ? so_far : (A)x[i]; \
		return so_far; \
	} \
\
	static void finish_##T(const struct reduction *r, size_t at, const A *sums, size_t n) \
	{ \
		T *out = (T *)r->out + at; \
\
		for (size_t i = 0; i < n; i++) \
			out[i] = (T)(r->mean ? sums[i] / (A)r->divisor : sums[i]); \
	} \
\
	static void unit_##T(const struct reduction *r, size_t unit) \
	{ \
		const size_t kept = unit / r->blocks, column = unit % r->blocks * COLUMNS; \
		const size_t width = !r->columns ? 1 : r->last - column < COLUMNS ? r->last - column : COLUMNS; \
		const T *in = (const T *)r->in + offset_of(kept, r->kept_count, r->kept, r->kept_strides); \
		A sums[COLUMNS]; \
\
		for (size_t i = 0; i < width; i++) \
			sums[i] = r->greatest ? least : 0; \
		for (size_t row = 0; row < r->rows; row++) { \
			const T *x = in + offset_of(row, r->gone_count, r->gone, r->gone_strides); \
\
			if (!r->columns) { \
				sums[0] = run_##T(r, x, sums[0]); \
				continue; \
			} \
			x += column; \
			if (r->greatest) \
				for (size_t i = 0; i < width; i++) \
					sums[i] = sums[i] > (A)x[i] || sums[i] != sums[i] ? sums[i] : (A)x[i]; \
			else \
				for (size_t i = 0; i < width; i++) \
					sums[i] = (A)((U)sums[i] + (U)x[i]); \
		} \
		finish_##T(r, r->columns ? kept * r->last + column : kept, sums, width); \
	}

REDUCTION(float, double, double, (double)-INFINITY)
REDUCTION(double, double, double, (double)-INFINITY)
REDUCTION(int32_t, int64_t, uint64_t, INT32_MIN)
REDUCTION(int64_t, int64_t, uint64_t, INT64_MIN)

static void reduce_part(void *context, uint64_t part)
{
	static void (*const unit[KERNEL_TYPES])(const struct reduction *, size_t) = {
		[KERNEL_FLOAT32] = unit_float,
		[KERNEL_FLOAT64] = unit_double,
		[KERNEL_INT32] = unit_int32_t,
		[KERNEL_INT64] = unit_int64_t,
	};
	const struct reduction *r = context;
	const size_t from = part * r->grain, to = r->units - from < r->grain ? r->units : from + r->grain;

	for (size_t i = from; i < to; i++)
		unit[r->type](r, i);
}

/* Merges dimensions, then divides them into reduced and kept ones; the last one is treated separately. */
static void set_dims(struct reduction *r, const struct graph_shape *shape, const bool gone[GRAPH_DIMS_MAX])
{
	size_t dims[GRAPH_DIMS_MAX + 1] = { 1 }, stride = 1;
	bool goes[GRAPH_DIMS_MAX + 1] = { true };
	unsigned ndim = 0;

	for (unsigned i = 0; i < shape->ndim; i++) {
		if (shape->dims[i] == 1)
			continue;
		if (ndim && goes[ndim - 1] == gone[i]) {
			dims[ndim - 1] *= (size_t)shape->dims[i];
			continue;
		}
		goes[ndim] = gone[i];
		dims[ndim++] = (size_t)shape->dims[i];
	}
	ndim += ndim == 0; /* a scalar has one element */
	r->last = dims[ndim - 1];
	r->columns = !goes[ndim - 1];
	r->rows = 1;
	r->units = r->blocks = r->columns ? kernel_parts(r->last, COLUMNS) : 1;
	for (unsigned i = 0; i + 1 < ndim; i++) {
		if (goes[i]) {
			r->rows *= dims[i];
			r->gone[r->gone_count++] = dims[i];
		} else {
			r->units *= dims[i];
			r->kept[r->kept_count++] = dims[i];
		}
	}
	for (unsigned i = ndim, g = r->gone_count, k = r->kept_count; i-- > 0; stride *= dims[i]) {
		if (i + 1 == ndim)
			continue;
		if (goes[i])
			r->gone_strides[--g] = stride;
		else
			r->kept_strides[--k] = stride;
	}
}

static int reduce(const struct kernel_call *call, const bool gone[GRAPH_DIMS_MAX])
{
	const struct graph_shape *shape = &call->in[0]->type.shape;
	struct reduction r = {
		.in = call->in[0]->data,
		.out = call->out[0]->data,
		.type = kernel_type(call->in[0]),
		.greatest = call->node->op == GRAPH_REDUCE_MAX,
		.divisor = 1,
	};
	size_t work;

	set_dims(&r, shape, gone);
	r.block = r.kept_count || r.columns
			  ? SUMS_BLOCK
			  : sums_block(kernel_product(shape, 1, shape->ndim), kernel_count(call->in[0]));
	if (call->node->op == GRAPH_MEAN) {
		r.mean = true;
		for (unsigned i = 0; i < shape->ndim; i++)
			r.divisor *= gone[i] ? (size_t)shape->dims[i] : 1;
	}
	work = r.rows * (r.columns ? COLUMNS : r.last);
	r.grain = GRAIN / (work + 1) + 1;
	exec_team_run(call->team, kernel_parts(r.units, r.grain), reduce_part, &r);
	return 0;
}

int kernel_reduce(const struct kernel_call *call)
{
	const struct graph_attr *axes = graph_attr(call->node, "axes");
	const unsigned ndim = call->in[0]->type.shape.ndim;
	bool gone[GRAPH_DIMS_MAX];

	for (unsigned i = 0; i < GRAPH_DIMS_MAX; i++)
		gone[i] = !axes;
	for (uint32_t i = 0; axes && i < axes->ints_count; i++)
		gone[axes->ints[i] < 0 ? axes->ints[i] + ndim : axes->ints[i]] = true;
	return reduce(call, gone);
}

int kernel_reduce_like(const struct kernel_call *call)
{
	const struct graph_shape *shape = &call->in[0]->type.shape, *like = &call->in[1]->type.shape;
	const unsigned more = (unsigned)shape->ndim - like->ndim;
	bool gone[GRAPH_DIMS_MAX] = { false };

	if (graph_elements(shape) == graph_elements(like)) /* nothing was broadcast: the most frequent case in
							    * gradients */
		return kernel_copy(call);
	for (unsigned i = 0; i < shape->ndim; i++)
		gone[i] = i < more || (like->dims[i - more] == 1 && shape->dims[i] != 1);
	return reduce(call, gone);
}
