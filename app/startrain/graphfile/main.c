/* SPDX-License-Identifier: BSD-3-Clause */
/* `startrain FILE.star`: a parent process that watches worker processes. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app/startrain/graphfile/graphfile.h"
#include "app/startrain/job.h"
#include "app/startrain/training.h"
#include "app/startrain/transport.h"
#include "base/clock.h"
#include "offload/cut.h"

#define SUFFIX ".star"

bool graphfile_is_one(const char *argument)
{
	const size_t n = strlen(argument);

	return argument[0] != '-' && n > strlen(SUFFIX) && !strcmp(argument + n - strlen(SUFFIX), SUFFIX);
}

/* ---- options ---- */

enum { PS = 2, TRAIN, TEST, VALUES, PROTOCOL, WORKERS, WORKER, EPOCHS, REPORT, INTRA_OP, SEED, DEADLINE, JSON, HELP };

static const struct option options[] = {
	{ "ps", required_argument, NULL, PS },
	{ "train", required_argument, NULL, TRAIN },
	{ "test", required_argument, NULL, TEST },
	{ "values", required_argument, NULL, VALUES },
	{ "protocol", required_argument, NULL, PROTOCOL },
	{ "workers", required_argument, NULL, WORKERS },
	{ "worker", required_argument, NULL, WORKER },
	{ "epochs", required_argument, NULL, EPOCHS },
	{ "report", required_argument, NULL, REPORT },
	{ "intra-op", required_argument, NULL, INTRA_OP },
	{ "seed", required_argument, NULL, SEED },
	{ "deadline", required_argument, NULL, DEADLINE },
	{ "json", no_argument, NULL, JSON },
	{ "help", no_argument, NULL, HELP },
	{ 0 },
};

static void print_help(void)
{
	puts("Usage: startrain FILE.star --ps tcp:HOST:PORT,... --train FILE... [options]\n"
	     "       startrain FILE.star evaluate --ps tcp:HOST:PORT,... --test FILE... [options]\n"
	     "       startrain FILE.star predict --ps tcp:HOST:PORT,... --test FILE... [options] > PREDICTIONS\n"
	     "Trains a graph in text form, as Python's starserver.torch.export_graph() writes it. Its first result is "
	     "the\n"
	     "loss; if it has no updates, gradients and updates are added. For a graph that was exported after "
	     "model.eval(),\n"
	     "`evaluate` prints the mean loss, and `predict` one line per row, for the model on the PS tasks.\n"
	     "\n"
	     "Options:\n"
	     "  --ps ADDRESSES     control addresses of the PS tasks, or local: no PS tasks, all in this process\n"
	     "  --train FILE...    batches: for each, one array per feed, in the graph's order, as numpy.save() writes "
	     "them\n"
	     "  --test FILE...     batches to evaluate or predict, in the same format\n"
	     "  --values FILE      initial values of variables that have none: one array each, in the graph's order\n"
	     "  --protocol NAME    grpc++, star_server or star_server_lite [star_server]\n"
	     "  --workers N        worker processes of the job, all started here, unless there is a --worker; each "
	     "takes\n"
	     "                     every Nth batch [1]\n"
	     "  --worker I         start only worker I of them, counted from 0\n"
	     "  --epochs N         passes over the batches [1]\n"
	     "  --report FILE      write the first worker's losses to FILE: one JSON object per line\n"
	     "  --intra-op N       threads per kernel [1]\n"
	     "  --seed N           seed of random numbers in the graph [1]\n"
	     "  --deadline S       deadline of a call to the PS tasks, in seconds [30]\n"
	     "  --json             print the result as one JSON object");
}

static int add_file(struct graphfile_options *o, const char *path, struct star_error *err)
{
	if (o->files_count == GRAPHFILE_FILES_MAX)
		return star_error_set(err, -EINVAL, "%s: more than %d files", path, GRAPHFILE_FILES_MAX);
	o->files[o->files_count++] = path;
	return 0;
}

static int parse_one(struct graphfile_options *o, int option, const char *text, struct star_error *err)
{
	switch (option) {
	case PS:
		o->ps = text;
		break;
	case TRAIN:
	case TEST:
		return add_file(o, text, err);
	case VALUES:
		o->values = text;
		break;
	case PROTOCOL:
		o->protocol = text;
		return graph_protocol_parse(text, err) ? 0 : -EINVAL;
	case WORKERS:
		return training_parse_count("workers", text, 1, TRANSPORT_WORKERS_MAX, &o->workers, err);
	case WORKER:
		o->local_workers = 1;
		return training_parse_count("worker", text, 0, TRANSPORT_WORKERS_MAX - 1, &o->first_worker, err);
	case EPOCHS:
		return training_parse_count("epochs", text, 1, 1e6, &o->epochs, err);
	case REPORT:
		o->report = text;
		break;
	case INTRA_OP:
		return training_parse_count("intra-op", text, 1, 64, &o->intra_op, err);
	case SEED:
		return training_parse_number("seed", text, 0, 0x1p53, &o->seed, err);
	case DEADLINE:
		return training_parse_seconds("deadline", text, &o->deadline_us, err);
	case JSON:
		o->json = true;
		break;
	}
	return 0;
}

static int complete_graphfile(struct graphfile_options *o, struct star_error *err)
{
	if (!o->ps)
		return star_error_set(err, -EINVAL, "--ps is missing: control addresses of the PS tasks, or local");
	if (!o->files_count)
		return star_error_set(err, -EINVAL, "--%s is missing: files of batches",
				      o->command == GRAPHFILE_TRAIN ? "train" : "test");
	if (transport_place_workers(o->workers, o->first_worker, &o->local_workers, err) < 0)
		return -EINVAL;
	if (!strcmp(o->ps, SESSION_LOCAL) && o->command != GRAPHFILE_TRAIN)
		return star_error_set(err, -EINVAL,
				      "with --ps local a model is lost when its training ends: give the PS tasks that "
				      "have the model");
	if (!strcmp(o->ps, SESSION_LOCAL) && o->workers > 1)
		return star_error_set(err, -EINVAL,
				      "--workers %u: with --ps local there is only one, in whose process everything is",
				      o->workers);
	return 0;
}

/* Refuses options of training for evaluate and predict, and the other way round. */
static int check_option(const struct graphfile_options *o, int option, struct star_error *err)
{
	const bool trains = option == TRAIN || option == VALUES || option == WORKERS || option == WORKER ||
			    option == EPOCHS || option == REPORT;

	if (o->command != GRAPHFILE_TRAIN && trains)
		return star_error_set(err, -EINVAL,
				      "--%s is for training: files to evaluate and predict with follow --test",
				      options[option - PS].name);
	if (o->command == GRAPHFILE_TRAIN && option == TEST)
		return star_error_set(err, -EINVAL,
				      "--test is for evaluate and predict, which come after the graph's file: "
				      "startrain %s evaluate --test FILE",
				      o->graph);
	return 0;
}

int graphfile_options_parse(struct graphfile_options *o, int argc, char **argv, struct star_error *err)
{
	int option, last = 0, rc = 0;

	*o = (struct graphfile_options){ .graph = argv[1],
					 .protocol = "star_server",
					 .workers = 1,
					 .epochs = 1,
					 .intra_op = 1,
					 .seed = 1,
					 .deadline_us = 30000000 };
	o->command = argc > 2 && !strcmp(argv[2], "evaluate")  ? GRAPHFILE_EVALUATE
		     : argc > 2 && !strcmp(argv[2], "predict") ? GRAPHFILE_PREDICT
							       : GRAPHFILE_TRAIN;
	optind = o->command == GRAPHFILE_TRAIN ? 2 : 3;
	/* "-": a word that is not an option is returned as the argument of an option 1: a further file. */
	while (rc == 0 && (option = getopt_long(argc, argv, "-", options, NULL)) != -1) {
		if (option == '?')
			return star_error_set(err, -EINVAL, "startrain %s --help shows the options", argv[1]);
		if (option == HELP) {
			print_help();
			return 1;
		}
		if (option == 1 && last != TRAIN && last != TEST)
			return star_error_set(err, -EINVAL, "%s: files follow --%s", optarg,
					      o->command == GRAPHFILE_TRAIN ? "train" : "test");
		last = option == 1 ? last : option;
		rc = check_option(o, last, err);
		if (rc == 0)
			rc = parse_one(o, last, optarg, err);
	}
	return rc == 0 ? complete_graphfile(o, err) : rc;
}

/* ---- the job ---- */

struct graphfile_job {
	struct job job; /* first: tasks get a pointer to it */
	struct graphfile_options options;
	struct graphfile_result *results; /* of the local workers, shared with their processes */
};

static int train_task(struct job *job, uint32_t worker, struct star_error *err)
{
	struct graphfile_job *j = (struct graphfile_job *)job;

	return graphfile_train(&j->options, worker, &j->results[worker - j->options.first_worker], err);
}

static int score_task(struct job *job, uint32_t worker, struct star_error *err)
{
	struct graphfile_job *j = (struct graphfile_job *)job;

	(void)worker;
	return graphfile_score(&j->options, &j->results[0], err);
}

static void print_json(json_t *json)
{
	char *text = json_dumps(json, JSON_REAL_PRECISION(17));

	puts(text ? text : "{}");
	free(text);
	json_decref(json);
}

static void print_score(const struct graphfile_job *j)
{
	const struct graphfile_result *r = &j->results[0];

	if (j->options.json)
		print_json(json_pack("{s:s, s:s, s:f, s:I, s:I}", "graph", j->options.graph, "protocol",
				     j->options.protocol, "loss", r->last_loss, "rows", (json_int_t)r->rows, "batches",
				     (json_int_t)r->steps));
	else
		printf("test: loss %.6f over %llu rows\n", r->last_loss, (unsigned long long)r->rows);
}

static void print_result(const struct graphfile_job *j, double seconds)
{
	const struct graphfile_result *first = &j->results[0];
	uint64_t steps = 0;

	for (uint32_t i = 0; i < j->options.local_workers; i++)
		steps += j->results[i].steps;
	if (!j->options.json) {
		printf("%s over %s: %llu steps in %.1f s, %u round trips and %u requests per step\n"
		       "loss %.6f at the start, %.6f at the end\n",
		       j->options.graph, j->options.protocol, (unsigned long long)steps, seconds, first->rounds,
		       first->requests, first->first_loss, first->last_loss);
		return;
	}
	print_json(json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:i, s:i}", "graph", j->options.graph, "protocol",
			     j->options.protocol, "steps", (json_int_t)steps, "seconds", seconds, "steps_per_s",
			     first->seconds > 0 ? (double)first->steps / first->seconds : 0.0, "first_loss",
			     first->first_loss, "loss", first->last_loss, "rounds", (int)first->rounds, "requests",
			     (int)first->requests));
}

static int run_graphfile(struct graphfile_job *j, struct star_error *err)
{
	const struct graphfile_options *o = &j->options;
	const size_t bytes = o->local_workers * sizeof(*j->results);
	const uint64_t begin_ns = clock_ns();
	void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int rc;

	if (shared == MAP_FAILED)
		return star_error_set(err, -ENOMEM, "not enough memory");
	j->results = shared;
	j->job.options.first_worker = o->first_worker;
	j->job.options.local_workers = o->local_workers;
	rc = job_prepare(&j->job, err);
	if (rc == 0)
		rc = job_run(&j->job, o->workers > 1 ? "worker" : NULL,
			     o->command == GRAPHFILE_TRAIN ? train_task : score_task, o->local_workers, err);
	if (rc == 0 && o->command == GRAPHFILE_EVALUATE)
		print_score(j);
	else if (rc == 0 && o->command == GRAPHFILE_TRAIN)
		print_result(j, (double)(clock_ns() - begin_ns) * 1e-9);
	job_release(&j->job);
	munmap(shared, bytes);
	return rc;
}

int graphfile_main(int argc, char **argv)
{
	static struct graphfile_job job;
	struct star_error err = { 0 };
	int rc = graphfile_options_parse(&job.options, argc, argv, &err), status = 2;

	if (rc > 0)
		return 0;
	if (rc == 0) {
		rc = run_graphfile(&job, &err);
		status = 1;
	}
	return job_exit_status(rc, status, &err);
}
