/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Translates a graph to libstar's terms: the definitions of its variables and tables, and the operations of a part of
 * its cut. The same for PS tasks in a network (train/remote.h) and in this process (train/local.h).
 *
 * Threads: any; there is no state.
 */
#ifndef OFFLOAD_TEMPLATE_H
#define OFFLOAD_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/star.h"
#include "graph/ps.h"

enum { TEMPLATE_OPTIONS_TEXT = 1024, TEMPLATE_NOT_THERE = UINT32_MAX };

/* The definition of a variable or table from its node's attributes: dtype, shape or dim, initializer, scale, seed,
 * optimizer, rate. All others except trainable are options by name (star_spec.options). spec points to the other
 * members. */
struct template_object {
	struct star_spec spec;
	bool is_table;
	uint64_t shape[GRAPH_DIMS_MAX];
	char options[TEMPLATE_OPTIONS_TEXT];
};
int offload_template_object(const struct graph_node *node, struct template_object *object, struct star_error *err);

/* Sets op's rate and scale from the attributes of a node that applies gradients. -EINVAL: they are invalid. */
int offload_template_rates(const struct graph_node *node, struct star_op *op, struct star_error *err);

/* An operation of a part, without pointers to a step's memory. op.table is NULL. */
struct request_template {
	struct star_op op;
	uint32_t handle; /* the node of its variable or table, or an identity of that; or TEMPLATE_NOT_THERE */
	uint32_t keys, values, fetch; /* which feed or fetch of the part has them; TEMPLATE_NOT_THERE: none */
	const struct graph_attr *keys_constant, *values_constant; /* or a constant has them */
};

/* Whether a node is a constant that needs no operation, because each node that needs it has a copy. (A constant that
 * the author has placed on a PS task, and that other places need, is an operation.) */
bool offload_template_goes_along(const struct graph_part *part, const struct graph_node *node);

/* The operation of a node of a part. 1; 0: it has none, because it is a handle, or a constant as above, or nobody needs
 * it; -ENOTSUP: PS tasks cannot execute it. */
int offload_template_node(const struct graph_ps_plan *plan, const struct graph_part *part,
			  const struct graph_node *node, struct request_template *template, struct star_error *err);

/* The operations of part `index`. Free *templates, also after an error. 0; -ENOTSUP: PS tasks cannot execute the
 * part. */
int offload_template_part(const struct graph_ps_plan *plan, uint32_t index, struct request_template **templates,
			  uint32_t *count, struct star_error *err);

/* Memory for a step_add: its gradient, and its result if that is not fetched. */
struct template_step {
	double minus_one, counted;
};

/* Fills the operation for a step. 1; 0: it has no keys, so there is nothing to do; or -E2BIG. */
int offload_template_fill(const struct request_template *template, const struct graph_ps_call *call,
			  struct template_step *step, struct star_op *op, struct star_error *err);

#endif
