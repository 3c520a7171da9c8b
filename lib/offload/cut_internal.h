/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the cut share: a cutter is the work on one graph (bodies have their own). A level is what a wave is
 * in the result: worker nodes have even ones, PS nodes odd ones. Single-threaded; all memory is the cutter's until the
 * end.
 */
#ifndef OFFLOAD_CUT_INTERNAL_H
#define OFFLOAD_CUT_INTERNAL_H

#include "offload/cut.h"

/* Zeroed memory that is freed at once. */
struct cut_pool {
	struct cut_block *blocks;
	bool failed; /* there was none: looked at where it matters */
};

void *offload_cut_memory(struct cut_pool *pool, size_t count, size_t bytes);
void offload_cut_pool_free(struct cut_pool *pool);

enum cut_kind {
	CUT_WORK,
	CUT_HANDLE, /* no work: in each part that uses it */
	CUT_COPIED, /* a constant that only PS parts need: it is in each of those */
};

struct cutter {
	const struct graph *graph;
	struct graph_cut_options options;
	struct cut_pool pool;
	bool early;  /* lite: each component as early as it can be, also where that is a request more */
	bool stays;  /* what a pool was given by id stays there for its gradient, and so do the ids */
	bool copies; /* constants are copied to where they are needed (lite) */
	int32_t *place;
	uint8_t *kind; /* enum cut_kind */
	/* What node v waits for: deps[first[v]] to before deps[data_end[v]] by data, from there to before deps[first[v
	 * + 1]] by control edges, by shapes alone, and by the order of stateful nodes. */
	uint32_t *first, *data_end, *deps;
	uint32_t (*state)[2]; /* pairs of nodes, sorted by the second: the order of stateful nodes */
	uint32_t state_count;
	uint32_t *level;       /* of each node that is work */
	uint32_t top;	       /* the last level of a PS node, or 0 */
	uint32_t *value_first; /* node v's output o is value value_first[v] + o */
	char **warnings;
	uint32_t warnings_count, warnings_more;
	uint32_t *moved;
	uint32_t moved_count;
	bool *pools; /* of nodes: on a PS task they would be sums in parts, one of each reactor */
	/* Of nodes that work on bags of neighbouring ids, if they are on a PS task: 1 + the lookup or apply_rows whose
	 * ids those are. The bags' numbers go along with them: in 4 bytes where nobody counts otherwise. Else 0. */
	uint32_t *numbered;
};

/* cut_traffic.c: the bytes of such numbers. */
uint64_t offload_cut_numbers_bytes(const struct cutter *cutter, uint32_t ids_of);

enum { CUT_WARNINGS_MAX = 32 };

/* A constant that a node at this place has with it, instead of being sent it. */
static inline bool cut_copied_to(const struct cutter *cutter, uint32_t node, int32_t place)
{
	const struct graph_node *n = cutter->graph->nodes[node];

	return cutter->copies && place != GRAPH_PLACE_WORKER && n->op == GRAPH_CONST &&
	       n->device.job == GRAPH_UNPLACED && !n->controls_count;
}

/* How many levels a dependency takes: none within a place, one between worker and PS, two between PS tasks (over the
 * worker). */
static inline uint32_t cut_step(int32_t from, int32_t to)
{
	return from == to ? 0 : from == GRAPH_PLACE_WORKER || to == GRAPH_PLACE_WORKER ? 1 : 2;
}

static inline uint32_t cut_tasks(const struct graph_cut_options *options, int32_t place)
{
	return place == GRAPH_PLACE_ALL ? options->ps_tasks : 1;
}

/* How many reactors a place has: each of them sends its partial sums, and is sent rows by segment. */
static inline uint32_t cut_pieces(const struct graph_cut_options *options, int32_t place)
{
	return cut_tasks(options, place) * (options->reactors ? options->reactors : 1);
}

/* cut_traffic.c: what a value takes on the wire; and what all parts send. False: no memory. */
uint64_t offload_cut_bytes(const struct cutter *cutter, struct graph_value value);
bool offload_cut_count(const struct cutter *cutter, struct graph_cut *cut);

/* cut_order.c: places and the order of stateful nodes; then, also again when places have changed, what each waits
 * for. */
int offload_cut_order_init(struct cutter *cutter, const struct graph *graph, const struct graph_cut_options *options,
			   struct star_error *err);
void offload_cut_order_update(struct cutter *cutter);
/* The least level of each node, where those that wait for nothing are at 0 (worker) and 1 (PS); or, ps_first, at 2 and
 * 1. Returns the greatest of a PS node. */
uint32_t offload_cut_levels(const struct cutter *cutter, bool ps_first, uint32_t *level);
/* Frames to PS tasks when nodes have these levels. */
uint32_t offload_cut_requests(struct cutter *cutter, const uint32_t *level);
/* star_server's levels into cutter->level. */
void offload_cut_waves(struct cutter *cutter);

/* cut_move.c: changes places; true when any. */
bool offload_cut_move(struct cutter *cutter);
/* cut_back.c: the same of what makes gradients of rows; adds to what has been moved. */
void offload_cut_move_back(struct cutter *cutter);

static inline bool cut_may_move(const struct cutter *cutter, const struct graph_node *node)
{
	return !cutter->options.may_move || cutter->options.may_move(cutter->graph, node);
}

/* A worker's node that has no place of its own. */
static inline bool cut_is_free(const struct cutter *cutter, const struct graph_node *node)
{
	return node->device.job == GRAPH_UNPLACED && node->inputs_count && !node->controls_count && !node->body &&
	       graph_op_info(node->op)->place == GRAPH_ANYWHERE && cutter->kind[node->id] == CUT_WORK;
}

/* cut_move.c: operations element by element; shapes of what is the same for each of those rows, whose first lead
 * dimensions count them; and of what has a row for each. */
bool offload_cut_is_elementwise(enum graph_op op);
bool offload_cut_is_for_all_rows(const struct graph_shape *shape, unsigned ndim, unsigned lead);
bool offload_cut_is_for_each_row(const struct graph_shape *shape, const struct graph_shape *rows, unsigned lead);

/* cut_lite.c: levels of components, from star_server's levels; warnings. */
void offload_cut_lite(struct cutter *cutter);

/* cut_parts.c: from places and levels to a result, without bodies. NULL: no memory. */
struct graph_cut *offload_cut_parts(struct cutter *cutter);
/* Memory that lives as long as the result. */
struct cut_pool *offload_cut_pool_of(struct graph_cut *cut);
void offload_cut_warn(struct cutter *cutter, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
