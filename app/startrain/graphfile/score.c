/* SPDX-License-Identifier: BSD-3-Clause */
/* Evaluates the model of a graph file on the PS tasks, or prints its predictions for each row. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/startrain/graphfile/feeds.h"
#include "base/clock.h"
#include "base/output.h"
#include "graph/text.h"

struct score {
	const struct graphfile_options *options;
	struct graph *graph;
	struct feeds feeds;
	struct session *session;
	struct graphfile_result *result;
	const char **names; /* of the results */
	bool loss;	    /* the first result is the loss */
};

/* ---- the graph ---- */

static const struct graph_node *find_update(const struct graph *graph)
{
	const struct graph_node *found = NULL;

	for (uint32_t i = 0; !found && i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		if (node->op == GRAPH_APPLY || node->op == GRAPH_APPLY_ROWS || node->op == GRAPH_ASSIGN ||
		    node->op == GRAPH_STEP_ADD)
			return node;
		if (node->body)
			found = find_update(node->body);
		if (node->body && !found)
			found = find_update(node->cond);
	}
	return found;
}

static int check_graph(struct score *s, struct star_error *err)
{
	const struct graphfile_options *o = s->options;
	const struct graph *graph = s->graph;
	const struct graph_node *update = find_update(graph);
	const struct graph_type *first = graph->results_count ? graph_type(graph, graph->results[0]) : NULL;

	if (update)
		return star_error_set(
			err, -EINVAL,
			"%s: node \"%s\" updates parameters on PS tasks, so the graph is for training: export "
			"the model again, after model.eval()",
			o->graph, update->name);
	s->loss = first && first->shape.ndim == 0 && (first->dtype == STAR_FLOAT32 || first->dtype == STAR_FLOAT64);
	if (o->command == GRAPHFILE_EVALUATE && !s->loss)
		return star_error_set(
			err, -EINVAL,
			"%s: the first result is not a scalar, so there is no loss: export the model with "
			"loss=",
			o->graph);
	if (o->command == GRAPHFILE_PREDICT && graph->results_count <= s->loss)
		return star_error_set(
			err, -EINVAL,
			"%s: the graph has no predictions: export the model after model.eval(), which has "
			"them as further results",
			o->graph);
	return 0;
}

/* ---- batches ---- */

/* The size of a batch is the first size of those feeds whose sizes vary: the others are the same in all batches. */
static uint64_t rows_of(const struct feeds *feeds, const struct graph_tensor *batch)
{
	for (uint32_t i = 0; i < feeds->count; i++)
		if (feeds->nodes[i]->outputs[0].shape.ndim && feeds->nodes[i]->outputs[0].shape.dims[0] < 0)
			return (uint64_t)batch[i].type.shape.dims[0];
	return 1;
}

static double result_number(const struct graph_tensor *t, int64_t i)
{
	return t->type.dtype == STAR_FLOAT64 ? ((const double *)t->data)[i] : ((const float *)t->data)[i];
}

/* Enough digits to preserve all bits. */
static void print_element(const struct graph_tensor *t, int64_t i)
{
	if (t->type.dtype == STAR_INT64)
		printf("%" PRId64, ((const int64_t *)t->data)[i]);
	else if (t->type.dtype == STAR_INT32)
		printf("%" PRId32, ((const int32_t *)t->data)[i]);
	else
		printf("%.*g", t->type.dtype == STAR_FLOAT64 ? 17 : 9, result_number(t, i));
}

static bool is_finite(const struct graph_tensor *t, int64_t i)
{
	return t->type.dtype == STAR_INT64 || t->type.dtype == STAR_INT32 || isfinite(result_number(t, i));
}

/* Prints row i of each prediction. */
static int print_row(const struct score *s, const struct graph_tensor *results, int64_t i, int64_t rows,
		     struct star_error *err)
{
	const char *between = s->options->json ? "{\"predictions\": [" : "";

	for (uint32_t r = s->loss; r < s->graph->results_count; r++) {
		const int64_t width = graph_elements(&results[r].type.shape) / rows;

		for (int64_t k = i * width; k < (i + 1) * width; k++) {
			if (!is_finite(&results[r], k))
				return star_error_set(err, -EDOM,
						      "a prediction is not a number: the model has diverged");
			fputs(between, stdout);
			print_element(&results[r], k);
			between = s->options->json ? ", " : "\t";
		}
	}
	puts(s->options->json ? "]}" : "");
	return 0;
}

static int print_batch(const struct score *s, const struct graph_tensor *results, const char *path,
		       struct star_error *err)
{
	const struct graph_shape *first = &results[s->loss].type.shape;
	const int64_t rows = first->ndim ? first->dims[0] : 1;
	int rc = 0;

	for (uint32_t r = s->loss; r < s->graph->results_count; r++) {
		const struct graph_shape *shape = &results[r].type.shape;

		if ((shape->ndim ? shape->dims[0] : 1) != rows)
			return star_error_set(err, -EINVAL,
					      "%s: batch %" PRIu64 ": predictions of %" PRId64
					      " rows beside others of %" PRId64,
					      path, s->feeds.batches - 1, shape->ndim ? shape->dims[0] : 1, rows);
	}
	for (int64_t i = 0; rc == 0 && i < rows; i++)
		rc = print_row(s, results, i, rows, err);
	/* A full disk is reported at once, not after the last row. */
	return rc == 0 && ferror(stdout) ? output_flush(stdout, "the predictions", err) : rc;
}

static int score_batch(struct score *s, const struct graph_tensor *batch, const char *path, struct star_error *err)
{
	const uint64_t rows = rows_of(&s->feeds, batch);
	const struct graph_tensor *results;
	int rc;

	if (rows == 0)
		return 0;
	feeds_fill(&s->feeds, batch);
	rc = session_run(s->session, s->feeds.tensors, &results, err);
	if (rc < 0)
		return rc;
	s->result->steps++;
	s->result->rows += rows;
	if (s->options->command == GRAPHFILE_PREDICT)
		return print_batch(s, results, path, err);
	s->result->last_loss += result_number(&results[0], 0) * (double)rows; /* divided at the end */
	return 0;
}

static int score_file(struct score *s, const char *path, struct star_error *err)
{
	struct graph_tensor batch[GRAPHFILE_FEEDS_MAX];
	struct arrays *arrays = arrays_open(path, err);
	int rc = arrays ? 0 : err->code;

	s->feeds.batches = 0;
	while (rc == 0 && (rc = feeds_next(&s->feeds, arrays, path, batch, err)) > 0)
		rc = score_batch(s, batch, path, err);
	arrays_close(arrays);
	return rc;
}

static int score_files(struct score *s, const struct session_config *config, struct star_error *err)
{
	const struct graphfile_options *o = s->options;
	const struct session_model model = {
		.graph = s->graph, .results = s->names, .feeds = s->feeds.most, .feeds_count = s->feeds.count
	};
	int rc = 0;

	s->session = session_create(config, &model, NULL, 0, err);
	if (!s->session)
		return err->code;
	for (uint32_t f = 0; rc == 0 && f < o->files_count; f++)
		rc = score_file(s, o->files[f], err);
	s->result->rounds = session_cut(s->session)->rounds;
	s->result->requests = session_cut(s->session)->requests;
	if (session_close(s->session, rc < 0 ? NULL : err) < 0 && rc == 0)
		rc = err->code;
	if (rc == 0 && !s->result->rows)
		rc = star_error_set(err, -ENODATA, "the files of batches have no rows");
	if (rc == 0)
		s->result->last_loss /= (double)s->result->rows;
	return rc;
}

/* The loss keeps its name, so that a session refuses NaN. */
static int name_results(struct score *s, struct star_error *err)
{
	s->names = calloc(s->graph->results_count + 1, sizeof(*s->names));
	if (!s->names)
		return star_error_set(err, -ENOMEM, "no memory for %u results", s->graph->results_count);
	for (uint32_t i = 0; i < s->graph->results_count; i++)
		s->names[i] = i == 0 && s->loss ? SESSION_LOSS : "predictions";
	return 0;
}

int graphfile_score(const struct graphfile_options *o, struct graphfile_result *result, struct star_error *err)
{
	const struct session_config config = graphfile_config(o, 0);
	struct score s = { .options = o, .graph = graph_load(o->graph, err), .result = result };
	const uint64_t begin_ns = clock_ns();
	int rc = s.graph ? check_graph(&s, err) : err->code;

	*result = (struct graphfile_result){ 0 };
	if (rc == 0)
		rc = feeds_find(&s.feeds, s.graph, o->graph, err);
	if (rc == 0)
		rc = feeds_measure(&s.feeds, o->files, o->files_count, err);
	if (rc == 0 && graph_make_read_only(s.graph) < 0)
		rc = graph_error(s.graph, err) < 0 ? err->code : -ENOMEM;
	if (rc == 0)
		rc = name_results(&s, err);
	if (rc == 0)
		rc = graphfile_give_values(s.graph, &config, NULL, err);
	if (rc == 0)
		rc = score_files(&s, &config, err);
	result->seconds = (double)(clock_ns() - begin_ns) * 1e-9;
	feeds_fini(&s.feeds);
	free(s.names);
	graph_destroy(s.graph);
	return rc;
}
