/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans and runs of graphs in one process: memory, threads, sizes, errors. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/build.h"
#include "exec/plan.h"
#include "tests/graph/cases.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/support.h"
#include "tests/unit.h"

enum { GRAPHS = 60 };

static struct graph_plan_options options_of(const struct random_graph *random)
{
	return (struct graph_plan_options){ .feeds = random->feeds, .feeds_count = RANDOM_FEEDS, .seed = 1 };
}

static bool same(const struct graph_tensor *a, const struct graph_tensor *b, uint64_t seed, uint32_t result)
{
	if (graph_shape_same(&a->type.shape, &b->type.shape) && !memcmp(a->data, b->data, graph_type_bytes(&a->type)))
		return true;
	return unit_fail(__FILE__, __LINE__, "seed %llu: result %u differs", (unsigned long long)seed, result);
}

/* ---- against an interpreter that shares no memory ---- */

static bool step_as_interpreted(const struct random_graph *random, struct stepper *s, int64_t n, uint64_t seed)
{
	struct graph_tensor feeds[RANDOM_FEEDS], fetches[RANDOM_RESULTS], wanted[RANDOM_RESULTS] = { 0 };
	bool good = true;

	random_graph_feed(random, n, feeds);
	if (interpret(random->graph, feeds, wanted, &s->err) < 0 ||
	    graph_run_step(s->run, 7, feeds, fetches, &s->err) < 0)
		good = unit_fail(__FILE__, __LINE__, "seed %llu: %s", (unsigned long long)seed, s->err.text);
	for (uint32_t i = 0; good && i < RANDOM_RESULTS; i++)
		good = same(&fetches[i], &wanted[i], seed, i);
	for (uint32_t i = 0; i < RANDOM_RESULTS; i++)
		free(wanted[i].data);
	return good;
}

/* Sizes differ from step to step: the greatest, few, one, and more again. */
void plans_compute_what_an_interpreter_does(void)
{
	static const int64_t sizes[] = { 40, 7, 1, 39, 0, 40 };

	for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
		const struct random_graph_options random_options = { .nodes = 30 + (uint32_t)seed * 2, .batch = 40 };
		struct random_graph random;
		struct graph_plan_options options;
		struct stepper s;
		bool good;

		random_graph_make(&random, seed, &random_options);
		options = options_of(&random);
		options.inter_op = seed % 2 ? 1 : 2;
		good = stepper_begin(&s, random.graph, NULL, &options);
		if (!good)
			unit_fail(__FILE__, __LINE__, "seed %llu: %s", (unsigned long long)seed, s.err.text);
		for (unsigned i = 0; good && i < sizeof(sizes) / sizeof(sizes[0]); i++)
			good = step_as_interpreted(&random, &s, sizes[i], seed);
		stepper_end(&s);
		random_graph_free(&random);
		if (!good)
			break;
	}
}

/* ---- the layout, looked at again ---- */

/* The levels in which each value's memory is written or read, found from the items alone. */
struct life {
	uint32_t from, to;
};

static void touch(struct life *lives, const struct graph_plan *plan, uint32_t number, uint32_t level)
{
	struct life *life = &lives[plan->values[number].root];

	life->from = level < life->from ? level : life->from;
	life->to = level > life->to ? level : life->to;
}

static void find_lives(const struct graph_plan *plan, struct life *lives)
{
	for (uint32_t i = 0; i < plan->values_count; i++)
		lives[i] = (struct life){ UINT32_MAX, 0 };
	for (uint32_t l = 0; l < plan->levels_count; l++)
		for (uint32_t i = 0; i < plan->levels[l].count; i++) {
			const struct plan_item *item = &plan->items[plan->levels[l].first + i];
			const struct graph_node *node = plan->graph->nodes[item->id];

			for (uint32_t k = 0; k < node->inputs_count; k++)
				touch(lives, plan, plan_number(plan, node->inputs[k]), l);
			for (uint32_t o = 0; o < node->outputs_count; o++)
				touch(lives, plan, plan->first[item->id] + o, l);
		}
	for (uint32_t i = 0; i < plan->graph->results_count; i++)
		touch(lives, plan, plan_number(plan, plan->graph->results[i]), UINT32_MAX);
}

static bool apart(const struct graph_plan *plan, uint32_t a, uint32_t b)
{
	const struct plan_block *x = &plan->blocks[plan->values[a].block], *y = &plan->blocks[plan->values[b].block];

	return !x->bytes || !y->bytes || x->offset + x->bytes <= y->offset || y->offset + y->bytes <= x->offset;
}

static bool check_layout(const struct graph_plan *plan, uint64_t seed)
{
	struct life *lives = calloc(plan->values_count, sizeof(*lives));
	bool good = true;

	find_lives(plan, lives);
	for (uint32_t a = 0; a < plan->values_count && good; a++) {
		const struct plan_block *block = &plan->blocks[plan->values[a].block];

		if (plan->values[a].where != PLAN_ARENA)
			continue;
		good = CHECK(block->offset % PLAN_ALIGN == 0) && CHECK(block->offset + block->bytes <= plan->bytes) &&
		       CHECK(block->bytes >= graph_type_bytes(&plan->types[a]));
		for (uint32_t b = 0; b < a && good; b++)
			if (plan->values[b].where == PLAN_ARENA && lives[a].from <= lives[b].to &&
			    lives[b].from <= lives[a].to && !apart(plan, a, b))
				good = unit_fail(__FILE__, __LINE__,
						 "seed %llu: values %u and %u are needed at once, in the same memory",
						 (unsigned long long)seed, a, b);
	}
	free(lives);
	return good;
}

void memory_is_shared_by_those_that_never_meet(void)
{
	uint64_t together = 0, separate = 0;

	for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
		const struct random_graph_options random_options = { .nodes = 200, .batch = 64 };
		struct random_graph random;
		struct graph_plan_options options;
		struct star_error err;
		struct graph_plan *plan;
		bool good;

		random_graph_make(&random, seed, &random_options);
		options = options_of(&random);
		options.inter_op = 1 + seed % 2;
		plan = graph_compile(random.graph, NULL, &options, &err);
		good = plan ? check_layout(plan, seed) : unit_fail(__FILE__, __LINE__, "%s", err.text);
		if (plan) {
			together += graph_plan_bytes(plan);
			separate += graph_plan_bytes_apart(plan);
		}
		graph_plan_destroy(plan);
		random_graph_free(&random);
		if (!good)
			break;
	}
	printf("# %llu bytes instead of %llu\n", (unsigned long long)together, (unsigned long long)separate);
	CHECK(together < separate / 2);
}

/* ---- threads ---- */

static void step_alone(const struct random_graph *random, uint32_t intra, uint32_t inter, struct stepper *s,
		       struct graph_tensor *fetches)
{
	struct graph_plan_options options = options_of(random);
	struct graph_tensor feeds[RANDOM_FEEDS];

	options.intra_op = intra;
	options.inter_op = inter;
	random_graph_feed(random, random->feeds[0].type.shape.dims[0], feeds);
	if (!stepper_begin(s, random->graph, NULL, &options) || graph_run_step(s->run, 7, feeds, fetches, &s->err) < 0)
		unit_fail(__FILE__, __LINE__, "%s", s->err.text);
}

/* Large enough that kernels are divided, and levels are worth several threads. */
void threads_do_not_change_a_bit(void)
{
	static const uint32_t threads[][2] = { { 4, 1 }, { 1, 4 }, { 3, 2 } };

	for (uint64_t seed = 1; seed <= 6; seed++) {
		const struct random_graph_options random_options = { .nodes = 100, .batch = 20000, .loops = seed > 3 };
		struct graph_tensor one[RANDOM_RESULTS], more[RANDOM_RESULTS];
		struct random_graph random;
		struct stepper alone, s;
		bool at_once = false;

		random_graph_make(&random, seed, &random_options);
		step_alone(&random, 1, 1, &alone, one);
		for (unsigned i = 0; i < 3; i++) {
			step_alone(&random, threads[i][0], threads[i][1], &s, more);
			for (uint32_t k = 0; k < RANDOM_RESULTS; k++)
				same(&more[k], &one[k], seed, k);
			for (uint32_t l = 0; l < s.plan->levels_count; l++)
				at_once = at_once || s.plan->levels[l].at_once;
			stepper_end(&s);
		}
		CHECK(at_once);
		stepper_end(&alone);
		random_graph_free(&random);
	}
}

struct worker {
	const struct random_graph *random;
	struct graph_plan *plan;
	const struct graph_tensor *wanted;
	int64_t n;
	int failures;
};

static void *work(void *context)
{
	struct worker *w = context;
	struct graph_tensor feeds[RANDOM_FEEDS], fetches[RANDOM_RESULTS];
	struct graph_run *run = graph_run_create(w->plan, NULL);

	random_graph_feed(w->random, w->n, feeds);
	for (unsigned step = 0; step < 20; step++) {
		w->failures += graph_run_step(run, 7, feeds, fetches, NULL) < 0;
		for (uint32_t i = 0; i < RANDOM_RESULTS; i++)
			w->failures +=
				memcmp(fetches[i].data, w->wanted[i].data, graph_type_bytes(&fetches[i].type)) != 0;
	}
	graph_run_destroy(run);
	return NULL;
}

void several_runs_of_one_plan_at_once(void)
{
	const struct random_graph_options random_options = { .nodes = 120, .batch = 100, .loops = true };
	struct random_graph random;
	struct graph_tensor wanted[RANDOM_RESULTS];
	struct worker workers[4];
	pthread_t threads[4];
	struct stepper s;

	random_graph_make(&random, 5, &random_options);
	step_alone(&random, 1, 1, &s, wanted);
	for (unsigned i = 0; i < 4; i++) {
		workers[i] = (struct worker){ .random = &random, .plan = s.plan, .wanted = wanted, .n = 100 };
		pthread_create(&threads[i], NULL, work, &workers[i]);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		CHECK_INT(workers[i].failures, 0);
	}
	stepper_end(&s);
	random_graph_free(&random);
}

/* ---- allocation ---- */

/* Sizes change, loops turn, threads help. */
void steps_allocate_nothing(void)
{
	static const int64_t sizes[] = { 3000, 17, 2999, 1, 3000 };
	const struct random_graph_options random_options = { .nodes = 150, .batch = 3000, .loops = true };
	struct graph_tensor feeds[RANDOM_FEEDS], fetches[RANDOM_RESULTS];
	struct random_graph random;
	struct graph_plan_options options;
	struct stepper s;
	uint64_t begin = allocations(), before;

	random_graph_make(&random, 3, &random_options);
	options = options_of(&random);
	options.intra_op = options.inter_op = 2;
	if (!stepper_begin(&s, random.graph, NULL, &options))
		unit_fail(__FILE__, __LINE__, "%s", s.err.text);
	random_graph_feed(&random, 3000, feeds);
	CHECK_INT(graph_run_step(s.run, 0, feeds, fetches, &s.err), 0); /* OpenBLAS takes its buffers once */
	before = allocations();
	for (unsigned i = 0; i < 5; i++) {
		random_graph_feed(&random, sizes[i], feeds);
		CHECK_INT(graph_run_step(s.run, i, feeds, fetches, &s.err), 0);
	}
	CHECK_UINT(allocations() - before, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	CHECK(before > begin); /* they are counted at all */
#endif
	(void)begin;
	stepper_end(&s);
	random_graph_free(&random);
}

/* ---- what is left out, and errors ---- */

void what_nothing_needs_is_left_out(void)
{
	struct graph *g = graph_create();
	const struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(-1));
	const struct graph_value unused = graph_feed(g, "unused", STAR_FLOAT32, GRAPH_DIMS(-1));
	const struct graph_value y = graph_exp(g, x);
	const struct graph_plan_feed feed = { "x", { .dtype = STAR_FLOAT32, .shape = { 1, { 4 } } } };
	struct graph_plan_options options = { .feeds = &feed, .feeds_count = 1 };
	struct graph_tensor given = { feed.type, (float[]){ 0, 1, 2, 3 } }, fetch;
	struct stepper s;

	graph_log(g, graph_plus(g, unused, x));
	graph_set_results(g, &y, 1);
	if (CHECK(stepper_begin(&s, g, NULL, &options))) {
		CHECK_UINT(s.plan->items_count, 1);
		CHECK_INT(graph_run_step(s.run, 0, &given, &fetch, &s.err), 0);
		CHECK_NEAR(((float *)fetch.data)[3], exp(3), 1e-5);
	}
	stepper_end(&s);
	graph_destroy(g);
}

struct wrong_feed {
	const char *name, *says;
	struct graph_type type;
};

void wrong_feeds_are_refused(void)
{
	static const struct wrong_feed wrong[] = {
		{ "y", "no feed \"y\"", { .dtype = STAR_FLOAT32, .shape = { 2, { 4, 3 } } } },
		{ "x", "\"x\" is float32 [?, 3]", { .dtype = STAR_FLOAT64, .shape = { 2, { 4, 3 } } } },
		{ "x", "\"x\" is float32 [?, 3]", { .dtype = STAR_FLOAT32, .shape = { 2, { 4, 2 } } } },
		{ "x", "\"x\" is float32 [?, 3]", { .dtype = STAR_FLOAT32, .shape = { 2, { -1, 3 } } } },
		{ "x", "\"x\" is float32 [?, 3]", { .dtype = STAR_FLOAT32, .shape = { 1, { 4 } } } },
		{ "x", "more than 2^48 elements", { .dtype = STAR_FLOAT32, .shape = { 2, { INT64_C(1) << 47, 3 } } } },
		{ "x", "more than 2^48 elements", { .dtype = STAR_FLOAT32, .shape = { 2, { INT64_MAX, 3 } } } },
	};
	const struct graph_plan_feed right = { "x", { .dtype = STAR_FLOAT32, .shape = { 2, { 4, 3 } } } };
	struct graph *g = graph_create();
	const struct graph_value y = graph_neg(g, graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(-1, 3)));
	struct graph_plan_options options = { .feeds_count = 1 };
	struct graph_tensor given = { right.type, (float[12]){ 1 } }, fetch;
	struct star_error err;
	struct stepper s;

	graph_set_results(g, &y, 1);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const struct graph_plan_feed feed = { wrong[i].name, wrong[i].type };

		options.feeds = &feed;
		CHECK(!graph_compile(g, NULL, &options, &err));
		CHECK_HAS(err.text, wrong[i].says);
	}
	options.feeds_count = 0;
	CHECK(!graph_compile(g, NULL, &options, &err));
	CHECK_HAS(err.text, "\"x\"");
	options = (struct graph_plan_options){ .feeds = &right, .feeds_count = 1 };
	if (CHECK(stepper_begin(&s, g, NULL, &options))) {
		given.type.shape.dims[0] = 5;
		CHECK_INT(graph_run_step(s.run, 0, &given, &fetch, &s.err), -22);
		CHECK_HAS(s.err.text, "at most [4, 3], but float32 [5, 3] is given");
		given.type.shape.dims[0] = 2;
		CHECK_INT(graph_run_step(s.run, 0, &given, &fetch, &s.err), 0);
		CHECK_INT(fetch.type.shape.dims[0], 2);
	}
	stepper_end(&s);
	graph_destroy(g);
}

/* x [3, 2], rows of it asked for by an index that is 3, or -1: each of those who take one. */
static struct graph_value take(struct graph *g, unsigned which, struct graph_value x, struct graph_value index,
			       struct graph_value ids, struct graph_value segments, struct graph_value three)
{
	const struct graph_value wide = graph_transpose(g, x, (const int64_t[]){ 1, 0 }, 2); /* [2, 3] */

	switch (which) {
	case 0:
		return graph_gather(g, x, ids);
	case 1:
		return graph_op3(g, GRAPH_SCATTER_ADD, three, ids, x);
	case 2:
		return graph_index(g, x, index);
	case 3:
		return graph_op3(g, GRAPH_INDEX_GRAD, graph_index(g, three, graph_number(g, STAR_INT64, 0)), index, x);
	case 4:
		return graph_op3(g, GRAPH_SEGMENT_SUM, three, segments, x);
	case 5:
		return graph_op3(g, GRAPH_SEGMENT_MEAN, three, segments, x);
	case 6:
		return graph_op3(g, GRAPH_SEGMENT_SQRTN, three, segments, x);
	case 7:
		return graph_op3(g, GRAPH_SEGMENT_MEAN_GRAD, x, segments, three);
	case 8:
		return graph_op3(g, GRAPH_SEGMENT_SQRTN_GRAD, x, segments, three);
	case 9:
		return graph_op2(g, GRAPH_SOFTMAX_LOSS, graph_matmul_transposed(g, three, x), ids);
	case 10:
		return graph_columns(g, wide, ids);
	case 11:
		return graph_op3(g, GRAPH_COLUMNS_GRAD, wide, ids, wide);
	default:
		return graph_op3(g, GRAPH_SOFTMAX_LOSS_GRAD, graph_reduce(g, GRAPH_SUM, three, 1),
				 graph_matmul_transposed(g, three, x), ids);
	}
}

enum { TAKERS = 13 };

static void bad_index(unsigned which, int64_t bad)
{
	struct graph *g = graph_create();
	const struct graph_plan_feed feeds[] = { { "x", { .dtype = STAR_FLOAT32, .shape = { 2, { 3, 2 } } } },
						 { "index", { .dtype = STAR_INT64 } },
						 { "ids", { .dtype = STAR_INT64, .shape = { 1, { 3 } } } },
						 { "segments", { .dtype = STAR_INT32, .shape = { 1, { 3 } } } },
						 { "three", { .dtype = STAR_FLOAT32, .shape = { 2, { 3, 2 } } } } };
	const struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(3, 2)),
				 index = graph_feed(g, "index", STAR_INT64, GRAPH_SCALAR),
				 ids = graph_feed(g, "ids", STAR_INT64, GRAPH_DIMS(3)),
				 segments = graph_feed(g, "segments", STAR_INT32, GRAPH_DIMS(3)),
				 three = graph_feed(g, "three", STAR_FLOAT32, GRAPH_DIMS(3, 2));
	const struct graph_value result = take(g, which, x, index, ids, segments, three);
	int64_t one = bad, some[] = { 1, 2, bad };
	int32_t other[] = { 1, 2, (int32_t)bad };
	float rows[6] = { 1, 2, 3, 4, 5, 6 };
	const struct graph_tensor given[] = { { feeds[0].type, rows },
					      { feeds[1].type, &one },
					      { feeds[2].type, some },
					      { feeds[3].type, other },
					      { feeds[4].type, rows } };
	const struct graph_plan_options options = { .feeds = feeds, .feeds_count = 5 };
	char what[80];
	struct graph_tensor fetch;
	struct stepper s;

	graph_set_results(g, &result, 1);
	if (CHECK(stepper_begin(&s, g, NULL, &options))) {
		CHECK_INT(graph_run_step(s.run, 0, given, &fetch, &s.err), -22);
		snprintf(what, sizeof(what), "node \"%s\": index %lld", g->nodes[result.node]->name, (long long)bad);
		CHECK_HAS(s.err.text, what);
		CHECK_HAS(s.err.text, "is not in [0, 3)");
		one = some[2] = other[2] = 0;
		CHECK_INT(graph_run_step(s.run, 0, given, &fetch, &s.err), 0);
	} else {
		puts(s.err.text);
	}
	stepper_end(&s);
	graph_destroy(g);
}

void indices_are_checked(void)
{
	for (unsigned which = 0; which < TAKERS; which++) {
		bad_index(which, 3);
		bad_index(which, -1);
		bad_index(which, which >= 4 && which < 9 ? INT32_MAX : INT64_MAX);
		bad_index(which, which >= 4 && which < 9 ? INT32_MIN : INT64_MIN);
	}
}
