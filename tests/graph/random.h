/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs made at random: all kinds of attributes, devices, control edges, loops in loops. */
#ifndef TESTS_GRAPH_RANDOM_H
#define TESTS_GRAPH_RANDOM_H

#include "base/prng.h"
#include "graph/graph.h"

/* Up to this many nodes, bodies not counted; it has results and no error. open: sizes of feeds may be unknown. */
struct graph *random_graph(struct prng *p, unsigned nodes, bool open);

#endif
