/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cuts a graph at the border between worker and PS tasks, by one of three algorithms ("protocols", after DeepRec's;
 * docs/graph-cut.rst describes them):
 *
 * - grpc++: each value that crosses the border is a message of its own; with fuse, all values of one wave with the same
 *   source and destination are one message.
 * - star_server: waves. All worker nodes that are ready, then on each PS task all that are ready, and so on. In a wave,
 *   each PS task has at most one subgraph, executed by one request that carries its inputs and returns its outputs.
 *   Every graph can be cut in this way, with the least possible number of round trips.
 * - star_server_lite: connected components of each PS task's nodes, merged if there is no path through the worker
 *   between them. Stateless operations move to the PS task whose rows they work on, or whose gradients they compute, if
 *   that saves bytes; constants are copied to where they are needed. A component that cannot be one request (there is a
 *   path from it through the worker back into it) is cut by waves, and a warning names its nodes. There are never more
 *   requests, bytes or round trips than with star_server: otherwise star_server's cut is used, with a warning.
 *
 * Nodes with a PS device are on PS tasks; nodes without a device are in the worker. Handles (variables, tables,
 * identities of them) are not executed: they are never sent, are in each part that uses them, and control edges to or
 * from them order nothing. Bodies of loops and branches are cut separately (graph_cut.bodies): values that cross the
 * border are not shared between iterations or with the outside.
 *
 * Order: by data, by control edges, and by the graph's own order between nodes that change a variable or table (apply,
 * apply_rows, assign, step_add; a loop or branch whose body contains one) and all others that read or change it: an
 * apply is never executed before a read that precedes it, nor a read before an apply that precedes it. Within a part,
 * executing its nodes by ascending id keeps this order. Nodes of the same name are the same variable or table, in
 * bodies too.
 *
 * Threads: pure functions. The result refers to the graph, which must outlive it unchanged. Control path only.
 */
#ifndef OFFLOAD_CUT_H
#define OFFLOAD_CUT_H

#include "graph/ps.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

/* Accepts "grpc" (the same as grpc++: StarServer does not use gRPC), "grpc++", "star_server", "star_server_lite".
 * Otherwise returns 0 with a message that lists them. */
enum graph_protocol graph_protocol_parse(const char *text, struct star_error *err);
const char *graph_protocol_name(enum graph_protocol protocol);

struct graph_cut_options {
	enum graph_protocol protocol;
	bool fuse; /* tensor_fuse; grpc++ only */
	/* number of PS tasks: what is on all of them costs a request each; 0: those that the graph names */
	uint32_t ps_tasks;
	int64_t batch;	  /* the size that counts for unknown sizes when bytes are compared; 0: 1 */
	bool no_offload;  /* lite moves nothing: for PS tasks that only read and update */
	bool worker_only; /* everything but reads and updates is in the worker, whatever its device */
	/* Whether a node may be moved to PS tasks; for lookup, read and apply_rows: whether anything may be moved that
	 * works on their rows. NULL: all may. */
	bool (*may_move)(const struct graph *graph, const struct graph_node *node);
	uint32_t reactors; /* reactors per PS task. Each sums its own rows, and receives what all of them need; 0: 1 */
	/* Counts the bytes sent to and from PS tasks, implemented by the sender: fills in the empty `traffic` of each
	 * part of the plan that is on a PS task. Returns a negative errno if PS tasks cannot execute the parts as they
	 * are. NULL: a value is counted once for each part that needs it, with each request. */
	int (*count)(const struct graph_ps_plan *plan, struct graph_traffic *traffic, struct star_error *err);
	/* The largest types of the graph's values, from graph_infer_most; NULL: inferred from the feeds, with `batch`
	 * for their unknown sizes. */
	struct graph_type *const *types;
};

/* NULL with err: -ENOMEM; -EINVAL: the graph has an error, or a node is on a PS task that does not exist. */
struct graph_cut *graph_cut_create(const struct graph *graph, const struct graph_cut_options *options,
				   struct star_error *err);
void graph_cut_destroy(struct graph_cut *cut); /* NULL is allowed */

/* Whether lite moved the node to a PS task. */
bool graph_cut_moved(const struct graph_cut *cut, uint32_t node);

/*
 * Whether a matrix product of a and b gives a row for each of ids [n, k] or [..., n, k]: a is [n, k, 1], a number for
 * each id; b is [n, 1, m] (or transposed, [n, m, 1]), a row for all ids [k] of a bag. The product is as wide as b.
 */
bool offload_cut_is_outer(const struct graph_node *product, const struct graph_shape *a, const struct graph_shape *b,
			  const struct graph_shape *ids);

/* Bytes of a value on the wire; an unknown size counts as batch (0: 1). */
uint64_t graph_cut_bytes(const struct graph *graph, struct graph_value value, int64_t batch);

/*
 * Checks a cut independently of the algorithms that make it: each node is in at least one part, and in several only if
 * it may be duplicated; it is in its place; each part comes after those that it needs; feeds, fetches and messages are
 * complete and without duplicates; control edges and the order of stateful nodes are kept; the figures are correct; the
 * same for bodies. Returns 0, or -EINVAL with what is wrong. Used by tests and by `starctl graph explain --check`.
 */
int graph_cut_check(const struct graph_cut *cut, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

/* Whether a reduction over several rows can be made of parts that are added: that of neighbouring ids, and of all of a
 * variable. */
static inline bool offload_is_sum_or_mean(enum graph_op op)
{
	return op == GRAPH_SUM || op == GRAPH_MEAN;
}

#endif
