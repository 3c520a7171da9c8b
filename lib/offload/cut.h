/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cutting a graph at the border between worker and PS tasks, by one of three algorithms ("protocols", after DeepRec's):
 *
 *   grpc++            each value that crosses is a message of its own; with fuse, those of one wave with the same two
 *   ends are one
 *   star_server       waves: all worker nodes that are ready, then on each PS task all that are ready, until none is
 *   left; a wave is at
 *                     most one subgraph a PS task, executed by one request that carries its feeds and returns its
 *                     fetches. Every
 *                     graph can be cut. The number of rounds is the least there is
 *   star_server_lite  connected components of each PS task's nodes, merged where there is no path through the worker
 *   between them;
 *                     stateless operations move to the PS task whose rows they work on, or whose gradients they make,
 *                     where that
 *                     makes bytes less; constants are copied to where they are needed. A component that cannot be one
 *                     request (a way leads from it over the
 *                     worker back into it) is cut by waves, and a warning names its nodes. Never more requests, bytes
 *                     or rounds
 *                     than star_server's: where it would be, it is star_server's, and a warning says so
 *
 * Nodes on PS tasks are those with a PS device; a node without one is a worker's. Handles (variables, tables,
 * identities of them) are no work: they never travel, are in each part that uses them, and control edges at them order
 * nothing. Bodies of loops and branches are cut each for itself (graph_cut.bodies): nothing that crosses is shared
 * between iterations or with the outside.
 *
 * Order: data, control edges, and the graph's own order between what changes a variable or table (apply, apply_rows,
 * assign, step_add; a loop or branch whose body does) and all else that reads or changes it: an apply never comes
 * before a read that stands before it, nor a read before an apply that does. Within a part that is kept by executing
 * its nodes in the order of their ids, or any that keeps these dependencies. Resources are the same when their nodes
 * have the same name, in bodies too. docs/graph-cut.rst.
 *
 * Threads: pure; the result holds on to the graph, which must outlive it unchanged. Control path only.
 */
#ifndef OFFLOAD_CUT_H
#define OFFLOAD_CUT_H

#include "graph/ps.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

/* "grpc" (the same as grpc++: StarServer speaks no gRPC), "grpc++", "star_server", "star_server_lite"; 0 with a
 * message that lists them. */
enum graph_protocol graph_protocol_parse(const char *text, struct star_error *err);
const char *graph_protocol_name(enum graph_protocol protocol);

struct graph_cut_options {
	enum graph_protocol protocol;
	bool fuse; /* tensor_fuse, of grpc++ */
	/* how many there are: what is on all of them costs a request each; 0: those that the graph names */
	uint32_t ps_tasks;
	int64_t batch;	  /* what to take an unknown size for when bytes are compared; 0: 1 */
	bool no_offload;  /* lite moves nothing: for PS tasks that read and update only */
	bool worker_only; /* what is no read or update is the worker's, whatever device it has */
	/* Whether a node may be moved to PS tasks; of lookup, read and apply_rows: whether anything may be moved that
	 * works on their rows. NULL: any. */
	bool (*may_move)(const struct graph *graph, const struct graph_node *node);
	uint32_t reactors; /* of a PS task, each of which sums its own rows, and is sent what all of them need; 0: 1 */
	/* What PS tasks are sent, by who sends it: fills the empty `traffic` of each of the plan's parts that is
	 * theirs. A negative errno: they cannot do the parts as they are. NULL, and then: a value goes once to each
	 * part that needs it, with each request. */
	int (*count)(const struct graph_ps_plan *plan, struct graph_traffic *traffic, struct star_error *err);
	/* The greatest types of the graph's values, of graph_infer_most; NULL: those from feeds whose unknown sizes are
	 * batch. */
	struct graph_type *const *types;
};

/* NULL: no memory; -EINVAL: the graph has an error, or a node is on a PS task that is not there. */
struct graph_cut *graph_cut_create(const struct graph *graph, const struct graph_cut_options *options,
				   struct star_error *err);
void graph_cut_destroy(struct graph_cut *cut); /* NULL is allowed */

/* Whether lite moved the node to a PS task. */
bool graph_cut_moved(const struct graph_cut *cut, uint32_t node);

/*
 * Whether a matrix product of a and b is a row for each of ids [n, k], or [..., n, k]: a [n, k, 1], a number of each
 * id's own, times b [n, 1, m] (or transposed, [n, m, 1]), a row that the ids [k] of a bag share. As wide as b.
 */
bool offload_cut_is_outer(const struct graph_node *product, const struct graph_shape *a, const struct graph_shape *b,
			  const struct graph_shape *ids);

/* What a value takes on the wire; an unknown size counts as batch (0: 1). */
uint64_t graph_cut_bytes(const struct graph *graph, struct graph_value value, int64_t batch);

/*
 * Whether a cut is right, found out from scratch and not as the algorithms do: each node in one part at least, in
 * several only if it may be duplicated; on its place; parts in order, each behind what it needs; feeds, fetches and
 * messages complete and without any twice; control edges and the order of stateful nodes kept; figures as they are;
 * bodies too. 0, or -EINVAL with what is wrong. Used by tests and by `starctl graph explain --check`.
 */
int graph_cut_check(const struct graph_cut *cut, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
