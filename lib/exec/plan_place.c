/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides what is executed in this process and what on PS tasks, omits what nothing needs, and finds where each value
 * comes from. With a cut, its PS parts are the calls; without one, each node that only PS tasks can execute is a part
 * of its own.
 */
#include "exec/plan.h"
#include "graph/handle.h"

#include <errno.h>
#include <string.h>

static bool is_call(const struct graph_node *node)
{
	return graph_op_info(node->op)->place == GRAPH_ON_PS && node->op != GRAPH_VARIABLE && node->op != GRAPH_TABLE;
}

/* A part for a single node: all inputs but handles are fed, all outputs fetched. */
static int single_part(struct graph_plan *plan, const struct graph_node *node, struct graph_part *part,
		       struct star_error *err)
{
	part->place = node->device.job == GRAPH_PS && node->device.task >= 0 ? node->device.task : GRAPH_PLACE_ALL;
	part->wave = 1;
	part->nodes = exec_plan_alloc(plan, 1, sizeof(*part->nodes), err);
	part->feeds = exec_plan_alloc(plan, node->inputs_count, sizeof(*part->feeds), err);
	part->fetches = exec_plan_alloc(plan, node->outputs_count + UINT64_C(1), sizeof(*part->fetches), err);
	if (!part->nodes || !part->feeds || !part->fetches)
		return err->code;
	part->nodes[part->nodes_count++] = node->id;
	for (uint32_t i = 0; i < node->inputs_count; i++) {
		bool known = graph_type(plan->graph, node->inputs[i])->dtype == 0;

		for (uint32_t k = 0; k < part->feeds_count; k++)
			known = known || graph_same(part->feeds[k], node->inputs[i]);
		if (!known)
			part->feeds[part->feeds_count++] = node->inputs[i];
	}
	for (uint32_t i = 0; i < node->outputs_count; i++)
		part->fetches[part->fetches_count++] = (struct graph_value){ node->id, i };
	return 0;
}

static int single_parts(struct graph_plan *plan, struct star_error *err)
{
	struct graph_part *parts;
	uint32_t count = 0;

	for (uint32_t n = 0; n < plan->graph->nodes_count; n++)
		count += is_call(plan->graph->nodes[n]);
	parts = exec_plan_alloc(plan, count, sizeof(*parts), err);
	if (!parts)
		return err->code;
	plan->ps_plan.parts = parts;
	for (uint32_t n = 0; n < plan->graph->nodes_count; n++) {
		const struct graph_node *node = plan->graph->nodes[n];

		if (is_call(node) && single_part(plan, node, &parts[plan->ps_plan.parts_count++], err) < 0)
			return err->code;
		plan->in_worker[n] = !is_call(node);
	}
	return 0;
}

/* The cut's parts; a node in no part is one that the cut omitted. */
static int cut_parts(struct graph_plan *plan, struct star_error *err)
{
	plan->ps_plan.parts = plan->cut->parts;
	plan->ps_plan.parts_count = plan->cut->parts_count;
	for (uint32_t p = 0; p < plan->cut->parts_count; p++)
		for (uint32_t i = 0; i < plan->cut->parts[p].nodes_count; i++)
			if (plan->cut->parts[p].place == GRAPH_PLACE_WORKER)
				plan->in_worker[plan->cut->parts[p].nodes[i]] = true;
	for (uint32_t n = 0; n < plan->graph->nodes_count; n++)
		if (plan_is_source(plan->graph->nodes[n]))
			plan->in_worker[n] = true;
	return plan->cut->protocol == GRAPH_GRPCPP && !plan->cut->fuse ? exec_plan_divide(plan, err) : 0;
}

static int add_part(struct graph_plan *plan, uint32_t part, struct star_error *err)
{
	const struct graph_part *p = &plan->ps_plan.parts[part];
	struct plan_part *mine = &plan->parts[plan->parts_count++];

	mine->part = part;
	mine->first_tensor = plan->tensors_count;
	plan->tensors_count += p->feeds_count + p->fetches_count;
	plan->part_of[part] = plan->parts_count - 1;
	for (uint32_t i = 0; i < p->nodes_count; i++)
		mine->open = mine->open || graph_is_open(plan->graph->nodes[p->nodes[i]]);
	mine->spare = exec_plan_alloc(plan, p->fetches_count, sizeof(*mine->spare), err);
	if (!mine->spare)
		return err->code;
	for (uint32_t i = 0; i < p->fetches_count; i++) {
		struct plan_value *value = &plan->values[plan_number(plan, p->fetches[i])];
		const bool mine_to_give = value->provider == PLAN_NONE && !plan->in_worker[p->fetches[i].node];

		if (mine_to_give)
			value->provider = plan->parts_count - 1;
		mine->spare[i] = PLAN_NONE;
	}
	return 0;
}

static int add_parts(struct graph_plan *plan, struct star_error *err)
{
	const uint32_t count = plan->ps_plan.parts_count;

	plan->parts = exec_plan_alloc(plan, count, sizeof(*plan->parts), err);
	plan->part_of = exec_plan_alloc(plan, count, sizeof(*plan->part_of), err);
	if (!plan->parts || !plan->part_of)
		return err->code;
	for (uint32_t p = 0; p < count; p++) {
		plan->part_of[p] = PLAN_NONE;
		if (plan->ps_plan.parts[p].place != GRAPH_PLACE_WORKER && add_part(plan, p, err) < 0)
			return err->code;
	}
	return 0;
}

/* ---- what is needed ---- */

static bool has_effects(const struct graph *graph)
{
	for (uint32_t n = 0; n < graph->nodes_count; n++) {
		const struct graph_node *node = graph->nodes[n];

		if (is_call(node) || (plan_is_flow(node) && (has_effects(node->body) || has_effects(node->cond))))
			return true;
	}
	return false;
}

static void need(struct graph_plan *plan, uint32_t node)
{
	if (plan->in_worker[node] && !graph_is_handle(plan->graph->nodes[node]))
		plan->needed[node] = true;
}

/* Nodes come after their inputs, so one pass from the last to the first finds everything that is needed. */
static void find_needed(struct graph_plan *plan)
{
	const struct graph *graph = plan->graph;

	for (uint32_t i = 0; i < graph->results_count; i++)
		need(plan, graph->results[i].node);
	for (uint32_t p = 0; p < plan->parts_count; p++) {
		const struct graph_part *part = &plan->ps_plan.parts[plan->parts[p].part];

		for (uint32_t i = 0; i < part->feeds_count; i++)
			need(plan, part->feeds[i].node);
		for (uint32_t i = 0; i < part->nodes_count; i++)
			for (uint32_t c = 0; c < graph->nodes[part->nodes[i]]->controls_count; c++)
				need(plan, graph->nodes[part->nodes[i]]->controls[c]);
	}
	for (uint32_t n = graph->nodes_count; n-- > 0;) {
		const struct graph_node *node = graph->nodes[n];

		if (plan_is_flow(node) && (has_effects(node->body) || has_effects(node->cond)))
			need(plan, n);
		for (uint32_t i = 0; plan->needed[n] && i < node->inputs_count; i++)
			need(plan, node->inputs[i].node);
		for (uint32_t c = 0; plan->needed[n] && c < node->controls_count; c++)
			need(plan, node->controls[c]);
	}
}

/* ---- where values are ---- */

static int place_value(struct graph_plan *plan, const struct graph_node *node, uint32_t output, struct star_error *err)
{
	const uint32_t number = plan->first[node->id] + output;
	struct plan_value *value = &plan->values[number];
	char text[GRAPH_SHAPE_TEXT];

	value->root = number;
	value->block = PLAN_NONE;
	value->where = PLAN_NOWHERE;
	if (graph_is_handle(node) || (!plan->needed[node->id] && value->provider == PLAN_NONE))
		return 0;
	if (graph_elements(&plan->types[number].shape) < 0)
		return star_error_set(err, -EINVAL,
				      node->op == GRAPH_FEED
					      ? "feed \"%s\" %s is needed: its largest size must be given"
					      : "node \"%s\": the size of its output %s is not known",
				      node->name, graph_shape_text(&plan->types[number].shape, text));
	value->where = PLAN_ARENA;
	if (!plan->needed[node->id])
		return 0; /* it comes from a PS part */
	if (node->op == GRAPH_FEED) {
		value->where = PLAN_FEED;
		for (uint32_t i = 0; i < plan->feeds_count; i++)
			if (plan->feeds[i] == node->id)
				return 0;
		return star_error_set(err, -EINVAL, "feed \"%s\" is needed, but not given", node->name);
	}
	if (node->op == GRAPH_CONST)
		value->where = PLAN_CONST;
	if (plan_is_share(node)) {
		value->where = PLAN_SHARED;
		value->root = plan->values[plan_number(plan, node->inputs[0])].root;
	}
	return 0;
}

/* A value that is needed here is computed here or comes from a PS part. */
static int check_source(const struct graph_plan *plan, struct graph_value value, const char *by, struct star_error *err)
{
	if (plan->values[plan_number(plan, value)].where != PLAN_NOWHERE)
		return 0;
	return star_error_set(err, -EINVAL, "the cut is wrong: %s needs \"%s\", which no part returns", by,
			      plan->graph->nodes[value.node]->name);
}

static int check_sources(const struct graph_plan *plan, struct star_error *err)
{
	const struct graph *graph = plan->graph;

	for (uint32_t n = 0; n < graph->nodes_count; n++)
		for (uint32_t i = 0; plan->needed[n] && i < graph->nodes[n]->inputs_count; i++)
			if (check_source(plan, graph->nodes[n]->inputs[i], graph->nodes[n]->name, err) < 0)
				return err->code;
	for (uint32_t p = 0; p < plan->parts_count; p++) {
		const struct graph_part *part = &plan->ps_plan.parts[plan->parts[p].part];

		for (uint32_t i = 0; i < part->feeds_count; i++)
			if (check_source(plan, part->feeds[i], "a PS part", err) < 0)
				return err->code;
	}
	for (uint32_t i = 0; i < graph->results_count; i++)
		if (check_source(plan, graph->results[i], "the graph's result", err) < 0)
			return err->code;
	return 0;
}

int exec_plan_place(struct graph_plan *plan, struct star_error *err)
{
	const struct graph *graph = plan->graph;

	plan->in_worker = exec_plan_alloc(plan, graph->nodes_count, sizeof(*plan->in_worker), err);
	plan->needed = exec_plan_alloc(plan, graph->nodes_count, sizeof(*plan->needed), err);
	if (!plan->in_worker || !plan->needed)
		return err->code;
	for (uint32_t i = 0; i < plan->values_count; i++)
		plan->values[i].provider = PLAN_NONE;
	if ((plan->cut ? cut_parts(plan, err) : single_parts(plan, err)) < 0)
		return err->code;
	if (add_parts(plan, err) < 0)
		return err->code;
	if (plan->parts_count && !plan->ps)
		return star_error_set(err, -EINVAL, "node \"%s\" is placed on a PS task, but there are none",
				      graph->nodes[plan->ps_plan.parts[plan->parts[0].part].nodes[0]]->name);
	find_needed(plan);
	for (uint32_t n = 0; n < graph->nodes_count; n++)
		for (uint32_t o = 0; o < graph->nodes[n]->outputs_count; o++)
			if (place_value(plan, graph->nodes[n], o, err) < 0)
				return err->code;
	return check_sources(plan, err);
}
