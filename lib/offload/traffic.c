/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload/traffic.h"

#include "offload/compile.h"
#include "offload/template.h"
#include "wire/program.h"

/* A part, and what is known about its traffic. */
struct count {
	const struct graph_ps_plan *plan;
	const struct graph_part *part;
	struct graph_traffic *traffic;
};

static void add_feed(struct count *c, uint32_t feed, uint64_t bytes)
{
	c->traffic->to_ps += bytes;
	if (feed != COMPILE_NO_FEED)
		c->traffic->feeds[feed] += bytes;
}

static void count_fetch(struct count *c, uint32_t fetch, uint64_t bytes)
{
	c->traffic->from_ps += bytes;
	if (fetch != TEMPLATE_NOT_THERE)
		c->traffic->fetches[fetch] += bytes;
}

static uint64_t feed_bytes(const struct count *c, uint32_t feed, const struct graph_attr *constant)
{
	if (feed != COMPILE_NO_FEED)
		return graph_type_bytes(graph_ps_type(c->plan, c->part->feeds[feed]));
	return constant ? graph_type_bytes(&constant->type) : 0;
}

/* ---- operations ---- */

_Static_assert((uint32_t)TEMPLATE_NOT_THERE == (uint32_t)COMPILE_NO_FEED, "no feed");

static void count_template(struct count *c, const struct request_template *d)
{
	add_feed(c, d->keys, feed_bytes(c, d->keys, d->keys_constant));
	add_feed(c, d->values, feed_bytes(c, d->values, d->values_constant));
	if (d->op.kind == STAR_PUSH_PULL) { /* the counter of steps */
		add_feed(c, COMPILE_NO_FEED, sizeof(double));
		count_fetch(c, d->fetch, sizeof(double));
	} else if (d->fetch != TEMPLATE_NOT_THERE) {
		count_fetch(c, d->fetch, graph_type_bytes(graph_ps_type(c->plan, c->part->fetches[d->fetch])));
	}
}

/* ---- runs ---- */

static void count_feed(struct count *c, const struct compile_feed *feed, uint64_t keys)
{
	const uint64_t row = feed->dim * sizeof(float), reactors = c->traffic->reactors;
	uint64_t bytes = 0;

	if (feed->kept) {
		if (feed->source.feed != COMPILE_NO_FEED)
			c->traffic->stays[feed->source.feed] = true;
		return;
	}
	switch (feed->kind) {
	case COMPILE_KEYS:
		bytes = keys * sizeof(uint64_t);
		break;
	case COMPILE_ROWS:
		bytes = keys * row;
		break;
	case COMPILE_SEGMENTS:
		bytes = keys * program_segment_bytes(program_segments_op(feed->most));
		break;
	case COMPILE_SHARED:
		bytes = reactors * row;
		break;
	default: /* a row for each segment */
		bytes = reactors * feed_bytes(c, feed->source.feed, feed->source.constant);
	}
	add_feed(c, feed->source.feed, bytes);
}

/* Bytes that a fetch returns: for a variable as a whole its blocks, the last one padded, or a float64 for each. */
static uint64_t fetch_bytes(const struct count *c, const struct compiled *run, const struct compile_fetch *fetch)
{
	if (!run->blocks)
		return graph_type_bytes(graph_ps_type(c->plan, c->part->fetches[fetch->fetch])) *
		       (fetch->pooled ? c->traffic->reactors : 1);
	return (fetch->how == COMPILE_SUMMED || fetch->how == COMPILE_AVERAGED ? sizeof(double)
									       : run->block * sizeof(float)) *
	       run->blocks;
}

static void count_run(struct count *c, const struct compiled *run)
{
	const uint64_t keys =
		run->blocks ? run->blocks : (uint64_t)graph_elements(&graph_ps_type(c->plan, run->ids)->shape);

	for (unsigned f = 0; f < run->feeds_count; f++)
		count_feed(c, &run->feeds[f], keys);
	for (unsigned f = 0; f < run->fetches_count; f++)
		count_fetch(c, run->fetches[f].fetch, fetch_bytes(c, run, &run->fetches[f]));
}

/* ---- parts ---- */

static int count_part(struct count *c, const struct compile_parts *compiled, struct star_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc >= 0 && i < c->part->nodes_count; i++) {
		struct request_template template;

		if (compiled->in[i])
			continue;
		rc = offload_template_node(c->plan, c->part, c->plan->graph->nodes[c->part->nodes[i]], &template, err);
		if (rc > 0)
			count_template(c, &template);
	}
	for (uint32_t i = 0; rc >= 0 && i < compiled->count; i++)
		count_run(c, &compiled->list[i]);
	for (uint32_t f = 0; f < c->part->feeds_count; f++)
		c->traffic->stays[f] &= c->traffic->feeds[f] == 0; /* another operation may still send it */
	return rc < 0 ? rc : 0;
}

int offload_traffic_count(const struct graph_ps_plan *plan, struct graph_traffic *traffic, struct star_error *err)
{
	struct compile_plan *all = offload_compile_parts(plan, err);
	int rc = all ? 0 : err->code;

	for (uint32_t p = 0; rc == 0 && p < plan->parts_count; p++) {
		struct count c = { plan, &plan->parts[p], &traffic[p] };

		if (c.part->place != GRAPH_PLACE_WORKER)
			rc = count_part(&c, &all->parts[p], err);
	}
	if (rc == 0 && plan->compiled)
		*plan->compiled = all;
	else
		offload_compile_free(all);
	return rc;
}
