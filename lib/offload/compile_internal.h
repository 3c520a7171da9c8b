/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the compiler share. One thread. */
#ifndef OFFLOAD_COMPILE_INTERNAL_H
#define OFFLOAD_COMPILE_INTERNAL_H

#include "offload/compile.h"
#include "offload/template.h"

/*
 * What PS tasks can do of graphs. X(operation, what programs call it, when it may move there, by rows, by blocks): the
 * last two name the function that makes its steps where all goes by the keys of a table (rows_NAME in compile_node.c),
 * and where it goes by a variable's blocks (blocks_NAME in compile_blocks.c). What is not here is not done there, nor
 * is `none`. Sigmoids and the like are good to 1e-6 on PS tasks, so that they are done there only where the graph's
 * author says so; all else has the worker's bits there.
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
	COMPILE_MOVES_IF_FLOAT, /* if all that it works on is float32 */
	COMPILE_MOVES_IF_TABLE, /* or variable: if programs can work on the one that it is of */
	COMPILE_MOVES_IF_VARIABLE,
	COMPILE_MOVES_ALWAYS, /* if what it makes is float32, as with all of these */
};

/* A component that is being compiled. */
struct compile_build {
	const struct graph_ps_plan *plan;
	struct compile_plan *all;
	const struct graph_part *part;
	uint32_t index;	    /* the part's */
	const uint32_t *in; /* of each of the part's nodes */
	uint32_t number;    /* the component's, as in has it */
	struct compiled *c;
	uint8_t *step;			 /* of each node of the graph: the step that makes it, or COMPILE_NOT_MADE */
	struct graph_value ids;		 /* the keys; or: */
	const struct graph_shape *whole; /* the variable's, by whose blocks it goes */
	const struct graph_node *node;	 /* in hand */
	struct star_error *err;
};

/* compile_node.c: -ENOTSUP, with the node in hand. */
int offload_compile_not_done(const struct compile_build *b, const char *why);
const struct graph_shape *offload_compile_shape_of(const struct compile_build *b, struct graph_value value);
bool offload_compile_is_feed(const struct compile_build *b, struct graph_value value, uint32_t *feed);
/* A step's number; of a feed also its place among the feeds; or -ENOTSUP. */
int offload_compile_add_step(struct compile_build *b, struct compile_step step);
int offload_compile_add_feed(struct compile_build *b, struct compile_feed feed, uint32_t *index);
int offload_compile_add_apply(struct compile_build *b, int gradients);
/* Room in a run's memory. */
uint64_t offload_compile_add_scratch(struct compile_build *b, uint64_t bytes);
/* What the worker brings, or a constant that is there. */
bool offload_compile_find_source(const struct compile_build *b, struct graph_value value,
				 struct compile_source *source);
/* What programs call what the node in hand computes; NULL: nothing. */
const char *offload_compile_step_name(const struct graph_node *node);
/* How many bags a step has at most. */
int64_t offload_compile_most_bags(const struct compile_build *b);
/* The step that the node in hand is made by; COMPILE_NOT_MADE: it is nothing that others can work on; or -ENOTSUP. */
int offload_compile_node(struct compile_build *b);

/* compile_blocks.c: all of a variable's blocks are the component's keys; the node in hand, as offload_compile_node; it
 * is returned; whether it is too large for a run. */
int offload_compile_blocks(struct compile_build *b, const struct graph_node *variable);
int offload_compile_blocks_node(struct compile_build *b);
int offload_compile_blocks_output(struct compile_build *b, uint32_t fetch);
int offload_compile_blocks_size(struct compile_build *b);
/* What offload_compiled_fill and offload_compiled_finish do with them. */
int offload_compiled_blocks_fill(const struct compiled *c, const struct graph_ps_call *call, struct compiled_run *run,
				 struct star_error *err);
void offload_compiled_blocks_finish(const struct compiled *c, const struct graph_ps_call *call,
				    const struct compiled_run *run);

/* compile_run.c: where a source's data lie in a call, and of what type they are: of a feed or constant. */
const void *offload_compiled_data(const struct compile_source *source, const struct graph_ps_call *call);
const struct graph_type *offload_compiled_type(const struct compile_source *source, const struct graph_ps_call *call);

/* compile_kept.c: whether a later part of the place needs what this node makes. */
bool offload_compile_is_kept(const struct graph_ps_plan *plan, uint32_t part, uint32_t node);
/* The component of an earlier part of the place by whose step rows are made; NULL: there is none. */
struct compiled *offload_compile_maker(const struct compile_build *b, struct graph_value value, unsigned *step);
/* The step of a feed of such rows, or -ENOTSUP. */
int offload_compile_take(struct compile_build *b, struct graph_value value, uint32_t dim);
/* What an earlier component has been given for the same ids, and the ids, are kept there. 0 or -ENOTSUP. */
int offload_compile_share(struct compile_build *b);

#endif
