/* SPDX-License-Identifier: BSD-3-Clause */
/* Compilation: types from the feeds' largest types, bodies, then placement, schedule and memory layout. */
#include "exec/plan.h"

#include <cblas.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "graph/shape.h"

struct plan_memory {
	struct plan_memory *next;
	_Alignas(max_align_t) uint8_t data[];
};

void *exec_plan_alloc(struct graph_plan *plan, uint64_t count, uint64_t size, struct star_error *err)
{
	struct plan_memory *memory = NULL;

	if (count < (UINT64_C(1) << 40) / size)
		memory = calloc(1, sizeof(*memory) + count * size);
	if (!memory) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	memory->next = plan->memory;
	plan->memory = memory;
	return memory->data;
}

bool exec_plan_same_type(const struct graph_type *a, const struct graph_type *b)
{
	return a->dtype == b->dtype && graph_shape_same(&a->shape, &b->shape);
}

int exec_plan_infer(const struct graph_node *node, const struct graph_type *in, struct graph_type *out,
		    struct star_error *err)
{
	struct graph_type all[GRAPH_OUTPUTS_MAX];
	struct star_error why;
	uint32_t count;
	const int rc = graph_infer(node, in, all, &count, &why);

	if (rc < 0)
		return star_error_set(err, rc, "node \"%s\": %s", node->name, why.text);
	if (count != node->outputs_count)
		return star_error_set(err, -EINVAL, "node \"%s\": its number of outputs depends on sizes", node->name);
	if (graph_is_open(node) && all[0].shape.dims[0] < 0)
		all[0].shape.dims[0] = in[0].shape.dims[0];
	memcpy(out, all, count * sizeof(*out));
	return 0;
}

static struct graph_plan *compile(const struct graph *graph, const struct graph_cut *cut,
				  const struct graph_plan_options *options, const struct graph_type *inputs,
				  struct star_error *err);

/* ---- types ---- */

/* Whether a feed may have this type: it must match the node's, with all sizes known. */
static int check_feed(const struct graph_node *node, const struct graph_type *type, struct star_error *err)
{
	const struct graph_shape *wanted = &node->outputs[0].shape;
	char have[GRAPH_SHAPE_TEXT], want[GRAPH_SHAPE_TEXT];
	bool good = type->dtype == node->outputs[0].dtype && type->shape.ndim == wanted->ndim;

	for (unsigned i = 0; good && i < wanted->ndim; i++)
		good = type->shape.dims[i] >= 0 && (wanted->dims[i] < 0 || wanted->dims[i] == type->shape.dims[i]);
	if (good && shape_fits(&type->shape))
		return 0;
	if (good)
		return star_error_set(err, -EINVAL, "feed \"%s\" would be %s: more than 2^48 elements", node->name,
				      graph_shape_text(&type->shape, have));
	return star_error_set(err, -EINVAL, "feed \"%s\" is %s %s, but %s %s is given", node->name,
			      dtype_name(node->outputs[0].dtype), graph_shape_text(wanted, want),
			      dtype_name(type->dtype) ? dtype_name(type->dtype) : "an unknown type",
			      type->shape.ndim <= GRAPH_DIMS_MAX ? graph_shape_text(&type->shape, have) : "");
}

/* Sets the types of the given feeds, by name (in a body, in order). */
static int set_feeds(struct graph_plan *plan, const struct graph_plan_options *options, const struct graph_type *inputs,
		     struct star_error *err)
{
	const uint32_t count = plan->feeds_count;

	plan->feeds = exec_plan_alloc(plan, count, sizeof(*plan->feeds), err);
	plan->feed_types = exec_plan_alloc(plan, count, sizeof(*plan->feed_types), err);
	if (!plan->feeds || !plan->feed_types)
		return err->code;
	for (uint32_t i = 0; i < count; i++) {
		const struct graph_node *node =
			inputs ? plan->graph->nodes[i] : graph_find(plan->graph, options->feeds[i].name);
		const struct graph_type *type = inputs ? &inputs[i] : &options->feeds[i].type;

		if (!node || node->op != GRAPH_FEED)
			return star_error_set(err, -EINVAL, "the graph has no feed \"%s\"", options->feeds[i].name);
		if (check_feed(node, type, err) < 0)
			return err->code;
		for (uint32_t k = 0; k < i; k++)
			if (plan->feeds[k] == node->id)
				return star_error_set(err, -EINVAL, "feed \"%s\" is given twice", node->name);
		plan->feeds[i] = node->id;
		plan->feed_types[i] = *type;
		plan->types[plan->first[node->id]] = *type;
	}
	return 0;
}

static const struct graph_body_cut *cut_of(const struct graph_cut *cut, uint32_t node)
{
	for (uint32_t i = 0; cut && i < cut->bodies_count; i++)
		if (cut->bodies[i].node == node)
			return &cut->bodies[i];
	return NULL;
}

static const struct graph_type *result_type(const struct graph_plan *body, uint32_t result)
{
	return &body->types[plan_number(body, body->graph->results[result])];
}

/* Carried values keep their type; then come the number of iterations, and a tape for each further result. */
static int while_types(const struct graph_node *node, const struct graph_plan *body, const struct graph_type *in,
		       struct graph_type *out, struct star_error *err)
{
	const uint32_t carried = (uint32_t)graph_attr_int(node, "carried", 0);
	const int64_t most = graph_attr_int(node, "most", 0);

	for (uint32_t i = 0; i < carried; i++) {
		char before[GRAPH_SHAPE_TEXT], after[GRAPH_SHAPE_TEXT];
		const struct graph_type *type = result_type(body, i);

		if (!exec_plan_same_type(type, &in[i]))
			return star_error_set(err, -EINVAL,
					      "node \"%s\": carried value %u is %s before an iteration and %s after it",
					      node->name, i, graph_shape_text(&in[i].shape, before),
					      graph_shape_text(&type->shape, after));
		out[i] = in[i];
	}
	out[carried] = (struct graph_type){ .dtype = STAR_INT64 };
	for (uint32_t i = carried; i < body->graph->results_count; i++) {
		const struct graph_type *type = result_type(body, i);
		struct graph_type *tape = &out[i + 1];

		if (type->shape.ndim == GRAPH_DIMS_MAX)
			return star_error_set(err, -EINVAL, "node \"%s\": tape %u would have more than %d dimensions",
					      node->name, i - carried, GRAPH_DIMS_MAX);
		*tape = (struct graph_type){ .dtype = type->dtype, .shape.ndim = (uint8_t)(type->shape.ndim + 1) };
		tape->shape.dims[0] = most;
		memcpy(tape->shape.dims + 1, type->shape.dims, type->shape.ndim * sizeof(type->shape.dims[0]));
	}
	return 0;
}

/* The larger of the two bodies' results. */
static int cond_types(const struct graph_node *node, const struct plan_flow *flow, struct graph_type *out,
		      struct star_error *err)
{
	for (uint32_t i = 0; i < node->outputs_count; i++) {
		const struct graph_type *a = result_type(flow->body, i), *b = result_type(flow->cond, i);

		if (a->dtype != b->dtype || a->shape.ndim != b->shape.ndim)
			return star_error_set(err, -EINVAL,
					      "node \"%s\": its graphs' results %u are of different types", node->name,
					      i);
		out[i] = *a;
		for (unsigned k = 0; k < a->shape.ndim; k++)
			if (b->shape.dims[k] > a->shape.dims[k])
				out[i].shape.dims[k] = b->shape.dims[k];
	}
	return 0;
}

static int compile_flow(struct graph_plan *plan, const struct graph_node *node, const struct graph_type *in,
			struct graph_type *out, struct star_error *err)
{
	const struct graph_plan_options options = {
		.ps = plan->ps, .intra_op = plan->intra_op, .inter_op = plan->inter_op, .seed = plan->seed
	};
	const struct graph_body_cut *cut = cut_of(plan->cut, node->id);
	struct plan_flow *flow = &plan->flows[plan->flows_count];
	const uint32_t skip = node->op == GRAPH_COND; /* the condition is no input of the bodies */
	uint32_t results;

	if (graph_type_bytes(&in[0]) == 0 && node->op == GRAPH_COND)
		return star_error_set(err, -EINVAL, "node \"%s\": its condition is not a scalar", node->name);
	flow->node = node->id;
	plan->flows_count++;
	flow->cond = compile(node->cond, cut ? cut->cond : NULL, &options, in + skip, err);
	flow->body = flow->cond ? compile(node->body, cut ? cut->body : NULL, &options, in + skip, err) : NULL;
	if (!flow->body)
		return err->code;
	results = node->body->results_count + (node->op == GRAPH_WHILE);
	if (results != node->outputs_count ||
	    node->cond->results_count != (node->op == GRAPH_WHILE ? 1 : node->outputs_count))
		return star_error_set(err, -EINVAL, "node \"%s\": its graphs have %u and %u results", node->name,
				      node->body->results_count, node->cond->results_count);
	if ((node->op == GRAPH_WHILE ? while_types(node, flow->body, in, out, err) : cond_types(node, flow, out, err)) <
	    0)
		return err->code;
	for (uint32_t i = 0; i < node->outputs_count; i++) {
		char text[GRAPH_SHAPE_TEXT];

		if (!shape_fits(&out[i].shape))
			return star_error_set(err, -EINVAL,
					      "node \"%s\": output %u would be %s: more than 2^48 elements", node->name,
					      i, graph_shape_text(&out[i].shape, text));
	}
	return 0;
}

/* Infers the largest types of all values. Those of a feed that is not given remain as declared, for the case that
 * nothing needs it. */
static int infer_all(struct graph_plan *plan, struct star_error *err)
{
	const struct graph *graph = plan->graph;

	for (uint32_t n = 0; n < graph->nodes_count; n++) {
		const struct graph_node *node = graph->nodes[n];
		struct graph_type in[GRAPH_INPUTS_MAX], *out = &plan->types[plan->first[n]];
		int rc = 0;

		for (uint32_t i = 0; i < node->inputs_count; i++)
			in[i] = plan->types[plan_number(plan, node->inputs[i])];
		if (node->op == GRAPH_FEED)
			*out = out->dtype ? *out : node->outputs[0];
		else if (plan_is_flow(node))
			rc = compile_flow(plan, node, in, out, err);
		else
			rc = exec_plan_infer(node, in, out, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- plans ---- */

static int number_values(struct graph_plan *plan, struct star_error *err)
{
	const struct graph *graph = plan->graph;
	uint32_t flows = 0;

	plan->first = exec_plan_alloc(plan, graph->nodes_count + UINT64_C(1), sizeof(*plan->first), err);
	if (!plan->first)
		return err->code;
	for (uint32_t n = 0; n < graph->nodes_count; n++) {
		plan->first[n] = plan->values_count;
		plan->values_count += graph->nodes[n]->outputs_count;
		flows += plan_is_flow(graph->nodes[n]);
	}
	plan->types = exec_plan_alloc(plan, plan->values_count, sizeof(*plan->types), err);
	plan->values = exec_plan_alloc(plan, plan->values_count, sizeof(*plan->values), err);
	plan->flows = exec_plan_alloc(plan, flows, sizeof(*plan->flows), err);
	return plan->types && plan->values && plan->flows ? 0 : err->code;
}

static int prepare_plan(struct graph_plan *plan, struct star_error *err)
{
	int rc = 0;

	plan->ps_plan.graph = plan->graph;
	plan->ps_plan.cut = plan->cut;
	plan->ps_plan.types = plan->types;
	plan->ps_plan.first = plan->first;
	if (!plan->parts_count)
		return 0;
	if (plan->ps->prepare)
		rc = plan->ps->prepare(plan->ps->ctx, &plan->ps_plan, &plan->prepared, err);
	plan->is_prepared = rc == 0;
	return rc;
}

/* inputs: for a body; NULL for a whole graph, whose feeds are in the options. */
static struct graph_plan *compile(const struct graph *graph, const struct graph_cut *cut,
				  const struct graph_plan_options *options, const struct graph_type *inputs,
				  struct star_error *err)
{
	struct graph_plan *plan = calloc(1, sizeof(*plan));

	if (!plan) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&plan->lock, NULL);
	plan->graph = graph;
	plan->cut = cut;
	plan->ps = options->ps;
	plan->seed = options->seed;
	plan->intra_op = options->intra_op ? options->intra_op : 1;
	plan->inter_op = options->inter_op ? options->inter_op : 1;
	plan->feeds_count = options->feeds_count;
	if (inputs)
		while (plan->feeds_count < graph->nodes_count && graph->nodes[plan->feeds_count]->op == GRAPH_FEED)
			plan->feeds_count++;
	if (number_values(plan, err) == 0 && set_feeds(plan, options, inputs, err) == 0 && infer_all(plan, err) == 0 &&
	    exec_plan_place(plan, err) == 0 && exec_plan_schedule(plan, err) == 0 && exec_plan_layout(plan, err) == 0 &&
	    prepare_plan(plan, err) == 0)
		return plan;
	graph_plan_destroy(plan);
	return NULL;
}

struct graph_plan *graph_compile(const struct graph *graph, const struct graph_cut *cut,
				 const struct graph_plan_options *options, struct star_error *err)
{
	struct star_error ignored;

	if (!err)
		err = &ignored;
	if (graph_error(graph, err) < 0)
		return NULL;
	if (cut && cut->graph != graph) {
		star_error_set(err, -EINVAL, "the cut belongs to another graph");
		return NULL;
	}
	if (options->intra_op > TEAM_THREADS_MAX || options->inter_op > TEAM_THREADS_MAX) {
		star_error_set(err, -EINVAL, "intra_op and inter_op are at most %d", TEAM_THREADS_MAX);
		return NULL;
	}
	openblas_set_num_threads(1); /* large operations are divided by the kernels */
	return compile(graph, cut, options, NULL, err);
}

void graph_plan_destroy(struct graph_plan *plan)
{
	if (!plan)
		return;
	if (plan->is_prepared && plan->ps->release)
		plan->ps->release(plan->ps->ctx, plan->prepared);
	for (uint32_t i = 0; i < plan->flows_count; i++) {
		graph_plan_destroy(plan->flows[i].body);
		graph_plan_destroy(plan->flows[i].cond);
	}
	for (struct plan_memory *memory = plan->memory, *next; memory; memory = next) {
		next = memory->next;
		free(memory);
	}
	pthread_mutex_destroy(&plan->lock);
	free(plan);
}

uint64_t graph_plan_bytes(const struct graph_plan *plan)
{
	return plan->bytes;
}

uint64_t graph_plan_bytes_apart(const struct graph_plan *plan)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < plan->blocks_count; i++)
		bytes += plan->blocks[i].bytes;
	return bytes;
}
