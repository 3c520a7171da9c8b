/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cut graph as data: which nodes are executed together in one place, in which order, and what crosses between worker
 * and PS tasks. offload/cut.h creates it, exec/exec.h executes it, and graph/ps.h says how a PS task is asked to
 * execute a part.
 *
 * Threads: a cut does not change after its creation, and may be read by many.
 */
#ifndef GRAPH_PARTS_H
#define GRAPH_PARTS_H

#include "graph/graph.h"

#pragma GCC visibility push(default) /* of libstartrain.so */

enum graph_protocol { GRAPH_GRPCPP = 1, GRAPH_STAR_SERVER, GRAPH_STAR_SERVER_LITE };

/* Where a part is executed: the worker, one PS task (from 0), or all PS tasks, each its partitions. */
enum { GRAPH_PLACE_WORKER = -1, GRAPH_PLACE_ALL = -2 };

/* Nodes that are executed together in one place; on PS tasks by one request to each task concerned. */
struct graph_part {
	int32_t place;
	uint32_t wave; /* even for worker parts, odd for PS parts; parts of one wave are executed at the same time */
	uint32_t nodes_count, feeds_count, fetches_count, kept_count, after_count;
	uint32_t *nodes; /* ascending; handles, and lite's constants, may be in several parts */
	/* computed elsewhere: for a PS part, what the request carries. Handles are not included */
	struct graph_value *feeds;
	struct graph_value *fetches; /* needed in other places, or results */
	bool *feed_shapes,
		/* for each: only its shape is needed (graph_reads), so its elements need not be sent */
		*fetch_shapes;
	struct graph_value *kept; /* computed by earlier parts in this place, where they stay for the step */
	uint32_t *after;	  /* parts to execute before this one, ascending */
};

/* Bytes of values that a PS part's request carries and its reply returns. */
struct graph_traffic {
	uint64_t to_ps,
		/* everything, including constants, numbers of bags and blocks, and counters, which are not among feeds
		 * and fetches */
		from_ps;
	/* For each of the part's feeds and fetches: the sum over the operations there that need it and, if each reactor
	 * receives it or has a part of it, over the reactors. */
	uint64_t *feeds, *fetches;
	bool *stays;	   /* for each feed: an earlier request of the step has sent it, and it is still there */
	uint32_t reactors; /* of the place */
};

/* What crosses the border: with grpc++ one or more values of one wave; with the others the feeds, or the fetches, of a
 * PS part. */
struct graph_message {
	uint32_t part; /* the PS part */
	bool to_ps;    /* a message that starts a part exists even if it carries nothing */
	uint32_t values_count;
	struct graph_value *values;
};

struct graph_body_cut {
	uint32_t node; /* a while or cond */
	struct graph_cut *body, *cond;
};

struct graph_cut {
	const struct graph *graph;
	enum graph_protocol protocol;
	bool fuse, worker_only; /* as requested */
	uint32_t parts_count, messages_count, bodies_count, warnings_count;
	struct graph_part *parts; /* in an order in which they can be executed */
	struct graph_message *messages;
	struct graph_traffic *traffic; /* for each part; empty for the worker's */
	/* why PS tasks cannot execute it, from options.count; NULL: they can, or it was not checked */
	char *unsupported;
	struct graph_body_cut *bodies;
	char **warnings; /* messages: what could not be merged, and why */
	uint32_t *moved; /* nodes that lite moved to a PS task, ascending */
	uint32_t moved_count;
	/* Figures of a step, without bodies: dependent round trips (the longest chain of PS parts), ... */
	uint32_t rounds;
	/* ... requests (with unfused grpc++ one per operation, which carries and returns its values; otherwise one per
	 * part; what is on all tasks counts once for each task), ... */
	uint32_t requests;
	/* ... and bytes of values, the totals of `traffic`: what is on all PS tasks is divided among them, but each
	 * returns its own partial sums. */
	uint64_t to_ps_bytes, from_ps_bytes;
	/* The PS parts in compiled form, which counting their bytes needs (offload/compile.h); NULL: none. */
	struct compile_plan *compiled;
};

static inline bool graph_cut_is_shape(const struct graph_part *part, uint32_t fetch)
{
	return part->fetch_shapes && part->fetch_shapes[fetch];
}

#pragma GCC visibility pop

#endif
