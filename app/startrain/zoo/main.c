/* SPDX-License-Identifier: BSD-3-Clause */
/* `startrain MODEL`: a parent process that watches worker processes, then an evaluation. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app/startrain/job.h"
#include "app/startrain/progress.h"
#include "app/startrain/zoo/zoo.h"
#include "base/clock.h"

struct zoo_job {
	struct job job; /* first: tasks get a pointer to it */
	struct zoo_options options;
	struct results *results; /* shared with the workers' processes */
};

struct results {
	uint64_t trained_ns;	 /* by clock_ns, if the parameters are in this process, which then evaluates too */
	struct zoo_figures of[]; /* the local workers, then the evaluation */
};

static int train_task(struct job *job, uint32_t worker, struct star_error *err)
{
	struct zoo_job *zoo = (struct zoo_job *)job;
	const uint32_t local = worker - zoo->options.first_worker;

	return zoo_train(&zoo->options, worker, &job->shared->figures[local], &zoo->results->of[local], err);
}

static int evaluate_task(struct job *job, uint32_t worker, struct star_error *err)
{
	struct zoo_job *zoo = (struct zoo_job *)job;

	(void)worker;
	return zoo_evaluate(&zoo->options, &zoo->results->of[zoo->options.local_workers], err);
}

static int predict_task(struct job *job, uint32_t worker, struct star_error *err)
{
	(void)worker;
	return zoo_predict(&((struct zoo_job *)job)->options, err);
}

/* Training and evaluation in the process that has the parameters. */
static int local_task(struct job *job, uint32_t worker, struct star_error *err)
{
	struct zoo_job *zoo = (struct zoo_job *)job;
	const int rc = train_task(job, worker, err);

	zoo->results->trained_ns = clock_ns();
	return rc == 0 && zoo->options.test_count ? evaluate_task(job, worker, err) : rc;
}

static void *shared_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* ---- the result ---- */

/* Figures that do not apply are null. */
static json_t *figure_json(double figure)
{
	return isfinite(figure) ? json_real(figure) : json_null();
}

static void add_metrics(json_t *json, const struct train_metrics_figures *m)
{
	const struct {
		const char *name;
		double value;
	} all[] = { { "threshold", m->threshold }, { "accuracy", m->accuracy },
		    { "precision", m->precision }, { "recall", m->recall },
		    { "log_loss", m->log_loss },   { "calibration", m->calibration },
		    { "rmse", m->rmse },	   { "calibration_error", m->calibration_error } };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		json_object_set_new(json, all[i].name, figure_json(all[i].value));
}

static void print_metrics(const struct train_metrics_figures *m)
{
	const struct {
		const char *name;
		double value;
	} all[] = { { "accuracy", m->accuracy },
		    { "precision", m->precision },
		    { "recall", m->recall },
		    { "log loss", m->log_loss },
		    { "RMSE", m->rmse },
		    { "calibration", m->calibration },
		    { "calibration error", m->calibration_error } };
	const char *between = "";

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!isfinite(all[i].value)) /* it does not apply */
			continue;
		printf("%s%s %.5f", between, all[i].name, all[i].value);
		between = ", ";
	}
	printf("; predictions of at least %g count as 1\n", m->threshold);
}

/* The further tasks, by their labels' names. */
static json_t *heads_json(const struct zoo_options *o, const struct estimator_figures *f)
{
	json_t *heads = json_object();

	for (uint32_t i = 0; i < zoo_shape(o).more_labels; i++) {
		json_t *head = json_object();

		json_object_set_new(head, "auc", figure_json(f->heads[i].auc));
		add_metrics(head, &f->heads[i].metrics);
		json_object_set_new(heads, zoo_task_name(o, i), head);
	}
	return heads;
}

static void add_test(json_t *json, const struct zoo_options *o, const struct zoo_figures *test)
{
	json_object_set_new(json, "test_examples", json_integer((json_int_t)test->estimator.examples));
	json_object_set_new(json, "test_loss", json_real(test->estimator.loss));
	if (o->model->kind != ZOO_WINDOWS) {
		json_object_set_new(json, "auc", figure_json(test->estimator.auc));
		add_metrics(json, &test->estimator.metrics);
		if (zoo_shape(o).more_labels)
			json_object_set_new(json, "heads", heads_json(o, &test->estimator));
	} else {
		json_object_update_new(json, json_pack("{s:f, s:f}", "perplexity", exp(test->estimator.loss),
						       "unigram_perplexity", exp(test->unigram_loss)));
	}
}

static void print_test(const struct zoo_options *o, const struct zoo_figures *test)
{
	const unsigned long long examples = test->estimator.examples;

	if (o->model->kind == ZOO_WINDOWS) {
		printf("test: perplexity %.2f, from word frequencies alone %.2f, over %llu windows\n",
		       exp(test->estimator.loss), exp(test->unigram_loss), examples);
		return;
	}
	if (isnan(test->estimator.auc))
		printf("test: no AUC, because all labels are equal; loss %.5f over %llu examples\n",
		       test->estimator.loss, examples);
	else
		printf("test: AUC %.5f, loss %.5f over %llu examples\n", test->estimator.auc, test->estimator.loss,
		       examples);
	print_metrics(&test->estimator.metrics);
	for (uint32_t i = 0; i < zoo_shape(o).more_labels; i++) {
		const struct estimator_head_figures *head = &test->estimator.heads[i];

		printf("%s: ", zoo_task_name(o, i));
		if (isnan(head->auc))
			printf("no AUC, because all labels are equal; ");
		else
			printf("AUC %.5f, ", head->auc);
		print_metrics(&head->metrics);
	}
}

/* The first local worker that has trained at all: others may have taken all of a work queue. */
static const struct estimator_figures *first_trained(const struct zoo_job *zoo)
{
	uint32_t i = 0;

	while (i + 1 < zoo->options.local_workers && !zoo->results->of[i].estimator.examples)
		i++;
	return &zoo->results->of[i].estimator;
}

/* What the local workers have done; seconds: of training. */
static void add_training(json_t *json, const struct zoo_job *zoo, double seconds)
{
	const struct zoo_options *o = &zoo->options;
	const struct estimator_figures *first = first_trained(zoo);
	uint64_t examples = 0, steps = 0;

	for (uint32_t i = 0; i < o->local_workers; i++) {
		examples += zoo->results->of[i].estimator.examples;
		steps += zoo->results->of[i].estimator.steps;
	}
	json_object_update_new(json, json_pack("{s:I, s:I, s:f, s:f, s:o, s:i, s:i, s:f}", "examples",
					       (json_int_t)examples, "steps", (json_int_t)steps, "seconds", seconds,
					       "examples_per_s", (double)examples / seconds, "loss",
					       first->examples ? json_real(first->loss) : json_null(), "rounds",
					       (int)first->rounds, "requests", (int)first->requests, "steps_per_s",
					       first->steps > 1 ? (double)(first->steps - 1) / first->seconds : 0));
	if (o->json)
		return;
	printf("%s over %s: %llu examples in %.1f s (%.0f per second), %u round trips and %u requests per step\n",
	       o->model->name, o->protocol, (unsigned long long)examples, seconds, (double)examples / seconds,
	       first->rounds, first->requests);
	if (first->examples)
		printf("training loss %.5f\n", first->loss);
	else
		printf("no training loss: there were no examples\n");
}

static void print_result(const struct zoo_job *zoo, double seconds)
{
	const struct zoo_options *o = &zoo->options;
	const struct zoo_figures *test = &zoo->results->of[o->local_workers];
	json_t *json = json_pack("{s:s, s:s}", "model", o->model->name, "protocol", o->protocol);
	char *text;

	if (o->command == ZOO_TRAIN && !o->evaluator)
		add_training(json, zoo, seconds);
	if (o->test_count)
		add_test(json, o, test);
	text = o->json ? json_dumps(json, JSON_REAL_PRECISION(17)) : NULL;
	if (text)
		puts(text);
	else if (o->test_count)
		print_test(o, test);
	free(text);
	json_decref(json);
}

/* On a terminal the progress is shown; otherwise worker 0 prints lines about its steps. */
static int train_zoo(struct zoo_job *zoo, struct star_error *err)
{
	const struct zoo_options *o = &zoo->options;
	int rc;

	if (isatty(STDERR_FILENO)) {
		zoo->job.progress = progress_create(&zoo->job, (uint64_t)o->local_workers * ZOO_WHOLE, NULL, NULL, err);
		if (!zoo->job.progress)
			return err->code;
	}
	rc = job_run(&zoo->job, "worker", zoo_is_local(o) ? local_task : train_task, o->local_workers, err);
	if (zoo->job.progress)
		progress_finish(zoo->job.progress);
	progress_destroy(zoo->job.progress);
	zoo->job.progress = NULL;
	return rc;
}

static int run_zoo(struct zoo_job *zoo, struct star_error *err)
{
	const struct zoo_options *o = &zoo->options;
	const uint64_t begin_ns = clock_ns();
	const bool local = zoo_is_local(o);
	double seconds;
	int rc;

	zoo->results = shared_memory(sizeof(*zoo->results) + (o->local_workers + 1) * sizeof(zoo->results->of[0]));
	zoo->job.options.first_worker = o->first_worker;
	zoo->job.options.local_workers = o->local_workers;
	rc = zoo->results ? job_prepare(&zoo->job, err) : star_error_set(err, -ENOMEM, "not enough memory");
	if (rc == 0 && o->command == ZOO_TRAIN && !o->evaluator)
		rc = train_zoo(zoo, err);
	if (rc == 0 && !local)
		zoo->results->trained_ns = clock_ns();
	if (rc == 0 && !local && o->test_count)
		rc = job_run(&zoo->job, NULL, o->command == ZOO_PREDICT ? predict_task : evaluate_task, 1, err);
	seconds = rc == 0 ? (double)(zoo->results->trained_ns - begin_ns) * 1e-9 : 0;
	if (rc == 0 && o->command != ZOO_PREDICT)
		print_result(zoo, seconds);
	job_release(&zoo->job);
	return rc;
}

int zoo_main(int argc, char **argv)
{
	static struct zoo_job zoo;
	struct star_error err = { 0 };
	int rc = zoo_options_parse(&zoo.options, argc, argv, &err), status = 2;

	if (rc > 0)
		return 0;
	if (rc == 0) {
		rc = run_zoo(&zoo, &err);
		status = 1;
	}
	input_schema_destroy(zoo.options.schema);
	cluster_spec_fini(&zoo.options.cluster);
	return job_exit_status(rc, status, &err);
}
