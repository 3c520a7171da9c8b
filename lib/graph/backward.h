/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of gradients share: the state of one walk from a graph's results back to the requested variables and
 * tables. Private to lib/graph. Threads: the graph's. */
#ifndef GRAPH_BACKWARD_H
#define GRAPH_BACKWARD_H

#include "graph/build.h"
#include "graph/gradient.h"

/* A summand of a gradient. */
struct backward_term {
	struct backward_term *next;
	struct graph_value value;
};

/* The gradients of a variable or table, which is identified by its name, in all bodies. */
struct backward_object {
	struct backward_object *next;
	const char *name;
	struct graph_shape shape;
	uint8_t element;
	struct backward_term *dense;
	struct backward_pair {
		struct backward_pair *next;
		struct graph_value ids, rows;
	} * pairs;
};

/* The names of the variables and tables whose gradients are requested. */
struct backward_asked {
	const char **names;
	uint32_t count;
};

struct backward {
	struct graph *graph;	  /* to which nodes are added */
	const struct graph *from; /* the graph whose nodes are walked: the same, or a body that is computed again */
	uint32_t nodes_count;	  /* of `from`, when the walk began */
	uint32_t *first;	  /* for each node the number of its first output: values are numbered */
	struct graph_value *map; /* by number: the value in `graph` for each value of `from`; NULL: they are the same */
	bool *used;		 /* by number: values of `from` that were in the map from the beginning and were used */
	bool *wanted;		 /* by node: gradients are propagated through it */
	struct backward_term **terms; /* by number: the terms of each value's gradient */
	struct backward_object *objects;
	const struct backward_asked *asked;
};

/* with_map: at first no value of `from` is in the map. false: the graph has an error. graph_backward_fini frees all
 * except objects. */
bool graph_backward_init(struct backward *b, struct graph *graph, const struct graph *from, bool with_map,
			 const struct backward_asked *asked);
void graph_backward_fini(struct backward *b);

/* Completes `wanted`: a node is wanted if one of its inputs is. */
void graph_backward_mark(struct backward *b);
/* Propagates gradients from the last node to the first. */
void graph_backward_walk(struct backward *b);

bool graph_backward_asks(const struct backward_asked *asked, const char *name);
/* Whether a body has nodes on PS tasks. With asked: only if they have gradients of what is requested. */
bool graph_backward_touches(const struct graph *body, const struct backward_asked *asked);

static inline uint32_t backward_number(const struct backward *b, struct graph_value value)
{
	return b->first[value.node] + value.output;
}

/* The value in `graph` for a value of `from`; its node is added (computed again) if necessary. */
struct graph_value graph_backward_value(struct backward *b, struct graph_value value);
void graph_backward_set(struct backward *b, struct graph_value value, struct graph_value is);

/* Adds a term to a value's gradient. */
void graph_backward_add(struct backward *b, struct graph_value value, struct graph_value term);
/* The gradient of a value of `from`, which is the sum of its terms. GRAPH_NONE: it has none. */
struct graph_value graph_backward_sum(struct backward *b, struct graph_value value);
struct graph_value graph_backward_sum_terms(struct graph *graph, struct backward_term **terms);

/* The entry of a variable or table, which is created if necessary. */
struct backward_object *graph_backward_object(struct backward *b, const struct graph_node *resource);
void graph_backward_add_dense(struct backward *b, struct backward_object *object, struct graph_value term);
void graph_backward_add_pair(struct backward *b, struct backward_object *object, struct graph_value ids,
			     struct graph_value rows);

/* For rules: inputs and outputs of a node of `from`, as values in `graph`. */
static inline struct graph_value backward_in(struct backward *b, const struct graph_node *node, uint32_t i)
{
	return graph_backward_value(b, node->inputs[i]);
}

static inline struct graph_value backward_out(struct backward *b, const struct graph_node *node, uint32_t i)
{
	return graph_backward_value(b, (struct graph_value){ node->id, i });
}

bool graph_backward_wants(const struct backward *b, struct graph_value value);
void graph_backward_give(struct backward *b, const struct graph_node *node, uint32_t input,
			 struct graph_value gradient);

/* Zeros with the shape of a value; zeros of a type, with 0 for unknown sizes. */
struct graph_value graph_backward_zeros_like(struct graph *graph, struct graph_value value);
struct graph_value graph_backward_zeros(struct graph *graph, unsigned dtype, const struct graph_shape *shape);
bool graph_backward_is_float(const struct graph_type *type);

/* The gradient rule of an operation. g has the gradient of each output, or GRAPH_NONE. graph_backward_rule_of returns
 * NULL if there is none: then gradients stop there. */
typedef void backward_rule(struct backward *b, const struct graph_node *node, const struct graph_value *g);
backward_rule *graph_backward_rule_of(enum graph_op op);
/* Whether gradients pass through an operation: its result is differentiable. */
bool graph_backward_passes(enum graph_op op);

backward_rule graph_gradient_while, graph_gradient_cond; /* gradient_flow.c */

#endif
