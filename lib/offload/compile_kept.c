/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stays on PS tasks between two requests of a step (docs/programs.rst). If a later component of the same place
 * needs rows or ids of a component, that one keeps them there. Components that share an entry form a group; each of its
 * requests comes after all earlier ones, so the last one is known, and frees the entry.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compile_internal.h"

bool offload_compile_is_kept(const struct graph_ps_plan *plan, uint32_t part, uint32_t node)
{
	for (uint32_t p = part + 1; p < plan->parts_count; p++)
		for (uint32_t i = 0; i < plan->parts[p].kept_count; i++)
			if (plan->parts[p].kept[i].node == node)
				return true;
	return false;
}

/* Whether a part is executed after another one, because it waits for it. */
static bool comes_after(const struct compile_build *b, uint32_t part, uint32_t other)
{
	bool *waits = calloc(part + UINT64_C(1), sizeof(*waits)), found;

	if (!waits)
		return false;
	waits[part] = true;
	for (uint32_t p = part; p > other; p--)
		for (uint32_t i = 0; waits[p] && i < b->plan->parts[p].after_count; i++)
			waits[b->plan->parts[p].after[i]] = true;
	found = waits[other];
	free(waits);
	return found;
}

/* ---- groups ---- */

static struct compile_group *group_of(const struct compile_build *b, const struct compiled *c)
{
	return &b->all->groups[c->group - 1];
}

/* Makes the component begin a group, if it has none yet. */
static int begin_group(struct compile_build *b, struct compiled *c)
{
	struct compile_plan *all = b->all;
	struct compile_group *more;

	if (c->group)
		return 0;
	if (c->steps_count == COMPILE_STEPS_MAX)
		return offload_compile_not_done(b, " with so many others");
	more = realloc(all->groups, (all->groups_count + UINT64_C(1)) * sizeof(*more));
	if (!more)
		return star_error_set(b->err, -ENOMEM, "out of memory for a plan");
	all->groups = more;
	more[all->groups_count++] = (struct compile_group){ .last_part = c->part };
	c->group = all->groups_count;
	c->begins = true;
	c->steps[c->steps_count++] = (struct compile_step){ .kind = COMPILE_KEEP };
	return 0;
}

/* Whether the current component comes after all others that use that group's entry. */
static bool is_next(const struct compile_build *b, const struct compiled *from)
{
	const uint32_t last = from->group ? group_of(b, from)->last_part : from->part;

	return last == b->index || comes_after(b, b->index, last);
}

static int join_step(struct compile_build *b, struct compiled *from)
{
	struct compiled *c = b->c;
	struct compile_group *group;

	if (c->group)
		return c->group == from->group ? 0 : offload_compile_not_done(b, " with rows of two earlier requests");
	if (!is_next(b, from))
		return offload_compile_not_done(b, " with rows that another request needs at the same time");
	if (begin_group(b, from) < 0)
		return b->err->code;
	group = group_of(b, from);
	c->group = from->group;
	c->feeds[0].kept = c->steps[0].kept = true;
	group->remembers |= !c->blocks && c->feeds[0].source.feed == COMPILE_NO_FEED;
	if (group->last_part != b->index || c->after > group->last_after)
		group->last_after = c->after;
	group->last_part = b->index;
	return 0;
}

/* The place in which a step's rows or segments are kept. */
static int keep_step(struct compile_build *b, struct compiled *from, unsigned step)
{
	struct compile_group *group = group_of(b, from);

	if (from->steps[step].kept)
		return from->steps[step].place;
	for (unsigned s = 0; s < from->steps_count; s++)
		if (from->steps[s].kind == COMPILE_KEEP && from->steps[s].a == step)
			return from->steps[s].place;
	if (from->steps_count == COMPILE_STEPS_MAX || group->places == COMPILE_PLACES_MAX)
		return offload_compile_not_done(b, " with so many others");
	from->steps[from->steps_count++] =
		(struct compile_step){ .kind = COMPILE_KEEP, .a = (uint8_t)step, .place = (uint8_t)group->places };
	return (int)group->places++;
}

/* ---- rows ---- */

static bool is_rows(const struct compile_step *step)
{
	return step->kind == COMPILE_ROWS || step->kind == COMPILE_LOOKUP || step->kind == COMPILE_UNARY ||
	       step->kind == COMPILE_BINARY || step->kind == COMPILE_UNPOOL;
}

struct compiled *offload_compile_maker(const struct compile_build *b, struct graph_value value, unsigned *step)
{
	for (uint32_t p = 0; p < b->index; p++) {
		const struct graph_part *part = &b->plan->parts[p];
		const struct compile_parts *parts = &b->all->parts[p];

		if (part->place != b->part->place || parts->made[value.node] == COMPILE_NOT_MADE)
			continue;
		*step = parts->made[value.node];
		for (uint32_t i = 0; i < part->nodes_count; i++)
			if (part->nodes[i] == value.node)
				return is_rows(&parts->list[parts->in[i] - 1].steps[*step])
					       ? &parts->list[parts->in[i] - 1]
					       : NULL;
	}
	return NULL;
}

static bool same_table(const struct compile_build *b, const struct compiled *x, const struct compiled *y)
{
	const struct graph *graph = b->plan->graph;

	return graph_resource(graph, (struct graph_value){ x->handle, 0 }) ==
		       graph_resource(graph, (struct graph_value){ y->handle, 0 }) &&
	       graph_same(x->ids, y->ids);
}

int offload_compile_take(struct compile_build *b, struct graph_value value, uint32_t dim)
{
	unsigned step;
	struct compiled *from = offload_compile_maker(b, value, &step);
	struct compile_feed feed = { .kind = COMPILE_ROWS, .source = { .feed = COMPILE_NO_FEED }, .kept = true };
	uint32_t index;
	int place;

	if (!from)
		return offload_compile_not_done(b, " with this input");
	if (!same_table(b, from, b->c))
		return offload_compile_not_done(b, " with rows of other ids");
	if (join_step(b, from) < 0)
		return b->err->code;
	place = keep_step(b, from, step);
	feed.place = (uint8_t)place;
	feed.dim = dim;
	return place < 0 ? place : offload_compile_add_feed(b, feed, &index);
}

/* ---- ids, and the worker's values for each of them ---- */

static unsigned step_of(const struct compiled *c, unsigned feed)
{
	unsigned f = 0, s = 0;

	for (; c->steps[s].kind > COMPILE_SEGMENT_ROWS || f++ != feed; s++)
		;
	return s;
}

/* A gradient's segments may be those of its bag after a cast to a wider type. */
static struct graph_value narrow_kept(const struct compile_build *b, struct graph_value value)
{
	const struct graph_node *node = b->plan->graph->nodes[value.node];

	return node->op == GRAPH_CAST && graph_ps_type(b->plan, value)->dtype == STAR_INT64 &&
			       graph_ps_type(b->plan, node->inputs[0])->dtype == STAR_INT32
		       ? node->inputs[0]
		       : value;
}

static bool same_source(const struct compile_build *b, const struct compiled *from, const struct compile_feed *x,
			const struct compile_feed *y)
{
	if (x->source.constant != y->source.constant ||
	    (x->source.feed == COMPILE_NO_FEED) != (y->source.feed == COMPILE_NO_FEED))
		return false;
	return x->source.feed == COMPILE_NO_FEED ||
	       graph_same(narrow_kept(b, b->plan->parts[from->part].feeds[x->source.feed]),
			  narrow_kept(b, b->part->feeds[y->source.feed]));
}

/* Whether a feed of both components has the same value for each id. */
static bool same_feed(const struct compile_build *b, const struct compiled *from, const struct compile_feed *x,
		      const struct compile_feed *y)
{
	if (x->kind != y->kind || (x->how == COMPILE_NEIGHBOURS) != (y->how == COMPILE_NEIGHBOURS) ||
	    x->dim != y->dim || x->kept || y->kept || (x->kind != COMPILE_ROWS && x->kind != COMPILE_SEGMENTS) ||
	    !same_source(b, from, x, y))
		return false;
	return x->how != COMPILE_NEIGHBOURS || from->bags.lead == b->c->bags.lead;
}

/* The component that begins a group with these ids, or can begin one. */
static struct compiled *beginner(const struct compile_build *b)
{
	for (uint32_t p = 0; p < b->index; p++) {
		const struct compile_parts *parts = &b->all->parts[p];

		for (uint32_t i = 0; b->plan->parts[p].place == b->part->place && i < parts->count; i++) {
			struct compiled *from = &parts->list[i];

			if (b->c->group ? from->begins && from->group == b->c->group
					: (from->begins || !from->group) && same_table(b, from, b->c) &&
						  is_next(b, from) && from->steps_count < COMPILE_STEPS_MAX)
				return from;
		}
	}
	return NULL;
}

int offload_compile_share(struct compile_build *b)
{
	struct compiled *c = b->c, *from = beginner(b);

	if (!from || (c->blocks && !c->group)) /* block numbers take at most a thousandth of the blocks' bytes */
		return 0;
	if (join_step(b, from) < 0)
		return b->err->code;
	for (unsigned f = 1; f < c->feeds_count; f++)
		for (unsigned g = 1; g < from->feeds_count && !c->feeds[f].kept; g++) {
			struct compile_step *step = &c->steps[step_of(c, f)];
			int place;

			if (!same_feed(b, from, &from->feeds[g], &c->feeds[f]) ||
			    from->steps_count == COMPILE_STEPS_MAX || group_of(b, c)->places == COMPILE_PLACES_MAX)
				continue;
			place = keep_step(b, from, step_of(from, g));
			if (place < 0)
				return place;
			c->feeds[f].kept = step->kept = true;
			c->feeds[f].place = step->place = (uint8_t)place;
		}
	return 0;
}

/* ---- steps ---- */

void offload_compiled_left_free(const struct compile_plan *all, struct compiled_left *left)
{
	for (uint32_t g = 0; left && g < all->groups_count; g++)
		free(left[g].ids.data);
	free(left);
}

int offload_compiled_leave(const struct compile_plan *all, const struct compiled *c, const struct graph_ps_call *call,
			   uint64_t tag, struct compiled_left *left, struct star_error *err)
{
	const struct graph_tensor *ids;

	if (!c->begins)
		return 0;
	left += c->group - 1;
	left->tag = tag;
	if (!all->groups[c->group - 1].remembers)
		return 0;
	ids = &call->feeds[c->feeds[0].source.feed];
	if (!left->ids.data)
		left->ids.data = malloc(graph_type_bytes(graph_ps_type(call->plan, c->ids)) + 1);
	if (!left->ids.data)
		return star_error_set(err, -ENOMEM, "out of memory for a step's ids");
	left->ids.type = ids->type;
	memcpy(left->ids.data, ids->data, graph_type_bytes(&ids->type));
	return 0;
}
