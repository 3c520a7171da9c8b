/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An estimator at work: star-estimator PS STEPS STOP EVERY [MODEL_DIR] trains a logistic model for up to STEPS batches,
 * evaluates it after every EVERY steps, and then predicts. With a PS that is empty it is told its place by the
 * environment's TF_CONFIG, and STOP is training's end for all. A hook ends training at global step STOP (0: it does
 * not), another counts. The chief has a checkpoint written every 5 steps, or every so many seconds as the environment's
 * SAVE_SECS says, and as many of them kept as KEEP says. Prints one JSON object of what happened.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "exec/exec.h"
#include "base/prng.h"
#include "graph/build.h"
#include "train/estimator.h"

enum { ROWS = 32, NUMBERS = 4, EVALUATION = 3 /* batches */ };

/* ---- the model ---- */

static int model_fn(void *params, enum estimator_mode mode, struct graph *g, struct estimator_spec *spec,
		    struct star_error *err)
{
	const struct graph_type x_type = { .dtype = STAR_FLOAT32, .shape = { .ndim = 2, .dims = { ROWS, NUMBERS } } };
	const struct graph_type y_type = { .dtype = STAR_FLOAT32, .shape = { .ndim = 1, .dims = { ROWS } } };
	const struct graph_definition definition = { .optimizer = "sgd", .rate = 0.5 };
	const struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(-1, NUMBERS));
	const struct graph_value y = graph_feed(g, "y", STAR_FLOAT32, GRAPH_DIMS(-1));
	const struct graph_value layer = graph_dense(g, x, 1, GRAPH_NO_OP, "layer", &definition);
	const struct graph_value logits = graph_reshape(g, layer, GRAPH_DIMS(-1));

	(void)params;
	(void)err;
	spec->feeds[spec->feeds_count++] = (struct graph_plan_feed){ "x", x_type };
	spec->feeds[spec->feeds_count++] = (struct graph_plan_feed){ "y", y_type };
	if (mode != ESTIMATOR_PREDICT)
		spec->loss = graph_sigmoid_loss(g, logits, y);
	if (mode != ESTIMATOR_TRAIN)
		spec->predictions = graph_sigmoid(g, logits);
	spec->labels = "y";
	return 0;
}

/* ---- batches: the label is whether the first number is above the second ---- */

struct batches {
	struct prng prng;
	uint64_t left;
	float x[ROWS][NUMBERS], y[ROWS];
};

static void begin(struct batches *b, uint64_t seed, uint64_t count)
{
	prng_seed(&b->prng, seed);
	b->left = count;
}

static int next(void *arg, struct graph_tensor *feeds, struct star_error *err)
{
	struct batches *b = arg;

	(void)err;
	if (b->left-- == 0)
		return 0;
	for (unsigned r = 0; r < ROWS; r++) {
		for (unsigned i = 0; i < NUMBERS; i++)
			b->x[r][i] = (float)prng_unit(&b->prng);
		b->y[r] = b->x[r][0] > b->x[r][1];
	}
	feeds[0] = (struct graph_tensor){ { .dtype = STAR_FLOAT32, .shape = { .ndim = 2, .dims = { ROWS, NUMBERS } } },
					  b->x };
	feeds[1] = (struct graph_tensor){ { .dtype = STAR_FLOAT32, .shape = { .ndim = 1, .dims = { ROWS } } }, b->y };
	return 1;
}

static struct batches evaluation;
static int evaluations;

static int open_evaluation(void *arg, struct estimator_input *input, struct star_error *err)
{
	(void)arg;
	(void)err;
	begin(&evaluation, 99, EVALUATION);
	*input = (struct estimator_input){ next, &evaluation };
	evaluations++;
	return 0;
}

static void close_evaluation(void *arg, struct estimator_input *input)
{
	(void)arg;
	(void)input;
}

/* ---- hooks ---- */

static struct {
	uint64_t stop, global_step;
	int begun, steps, ended;
} seen;

static int on_begin(void *arg, struct session *session, struct star_error *err)
{
	seen.begun++;
	return 0;
}

static int on_step(void *arg, struct session *session, const struct session_step *step, struct star_error *err)
{
	seen.steps++;
	seen.global_step = step->global_step;
	return 0;
}

static int stop_at(void *arg, struct session *session, const struct session_step *step, struct star_error *err)
{
	if (seen.stop && step->global_step >= seen.stop)
		session_request_stop(session);
	return 0;
}

static int on_end(void *arg, struct session *session, struct star_error *err)
{
	seen.ended++;
	return 0;
}

static int count_predictions(void *arg, const struct graph_tensor *predictions, struct star_error *err)
{
	*(int *)arg += (int)graph_elements(&predictions->type.shape);
	return 0;
}

static uint32_t told_by_environment(const char *name)
{
	const char *text = getenv(name);

	return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
	const struct session_hook hooks[] = { { NULL, on_begin, on_step, on_end }, { NULL, NULL, stop_at, NULL } };
	struct estimator estimator = { .model_fn = model_fn, .hooks = hooks, .hooks_count = 2 };
	struct estimator_eval eval = { .open = open_evaluation, .close = close_evaluation };
	struct star_error err = { .text = "usage: star-estimator PS STEPS STOP EVERY [MODEL_DIR]" };
	struct estimator_figures trained = { 0 }, evaluated = { 0 };
	struct batches batches;
	int predictions = 0, rc = argc == 5 || argc == 6 ? 0 : -EINVAL;

	if (rc == 0) {
		const uint32_t secs = told_by_environment("SAVE_SECS");

		estimator.config = (struct session_config){ .ps = argv[1],
							    .model_dir = argv[5],
							    .save_checkpoints_steps = secs ? 0 : 5,
							    .save_checkpoints_secs = secs,
							    .keep_checkpoint_max = told_by_environment("KEEP") };
		begin(&batches, 1, strtoull(argv[2], NULL, 10));
		seen.stop = strtoull(argv[3], NULL, 10);
		if (!argv[1][0]) {
			estimator.config.ps = NULL;
			estimator.config.last_step = seen.stop;
		}
		eval.every_steps = strtoull(argv[4], NULL, 10);
		rc = estimator_train_and_evaluate(&estimator, (struct estimator_input){ next, &batches }, &eval,
						  &trained, &evaluated, &err);
	}
	if (rc == 0) {
		begin(&batches, 7, 2);
		rc = estimator_predict(&estimator, (struct estimator_input){ next, &batches }, count_predictions,
				       &predictions, &err);
	}
	if (rc < 0) {
		fprintf(stderr, "star-estimator: %s\n", err.text);
		return EXIT_FAILURE;
	}
	printf("{\"steps\": %d, \"examples\": %d, \"global_step\": %d, \"begun\": %d, \"hooked\": %d, \"ended\": %d, "
	       "\"evaluations\": %d, \"evaluated\": %d, \"predictions\": %d, \"loss\": %.9g, \"auc\": %.9g}\n",
	       (int)trained.steps, (int)trained.examples, (int)seen.global_step, seen.begun, seen.steps, seen.ended,
	       evaluations, (int)evaluated.examples, predictions, evaluated.loss, evaluated.auc);
	return EXIT_SUCCESS;
}
