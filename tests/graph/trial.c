/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/graph/trial.h"

#include <math.h>
#include <stdio.h>

#include "graph/build.h"

void trial_store(unsigned dtype, void *data, int64_t i, double x)
{
	if (dtype == STAR_FLOAT32)
		((float *)data)[i] = (float)x;
	else if (dtype == STAR_FLOAT64)
		((double *)data)[i] = x;
	else if (dtype == STAR_INT32)
		((int32_t *)data)[i] = (int32_t)x;
	else
		((int64_t *)data)[i] = (int64_t)x;
}

double trial_load(unsigned dtype, const void *data, int64_t i)
{
	return dtype == STAR_FLOAT32   ? (double)((const float *)data)[i]
	       : dtype == STAR_FLOAT64 ? ((const double *)data)[i]
	       : dtype == STAR_INT32   ? (double)((const int32_t *)data)[i]
				       : (double)((const int64_t *)data)[i];
}

/* An input with values in [low, high): whole ones, if it is of integers. */
static void input(struct trial *t, unsigned dtype, const struct graph_shape *shape, double low, double high)
{
	const uint32_t k = t->count++;
	const int64_t n = graph_elements(shape);
	int64_t open[GRAPH_DIMS_MAX];
	char name[16];

	for (int64_t i = 0; i < n; i++) {
		trial_store(dtype, t->data[k], i, low + prng_unit(&t->prng) * (high - low));
		t->values[k][i] = trial_load(dtype, t->data[k], i);
	}
	for (unsigned i = 0; i < shape->ndim; i++)
		open[i] = prng_below(&t->prng, 2) ? -1 : shape->dims[i];
	t->types[k] = (struct graph_type){ .dtype = (uint8_t)dtype, .shape = *shape };
	snprintf(name, sizeof(name), "x%u", k);
	t->inputs[k] = graph_feed(t->graph, name, dtype, open, shape->ndim);
}

static int64_t dim(struct trial *t, uint32_t most)
{
	return t->zero && prng_below(&t->prng, 12) == 0 ? 0 : 1 + prng_below(&t->prng, most);
}

/* At most 4096 elements. */
static struct graph_shape some_shape(struct trial *t, unsigned least, unsigned most)
{
	static const uint32_t sizes[] = { 4096, 4096, 64, 16, 8 };
	struct graph_shape shape = { .ndim = (uint8_t)(least + prng_below(&t->prng, most - least + 1)) };

	for (unsigned i = 0; i < shape.ndim; i++)
		shape.dims[i] = dim(t, sizes[shape.ndim]);
	return shape;
}

static struct graph_shape shape_of(unsigned ndim, int64_t a, int64_t b, int64_t c)
{
	return (struct graph_shape){ .ndim = (uint8_t)ndim, .dims = { a, b, c } };
}

static int64_t *ints_attr(struct trial *t, const char *name, uint32_t count)
{
	int64_t *ints = t->ints[t->attrs_count];

	t->attrs[t->attrs_count++] = GRAPH_ATTR_INTS(name, ints, count);
	return ints;
}

/* ---- what each operation is given ---- */

static void real_input(struct trial *t, enum graph_op op)
{
	const struct graph_shape shape = some_shape(t, 0, 4);
	const bool positive = op == GRAPH_LOG || op == GRAPH_SQRT;

	if (op == GRAPH_CAST) {
		static const char *const names[] = { "float32", "float64", "int32", "int64" };

		t->attrs[t->attrs_count++] = GRAPH_ATTR_STRING("dtype", names[prng_below(&t->prng, 4)]);
	}
	input(t, t->real, &shape, positive ? 1e-3 : -20, 20);
}

static void any_input(struct trial *t, enum graph_op op)
{
	static const unsigned types[] = { STAR_FLOAT32, STAR_FLOAT64, STAR_INT32, STAR_INT64 };
	const struct graph_shape shape = some_shape(t, 0, 4);

	input(t, types[prng_below(&t->prng, 4)], &shape, -20, 20);
}

/* Shapes that broadcast to one: sizes of 1, and fewer of them. */
static struct graph_shape narrower(struct trial *t, const struct graph_shape *shape)
{
	struct graph_shape less = { .ndim = (uint8_t)prng_below(&t->prng, shape->ndim + 1u) };

	if (prng_below(&t->prng, 2))
		less.ndim = shape->ndim;
	for (unsigned i = 0; i < less.ndim; i++)
		less.dims[i] = prng_below(&t->prng, 3) ? shape->dims[shape->ndim - less.ndim + i] : 1;
	return less;
}

static void pair(struct trial *t, enum graph_op op)
{
	static const unsigned types[] = { STAR_FLOAT32, STAR_FLOAT64, STAR_INT32, STAR_INT64 };
	const unsigned dtype = types[prng_below(&t->prng, op == GRAPH_DIV ? 2 : 4)];
	const struct graph_shape shape = some_shape(t, 0, 4), a = narrower(t, &shape), b = narrower(t, &shape);

	input(t, dtype, &a, -20, 20);
	input(t, dtype, &b, op == GRAPH_DIV ? 1 : -20, 20);
}

static void three(struct trial *t, enum graph_op op)
{
	const struct graph_shape shape = some_shape(t, 0, 4), a = narrower(t, &shape), b = narrower(t, &shape),
				 c = narrower(t, &shape);

	input(t, STAR_INT32, &a, 0, 2);
	input(t, t->real, &b, -20, 20);
	input(t, t->real, &c, -20, 20);
}

static void many(struct trial *t, enum graph_op op)
{
	const struct graph_shape shape = some_shape(t, 0, 4);

	for (uint32_t i = 0, n = 1 + prng_below(&t->prng, TRIAL_INPUTS); i < n; i++)
		input(t, t->real, &shape, -20, 20);
}

static void reshaped(struct trial *t, enum graph_op op)
{
	const int64_t a = dim(t, 60), b = dim(t, 60);
	int64_t *shape = ints_attr(t, "shape", 3);
	const struct graph_shape from = shape_of(2, a, b, 0);

	input(t, t->real, &from, -1, 1);
	shape[0] = b;
	shape[1] = 1;
	shape[2] = b ? -1 : a;
}

static void turned(struct trial *t, enum graph_op op)
{
	const struct graph_shape shape = some_shape(t, 0, 4);
	int64_t *perm = ints_attr(t, "perm", shape.ndim);

	for (unsigned i = 0; i < shape.ndim; i++) {
		const unsigned k = prng_below(&t->prng, i + 1);

		perm[i] = perm[k];
		perm[k] = i;
	}
	input(t, t->real, &shape, -1, 1);
}

static void joined(struct trial *t, enum graph_op op)
{
	struct graph_shape shape = some_shape(t, 1, 4);
	const int64_t axis = prng_below(&t->prng, shape.ndim);

	t->attrs[t->attrs_count++] = GRAPH_ATTR_INT("axis", prng_below(&t->prng, 2) ? axis : axis - shape.ndim);
	if (op == GRAPH_SPLIT) {
		int64_t *sizes = ints_attr(t, "sizes", 3);

		sizes[0] = prng_below(&t->prng, (uint32_t)shape.dims[axis] + 1);
		sizes[1] = prng_below(&t->prng, (uint32_t)(shape.dims[axis] - sizes[0]) + 1);
		sizes[2] = shape.dims[axis] - sizes[0] - sizes[1];
		input(t, t->real, &shape, -1, 1);
		return;
	}
	for (unsigned i = 0; i < shape.ndim; i++)
		shape.dims[i] = shape.dims[i] > 6 ? 6 : shape.dims[i];
	for (uint32_t i = 0, n = 1 + prng_below(&t->prng, 3); i < n; i++) {
		shape.dims[axis] = dim(t, 5);
		input(t, t->real, &shape, -1, 1);
	}
}

static void boxed(struct trial *t, enum graph_op op)
{
	struct graph_shape whole = some_shape(t, 1, 4), box = whole;
	int64_t *begin = ints_attr(t, op == GRAPH_PAD ? "before" : "begin", whole.ndim), *other = NULL;

	if (op != GRAPH_PAD_LIKE)
		other = ints_attr(t, op == GRAPH_PAD ? "after" : "size", whole.ndim);
	for (unsigned i = 0; i < whole.ndim; i++) {
		begin[i] = prng_below(&t->prng, (uint32_t)whole.dims[i] + 1);
		box.dims[i] = prng_below(&t->prng, (uint32_t)(whole.dims[i] - begin[i]) + 1);
		if (op == GRAPH_PAD)
			other[i] = whole.dims[i] - begin[i] - box.dims[i];
		if (op == GRAPH_SLICE)
			other[i] = box.dims[i] == whole.dims[i] - begin[i] ? -1 : box.dims[i];
	}
	input(t, t->real, op == GRAPH_SLICE ? &whole : &box, -1, 1);
	if (op == GRAPH_PAD_LIKE)
		input(t, STAR_INT32, &whole, 0, 1);
}

static void like(struct trial *t, enum graph_op op)
{
	const struct graph_shape shape = some_shape(t, 0, 4), less = narrower(t, &shape);

	input(t, t->real, op == GRAPH_EXPAND ? &less : &shape, -1, 1);
	input(t, t->real, op == GRAPH_EXPAND ? &shape : &less, -1, 1);
}

static void indexed(struct trial *t, enum graph_op op)
{
	const bool back = op == GRAPH_INDEX_GRAD || op == GRAPH_SCATTER_ADD;
	const bool one = op == GRAPH_INDEX || op == GRAPH_INDEX_GRAD;
	struct graph_shape x = some_shape(t, 1, 3), index = { 0 }, rows = { 0 };

	x.dims[0] = 1 + prng_below(&t->prng, 40);
	for (unsigned i = 1; i < x.ndim; i++)
		x.dims[i] = x.dims[i] > 10 ? 10 : x.dims[i];
	if (!one)
		index = shape_of(1 + prng_below(&t->prng, 2), dim(t, 6), dim(t, 6), 0);
	rows = index;
	for (unsigned i = 1; i < x.ndim; i++)
		rows.dims[rows.ndim++] = x.dims[i];
	input(t, t->real, back ? &rows : &x, -1, 1);
	input(t, STAR_INT64, &index, 0, (double)x.dims[0]);
	if (back)
		input(t, t->real, &x, -1, 1);
}

static void columns(struct trial *t, enum graph_op op)
{
	const int64_t n = dim(t, 40), k = 1 + prng_below(&t->prng, 60), m = dim(t, 60);
	const struct graph_shape x = shape_of(2, n, k, 0), taken = shape_of(2, n, m, 0), index = shape_of(1, m, 0, 0);
	const bool back = op == GRAPH_COLUMNS_GRAD;

	input(t, t->real, back ? &taken : &x, -1, 1);
	input(t, STAR_INT64, &index, 0, (double)k);
	if (back)
		input(t, t->real, &x, -1, 1);
}

static void reduced(struct trial *t, enum graph_op op)
{
	const struct graph_shape shape = some_shape(t, 0, 4);

	if (prng_below(&t->prng, 4)) {
		int64_t *axes = ints_attr(t, "axes", 0);
		uint32_t count = 0;

		for (unsigned i = 0; i < shape.ndim; i++)
			if (prng_below(&t->prng, 2))
				axes[count++] = prng_below(&t->prng, 2) ? i : (int64_t)i - shape.ndim;
		t->attrs[0].ints_count = count;
		t->attrs[t->attrs_count++] = GRAPH_ATTR_INT("keep", prng_below(&t->prng, 2));
	}
	input(t, t->real, &shape, -1, 1);
}

static void bags(struct trial *t, enum graph_op op)
{
	const bool grad = op == GRAPH_SEGMENT_MEAN_GRAD || op == GRAPH_SEGMENT_SQRTN_GRAD;
	const int64_t n = dim(t, 60), m = 1 + prng_below(&t->prng, 40), width = dim(t, 20);
	const struct graph_shape rows = shape_of(2, n, width, 0), g = shape_of(2, m, width, 0),
				 index = shape_of(1, n, 0, 0);

	input(t, t->real, grad ? &g : &rows, -1, 1);
	input(t, STAR_INT32, &index, 0, (double)m);
	input(t, t->real, grad ? &rows : &g, -1, 1);
}

static void matrices(struct trial *t, enum graph_op op)
{
	const bool ta = prng_below(&t->prng, 2), tb = prng_below(&t->prng, 2);
	const int64_t m = dim(t, 20), n = dim(t, 20), k = dim(t, 20), batch = dim(t, 6);
	const unsigned ndim = 2 + prng_below(&t->prng, 2);
	struct graph_shape a = { .ndim = (uint8_t)ndim }, b = a;

	a.dims[0] = b.dims[0] = batch;
	a.dims[ndim - 2] = ta ? k : m;
	a.dims[ndim - 1] = ta ? m : k;
	b.dims[ndim - 2] = tb ? n : k;
	b.dims[ndim - 1] = tb ? k : n;
	t->attrs[t->attrs_count++] = GRAPH_ATTR_INT("transpose_a", ta);
	t->attrs[t->attrs_count++] = GRAPH_ATTR_INT("transpose_b", tb);
	input(t, t->real, &a, -1, 1);
	input(t, t->real, &b, -1, 1);
}

static void row_input(struct trial *t, enum graph_op op)
{
	const struct graph_shape shape = some_shape(t, 1, 4);

	input(t, t->real, &shape, -8, 8);
	if (op == GRAPH_SOFTMAX_GRAD || op == GRAPH_SIGMOID_LOSS || op == GRAPH_SIGMOID_LOSS_GRAD)
		input(t, t->real, &shape, op == GRAPH_SOFTMAX_GRAD ? 0 : -8, op == GRAPH_SOFTMAX_GRAD ? 1 : 8);
	if (op == GRAPH_SIGMOID_LOSS_GRAD)
		input(t, t->real, &shape, 0, 1);
}

/* The values of an input of shape [k] or [n], as it is fed: of the rows of x, or of its columns. */
static void computed(struct trial *t, const struct graph_shape *shape,
		     double (*of)(const double *x, int64_t n, int64_t step), const double *x, int64_t n, int64_t step,
		     int64_t next)
{
	const uint32_t k = t->count;

	input(t, t->real, shape, 0, 1);
	for (int64_t i = 0; i < graph_elements(shape); i++) {
		trial_store(t->real, t->data[k], i, of(x + i * next, n, step));
		t->values[k][i] = trial_load(t->real, t->data[k], i);
	}
}

static double mean(const double *x, int64_t n, int64_t step)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += x[i * step] / (double)n;
	return sum;
}

static double variance(const double *x, int64_t n, int64_t step)
{
	const double m = mean(x, n, step);
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += (x[i * step] - m) * (x[i * step] - m) / (double)n;
	return sum;
}

static double inverse(const double *x, int64_t n, int64_t step)
{
	return 1 / sqrt(variance(x, n, step) + 1e-5);
}

static void normed(struct trial *t, enum graph_op op)
{
	const bool grad = op == GRAPH_LAYER_NORM_GRAD || op == GRAPH_BATCH_NORM_GRAD;
	const bool layer = op == GRAPH_LAYER_NORM || op == GRAPH_LAYER_NORM_GRAD;
	const int64_t n = 2 + prng_below(&t->prng, grad ? 4 : 20), k = 2 + prng_below(&t->prng, grad ? 5 : 90);
	const struct graph_shape x = shape_of(2, n, k, 0), vector = shape_of(1, k, 0, 0), rows = shape_of(1, n, 0, 0);
	const double *values;

	if (grad)
		input(t, t->real, &x, -1, 1);
	values = t->values[t->count];
	input(t, t->real, &x, -3, 3);
	for (int64_t i = 0; grad && i < n * k; i++) { /* spread, or differences are of little use */
		trial_store(t->real, t->data[1], i, values[i] / 8 + (double)(i % k + 2 * (i / k)));
		t->values[1][i] = trial_load(t->real, t->data[1], i);
	}
	input(t, t->real, &vector, -2, 2);
	if (!grad) {
		input(t, t->real, &vector, -2, 2);
	} else if (layer) {
		computed(t, &rows, mean, values, k, 1, k);
		computed(t, &rows, inverse, values, k, 1, k);
	} else {
		computed(t, &vector, mean, values, n, k, 1);
		computed(t, &vector, variance, values, n, k, 1);
	}
}

static void attended(struct trial *t, enum graph_op op)
{
	const bool grad = op == GRAPH_ATTENTION_GRAD;
	const int64_t b = 1 + prng_below(&t->prng, 3), m = 1 + prng_below(&t->prng, 4), n = 1 + prng_below(&t->prng, 5),
		      k = 1 + prng_below(&t->prng, 4), d = 1 + prng_below(&t->prng, 4);
	const struct graph_shape q = shape_of(3, b, m, k), keys = shape_of(3, b, n, k), v = shape_of(3, b, n, d),
				 g = shape_of(3, b, m, d), weights = shape_of(3, b, m, n), mask = shape_of(2, b, n, 0);
	struct graph_node node = { .op = GRAPH_ATTENTION, .inputs_count = 3, .outputs_count = 2 };
	static double y[REFERENCE_ELEMENTS], w[REFERENCE_ELEMENTS];
	struct reference_tensor in[3], out[2] = { { .values = y }, { .values = w } };

	if (prng_below(&t->prng, 2))
		t->attrs[t->attrs_count++] = GRAPH_ATTR_FLOAT("scale", 0.3);
	if (grad)
		input(t, t->real, &g, -1, 1);
	input(t, t->real, &q, -1, 1);
	input(t, t->real, &keys, -1, 1);
	input(t, t->real, &v, -1, 1);
	if (!grad) {
		if (prng_below(&t->prng, 2)) {
			input(t, STAR_INT32, &mask, 0, 2);
			for (int64_t i = 0; i < b; i++) /* a row of nothing is another case */
				((int32_t *)t->data[3])[i * n] = (int32_t)(t->values[3][i * n] = 1);
		}
		return;
	}
	for (unsigned i = 0; i < 3; i++)
		in[i] = (struct reference_tensor){ .type = t->types[i + 1], .values = t->values[i + 1] };
	node.attrs = t->attrs;
	node.attrs_count = t->attrs_count;
	reference_run(&node, in, out);
	input(t, t->real, &weights, 0, 1);
	for (int64_t i = 0; i < b * m * n; i++) {
		trial_store(t->real, t->data[4], i, w[i]);
		t->values[4][i] = trial_load(t->real, t->data[4], i);
	}
}

static void classes(struct trial *t, enum graph_op op)
{
	const int64_t n = dim(t, 60), k = 1 + prng_below(&t->prng, 60);
	const struct graph_shape x = shape_of(2, n, k, 0), index = shape_of(1, n, 0, 0);

	if (op == GRAPH_SOFTMAX_LOSS_GRAD)
		input(t, t->real, &index, -1, 1);
	input(t, t->real, &x, op == GRAPH_SOFTMAX_LOSS_GRAD ? 0 : -8, op == GRAPH_SOFTMAX_LOSS_GRAD ? 1 : 8);
	input(t, STAR_INT64, &index, 0, (double)k);
}

const struct trial_maker trial_makers[] = {
	{ GRAPH_NEG, any_input, true },
	{ GRAPH_EXP, real_input, true },
	{ GRAPH_LOG, real_input, true },
	{ GRAPH_SQRT, real_input, true },
	{ GRAPH_SQUARE, any_input, true },
	{ GRAPH_ABS, any_input, true },
	{ GRAPH_SIGN, any_input, true },
	{ GRAPH_RELU, real_input, true },
	{ GRAPH_SIGMOID, real_input, true },
	{ GRAPH_TANH, real_input, true },
	{ GRAPH_CAST, real_input, true },
	{ GRAPH_ADD, pair, true },
	{ GRAPH_SUB, pair, true },
	{ GRAPH_MUL, pair, true },
	{ GRAPH_DIV, pair, true },
	{ GRAPH_MAX, pair, true },
	{ GRAPH_MIN, pair, true },
	{ GRAPH_LESS, pair, true },
	{ GRAPH_EQUAL, pair, true },
	{ GRAPH_SELECT, three, true },
	{ GRAPH_ADD_N, many, true },
	{ GRAPH_IDENTITY, any_input, true },
	{ GRAPH_STOP_GRADIENT, any_input, true },
	{ GRAPH_RESHAPE, reshaped, true },
	{ GRAPH_TRANSPOSE, turned, true },
	{ GRAPH_CONCAT, joined, true },
	{ GRAPH_SPLIT, joined, true },
	{ GRAPH_SLICE, boxed, true },
	{ GRAPH_PAD, boxed, true },
	{ GRAPH_PAD_LIKE, boxed, true },
	{ GRAPH_EXPAND, like, true },
	{ GRAPH_REDUCE_LIKE, like, true },
	{ GRAPH_INDEX, indexed, false },
	{ GRAPH_INDEX_GRAD, indexed, false },
	{ GRAPH_COLUMNS, columns, true },
	{ GRAPH_COLUMNS_GRAD, columns, true },
	{ GRAPH_GATHER, indexed, true },
	{ GRAPH_SCATTER_ADD, indexed, true },
	{ GRAPH_SUM, reduced, true },
	{ GRAPH_MEAN, reduced, false },
	{ GRAPH_REDUCE_MAX, reduced, true },
	{ GRAPH_SEGMENT_SUM, bags, true },
	{ GRAPH_SEGMENT_MEAN, bags, true },
	{ GRAPH_SEGMENT_SQRTN, bags, true },
	{ GRAPH_SEGMENT_MEAN_GRAD, bags, true },
	{ GRAPH_SEGMENT_SQRTN_GRAD, bags, true },
	{ GRAPH_MATMUL, matrices, true },
	{ GRAPH_SOFTMAX, row_input, true },
	{ GRAPH_SOFTMAX_GRAD, row_input, false },
	{ GRAPH_LAYER_NORM, normed, false },
	{ GRAPH_LAYER_NORM_GRAD, normed, false },
	{ GRAPH_BATCH_NORM, normed, false },
	{ GRAPH_BATCH_NORM_GRAD, normed, false },
	{ GRAPH_ATTENTION, attended, false },
	{ GRAPH_ATTENTION_GRAD, attended, false },
	{ GRAPH_SIGMOID_LOSS, row_input, true },
	{ GRAPH_SIGMOID_LOSS_GRAD, row_input, false },
	{ GRAPH_SOFTMAX_LOSS, classes, true },
	{ GRAPH_SOFTMAX_LOSS_GRAD, classes, true },
};
const unsigned trial_makers_count = sizeof(trial_makers) / sizeof(trial_makers[0]);
