/* SPDX-License-Identifier: BSD-3-Clause */
/* Registers and runs the programs of compiled components. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "compile_internal.h"

/* ---- registering ---- */

static int add_step(struct star_program_builder *b, const struct compiled *c, const struct compile_step *s,
		    const struct star_table *table)
{
	switch (s->kind) {
	case COMPILE_KEYS:
		return s->kept ? star_program_kept_keys(b, table) : star_program_keys(b, table);
	case COMPILE_ROWS:
		return s->kept ? star_program_kept_rows(b, 0, s->dim, s->place) : star_program_rows(b, 0, s->dim);
	case COMPILE_SHARED:
		return star_program_shared(b, s->dim);
	case COMPILE_SEGMENTS:
		return s->kept ? star_program_kept_segments(b, 0, s->place) : star_program_few_segments(b, 0, s->most);
	case COMPILE_KEEP:
		return star_program_keep(b, s->a, s->place);
	case COMPILE_SEGMENT_ROWS:
		return star_program_segment_rows(b, s->dim);
	case COMPILE_LOOKUP:
		return star_program_lookup(b, 0, c->read_only ? STAR_READ_ONLY : 0);
	case COMPILE_UNARY:
		return star_program_unary(b, s->name, s->a, 0);
	case COMPILE_BINARY:
		return star_program_binary(b, s->name, s->a, s->b);
	case COMPILE_POOL:
		return star_program_pool(b, s->a, s->b);
	case COMPILE_UNPOOL:
		return star_program_unpool(b, s->a, s->b);
	case COMPILE_APPLY:
		return star_program_apply(b, 0, s->b);
	default:
		return star_program_fetch(b, s->a);
	}
}

struct star_program *offload_compile_register(const struct compiled *c, struct star_cluster *cluster,
					      const struct star_table *table, uint64_t deadline_us,
					      struct star_error *err)
{
	struct star_program_builder *b = star_program_begin(cluster);
	struct star_program *program;
	struct star_error why = { 0 };

	for (unsigned s = 0; s < c->steps_count; s++)
		add_step(b, c, &c->steps[s], table);
	program = star_program_register(b, deadline_us, &why);
	if (program)
		return program;
	*err = why;
	if (why.code == -EINVAL || why.code == -E2BIG || why.code == -ENOSPC)
		star_error_set(
			err, -ENOTSUP,
			"node \"%s\" and the nodes around it are not supported by PS tasks: %s: give them the device "
			"/job:worker",
			c->first->name, why.text);
	return NULL;
}

/* ---- running ---- */

const void *offload_compiled_data(const struct compile_source *source, const struct graph_ps_call *call)
{
	if (source->constant)
		return source->constant->data;
	return source->feed != COMPILE_NO_FEED ? call->feeds[source->feed].data : &source->number;
}

const struct graph_type *offload_compiled_type(const struct compile_source *source, const struct graph_ps_call *call)
{
	return source->constant ? &source->constant->type : &call->feeds[source->feed].type;
}

/* The part's feed with the ids, or the ids of an earlier request of the step. */
static const struct graph_tensor *ids_of(const struct compiled *c, const struct graph_ps_call *call,
					 const struct compiled_left *left)
{
	const uint32_t feed = c->feeds[0].source.feed;

	return feed != COMPILE_NO_FEED ? &call->feeds[feed] : &left[c->group - 1].ids;
}

static int64_t bags_of(const struct compiled *c, const struct graph_shape *ids, const struct graph_ps_call *call)
{
	int64_t count = 1;

	if (c->bags.lead == 0)
		return 0;
	if (c->bags.like.constant || c->bags.like.feed != COMPILE_NO_FEED)
		return offload_compiled_type(&c->bags.like, call)->shape.dims[0];
	for (unsigned i = 0; i < c->bags.lead; i++)
		count *= ids->dims[i];
	return count;
}

static int make_segments(const struct compiled *c, const struct compile_feed *feed, const struct graph_ps_call *call,
			 uint32_t keys, uint32_t bags, uint32_t *to, struct star_error *err)
{
	const int64_t *from = offload_compiled_data(&feed->source, call);

	for (uint32_t i = 0; i < keys; i++) {
		to[i] = feed->how == COMPILE_NEIGHBOURS ? i / (keys / bags) : (uint32_t)from[i];
		if (feed->how == COMPILE_NARROWED && (from[i] < 0 || from[i] >= bags))
			return star_error_set(err, -EINVAL, "node \"%s\": an index is %lld, of %u", c->first->name,
					      (long long)from[i], bags);
	}
	return 0;
}

/* The number of keys of each bag, or its square root: the divisor of a mean. */
static void count_keys(const struct star_feed *segments, uint32_t keys, uint32_t bags, uint32_t *counts)
{
	const uint32_t *segment = segments->data;

	memset(counts, 0, bags * sizeof(*counts));
	for (uint32_t i = 0; i < keys; i++)
		if (segment[i] < bags) /* others are refused when the run is executed */
			counts[segment[i]]++;
}

static double divisor(uint8_t how, uint32_t count)
{
	return how == COMPILE_DIVIDED ? count : sqrt((double)count);
}

/* Divides a bag's gradient before it is sent, with the same bits as lib/exec's kernel. */
static void divide_rows(const struct compile_feed *feed, const struct graph_ps_call *call,
			const struct compiled_run *run, uint32_t keys, uint32_t bags)
{
	const float *from = offload_compiled_data(&feed->source, call);
	float *to = (float *)(void *)(run->scratch + feed->scratch);
	uint32_t *counts = (uint32_t *)(void *)(to + (size_t)bags * feed->dim);

	count_keys(&run->feeds[feed->segments], keys, bags, counts);
	for (uint32_t t = 0; t < bags; t++) {
		const float weight = counts[t] ? (float)(1 / divisor(feed->how, counts[t])) : 0;

		for (uint32_t k = 0; k < feed->dim; k++)
			to[(size_t)t * feed->dim + k] = from[(size_t)t * feed->dim + k] * weight;
	}
}

/* Whether a tensor has the type and size that the program was compiled for. */
static bool feed_fits(const struct compile_feed *feed, const struct graph_ps_call *call, uint32_t keys, uint32_t bags)
{
	const uint64_t rows = feed->kind == COMPILE_SEGMENT_ROWS ? bags : feed->kind == COMPILE_SHARED ? 1 : keys;

	if (!feed->source.constant && feed->source.feed == COMPILE_NO_FEED)
		return true;
	return (uint64_t)graph_elements(&offload_compiled_type(&feed->source, call)->shape) ==
	       rows * (feed->dim ? feed->dim : 1);
}

static int fill_feed(const struct compiled *c, unsigned f, const struct graph_ps_call *call, struct compiled_run *run,
		     uint32_t keys, uint32_t bags, struct star_error *err)
{
	const struct compile_feed *feed = &c->feeds[f];
	int rc = 0;

	if (!feed_fits(feed, call, keys, bags))
		return star_error_set(err, -EINVAL, "node \"%s\": its input does not have the size of its rows",
				      c->first->name);
	run->feeds[f] = (struct star_feed){ offload_compiled_data(&feed->source, call), 0 };
	if (feed->kept && !feed->source.constant && feed->source.feed == COMPILE_NO_FEED &&
	    feed->how == COMPILE_AS_IT_IS)
		run->feeds[f].data = NULL; /* it is computed there, and nowhere else */
	if (feed->how == COMPILE_AS_IT_IS)
		return 0;
	run->feeds[f].data = run->scratch + feed->scratch;
	if (feed->kind == COMPILE_SEGMENTS)
		rc = make_segments(c, feed, call, keys, bags, (uint32_t *)(void *)(run->scratch + feed->scratch), err);
	else
		divide_rows(feed, call, run, keys, bags);
	return rc;
}

/* Whether no later component uses what is kept for its group. */
static bool is_last(const struct compile_plan *all, const struct compiled *c)
{
	const struct compile_group *group = &all->groups[c->group - 1];

	return !c->begins && c->part == group->last_part && c->after == group->last_after;
}

/* For components with ids: 1; 0: there are no ids, so nothing has to be done. */
static int fill_by_ids(const struct compiled *c, const struct graph_ps_call *call, const struct compiled_left *left,
		       struct compiled_run *run, struct star_error *err)
{
	const struct graph_tensor *ids = ids_of(c, call, left);
	const int64_t keys = graph_elements(&ids->type.shape), bags = bags_of(c, &ids->type.shape, call);
	int rc = 0;

	for (unsigned f = 0; f < c->fetches_count; f++) {
		const struct graph_tensor *to = &call->fetches[c->fetches[f].fetch];

		run->fetches[f] = to->data;
		if (keys == 0)
			memset(to->data, 0, graph_type_bytes(&to->type));
	}
	if (keys == 0)
		return 0;
	if (keys > UINT32_MAX || bags > COMPILE_SEGMENTS_MAX || (c->bags.lead && bags == 0))
		return star_error_set(err, bags ? -E2BIG : -EINVAL, "node \"%s\": %lld ids in %lld bags",
				      c->first->name, (long long)keys, (long long)bags);
	run->feeds[0] = (struct star_feed){ ids->data, (uint32_t)keys };
	for (unsigned f = 1; rc == 0 && f < c->feeds_count; f++)
		rc = fill_feed(c, f, call, run, (uint32_t)keys, (uint32_t)bags, err);
	run->run.segments = (uint32_t)bags;
	return rc < 0 ? rc : 1;
}

int offload_compiled_fill(const struct compile_plan *all, const struct compiled *c, struct star_program *program,
			  const struct graph_ps_call *call, const struct compiled_left *left, struct compiled_run *run,
			  struct star_op *op, struct star_error *err)
{
	const int rc =
		c->blocks ? offload_compiled_blocks_fill(c, call, run, err) : fill_by_ids(c, call, left, run, err);

	if (rc <= 0)
		return rc;
	run->run = (struct star_run){ .program = program,
				      .feeds = run->feeds,
				      .feeds_count = c->feeds_count,
				      .fetches = run->fetches,
				      .fetches_count = c->fetches_count,
				      .segments = c->blocks ? 0 : run->run.segments,
				      .tag = c->group ? left[c->group - 1].tag : 0,
				      .last = c->group && is_last(all, c) };
	*op = (struct star_op){ .kind = STAR_RUN,
				.flags = c->applies.flags,
				.run = &run->run,
				.step = call->step,
				.rate = c->applies.rate,
				.scale = c->applies.scale };
	return 1;
}

void offload_compiled_finish(const struct compiled *c, const struct graph_ps_call *call, const struct compiled_run *run)
{
	const uint32_t bags = run->run.segments;

	if (c->blocks) {
		offload_compiled_blocks_finish(c, call, run);
		return;
	}
	for (unsigned f = 0; f < c->fetches_count; f++) {
		const struct compile_fetch *fetch = &c->fetches[f];
		const struct graph_tensor *tensor = &call->fetches[fetch->fetch];
		uint32_t *counts = (uint32_t *)(void *)(run->scratch + fetch->scratch);
		const size_t dim =
			fetch->how == COMPILE_AS_IT_IS ? 0 : (size_t)graph_elements(&tensor->type.shape) / bags;

		if (dim == 0)
			continue;
		count_keys(&run->feeds[fetch->segments], run->feeds[0].count, bags, counts);
		for (uint32_t t = 0; t < bags; t++) {
			const float by = counts[t] ? (float)divisor(fetch->how, counts[t]) : 1;

			for (size_t k = 0; k < dim; k++)
				((float *)tensor->data)[t * dim + k] /= by;
		}
	}
}
