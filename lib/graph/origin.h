/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages about a node that graph_gradients has added name the node whose gradient it computes: the added one has a
 * generated name, which the graph's author never wrote. Threads: as for the graph (graph.h). */
#ifndef GRAPH_ORIGIN_H
#define GRAPH_ORIGIN_H

#include "graph/graph.h"

/* The name of the node whose gradient this one computes; NULL: it was not added for a gradient. node: one of a graph
 * (graph_add), not a copy. */
const char *graph_origin(const struct graph_node *node);
/* name: in the memory of the node's graph. */
void graph_set_origin(struct graph_node *node, const char *name);

#endif
