/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For unfused grpc++: divides each PS part of the cut into one for each operation, so that each is in flight as soon as
 * its inputs are available, as an executor's Send and Recv nodes are. Operations stay together if one uses the other's
 * values on the PS task, or if they are ordered by a control edge or by what they do to a variable; so the parts of one
 * part do not depend on each other. A part that uses values which an earlier one has left on the task is not divided:
 * requests that share such values must wait for each other.
 */
#include "exec/plan.h"
#include "graph/handle.h"

#include <stdlib.h>
#include <string.h>

struct divide {
	struct graph_plan *plan;
	uint32_t *place;  /* for each node: 1 + its index in the current part, or 0 */
	uint32_t *leader; /* for each index: one of its group */
	uint32_t *first;  /* for each part of the cut: the first of its parts; and one more */
};

static const struct graph_node *node_at(const struct divide *d, const struct graph_part *part, uint32_t i)
{
	return d->plan->graph->nodes[part->nodes[i]];
}

/* Each group has its own handles and constants. */
static bool is_work(const struct graph_node *node)
{
	return !graph_is_handle(node) && !plan_is_source(node);
}

static uint32_t leader(const struct divide *d, uint32_t i)
{
	while (d->leader[i] != i)
		i = d->leader[i] = d->leader[d->leader[i]];
	return i;
}

static void join_parts(struct divide *d, uint32_t a, uint32_t b)
{
	a = leader(d, a);
	b = leader(d, b);
	d->leader[a > b ? a : b] = a < b ? a : b;
}

static const struct graph_node *resource_of(const struct divide *d, const struct graph_node *node)
{
	const bool has = node->inputs_count && graph_is_handle(d->plan->graph->nodes[node->inputs[0].node]);

	return has ? graph_resource(d->plan->graph, node->inputs[0]) : NULL;
}

static bool reads_only(const struct graph_node *node)
{
	return node->op == GRAPH_READ || node->op == GRAPH_LOOKUP;
}

static void join_users(struct divide *d, const struct graph_part *part, uint32_t i)
{
	const struct graph_node *node = node_at(d, part, i), *mine = resource_of(d, node);

	for (uint32_t k = 0; mine && k < i; k++) {
		const struct graph_node *other = node_at(d, part, k);
		const struct graph_node *theirs = is_work(other) ? resource_of(d, other) : NULL;

		if (theirs && !strcmp(theirs->name, mine->name) && !(reads_only(node) && reads_only(other)))
			join_parts(d, i, k);
	}
}

static void group(struct divide *d, const struct graph_part *part)
{
	for (uint32_t i = 0; i < part->nodes_count; i++) {
		d->place[part->nodes[i]] = is_work(node_at(d, part, i)) ? i + 1 : 0;
		d->leader[i] = i;
	}
	for (uint32_t i = 0; i < part->nodes_count; i++) {
		const struct graph_node *node = node_at(d, part, i);

		if (!is_work(node))
			continue;
		for (uint32_t k = 0; k < node->inputs_count; k++)
			if (d->place[node->inputs[k].node])
				join_parts(d, i, d->place[node->inputs[k].node] - 1);
		for (uint32_t k = 0; k < node->controls_count; k++)
			if (d->place[node->controls[k]])
				join_parts(d, i, d->place[node->controls[k]] - 1);
		join_users(d, part, i);
	}
}

static bool in_group(const struct divide *d, const struct graph_part *part, uint32_t i, uint32_t lead)
{
	return !is_work(node_at(d, part, i)) || leader(d, i) == lead;
}

/* Whether the group has the value as an input. */
static bool takes(const struct divide *d, const struct graph_part *part, uint32_t lead, struct graph_value value)
{
	for (uint32_t i = 0; i < part->nodes_count; i++) {
		const struct graph_node *node = node_at(d, part, i);

		for (uint32_t k = 0; in_group(d, part, i, lead) && k < node->inputs_count; k++)
			if (graph_same(node->inputs[k], value))
				return true;
	}
	return false;
}

/* All parts into which the predecessors of the original part were divided. */
static int set_after(struct divide *d, const struct graph_part *whole, struct graph_part *part, struct star_error *err)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < whole->after_count; i++)
		count += d->first[whole->after[i] + 1] - d->first[whole->after[i]];
	part->after_count = 0;
	part->after = exec_plan_alloc(d->plan, count, sizeof(*part->after), err);
	if (!part->after)
		return err->code;
	for (uint32_t i = 0; i < whole->after_count; i++)
		for (uint32_t p = d->first[whole->after[i]]; p < d->first[whole->after[i] + 1]; p++)
			part->after[part->after_count++] = p;
	return 0;
}

/* The group's share of the original part; lists keep their order. */
static int fill_part(struct divide *d, const struct graph_part *whole, uint32_t lead, struct graph_part *part,
		     struct star_error *err)
{
	struct graph_plan *plan = d->plan;

	part->nodes_count = part->feeds_count = part->fetches_count = part->kept_count = 0;
	part->nodes = exec_plan_alloc(plan, whole->nodes_count, sizeof(*part->nodes), err);
	part->feeds = exec_plan_alloc(plan, whole->feeds_count, sizeof(*part->feeds), err);
	part->feed_shapes = exec_plan_alloc(plan, whole->feeds_count, sizeof(*part->feed_shapes), err);
	part->fetches = exec_plan_alloc(plan, whole->fetches_count, sizeof(*part->fetches), err);
	part->fetch_shapes = exec_plan_alloc(plan, whole->fetches_count, sizeof(*part->fetch_shapes), err);
	part->kept = exec_plan_alloc(plan, whole->kept_count, sizeof(*part->kept), err);
	if (!part->nodes || !part->feeds || !part->feed_shapes || !part->fetches || !part->fetch_shapes || !part->kept)
		return err->code;
	for (uint32_t i = 0; i < whole->nodes_count; i++)
		if (in_group(d, whole, i, lead))
			part->nodes[part->nodes_count++] = whole->nodes[i];
	for (uint32_t i = 0; i < whole->feeds_count; i++)
		if (takes(d, whole, lead, whole->feeds[i])) {
			part->feed_shapes[part->feeds_count] = whole->feed_shapes && whole->feed_shapes[i];
			part->feeds[part->feeds_count++] = whole->feeds[i];
		}
	for (uint32_t i = 0; i < whole->fetches_count; i++) {
		const uint32_t place = d->place[whole->fetches[i].node];

		if (place && leader(d, place - 1) == lead) {
			part->fetch_shapes[part->fetches_count] = graph_cut_is_shape(whole, i);
			part->fetches[part->fetches_count++] = whole->fetches[i];
		}
	}
	for (uint32_t i = 0; i < whole->kept_count; i++)
		if (takes(d, whole, lead, whole->kept[i]))
			part->kept[part->kept_count++] = whole->kept[i];
	return 0;
}

static int divide_part(struct divide *d, uint32_t number, struct star_error *err)
{
	const struct graph_part *whole = &d->plan->cut->parts[number];
	struct graph_part *parts = (struct graph_part *)d->plan->ps_plan.parts;
	uint32_t *count = &d->plan->ps_plan.parts_count;
	int rc = 0;

	d->first[number] = *count;
	if (whole->place == GRAPH_PLACE_WORKER || whole->kept_count) {
		parts[*count] = *whole;
		rc = set_after(d, whole, &parts[(*count)++], err);
	} else {
		group(d, whole);
		for (uint32_t i = 0; rc == 0 && i < whole->nodes_count; i++) {
			struct graph_part *part = &parts[*count];

			if (!is_work(node_at(d, whole, i)) || leader(d, i) != i)
				continue;
			*part = *whole;
			++*count;
			rc = set_after(d, whole, part, err);
			if (rc == 0)
				rc = fill_part(d, whole, i, part, err);
		}
		for (uint32_t i = 0; i < whole->nodes_count; i++)
			d->place[whole->nodes[i]] = 0;
	}
	d->first[number + 1] = *count;
	return rc;
}

int exec_plan_divide(struct graph_plan *plan, struct star_error *err)
{
	const struct graph_cut *cut = plan->cut;
	struct divide d = { .plan = plan };
	uint32_t most = 1;
	int rc = 0;

	for (uint32_t p = 0; p < cut->parts_count; p++)
		most += cut->parts[p].nodes_count + 1;
	plan->ps_plan.parts_count = 0;
	plan->ps_plan.parts = exec_plan_alloc(plan, most, sizeof(*plan->ps_plan.parts), err);
	d.place = exec_plan_alloc(plan, plan->graph->nodes_count, sizeof(*d.place), err);
	d.leader = exec_plan_alloc(plan, plan->graph->nodes_count, sizeof(*d.leader), err);
	d.first = exec_plan_alloc(plan, cut->parts_count + UINT64_C(1), sizeof(*d.first), err);
	if (!plan->ps_plan.parts || !d.place || !d.leader || !d.first)
		return err->code;
	for (uint32_t p = 0; rc == 0 && p < cut->parts_count; p++)
		rc = divide_part(&d, p, err);
	return rc;
}
