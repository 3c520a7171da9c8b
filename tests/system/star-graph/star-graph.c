/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trains a graph: star-graph PS FILE PROTOCOL STEPS adds training to the graph of a file, whose only result is its
 * loss, unless it applies gradients itself, and prints the loss of each step, all of its bits. Feeds are drawn again
 * for each step: ids in [0, 16384), other integers in [0, 16), floats in [-1, 1). Of those whose first size is open it
 * is between 0 and MOST, the same for all; none in the first step.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec.h"
#include "base/prng.h"
#include "graph/build.h"
#include "graph/gradient.h"
#include "graph/text.h"
#include "train/session.h"
#include "tensor/dtype.h"

enum { FEEDS_MAX = 16, MOST = 240 };

static struct graph_plan_feed feeds[FEEDS_MAX];
static struct graph_tensor tensors[FEEDS_MAX];
static bool is_open[FEEDS_MAX];
static uint32_t feeds_count;

static int add_feeds(const struct graph *graph, struct star_error *err)
{
	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		if (node->op != GRAPH_FEED)
			continue;
		struct graph_type type = node->outputs[0];
		const bool open = type.shape.ndim && type.shape.dims[0] < 0;

		if (open)
			type.shape.dims[0] = MOST;
		if (feeds_count == FEEDS_MAX || !graph_type_bytes(&type))
			return star_error_set(err, -EINVAL, "up to %d feeds, with all but first sizes known",
					      FEEDS_MAX);
		is_open[feeds_count] = open;
		feeds[feeds_count] = (struct graph_plan_feed){ node->name, type };
		tensors[feeds_count++] = (struct graph_tensor){ type, calloc(1, graph_type_bytes(&type)) };
	}
	return 0;
}

/* Ids hardly ever come twice; all other integers may be segments. */
static uint32_t below(uint32_t feed)
{
	return strcmp(feeds[feed].name, "ids") ? 16 : 1 << 14;
}

static void draw(struct prng *prng, uint64_t step)
{
	for (uint32_t f = 0; f < feeds_count; f++) {
		if (is_open[f])
			tensors[f].type.shape.dims[0] = (int64_t)(step * 77 % (MOST + 1));
		for (int64_t i = 0; i < graph_elements(&tensors[f].type.shape); i++)
			switch (tensors[f].type.dtype) {
			case STAR_FLOAT32:
				((float *)tensors[f].data)[i] = (float)(2 * prng_unit(prng) - 1);
				break;
			case STAR_INT32:
				((int32_t *)tensors[f].data)[i] = (int32_t)prng_below(prng, 16);
				break;
			default:
				((int64_t *)tensors[f].data)[i] = (int64_t)prng_below(prng, below(f));
			}
	}
}

static int train(struct graph *graph, const char *ps, const char *protocol, uint64_t steps, struct star_error *err)
{
	static const char *const names[] = { SESSION_LOSS };
	const struct session_config config = {
		.ps = ps, .protocol = protocol, .log_step_count_steps = 1000000, .deadline_us = 20000000
	};
	const struct session_model model = { graph, names, feeds, feeds_count };
	struct session *session = session_create(&config, &model, NULL, 0, err);
	const struct graph_tensor *results;
	struct prng prng;
	int rc = session ? 0 : err->code;

	prng_seed(&prng, 1);
	for (uint64_t i = 0; rc == 0 && i < steps; i++) {
		draw(&prng, i);
		rc = session_run(session, tensors, &results, err);
		if (rc == 0)
			printf("%.9g\n", *(const float *)results[0].data);
	}
	session_close(session, NULL);
	return rc;
}

static bool applies(const struct graph *graph)
{
	bool found = false;

	for (uint32_t i = 0; i < graph->nodes_count; i++)
		found |= graph->nodes[i]->op == GRAPH_APPLY;
	return found;
}

int main(int argc, char **argv)
{
	struct star_error err = { .text = "usage: star-graph PS FILE PROTOCOL STEPS" };
	struct graph *graph = argc == 5 ? graph_load(argv[2], &err) : NULL;
	int rc = graph ? add_feeds(graph, &err) : -1;

	if (rc == 0 && !applies(graph) &&
	    (graph_train(graph, graph->results[0], NULL, NULL) < 0 || graph_error(graph, &err) < 0))
		rc = graph_error(graph, &err);
	if (rc == 0)
		rc = train(graph, argv[1], argv[3], strtoull(argv[4], NULL, 10), &err);
	for (uint32_t i = 0; i < feeds_count; i++)
		free(tensors[i].data);
	graph_destroy(graph);
	if (rc == 0)
		return EXIT_SUCCESS;
	fprintf(stderr, "star-graph: %s\n", err.text);
	return EXIT_FAILURE;
}
