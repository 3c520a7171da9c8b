/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The structure of a plan. Private to lib/exec and its tests, which check the memory layout.
 *
 * A plan is a list of items in levels. Items of one level do not depend on each other, and may be executed in parallel.
 * Memory is divided into blocks, each of which is used during a range of levels. Values are numbered: those of node n
 * from first[n] on. A plan is constant after compilation, except for `used`, which `lock` protects.
 */
#ifndef EXEC_PLAN_H
#define EXEC_PLAN_H

#include <pthread.h>

#include "exec/exec.h"
#include "exec/team.h"

enum { PLAN_NONE = UINT32_MAX, PLAN_ALIGN = 64, PLAN_RUNS_MAX = 1024 };
#define PLAN_BYTES_MAX (UINT64_C(1) << 46)

enum plan_where {
	PLAN_NOWHERE, /* not in this process: a handle, a value that stays on a PS task, or one that nothing needs */
	PLAN_ARENA,
	PLAN_FEED,  /* in the caller's memory */
	PLAN_CONST, /* in the graph */
	PLAN_SHARED /* in the memory of another value (root) */
};

struct plan_value {
	uint8_t where;
	uint32_t root;	   /* the value whose memory it has; itself unless it is PLAN_SHARED */
	uint32_t block;	   /* for PLAN_ARENA */
	uint32_t provider; /* the PS part that provides it, or PLAN_NONE */
};

/* Memory for the levels [from, to]. */
struct plan_block {
	uint64_t bytes, offset;
	uint32_t from, to;
};

enum plan_kind { PLAN_NODE, PLAN_SHARE, PLAN_FLOW, PLAN_START, PLAN_WAIT };

struct plan_item {
	enum plan_kind kind;
	uint32_t id;	  /* of a node, or PS part (an index of graph_plan.parts) */
	uint32_t scratch; /* a block, or PLAN_NONE */
	uint32_t flow;	  /* of PLAN_FLOW: an index of graph_plan.flows */
};

struct plan_level {
	uint32_t first, count; /* items */
	bool at_once;	       /* it is worth using more than one thread */
};

/* A while or cond: the plans of its bodies. Their memory is in the item's scratch: condition, body, then room for
 * carried values. */
struct plan_flow {
	uint32_t node;
	struct graph_plan *body, *cond;
	uint64_t cond_offset, carried_offset;
};

struct plan_part {
	uint32_t part;	       /* of the cut, or of parts made for single nodes */
	uint32_t first_tensor; /* feeds, then fetches, among a run's tensors of calls */
	uint32_t *spare;       /* for each fetch a block, if the value is provided by something else; else PLAN_NONE */
	bool open;	       /* it has nodes whose output sizes only PS tasks know */
	bool waited_for;       /* it is waited for right after it is started */
};

struct graph_plan {
	const struct graph *graph;
	const struct graph_cut *cut;
	const struct graph_ps *ps;
	struct graph_ps_plan ps_plan;
	void *prepared;
	bool is_prepared;
	uint64_t seed;
	uint32_t intra_op, inter_op;

	uint32_t values_count, blocks_count, items_count, levels_count, level_most, flows_count, parts_count,
		tensors_count;
	uint32_t *first;	  /* number of each node's first value */
	struct graph_type *types; /* of each value, with its largest sizes */
	struct plan_value *values;
	struct plan_block *blocks;
	struct plan_item *items;
	struct plan_level *levels;
	struct plan_flow *flows;
	struct plan_part *parts;
	uint32_t *part_of; /* for each of ps_plan.parts its index among parts, or PLAN_NONE */
	uint64_t bytes;	   /* of the arena */

	uint32_t feeds_count;
	uint32_t *feeds; /* node of each feed that the caller passes; PLAN_NONE: nothing needs it */
	struct graph_type *feed_types;

	bool *in_worker; /* by node: it would be executed in this process */
	bool *needed;	 /* by node: it is executed in this process */

	pthread_mutex_t lock; /* protects used */
	uint64_t used[PLAN_RUNS_MAX / 64];
	struct plan_memory *memory; /* all of the above */
};

/* Zeroed memory that is freed with the plan. NULL with err: there is none. */
void *exec_plan_alloc(struct graph_plan *plan, uint64_t count, uint64_t size, struct star_error *err);

static inline uint32_t plan_number(const struct graph_plan *plan, struct graph_value value)
{
	return plan->first[value.node] + value.output;
}

static inline bool plan_is_source(const struct graph_node *node)
{
	return node->op == GRAPH_FEED || node->op == GRAPH_CONST;
}

static inline bool plan_is_flow(const struct graph_node *node)
{
	return node->op == GRAPH_WHILE || node->op == GRAPH_COND;
}

/* Its output is its input, possibly with another shape: no work. */
static inline bool plan_is_share(const struct graph_node *node)
{
	return node->op == GRAPH_IDENTITY || node->op == GRAPH_STOP_GRADIENT || node->op == GRAPH_RESHAPE;
}

/* Infers the types of a node's outputs from its actual inputs in a step. Unknown sizes (graph_is_open) get their
 * maximum. */
int exec_plan_infer(const struct graph_node *node, const struct graph_type *in, struct graph_type *out,
		    struct star_error *err);
bool exec_plan_same_type(const struct graph_type *a, const struct graph_type *b);

/* plan_place.c: decides what is executed in this process and what on PS tasks, and where each value comes from. */
int exec_plan_place(struct graph_plan *plan, struct star_error *err);
/* plan_divide.c: divides parts, so that each operation has its own. */
int exec_plan_divide(struct graph_plan *plan, struct star_error *err);
/* schedule.c: creates items and levels. */
int exec_plan_schedule(struct graph_plan *plan, struct star_error *err);
/* layout.c: creates blocks, and sets their offsets. */
int exec_plan_layout(struct graph_plan *plan, struct star_error *err);

#endif
