/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cut graph, as data: which nodes are executed together in one place, in which order, and what crosses between worker
 * and PS tasks. offload/cut.h makes it, exec/exec.h executes it, and graph/ps.h says how a PS task is asked for a part.
 *
 * Threads: a cut does not change once it is made, and is read by many.
 */
#ifndef GRAPH_PARTS_H
#define GRAPH_PARTS_H

#include "graph/graph.h"

#pragma GCC visibility push(default) /* of libstartrain.so */

enum graph_protocol { GRAPH_GRPCPP = 1, GRAPH_STAR_SERVER, GRAPH_STAR_SERVER_LITE };

/* Where a part is executed: the worker, one PS task (from 0), or all PS tasks, each its partitions. */
enum { GRAPH_PLACE_WORKER = -1, GRAPH_PLACE_ALL = -2 };

/* Nodes that are executed together in one place: on PS tasks by one request to each that is concerned. */
struct graph_part {
	int32_t place;
	uint32_t wave; /* worker parts have even ones, PS parts odd ones: parts of a wave go at the same time */
	uint32_t nodes_count, feeds_count, fetches_count, kept_count, after_count;
	uint32_t *nodes;	   /* ascending; handles are in several parts, and constants in several of lite */
	struct graph_value *feeds; /* made in other places: for a PS part, what the request carries. Handles are none */
	struct graph_value *fetches; /* needed in other places, or results */
	bool *feed_shapes,
		*fetch_shapes;	  /* of each: its shape alone is needed (graph_reads): its elements need not travel */
	struct graph_value *kept; /* made by earlier parts of this place: they stay there for the step */
	uint32_t *after;	  /* parts that must have been executed, ascending */
};

/* What a PS part's request carries, and what its reply returns, in bytes of values. */
struct graph_traffic {
	uint64_t to_ps,
		/* all of it: also constants, numbers of bags and blocks, and counters, which are no feeds or fetches */
		from_ps;
	/* Of each of the part's: with each operation there that needs it, and, where each reactor gets it or has a part
	 * of it, for each. */
	uint64_t *feeds, *fetches;
	bool *stays;	   /* of each feed: an earlier request of the step has brought it, and it is there still */
	uint32_t reactors; /* of the place */
};

/* What crosses: of grpc++ one or more values of one wave; of the others the feeds, or the fetches, of a PS part. */
struct graph_message {
	uint32_t part; /* the PS part */
	bool to_ps;    /* what starts a part is there also when it carries nothing */
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
	bool fuse, worker_only; /* as asked for */
	uint32_t parts_count, messages_count, bodies_count, warnings_count;
	struct graph_part *parts; /* in an order in which they can be executed */
	struct graph_message *messages;
	struct graph_traffic *traffic; /* of each part; of the worker's it is empty */
	char *unsupported; /* why PS tasks cannot do it, as options.count says; NULL: they can, or nobody was asked */
	struct graph_body_cut *bodies;
	char **warnings; /* sentences: what could not be merged, and why */
	uint32_t *moved; /* nodes that lite moved to a PS task, ascending */
	uint32_t moved_count;
	/* Of a step, bodies not counted: dependent round trips (the longest chain of PS parts), ... */
	uint32_t rounds;
	/* ... requests (of unfused grpc++ one an operation, which carries and returns its values; of the others one a
	 * part; and of what is on all tasks one each), ... */
	uint32_t requests;
	/* ... and the values' bytes, those of `traffic` together: what is on all PS tasks is divided among them, but
	 * each returns its own partial sums. */
	uint64_t to_ps_bytes, from_ps_bytes;
	/* What the PS parts have been compiled to, for their bytes to be counted (offload/compile.h); NULL: nothing. */
	struct compile_plan *compiled;
};

static inline bool graph_cut_is_shape(const struct graph_part *part, uint32_t fetch)
{
	return part->fetch_shapes && part->fetch_shapes[fetch];
}

#pragma GCC visibility pop

#endif
