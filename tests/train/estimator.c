/* SPDX-License-Identifier: BSD-3-Clause */
/* Estimators in this process. What they do on nodes is tests/system/models.test's and estimators.test's. */
#include "train/estimator.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/build.h"
#include "tests/train/cases.h"
#include "tests/unit.h"
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

/* And learns by them what it learns by one that has all: the same bits. */
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
	CHECK_HAS(err.text, "a model has 2048 feeds at most, not 2049");
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
	/* gamma and beta stay 1 and 0, so that what is predicted is the statistics' doing alone. */
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
