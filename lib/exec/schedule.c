/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of a step. Jobs are nodes, and the starts and waits of PS parts. A part is started as soon as possible;
 * then nodes that are ready are executed, and a part is waited for only if there are none. So all parts of a wave are
 * in flight before the first one is waited for, and the worker computes meanwhile. Without a cut, PS calls are made one
 * after the other.
 */
#include "exec/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A level is worth several threads if it computes values of this size. */
enum { AT_ONCE_BYTES = 32 * 1024 };

/* A min-heap of numbers. */
struct heap {
	uint32_t *numbers, count;
};

static void heap_push(struct heap *heap, uint32_t number)
{
	uint32_t at = heap->count++;

	for (; at && heap->numbers[(at - 1) / 2] > number; at = (at - 1) / 2)
		heap->numbers[at] = heap->numbers[(at - 1) / 2];
	heap->numbers[at] = number;
}

static uint32_t heap_pop(struct heap *heap)
{
	const uint32_t least = heap->numbers[0], number = heap->numbers[--heap->count];
	uint32_t at = 0;

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child + 1 < heap->count && heap->numbers[child + 1] < heap->numbers[child])
			child++;
		if (child >= heap->count || heap->numbers[child] >= number)
			break;
		heap->numbers[at] = heap->numbers[child];
		at = child;
	}
	heap->numbers[at] = number;
	return least;
}

struct schedule {
	struct graph_plan *plan;
	uint32_t jobs;	   /* nodes, then a start and a wait for each part */
	uint32_t *first;   /* for each job: the first of its edges in `to` */
	uint32_t *to;	   /* NULL: edges are only counted */
	uint32_t *missing; /* for each job: the number of others that it still waits for */
	uint32_t *homes;   /* PS parts of nodes: those of node n are from home_first[n] to home_first[n + 1] */
	uint32_t *home_first;
	struct heap nodes, starts, waits;
};

static uint32_t start_of(const struct schedule *s, uint32_t part)
{
	return s->plan->graph->nodes_count + 2 * part;
}

static bool is_job(const struct graph_plan *plan, uint32_t node)
{
	return plan->needed[node] && !plan_is_source(plan->graph->nodes[node]);
}

static void edge(struct schedule *s, uint32_t from, uint32_t to)
{
	if (!s->to) {
		s->first[from + 1]++;
		return;
	}
	s->to[s->first[from]++] = to;
	s->missing[to]++;
}

/* The job waits for a value. */
static void needs_value(struct schedule *s, struct graph_value value, uint32_t job)
{
	const uint32_t provider = s->plan->values[plan_number(s->plan, value)].provider;

	if (is_job(s->plan, value.node))
		edge(s, value.node, job);
	else if (provider != PLAN_NONE)
		edge(s, start_of(s, provider) + 1, job);
}

/* The job waits until a node has been executed, wherever that is. own: the job's own part, which may contain it; or
 * PLAN_NONE. */
static void needs_node(struct schedule *s, uint32_t node, uint32_t job, uint32_t own)
{
	for (uint32_t i = s->home_first[node]; i < s->home_first[node + 1]; i++)
		if (s->homes[i] == own)
			return;
	if (is_job(s->plan, node))
		edge(s, node, job);
	for (uint32_t i = s->home_first[node]; i < s->home_first[node + 1]; i++)
		edge(s, start_of(s, s->homes[i]) + 1, job);
}

static void part_edges(struct schedule *s, uint32_t p)
{
	const struct graph_plan *plan = s->plan;
	const struct graph_part *part = &plan->ps_plan.parts[plan->parts[p].part];
	const uint32_t start = start_of(s, p);

	edge(s, start, start + 1);
	for (uint32_t i = 0; i < part->feeds_count; i++)
		needs_value(s, part->feeds[i], start);
	for (uint32_t i = 0; i < part->nodes_count; i++) {
		const struct graph_node *node = plan->graph->nodes[part->nodes[i]];

		for (uint32_t c = 0; c < node->controls_count; c++)
			needs_node(s, node->controls[c], start, p);
	}
	for (uint32_t i = 0; i < part->after_count; i++)
		if (plan->part_of[part->after[i]] != PLAN_NONE)
			edge(s, start_of(s, plan->part_of[part->after[i]]) + 1, start);
	if (!plan->cut && p)
		edge(s, start - 1, start);
}

static void all_edges(struct schedule *s)
{
	const struct graph_plan *plan = s->plan;

	for (uint32_t n = 0; n < plan->graph->nodes_count; n++) {
		const struct graph_node *node = plan->graph->nodes[n];

		for (uint32_t i = 0; is_job(plan, n) && i < node->inputs_count; i++)
			needs_value(s, node->inputs[i], n);
		for (uint32_t c = 0; is_job(plan, n) && c < node->controls_count; c++)
			needs_node(s, node->controls[c], n, PLAN_NONE);
	}
	for (uint32_t p = 0; p < plan->parts_count; p++)
		part_edges(s, p);
}

/* Finds the PS parts of each node. */
static int find_homes(struct schedule *s, struct star_error *err)
{
	const struct graph_plan *plan = s->plan;
	const uint32_t nodes = plan->graph->nodes_count;

	s->home_first = calloc(nodes + UINT64_C(2), sizeof(*s->home_first));
	if (!s->home_first)
		return star_error_set(err, -ENOMEM, "out of memory");
	for (uint32_t p = 0; p < plan->parts_count; p++) {
		const struct graph_part *part = &plan->ps_plan.parts[plan->parts[p].part];

		for (uint32_t i = 0; i < part->nodes_count; i++)
			s->home_first[part->nodes[i] + 2]++;
	}
	for (uint32_t n = 0; n < nodes; n++)
		s->home_first[n + 2] += s->home_first[n + 1];
	s->homes = calloc(s->home_first[nodes + 1] + UINT64_C(1), sizeof(*s->homes));
	if (!s->homes)
		return star_error_set(err, -ENOMEM, "out of memory");
	for (uint32_t p = 0; p < plan->parts_count; p++) {
		const struct graph_part *part = &plan->ps_plan.parts[plan->parts[p].part];

		for (uint32_t i = 0; i < part->nodes_count; i++)
			s->homes[s->home_first[part->nodes[i] + 1]++] = p;
	}
	return 0;
}

static int make_edges(struct schedule *s, struct star_error *err)
{
	struct graph_plan *plan = s->plan;

	s->jobs = start_of(s, plan->parts_count);
	s->first = calloc(s->jobs + UINT64_C(2), sizeof(*s->first));
	s->missing = calloc(s->jobs + UINT64_C(1), sizeof(*s->missing));
	s->nodes.numbers = calloc(s->jobs + UINT64_C(1), sizeof(uint32_t));
	s->starts.numbers = calloc(s->jobs + UINT64_C(1), sizeof(uint32_t));
	s->waits.numbers = calloc(s->jobs + UINT64_C(1), sizeof(uint32_t));
	if (!s->first || !s->missing || !s->nodes.numbers || !s->starts.numbers || !s->waits.numbers)
		return star_error_set(err, -ENOMEM, "out of memory");
	if (find_homes(s, err) < 0)
		return err->code;
	all_edges(s);
	for (uint32_t job = 0; job <= s->jobs; job++)
		s->first[job + 1] += s->first[job];
	s->to = calloc(s->first[s->jobs] + UINT64_C(1), sizeof(*s->to));
	if (!s->to)
		return star_error_set(err, -ENOMEM, "out of memory");
	all_edges(s); /* which moves each job's first to the next one's */
	for (uint32_t job = s->jobs; job > 0; job--)
		s->first[job] = s->first[job - 1];
	s->first[0] = 0;
	return 0;
}

static void ready(struct schedule *s, uint32_t job)
{
	const uint32_t nodes = s->plan->graph->nodes_count;

	heap_push(job < nodes ? &s->nodes : (job - nodes) % 2 ? &s->waits : &s->starts, job);
}

static void add_item(struct schedule *s, uint32_t job)
{
	struct graph_plan *plan = s->plan;
	struct plan_item *item = &plan->items[plan->items_count++];
	const uint32_t nodes = plan->graph->nodes_count;
	const struct graph_node *node = job < nodes ? plan->graph->nodes[job] : NULL;

	*item = (struct plan_item){ .id = node ? job : (job - nodes) / 2, .scratch = PLAN_NONE };
	if (!node)
		item->kind = (job - nodes) % 2 ? PLAN_WAIT : PLAN_START;
	else
		item->kind = plan_is_flow(node) ? PLAN_FLOW : plan_is_share(node) ? PLAN_SHARE : PLAN_NODE;
	for (uint32_t i = 0; item->kind == PLAN_FLOW && i < plan->flows_count; i++)
		if (plan->flows[i].node == job)
			item->flow = i;
	plan->levels[plan->levels_count].count++;
}

/* Ends a level: releases the jobs that waited for its items. */
static void end_level(struct schedule *s)
{
	struct graph_plan *plan = s->plan;
	struct plan_level *level = &plan->levels[plan->levels_count++];

	if (level->count > plan->level_most)
		plan->level_most = level->count;
	for (uint32_t i = 0; i < level->count; i++) {
		const struct plan_item *item = &plan->items[level->first + i];
		const uint32_t job = item->kind == PLAN_START  ? start_of(s, item->id)
				     : item->kind == PLAN_WAIT ? start_of(s, item->id) + 1
							       : item->id;

		for (uint32_t e = s->first[job]; e < s->first[job + 1]; e++)
			if (--s->missing[s->to[e]] == 0)
				ready(s, s->to[e]);
	}
	plan->levels[plan->levels_count].first = plan->items_count;
}

/* Nodes that are ready do not depend on each other: with inter_op they form one level. Bodies have all threads for
 * themselves. */
static void nodes_level(struct schedule *s)
{
	struct graph_plan *plan = s->plan;
	struct plan_level *level = &plan->levels[plan->levels_count];
	uint32_t worthy = 0;

	do {
		const uint32_t job = s->nodes.numbers[0];
		const struct graph_node *node = plan->graph->nodes[job];
		uint64_t bytes = 0;

		if (plan_is_flow(node) && level->count)
			break;
		add_item(s, heap_pop(&s->nodes));
		for (uint32_t o = 0; o < node->outputs_count; o++)
			bytes += graph_type_bytes(&plan->types[plan->first[job] + o]);
		worthy += bytes >= AT_ONCE_BYTES;
		if (plan_is_flow(node))
			break;
	} while (plan->inter_op > 1 && s->nodes.count);
	level->at_once = worthy > 1;
}

static void order(struct schedule *s)
{
	for (uint32_t job = 0; job < s->jobs; job++)
		if (s->missing[job] == 0 && (job >= s->plan->graph->nodes_count || is_job(s->plan, job)))
			ready(s, job);
	while (s->starts.count || s->nodes.count || s->waits.count) {
		if (s->starts.count)
			add_item(s, heap_pop(&s->starts));
		else if (s->nodes.count)
			nodes_level(s);
		else
			add_item(s, heap_pop(&s->waits));
		end_level(s);
	}
}

/* The start and the wait of a part are a level each. */
static void find_waited_for(struct graph_plan *plan)
{
	for (uint32_t i = 0; i + 1 < plan->items_count; i++)
		if (plan->items[i].kind == PLAN_START && plan->items[i + 1].kind == PLAN_WAIT)
			plan->parts[plan->items[i].id].waited_for |= plan->items[i].id == plan->items[i + 1].id;
}

int exec_plan_schedule(struct graph_plan *plan, struct star_error *err)
{
	struct schedule s = { .plan = plan };
	uint32_t wanted = 2 * plan->parts_count;
	int rc = make_edges(&s, err);

	for (uint32_t n = 0; n < plan->graph->nodes_count; n++)
		wanted += is_job(plan, n);
	plan->items = exec_plan_alloc(plan, wanted, sizeof(*plan->items), err);
	plan->levels = exec_plan_alloc(plan, wanted + UINT64_C(1), sizeof(*plan->levels), err);
	if (rc == 0 && (!plan->items || !plan->levels))
		rc = err->code;
	if (rc == 0) {
		order(&s);
		find_waited_for(plan);
		if (plan->items_count < wanted)
			rc = star_error_set(err, -EINVAL, "the cut is wrong: its parts wait for each other");
	}
	free(s.first);
	free(s.to);
	free(s.missing);
	free(s.homes);
	free(s.home_first);
	free(s.nodes.numbers);
	free(s.starts.numbers);
	free(s.waits.numbers);
	return rc;
}
