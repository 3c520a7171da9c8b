/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gradients in reverse mode: adds nodes that compute them to the graph (docs/graph.rst has the formulas). The gradient
 * of a node on a PS task is computed there too. The gradient of a loop is a loop that runs backwards: the forward loop
 * records its carried values, and what it read from PS tasks, on tapes, and the rest of its body is computed again from
 * these. The gradient of a branch is a branch.
 *
 * Integers, stop_gradient, and operations that count or compare have no gradient. A gradient of a gradient exists if
 * all its operations have one; otherwise the graph gets an error that names the node. Threads and memory: as in
 * graph.h.
 */
#ifndef GRAPH_GRADIENT_H
#define GRAPH_GRADIENT_H

#include "graph/graph.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

/* The gradient of one value, variable or table. */
struct graph_gradient {
	/* For a value: in its shape; for a variable: from its reads. GRAPH_NONE: the loss does not depend on it in this
	 * way. */
	struct graph_value dense;
	/* From lookups: ids [n...], and a row for each, [n..., dim...]. If an id occurs several times, its rows are to
	 * be summed. */
	uint32_t pairs_count;
	struct graph_pair {
		struct graph_value ids, rows;
	} * pairs; /* in the graph's memory */
};

/* loss: a float scalar. of: `count` floats, or handles of variables and tables; one may occur several times. gradients
 * has room for as many. 0, or the graph's error. */
int graph_gradients(struct graph *graph, struct graph_value loss, const struct graph_value *of, uint32_t count,
		    struct graph_gradient *gradients);

struct graph_train_options {
	double clip_norm; /* scales all gradients by one factor so that their L2 norm is at most this; 0: no clipping */
};

/*
 * Adds an apply (for all its reads) or apply_rows (for all its lookups together) for every trainable variable and table
 * that the loss depends on, also those used in bodies. A variable that is both read and looked up gets one apply of
 * their sum. norm, which may be NULL: the L2 norm of all gradients before clipping (GRAPH_NONE without clipping). 0, or
 * the graph's error.
 */
int graph_train(struct graph *graph, struct graph_value loss, const struct graph_train_options *options,
		struct graph_value *norm);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
