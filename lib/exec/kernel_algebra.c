/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matrix products, by OpenBLAS with one thread per call. Large products are divided into blocks of rows of the result,
 * by sizes alone: a library that divides by the number of threads would return different bits for each number.
 */
#include "exec/kernel_internal.h"

#include <cblas.h>
#include <limits.h>
#include <string.h>

/* Rows of a block: some millions of multiplications. */
enum { BLOCK_WORK = 1 << 21, BLOCK_ROWS_MIN = 32 };

void kernel_gemm(const struct kernel_gemm *gemm, const void *a, const void *b, void *c)
{
	const int m = (int)gemm->m, n = (int)gemm->n, k = (int)gemm->k;
	const CBLAS_TRANSPOSE ta = gemm->transpose_a ? CblasTrans : CblasNoTrans;
	const CBLAS_TRANSPOSE tb = gemm->transpose_b ? CblasTrans : CblasNoTrans;
	const int lda = gemm->stride_a ? (int)gemm->stride_a : gemm->transpose_a ? m : k;
	const int ldb = gemm->transpose_b ? k : n;

	if (m == 0 || n == 0)
		return;
	if (k == 0)
		memset(c, 0, gemm->m * gemm->n * (gemm->is_double ? sizeof(double) : sizeof(float)));
	else if (gemm->is_double)
		cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, gemm->alpha, a, lda, b, ldb, 0, c, n);
	else
		cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, (float)gemm->alpha, a, lda, b, ldb, 0, c, n);
}

static bool fits_blas(const struct graph_tensor *tensor)
{
	const struct graph_shape *shape = &tensor->type.shape;

	return shape->dims[shape->ndim - 1] <= INT_MAX && shape->dims[shape->ndim - 2] <= INT_MAX;
}

/* ---- matmul ---- */

struct matmul_work {
	const struct kernel_call *call;
	struct kernel_gemm gemm; /* of a whole matrix of the batch */
	size_t block, blocks;	 /* rows of the result in a block, blocks of a matrix */
	size_t bytes;		 /* of an element */
};

static void matmul_part(void *context, uint64_t part)
{
	const struct matmul_work *w = context;
	const struct kernel_gemm *whole = &w->gemm;
	const size_t matrix = part / w->blocks, row = part % w->blocks * w->block;
	struct kernel_gemm gemm = *whole;

	gemm.m = whole->m - row < w->block ? whole->m - row : w->block;
	gemm.stride_a = whole->transpose_a ? whole->m : whole->k;
	kernel_gemm(&gemm,
		    (const uint8_t *)w->call->in[0]->data +
			    (matrix * whole->m * whole->k + row * (whole->transpose_a ? 1 : whole->k)) * w->bytes,
		    (const uint8_t *)w->call->in[1]->data + matrix * whole->k * whole->n * w->bytes,
		    (uint8_t *)w->call->out[0]->data + (matrix * whole->m + row) * whole->n * w->bytes);
}

int kernel_matmul(const struct kernel_call *call)
{
	const struct graph_shape *a = &call->in[0]->type.shape, *out = &call->out[0]->type.shape;
	const bool transpose_a = graph_attr_int(call->node, "transpose_a", 0) != 0;
	struct matmul_work w = {
		.call = call,
		.gemm = {
			.transpose_a = transpose_a,
			.transpose_b = graph_attr_int(call->node, "transpose_b", 0) != 0,
			.is_double = call->out[0]->type.dtype == STAR_FLOAT64,
			.m = (size_t)out->dims[out->ndim - 2],
			.n = (size_t)out->dims[out->ndim - 1],
			.k = (size_t)a->dims[a->ndim - (transpose_a ? 2 : 1)],
			.alpha = 1,
		},
		.bytes = dtype_bytes(call->out[0]->type.dtype),
	};

	if (!fits_blas(call->in[0]) || !fits_blas(call->in[1]))
		return kernel_fail(call, "a matrix has at most %d rows and columns", INT_MAX);
	w.block = BLOCK_WORK / (w.gemm.n * w.gemm.k + 1);
	w.block = w.block < BLOCK_ROWS_MIN ? BLOCK_ROWS_MIN : w.block;
	w.blocks = kernel_parts(w.gemm.m, w.block);
	if (kernel_count(call->out[0]))
		exec_team_run(call->team, kernel_product(out, 0, out->ndim - 2u) * w.blocks, matmul_part, &w);
	return 0;
}

/* ---- attention: softmax(scale q k') v (Vaswani et al., NIPS 2017, equation 1); each part is a matrix of the batch
 * ---- */

struct attention_work {
	const struct kernel_call *call;
	bool is_double;
	size_t m, n, k, d, bytes;
	double scale;
};

/* The product of matrix i of a and matrix i of b: a has sizes [m, k] and b [k, n], after the transposition that the
 * call asks for. */
static void attention_product(const struct attention_work *w, struct kernel_gemm gemm, const void *a, const void *b,
			      void *c, size_t i)
{
	gemm.is_double = w->is_double;
	kernel_gemm(&gemm, (const uint8_t *)a + i * gemm.m * gemm.k * w->bytes,
		    (const uint8_t *)b + i * gemm.k * gemm.n * w->bytes, (uint8_t *)c + i * gemm.m * gemm.n * w->bytes);
}

static void attention_part(void *context, uint64_t part)
{
	const struct attention_work *w = context;
	const struct graph_tensor *const *in = w->call->in;
	const int32_t *mask = w->call->node->inputs_count == 4 ? (const int32_t *)in[3]->data + part * w->n : NULL;
	void *weights = w->call->out[1]->data;

	attention_product(w,
			  (struct kernel_gemm){
				  .m = w->m, .k = w->k, .n = w->n, .transpose_b = true, .alpha = w->scale },
			  in[0]->data, in[1]->data, weights, part);
	for (size_t row = part * w->m; row < (part + 1) * w->m; row++)
		if (w->is_double)
			kernel_softmax_double((double *)weights + row * w->n, mask, (double *)weights + row * w->n,
					      w->n);
		else
			kernel_softmax_float((float *)weights + row * w->n, mask, (float *)weights + row * w->n, w->n);
	attention_product(w, (struct kernel_gemm){ .m = w->m, .k = w->n, .n = w->d, .alpha = 1 }, weights, in[2]->data,
			  w->call->out[0]->data, part);
}

static int attention_work(const struct kernel_call *call, unsigned q, struct attention_work *w)
{
	const struct graph_tensor *const *in = call->in + q;

	*w = (struct attention_work){
		.call = call,
		.is_double = in[0]->type.dtype == STAR_FLOAT64,
		.m = (size_t)in[0]->type.shape.dims[1],
		.k = (size_t)in[0]->type.shape.dims[2],
		.n = (size_t)in[1]->type.shape.dims[1],
		.d = (size_t)in[2]->type.shape.dims[2],
		.bytes = dtype_bytes(in[0]->type.dtype),
	};
	w->scale = graph_attr_float(call->node, "scale", 1 / sqrt((double)w->k));
	if (!fits_blas(in[0]) || !fits_blas(in[1]) || !fits_blas(in[2]))
		return kernel_fail(call, "a matrix has at most %d rows and columns", INT_MAX);
	return 0;
}

int kernel_attention(const struct kernel_call *call)
{
	struct attention_work w;

	if (attention_work(call, 0, &w) < 0)
		return -EINVAL;
	exec_team_run(call->team, (uint64_t)call->in[0]->type.shape.dims[0], attention_part, &w);
	return 0;
}

/* The gradient of the scores takes as much memory as the weights. */
uint64_t kernel_scratch_attention_grad(const struct graph_node *node, const struct graph_type *const *in,
				       const struct graph_type *const *out)
{
	return graph_type_bytes(in[4]);
}

/* weights (of - sum of (of weights)) along each row, in place. */
#define SCORES(T) \
	static void scores_##T(const T *weights, T *of, size_t rows, size_t n) \
	{ \
		for (size_t row = 0; row < rows; row++, weights += n, of += n) { \
			double sum = 0; \
\
			for (size_t i = 0; i < n; i++) \
				sum += (double)of[i] * (double)weights[i]; \
			for (size_t i = 0; i < n; i++) \
				of[i] = (T)((double)weights[i] * ((double)of[i] - sum)); \
		} \
	}
SCORES(float)
SCORES(double)

static void attention_grad_part(void *context, uint64_t part)
{
	const struct attention_work *w = context;
	const struct graph_tensor *const *in = w->call->in;
	struct graph_tensor *const *out = w->call->out;
	void *scores = w->call->scratch;
	const size_t at = part * w->m * w->n;

	attention_product(w, (struct kernel_gemm){ .m = w->n, .k = w->m, .n = w->d, .transpose_a = true, .alpha = 1 },
			  in[4]->data, in[0]->data, out[2]->data, part);
	attention_product(w, (struct kernel_gemm){ .m = w->m, .k = w->d, .n = w->n, .transpose_b = true, .alpha = 1 },
			  in[0]->data, in[3]->data, scores, part);
	if (w->is_double)
		scores_double((const double *)in[4]->data + at, (double *)scores + at, w->m, w->n);
	else
		scores_float((const float *)in[4]->data + at, (float *)scores + at, w->m, w->n);
	attention_product(w, (struct kernel_gemm){ .m = w->m, .k = w->n, .n = w->k, .alpha = w->scale }, scores,
			  in[2]->data, out[0]->data, part);
	attention_product(w,
			  (struct kernel_gemm){
				  .m = w->n, .k = w->m, .n = w->k, .transpose_a = true, .alpha = w->scale },
			  scores, in[1]->data, out[1]->data, part);
}

int kernel_attention_grad(const struct kernel_call *call)
{
	struct attention_work w;

	if (attention_work(call, 1, &w) < 0)
		return -EINVAL;
	exec_team_run(call->team, (uint64_t)call->in[1]->type.shape.dims[0], attention_grad_part, &w);
	return 0;
}
