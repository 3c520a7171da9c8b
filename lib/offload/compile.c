/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the components of a part, each of which becomes a program. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compile_internal.h"
#include "graph/handle.h"
#include "offload/template.h"

static bool is_member(const struct graph_part *part, const struct graph_node *node)
{
	return !graph_is_handle(node) && !offload_template_goes_along(part, node);
}

static uint32_t root_of(uint32_t *labels, uint32_t i)
{
	while (labels[i] != i)
		i = labels[i] = labels[labels[i]];
	return i;
}

/* Labels components: a component's label is its first node, as an index of the part's nodes. at: for the graph's nodes,
 * index + 1. */
static void find_components(const struct graph_ps_plan *plan, const struct graph_part *part, const uint32_t *at,
			    uint32_t *labels)
{
	for (uint32_t i = 0; i < part->nodes_count; i++) {
		const struct graph_node *node = plan->graph->nodes[part->nodes[i]];

		labels[i] = i;
		for (uint32_t k = 0; k < node->inputs_count && is_member(part, node); k++) {
			const uint32_t other = at[node->inputs[k].node];
			uint32_t a, b;

			if (!other || !is_member(part, plan->graph->nodes[node->inputs[k].node]))
				continue;
			a = root_of(labels, i);
			b = root_of(labels, other - 1);
			labels[a > b ? a : b] = a > b ? b : a;
		}
	}
	for (uint32_t i = 0; i < part->nodes_count; i++)
		labels[i] = root_of(labels, i);
}

/* in: converts labels to numbers, from 1; a single node that is an operation gets none. Returns the number of
 * components. */
static uint32_t number_components(const struct graph_ps_plan *plan, uint32_t index, const uint32_t *labels,
				  uint32_t *in)
{
	const struct graph_part *part = &plan->parts[index];
	uint32_t count = 0;

	for (uint32_t i = 0; i < part->nodes_count; i++) {
		const struct graph_node *node = plan->graph->nodes[part->nodes[i]];

		in[i] = 0;
		if (labels[i] != i) {
			in[i] = in[labels[i]];
			continue;
		}
		for (uint32_t k = i + 1; k < part->nodes_count && !in[i] && is_member(part, node); k++)
			in[i] = labels[k] == i ? count + 1 : 0;
		if (!in[i] && is_member(part, node) &&
		    (graph_op_info(node->op)->place != GRAPH_ON_PS || offload_compile_is_kept(plan, index, node->id)))
			in[i] = count + 1;
		count += in[i] != 0;
	}
	return count;
}

static bool changes_rows(const struct graph_node *node)
{
	return node->op != GRAPH_READ && node->op != GRAPH_LOOKUP;
}

/* A component that only uses rows of an earlier request has that request's ids. */
static int find_kept_keys(struct compile_build *b, const struct graph_node *first)
{
	const struct graph *graph = b->plan->graph;
	struct compile_feed feed = { .kind = COMPILE_KEYS };
	const struct compiled *from = NULL;
	unsigned step;
	uint32_t index;

	for (uint32_t i = 0; i < b->part->nodes_count && !from; i++) {
		const struct graph_node *node = graph->nodes[b->part->nodes[i]];

		for (uint32_t k = 0; b->in[i] == b->number && k < node->inputs_count && !from; k++)
			from = offload_compile_maker(b, node->inputs[k], &step);
	}
	b->node = first;
	if (!from)
		return offload_compile_not_done(b, "");
	b->ids = from->ids;
	b->c->handle = from->handle;
	b->c->after = first->id;
	if (from->blocks)
		return offload_compile_blocks(b, graph_resource(graph, (struct graph_value){ from->handle, 0 }));
	if (!offload_compile_is_feed(b, b->ids, &feed.source.feed))
		feed.source.feed = COMPILE_NO_FEED;
	return offload_compile_add_feed(b, feed, &index);
}

/* Whether the node uses a variable as a whole. */
static bool is_whole_variable(const struct graph_node *node)
{
	return node->op == GRAPH_READ || node->op == GRAPH_APPLY;
}

/* Checks that a node has the same keys as another one. */
static int check_same_keys(struct compile_build *b, const struct graph_node *node, const struct graph_node *other)
{
	const struct graph *graph = b->plan->graph;

	if (node->op != GRAPH_LOOKUP && node->op != GRAPH_APPLY_ROWS && !is_whole_variable(node))
		return offload_compile_not_done(b, " with values that are computed there");
	if (!other)
		return 0;
	if (is_whole_variable(node) && is_whole_variable(other))
		return graph_resource(graph, node->inputs[0]) == graph_resource(graph, other->inputs[0])
			       ? 0
			       : offload_compile_not_done(b, " with another variable's values");
	if (is_whole_variable(node) || is_whole_variable(other) ||
	    graph_resource(graph, node->inputs[0]) != graph_resource(graph, other->inputs[0]) ||
	    !graph_same(node->inputs[1], other->inputs[1]))
		return offload_compile_not_done(b, " with rows of other ids");
	return 0;
}

/* Finds the component's keys; and checks that nothing which it looks up is changed before it is executed. */
static int find_keys(struct compile_build *b)
{
	const struct graph *graph = b->plan->graph;
	const struct graph_node *resource = NULL, *first = NULL, *keyed = NULL;
	uint32_t feed, looked_up = UINT32_MAX;

	for (uint32_t i = 0; i < b->part->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[b->part->nodes[i]];
		const bool member = b->in[i] == b->number;

		b->node = member ? node : b->node;
		if (member && !first)
			b->c->first = first = node;
		if (graph_op_info(node->op)->place != GRAPH_ON_PS || graph_is_handle(node))
			continue;
		if (!member) {
			if (looked_up != UINT32_MAX && changes_rows(node) &&
			    graph_resource(graph, node->inputs[0]) == resource)
				looked_up = node->id; /* changed since then */
			continue;
		}
		if (check_same_keys(b, node, keyed) < 0)
			return b->err->code;
		if (looked_up != UINT32_MAX && looked_up != b->c->after)
			return offload_compile_not_done(b, " with rows from before another change");
		keyed = node;
		resource = graph_resource(graph, node->inputs[0]);
		b->ids = is_whole_variable(node) ? (struct graph_value){ 0 } : node->inputs[1];
		b->c->handle = node->inputs[0].node;
		b->c->after = looked_up = node->id;
	}
	if (!resource)
		return find_kept_keys(b, first);
	if (graph_attr_int(resource, "staleness", 0))
		return offload_compile_not_done(
			b, " if the optimizer uses staleness, which needs pulls and pushes by workers");
	if (is_whole_variable(keyed))
		return offload_compile_blocks(b, resource);
	if (resource->op != GRAPH_TABLE || !offload_compile_is_feed(b, b->ids, &feed))
		return offload_compile_not_done(b, resource->op != GRAPH_TABLE ? " with a variable's rows"
									       : " with ids that are computed there");
	return offload_compile_add_feed(b, (struct compile_feed){ .kind = COMPILE_KEYS, .source = { .feed = feed } },
					&feed);
}

/* Returns what others need of a node, except for a pool, which is returned anyway. */
static int add_outputs(struct compile_build *b)
{
	const struct graph_value value = { b->node->id, 0 };
	uint32_t fetch = 0;
	int rc;

	while (fetch < b->part->fetches_count && !graph_same(b->part->fetches[fetch], value))
		fetch++;
	if (fetch == b->part->fetches_count || b->step[b->node->id] == COMPILE_NOT_MADE ||
	    graph_cut_is_shape(b->part, fetch))
		return 0;
	if (b->c->blocks)
		return offload_compile_blocks_output(b, fetch);
	if (b->c->fetches_count == COMPILE_FETCHES_MAX)
		return offload_compile_not_done(b, " with so many others");
	rc = offload_compile_add_step(b, (struct compile_step){ .kind = COMPILE_FETCH, .a = b->step[b->node->id] });
	b->c->fetches[b->c->fetches_count++] = (struct compile_fetch){ .fetch = fetch };
	return rc;
}

/* A run is sent to a reactor as one request, so the largest step must fit into one. */
static int check_size(struct compile_build *b)
{
	const uint64_t keys = (uint64_t)graph_elements(offload_compile_shape_of(b, b->ids));
	uint64_t bags = b->c->bags.lead ? (uint64_t)offload_compile_most_bags(b) : 0, to = keys * sizeof(uint64_t),
		 from = 0;

	for (unsigned f = 0; f < b->c->feeds_count; f++) {
		const struct compile_feed *feed = &b->c->feeds[f];

		to += feed->kind == COMPILE_ROWS	   ? keys * feed->dim * sizeof(float)
		      : feed->kind == COMPILE_SEGMENTS	   ? keys * sizeof(uint32_t)
		      : feed->kind == COMPILE_SEGMENT_ROWS ? bags * feed->dim * sizeof(float)
							   : feed->dim * sizeof(float);
	}
	for (unsigned f = 0; f < b->c->fetches_count; f++)
		from += graph_type_bytes(graph_ps_type(b->plan, b->part->fetches[b->c->fetches[f].fetch]));
	b->node = b->c->first;
	if (keys > COMPILE_KEYS_MAX || bags > COMPILE_SEGMENTS_MAX || to > COMPILE_BYTES_MAX ||
	    from > COMPILE_BYTES_MAX)
		return offload_compile_not_done(b, " with so many ids in a step");
	return 0;
}

static int compile_component(struct compile_build *b)
{
	int rc = find_keys(b);

	b->c->ids = b->ids;
	b->c->part = b->index;
	for (uint32_t i = 0; rc >= 0 && i < b->part->nodes_count; i++) {
		if (b->in[i] != b->number)
			continue;
		b->node = b->plan->graph->nodes[b->part->nodes[i]];
		rc = offload_compile_node(b);
		if (rc < 0)
			break;
		b->step[b->node->id] = (uint8_t)rc;
		rc = add_outputs(b);
	}
	if (rc >= 0)
		rc = b->c->blocks ? offload_compile_blocks_size(b) : check_size(b);
	return rc < 0 ? rc : offload_compile_share(b);
}

static int compile_part(const struct graph_ps_plan *plan, struct compile_plan *all, uint32_t index,
			struct star_error *err)
{
	const struct graph_part *part = &plan->parts[index];
	struct compile_parts *to = &all->parts[index];
	const uint32_t n = plan->graph->nodes_count;
	uint32_t *at = calloc(n + UINT64_C(1), sizeof(*at));
	uint32_t *labels = calloc(part->nodes_count + UINT64_C(1), sizeof(*labels));
	struct compile_build b = { .plan = plan, .all = all, .part = part, .index = index, .err = err };
	int rc = 0;

	to->in = calloc(part->nodes_count + UINT64_C(1), sizeof(*to->in));
	b.step = to->made = malloc(n + UINT64_C(1));
	if (at && labels && b.step && to->in) {
		for (uint32_t i = 0; i < part->nodes_count; i++)
			at[part->nodes[i]] = i + 1;
		find_components(plan, part, at, labels);
		to->count = number_components(plan, index, labels, to->in);
		to->list = calloc(to->count + UINT64_C(1), sizeof(*to->list));
		memset(b.step, COMPILE_NOT_MADE, n);
	}
	if (!to->list)
		rc = star_error_set(err, -ENOMEM, "out of memory for a plan");
	b.in = to->in;
	for (uint32_t i = 0; rc >= 0 && i < to->count; i++) {
		b.c = &to->list[i];
		b.number = i + 1;
		rc = compile_component(&b);
	}
	free(at);
	free(labels);
	return rc < 0 ? rc : 0;
}

static uint32_t count_values(const struct graph *graph)
{
	uint32_t count = 0;

	for (uint32_t v = 0; v < graph->nodes_count; v++)
		count += graph->nodes[v]->outputs_count;
	return count;
}

struct compile_plan *offload_compile_parts(const struct graph_ps_plan *plan, struct star_error *err)
{
	const uint32_t values = count_values(plan->graph);
	struct compile_plan *all = calloc(1, sizeof(*all));
	int rc = 0;

	if (all) {
		all->parts = calloc(plan->parts_count + UINT64_C(1), sizeof(*all->parts));
		all->types = calloc(values + UINT64_C(1), sizeof(*all->types));
	}
	if (!all || !all->parts || !all->types) {
		star_error_set(err, -ENOMEM, "out of memory for a plan");
		offload_compile_free(all);
		return NULL;
	}
	all->parts_count = plan->parts_count;
	all->from = plan->parts;
	for (uint32_t i = 0; i < values; i++)
		all->types[i] = plan->types[i];
	for (uint32_t i = 0; rc == 0 && i < plan->parts_count; i++)
		if (plan->parts[i].place != GRAPH_PLACE_WORKER)
			rc = compile_part(plan, all, i, err);
	if (rc == 0)
		return all;
	offload_compile_free(all);
	return NULL;
}

const struct compile_plan *offload_compile_found(const struct graph_ps_plan *plan)
{
	const struct compile_plan *all = plan->cut ? plan->cut->compiled : NULL;
	const uint32_t values = all ? count_values(plan->graph) : 0;

	if (!all || all->from != plan->parts || all->parts_count != plan->parts_count)
		return NULL;
	for (uint32_t i = 0; i < values; i++)
		if (all->types[i].dtype != plan->types[i].dtype ||
		    (plan->types[i].dtype && !graph_shape_same(&all->types[i].shape, &plan->types[i].shape)))
			return NULL;
	return all;
}

void offload_compile_free(struct compile_plan *all)
{
	if (!all)
		return;
	for (uint32_t i = 0; all->parts && i < all->parts_count; i++) {
		free(all->parts[i].list);
		free(all->parts[i].in);
		free(all->parts[i].made);
	}
	free(all->parts);
	free(all->types);
	free(all->groups);
	free(all);
}
