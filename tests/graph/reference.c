/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/graph/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t place[GRAPH_DIMS_MAX];

static void place_of(const struct graph_shape *shape, int64_t flat, int64_t *at)
{
	for (unsigned i = shape->ndim; i-- > 0; flat /= shape->dims[i])
		at[i] = flat % shape->dims[i];
}

/* The element at a place, of which only the last ndim numbers count; sizes of 1 broadcast. */
static double at(const struct reference_tensor *t, const int64_t *where, unsigned ndim)
{
	int64_t flat = 0;

	for (unsigned i = 0; i < t->type.shape.ndim; i++) {
		const int64_t size = t->type.shape.dims[i], k = where[ndim - t->type.shape.ndim + i];

		flat = flat * size + (size == 1 ? 0 : k);
	}
	return t->values[flat];
}

static int64_t size(const struct reference_tensor *t)
{
	return graph_elements(&t->type.shape);
}

static int64_t last(const struct reference_tensor *t)
{
	return t->type.shape.ndim ? t->type.shape.dims[t->type.shape.ndim - 1] : 1;
}

static int64_t inner(const struct reference_tensor *t, unsigned from)
{
	int64_t n = 1;

	for (unsigned i = from; i < t->type.shape.ndim; i++)
		n *= t->type.shape.dims[i];
	return n;
}

static double scalar(const struct graph_node *node, double x, double y)
{
	switch (node->op) {
	case GRAPH_NEG:
		return -x;
	case GRAPH_EXP:
		return exp(x);
	case GRAPH_LOG:
		return log(x);
	case GRAPH_SQRT:
		return sqrt(x);
	case GRAPH_SQUARE:
		return x * x;
	case GRAPH_ABS:
		return fabs(x);
	case GRAPH_SIGN:
		return (x > 0) - (x < 0);
	case GRAPH_RELU:
		return x > 0 ? x : 0;
	case GRAPH_SIGMOID:
		return 1 / (1 + exp(-x));
	case GRAPH_TANH:
		return tanh(x);
	case GRAPH_ADD:
		return x + y;
	case GRAPH_SUB:
		return x - y;
	case GRAPH_MUL:
		return x * y;
	case GRAPH_DIV:
		return x / y;
	case GRAPH_MAX:
		return fmax(x, y);
	case GRAPH_MIN:
		return fmin(x, y);
	case GRAPH_LESS:
		return x < y;
	case GRAPH_EQUAL:
		return x == y;
	case GRAPH_SIGMOID_LOSS: /* x logits, y labels: the cross entropy as it is defined */
		return -(y * log(1 / (1 + exp(-x))) + (1 - y) * log(1 - 1 / (1 + exp(-x))));
	default:
		return NAN;
	}
}

static void elementwise(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	const unsigned ndim = out->type.shape.ndim;
	place where;

	for (int64_t i = 0; i < size(out); i++) {
		place_of(&out->type.shape, i, where);
		if (node->op == GRAPH_SELECT)
			out->values[i] = at(at(&in[0], where, ndim) != 0 ? &in[1] : &in[2], where, ndim);
		else if (node->op == GRAPH_CAST)
			out->values[i] = out->type.dtype == STAR_INT32 || out->type.dtype == STAR_INT64
						 ? trunc(in[0].values[i])
						 : in[0].values[i];
		else
			out->values[i] = scalar(node, at(&in[0], where, ndim),
						node->inputs_count > 1 ? at(&in[1], where, ndim) : 0);
	}
}

static unsigned axis_of(const struct graph_node *node, const struct reference_tensor *in)
{
	const int64_t axis = graph_attr_int(node, "axis", 0);

	return (unsigned)(axis < 0 ? axis + in->type.shape.ndim : axis);
}

/* Every element of the output is one of the input, or 0. */
static void moved(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	const struct graph_attr *begin = graph_attr(node, node->op == GRAPH_PAD ? "before" : "begin");
	const struct graph_attr *perm = graph_attr(node, "perm");
	const struct graph_shape *shape = &in->type.shape;
	place where, from;

	for (int64_t i = 0; i < size(out); i++) {
		bool inside = true;

		place_of(&out->type.shape, i, where);
		for (unsigned d = 0; d < shape->ndim; d++) {
			if (perm) {
				from[perm->ints[d]] = where[d];
				continue;
			}
			from[d] = where[d] + (node->op == GRAPH_SLICE ? begin->ints[d] : -begin->ints[d]);
			inside = inside && from[d] >= 0 && from[d] < shape->dims[d];
		}
		out->values[i] = inside ? at(in, from, shape->ndim) : 0;
	}
}

static void joined(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	const bool split = node->op == GRAPH_SPLIT;
	const unsigned axis = axis_of(node, in);
	const struct reference_tensor *parts = split ? out : in, *whole = split ? in : out;
	place where;
	int64_t first = 0;

	for (uint32_t k = 0; k < (split ? node->outputs_count : node->inputs_count); k++) {
		for (int64_t i = 0; i < size(&parts[k]); i++) {
			int64_t flat = 0;

			place_of(&parts[k].type.shape, i, where);
			where[axis] += first;
			for (unsigned d = 0; d < whole->type.shape.ndim; d++)
				flat = flat * whole->type.shape.dims[d] + where[d];
			if (split)
				parts[k].values[i] = whole->values[flat];
			else
				whole->values[flat] = parts[k].values[i];
		}
		first += parts[k].type.shape.dims[axis];
	}
}

static void reduced(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	const struct graph_attr *axes = graph_attr(node, "axes");
	const struct graph_shape *shape = &in->type.shape;
	const bool like = node->op == GRAPH_REDUCE_LIKE;
	const unsigned more = like ? (unsigned)shape->ndim - out->type.shape.ndim : 0;
	bool gone[GRAPH_DIMS_MAX] = { false };
	double count = 1;
	place where;

	for (unsigned d = 0; d < shape->ndim; d++)
		gone[d] = like ? d < more || out->type.shape.dims[d - more] == 1 : !axes;
	for (uint32_t i = 0; axes && i < axes->ints_count; i++)
		gone[axes->ints[i] < 0 ? axes->ints[i] + shape->ndim : axes->ints[i]] = true;
	for (unsigned d = 0; d < shape->ndim; d++)
		count *= gone[d] ? (double)shape->dims[d] : 1;
	for (int64_t i = 0; i < size(out); i++)
		out->values[i] = node->op == GRAPH_REDUCE_MAX ? -INFINITY : 0;
	for (int64_t i = 0; i < size(in); i++) {
		int64_t flat = 0;

		place_of(shape, i, where);
		for (unsigned d = 0; d < shape->ndim; d++)
			flat = gone[d] ? flat : flat * shape->dims[d] + where[d];
		if (node->op == GRAPH_REDUCE_MAX)
			out->values[flat] = fmax(out->values[flat], in->values[i]);
		else
			out->values[flat] += in->values[i] / (node->op == GRAPH_MEAN ? count : 1);
	}
}

/* Rows that are found, or added, by an index; in[1] has it. */
static void indexed(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	const bool back = node->op == GRAPH_INDEX_GRAD || node->op == GRAPH_SCATTER_ADD;
	const int64_t width = inner(back ? out : in, 1);

	for (int64_t i = 0; back && i < size(out); i++)
		out->values[i] = 0;
	for (int64_t i = 0; i < size(&in[1]); i++)
		for (int64_t k = 0; k < width; k++)
			if (back)
				out->values[(int64_t)in[1].values[i] * width + k] += in[0].values[i * width + k];
			else
				out->values[i * width + k] = in[0].values[(int64_t)in[1].values[i] * width + k];
}

static void columns(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	const bool back = node->op == GRAPH_COLUMNS_GRAD;
	const int64_t n = out->type.shape.dims[0], k = inner(back ? out : in, 1), m = size(&in[1]);

	for (int64_t i = 0; back && i < size(out); i++)
		out->values[i] = 0;
	for (int64_t r = 0; r < n; r++)
		for (int64_t i = 0; i < m; i++)
			if (back)
				out->values[r * k + (int64_t)in[1].values[i]] += in[0].values[r * m + i];
			else
				out->values[r * m + i] = in[0].values[r * k + (int64_t)in[1].values[i]];
}

static void bags(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	const bool grad = node->op == GRAPH_SEGMENT_MEAN_GRAD || node->op == GRAPH_SEGMENT_SQRTN_GRAD;
	const bool mean = node->op == GRAPH_SEGMENT_MEAN || node->op == GRAPH_SEGMENT_MEAN_GRAD;
	const int64_t n = size(&in[1]), width = inner(out, 1), m = (grad ? in : out)->type.shape.dims[0];

	for (int64_t i = 0; i < size(out); i++)
		out->values[i] = 0;
	for (int64_t s = 0; s < m; s++) {
		double count = 0, weight;

		for (int64_t i = 0; i < n; i++)
			count += in[1].values[i] == (double)s;
		weight = node->op == GRAPH_SEGMENT_SUM || count == 0 ? 1 : mean ? 1 / count : 1 / sqrt(count);
		for (int64_t i = 0; i < n; i++)
			for (int64_t k = 0; k < width && in[1].values[i] == (double)s; k++)
				if (grad)
					out->values[i * width + k] = in[0].values[s * width + k] * weight;
				else
					out->values[s * width + k] += in[0].values[i * width + k] * weight;
	}
}

static void matmul(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	const unsigned nd = out->type.shape.ndim;
	const bool ta = graph_attr_int(node, "transpose_a", 0), tb = graph_attr_int(node, "transpose_b", 0);
	const int64_t m = out->type.shape.dims[nd - 2], n = out->type.shape.dims[nd - 1];
	const int64_t k = in[0].type.shape.dims[nd - (ta ? 2 : 1)];

	for (int64_t i = 0; i < size(out); i++) {
		const int64_t matrix = i / (m * n), row = i / n % m, column = i % n;
		double sum = 0;

		for (int64_t j = 0; j < k; j++)
			sum += in[0].values[matrix * m * k + (ta ? j * m + row : row * k + j)] *
			       in[1].values[matrix * k * n + (tb ? column * k + j : j * n + column)];
		out->values[i] = sum;
	}
}

static void softmax(const double *x, const double *mask, double *y, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += mask && mask[i] == 0 ? 0 : exp(x[i]);
	for (int64_t i = 0; i < n; i++)
		y[i] = mask && mask[i] == 0 ? 0 : exp(x[i]) / sum;
}

static void rows(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	const int64_t k = last(in), n = k ? size(in) / k : 0;
	const double epsilon = graph_attr_float(node, "epsilon", 1e-5);

	for (int64_t row = 0; row < n; row++) {
		const double *x = in->values + row * k;
		double mean = 0, variance = 0;

		if (node->op == GRAPH_SOFTMAX)
			softmax(x, NULL, out->values + row * k, k);
		if (node->op == GRAPH_SOFTMAX_LOSS) {
			softmax(x, NULL, out[1].values + row * k, k);
			out->values[row] = -log(out[1].values[row * k + (int64_t)in[1].values[row]]);
		}
		if (node->op != GRAPH_LAYER_NORM)
			continue;
		for (int64_t i = 0; i < k; i++)
			mean += x[i] / (double)k;
		for (int64_t i = 0; i < k; i++)
			variance += (x[i] - mean) * (x[i] - mean) / (double)k;
		for (int64_t i = 0; i < k; i++)
			out->values[row * k + i] =
				(x[i] - mean) / sqrt(variance + epsilon) * in[1].values[i] + in[2].values[i];
		out[1].values[row] = mean;
		out[2].values[row] = 1 / sqrt(variance + epsilon);
	}
}

static void batch_norm(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	const int64_t k = last(in), n = size(in) / k;
	const double epsilon = graph_attr_float(node, "epsilon", 1e-5);

	for (int64_t i = 0; i < k; i++) {
		double mean = 0, variance = 0;

		for (int64_t row = 0; row < n; row++)
			mean += in->values[row * k + i] / (double)n;
		for (int64_t row = 0; row < n; row++)
			variance += pow(in->values[row * k + i] - mean, 2) / (double)n;
		for (int64_t row = 0; row < n; row++)
			out->values[row * k + i] =
				(in->values[row * k + i] - mean) / sqrt(variance + epsilon) * in[1].values[i] +
				in[2].values[i];
		out[1].values[i] = mean;
		out[2].values[i] = variance;
	}
}

static void attention(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	const int64_t *q = in[0].type.shape.dims, n = in[1].type.shape.dims[1], d = in[2].type.shape.dims[2];
	const double scale = graph_attr_float(node, "scale", 1 / sqrt((double)q[2]));

	for (int64_t row = 0; row < q[0] * q[1]; row++) {
		const int64_t b = row / q[1];
		double scores[REFERENCE_ELEMENTS];

		for (int64_t j = 0; j < n; j++) {
			scores[j] = 0;
			for (int64_t i = 0; i < q[2]; i++)
				scores[j] +=
					scale * in[0].values[row * q[2] + i] * in[1].values[(b * n + j) * q[2] + i];
		}
		softmax(scores, node->inputs_count == 4 ? in[3].values + b * n : NULL, out[1].values + row * n, n);
		for (int64_t i = 0; i < d; i++) {
			out->values[row * d + i] = 0;
			for (int64_t j = 0; j < n; j++)
				out->values[row * d + i] +=
					out[1].values[row * n + j] * in[2].values[(b * n + j) * d + i];
		}
	}
}

/* ---- gradients, by central differences of the operation itself ---- */

/* Which operation a gradient is of, where that one's inputs are among the gradient's (-1: zeros), how many count. */
static const struct {
	enum graph_op of;
	int inputs[4];
	unsigned count;
} gradients[GRAPH_OPS_END] = {
	[GRAPH_LAYER_NORM_GRAD] = { GRAPH_LAYER_NORM, { 1, 2, -1 }, 3 },
	[GRAPH_BATCH_NORM_GRAD] = { GRAPH_BATCH_NORM, { 1, 2, -1 }, 3 },
	[GRAPH_ATTENTION_GRAD] = { GRAPH_ATTENTION, { 1, 2, 3 }, 3 },
	[GRAPH_SIGMOID_LOSS_GRAD] = { GRAPH_SIGMOID_LOSS, { 1, 2 }, 2 },
};

static double weighed(const struct graph_node *node, const struct reference_tensor *in,
		      const struct reference_tensor *g)
{
	static double values[3][REFERENCE_ELEMENTS];
	struct reference_tensor out[3];
	double sum = 0;

	for (unsigned i = 0; i < 3; i++)
		out[i] = (struct reference_tensor){ .type = g->type, .values = values[i] };
	reference_run(node, in, out);
	for (int64_t i = 0; i < size(g); i++)
		sum += g->values[i] * values[0][i];
	return sum;
}

static void difference(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	static double zeros[REFERENCE_ELEMENTS];
	struct graph_node of = *node;
	struct reference_tensor inputs[4];
	const double step = 1e-5;

	of.op = gradients[node->op].of;
	of.inputs_count = gradients[node->op].count;
	for (unsigned i = 0; i < of.inputs_count; i++)
		inputs[i] = gradients[node->op].inputs[i] >= 0
				    ? in[gradients[node->op].inputs[i]]
				    : (struct reference_tensor){ .type = out[i].type, .values = zeros };
	for (unsigned o = 0; o < node->outputs_count; o++)
		for (int64_t i = 0; i < size(&out[o]); i++) {
			double *x = &inputs[o].values[i], before = *x, up;

			*x = before + step;
			up = weighed(&of, inputs, &in[0]);
			*x = before - step;
			out[o].values[i] = (up - weighed(&of, inputs, &in[0])) / (2 * step);
			*x = before;
		}
}

/* Of softmax and its loss, whose gradients are given the result: by the matrix of derivatives. */
static void softmax_gradient(const struct graph_node *node, const struct reference_tensor *in,
			     struct reference_tensor *out)
{
	const bool loss = node->op == GRAPH_SOFTMAX_LOSS_GRAD;
	const int64_t k = last(out), n = size(out) / k;
	const double *y = in[1].values;

	for (int64_t row = 0; row < n; row++)
		for (int64_t i = 0; i < k; i++) {
			double sum = 0;

			for (int64_t j = 0; j < k && !loss; j++)
				sum += in[0].values[row * k + j] * y[row * k + j] * ((i == j) - y[row * k + i]);
			if (loss)
				sum = in[0].values[row] * (y[row * k + i] - (in[2].values[row] == (double)i));
			out->values[row * k + i] = sum;
		}
}

static void copied(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	memcpy(out->values, in->values, (size_t)size(in) * sizeof(double));
}

static void add_n(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	copied(node, in, out);
	for (uint32_t k = 1; k < node->inputs_count; k++)
		for (int64_t i = 0; i < size(in); i++)
			out->values[i] += in[k].values[i];
}

static void expanded(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	place where;

	for (int64_t i = 0; i < size(out); i++) {
		place_of(&out->type.shape, i, where);
		out->values[i] = at(in, where, out->type.shape.ndim);
	}
}

/* Those that are not here are elementwise. */
static void (*const references[GRAPH_OPS_END])(const struct graph_node *node, const struct reference_tensor *in,
					       struct reference_tensor *out) = {
	[GRAPH_ADD_N] = add_n,
	[GRAPH_IDENTITY] = copied,
	[GRAPH_STOP_GRADIENT] = copied,
	[GRAPH_RESHAPE] = copied,
	[GRAPH_EXPAND] = expanded,
	[GRAPH_TRANSPOSE] = moved,
	[GRAPH_SLICE] = moved,
	[GRAPH_PAD] = moved,
	[GRAPH_PAD_LIKE] = moved,
	[GRAPH_CONCAT] = joined,
	[GRAPH_SPLIT] = joined,
	[GRAPH_SUM] = reduced,
	[GRAPH_MEAN] = reduced,
	[GRAPH_REDUCE_MAX] = reduced,
	[GRAPH_REDUCE_LIKE] = reduced,
	[GRAPH_INDEX] = indexed,
	[GRAPH_INDEX_GRAD] = indexed,
	[GRAPH_GATHER] = indexed,
	[GRAPH_COLUMNS] = columns,
	[GRAPH_COLUMNS_GRAD] = columns,
	[GRAPH_SCATTER_ADD] = indexed,
	[GRAPH_SEGMENT_SUM] = bags,
	[GRAPH_SEGMENT_MEAN] = bags,
	[GRAPH_SEGMENT_SQRTN] = bags,
	[GRAPH_SEGMENT_MEAN_GRAD] = bags,
	[GRAPH_SEGMENT_SQRTN_GRAD] = bags,
	[GRAPH_MATMUL] = matmul,
	[GRAPH_SOFTMAX] = rows,
	[GRAPH_LAYER_NORM] = rows,
	[GRAPH_SOFTMAX_LOSS] = rows,
	[GRAPH_BATCH_NORM] = batch_norm,
	[GRAPH_ATTENTION] = attention,
	[GRAPH_SOFTMAX_GRAD] = softmax_gradient,
	[GRAPH_SOFTMAX_LOSS_GRAD] = softmax_gradient,
	[GRAPH_LAYER_NORM_GRAD] = difference,
	[GRAPH_BATCH_NORM_GRAD] = difference,
	[GRAPH_ATTENTION_GRAD] = difference,
	[GRAPH_SIGMOID_LOSS_GRAD] = difference,
};

bool reference_run(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out)
{
	if (!references[node->op] && !(graph_op_info(node->op)->flags & GRAPH_ROWWISE))
		return false;
	(references[node->op] ? references[node->op] : elementwise)(node, in, out);
	return true;
}
