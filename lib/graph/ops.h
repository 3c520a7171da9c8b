/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of a graph, one line each. Shape inference (lib/graph/shape_*.c), gradients (lib/graph/gradient_*.c)
 * and kernels (lib/exec/kernel_*.c) are tables indexed by this list. docs/graph.rst has their meaning, attributes and
 * formulas. Pure data.
 */
#ifndef GRAPH_OPS_H
#define GRAPH_OPS_H

/* Where an operation may be. */
enum graph_place {
	GRAPH_ANYWHERE,
	GRAPH_ON_PS,	 /* a variable or table, or an operation on one: its device is that of the variable or table */
	GRAPH_ON_WORKER, /* it needs what only a worker has: the batch, a whole tensor, or a body graph */
};

/* Properties of operations. */
enum graph_op_flags {
	GRAPH_STATEFUL = 1 << 0, /* reads or changes state that outlives a step: never removed, duplicated or moved */
	/* row i of the output only depends on row i of the first input, and of other inputs with as many rows */
	GRAPH_ROWWISE = 1 << 1,
	/* a sum over rows: may be computed as partial sums, which add up to the result (mean and sqrtn: before
	 * division) */
	GRAPH_POOLS = 1 << 2,
	GRAPH_SPREADS = 1 << 3, /* each row of the output is a row of the first input, selected by the second */
	GRAPH_ELEMENTWISE = 1 << 4 | GRAPH_ROWWISE, /* elementwise, with broadcasting */
};

enum { GRAPH_INPUTS_MAX = 64, GRAPH_OUTPUTS_MAX = 64 };

/* X(name, text, least inputs, most inputs, outputs (0: as many as it says in shape inference), place, flags) */
#define GRAPH_OP_LIST(X) \
	/* what comes in */ \
	X(FEED, "feed", 0, 0, 1, GRAPH_ON_WORKER, 0)  /* dtype, shape: given for each step */ \
	X(CONST, "const", 0, 0, 1, GRAPH_ANYWHERE, 0) /* value (a tensor) */ \
	X(RANDOM, "random", 0, 1, 1, GRAPH_ON_WORKER, \
	  0) /* uniform [0, 1) of shape, or like its input, by (seed, step, element) */ \
	/* what PS tasks hold. The output of variable and table is a handle: it has no data */ \
	X(VARIABLE, "variable", 0, 0, 1, GRAPH_ON_PS, \
	  GRAPH_STATEFUL) /* dtype, shape, initializer, optimizer, options, ... */ \
	X(TABLE, "table", 0, 0, 1, GRAPH_ON_PS, GRAPH_STATEFUL) /* dtype, dim, initializer, optimizer, options, ... */ \
	X(READ, "read", 1, 1, 1, GRAPH_ON_PS, GRAPH_STATEFUL)	/* variable -> its value */ \
	X(LOOKUP, "lookup", 2, 2, 1, GRAPH_ON_PS, GRAPH_STATEFUL) \
	/* table (or variable), int64 ids [n...] -> rows [n..., dim] (rows of its first dimension); read_only */ \
	X(APPLY, "apply", 2, 2, 0, GRAPH_ON_PS, GRAPH_STATEFUL) \
	/* variable, gradient: by its optimizer; rate, scale */ \
	X(APPLY_ROWS, "apply_rows", 3, 3, 0, GRAPH_ON_PS, GRAPH_STATEFUL) \
	/* table (or variable), ids [n...], gradients [n..., dim]: those of an id are summed first */ \
	X(ASSIGN, "assign", 2, 2, 0, GRAPH_ON_PS, GRAPH_STATEFUL) /* variable, value */ \
	X(STEP_ADD, "step_add", 1, 1, 1, GRAPH_ON_PS, \
	  GRAPH_STATEFUL) /* a float64 scalar variable of sgd at rate 1: one more */ \
	/* elementwise; binary ones broadcast as NumPy does */ \
	X(NEG, "neg", 1, 1, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(EXP, "exp", 1, 1, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(LOG, "log", 1, 1, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(SQRT, "sqrt", 1, 1, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(SQUARE, "square", 1, 1, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(ABS, "abs", 1, 1, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(SIGN, "sign", 1, 1, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(RELU, "relu", 1, 1, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(SIGMOID, "sigmoid", 1, 1, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(TANH, "tanh", 1, 1, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(CAST, "cast", 1, 1, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) /* dtype */ \
	X(ADD, "add", 2, 2, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(SUB, "sub", 2, 2, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(MUL, "mul", 2, 2, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(DIV, "div", 2, 2, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(MAX, "max", 2, 2, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(MIN, "min", 2, 2, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(LESS, "less", 2, 2, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE)	/* int32: 0 or 1 */ \
	X(EQUAL, "equal", 2, 2, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE)	/* int32: 0 or 1 */ \
	X(SELECT, "select", 3, 3, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) /* int32 condition, if not 0, else */ \
	X(ADD_N, "add_n", 1, GRAPH_INPUTS_MAX, 1, GRAPH_ANYWHERE, \
	  GRAPH_ELEMENTWISE) /* the sum of tensors of one shape */ \
	X(DROPOUT, "dropout", 1, 1, 1, GRAPH_ON_WORKER, \
	  0) /* rate, seed: by (seed, step, element), scaled by 1 / (1 - rate) */ \
	/* shapes */ \
	X(IDENTITY, "identity", 1, 1, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(STOP_GRADIENT, "stop_gradient", 1, 1, 1, GRAPH_ANYWHERE, GRAPH_ELEMENTWISE) \
	X(RESHAPE, "reshape", 1, 2, 1, GRAPH_ANYWHERE, 0) /* shape (one may be -1); or the shape of a second input */ \
	X(TRANSPOSE, "transpose", 1, 1, 1, GRAPH_ANYWHERE, 0)	       /* perm */ \
	X(CONCAT, "concat", 1, GRAPH_INPUTS_MAX, 1, GRAPH_ANYWHERE, 0) /* axis */ \
	X(SPLIT, "split", 1, 1, 0, GRAPH_ANYWHERE, 0)		       /* axis, sizes: an output for each */ \
	X(SLICE, "slice", 1, 1, 1, GRAPH_ANYWHERE, 0)		       /* begin, size (-1: to the end) */ \
	X(PAD, "pad", 1, 1, 1, GRAPH_ANYWHERE, 0) /* before, after: zeros around; what slice's gradient needs */ \
	X(PAD_LIKE, "pad_like", 2, 2, 1, GRAPH_ANYWHERE, \
	  0) /* begin: the first input among zeros, shaped as the second */ \
	X(EXPAND, "expand", 2, 2, 1, GRAPH_ANYWHERE, GRAPH_SPREADS) /* broadcast to the shape of the second */ \
	X(REDUCE_LIKE, "reduce_like", 2, 2, 1, GRAPH_ANYWHERE, \
	  0) /* summed over what was broadcast from the second's shape */ \
	X(INDEX, "index", 2, 2, 1, GRAPH_ANYWHERE, \
	  0) /* x [n, ...], i (int64 scalar) -> x[i]; out of [0, n) is an error */ \
	X(INDEX_GRAD, "index_grad", 3, 3, 1, GRAPH_ANYWHERE, 0)	    /* g, i, x: zeros like x, with g at i */ \
	X(GATHER, "gather", 2, 2, 1, GRAPH_ANYWHERE, GRAPH_SPREADS) /* x [n, ...], i (int64 [m...]) -> [m..., ...] */ \
	X(SCATTER_ADD, "scatter_add", 3, 3, 1, GRAPH_ANYWHERE, \
	  0) /* g [m..., ...], i [m...], x: zeros like x, each g added at its i */ \
	X(COLUMNS, "columns", 2, 2, 1, GRAPH_ANYWHERE, \
	  0) /* x [n, k], i (int64 [m]) -> [n, m]: elements i of each row */ \
	X(COLUMNS_GRAD, "columns_grad", 3, 3, 1, GRAPH_ANYWHERE, \
	  0) /* g [n, m], i, x: zeros like x, each g added at its i */ \
	X(HEAD, "head", 2, 2, 1, GRAPH_ANYWHERE, \
	  0) /* x [n, ...], count (int64 scalar, in [0, n]) -> the first rows (how many is known in a step only) */ \
	/* reductions: axes, keep (dimensions of 1) */ \
	X(SUM, "sum", 1, 1, 1, GRAPH_ANYWHERE, 0) \
	X(MEAN, "mean", 1, 1, 1, GRAPH_ANYWHERE, 0) \
	X(REDUCE_MAX, "reduce_max", 1, 1, 1, GRAPH_ANYWHERE, 0) \
	/* embedding bags: rows [n, dim], segment of each row (int32 [n], in [0, m)), like [m, ...]: only m counts */ \
	X(SEGMENT_SUM, "segment_sum", 3, 3, 1, GRAPH_ANYWHERE, GRAPH_POOLS) \
	X(SEGMENT_MEAN, "segment_mean", 3, 3, 1, GRAPH_ANYWHERE, GRAPH_POOLS) /* empty segments give 0 */ \
	X(SEGMENT_SQRTN, "segment_sqrtn", 3, 3, 1, GRAPH_ANYWHERE, \
	  GRAPH_POOLS) /* the sum over the root of the number */ \
	X(SEGMENT_MEAN_GRAD, "segment_mean_grad", 3, 3, 1, GRAPH_ANYWHERE, \
	  GRAPH_SPREADS) /* g [m, dim], segments, rows */ \
	X(SEGMENT_SQRTN_GRAD, "segment_sqrtn_grad", 3, 3, 1, GRAPH_ANYWHERE, GRAPH_SPREADS) \
	/* ids */ \
	X(UNIQUE, "unique", 1, 1, 2, GRAPH_ON_WORKER, \
	  0) /* int64 [n] -> those that differ [m] (m is known in a step only), int64; where each is [n], int64 */ \
	X(HASH_CROSS, "hash_cross", 2, GRAPH_INPUTS_MAX, 1, GRAPH_ANYWHERE, \
	  GRAPH_ROWWISE) /* int64 columns -> int64 ids; buckets, salt */ \
	/* dense algebra */ \
	X(MATMUL, "matmul", 2, 2, 1, GRAPH_ANYWHERE, \
	  0) /* [..., m, k] [..., k, n]; equal leading dimensions; transpose_a, transpose_b */ \
	X(SOFTMAX, "softmax", 1, 1, 1, GRAPH_ANYWHERE, GRAPH_ROWWISE)		/* over the last dimension */ \
	X(SOFTMAX_GRAD, "softmax_grad", 2, 2, 1, GRAPH_ANYWHERE, GRAPH_ROWWISE) /* g, y */ \
	X(LAYER_NORM, "layer_norm", 3, 3, 3, GRAPH_ANYWHERE, GRAPH_ROWWISE) \
	/* x, gamma [k], beta [k]; epsilon -> y, mean and 1 / deviation (of the rows of the last dimension) */ \
	X(LAYER_NORM_GRAD, "layer_norm_grad", 5, 5, 3, GRAPH_ANYWHERE, \
	  0) /* g, x, gamma, mean, 1 / deviation -> of x, gamma, beta */ \
	X(BATCH_NORM, "batch_norm", 3, 3, 3, GRAPH_ON_WORKER, 0) \
	/* x [n, ..., k], gamma, beta; epsilon -> y, mean [k], variance [k], of this batch */ \
	X(BATCH_NORM_GRAD, "batch_norm_grad", 5, 5, 3, GRAPH_ON_WORKER, \
	  0) /* g, x, gamma, mean, variance -> of x, gamma, beta; epsilon */ \
	X(ATTENTION, "attention", 3, 4, 2, GRAPH_ON_WORKER, 0) \
	/* q [b, m, k], k [b, n, k], v [b, n, d], mask int32 [b, n]; scale -> y [b, m, d], weights [b, m, n] */ \
	X(ATTENTION_GRAD, "attention_grad", 5, 5, 3, GRAPH_ON_WORKER, 0) /* g, q, k, v, weights -> of q, k, v */ \
	/* losses: of each row; their mean is a "mean" */ \
	X(SIGMOID_LOSS, "sigmoid_loss", 2, 2, 1, GRAPH_ANYWHERE, \
	  GRAPH_ROWWISE) /* logits, labels of the same shape: cross entropy */ \
	X(SIGMOID_LOSS_GRAD, "sigmoid_loss_grad", 3, 3, 1, GRAPH_ANYWHERE, GRAPH_ROWWISE) /* g, logits, labels */ \
	X(SOFTMAX_LOSS, "softmax_loss", 2, 2, 2, GRAPH_ANYWHERE, \
	  GRAPH_ROWWISE) /* logits [n, k], classes int64 [n] -> [n], probabilities */ \
	X(SOFTMAX_LOSS_GRAD, "softmax_loss_grad", 3, 3, 1, GRAPH_ANYWHERE, \
	  GRAPH_ROWWISE) /* g [n], probabilities, classes */ \
	/* control flow: graphs of their own (struct graph_node.body, .cond) */ \
	X(WHILE, "while", 1, GRAPH_INPUTS_MAX, 0, GRAPH_ON_WORKER, 0) \
	/* carried values, then captures; carried (how many), most (iterations at most; more is an error) \
	 * -> carried values, the iterations (int64), then a tape [most, ...] of each further output of the body. \
	 * cond: all inputs -> int32 scalar; body: all inputs -> carried values, then what goes on tapes */ \
	X(COND, "cond", 1, GRAPH_INPUTS_MAX, 0, GRAPH_ON_WORKER, 0) \
	/* int32 scalar, captures -> the outputs of body (not 0) or of cond (0), which have the same types and shapes */

enum graph_op {
	GRAPH_NO_OP, /* none: no node has it */
#define X(name, ...) GRAPH_##name,
	GRAPH_OP_LIST(X)
#undef X
		GRAPH_OPS_END
};

#endif
