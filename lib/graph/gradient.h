/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gradients, in reverse mode: nodes that compute them are added to the graph (formulas: docs/graph.rst). Those of a
 * node on a PS task are there too. Through loops goes a loop that runs backwards: the forward one puts its carried
 * values, and what it read on PS tasks, on tapes; the rest of its body is computed again from these. Through branches
 * goes a branch.
 *
 * Integers, stop_gradient and what only counts or compares have none. A gradient of a gradient exists where all its
 * operations have one; else the graph gets an error that names the node. Threads and memory: graph.h's.
 */
#ifndef GRAPH_GRADIENT_H
#define GRAPH_GRADIENT_H

#include "graph/graph.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

/* Of one value, variable or table. */
struct graph_gradient {
	/* Of a value: as that; of a variable: of its reads. GRAPH_NONE: the loss does not depend on it in this way. */
	struct graph_value dense;
	/* Of lookups: ids [n...], and a row for each, [n..., dim...]. An id may come several times: its rows are to be
	 * summed. */
	uint32_t pairs_count;
	struct graph_pair {
		struct graph_value ids, rows;
	} * pairs; /* the graph's memory */
};

/* loss: a float scalar. of: count floats, or handles of variables and tables, perhaps the same several times; gradients
 * has room for as many. 0, or the graph's error. */
int graph_gradients(struct graph *graph, struct graph_value loss, const struct graph_value *of, uint32_t count,
		    struct graph_gradient *gradients);

struct graph_train_options {
	double clip_norm; /* gradients are scaled down together to this L2 norm; 0: not */
};

/*
 * Adds an apply (of all its reads), or apply_rows (of all its lookups, together) for every trainable variable and table
 * that the loss depends on, those of bodies too. A variable that is both read and looked up has one apply of their sum.
 * norm, which may be NULL: the L2 norm of all gradients before the clip (GRAPH_NONE without a clip). 0, or the graph's
 * error.
 */
int graph_train(struct graph *graph, struct graph_value loss, const struct graph_train_options *options,
		struct graph_value *norm);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
