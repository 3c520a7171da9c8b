/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bits of a graph's results: star-bits PS FILE PROTOCOL STEPS (or SECONDSs, as many as there is time for) steps the
 * graph of a file, which is not trained but applies what it wants to, and prints a line a step with all elements of all
 * results in hexadecimal ("nan" for any NaN: which one it is, is not promised). Feeds, of known sizes, are drawn again
 * for each step: floats at all edges, int64 ids of which many come more than once, int32 segments of which some have
 * nothing. Those of int64 whose names begin with "many" have ids of which few come twice. A feed whose name begins with
 * "finite" has what can be summed: nothing that is not finite, or soon would not be.
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec.h"
#include "base/clock.h"
#include "base/prng.h"
#include "graph/build.h"
#include "graph/text.h"
#include "train/session.h"

enum { FEEDS_MAX = 16, IDS = 40, MANY_IDS = 1 << 17, SEGMENTS = 16, RESULTS_MAX = 16 };

static struct graph_plan_feed feeds[FEEDS_MAX];
static struct graph_tensor tensors[FEEDS_MAX];
static uint32_t feeds_count;

static int add_feeds(const struct graph *graph, struct star_error *err)
{
	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		if (node->op != GRAPH_FEED)
			continue;
		if (feeds_count == FEEDS_MAX || !graph_type_bytes(&node->outputs[0]))
			return star_error_set(err, -EINVAL, "up to %d feeds, of known sizes", FEEDS_MAX);
		feeds[feeds_count] = (struct graph_plan_feed){ node->name, node->outputs[0] };
		tensors[feeds_count++] =
			(struct graph_tensor){ node->outputs[0], calloc(1, graph_type_bytes(&node->outputs[0])) };
	}
	return 0;
}

/* Sums whose order matters most often; then denormals, zeros of both signs, the greatest; seldom what is not finite. */
static float hard(struct prng *prng, bool finite)
{
	static const float edges[] = { 1e8f,	   -1e8f,     1,      -1,    0,	     -0.0f,	     0x1p-149f,
				       -0x1p-149f, 0x1p-126f, 1e-20f, 3e37f, -3e37f, 0x1.fffffep127f };

	switch (prng_below(prng, 256) + (finite ? 256 : 0)) {
	case 0:
		return (float)INFINITY;
	case 1:
		return -(float)INFINITY;
	case 2:
		return (float)NAN;
	}
	if (prng_below(prng, 4) == 0)
		return (float)(2 * prng_unit(prng) - 1);
	return edges[prng_below(prng, finite ? 10 : prng_below(prng, 8) ? 6 : sizeof(edges) / sizeof(edges[0]))];
}

static void draw(struct prng *prng)
{
	for (uint32_t f = 0; f < feeds_count; f++)
		for (int64_t i = 0; i < graph_elements(&tensors[f].type.shape); i++)
			switch (tensors[f].type.dtype) {
			case STAR_FLOAT32:
				((float *)tensors[f].data)[i] = hard(prng, !strncmp(feeds[f].name, "finite", 6));
				break;
			case STAR_INT32:
				((int32_t *)tensors[f].data)[i] = 3 * (int32_t)prng_below(prng, SEGMENTS / 3);
				break;
			default:
				((int64_t *)tensors[f].data)[i] =
					(int64_t)prng_below(prng, strncmp(feeds[f].name, "many", 4) ? IDS : MANY_IDS);
			}
}

static void print(const struct graph_tensor *result)
{
	for (int64_t i = 0; i < graph_elements(&result->type.shape); i++) {
		const float x = ((const float *)result->data)[i];
		uint32_t bits;

		memcpy(&bits, &x, sizeof(bits));
		printf(isnan(x) ? "nan " : "%08x ", bits);
	}
}

/* This many steps, or as many as begin within a time ("600s"). */
struct limit {
	uint64_t steps, until_us;
};

static struct limit limit_of(const char *text)
{
	char *end;
	const uint64_t number = strtoull(text, &end, 10);

	return *end == 's' ? (struct limit){ .until_us = clock_us() + number * 1000000 }
			   : (struct limit){ .steps = number };
}

static bool goes_on(const struct limit *limit, uint64_t step)
{
	return limit->until_us ? clock_us() < limit->until_us : step < limit->steps;
}

static int step(struct graph *graph, char **argv, const char *job, struct star_error *err)
{
	const struct session_config config = { .ps = argv[1],
					       .protocol = argv[3],
					       .log_step_count_steps = 1000000,
					       .deadline_us = 20000000,
					       .consistency = job ? "synchronous" : NULL,
					       .job = job,
					       .workers = job ? 1 : 0 };
	const struct limit limit = limit_of(argv[4]);
	const char *names[RESULTS_MAX];
	const struct session_model model = { graph, names, feeds, feeds_count };
	const struct graph_tensor *results;
	struct session *session = NULL;
	struct prng prng;
	int rc = 0;

	for (uint32_t i = 0; i < RESULTS_MAX; i++)
		names[i] = "result";
	if (graph->results_count > RESULTS_MAX)
		return star_error_set(err, -EINVAL, "up to %d results", RESULTS_MAX);
	session = session_create(&config, &model, NULL, 0, err);
	if (!session)
		return err->code;
	prng_seed(&prng, 1);
	for (uint64_t s = 0; rc == 0 && goes_on(&limit, s); s++) {
		draw(&prng);
		rc = session_run(session, tensors, &results, err);
		for (uint32_t i = 0; rc == 0 && i < graph->results_count; i++)
			print(&results[i]);
		putchar('\n');
	}
	session_close(session, NULL);
	return rc;
}

int main(int argc, char **argv)
{
	struct star_error err = { .text = "usage: star-bits PS FILE PROTOCOL STEPS|SECONDSs [SYNCHRONOUS_JOB]" };
	struct graph *graph = argc == 5 || argc == 6 ? graph_load(argv[2], &err) : NULL;
	int rc = graph ? add_feeds(graph, &err) : -1;

	if (rc == 0)
		rc = step(graph, argv, argv[5], &err);
	for (uint32_t i = 0; i < feeds_count; i++)
		free(tensors[i].data);
	graph_destroy(graph);
	if (rc == 0)
		return EXIT_SUCCESS;
	fprintf(stderr, "star-bits: %s\n", err.text);
	return EXIT_FAILURE;
}
