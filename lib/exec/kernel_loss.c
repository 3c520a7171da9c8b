/* SPDX-License-Identifier: BSD-3-Clause */
/* The loss of each row, and its gradient. */
#include "exec/kernel_internal.h"

enum { GRAIN = 1024 };

struct loss_work {
	const struct kernel_call *call;
	size_t n, width, grain;
};

/* max(x, 0) - x z + ln(1 + e^-|x|): nothing overflows. */
#define SIGMOID_LOSS(T) \
	static void sigmoid_loss_##T(void *context, uint64_t part) \
	{ \
		const struct loss_work *w = context; \
		const size_t to = kernel_to(part, w->grain, w->n); \
		const T *logits = w->call->in[0]->data, *labels = w->call->in[1]->data; \
		T *out = w->call->out[0]->data; \
\
		for (size_t i = kernel_from(part, w->grain); i < to; i++) { \
			const double x = (double)logits[i], z = (double)labels[i]; \
\
			out[i] = (T)((x < 0 ? 0 : x) - x * z + kernel_log1p(kernel_exp(-fabs(x)))); \
		} \
	} \
\
	static void sigmoid_loss_grad_##T(void *context, uint64_t part) \
	{ \
		const struct loss_work *w = context; \
		const size_t to = kernel_to(part, w->grain, w->n); \
		const T *g = w->call->in[0]->data, *logits = w->call->in[1]->data, *labels = w->call->in[2]->data; \
		T *out = w->call->out[0]->data; \
\
		for (size_t i = kernel_from(part, w->grain); i < to; i++) \
			out[i] = (T)((double)g[i] * (kernel_sigmoid((double)logits[i]) - (double)labels[i])); \
	}
SIGMOID_LOSS(float)
SIGMOID_LOSS(double)

/* ln(sum of e^(x - maximum)) - (x of the class - maximum) */
#define SOFTMAX_LOSS(T) \
	static void softmax_loss_##T(void *context, uint64_t part) \
	{ \
		const struct loss_work *w = context; \
		const size_t to = kernel_to(part, w->grain, w->n), k = w->width; \
\
		for (size_t row = kernel_from(part, w->grain); row < to; row++) { \
			const T *x = (const T *)w->call->in[0]->data + row * k; \
			const size_t class = (size_t)kernel_element(w->call->in[1], row); \
			double greatest = (double)-INFINITY, sum = 0; \
\
			for (size_t i = 0; i < k; i++) \
				if (!((double)x[i] <= greatest)) \
					greatest = (double)x[i]; \
			for (size_t i = 0; i < k; i++) \
				sum += kernel_exp((double)x[i] - greatest); \
			((T *)w->call->out[0]->data)[row] = (T)(kernel_log(sum) - ((double)x[class] - greatest)); \
			kernel_softmax_##T(x, NULL, (T *)w->call->out[1]->data + row * k, k); \
		} \
	} \
\
	static void softmax_loss_grad_##T(void *context, uint64_t part) \
	{ \
		const struct loss_work *w = context; \
		const size_t to = kernel_to(part, w->grain, w->n), k = w->width; \
\
		for (size_t row = kernel_from(part, w->grain); row < to; row++) { \
			const T g = ((const T *)w->call->in[0]->data)[row]; \
			const T *p = (const T *)w->call->in[1]->data + row * k; \
			const size_t class = (size_t)kernel_element(w->call->in[2], row); \
			T *out = (T *)w->call->out[0]->data + row * k; \
\
			for (size_t i = 0; i < k; i++) \
				out[i] = g * (p[i] - (i == class)); \
		} \
	}
SOFTMAX_LOSS(float)
SOFTMAX_LOSS(double)

static int run_loss(struct loss_work *w, void (*of_float)(void *, uint64_t), void (*of_double)(void *, uint64_t))
{
	w->grain = GRAIN / (w->width + 1) + 1;
	exec_team_run(w->call->team, kernel_parts(w->n, w->grain),
		      w->call->in[0]->type.dtype == STAR_FLOAT64 ? of_double : of_float, w);
	return 0;
}

int kernel_sigmoid_loss(const struct kernel_call *call)
{
	struct loss_work w = { .call = call, .n = kernel_count(call->out[0]) };

	return run_loss(&w, sigmoid_loss_float, sigmoid_loss_double);
}

int kernel_sigmoid_loss_grad(const struct kernel_call *call)
{
	struct loss_work w = { .call = call, .n = kernel_count(call->out[0]) };

	return run_loss(&w, sigmoid_loss_grad_float, sigmoid_loss_grad_double);
}

int kernel_softmax_loss(const struct kernel_call *call)
{
	struct loss_work w = { .call = call, .n = kernel_rows(call->in[0]), .width = kernel_last(call->in[0]) };

	if (kernel_check_indices(call, call->in[1], (int64_t)w.width) < 0)
		return -EINVAL;
	return run_loss(&w, softmax_loss_float, softmax_loss_double);
}

int kernel_softmax_loss_grad(const struct kernel_call *call)
{
	struct loss_work w = { .call = call, .n = kernel_rows(call->in[1]), .width = kernel_last(call->in[1]) };

	if (kernel_check_indices(call, call->in[2], (int64_t)w.width) < 0)
		return -EINVAL;
	return run_loss(&w, softmax_loss_grad_float, softmax_loss_grad_double);
}
