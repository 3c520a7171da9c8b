/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the compiler of parts to programs. One thread. */
#ifndef OFFLOAD_COMPILE_INTERNAL_H
#define OFFLOAD_COMPILE_INTERNAL_H

#include "offload/compile.h"
#include "offload/ps_ops.h"
#include "offload/template.h"

/* A component that is being compiled. */
struct compile_build {
	const struct graph_ps_plan *plan;
	struct compile_plan *all;
	const struct graph_part *part;
	uint32_t index;	    /* the part's */
	const uint32_t *in; /* compile_parts.in of the part */
	uint32_t number;    /* the component's, as in `in` */
	struct compiled *c;
	uint8_t *step;		/* for each node of the graph: the step that computes it, or COMPILE_NOT_MADE */
	struct graph_value ids; /* the keys; or */
	const struct graph_shape *whole; /* the shape of the variable whose blocks are the keys */
	const struct graph_node *node;	 /* the current one */
	struct star_error *err;
};

/* compile_node.c: returns -ENOTSUP with a message about the current node. */
int offload_compile_not_done(const struct compile_build *b, const char *why);
const struct graph_shape *offload_compile_shape_of(const struct compile_build *b, struct graph_value value);
bool offload_compile_is_feed(const struct compile_build *b, struct graph_value value, uint32_t *feed);
/* Adds a step, or a feed and its step; *index is the feed's number. Returns the step's number, or -ENOTSUP. */
int offload_compile_add_step(struct compile_build *b, struct compile_step step);
int offload_compile_add_feed(struct compile_build *b, struct compile_feed feed, uint32_t *index);
int offload_compile_add_apply(struct compile_build *b, int gradients);
/* Reserves room in a run's memory; returns its offset. */
uint64_t offload_compile_add_scratch(struct compile_build *b, uint64_t bytes);
/* Finds where a value comes from: a feed, or a constant in the part. false: neither. */
bool offload_compile_find_source(const struct compile_build *b, struct graph_value value,
				 struct compile_source *source);
/* The name in programs of a node's operation. NULL: it has none. */
const char *offload_compile_step_name(const struct graph_node *node);
/* The largest number of bags that a step can have. */
int64_t offload_compile_most_bags(const struct compile_build *b);
/* Compiles the current node. Returns the step that computes it; COMPILE_NOT_MADE: no other step can use it; or
 * -ENOTSUP. */
int offload_compile_node(struct compile_build *b);

/* compile_blocks.c, for components whose keys are all blocks of a variable: begins one; compiles the current node, as
 * offload_compile_node; makes the current node a fetch; checks that it is not too large for a run. */
int offload_compile_blocks(struct compile_build *b, const struct graph_node *variable);
int offload_compile_blocks_node(struct compile_build *b);
int offload_compile_blocks_output(struct compile_build *b, uint32_t fetch);
int offload_compile_blocks_size(struct compile_build *b);
/* The parts of offload_compiled_fill and offload_compiled_finish for such components. */
int offload_compiled_blocks_fill(const struct compiled *c, const struct graph_ps_call *call, struct compiled_run *run,
				 struct star_error *err);
void offload_compiled_blocks_finish(const struct compiled *c, const struct graph_ps_call *call,
				    const struct compiled_run *run);

/* compile_run.c: the data and the type of a source that is a feed or a constant. */
const void *offload_compiled_data(const struct compile_source *source, const struct graph_ps_call *call);
const struct graph_type *offload_compiled_type(const struct compile_source *source, const struct graph_ps_call *call);

/* compile_kept.c: whether a later part of the same place needs this node's result. */
bool offload_compile_is_kept(const struct graph_ps_plan *plan, uint32_t part, uint32_t node);
/* The component of an earlier part of the same place that computes these rows, and its step. NULL: there is none. */
struct compiled *offload_compile_maker(const struct compile_build *b, struct graph_value value, unsigned *step);
/* Adds a feed of such rows. Returns its step, or -ENOTSUP. */
int offload_compile_take(struct compile_build *b, struct graph_value value, uint32_t dim);
/* Lets an earlier component with the same ids keep the ids, and what it was sent, for this one. 0 or -ENOTSUP. */
int offload_compile_share(struct compile_build *b);

#endif
