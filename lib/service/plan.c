/* SPDX-License-Identifier: BSD-3-Clause */
/* Installing programs: binds a program to the shard's tables, orders its steps, and lays out its memory. */
#include "service/plan.h"

#include <errno.h>
#include <stdlib.h>

#include "service/internal.h"
#include "store/push.h"

int service_plan_memory_create(struct service *service, struct star_error *err)
{
	/* The rows by segment of a request, and as much again for pools. Only what is used is ever touched. */
	service->pools_max = 2 * (uint64_t)service->options.payload_max;
	service->plans_memory = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(PROGRAMS_MAX * sizeof(struct plan),
										  (size_t)RTE_CACHE_LINE_SIZE));
	service->tile =
		aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(sizeof(*service->tile), (size_t)RTE_CACHE_LINE_SIZE));
	service->small.pools = aligned_alloc(RTE_CACHE_LINE_SIZE, SLICE_BYTES);
	service->large.pools = aligned_alloc(RTE_CACHE_LINE_SIZE, service->pools_max);
	if (!service->plans_memory || !service->tile || !service->small.pools || !service->large.pools)
		return star_error_set(err, -ENOMEM, "no memory for a shard's programs");
	service_tile_forget(service);
	return 0;
}

void service_plan_memory_destroy(struct service *service)
{
	free(service->plans_memory);
	free(service->tile);
	free(service->small.pools);
	free(service->large.pools);
}

/* Checks a KEYS feed against the table that it names. */
static int check_program_table(const struct service *service, const struct object_spec *program,
			       const struct program_shape *shape, const struct program_keys *keys,
			       struct star_error *err)
{
	const struct program_node *node = &program->program.nodes[keys->node];
	const struct store_table *table = service->tables[node->object];
	const struct object_spec *spec;

	if (!table)
		return star_error_set(err, -ENOENT,
				      "the program works on object %u, and there is no such table or variable",
				      node->object);
	spec = store_table_spec(table);
	if (spec->generation != node->generation)
		return star_error_set(err, -ENOENT,
				      "the program works on object %u, which was dropped: \"%.80s\" has its id now",
				      node->object, spec->name);
	if (spec->dim != node->dim)
		return star_error_set(err, -EINVAL,
				      "the program takes \"%.80s\" to have rows of %u elements, it has %u", spec->name,
				      node->dim, spec->dim);
	if (!dtype_converts(STAR_FLOAT32, spec->dtype))
		return star_error_set(err, -EINVAL,
				      "the program works on \"%.80s\", whose elements of type %s are not converted to "
				      "float32",
				      spec->name, dtype_name(spec->dtype));
	if (keys->apply == PROGRAM_NONE)
		return 0;
	if (spec->optim.kind == OPTIM_NONE)
		return star_error_set(err, -EINVAL,
				      "the program applies gradients to \"%.80s\", which has no optimizer", spec->name);
	if (spec->optim.kind == OPTIM_LAMB || spec->clip_global_norm > 0)
		return star_error_set(
			err, -EINVAL,
			"the program applies gradients to \"%.80s\", which needs all of its gradient at once "
			"(%s): push it",
			spec->name, spec->clip_global_norm > 0 ? "clip_global_norm" : "optimizer lamb");
	return 0;
}

/* How many elements the last block of a variable has; 0: it is full. */
static uint32_t last_of(const struct object_spec *spec)
{
	return spec->kind == OBJECT_VARIABLE ? (uint32_t)(wire_object_elements(spec) % spec->dim) : 0;
}

/* Whether a node is a step that computes rows for this KEYS feed; keys PROGRAM_NONE: rows that exist once. */
static bool computes(const struct plan *plan, unsigned node, unsigned keys)
{
	const struct program_value *v = &plan->shape.values[node];

	if (wire_program_op(plan->program.nodes[node].op)->kind < PROGRAM_KIND_SPREAD)
		return false;
	return keys == PROGRAM_NONE ? v->axis == PROGRAM_ONCE : v->axis == PROGRAM_BY_KEY && v->keys == keys;
}

static void add_steps(struct plan *plan, unsigned keys, unsigned *count)
{
	for (unsigned i = 0; i < plan->program.count; i++) {
		const struct program_node *n = &plan->program.nodes[i];

		if (computes(plan, i, keys))
			plan->steps[(*count)++] = (struct plan_step){ .op = n->op,
								      .node = (uint8_t)i,
								      .a = n->a,
								      .b = n->b,
								      .kind = wire_program_op(n->op)->kind,
								      .constant = n->constant };
	}
}

/* Marks the nodes that a feed's gradients depend on, from the last to the first. */
static void mark_looks(struct plan *plan, unsigned k, unsigned first, unsigned end)
{
	const struct program_keys *keys = &plan->shape.keys[k];
	uint64_t needed = UINT64_C(1) << plan->program.nodes[keys->apply].b;

	for (unsigned i = end; i > first; i--) {
		struct plan_step *step = &plan->steps[i - 1];

		step->look = needed >> step->node & 1;
		if (step->look)
			needed |= UINT64_C(1) << step->a | UINT64_C(1) << step->b;
	}
	plan->keys[k].looks_up = keys->lookup != PROGRAM_NONE && needed >> keys->lookup & 1;
}

/* Places the rows of a tile, one node after the other. */
static void lay_out(struct plan *plan, unsigned keys)
{
	uint32_t at = 0;

	for (unsigned i = 0; i < plan->program.count; i++) {
		const struct program_value *v = &plan->shape.values[i];

		if (keys == PROGRAM_NONE ? v->axis != PROGRAM_ONCE : v->axis != PROGRAM_BY_KEY || v->keys != keys)
			continue;
		plan->at[i] = at;
		at += v->dim * (keys == PROGRAM_NONE ? 1 : plan->keys[keys].tile);
	}
}

static void add_keys(const struct service *service, struct plan *plan, unsigned k, unsigned counts[3])
{
	const struct program_keys *keys = &plan->shape.keys[k];
	const struct program_node *nodes = plan->program.nodes;
	struct plan_keys *to = &plan->keys[k];
	const uint32_t row = RTE_MAX(keys->elements, 1u) * (uint32_t)sizeof(float);
	const unsigned first = counts[0];

	to->table = service->tables[nodes[keys->node].object];
	to->object = object_wire_id(store_table_spec(to->table));
	to->tile = row > SLICE_BYTES ? 1 : (uint8_t)RTE_MIN(SLICE_BYTES / row, (uint32_t)STORE_BATCH);
	to->cost = RTE_MAX(row + (keys->apply != PROGRAM_NONE ? nodes[keys->node].dim * (uint32_t)sizeof(float) : 0),
			   (uint32_t)(SLICE_BYTES / SLICE_KEYS));
	to->makes = keys->lookup != PROGRAM_NONE && !(nodes[keys->lookup].flags & PROGRAM_READ_ONLY);
	to->looks = keys->apply != PROGRAM_NONE && store_push_needs_look(to->table);
	to->last = last_of(store_table_spec(to->table));
	to->copies = keys->apply != PROGRAM_NONE && nodes[keys->apply].b == keys->lookup;
	to->steps = (uint8_t)counts[0];
	to->fetches = (uint8_t)counts[1];
	to->pools = (uint8_t)counts[2];
	add_steps(plan, k, &counts[0]);
	if (keys->apply != PROGRAM_NONE)
		mark_looks(plan, k, first, counts[0]);
	for (unsigned i = 0; i < plan->program.count; i++) {
		const struct program_value *of = &plan->shape.values[nodes[i].a];

		if (nodes[i].op == PROGRAM_FETCH && of->axis == PROGRAM_BY_KEY && of->keys == k)
			plan->fetches[counts[1]++] = nodes[i].a;
		if (nodes[i].op == PROGRAM_POOL && of->keys == k)
			plan->pools[counts[2]++] = (uint8_t)i;
	}
	for (unsigned i = 0; i < keys->aligned_count; i++)
		plan->slot[keys->aligned[i]] = (uint8_t)i;
	lay_out(plan, k);
}

static void compile(const struct service *service, const struct object_spec *spec, const struct program_shape *shape,
		    struct plan *plan)
{
	const struct program *program = &spec->program;
	unsigned counts[3] = { 0 };

	*plan = (struct plan){ .program = *program, .shape = *shape, .object = object_wire_id(spec) };
	add_steps(plan, PROGRAM_NONE, &counts[0]);
	plan->once = counts[0];
	lay_out(plan, PROGRAM_NONE);
	for (unsigned k = 0; k < shape->keys_count; k++)
		add_keys(service, plan, k, counts);
	for (unsigned i = 0; i < program->count; i++)
		if (program->nodes[i].op == PROGRAM_KEEP && program->nodes[program->nodes[i].a].op != PROGRAM_KEYS)
			plan->keeps[plan->keeps_count++] = (uint8_t)i;
	plan->keys[shape->keys_count] = (struct plan_keys){ .steps = (uint8_t)counts[0],
							    .fetches = (uint8_t)counts[1],
							    .pools = (uint8_t)counts[2] };
}

bool service_plan_is_bound(const struct service *service, const struct plan *plan)
{
	for (unsigned k = 0; k < plan->shape.keys_count; k++)
		if (service->tables[plan->program.nodes[plan->shape.keys[k].node].object] != plan->keys[k].table)
			return false;
	return true;
}

static struct plan *free_place(struct service *service)
{
	for (unsigned i = 0; i < PROGRAMS_MAX; i++)
		if (!service->plans_taken[i])
			return &service->plans_memory[i];
	return NULL;
}

int service_plan_install(struct service *service, const struct object_spec *spec, struct star_error *err)
{
	const struct plan *have = service->plans[spec->id];
	struct program_shape shape;
	struct plan *plan;
	unsigned node;
	int rc;

	if (wire_program_check(&spec->program, &shape, &node))
		return star_error_set(err, -EINVAL, "\"%.80s\" is not a program", spec->name);
	for (unsigned k = 0; k < shape.keys_count; k++) {
		rc = check_program_table(service, spec, &shape, &shape.keys[k], err);
		if (rc < 0)
			return rc;
	}
	if (have && !service_drop_is_due(service, spec->id) && have->object == object_wire_id(spec) &&
	    service_plan_is_bound(service, have) &&
	    memcmp(&have->program, &spec->program, program_bytes(&spec->program)) == 0)
		return 0;
	if (service_drop_left_behind(service, spec, err) < 0)
		return err->code;
	plan = free_place(service);
	if (!plan)
		return star_error_set(err, -ENOSPC, "there are %d programs already: no more are possible",
				      PROGRAMS_MAX);
	compile(service, spec, &shape, plan);
	service->plans[spec->id] = plan;
	service->plans_taken[plan - service->plans_memory] = true;
	service->plans_used++;
	service_direct_note(service, spec->id);
	return 0;
}

struct store_table *service_plan_plain_table(const struct plan *plan)
{
	const struct program_node *nodes = plan->program.nodes;
	struct store_table *table = plan->keys[0].table;
	const struct object_spec *spec = store_table_spec(table);

	return plan->program.count == 3 && !nodes[0].flags && nodes[1].op == PROGRAM_LOOKUP &&
			       nodes[2].op == PROGRAM_FETCH && spec->kind == OBJECT_TABLE && spec->dtype == STAR_FLOAT32
		       ? table
		       : NULL;
}
