/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compiles the PS parts of a cut to programs (star_program.h, docs/programs.rst). Nodes of a part that pass values to
 * each other on the PS task form a component, and each component becomes a program. Either all of it is executed for
 * the keys of one lookup or apply_rows:
 *
 *   lookup -> elementwise, sums over a row -> sums over bags -> what is returned
 *   a bag's gradient -> to each of its rows -> elementwise -> apply_rows
 *
 * Bags come from the segment operations and gather, and from sum, mean and expand over consecutive ids in a row of ids.
 * PS tasks compute means as sums, which the worker divides. Or it is executed for all blocks of one variable, each of
 * which is a row (compile_blocks.c):
 *
 *   read -> elementwise -> what is returned, sums over all elements, apply
 *
 * A node that belongs to no component, and reads or changes what PS tasks hold, is an operation (template.h).
 *
 * Threads: any. There is no state except a run's memory, which belongs to one call.
 */
#ifndef OFFLOAD_COMPILE_H
#define OFFLOAD_COMPILE_H

#include "client/star_program.h"
#include "graph/ps.h"

enum {
	COMPILE_STEPS_MAX = 64,
	COMPILE_FEEDS_MAX = 16,
	COMPILE_FETCHES_MAX = 16,
	COMPILE_PLACES_MAX = 8, /* of values that are kept with a group's ids */
	/* Bytes, keys and segments that one run may send or fetch: the defaults of nodes' limits. */
	COMPILE_BYTES_MAX = 4 << 20,
	COMPILE_KEYS_MAX = 65536,
	COMPILE_SEGMENTS_MAX = 65536,
	COMPILE_NOT_MADE = 255,
};

/*
 * For graph_cut_options.may_move: whether this node may be moved to PS tasks. Only if the result has the same bits
 * there, apart from the order of sums.
 */
bool offload_compile_may_move(const struct graph *graph, const struct graph_node *node);

/* Where a feed's values come from: a tensor of the call, a constant of the graph, or a number. */
struct compile_source {
	uint32_t feed; /* of the part; or COMPILE_NO_FEED */
	const struct graph_attr *constant;
	float number;
};
enum { COMPILE_NO_FEED = UINT32_MAX };

enum compile_how {
	COMPILE_AS_IT_IS,
	COMPILE_NARROWED,     /* int64 segments */
	COMPILE_NEIGHBOURS,   /* segments: each has this many consecutive keys */
	COMPILE_DIVIDED,      /* by the number of keys of the segment */
	COMPILE_DIVIDED_ROOT, /* by the square root of that */
	/* For a whole variable: */
	COMPILE_PADDED,	 /* padded to whole blocks, or the padding removed */
	COMPILE_SUMMED,	 /* added up from the blocks' sums */
	COMPILE_AVERAGED /* the same, divided by the number of elements */
};

struct compile_feed {
	struct compile_source source;
	uint8_t kind; /* enum compile_step_kind */
	uint8_t how;
	uint32_t dim;
	uint32_t most;	   /* of segments: the maximum number of bags */
	uint32_t segments; /* for what is divided: index of the feed with the segments */
	uint64_t scratch;  /* offset in a run's memory, if `how` is not COMPILE_AS_IT_IS */
	bool kept;	   /* it is not sent: an earlier request has kept it on the PS task */
	uint8_t place;	   /* place in which it is kept */
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
	bool kept; /* as in the feed */
	uint32_t dim;
	uint32_t most;	  /* of segments: the maximum number of bags */
	const char *name; /* of unary and binary steps */
};

struct compile_fetch {
	uint32_t fetch; /* of the part */
	bool pooled;
	/* what is done with a pool: COMPILE_AS_IT_IS, _DIVIDED or _DIVIDED_ROOT; or with a variable's blocks */
	uint8_t how;
	uint32_t segments; /* for what is divided: index of the feed with the segments */
	uint64_t scratch;  /* offset in a run's memory, for counts or for blocks */
};

/* The number of segments: the rows of `like`, or the product of the first `lead` sizes of the ids. */
struct compile_bags {
	struct compile_source like;
	uint8_t lead; /* 0: there are none */
};

/* A component. */
struct compiled {
	const struct graph_node *first; /* its first node, for errors */
	uint32_t handle;		/* graph node of the table or variable */
	uint32_t after;			/* it is executed at the position of this node of the part */
	uint32_t part;
	struct graph_value ids;
	uint32_t blocks, block; /* for a whole variable: number of blocks, and elements of each; else 0 */
	uint64_t elements;	/* of the variable */
	uint64_t numbers;	/* offset in a run's memory of the numbers of its blocks */
	uint32_t group;		/* number of its group, from 1; 0: none */
	bool begins;		/* it is the first of its group: the others use what it keeps */
	bool read_only;
	struct star_op applies; /* rate, scale and their flags, for what is applied */
	struct compile_bags bags;
	uint8_t steps_count, feeds_count, fetches_count;
	struct compile_step steps[COMPILE_STEPS_MAX];
	struct compile_feed feeds[COMPILE_FEEDS_MAX]; /* the first one is the keys */
	struct compile_fetch fetches[COMPILE_FETCHES_MAX];
	uint64_t scratch_bytes; /* memory of a run */
};

/* A group: components that keep something on PS tasks between their requests. */
struct compile_group {
	uint32_t last_part, last_after; /* part and node position of the last component that uses it */
	uint32_t places;
	bool remembers; /* one of them is in a part that does not have the ids */
};

struct compile_parts {
	struct compiled *list; /* components */
	uint32_t count;
	uint32_t *in;  /* for each node of the part, its component's number + 1; 0: it belongs to none */
	uint8_t *made; /* for each node of the graph, the step of its component that computes it; or COMPILE_NOT_MADE */
};

struct compile_plan {
	struct compile_parts *parts;
	uint32_t parts_count, groups_count;
	struct compile_group *groups;
	/* What it was compiled from. */
	const struct graph_part *from;
	struct graph_type *types; /* of each value of the graph */
};

/* Compiles a plan's PS parts. Free the result by offload_compile_free. NULL with err: -ENOTSUP: programs cannot do it,
 * and what to do about that; -ENOMEM. */
struct compile_plan *offload_compile_parts(const struct graph_ps_plan *plan, struct star_error *err);
void offload_compile_free(struct compile_plan *all);

/* The result of compiling that was kept in the plan's cut when its bytes were counted; the cut owns it. NULL: there is
 * none, or it is for other parts (those of unfused grpc++ are divided) or other sizes of feeds. */
const struct compile_plan *offload_compile_found(const struct graph_ps_plan *plan);

/* Registers the program. NULL with err, as star_program_register; -ENOTSUP: it is too large for a program. */
struct star_program *offload_compile_register(const struct compiled *c, struct star_cluster *cluster,
					      const struct star_table *table, uint64_t deadline_us,
					      struct star_error *err);

/* The memory of one run. */
struct compiled_run {
	struct star_run run;
	struct star_feed feeds[COMPILE_FEEDS_MAX];
	float *fetches[COMPILE_FETCHES_MAX];
	uint8_t *scratch; /* scratch_bytes */
};

/* What a step keeps on PS tasks, for each group. */
struct compiled_left {
	uint64_t tag;
	struct graph_tensor ids; /* as they were when that was kept */
};
/* Call it before offload_compiled_fill: notes what this component will keep, under a tag that only this step uses. 0 or
 * -ENOMEM. */
int offload_compiled_leave(const struct compile_plan *all, const struct compiled *c, const struct graph_ps_call *call,
			   uint64_t tag, struct compiled_left *left, struct star_error *err);
void offload_compiled_left_free(const struct compile_plan *all, struct compiled_left *left);

/* Fills the operation of a call. 1; 0: it has no keys, so nothing is sent, and its fetches have been set; or a negative
 * errno. */
int offload_compiled_fill(const struct compile_plan *all, const struct compiled *c, struct star_program *program,
			  const struct graph_ps_call *call, const struct compiled_left *left, struct compiled_run *run,
			  struct star_op *op, struct star_error *err);

/* Call it after execution: computes what is left for the worker, such as means. */
void offload_compiled_finish(const struct compiled *c, const struct graph_ps_call *call,
			     const struct compiled_run *run);

#endif
