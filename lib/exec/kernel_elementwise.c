/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elementwise kernels. One function for each operation and element type processes a contiguous range; integers wrap
 * around, as in NumPy.
 */
#include "exec/kernel_internal.h"

#include <string.h>

enum { GRAIN = 16384, GRAIN_SLOW = 1024 };

/* ---- one input ---- */

typedef void unary_run(const void *in, void *out, size_t n);

#define UNARY(name, T, expression) \
	static void name##_##T(const void *in, void *out, size_t n) \
	{ \
		const T *from = in; \
		T *to = out; \
\
		for (size_t i = 0; i < n; i++) { \
			const T x = from[i]; \
\
			to[i] = (T)(expression); \
		} \
	}
#define UNARY_FLOATS(name, expression) UNARY(name, float, expression) UNARY(name, double, expression)
#define UNARY_INTS(name, expression) UNARY(name, int32_t, expression) UNARY(name, int64_t, expression)

UNARY_FLOATS(neg, -x)
UNARY_FLOATS(log, kernel_log((double)x))
UNARY(sqrt, float, sqrtf(x))
UNARY(sqrt, double, sqrt(x))
UNARY_FLOATS(square, x *x)
UNARY_FLOATS(abs, x < 0 ? -x : x + 0) /* + 0, so that -0 becomes 0 */
UNARY_FLOATS(sign, (x > 0) - (x < 0))
UNARY_FLOATS(relu, x < 0 ? 0 : x) /* NaN remains NaN */
UNARY_INTS(neg, -(uint64_t)x)
UNARY_INTS(square, (uint64_t)x *(uint64_t)x)
UNARY_INTS(abs, x < 0 ? -(uint64_t)x : (uint64_t)x)
UNARY_INTS(sign, (x > 0) - (x < 0))
UNARY_INTS(relu, x < 0 ? 0 : x)

/* Functions that are computed from e^argument, a block at a time. x is the input, e the exponential. */
#define EXPONENTIAL(name, T, argument, expression) \
	static void name##_##T(const void *in, void *out, size_t n) \
	{ \
		double arguments[KERNEL_BLOCK], powers[KERNEL_BLOCK]; \
\
		for (size_t from = 0; from < n; from += KERNEL_BLOCK) { \
			const size_t count = n - from < KERNEL_BLOCK ? n - from : KERNEL_BLOCK; \
			const T *numbers = (const T *)in + from; \
			T *to = (T *)out + from; \
\
			for (size_t i = 0; i < count; i++) { \
				const double x = (double)numbers[i]; \
\
				arguments[i] = (argument); \
			} \
			kernel_exp_many(arguments, powers, count); \
			for (size_t i = 0; i < count; i++) { \
				const double x = (double)numbers[i], e = powers[i]; \
\
				to[i] = (T)(expression); \
				(void)x; \
			} \
		} \
	}
#define EXPONENTIALS(name, argument, expression) \
	EXPONENTIAL(name, float, argument, expression) EXPONENTIAL(name, double, argument, expression)

EXPONENTIALS(exp, x, e)
EXPONENTIALS(sigmoid, -fabs(x), x < 0 ? e / (1 + e) : 1 / (1 + e))
/* Near 0 by the power series, because the difference loses digits there. */
EXPONENTIALS(tanh, -2 * fabs(x),
	     x *x < 1e-4 ? x * (1 + x * x * (-1.0 / 3 + x * x * (2.0 / 15 + x * x * (-17.0 / 315))))
			 : (x < 0 ? e - 1 : 1 - e) / (1 + e))

#define FLOATS(name) [KERNEL_FLOAT32] = name##_float, [KERNEL_FLOAT64] = name##_double
#define ALL(name) FLOATS(name), [KERNEL_INT32] = name##_int32_t, [KERNEL_INT64] = name##_int64_t
/* grain: number of elements that a thread processes at once. */
static const struct {
	unary_run *run[KERNEL_TYPES];
	size_t grain;
} unary[GRAPH_OPS_END] = {
	[GRAPH_NEG] = { { ALL(neg) }, GRAIN },
	[GRAPH_EXP] = { { FLOATS(exp) }, GRAIN_SLOW },
	[GRAPH_LOG] = { { FLOATS(log) }, GRAIN_SLOW },
	[GRAPH_SQRT] = { { FLOATS(sqrt) }, GRAIN },
	[GRAPH_SQUARE] = { { ALL(square) }, GRAIN },
	[GRAPH_ABS] = { { ALL(abs) }, GRAIN },
	[GRAPH_SIGN] = { { ALL(sign) }, GRAIN },
	[GRAPH_RELU] = { { ALL(relu) }, GRAIN },
	[GRAPH_SIGMOID] = { { FLOATS(sigmoid) }, GRAIN_SLOW },
	[GRAPH_TANH] = { { FLOATS(tanh) }, GRAIN_SLOW },
};

struct unary_work {
	const uint8_t *in;
	uint8_t *out;
	size_t n, grain, in_bytes, out_bytes; /* of an element */
	unary_run *run;
};

static void unary_part(void *context, uint64_t part)
{
	const struct unary_work *w = context;
	const size_t from = part * w->grain, n = w->n - from < w->grain ? w->n - from : w->grain;

	w->run(w->in + from * w->in_bytes, w->out + from * w->out_bytes, n);
}

static int run_unary(const struct kernel_call *call, unary_run *run, size_t grain)
{
	struct unary_work w = {
		.in = call->in[0]->data,
		.out = call->out[0]->data,
		.n = kernel_count(call->out[0]),
		.grain = grain,
		.in_bytes = dtype_bytes(call->in[0]->type.dtype),
		.out_bytes = dtype_bytes(call->out[0]->type.dtype),
		.run = run,
	};

	if (!run)
		return kernel_fail(call, "%s does not support %s", graph_op_name(call->node->op),
				   dtype_name(call->in[0]->type.dtype));
	exec_team_run(call->team, kernel_parts(w.n, w.grain), unary_part, &w);
	return 0;
}

int kernel_unary(const struct kernel_call *call)
{
	const enum graph_op op = call->node->op;

	return run_unary(call, unary[op].run[kernel_type(call->in[0])], unary[op].grain);
}

/* ---- casts: towards zero; values out of range are clamped, and NaN becomes 0 ---- */

#define CAST(A, B) \
	static void cast_##A##_##B(const void *in, void *out, size_t n) \
	{ \
		const A *from = in; \
		B *to = out; \
\
		for (size_t i = 0; i < n; i++) \
			to[i] = (B)from[i]; \
	}
/* The bounds are powers of two, so exact in both float types. */
#define CAST_BOUNDED(A, B, low, high, greatest) \
	static void cast_##A##_##B(const void *in, void *out, size_t n) \
	{ \
		const A *from = in; \
		B *to = out; \
\
		for (size_t i = 0; i < n; i++) \
			to[i] = from[i] >= (A)high  ? greatest \
				: from[i] > (A)low  ? (B)from[i] \
				: from[i] <= (A)low ? -greatest - 1 \
						    : 0; \
	}
#define CASTS(A) CAST(A, float) CAST(A, double) CAST(A, int32_t) CAST(A, int64_t)
CASTS(int32_t)
CASTS(int64_t)
CAST(float, float)
CAST(float, double)
CAST(double, float)
CAST(double, double)
CAST_BOUNDED(float, int32_t, -0x1p31, 0x1p31, INT32_MAX)
CAST_BOUNDED(float, int64_t, -0x1p63, 0x1p63, INT64_MAX)
CAST_BOUNDED(double, int32_t, -0x1p31, 0x1p31, INT32_MAX)
CAST_BOUNDED(double, int64_t, -0x1p63, 0x1p63, INT64_MAX)

static unary_run *const casts[KERNEL_TYPES][KERNEL_TYPES] = {
	[KERNEL_FLOAT32] = { ALL(cast_float) },
	[KERNEL_FLOAT64] = { ALL(cast_double) },
	[KERNEL_INT32] = { ALL(cast_int32_t) },
	[KERNEL_INT64] = { ALL(cast_int64_t) },
};

int kernel_cast(const struct kernel_call *call)
{
	return run_unary(call, casts[kernel_type(call->in[0])][kernel_type(call->out[0])], GRAIN);
}

/* ---- two inputs, with broadcasting: steps of 0 or 1 element ---- */

typedef void binary_run(const void *a, size_t step_a, const void *b, size_t step_b, void *out, size_t n);

#define BINARY_LOOP(x_at, y_at, expression) \
	for (size_t i = 0; i < n; i++) { \
		const T x = x_at, y = y_at; \
\
		to[i] = (R)(expression); \
	}
#define BINARY(name, type, result, expression) \
	static void name##_##type(const void *a, size_t step_a, const void *b, size_t step_b, void *out, size_t n) \
	{ \
		typedef type T; \
		typedef result R; \
		const T *left = a, *right = b; \
		R *to = out; \
\
		if (step_a && step_b) { \
			BINARY_LOOP(left[i], right[i], expression) \
		} else if (step_a) { \
			BINARY_LOOP(left[i], *right, expression) \
		} else if (step_b) { \
			BINARY_LOOP(*left, right[i], expression) \
		} else { \
			BINARY_LOOP(*left, *right, expression) \
		} \
	}
#define BINARY_FLOATS(name, expression) BINARY(name, float, float, expression) BINARY(name, double, double, expression)
#define BINARY_INTS(name, expression) \
	BINARY(name, int32_t, int32_t, expression) BINARY(name, int64_t, int64_t, expression)
#define BINARY_TESTS(name, expression) \
	BINARY(name, float, int32_t, expression) \
	BINARY(name, double, int32_t, expression) \
	BINARY(name, int32_t, int32_t, expression) BINARY(name, int64_t, int32_t, expression)

BINARY_FLOATS(add, x + y)
BINARY_FLOATS(sub, x - y)
BINARY_FLOATS(mul, x *y)
BINARY_FLOATS(div, x / y)
BINARY_FLOATS(max, x > y || x != x ? x : y)
BINARY_FLOATS(min, x < y || x != x ? x : y)
BINARY_INTS(add, (uint64_t)x + (uint64_t)y)
BINARY_INTS(sub, (uint64_t)x - (uint64_t)y)
BINARY_INTS(mul, (uint64_t)x *(uint64_t)y)
BINARY_INTS(div, y == -1 ? (T) - (uint64_t)x : x / y)
BINARY_INTS(max, x > y ? x : y)
BINARY_INTS(min, x < y ? x : y)
BINARY_TESTS(less, x < y)
BINARY_TESTS(equal, x == y)

static binary_run *const binary[GRAPH_OPS_END][KERNEL_TYPES] = {
	[GRAPH_ADD] = { ALL(add) },   [GRAPH_SUB] = { ALL(sub) },     [GRAPH_MUL] = { ALL(mul) },
	[GRAPH_DIV] = { ALL(div) },   [GRAPH_MAX] = { ALL(max) },     [GRAPH_MIN] = { ALL(min) },
	[GRAPH_LESS] = { ALL(less) }, [GRAPH_EQUAL] = { ALL(equal) },
};

struct broadcast_work {
	struct broadcast b;
	const uint8_t *in[BROADCAST_OPERANDS];
	uint8_t *out;
	size_t n, in_bytes, out_bytes;
	binary_run *run;
};

static void binary_stretch(void *context, size_t out, const size_t at[BROADCAST_OPERANDS], size_t length)
{
	const struct broadcast_work *w = context;
	const unsigned last = w->b.ndim - 1;

	w->run(w->in[0] + at[0] * w->in_bytes, w->b.strides[0][last], w->in[1] + at[1] * w->in_bytes,
	       w->b.strides[1][last], w->out + out * w->out_bytes, length);
}

static void binary_part(void *context, uint64_t part)
{
	const struct broadcast_work *w = context;
	const size_t from = part * GRAIN, to = w->n - from < GRAIN ? w->n : from + GRAIN;

	kernel_broadcast_walk(&w->b, from, to, context, binary_stretch);
}

static int no_division_by_zero(const struct kernel_call *call)
{
	const size_t n = kernel_count(call->in[1]);

	for (size_t i = 0; i < n; i++)
		if (kernel_element(call->in[1], i) == 0)
			return kernel_fail(call, "division by 0: element %zu of the divisor", i);
	return 0;
}

int kernel_binary(const struct kernel_call *call)
{
	struct broadcast_work w = {
		.in = { call->in[0]->data, call->in[1]->data },
		.out = call->out[0]->data,
		.n = kernel_count(call->out[0]),
		.in_bytes = dtype_bytes(call->in[0]->type.dtype),
		.out_bytes = dtype_bytes(call->out[0]->type.dtype),
		.run = binary[call->node->op][kernel_type(call->in[0])],
	};

	if (call->node->op == GRAPH_DIV && !kernel_is_float(call->in[0]) && no_division_by_zero(call) < 0)
		return -EINVAL;
	kernel_broadcast_set(&w.b, &call->out[0]->type.shape, call->in, 2);
	exec_team_run(call->team, kernel_parts(w.n, GRAIN), binary_part, &w);
	return 0;
}

/* ---- select, expand: elements of 4 or 8 bytes ---- */

/* Both are loaded, whatever the condition is: with an irregular mask, mispredicted branches cost more than the
 * loads. */
#define SELECT_STEPS(T, c, s, t) \
	for (size_t i = 0; i < length; i++) { \
		const T a = x[i * (s)], b = y[i * (t)]; \
\
		to[i] = condition[i * (c)] ? a : b; \
	}

#define SELECT(T) \
	static void select_##T(void *context, size_t out, const size_t at[BROADCAST_OPERANDS], size_t length) \
	{ \
		const struct broadcast_work *w = context; \
		const unsigned last = w->b.ndim - 1; \
		const int32_t *condition = (const int32_t *)w->in[0] + at[0]; \
		const T *x = (const T *)w->in[1] + at[1], *y = (const T *)w->in[2] + at[2]; \
		const size_t c = w->b.strides[0][last], s = w->b.strides[1][last], t = w->b.strides[2][last]; \
		T *to = (T *)w->out + out; \
\
		if (c == 1 && s == 1 && t == 0) /* the gradient of relu */ \
			SELECT_STEPS(T, 1, 1, 0) \
		else \
			SELECT_STEPS(T, c, s, t) \
	}
SELECT(uint32_t)
SELECT(uint64_t)

static void select_part(void *context, uint64_t part)
{
	const struct broadcast_work *w = context;
	const size_t from = part * GRAIN, to = w->n - from < GRAIN ? w->n : from + GRAIN;

	kernel_broadcast_walk(&w->b, from, to, context, w->out_bytes == 4 ? select_uint32_t : select_uint64_t);
}

int kernel_select(const struct kernel_call *call)
{
	struct broadcast_work w = {
		.in = { call->in[0]->data, call->in[1]->data, call->in[2]->data },
		.out = call->out[0]->data,
		.n = kernel_count(call->out[0]),
		.out_bytes = dtype_bytes(call->out[0]->type.dtype),
	};

	kernel_broadcast_set(&w.b, &call->out[0]->type.shape, call->in, 3);
	exec_team_run(call->team, kernel_parts(w.n, GRAIN), select_part, &w);
	return 0;
}

static void expand_stretch(void *context, size_t out, const size_t at[BROADCAST_OPERANDS], size_t length)
{
	const struct broadcast_work *w = context;

	if (w->b.strides[0][w->b.ndim - 1]) {
		memcpy(w->out + out * w->out_bytes, w->in[0] + at[0] * w->out_bytes, length * w->out_bytes);
	} else if (w->out_bytes == 4) {
		const uint32_t x = *((const uint32_t *)w->in[0] + at[0]);

		for (size_t i = 0; i < length; i++)
			((uint32_t *)w->out)[out + i] = x;
	} else {
		const uint64_t x = *((const uint64_t *)w->in[0] + at[0]);

		for (size_t i = 0; i < length; i++)
			((uint64_t *)w->out)[out + i] = x;
	}
}

static void expand_part(void *context, uint64_t part)
{
	const struct broadcast_work *w = context;
	const size_t from = part * GRAIN, to = w->n - from < GRAIN ? w->n : from + GRAIN;

	kernel_broadcast_walk(&w->b, from, to, context, expand_stretch);
}

int kernel_expand(const struct kernel_call *call)
{
	struct broadcast_work w = {
		.in = { call->in[0]->data },
		.out = call->out[0]->data,
		.n = kernel_count(call->out[0]),
		.out_bytes = dtype_bytes(call->out[0]->type.dtype),
	};

	kernel_broadcast_set(&w.b, &call->out[0]->type.shape, call->in, 1);
	exec_team_run(call->team, kernel_parts(w.n, GRAIN), expand_part, &w);
	return 0;
}

/* ---- sums of several inputs ---- */

struct add_work {
	const struct kernel_call *call;
	size_t n;
};

#define ADD_N(T, U) \
	static void add_n_##T(void *context, uint64_t part) \
	{ \
		const struct add_work *w = context; \
		const size_t from = part * GRAIN, to = w->n - from < GRAIN ? w->n : from + GRAIN; \
		U *sum = w->call->out[0]->data; \
\
		memcpy(sum + from, (const U *)w->call->in[0]->data + from, (to - from) * sizeof(U)); \
		for (uint32_t k = 1; k < w->call->node->inputs_count; k++) { \
			const U *x = w->call->in[k]->data; \
\
			for (size_t i = from; i < to; i++) \
				sum[i] += x[i]; \
		} \
	}
ADD_N(float, float)
ADD_N(double, double)
ADD_N(int32_t, uint32_t)
ADD_N(int64_t, uint64_t)

int kernel_add_n(const struct kernel_call *call)
{
	static void (*const parts[KERNEL_TYPES])(void *, uint64_t) = { ALL(add_n) };
	struct add_work w = { .call = call, .n = kernel_count(call->out[0]) };

	exec_team_run(call->team, kernel_parts(w.n, GRAIN), parts[kernel_type(call->out[0])], &w);
	return 0;
}
