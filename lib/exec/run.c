/* SPDX-License-Identifier: BSD-3-Clause */
/* Executing a step of a plan, level by level. */
#include "exec/run.h"
#include "graph/handle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- types of this step ---- */

void exec_run_set_type(struct graph_run *run, uint32_t value, const struct graph_type *type)
{
	if (exec_plan_same_type(&run->values[value].type, type))
		return;
	run->values[value].type = *type;
	run->changed[value] = run->stamp;
}

/* Infers the outputs of a node if its inputs have changed since the previous step; or always (fresh). */
static int refresh(struct graph_run *run, const struct graph_node *node, bool anyway, struct star_error *err)
{
	const struct graph_plan *plan = run->plan;
	struct graph_type in[GRAPH_INPUTS_MAX], out[GRAPH_OUTPUTS_MAX];
	bool changed = run->fresh || anyway;
	int rc;

	for (uint32_t i = 0; i < node->inputs_count && !changed; i++)
		changed = run->changed[plan_number(plan, node->inputs[i])] == run->stamp;
	if (!changed || plan_is_source(node) || graph_is_handle(node))
		return 0;
	for (uint32_t i = 0; i < node->inputs_count; i++)
		in[i] = run->values[plan_number(plan, node->inputs[i])].type;
	rc = exec_plan_infer(node, in, out, err);
	if (rc < 0)
		return rc;
	for (uint32_t o = 0; o < node->outputs_count; o++) {
		const uint32_t number = plan->first[node->id] + o;

		if (graph_type_bytes(&out[o]) > graph_type_bytes(&plan->types[number]))
			return star_error_set(err, -EINVAL, "node \"%s\": its output is larger than planned",
					      node->name);
		exec_run_set_type(run, number, &out[o]);
	}
	return 0;
}

/* ---- nodes ---- */

static int run_node(struct graph_run *run, const struct plan_item *item, struct team *team, struct star_error *err)
{
	const struct graph_plan *plan = run->plan;
	const struct graph_node *node = plan->graph->nodes[item->id];
	const struct graph_tensor *in[GRAPH_INPUTS_MAX];
	struct graph_tensor *out[GRAPH_OUTPUTS_MAX];
	const struct kernel_call call = {
		.node = node,
		.in = in,
		.out = out,
		.scratch = item->scratch == PLAN_NONE ? NULL : run->arena + plan->blocks[item->scratch].offset,
		.team = team,
		.seed = plan->seed,
		.step = run->step,
		.err = err,
	};
	struct graph_type before;
	int rc = refresh(run, node, false, err);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < node->inputs_count; i++)
		in[i] = &run->values[plan_number(plan, node->inputs[i])];
	for (uint32_t o = 0; o < node->outputs_count; o++)
		out[o] = &run->values[plan->first[item->id] + o];
	if (!graph_is_open(node))
		return kernel_run(&call);
	/* The kernel determines their number. */
	before = out[0]->type;
	rc = kernel_run(&call);
	if (rc == 0 && !exec_plan_same_type(&before, &out[0]->type))
		run->changed[plan->first[item->id]] = run->stamp;
	return rc;
}

static int share_item(struct graph_run *run, const struct plan_item *item, struct star_error *err)
{
	const struct graph_node *node = run->plan->graph->nodes[item->id];

	run->values[run->plan->first[item->id]].data = run->values[plan_number(run->plan, node->inputs[0])].data;
	return refresh(run, node, false, err);
}

/* ---- calls to PS tasks ---- */

/* Adds the node's name to the error. */
static int call_failed(const struct graph_run *run, uint32_t p, int rc, const struct star_error *why,
		       struct star_error *err)
{
	const struct graph_part *part = &run->plan->ps_plan.parts[run->plan->parts[p].part];
	const char *name = run->plan->graph->nodes[part->nodes[0]]->name;
	char more[40] = "";

	if (part->nodes_count > 1)
		snprintf(more, sizeof(more), " and %u more", part->nodes_count - 1);
	return star_error_set(err, rc, "node \"%s\"%s on PS tasks: %s", name, more, why->text);
}

static int start_part(struct graph_run *run, uint32_t p, struct star_error *err)
{
	const struct graph_plan *plan = run->plan;
	const struct plan_part *mine = &plan->parts[p];
	const struct graph_part *part = &plan->ps_plan.parts[mine->part];
	struct graph_tensor *feeds = run->tensors + mine->first_tensor, *fetches = feeds + part->feeds_count;
	struct star_error why = { 0 };
	int rc = 0;

	for (uint32_t i = 0; i < part->nodes_count && rc == 0; i++)
		rc = refresh(run, plan->graph->nodes[part->nodes[i]], mine->open, err);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < part->feeds_count; i++)
		feeds[i] = run->values[plan_number(plan, part->feeds[i])];
	for (uint32_t i = 0; i < part->fetches_count; i++) {
		fetches[i] = run->values[plan_number(plan, part->fetches[i])];
		if (mine->spare[i] != PLAN_NONE)
			fetches[i].data = run->arena + plan->blocks[mine->spare[i]].offset;
	}
	run->calls[p].step = run->counted;
	rc = plan->ps->start(plan->ps->ctx, &run->calls[p], &run->tokens[p], &why);
	if (rc < 0)
		return call_failed(run, p, rc, &why, err);
	run->started[p] = true;
	return 0;
}

/* Sets the fetches' types as the call has left them: sizes that only PS tasks know are smaller than the declared
 * ones. */
static int take_types(struct graph_run *run, uint32_t p, struct star_error *err)
{
	const struct graph_plan *plan = run->plan;
	const struct plan_part *mine = &plan->parts[p];
	const struct graph_part *part = &plan->ps_plan.parts[mine->part];
	const struct graph_tensor *fetches = run->calls[p].fetches;

	for (uint32_t i = 0; i < part->fetches_count; i++) {
		const uint32_t number = plan_number(plan, part->fetches[i]);
		const struct graph_type *type = &fetches[i].type, *greatest = &plan->types[number];
		bool good = type->dtype == greatest->dtype && type->shape.ndim == greatest->shape.ndim;

		for (unsigned d = 0; good && d < type->shape.ndim; d++)
			good = type->shape.dims[d] >= 0 && type->shape.dims[d] <= greatest->shape.dims[d];
		if (!good)
			return star_error_set(err, -EPROTO, "node \"%s\": PS tasks returned more than is possible",
					      plan->graph->nodes[part->fetches[i].node]->name);
		if (mine->spare[i] == PLAN_NONE)
			exec_run_set_type(run, number, type);
	}
	return 0;
}

static int wait_part(struct graph_run *run, uint32_t p, struct star_error *err)
{
	const struct graph_ps *ps = run->plan->ps;
	struct star_error why = { 0 };
	int rc;

	run->started[p] = false;
	rc = ps->wait(ps->ctx, &run->calls[p], run->tokens[p], &why);
	return rc < 0 ? call_failed(run, p, rc, &why, err) : take_types(run, p, err);
}

/* After an error: waits for the calls in flight, because they write into the run's memory. */
static void wait_all(struct graph_run *run)
{
	struct star_error ignored;

	for (uint32_t p = 0; p < run->plan->parts_count; p++)
		if (run->started[p])
			wait_part(run, p, &ignored);
}

/* ---- levels ---- */

static int run_item(struct graph_run *run, const struct plan_item *item, struct team *team, struct star_error *err)
{
	switch (item->kind) {
	case PLAN_SHARE:
		return share_item(run, item, err);
	case PLAN_FLOW:
		return exec_run_flow(run, item, err);
	case PLAN_START:
		return start_part(run, item->id, err);
	case PLAN_WAIT:
		return wait_part(run, item->id, err);
	default:
		return run_node(run, item, team, err);
	}
}

static void run_one(void *context, uint64_t item)
{
	struct graph_run *run = context;

	run->errors[item].code = 0;
	if (run_item(run, &run->plan->items[run->level->first + item], NULL, &run->errors[item]) < 0 &&
	    run->errors[item].code == 0)
		run->errors[item].code = -EINVAL;
}

/* The first item's error is reported, whichever thread failed first. */
static int run_at_once(struct graph_run *run, const struct plan_level *level, struct star_error *err)
{
	run->level = level;
	exec_team_run(run->crew, level->count, run_one, run);
	for (uint32_t i = 0; i < level->count; i++)
		if (run->errors[i].code) {
			*err = run->errors[i];
			return err->code;
		}
	return 0;
}

int exec_run_execute(struct graph_run *run, uint64_t step, uint64_t counted, struct star_error *err)
{
	const struct graph_plan *plan = run->plan;
	int rc = 0;

	run->step = step;
	run->counted = counted;
	for (uint32_t l = 0; l < plan->levels_count && rc == 0; l++) {
		const struct plan_level *level = &plan->levels[l];

		if (level->at_once && run->crew) {
			rc = run_at_once(run, level, err);
			continue;
		}
		for (uint32_t i = 0; i < level->count && rc == 0; i++)
			rc = run_item(run, &plan->items[level->first + i], run->team, err);
	}
	if (rc < 0)
		wait_all(run);
	run->fresh = rc < 0;
	run->stamp++;
	return rc;
}

int exec_run_types(struct graph_run *run, struct star_error *err)
{
	const struct graph_plan *plan = run->plan;
	int rc = 0;

	run->fresh = true; /* so that sizes known only by execution are not taken from an earlier iteration */
	for (uint32_t i = 0; i < plan->items_count && rc == 0; i++) {
		const struct plan_item *item = &plan->items[i];
		const struct graph_part *part;

		if (item->kind == PLAN_FLOW)
			rc = exec_run_flow_types(run, item->flow, err);
		else if (item->kind == PLAN_NODE || item->kind == PLAN_SHARE)
			rc = refresh(run, plan->graph->nodes[item->id], false, err);
		if (item->kind != PLAN_START)
			continue;
		part = &plan->ps_plan.parts[plan->parts[item->id].part];
		for (uint32_t k = 0; k < part->nodes_count && rc == 0; k++)
			rc = refresh(run, plan->graph->nodes[part->nodes[k]], false, err);
	}
	return rc;
}

/* ---- feeds and fetches ---- */

void exec_run_set_feed(struct graph_run *run, uint32_t feed, const struct graph_type *type, void *data)
{
	const uint32_t node = run->plan->feeds[feed];

	exec_run_set_type(run, run->plan->first[node], type);
	run->values[run->plan->first[node]].data = data;
}

static int check_feed(const struct graph_run *run, uint32_t feed, const struct graph_tensor *tensor,
		      struct star_error *err)
{
	const struct graph_node *node = run->plan->graph->nodes[run->plan->feeds[feed]];
	const struct graph_type *greatest = &run->plan->feed_types[feed], *type = &tensor->type;
	const struct graph_shape *wanted = &node->outputs[0].shape;
	char have[GRAPH_SHAPE_TEXT], most[GRAPH_SHAPE_TEXT];
	bool good = type->dtype == greatest->dtype && type->shape.ndim == greatest->shape.ndim;

	for (unsigned i = 0; good && i < type->shape.ndim; i++)
		good = type->shape.dims[i] >= 0 && type->shape.dims[i] <= greatest->shape.dims[i] &&
		       (wanted->dims[i] < 0 || wanted->dims[i] == type->shape.dims[i]);
	if (!good)
		return star_error_set(err, -EINVAL, "feed \"%s\" is %s, at most %s, but %s %s is given", node->name,
				      dtype_name(greatest->dtype), graph_shape_text(&greatest->shape, most),
				      dtype_name(type->dtype) ? dtype_name(type->dtype) : "an unknown type",
				      type->shape.ndim <= GRAPH_DIMS_MAX ? graph_shape_text(&type->shape, have) : "");
	if (!tensor->data && graph_elements(&type->shape))
		return star_error_set(err, -EINVAL, "feed \"%s\" has no data", node->name);
	return 0;
}

int graph_run_step(struct graph_run *run, uint64_t step, const struct graph_tensor *feeds, struct graph_tensor *fetches,
		   struct star_error *err)
{
	return graph_run_counted(run, step, step, feeds, fetches, err);
}

int graph_run_counted(struct graph_run *run, uint64_t step, uint64_t counted, const struct graph_tensor *feeds,
		      struct graph_tensor *fetches, struct star_error *err)
{
	const struct graph_plan *plan = run->plan;
	struct star_error ignored;
	int rc;

	if (!err)
		err = &ignored;
	for (uint32_t i = 0; i < plan->feeds_count; i++) {
		if (!plan->needed[plan->feeds[i]])
			continue;
		rc = check_feed(run, i, &feeds[i], err);
		if (rc < 0)
			return rc;
	}
	for (uint32_t i = 0; i < plan->feeds_count; i++)
		if (plan->needed[plan->feeds[i]])
			exec_run_set_feed(run, i, &feeds[i].type, feeds[i].data);
	rc = exec_run_execute(run, step, counted, err);
	for (uint32_t i = 0; rc == 0 && i < plan->graph->results_count; i++)
		fetches[i] = *run_result(run, i);
	return rc;
}
