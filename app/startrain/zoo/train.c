/* SPDX-License-Identifier: BSD-3-Clause */
/* A model's graph, and a worker's way through its batches. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/startrain/zoo/zoo.h"
#include "graph/gradient.h"
#include "session/auc.h"
#include "session/session.h"

enum { FEEDS_MAX = 5, RESULTS = 2, IDS_A_ROW = 1024 /* without columns, on average in a batch */ };

/* A graph, and what its batches bring. */
struct work {
	struct graph *graph;
	struct session *session;
	struct graph_plan_feed feeds[FEEDS_MAX];
	uint32_t feeds_count;
	const char *results[RESULTS];
};

static struct graph_type matrix(unsigned dtype, unsigned ndim, int64_t rows, int64_t columns)
{
	return (struct graph_type){ .dtype = (uint8_t)dtype,
				    .shape = { .ndim = (uint8_t)ndim, .dims = { rows, columns } } };
}

/* A feed whose first size is that of a step. */
static struct graph_value add_feed(struct work *w, const char *name, struct graph_type most)
{
	struct graph_shape shape = most.shape;

	w->feeds[w->feeds_count++] = (struct graph_plan_feed){ .name = name, .type = most };
	shape.dims[0] = -1;
	return graph_feed(w->graph, name, most.dtype, shape.dims, shape.ndim);
}

/* (x - mean) / deviation */
static struct graph_value standardize(struct graph *g, struct graph_value x, const struct zoo_scaling *scaling,
				      int64_t n)
{
	const struct graph_value mean = graph_constant(g, STAR_FLOAT32, &n, 1, scaling->mean);
	const struct graph_value deviation = graph_constant(g, STAR_FLOAT32, &n, 1, scaling->deviation);

	return graph_divide(g, graph_minus(g, x, mean), deviation);
}

static struct zoo_inputs make_inputs(struct work *w, const struct zoo_options *o, const struct zoo_scaling *scaling)
{
	const struct input_shape shape = input_shape(o->format);
	const int64_t ids = (int64_t)o->batch * IDS_A_ROW;
	struct zoo_inputs in = { .dense_count = shape.dense, .fields = shape.fields };

	in.labels = add_feed(w, "labels", matrix(STAR_FLOAT32, 1, o->batch, 0));
	if (!shape.fields) {
		in.ids = add_feed(w, "ids", matrix(STAR_INT64, 1, ids, 0));
		in.values = add_feed(w, "values", matrix(STAR_FLOAT32, 1, ids, 0));
		in.segments = add_feed(w, "segments", matrix(STAR_INT32, 1, ids, 0));
		return in;
	}
	in.ids = add_feed(w, "ids", matrix(STAR_INT64, 2, o->batch, shape.fields));
	in.dense = standardize(w->graph, add_feed(w, "dense", matrix(STAR_FLOAT32, 2, o->batch, shape.dense)), scaling,
			       shape.dense);
	return in;
}

/* Training: results "global_step" and "loss". Evaluating: "scores" and "loss". */
static int build(struct work *w, const struct zoo_options *o, bool train, struct star_error *err)
{
	struct graph_value logits, loss, first;
	struct zoo_scaling scaling;
	struct zoo_inputs in;
	struct zoo zoo;
	int rc = zoo_measure(o, &scaling, err);

	if (rc < 0)
		return rc;
	w->graph = graph_create();
	if (!w->graph)
		return star_error_set(err, -ENOMEM, "no memory for a model");
	zoo = (struct zoo){ .graph = w->graph, .options = o, .train = train };
	in = make_inputs(w, o, &scaling);
	logits = o->model->logits(&zoo, &in);
	loss = graph_sigmoid_loss(w->graph, logits, in.labels);
	if (train)
		graph_train(w->graph, loss, NULL);
	first = train ? graph_global_step(w->graph) : graph_sigmoid(w->graph, logits);
	w->results[0] = train ? SESSION_GLOBAL_STEP : "scores";
	w->results[1] = SESSION_LOSS;
	graph_set_results(w->graph, (const struct graph_value[]){ first, loss }, RESULTS);
	return graph_error(w->graph, err);
}

static int open_work(struct work *w, const struct zoo_options *o, uint32_t worker, bool train, struct star_error *err)
{
	const struct session_config config = {
		.ps = o->ps,
		.task_index = worker,
		.protocol = o->protocol,
		.tensor_fuse = o->tensor_fuse,
		.intra_op_parallelism_threads = o->intra_op,
		.inter_op_parallelism_threads = o->inter_op,
		.model_dir = train ? o->model_dir : NULL,
		.log_step_count_steps = train && worker == 0 ? 0 : UINT32_MAX,
		.seed = o->seed + worker,
		.deadline_us = o->deadline_us,
	};
	struct session_model model;
	int rc = build(w, o, train, err);

	if (rc < 0)
		return rc;
	model = (struct session_model){
		.graph = w->graph, .results = w->results, .feeds = w->feeds, .feeds_count = w->feeds_count
	};
	w->session = session_create(&config, &model, NULL, 0, err);
	return w->session ? 0 : err->code;
}

/* Ends the session; the first error counts. */
static int close_work(struct work *w, int rc, struct star_error *err)
{
	struct star_error later;
	const int closed = session_close(w->session, rc < 0 ? &later : err);

	graph_destroy(w->graph);
	return rc < 0 ? rc : closed;
}

static void fill_feeds(const struct work *w, const struct input_batch *batch, struct graph_tensor *feeds)
{
	for (uint32_t i = 0; i < w->feeds_count; i++) {
		const struct graph_plan_feed *feed = &w->feeds[i];
		const bool by_row = feed->type.shape.ndim == 2 || !strcmp(feed->name, "labels");

		feeds[i].type = feed->type;
		feeds[i].type.shape.dims[0] = by_row ? batch->rows : batch->ids_count;
		feeds[i].data = !strcmp(feed->name, "labels")	? (void *)batch->labels
				: !strcmp(feed->name, "dense")	? (void *)batch->dense
				: !strcmp(feed->name, "ids")	? (void *)batch->ids
				: !strcmp(feed->name, "values") ? (void *)batch->values
								: (void *)batch->segments;
	}
}

static struct input *open_files(const struct zoo_options *o, uint32_t worker, bool train, struct star_error *err)
{
	const struct input_options options = {
		.format = o->format,
		.paths = train ? o->train : o->test,
		.paths_count = train ? o->train_count : o->test_count,
		.batch = o->batch,
		.epochs = train ? o->epochs : 1,
		.worker = train ? worker : 0,
		.workers = train ? o->workers : 1,
		.shuffle = train ? o->shuffle : 0,
		.seed = o->seed + worker,
	};

	return input_open(&options, err);
}

static float result_of(const struct graph_tensor *results, unsigned i)
{
	return *(const float *)results[i].data;
}

int zoo_train(const struct zoo_options *o, uint32_t worker, struct zoo_result *result, struct star_error *err)
{
	struct input *input = open_files(o, worker, true, err);
	const struct input_batch *batch;
	struct work w = { .graph = NULL };
	int rc = input ? open_work(&w, o, worker, true, err) : err->code;
	double loss = NAN;

	*result = (struct zoo_result){ 0 };
	while (rc == 0 && (rc = input_next(input, &batch, err)) > 0) {
		struct graph_tensor feeds[FEEDS_MAX];
		const struct graph_tensor *results;

		fill_feeds(&w, batch, feeds);
		rc = session_run(w.session, feeds, &results, err);
		if (rc < 0)
			break;
		result->steps++;
		result->examples += batch->rows;
		loss = isnan(loss) ? result_of(results, 1) : loss + (result_of(results, 1) - loss) / 100;
	}
	result->loss = loss;
	if (rc == 0) {
		result->rounds = session_cut(w.session)->rounds;
		result->requests = session_cut(w.session)->requests;
	}
	rc = close_work(&w, rc, err);
	input_close(input);
	return rc;
}

/* ---- evaluation ---- */

struct scores {
	struct auc_example *examples;
	size_t count, room;
	double loss;
};

static int add_scores(struct scores *s, const struct input_batch *batch, const struct graph_tensor *results,
		      struct star_error *err)
{
	const float *scores = results[0].data;

	if (s->count + batch->rows > s->room) {
		const size_t room = 2 * s->room + batch->rows;
		struct auc_example *more = realloc(s->examples, room * sizeof(*more));

		if (!more)
			return star_error_set(err, -ENOMEM, "no memory for the scores of %zu examples", room);
		s->examples = more;
		s->room = room;
	}
	for (uint32_t i = 0; i < batch->rows; i++)
		s->examples[s->count++] = (struct auc_example){ .score = scores[i], .label = batch->labels[i] };
	s->loss += (double)result_of(results, 1) * batch->rows;
	return 0;
}

int zoo_evaluate(const struct zoo_options *o, struct zoo_result *result, struct star_error *err)
{
	struct input *input = open_files(o, 0, false, err);
	const struct input_batch *batch;
	struct scores scores = { 0 };
	struct work w = { .graph = NULL };
	int rc = input ? open_work(&w, o, 0, false, err) : err->code;

	*result = (struct zoo_result){ 0 };
	while (rc == 0 && (rc = input_next(input, &batch, err)) > 0) {
		struct graph_tensor feeds[FEEDS_MAX];
		const struct graph_tensor *results;

		fill_feeds(&w, batch, feeds);
		rc = session_run(w.session, feeds, &results, err);
		if (rc == 0)
			rc = add_scores(&scores, batch, results, err);
	}
	rc = close_work(&w, rc, err);
	if (rc == 0)
		rc = auc_exact(scores.examples, scores.count, &result->auc, err);
	result->examples = scores.count;
	result->loss = scores.loss / (double)scores.count;
	free(scores.examples);
	input_close(input);
	return rc;
}

/* ---- scaling ---- */

int zoo_measure(const struct zoo_options *o, struct zoo_scaling *scaling, struct star_error *err)
{
	const uint32_t dense = input_shape(o->format).dense;
	struct zoo_options once = *o;
	const struct input_batch *batch;
	double sum[64] = { 0 }, squares[64] = { 0 }, count = 0;
	struct input *input;
	int rc;

	for (uint32_t i = 0; i < 64; i++) {
		scaling->mean[i] = 0;
		scaling->deviation[i] = 1;
	}
	if (o->format != INPUT_CENSUS)
		return 0;
	once.epochs = once.workers = 1;
	once.shuffle = 0;
	input = open_files(&once, 0, true, err);
	if (!input)
		return err->code;
	while ((rc = input_next(input, &batch, err)) > 0) {
		for (size_t i = 0; i < (size_t)batch->rows * dense; i++) {
			sum[i % dense] += batch->dense[i];
			squares[i % dense] += (double)batch->dense[i] * batch->dense[i];
		}
		count += batch->rows;
	}
	input_close(input);
	for (uint32_t i = 0; rc == 0 && i < dense; i++) {
		const double mean = sum[i] / count, variance = squares[i] / count - mean * mean;

		scaling->mean[i] = (float)mean;
		scaling->deviation[i] = variance > 0 ? (float)sqrt(variance) : 1;
	}
	return rc;
}
