/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of kernels, and helpers of several kernels. */
#include "exec/kernel_internal.h"

#include <stdarg.h>
#include <stdio.h>

struct kernel {
	int (*run)(const struct kernel_call *call);
	uint64_t (*scratch)(const struct graph_node *node, const struct graph_type *const *in,
			    const struct graph_type *const *out);
};

#define K(name) .run = kernel_##name
#define S(name) .run = kernel_##name, .scratch = kernel_scratch_##name
static const struct kernel kernels[GRAPH_OPS_END] = {
	[GRAPH_CONST] = { K(constant) },
	[GRAPH_RANDOM] = { K(random) },
	[GRAPH_NEG] = { K(unary) },
	[GRAPH_EXP] = { K(unary) },
	[GRAPH_LOG] = { K(unary) },
	[GRAPH_SQRT] = { K(unary) },
	[GRAPH_SQUARE] = { K(unary) },
	[GRAPH_ABS] = { K(unary) },
	[GRAPH_SIGN] = { K(unary) },
	[GRAPH_RELU] = { K(unary) },
	[GRAPH_SIGMOID] = { K(unary) },
	[GRAPH_TANH] = { K(unary) },
	[GRAPH_CAST] = { K(cast) },
	[GRAPH_ADD] = { K(binary) },
	[GRAPH_SUB] = { K(binary) },
	[GRAPH_MUL] = { K(binary) },
	[GRAPH_DIV] = { K(binary) },
	[GRAPH_MAX] = { K(binary) },
	[GRAPH_MIN] = { K(binary) },
	[GRAPH_LESS] = { K(binary) },
	[GRAPH_EQUAL] = { K(binary) },
	[GRAPH_SELECT] = { K(select) },
	[GRAPH_ADD_N] = { K(add_n) },
	[GRAPH_DROPOUT] = { K(dropout) },
	[GRAPH_IDENTITY] = { K(copy) },
	[GRAPH_STOP_GRADIENT] = { K(copy) },
	[GRAPH_RESHAPE] = { K(copy) },
	[GRAPH_TRANSPOSE] = { K(transpose) },
	[GRAPH_CONCAT] = { K(concat) },
	[GRAPH_SPLIT] = { K(split) },
	[GRAPH_SLICE] = { K(slice) },
	[GRAPH_PAD] = { K(pad) },
	[GRAPH_PAD_LIKE] = { K(pad) },
	[GRAPH_EXPAND] = { K(expand) },
	[GRAPH_REDUCE_LIKE] = { K(reduce_like) },
	[GRAPH_INDEX] = { K(index) },
	[GRAPH_INDEX_GRAD] = { K(index_grad) },
	[GRAPH_HEAD] = { K(head) },
	[GRAPH_GATHER] = { K(gather) },
	[GRAPH_SCATTER_ADD] = { K(scatter_add) },
	[GRAPH_COLUMNS] = { K(columns) },
	[GRAPH_COLUMNS_GRAD] = { K(columns_grad) },
	[GRAPH_SUM] = { K(reduce) },
	[GRAPH_MEAN] = { K(reduce) },
	[GRAPH_REDUCE_MAX] = { K(reduce) },
	[GRAPH_SEGMENT_SUM] = { S(segment) },
	[GRAPH_SEGMENT_MEAN] = { S(segment) },
	[GRAPH_SEGMENT_SQRTN] = { S(segment) },
	[GRAPH_SEGMENT_MEAN_GRAD] = { .run = kernel_segment_grad, .scratch = kernel_scratch_segment },
	[GRAPH_SEGMENT_SQRTN_GRAD] = { .run = kernel_segment_grad, .scratch = kernel_scratch_segment },
	[GRAPH_UNIQUE] = { S(unique) },
	[GRAPH_HASH_CROSS] = { K(hash_cross) },
	[GRAPH_MATMUL] = { K(matmul) },
	[GRAPH_SOFTMAX] = { K(softmax) },
	[GRAPH_SOFTMAX_GRAD] = { K(softmax_grad) },
	[GRAPH_LAYER_NORM] = { K(layer_norm) },
	[GRAPH_LAYER_NORM_GRAD] = { K(layer_norm_grad) },
	[GRAPH_BATCH_NORM] = { K(batch_norm) },
	[GRAPH_BATCH_NORM_GRAD] = { K(batch_norm_grad) },
	[GRAPH_ATTENTION] = { K(attention) },
	[GRAPH_ATTENTION_GRAD] = { S(attention_grad) },
	[GRAPH_SIGMOID_LOSS] = { K(sigmoid_loss) },
	[GRAPH_SIGMOID_LOSS_GRAD] = { K(sigmoid_loss_grad) },
	[GRAPH_SOFTMAX_LOSS] = { K(softmax_loss) },
	[GRAPH_SOFTMAX_LOSS_GRAD] = { K(softmax_loss_grad) },
};

bool kernel_exists(enum graph_op op)
{
	return kernels[op].run;
}

uint64_t kernel_scratch(const struct graph_node *node, const struct graph_type *const *in,
			const struct graph_type *const *out)
{
	return kernels[node->op].scratch ? kernels[node->op].scratch(node, in, out) : 0;
}

int kernel_run(const struct kernel_call *call)
{
	if (!kernel_exists(call->node->op))
		return kernel_fail(call, "%s has no kernel", graph_op_name(call->node->op));
	return kernels[call->node->op].run(call);
}

int kernel_fail(const struct kernel_call *call, const char *format, ...)
{
	char text[300];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return star_error_set(call->err, -EINVAL, "node \"%s\": %s", call->node->name, text);
}

int kernel_check_indices(const struct kernel_call *call, const struct graph_tensor *tensor, int64_t bound)
{
	const size_t n = kernel_count(tensor);

	for (size_t i = 0; i < n; i++) {
		const int64_t index = kernel_element(tensor, i);

		if (index < 0 || index >= bound)
			return kernel_fail(call, "index %lld, its element %zu, is not in [0, %lld)", (long long)index,
					   i, (long long)bound);
	}
	return 0;
}

double kernel_exp(double x)
{
	return tensor_elementary_exp(x);
}

double kernel_log(double x)
{
	if (x > 0 && x < (double)INFINITY)
		return tensor_elementary_log(x);
	return x == 0 ? (double)-INFINITY : x > 0 ? x : (double)NAN;
}

/* After W. Kahan: the ratio corrects for the rounding error of 1 + x. */
double kernel_log1p(double x)
{
	const double u = 1 + x;

	return u == 1 ? x : tensor_elementary_log(u) * (x / (u - 1));
}

double kernel_sigmoid(double x)
{
	const double e = kernel_exp(-fabs(x));

	return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

void kernel_broadcast_set(struct broadcast *b, const struct graph_shape *out, const struct graph_tensor *const *in,
			  unsigned operands)
{
	size_t strides[BROADCAST_OPERANDS][GRAPH_DIMS_MAX];

	for (unsigned o = 0; o < operands; o++) {
		const struct graph_shape *shape = &in[o]->type.shape;
		size_t stride = 1;

		for (unsigned i = 1; i <= out->ndim; i++) {
			const size_t size = i <= shape->ndim ? (size_t)shape->dims[shape->ndim - i] : 1;

			strides[o][out->ndim - i] = size == 1 ? 0 : stride;
			stride *= size;
		}
	}
	*b = (struct broadcast){ .operands = operands };
	for (unsigned i = 0; i < out->ndim; i++) {
		const size_t size = (size_t)out->dims[i];
		bool join = b->ndim > 0;

		if (size == 1)
			continue;
		for (unsigned o = 0; o < operands && join; o++)
			join = b->strides[o][b->ndim - 1] == strides[o][i] * size;
		if (!join)
			b->dims[b->ndim++] = 1;
		b->dims[b->ndim - 1] *= size;
		for (unsigned o = 0; o < operands; o++)
			b->strides[o][b->ndim - 1] = strides[o][i];
	}
	if (!b->ndim) {
		b->dims[b->ndim++] = 1;
		for (unsigned o = 0; o < operands; o++)
			b->strides[o][0] = 0;
	}
}

void kernel_broadcast_walk(const struct broadcast *b, size_t from, size_t to, void *context,
			   void (*run)(void *context, size_t out, const size_t at[BROADCAST_OPERANDS], size_t length))
{
	const unsigned last = b->ndim - 1;

	while (from < to) {
		const size_t column = from % b->dims[last];
		const size_t left = b->dims[last] - column, length = left < to - from ? left : to - from;
		size_t at[BROADCAST_OPERANDS] = { 0 }, rest = from / b->dims[last];

		for (unsigned o = 0; o < b->operands; o++)
			at[o] = column * b->strides[o][last];
		for (unsigned i = last; i-- > 0; rest /= b->dims[i])
			for (unsigned o = 0; o < b->operands; o++)
				at[o] += rest % b->dims[i] * b->strides[o][i];
		run(context, from, at, length);
		from += length;
	}
}
