/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elementwise operations and reductions of programs, on rows of float32 (docs/programs.rst). Rows are passed as
 * pointers; results are contiguous. Results have the same bits on every machine, because operations are executed in the
 * order written, exp is our own, and sums always have eight lanes. All except exp, sigmoid and tanh have the same bits
 * as in workers (lib/exec), which also use the sums of tensor/sums.h. This does not include the bits of NaNs. Pure
 * functions; any thread.
 */
#ifndef TENSOR_ELEMENTWISE_H
#define TENSOR_ELEMENTWISE_H

#include <stdint.h>

/* X(NAME, number, name, cost, result for x). The cost of an element is 1, or more if it needs an exp. exp has a
 * relative error of 3e-7 at most; sigmoid and tanh one of 1e-6. */
#define ELEMENTWISE_UNARIES(X) \
	X(NEG, 32, neg, 1, "-x") \
	X(RELU, 33, relu, 1, "0 where x < 0, else x") \
	X(SIGMOID, 34, sigmoid, 4, "1 / (1 + exp(-x))") \
	X(TANH, 35, tanh, 4, "tanh(x)") \
	X(EXP, 36, exp, 4, "exp(x)") \
	X(SQUARE, 37, square, 1, "x * x") \
	X(SQRT, 38, sqrt, 1, "square root of x") \
	X(ABS, 39, abs, 1, "|x|") \
	X(SIGN, 42, sign, 1, "1 where x > 0, -1 where x < 0, else 0")

/* The same with c, the step's constant. */
#define ELEMENTWISE_CONSTANTS(X) \
	X(SCALE, 40, scale, 1, "x * c") \
	X(OFFSET, 41, offset, 1, "x + c")

/* X(NAME, number, name, cost, result for x and y). The first operand of gradients is the result of the forward
 * operation, the second the incoming gradient. */
#define ELEMENTWISE_BINARIES(X) \
	X(ADD, 64, add, 1, "x + y") \
	X(SUB, 65, sub, 1, "x - y") \
	X(MUL, 66, mul, 1, "x * y") \
	X(DIV, 67, div, 1, "x / y") \
	X(MAX, 68, max, 1, "the larger one; NaN if either is") \
	X(MIN, 69, min, 1, "the smaller one; NaN if either is") \
	X(RELU_GRAD, 70, relu_grad, 1, "y where x > 0, else 0: x is relu's result, y the incoming gradient") \
	X(SIGMOID_GRAD, 71, sigmoid_grad, 1, "y * x * (1 - x): x is sigmoid's result") \
	X(TANH_GRAD, 72, tanh_grad, 1, "y * (1 - x * x): x is tanh's result")

/* X(NAME, number, name, cost, result for a row's elements). */
#define ELEMENTWISE_REDUCTIONS(X) \
	X(ROW_SUM, 96, row_sum, 1, "their sum, computed in float64") \
	X(ROW_MAX, 97, row_max, 1, "the maximum; NaN counts as the minimum") \
	X(ROW_MEAN, 99, row_mean, 1, "their mean, computed in float64") \
	X(ROW_SUM64, 100, row_sum64, 1, "their sum as a float64, whose bytes are two elements: to be fetched")

/* The same of two rows. */
#define ELEMENTWISE_PRODUCTS(X) X(DOT, 98, dot, 1, "the sum of x * y, in float32")

enum elementwise_op {
#define X(NAME, number, name, cost, text) ELEMENTWISE_##NAME = number,
	ELEMENTWISE_UNARIES(X) ELEMENTWISE_CONSTANTS(X) ELEMENTWISE_BINARIES(X) ELEMENTWISE_REDUCTIONS(X)
		ELEMENTWISE_PRODUCTS(X)
#undef X
};

/* n rows of dim elements. */
void tensor_elementwise_unary(unsigned op, float constant, const float *const *x, unsigned n, uint32_t dim, float *to);

/* Rows of x_dim and of y_dim elements. These are equal, or one of them is 1: then its element is used for all of the
 * other's. */
void tensor_elementwise_binary(unsigned op, const float *const *x, uint32_t x_dim, const float *const *y,
			       uint32_t y_dim, unsigned n, float *to);

/* Elements of a reduced row. */
static inline unsigned elementwise_reduced(unsigned op)
{
	return op == ELEMENTWISE_ROW_SUM64 ? 2 : 1;
}

/* elementwise_reduced elements per row; y is for dot only. */
void tensor_elementwise_reduce(unsigned op, const float *const *x, const float *const *y, unsigned n, uint32_t dim,
			       float *to);

/* sum += row, dim elements. */
void tensor_elementwise_add(float *sum, const float *row, uint32_t dim);

#endif
