/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/job.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/startrain/progress.h"
#include "tests/startrain/cases.h"
#include "tests/unit.h"

enum { WORKERS = 4 };

/* Parses the words of a command line; the strings must outlive the options. */
static int parse(struct options *o, struct star_error *err, char **words, int count)
{
	optind = 0; /* glibc's getopt then starts again */
	opterr = 0;
	return options_parse(o, count, words, err);
}
#define PARSE(o, err, ...) \
	parse(o, err, (char *[]){ (char *)"startrain", __VA_ARGS__, NULL }, \
	      (int)(sizeof((char *[]){ (char *)"startrain", __VA_ARGS__ }) / sizeof(char *)))
#define ARG(text) ((char *)(text))

void options_have_bounds(void)
{
	struct star_error err = { 0 };
	struct options o;
	char text[64];

	CHECK_INT(PARSE(&o, &err, ARG("--ps"), ARG("tcp:h:1")), 0);
	CHECK_UINT(o.workers, 1);
	CHECK_UINT(o.local_workers, 1);
	CHECK_UINT(o.texts_count, TRAINING_TEXTS);
	CHECK_UINT(o.deadline_us, 30000000);
	for (int i = 0; i < TRAINING_OPTIONS; i++) {
		const struct training_option *t = &training_options[i];
		struct training values;

		CHECK(t->value >= t->low && t->value <= t->high);
		for (int k = 0; k < 2; k++) {
			snprintf(text, sizeof(text), "%.17g", k == 0 ? t->low : t->high);
			CHECK_INT(training_set(&values, t, text, &err), 0);
			snprintf(text, sizeof(text), "%.17g", k == 0 ? t->low / 2 - 0.1 : t->high * 2);
			CHECK_INT(training_set(&values, t, text, &err), -EINVAL);
			CHECK_HAS(err.text, t->name);
		}
	}
	CHECK_INT(PARSE(&o, &err, ARG("--ps=a"), ARG("--seed"), ARG("9"), ARG("--rate=0.5"), ARG("--workers=3"),
			ARG("--worker=2")),
		  0);
	CHECK_UINT(o.training.seed, 9);
	CHECK_NEAR(o.training.rate, 0.5, 0);
	CHECK_UINT(o.first_worker, 2);
	CHECK_UINT(o.local_workers, 1);
}

void options_take_files_after_text(void)
{
	struct star_error err = { 0 };
	struct options o;

	CHECK_INT(PARSE(&o, &err, ARG("--ps=a"), ARG("--text"), ARG("one"), ARG("two"), ARG("--json"), ARG("--text=x")),
		  0);
	CHECK_UINT(o.texts_count, 3);
	CHECK_STR(o.texts[0], "one");
	CHECK_STR(o.texts[1], "x");
	CHECK_STR(o.texts[2], "two");
	CHECK(o.json);
}

void options_say_what_is_wrong(void)
{
	static const struct {
		const char *words[4];
		const char *sentence;
	} cases[] = {
		{ { "--json" }, "--ps is missing" },
		{ { "--ps=a", "--transport=rdma" }, "--transport rdma: it must be tcp or dpdk" },
		{ { "--ps=a", "stray" }, "stray: an argument without an option" },
		{ { "--ps=a", "--workers=2", "--worker=2" }, "--worker 2: with --workers 2 it must be 0 to 1" },
		{ { "--ps=a", "--workers=0" }, "--workers 0: not a whole number from 1 to 65536" },
		{ { "--ps=a", "--epochs=1.5" }, "--epochs 1.5: not a whole number from 1 to 1000" },
		{ { "--ps=a", "--rate=nan" }, "--rate nan: not a number from 1e-06 to 10" },
		{ { "--ps=a", "--rate=" }, "--rate : not a number" },
		{ { "--ps=a", "--dim= 8" }, "--dim  8: not a whole number" },
		{ { "--ps=a", "--dim=8x" }, "--dim 8x: not a whole number" },
		{ { "--ps=a", "--seed=-1" }, "--seed -1: not a whole number from 0" },
		{ { "--ps=a", "--neighbours=33" }, "--neighbours 33: not a whole number from 0 to 32" },
		{ { "--ps=a", "--nonsense" }, "startrain --help shows the options" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *words[6] = { ARG("startrain") };
		struct star_error err = { 0 };
		struct options o;
		int count = 1;

		for (; count < 5 && cases[i].words[count - 1] != NULL; count++)
			words[count] = ARG(cases[i].words[count - 1]);
		CHECK_INT(parse(&o, &err, words, count), -EINVAL);
		CHECK_HAS(err.text, cases[i].sentence);
	}
}

static void job_begin(struct job *job)
{
	memset(job, 0, sizeof(*job));
	job->options.workers = job->options.local_workers = WORKERS;
	job->options.training.epochs = 2;
	job->shared_bytes = sizeof(*job->shared) + WORKERS * sizeof(job->shared->figures[0]);
	job->shared = mmap(NULL, job->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	job->pids = calloc(WORKERS, sizeof(*job->pids));
	sigemptyset(&job->watched);
	sigaddset(&job->watched, SIGCHLD);
	sigaddset(&job->watched, SIGUSR1); /* stands for Ctrl-C, which would end the test program if it came late */
	sigprocmask(SIG_BLOCK, &job->watched, &job->inherited);
}

static void job_end(struct job *job)
{
	CHECK_INT(waitpid(-1, NULL, WNOHANG), -1); /* no process is left, not even a dead one */
	CHECK_INT(errno, ECHILD);
	sigprocmask(SIG_SETMASK, &job->inherited, NULL);
	munmap(job->shared, job->shared_bytes);
	free(job->pids);
}

static int count_task(struct job *job, uint32_t worker, struct star_error *err)
{
	struct figures *f = &job->shared->figures[worker];

	f->examples = 100 + worker;
	f->rows_pulled = 10;
	f->rows_pushed = 5;
	f->sentences = 2;
	f->loss = 200;
	return 0;
}

static int fail_task(struct job *job, uint32_t worker, struct star_error *err)
{
	if (worker == 2)
		return star_error_set(err, -ETIMEDOUT, "node 0 did not answer");
	pause();
	return 0;
}

static int die_task(struct job *job, uint32_t worker, struct star_error *err)
{
	if (worker == 1)
		raise(SIGKILL);
	pause();
	return 0;
}

static int interrupt_task(struct job *job, uint32_t worker, struct star_error *err)
{
	if (worker == 0)
		kill(getppid(), SIGUSR1);
	pause();
	return 0;
}

void job_ends_well_when_all_processes_do(void)
{
	struct star_error err = { 0 };
	struct job job;

	job_begin(&job);
	CHECK_INT(job_run(&job, "worker", count_task, WORKERS, &err), 0);
	CHECK_UINT(job_totals(&job).examples, 406);
	CHECK_UINT(job_totals(&job).rows_pulled, 40);
	CHECK_NEAR(job_totals(&job).loss, 800, 0);
	job_end(&job);
}

void job_fails_with_the_message_of_its_process(void)
{
	struct star_error err = { 0 };
	struct job job;

	job_begin(&job);
	CHECK_INT(job_run(&job, "worker", fail_task, WORKERS, &err), -ECHILD);
	CHECK_STR(err.text, "worker 2: node 0 did not answer");
	job_end(&job);
	job_begin(&job);
	job.options.first_worker = 2;
	CHECK_INT(job_run(&job, NULL, fail_task, 1, &err), -ECHILD);
	CHECK_STR(err.text, "node 0 did not answer");
	job_end(&job);
}

void job_names_the_signal_that_ended_a_process(void)
{
	struct star_error err = { 0 };
	struct job job;

	job_begin(&job);
	CHECK_INT(job_run(&job, "worker", die_task, WORKERS, &err), -ECHILD);
	CHECK_HAS(err.text, "worker 1 (process ");
	CHECK_HAS(err.text, "was killed by signal 9 (Killed)");
	job_end(&job);
}

void job_ends_all_processes_on_a_signal(void)
{
	struct star_error err = { 0 };
	struct job job;

	job_begin(&job);
	CHECK_INT(job_run(&job, "worker", interrupt_task, WORKERS, &err), -EINTR);
	CHECK_INT(err.code, SIGUSR1);
	job_end(&job);
}

void a_bar_is_as_long_as_its_share(void)
{
	static const struct {
		double share;
		const char *bar;
	} cases[] = { { 0, "[    ]" }, { 0.24, "[    ]" }, { 0.25, "[=   ]" }, { 0.99, "[=== ]" }, { 1, "[====]" } };
	char text[16];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		progress_bar(cases[i].share, 4, text);
		CHECK_STR(text, cases[i].bar);
	}
}

void job_reports_what_its_processes_did(void)
{
	struct star_error err = { 0 };
	double time_s, loss;
	unsigned long long examples;
	size_t bytes = 0;
	char *text = NULL;
	FILE *report = open_memstream(&text, &bytes);
	struct progress *p;
	struct job job;

	job_begin(&job);
	p = progress_create(&job, 4, report, NULL, &err);
	CHECK(p != NULL);
	progress_finish(p); /* nothing happened: there is nothing to write */
	CHECK_UINT(bytes, 0);
	CHECK_INT(job_run(&job, "worker", count_task, WORKERS, &err), 0);
	progress_finish(p);
	CHECK_INT(sscanf(text, "{\"time_s\": %lf, \"examples\": %llu, ", &time_s, &examples), 2);
	CHECK_UINT(examples, 406);
	CHECK(time_s >= 0);
	CHECK_INT(sscanf(strstr(text, "\"loss\""), "\"loss\": %lf}", &loss), 1);
	CHECK_NEAR(loss, 800.0 / 406, 1e-5);
	progress_destroy(p);
	fclose(report);
	free(text);
	job_end(&job);
}
