/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short calls over graph_add for building models. Once the graph has an error, all of them return GRAPH_NONE, which
 * they also accept as input, so a model is checked once, at its end (graph_error). If a name is NULL, it is made from
 * the operation's name.
 *
 *	struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(-1, 13));
 *	struct graph_value hidden = graph_dense(g, x, 64, GRAPH_RELU, "hidden", NULL);
 *	struct graph_value logits = graph_dense(g, hidden, 1, GRAPH_NO_OP, "logits", NULL);
 *	struct graph_value loss = graph_mean(graph_op2(g, GRAPH_SIGMOID_LOSS, logits, labels));
 *
 * Invalid arguments (types, shapes, an existing name, an unknown axis or option), and more than the limits of graph.h,
 * are the graph's error, -EINVAL, with the node's name. Arrays have as many elements as the argument after them says,
 * and are copied, and so are data and names.
 *
 * Thread rule and memory: as in graph.h.
 */
#ifndef GRAPH_BUILD_H
#define GRAPH_BUILD_H

#include "graph/graph.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

/* Two arguments: the sizes and their number. */
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

/* The definition of a variable or table for the catalogue. A field of zero means its default in brackets; a NULL
 * definition means all defaults. */
struct graph_definition {
	const char *device; /* [/job:ps: all tasks, by partitions] */
	const char *dtype;  /* as stored [float32] */
	/* [zeros; for a table uniform; for the weights of graph_dense glorot_uniform] */
	const char *initializer;
	double scale;			  /* of the initializer [for a table 0.05] */
	const char *optimizer;		  /* [sgd] */
	double rate;			  /* learning rate */
	int64_t seed;			  /* of the initializer */
	bool frozen;			  /* not trained by graph_train */
	const struct graph_attr *options; /* further ones: integers, floats, texts */
	uint32_t options_count;
};

/* Handles. */
struct graph_value graph_variable(struct graph *graph, const char *name, const int64_t *dims, size_t ndim,
				  const struct graph_definition *definition);
struct graph_value graph_table(struct graph *graph, const char *name, int64_t dim,
			       const struct graph_definition *definition);

/* In a body: returns a handle of an outer graph's variable or table, which has the same name here. */
struct graph_value graph_use(struct graph *body, const char *name);

struct graph_value graph_read(struct graph *graph, struct graph_value variable);
/* Looks up the rows of int64 ids [n...]: [n..., dim]. If an id occurs several times, so does its row, and their
 * gradients are summed before they are applied. */
struct graph_value graph_lookup(struct graph *graph, struct graph_value table, struct graph_value ids);
/* The same without creating rows or counting, neither for admission filters nor for eviction: a missing row reads as
 * its initial value. For evaluation and prediction. */
struct graph_value graph_lookup_read_only(struct graph *graph, struct graph_value table, struct graph_value ids);
struct graph_value graph_assign(struct graph *graph, struct graph_value variable, struct graph_value value);
/* Increments the float64 variable "global_step", which counts steps, and returns its value. */
struct graph_value graph_global_step(struct graph *graph);
/* Returns its value, for a graph that does not count steps. */
struct graph_value graph_global_step_read(struct graph *graph);

/*
 * Embedding bag: looks up the rows of ids [n] and pools them by GRAPH_SEGMENT_SUM, _MEAN or _SQRTN over segments (int32
 * [n], each in [0, m)) to [m, dim]. like is a tensor of m rows, for example the labels.
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
/* Any number of values: if there are more than GRAPH_INPUTS_MAX, they are combined in several steps. */
struct graph_value graph_concat(struct graph *graph, const struct graph_value *values, size_t count, int64_t axis);
struct graph_value graph_add_n(struct graph *graph, const struct graph_value *values, size_t count);
/* Output i of the node is part i. */
struct graph_value graph_split(struct graph *graph, struct graph_value x, int64_t axis, const int64_t *sizes,
			       size_t count);
/* From begin, size elements of each dimension; -1: to its end. */
struct graph_value graph_slice(struct graph *graph, struct graph_value x, const int64_t *begin, const int64_t *size,
			       size_t ndim);
/* GRAPH_SUM, GRAPH_MEAN or GRAPH_REDUCE_MAX along one axis (counted from the end, if negative), which is removed. */
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
 * x [..., k] -> [..., units]: x times weights plus bias, then an activation (GRAPH_NO_OP: none). k must be known, and
 * of the dimensions before it all but one, if there are several.
 */
struct graph_value graph_dense(struct graph *graph, struct graph_value x, int64_t units, enum graph_op activation,
			       const char *name, const struct graph_definition *definition);
struct graph_value graph_layer_norm(struct graph *graph, struct graph_value x, double epsilon, const char *name,
				    const struct graph_definition *definition);
/* Normalizes with the batch's own mean and variance, which are outputs 1 and 2. */
struct graph_value graph_batch_norm(struct graph *graph, struct graph_value x, double epsilon, const char *name,
				    const struct graph_definition *definition);
/*
 * Batch normalization as a layer of TensorFlow or PyTorch. In training it uses the batch's own mean and variance, and
 * updates running statistics, the variables "<name>/mean" and "<name>/variance": each becomes 1 - momentum times its
 * old value plus momentum times the batch's (for the variance, times n / (n - 1)). This is PyTorch's momentum, 0.1;
 * TensorFlow calls the same 0.9. Otherwise it uses the running statistics only. All workers update the same two
 * variables.
 */
struct graph_value graph_batch_norm_running(struct graph *graph, struct graph_value x, bool training, double momentum,
					    double epsilon, const char *name,
					    const struct graph_definition *definition);
/* mask: GRAPH_NONE, or int32 [b, n]; scale 0: 1 / sqrt(k). Output 1: the weights. */
struct graph_value graph_attention(struct graph *graph, struct graph_value q, struct graph_value k,
				   struct graph_value v, struct graph_value mask, double scale);

/* Mean losses over the batch: scalars. */
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
 * more: an int32 scalar of cond. results, of body: the carried values of the next iteration, then the values to record
 * on tapes. Output i is carried value i at the end; then come the number of iterations (int64) and the tapes [most,
 * ...], zero for iterations that did not run.
 */
struct graph_value graph_loop_end(struct graph_loop *loop, struct graph_value more, const struct graph_value *results,
				  uint32_t results_count, int64_t most);

/* A branch: yes if condition (int32 scalar) is not 0, else no; both bodies have the values in[]. */
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

/* Another output of the same node. */
static inline struct graph_value graph_output(struct graph_value value, uint32_t output)
{
	return (struct graph_value){ value.node, graph_is_none(value) ? 0 : output };
}

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
