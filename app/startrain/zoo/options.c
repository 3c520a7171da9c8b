/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/startrain/batch.h"
#include "app/startrain/training.h"
#include "app/startrain/zoo/options.h"
#include "app/startrain/transport.h"
#include "offload/cut.h"
#include "tensor/dtype.h"

enum { NAME_BYTES = 24 };

static void print_help(void)
{
	puts("Usage: startrain MODEL --ps tcp:HOST:PORT,... --train FILE... [options]\n"
	     "       startrain MODEL evaluate --ps tcp:HOST:PORT,... --test FILE... [options]\n"
	     "       startrain MODEL predict --ps tcp:HOST:PORT,... --test FILE... [options] > SCORES\n"
	     "Trains a click-rate or text model on a StarServer cluster: a dataflow graph that is cut between worker "
	     "and\n"
	     "PS tasks. `evaluate` evaluates the model on the PS tasks; `predict` prints score and label of "
	     "each\n"
	     "example, in the files' order. Both need the options of tables and layers from training, and change "
	     "nothing.\n"
	     "\n"
	     "Models:");
	for (const struct zoo_model *model = zoo_models; model->name; model++)
		printf("  %-18s %s\n", model->name, model->help);
	puts("\nOptions:");
#define X(name, argument, help) \
	if (help[0]) \
		print_option(#name, help);
#define print_option(name, help) \
	do { \
		char text[32]; \
\
		snprintf(text, sizeof(text), "%s", name); \
		for (char *c = text; *c; c++) \
			*c = *c == '_' ? '-' : *c; \
		printf("  --%-16s %s\n", text, help); \
	} while (0)
	ZOO_OPTIONS(X)
#undef X
#undef print_option
}

static int add_file(const char **files, uint32_t *count, const char *path, struct star_error *err)
{
	if (*count == ZOO_FILES_MAX)
		return star_error_set(err, -EINVAL, "more than %d files", ZOO_FILES_MAX);
	files[(*count)++] = path;
	return 0;
}

static int parse_rate(const char *name, const char *text, double *rate, struct star_error *err)
{
	char *end;

	*rate = strtod(text, &end);
	if (end == text || *end || !(*rate > 0 && *rate <= 100))
		return star_error_set(err, -EINVAL, "--%s %s: a rate must be above 0 and at most 100", name, text);
	return 0;
}

static int parse_threshold(const char *text, double *threshold, struct star_error *err)
{
	char *end;

	*threshold = strtod(text, &end);
	if (end == text || *end || !(*threshold > 0 && *threshold <= 1))
		return star_error_set(err, -EINVAL, "--threshold %s: it must be above 0 and at most 1", text);
	return 0;
}

static int parse_clip(const char *text, double *norm, struct star_error *err)
{
	char *end;

	*norm = strtod(text, &end);
	if (end == text || *end || !(*norm > 0 && *norm <= 1e30))
		return star_error_set(err, -EINVAL, "--clip-norm %s: it must be above 0", text);
	return 0;
}

/* Refuses an option in --table or --dense that startrain sets itself. */
static int check_own(const char *list, const char *name, struct star_error *err)
{
	static const struct {
		const char *name, *of_table, *of_dense; /* how it is set; NULL: by the model */
	} own[] = {
		{ "optimizer", "--optimizer", "--dense-optimizer" },
		{ "rate", "--rate", "--dense-rate" },
		{ "seed", "--seed", "--seed" },
		{ "dim", "--dim", NULL },
		{ "dtype", "--dtype", NULL },
		{ "initializer", NULL, NULL },
		{ "scale", NULL, NULL },
	};

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		const char *option = !strcmp(list, "table") ? own[i].of_table : own[i].of_dense;

		if (strcmp(own[i].name, name) != 0)
			continue;
		if (!option)
			return star_error_set(err, -EINVAL, "--%s %s=...: the model sets it; omit it here", list, name);
		return star_error_set(err, -EINVAL, "--%s %s=...: give it by %s, and omit it here", list, name, option);
	}
	return 0;
}

static int check_type(const char *name, const char *text, struct star_error *err)
{
	const unsigned dtype = dtype_parse(text);

	return dtype_is_real(dtype) && dtype != STAR_FLOAT64
		       ? 0
		       : star_error_set(err, -EINVAL,
					"--%s %.40s: it must be float32, float16, bfloat16 or scaled_int8", name, text);
}

/* The catalogue knows the options, and reports what is wrong with them. */
static int parse_further(const char *name, const char *text, struct zoo_further *further, struct star_error *err)
{
	char *rest = further->text, *word;

	if (further->count)
		return star_error_set(err, -EINVAL,
				      "--%s is given twice: give all its options in one, with commas between", name);
	if ((size_t)snprintf(further->text, sizeof(further->text), "%s", text) >= sizeof(further->text))
		return star_error_set(err, -EINVAL, "--%s: longer than %zu characters", name,
				      sizeof(further->text) - 1);
	while ((word = strsep(&rest, ","))) {
		char *value = word + strcspn(word, "=");

		word += strspn(word, " ");
		if (*value == 0 || value <= word)
			return star_error_set(err, -EINVAL, "--%s %s: options are name=value, with commas between",
					      name, text);
		if (further->count == ZOO_FURTHER_MAX)
			return star_error_set(err, -EINVAL, "--%s: more than %d options", name, ZOO_FURTHER_MAX);
		*value++ = 0;
		if (check_own(name, word, err) < 0)
			return -EINVAL;
		further->attrs[further->count++] = GRAPH_ATTR_STRING(word, value);
	}
	return 0;
}

/* --sync and --grads-to-wait can be combined, --staleness with neither. */
static int set_consistency(struct zoo_options *o, const char *name, struct star_error *err)
{
	if (o->consistency && strcmp(o->consistency, name) != 0)
		return star_error_set(err, -EINVAL, "--staleness excludes --sync and --grads-to-wait: omit one");
	o->consistency = name;
	return 0;
}

/* Parses those with a number; 1: it is none of them. */
static int parse_numeric(struct zoo_options *o, int option, const char *text, struct star_error *err)
{
	int rc;

	switch (option) {
	case OPTION_workers:
		return training_parse_count("workers", text, 1, TRANSPORT_WORKERS_MAX, &o->workers, err);
	case OPTION_worker:
		o->local_workers = 1;
		return training_parse_count("worker", text, 0, TRANSPORT_WORKERS_MAX - 1, &o->first_worker, err);
	case OPTION_epochs:
		return training_parse_count("epochs", text, 1, 1e6, &o->epochs, err);
	case OPTION_slice:
		return training_parse_number("slice", text, INPUT_SLICE_MIN >> 10, INPUT_SLICE_MAX >> 10, &o->slice_kib,
					     err);
	case OPTION_last_step:
		return training_parse_number("last-step", text, 1, 0x1p53, &o->last_step, err);
	case OPTION_evaluate_every:
		return training_parse_number("evaluate-every", text, 1, 0x1p53, &o->evaluate_every, err);
	case OPTION_batch:
		return training_parse_count("batch", text, 1, 65536, &o->batch, err);
	case OPTION_dim:
		return training_parse_count("dim", text, 1, ZOO_DIM_MAX, &o->dim, err);
	case OPTION_history:
		return training_parse_count("history", text, 1, ZOO_HISTORY_MAX, &o->history, err);
	case OPTION_vocabulary:
		return training_parse_count("vocabulary", text, 1, VOCABULARY_WORDS_MAX, &o->vocabulary, err);
	case OPTION_window:
		return training_parse_count("window", text, 1, WINDOW_MAX, &o->window, err);
	case OPTION_negatives:
		return training_parse_count("negatives", text, 1, NEGATIVES_MAX, &o->negatives, err);
	case OPTION_rate:
		return parse_rate("rate", text, &o->rate, err);
	case OPTION_dense_rate:
		return parse_rate("dense-rate", text, &o->dense_rate, err);
	case OPTION_clip_norm:
		return parse_clip(text, &o->clip_norm, err);
	case OPTION_threshold:
		return parse_threshold(text, &o->threshold, err);
	case OPTION_shuffle:
		return training_parse_count("shuffle", text, 0, INPUT_SHUFFLE_MAX, &o->shuffle, err);
	case OPTION_seed:
		return training_parse_number("seed", text, 0, 0x1p53, &o->seed, err);
	case OPTION_intra_op:
		return training_parse_count("intra-op", text, 1, 64, &o->intra_op, err);
	case OPTION_inter_op:
		return training_parse_count("inter-op", text, 1, 64, &o->inter_op, err);
	case OPTION_steps_in_flight:
		return training_parse_count("steps-in-flight", text, 1, SESSION_IN_FLIGHT_MAX, &o->steps_in_flight,
					    err);
	case OPTION_deadline:
		rc = training_parse_seconds("deadline", text, &o->deadline_us, err);
		o->connect_us = o->deadline_us;
		return rc;
	case OPTION_staleness:
		rc = set_consistency(o, "ssp", err);
		return rc < 0 ? rc : training_parse_number("staleness", text, 0, 1e9, &o->staleness, err);
	case OPTION_grads_to_wait:
		rc = set_consistency(o, "synchronous", err);
		return rc < 0 ? rc
			      : training_parse_count("grads-to-wait", text, 1, TRANSPORT_WORKERS_MAX, &o->grads_to_wait,
						     err);
	case OPTION_lease:
		return training_parse_seconds("lease", text, &o->lease_us, err);
	default:
		return 1;
	}
}

static int parse_one(struct zoo_options *o, int option, const char *text, struct star_error *err)
{
	const int numeric = parse_numeric(o, option, text, err);

	if (numeric <= 0)
		return numeric;
	switch (option) {
	case OPTION_ps:
		o->ps = text;
		return 0;
	case OPTION_transport:
		return transport_parse(text, &o->dpdk, err);
	case OPTION_train:
		return add_file(o->train, &o->train_count, text, err);
	case OPTION_queue:
		o->queue = text;
		return *text ? 0 : star_error_set(err, -EINVAL, "--queue: a name is needed");
	case OPTION_test:
		return add_file(o->test, &o->test_count, text, err);
	case OPTION_format:
		o->format = input_format_parse(text, err);
		return o->format ? 0 : -EINVAL;
	case OPTION_dtype:
		o->dtype = text;
		return check_type("dtype", text, err);
	case OPTION_wire:
		o->wire = text;
		return check_type("wire", text, err);
	case OPTION_schema:
		o->schema_file = text;
		return 0;
	case OPTION_protocol:
		o->protocol = text;
		return graph_protocol_parse(text, err) ? 0 : -EINVAL;
	case OPTION_tensor_fuse:
		o->tensor_fuse = true;
		return 0;
	case OPTION_apart:
		o->apart = true;
		return 0;
	case OPTION_batch_norm:
		o->batch_norm = true;
		return 0;
	case OPTION_mean_by_row:
		o->mean_by_row = true;
		return 0;
	case OPTION_sync:
		return set_consistency(o, "synchronous", err);
	case OPTION_optimizer:
		o->optimizer = text;
		return 0;
	case OPTION_dense_optimizer:
		o->dense_optimizer = text;
		return 0;
	case OPTION_table:
		return parse_further("table", text, &o->table, err);
	case OPTION_dense:
		return parse_further("dense", text, &o->dense, err);
	case OPTION_model_dir:
		o->model_dir = text;
		return 0;
	default:
		o->json |= option == OPTION_json;
		return 0;
	}
}

/* Determines the members of the job, and which of them this process is. */
static int take_place(struct zoo_options *o, struct star_error *err)
{
	const struct transport_place place = { .ps = &o->ps,
					       .workers = &o->workers,
					       .worker = &o->first_worker,
					       .together = &o->local_workers,
					       .evaluator = &o->evaluator,
					       .dpdk = o->dpdk };

	if (o->dpdk && o->ps && zoo_is_local(o))
		return star_error_set(err, -EINVAL, "--transport dpdk needs --ps with a worker's file");
	if (transport_take_environment(&place, &o->cluster, err) < 0)
		return err->code;
	if (!o->workers)
		o->workers = 1;
	if (o->command != ZOO_TRAIN) /* in any role */
		o->workers = o->local_workers = 1, o->first_worker = 0, o->evaluator = false;
	if (!o->evaluator || (o->last_step && o->test_count))
		return 0;
	return star_error_set(err, -EINVAL,
			      "TF_CONFIG: this is the evaluator: it needs --test, and --last-step, as the workers do, "
			      "to know when training ends");
}

bool zoo_is_local(const struct zoo_options *o)
{
	return strcmp(o->ps, SESSION_LOCAL) == 0;
}

static int complete_zoo(struct zoo_options *o, const bool *given, struct star_error *err)
{
	int rc;

	rc = take_place(o, err);
	if (rc < 0)
		return rc;
	rc = zoo_options_check(o, given, err);
	if (rc < 0)
		return rc;
	if (!o->window)
		o->window = o->model->kind == ZOO_WINDOWS ? 16 : 5;
	if (transport_place_workers(o->workers, o->first_worker, &o->local_workers, err) < 0)
		return -EINVAL;
	if (zoo_is_local(o) && o->workers > 1)
		return star_error_set(err, -EINVAL,
				      "--workers %u: with --ps local there is only one, in whose process everything is",
				      o->workers);
	return 0;
}

/* Options with '-' for '_', as getopt_long takes them. */
static void make_table(struct option table[static ZOO_OPTIONS_COUNT], char names[static ZOO_OPTIONS_COUNT][NAME_BYTES])
{
	unsigned n = 0;

#define X(name, argument, help) \
	table[n] = (struct option){ names[n], argument, NULL, OPTION_##name }; \
	_Static_assert(sizeof(#name) <= NAME_BYTES, "room for an option's name"); \
	strcpy(names[n++], #name);
	ZOO_OPTIONS(X)
#undef X
	table[n] = (struct option){ 0 };
	for (unsigned i = 0; i < n; i++)
		for (char *c = names[i]; *c; c++)
			*c = *c == '_' ? '-' : *c;
}

int zoo_options_parse(struct zoo_options *o, int argc, char **argv, struct star_error *err)
{
	struct option table[ZOO_OPTIONS_COUNT];
	char names[ZOO_OPTIONS_COUNT][NAME_BYTES];
	int option, last = NONE, rc = 0;
	bool given[ZOO_OPTIONS_COUNT] = { false };

	*o = (struct zoo_options){ .model = zoo_model_find(argv[1]),
				   .protocol = "star_server",
				   .batch = 128,
				   .epochs = 1,
				   .dim = 8,
				   .vocabulary = 2000,
				   .negatives = 5,
				   .history = 50,
				   .shuffle = 10000,
				   .seed = 1,
				   .deadline_us = 30000000,
				   .optimizer = "adam",
				   .dense_optimizer = "adam",
				   .rate = 0.001,
				   .dense_rate = 0.001,
				   .intra_op = 1,
				   .inter_op = 1,
				   .evaluate_every = 1000,
				   .steps_in_flight = 1 };
	o->command = argc > 2 && !strcmp(argv[2], "evaluate")  ? ZOO_EVALUATE
		     : argc > 2 && !strcmp(argv[2], "predict") ? ZOO_PREDICT
							       : ZOO_TRAIN;
	make_table(table, names);
	optind = o->command == ZOO_TRAIN ? 2 : 3;
	/* "-": a word that is not an option is returned as the argument of an option 1: a further file. */
	while (rc == 0 && (option = getopt_long(argc, argv, "-", table, NULL)) != -1) {
		if (option == '?')
			return star_error_set(err, -EINVAL, "startrain %s --help shows the options", argv[1]);
		if (option == OPTION_help) {
			print_help();
			return 1;
		}
		if (option == ARGUMENT && last != OPTION_train && last != OPTION_test)
			return star_error_set(
				err, -EINVAL,
				"%s: files follow --train or --test; evaluate and predict come after the model",
				optarg);
		last = option == ARGUMENT ? last : option;
		given[last] = true;
		rc = parse_one(o, last, optarg, err);
	}
	return rc == 0 ? complete_zoo(o, given, err) : rc;
}
