/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Softmax, and layer and batch norm with their gradients (Ba, Kiros, Hinton, arXiv:1607.06450; Ioffe, Szegedy, ICML
 * 2015). The team divides the rows, or blocks of columns where sums are taken down the columns.
 */
#include "exec/kernel_internal.h"

enum { COLUMNS = 64, GRAIN = 8192 };

struct norm_work {
	const struct kernel_call *call;
	size_t rows, width, grain;
	double epsilon;
};

#define T float
#define NAME(name) name##_float
#include "exec/kernel_norm.inc"
#undef T
#undef NAME
#define T double
#define NAME(name) name##_double
#include "exec/kernel_norm.inc"
#undef T
#undef NAME

/* x: the input that has the output's shape. */
static struct norm_work work_of(const struct kernel_call *call, unsigned x)
{
	struct norm_work w = {
		.call = call,
		.rows = kernel_rows(call->in[x]),
		.width = kernel_last(call->in[x]),
		.epsilon = graph_attr_float(call->node, "epsilon", 1e-5),
	};

	w.grain = GRAIN / (w.width + 1) + 1;
	return w;
}

static void by_rows(struct norm_work *w, void (*of_float)(void *, uint64_t), void (*of_double)(void *, uint64_t))
{
	exec_team_run(w->call->team, kernel_parts(w->rows, w->grain),
		      w->call->in[0]->type.dtype == STAR_FLOAT64 ? of_double : of_float, w);
}

static void by_columns(struct norm_work *w, void (*of_float)(void *, uint64_t), void (*of_double)(void *, uint64_t))
{
	exec_team_run(w->call->team, kernel_parts(w->width, COLUMNS),
		      w->call->in[0]->type.dtype == STAR_FLOAT64 ? of_double : of_float, w);
}

int kernel_softmax(const struct kernel_call *call)
{
	struct norm_work w = work_of(call, 0);

	by_rows(&w, softmax_part_float, softmax_part_double);
	return 0;
}

int kernel_softmax_grad(const struct kernel_call *call)
{
	struct norm_work w = work_of(call, 0);

	by_rows(&w, softmax_grad_part_float, softmax_grad_part_double);
	return 0;
}

int kernel_layer_norm(const struct kernel_call *call)
{
	struct norm_work w = work_of(call, 0);

	by_rows(&w, layer_norm_part_float, layer_norm_part_double);
	return 0;
}

int kernel_layer_norm_grad(const struct kernel_call *call)
{
	struct norm_work w = work_of(call, 1);

	by_rows(&w, layer_norm_grad_part_float, layer_norm_grad_part_double);
	by_columns(&w, layer_norm_vectors_float, layer_norm_vectors_double);
	return 0;
}

int kernel_batch_norm(const struct kernel_call *call)
{
	struct norm_work w = work_of(call, 0);

	by_columns(&w, batch_norm_part_float, batch_norm_part_double);
	return 0;
}

int kernel_batch_norm_grad(const struct kernel_call *call)
{
	struct norm_work w = work_of(call, 1);

	by_columns(&w, batch_norm_grad_part_float, batch_norm_grad_part_double);
	return 0;
}
