/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The graph operations that PS tasks can execute, one line each. Operations that are not listed are only executed in
 * workers. Sigmoid and the like are accurate to 1e-6 on PS tasks, so they are only executed there if the graph's author
 * places them there; all others have the same bits as in the worker. Pure data.
 */
#ifndef OFFLOAD_PS_OPS_H
#define OFFLOAD_PS_OPS_H

/*
 * X(operation, its name in programs, when it may be moved there, by rows, by blocks): the last two name the functions
 * that create its steps: rows_NAME in compile_node.c for components that go by a table's keys, blocks_NAME in
 * compile_blocks.c for those that go by a variable's blocks; `none`: not possible.
 */
#define COMPILE_OPS(X) \
	X(NEG, "neg", IF_FLOAT, elementwise, elementwise) \
	X(RELU, "relu", IF_FLOAT, elementwise, elementwise) \
	X(SIGMOID, "sigmoid", NEVER, elementwise, elementwise) \
	X(TANH, "tanh", NEVER, elementwise, elementwise) \
	X(EXP, "exp", NEVER, elementwise, elementwise) \
	X(SQUARE, "square", IF_FLOAT, elementwise, elementwise) \
	X(SQRT, "sqrt", IF_FLOAT, elementwise, elementwise) \
	X(ABS, "abs", IF_FLOAT, elementwise, elementwise) \
	X(SIGN, "sign", IF_FLOAT, elementwise, elementwise) \
	X(ADD, "add", IF_FLOAT, elementwise, elementwise) \
	X(SUB, "sub", IF_FLOAT, elementwise, elementwise) \
	X(MUL, "mul", IF_FLOAT, elementwise, elementwise) \
	X(DIV, "div", IF_FLOAT, elementwise, elementwise) \
	X(MAX, "max", IF_FLOAT, elementwise, elementwise) \
	X(MIN, "min", IF_FLOAT, elementwise, elementwise) \
	X(ADD_N, "add", NEVER, add_n, elementwise) \
	X(LOOKUP, NULL, IF_TABLE, lookup, none) \
	X(READ, NULL, IF_VARIABLE, none, read) \
	X(APPLY_ROWS, NULL, IF_TABLE, apply, none) \
	X(APPLY, NULL, NEVER, none, apply) \
	X(REDUCE_LIKE, "row_sum", ALWAYS, reduce_like, reduce_like) \
	X(SUM, "row_sum", ALWAYS, reduce, sum) \
	X(MEAN, "row_mean", ALWAYS, reduce, sum) \
	X(SEGMENT_SUM, NULL, ALWAYS, segment_pool, none) \
	X(SEGMENT_MEAN, NULL, ALWAYS, segment_pool, none) \
	X(SEGMENT_SQRTN, NULL, ALWAYS, segment_pool, none) \
	X(GATHER, NULL, ALWAYS, spread, none) \
	X(SEGMENT_MEAN_GRAD, NULL, ALWAYS, spread, none) \
	X(SEGMENT_SQRTN_GRAD, NULL, ALWAYS, spread, none) \
	X(EXPAND, NULL, ALWAYS, expand, expand) \
	X(MATMUL, "mul", ALWAYS, outer, none)

enum compile_moves {
	COMPILE_MOVES_NEVER,
	COMPILE_MOVES_IF_FLOAT, /* if all its inputs and outputs are float32 */
	COMPILE_MOVES_IF_TABLE, /* if programs can work on its table or variable */
	COMPILE_MOVES_IF_VARIABLE,
	COMPILE_MOVES_ALWAYS, /* if its result is float32, as that of all of these */
};

#endif
