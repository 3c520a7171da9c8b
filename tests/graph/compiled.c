/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs that hold can be compiled: what the builder accepts, at the sizes that it was given. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "exec/exec.h"
#include "graph/build.h"
#include "graph/text.h"
#include "tests/graph/cases.h"
#include "tests/graph/random.h"
#include "tests/graph/support.h"
#include "tests/unit.h"

enum { GRAPHS = 800, FEEDS_MAX = 64 };

static int start(void *ctx, const struct graph_ps_call *call, void **token, struct star_error *err)
{
	return -ENOSYS;
}

static int wait(void *ctx, const struct graph_ps_call *call, void *token, struct star_error *err)
{
	return -ENOSYS;
}

static uint32_t list_feeds(const struct graph *graph, struct graph_plan_feed feeds[FEEDS_MAX])
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < graph->nodes_count && count < FEEDS_MAX; i++)
		if (graph->nodes[i]->op == GRAPH_FEED)
			feeds[count++] = (struct graph_plan_feed){ graph->nodes[i]->name, graph->nodes[i]->outputs[0] };
	return count;
}

/* Whether a step decides a size: the builder cannot know whether two such are the same. */
static bool is_open(const struct graph *graph)
{
	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		for (uint32_t o = 0; node->op == GRAPH_WHILE && o < node->outputs_count; o++)
			if (node->outputs[o].dtype && graph_elements(&node->outputs[o].shape) < 0)
				return true;
		if (node->op == GRAPH_UNIQUE ||
		    (node->op == GRAPH_HEAD && graph->nodes[node->inputs[1].node]->op != GRAPH_CONST) ||
		    (node->body && (is_open(node->body) || is_open(node->cond))))
			return true;
	}
	return false;
}

void what_holds_can_be_compiled(void)
{
	static const struct graph_ps ps = { .start = start, .wait = wait };
	struct graph_plan_feed feeds[FEEDS_MAX];
	struct prng p;
	unsigned bad = 0, heads = 0;

	prng_seed(&p, 16);
	for (unsigned i = 0; i < GRAPHS; i++) {
		struct graph *graph = random_graph(&p, 30, false);
		const struct graph_plan_options options = { .feeds = feeds,
							    .feeds_count = list_feeds(graph, feeds),
							    .ps = &ps };
		struct star_error err = { 0 };
		struct graph_plan *plan = graph_compile(graph, NULL, &options, &err);

		for (uint32_t n = 0; n < graph->nodes_count; n++)
			heads += graph->nodes[n]->op == GRAPH_HEAD;
		if (!plan && !is_open(graph)) {
			printf("# graph %u: %s\n", i, err.text);
			bad++;
		}
		graph_plan_destroy(plan);
		graph_destroy(graph);
	}
	CHECK_UINT(bad, 0);
	CHECK(heads > 100);
}
