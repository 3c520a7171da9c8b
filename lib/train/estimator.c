/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/estimator.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "graph/build.h"
#include "graph/gradient.h"
#include "train/auc.h"
#include "train/cluster.h"
#include "train/internal.h"
#include "train/summary.h"

/* Results of an evaluation; in a prediction, the heads follow the first one. */
enum { PREDICTIONS, LOSS, GLOBAL_STEP, HEADS, RESULTS = HEADS + ESTIMATOR_HEADS_MAX };
enum { LOOK_MS = 200 /* interval at which an evaluator reads the global step */ };

/* A step in flight. If there are several, input functions continue meanwhile, so the step's feeds are copied. */
struct batch {
	struct feed_copy {
		void *bytes;
		uint64_t room;
	} * copies; /* for each feed */
	uint64_t examples;
};

/* A graph and the session that executes it. */
struct work {
	struct session_config config; /* the estimator's configuration, completed from TF_CONFIG */
	struct cluster_spec cluster;
	struct graph *graph;
	struct session *session;
	struct estimator_spec *spec;
	const char *results[RESULTS];
	struct graph_tensor *feeds;
	struct batch batches[SESSION_IN_FLIGHT_MAX]; /* used in turn */
	uint32_t at_once;
	uint64_t begun, ended; /* steps */
};

/* The loss, if there is one, is result 1. An evaluation has the global step as a result, but is not a step itself. */
static int set_results(struct work *w, enum estimator_mode mode)
{
	const struct estimator_spec *spec = w->spec;
	const bool train = mode == ESTIMATOR_TRAIN;
	uint32_t count = train ? 2 : mode == ESTIMATOR_EVAL ? HEADS : 1;
	struct graph_value values[RESULTS];

	w->results[0] = train ? SESSION_GLOBAL_STEP : "predictions";
	w->results[LOSS] = SESSION_LOSS;
	w->results[GLOBAL_STEP] = SESSION_GLOBAL_STEP;
	values[0] = train ? graph_global_step(w->graph) : spec->predictions;
	values[LOSS] = spec->loss;
	values[GLOBAL_STEP] = mode == ESTIMATOR_EVAL ? graph_global_step_read(w->graph) : GRAPH_NONE;
	for (uint32_t i = 0; !train && i < spec->heads_count; i++) {
		w->results[count] = spec->heads[i].name;
		values[count++] = spec->heads[i].predictions;
	}
	return graph_set_results(w->graph, values, count);
}

static int check_spec(const struct estimator_spec *spec, enum estimator_mode mode, struct star_error *err)
{
	if (spec->feeds_count > ESTIMATOR_FEEDS_MAX)
		return star_error_set(err, -E2BIG, "a model has at most %d feeds, not %u", ESTIMATOR_FEEDS_MAX,
				      spec->feeds_count);
	if (spec->heads_count > ESTIMATOR_HEADS_MAX)
		return star_error_set(err, -E2BIG, "a model has at most %d further heads, not %u", ESTIMATOR_HEADS_MAX,
				      spec->heads_count);
	if (!(spec->clip_norm >= 0))
		return star_error_set(err, -EINVAL, "clip_norm = %g: it must be above 0, or 0 for no clipping",
				      spec->clip_norm);
	for (uint32_t i = 0; i < spec->heads_count; i++) {
		const char *name = spec->heads[i].name;

		if (!name || !*name || !strcmp(name, SESSION_LOSS) || !strcmp(name, SESSION_GLOBAL_STEP))
			return star_error_set(err, -EINVAL, "head %u needs a name other than loss and global_step", i);
		if (strlen(name) > ESTIMATOR_HEAD_NAME_MAX)
			return star_error_set(err, -ENAMETOOLONG, "head %u: a name has at most %d bytes", i,
					      ESTIMATOR_HEAD_NAME_MAX);
		for (uint32_t before = 0; before < i; before++)
			if (!strcmp(spec->heads[before].name, name))
				return star_error_set(err, -EINVAL,
						      "heads %u and %u are both called \"%s\": their summaries would "
						      "be one",
						      before, i, name);
		if (mode != ESTIMATOR_TRAIN && graph_is_none(spec->heads[i].predictions))
			return star_error_set(err, -EINVAL, "head \"%s\" has no predictions", name);
	}
	return 0;
}

static int build_model(const struct estimator *e, enum estimator_mode mode, struct work *w, struct star_error *err)
{
	int rc = e->model_fn(e->params, mode, w->graph, w->spec, err);

	if (rc == 0)
		rc = graph_error(w->graph, err);
	if (rc == 0)
		rc = check_spec(w->spec, mode, err);
	if (rc < 0)
		return rc;
	rc = mode == ESTIMATOR_TRAIN
		     ? graph_train(w->graph, w->spec->loss,
				   &(struct graph_train_options){ .clip_norm = w->spec->clip_norm }, NULL)
		     : graph_make_read_only(w->graph);
	if (rc == 0)
		rc = set_results(w, mode);
	return graph_error(w->graph, err) < 0 ? err->code : rc;
}

/* A session that does not take part in training. */
static struct session_config aside(struct session_config config)
{
	config.model_dir = NULL;
	config.log_step_count_steps = UINT32_MAX;
	config.save_checkpoints_steps = config.save_checkpoints_secs = config.keep_checkpoint_max = 0;
	config.last_step = 0;
	config.consistency = NULL;
	config.steps_in_flight = 1;
	return config;
}

static int begin_work(const struct estimator *e, struct work *w, struct star_error *err)
{
	*w = (struct work){ .config = e->config, .graph = graph_create(), .spec = calloc(1, sizeof(*w->spec)) };
	if (!w->graph || !w->spec)
		return star_error_set(err, -ENOMEM, "no memory for a graph");
	return cluster_spec_take_environment(&w->cluster, &w->config, err);
}

/* Allocates a step's feeds, as many as the model has. */
static int make_room(struct work *w, struct star_error *err)
{
	const uint32_t feeds = w->spec->feeds_count;
	bool enough;

	w->feeds = calloc(feeds + 1, sizeof(*w->feeds));
	enough = w->feeds != NULL;
	for (uint32_t i = 0; i < w->at_once && w->at_once > 1 && enough; i++) {
		w->batches[i].copies = calloc(feeds + 1, sizeof(*w->batches[i].copies));
		enough = w->batches[i].copies != NULL;
	}
	return enough ? 0 : star_error_set(err, -ENOMEM, "no memory for the %u feeds of a model", feeds);
}

static int open_work(const struct estimator *e, enum estimator_mode mode, struct work *w, struct star_error *err)
{
	const bool train = mode == ESTIMATOR_TRAIN;
	struct session_config config;
	struct session_model model;
	int rc = begin_work(e, w, err);

	if (rc == 0 && train && w->config.evaluator)
		rc = star_error_set(err, -EINVAL,
				    "this is the evaluator, which does not train: estimator_train_and_evaluate and "
				    "estimator_evaluate are meant for it");
	if (rc == 0)
		rc = build_model(e, mode, w, err);
	if (rc < 0)
		return rc;
	config = train ? w->config : aside(w->config);
	if (session_config_check(&config, err) < 0) /* before its numbers are used */
		return err->code;
	w->at_once = config.steps_in_flight ? config.steps_in_flight : 1;
	if (make_room(w, err) < 0)
		return err->code;
	model = (struct session_model){
		.graph = w->graph, .results = w->results, .feeds = w->spec->feeds, .feeds_count = w->spec->feeds_count
	};
	w->session = session_create(&config, &model, train ? e->hooks : NULL, train ? e->hooks_count : 0, err);
	return w->session ? 0 : err->code;
}

/* Ends it, and returns the first error of all. */
static int close_work(struct work *w, int rc, struct star_error *err)
{
	struct star_error later;
	const int closed = session_close(w->session, rc < 0 ? &later : err);

	for (uint32_t i = 0; i < SESSION_IN_FLIGHT_MAX; i++) {
		for (uint32_t f = 0; w->batches[i].copies && f < w->spec->feeds_count; f++)
			free(w->batches[i].copies[f].bytes);
		free(w->batches[i].copies);
	}
	free(w->feeds);
	free(w->spec);
	graph_destroy(w->graph);
	cluster_spec_fini(&w->cluster);
	return rc < 0 ? rc : closed;
}

/* Tensors that are larger than allowed are left to the session, which reports them. */
static int copy_feeds(struct work *w, struct batch *batch, struct star_error *err)
{
	for (uint32_t i = 0; i < w->spec->feeds_count; i++) {
		struct graph_tensor *feed = &w->feeds[i];
		struct feed_copy *copy = &batch->copies[i];
		const struct graph_type *most = &w->spec->feeds[i].type;
		uint64_t bytes = 0;

		if (feed->data && feed->type.dtype == most->dtype && feed->type.shape.ndim == most->shape.ndim)
			bytes = graph_type_bytes(&feed->type);
		if (bytes == 0 || bytes > graph_type_bytes(most))
			continue;
		if (bytes > copy->room) {
			free(copy->bytes);
			copy->bytes = malloc(bytes);
			copy->room = copy->bytes ? bytes : 0;
		}
		if (!copy->bytes)
			return star_error_set(err, -ENOMEM, "no memory for a batch");
		memcpy(copy->bytes, feed->data, bytes);
		feed->data = copy->bytes;
	}
	return 0;
}

/* 1: a step was submitted; 0: the input has ended. */
static int begin_step(struct work *w, struct estimator_input input, struct star_error *err)
{
	struct batch *batch = &w->batches[w->begun % w->at_once];
	int rc = input.next(input.arg, w->feeds, err);

	if (rc <= 0)
		return rc;
	if (w->feeds[0].type.shape.ndim && w->feeds[0].type.shape.dims[0] == 0) /* its loss would be NaN */
		return star_error_set(err, -EINVAL, "a batch without examples");
	batch->examples = w->feeds[0].type.shape.ndim ? (uint64_t)w->feeds[0].type.shape.dims[0] : 1;
	rc = w->at_once > 1 ? copy_feeds(w, batch, err) : 0;
	if (rc == 0)
		rc = session_submit(w->session, w->feeds, err);
	w->begun += rc == 0;
	return rc < 0 ? rc : 1;
}

/* Ends the oldest step. */
static int end_step(struct work *w, const struct graph_tensor **results, struct estimator_figures *figures,
		    struct star_error *err)
{
	const int rc = session_take(w->session, results, err);

	if (rc < 0)
		return rc;
	figures->steps++;
	figures->examples += w->batches[w->ended++ % w->at_once].examples;
	return 0;
}

/* 1: a step was made; 0: the input has ended. */
static int next_step(struct work *w, struct estimator_input input, const struct graph_tensor **results,
		     struct estimator_figures *figures, struct star_error *err)
{
	int rc = begin_step(w, input, err);

	if (rc > 0 && end_step(w, results, figures, err) < 0)
		rc = err->code;
	return rc;
}

static double loss_of(const struct graph_tensor *results)
{
	return results[1].type.dtype == STAR_FLOAT64 ? *(const double *)results[1].data
						     : *(const float *)results[1].data;
}

/* ---- training ---- */

static int train_some(struct work *w, struct estimator_input input, uint64_t steps, struct estimator_figures *figures,
		      struct star_error *err)
{
	const struct graph_tensor *results;
	uint64_t begin_ns = clock_ns();
	int rc = 1;

	for (uint64_t i = 0;;) {
		while (rc > 0 && session_in_flight(w->session) < w->at_once && (!steps || i < steps) &&
		       !session_should_stop(w->session)) {
			rc = begin_step(w, input, err);
			i += rc > 0;
		}
		if (rc < 0 || !session_in_flight(w->session))
			break;
		if (end_step(w, &results, figures, err) < 0)
			return err->code;
		if (figures->steps == 1)
			begin_ns = clock_ns();
		figures->loss += (loss_of(results) - figures->loss) / (figures->steps == 1 ? 1 : 100);
	}
	figures->seconds += (double)(clock_ns() - begin_ns) * 1e-9;
	figures->rounds = session_cut(w->session)->rounds;
	figures->requests = session_cut(w->session)->requests;
	return rc;
}

int estimator_train(const struct estimator *e, struct estimator_input input, uint64_t steps,
		    struct estimator_figures *figures, struct star_error *err)
{
	struct work w;
	int rc = open_work(e, ESTIMATOR_TRAIN, &w, err);

	*figures = (struct estimator_figures){ 0 };
	if (rc == 0)
		rc = train_some(&w, input, steps, figures, err);
	return close_work(&w, rc < 0 ? rc : 0, err);
}

/* ---- evaluating ---- */

/* Of a head. */
struct scores {
	struct graph_value predictions;
	const char *labels; /* NULL: they are not compared */
	uint32_t result, feed;
	struct train_metrics metrics;
	struct auc_example *examples;
	size_t count, room;
	bool kinds[2]; /* there are negative ones, and positive ones, as defined in auc.h */
};

static int add_scores(struct scores *s, const struct graph_tensor *predictions, const float *labels,
		      struct star_error *err)
{
	const size_t n = (size_t)graph_elements(&predictions->type.shape);
	const float *values = predictions->data;

	if (s->count + n > s->room) {
		const size_t room = 2 * s->room + n;
		struct auc_example *more = realloc(s->examples, room * sizeof(*more));

		if (!more)
			return star_error_set(err, -ENOMEM, "no memory for the scores of %zu examples", room);
		s->examples = more;
		s->room = room;
	}
	for (size_t i = 0; i < n; i++) {
		s->examples[s->count++] = (struct auc_example){ .score = values[i], .label = labels[i] };
		s->kinds[labels[i] > 0.5f] = true;
	}
	train_metrics_add(&s->metrics, values, labels, n);
	return 0;
}

/* Finds the feed with the labels; -EINVAL: predictions do not match it. */
static int find_labels(const struct work *w, struct scores *s, struct star_error *err)
{
	uint32_t feed = 0;

	while (feed < w->spec->feeds_count && strcmp(w->spec->feeds[feed].name, s->labels) != 0)
		feed++;
	s->feed = feed;
	if (feed == w->spec->feeds_count)
		return star_error_set(err, -EINVAL, "there is no feed \"%s\" with the labels", s->labels);
	if (w->spec->feeds[feed].type.dtype != STAR_FLOAT32 ||
	    graph_type(w->graph, s->predictions)->dtype != STAR_FLOAT32)
		return star_error_set(err, -EINVAL, "labels and predictions must be float32 to be compared");
	return 0;
}

/* The first head, then the further ones. */
static int begin_scores(const struct work *w, struct scores *scores, struct star_error *err)
{
	const struct estimator_spec *spec = w->spec;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i <= spec->heads_count; i++) {
		const struct estimator_head *head = i ? &spec->heads[i - 1] : NULL;
		const double threshold = head ? head->threshold : spec->threshold;

		scores[i] = (struct scores){ .predictions = head ? head->predictions : spec->predictions,
					     .labels = head ? head->labels : spec->labels,
					     .result = head ? HEADS + i - 1 : PREDICTIONS };
		train_metrics_begin(&scores[i].metrics, threshold != 0 ? threshold : 0.5);
		if (scores[i].labels)
			rc = find_labels(w, &scores[i], err);
	}
	return rc;
}

static int add_all_scores(const struct work *w, struct scores *scores, const struct graph_tensor *results,
			  struct star_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i <= w->spec->heads_count; i++) {
		const struct graph_tensor *predictions = &results[scores[i].result],
					  *labels = &w->feeds[scores[i].feed];

		if (!scores[i].labels)
			continue;
		if (graph_elements(&predictions->type.shape) != graph_elements(&labels->type.shape))
			return star_error_set(err, -EINVAL, "the numbers of predictions and labels differ");
		rc = add_scores(&scores[i], predictions, labels->data, err);
	}
	return rc;
}

static int end_scores(struct scores *s, double *auc, struct train_metrics_figures *metrics, struct star_error *err)
{
	*auc = NAN;
	*metrics = train_metrics_end(&s->metrics);
	return s->kinds[false] && s->kinds[true] ? auc_exact(s->examples, s->count, auc, err) : 0;
}

static int evaluate_all(struct work *w, struct estimator_input input, struct estimator_figures *figures,
			struct scores *scores, struct star_error *err)
{
	const struct graph_tensor *results;
	double sum = 0;
	int rc = begin_scores(w, scores, err);

	while (rc == 0) {
		const uint64_t before = figures->examples;

		rc = next_step(w, input, &results, figures, err);
		if (rc <= 0)
			break;
		sum += loss_of(results) * (double)(figures->examples - before);
		rc = add_all_scores(w, scores, results, err);
	}
	if (rc == 0 && !figures->examples)
		return star_error_set(err, -ENODATA, "there are no examples to evaluate with");
	if (rc < 0)
		return rc;
	figures->loss = sum / (double)figures->examples;
	rc = end_scores(&scores[0], &figures->auc, &figures->metrics, err);
	for (uint32_t i = 0; rc == 0 && i < w->spec->heads_count; i++)
		rc = end_scores(&scores[1 + i], &figures->heads[i].auc, &figures->heads[i].metrics, err);
	return rc;
}

enum { SCORES = 8, HEAD_NAME_ROOM = 128 };

/* Adds the metrics that apply; returns the number of scalars. */
static uint32_t add_scalars(struct summary_scalar *scalars, uint32_t count, double auc,
			    const struct train_metrics_figures *m)
{
	const struct summary_scalar all[SCORES] = {
		{ "auc", auc },
		{ "accuracy", m->accuracy },
		{ "precision", m->precision },
		{ "recall", m->recall },
		{ "log_loss", m->log_loss },
		{ "calibration", m->calibration },
		{ "calibration_error", m->calibration_error },
		{ "rmse", m->rmse },
	};

	for (uint32_t i = 0; i < SCORES; i++)
		if (!isnan(all[i].value))
			scalars[count++] = all[i];
	return count;
}

/* Beside those of training, in a separate directory, as TensorFlow does. A failure is only reported, because the
 * figures are available anyway. */
static void summarize(const struct work *w, const struct estimator_figures *figures)
{
	struct summary_scalar scalars[1 + SCORES * (1 + ESTIMATOR_HEADS_MAX)] = { { "loss", figures->loss } };
	char names[ESTIMATOR_HEADS_MAX][SCORES][HEAD_NAME_ROOM];
	const char *const directory = w->config.model_dir;
	struct summary *summary = NULL;
	char path[PATH_MAX];
	struct star_error err;
	uint32_t count = add_scalars(scalars, 1, figures->auc, &figures->metrics);
	int rc = -ENAMETOOLONG;

	for (uint32_t i = 0; i < w->spec->heads_count; i++) {
		const uint32_t first = count;

		count = add_scalars(scalars, count, figures->heads[i].auc, &figures->heads[i].metrics);
		for (uint32_t k = first; k < count; k++) {
			char *name = names[i][k - first];

			snprintf(name, HEAD_NAME_ROOM, "%.80s/%s", w->spec->heads[i].name, scalars[k].tag);
			scalars[k].tag = name;
		}
	}
	if (!directory || !(session_is_chief(&w->config) || w->config.evaluator))
		return;
	mkdir(directory, 0777); /* if it fails, the next call fails too, and reports it */
	if (snprintf(path, sizeof(path), "%s/eval", directory) < (int)sizeof(path))
		summary = summary_create(path, &err);
	else
		star_error_set(&err, rc, "the path %.100s... is too long", directory);
	if (summary)
		rc = summary_write(summary, session_global_step(w->session), scalars, count, &err);
	if (rc < 0)
		fprintf(stderr, "no summary of the evaluation: %s\n", err.text);
	summary_destroy(summary);
}

int estimator_evaluate(const struct estimator *e, struct estimator_input input, struct estimator_figures *figures,
		       struct star_error *err)
{
	struct scores scores[1 + ESTIMATOR_HEADS_MAX] = { { .labels = NULL } };
	struct work w;
	int rc = open_work(e, ESTIMATOR_EVAL, &w, err);

	*figures = (struct estimator_figures){ 0 };
	if (rc == 0)
		rc = evaluate_all(&w, input, figures, scores, err);
	if (rc == 0)
		summarize(&w, figures);
	for (uint32_t i = 0; i <= ESTIMATOR_HEADS_MAX; i++)
		free(scores[i].examples);
	return close_work(&w, rc, err);
}

int estimator_predict(const struct estimator *e, struct estimator_input input, estimator_each *each, void *arg,
		      struct star_error *err)
{
	struct estimator_figures figures = { 0 };
	const struct graph_tensor *results;
	struct work w;
	int rc = open_work(e, ESTIMATOR_PREDICT, &w, err);

	while (rc == 0 && (rc = next_step(&w, input, &results, &figures, err)) > 0)
		rc = each(arg, &results[0], err);
	return close_work(&w, rc < 0 ? rc : 0, err);
}

/* ---- both ---- */

static int evaluate_once(const struct estimator *e, const struct estimator_eval *eval,
			 struct estimator_figures *figures, struct star_error *err)
{
	struct estimator_input input;
	int rc = eval->open(eval->arg, &input, err);

	if (rc < 0)
		return rc;
	rc = estimator_evaluate(e, input, figures, err);
	eval->close(eval->arg, &input);
	return rc;
}

/* Opens a session that only reads the global step. */
static int open_watch(const struct estimator *e, struct work *w, struct star_error *err)
{
	int rc = begin_work(e, w, err);

	if (rc == 0) {
		const struct graph_value step = graph_global_step_read(w->graph);
		const struct session_model model = { .graph = w->graph, .results = w->results };
		const struct session_config config = aside(w->config);

		w->results[0] = SESSION_GLOBAL_STEP;
		rc = graph_set_results(w->graph, &step, 1);
		if (rc == 0)
			w->session = session_create(&config, &model, NULL, 0, err);
		else
			graph_error(w->graph, err);
	}
	return rc == 0 && w->session ? 0 : err->code;
}

/*
 * Waits for the global step of the next evaluation. 1: it is reached; 0: it is the last one; or a negative errno: it
 * has not changed for as long as PS tasks may be away.
 */
static int await_step(struct work *watch, uint64_t every, uint64_t *from, struct star_error *err)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };
	const struct session_config *config = &watch->config;
	uint64_t seen = UINT64_MAX, seen_ns = 0;

	for (;;) {
		const int rc = session_run(watch->session, NULL, NULL, err);
		const uint64_t step = session_global_step(watch->session), now_ns = clock_ns();

		if (rc < 0)
			return rc;
		if (step < *from) /* the cluster rolled back to a checkpoint */
			*from = step;
		if (step >= config->last_step || (every && step - *from >= every)) {
			*from = step;
			return step < config->last_step;
		}
		if (step != seen) {
			seen = step;
			seen_ns = now_ns;
		} else if (now_ns - seen_ns > config->recovery_us * 1000) {
			return star_error_set(err, -ETIMEDOUT,
					      "the evaluator has waited for %llu s: the global step is still %llu, but "
					      "training ends at last_step, %llu",
					      (unsigned long long)config->recovery_us / 1000000,
					      (unsigned long long)step, (unsigned long long)config->last_step);
		}
		nanosleep(&pause, NULL);
	}
}

/* What an evaluator does: it follows the workers' global step until the last one. */
static int evaluate_beside(const struct estimator *e, const struct estimator_eval *eval,
			   struct estimator_figures *evaluated, struct star_error *err)
{
	struct work watch;
	uint64_t step = 0;
	int rc;

	if (!e->config.last_step)
		return star_error_set(err, -EINVAL,
				      "last_step is 0: the evaluator ends with training, but cannot know when that is; "
				      "set it to the last global step, for the workers too");
	rc = open_watch(e, &watch, err);
	session_set_defaults(&watch.config);
	for (bool more = rc == 0; more;) {
		rc = await_step(&watch, eval->every_steps, &step, err);
		more = rc > 0;
		if (rc >= 0)
			rc = evaluate_once(e, eval, evaluated, err);
		more = more && rc >= 0;
	}
	return close_work(&watch, rc, err);
}

static int train_between(const struct estimator *e, struct estimator_input input, const struct estimator_eval *eval,
			 struct estimator_figures *trained, struct estimator_figures *evaluated, struct star_error *err)
{
	struct work w;
	int rc = open_work(e, ESTIMATOR_TRAIN, &w, err);
	bool more = rc == 0;

	while (more) {
		rc = train_some(&w, input, eval->every_steps, trained, err);
		more = rc > 0 && eval->every_steps && !session_should_stop(w.session);
		if (rc >= 0 && session_is_chief(&w.config))
			rc = evaluate_once(e, eval, evaluated, err);
		more = more && rc >= 0;
	}
	return close_work(&w, rc < 0 ? rc : 0, err);
}

int estimator_train_and_evaluate(const struct estimator *e, struct estimator_input input,
				 const struct estimator_eval *eval, struct estimator_figures *trained,
				 struct estimator_figures *evaluated, struct star_error *err)
{
	struct session_config config = e->config;
	struct cluster_spec cluster;
	int rc = cluster_spec_take_environment(&cluster, &config, err);

	*trained = *evaluated = (struct estimator_figures){ 0 };
	cluster_spec_fini(&cluster); /* only this task's role was needed */
	if (rc < 0)
		return rc;
	return config.evaluator ? evaluate_beside(e, eval, evaluated, err)
				: train_between(e, input, eval, trained, evaluated, err);
}
