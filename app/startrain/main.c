/* SPDX-License-Identifier: BSD-3-Clause */
/* startrain: the reference worker. Trains word vectors on a StarServer cluster; see docs/man/startrain.1. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/startrain/graphfile/graphfile.h"
#include "app/startrain/job.h"
#include "app/startrain/key.h"
#include "app/startrain/progress.h"
#include "app/startrain/zoo/zoo.h"
#include "base/clock.h"
#include "base/nearest.h"
#include "base/output.h"

#define GENERATE "generate"
#define KEY "key"

static int load(struct job *job, struct star_error *err)
{
	const struct options *o = &job->options;
	int rc = job_prepare(job, err);

	if (rc == 0)
		rc = corpus_load(&job->corpus, o->texts, o->texts_count, o->training.min_count, err);
	return rc == 0 ? sampler_init(&job->sampler, &job->corpus.vocabulary, o->training.subsampling, err) : rc;
}

static void unload(struct job *job)
{
	sampler_fini(&job->sampler);
	corpus_free(&job->corpus);
	cluster_spec_fini(&job->options.cluster);
	job_release(job);
}

/* Sentences that this machine's workers have to process, in all epochs. */
static uint64_t count_sentences(const struct job *job)
{
	const struct options *o = &job->options;
	uint64_t sentences = 0;

	for (uint64_t i = o->first_worker; i < (uint64_t)o->first_worker + o->local_workers; i++)
		sentences += (job->corpus.training.count + o->workers - 1 - i) / o->workers;
	return sentences * o->training.epochs;
}

static int train_job(struct job *job, FILE *report, struct summary *summary, struct star_error *err)
{
	const uint64_t begin = clock_ns();
	int rc;

	job->progress = progress_create(job, count_sentences(job), report, summary, err);
	if (job->progress == NULL)
		return err->code;
	rc = job_run(job, "worker", worker_run, job->options.local_workers, err);
	job->training_s = (double)(clock_ns() - begin) * 1e-9;
	if (rc == 0)
		progress_finish(job->progress);
	progress_destroy(job->progress);
	job->progress = NULL;
	return rc;
}

/* Files are opened first, so that a name that cannot be written is reported before the training. */
static int open_output(const char *path, FILE **file, struct star_error *err)
{
	*file = path != NULL ? fopen(path, "we") : NULL;
	if (path != NULL && *file == NULL)
		return star_error_set(err, -errno, "cannot write %s: %s", path, strerror(errno));
	return 0;
}

static int run_job(struct job *job, struct star_error *err)
{
	struct summary *summary = NULL;
	FILE *report = NULL;
	int rc;

	rc = open_output(job->options.report, &report, err);
	if (rc == 0)
		rc = open_output(job->options.dump, &job->dump, err);
	if (rc == 0 && job->options.summaries != NULL) {
		summary = summary_create(job->options.summaries, err);
		rc = summary != NULL ? 0 : err->code;
	}
	if (rc == 0)
		rc = load(job, err);
	if (rc == 0)
		rc = job_run(job, NULL, prepare_run, 1, err);
	if (rc == 0)
		rc = train_job(job, report, summary, err);
	if (rc == 0)
		rc = job_run(job, NULL, finish_run, 1, err);
	unload(job);
	summary_destroy(summary);
	if (report != NULL && output_close(report, job->options.report, rc == 0 ? err : NULL) < 0 && rc == 0)
		rc = err->code;
	if (job->dump != NULL)
		fclose(job->dump);
	return rc;
}

static int words_main(int argc, char **argv)
{
	struct star_error err = { 0 };
	struct job job = { 0 };
	int rc = options_parse(&job.options, argc, argv, &err), status = 2;

	if (rc > 0)
		return 0;
	if (rc == 0) {
		rc = run_job(&job, &err);
		status = 1;
	}
	return job_exit_status(rc, status, &err);
}

/* The first argument, if it is not an option, must be a model. */
static int no_such_model(const char *name)
{
	const char *nearest = nearest_name(name, zoo_models, sizeof(zoo_models[0]));

	if (nearest_distance(name, GENERATE) < nearest_distance(name, nearest))
		nearest = GENERATE;
	if (nearest_distance(name, KEY) < nearest_distance(name, nearest))
		nearest = KEY;
	fprintf(stderr, "startrain: there is no model \"%.100s\"; did you mean \"%s\"? Models are", name, nearest);
	for (const struct zoo_model *model = zoo_models; model->name; model++)
		fprintf(stderr, "%s %s", model == zoo_models ? "" : ",", model->name);
	fputs("; " GENERATE " writes examples for them, " KEY " prints the key of a text; see startrain --help\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	int status;

	if (argc > 1 && zoo_model_find(argv[1]))
		status = zoo_main(argc, argv);
	else if (argc > 1 && !strcmp(argv[1], GENERATE))
		status = zoo_generate(argc, argv);
	else if (argc > 1 && graphfile_is_one(argv[1]))
		status = graphfile_main(argc, argv);
	else if (argc > 1 && !strcmp(argv[1], KEY))
		status = key_main(argc, argv);
	else if (argc > 1 && argv[1][0] != '-')
		status = no_such_model(argv[1]);
	else
		status = words_main(argc, argv);
	return output_end("startrain", status, 1);
}
