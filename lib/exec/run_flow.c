/* SPDX-License-Identifier: BSD-3-Clause */
/* Loops and branches: feeds the bodies' runs, executes them, and copies their results. */
#include <errno.h>
#include <string.h>

#include "exec/run.h"

static struct graph_tensor *input(struct graph_run *run, const struct graph_node *node, uint32_t i)
{
	return &run->values[plan_number(run->plan, node->inputs[i])];
}

static int refuse_change(const struct graph_node *node, const char *what, uint32_t i, struct star_error *err)
{
	return star_error_set(err, -EINVAL, "node \"%s\": the size of %s %u changes from iteration to iteration",
			      node->name, what, i);
}

/* Carried values are in the node's outputs; what is not carried stays where it is. */
static void feed_bodies(struct graph_run *run, const struct plan_item *item, struct graph_tensor *out, uint32_t carried)
{
	const struct graph_node *node = run->plan->graph->nodes[item->id];

	for (uint32_t i = 0; i < node->inputs_count; i++) {
		const struct graph_tensor *from = i < carried ? &out[i] : input(run, node, i);

		exec_run_set_feed(run->conds[item->flow], i, &from->type, from->data);
		exec_run_set_feed(run->bodies[item->flow], i, &from->type, from->data);
	}
}

/*
 * The results of an iteration become the feeds of the next one. A body may return carried values unchanged, and in
 * other positions: those are saved before anything is overwritten.
 */
static int carry_value(struct graph_run *run, const struct plan_item *item, struct graph_tensor *out, uint32_t carried,
		       struct star_error *err)
{
	const struct graph_node *node = run->plan->graph->nodes[item->id];
	const struct plan_flow *flow = &run->plan->flows[item->flow];
	const void *from[GRAPH_INPUTS_MAX];
	/* NULL if the carried values have no bytes. */
	uint8_t *aside = item->scratch == PLAN_NONE
				 ? NULL
				 : run->arena + run->plan->blocks[item->scratch].offset + flow->carried_offset;

	for (uint32_t i = 0; i < carried; i++) {
		const struct graph_tensor *result = run_result(run->bodies[item->flow], i);
		const uint64_t bytes = graph_type_bytes(&result->type);

		if (!exec_plan_same_type(&result->type, &out[i].type))
			return refuse_change(node, "carried value", i, err);
		from[i] = result->data;
		for (uint32_t k = 0; k < carried; k++)
			if (k != i && from[i] == out[k].data && bytes) {
				from[i] = memcpy(aside, result->data, bytes);
				aside += (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
				break;
			}
	}
	for (uint32_t i = 0; i < carried; i++)
		if (from[i] != out[i].data && graph_type_bytes(&out[i].type))
			memcpy(out[i].data, from[i], graph_type_bytes(&out[i].type));
	return 0;
}

/* [maximum number of iterations, ...] of a result. */
static struct graph_type tape_type(const struct graph_node *node, const struct graph_type *result)
{
	struct graph_type type = { .dtype = result->dtype, .shape.ndim = (uint8_t)(result->shape.ndim + 1) };

	type.shape.dims[0] = graph_attr_int(node, "most", 0);
	memcpy(type.shape.dims + 1, result->shape.dims, result->shape.ndim * sizeof(result->shape.dims[0]));
	return type;
}

/* Each further result is added to its tape; the first iteration determines its size. */
static int write_tapes(struct graph_run *run, const struct plan_item *item, struct graph_tensor *out, uint32_t carried,
		       uint64_t iteration, struct star_error *err)
{
	const struct graph_node *node = run->plan->graph->nodes[item->id];

	for (uint32_t i = carried; i < node->body->results_count; i++) {
		const struct graph_tensor *result = run_result(run->bodies[item->flow], i);
		const struct graph_type type = tape_type(node, &result->type);
		const uint64_t bytes = graph_type_bytes(&result->type);
		uint8_t *tape = out[i + 1].data;

		if (iteration == 0)
			exec_run_set_type(run, run->plan->first[item->id] + i + 1, &type);
		else if (!exec_plan_same_type(&out[i + 1].type, &type))
			return refuse_change(node, "tape", i - carried, err);
		if (bytes)
			memcpy(tape + iteration * bytes, result->data, bytes);
	}
	return 0;
}

/* What no iteration has written is 0. */
static int end_tapes(struct graph_run *run, const struct plan_item *item, struct graph_tensor *out, uint32_t carried,
		     uint64_t iterations, struct star_error *err)
{
	const struct graph_node *node = run->plan->graph->nodes[item->id];
	int rc = iterations == 0 && node->body->results_count > carried ? exec_run_flow_types(run, item->flow, err) : 0;

	for (uint32_t i = carried; i < node->body->results_count && rc == 0; i++) {
		const uint64_t all = graph_type_bytes(&out[i + 1].type);
		const uint64_t most = (uint64_t)out[i + 1].type.shape.dims[0],
			       written = most ? all / most * iterations : 0;

		memset((uint8_t *)out[i + 1].data + written, 0, all - written);
	}
	return rc;
}

static int run_while(struct graph_run *run, const struct plan_item *item, struct star_error *err)
{
	const struct graph_plan *plan = run->plan;
	const struct graph_node *node = plan->graph->nodes[item->id];
	const uint32_t carried = (uint32_t)graph_attr_int(node, "carried", 0);
	const int64_t most = graph_attr_int(node, "most", 0);
	struct graph_tensor *out = &run->values[plan->first[item->id]];
	int64_t iterations = 0;
	int rc = 0;

	for (uint32_t i = 0; i < carried; i++) {
		const struct graph_tensor *in = input(run, node, i);

		exec_run_set_type(run, plan->first[item->id] + i, &in->type);
		if (graph_type_bytes(&in->type))
			memcpy(out[i].data, in->data, graph_type_bytes(&in->type));
	}
	for (;; iterations++) {
		feed_bodies(run, item, out, carried);
		rc = exec_run_execute(run->conds[item->flow], run->step, run->counted, err);
		if (rc < 0 || *(const int32_t *)run_result(run->conds[item->flow], 0)->data == 0)
			break;
		if (iterations == most) {
			rc = star_error_set(err, -EINVAL, "node \"%s\": more than %lld iterations", node->name,
					    (long long)most);
			break;
		}
		rc = exec_run_execute(run->bodies[item->flow], run->step, run->counted, err);
		if (rc == 0)
			rc = write_tapes(run, item, out, carried, (uint64_t)iterations, err);
		if (rc == 0)
			rc = carry_value(run, item, out, carried, err);
		if (rc < 0)
			break;
	}
	if (rc < 0)
		return rc;
	*(int64_t *)out[carried].data = iterations;
	return end_tapes(run, item, out, carried, (uint64_t)iterations, err);
}

static int run_cond(struct graph_run *run, const struct plan_item *item, struct star_error *err)
{
	const struct graph_node *node = run->plan->graph->nodes[item->id];
	const bool yes = *(const int32_t *)input(run, node, 0)->data != 0;
	struct graph_run *body = yes ? run->bodies[item->flow] : run->conds[item->flow];
	int rc;

	for (uint32_t i = 1; i < node->inputs_count; i++)
		exec_run_set_feed(body, i - 1, &input(run, node, i)->type, input(run, node, i)->data);
	rc = exec_run_execute(body, run->step, run->counted, err);
	for (uint32_t i = 0; rc == 0 && i < node->outputs_count; i++) {
		const struct graph_tensor *result = run_result(body, i);
		const uint32_t number = run->plan->first[item->id] + i;

		exec_run_set_type(run, number, &result->type);
		if (graph_type_bytes(&result->type))
			memcpy(run->values[number].data, result->data, graph_type_bytes(&result->type));
	}
	return rc;
}

int exec_run_flow(struct graph_run *run, const struct plan_item *item, struct star_error *err)
{
	return run->plan->graph->nodes[item->id]->op == GRAPH_WHILE ? run_while(run, item, err)
								    : run_cond(run, item, err);
}

int exec_run_flow_types(struct graph_run *run, uint32_t flow, struct star_error *err)
{
	const struct graph_plan *plan = run->plan;
	const struct graph_node *node = plan->graph->nodes[plan->flows[flow].node];
	const bool loop = node->op == GRAPH_WHILE;
	const uint32_t carried = loop ? (uint32_t)graph_attr_int(node, "carried", 0) : 0;
	struct graph_run *body = run->bodies[flow];
	int rc;

	for (uint32_t i = loop ? 0 : 1; i < node->inputs_count; i++)
		exec_run_set_feed(body, loop ? i : i - 1, &input(run, node, i)->type, NULL);
	rc = exec_run_types(body, err);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < node->body->results_count; i++) {
		struct graph_type type = run_result(body, i)->type;

		if (loop && i >= carried)
			type = tape_type(node, &type);
		exec_run_set_type(run, plan->first[node->id] + i + (loop && i >= carried), &type);
	}
	return 0;
}
