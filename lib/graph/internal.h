/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/graph share. */
#ifndef GRAPH_INTERNAL_H
#define GRAPH_INTERNAL_H

#include "graph/graph.h"

/* Memory of the graph's, zeroed, at a multiple of 64; NULL, and the graph has an error, when there is none. */
void *graph_memory(struct graph *graph, size_t bytes);

#endif
