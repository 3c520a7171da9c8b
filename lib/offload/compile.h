/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a PS part of a cut computes, as programs (star_program.h, docs/programs.rst): a component of its nodes that hand
 * each other values on the PS task becomes a program. All of it goes by the keys of one lookup or apply_rows:
 *
 *   lookup -> elementwise, sums over a row -> sums over bags -> what is returned
 *   a bag's gradient -> to each of its rows -> elementwise -> apply_rows
 *
 * Bags are those of the segment operations and of gather, and those that sum, mean and expand make of neighbouring ids
 * of a row of ids. Means are sums there, divided here. Or by all blocks of one variable, each of which is a row
 * (compile_blocks.c):
 *
 *   read -> elementwise -> what is returned, sums over all elements, apply
 *
 * A node that stands alone, and is what PS tasks hold, is an operation (template.h).
 *
 * Threads: none of this has a state, but for a run's memory, which is one call's.
 */
#ifndef OFFLOAD_COMPILE_H
#define OFFLOAD_COMPILE_H

#include "client/star_program.h"
#include "graph/ps.h"

enum {
	COMPILE_STEPS_MAX = 64,
	COMPILE_FEEDS_MAX = 16,
	COMPILE_FETCHES_MAX = 16,
	COMPILE_PLACES_MAX = 8, /* of what is kept with a group's ids */
	/* What one run may carry or fetch: what nodes take when their files say nothing else. */
	COMPILE_BYTES_MAX = 4 << 20,
	COMPILE_KEYS_MAX = 65536,
	COMPILE_SEGMENTS_MAX = 65536,
	COMPILE_NOT_MADE = 255,
};

/*
 * graph_cut_options.may_move: whether a node of this kind may be moved to PS tasks. Only what gives the same bits
 * there, but for the order of sums.
 */
bool offload_compile_may_move(const struct graph *graph, const struct graph_node *node);

/* A tensor of a call, or of the graph, or a number. */
struct compile_source {
	uint32_t feed; /* of the part; COMPILE_NO_FEED */
	const struct graph_attr *constant;
	float number;
};
enum { COMPILE_NO_FEED = UINT32_MAX };

enum compile_how {
	COMPILE_AS_IT_IS,
	COMPILE_NARROWED,     /* int64 segments */
	COMPILE_NEIGHBOURS,   /* segments: each of this many keys, one after the other */
	COMPILE_DIVIDED,      /* by how many keys the segment has */
	COMPILE_DIVIDED_ROOT, /* by the root of it */
	/* Of a variable as a whole. */
	COMPILE_PADDED,	 /* to whole blocks, or from them */
	COMPILE_SUMMED,	 /* from the blocks' sums */
	COMPILE_AVERAGED /* likewise, by how many elements there are */
};

struct compile_feed {
	struct compile_source source;
	uint8_t kind; /* enum compile_step_kind */
	uint8_t how;
	uint32_t dim;
	uint32_t segments; /* of what is divided: the feed with the segments */
	uint64_t scratch;  /* where it lies in a run's memory, if it is not as it is */
	bool kept;	   /* an earlier request has left it there, ... */
	uint8_t place;	   /* ... in this place */
};

enum compile_step_kind {
	COMPILE_KEYS,
	COMPILE_ROWS,
	COMPILE_SHARED,
	COMPILE_SEGMENTS,
	COMPILE_SEGMENT_ROWS,
	COMPILE_LOOKUP,
	COMPILE_UNARY,
	COMPILE_BINARY,
	COMPILE_POOL,
	COMPILE_UNPOOL,
	COMPILE_APPLY,
	COMPILE_FETCH,
	COMPILE_KEEP
};

struct compile_step {
	uint8_t kind, a, b, place;
	bool kept; /* of a feed */
	uint32_t dim;
	const char *name; /* of unary and binary steps */
};

struct compile_fetch {
	uint32_t fetch; /* of the part */
	bool pooled;
	/* what becomes of a pool: COMPILE_AS_IT_IS, _DIVIDED or _DIVIDED_ROOT; or of a variable's blocks */
	uint8_t how;
	uint32_t segments; /* of what is divided: the feed with the segments */
	uint64_t scratch;  /* for counts; or for blocks */
};

/* How many segments there are: rows of `like`, or of ids the product of the first `lead` sizes. */
struct compile_bags {
	struct compile_source like;
	uint8_t lead; /* 0: there are none */
};

/* A component. */
struct compiled {
	const struct graph_node *first; /* its first node, for errors */
	uint32_t handle;		/* node of the table */
	uint32_t after;			/* it is executed in the place of this node of the part */
	uint32_t part;
	struct graph_value ids;
	uint32_t blocks, block; /* of a variable as a whole: how many, and of how many elements; or 0 */
	uint64_t elements;	/* of the variable */
	uint64_t numbers;	/* where in a run's memory its blocks' numbers lie */
	uint32_t group; /* the number, from 1, of those that have something there between their requests; 0: none */
	bool begins;	/* the group; others of it take what was left there */
	bool read_only;
	struct star_op applies; /* rate, scale and their flags, of what is applied */
	struct compile_bags bags;
	uint8_t steps_count, feeds_count, fetches_count;
	struct compile_step steps[COMPILE_STEPS_MAX];
	struct compile_feed feeds[COMPILE_FEEDS_MAX]; /* the first one is the keys */
	struct compile_fetch fetches[COMPILE_FETCHES_MAX];
	uint64_t scratch_bytes; /* of a run */
};

/* Components that have something on PS tasks between their requests. */
struct compile_group {
	uint32_t last_part, last_after; /* whose component, in the place of which node, is the last one to take it */
	uint32_t places;
	bool remembers; /* one of them is in a part that is not given the ids */
};

struct compile_parts {
	struct compiled *list; /* components */
	uint32_t count;
	uint32_t *in;  /* for each of the part's nodes its component's number + 1; 0: it stands alone */
	uint8_t *made; /* for each of the graph's nodes the step that makes it, in its component; or COMPILE_NOT_MADE */
};

struct compile_plan {
	struct compile_parts *parts;
	uint32_t parts_count, groups_count;
	struct compile_group *groups;
	/* What it was compiled from. */
	const struct graph_part *from;
	struct graph_type *types; /* of each value of the graph */
};

/* The components of a plan's PS parts; to be freed. NULL: -ENOTSUP: what programs cannot do, with what to do about it;
 * -ENOMEM. */
struct compile_plan *offload_compile_parts(const struct graph_ps_plan *plan, struct star_error *err);
void offload_compile_free(struct compile_plan *all);

/* What the plan's cut has been compiled to when its bytes were counted, which is the cut's; NULL: it was not, or for
 * other parts (those of unfused grpc++ are divided), or for other sizes of feeds. */
const struct compile_plan *offload_compile_found(const struct graph_ps_plan *plan);

/* The program, registered. NULL as star_program_register; -ENOTSUP where it is too large for one. */
struct star_program *offload_compile_register(const struct compiled *c, struct star_cluster *cluster,
					      const struct star_table *table, uint64_t deadline_us,
					      struct star_error *err);

/* One run of it. */
struct compiled_run {
	struct star_run run;
	struct star_feed feeds[COMPILE_FEEDS_MAX];
	float *fetches[COMPILE_FETCHES_MAX];
	uint8_t *scratch; /* scratch_bytes */
};

/* What a step has left on PS tasks, by group: of one of the plan's runs. */
struct compiled_left {
	uint64_t tag;
	struct graph_tensor ids; /* as they were when they were left there */
};
/* Before offload_compiled_fill: notes what this component will leave, under a tag of this step alone. 0 or -ENOMEM. */
int offload_compiled_leave(const struct compile_plan *all, const struct compiled *c, const struct graph_ps_call *call,
			   uint64_t tag, struct compiled_left *left, struct star_error *err);
void offload_compiled_left_free(const struct compile_plan *all, struct compiled_left *left);

/* The operation of a call: 1; 0: it has no keys, and what it would fetch is set here; or a negative errno. */
int offload_compiled_fill(const struct compile_plan *all, const struct compiled *c, struct star_program *program,
			  const struct graph_ps_call *call, const struct compiled_left *left, struct compiled_run *run,
			  struct star_op *op, struct star_error *err);

/* What is left to be done here when it has been executed: means. */
void offload_compiled_finish(const struct compiled *c, const struct graph_ps_call *call,
			     const struct compiled_run *run);

#endif
