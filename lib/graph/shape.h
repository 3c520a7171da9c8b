/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of shape inference share: an operation's rule (attributes and a function), and checks that write error
 * messages. Private to lib/graph, and its tests, which compare docs/graph.rst with the rules. Pure functions.
 */
#ifndef GRAPH_SHAPE_H
#define GRAPH_SHAPE_H

#include "graph/graph.h"

struct graph_inference {
	const struct graph_node *node;
	const struct graph_type *in;
	uint32_t in_count;
	struct graph_type *out;
	uint32_t out_count;
	struct star_error *err;
};

struct graph_attr_rule {
	const char *name;
	uint8_t kind; /* GRAPH_FLOAT accepts an integer too */
	bool required;
};

enum { GRAPH_RULE_ATTRS = 6 };

struct graph_rule {
	int (*infer)(struct graph_inference *in);
	struct graph_attr_rule attrs[GRAPH_RULE_ATTRS]; /* the last one has no name */
};

const struct graph_rule *graph_rule(enum graph_op op);

/* The largest number of elements of a tensor; unknown sizes count as 1. */
#define GRAPH_ELEMENTS_MAX (INT64_C(1) << 48)
/* Whether a shape has at most that many. Zeros count as 1 too, so that products stay below the limit in any order. */
bool shape_fits(const struct graph_shape *shape);

/* Sets the error message; returns -EINVAL. */
int shape_bad(const struct graph_inference *in, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with the shapes of two inputs before it: "[8, 3] and [4, 5]: ". */
int shape_bad_pair(const struct graph_inference *in, uint32_t a, uint32_t b, const char *why);

/* Checks of inputs: 0, or -EINVAL with a message. */
int shape_want_float(const struct graph_inference *in, uint32_t input);
int shape_want_dtype(const struct graph_inference *in, uint32_t input, unsigned dtype);
int shape_want_same_dtype(const struct graph_inference *in, uint32_t a, uint32_t b);
int shape_want_ndim(const struct graph_inference *in, uint32_t input, unsigned least, unsigned most);

/* Unifies two sizes that must be equal. An unknown one gets the other's value, and a step fails if it differs. false:
 * they differ. */
bool shape_unify(int64_t *a, int64_t b);
bool shape_unify_all(struct graph_shape *a, const struct graph_shape *b);
/* Broadcasts as NumPy does. false: it is not possible, or there are too many dimensions. */
bool shape_broadcast(const struct graph_shape *a, const struct graph_shape *b, struct graph_shape *result);

/* An axis from an attribute, which counts from the end if it is negative. *axis is in [0, ndim). */
int shape_axis(const struct graph_inference *in, const char *name, unsigned ndim, unsigned *axis);
/* The integers of an attribute, which must exist. */
const int64_t *shape_ints(const struct graph_inference *in, const char *name, uint32_t *count);
/* Attribute "dtype": float32, float64, int32 or int64. */
int shape_dtype(const struct graph_inference *in, uint8_t *dtype);
/* Attribute "shape": sizes of at least `least` (-1: unknown ones are allowed). */
int shape_shape(const struct graph_inference *in, int64_t least, struct graph_shape *shape);

/* Adds an output. */
void shape_out(struct graph_inference *in, unsigned dtype, const struct graph_shape *shape);

/* shape_source.c: feeds, constants, random numbers, variables and tables */
int shape_of_feed(struct graph_inference *in);
int shape_of_const(struct graph_inference *in);
int shape_of_random(struct graph_inference *in);
int shape_of_variable(struct graph_inference *in);
int shape_of_table(struct graph_inference *in);
int shape_of_read(struct graph_inference *in);
int shape_of_lookup(struct graph_inference *in);
int shape_of_apply(struct graph_inference *in); /* and assign */
int shape_of_apply_rows(struct graph_inference *in);
int shape_of_step_add(struct graph_inference *in);

/* shape_ids.c: embedding bags and ids */
int shape_of_segment(struct graph_inference *in);
int shape_of_segment_grad(struct graph_inference *in);
int shape_of_unique(struct graph_inference *in);
int shape_of_hash_cross(struct graph_inference *in);

/* shape_math.c */
int shape_of_same(struct graph_inference *in);	/* any type, unchanged; a handle too */
int shape_of_float(struct graph_inference *in); /* floats, unchanged */
int shape_of_cast(struct graph_inference *in);
int shape_of_binary(struct graph_inference *in);
int shape_of_compare(struct graph_inference *in);
int shape_of_select(struct graph_inference *in);
int shape_of_add_n(struct graph_inference *in);
int shape_of_dropout(struct graph_inference *in);
int shape_of_reduction(struct graph_inference *in);
int shape_of_matmul(struct graph_inference *in);
int shape_of_softmax_grad(struct graph_inference *in);
int shape_of_layer_norm(struct graph_inference *in);
int shape_of_layer_norm_grad(struct graph_inference *in);
int shape_of_batch_norm(struct graph_inference *in);
int shape_of_batch_norm_grad(struct graph_inference *in);
int shape_of_attention(struct graph_inference *in);
int shape_of_attention_grad(struct graph_inference *in);
int shape_of_sigmoid_loss(struct graph_inference *in); /* and its gradient */
int shape_of_softmax_loss(struct graph_inference *in);
int shape_of_softmax_loss_grad(struct graph_inference *in);

/* shape_move.c */
int shape_of_reshape(struct graph_inference *in);
int shape_of_transpose(struct graph_inference *in);
int shape_of_concat(struct graph_inference *in);
int shape_of_split(struct graph_inference *in);
int shape_of_slice(struct graph_inference *in);
int shape_of_pad(struct graph_inference *in);
int shape_of_pad_like(struct graph_inference *in);
int shape_of_expand(struct graph_inference *in);
int shape_of_reduce_like(struct graph_inference *in);
int shape_of_index(struct graph_inference *in);
int shape_of_index_grad(struct graph_inference *in);
int shape_of_gather(struct graph_inference *in);
int shape_of_columns(struct graph_inference *in);
int shape_of_columns_grad(struct graph_inference *in);
int shape_of_scatter_add(struct graph_inference *in);
int shape_of_head(struct graph_inference *in);

/* shape_flow.c */
int shape_of_while(struct graph_inference *in);
int shape_of_cond(struct graph_inference *in);

#endif
