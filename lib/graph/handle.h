/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles of variables and tables: values without data. A handle is in each part of a cut that uses it. Pure
 * function. */
#ifndef GRAPH_HANDLE_H
#define GRAPH_HANDLE_H

#include "graph/graph.h"

/* Whether a node is a variable or table, or an identity of one. */
static inline bool graph_is_handle(const struct graph_node *node)
{
	return node->outputs_count && node->outputs[0].dtype == 0;
}

#endif
