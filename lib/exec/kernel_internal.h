/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernels' files share: the functions of the table (kernel.c), and small helpers. Pure functions, apart from
 * errors. */
#ifndef EXEC_KERNEL_INTERNAL_H
#define EXEC_KERNEL_INTERNAL_H

#include <errno.h>
#include <math.h>

#include "exec/kernel.h"
#include "exec/kernel_math.h"
#include "tensor/elementary.h"

/* Exponentials are computed in blocks of this many. */
enum { KERNEL_BLOCK = 64 };

/* The element types of values, as indices into tables. */
enum kernel_type { KERNEL_FLOAT32, KERNEL_FLOAT64, KERNEL_INT32, KERNEL_INT64, KERNEL_TYPES };

static inline enum kernel_type kernel_type(const struct graph_tensor *tensor)
{
	return tensor->type.dtype == STAR_FLOAT32   ? KERNEL_FLOAT32
	       : tensor->type.dtype == STAR_FLOAT64 ? KERNEL_FLOAT64
	       : tensor->type.dtype == STAR_INT32   ? KERNEL_INT32
						    : KERNEL_INT64;
}

static inline bool kernel_is_float(const struct graph_tensor *tensor)
{
	return tensor->type.dtype == STAR_FLOAT32 || tensor->type.dtype == STAR_FLOAT64;
}

static inline size_t kernel_count(const struct graph_tensor *tensor)
{
	return (size_t)graph_elements(&tensor->type.shape);
}

static inline size_t kernel_bytes(const struct graph_tensor *tensor)
{
	return (size_t)graph_type_bytes(&tensor->type);
}

/* Product of the sizes of dimensions [from, to). */
static inline size_t kernel_product(const struct graph_shape *shape, unsigned from, unsigned to)
{
	size_t n = 1;

	for (unsigned i = from; i < to; i++)
		n *= (size_t)shape->dims[i];
	return n;
}

static inline size_t kernel_last(const struct graph_tensor *tensor)
{
	const struct graph_shape *shape = &tensor->type.shape;

	return shape->ndim ? (size_t)shape->dims[shape->ndim - 1] : 1;
}

/* Product of all sizes but the last. */
static inline size_t kernel_rows(const struct graph_tensor *tensor)
{
	const struct graph_shape *shape = &tensor->type.shape;

	return shape->ndim ? kernel_product(shape, 0, shape->ndim - 1u) : 1;
}

/* Element i of an int32 or int64 tensor. */
static inline int64_t kernel_element(const struct graph_tensor *tensor, size_t i)
{
	return tensor->type.dtype == STAR_INT32 ? ((const int32_t *)tensor->data)[i]
						: ((const int64_t *)tensor->data)[i];
}

/* Fills call->err with a message that names the node; returns -EINVAL. */
int kernel_fail(const struct kernel_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* 0 if all elements of an int32 or int64 tensor are in [0, bound); else an error that names the node, the index and the
 * bound. */
int kernel_check_indices(const struct kernel_call *call, const struct graph_tensor *tensor, int64_t bound);

/* The number of parts into which a loop over n is divided for a team. It depends on sizes alone. */
static inline uint64_t kernel_parts(size_t n, size_t grain)
{
	return n / grain + (n % grain != 0);
}

/* The range [from, to) of n that a part processes. */
static inline size_t kernel_from(uint64_t part, size_t grain)
{
	return (size_t)part * grain;
}

static inline size_t kernel_to(uint64_t part, size_t grain, size_t n)
{
	return n - part * grain < grain ? n : (part + 1) * grain;
}

/* These have the same results as the functions of lib/tensor, bit for bit, for all arguments. */
double kernel_exp(double x);
double kernel_log(double x);
double kernel_log1p(double x); /* x in [0, 1] */
double kernel_sigmoid(double x);

/* c [m, n] = alpha op(a) op(b), with op(a) [m, k] and op(b) [k, n]. Row-major; computed by the calling thread. */
struct kernel_gemm {
	bool transpose_a, transpose_b, is_double;
	size_t m, n, k;
	size_t stride_a; /* elements from one row of a to the next; 0: there are no gaps */
	double alpha;
};
void kernel_gemm(const struct kernel_gemm *gemm, const void *a, const void *b, void *c);

/* The softmax of a row. mask (NULL: none): y is 0 where the mask is 0. x may be y. */
void kernel_softmax_float(const float *x, const int32_t *mask, float *y, size_t n);
void kernel_softmax_double(const double *x, const int32_t *mask, double *y, size_t n);

/* Strides of operands along the output's dimensions. Neighbouring dimensions are merged if all operands allow it. */
enum { BROADCAST_OPERANDS = 3 };
struct broadcast {
	unsigned ndim, operands;
	size_t dims[GRAPH_DIMS_MAX];
	size_t strides[BROADCAST_OPERANDS][GRAPH_DIMS_MAX]; /* in elements; that of the last dimension is 0 or 1 */
};
void kernel_broadcast_set(struct broadcast *b, const struct graph_shape *out, const struct graph_tensor *const *in,
			  unsigned operands);
/* Calls run for each contiguous piece of [from, to) of the output along its last dimension, with its offsets in the
 * output and in each operand, and its length. */
void kernel_broadcast_walk(const struct broadcast *b, size_t from, size_t to, void *context,
			   void (*run)(void *context, size_t out, const size_t at[BROADCAST_OPERANDS], size_t length));

#define KERNEL_LIST(X) \
	X(unary) \
	X(cast) \
	X(binary) \
	X(select) \
	X(add_n) \
	X(dropout) \
	X(random) \
	X(copy) \
	X(constant) \
	X(transpose) \
	X(concat) \
	X(split) \
	X(slice) \
	X(pad) \
	X(expand) \
	X(reduce_like) \
	X(index) \
	X(index_grad) \
	X(gather) \
	X(columns) \
	X(columns_grad) \
	X(scatter_add) \
	X(head) \
	X(reduce) \
	X(segment) \
	X(segment_grad) \
	X(unique) \
	X(hash_cross) \
	X(matmul) \
	X(softmax) \
	X(softmax_grad) \
	X(layer_norm) \
	X(layer_norm_grad) \
	X(batch_norm) \
	X(batch_norm_grad) \
	X(attention) \
	X(attention_grad) \
	X(sigmoid_loss) \
	X(sigmoid_loss_grad) \
	X(softmax_loss) \
	X(softmax_loss_grad)
#define X(name) int kernel_##name(const struct kernel_call *call);
KERNEL_LIST(X)
#undef X

#define KERNEL_SCRATCH_LIST(X) X(unique) X(segment) X(attention_grad)
#define X(name) \
	uint64_t kernel_scratch_##name(const struct graph_node *node, const struct graph_type *const *in, \
				       const struct graph_type *const *out);
KERNEL_SCRATCH_LIST(X)
#undef X

#endif
