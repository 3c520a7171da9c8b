/* SPDX-License-Identifier: BSD-3-Clause */
/* Loops and branches, executed. */
#include <errno.h>
#include <string.h>

#include "exec/exec.h"
#include "graph/build.h"
#include "graph/text.h"
#include "tests/graph/cases.h"
#include "tests/graph/support.h"
#include "tests/unit.h"

static const struct graph_plan_feed feeds[] = {
	{ "times", { .dtype = STAR_INT64 } },
	{ "x", { .dtype = STAR_FLOAT32, .shape = { 1, { 4 } } } },
};

/* Executes with `times` and n elements of x. */
static int step(struct stepper *s, int64_t times, int64_t n, struct graph_tensor *fetches)
{
	static float x[] = { 1, 2, 3, 4 };
	static int64_t kept;
	struct graph_tensor given[] = { { feeds[0].type, &kept }, { feeds[1].type, x } };

	kept = times;
	given[1].type.shape.dims[0] = n;
	return graph_run_step(s->run, 1, given, fetches, &s->err);
}

/* Fibonacci: two carried values that change places; a tape of the sums. x is captured. */
static struct graph *fibonacci(struct graph_value *node)
{
	struct graph *g = graph_create();
	const struct graph_value times = graph_feed(g, "times", STAR_INT64, GRAPH_SCALAR);
	const struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(-1));
	const struct graph_value zero = graph_number(g, STAR_INT64, 0), one = graph_number(g, STAR_INT64, 1);
	struct graph_loop loop = graph_loop_begin(g, (struct graph_value[]){ zero, zero, one }, 3,
						  (struct graph_value[]){ times, x }, 2);
	const struct graph_value more = graph_less(loop.cond, loop.in[0], loop.in[3]);
	const struct graph_value sum = graph_plus(loop.body, loop.in[1], loop.in[2]);
	const struct graph_value next[] = {
		graph_plus(loop.body, loop.in[0], graph_number(loop.body, STAR_INT64, 1)), loop.in[2], sum,
		graph_times(loop.body, graph_cast(loop.body, sum, STAR_FLOAT32), loop.in[4])
	};
	struct graph_value results[5];

	*node = graph_loop_end(&loop, more, next, 4, 20);
	for (uint32_t i = 0; i < 5; i++)
		results[i] = graph_output(*node, i);
	graph_set_results(g, results, 5);
	return g;
}

void loops_turn(void)
{
	static const int64_t numbers[] = { 0,  1,   1,	 2,   3,   5,	8,    13,   21,	  34,	55,
					   89, 144, 233, 377, 610, 987, 1597, 2584, 4181, 6765, 10946 };
	struct graph_value node;
	struct graph *g = fibonacci(&node);
	struct graph_tensor out[5];
	struct stepper s;

	if (!CHECK(stepper_begin(&s, g, NULL, &(struct graph_plan_options){ .feeds = feeds, .feeds_count = 2 })))
		unit_fail(__FILE__, __LINE__, "%s", s.err.text);
	for (int64_t times = 20; s.run && times >= 0; times -= 5) {
		const int64_t n = 1 + times % 4;

		if (!CHECK_INT(step(&s, times, n, out), 0))
			break;
		CHECK_INT(*(int64_t *)out[0].data, times);
		CHECK_INT(*(int64_t *)out[1].data, numbers[times]);
		CHECK_INT(*(int64_t *)out[2].data, numbers[times + 1]);
		CHECK_INT(*(int64_t *)out[3].data, times);
		CHECK_INT(out[4].type.shape.ndim, 2);
		CHECK_INT(out[4].type.shape.dims[0], 20);
		CHECK_INT(out[4].type.shape.dims[1], n);
		for (int64_t i = 0; i < 20; i++)
			CHECK_NEAR(((float *)out[4].data)[i * n + n - 1], i < times ? (double)(numbers[i + 2] * n) : 0,
				   0);
	}
	stepper_end(&s);
	graph_destroy(g);
}

void too_many_iterations_are_an_error(void)
{
	struct graph_value node;
	struct graph *g = fibonacci(&node);
	struct graph_tensor out[5];
	struct stepper s;

	if (CHECK(stepper_begin(&s, g, NULL, &(struct graph_plan_options){ .feeds = feeds, .feeds_count = 2 }))) {
		CHECK_INT(step(&s, 21, 1, out), -22);
		CHECK_HAS(s.err.text, "node \"while\": more than 20 iterations");
		CHECK_INT(step(&s, 3, 2, out), 0);
		CHECK_INT(*(int64_t *)out[1].data, 2);
	}
	stepper_end(&s);
	graph_destroy(g);
}

/* Nothing that is carried has a byte, nor have bodies memory of their own. */
void a_loop_of_nothing_turns(void)
{
	static const char text[] = "star 1\n"
				   "on = feed() dtype=\"int32\" shape=[]\n"
				   "x = const() value=float32[0]{}\n"
				   "w = while(x, on) carried=1 most=2 {\n"
				   "  cond {\n"
				   "    x = feed() dtype=\"float32\" shape=[0]\n"
				   "    on = feed() dtype=\"int32\" shape=[]\n"
				   "    results on\n"
				   "  }\n"
				   "  body {\n"
				   "    x = feed() dtype=\"float32\" shape=[0]\n"
				   "    on = feed() dtype=\"int32\" shape=[]\n"
				   "    results x\n"
				   "  }\n"
				   "}\n"
				   "results w, w:1\n";
	const struct graph_plan_feed on = { "on", { .dtype = STAR_INT32 } };
	struct star_error err = { 0 };
	struct graph *g = graph_parse(text, strlen(text), "text", &err);
	struct graph_tensor out[2];
	struct stepper s;

	if (!CHECK(g))
		return;
	if (CHECK(stepper_begin(&s, g, NULL, &(struct graph_plan_options){ .feeds = &on, .feeds_count = 1 }))) {
		for (int32_t turns = 0; turns < 2; turns++) {
			const struct graph_tensor given = { on.type, &turns };

			CHECK_INT(graph_run_step(s.run, 1, &given, out, &s.err), turns ? -EINVAL : 0);
			if (turns)
				CHECK_HAS(s.err.text, "more than 2 iterations");
			else
				CHECK_INT(*(int64_t *)out[1].data, 0);
		}
	}
	stepper_end(&s);
	graph_destroy(g);
}

/* The tape of x: 2^30 times 2^34 + 1 floats, which in 64 bits are 2^30. */
void a_tape_that_cannot_be_counted_is_refused(void)
{
	static const char text[] = "star 1\n"
				   "i = feed() dtype=\"int32\" shape=[]\n"
				   "x = feed() dtype=\"float32\" shape=[-1]\n"
				   "w = while(i, x) carried=1 most=1073741824 {\n"
				   "  cond {\n"
				   "    i = feed() dtype=\"int32\" shape=[]\n"
				   "    x = feed() dtype=\"float32\" shape=[-1]\n"
				   "    results i\n"
				   "  }\n"
				   "  body {\n"
				   "    i = feed() dtype=\"int32\" shape=[]\n"
				   "    x = feed() dtype=\"float32\" shape=[-1]\n"
				   "    results i, x\n"
				   "  }\n"
				   "}\n"
				   "results w:2\n";
	struct graph_plan_feed huge[] = {
		{ "i", { .dtype = STAR_INT32 } },
		{ "x", { .dtype = STAR_FLOAT32, .shape = { 1, { (INT64_C(1) << 34) + 1 } } } },
	};
	const struct graph_plan_options options = { .feeds = huge, .feeds_count = 2 };
	struct star_error err = { 0 };
	struct graph *g = graph_parse(text, strlen(text), "text", &err);
	struct graph_plan *plan;

	if (!CHECK(g))
		return;
	CHECK(!graph_compile(g, NULL, &options, &err));
	CHECK_INT(err.code, -EINVAL);
	CHECK_HAS(err.text, "node \"w\": output 2 would be [1073741824, 17179869185]: more than 2^48 elements");
	huge[1].type.shape.dims[0] = 3;
	plan = graph_compile(g, NULL, &options, &err);
	CHECK(plan);
	graph_plan_destroy(plan);
	graph_destroy(g);
}

/* A loop in a loop: x doubled `times` times, `times` times. The inner tape is summed up. */
static struct graph *nested(void)
{
	struct graph *g = graph_create();
	const struct graph_value times = graph_feed(g, "times", STAR_INT64, GRAPH_SCALAR);
	const struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(-1));
	const struct graph_value zero = graph_number(g, STAR_INT64, 0);
	struct graph_loop outer = graph_loop_begin(g, (struct graph_value[]){ zero, x }, 2, &times, 1);
	const struct graph_value outer_more = graph_less(outer.cond, outer.in[0], outer.in[2]);
	struct graph *b = outer.body;
	struct graph_loop inner =
		graph_loop_begin(b, (struct graph_value[]){ graph_number(b, STAR_INT64, 0), outer.in[1] }, 2,
				 &outer.in[2], 1);
	const struct graph_value inner_more = graph_less(inner.cond, inner.in[0], inner.in[2]);
	const struct graph_value doubled = graph_plus(inner.body, inner.in[1], inner.in[1]);
	struct graph_value next[] = { graph_plus(inner.body, inner.in[0], graph_number(inner.body, STAR_INT64, 1)),
				      doubled, doubled };
	const struct graph_value end = graph_loop_end(&inner, inner_more, next, 3, 5);
	struct graph_value results[2];

	next[0] = graph_plus(b, outer.in[0], graph_number(b, STAR_INT64, 1));
	next[1] = graph_output(end, 1);
	next[2] = graph_reduce(b, GRAPH_SUM, graph_output(end, 3), 0);
	results[0] = graph_loop_end(&outer, outer_more, next, 3, 5);
	results[1] = graph_output(results[0], 3);
	results[0] = graph_output(results[0], 1);
	graph_set_results(g, results, 2);
	return g;
}

void loops_turn_in_loops(void)
{
	struct graph *g = nested();
	struct graph_tensor out[2];
	struct stepper s;

	if (!CHECK(stepper_begin(&s, g, NULL, &(struct graph_plan_options){ .feeds = feeds, .feeds_count = 2 })))
		unit_fail(__FILE__, __LINE__, "%s", s.err.text);
	for (int64_t times = 0; s.run && times < 5; times++) {
		const int64_t n = 4 - times % 2;

		if (!CHECK_INT(step(&s, times, n, out), 0))
			break;
		CHECK_NEAR(((float *)out[0].data)[1], 2 * exp2((double)(times * times)), 0);
		CHECK_INT(out[1].type.shape.dims[1], n); /* also where nothing was executed */
		for (int64_t i = 0; i < 5; i++)
			/* 2 + 4 + ... + 2^times of what it was */
			CHECK_NEAR(((float *)out[1].data)[i * n],
				   i < times ? exp2((double)(i * times)) * (exp2((double)times + 1) - 2) : 0, 0);
	}
	stepper_end(&s);
	graph_destroy(g);
}

void branches_are_taken(void)
{
	struct graph *g = graph_create();
	const struct graph_value times = graph_feed(g, "times", STAR_INT64, GRAPH_SCALAR);
	const struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(-1));
	struct graph_branch branch = graph_branch_begin(g, graph_less(g, times, graph_number(g, STAR_INT64, 2)), &x, 1);
	const struct graph_value yes = graph_neg(branch.yes, branch.in[0]), no = branch.in[0];
	const struct graph_value end = graph_branch_end(&branch, &yes, &no, 1);
	struct graph_tensor out;
	struct stepper s;

	graph_set_results(g, &end, 1);
	if (!CHECK(stepper_begin(&s, g, NULL, &(struct graph_plan_options){ .feeds = feeds, .feeds_count = 2 })))
		unit_fail(__FILE__, __LINE__, "%s", s.err.text);
	for (int64_t times_now = 0; s.run && times_now < 4; times_now++) {
		CHECK_INT(step(&s, times_now, 4 - times_now, &out), 0);
		CHECK_INT(out.type.shape.dims[0], 4 - times_now);
		CHECK_NEAR(((float *)out.data)[0], times_now < 2 ? -1 : 1, 0);
	}
	stepper_end(&s);
	graph_destroy(g);
}

/* A carried value that grows is refused when the plan is made or the graph is built, not when memory is full. */
void carried_values_keep_their_size(void)
{
	struct graph *g = graph_create();
	const struct graph_value times = graph_feed(g, "times", STAR_INT64, GRAPH_SCALAR);
	const struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(-1));
	const struct graph_value zero = graph_number(g, STAR_INT64, 0);
	struct graph_loop loop = graph_loop_begin(g, (struct graph_value[]){ zero, x }, 2, &times, 1);
	const struct graph_value more = graph_less(loop.cond, loop.in[0], loop.in[2]);
	const struct graph_value next[] = { graph_plus(loop.body, loop.in[0], graph_number(loop.body, STAR_INT64, 1)),
					    graph_concat(loop.body, (struct graph_value[]){ loop.in[1], loop.in[1] }, 2,
							 0) };
	const struct graph_value end = graph_output(graph_loop_end(&loop, more, next, 2, 5), 1);
	struct stepper s;

	graph_set_results(g, &end, 1);
	CHECK(!stepper_begin(&s, g, NULL, &(struct graph_plan_options){ .feeds = feeds, .feeds_count = 2 }));
	CHECK_HAS(s.err.text, "carried value 1 is [4] before an iteration and [8] after it");
	stepper_end(&s);
	graph_destroy(g);
}
