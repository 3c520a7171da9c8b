/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tests of the cut share: graphs in few words, and an interpreter for which an operation is any function of its
 * inputs: a value is a hash of how it was made, a variable's state a hash of what was done to it, in order. Two
 * executions that agree in these agree for all kernels.
 */
#ifndef TESTS_GRAPH_CUTTING_H
#define TESTS_GRAPH_CUTTING_H

#include "base/prng.h"
#include "offload/cut.h"

/* A node with up to three inputs (the first that is GRAPH_NONE ends them) at a device (NULL: none); most shapes are [4,
 * 3]. */
struct graph_value put(struct graph *graph, enum graph_op op, const char *name, const char *device,
		       struct graph_value a, struct graph_value b, struct graph_value c);
#define PUT0(g, op, name, device) put(g, op, name, device, GRAPH_NONE, GRAPH_NONE, GRAPH_NONE)
#define PUT1(g, op, name, device, a) put(g, op, name, device, a, GRAPH_NONE, GRAPH_NONE)
#define PUT2(g, op, name, device, a, b) put(g, op, name, device, a, b, GRAPH_NONE)
struct graph_value put_feed(struct graph *graph, const char *name, const char *dtype, int64_t rows, int64_t columns);
struct graph_value put_sum(struct graph *graph, const char *name, struct graph_value x, int64_t axis);

/* A graph with loops, branches, shared variables, control edges and all places, of about this many nodes. */
struct graph *random_placed_graph(struct prng *random, unsigned nodes, unsigned tasks);

struct graph_cut *cut_by(const struct graph *graph, enum graph_protocol protocol, bool fuse);
/* Checks it, and that it computes what the graph does: parts in a random order of those allowed. False: not so; it has
 * been said. */
bool cut_is_right(const struct graph_cut *cut, uint64_t seed);
/* The least rounds of any cut, by trying all; for few nodes. */
uint32_t least_rounds(const struct graph *graph);
void print_graph(const struct graph *graph);

#endif
