/* SPDX-License-Identifier: BSD-3-Clause */
/* What is kept on PS tasks between a step's requests, by which part, and which part takes it. The bits are tested by
 * tests/system/compute.test. */
#include "exec/exec.h"
#include "offload/compile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "graph/gradient.h"
#include "graph/text.h"
#include "offload/cut.h"
#include "offload/traffic.h"
#include "tests/train/cases.h"
#include "tests/unit.h"

enum { IDS = 100, DIM = 8, BAGS = 16 };

static int64_t batch = IDS; /* the sizes that the cut takes */

static const char head[] = "star 1\n"
			   "ids = feed() dtype=\"int64\" shape=[-1]\n"
			   "segments = feed() dtype=\"int32\" shape=[-1]\n"
			   "wanted = feed() dtype=\"float32\" shape=[16, 8]\n"
			   "table = table() dtype=\"float32\" dim=8 initializer=\"zeros\" optimizer=\"sgd\" rate=0.5 "
			   "trainable=1 @/job:ps\n"
			   "rows = lookup(table, ids)\n";

static const struct graph_plan_feed feeds[] = {
	{ "ids", { .dtype = STAR_INT64, .shape = { .ndim = 1, .dims = { IDS } } } },
	{ "segments", { .dtype = STAR_INT32, .shape = { .ndim = 1, .dims = { IDS } } } },
	{ "wanted", { .dtype = STAR_FLOAT32, .shape = { .ndim = 2, .dims = { BAGS, DIM } } } },
};

static struct compile_plan *all;
static bool counts, once;		/* the cut counts bytes; the plan needed nothing compiled beyond that */
static const struct compiled *found[8]; /* components, by part */
static unsigned count;

static int prepare(void *ctx, const struct graph_ps_plan *plan, void **prepared, struct star_error *err)
{
	(void)ctx;
	*prepared = NULL;
	once = offload_compile_found(plan) != NULL;
	all = offload_compile_parts(plan, err);
	for (uint32_t p = 0; all && p < all->parts_count; p++)
		for (uint32_t i = 0; i < all->parts[p].count && count < 8; i++)
			found[count++] = &all->parts[p].list[i];
	return all ? 0 : err->code;
}

/* Compiles the PS parts of a graph; with its loss's gradient, if it has one. */
static int compile(const char *body, enum graph_protocol protocol, bool trains, struct star_error *err)
{
	const struct graph_ps ps = { .prepare = prepare };
	const struct graph_plan_options options = { .feeds = feeds, .feeds_count = 3, .ps = &ps };
	const struct graph_cut_options cut_options = { .protocol = protocol,
						       .ps_tasks = 1,
						       .reactors = 1,
						       .batch = batch,
						       .may_move = offload_compile_may_move,
						       .count = counts ? offload_traffic_count : NULL };
	char text[2048];
	struct graph *graph;
	struct graph_cut *cut;
	struct graph_plan *plan;

	all = NULL;
	count = 0;
	snprintf(text, sizeof(text), "%s%s", head, body);
	graph = graph_parse(text, strlen(text), "text", err);
	if (!CHECK(graph) || (trains && !CHECK_INT(graph_train(graph, graph->results[0], NULL, NULL), 0)))
		return -EINVAL;
	cut = graph_cut_create(graph, &cut_options, err);
	plan = cut ? graph_compile(graph, cut, &options, err) : NULL;
	graph_plan_destroy(plan);
	graph_cut_destroy(cut);
	graph_destroy(graph);
	return plan ? 0 : err->code;
}

/* Places that a component's steps keep something in, as bits; those of keys as 256. */
static unsigned keeps(const struct compiled *c)
{
	unsigned bits = 0;

	for (unsigned s = 0; s < c->steps_count; s++)
		if (c->steps[s].kind == COMPILE_KEEP)
			bits |= c->steps[s].a == 0 ? 256 : 1U << c->steps[s].place;
	return bits;
}

/* Places that its feeds are in; the keys' as 256. */
static unsigned takes(const struct compiled *c)
{
	unsigned bits = 0;

	for (unsigned f = 0; f < c->feeds_count; f++)
		if (c->feeds[f].kept)
			bits |= f == 0 ? 256 : 1U << c->feeds[f].place;
	return bits;
}

/* Two requests later; the last part is not given the ids. */
void rows_are_kept_for_later_parts(void)
{
	static const char body[] = "squared = mul(rows, rows) @/job:ps\n"
				   "scale = tanh(squared)\n"
				   "weighted = mul(squared, scale) @/job:ps\n"
				   "much = sigmoid(weighted)\n"
				   "again = mul(weighted, much) @/job:ps\n"
				   "more = add(again, squared) @/job:ps\n"
				   "results more\n";
	struct star_error err = { 0 };

	if (!CHECK_INT(compile(body, GRAPH_STAR_SERVER, false, &err), 0))
		printf("# %s\n", err.text);
	if (!CHECK_UINT(count, 3) || !CHECK_UINT(all->groups_count, 1))
		return;
	CHECK(found[0]->begins && !found[1]->begins && !found[2]->begins);
	for (unsigned i = 0; i < 3; i++)
		CHECK_UINT(found[i]->group, 1);
	CHECK_UINT(keeps(found[0]), 256 | 1);
	CHECK_UINT(takes(found[1]), 256 | 1);
	CHECK_UINT(keeps(found[1]), 2);
	CHECK_UINT(takes(found[2]), 256 | 2 | 1);
	CHECK_UINT(keeps(found[2]), 0);
	CHECK_UINT(found[1]->feeds[0].source.feed, COMPILE_NO_FEED);
	CHECK(all->groups[0].remembers);
	CHECK_UINT(all->groups[0].last_part, found[2]->part);
	CHECK_UINT(all->groups[0].last_after, found[2]->after);
	offload_compile_free(all);
}

/* The gradients' request of a pool: it brings the bags' gradients, and nothing for each id. */
void ids_and_segments_are_sent_once(void)
{
	static const char body[] = "bag = segment_sum(rows, segments, wanted)\n"
				   "off = sub(bag, wanted)\n"
				   "square = square(off)\n"
				   "loss = mean(square)\n"
				   "results loss\n";
	struct star_error err = { 0 };

	if (!CHECK_INT(compile(body, GRAPH_STAR_SERVER_LITE, true, &err), 0))
		printf("# %s\n", err.text);
	if (!CHECK_UINT(count, 2) || !CHECK_UINT(all->groups_count, 1))
		return;
	CHECK(found[0]->begins);
	CHECK_UINT(keeps(found[0]), 256 | 1);
	CHECK_UINT(takes(found[1]), 256 | 1);
	CHECK(found[1]->feeds[0].source.feed != COMPILE_NO_FEED && !all->groups[0].remembers);
	for (unsigned f = 1; f < found[1]->feeds_count; f++)
		CHECK_INT(found[1]->feeds[f].kept, found[1]->feeds[f].kind == COMPILE_SEGMENTS);
	CHECK_UINT(all->groups[0].last_part, found[1]->part);
	offload_compile_free(all);
}

/* Of a variable that the worker has no other use for; its sum alone is returned, however its size is written. */
void a_variable_goes_by_its_blocks(void)
{
	static const char body[] = "w = variable() dtype=\"float32\" shape=[70, 300] @/job:ps\n"
				   "value = read(w)\n"
				   "by = const() value=float32[]{0.01}\n"
				   "less = mul(by, value)\n"
				   "square = square(less)\n"
				   "penalty = mean(square)\n"
				   "results penalty\n";
	struct star_error err = { 0 };

	if (!CHECK_INT(compile(body, GRAPH_STAR_SERVER_LITE, false, &err), 0))
		printf("# %s\n", err.text);
	if (!CHECK_UINT(count, 1))
		return;
	CHECK_UINT(found[0]->block, 900);
	CHECK_UINT(found[0]->blocks, 24);
	CHECK_UINT(found[0]->elements, 21000);
	CHECK_UINT(found[0]->fetches_count, 1);
	CHECK_UINT(found[0]->fetches[0].how, COMPILE_AVERAGED);
	CHECK_UINT(found[0]->feeds_count, 2);
	CHECK_UINT(all->groups_count, 0);
	offload_compile_free(all);
}

/* Which follows from pulls and pushes: lite leaves it alone, and what its author has put there is refused. */
void staleness_needs_pulls_and_pushes(void)
{
	static const char stale[] = "w = variable() dtype=\"float32\" shape=[2000] staleness=1 @/job:ps\n"
				    "value = read(w)\n"
				    "all = sum(value) %s\n"
				    "results all\n";
	struct star_error err = { 0 };
	char body[512];

	for (unsigned placed = 0; placed < 2; placed++) {
		snprintf(body, sizeof(body), stale, placed ? "@/job:ps" : "");
		CHECK_INT(compile(body, GRAPH_STAR_SERVER_LITE, false, &err), placed ? -ENOTSUP : 0);
		CHECK_UINT(count, 0);
		offload_compile_free(all);
	}
	CHECK_HAS(err.text, "if the optimizer uses staleness");
}

/* Nothing of a pool stays, as each reactor has its part of it. */
void what_cannot_be_kept_is_told(void)
{
	static const char body[] = "bag = segment_sum(rows, segments, wanted) @/job:ps\n"
				   "scale = tanh(bag)\n"
				   "weighted = mul(bag, scale) @/job:ps\n"
				   "results weighted\n";
	struct star_error err = { 0 };

	CHECK_INT(compile(body, GRAPH_STAR_SERVER, false, &err), -ENOTSUP);
	CHECK_HAS(err.text, "node \"weighted\": PS tasks do not support mul");
	offload_compile_free(all);
}

/* A gradient's node has a generated name: the message also names the reduction that is in the author's graph. */
void an_unsupported_gradient_names_what_it_is_of(void)
{
	static const char body[] = "row = sum(rows) axes=[1] %s@/job:ps\n"
				   "loss = sum(row)\n"
				   "results loss\n";
	static const struct {
		const char *attrs, *why;
	} cases[] = {
		{ "", ", for the gradient of \"row\": PS tasks do not support reshape" },
		{ "keep=1 ", ", for the gradient of \"row\": PS tasks do not support expand" },
	};
	char text[512];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct star_error err = { 0 };

		snprintf(text, sizeof(text), body, cases[i].attrs);
		CHECK_INT(compile(text, GRAPH_STAR_SERVER, true, &err), -ENOTSUP);
		CHECK_HAS(err.text, cases[i].why);
		CHECK_HAS(err.text, ": give \"row\" the device /job:worker");
		offload_compile_free(all);
	}
}

/* The programs from which the cut counted its bytes are executed: unless it counted nothing, or for other sizes, or the
 * plan has divided its parts. */
void a_cut_is_compiled_once(void)
{
	static const char body[] = "half = mul(rows, rows) @/job:ps\n"
				   "bag = segment_sum(half, segments, wanted)\n"
				   "results bag\n";
	static const struct {
		enum graph_protocol protocol;
		bool counts;
		int64_t batch;
		bool once;
	} cases[] = { { GRAPH_STAR_SERVER, true, IDS, true },
		      { GRAPH_STAR_SERVER_LITE, true, IDS, true },
		      { GRAPH_STAR_SERVER, true, IDS - 1, false },
		      { GRAPH_STAR_SERVER, false, IDS, false },
		      { GRAPH_GRPCPP, true, IDS, false } };
	struct star_error err = { 0 };

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		counts = cases[i].counts;
		batch = cases[i].batch;
		if (!CHECK_INT(compile(body, cases[i].protocol, false, &err), 0))
			printf("# %s\n", err.text);
		if (!CHECK_INT(once, cases[i].once))
			printf("# case %u\n", i);
		offload_compile_free(all);
	}
	counts = false;
	batch = IDS;
}
