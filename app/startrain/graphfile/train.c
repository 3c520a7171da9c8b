/* SPDX-License-Identifier: BSD-3-Clause */
/* A graph from a file, trained by one worker with batches from files. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/startrain/graphfile/arrays.h"
#include "app/startrain/graphfile/graphfile.h"
#include "base/clock.h"
#include "graph/build.h"
#include "graph/gradient.h"
#include "graph/text.h"

struct work {
	const struct graphfile_options *options;
	struct session_config config;
	struct graph *graph;
	const struct graph_node *nodes[GRAPHFILE_FEEDS_MAX]; /* the feeds' */
	struct graph_plan_feed most[GRAPHFILE_FEEDS_MAX];
	struct graph_tensor feeds[GRAPHFILE_FEEDS_MAX]; /* of a step; memory for the greatest */
	uint32_t feeds_count;
	struct session *session;
	FILE *report;
	uint64_t batches; /* begun, of all workers */
};

/* ---- the graph ---- */

static int find_feeds(struct work *w, struct star_error *err)
{
	for (uint32_t i = 0; i < w->graph->nodes_count; i++) {
		const struct graph_node *node = w->graph->nodes[i];

		if (node->op != GRAPH_FEED)
			continue;
		if (w->feeds_count == GRAPHFILE_FEEDS_MAX)
			return star_error_set(err, -E2BIG, "%s: more than %d feeds", w->options->graph,
					      GRAPHFILE_FEEDS_MAX);
		w->nodes[w->feeds_count] = node;
		w->most[w->feeds_count++] = (struct graph_plan_feed){ node->name, node->outputs[0] };
	}
	if (!w->feeds_count)
		return star_error_set(err, -EINVAL, "%s: the graph has no feed, so there is nothing to train it with",
				      w->options->graph);
	return 0;
}

/* The first result is the loss. Who has written updates of variables into the graph wants those, and no others. */
static int complete_graph(struct work *w, struct star_error *err)
{
	struct graph *graph = w->graph;
	struct graph_value results[2];
	bool updates = false;

	if (!graph->results_count)
		return star_error_set(err, -EINVAL, "%s: the graph has no results; the first one is the loss",
				      w->options->graph);
	for (uint32_t i = 0; i < graph->nodes_count; i++)
		updates |= graph->nodes[i]->op == GRAPH_APPLY || graph->nodes[i]->op == GRAPH_APPLY_ROWS;
	results[1] = graph->results[0];
	if (!updates)
		graph_train(graph, results[1], NULL, NULL);
	results[0] = graph_global_step(graph);
	graph_set_results(graph, results, 2);
	return graph_error(graph, err) < 0 ? err->code : 0;
}

/* ---- batches ---- */

/* An array that is a step's feed: the greatest sizes grow with it. */
static int measure_one(struct work *w, uint32_t feed, const struct graph_tensor *array, const char *path,
		       struct star_error *err)
{
	const struct graph_type *wants = &w->nodes[feed]->outputs[0];
	struct graph_shape *most = &w->most[feed].type.shape;
	char want[GRAPH_SHAPE_TEXT], have[GRAPH_SHAPE_TEXT];
	bool fits = array->type.dtype == wants->dtype && array->type.shape.ndim == wants->shape.ndim;

	for (unsigned i = 0; fits && i < most->ndim; i++) {
		fits = wants->shape.dims[i] < 0 || wants->shape.dims[i] == array->type.shape.dims[i];
		if (array->type.shape.dims[i] > most->dims[i])
			most->dims[i] = array->type.shape.dims[i];
	}
	return fits ? 0
		    : star_error_set(err, -EINVAL, "%s: batch %llu has %s %s for the feed \"%s\", which is %s %s", path,
				     (unsigned long long)w->batches, dtype_name(array->type.dtype),
				     graph_shape_text(&array->type.shape, have), w->nodes[feed]->name,
				     dtype_name(wants->dtype), graph_shape_text(&wants->shape, want));
}

/* An array for each feed, in the graph's order: 1; 0: the file has ended. */
static int next_batch(struct work *w, struct arrays *arrays, const char *path, struct graph_tensor *batch,
		      struct star_error *err)
{
	for (uint32_t i = 0; i < w->feeds_count; i++) {
		const int rc = arrays_next(arrays, &batch[i], err);

		if (rc < 0 || (rc == 0 && i == 0))
			return rc;
		if (rc == 0)
			return star_error_set(
				err, -EINVAL,
				"%s ends in the middle of batch %llu: each has an array for each of the %u "
				"feeds of the graph, in its order",
				path, (unsigned long long)w->batches, w->feeds_count);
	}
	w->batches++;
	return 1;
}

static int measure_work(struct work *w, struct star_error *err)
{
	struct graph_tensor batch[GRAPHFILE_FEEDS_MAX];
	int rc = 0;

	for (uint32_t f = 0; rc == 0 && f < w->options->train_count; f++) {
		const char *path = w->options->train[f];
		struct arrays *arrays = arrays_open(path, err);

		rc = arrays ? 0 : err->code;
		w->batches = 0;
		while (rc == 0 && (rc = next_batch(w, arrays, path, batch, err)) > 0) {
			rc = 0;
			for (uint32_t i = 0; rc == 0 && i < w->feeds_count; i++)
				rc = measure_one(w, i, &batch[i], path, err);
			if (rc < 0)
				break;
		}
		arrays_close(arrays);
	}
	for (uint32_t i = 0; rc == 0 && i < w->feeds_count; i++) {
		w->feeds[i].data = malloc(graph_type_bytes(&w->most[i].type) + 1);
		if (!w->feeds[i].data)
			rc = star_error_set(err, -ENOMEM, "no memory for the feed \"%s\"", w->nodes[i]->name);
	}
	w->batches = 0;
	return rc;
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

	for (uint32_t i = 0; i < w->feeds_count; i++) {
		w->feeds[i].type = batch[i].type;
		memcpy(w->feeds[i].data, batch[i].data, graph_type_bytes(&batch[i].type));
	}
	rc = session_run(w->session, w->feeds, &results, err);
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

/* Of each `workers` batches this worker takes one. */
static int train_file(struct work *w, const char *path, struct graphfile_result *result, struct star_error *err)
{
	struct graph_tensor batch[GRAPHFILE_FEEDS_MAX];
	struct arrays *arrays = arrays_open(path, err);
	int rc = arrays ? 0 : err->code;

	while (rc == 0 && (rc = next_batch(w, arrays, path, batch, err)) > 0)
		rc = (w->batches - 1) % w->options->workers == w->config.task_index ? train_step(w, batch, result, err)
										    : 0;
	arrays_close(arrays);
	return rc;
}

static int train_graph(struct work *w, struct graphfile_result *result, struct star_error *err)
{
	static const char *const names[] = { SESSION_GLOBAL_STEP, SESSION_LOSS };
	const struct graphfile_options *o = w->options;
	const struct session_model model = {
		.graph = w->graph, .results = names, .feeds = w->most, .feeds_count = w->feeds_count
	};
	uint64_t begin_ns;
	int rc = 0;

	w->session = session_create(&w->config, &model, NULL, 0, err);
	if (!w->session)
		return err->code;
	begin_ns = clock_ns();
	for (uint32_t epoch = 0; rc == 0 && epoch < o->epochs; epoch++)
		for (uint32_t f = 0; rc == 0 && f < o->train_count; f++)
			rc = train_file(w, o->train[f], result, err);
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

int graphfile_train(const struct graphfile_options *o, uint32_t worker, struct graphfile_result *result,
		    struct star_error *err)
{
	struct work w = { .options = o,
			  .graph = graph_load(o->graph, err),
			  .config = { .ps = o->ps,
				      .task_index = worker,
				      .protocol = o->protocol,
				      .intra_op_parallelism_threads = o->intra_op,
				      .log_step_count_steps = UINT32_MAX,
				      .seed = o->seed,
				      .deadline_us = o->deadline_us,
				      .connect_us = o->deadline_us,
				      .workers = o->workers } };
	int rc = w.graph ? find_feeds(&w, err) : err->code;

	*result = (struct graphfile_result){ 0 };
	if (rc == 0)
		rc = open_report(&w, err);
	if (rc == 0)
		rc = measure_work(&w, err);
	if (rc == 0)
		rc = graphfile_give_values(w.graph, &w.config, o->values, err);
	if (rc == 0)
		rc = complete_graph(&w, err);
	if (rc == 0)
		rc = train_graph(&w, result, err);
	rc = close_report(&w, rc, err);
	for (uint32_t i = 0; i < w.feeds_count; i++)
		free(w.feeds[i].data);
	graph_destroy(w.graph);
	return rc;
}
