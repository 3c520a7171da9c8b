/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker of a job whose workers wait for each other: star-sync PS [NAME=VALUE...] makes its steps and prints a line
 * for each, "step LOCAL global GLOBAL sum SUM", then "dropped N" and "done". Options by number: index, workers, steps,
 * last_step, pause_ms (before a step), lease_ms, recovery_ms, staleness, grads_to_wait, by_row (0 or 1), checkpoints
 * (every so many steps), in_flight (steps), hold_step; by name: mode (asynchronous, ssp, ...), hold (points of hold.c,
 * at each of which it stops once, after hold_step steps) and model:
 *
 * integers: a variable "w" [4] and a table "t" of rows of 4, from zeros, by sgd with rate 1. A step's gradient is
 * (index + 1) for each element of w, and for each row of the ids 1, 2 and 10 + index. SUM is that of w's elements as
 * the step read them. Steps in flight have the same feeds. counted: the same, but w's rate halves with each step that
 * tables count, and rows of t live 10 of them; of variables beside it, each with an optimizer or a schedule that goes
 * by the step, SUM is followed by the sum of each. twice: integers, and a table "t2" is updated in two places. shared:
 * and some rows of a variable "s", which share a block. learning: dense layers "d" and a table "e", by adam, of batches
 * of 24 rows, of which each worker takes its share; SUM is the loss.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/exec.h"
#include "base/prng.h"
#include "graph/build.h"
#include "graph/gradient.h"
#include "train/session.h"
#include "tests/system/star-sync/hold.h"

enum { WIDTH = 4, IDS = 3, ROWS = 24, BATCHES = 4, RESULTS = 2 };

/* What the variables of model=counted count beside w. */
static const struct graph_attr warms_up[] = { GRAPH_ATTR_INT("warmup_steps", 8) },
			       decays[] = { GRAPH_ATTR_INT("decay_steps", 2), GRAPH_ATTR_FLOAT("decay_rate", 0.5) },
			       corrects[] = { GRAPH_ATTR_INT("count_per_table", 1) };
static const struct {
	const char *name;
	struct graph_definition definition;
} counting[] = {
	{ "warms_up",
	  { .optimizer = "sgd", .rate = 1, .initializer = "zeros", .options = warms_up, .options_count = 1 } },
	{ "decays",
	  { .optimizer = "adagrad_decay", .rate = 1, .initializer = "zeros", .options = decays, .options_count = 2 } },
	{ "corrects",
	  { .optimizer = "adam_async", .rate = 0.1, .initializer = "zeros", .options = corrects, .options_count = 1 } },
};
enum { COUNTING = sizeof(counting) / sizeof(counting[0]) };

struct worker {
	struct session_config config;
	uint64_t steps, pause_ms;
	bool learning, counted, twice, shared;
	struct graph *graph;
	struct graph_plan_feed feeds[3];
	uint32_t feeds_count;
	struct graph_tensor tensors[3];
	float x[ROWS][WIDTH], y[ROWS];
	int64_t ids[ROWS];
};

static struct graph_value feed(struct worker *w, const char *name, struct graph_type type, void *memory)
{
	w->feeds[w->feeds_count] = (struct graph_plan_feed){ name, type };
	w->tensors[w->feeds_count++] = (struct graph_tensor){ type, memory };
	return graph_feed(w->graph, name, type.dtype, type.shape.dims, type.shape.ndim);
}

static struct graph_type type_of(unsigned dtype, unsigned ndim, int64_t rows, int64_t columns)
{
	return (struct graph_type){ .dtype = (uint8_t)dtype,
				    .shape = { .ndim = (uint8_t)ndim, .dims = { rows, columns } } };
}

/* The gradient of a sum of products is the other factor. What is shown is a result beside the loss. */
static struct graph_value integers(struct worker *w, struct graph_value *shown)
{
	const struct graph_attr halves[] = { GRAPH_ATTR_STRING("schedule", "exponential"),
					     GRAPH_ATTR_INT("schedule_steps", 1),
					     GRAPH_ATTR_FLOAT("schedule_rate", 0.5) };
	const struct graph_attr lives[] = { GRAPH_ATTR_INT("steps_to_live", 10) };
	const struct graph_definition definition = { .optimizer = "sgd", .rate = 1, .initializer = "zeros" };
	struct graph_definition dense = definition, living = definition;
	struct graph *g = w->graph;
	const struct graph_value x = feed(w, "x", type_of(STAR_FLOAT32, 1, WIDTH, 0), w->x);
	const struct graph_value ids = feed(w, "ids", type_of(STAR_INT64, 1, IDS, 0), w->ids);
	struct graph_value read, rows, loss, sums[1 + COUNTING];

	if (w->counted) {
		dense.options = halves;
		dense.options_count = sizeof(halves) / sizeof(halves[0]);
		living.options = lives;
		living.options_count = 1;
	}
	read = graph_read(g, graph_variable(g, "w", GRAPH_DIMS(WIDTH), &dense));
	rows = graph_lookup(g, graph_table(g, "t", WIDTH, &living), ids);
	*shown = graph_sum(g, read);
	for (unsigned i = 0; w->twice && i < 2; i++)
		graph_op3(g, GRAPH_APPLY_ROWS,
			  i ? (struct graph_value){ graph_find(g, "t2")->id, 0 }
			    : graph_table(g, "t2", WIDTH, &definition),
			  ids, graph_times(g, rows, x));
	if (w->shared)
		graph_op3(g, GRAPH_APPLY_ROWS, graph_variable(g, "s", GRAPH_DIMS(20, WIDTH), &definition), ids,
			  graph_times(g, rows, x));
	loss = graph_plus(g, graph_sum(g, graph_times(g, read, x)), graph_sum(g, graph_times(g, rows, x)));
	if (!w->counted)
		return loss;
	sums[0] = graph_reshape(g, *shown, GRAPH_DIMS(1));
	for (unsigned i = 0; i < COUNTING; i++) {
		read = graph_read(g, graph_variable(g, counting[i].name, GRAPH_DIMS(WIDTH), &counting[i].definition));
		sums[1 + i] = graph_reshape(g, graph_sum(g, read), GRAPH_DIMS(1));
		loss = graph_plus(g, loss, graph_sum(g, graph_times(g, read, x)));
	}
	*shown = graph_concat(g, sums, 1 + COUNTING, 0);
	return loss;
}

static struct graph_value learning(struct worker *w, struct graph_value *shown)
{
	const struct graph_definition dense = { .optimizer = "adam", .rate = 0.05 };
	const struct graph_definition rows = {
		.optimizer = "adam", .rate = 0.05, .initializer = "normal", .scale = 0.1
	};
	const int64_t n = ROWS / w->config.workers;
	struct graph *g = w->graph;
	const struct graph_value x = feed(w, "x", type_of(STAR_FLOAT32, 2, n, WIDTH), w->x);
	const struct graph_value ids = feed(w, "ids", type_of(STAR_INT64, 1, n, 0), w->ids);
	const struct graph_value y = feed(w, "y", type_of(STAR_FLOAT32, 1, n, 0), w->y);
	const struct graph_value row = graph_lookup(g, graph_table(g, "e", WIDTH, &rows), ids);
	const struct graph_value layer = graph_dense(g, graph_times(g, x, row), 8, GRAPH_RELU, "d/0", &dense);
	const struct graph_value last = graph_dense(g, layer, 1, GRAPH_NO_OP, "d/1", &dense);

	return *shown = graph_sigmoid_loss(g, graph_reshape(g, last, GRAPH_DIMS(n)), y);
}

/* The batch of a step is the same for all, one of a few: its rows are drawn by the step's number, and this worker's are
 * taken. */
static void fill(struct worker *w, uint64_t step)
{
	const unsigned n = ROWS / w->config.workers, first = w->config.task_index * n;
	struct prng prng;

	if (!w->learning) {
		for (unsigned i = 0; i < WIDTH; i++)
			w->x[0][i] = (float)(w->config.task_index + 1);
		w->ids[0] = 1;
		w->ids[1] = 2;
		w->ids[2] = 10 + w->config.task_index;
		return;
	}
	prng_seed(&prng, step % BATCHES);
	for (unsigned r = 0; r < first + n; r++) {
		const unsigned to = r < first ? 0 : r - first; /* what others take is drawn, and drawn over */

		for (unsigned i = 0; i < WIDTH; i++)
			w->x[to][i] = (float)prng_unit(&prng);
		w->y[to] = w->x[to][0] > w->x[to][1];
		w->ids[to] = (int64_t)prng_below(&prng, 40);
	}
}

static int set(struct worker *w, const char *word)
{
	const char *value = strchr(word, '=');
	const struct {
		const char *name;
		uint64_t *to, unit;
		uint32_t *to32;
	} options[] = {
		{ "index", NULL, 1, &w->config.task_index },
		{ "workers", NULL, 1, &w->config.workers },
		{ "grads_to_wait", NULL, 1, &w->config.grads_to_wait },
		{ "checkpoints", NULL, 1, &w->config.save_checkpoints_steps },
		{ "in_flight", NULL, 1, &w->config.steps_in_flight },
		{ "staleness", &w->config.staleness, 1, NULL },
		{ "lease_ms", &w->config.lease_us, 1000, NULL },
		{ "recovery_ms", &w->config.recovery_us, 1000, NULL },
		{ "hold_step", &hold.step, 1, NULL },
		{ "last_step", &w->config.last_step, 1, NULL },
		{ "steps", &w->steps, 1, NULL },
		{ "pause_ms", &w->pause_ms, 1, NULL },
	};

	if (!value)
		return -EINVAL;
	if (!strncmp(word, "by_row=", 7)) {
		w->config.mean_by_row = !strcmp(value + 1, "1");
		return 0;
	}
	if (!strncmp(word, "mode=", 5)) {
		w->config.consistency = value + 1;
		return 0;
	}
	if (!strncmp(word, "hold=", 5)) {
		hold.point = value + 1;
		return hold_parse(hold.point);
	}
	if (!strncmp(word, "model=", 6)) {
		w->learning = !strcmp(value + 1, "learning");
		w->twice = !strcmp(value + 1, "twice");
		w->shared = !strcmp(value + 1, "shared");
		w->counted = !strcmp(value + 1, "counted");
		return w->learning || w->counted || w->twice || w->shared || !strcmp(value + 1, "integers") ? 0
													    : -EINVAL;
	}
	for (unsigned i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (strlen(options[i].name) == (size_t)(value - word) &&
		    !strncmp(word, options[i].name, (size_t)(value - word))) {
			const uint64_t number = strtoull(value + 1, NULL, 10) * options[i].unit;

			if (options[i].to)
				*options[i].to = number;
			else
				*options[i].to32 = (uint32_t)number;
			return 0;
		}
	return -EINVAL;
}

static int build(struct worker *w, struct session_model *model, struct star_error *err)
{
	static const char *const names[RESULTS] = { SESSION_GLOBAL_STEP, "shown" };
	struct graph_value values[RESULTS], loss;

	w->graph = graph_create();
	loss = w->learning ? learning(w, &values[1]) : integers(w, &values[1]);
	graph_train(w->graph, loss, NULL, NULL);
	values[0] = graph_global_step(w->graph);
	graph_set_results(w->graph, values, RESULTS);
	*model = (struct session_model){
		.graph = w->graph, .results = names, .feeds = w->feeds, .feeds_count = w->feeds_count
	};
	return graph_error(w->graph, err);
}

static int work(struct worker *w, struct star_error *err)
{
	const struct timespec pause = { (time_t)(w->pause_ms / 1000), (long)(w->pause_ms % 1000) * 1000000 };
	const struct graph_tensor *results;
	struct session_model model;
	struct session *session;
	int rc = build(w, &model, err), closed;

	if (rc < 0)
		return rc;
	hold.need = w->config.grads_to_wait;
	session = session_create(&w->config, &model, NULL, 0, err);
	rc = session ? 0 : err->code;
	for (uint64_t made = 0, begun = 0; rc == 0; made++) {
		while (rc == 0 && begun < w->steps && !session_should_stop(session)) {
			nanosleep(&pause, NULL);
			if (!session_in_flight(session))
				fill(w, session_clock(session));
			rc = session_submit(session, w->tensors, err);
			begun += rc == 0;
			if (session_in_flight(session) >= w->config.steps_in_flight)
				break;
		}
		if (rc < 0 || !session_in_flight(session))
			break;
		rc = session_take(session, &results, err);
		if (rc < 0)
			break;
		hold.made++;
		printf("step %llu global %llu sum", (unsigned long long)made + 1,
		       (unsigned long long)session_global_step(session));
		for (int64_t i = 0; i < graph_elements(&results[1].type.shape); i++)
			printf(" %.9g", (double)((const float *)results[1].data)[i]);
		putchar('\n');
		fflush(stdout);
	}
	if (rc == 0)
		printf("dropped %llu\n", (unsigned long long)session_dropped(session));
	closed = session_close(session, rc < 0 ? NULL : err);
	graph_destroy(w->graph);
	return rc < 0 ? rc : closed;
}

int main(int argc, char **argv)
{
	static struct worker w;
	struct star_error err = { .text = "usage: star-sync PS [NAME=VALUE...]" };
	int rc = argc > 1 ? 0 : -EINVAL;

	w.config = (struct session_config){ .ps = argv[1], .workers = 1, .log_step_count_steps = UINT32_MAX };
	w.steps = 10;
	for (int i = 2; rc == 0 && i < argc; i++)
		rc = set(&w, argv[i]);
	if (rc == 0)
		rc = work(&w, &err);
	if (rc < 0) {
		fprintf(stderr, "star-sync: %s\n", err.text);
		return EXIT_FAILURE;
	}
	puts("done");
	return EXIT_SUCCESS;
}
