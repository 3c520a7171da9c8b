/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adds rows to the targets that an index gives: embedding bags, and the gradient of gather. The rows of a target are
 * added in their order, by one thread, whatever the team's size: either the columns or the targets are divided.
 */
#include "exec/kernel_internal.h"

#include <string.h>

enum { GRAIN = 32768, PARTS_MAX = 16 };

struct bags {
	const struct graph_tensor *index;
	const uint8_t *rows;
	uint8_t *out;
	const uint32_t *counts; /* number of rows of each target; NULL: not needed */
	size_t n, targets, width;
	uint64_t parts;
	enum graph_op op;
	bool is_double;
};

/* The factor of the rows of a bag. */
static double weight_of(const struct bags *b, size_t target)
{
	const uint32_t count = b->counts[target];

	if (b->op == GRAPH_SEGMENT_MEAN || b->op == GRAPH_SEGMENT_MEAN_GRAD)
		return count ? 1.0 / count : 0;
	return count ? 1 / sqrt((double)count) : 0;
}

/* Integers are added as unsigned ones of the same size, so they wrap around. */
#define SCATTER(T) \
	static void scatter_##T(const struct bags *b, size_t from, size_t to) \
	{ \
		T *out = (T *)b->out; \
\
		memset(out + from * b->width, 0, (to - from) * b->width * sizeof(T)); \
		for (size_t i = 0; i < b->n; i++) { \
			const size_t target = (size_t)kernel_element(b->index, i); \
			const T *row = (const T *)b->rows + i * b->width; \
			T *sum = out + target * b->width; \
\
			if (target < from || target >= to) \
				continue; \
			for (size_t k = 0; k < b->width; k++) \
				sum[k] += row[k]; \
		} \
	}
SCATTER(float)
SCATTER(double)
SCATTER(uint32_t)
SCATTER(uint64_t)

/* Means divide, rather than multiply by the reciprocal, so that three thirds of 3 are exactly 3. */
#define BAGS(T) \
	static void scatter_bags_##T(const struct bags *b, size_t from, size_t to) \
	{ \
		T *out = (T *)b->out; \
\
		scatter_##T(b, from, to); \
		for (size_t t = from; b->counts && t < to; t++) { \
			const T divisor = \
				b->op == GRAPH_SEGMENT_MEAN ? (T)b->counts[t] : (T)sqrt((double)b->counts[t]); \
\
			for (size_t k = 0; k < b->width && b->counts[t]; k++) \
				out[t * b->width + k] /= divisor; \
		} \
	} \
\
	static void spread_##T(const struct bags *b, size_t from, size_t to) \
	{ \
		for (size_t i = from; i < to; i++) { \
			const size_t target = (size_t)kernel_element(b->index, i); \
			const T weight = (T)weight_of(b, target), *g = (const T *)b->rows + target * b->width; \
			T *out = (T *)b->out + i * b->width; \
\
			for (size_t k = 0; k < b->width; k++) \
				out[k] = g[k] * weight; \
		} \
	}
BAGS(float)
BAGS(double)

static void (*const scatters[KERNEL_TYPES])(const struct bags *b, size_t from, size_t to) = {
	[KERNEL_FLOAT32] = scatter_bags_float,
	[KERNEL_FLOAT64] = scatter_bags_double,
	[KERNEL_INT32] = scatter_uint32_t,
	[KERNEL_INT64] = scatter_uint64_t,
};

struct scatter_work {
	struct bags bags;
	enum kernel_type type;
};

static void scatter_part(void *context, uint64_t part)
{
	const struct scatter_work *w = context;
	const size_t targets = w->bags.targets;

	scatters[w->type](&w->bags, targets * part / w->bags.parts, targets * (part + 1) / w->bags.parts);
}

/* Each part reads all indices, so there are few parts. */
static void scatter(const struct kernel_call *call, struct bags bags)
{
	struct scatter_work w = { .bags = bags, .type = kernel_type(call->out[0]) };

	w.bags.parts = kernel_parts(bags.n * bags.width, GRAIN);
	w.bags.parts = w.bags.parts > PARTS_MAX ? PARTS_MAX : w.bags.parts ? w.bags.parts : 1;
	exec_team_run(call->team, w.bags.parts, scatter_part, &w);
}

/* The arguments of a kernel: the rows of in[0], which in[1] assigns to the rows of `targets`. -EINVAL: an index is out
 * of range. */
static int take_bags(const struct kernel_call *call, const struct graph_tensor *targets, struct bags *bags)
{
	const struct graph_shape *shape = &targets->type.shape;

	*bags = (struct bags){
		.index = call->in[1],
		.rows = call->in[0]->data,
		.out = call->out[0]->data,
		.n = kernel_count(call->in[1]),
		.targets = (size_t)shape->dims[0],
		.width = kernel_product(shape, 1, shape->ndim),
		.op = call->node->op,
		.is_double = call->out[0]->type.dtype == STAR_FLOAT64,
	};
	return kernel_check_indices(call, call->in[1], shape->dims[0]) < 0 ? -EINVAL : 0;
}

int kernel_scatter_add(const struct kernel_call *call)
{
	struct bags bags;

	if (take_bags(call, call->out[0], &bags) < 0)
		return -EINVAL;
	scatter(call, bags);
	return 0;
}

uint64_t kernel_scratch_segment(const struct graph_node *node, const struct graph_type *const *in,
				const struct graph_type *const *out)
{
	/* The segments: forward operations have those of "like", their gradients those of g. */
	const bool grad = node->op == GRAPH_SEGMENT_MEAN_GRAD || node->op == GRAPH_SEGMENT_SQRTN_GRAD;

	return (uint64_t)in[grad ? 0 : 2]->shape.dims[0] * sizeof(uint32_t);
}

static uint32_t *count_rows(const struct kernel_call *call, size_t targets)
{
	uint32_t *counts = call->scratch;
	const int32_t *segments = call->in[1]->data;
	const size_t n = kernel_count(call->in[1]);

	memset(counts, 0, targets * sizeof(*counts));
	for (size_t i = 0; i < n; i++)
		counts[segments[i]]++;
	return counts;
}

int kernel_segment(const struct kernel_call *call)
{
	struct bags bags;

	if (take_bags(call, call->out[0], &bags) < 0)
		return -EINVAL;
	if (bags.op != GRAPH_SEGMENT_SUM)
		bags.counts = count_rows(call, bags.targets);
	scatter(call, bags);
	return 0;
}

static void spread_part(void *context, uint64_t part)
{
	const struct bags *b = context;
	const size_t from = b->n * part / b->parts, to = b->n * (part + 1) / b->parts;

	if (b->is_double)
		spread_double(b, from, to);
	else
		spread_float(b, from, to);
}

int kernel_segment_grad(const struct kernel_call *call)
{
	struct bags bags;

	if (take_bags(call, call->in[0], &bags) < 0) /* g has a row for each segment */
		return -EINVAL;
	bags.counts = count_rows(call, bags.targets);
	bags.parts = kernel_parts(bags.n * bags.width, GRAIN);
	if (bags.parts)
		exec_team_run(call->team, bags.parts, spread_part, &bags);
	return 0;
}
