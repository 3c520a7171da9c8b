/* SPDX-License-Identifier: BSD-3-Clause */
/* Cuts of graphs that are written down: what is where, what travels, what is said. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "graph/build.h"
#include "graph/gradient.h"
#include "offload/cut.h"
#include "tests/graph/cases.h"
#include "tests/graph/cutting.h"
#include "tests/unit.h"

static const char ps0[] = "/job:ps/task:0", ps1[] = "/job:ps/task:1", ps[] = "/job:ps";

static bool is_in(const struct graph_part *part, struct graph_value value)
{
	for (uint32_t i = 0; i < part->nodes_count; i++)
		if (part->nodes[i] == value.node)
			return true;
	return false;
}

/* The part that executes a node. */
static uint32_t part_of(const struct graph_cut *cut, struct graph_value value)
{
	uint32_t i = 0;

	while (i + 1 < cut->parts_count && !is_in(&cut->parts[i], value))
		i++;
	return i;
}

static bool is_listed(const struct graph_value *values, uint32_t count, struct graph_value value)
{
	for (uint32_t i = 0; i < count; i++)
		if (graph_same(values[i], value))
			return true;
	return false;
}

/* Right, and with these figures; the cut is destroyed. */
static void check_figures(const char *file, int line, const struct graph *graph, enum graph_protocol protocol,
			  bool fuse, uint32_t rounds, uint32_t requests)
{
	struct graph_cut *cut = cut_by(graph, protocol, fuse);

	if (cut && cut_is_right(cut, 1) && (cut->rounds != rounds || cut->requests != requests))
		unit_fail(file, line, "%s: %u rounds, %u requests, not %u and %u", graph_protocol_name(protocol),
			  cut->rounds, cut->requests, rounds, requests);
	graph_cut_destroy(cut);
}
#define CHECK_FIGURES(graph, protocol, fuse, rounds, requests) \
	check_figures(__FILE__, __LINE__, graph, protocol, fuse, rounds, requests)

/* A read, a lookup, something made of both, and two changes. */
struct step {
	struct graph *graph;
	struct graph_value x, ids, weights, table, w, rows, sum, apply, apply_rows;
};

static struct step make_step(const char *weights_device, const char *table_device)
{
	struct step s = { .graph = graph_create() };
	struct graph *g = s.graph;

	s.x = PUT0(g, GRAPH_FEED, "x", NULL);
	s.ids = put_feed(g, "ids", "int64", 4, 0);
	s.weights = PUT0(g, GRAPH_VARIABLE, "weights", weights_device);
	s.table = PUT0(g, GRAPH_TABLE, "table", table_device);
	s.w = PUT1(g, GRAPH_READ, "w", NULL, s.weights);
	s.rows = PUT2(g, GRAPH_LOOKUP, "rows", NULL, s.table, s.ids);
	s.sum = PUT2(g, GRAPH_ADD, "sum", "/job:worker", s.w, s.rows);
	s.apply = PUT2(g, GRAPH_APPLY, "apply", NULL, s.weights, s.sum);
	s.apply_rows = put(g, GRAPH_APPLY_ROWS, "apply_rows", NULL, s.table, s.ids, s.sum);
	graph_set_results(g, &s.sum, 1);
	return s;
}

void step_is_two_rounds(void)
{
	struct step s = make_step(ps0, ps0);
	struct graph_cut *cut = cut_by(s.graph, GRAPH_STAR_SERVER, false);
	const struct graph_part *pull, *push;

	/* operations: two pulls, two pushes */
	CHECK_FIGURES(s.graph, GRAPH_GRPCPP, false, 2, 4);
	CHECK_FIGURES(s.graph, GRAPH_GRPCPP, true, 2, 2);
	CHECK_FIGURES(s.graph, GRAPH_STAR_SERVER, false, 2, 2);
	CHECK_FIGURES(s.graph, GRAPH_STAR_SERVER_LITE, false, 2, 2);
	if (!cut || !CHECK_UINT(cut->parts_count, 4))
		return;
	pull = &cut->parts[part_of(cut, s.w)];
	push = &cut->parts[part_of(cut, s.apply)];
	CHECK_UINT(pull->wave, 1);
	CHECK_UINT(push->wave, 3);
	CHECK(is_in(pull, s.table) && is_in(pull, s.weights) && is_in(push, s.table) && is_in(push, s.weights));
	CHECK_UINT(pull->feeds_count, 1);
	CHECK(is_listed(pull->feeds, pull->feeds_count, s.ids));
	CHECK_UINT(pull->fetches_count, 2);
	/* the sum is used by two nodes and sent once */
	CHECK_UINT(push->feeds_count, 2);
	CHECK(is_listed(push->feeds, push->feeds_count, s.sum) && is_listed(push->feeds, push->feeds_count, s.ids));
	CHECK_UINT(push->fetches_count, 0);
	CHECK_UINT(cut->to_ps_bytes, 4 * 8 + 4 * 8 + 4 * 3 * 4);
	CHECK_UINT(cut->from_ps_bytes, 2 * 4 * 3 * 4);
	graph_cut_destroy(cut);
	graph_destroy(s.graph);
}

void what_is_on_all_tasks_is_asked_of_all(void)
{
	const struct graph_cut_options options = { .protocol = GRAPH_STAR_SERVER, .ps_tasks = 3 };
	struct step s = make_step(ps1, ps);
	struct star_error err = { 0 };
	struct graph_cut *cut = graph_cut_create(s.graph, &options, &err);

	CHECK_FIGURES(s.graph, GRAPH_STAR_SERVER, false, 2, 2 * (1 + 2)); /* the graph names tasks 0 and 1 */
	if (CHECK(cut) && cut_is_right(cut, 1))
		CHECK_UINT(cut->requests, 2 * (1 + 3));
	graph_cut_destroy(cut);
	cut = graph_cut_create(s.graph, &(struct graph_cut_options){ .protocol = GRAPH_STAR_SERVER, .ps_tasks = 1 },
			       &err);
	CHECK(!cut);
	CHECK_STR(err.text, "node \"weights\" is on /job:ps/task:1, but there are 1 PS tasks, from 0");
	graph_destroy(s.graph);
}

/* rows -> gate (worker) -> mixed (PS), and rows -> mixed: DeepRec's lite stops the process here. */
static struct graph *make_recurrent(void)
{
	struct graph *g = graph_create();
	struct graph_value ids = put_feed(g, "ids", "int64", 4, 0), table, rows, gate, mixed;

	table = PUT0(g, GRAPH_TABLE, "table", ps0);
	rows = PUT2(g, GRAPH_LOOKUP, "rows", NULL, table, ids);
	gate = PUT1(g, GRAPH_TANH, "gate", "/job:worker", rows);
	mixed = PUT2(g, GRAPH_MUL, "mixed", ps0, rows, gate);
	graph_set_results(g, &mixed, 1);
	return g;
}

void what_cannot_be_one_request_is_waves(void)
{
	struct graph *g = make_recurrent();
	struct graph_cut *cut = cut_by(g, GRAPH_STAR_SERVER_LITE, false);

	if (cut && cut_is_right(cut, 1)) {
		const struct graph_value rows = { graph_find(g, "rows")->id, 0 };
		const struct graph_part *second =
			&cut->parts[part_of(cut, (struct graph_value){ graph_find(g, "mixed")->id, 0 })];

		CHECK_UINT(cut->rounds, 2);
		CHECK_UINT(cut->requests, 2);
		CHECK_UINT(second->kept_count, 1);
		CHECK(second->kept_count && graph_same(second->kept[0], rows));
		if (CHECK_UINT(cut->warnings_count, 1))
			CHECK_STR(
				cut->warnings[0],
				"nodes on /job:ps/task:0 cannot be one request, and are cut by waves: \"mixed\" needs "
				"\"gate\", which is elsewhere and needs others of them; they are \"rows\" and "
				"\"mixed\"");
	}
	graph_cut_destroy(cut);
	graph_destroy(g);
}

/* The same beside a component that can be: only the one is cut by waves. */
void others_stay_whole(void)
{
	struct graph *g = make_recurrent();
	const struct graph_value gate = { graph_find(g, "gate")->id, 0 };
	struct graph_value v = PUT0(g, GRAPH_VARIABLE, "v", ps1), read, early, late, end;
	struct graph_cut *cut;

	/* star_server asks task 1 twice: at once for what is ready, and again when the gate is there */
	read = PUT1(g, GRAPH_READ, "read", NULL, v);
	early = PUT1(g, GRAPH_NEG, "early", ps1, read);
	late = PUT2(g, GRAPH_ADD, "late", ps1, early, gate);
	end = PUT1(g, GRAPH_NEG, "end", NULL, late);
	graph_set_results(g, &end, 1);
	CHECK_FIGURES(g, GRAPH_STAR_SERVER, false, 2, 4);
	cut = cut_by(g, GRAPH_STAR_SERVER_LITE, false);
	if (cut && cut_is_right(cut, 1)) {
		CHECK_UINT(cut->requests, 3);
		CHECK_UINT(cut->rounds, 2);
		CHECK_UINT(cut->warnings_count, 1);
		CHECK_UINT(part_of(cut, read), part_of(cut, late));
	}
	graph_cut_destroy(cut);
	graph_destroy(g);
}

/* From one PS task to another: over the worker, which is a round more. */
void tasks_reach_each_other_over_the_worker(void)
{
	struct graph *g = graph_create();
	struct graph_value v = PUT0(g, GRAPH_VARIABLE, "v", ps0), u = PUT0(g, GRAPH_VARIABLE, "u", ps1), read;

	read = PUT1(g, GRAPH_READ, "read", NULL, v);
	PUT2(g, GRAPH_APPLY, "apply", NULL, u, read);
	for (unsigned i = 0; i < 2; i++) {
		struct graph_cut *cut = cut_by(g, i ? GRAPH_STAR_SERVER_LITE : GRAPH_STAR_SERVER, false);

		if (cut && cut_is_right(cut, 1)) {
			CHECK_UINT(cut->rounds, 2);
			CHECK_UINT(cut->requests, 2);
			CHECK_UINT(cut->parts_count, 2);
			CHECK_UINT(cut->from_ps_bytes, 48);
			CHECK_UINT(cut->to_ps_bytes, 48);
		}
		graph_cut_destroy(cut);
	}
	graph_destroy(g);
}

/* A request that brings and takes nothing is still a request; what nobody uses costs none. */
void bare_changes_and_unused_variables(void)
{
	static const int64_t none[1];
	struct graph *g = graph_create();
	const struct graph_attr attrs[] = { GRAPH_ATTR_STRING("dtype", "float64"), GRAPH_ATTR_INTS("shape", none, 0) };
	struct graph_value step;

	PUT0(g, GRAPH_VARIABLE, "unused", ps1);
	CHECK_FIGURES(g, GRAPH_STAR_SERVER, false, 0, 0);
	step = graph_add(
		g, &(struct graph_node_spec){
			   .op = GRAPH_VARIABLE, .name = "step", .attrs = attrs, .attrs_count = 2, .device = ps0 });
	PUT1(g, GRAPH_STEP_ADD, "add", NULL, step);
	CHECK_FIGURES(g, GRAPH_GRPCPP, false, 1, 1);
	CHECK_FIGURES(g, GRAPH_GRPCPP, true, 1, 1);
	CHECK_FIGURES(g, GRAPH_STAR_SERVER, false, 1, 1);
	CHECK_FIGURES(g, GRAPH_STAR_SERVER_LITE, false, 1, 1);
	graph_destroy(g);
}

/* An apply that has all it needs does not overtake a read before it, nor a read an apply. */
void stateful_nodes_keep_their_order(void)
{
	struct graph *g = graph_create();
	struct graph_value x = PUT0(g, GRAPH_FEED, "x", NULL), v = PUT0(g, GRAPH_VARIABLE, "v", ps0);
	struct graph_value late = PUT0(g, GRAPH_VARIABLE, "late", ps1), a, b, w;
	struct graph_cut *cut;

	w = PUT1(g, GRAPH_READ, "w", NULL, late);
	w = PUT1(g, GRAPH_NEG, "neg", "/job:worker", w);
	a = PUT1(g, GRAPH_READ, "before", NULL, v);
	graph_add_control(g, w.node, a.node); /* the read is in the second round */
	x = PUT2(g, GRAPH_APPLY, "apply", NULL, v, x);
	b = PUT1(g, GRAPH_READ, "behind", NULL, v);
	graph_set_results(g, (const struct graph_value[]){ a, b }, 2);
	for (enum graph_protocol p = GRAPH_GRPCPP; p <= GRAPH_STAR_SERVER_LITE; p++) {
		cut = cut_by(g, p, false);
		if (cut && cut_is_right(cut, 1)) {
			CHECK_UINT(cut->parts[part_of(cut, a)].wave, 3);
			CHECK_UINT(cut->parts[part_of(cut, x)].wave, 3);
			CHECK_UINT(cut->parts[part_of(cut, b)].wave, 3);
		}
		graph_cut_destroy(cut);
	}
	graph_destroy(g);
}

/* PS tasks first, where that saves a request: what task 1 makes of task 0's goes with what the worker sends it. */
void ps_tasks_may_go_first(void)
{
	struct graph *g = graph_create();
	struct graph_value x = PUT0(g, GRAPH_FEED, "x", NULL), u = PUT0(g, GRAPH_VARIABLE, "u", ps0);
	struct graph_value v = PUT0(g, GRAPH_VARIABLE, "v", ps1), t = PUT0(g, GRAPH_VARIABLE, "t", ps1);

	PUT2(g, GRAPH_APPLY, "first", NULL, v, PUT1(g, GRAPH_READ, "read", NULL, u));
	PUT2(g, GRAPH_APPLY, "second", NULL, t, x);
	CHECK_FIGURES(g, GRAPH_STAR_SERVER, false, 2, 2);
	graph_destroy(g);
}

/* Eight tables over all tasks, layers whole on two tasks: what DLRM asks of PS tasks. */
void dlrm_is_two_rounds(void)
{
	struct graph *g = graph_create();
	struct graph_value tables[8], ids[8], layers[6], sum = PUT0(g, GRAPH_FEED, "x", NULL);

	for (unsigned i = 0; i < 8; i++) {
		char name[16];

		snprintf(name, sizeof(name), "ids%u", i);
		ids[i] = put_feed(g, name, "int64", 4, 0);
		tables[i] = PUT0(g, GRAPH_TABLE, NULL, ps);
		sum = PUT2(g, GRAPH_MUL, NULL, NULL, sum, PUT2(g, GRAPH_LOOKUP, NULL, NULL, tables[i], ids[i]));
	}
	for (unsigned i = 0; i < 6; i++) {
		layers[i] = PUT0(g, GRAPH_VARIABLE, NULL, i % 2 ? ps1 : ps0);
		sum = PUT2(g, GRAPH_MUL, NULL, NULL, sum, PUT1(g, GRAPH_READ, NULL, NULL, layers[i]));
	}
	for (unsigned i = 0; i < 8; i++)
		put(g, GRAPH_APPLY_ROWS, NULL, NULL, tables[i], ids[i], PUT1(g, GRAPH_NEG, NULL, NULL, sum));
	for (unsigned i = 0; i < 6; i++)
		PUT2(g, GRAPH_APPLY, NULL, NULL, layers[i], PUT1(g, GRAPH_NEG, NULL, NULL, sum));
	graph_set_results(g, &sum, 1);
	/* of two tasks: 8 lookups, 6 layers; 8 applications of rows, 6 of gradients */
	CHECK_FIGURES(g, GRAPH_GRPCPP, false, 2, 2 * 8 + 6 + 2 * 8 + 6);
	CHECK_FIGURES(g, GRAPH_GRPCPP, true, 2, 2 * (2 + 2));
	CHECK_FIGURES(g, GRAPH_STAR_SERVER, false, 2, 2 * (2 + 2));
	CHECK_FIGURES(g, GRAPH_STAR_SERVER_LITE, false, 2, 2 * (2 + 2));
	graph_destroy(g);
}

/* ---- moves ---- */

/* 64 rows of 16, looked up and pooled to 8: fewer bytes, also when each of two tasks sends its own sums. */
static struct graph *make_pooling(const char *device, int64_t rows, const char *pooling_device)
{
	static const struct graph_attr attrs[] = { GRAPH_ATTR_STRING("dtype", "float32"), GRAPH_ATTR_INT("dim", 16) };
	struct graph *g = graph_create();
	struct graph_value ids = put_feed(g, "ids", "int64", rows, 0), segments, like, table, looked, bag;

	segments = put_feed(g, "segments", "int32", rows, 0);
	like = put_feed(g, "like", "float32", 8, 0);
	table = graph_add(
		g, &(struct graph_node_spec){
			   .op = GRAPH_TABLE, .name = "table", .attrs = attrs, .attrs_count = 2, .device = device });
	looked = PUT2(g, GRAPH_LOOKUP, "rows", NULL, table, ids);
	bag = put(g, GRAPH_SEGMENT_SUM, "bag", pooling_device, looked, segments, like);
	graph_set_results(g, &bag, 1);
	return g;
}

void pooling_moves_where_bytes_are_less(void)
{
	static const struct {
		const char *device, *pooling_device;
		int64_t rows;
		uint32_t moved;
		uint64_t from;
	} cases[] = {
		{ "/job:ps/task:1", NULL, 64, 1, 8 * 16 * 4 },
		{ "/job:ps", NULL, 64, 1, 2 * 8 * 16 * 4 },
		{ "/job:ps", NULL, 16, 0, 16 * 16 * 4 }, /* each of two tasks would send 8 */
		{ "/job:ps/task:1", NULL, 8, 0, 8 * 16 * 4 },
		{ "/job:ps", "/job:worker", 64, 0, 64 * 16 * 4 }, /* where it is said to be */
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct graph_cut_options options = { .protocol = GRAPH_STAR_SERVER_LITE, .ps_tasks = 2 };
		struct graph *g = make_pooling(cases[i].device, cases[i].rows, cases[i].pooling_device);
		struct star_error err = { 0 };
		struct graph_cut *cut = graph_cut_create(g, &options, &err);

		if (CHECK(cut) && cut_is_right(cut, 1)) {
			CHECK_UINT(cut->moved_count, cases[i].moved);
			CHECK_UINT(cut->from_ps_bytes, cases[i].from);
			CHECK_UINT(cut->to_ps_bytes,
				   8 * (uint64_t)cases[i].rows + (cases[i].moved ? 4 * (uint64_t)cases[i].rows : 0));
		}
		graph_cut_destroy(cut);
		graph_destroy(g);
	}
}

/* What is there row by row follows to the end of the chain; what is over all rows stays. */
void rows_are_reduced_where_they_are(void)
{
	struct step s = make_step(ps0, ps);
	struct graph *g = s.graph;
	struct graph_value factor = PUT0(g, GRAPH_CONST, "factor", NULL), scaled, length, total, all;
	struct graph_cut *cut;

	s.rows = PUT2(g, GRAPH_LOOKUP, "others", NULL, s.table, s.ids);
	scaled = PUT1(g, GRAPH_SQUARE, "squares", NULL, s.rows);
	length = put_sum(g, "lengths", scaled, 1);
	total = put_sum(g, "total", length, 0);
	all = PUT2(g, GRAPH_MUL, "by_row", NULL, s.w, factor); /* a constant that differs by row */
	graph_set_results(g, (const struct graph_value[]){ total, all }, 2);
	cut = cut_by(g, GRAPH_STAR_SERVER_LITE, false);
	if (cut && cut_is_right(cut, 1) && CHECK_UINT(cut->moved_count, 2)) {
		CHECK_UINT(cut->moved[0], scaled.node);
		CHECK_UINT(cut->moved[1], length.node);
	}
	graph_cut_destroy(cut);
	graph_destroy(g);
}

/* A row of 16 for each of [4, 8] ids: a sum over the 16 is a reactor's, one over the 8 is so in parts; the 4 are not
 * neighbours. */
void rows_have_as_many_dimensions_as_their_ids(void)
{
	for (int64_t axis = 0; axis <= 2; axis++) {
		static const struct graph_attr attrs[] = { GRAPH_ATTR_STRING("dtype", "float32"),
							   GRAPH_ATTR_INT("dim", 16) };
		static const uint64_t from[] = { 4 * 8 * 16 * 4, 2 * 4 * 16 * 4, 4 * 8 * 4 };
		const struct graph_cut_options options = { .protocol = GRAPH_STAR_SERVER_LITE,
							   .ps_tasks = 1,
							   .reactors = 2 };
		struct graph *g = graph_create();
		struct graph_value ids = put_feed(g, "ids", "int64", 4, 8), table, sum;
		struct star_error err = { 0 };
		struct graph_cut *cut;

		table = graph_add(g, &(struct graph_node_spec){ .op = GRAPH_TABLE, .attrs = attrs, .attrs_count = 2 });
		sum = put_sum(g, "sum", PUT2(g, GRAPH_LOOKUP, NULL, NULL, table, ids), axis);
		graph_set_results(g, &sum, 1);
		cut = graph_cut_create(g, &options, &err);
		if (CHECK(cut) && cut_is_right(cut, 1)) {
			CHECK_UINT(cut->moved_count, axis > 0);
			CHECK_UINT(cut->from_ps_bytes, from[axis]);
			/* the numbers of neighbours' bags go along */
			CHECK_UINT(cut->to_ps_bytes, 4 * 8 * (axis == 1 ? 8 + 4 : 8));
		}
		graph_cut_destroy(cut);
		graph_destroy(g);
	}
}

/* The gradient of a bag is sent in the place of its rows': as often as there are reactors. */
void gradients_of_bags_are_sent_for_those_of_rows(void)
{
	static const struct {
		uint32_t reactors, moved;
		enum graph_op pooling;
	} cases[] = { { 1, 2, GRAPH_SEGMENT_SUM }, { 2, 2, GRAPH_SEGMENT_MEAN }, { 32, 0, GRAPH_SEGMENT_SUM } };

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct graph_cut_options options = { .protocol = GRAPH_STAR_SERVER_LITE,
							   .reactors = cases[i].reactors };
		const uint64_t ids = 64 * 8, bags = 8 * 16 * 4, rows = 64 * 16 * 4;
		struct graph *g = make_pooling("/job:ps/task:0", 64, NULL);
		struct graph_node *bag = graph_find(g, "bag");
		struct graph_value loss;
		struct star_error err = { 0 };
		struct graph_cut *cut;

		bag->op = cases[i].pooling;
		loss = graph_mean(g, graph_square(g, (struct graph_value){ bag->id, 0 }));
		graph_set_results(g, &loss, 1);
		CHECK_INT(graph_train(g, loss, NULL, NULL), 0);
		cut = graph_cut_create(g, &options, &err);
		if (CHECK(cut) && cut_is_right(cut, 1)) {
			const bool moved = cases[i].moved > 0;
			const uint64_t numbers = 64 * (cases[i].pooling == GRAPH_SEGMENT_SUM ? 8 : 4);

			CHECK_UINT(cut->moved_count, cases[i].moved);
			CHECK_UINT(cut->warnings_count, 0);
			CHECK_UINT(cut->requests, 2);
			CHECK_UINT(cut->from_ps_bytes, moved ? cases[i].reactors * bags : rows);
			CHECK_UINT(cut->to_ps_bytes,
				   2 * ids + (moved ? 64 * 4 + numbers + cases[i].reactors * bags : rows));
		}
		graph_cut_destroy(cut);
		graph_destroy(g);
	}
}

/* A row's weight, which the worker has, goes along with its id; one that others need, or that is forbidden, stays. */
static bool no_products(const struct graph *graph, const struct graph_node *node)
{
	(void)graph;
	return node->op != GRAPH_MUL;
}

void what_moves_is_what_may(void)
{
	for (unsigned i = 0; i < 3; i++) {
		const struct graph_cut_options options = { .protocol = GRAPH_STAR_SERVER_LITE,
							   .may_move = i == 1 ? no_products : NULL };
		struct graph *g = make_pooling("/job:ps/task:0", 64, NULL);
		struct graph_node *bag = graph_find(g, "bag");
		struct graph_value weights = put_feed(g, "weights", "float32", 64, 1), product, results[2];
		struct star_error err = { 0 };
		struct graph_cut *cut;

		product = PUT2(g, GRAPH_MUL, "product", NULL, weights, bag->inputs[0]);
		results[0] = put(g, GRAPH_SEGMENT_SUM, "weighted", NULL, product, bag->inputs[1], bag->inputs[2]);
		results[1] = product;
		graph_set_results(g, results, i == 2 ? 2 : 1);
		cut = graph_cut_create(g, &options, &err);
		if (CHECK(cut) && cut_is_right(cut, 1)) {
			CHECK_UINT(graph_cut_moved(cut, product.node), i == 0);
			CHECK_UINT(graph_cut_moved(cut, results[0].node), i == 0);
		}
		graph_cut_destroy(cut);
		graph_destroy(g);
	}
}

void constants_are_where_they_are_needed(void)
{
	struct graph *g = graph_create();
	struct graph_value c = PUT0(g, GRAPH_CONST, "c", NULL), v = PUT0(g, GRAPH_VARIABLE, "v", ps0);
	struct graph_value u = PUT0(g, GRAPH_VARIABLE, "u", ps1);
	struct graph_cut *cut;

	PUT2(g, GRAPH_ASSIGN, NULL, NULL, v, c);
	PUT2(g, GRAPH_ASSIGN, NULL, NULL, u, c);
	cut = cut_by(g, GRAPH_STAR_SERVER_LITE, false);
	if (cut && cut_is_right(cut, 1)) {
		CHECK_UINT(cut->parts_count, 2);
		CHECK_UINT(cut->to_ps_bytes, 0);
	}
	graph_cut_destroy(cut);
	cut = cut_by(g, GRAPH_STAR_SERVER, false);
	if (cut && cut_is_right(cut, 1))
		CHECK_UINT(cut->to_ps_bytes, 2 * 48);
	graph_cut_destroy(cut);
	graph_destroy(g);
}

/* ---- the check itself ---- */

/* Each damage to a good cut is found. */
void check_finds_what_is_wrong(void)
{
	static const char *const found[] = { "is in no part",	  "input is missing", "is fed, but not fetched",
					     "wait for an input", "is in two parts",  "nothing needs it",
					     "number of rounds",  "does not use" };

	for (unsigned damage = 0; damage < sizeof(found) / sizeof(found[0]); damage++) {
		struct step s = make_step(ps0, ps1);
		struct graph_cut *cut = cut_by(s.graph, GRAPH_STAR_SERVER, false);
		struct graph_part *push = &cut->parts[part_of(cut, s.apply)];
		struct graph_part *home = &cut->parts[part_of(cut, s.sum)];
		struct star_error err = { 0 };
		struct graph_value feeds[4];

		CHECK_INT(graph_cut_check(cut, &err), 0);
		if (damage == 0)
			home->nodes_count--;
		else if (damage == 1)
			push->feeds_count = 0;
		else if (damage == 2)
			home->fetches_count = 0;
		else if (damage == 3)
			push->after_count = 0;
		else if (damage == 4)
			push->nodes[push->nodes_count - 1] = s.w.node;
		else if (damage == 5)
			cut->parts[0].fetches[cut->parts[0].fetches_count++] = s.x;
		else if (damage == 6)
			cut->rounds++;
		if (damage == 7) {
			memcpy(feeds, push->feeds, push->feeds_count * sizeof(*feeds));
			feeds[push->feeds_count++] = s.x;
			push->feeds = feeds;
		}
		CHECK_INT(graph_cut_check(cut, &err), -EINVAL);
		CHECK_HAS(err.text, found[damage]);
		graph_cut_destroy(cut);
		graph_destroy(s.graph);
	}
}

/* ---- size ---- */

/* As many nodes as a graph may have: chains over 40 tasks, with loops of dependencies that lite has to break. */
void largest_graphs_are_cut_quickly(void)
{
	struct graph *g = graph_create();
	struct graph_value ids = put_feed(g, "ids", "int64", 4, 0), last = PUT0(g, GRAPH_FEED, "x", NULL);
	struct graph_value tables[40];

	for (unsigned i = 0; i < 40; i++) {
		char device[GRAPH_DEVICE_TEXT];

		graph_device_text((struct graph_device){ GRAPH_PS, (int32_t)i }, device);
		tables[i] = PUT0(g, GRAPH_TABLE, NULL, device);
	}
	while (g->nodes_count + 8 < GRAPH_NODES_MAX) {
		const unsigned i = g->nodes_count / 8 % 40;
		struct graph_value rows = PUT2(g, GRAPH_LOOKUP, NULL, NULL, tables[i], ids), gate, mixed;
		char device[GRAPH_DEVICE_TEXT];

		graph_device_text(g->nodes[tables[i].node]->device, device);
		gate = PUT2(g, GRAPH_MUL, NULL, NULL, rows, last);
		mixed = PUT2(g, GRAPH_MUL, NULL, device, rows, gate);
		last = PUT2(g, GRAPH_ADD, NULL, NULL, last, g->nodes_count % 64 < 8 ? mixed : gate);
		put(g, GRAPH_APPLY_ROWS, NULL, NULL, tables[i], ids, mixed);
		put_sum(g, NULL, rows, 1);
	}
	CHECK_INT(graph_error(g, NULL), 0);
	graph_set_results(g, &last, 1);
	for (enum graph_protocol p = GRAPH_GRPCPP; p <= GRAPH_STAR_SERVER_LITE; p++) {
		const uint64_t start_us = clock_us();
		struct graph_cut *cut = cut_by(g, p, false);
		const uint64_t cut_us = clock_us() - start_us;
		struct star_error err = { 0 };

		if (!cut)
			continue;
		printf("# %u nodes by %s: %u rounds, %u requests, %u parts, %u warnings in %llu ms\n", g->nodes_count,
		       graph_protocol_name(p), cut->rounds, cut->requests, cut->parts_count, cut->warnings_count,
		       (unsigned long long)cut_us / 1000);
		CHECK_INT(graph_cut_check(cut, &err), 0);
		CHECK_STR(err.text, "");
		graph_cut_destroy(cut);
	}
	graph_destroy(g);
}
