/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What evaluating leaves behind: star-evaluate PS PROTOCOL trains on ids 0 to 9, evaluates and predicts on ids 0 to 99
 * several times, and prints the predictions. One table has room for the trained rows alone and refuses more; another
 * admits an id that was looked up often.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "exec/exec.h"
#include "graph/build.h"
#include "train/estimator.h"

enum { TRAINED = 10, ASKED = 100, DIM = 4, STEPS = 6, TIMES = 5 };

static struct graph_value bag(struct graph *g, const char *name, const struct graph_attr *options, uint32_t count,
			      const struct graph_value ids)
{
	const struct graph_definition definition = { .initializer = "normal",
						     .scale = 0.5,
						     .seed = 5,
						     .optimizer = "adagrad",
						     .rate = 0.1,
						     .options = options,
						     .options_count = count };

	return graph_reduce(g, GRAPH_SUM, graph_lookup(g, graph_table(g, name, DIM, &definition), ids), 1);
}

static int model_fn(void *params, enum estimator_mode mode, struct graph *g, struct estimator_spec *spec,
		    struct star_error *err)
{
	static const struct graph_attr capped[] = { GRAPH_ATTR_INT("rows_max", TRAINED),
						    GRAPH_ATTR_STRING("full", "refuse") },
				       filtered[] = { GRAPH_ATTR_STRING("filter", "counter"),
						      GRAPH_ATTR_INT("filter_frequency", 3),
						      GRAPH_ATTR_FLOAT("filter_value", 0.25) };
	const struct graph_type ids_type = { .dtype = STAR_INT64, .shape = { .ndim = 1, .dims = { ASKED } } };
	const struct graph_type y_type = { .dtype = STAR_FLOAT32, .shape = { .ndim = 1, .dims = { ASKED } } };
	const struct graph_value ids = graph_feed(g, "ids", STAR_INT64, GRAPH_DIMS(-1));
	const struct graph_value y = graph_feed(g, "y", STAR_FLOAT32, GRAPH_DIMS(-1));
	const struct graph_value logits =
		graph_plus(g, bag(g, "capped", capped, 2, ids), bag(g, "filtered", filtered, 3, ids));

	(void)params;
	(void)err;
	spec->feeds[spec->feeds_count++] = (struct graph_plan_feed){ "ids", ids_type };
	spec->feeds[spec->feeds_count++] = (struct graph_plan_feed){ "y", y_type };
	if (mode != ESTIMATOR_PREDICT)
		spec->loss = graph_sigmoid_loss(g, logits, y);
	if (mode != ESTIMATOR_TRAIN)
		spec->predictions = logits;
	spec->labels = "y";
	return 0;
}

struct batches {
	uint64_t left;
	int64_t count, ids[ASKED];
	float y[ASKED];
};

static int next(void *arg, struct graph_tensor *feeds, struct star_error *err)
{
	struct batches *b = arg;

	(void)err;
	if (b->left-- == 0)
		return 0;
	for (int64_t i = 0; i < b->count; i++) {
		b->ids[i] = i;
		b->y[i] = (float)(i % 2);
	}
	feeds[0] =
		(struct graph_tensor){ { .dtype = STAR_INT64, .shape = { .ndim = 1, .dims = { b->count } } }, b->ids };
	feeds[1] =
		(struct graph_tensor){ { .dtype = STAR_FLOAT32, .shape = { .ndim = 1, .dims = { b->count } } }, b->y };
	return 1;
}

static int print(void *arg, const struct graph_tensor *predictions, struct star_error *err)
{
	(void)arg;
	(void)err;
	for (int64_t i = 0; i < graph_elements(&predictions->type.shape); i++)
		printf("%a%c", (double)((const float *)predictions->data)[i], i + 1 < ASKED ? ' ' : '\n');
	return 0;
}

int main(int argc, char **argv)
{
	struct star_error err = { .text = "usage: star-evaluate PS PROTOCOL" };
	struct batches batches = { .left = STEPS, .count = TRAINED };
	struct estimator estimator = { .model_fn = model_fn };
	struct estimator_figures figures;
	int rc = argc == 3 ? 0 : -EINVAL;

	if (rc == 0) {
		estimator.config = (struct session_config){ .ps = argv[1], .protocol = argv[2] };
		rc = estimator_train(&estimator, (struct estimator_input){ next, &batches }, 0, &figures, &err);
	}
	for (unsigned i = 0; rc == 0 && i < 2; i++) {
		batches = (struct batches){ .left = TIMES, .count = ASKED };
		rc = estimator_evaluate(&estimator, (struct estimator_input){ next, &batches }, &figures, &err);
		batches = (struct batches){ .left = TIMES, .count = ASKED };
		if (rc == 0)
			rc = estimator_predict(&estimator, (struct estimator_input){ next, &batches }, print, NULL,
					       &err);
	}
	if (rc == 0)
		return EXIT_SUCCESS;
	fprintf(stderr, "star-evaluate: %s\n", err.text);
	return EXIT_FAILURE;
}
