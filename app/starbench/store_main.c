/* SPDX-License-Identifier: BSD-3-Clause */
/* "starbench store MODE": options, and the result as one JSON object. */
#include "app/starbench/store.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

enum { EXIT_USAGE = 2 };

static const char usage[] =
	"usage: starbench store pull|push|growth|dense [OPTION]...\n"
	"Measures the parameter store in this process, on one core, against plain loops over the same memory, and "
	"prints one\n"
	"JSON object: nanoseconds per item, for each side and round.\n"
	"\n"
	"  pull               batches of rows, against a prefetched gather by handle\n"
	"  push               batches of gradients, against a prefetched update by handle\n"
	"  growth             a table from nothing: its last rows against those of small tables, longest pulls, "
	"memory\n"
	"  dense              a variable: pull against memcpy, SGD and Adam against fused loops\n"
	"\n"
	"  --rows N           of the table, 1000 to 1000000000 [10000000]\n"
	"  --dim N            elements (float32) of a row, 1 to 4096 [16]\n"
	"  --keys N           of a batch, 1 to 65536 [2000]\n"
	"  --power S          draw keys by a power law with this exponent, above 1 and up to 10 [uniformly]\n"
	"  --optimizer NAME   of the table; push: adagrad or adam [sgd; push: adagrad]\n"
	"  --mib N            dense: size of the variable, 1 to 65536 [256]\n"
	"  --rounds N         1 to 1000 [15]\n"
	"  --round-s S        length of a round of pull and push [0.2]\n"
	"  --seed N           of the keys [1]\n";

enum option_id {
	OPTION_ROWS = 1,
	OPTION_DIM,
	OPTION_KEYS,
	OPTION_POWER,
	OPTION_OPTIMIZER,
	OPTION_MIB,
	OPTION_ROUNDS,
	OPTION_ROUND_S,
	OPTION_SEED,
	OPTION_HELP,
};

static const struct option long_options[] = {
	{ "rows", required_argument, NULL, OPTION_ROWS },
	{ "dim", required_argument, NULL, OPTION_DIM },
	{ "keys", required_argument, NULL, OPTION_KEYS },
	{ "power", required_argument, NULL, OPTION_POWER },
	{ "optimizer", required_argument, NULL, OPTION_OPTIMIZER },
	{ "mib", required_argument, NULL, OPTION_MIB },
	{ "rounds", required_argument, NULL, OPTION_ROUNDS },
	{ "round-s", required_argument, NULL, OPTION_ROUND_S },
	{ "seed", required_argument, NULL, OPTION_SEED },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ NULL, 0, NULL, 0 },
};

static const struct {
	double least, most;
	bool whole;
} bounds[] = {
	[OPTION_ROWS] = { 1000, STORE_ROWS_MAX, true }, [OPTION_DIM] = { 1, WIRE_DIM_MAX, true },
	[OPTION_KEYS] = { 1, STORE_KEYS_MAX, true },	[OPTION_POWER] = { 1.001, 10, false },
	[OPTION_MIB] = { 1, STORE_MIB_MAX, true },	[OPTION_ROUNDS] = { 1, STORE_ROUNDS_MAX, true },
	[OPTION_ROUND_S] = { 0.001, 3600, false },	[OPTION_SEED] = { 0, 9007199254740992.0, true },
};

static void set_number(struct store_options *o, int id, double value)
{
	switch (id) {
	case OPTION_ROWS:
		o->rows = (uint32_t)value;
		break;
	case OPTION_DIM:
		o->dim = (uint32_t)value;
		break;
	case OPTION_KEYS:
		o->keys = (uint32_t)value;
		break;
	case OPTION_POWER:
		o->power = value;
		break;
	case OPTION_MIB:
		o->mib = (uint32_t)value;
		break;
	case OPTION_ROUNDS:
		o->rounds = (uint32_t)value;
		break;
	case OPTION_ROUND_S:
		o->round_s = value;
		break;
	case OPTION_SEED:
		o->seed = (uint64_t)value;
		break;
	}
}

static bool set_option(struct store_options *o, int id, const char *name, const char *text)
{
	char *end;
	double value;

	if (id == OPTION_OPTIMIZER) {
		o->optimizer = text;
		if (!optim_kind_parse(text))
			fprintf(stderr, "starbench: --optimizer %s: the optimizers are %s\n", text, optim_kind_names());
		return optim_kind_parse(text) != 0;
	}
	value = strtod(text, &end);
	if (end == text || *end || !(value >= bounds[id].least && value <= bounds[id].most) ||
	    (bounds[id].whole && value != (double)(uint64_t)value)) {
		fprintf(stderr, "starbench: --%s %s: a %snumber from %.15g to %.15g is needed\n", name, text,
			bounds[id].whole ? "whole " : "", bounds[id].least, bounds[id].most);
		return false;
	}
	set_number(o, id, value);
	return true;
}

/* EXIT_SUCCESS if there is something to run. */
static int parse_store_options(int argc, char **argv, struct store_options *o, bool *help)
{
	int id, index = 0;

	while ((id = getopt_long(argc, argv, "", long_options, &index)) != -1) {
		if (id == OPTION_HELP)
			*help = true;
		else if (id == '?' || !set_option(o, id, long_options[index].name, optarg))
			return EXIT_USAGE;
	}
	if (optind < argc) {
		fprintf(stderr, "starbench: \"%s\" is not an option: see starbench store --help\n", argv[optind]);
		return EXIT_USAGE;
	}
	return EXIT_SUCCESS;
}

static json_t *describe_store(const struct store_options *o, const char *mode)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:f, s:s, s:I}", "mode", mode, "rows", (json_int_t)o->rows, "dim",
			 (json_int_t)o->dim, "keys", (json_int_t)o->keys, "power", o->power, "optimizer", o->optimizer,
			 "mib", (json_int_t)o->mib);
}

int store_main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const struct store_options *options, json_t *result, struct star_error *err);
	} modes[] = { { "pull", store_bench_pull },
		      { "push", store_bench_push },
		      { "growth", store_bench_growth },
		      { "dense", store_bench_dense } };
	struct store_options o = {
		.rows = 10000000, .dim = 16, .keys = 2000, .rounds = 15, .mib = 256, .round_s = 0.2, .seed = 1
	};
	const char *mode = argc > 1 ? argv[1] : "";
	struct star_error err = { 0 };
	bool help = strcmp(mode, "--help") == 0;
	json_t *result;
	int status;

	if (!help && argc > 1)
		argv[1] = argv[0]; /* the name that getopt uses in messages */
	status = help || argc < 2 ? EXIT_SUCCESS : parse_store_options(argc - 1, argv + 1, &o, &help);
	if (status != EXIT_SUCCESS)
		return status;
	if (help) {
		fputs(usage, stdout);
		return EXIT_SUCCESS;
	}
	for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(modes[i].name, mode) != 0)
			continue;
		if (!o.optimizer)
			o.optimizer = strcmp(mode, "push") == 0 ? "adagrad" : "sgd";
		result = describe_store(&o, mode);
		if (modes[i].run(&o, result, &err) < 0) {
			fprintf(stderr, "starbench: %s\n", err.text);
			status = EXIT_FAILURE;
		} else {
			json_dumpf(result, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
			putchar('\n');
		}
		json_decref(result);
		return status;
	}
	fprintf(stderr, "starbench: \"store %s\": pull, push, growth or dense is needed: see starbench store --help\n",
		mode);
	return EXIT_USAGE;
}
