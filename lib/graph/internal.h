/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/graph share. Threads: as for the graph (graph.h). */
#ifndef GRAPH_INTERNAL_H
#define GRAPH_INTERNAL_H

#include "graph/graph.h"

/* Allocates memory that lives as long as the graph: zeroed, aligned to 64 bytes. NULL, and the graph has an error:
 * there is none. */
void *graph_memory(struct graph *graph, size_t bytes);

/* graph_add for a node without device, control edges and bodies. */
struct graph_value graph_node_add(struct graph *graph, enum graph_op op, const char *name,
				  const struct graph_value *inputs, size_t inputs_count, const struct graph_attr *attrs,
				  size_t attrs_count);

/* Copies a node of another graph, with bodies and device, but with other inputs. It keeps its name if that is free. */
struct graph_value graph_copy_node(struct graph *graph, const struct graph_node *node,
				   const struct graph_value *inputs);

/* Infers a node's outputs again after one of its bodies has got further results. 0, or the graph's error. */
int graph_renew_outputs(struct graph *graph, struct graph_node *node);

#endif
