/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the cut share. A cutter is the state while one graph is cut; bodies (of while and cond) have their
 * own. Levels become the waves of the result: worker nodes have even ones, PS nodes odd ones. One thread; all memory
 * belongs to the cutter until the end.
 */
#ifndef OFFLOAD_CUT_INTERNAL_H
#define OFFLOAD_CUT_INTERNAL_H

#include "offload/cut.h"

/* Zeroed memory that is freed all together. */
struct cut_pool {
	struct cut_block *blocks;
	bool failed; /* an allocation failed: checked where it matters */
};

void *offload_cut_memory(struct cut_pool *pool, size_t count, size_t bytes);
void offload_cut_pool_free(struct cut_pool *pool);

enum cut_kind {
	CUT_WORK,
	CUT_HANDLE, /* has no work: it is in each part that uses it */
	CUT_COPIED, /* a constant that only PS parts need: it is in each of them */
};

struct cutter {
	const struct graph *graph;
	struct graph_cut_options options;
	struct cut_pool pool;
	bool early;  /* lite: each component as early as possible, even if that takes one more request */
	bool stays;  /* inputs of a pool, and the ids, are kept on PS tasks for its gradient */
	bool copies; /* constants are copied to the parts that need them (lite) */
	int32_t *place;
	uint8_t *kind; /* enum cut_kind */
	/* What node v waits for. By data: deps[first[v]] up to, but not including, deps[data_end[v]]. From there up to
	 * deps[first[v + 1]]: by control edges, by shapes only, and by the order of stateful nodes. */
	uint32_t *first, *data_end, *deps;
	uint32_t (*state)[2]; /* pairs of nodes, sorted by the second: the order of stateful nodes */
	uint32_t state_count;
	uint32_t *level;       /* of each CUT_WORK node */
	uint32_t top;	       /* the last level of a PS node, or 0 */
	uint32_t *value_first; /* node v's output o is value value_first[v] + o */
	char **warnings;
	uint32_t warnings_count, warnings_more;
	uint32_t *moved;
	uint32_t moved_count;
	bool *pools; /* for each node: on a PS task its result would be partial sums, one from each reactor */
	/* For nodes on PS tasks that work on bags of consecutive ids: 1 + the lookup or apply_rows that has these ids;
	 * else 0. The numbers of the bags are sent with them, in 4 bytes unless options.count says otherwise. */
	uint32_t *numbered;
};

/* cut_traffic.c: the bytes of these numbers. */
uint64_t offload_cut_numbers_bytes(const struct cutter *cutter, uint32_t ids_of);

enum { CUT_WARNINGS_MAX = 32 };

/* Whether a constant is copied to the part of a node at this place, instead of being sent to it. */
static inline bool cut_copied_to(const struct cutter *cutter, uint32_t node, int32_t place)
{
	const struct graph_node *n = cutter->graph->nodes[node];

	return cutter->copies && place != GRAPH_PLACE_WORKER && n->op == GRAPH_CONST &&
	       n->device.job == GRAPH_UNPLACED && !n->controls_count;
}

/* The number of levels between a node and one that depends on it: none within a place, one between worker and PS task,
 * two between PS tasks (through the worker). */
static inline uint32_t cut_step(int32_t from, int32_t to)
{
	return from == to ? 0 : from == GRAPH_PLACE_WORKER || to == GRAPH_PLACE_WORKER ? 1 : 2;
}

static inline uint32_t cut_tasks(const struct graph_cut_options *options, int32_t place)
{
	return place == GRAPH_PLACE_ALL ? options->ps_tasks : 1;
}

/* The number of reactors of a place. Each of them sends its partial sums, and is sent rows by segment. */
static inline uint32_t cut_pieces(const struct graph_cut_options *options, int32_t place)
{
	return cut_tasks(options, place) * (options->reactors ? options->reactors : 1);
}

/* cut_traffic.c: the bytes of a value on the wire; and the traffic of all parts. false: no memory. */
uint64_t offload_cut_bytes(const struct cutter *cutter, struct graph_value value);
bool offload_cut_count(const struct cutter *cutter, struct graph_cut *cut);

/* cut_order.c: sets places and the order of stateful nodes; and, which is repeated when places have changed, the nodes'
 * dependencies. */
int offload_cut_order_init(struct cutter *cutter, const struct graph *graph, const struct graph_cut_options *options,
			   struct star_error *err);
void offload_cut_order_update(struct cutter *cutter);
/* The lowest possible level of each node. Nodes without dependencies are at 0 (worker) and 1 (PS); with ps_first at 2
 * and 1. Returns the highest level of a PS node. */
uint32_t offload_cut_levels(const struct cutter *cutter, bool ps_first, uint32_t *level);
/* The number of requests to PS tasks if nodes have these levels. */
uint32_t offload_cut_requests(struct cutter *cutter, const uint32_t *level);
/* Sets cutter->level as the protocol star_server does. */
void offload_cut_waves(struct cutter *cutter);

/* cut_move.c: moves nodes to PS tasks; true if any was moved. */
bool offload_cut_move(struct cutter *cutter);
/* cut_back.c: the same for nodes that compute gradients of rows. */
void offload_cut_move_back(struct cutter *cutter);

static inline bool cut_may_move(const struct cutter *cutter, const struct graph_node *node)
{
	return !cutter->options.may_move || cutter->options.may_move(cutter->graph, node);
}

/* A node of the worker that may be moved: it was not placed by the author. */
static inline bool cut_is_free(const struct cutter *cutter, const struct graph_node *node)
{
	return node->device.job == GRAPH_UNPLACED && node->inputs_count && !node->controls_count && !node->body &&
	       graph_op_info(node->op)->place == GRAPH_ANYWHERE && cutter->kind[node->id] == CUT_WORK;
}

/* cut_move.c: whether an operation is elementwise; whether a shape stands for one value for all rows, and whether for
 * one row each. lead: how many leading dimensions count rows. */
bool offload_cut_is_elementwise(enum graph_op op);
bool offload_cut_is_for_all_rows(const struct graph_shape *shape, unsigned ndim, unsigned lead);
bool offload_cut_is_for_each_row(const struct graph_shape *shape, const struct graph_shape *rows, unsigned lead);

/* cut_lite.c: sets levels of components for lite, from those of star_server; adds warnings. */
void offload_cut_lite(struct cutter *cutter);

/* cut_parts.c: creates the result from places and levels, without bodies. NULL: no memory. */
struct graph_cut *offload_cut_parts(struct cutter *cutter);
/* The pool of memory that lives as long as the result. */
struct cut_pool *offload_cut_pool_of(struct graph_cut *cut);
void offload_cut_warn(struct cutter *cutter, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
