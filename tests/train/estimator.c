/* SPDX-License-Identifier: BSD-3-Clause */
/* Estimators in this process. On nodes they are tested by tests/system/models.test and estimators.test. */
#include "train/estimator.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/build.h"
#include "tests/train/cases.h"
#include "tests/unit.h"
#include "train/auc.h"
#include "train/local.h"

enum { ROWS = 8, COLUMNS = ESTIMATOR_FEEDS_MAX - 1, STEPS = 5 };

/* A linear model of as many numbers: each comes by a feed of its own, or all by one. */
struct wide {
	bool apart;
	uint32_t in_flight, left;
	float labels[ROWS], columns[COLUMNS][ROWS], rows[ROWS][COLUMNS];
};

static void wide_begin(struct wide *w)
{
	w->left = STEPS;
	for (int r = 0; r < ROWS; r++) {
		w->labels[r] = r % 3 == 0;
		for (int c = 0; c < COLUMNS; c++)
			w->rows[r][c] = w->columns[c][r] = (float)((r * 7 + c * 5) % 11) / 11 - 0.4f;
	}
}

static struct graph_value wide_feed(struct graph *g, struct estimator_spec *spec, const char *name, int64_t columns)
{
	struct graph_type most = { .dtype = STAR_FLOAT32,
				   .shape = { .ndim = columns ? 2 : 1, .dims = { ROWS, columns } } };
	static char names[ESTIMATOR_FEEDS_MAX][16];
	char *own = names[spec->feeds_count];

	snprintf(own, sizeof(names[0]), "%s%u", name, spec->feeds_count);
	spec->feeds[spec->feeds_count++] = (struct graph_plan_feed){ own, most };
	most.shape.dims[0] = -1;
	return graph_feed(g, own, STAR_FLOAT32, most.shape.dims, most.shape.ndim);
}

static int wide_model(void *params, enum estimator_mode mode, struct graph *g, struct estimator_spec *spec,
		      struct star_error *err)
{
	const struct graph_definition definition = { .optimizer = "adam", .rate = 0.01 };
	static struct graph_value columns[COLUMNS];
	const struct wide *w = params;
	struct graph_value labels = wide_feed(g, spec, "labels", 0), x, logits;

	(void)err;
	for (int c = 0; w->apart && c < COLUMNS; c++)
		columns[c] = wide_feed(g, spec, "column", 1);
	x = w->apart ? graph_concat(g, columns, COLUMNS, 1) : wide_feed(g, spec, "rows", COLUMNS);
	logits = graph_reshape(g, graph_dense(g, x, 1, GRAPH_NO_OP, "layer", &definition), GRAPH_DIMS(-1));
	spec->loss = graph_sigmoid_loss(g, logits, labels);
	spec->labels = "labels0";
	if (mode != ESTIMATOR_TRAIN)
		spec->predictions = graph_sigmoid(g, logits);
	return 0;
}

static int wide_next(void *arg, struct graph_tensor *feeds, struct star_error *err)
{
	struct wide *w = arg;

	(void)err;
	if (w->left-- == 0)
		return 0;
	feeds[0] =
		(struct graph_tensor){ { .dtype = STAR_FLOAT32, .shape = { .ndim = 1, .dims = { ROWS } } }, w->labels };
	for (int c = 0; w->apart && c < COLUMNS; c++)
		feeds[1 + c] =
			(struct graph_tensor){ { .dtype = STAR_FLOAT32, .shape = { .ndim = 2, .dims = { ROWS, 1 } } },
					       w->columns[c] };
	if (!w->apart)
		feeds[1] = (struct graph_tensor){
			{ .dtype = STAR_FLOAT32, .shape = { .ndim = 2, .dims = { ROWS, COLUMNS } } }, w->rows
		};
	return 1;
}

static void wide_run(struct wide *w, struct estimator_figures *trained, struct estimator_figures *evaluated)
{
	const struct estimator estimator = {
		.model_fn = wide_model,
		.params = w,
		.config = { .ps = SESSION_LOCAL, .log_step_count_steps = UINT32_MAX },
	};
	struct star_error err = { 0 };

	train_local_forget();
	wide_begin(w);
	CHECK_INT(estimator_train(&estimator, (struct estimator_input){ wide_next, w }, 0, trained, &err), 0);
	w->left = 1;
	CHECK_INT(estimator_evaluate(&estimator, (struct estimator_input){ wide_next, w }, evaluated, &err), 0);
	CHECK_STR(err.text, "");
}

/* And learns with them the same bits as with one feed that has all. */
void a_model_has_thousands_of_feeds(void)
{
	static struct wide apart = { .apart = true }, together;
	struct estimator_figures trained[2], evaluated[2];

	wide_run(&apart, &trained[0], &evaluated[0]);
	wide_run(&together, &trained[1], &evaluated[1]);
	CHECK_UINT(trained[0].steps, STEPS);
	CHECK_UINT(evaluated[0].examples, ROWS);
	CHECK(trained[0].loss == trained[1].loss);
	CHECK(evaluated[0].loss == evaluated[1].loss);
	CHECK(evaluated[0].loss < trained[0].loss);
	CHECK(evaluated[0].auc > 0.5);
	CHECK_NEAR(evaluated[0].metrics.log_loss, evaluated[0].loss, 1e-6);
	train_local_forget();
}

static int boundless_model(void *params, enum estimator_mode mode, struct graph *g, struct estimator_spec *spec,
			   struct star_error *err)
{
	const int rc = wide_model(params, mode, g, spec, err);

	spec->feeds_count = ESTIMATOR_FEEDS_MAX + 1;
	return rc;
}

void more_feeds_than_there_may_be_are_refused(void)
{
	static struct wide together;
	const struct estimator estimator = { .model_fn = boundless_model,
					     .params = &together,
					     .config = { .ps = SESSION_LOCAL } };
	struct estimator_figures figures;
	struct star_error err = { 0 };

	CHECK_INT(estimator_train(&estimator, (struct estimator_input){ wide_next, &together }, 0, &figures, &err),
		  -E2BIG);
	CHECK_HAS(err.text, "a model has at most 2048 feeds, not 2049");
	train_local_forget();
}

/* ---- batch norm with running statistics ---- */

enum { NORM_COLUMNS = 3, NORM_BATCHES = 6, NORM_ROWS_MAX = 9 };

static const double NORM_MOMENTUM = 0.3, NORM_EPSILON = 1e-3;
static const uint32_t norm_rows[NORM_BATCHES + 1] = { 5, 8, 2, 9, 1, 7, 4 }; /* the last one is evaluated */

struct normed {
	uint32_t next;
	float x[NORM_BATCHES + 1][NORM_ROWS_MAX * NORM_COLUMNS];
	float predictions[NORM_ROWS_MAX * NORM_COLUMNS];
	int64_t predicted;
};

static int normed_model(void *params, enum estimator_mode mode, struct graph *g, struct estimator_spec *spec,
			struct star_error *err)
{
	/* gamma and beta stay 1 and 0, so that predictions depend on the statistics alone. */
	const struct graph_definition fixed = { .frozen = true }, learned = { .optimizer = "sgd", .rate = 0.01 };
	const struct graph_type most = { .dtype = STAR_FLOAT32,
					 .shape = { .ndim = 2, .dims = { NORM_ROWS_MAX, NORM_COLUMNS } } };
	struct graph_value x, y, w;

	(void)params, (void)err;
	spec->feeds[spec->feeds_count++] = (struct graph_plan_feed){ "x", most };
	x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(-1, NORM_COLUMNS));
	w = graph_read(g, graph_variable(g, "w", GRAPH_DIMS(1), &learned));
	y = graph_batch_norm_running(g, x, mode == ESTIMATOR_TRAIN, NORM_MOMENTUM, NORM_EPSILON, "norm", &fixed);
	spec->loss = graph_mean(g, graph_square(g, graph_minus(g, graph_times(g, y, w), x)));
	if (mode != ESTIMATOR_TRAIN)
		spec->predictions = graph_reshape(g, y, GRAPH_DIMS(-1));
	return 0;
}

static int normed_next(void *arg, struct graph_tensor *feeds, struct star_error *err)
{
	struct normed *n = arg;

	(void)err;
	if (n->next > NORM_BATCHES)
		return 0;
	feeds[0] = (struct graph_tensor){ { .dtype = STAR_FLOAT32,
					    .shape = { .ndim = 2, .dims = { norm_rows[n->next], NORM_COLUMNS } } },
					  n->x[n->next] };
	n->next++;
	return 1;
}

static int keep_predictions(void *arg, const struct graph_tensor *predictions, struct star_error *err)
{
	struct normed *n = arg;

	(void)err;
	n->predicted = graph_elements(&predictions->type.shape);
	memcpy(n->predictions, predictions->data, (size_t)n->predicted * sizeof(float));
	return 0;
}

/* As PyTorch's documentation of BatchNorm1d has it, in double; momentum 0.3 is Keras's 0.7. */
static void expect_running(const struct normed *n, double mean[static NORM_COLUMNS],
			   double variance[static NORM_COLUMNS])
{
	for (unsigned c = 0; c < NORM_COLUMNS; c++) {
		mean[c] = 0;
		variance[c] = 1;
		for (unsigned b = 0; b < NORM_BATCHES; b++) {
			const uint32_t rows = norm_rows[b];
			double sum = 0, squares = 0;

			for (uint32_t r = 0; r < rows; r++)
				sum += (double)n->x[b][r * NORM_COLUMNS + c];
			for (uint32_t r = 0; r < rows; r++)
				squares += pow((double)n->x[b][r * NORM_COLUMNS + c] - sum / rows, 2);
			mean[c] = (1 - NORM_MOMENTUM) * mean[c] + NORM_MOMENTUM * sum / rows;
			variance[c] =
				(1 - NORM_MOMENTUM) * variance[c] + NORM_MOMENTUM * squares / (rows > 1 ? rows - 1 : 1);
		}
	}
}

void batch_norm_evaluates_by_running_statistics(void)
{
	static struct normed n;
	const struct estimator estimator = { .model_fn = normed_model,
					     .params = &n,
					     .config = { .ps = SESSION_LOCAL, .log_step_count_steps = UINT32_MAX } };
	const struct estimator_input input = { normed_next, &n };
	double mean[NORM_COLUMNS], variance[NORM_COLUMNS];
	struct estimator_figures trained;
	struct star_error err = { 0 };

	train_local_forget();
	for (unsigned b = 0; b <= NORM_BATCHES; b++)
		for (unsigned i = 0; i < norm_rows[b] * NORM_COLUMNS; i++)
			n.x[b][i] = (float)((int)(b * 31 + i * 17) % 23 - 7) * (float)(i % NORM_COLUMNS + 1) / 5 + 3;
	n.next = 0;
	CHECK_INT(estimator_train(&estimator, input, NORM_BATCHES, &trained, &err), 0);
	CHECK_UINT(trained.steps, NORM_BATCHES);
	expect_running(&n, mean, variance);
	for (unsigned time = 0; time < 2; time++) { /* predicting changes nothing */
		n.next = NORM_BATCHES;
		CHECK_INT(estimator_predict(&estimator, input, keep_predictions, &n, &err), 0);
		CHECK_INT(n.predicted, norm_rows[NORM_BATCHES] * NORM_COLUMNS);
		for (unsigned i = 0; i < n.predicted; i++) {
			const unsigned c = i % NORM_COLUMNS;

			CHECK_NEAR(n.predictions[i],
				   ((double)n.x[NORM_BATCHES][i] - mean[c]) / sqrt(variance[c] + NORM_EPSILON), 1e-5);
		}
	}
	CHECK_STR(err.text, "");
	train_local_forget();
}

/* ---- several heads, and gradients that are clipped together ---- */

enum { HEADS_ROWS = 40, HEADS_COLUMNS = 4, HEADS_STEPS = 60 };

/* What is clicked on, and what is bought: a task each, and both as two outputs of one head. */
struct tasks {
	uint32_t left;
	double clip_norm;
	const char *second; /* the further head's name */
	float x[HEADS_ROWS * HEADS_COLUMNS], click[HEADS_ROWS], buy[HEADS_ROWS], both[HEADS_ROWS * 2];
	struct auc_example clicks[HEADS_ROWS], buys[HEADS_ROWS], all[HEADS_ROWS * 2];
};

static struct graph_value tasks_feed(struct graph *g, struct estimator_spec *spec, const char *name, int64_t columns)
{
	struct graph_type most = { .dtype = STAR_FLOAT32,
				   .shape = { .ndim = columns ? 2 : 1, .dims = { HEADS_ROWS, columns } } };

	spec->feeds[spec->feeds_count++] = (struct graph_plan_feed){ name, most };
	most.shape.dims[0] = -1;
	return graph_feed(g, name, STAR_FLOAT32, most.shape.dims, most.shape.ndim);
}

static int tasks_model(void *params, enum estimator_mode mode, struct graph *g, struct estimator_spec *spec,
		       struct star_error *err)
{
	const struct graph_definition definition = { .optimizer = "adam", .rate = 0.05 };
	const struct tasks *t = params;
	const struct graph_value x = tasks_feed(g, spec, "x", HEADS_COLUMNS);
	const struct graph_value click = tasks_feed(g, spec, "click", 0), buy = tasks_feed(g, spec, "buy", 0);
	const struct graph_value both = tasks_feed(g, spec, "both", 2);
	const struct graph_value shared = graph_dense(g, x, 8, GRAPH_RELU, "shared", &definition);
	const struct graph_value clicks =
		graph_reshape(g, graph_dense(g, shared, 1, GRAPH_NO_OP, "click", &definition), GRAPH_DIMS(-1));
	const struct graph_value buys =
		graph_reshape(g, graph_dense(g, shared, 1, GRAPH_NO_OP, "buy", &definition), GRAPH_DIMS(-1));
	const struct graph_value columns[] = { graph_reshape(g, clicks, GRAPH_DIMS(-1, 1)),
					       graph_reshape(g, buys, GRAPH_DIMS(-1, 1)) };

	(void)err, (void)both;
	spec->loss = graph_plus(g, graph_sigmoid_loss(g, clicks, click), graph_sigmoid_loss(g, buys, buy));
	spec->labels = "click";
	spec->clip_norm = t->clip_norm;
	spec->heads_count = 2;
	spec->heads[0] = (struct estimator_head){ .name = t->second, .labels = "buy", .threshold = 0.3 };
	spec->heads[1] = (struct estimator_head){ .name = "both", .labels = "both" };
	if (mode == ESTIMATOR_TRAIN)
		return 0;
	spec->predictions = graph_sigmoid(g, clicks);
	spec->heads[0].predictions = graph_sigmoid(g, buys);
	spec->heads[1].predictions = graph_sigmoid(g, graph_concat(g, columns, 2, 1));
	return 0;
}

static int tasks_next(void *arg, struct graph_tensor *feeds, struct star_error *err)
{
	const struct graph_type one = { .dtype = STAR_FLOAT32, .shape = { .ndim = 1, .dims = { HEADS_ROWS } } };
	struct graph_type x = { .dtype = STAR_FLOAT32, .shape = { .ndim = 2, .dims = { HEADS_ROWS, HEADS_COLUMNS } } };
	struct tasks *t = arg;

	(void)err;
	if (t->left-- == 0)
		return 0;
	feeds[0] = (struct graph_tensor){ x, t->x };
	feeds[1] = (struct graph_tensor){ one, t->click };
	feeds[2] = (struct graph_tensor){ one, t->buy };
	x.shape.dims[1] = 2;
	feeds[3] = (struct graph_tensor){ x, t->both };
	return 1;
}

static void keep_scores(struct auc_example *to, const struct graph_tensor *scores, const float *labels)
{
	for (int64_t i = 0; i < graph_elements(&scores->type.shape); i++)
		to[i] = (struct auc_example){ .score = ((const float *)scores->data)[i], .label = labels[i] };
}

static int tasks_each(void *arg, const struct graph_tensor *predictions, struct star_error *err)
{
	struct tasks *t = arg;

	(void)err;
	CHECK_INT(graph_elements(&predictions[2].type.shape), 2 * HEADS_ROWS);
	keep_scores(t->clicks, &predictions[0], t->click);
	keep_scores(t->buys, &predictions[1], t->buy);
	keep_scores(t->all, &predictions[2], t->both);
	return 0;
}

static double accuracy_of(const struct auc_example *examples, size_t count, double threshold)
{
	size_t right = 0;

	for (size_t i = 0; i < count; i++)
		right += ((double)examples[i].score >= threshold) == (examples[i].label > 0.5f);
	return (double)right / (double)count;
}

static void check_head(struct auc_example *examples, size_t count, double auc, double accuracy, double threshold)
{
	struct star_error err = { 0 };
	double expected = 0;

	CHECK_NEAR(accuracy, accuracy_of(examples, count, threshold), 1e-12);
	CHECK_INT(auc_exact(examples, count, &expected, &err), 0);
	CHECK_NEAR(auc, expected, 0);
}

static struct tasks *tasks_make(void)
{
	static struct tasks t;

	t = (struct tasks){ .left = HEADS_STEPS, .second = "buy" };
	for (int r = 0; r < HEADS_ROWS; r++) {
		for (int c = 0; c < HEADS_COLUMNS; c++)
			t.x[r * HEADS_COLUMNS + c] = (float)((r * 13 + c * 29) % 17) / 8 - 1;
		t.click[r] = t.both[2 * r] = t.x[r * HEADS_COLUMNS] > 0;
		t.buy[r] = t.both[2 * r + 1] = r % 7 == 0 || t.x[r * HEADS_COLUMNS + 1] > 0.5f;
	}
	return &t;
}

/* Each head has the metrics of its own predictions, and summaries under its name. */
void each_head_is_evaluated_by_itself(void)
{
	char folder[UNIT_FOLDER], path[UNIT_FOLDER + 32], line[2048] = "";
	struct tasks *t = tasks_make();
	const struct estimator_input input = { tasks_next, t };
	struct estimator estimator = { .model_fn = tasks_model,
				       .params = t,
				       .config = { .ps = SESSION_LOCAL, .log_step_count_steps = UINT32_MAX } };
	struct estimator_figures trained, f;
	struct star_error err = { 0 };
	FILE *file;

	unit_folder(folder, "heads");
	estimator.config.model_dir = folder;
	train_local_forget();
	CHECK_INT(estimator_train(&estimator, input, 0, &trained, &err), 0);
	t->left = 1;
	CHECK_INT(estimator_evaluate(&estimator, input, &f, &err), 0);
	t->left = 1;
	CHECK_INT(estimator_predict(&estimator, input, tasks_each, t, &err), 0);
	CHECK_STR(err.text, "");
	CHECK(f.auc > 0.95 && f.heads[0].auc > 0.8 && fabs(f.auc - f.heads[0].auc) > 1e-6);
	check_head(t->clicks, HEADS_ROWS, f.auc, f.metrics.accuracy, 0.5);
	check_head(t->buys, HEADS_ROWS, f.heads[0].auc, f.heads[0].metrics.accuracy, 0.3);
	check_head(t->all, 2 * HEADS_ROWS, f.heads[1].auc, f.heads[1].metrics.accuracy, 0.5);
	snprintf(path, sizeof(path), "%s/eval/summaries.jsonl", folder);
	file = fopen(path, "r");
	CHECK(file && fgets(line, sizeof(line), file));
	CHECK_HAS(line, "\"auc\"");
	CHECK_HAS(line, "\"buy/auc\"");
	CHECK_HAS(line, "\"both/recall\"");
	if (file)
		fclose(file);
	unit_remove(folder);
	train_local_forget();
}

void wrong_heads_are_refused(void)
{
	struct tasks *t = tasks_make();
	const struct estimator estimator = { .model_fn = tasks_model, .params = t, .config = { .ps = SESSION_LOCAL } };
	struct estimator_figures figures;
	struct star_error err = { 0 };
	char name[102] = "";

	t->second = "loss";
	CHECK_INT(estimator_train(&estimator, (struct estimator_input){ tasks_next, t }, 0, &figures, &err), -EINVAL);
	CHECK_HAS(err.text, "head 0 needs a name other than loss and global_step");
	t->second = "both";
	CHECK_INT(estimator_train(&estimator, (struct estimator_input){ tasks_next, t }, 0, &figures, &err), -EINVAL);
	CHECK_HAS(err.text, "heads 0 and 1 are both called \"both\"");
	memset(name, 'n', sizeof(name) - 1);
	t->second = name;
	CHECK_INT(estimator_train(&estimator, (struct estimator_input){ tasks_next, t }, 0, &figures, &err),
		  -ENAMETOOLONG);
	CHECK_HAS(err.text, "a name has at most 100 bytes");
	t->second = "buy";
	t->clip_norm = -1;
	CHECK_INT(estimator_train(&estimator, (struct estimator_input){ tasks_next, t }, 0, &figures, &err), -EINVAL);
	CHECK_HAS(err.text, "clip_norm = -1");
}

/* A step of sgd at rate 1: what the parameters have moved by is the gradient. */
static int steep_model(void *params, enum estimator_mode mode, struct graph *g, struct estimator_spec *spec,
		       struct star_error *err)
{
	const struct graph_definition definition = { .optimizer = "sgd", .rate = 1, .initializer = "zeros" };
	const struct graph_value x = tasks_feed(g, spec, "x", HEADS_COLUMNS);
	const struct graph_value a = graph_read(g, graph_variable(g, "a", GRAPH_DIMS(HEADS_COLUMNS), &definition));
	const struct graph_value b = graph_read(g, graph_variable(g, "b", GRAPH_DIMS(HEADS_COLUMNS), &definition));
	const struct graph_value columns[] = { a, b };

	(void)err;
	spec->clip_norm = *(const double *)params;
	spec->loss = graph_mean(g, graph_times(g, graph_plus(g, a, graph_scale(g, b, 3)), graph_scale(g, x, 100)));
	if (mode != ESTIMATOR_TRAIN)
		spec->predictions = graph_concat(g, columns, 2, 0);
	return 0;
}

static int norm_of_all(void *arg, const struct graph_tensor *predictions, struct star_error *err)
{
	double squares = 0;

	(void)err;
	for (int64_t i = 0; i < graph_elements(&predictions->type.shape); i++)
		squares += pow((double)((const float *)predictions->data)[i], 2);
	*(double *)arg = sqrt(squares);
	return 0;
}

static int steep_next(void *arg, struct graph_tensor *feeds, struct star_error *err)
{
	struct tasks *t = arg;

	(void)err;
	if (t->left-- == 0)
		return 0;
	feeds[0] = (struct graph_tensor){
		{ .dtype = STAR_FLOAT32, .shape = { .ndim = 2, .dims = { HEADS_ROWS, HEADS_COLUMNS } } }, t->x
	};
	return 1;
}

void gradients_are_clipped_together(void)
{
	static const double clips[] = { 0, 0.5, 1e6 };
	double moved[3];

	for (unsigned i = 0; i < 3; i++) {
		double clip = clips[i];
		struct tasks *t = tasks_make();
		const struct estimator_input input = { steep_next, t };
		const struct estimator estimator = { .model_fn = steep_model,
						     .params = &clip,
						     .config = { .ps = SESSION_LOCAL,
								 .log_step_count_steps = UINT32_MAX } };
		struct estimator_figures figures;
		struct star_error err = { 0 };

		train_local_forget();
		CHECK_INT(estimator_train(&estimator, input, 1, &figures, &err), 0);
		t->left = 1;
		CHECK_INT(estimator_predict(&estimator, input, norm_of_all, &moved[i], &err), 0);
		CHECK_STR(err.text, "");
	}
	CHECK(moved[0] > 1);
	CHECK_NEAR(moved[1], 0.5, 1e-5);
	CHECK_NEAR(moved[2], moved[0], 0);
	train_local_forget();
}
