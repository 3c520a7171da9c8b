/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload/template.h"

#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- variables and tables ---- */

/* The options that are not members of star_spec: "beta1=0.8,whole=1". */
static int options_text(const struct graph_node *node, char text[static TEMPLATE_OPTIONS_TEXT], struct star_error *err)
{
	static const char *const others[] = { "dtype", "shape",	    "dim",  "initializer", "scale",
					      "seed",  "optimizer", "rate", "trainable" };
	size_t used = 0;

	text[0] = 0;
	for (uint32_t i = 0; i < node->attrs_count; i++) {
		const struct graph_attr *attr = &node->attrs[i];
		const char *comma = used ? "," : "";
		bool other = false;
		int n;

		for (unsigned k = 0; k < sizeof(others) / sizeof(others[0]); k++)
			other |= !strcmp(attr->name, others[k]);
		if (!strcmp(attr->name, "rate") && graph_attr_float(node, "rate", 1) == 0)
			other = false; /* in star_spec.rate it would mean the default */
		if (other)
			continue;
		n = attr->kind == GRAPH_INT ? snprintf(text + used, TEMPLATE_OPTIONS_TEXT - used, "%s%s=%lld", comma,
						       attr->name, (long long)attr->i)
		    : attr->kind == GRAPH_FLOAT ? snprintf(text + used, TEMPLATE_OPTIONS_TEXT - used, "%s%s=%.17g",
							   comma, attr->name, attr->f)
		    : attr->kind == GRAPH_STRING && !strpbrk(attr->s, ",=") /* which would begin another option */
			    ? snprintf(text + used, TEMPLATE_OPTIONS_TEXT - used, "%s%s=%s", comma, attr->name, attr->s)
			    : -1;
		if (n < 0 || (size_t)n >= TEMPLATE_OPTIONS_TEXT - used)
			return star_error_set(err, -EINVAL, "node \"%s\": attribute %s is not an option", node->name,
					      attr->name);
		used += (size_t)n;
	}
	return 0;
}

int offload_template_object(const struct graph_node *node, struct template_object *object, struct star_error *err)
{
	struct star_spec *spec = &object->spec;

	object->is_table = node->op == GRAPH_TABLE;
	*spec = (struct star_spec){
		.name = node->name,
		.dtype = graph_attr_string(node, "dtype", NULL),
		.dim = (uint32_t)graph_attr_int(node, "dim", 0),
		.ndim = node->outputs[0].shape.ndim,
		.shape = object->shape,
		.initializer = graph_attr_string(node, "initializer", NULL),
		.scale = (float)graph_attr_float(node, "scale", 0),
		.seed = (uint64_t)graph_attr_int(node, "seed", 0),
		.optimizer = graph_attr_string(node, "optimizer", NULL),
		.rate = (float)graph_attr_float(node, "rate", 0),
		.options = object->options,
	};
	for (unsigned i = 0; i < spec->ndim; i++)
		object->shape[i] = (uint64_t)node->outputs[0].shape.dims[i];
	if (node->op == GRAPH_VARIABLE && spec->ndim == 0) { /* a scalar is one element */
		spec->ndim = 1;
		object->shape[0] = 1;
	}
	return options_text(node, object->options, err);
}

/* ---- operations ---- */

static uint32_t find_value(const struct graph_value *values, uint32_t count, struct graph_value value)
{
	for (uint32_t i = 0; i < count; i++)
		if (graph_same(values[i], value))
			return i;
	return TEMPLATE_NOT_THERE;
}

/* The feed or constant that a node's input is; an error if it is computed on the PS task itself. */
static int feed_of(const struct graph_ps_plan *plan, const struct graph_part *part, const struct graph_node *node,
		   uint32_t input, uint32_t *feed, const struct graph_attr **constant, struct star_error *err)
{
	const struct graph_node *from = plan->graph->nodes[node->inputs[input].node];

	*feed = find_value(part->feeds, part->feeds_count, node->inputs[input]);
	*constant = *feed == TEMPLATE_NOT_THERE && from->op == GRAPH_CONST ? graph_attr(from, "value") : NULL;
	if (*feed == TEMPLATE_NOT_THERE && !*constant)
		return star_error_set(
			err, -ENOTSUP,
			"node \"%s\": its input %u is computed on a PS task, and used there: let it pass through the "
			"worker, through a node with the device /job:worker",
			node->name, input);
	return 0;
}

bool offload_template_goes_along(const struct graph_part *part, const struct graph_node *node)
{
	return node->op == GRAPH_CONST &&
	       (node->device.job != GRAPH_PS || find_value(part->fetches, part->fetches_count,
							   (struct graph_value){ node->id, 0 }) == TEMPLATE_NOT_THERE);
}

/* Whether a pull is needed: without a fetch, nothing uses its result. */
static bool is_needed(const struct request_template *d)
{
	return d->op.kind != STAR_PULL || d->fetch != TEMPLATE_NOT_THERE;
}

int offload_template_rates(const struct graph_node *node, struct star_op *op, struct star_error *err)
{
	const double rate = graph_attr_float(node, "rate", 0), scale = graph_attr_float(node, "scale", 0);

	/* Written so that NaN fails. */
	if (!(rate >= 0 && rate <= (double)FLT_MAX) || !(scale >= 0 && scale <= (double)FLT_MAX))
		return star_error_set(
			err, -EINVAL,
			"node \"%s\": its learning rate is %g and its scale is %g: both must be 0 or more", node->name,
			rate, scale);
	op->flags |= (graph_attr(node, "rate") ? STAR_RATE : 0) | (graph_attr(node, "scale") ? STAR_SCALE : 0);
	op->rate = (float)rate;
	op->scale = (float)scale;
	return 0;
}

int offload_template_node(const struct graph_ps_plan *plan, const struct graph_part *part,
			  const struct graph_node *node, struct request_template *d, struct star_error *err)
{
	int rc = 0;

	if ((node->outputs_count && node->outputs[0].dtype == 0) || offload_template_goes_along(part, node))
		return 0;
	*d = (struct request_template){ .keys = TEMPLATE_NOT_THERE,
					.values = TEMPLATE_NOT_THERE,
					.fetch = TEMPLATE_NOT_THERE };
	/* Nodes without a handle, or without inputs, are refused below. */
	d->handle = node->inputs_count ? node->inputs[0].node : TEMPLATE_NOT_THERE;
	if (node->outputs_count)
		d->fetch = find_value(part->fetches, part->fetches_count, (struct graph_value){ node->id, 0 });
	if (d->fetch != TEMPLATE_NOT_THERE && graph_cut_is_shape(part, d->fetch) && node->op != GRAPH_STEP_ADD)
		d->fetch = TEMPLATE_NOT_THERE;
	switch (node->op) {
	case GRAPH_READ:
		d->op.kind = STAR_PULL;
		break;
	case GRAPH_LOOKUP:
		d->op.kind = STAR_PULL;
		d->op.flags = graph_attr_int(node, "read_only", 0) ? STAR_READ_ONLY : 0;
		rc = feed_of(plan, part, node, 1, &d->keys, &d->keys_constant, err);
		break;
	case GRAPH_APPLY:
	case GRAPH_ASSIGN:
		d->op.kind = node->op == GRAPH_APPLY ? STAR_PUSH : STAR_ASSIGN;
		rc = node->op == GRAPH_APPLY ? offload_template_rates(node, &d->op, err) : 0;
		if (rc == 0)
			rc = feed_of(plan, part, node, 1, &d->values, &d->values_constant, err);
		break;
	case GRAPH_APPLY_ROWS:
		d->op.kind = STAR_PUSH;
		rc = offload_template_rates(node, &d->op, err);
		if (rc == 0)
			rc = feed_of(plan, part, node, 1, &d->keys, &d->keys_constant, err);
		if (rc == 0)
			rc = feed_of(plan, part, node, 2, &d->values, &d->values_constant, err);
		break;
	case GRAPH_STEP_ADD:
		d->op.kind = STAR_PUSH_PULL;
		d->op.dtype = "float64";
		break;
	default:
		rc = star_error_set(err, -ENOTSUP,
				    "node \"%s\": PS tasks do not support %s: give it the device /job:worker",
				    node->name, graph_op_name(node->op));
	}
	return rc < 0 ? rc : is_needed(d);
}

int offload_template_part(const struct graph_ps_plan *plan, uint32_t index, struct request_template **templates,
			  uint32_t *count, struct star_error *err)
{
	const struct graph_part *from = &plan->parts[index];

	*templates = NULL;
	*count = 0;
	if (from->place == GRAPH_PLACE_WORKER)
		return 0;
	*templates = calloc(from->nodes_count, sizeof(**templates));
	if (!*templates)
		return star_error_set(err, -ENOMEM, "out of memory for a plan");
	for (uint32_t i = 0; i < from->nodes_count; i++) {
		const struct graph_node *node = plan->graph->nodes[from->nodes[i]];
		struct request_template *d = &(*templates)[*count];
		const int rc = offload_template_node(plan, from, node, d, err);

		if (rc < 0)
			return rc;
		*count += (uint32_t)rc;
	}
	return 0;
}

/* A feed of the call, or a constant; NULL: none. */
static const void *data_of(const struct graph_ps_call *call, uint32_t feed, const struct graph_attr *constant,
			   const struct graph_type **type)
{
	if (feed != TEMPLATE_NOT_THERE) {
		*type = &call->feeds[feed].type;
		return call->feeds[feed].data;
	}
	*type = constant ? &constant->type : NULL;
	return constant ? constant->data : NULL;
}

int offload_template_fill(const struct request_template *d, const struct graph_ps_call *call,
			  struct template_step *step, struct star_op *op, struct star_error *err)
{
	const struct graph_type *keys, *values;
	const void *ids = data_of(call, d->keys, d->keys_constant, &keys);
	const void *data = data_of(call, d->values, d->values_constant, &values);

	*op = d->op;
	step->minus_one = -1;
	op->step = call->step;
	if (keys) {
		op->keys = ids;
		if (graph_elements(&keys->shape) > UINT32_MAX)
			return star_error_set(err, -E2BIG, "%lld ids: an operation has at most 2^32 - 1",
					      (long long)graph_elements(&keys->shape));
		op->count = (uint32_t)graph_elements(&keys->shape);
		if (op->count == 0)
			return 0;
	}
	if (values)
		op->values = (void *)(uintptr_t)data; /* pushes and assigns only read it */
	else if (op->kind == STAR_PUSH_PULL)
		op->values = &step->minus_one;
	if (op->kind == STAR_PUSH_PULL)
		op->results = d->fetch != TEMPLATE_NOT_THERE ? call->fetches[d->fetch].data : &step->counted;
	else if (d->fetch != TEMPLATE_NOT_THERE)
		op->values = call->fetches[d->fetch].data;
	if (!op->dtype)
		op->dtype = dtype_name(values ? values->dtype : call->fetches[d->fetch].type.dtype);
	return 1;
}
