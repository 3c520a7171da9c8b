/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The example of docs/training.rst: a model, trained and evaluated. Usage: train_likes HOST:PORT[,HOST:PORT...], or
 * train_likes local; without an argument who takes part comes from TF_CONFIG.
 */
#include <stdio.h>
#include <stdlib.h>

#include "exec/exec.h"
#include "graph/build.h"
#include "train/cluster.h"
#include "train/estimator.h"

enum { USERS = 1000, ITEMS = 500, DIM = 8, BATCH = 256, STEPS = 2000, EVAL_BATCHES = 40 };

/* Does this user like this item? Matrix factorization: the product of their two embeddings says so. */
static int likes_model(void *params, enum estimator_mode mode, struct graph *g, struct estimator_spec *spec,
		       struct star_error *err)
{
	const struct graph_definition rows = {
		.initializer = "normal", .scale = 0.1, .optimizer = "adam", .rate = 0.01
	};
	const struct graph_type ids = { .dtype = STAR_INT64, .shape = { .ndim = 1, .dims = { BATCH } } };
	const struct graph_type floats = { .dtype = STAR_FLOAT32, .shape = { .ndim = 1, .dims = { BATCH } } };
	const struct graph_value users = graph_feed(g, "users", STAR_INT64, GRAPH_DIMS(-1));
	const struct graph_value items = graph_feed(g, "items", STAR_INT64, GRAPH_DIMS(-1));
	const struct graph_value labels = graph_feed(g, "labels", STAR_FLOAT32, GRAPH_DIMS(-1));
	/* Looked up read-only when the estimator evaluates or predicts: that makes no rows. */
	const struct graph_value u = graph_lookup(g, graph_table(g, "likes/users", DIM, &rows), users);
	const struct graph_value v = graph_lookup(g, graph_table(g, "likes/items", DIM, &rows), items);
	const struct graph_value logits = graph_reduce(g, GRAPH_SUM, graph_times(g, u, v), 1);

	(void)params;
	(void)err; /* what is wrong with the graph, the estimator finds in it */
	spec->feeds[spec->feeds_count++] = (struct graph_plan_feed){ .name = "users", .type = ids };
	spec->feeds[spec->feeds_count++] = (struct graph_plan_feed){ .name = "items", .type = ids };
	spec->feeds[spec->feeds_count++] = (struct graph_plan_feed){ .name = "labels", .type = floats };
	spec->loss = graph_sigmoid_loss(g, logits, labels);
	spec->labels = "labels";
	if (mode != ESTIMATOR_TRAIN)
		spec->predictions = graph_sigmoid(g, logits);
	return 0;
}

/* Batches, in the order of spec->feeds; here they are drawn, and the rule of the labels is what is to be learned. */
struct source {
	unsigned short random[3]; /* erand48's */
	unsigned batches;	  /* left */
	int64_t users[BATCH], items[BATCH];
	float labels[BATCH];
};

static int next_batch(void *arg, struct graph_tensor *feeds, struct star_error *err)
{
	const struct graph_type ids = { .dtype = STAR_INT64, .shape = { .ndim = 1, .dims = { BATCH } } };
	const struct graph_type floats = { .dtype = STAR_FLOAT32, .shape = { .ndim = 1, .dims = { BATCH } } };
	struct source *s = arg;

	(void)err;
	if (s->batches == 0)
		return 0; /* the end */
	s->batches--;
	for (unsigned i = 0; i < BATCH; i++) {
		s->users[i] = (int64_t)(erand48(s->random) * USERS);
		s->items[i] = (int64_t)(erand48(s->random) * ITEMS);
		s->labels[i] = (3 * s->users[i] + s->items[i]) % 5 < 2;
	}
	feeds[0] = (struct graph_tensor){ ids, s->users };
	feeds[1] = (struct graph_tensor){ ids, s->items };
	feeds[2] = (struct graph_tensor){ floats, s->labels };
	return 1;
}

/* Each worker has its own batches; the chief, worker 0, makes tables and evaluates. */
static int work(struct estimator *estimator, const char *program)
{
	const uint32_t worker = estimator->config.task_index;
	struct source training = { .random = { 1, (unsigned short)worker }, .batches = STEPS },
		      test = { .random = { 2 }, .batches = EVAL_BATCHES };
	struct estimator_figures trained, tested;
	struct star_error err = { 0 };

	if (estimator_train(estimator, (struct estimator_input){ next_batch, &training }, 0, &trained, &err) < 0 ||
	    (worker == 0 &&
	     estimator_evaluate(estimator, (struct estimator_input){ next_batch, &test }, &tested, &err) < 0)) {
		fprintf(stderr, "%s: %s\n", program, err.text);
		return EXIT_FAILURE;
	}
	printf("%llu steps of %u round trips: loss %.4f", (unsigned long long)trained.steps, trained.rounds,
	       trained.loss);
	if (worker == 0)
		printf("; test: loss %.4f, AUC %.4f", tested.loss, tested.auc);
	putchar('\n');
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct estimator estimator = {
		.model_fn = likes_model,
		.config = { .protocol = "star_server", .log_step_count_steps = 500 },
	};
	struct cluster_spec cluster;
	struct star_error err = { 0 };
	int status;

	estimator.config.ps = argc == 2 ? argv[1] : NULL;
	if (argc > 2 || cluster_spec_take_environment(&cluster, &estimator.config, &err) < 0 || !estimator.config.ps) {
		fprintf(stderr, "usage: %s HOST:PORT[,HOST:PORT...] | local, or with TF_CONFIG alone. %s\n", argv[0],
			err.text);
		return EXIT_FAILURE;
	}
	status = work(&estimator, argv[0]);
	cluster_spec_fini(&cluster);
	return status;
}
