/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a graph asks of PS tasks, in libstar's terms: how its variables and tables are defined, and which operations a
 * part of its cut is. The same for PS tasks that are asked over a network (remote.h) and for those that are this
 * process (local.h).
 *
 * Threads: any; nothing here has a state.
 */
#ifndef OFFLOAD_TEMPLATE_H
#define OFFLOAD_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/star.h"
#include "graph/ps.h"

enum { TEMPLATE_OPTIONS_TEXT = 1024, TEMPLATE_NOT_THERE = UINT32_MAX };

/* The definition of a variable or table by its node's attributes: dtype, shape or dim, initializer, scale, seed,
 * optimizer, rate; all others but trainable are options by name (star_spec.options). spec points into the rest. */
struct template_object {
	struct star_spec spec;
	bool is_table;
	uint64_t shape[GRAPH_DIMS_MAX];
	char options[TEMPLATE_OPTIONS_TEXT];
};
int offload_template_object(const struct graph_node *node, struct template_object *object, struct star_error *err);

/* What a node that applies gradients says of their learning rate and scale, into op; -EINVAL: they cannot be so. */
int offload_template_rates(const struct graph_node *node, struct star_op *op, struct star_error *err);

/* An operation of a part, without a step's memory; op.table is NULL. */
struct request_template {
	struct star_op op;
	uint32_t handle; /* the node that is its variable or table, or an identity of it; or TEMPLATE_NOT_THERE */
	uint32_t keys, values, fetch; /* which feed or fetch of the part it is; TEMPLATE_NOT_THERE: none */
	const struct graph_attr *keys_constant, *values_constant; /* or the graph's */
};

/* Whether a node is a constant that is with each that needs it there: one that its author has put there, and others
 * need, is work. */
bool offload_template_goes_along(const struct graph_part *part, const struct graph_node *node);

/* The operation that a node of a part is: 1; 0: none, as it is a handle, or a constant that is with another, or nobody
 * needs it; or -ENOTSUP, as PS tasks don't do it. */
int offload_template_node(const struct graph_ps_plan *plan, const struct graph_part *part,
			  const struct graph_node *node, struct request_template *template, struct star_error *err);

/* The operations of part `index`; *templates is to be freed, also after an error. 0; -ENOTSUP: the part has what PS
 * tasks don't do. */
int offload_template_part(const struct graph_ps_plan *plan, uint32_t index, struct request_template **templates,
			  uint32_t *count, struct star_error *err);

/* A step_add's gradient, and its result if nobody fetches it. */
struct template_step {
	double minus_one, counted;
};

/* The operation with a step's memory: 1; 0: it has no keys, so there is nothing to do; or -E2BIG. */
int offload_template_fill(const struct request_template *template, const struct graph_ps_call *call,
			  struct template_step *step, struct star_op *op, struct star_error *err);

#endif
