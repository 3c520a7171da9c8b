/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/startrain/batch.h"
#include "app/startrain/training.h"
#include "app/startrain/zoo/zoo.h"
#include "app/startrain/transport.h"
#include "offload/cut.h"

/* X(option, has an argument, help). */
#define OPTIONS(X) \
	X(ps, required_argument, \
	  "ADDRESSES  control addresses of the PS tasks, or local: none, all is in this process [TF_CONFIG's]") \
	X(transport, required_argument, \
	  "NAME       tcp, or dpdk: then --ps names a worker's file, where % is the worker's number [tcp]") \
	X(train, required_argument, "FILE...    training examples, plain, gzip or zstd; - is standard input") \
	X(test, required_argument, "FILE...    examples to evaluate with at the end: AUC and loss") \
	X(format, required_argument, \
	  "NAME       of the files: criteo, census, libsvm, histories or text [as the model needs]") \
	X(protocol, required_argument, "NAME       grpc++, star_server or star_server_lite [star_server]") \
	X(tensor_fuse, no_argument, "           with grpc++: one message for all tensors of a wave") \
	X(workers, required_argument, "N          worker processes of the job [1]; they all run here, but for:") \
	X(worker, required_argument, "I          run only worker I of them, counted from 0") \
	X(epochs, required_argument, "N          passes over the training examples [1]") \
	X(last_step, required_argument, "N          global step at which the job ends, whatever is left of the files") \
	X(evaluate_every, required_argument, \
	  "N          global steps between two evaluations of TF_CONFIG's evaluator [1000]") \
	X(queue, required_argument, \
	  "NAME       a work queue: workers get slices of the files as they come for them, and those of dead ones") \
	X(slice, required_argument, "KIB        of the work queue [a thousandth of the files, 64 to 16384]") \
	X(batch, required_argument, "N          examples of a step [128]") \
	X(dim, required_argument, "N          elements of an embedding [8]") \
	X(apart, no_argument, "           a table for each column of ids, and not one for all") \
	X(optimizer, required_argument, "NAME       of the tables [adam]") \
	X(rate, required_argument, "R          its learning rate [0.001]") \
	X(dense_optimizer, required_argument, "NAME       of the dense layers [adam]") \
	X(dense_rate, required_argument, "R          its learning rate [0.001]") \
	X(table, required_argument, \
	  "OPTIONS    further options of the tables, as \"schedule=cosine,schedule_steps=1000\" (the job's steps)") \
	X(dense, required_argument, "OPTIONS    further options of the dense layers") \
	X(history, required_argument, "N          clicks of a row's history at most, the latest [50]") \
	X(shuffle, required_argument, "N          examples of which the next one is drawn [10000]") \
	X(seed, required_argument, "N          of all that chance decides [1]") \
	X(vocabulary, required_argument, "N          words of a text that are told apart, the most frequent [2000]") \
	X(window, required_argument, \
	  "N          words of a step's window [16]; of skip-gram: on each side of a word, at most [5]") \
	X(negatives, required_argument, "N          words that are drawn for each pair of skip-gram [5]") \
	X(model_dir, required_argument, "DIR        summaries for TensorBoard, and as JSON lines") \
	X(intra_op, required_argument, "N          threads in a kernel [1]") \
	X(inter_op, required_argument, "N          kernels at once [1]") \
	X(steps_in_flight, required_argument, \
	  "N          steps of a worker at once: one computes while others wait for PS tasks [1]") \
	X(deadline, required_argument, "S          seconds that a call to the PS tasks may take [30]") \
	X(staleness, required_argument, "S          steps that a worker may be ahead of another one [any number]") \
	X(sync, no_argument, "           synchronous: each step takes the mean of all workers' gradients, or of: ") \
	X(grads_to_wait, required_argument, "N          the first N of them; the others are backup workers [all]") \
	X(mean_by_row, no_argument, \
	  "           a row's gradients are divided by the workers that have touched it, as in TensorFlow") \
	X(lease, required_argument, "S          seconds that a worker which is not heard of is waited for [10]") \
	X(json, no_argument, "           print the result as one JSON object") \
	X(help, no_argument, "")

/* An argument that is no option, as getopt_long has it with "-"; options come after it. */
enum {
	NONE,
	ARGUMENT,
#define X(name, argument, help) OPTION_##name,
	OPTIONS(X)
#undef X
		OPTIONS_COUNT /* and the table's end */
};

enum { NAME_BYTES = 24 };

static void print_help(void)
{
	puts("Usage: startrain MODEL --ps tcp:HOST:PORT,... --train FILE... [options]\n"
	     "Trains a model of click rates, or of a text, on a StarServer cluster, by a dataflow graph that is cut "
	     "between worker "
	     "and PS tasks.\n"
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
	OPTIONS(X)
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
		return star_error_set(err, -EINVAL, "--%s %s: a rate is above 0 and at most 100", name, text);
	return 0;
}

/* Of an option of --table or --dense that startrain gives itself. */
static int check_own(const char *list, const char *name, struct star_error *err)
{
	static const struct {
		const char *name, *of_table, *of_dense; /* who gives it; NULL: the model */
	} own[] = {
		{ "optimizer", "--optimizer", "--dense-optimizer" },
		{ "rate", "--rate", "--dense-rate" },
		{ "seed", "--seed", "--seed" },
		{ "dim", "--dim", NULL },
		{ "initializer", NULL, NULL },
		{ "scale", NULL, NULL },
	};

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		const char *option = !strcmp(list, "table") ? own[i].of_table : own[i].of_dense;

		if (!strcmp(own[i].name, name))
			return star_error_set(err, -EINVAL, "--%s %s=...: %s gives it; leave it out here", list, name,
					      option ? option : "the model");
	}
	return 0;
}

/* The names' meanings are the catalogue's, which says what is wrong with them. */
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

/* --sync and --grads-to-wait go together, --staleness with neither. */
static int set_consistency(struct zoo_options *o, const char *name, struct star_error *err)
{
	if (o->consistency && strcmp(o->consistency, name) != 0)
		return star_error_set(err, -EINVAL,
				      "--staleness is another way to train than --sync and --grads-to-wait: "
				      "leave one out");
	o->consistency = name;
	return 0;
}

/* Those with a number; 1: it is none of them. */
static int parse_numeric(struct zoo_options *o, int option, const char *text, struct star_error *err)
{
	int rc;

	switch (option) {
	case OPTION_workers:
		return training_parse_count("workers", text, 1, ZOO_WORKERS_MAX, &o->workers, err);
	case OPTION_worker:
		o->local_workers = 1;
		return training_parse_count("worker", text, 0, ZOO_WORKERS_MAX - 1, &o->first_worker, err);
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
			      : training_parse_count("grads-to-wait", text, 1, ZOO_WORKERS_MAX, &o->grads_to_wait, err);
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
	case OPTION_protocol:
		o->protocol = text;
		return graph_protocol_parse(text, err) ? 0 : -EINVAL;
	case OPTION_tensor_fuse:
		o->tensor_fuse = true;
		return 0;
	case OPTION_apart:
		o->apart = true;
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

/* Who takes part, and which of them this is. */
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
	if (!o->evaluator || (o->last_step && o->test_count))
		return 0;
	return star_error_set(err, -EINVAL,
			      "TF_CONFIG: this is the evaluator: it needs --test, and --last-step, as the workers do, "
			      "to know when training ends");
}

static bool is_stdin(const char *file)
{
	return strcmp(file, "-") == 0;
}

/* What comes by a pipe comes once, and to one worker. */
static int check_stdin(const struct zoo_options *o, struct star_error *err)
{
	uint32_t train = 0, test = 0;

	for (uint32_t i = 0; i < o->train_count; i++)
		train += is_stdin(o->train[i]);
	for (uint32_t i = 0; i < o->test_count; i++)
		test += is_stdin(o->test[i]);
	if (!train && !test)
		return 0;
	if (train + test > 1 || (train ? o->train_count : o->test_count) > 1)
		return star_error_set(err, -EINVAL, "- is standard input: it stands alone, behind --train or --test");
	if (train && (o->workers > 1 || o->epochs > 1))
		return star_error_set(
			err, -EINVAL,
			"--train -: standard input is read once, by one worker: --workers and --epochs are 1");
	if (train && (o->model->kind != ZOO_ROWS || o->format == INPUT_CENSUS))
		return star_error_set(err, -EINVAL,
				      "--train -: training files of format %s are read twice: give a file",
				      o->model->kind != ZOO_ROWS ? "text" : "census");
	return 0;
}

/* What cannot be read is better known before the training than after it. */
static int check_files(const char *const *files, uint32_t count, struct star_error *err)
{
	struct stat file;

	for (uint32_t i = 0; i < count; i++) {
		if (is_stdin(files[i]))
			continue;
		if (access(files[i], R_OK) < 0 || stat(files[i], &file) < 0)
			return star_error_set(err, -EINVAL, "cannot read %s: %s", files[i], strerror(errno));
		if (S_ISDIR(file.st_mode))
			return star_error_set(err, -EINVAL, "cannot read %s: it is a directory", files[i]);
		if (S_ISREG(file.st_mode) && file.st_size == 0)
			return star_error_set(err, -EINVAL, "%s is empty", files[i]);
	}
	return 0;
}

bool zoo_is_local(const struct zoo_options *o)
{
	return strcmp(o->ps, SESSION_LOCAL) == 0;
}

/* Whether rows of the format have what the model needs; without a format it is the one that does. */
static int check_format(struct zoo_options *o, struct star_error *err)
{
	struct input_shape shape;

	if (!o->format)
		o->format = o->model->kind != ZOO_ROWS ? INPUT_TEXT
			    : o->model->history	       ? INPUT_HISTORIES
						       : INPUT_CRITEO;
	if ((o->format == INPUT_TEXT) != (o->model->kind != ZOO_ROWS))
		return star_error_set(err, -EINVAL, "%s is trained with %s", o->model->name,
				      o->model->kind == ZOO_ROWS ? "rows, not with text" : "text alone");
	if (o->format == INPUT_TEXT)
		return 0;
	shape = input_shape(o->format);
	if (!shape.history && o->model->history)
		return star_error_set(err, -EINVAL, "%s needs rows with histories: --format histories", o->model->name);
	if (!shape.dense && o->model->numbers)
		return star_error_set(err, -EINVAL, "%s needs rows with numbers: criteo or census", o->model->name);
	if (!shape.fields && !o->model->any_row)
		return star_error_set(err, -EINVAL,
				      "%s needs rows with columns: criteo, census or histories, not libsvm",
				      o->model->name);
	return 0;
}

static bool is_evaluator(const struct zoo_options *o)
{
	return o->evaluator;
}

static bool has_histories(const struct zoo_options *o)
{
	return o->model->history;
}

static bool is_of_text(const struct zoo_options *o)
{
	return o->model->kind != ZOO_ROWS;
}

static bool is_of_pairs(const struct zoo_options *o)
{
	return o->model->kind == ZOO_PAIRS;
}

static bool has_embeddings(const struct zoo_options *o)
{
	return !o->model->no_embeddings;
}

static bool has_columns(const struct zoo_options *o)
{
	return o->model->kind == ZOO_ROWS && input_shape(o->format).fields > 1;
}

static bool is_fusible(const struct zoo_options *o)
{
	return graph_protocol_parse(o->protocol, NULL) == GRAPH_GRPCPP;
}

static bool is_synchronous(const struct zoo_options *o)
{
	return o->consistency && !strcmp(o->consistency, "synchronous");
}

static bool has_leases(const struct zoo_options *o)
{
	return o->consistency || o->queue;
}

static bool has_queue(const struct zoo_options *o)
{
	return o->queue != NULL;
}

/* Who waits for slices makes no steps, and so must not be waited for. */
static bool can_queue(const struct zoo_options *o)
{
	return o->model->kind == ZOO_ROWS && !o->consistency && o->steps_in_flight == 1 && !zoo_is_local(o) &&
	       !is_stdin(o->train[0]);
}

/* Options that would mean nothing: who gives one expects something of it. */
static int check_given(const struct zoo_options *o, const bool *given, struct star_error *err)
{
	static const struct {
		int option;
		const char *name;
		bool (*holds)(const struct zoo_options *o);
		const char *what;
	} needs[] = {
		{ OPTION_evaluate_every, "evaluate-every", is_evaluator, "the evaluator of TF_CONFIG" },
		{ OPTION_queue, "queue", can_queue,
		  "asynchronous training with rows of files, one step at a time, and PS tasks" },
		{ OPTION_slice, "slice", has_queue, "a work queue: give --queue, too" },
		{ OPTION_history, "history", has_histories, "models of histories: dssm, din and dien" },
		{ OPTION_vocabulary, "vocabulary", is_of_text, "models of texts: language and skip-gram" },
		{ OPTION_window, "window", is_of_text, "models of texts: language and skip-gram" },
		{ OPTION_negatives, "negatives", is_of_pairs, "skip-gram" },
		{ OPTION_dim, "dim", has_embeddings, "models with embeddings; logistic has one weight for each id" },
		{ OPTION_apart, "apart", has_columns, "rows with columns: criteo, census or histories" },
		{ OPTION_tensor_fuse, "tensor-fuse", is_fusible,
		  "--protocol grpc++; the others have one message for all tensors anyway" },
		{ OPTION_mean_by_row, "mean-by-row", is_synchronous,
		  "synchronous steps: give --sync or --grads-to-wait, too" },
		{ OPTION_lease, "lease", has_leases,
		  "workers that wait for each other, or share a queue: give --sync, --grads-to-wait, --staleness or "
		  "--queue, too" },
	};

	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		if (given[needs[i].option] && !needs[i].holds(o))
			return star_error_set(err, -EINVAL, "--%s is for %s", needs[i].name, needs[i].what);
	return 0;
}

/* What is trained learns. */
static int check_optimizers(const struct zoo_options *o, struct star_error *err)
{
	const bool dense = !strcmp(o->dense_optimizer, "none");

	if (!dense && strcmp(o->optimizer, "none") != 0)
		return 0;
	return star_error_set(err, -EINVAL,
			      "--%s none: %s without an optimizer cannot be trained; starctl tables options lists them",
			      dense ? "dense-optimizer" : "optimizer", dense ? "dense layers" : "tables");
}

static int complete_zoo(struct zoo_options *o, const bool *given, struct star_error *err)
{
	int rc;

	rc = take_place(o, err);
	if (rc < 0)
		return rc;
	if (!o->train_count)
		return star_error_set(err, -EINVAL, "--train is missing: files of examples");
	rc = check_files(o->train, o->train_count, err);
	if (rc == 0)
		rc = check_files(o->test, o->test_count, err);
	if (rc < 0)
		return rc;
	rc = check_format(o, err);
	if (rc == 0)
		rc = check_stdin(o, err);
	if (rc == 0)
		rc = check_given(o, given, err);
	if (rc == 0)
		rc = check_optimizers(o, err);
	if (rc < 0)
		return rc;
	if (!o->window)
		o->window = o->model->kind == ZOO_WINDOWS ? 16 : 5;
	if (o->first_worker >= o->workers)
		return star_error_set(err, -EINVAL, "--worker %u: with --workers %u it is 0 to %u", o->first_worker,
				      o->workers, o->workers - 1);
	if (zoo_is_local(o) && o->workers > 1)
		return star_error_set(err, -EINVAL, "--workers %u: with --ps local there is one: all is in its process",
				      o->workers);
	if (!o->local_workers)
		o->local_workers = o->workers;
	return 0;
}

/* Options with '-' for '_', as getopt_long takes them. */
static void make_table(struct option table[static OPTIONS_COUNT], char names[static OPTIONS_COUNT][NAME_BYTES])
{
	unsigned n = 0;

#define X(name, argument, help) \
	table[n] = (struct option){ names[n], argument, NULL, OPTION_##name }; \
	_Static_assert(sizeof(#name) <= NAME_BYTES, "room for an option's name"); \
	strcpy(names[n++], #name);
	OPTIONS(X)
#undef X
	table[n] = (struct option){ 0 };
	for (unsigned i = 0; i < n; i++)
		for (char *c = names[i]; *c; c++)
			*c = *c == '_' ? '-' : *c;
}

int zoo_options_parse(struct zoo_options *o, int argc, char **argv, struct star_error *err)
{
	struct option table[OPTIONS_COUNT];
	char names[OPTIONS_COUNT][NAME_BYTES];
	int option, last = NONE, rc = 0;
	bool given[OPTIONS_COUNT] = { false };

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
	make_table(table, names);
	optind = 2;
	/* "-": what is no option comes as the argument of an option 1: a further file. */
	while (rc == 0 && (option = getopt_long(argc, argv, "-", table, NULL)) != -1) {
		if (option == '?')
			return star_error_set(err, -EINVAL, "startrain %s --help shows the options", argv[1]);
		if (option == OPTION_help) {
			print_help();
			return 1;
		}
		if (option == ARGUMENT && last != OPTION_train && last != OPTION_test)
			return star_error_set(err, -EINVAL, "%s: files follow --train or --test", optarg);
		last = option == ARGUMENT ? last : option;
		given[last] = true;
		rc = parse_one(o, last, optarg, err);
	}
	return rc == 0 ? complete_zoo(o, given, err) : rc;
}
