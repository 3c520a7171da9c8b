/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates a run: all memory that its steps use. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run.h"

struct run_memory {
	struct run_memory *next;
	_Alignas(max_align_t) uint8_t data[];
};

static void *alloc(struct graph_run *run, uint64_t count, uint64_t size, struct star_error *err)
{
	struct run_memory *memory = calloc(1, sizeof(*memory) + count * size);

	if (!memory) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	memory->next = run->memory;
	run->memory = memory;
	return memory->data;
}

/* A plan's runs are numbered; the number of a destroyed run is reused. */
static int take_id(struct graph_run *run, struct star_error *err)
{
	struct graph_plan *plan = run->plan;
	uint32_t id = 0;

	pthread_mutex_lock(&plan->lock);
	while (id < PLAN_RUNS_MAX && plan->used[id / 64] >> (id % 64) & 1)
		id++;
	if (id < PLAN_RUNS_MAX)
		plan->used[id / 64] |= UINT64_C(1) << (id % 64);
	pthread_mutex_unlock(&plan->lock);
	if (id == PLAN_RUNS_MAX)
		return star_error_set(err, -EMFILE, "a plan has at most %d runs", PLAN_RUNS_MAX);
	run->id = id;
	return 0;
}

static void give_id(struct graph_run *run)
{
	pthread_mutex_lock(&run->plan->lock);
	run->plan->used[run->id / 64] &= ~(UINT64_C(1) << (run->id % 64));
	pthread_mutex_unlock(&run->plan->lock);
}

static void set_values(struct graph_run *run)
{
	const struct graph_plan *plan = run->plan;

	for (uint32_t n = 0; n < plan->graph->nodes_count; n++)
		for (uint32_t o = 0; o < plan->graph->nodes[n]->outputs_count; o++) {
			const uint32_t number = plan->first[n] + o;
			const struct plan_value *value = &plan->values[number];

			run->values[number].type = plan->types[number];
			if (value->where == PLAN_ARENA)
				run->values[number].data = run->arena + plan->blocks[value->block].offset;
			else if (value->where == PLAN_CONST)
				run->values[number].data =
					(void *)(uintptr_t)graph_attr(plan->graph->nodes[n], "value")->data;
		}
}

static void set_calls(struct graph_run *run)
{
	const struct graph_plan *plan = run->plan;

	for (uint32_t p = 0; p < plan->parts_count; p++) {
		const struct plan_part *mine = &plan->parts[p];

		run->calls[p] = (struct graph_ps_call){
			.plan = &plan->ps_plan,
			.prepared = plan->prepared,
			.part = mine->part,
			.run = run->id,
			.waited_for = mine->waited_for,
			.feeds = run->tensors + mine->first_tensor,
			.fetches = run->tensors + mine->first_tensor + plan->ps_plan.parts[mine->part].feeds_count,
		};
	}
}

static struct graph_run *create_run(struct graph_plan *plan, const struct graph_run *outer, uint8_t *arena,
				    struct star_error *err);

/* The bodies' memory is in the item's scratch. */
static int create_bodies(struct graph_run *run, struct star_error *err)
{
	const struct graph_plan *plan = run->plan;

	for (uint32_t i = 0; i < plan->items_count; i++) {
		const struct plan_item *item = &plan->items[i];
		const struct plan_flow *flow = &plan->flows[item->flow];
		uint8_t *arena = NULL;

		if (item->kind != PLAN_FLOW)
			continue;
		if (item->scratch != PLAN_NONE)
			arena = run->arena + plan->blocks[item->scratch].offset;
		run->bodies[item->flow] = create_run(flow->body, run, arena, err);
		run->conds[item->flow] =
			run->bodies[item->flow]
				? create_run(flow->cond, run, arena ? arena + flow->cond_offset : NULL, err)
				: NULL;
		if (!run->conds[item->flow])
			return err->code;
	}
	return 0;
}

static int create_tables(struct graph_run *run, struct star_error *err)
{
	const struct graph_plan *plan = run->plan;

	run->values = alloc(run, plan->values_count, sizeof(*run->values), err);
	run->changed = alloc(run, plan->values_count, sizeof(*run->changed), err);
	run->tensors = alloc(run, plan->tensors_count, sizeof(*run->tensors), err);
	run->calls = alloc(run, plan->parts_count, sizeof(*run->calls), err);
	run->tokens = alloc(run, plan->parts_count, sizeof(*run->tokens), err);
	run->started = alloc(run, plan->parts_count, sizeof(*run->started), err);
	run->bodies = alloc(run, plan->flows_count, sizeof(struct graph_run *), err);
	run->conds = alloc(run, plan->flows_count, sizeof(struct graph_run *), err);
	run->errors = alloc(run, plan->level_most, sizeof(*run->errors), err);
	return run->values && run->changed && run->tensors && run->calls && run->tokens && run->started &&
			       run->bodies && run->conds && run->errors
		       ? 0
		       : err->code;
}

static int create_arena(struct graph_run *run, struct star_error *err)
{
	const uint64_t bytes = run->plan->bytes + PLAN_ALIGN;

	run->arena = aligned_alloc(PLAN_ALIGN, (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN);
	if (!run->arena)
		return star_error_set(err, -ENOMEM, "a step needs %llu bytes of memory, which cannot be allocated",
				      (unsigned long long)bytes);
	return 0;
}

static int create_teams(struct graph_run *run, struct star_error *err)
{
	run->team = exec_team_create(run->plan->intra_op, err);
	if (err->code == 0)
		run->crew = exec_team_create(run->plan->inter_op, err);
	return err->code;
}

/* outer: NULL for a whole graph. */
static struct graph_run *create_run(struct graph_plan *plan, const struct graph_run *outer, uint8_t *arena,
				    struct star_error *err)
{
	struct graph_run *run = calloc(1, sizeof(*run));
	int rc;

	if (!run) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	run->plan = plan;
	run->is_inner = outer;
	run->stamp = 1;
	run->fresh = true;
	run->arena = arena;
	if (outer) {
		run->id = outer->id;
		run->team = outer->team;
		run->crew = outer->crew;
		rc = create_tables(run, err);
	} else {
		rc = take_id(run, err);
		if (rc < 0) {
			free(run);
			return NULL;
		}
		rc = create_tables(run, err);
		if (rc == 0)
			rc = create_arena(run, err);
		if (rc == 0)
			rc = create_teams(run, err);
	}
	if (rc == 0) {
		set_values(run);
		set_calls(run);
		rc = create_bodies(run, err);
	}
	if (rc == 0)
		return run;
	graph_run_destroy(run);
	return NULL;
}

struct graph_run *graph_run_create(struct graph_plan *plan, struct star_error *err)
{
	struct star_error ignored;

	return create_run(plan, NULL, NULL, err ? err : &ignored);
}

void graph_run_destroy(struct graph_run *run)
{
	if (!run)
		return;
	for (uint32_t i = 0; run->bodies && run->conds && i < run->plan->flows_count; i++) {
		graph_run_destroy(run->bodies[i]);
		graph_run_destroy(run->conds[i]);
	}
	if (!run->is_inner) {
		exec_team_destroy(run->team);
		exec_team_destroy(run->crew);
		free(run->arena);
		give_id(run);
	}
	for (struct run_memory *memory = run->memory, *next; memory; memory = next) {
		next = memory->next;
		free(memory);
	}
	free(run);
}
