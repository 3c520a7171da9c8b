/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is done with a graph's text that was accepted: no protocol refuses it, each cut is right by the checker, and can
 * be compiled where the graph can; steps with feeds of several sizes stay in their memory; and the same of the graph
 * with its training, if its first result is a loss. PS tasks give arbitrary values. Graphs that would take long are
 * left out.
 */
#include "offload/cut.h"
#include "tests/fuzz/fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "base/hash.h"
#include "exec/exec.h"
#include "graph/gradient.h"
#include "graph/text.h"

enum { FEEDS_MAX = 32, ELEMENTS_MAX = 4096, WORK_MAX = 4000, PLAN_MAX = 8 << 20, SIZE = 3, RESULTS_MAX = 256 };

/* ---- PS tasks ---- */

/* Indices are good ones, mostly. */
static void fill(const struct graph_tensor *tensor, uint64_t seed)
{
	const int64_t n = graph_elements(&tensor->type.shape);

	for (int64_t i = 0; i < n; i++) {
		const uint64_t bits = hash_mix(seed * 1000003 + (uint64_t)i);
		const int64_t whole = bits % 61 ? (int64_t)(bits >> 32) % SIZE : (int64_t)bits;

		if (tensor->type.dtype == STAR_FLOAT32)
			((float *)tensor->data)[i] = bits % 997 ? (float)(bits >> 40) * 0x1p-24f : -1e30f;
		else if (tensor->type.dtype == STAR_FLOAT64)
			((double *)tensor->data)[i] = bits % 997 ? (double)(bits >> 40) * 0x1p-24 : -1e300;
		else if (tensor->type.dtype == STAR_INT32)
			((int32_t *)tensor->data)[i] = (int32_t)whole;
		else
			((int64_t *)tensor->data)[i] = whole;
	}
}

static int start(void *ctx, const struct graph_ps_call *call, void **token, struct star_error *err)
{
	const struct graph_part *part = &call->plan->parts[call->part];

	(void)ctx, (void)err;
	for (uint32_t i = 0; i < part->fetches_count; i++)
		fill(&call->fetches[i], call->step + i);
	*token = NULL;
	return 0;
}

static int wait(void *ctx, const struct graph_ps_call *call, void *token, struct star_error *err)
{
	(void)ctx, (void)call, (void)token, (void)err;
	return 0;
}

static const struct graph_ps ps = { .start = start, .wait = wait };

/* ---- graphs ---- */

/* Nodes that a step may execute, and room for the wrong: more than WORK_MAX is WORK_MAX + 1. */
static uint64_t work_of(const struct graph *graph)
{
	uint64_t work = graph->nodes_count;

	for (uint32_t i = 0; i < graph->nodes_count && work <= WORK_MAX; i++) {
		const struct graph_node *node = graph->nodes[i];
		const int64_t turns = node->op == GRAPH_WHILE ? graph_attr_int(node, "most", 1) : 1;

		if (node->body)
			work += (uint64_t)(turns < WORK_MAX ? turns : WORK_MAX) *
				(work_of(node->body) + work_of(node->cond));
	}
	return work <= WORK_MAX ? work : WORK_MAX + 1;
}

/* False: there are too many, or they are too large. */
static bool list_feeds(const struct graph *graph, struct graph_plan_feed *feeds, uint32_t *count)
{
	*count = 0;
	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];
		struct graph_type *type;

		if (node->op != GRAPH_FEED)
			continue;
		if (*count == FEEDS_MAX)
			return false;
		feeds[*count] = (struct graph_plan_feed){ node->name, node->outputs[0] };
		type = &feeds[(*count)++].type;
		for (unsigned k = 0; k < type->shape.ndim; k++)
			if (type->shape.dims[k] < 0)
				type->shape.dims[k] = SIZE;
		if (graph_elements(&type->shape) > ELEMENTS_MAX)
			return false;
	}
	return true;
}

static volatile uint8_t read_byte; /* so that results are read */

/* A step in which open sizes are `size`. */
static void step(struct graph_run *run, const struct graph *graph, const struct graph_plan_feed *feeds, uint32_t count,
		 uint64_t number, int64_t size)
{
	static _Alignas(64) uint8_t data[FEEDS_MAX][ELEMENTS_MAX * 8];
	struct graph_tensor tensors[FEEDS_MAX], fetches[RESULTS_MAX];
	struct star_error err = { 0 };
	int rc;

	for (uint32_t i = 0; i < count; i++) {
		const struct graph_shape *open = &graph_find(graph, feeds[i].name)->outputs[0].shape;

		tensors[i] = (struct graph_tensor){ feeds[i].type, data[i] };
		for (unsigned k = 0; k < open->ndim; k++)
			if (open->dims[k] < 0)
				tensors[i].type.shape.dims[k] = size;
		fill(&tensors[i], number * FEEDS_MAX + i);
	}
	rc = graph_run_step(run, number, tensors, fetches, &err);
	FUZZ_CHECK(rc <= 0 && (rc == 0 || err.text[0]), "a step failed without a message");
	for (uint32_t i = 0; rc == 0 && i < graph->results_count; i++) {
		const uint64_t bytes = graph_type_bytes(&fetches[i].type);

		for (uint64_t k = 0; k < bytes; k++)
			read_byte ^= ((const uint8_t *)fetches[i].data)[k];
	}
}

/* Whether it could be compiled. */
static bool execute(const struct graph *graph, const struct graph_cut *cut, struct star_error *err)
{
	struct graph_plan_feed feeds[FEEDS_MAX];
	uint32_t count;
	struct graph_plan *plan;
	struct graph_run *run;

	if (!list_feeds(graph, feeds, &count))
		return false;
	plan = graph_compile(graph, cut,
			     &(struct graph_plan_options){ .feeds = feeds, .feeds_count = count, .ps = &ps }, err);
	if (!plan)
		return false;
	if (graph_plan_bytes(plan) <= PLAN_MAX) {
		run = graph_run_create(plan, err);
		FUZZ_CHECK(run, "%s", err->text);
		for (int64_t size = SIZE; size >= 0; size--)
			step(run, graph, feeds, count, (uint64_t)size + 1, size);
		graph_run_destroy(run);
	}
	graph_plan_destroy(plan);
	return true;
}

static void try_all(const struct graph *graph)
{
	static const struct graph_cut_options all[] = {
		{ .protocol = GRAPH_GRPCPP },
		{ .protocol = GRAPH_GRPCPP, .fuse = true },
		{ .protocol = GRAPH_STAR_SERVER },
		{ .protocol = GRAPH_STAR_SERVER_LITE, .batch = 100, .reactors = 2 },
		{ .protocol = GRAPH_STAR_SERVER_LITE, .worker_only = true },
	};
	struct star_error err = { 0 }, why = { 0 };
	bool good;

	if (work_of(graph) > WORK_MAX || graph->results_count > RESULTS_MAX)
		return;
	good = execute(graph, NULL, &why);
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct graph_cut *cut = graph_cut_create(graph, &all[i], &err);

		FUZZ_CHECK(cut, "cut %u is refused: %s", i, err.text);
		FUZZ_CHECK(graph_cut_check(cut, &err) == 0, "cut %u: %s", i, err.text);
		if (good)
			FUZZ_CHECK(execute(graph, cut, &err), "cut %u cannot be compiled: %s", i, err.text);
		graph_cut_destroy(cut);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct star_error err = { 0 };
	struct graph *graph = graph_parse((const char *)data, bytes, "fuzz", &err);

	if (!graph)
		return 0;
	try_all(graph);
	if (graph->results_count && work_of(graph) <= WORK_MAX / 8) {
		if (graph_train(graph, graph->results[0], &(struct graph_train_options){ .clip_norm = 1 }, NULL) == 0)
			try_all(graph);
		else
			FUZZ_CHECK(graph->err.code && graph->err.text[0], "no gradients, and no sentence");
	}
	graph_destroy(graph);
	return 0;
}
