/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that options match each other, the model and the files. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/startrain/zoo/options.h"
#include "base/text.h"
#include "offload/cut.h"

enum { DLRM_COLUMNS_MAX = 512 };

static bool is_stdin(const char *file)
{
	return strcmp(file, "-") == 0;
}

/* Standard input is read once, by one worker. */
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
		return star_error_set(err, -EINVAL, "- is standard input: give it alone, after --train or --test");
	if (train && (o->workers > 1 || o->epochs > 1))
		return star_error_set(
			err, -EINVAL,
			"--train -: standard input is read once, by one worker: --workers and --epochs are 1");
	if (train && (o->model->kind != ZOO_ROWS || zoo_has_standardized(o)))
		return star_error_set(err, -EINVAL, "--train -: training files of %s are read twice: give a file",
				      o->model->kind != ZOO_ROWS ? "format text"
				      : o->schema		 ? "a schema with numbers that are neither log nor raw"
								 : "format census");
	return 0;
}

/* An unreadable file is reported before the training. */
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

/* The name is printed on a terminal. */
static bool has_controls(const char *name)
{
	while (*name && !base_is_control(*name))
		name++;
	return *name;
}

/* A further label is a head of the model, and names its figures. */
static int check_labels(const struct zoo_options *o, uint32_t more, struct star_error *err)
{
	if (more && !o->model->tasks)
		return star_error_set(
			err, -EINVAL,
			"the schema has %u labels, and %s learns one: use mmoe, or declare the other labels as ignore",
			more + 1, o->model->name);
	for (uint32_t i = 0; i < more; i++) {
		const char *name = zoo_task_name(o, i);

		if (!strcmp(name, SESSION_LOSS) || !strcmp(name, SESSION_GLOBAL_STEP) ||
		    strlen(name) > ESTIMATOR_HEAD_NAME_MAX || has_controls(name))
			return star_error_set(
				err, -EINVAL,
				"the label \"%.40s\" is a task beside the first: it needs a name of at most %d bytes,"
				" without control characters, other than %s and %s",
				name, ESTIMATOR_HEAD_NAME_MAX, SESSION_LOSS, SESSION_GLOBAL_STEP);
	}
	return 0;
}

/* Whether rows of the format have what the model needs; without --format, selects a suitable one. */
static int check_format(struct zoo_options *o, struct star_error *err)
{
	struct input_shape shape;

	if (o->schema_file && o->format)
		return star_error_set(err, -EINVAL, "--schema describes the files: omit --format");
	if (o->schema_file) {
		o->schema = input_schema_read(o->schema_file, err);
		if (!o->schema)
			return -EINVAL;
		o->format = INPUT_SCHEMA;
	}
	if (!o->format)
		o->format = o->model->kind != ZOO_ROWS ? INPUT_TEXT
			    : o->model->history	       ? INPUT_HISTORIES
						       : INPUT_CRITEO;
	if ((o->format == INPUT_TEXT) != (o->model->kind != ZOO_ROWS))
		return star_error_set(err, -EINVAL, "%s is trained with %s", o->model->name,
				      o->model->kind == ZOO_ROWS ? "rows, not with text" : "text alone");
	if (o->format == INPUT_TEXT)
		return 0;
	shape = zoo_shape(o);
	if (!shape.history && o->model->history)
		return star_error_set(err, -EINVAL, "%s needs rows with histories: --format histories", o->model->name);
	if (!shape.dense && o->model->numbers)
		return star_error_set(err, -EINVAL, "%s needs rows with numbers: criteo, census or a schema with some",
				      o->model->name);
	if (!shape.columns && !o->model->any_row)
		return star_error_set(err, -EINVAL,
				      "%s needs rows with columns: criteo, census, histories or a schema, not libsvm",
				      o->model->name);
	if (!(shape.fields + shape.lists) && !o->model->any_row)
		return star_error_set(err, -EINVAL, "%s needs columns of categories or lists in the schema",
				      o->model->name);
	if (o->model->numbers && shape.fields + shape.lists > DLRM_COLUMNS_MAX)
		return star_error_set(
			err, -EINVAL,
			"%s multiplies each pair of columns, at most %d; the schema has %u: use another model",
			o->model->name, DLRM_COLUMNS_MAX, shape.fields + shape.lists);
	return check_labels(o, shape.more_labels, err);
}

struct input_shape zoo_shape(const struct zoo_options *o)
{
	return o->schema ? input_schema_shape(o->schema) : input_shape(o->format);
}

bool zoo_is_standardized(const struct zoo_options *o, uint32_t number)
{
	return o->schema ? input_schema_is_standardized(o->schema, number) : o->format == INPUT_CENSUS;
}

bool zoo_has_standardized(const struct zoo_options *o)
{
	const uint32_t dense = o->model->kind == ZOO_ROWS ? zoo_shape(o).dense : 0;
	uint32_t i = 0;

	while (i < dense && !zoo_is_standardized(o, i))
		i++;
	return i < dense;
}

static bool trains(const struct zoo_options *o)
{
	return o->command == ZOO_TRAIN;
}

/* What only the training files can tell: a text's vocabulary; the scale of census's numbers. An evaluator needs them
 * for nothing else. */
static bool needs_train(const struct zoo_options *o)
{
	return (trains(o) && !o->evaluator) || o->model->kind != ZOO_ROWS || zoo_has_standardized(o);
}

/* In a job with TF_CONFIG all tasks may have the same command line: the evaluator does not train, and reads none of the
 * training files. */
static bool takes_train(const struct zoo_options *o)
{
	return trains(o) || needs_train(o);
}

static bool tells_scores(const struct zoo_options *o)
{
	return o->test_count && o->command != ZOO_PREDICT && o->model->kind != ZOO_WINDOWS;
}

static bool writes_summaries(const struct zoo_options *o)
{
	return o->command != ZOO_PREDICT;
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
	return o->model->kind == ZOO_ROWS && zoo_shape(o).fields > 1;
}

static bool has_layers(const struct zoo_options *o)
{
	return o->model->kind == ZOO_ROWS && !o->model->no_embeddings && !o->model->history;
}

static bool has_ps(const struct zoo_options *o)
{
	return !zoo_is_local(o);
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

/* A worker that waits for slices makes no steps, so others must not wait for it. */
static bool can_queue(const struct zoo_options *o)
{
	return trains(o) && o->model->kind == ZOO_ROWS && !o->consistency && o->steps_in_flight == 1 &&
	       !zoo_is_local(o) && !is_stdin(o->train[0]);
}

/* Options that would have no effect are refused, because the user expects one. */
static int check_given(const struct zoo_options *o, const bool *given, struct star_error *err)
{
	static const struct {
		int option;
		const char *name;
		bool (*holds)(const struct zoo_options *o);
		const char *what;
	} needs[] = {
		{ OPTION_train, "train", takes_train,
		  "training; to evaluate and predict it is needed only for texts, census and schemas with standardized "
		  "numbers" },
		{ OPTION_workers, "workers", trains, "training" },
		{ OPTION_worker, "worker", trains, "training" },
		{ OPTION_epochs, "epochs", trains, "training" },
		{ OPTION_last_step, "last-step", trains, "training" },
		{ OPTION_shuffle, "shuffle", trains, "training; examples are evaluated in the order of the files" },
		{ OPTION_sync, "sync", trains, "training" },
		{ OPTION_grads_to_wait, "grads-to-wait", trains, "training" },
		{ OPTION_staleness, "staleness", trains, "training" },
		{ OPTION_steps_in_flight, "steps-in-flight", trains, "training" },
		{ OPTION_model_dir, "model-dir", writes_summaries, "training and evaluating" },
		{ OPTION_threshold, "threshold", tells_scores,
		  "evaluating scores of two classes: give --test too; language has none" },
		{ OPTION_evaluate_every, "evaluate-every", is_evaluator, "the evaluator of TF_CONFIG" },
		{ OPTION_queue, "queue", can_queue,
		  "asynchronous training with rows of files, one step at a time, and PS tasks" },
		{ OPTION_slice, "slice", has_queue, "a work queue: give --queue too" },
		{ OPTION_history, "history", has_histories, "models of histories: dssm, din and dien" },
		{ OPTION_vocabulary, "vocabulary", is_of_text, "models of texts: language and skip-gram" },
		{ OPTION_window, "window", is_of_text, "models of texts: language and skip-gram" },
		{ OPTION_negatives, "negatives", is_of_pairs, "skip-gram" },
		{ OPTION_clip_norm, "clip-norm", trains, "training" },
		{ OPTION_batch_norm, "batch-norm", has_layers,
		  "models of rows with dense layers of relu units: not logistic, dssm, din and dien" },
		{ OPTION_wire, "wire", has_ps, "rows that are sent to PS tasks and back: with --ps local none are" },
		{ OPTION_dim, "dim", has_embeddings, "models with embeddings; logistic has one weight for each id" },
		{ OPTION_apart, "apart", has_columns,
		  "rows with columns of words: criteo, census, histories or a schema with two categories or more" },
		{ OPTION_tensor_fuse, "tensor-fuse", is_fusible,
		  "--protocol grpc++; the others have one message for all tensors anyway" },
		{ OPTION_mean_by_row, "mean-by-row", is_synchronous,
		  "synchronous steps: give --sync or --grads-to-wait too" },
		{ OPTION_lease, "lease", has_leases,
		  "workers that wait for each other, or share a queue: give --sync, --grads-to-wait, --staleness or "
		  "--queue, too" },
	};

	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		if (given[needs[i].option] && !needs[i].holds(o))
			return star_error_set(err, -EINVAL, "--%s is for %s", needs[i].name, needs[i].what);
	return 0;
}

/* Training needs an optimizer. */
static int check_optimizers(const struct zoo_options *o, struct star_error *err)
{
	const bool dense = !strcmp(o->dense_optimizer, "none");

	if (!dense && strcmp(o->optimizer, "none") != 0)
		return 0;
	return star_error_set(err, -EINVAL,
			      "--%s none: %s without an optimizer cannot be trained; starctl tables options lists them",
			      dense ? "dense-optimizer" : "optimizer", dense ? "dense layers" : "tables");
}

/* Evaluation and prediction use the result of an earlier training. */
static int check_command(const struct zoo_options *o, struct star_error *err)
{
	const char *const name = o->command == ZOO_PREDICT ? "predict" : o->evaluator ? "the evaluator" : "evaluate";

	if (!o->train_count && needs_train(o))
		return trains(o) && !o->evaluator
			       ? star_error_set(err, -EINVAL, "--train is missing: files of examples")
			       : star_error_set(
					 err, -EINVAL,
					 "%s also needs the training files (--train FILE...): %s comes from them", name,
					 o->model->kind != ZOO_ROWS ? "a text's vocabulary" : "the numbers' scale");
	if (trains(o))
		return 0;
	if (!o->test_count)
		return star_error_set(err, -EINVAL, "%s: --test is missing: files of examples", name);
	if (zoo_is_local(o))
		return star_error_set(err, -EINVAL,
				      "%s: with --ps local a model is lost when its training ends; give the PS tasks "
				      "that have the model",
				      name);
	return o->command == ZOO_PREDICT && o->model->kind != ZOO_ROWS
		       ? star_error_set(err, -EINVAL, "predict is for models of rows; %s is one of texts",
					o->model->name)
		       : 0;
}

int zoo_options_check(struct zoo_options *o, const bool *given, struct star_error *err)
{
	int rc = check_files(o->train, o->train_count, err);

	if (rc == 0)
		rc = check_files(o->test, o->test_count, err);
	if (rc == 0)
		rc = check_format(o, err);
	if (rc == 0)
		rc = check_command(o, err);
	if (rc == 0)
		rc = check_stdin(o, err);
	if (rc == 0)
		rc = check_given(o, given, err);
	return rc == 0 ? check_optimizers(o, err) : rc;
}
