/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of gradients share: one walk from a graph's results back to what is asked for. Private to
 * lib/graph. */
#ifndef GRAPH_BACKWARD_H
#define GRAPH_BACKWARD_H

#include "graph/build.h"
#include "graph/gradient.h"

/* A summand of a gradient. */
struct backward_term {
	struct backward_term *next;
	struct graph_value value;
};

/* What a variable or table is given, by its name, which it has in all bodies. */
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

/* The names of the variables and tables that are asked for. */
struct backward_asked {
	const char **names;
	uint32_t count;
};

struct backward {
	struct graph *graph;	      /* to which nodes are added */
	const struct graph *from;     /* whose nodes are walked: the same, or a body that is computed again */
	uint32_t nodes_count;	      /* of from, when the walk began */
	uint32_t *first;	      /* number of each node's first output */
	struct graph_value *map;      /* of from's values in graph, by number; NULL: they are the same */
	bool *used;		      /* of from's values that map had from the beginning: asked for */
	bool *wanted;		      /* nodes through which the gradient goes */
	struct backward_term **terms; /* by number */
	struct backward_object *objects;
	const struct backward_asked *asked;
};

/* with_map: all values of from are unmapped at first. false: the graph has an error. Freed by graph_backward_fini, but
 * objects. */
bool graph_backward_init(struct backward *b, struct graph *graph, const struct graph *from, bool with_map,
			 const struct backward_asked *asked);
void graph_backward_fini(struct backward *b);

/* Sets which nodes the gradient goes through, from those that already are wanted. */
void graph_backward_mark(struct backward *b);
/* From the last node to the first. */
void graph_backward_walk(struct backward *b);

bool graph_backward_asks(const struct backward_asked *asked, const char *name);
/* Whether a body has nodes on PS tasks (with gradients of what is asked for, if asked is given). */
bool graph_backward_touches(const struct graph *body, const struct backward_asked *asked);

static inline uint32_t backward_number(const struct backward *b, struct graph_value value)
{
	return b->first[value.node] + value.output;
}

/* Where a value of from is in graph; computed again if it is not there yet. */
struct graph_value graph_backward_value(struct backward *b, struct graph_value value);
void graph_backward_set(struct backward *b, struct graph_value value, struct graph_value is);

/* Another summand of a value's gradient. */
void graph_backward_add(struct backward *b, struct graph_value value, struct graph_value term);
/* The gradient of a value of from: the sum; GRAPH_NONE: there is none. */
struct graph_value graph_backward_sum(struct backward *b, struct graph_value value);
struct graph_value graph_backward_sum_terms(struct graph *graph, struct backward_term **terms);

/* The resource's entry, made at its first time. */
struct backward_object *graph_backward_object(struct backward *b, const struct graph_node *resource);
void graph_backward_add_dense(struct backward *b, struct backward_object *object, struct graph_value term);
void graph_backward_add_pair(struct backward *b, struct backward_object *object, struct graph_value ids,
			     struct graph_value rows);

/* For rules: inputs and outputs of a node of from. */
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

/* Zeros shaped as a value; of a type, whose unknown sizes are 0 then. */
struct graph_value graph_backward_zeros_like(struct graph *graph, struct graph_value value);
struct graph_value graph_backward_zeros(struct graph *graph, unsigned dtype, const struct graph_shape *shape);
bool graph_backward_is_float(const struct graph_type *type);

/* The rule of an operation: g has a gradient, or GRAPH_NONE, for each output. NULL: there is none, and nothing goes
 * on. */
typedef void backward_rule(struct backward *b, const struct graph_node *node, const struct graph_value *g);
backward_rule *graph_backward_rule_of(enum graph_op op);
/* Whether an operation's result depends on its inputs smoothly, so that a gradient goes through it. */
bool graph_backward_passes(enum graph_op op);

backward_rule graph_gradient_while, graph_gradient_cond; /* gradient_flow.c */

#endif
