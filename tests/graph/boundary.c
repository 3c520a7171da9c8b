/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans with PS tasks: cut and uncut give the same, what was started is waited for, failures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/build.h"
#include "exec/plan.h"
#include "offload/cut.h"
#include "tests/graph/cases.h"
#include "tests/graph/plain_ps.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/support.h"
#include "tests/unit.h"

enum { GRAPHS = 40, STEPS = 3 };

/* Several steps; what was fetched in each, and what the PS tasks hold at the end. */
struct outcome {
	struct graph_tensor fetches[STEPS][RANDOM_RESULTS];
	struct plain_ps plain;
	uint32_t rounds; /* calls, of the last step */
};

static void free_outcome(struct outcome *o)
{
	for (unsigned step = 0; step < STEPS; step++)
		for (uint32_t i = 0; i < RANDOM_RESULTS; i++)
			free(o->fetches[step][i].data);
	plain_ps_fini(&o->plain);
}

/* Each call is waited for once, after it was started; and before it is started again. */
static bool check_events(const struct plain_ps *plain)
{
	for (uint32_t i = 0; i < plain->events_count; i++) {
		uint32_t k = i;

		while (k > 0 && plain->events[k - 1].call != plain->events[i].call)
			k--;
		if (plain->events[i].is_wait ? k == 0 || plain->events[k - 1].is_wait
					     : k > 0 && !plain->events[k - 1].is_wait)
			return false;
	}
	return plain->in_flight == 0;
}

static bool step(const struct random_graph *random, const struct graph_cut *cut, uint32_t inter, struct outcome *o)
{
	const struct graph_plan_options options = {
		.feeds = random->feeds, .feeds_count = RANDOM_FEEDS, .ps = &o->plain.ps, .seed = 1, .inter_op = inter
	};
	struct graph_tensor feeds[RANDOM_FEEDS], fetches[RANDOM_RESULTS];
	struct stepper s;
	bool good;

	memset(o->fetches, 0, sizeof(o->fetches));
	plain_ps_init(&o->plain);
	good = stepper_begin(&s, random->graph, cut, &options);
	for (unsigned k = 0; k < STEPS && good; k++) {
		random_graph_feed(random, random->feeds[0].type.shape.dims[0] - k, feeds);
		o->plain.events_count = 0;
		good = graph_run_step(s.run, k, feeds, fetches, &s.err) == 0;
		for (uint32_t i = 0; good && i < RANDOM_RESULTS; i++) {
			o->fetches[k][i].type = fetches[i].type;
			o->fetches[k][i].data = malloc(graph_type_bytes(&fetches[i].type) + 1);
			memcpy(o->fetches[k][i].data, fetches[i].data, graph_type_bytes(&fetches[i].type));
		}
		good = good && CHECK(check_events(&o->plain));
	}
	if (!good)
		unit_fail(__FILE__, __LINE__, "%s", s.err.text);
	o->rounds = o->plain.events_count / 2;
	stepper_end(&s);
	return good;
}

static bool same_variables(const struct plain_ps *a, struct plain_ps *b)
{
	for (uint32_t i = 0; i < a->count; i++) {
		const struct plain_variable *x = &a->variables[i];
		const struct plain_variable *y = plain_ps_variable(b, x->name, x->rows, x->width);

		if (memcmp(x->values, y->values, (size_t)(x->rows * x->width) * sizeof(*x->values)) != 0)
			return unit_fail(__FILE__, __LINE__, "%s differs", x->name);
	}
	return true;
}

static bool same_outcome(const struct outcome *a, struct outcome *b)
{
	for (unsigned k = 0; k < STEPS; k++)
		for (uint32_t i = 0; i < RANDOM_RESULTS; i++) {
			const struct graph_tensor *x = &a->fetches[k][i], *y = &b->fetches[k][i];

			if (!graph_shape_same(&x->type.shape, &y->type.shape) ||
			    memcmp(x->data, y->data, graph_type_bytes(&x->type)) != 0)
				return unit_fail(__FILE__, __LINE__, "result %u of step %u differs", i, k);
		}
	return same_variables(&a->plain, &b->plain);
}

static bool all_cuts(const struct random_graph *random, uint64_t seed, uint32_t tasks, uint64_t calls[4])
{
	static const enum graph_protocol protocols[] = { GRAPH_GRPCPP, GRAPH_STAR_SERVER, GRAPH_STAR_SERVER_LITE };
	struct outcome *uncut = calloc(1, sizeof(*uncut)), *o = calloc(1, sizeof(*o));
	bool good = step(random, NULL, 1, uncut);

	calls[3] += uncut->rounds;
	for (unsigned p = 0; p < 3 && good; p++) {
		const struct graph_cut_options options = {
			.protocol = protocols[p], .fuse = seed % 2, .ps_tasks = tasks, .batch = 20
		};
		struct star_error err;
		struct graph_cut *cut = graph_cut_create(random->graph, &options, &err);

		good = cut || unit_fail(__FILE__, __LINE__, "%s", err.text);
		good = good && step(random, cut, 1 + seed % 3, o) && same_outcome(uncut, o);
		calls[p] += o->rounds;
		if (!good)
			unit_fail(__FILE__, __LINE__, "seed %llu, %s", (unsigned long long)seed,
				  graph_protocol_name(protocols[p]));
		free_outcome(o);
		graph_cut_destroy(cut);
	}
	free_outcome(uncut);
	free(uncut);
	free(o);
	return good;
}

void cut_plans_do_what_uncut_ones_do(void)
{
	uint64_t calls[4] = { 0 };

	for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
		const struct random_graph_options options = {
			.nodes = 20 + (uint32_t)seed * 3, .batch = 20, .ps_tasks = 1 + seed % 3, .loops = seed % 2
		};
		struct random_graph random;
		struct star_error err;
		bool good;

		random_graph_make(&random, seed, &options);
		good = graph_error(random.graph, &err) == 0 || unit_fail(__FILE__, __LINE__, "%s", err.text);
		good = good && all_cuts(&random, seed, options.ps_tasks, calls);
		random_graph_free(&random);
		if (!good)
			break;
	}
	printf("# calls of a step, all graphs: grpc++ %llu, star_server %llu, lite %llu, uncut %llu\n",
	       (unsigned long long)calls[0], (unsigned long long)calls[1], (unsigned long long)calls[2],
	       (unsigned long long)calls[3]);
}

/* ---- a wave, failures ---- */

enum { TASKS = 3 };

/* Reads of variables on three tasks; their sum is applied to all of them. */
static struct graph *three_tasks(void)
{
	struct graph *g = graph_create();
	struct graph_value reads[TASKS], variables[TASKS], x, results[2];

	for (unsigned i = 0; i < TASKS; i++) {
		char device[40], name[16];

		snprintf(device, sizeof(device), "/job:ps/task:%u", i);
		snprintf(name, sizeof(name), "w%u", i);
		variables[i] = graph_variable(g, name, GRAPH_DIMS(4), &(struct graph_definition){ .device = device });
		reads[i] = graph_read(g, variables[i]);
	}
	x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(4));
	results[0] = graph_times(g, graph_add_n(g, reads, TASKS), x);
	results[1] = graph_exp(g, x); /* meanwhile */
	for (unsigned i = 0; i < TASKS; i++)
		graph_op2(g, GRAPH_APPLY, variables[i], results[0]);
	graph_set_results(g, results, 2);
	return g;
}

static const struct graph_plan_feed four = { "x", { .dtype = STAR_FLOAT32, .shape = { 1, { 4 } } } };

static struct graph_cut *cut_in_waves(const struct graph *g)
{
	struct star_error err = { 0 };
	struct graph_cut *cut =
		graph_cut_create(g, &(struct graph_cut_options){ .protocol = GRAPH_STAR_SERVER, .ps_tasks = TASKS },
				 &err);

	CHECK_STR(err.text, "");
	return cut;
}

void a_wave_is_started_before_it_is_waited_for(void)
{
	struct graph *g = three_tasks();
	struct graph_cut *cut = cut_in_waves(g);
	struct plain_ps plain;
	const struct graph_plan_options options = { .feeds = &four, .feeds_count = 1, .ps = &plain.ps };
	struct graph_tensor given = { four.type, (float[4]){ 1, 2, 3, 4 } }, fetches[2];
	struct stepper s;

	plain_ps_init(&plain);
	if (CHECK(stepper_begin(&s, g, cut, &options))) {
		const uint64_t before = allocations();

		CHECK_INT(graph_run_step(s.run, 1, &given, fetches, &s.err), 0);
		CHECK_UINT(plain.events_count, 4 * TASKS);
		for (uint32_t i = 0; i < 4 * TASKS; i++)
			CHECK(plain.events[i].is_wait == (i / TASKS % 2) && !plain.events[i].call->waited_for);
		/* What needs no PS task is done while the first wave is under way. */
		for (uint32_t i = 0, waited = 0; i < s.plan->items_count; i++) {
			waited += s.plan->items[i].kind == PLAN_WAIT;
			if (s.plan->items[i].kind == PLAN_NODE && g->nodes[s.plan->items[i].id]->op == GRAPH_EXP)
				CHECK_UINT(waited, 0);
		}
		CHECK_INT(graph_run_step(s.run, 2, &given, fetches, &s.err), 0);
		CHECK_UINT(allocations() - before, 0);
	}
	stepper_end(&s);
	plain_ps_fini(&plain);
	graph_cut_destroy(cut);
	graph_destroy(g);
}

/* Two variables of one task; the gradient of the first is there before that of the second is computed. */
static struct graph *two_gradients(void)
{
	struct graph *g = graph_create();
	const struct graph_definition there = { .device = "/job:ps/task:0" };
	const struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(4));
	const struct graph_value a = graph_variable(g, "a", GRAPH_DIMS(4), &there);
	const struct graph_value b = graph_variable(g, "b", GRAPH_DIMS(4), &there);
	const struct graph_value first = graph_times(g, graph_read(g, a), x);
	const struct graph_value both = graph_plus(g, first, graph_read(g, b)), second = graph_exp(g, both);

	graph_op2(g, GRAPH_APPLY, a, both);
	graph_op2(g, GRAPH_APPLY, b, second);
	graph_set_results(g, &second, 1);
	return g;
}

void an_operation_of_grpcpp_is_started_when_it_can_be(void)
{
	const struct {
		struct graph_cut_options options;
		uint32_t calls, before; /* of a step; those started before the second gradient is computed */
		bool waited_for;	/* of the last one */
	} cases[] = {
		{ { .protocol = GRAPH_GRPCPP }, 4, 3, false },
		{ { .protocol = GRAPH_GRPCPP, .fuse = true }, 2, 1, true },
		{ { .protocol = GRAPH_STAR_SERVER }, 2, 1, true },
	};
	struct graph *g = two_gradients();

	for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct star_error err = { 0 };
		struct graph_cut *cut = graph_cut_create(g, &cases[c].options, &err);
		struct plain_ps plain;
		const struct graph_plan_options options = { .feeds = &four, .feeds_count = 1, .ps = &plain.ps };
		struct graph_tensor given = { four.type, (float[4]){ 1, 2, 3, 4 } }, fetch;
		uint32_t started = 0;
		struct stepper s;

		plain_ps_init(&plain);
		if (CHECK_STR(err.text, "") && CHECK(stepper_begin(&s, g, cut, &options))) {
			CHECK_INT(graph_run_step(s.run, 1, &given, &fetch, &s.err), 0);
			CHECK_UINT(plain.events_count, 2 * cases[c].calls);
			CHECK_INT(plain.events[plain.events_count - 1].call->waited_for, cases[c].waited_for);
			for (uint32_t i = 0; i < s.plan->items_count; i++) {
				started += s.plan->items[i].kind == PLAN_START;
				if (s.plan->items[i].kind == PLAN_NODE &&
				    g->nodes[s.plan->items[i].id]->op == GRAPH_EXP)
					CHECK_UINT(started, cases[c].before);
			}
		}
		stepper_end(&s);
		plain_ps_fini(&plain);
		graph_cut_destroy(cut);
	}
	graph_destroy(g);
}

/* Every call fails once, at its start or its end: what is in flight is waited for, the next step is as if nothing had
 * been. */
void a_failed_call_fails_its_step_only(void)
{
	struct graph *g = three_tasks();
	struct graph_cut *cut = cut_in_waves(g);

	for (int call = 0; call < 2 * TASKS; call++)
		for (int at_start = 0; at_start < 2; at_start++) {
			struct plain_ps plain;
			const struct graph_plan_options options = { .feeds = &four, .feeds_count = 1, .ps = &plain.ps };
			struct graph_tensor given = { four.type, (float[4]){ 1, 2, 3, 4 } }, fetches[2];
			struct stepper s;

			plain_ps_init(&plain);
			if (!CHECK(stepper_begin(&s, g, cut, &options)))
				continue;
			plain.fail_after = call;
			plain.fail_start = at_start;
			CHECK_INT(graph_run_step(s.run, 1, &given, fetches, &s.err), at_start ? -111 : -104);
			CHECK_HAS(s.err.text, at_start ? "nobody listens" : "it is gone");
			CHECK_HAS(s.err.text, "node \"");
			CHECK_INT(plain.in_flight, 0);
			CHECK_INT(graph_run_step(s.run, 1, &given, fetches, &s.err), 0);
			stepper_end(&s);
			plain_ps_fini(&plain);
		}
	graph_cut_destroy(cut);
	graph_destroy(g);
}

void without_ps_tasks_ps_nodes_are_refused(void)
{
	struct graph *g = three_tasks();
	const struct graph_plan_options options = { .feeds = &four, .feeds_count = 1 };
	struct star_error err;

	CHECK(!graph_compile(g, NULL, &options, &err));
	CHECK_HAS(err.text, "is placed on a PS task, but there are none");
	graph_destroy(g);
}

/* The first rows of what is fed, taken on a PS task: how many, only that task knows. */
void ps_tasks_say_how_much_there_is(void)
{
	struct graph *g = graph_create();
	const struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(4)),
				 count = graph_feed(g, "count", STAR_INT64, GRAPH_SCALAR);
	const struct graph_value rows =
		graph_add(g, &(struct graph_node_spec){ .op = GRAPH_HEAD,
							.device = "/job:ps/task:0",
							.inputs = (struct graph_value[]){ x, count },
							.inputs_count = 2 });
	const struct graph_value turned =
		graph_add(g, &(struct graph_node_spec){
				     .op = GRAPH_NEG, .device = "/job:ps/task:0", .inputs = &rows, .inputs_count = 1 });
	const struct graph_value results[] = { graph_exp(g, turned), graph_sum(g, turned) };
	const struct graph_plan_feed feeds[] = { four, { "count", { .dtype = STAR_INT64 } } };
	struct plain_ps plain;
	const struct graph_plan_options options = { .feeds = feeds, .feeds_count = 2, .ps = &plain.ps };
	struct graph_cut *cut;
	struct stepper s;

	graph_set_results(g, results, 2);
	cut = cut_in_waves(g);
	plain_ps_init(&plain);
	if (CHECK(stepper_begin(&s, g, cut, &options))) {
		for (int64_t n = 4; n >= -4; n--) {
			int64_t some = n < 0 ? -n : n;
			const struct graph_tensor given[] = { { four.type, (float[4]){ 1, 2, 3, 4 } },
							      { feeds[1].type, &some } };
			struct graph_tensor fetches[2];

			if (graph_run_step(s.run, 1, given, fetches, &s.err) < 0) {
				unit_fail(__FILE__, __LINE__, "%s", s.err.text);
				break;
			}
			CHECK_INT(fetches[0].type.shape.dims[0], some);
			CHECK_NEAR(*(float *)fetches[1].data, -(double)(some * (some + 1) / 2), 0);
		}
	} else {
		unit_fail(__FILE__, __LINE__, "%s", s.err.text);
	}
	stepper_end(&s);
	plain_ps_fini(&plain);
	graph_cut_destroy(cut);
	graph_destroy(g);
}

/* ---- cuts by hand ---- */

/* exp(w) + exp(-w), with w read, and its negative made, on a task. */
static struct graph *two_of_one(struct graph_value values[4])
{
	struct graph *g = graph_create();
	struct graph_value one;

	values[0] = graph_variable(g, "w", GRAPH_DIMS(4), &(struct graph_definition){ .device = "/job:ps/task:0" });
	values[1] = graph_read(g, values[0]);
	values[2] = graph_add(g, &(struct graph_node_spec){ .op = GRAPH_NEG,
							    .device = "/job:ps/task:0",
							    .inputs = &values[1],
							    .inputs_count = 1 });
	one = graph_exp(g, values[1]);
	values[3] = graph_plus(g, one, graph_exp(g, values[2]));
	graph_set_results(g, &values[3], 1);
	return g;
}

/* Two parts have the variable and its read, and both give what was read: it is taken from the first. */
void what_two_parts_give_is_taken_once(void)
{
	struct graph_value values[4];
	struct graph *g = two_of_one(values);
	uint32_t first[] = { 0, 1 }, second[] = { 0, 1, 2 }, mine[] = { 3, 4, 5 }, before[] = { 0, 1 };
	struct graph_part parts[] = {
		{ .place = 0, .wave = 1, .nodes_count = 2, .nodes = first, .fetches_count = 1, .fetches = &values[1] },
		{ .place = 0, .wave = 1, .nodes_count = 3, .nodes = second, .fetches_count = 2, .fetches = &values[1] },
		{ .place = GRAPH_PLACE_WORKER,
		  .wave = 2,
		  .nodes_count = 3,
		  .nodes = mine,
		  .feeds_count = 2,
		  .feeds = &values[1],
		  .fetches_count = 1,
		  .fetches = &values[3],
		  .after_count = 2,
		  .after = before },
	};
	struct graph_cut cut = { .graph = g, .protocol = GRAPH_STAR_SERVER_LITE, .parts_count = 3, .parts = parts };
	struct plain_ps plain;
	const struct graph_plan_options options = { .ps = &plain.ps };
	struct graph_tensor fetch;
	struct stepper s;

	plain_ps_init(&plain);
	if (CHECK(stepper_begin(&s, g, &cut, &options))) {
		const double *w = plain_ps_variable(&plain, "w", 4, 1)->values;

		CHECK(s.plan->parts[0].spare[0] == PLAN_NONE && s.plan->parts[1].spare[0] != PLAN_NONE);
		CHECK_INT(graph_run_step(s.run, 1, NULL, &fetch, &s.err), 0);
		for (unsigned i = 0; i < 4; i++)
			CHECK_NEAR(((float *)fetch.data)[i], exp(w[i]) + exp(-w[i]), 1e-6);
	}
	stepper_end(&s);
	/* What nobody gives, and parts that wait for each other, are found. */
	parts[1].fetches_count = 1;
	CHECK(!stepper_begin(&s, g, &cut, &options));
	CHECK_HAS(s.err.text, "the cut is wrong: exp_1 needs \"neg\", which no part returns");
	stepper_end(&s);
	parts[1].fetches_count = 2;
	parts[0].after_count = 1;
	parts[0].after = before + 1;
	parts[1].after_count = 1;
	parts[1].after = before;
	CHECK(!stepper_begin(&s, g, &cut, &options));
	CHECK_HAS(s.err.text, "its parts wait for each other");
	stepper_end(&s);
	plain_ps_fini(&plain);
	graph_destroy(g);
}
