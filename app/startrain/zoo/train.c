/* SPDX-License-Identifier: BSD-3-Clause */
/* The models as an estimator: their graph for a batch of each format, and batches from files. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/startrain/job.h"
#include "app/startrain/transport.h"
#include "app/startrain/zoo/text.h"
#include "app/startrain/zoo/zoo.h"
#include "base/output.h"

enum { IDS_PER_ROW = 1024 /* without columns: average per batch */ };

/* ---- the model function ---- */

_Static_assert(INPUT_SCHEMA_LABELS_MAX == 1 + ESTIMATOR_HEADS_MAX, "a head for each label");

struct params {
	const struct zoo_options *options;
	struct zoo_scaling scaling;					    /* for rows */
	char more_labels[ESTIMATOR_HEADS_MAX][sizeof("labels/4294967295")]; /* names of their feeds */
	struct zoo_text text;						    /* for text */
};

/* (x - mean) / deviation */
static struct graph_value standardize(struct graph *g, struct graph_value x, const struct zoo_scaling *scaling,
				      int64_t n)
{
	const struct graph_value mean = graph_constant(g, STAR_FLOAT32, &n, 1, scaling->mean);
	const struct graph_value deviation = graph_constant(g, STAR_FLOAT32, &n, 1, scaling->deviation);

	return graph_divide(g, graph_minus(g, x, mean), deviation);
}

static struct zoo_lists lists_feeds(struct graph *g, struct estimator_spec *spec, int64_t ids, int64_t lists)
{
	struct zoo_lists l;

	l.ids = zoo_feed(g, spec, "list_ids", zoo_type(STAR_INT64, 1, ids, 0));
	l.segments = zoo_feed(g, spec, "list_segments", zoo_type(STAR_INT32, 1, ids, 0));
	l.lengths = zoo_feed(g, spec, "list_lengths", zoo_type(STAR_FLOAT32, 1, lists, 0));
	return l;
}

/* They follow those of the first task. */
static void more_labels_feeds(struct graph *g, struct estimator_spec *spec, struct params *p, struct zoo_inputs *in)
{
	for (uint32_t i = 0; i < in->more_count; i++) {
		snprintf(p->more_labels[i], sizeof(p->more_labels[i]), "labels/%u", i + 1);
		in->more_labels[i] =
			zoo_feed(g, spec, p->more_labels[i], zoo_type(STAR_FLOAT32, 1, p->options->batch, 0));
	}
}

static struct zoo_inputs make_inputs(struct graph *g, struct estimator_spec *spec, struct params *p)
{
	const struct zoo_options *o = p->options;
	const struct input_shape shape = zoo_shape(o);
	const int64_t ids = (int64_t)o->batch * IDS_PER_ROW;
	struct zoo_inputs in = { .dense_count = shape.dense,
				 .fields = shape.fields,
				 .lists_count = shape.lists,
				 .loose = !shape.columns,
				 .more_count = shape.more_labels };

	in.labels = zoo_feed(g, spec, "labels", zoo_type(STAR_FLOAT32, 1, o->batch, 0));
	more_labels_feeds(g, spec, p, &in);
	if (in.loose) {
		in.ids = zoo_feed(g, spec, "ids", zoo_type(STAR_INT64, 1, ids, 0));
		in.values = zoo_feed(g, spec, "values", zoo_type(STAR_FLOAT32, 1, ids, 0));
		in.segments = zoo_feed(g, spec, "segments", zoo_type(STAR_INT32, 1, ids, 0));
		return in;
	}
	if (shape.fields)
		in.ids = zoo_feed(g, spec, "ids", zoo_type(STAR_INT64, 2, o->batch, shape.fields));
	if (shape.lists)
		in.lists = lists_feeds(g, spec, (int64_t)o->batch * shape.list_ids, (int64_t)o->batch * shape.lists);
	if (shape.history)
		in.clicks = zoo_clicks_feeds(g, spec, o);
	if (shape.dense)
		in.dense = standardize(g, zoo_feed(g, spec, "dense", zoo_type(STAR_FLOAT32, 2, o->batch, shape.dense)),
				       &p->scaling, shape.dense);
	return in;
}

const char *zoo_task_name(const struct zoo_options *o, uint32_t task)
{
	return input_schema_label(o->schema, task + 1);
}

/* Each further task is a head; the losses of all tasks are added. */
static void add_tasks(const struct params *p, enum estimator_mode mode, const struct zoo *zoo,
		      const struct zoo_inputs *in, struct estimator_spec *spec)
{
	for (uint32_t i = 0; i < in->more_count; i++) {
		const struct graph_value logits = zoo->more_logits[i];

		spec->heads[spec->heads_count++] = (struct estimator_head){
			.name = zoo_task_name(p->options, i),
			.predictions = mode == ESTIMATOR_TRAIN ? GRAPH_NONE : graph_sigmoid(zoo->graph, logits),
			.labels = p->more_labels[i],
			.threshold = p->options->threshold,
		};
		spec->loss =
			graph_plus(zoo->graph, spec->loss, graph_sigmoid_loss(zoo->graph, logits, in->more_labels[i]));
	}
}

static int model_fn(void *params, enum estimator_mode mode, struct graph *g, struct estimator_spec *spec,
		    struct star_error *err)
{
	struct params *p = params;
	struct zoo zoo = {
		.graph = g, .options = p->options, .train = mode == ESTIMATOR_TRAIN, .auxiliary = GRAPH_NONE
	};
	struct zoo_inputs in;
	struct graph_value logits;

	(void)err;
	spec->threshold = p->options->threshold;
	spec->clip_norm = p->options->clip_norm;
	if (p->options->model->kind != ZOO_ROWS) {
		const struct zoo_text_inputs text = zoo_text_inputs(&p->text, g, spec);

		spec->loss = p->options->model->text(&zoo, &text, &spec->predictions);
		return 0;
	}
	in = make_inputs(g, spec, p);
	logits = p->options->model->logits(&zoo, &in);
	spec->loss = graph_sigmoid_loss(g, logits, in.labels);
	if (zoo.train && !graph_is_none(zoo.auxiliary))
		spec->loss = graph_plus(g, spec->loss, zoo.auxiliary);
	spec->predictions = mode == ESTIMATOR_TRAIN ? GRAPH_NONE : graph_sigmoid(g, logits);
	spec->labels = "labels";
	add_tasks(p, mode, &zoo, &in, spec);
	return 0;
}

/* ---- the input function ---- */

/* In the order of make_inputs. */
static int next_batch(void *arg, struct graph_tensor *feeds, struct star_error *err)
{
	struct zoo_reader *reader = arg;
	const struct input_shape shape = reader->shape;
	struct graph_tensor *feed = feeds;
	const struct input_batch *b;
	int rc = input_next(reader->input, &b, err);

	if (rc <= 0)
		return rc;
	reader->share = b->share;
	*feed++ = (struct graph_tensor){ zoo_type(STAR_FLOAT32, 1, b->rows, 0), b->labels };
	for (uint32_t i = 0; i < shape.more_labels; i++)
		*feed++ = (struct graph_tensor){ zoo_type(STAR_FLOAT32, 1, b->rows, 0),
						 b->more_labels + (size_t)i * reader->batch };
	if (!shape.columns) {
		*feed++ = (struct graph_tensor){ zoo_type(STAR_INT64, 1, b->ids_count, 0), b->ids };
		*feed++ = (struct graph_tensor){ zoo_type(STAR_FLOAT32, 1, b->ids_count, 0), b->values };
		*feed++ = (struct graph_tensor){ zoo_type(STAR_INT32, 1, b->ids_count, 0), b->segments };
		return 1;
	}
	if (shape.fields)
		*feed++ = (struct graph_tensor){ zoo_type(STAR_INT64, 2, b->rows, shape.fields), b->ids };
	if (shape.lists) {
		*feed++ = (struct graph_tensor){ zoo_type(STAR_INT64, 1, b->lists.count, 0), b->lists.ids };
		*feed++ = (struct graph_tensor){ zoo_type(STAR_INT32, 1, b->lists.count, 0), b->lists.segments };
		*feed++ = (struct graph_tensor){ zoo_type(STAR_FLOAT32, 1, (int64_t)b->rows * shape.lists, 0),
						 b->lists.lengths };
	}
	if (shape.history)
		return zoo_clicks_next(&reader->clicks, b, feed, err);
	if (shape.dense)
		*feed = (struct graph_tensor){ zoo_type(STAR_FLOAT32, 2, b->rows, shape.dense), b->dense };
	return 1;
}

static int next_of_text(void *arg, struct graph_tensor *feeds, struct star_error *err)
{
	return zoo_text_next(arg, feeds, err);
}

static int open_reader(struct zoo_reader *reader, const struct zoo_options *o, uint32_t worker, bool train,
		       struct star_error *err)
{
	const struct input_options options = {
		.format = o->format,
		.schema = o->schema,
		.paths = train ? o->train : o->test,
		.paths_count = train ? o->train_count : o->test_count,
		.batch = o->batch,
		.epochs = train ? o->epochs : 1,
		.worker = train ? worker : 0,
		.workers = train ? o->workers : 1,
		.shuffle = train ? o->shuffle : 0,
		.seed = o->seed + worker,
		.clicks = o->history,
		.slices = reader->queue ? train_queue_slices(reader->queue) : NULL,
	};
	struct train_queue *queue = reader->queue;

	*reader = (struct zoo_reader){
		.shape = zoo_shape(o), .batch = o->batch, .queue = queue, .input = input_open(&options, err)
	};
	prng_seed(&reader->clicks.prng, options.seed);
	return reader->input ? 0 : err->code;
}

/* ---- scaling ---- */

/* Means and deviations of the numbers in the training files; criteo's are approximately standardized when they are
 * read. */
static int measure_zoo(const struct zoo_options *o, struct zoo_scaling *scaling, struct star_error *err)
{
	const uint32_t dense = zoo_shape(o).dense;
	double sum[ZOO_NUMBERS_MAX] = { 0 }, squares[ZOO_NUMBERS_MAX] = { 0 }, count = 0;
	struct zoo_options once = *o;
	const struct input_batch *batch;
	struct zoo_reader reader = { 0 };
	int rc;

	for (uint32_t i = 0; i < ZOO_NUMBERS_MAX; i++) {
		scaling->mean[i] = 0;
		scaling->deviation[i] = 1;
	}
	if (!zoo_has_standardized(o))
		return 0;
	once.epochs = once.workers = 1;
	once.shuffle = 0;
	rc = open_reader(&reader, &once, 0, true, err);
	while (rc == 0 && (rc = input_next(reader.input, &batch, err)) > 0) {
		for (size_t i = 0; i < (size_t)batch->rows * dense; i++) {
			sum[i % dense] += batch->dense[i];
			squares[i % dense] += (double)batch->dense[i] * batch->dense[i];
		}
		count += batch->rows;
		rc = 0;
	}
	input_close(reader.input);
	for (uint32_t i = 0; rc == 0 && i < dense; i++) {
		if (!zoo_is_standardized(o, i))
			continue;
		const double mean = sum[i] / count, variance = squares[i] / count - mean * mean;

		scaling->mean[i] = (float)mean;
		scaling->deviation[i] = variance > 0 ? (float)sqrt(variance) : 1;
	}
	return rc;
}

/* ---- */

/* Where this worker reports its progress to the parent, and the sources of the numbers. */
struct watch {
	struct figures *seen;
	struct estimator_input input;
	struct zoo_reader *reader;	     /* of rows */
	const double *share;		     /* of the files */
	int64_t rows[SESSION_IN_FLIGHT_MAX]; /* of the batches in flight, used in turn */
	uint64_t begun, ended;		     /* number of batches */
};

static int watched_next(void *arg, struct graph_tensor *feeds, struct star_error *err)
{
	struct watch *w = arg;
	const int rc = w->input.next(w->input.arg, feeds, err);

	if (rc > 0)
		w->rows[w->begun++ % SESSION_IN_FLIGHT_MAX] = feeds[0].type.shape.dims[0];
	return rc;
}

/* There is a single writer of the figures: this process. */
static int show_step(void *arg, struct session *session, const struct session_step *step, struct star_error *err)
{
	struct watch *w = arg;
	struct figures *f = w->seen;
	const int64_t rows = w->rows[w->ended++ % SESSION_IN_FLIGHT_MAX];
	const double loss = atomic_load_explicit(&f->loss, memory_order_relaxed) + step->loss * (double)rows;
	const uint64_t examples = atomic_load_explicit(&f->examples, memory_order_relaxed) + (uint64_t)rows;

	(void)session, (void)err;
	if (w->reader->queue) /* the updates of this step are complete */
		input_finished(w->reader->input, w->ended);
	atomic_store_explicit(&f->loss, loss, memory_order_relaxed);
	atomic_store_explicit(&f->examples, examples, memory_order_relaxed);
	atomic_store_explicit(&f->sentences, (uint64_t)(*w->share * ZOO_WHOLE), memory_order_relaxed);
	return 0;
}

/* ---- processes ---- */

enum purpose { TRAIN, EVALUATE, EVALUATE_BESIDE, PREDICT };

/* Input and model function of one process. */
struct work {
	const struct zoo_options *options;
	struct params params;
	struct zoo_reader reader;
};

static bool of_rows(const struct zoo_options *o)
{
	return o->model->kind == ZOO_ROWS;
}

/* Opens the input for a pass over the files, or for all of this worker's training. */
static int open_input(void *arg, bool train, uint32_t worker, struct estimator_input *input, struct star_error *err)
{
	struct work *w = arg;
	const bool rows = of_rows(w->options);

	*input = (struct estimator_input){ rows ? next_batch : next_of_text,
					   rows ? (void *)&w->reader : (void *)&w->params.text };
	return rows ? open_reader(&w->reader, w->options, worker, train, err)
		    : zoo_text_open(&w->params.text, worker, train, err);
}

static int open_test(void *arg, struct estimator_input *input, struct star_error *err)
{
	return open_input(arg, false, 0, input, err);
}

static void close_input(void *arg, struct estimator_input *input)
{
	struct work *w = arg;

	(void)input;
	input_close(w->reader.input);
	w->reader.input = NULL;
	if (!of_rows(w->options))
		zoo_text_close_input(&w->params.text);
}

static struct session_config make_config(const struct zoo_options *o, uint32_t worker, const char *ps)
{
	return (struct session_config){
		.ps = ps,
		.task_index = worker,
		.evaluator = o->evaluator,
		.protocol = o->protocol,
		.tensor_fuse = o->tensor_fuse,
		.wire = o->wire,
		.intra_op_parallelism_threads = o->intra_op,
		.inter_op_parallelism_threads = o->inter_op,
		.steps_in_flight = o->steps_in_flight,
		.model_dir = o->model_dir,
		.log_step_count_steps = worker == 0 && !isatty(STDERR_FILENO) ? 0 : UINT32_MAX,
		.last_step = o->last_step,
		.seed = o->seed + worker,
		.deadline_us = o->deadline_us,
		.connect_us = o->connect_us,
		.consistency = o->evaluator ? NULL : o->consistency,
		.job = o->model->name,
		.workers = o->workers,
		.staleness = o->staleness,
		.grads_to_wait = o->grads_to_wait,
		.mean_by_row = o->mean_by_row && !o->evaluator,
		.lease_us = o->lease_us,
		.must_exist = o->command != ZOO_TRAIN,
	};
}

static int open_queue(struct work *w, const char *ps, struct star_error *err)
{
	const struct zoo_options *o = w->options;
	const struct train_queue_options options = { .name = o->queue,
						     .paths = o->train,
						     .paths_count = o->train_count,
						     .epochs = o->epochs,
						     .slice_bytes = o->slice_kib << 10,
						     .seed = o->shuffle ? o->seed : 0,
						     .lease_us = o->lease_us,
						     .deadline_us = o->deadline_us };

	w->reader.queue = train_queue_open(ps, &options, err);
	return w->reader.queue ? 0 : err->code;
}

/* The reader knows which rows these are: those of its last batch. */
struct printer {
	const struct zoo_options *options;
	struct estimator_input input;
	uint32_t tasks;
	const float *labels[1 + ESTIMATOR_HEADS_MAX]; /* of the batch that was read last */
	char *names[1 + ESTIMATOR_HEADS_MAX];	      /* of further tasks, in JSON */
};

static int printed_next(void *arg, struct graph_tensor *feeds, struct star_error *err)
{
	struct printer *p = arg;
	const int rc = p->input.next(p->input.arg, feeds, err);

	for (uint32_t i = 0; rc > 0 && i < p->tasks; i++)
		p->labels[i] = feeds[i].data;
	return rc;
}

/* Nine digits preserve all bits of a float. */
static void print_score(const struct printer *p, uint32_t task, double score, double label)
{
	if (!p->options->json)
		printf("%s%.9g\t%g", task ? "\t" : "", score, label);
	else if (task == 0)
		printf("{\"score\": %.9g, \"label\": %g", score, label);
	else
		printf("%s%s: {\"score\": %.9g, \"label\": %g}", task == 1 ? ", \"heads\": {" : ", ", p->names[task],
		       score, label);
}

/* A full disk is reported at once, not after the last example. */
static int print_scores(void *arg, const struct graph_tensor *predictions, struct star_error *err)
{
	const struct printer *p = arg;
	const int64_t rows = graph_elements(&predictions->type.shape);

	for (int64_t i = 0; i < rows; i++) {
		for (uint32_t task = 0; task < p->tasks; task++) {
			const double score = (double)((const float *)predictions[task].data)[i];

			if (!isfinite(score))
				return star_error_set(err, -EDOM, "a score is not a number: the model has diverged");
			print_score(p, task, score, (double)p->labels[task][i]);
		}
		puts(!p->options->json ? "" : p->tasks > 1 ? "}}" : "}");
	}
	return ferror(stdout) ? output_flush(stdout, "the scores", err) : 0;
}

static int printer_init(struct printer *p, const struct zoo_options *o, struct star_error *err)
{
	*p = (struct printer){ .options = o, .tasks = 1 + zoo_shape(o).more_labels };
	for (uint32_t i = 1; i < p->tasks; i++) {
		json_t *name = json_string(zoo_task_name(o, i - 1));

		p->names[i] = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
		json_decref(name);
		if (!p->names[i])
			return star_error_set(err, -EINVAL, "the label \"%.100s\" is not UTF-8: give it another name",
					      zoo_task_name(o, i - 1));
	}
	return 0;
}

static void printer_fini(struct printer *p)
{
	for (uint32_t i = 1; i < p->tasks; i++)
		free(p->names[i]);
}

static int work_of(const struct estimator *e, struct work *w, enum purpose purpose, struct watch *watch,
		   struct zoo_figures *figures, struct star_error *err)
{
	const struct estimator_eval eval = {
		.every_steps = w->options->evaluate_every, .arg = w, .open = open_test, .close = close_input
	};
	struct estimator_figures trained;
	struct printer printer;
	struct estimator_input input;
	int rc;

	if (purpose == EVALUATE_BESIDE) /* its own input is not used */
		return estimator_train_and_evaluate(e, (struct estimator_input){ NULL, NULL }, &eval, &trained,
						    &figures->estimator, err);
	if (printer_init(&printer, w->options, err) < 0)
		return err->code;
	rc = purpose == TRAIN && w->options->queue ? open_queue(w, e->config.ps, err) : 0;
	if (rc == 0)
		rc = open_input(w, purpose == TRAIN, e->config.task_index, &watch->input, err);
	printer.input = watch->input;
	input = purpose == TRAIN     ? (struct estimator_input){ watched_next, watch }
		: purpose == PREDICT ? (struct estimator_input){ printed_next, &printer }
				     : watch->input;
	if (rc == 0)
		rc = purpose == TRAIN	  ? estimator_train(e, input, 0, &figures->estimator, err)
		     : purpose == PREDICT ? estimator_predict(e, input, print_scores, &printer, err)
					  : estimator_evaluate(e, input, &figures->estimator, err);
	close_input(w, &input);
	if (train_queue_close(w->reader.queue, rc < 0 ? NULL : err) < 0 && rc == 0)
		rc = err->code;
	w->reader.queue = NULL;
	printer_fini(&printer);
	return rc;
}

static int run_estimator(const struct zoo_options *o, uint32_t worker, enum purpose purpose, struct figures *seen,
			 struct zoo_figures *figures, struct star_error *err)
{
	struct work w = { .options = o, .params = { .options = o } };
	char ps[TRANSPORT_PS_TEXT];
	struct watch watch = { .seen = seen,
			       .reader = &w.reader,
			       .share = of_rows(o) ? &w.reader.share : &w.params.text.share };
	const struct session_hook hook = { .arg = &watch, .after_step = show_step };
	const struct estimator estimator = { .hooks = &hook,
					     .hooks_count = 1,
					     .model_fn = model_fn,
					     .params = &w.params,
					     .config = make_config(o, worker, ps) };
	int rc = transport_ps(o->ps, o->dpdk, worker, ps, err);

	if (rc == 0)
		rc = of_rows(o) ? measure_zoo(o, &w.params.scaling, err) : zoo_text_learn(&w.params.text, o, err);
	if (rc == 0)
		rc = work_of(&estimator, &w, purpose, &watch, figures, err);
	figures->unigram_loss = w.params.text.told ? w.params.text.unigram / (double)w.params.text.told : 0;
	zoo_text_close(&w.params.text);
	free(w.reader.clicks.others);
	return rc;
}

int zoo_train(const struct zoo_options *o, uint32_t worker, struct figures *seen, struct zoo_figures *figures,
	      struct star_error *err)
{
	return run_estimator(o, worker, TRAIN, seen, figures, err);
}

int zoo_evaluate(const struct zoo_options *o, struct zoo_figures *figures, struct star_error *err)
{
	return run_estimator(o, 0, o->evaluator ? EVALUATE_BESIDE : EVALUATE, NULL, figures, err);
}

int zoo_predict(const struct zoo_options *o, struct star_error *err)
{
	struct zoo_figures figures;

	return run_estimator(o, 0, PREDICT, NULL, &figures, err);
}
