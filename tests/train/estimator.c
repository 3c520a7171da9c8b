/* SPDX-License-Identifier: BSD-3-Clause */
/* Estimators in this process. What they do on nodes is tests/system/models.test's and estimators.test's. */
#include "train/estimator.h"

#include <errno.h>
#include <stdio.h>

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
