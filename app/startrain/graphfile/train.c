/* SPDX-License-Identifier: BSD-3-Clause */
/* Trains a graph file as one worker, with batches from files. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/startrain/graphfile/feeds.h"
#include "base/clock.h"
#include "graph/build.h"
#include "graph/gradient.h"
#include "graph/text.h"

struct work {
	const struct graphfile_options *options;
	struct session_config config;
	struct graph *graph;
	struct feeds feeds;
	struct session *session;
	FILE *report;
};

/* ---- the graph ---- */

/* Whether a node updates trained parameters: running statistics are not trainable, and are updated by themselves. */
static bool trains(const struct graph *graph, const struct graph_node *node)
{
	const bool applies = node->op == GRAPH_APPLY || node->op == GRAPH_APPLY_ROWS;
	const struct graph_node *what = applies ? graph_resource(graph, node->inputs[0]) : NULL;

	return what && graph_attr_int(what, "trainable", 1);
}

/* The first result is the loss. If the graph's author has written updates of variables, no others are added. */
static int complete_graph(struct work *w, struct star_error *err)
{
	struct graph *graph = w->graph;
	struct graph_value results[2];
	bool updates = false;

	if (!graph->results_count)
		return star_error_set(err, -EINVAL, "%s: the graph has no results; the first one is the loss",
				      w->options->graph);
	for (uint32_t i = 0; i < graph->nodes_count; i++)
		updates |= trains(graph, graph->nodes[i]);
	results[1] = graph->results[0];
	if (!updates)
		graph_train(graph, results[1], NULL, NULL);
	results[0] = graph_global_step(graph);
	graph_set_results(graph, results, 2);
	return graph_error(graph, err) < 0 ? err->code : 0;
}

/* ---- steps ---- */

static double loss_of(const struct graph_tensor *results)
{
	return results[1].type.dtype == STAR_FLOAT64 ? *(const double *)results[1].data
						     : *(const float *)results[1].data;
}

static int train_step(struct work *w, const struct graph_tensor *batch, struct graphfile_result *result,
		      struct star_error *err)
{
	const struct graph_tensor *results;
	int rc;

	feeds_fill(&w->feeds, batch);
	rc = session_run(w->session, w->feeds.tensors, &results, err);
	if (rc < 0)
		return rc;
	result->last_loss = loss_of(results);
	if (result->steps++ == 0)
		result->first_loss = result->last_loss;
	if (w->report)
		fprintf(w->report, "{\"step\": %llu, \"loss\": %.9g}\n", (unsigned long long)result->steps,
			result->last_loss);
	return 0;
}

/* Of every `workers` batches this worker takes one. */
static int train_file(struct work *w, const char *path, struct graphfile_result *result, struct star_error *err)
{
	struct graph_tensor batch[GRAPHFILE_FEEDS_MAX];
	struct arrays *arrays = arrays_open(path, err);
	int rc = arrays ? 0 : err->code;

	while (rc == 0 && (rc = feeds_next(&w->feeds, arrays, path, batch, err)) > 0)
		rc = (w->feeds.batches - 1) % w->options->workers == w->config.task_index
			     ? train_step(w, batch, result, err)
			     : 0;
	arrays_close(arrays);
	return rc;
}

static int train_graph(struct work *w, struct graphfile_result *result, struct star_error *err)
{
	static const char *const names[] = { SESSION_GLOBAL_STEP, SESSION_LOSS };
	const struct graphfile_options *o = w->options;
	const struct session_model model = {
		.graph = w->graph, .results = names, .feeds = w->feeds.most, .feeds_count = w->feeds.count
	};
	uint64_t begin_ns;
	int rc = 0;

	w->session = session_create(&w->config, &model, NULL, 0, err);
	if (!w->session)
		return err->code;
	begin_ns = clock_ns();
	for (uint32_t epoch = 0; rc == 0 && epoch < o->epochs; epoch++)
		for (uint32_t f = 0; rc == 0 && f < o->files_count; f++)
			rc = train_file(w, o->files[f], result, err);
	result->seconds = (double)(clock_ns() - begin_ns) * 1e-9;
	result->rounds = session_cut(w->session)->rounds;
	result->requests = session_cut(w->session)->requests;
	if (session_close(w->session, rc < 0 ? NULL : err) < 0 && rc == 0)
		rc = err->code;
	return rc;
}

static int open_report(struct work *w, struct star_error *err)
{
	const struct graphfile_options *o = w->options;

	if (!o->report || w->config.task_index != o->first_worker)
		return 0;
	w->report = fopen(o->report, "w");
	return w->report ? 0 : star_error_set(err, -errno, "cannot write %s: %s", o->report, strerror(errno));
}

static int close_report(struct work *w, int rc, struct star_error *err)
{
	const bool bad = w->report && ferror(w->report);

	if (w->report && (fclose(w->report) != 0 || bad) && rc == 0)
		rc = star_error_set(err, -EIO, "cannot write %s: %s", w->options->report, strerror(errno));
	return rc;
}

struct session_config graphfile_config(const struct graphfile_options *o, uint32_t worker)
{
	return (struct session_config){ .ps = o->ps,
					.task_index = worker,
					.protocol = o->protocol,
					.intra_op_parallelism_threads = o->intra_op,
					.log_step_count_steps = UINT32_MAX,
					.seed = o->seed,
					.deadline_us = o->deadline_us,
					.connect_us = o->deadline_us,
					.workers = o->workers,
					.must_exist = o->command != GRAPHFILE_TRAIN };
}

int graphfile_train(const struct graphfile_options *o, uint32_t worker, struct graphfile_result *result,
		    struct star_error *err)
{
	struct work w = { .options = o, .graph = graph_load(o->graph, err), .config = graphfile_config(o, worker) };
	int rc = w.graph ? feeds_find(&w.feeds, w.graph, o->graph, err) : err->code;

	*result = (struct graphfile_result){ 0 };
	if (rc == 0)
		rc = open_report(&w, err);
	if (rc == 0)
		rc = feeds_measure(&w.feeds, o->files, o->files_count, err);
	if (rc == 0)
		rc = graphfile_give_values(w.graph, &w.config, o->values, err);
	if (rc == 0)
		rc = complete_graph(&w, err);
	if (rc == 0)
		rc = train_graph(&w, result, err);
	rc = close_report(&w, rc, err);
	feeds_fini(&w.feeds);
	graph_destroy(w.graph);
	return rc;
}
