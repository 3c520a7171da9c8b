/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "app/startrain/quality.h"
#include "app/startrain/transport.h"
#include "tensor/dtype.h"

#define MODELS "logistic, dnn, wide-deep, deepfm, dlrm, mmoe, dssm, din, dien, language, skip-gram" /* zoo_models */

static const char help[] =
	"Usage: startrain --ps tcp:HOST:PORT,... [options] [--text FILE...]\n"
	"       startrain MODEL --ps tcp:HOST:PORT,... --train FILE... [options]\n"
	"       startrain FILE.star --ps tcp:HOST:PORT,... --train FILE... [options]\n"
	"       startrain generate [options] > FILE\n"
	"       startrain key COLUMN TEXT...\n"
	"Trains on a StarServer cluster. Without a MODEL it trains word vectors (skip-gram with negative sampling). A\n"
	"MODEL is one of " MODELS ".\n"
	"`generate` writes examples for them, and `key` prints the row key of a text in a column of examples. "
	"FILE.star is\n"
	"a graph as text, as Python's starserver.torch.export_graph() writes it.\n"
	"`startrain MODEL --help`, `startrain FILE.star --help` and `startrain generate --help` show their options. "
	"The\n"
	"options for word vectors:\n"
	"\n"
	"  --ps ADDRESSES       control addresses of the PS tasks, in task order; without it, TF_CONFIG in the "
	"environment\n"
	"                       says which PS tasks and workers there are\n"
	"  --transport NAME     tcp, or dpdk: then --ps names a worker's file, in which % is the worker's number "
	"[tcp]\n"
	"  --workers N          worker processes of the job, all started here, unless there is a --worker [1]\n"
	"  --worker I           start only worker I of them, counted from 0\n"
	"  --text FILE...       the text [the glosses of WordNet: /usr/share/wordnet/data.*]\n"
	"  --deadline S         deadline of a call to the parameter servers, in seconds [30]\n"
	"  --dtype NAME         element type of the tables: float16, scaled_int8, ... [float32]\n"
	"  --in-turn            wait for each push before the next pull: a pull sees everything that was pushed, even "
	"if\n"
	"                       a parameter server is replaced in between\n"
	"  --wire NAME          element type of rows and gradients on the wire [float32]\n"
	"  --table OPTIONS      more options of the tables, such as \"stochastic=1\" or \"master=1\"\n"
	"  --report FILE        write loss and throughput over time to FILE: one JSON object per line\n"
	"  --summaries DIR      write them to DIR for TensorBoard, and as JSON lines\n"
	"  --evaluate           measure the loss on held-out text before and after training\n"
	"  --neighbours N       print the N nearest neighbours of some words at the end\n"
	"  --dump FILE          write all parameters to FILE: words-in, then words-out, float32 by word id\n"
	"  --json               print the result as one JSON object\n"
	"  --help, --version\n"
	"\n"
	"Training:\n";

enum {
	PS = 1,
	TRANSPORT,
	WORKERS,
	WORKER,
	TEXT,
	DEADLINE,
	DTYPE,
	TABLE,
	WIRE,
	REPORT,
	SUMMARIES,
	EVALUATE,
	IN_TURN,
	NEIGHBOURS,
	DUMP,
	JSON,
	HELP,
	VERSION,
	TRAINING
};

static const struct option own_options[] = {
	{ "ps", required_argument, NULL, PS },
	{ "transport", required_argument, NULL, TRANSPORT },
	{ "workers", required_argument, NULL, WORKERS },
	{ "worker", required_argument, NULL, WORKER },
	{ "text", required_argument, NULL, TEXT },
	{ "deadline", required_argument, NULL, DEADLINE },
	{ "dtype", required_argument, NULL, DTYPE },
	{ "wire", required_argument, NULL, WIRE },
	{ "table", required_argument, NULL, TABLE },
	{ "report", required_argument, NULL, REPORT },
	{ "summaries", required_argument, NULL, SUMMARIES },
	{ "evaluate", no_argument, NULL, EVALUATE },
	{ "in-turn", no_argument, NULL, IN_TURN },
	{ "neighbours", required_argument, NULL, NEIGHBOURS },
	{ "dump", required_argument, NULL, DUMP },
	{ "json", no_argument, NULL, JSON },
	{ "help", no_argument, NULL, HELP },
	{ "version", no_argument, NULL, VERSION },
};
enum { OWN_OPTIONS = sizeof(own_options) / sizeof(own_options[0]) };

static int add_text(struct options *o, const char *path, struct star_error *err)
{
	if (o->texts_count == OPTIONS_TEXTS_MAX)
		return star_error_set(err, -EINVAL, "--text: more than %d files", OPTIONS_TEXTS_MAX);
	o->texts[o->texts_count++] = path;
	return 0;
}

/* Refuses an option in --table that startrain sets itself. */
static int check_table_options(const char *text, struct star_error *err)
{
	static const struct {
		const char *name, *option;
	} own[] = { { "rate", "--rate" }, { "initial_accumulator", "--accumulator" } };

	for (const char *word = text; word; word = strchr(word, ',')) {
		size_t bytes;

		word += strspn(word, ", ");
		bytes = strcspn(word, "=, ");
		for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
			if (strlen(own[i].name) == bytes && strncmp(word, own[i].name, bytes) == 0)
				return star_error_set(err, -EINVAL, "--table %s=...: give it by %s, and omit it here",
						      own[i].name, own[i].option);
	}
	return 0;
}

static int parse_one(struct options *o, int option, const char *value, struct star_error *err)
{
	int rc = 0;

	switch (option) {
	case PS:
		o->ps = value;
		break;
	case TRANSPORT:
		rc = transport_parse(value, &o->dpdk, err);
		break;
	case WORKERS:
		rc = training_parse_count("workers", value, 1, TRANSPORT_WORKERS_MAX, &o->workers, err);
		break;
	case WORKER:
		rc = training_parse_count("worker", value, 0, TRANSPORT_WORKERS_MAX - 1, &o->first_worker, err);
		o->local_workers = 1;
		break;
	case TEXT:
		rc = add_text(o, value, err);
		break;
	case DEADLINE:
		rc = training_parse_seconds("deadline", value, &o->deadline_us, err);
		break;
	case DTYPE:
		o->dtype = value;
		break;
	case WIRE:
		o->wire = value;
		break;
	case TABLE:
		if (o->table)
			rc = star_error_set(err, -EINVAL,
					    "--table is given twice: give all its options in one, with commas between");
		else
			rc = check_table_options(value, err);
		o->table = value;
		break;
	case REPORT:
		o->report = value;
		break;
	case SUMMARIES:
		o->summaries = value;
		break;
	case IN_TURN:
		o->in_turn = true;
		break;
	case EVALUATE:
		o->evaluate = true;
		break;
	case NEIGHBOURS:
		rc = training_parse_count("neighbours", value, 0, NEIGHBOURS_MAX, &o->neighbours, err);
		break;
	case DUMP:
		o->dump = value;
		break;
	case JSON:
		o->json = true;
		break;
	}
	return rc;
}

static int complete_options(struct options *o, struct star_error *err)
{
	const struct transport_place place = { .ps = &o->ps,
					       .workers = &o->workers,
					       .worker = &o->first_worker,
					       .together = &o->local_workers,
					       .dpdk = o->dpdk };

	if (transport_take_environment(&place, &o->cluster, err) != 0)
		return err->code;
	if (o->workers == 0)
		o->workers = 1;
	if (transport_place_workers(o->workers, o->first_worker, &o->local_workers, err) < 0)
		return -EINVAL;
	if (!dtype_is_real(dtype_parse(o->wire)))
		return star_error_set(err, -EINVAL, "--wire %s: a type for gradients is needed, as float16", o->wire);
	if (o->texts_count == 0) {
		memcpy(o->texts, training_texts, sizeof(training_texts));
		o->texts_count = TRAINING_TEXTS;
	}
	return 0;
}

int options_parse(struct options *o, int argc, char **argv, struct star_error *err)
{
	struct option options[OWN_OPTIONS + TRAINING_OPTIONS + 1] = { 0 };
	int option, index = 0, rc = 0;

	memset(o, 0, sizeof(*o));
	training_default(&o->training);
	o->wire = "float32";
	o->deadline_us = 30 * 1000000;
	memcpy(options, own_options, sizeof(own_options));
	for (int i = 0; i < TRAINING_OPTIONS; i++)
		options[OWN_OPTIONS + i] =
			(struct option){ training_options[i].name, required_argument, NULL, TRAINING };
	while (rc == 0 && (option = getopt_long(argc, argv, "", options, &index)) != -1) {
		if (option == '?')
			return star_error_set(err, -EINVAL, "startrain --help shows the options");
		if (option == HELP) {
			fputs(help, stdout);
			training_print_help(stdout);
			return 1;
		}
		if (option == VERSION) {
			puts("startrain " STAR_VERSION);
			return 1;
		}
		rc = option == TRAINING
			     ? training_set(&o->training, &training_options[index - OWN_OPTIONS], optarg, err)
			     : parse_one(o, option, optarg, err);
	}
	for (; rc == 0 && optind < argc; optind++) /* --text takes all files that follow it */
		rc = o->texts_count > 0
			     ? add_text(o, argv[optind], err)
			     : star_error_set(err, -EINVAL,
					      "%s: an argument without an option; files follow --text, and the first "
					      "argument may be one of: " MODELS ", generate",
					      argv[optind]);
	return rc == 0 ? complete_options(o, err) : rc;
}
