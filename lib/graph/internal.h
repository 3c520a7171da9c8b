/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/graph share. */
#ifndef GRAPH_INTERNAL_H
#define GRAPH_INTERNAL_H

#include "graph/graph.h"

/* Memory of the graph's, zeroed, at a multiple of 64; NULL, and the graph has an error, when there is none. */
void *graph_memory(struct graph *graph, size_t bytes);

/* graph_add of a node without device, controls and bodies. */
struct graph_value graph_node_add(struct graph *graph, enum graph_op op, const char *name,
				  const struct graph_value *inputs, size_t inputs_count, const struct graph_attr *attrs,
				  size_t attrs_count);

/* A node of another graph, bodies and device too, with other inputs; its name is kept where it can be. */
struct graph_value graph_copy_node(struct graph *graph, const struct graph_node *node,
				   const struct graph_value *inputs);

/* What a node has for outputs, inferred from scratch after one of its bodies got further results. 0, or the graph's
 * error. */
int graph_renew_outputs(struct graph *graph, struct graph_node *node);

#endif
