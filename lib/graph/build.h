/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing models: short calls over graph_add. All of them return GRAPH_NONE once the graph has an error, and take it as
 * input, so that a model is checked once, at its end (graph_error). A name of NULL is made from the operation's.
 *
 *	struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(-1, 13));
 *	struct graph_value hidden = graph_dense(g, x, 64, GRAPH_RELU, "hidden", NULL);
 *	struct graph_value logits = graph_dense(g, hidden, 1, GRAPH_NO_OP, "logits", NULL);
 *	struct graph_value loss = graph_mean(graph_op2(g, GRAPH_SIGMOID_LOSS, logits, labels));
 *
 * What is refused (types, shapes, a name that is there already, an axis or option that there is not) is the graph's
 * error, -EINVAL, with the node's name; so is more than graph.h's limits. Arrays have as many elements as the argument
 * behind them says, and are copied, as data and names are.
 *
 * Thread rule and memory: graph.h's.
 */
#ifndef GRAPH_BUILD_H
#define GRAPH_BUILD_H

#include "graph/graph.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

/* Two arguments: sizes, and how many they are. */
#define GRAPH_DIMS(...) (const int64_t[]){ __VA_ARGS__ }, (sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))
#define GRAPH_SCALAR NULL, 0

/* ---- what comes in ---- */

struct graph_value graph_feed(struct graph *graph, const char *name, unsigned dtype, const int64_t *dims, size_t ndim);
/* data: all elements in row-major order, at most GRAPH_CONST_MAX bytes. */
struct graph_value graph_constant(struct graph *graph, unsigned dtype, const int64_t *dims, size_t ndim,
				  const void *data);
/* A constant without dimensions. */
struct graph_value graph_number(struct graph *graph, unsigned dtype, double value);

/* ---- variables and tables ---- */

/* What the catalogue is to know of one; zero in a field means its default there, in all of it NULL. */
struct graph_definition {
	const char *device;		  /* [/job:ps: over all tasks, by partitions] */
	const char *dtype;		  /* as stored [float32] */
	const char *initializer;	  /* [zeros; of a table uniform; of dense's weights glorot_uniform] */
	double scale;			  /* of the initializer [of a table 0.05] */
	const char *optimizer;		  /* [sgd] */
	double rate;			  /* learning rate */
	int64_t seed;			  /* of the initializer */
	bool frozen;			  /* graph_train leaves it alone */
	const struct graph_attr *options; /* further ones: integers, floats, texts */
	uint32_t options_count;
};

/* Handles. */
struct graph_value graph_variable(struct graph *graph, const char *name, const int64_t *dims, size_t ndim,
				  const struct graph_definition *definition);
struct graph_value graph_table(struct graph *graph, const char *name, int64_t dim,
			       const struct graph_definition *definition);

/* In a body: the handle of a variable or table of an outer graph, which has that name here too. */
struct graph_value graph_use(struct graph *body, const char *name);

struct graph_value graph_read(struct graph *graph, struct graph_value variable);
/* Rows of int64 ids [n...]: [n..., dim]. An id may come several times: its row stands there as often, and their
 * gradients are summed before they are applied. */
struct graph_value graph_lookup(struct graph *graph, struct graph_value table, struct graph_value ids);
/* The same, but makes no rows and counts nothing, of admission filters nor of use: a row that is not there reads as its
 * initial value. For evaluating and predicting. */
struct graph_value graph_lookup_read_only(struct graph *graph, struct graph_value table, struct graph_value ids);
struct graph_value graph_assign(struct graph *graph, struct graph_value variable, struct graph_value value);
/* A float64 variable "global_step" that counts the steps, one more each: its value. */
struct graph_value graph_global_step(struct graph *graph);
/* What it is, of a graph that does not count. */
struct graph_value graph_global_step_read(struct graph *graph);

/*
 * Embedding bag: rows of ids [n], pooled by GRAPH_SEGMENT_SUM, _MEAN or _SQRTN over segments (int32 [n], each in [0,
 * m)) to [m, dim]. like is a tensor of m rows, e.g. the labels.
 */
struct graph_value graph_bag(struct graph *graph, struct graph_value table, struct graph_value ids,
			     struct graph_value segments, struct graph_value like, enum graph_op pooling);

/* ---- operations ---- */

/* Any operation without attributes. */
struct graph_value graph_op1(struct graph *graph, enum graph_op op, struct graph_value x);
struct graph_value graph_op2(struct graph *graph, enum graph_op op, struct graph_value a, struct graph_value b);
struct graph_value graph_op3(struct graph *graph, enum graph_op op, struct graph_value a, struct graph_value b,
			     struct graph_value c);

/* X(call, operation) */
#define GRAPH_BUILD_1(X) \
	X(neg, NEG) \
	X(exp, EXP) \
	X(log, LOG) \
	X(sqrt, SQRT) \
	X(square, SQUARE) \
	X(relu, RELU) \
	X(sigmoid, SIGMOID) \
	X(tanh, TANH) \
	X(softmax, SOFTMAX) \
	X(stop_gradient, STOP_GRADIENT) \
	X(identity, IDENTITY) \
	X(unique, UNIQUE)
#define GRAPH_BUILD_2(X) \
	X(plus, ADD) \
	X(minus, SUB) \
	X(times, MUL) \
	X(divide, DIV) \
	X(maximum, MAX) \
	X(minimum, MIN) \
	X(less, LESS) \
	X(equal, EQUAL) \
	X(matmul, MATMUL) \
	X(gather, GATHER) \
	X(columns, COLUMNS) \
	X(index, INDEX) \
	X(expand, EXPAND) \
	X(reshape_like, RESHAPE)
#define X(name, op) \
	static inline struct graph_value graph_##name(struct graph *graph, struct graph_value x) \
	{ \
		return graph_op1(graph, GRAPH_##op, x); \
	}
GRAPH_BUILD_1(X)
#undef X
#define X(name, op) \
	static inline struct graph_value graph_##name(struct graph *graph, struct graph_value a, struct graph_value b) \
	{ \
		return graph_op2(graph, GRAPH_##op, a, b); \
	}
GRAPH_BUILD_2(X)
#undef X

static inline struct graph_value graph_select(struct graph *graph, struct graph_value condition, struct graph_value yes,
					      struct graph_value no)
{
	return graph_op3(graph, GRAPH_SELECT, condition, yes, no);
}

/* x times a number. */
struct graph_value graph_scale(struct graph *graph, struct graph_value x, double factor);
struct graph_value graph_cast(struct graph *graph, struct graph_value x, unsigned dtype);
struct graph_value graph_reshape(struct graph *graph, struct graph_value x, const int64_t *dims, size_t ndim);
struct graph_value graph_transpose(struct graph *graph, struct graph_value x, const int64_t *perm, size_t ndim);
/* Any number: of more than GRAPH_INPUTS_MAX, parts are put together first. */
struct graph_value graph_concat(struct graph *graph, const struct graph_value *values, size_t count, int64_t axis);
struct graph_value graph_add_n(struct graph *graph, const struct graph_value *values, size_t count);
/* Its output i is part i. */
struct graph_value graph_split(struct graph *graph, struct graph_value x, int64_t axis, const int64_t *sizes,
			       size_t count);
/* From begin on, size elements of each dimension; -1: to its end. */
struct graph_value graph_slice(struct graph *graph, struct graph_value x, const int64_t *begin, const int64_t *size,
			       size_t ndim);
/* GRAPH_SUM, GRAPH_MEAN or GRAPH_REDUCE_MAX along one axis (from the end, if negative), which goes. */
struct graph_value graph_reduce(struct graph *graph, enum graph_op op, struct graph_value x, int64_t axis);
/* Of all elements: a scalar. */
struct graph_value graph_sum(struct graph *graph, struct graph_value x);
struct graph_value graph_mean(struct graph *graph, struct graph_value x);
/* a [..., m, k], b [..., n, k] -> [..., m, n] */
struct graph_value graph_matmul_transposed(struct graph *graph, struct graph_value a, struct graph_value b);
struct graph_value graph_dropout(struct graph *graph, struct graph_value x, double rate);
struct graph_value graph_hash_cross(struct graph *graph, const struct graph_value *columns, size_t count,
				    int64_t buckets);

/* ---- layers: with variables "<name>/weights", "<name>/bias", "<name>/gamma", "<name>/beta" ---- */

/*
 * x [..., k] -> [..., units]: x times weights plus bias, through an activation (GRAPH_NO_OP: none). k is known, and of
 * the dimensions before it all but one, if there are several.
 */
struct graph_value graph_dense(struct graph *graph, struct graph_value x, int64_t units, enum graph_op activation,
			       const char *name, const struct graph_definition *definition);
struct graph_value graph_layer_norm(struct graph *graph, struct graph_value x, double epsilon, const char *name,
				    const struct graph_definition *definition);
/* By the batch's own mean and variance, in outputs 1 and 2. */
struct graph_value graph_batch_norm(struct graph *graph, struct graph_value x, double epsilon, const char *name,
				    const struct graph_definition *definition);
/*
 * As a layer of TensorFlow or PyTorch has it: training by the batch's own mean and variance, which also go into
 * running ones: "<name>/mean" and "<name>/variance", of which each step takes `momentum` away and puts as much of the
 * batch's in (PyTorch's momentum, 0.1; TensorFlow's 0.9 is the same), of the variance n / (n - 1) times the batch's.
 * Not training: by the running ones alone. All workers add to the same two, each what it has seen.
 */
struct graph_value graph_batch_norm_running(struct graph *graph, struct graph_value x, bool training, double momentum,
					    double epsilon, const char *name,
					    const struct graph_definition *definition);
/* mask: GRAPH_NONE, or int32 [b, n]; scale 0: 1 / sqrt(k). Output 1: the weights. */
struct graph_value graph_attention(struct graph *graph, struct graph_value q, struct graph_value k,
				   struct graph_value v, struct graph_value mask, double scale);

/* Means over the batch: scalars. */
struct graph_value graph_sigmoid_loss(struct graph *graph, struct graph_value logits, struct graph_value labels);
struct graph_value graph_softmax_loss(struct graph *graph, struct graph_value logits, struct graph_value classes);

/* ---- loops and branches ----
 *
 *	struct graph_loop loop = graph_loop_begin(g, (struct graph_value[]){ i, state }, 2, &n, 1);
 *	struct graph_value more = graph_less(loop.cond, loop.in[0], loop.in[2]);
 *	struct graph_value next[] = { graph_plus(loop.body, loop.in[0], graph_number(loop.body, STAR_INT64, 1)), ... };
 *	struct graph_value end = graph_loop_end(&loop, more, next, 2, 100);
 *
 * in[] are the carried values, then the captures: the same values in body and in cond.
 */
struct graph_loop {
	struct graph *graph, *body, *cond;
	struct graph_value in[GRAPH_INPUTS_MAX];
	struct graph_value outside[GRAPH_INPUTS_MAX];
	uint32_t carried, count;
};
struct graph_loop graph_loop_begin(struct graph *graph, const struct graph_value *carried, uint32_t carried_count,
				   const struct graph_value *captures, uint32_t captures_count);
/*
 * more: int32 scalar of cond. results, of body: the carried values of the next iteration, then what goes on tapes.
 * Output i is carried value i at the end; then the number of iterations (int64), then the tapes [most, ...], zero where
 * no iteration was.
 */
struct graph_value graph_loop_end(struct graph_loop *loop, struct graph_value more, const struct graph_value *results,
				  uint32_t results_count, int64_t most);

/* if condition (int32 scalar): yes, else no; both have the values in[]. */
struct graph_branch {
	struct graph *graph, *yes, *no;
	struct graph_value in[GRAPH_INPUTS_MAX];
	struct graph_value outside[GRAPH_INPUTS_MAX];
	uint32_t count;
};
struct graph_branch graph_branch_begin(struct graph *graph, struct graph_value condition,
				       const struct graph_value *captures, uint32_t captures_count);
struct graph_value graph_branch_end(struct graph_branch *branch, const struct graph_value *yes,
				    const struct graph_value *no, uint32_t count);

/* An output of the same node. */
static inline struct graph_value graph_output(struct graph_value value, uint32_t output)
{
	return (struct graph_value){ value.node, graph_is_none(value) ? 0 : output };
}

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
