/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PS tasks in this process. tests/system/models.test shows that they compute the same bits as a node; here is what no
 * model of the zoo does: rows of variables, sums, options, refusals.
 */
#include "exec/exec.h"
#include "train/local.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "graph/build.h"
#include "tests/train/cases.h"
#include "tests/unit.h"

enum { IDS_MAX = 8 };

/* A graph on PS tasks in this process, and a run of it. */
struct job {
	struct graph *graph;
	struct graph_ps *ps;
	struct graph_plan *plan;
	struct graph_run *run;
	struct graph_plan_feed feeds[2];
	uint64_t steps;
};

static struct graph_type type_of(unsigned dtype, unsigned ndim, int64_t rows, int64_t columns)
{
	return (struct graph_type){ .dtype = (uint8_t)dtype,
				    .shape = { .ndim = (uint8_t)ndim, .dims = { rows, columns } } };
}

/* Ids and a gradient for each, as feeds. */
static void add_feeds(struct job *j, int64_t dim, struct graph_value *ids, struct graph_value *gradients)
{
	*ids = graph_feed(j->graph, "ids", STAR_INT64, GRAPH_DIMS(-1));
	*gradients = graph_feed(j->graph, "gradients", STAR_FLOAT32, GRAPH_DIMS(-1, dim));
	j->feeds[0] = (struct graph_plan_feed){ "ids", type_of(STAR_INT64, 1, IDS_MAX, 0) };
	j->feeds[1] = (struct graph_plan_feed){ "gradients", type_of(STAR_FLOAT32, 2, IDS_MAX, dim) };
}

static int open_job(struct job *j, const struct graph_value *results, uint32_t count, uint32_t feeds,
		    struct star_error *err)
{
	const struct graph_plan_options options = { .feeds = j->feeds, .feeds_count = feeds, .ps = j->ps };

	CHECK_INT(graph_set_results(j->graph, results, count), 0);
	CHECK_INT(graph_error(j->graph, err), 0);
	j->plan = graph_compile(j->graph, NULL, &options, err);
	if (!j->plan)
		return err->code;
	j->run = graph_run_create(j->plan, err);
	CHECK(j->run);
	return 0;
}

static int step(struct job *j, const int64_t *ids, const float *gradients, int64_t count, int64_t dim,
		struct graph_tensor *fetches, struct star_error *err)
{
	const struct graph_tensor feeds[2] = { { type_of(STAR_INT64, 1, count, 0), (void *)(uintptr_t)ids },
					       { type_of(STAR_FLOAT32, 2, count, dim), (void *)(uintptr_t)gradients } };

	return graph_run_step(j->run, ++j->steps, feeds, fetches, err);
}

static struct job begin_job(void)
{
	struct star_error err;
	struct job j = { .graph = graph_create(), .ps = train_local_create(&err) };

	CHECK(j.graph && j.ps);
	return j;
}

static void end_job(struct job *j)
{
	graph_run_destroy(j->run);
	graph_plan_destroy(j->plan);
	graph_destroy(j->graph);
	train_local_destroy(j->ps);
}

/* Rows of a variable by ids, and gradients of some, one of which comes twice; then all of it. */
static void check_variable_rows(int64_t rows, int64_t dim)
{
	const struct graph_definition definition = {
		.initializer = "uniform", .scale = 1, .optimizer = "sgd", .rate = 1
	};
	const int64_t ids[] = { 3, 0, 3, rows - 1 };
	struct job j = begin_job();
	struct graph_value id, gradient, results[2];
	struct graph_tensor fetches[2];
	struct star_error err = { 0 };
	float *gradients = malloc(4 * (size_t)dim * sizeof(float)),
	      *first = malloc((size_t)(rows * dim) * sizeof(float));
	struct graph_value variable;

	variable = graph_variable(j.graph, "v", GRAPH_DIMS(rows, dim), &definition);
	add_feeds(&j, dim, &id, &gradient);
	results[0] = graph_op1(j.graph, GRAPH_READ, variable);
	results[1] = graph_lookup(j.graph, variable, id);
	graph_op3(j.graph, GRAPH_APPLY_ROWS, variable, id, gradient);
	CHECK_INT(open_job(&j, results, 2, 2, &err), 0);
	for (int64_t i = 0; i < 4 * dim; i++)
		gradients[i] = (float)(i + 1);
	for (unsigned s = 0; s < 3; s++) {
		const float *all, *some;

		CHECK_INT(step(&j, ids, gradients, 4, dim, fetches, &err), 0);
		all = fetches[0].data;
		some = fetches[1].data;
		for (int64_t i = 0; i < 4 * dim; i++)
			CHECK_NEAR(some[i], all[ids[i / dim] * dim + i % dim], 0);
		for (int64_t i = 0; s == 0 && i < rows * dim; i++)
			first[i] = all[i];
		for (int64_t i = 0; i < rows * dim; i++) {
			const int64_t row = i / dim, e = i % dim;
			const float sum = row == 3	    ? gradients[e] + gradients[2 * dim + e]
					  : row == 0	    ? gradients[dim + e]
					  : row == rows - 1 ? gradients[3 * dim + e]
							    : 0;

			CHECK_NEAR(all[i], first[i], 0);
			first[i] -= sum;
		}
	}
	CHECK_INT(step(&j, (const int64_t[]){ rows }, gradients, 1, dim, fetches, &err), -EINVAL);
	CHECK_HAS(err.text, "first dimension");
	free(first);
	free(gradients);
	end_job(&j);
	train_local_forget();
}

void a_local_variable_gives_and_takes_rows(void)
{
	check_variable_rows(1000, 24);	/* 42 of them a block, the last one of which is short */
	check_variable_rows(5, 2048);	/* two blocks each */
	check_variable_rows(400, 1024); /* each a block */
}

/* What is trained in one graph is there for the next one, until it is forgotten; other definitions are refused. */
void local_tables_stay_until_they_are_forgotten(void)
{
	const struct graph_definition definition = { .initializer = "zeros", .optimizer = "adagrad", .rate = 1 };
	const struct graph_definition other = { .initializer = "zeros", .optimizer = "adam", .rate = 1 };
	const float gradients[] = { 1, -1, 0.5f, 0.5f };
	const int64_t ids[] = { 7, 7 };
	struct star_error err = { 0 };
	float seen[4];

	for (unsigned i = 0; i < 4; i++) {
		struct job j = begin_job();
		struct graph_tensor fetch;
		struct graph_value id, gradient, table, rows;

		table = graph_table(j.graph, "t", 2, i == 2 ? &other : &definition);
		add_feeds(&j, 2, &id, &gradient);
		rows = graph_lookup(j.graph, table, id);
		graph_op3(j.graph, GRAPH_APPLY_ROWS, table, id, gradient);
		CHECK_INT(open_job(&j, &rows, 1, 2, &err), i == 2 ? -EEXIST : 0);
		if (i != 2) {
			CHECK_INT(step(&j, ids, gradients, 2, 2, &fetch, &err), 0);
			seen[i] = *(const float *)fetch.data;
		}
		end_job(&j);
		if (i == 2)
			train_local_forget();
	}
	CHECK_NEAR(seen[0], 0, 0);
	CHECK_NEAR(seen[1], -1, 0);
	CHECK_NEAR(seen[3], 0, 0);
	train_local_forget();
	train_local_forget();
}

/* One gradient of two is not finite: neither is applied. */
void a_local_step_that_is_refused_changes_nothing(void)
{
	const struct graph_definition definition = { .initializer = "zeros", .optimizer = "sgd", .rate = 1 };
	const float good[] = { 1, 1, 1, 1 }, bad[] = { 1, 1, NAN, 1 };
	const int64_t ids[] = { 1, 2 };
	struct job j = begin_job();
	struct graph_value id, gradient, table, rows;
	struct star_error err = { 0 };
	struct graph_tensor fetch;

	table = graph_table(j.graph, "t", 2, &definition);
	add_feeds(&j, 2, &id, &gradient);
	rows = graph_lookup(j.graph, table, id);
	graph_op3(j.graph, GRAPH_APPLY_ROWS, table, id, gradient);
	CHECK_INT(open_job(&j, &rows, 1, 2, &err), 0);
	CHECK_INT(step(&j, ids, bad, 2, 2, &fetch, &err), -EDOM);
	CHECK_HAS(err.text, "nonfinite=clip");
	CHECK_INT(step(&j, ids, good, 2, 2, &fetch, &err), 0);
	CHECK_INT(step(&j, ids, good, 2, 2, &fetch, &err), 0);
	for (unsigned i = 0; i < 4; i++)
		CHECK_NEAR(((const float *)fetch.data)[i], -1, 0);
	CHECK_INT(step(&j, ids, good, 0, 2, &fetch, &err), 0); /* no ids: nothing to do */
	end_job(&j);
	train_local_forget();
}

/* An update that a table does not accept is refused when the plan is made. */
void local_plans_that_cannot_be_are_refused(void)
{
	static const struct {
		int64_t rows, dim;
		const char *optimizer, *has;
	} cases[] = {
		{ 4, 1500, "sgd", "split across its blocks" },
		{ 4, 8, "lamb", "whole=1" },
		{ 4, 8, "no such optimizer", "possible values are" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct graph_definition definition = { .optimizer = cases[i].optimizer, .rate = 1 };
		struct job j = begin_job();
		struct graph_value id, gradient, variable, rows;
		struct star_error err = { 0 };

		variable = graph_variable(j.graph, "v", GRAPH_DIMS(cases[i].rows, cases[i].dim), &definition);
		add_feeds(&j, cases[i].dim, &id, &gradient);
		rows = graph_lookup(j.graph, variable, id);
		graph_op3(j.graph, GRAPH_APPLY_ROWS, variable, id, gradient);
		CHECK_INT(open_job(&j, &rows, 1, 2, &err), -EINVAL);
		CHECK_HAS(err.text, cases[i].has);
		end_job(&j);
		train_local_forget();
	}
}
