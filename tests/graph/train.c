/* SPDX-License-Identifier: BSD-3-Clause */
/* What training adds to a graph. */
#include "exec/exec.h"
#include "graph/gradient.h"
#include "tests/graph/cases.h"
#include "tests/graph/models.h"
#include "tests/graph/numeric.h"
#include "tests/graph/support.h"
#include "tests/unit.h"

static uint32_t count_of(const struct graph *graph, enum graph_op op)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < graph->nodes_count; i++)
		count += graph->nodes[i]->op == op;
	return count;
}

/* How it is applied: NO_OP, APPLY or APPLY_ROWS, once at most. */
static enum graph_op applied(const struct graph *graph, const char *name)
{
	enum graph_op op = GRAPH_NO_OP;

	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		if ((node->op != GRAPH_APPLY && node->op != GRAPH_APPLY_ROWS) ||
		    strcmp(graph_resource(graph, node->inputs[0])->name, name) != 0)
			continue;
		CHECK_INT(op, GRAPH_NO_OP);
		op = node->op;
	}
	return op;
}

void training_applies_all_gradients(void)
{
	struct graph *graph = graph_create();
	struct graph_value loss = model_wide_deep(graph, STAR_FLOAT32), norm;

	graph_variable(graph, "unused", GRAPH_DIMS(2), NULL);
	graph_global_step(graph);
	CHECK_INT(graph_train(graph, loss, NULL, &norm), 0);
	CHECK_STR(graph->err.text, "");
	CHECK(graph_is_none(norm));
	CHECK_INT(applied(graph, "wide"), GRAPH_APPLY_ROWS);
	CHECK_INT(applied(graph, "words"), GRAPH_APPLY_ROWS);
	CHECK_INT(applied(graph, "hidden1/weights"), GRAPH_APPLY);
	CHECK_INT(applied(graph, "logits/bias"), GRAPH_APPLY);
	CHECK_INT(applied(graph, "unused"), GRAPH_NO_OP);
	CHECK_INT(applied(graph, "global_step"), GRAPH_NO_OP);
	CHECK_UINT(count_of(graph, GRAPH_APPLY), 6);
	graph_destroy(graph);
	graph = graph_create();
	CHECK_INT(graph_train(graph, model_recurrent(graph, STAR_FLOAT32, 4, 10), NULL, NULL), 0);
	CHECK_STR(graph->err.text, "");
	CHECK_INT(applied(graph, "words"), GRAPH_APPLY_ROWS);
	CHECK_INT(applied(graph, "new"), GRAPH_APPLY);
	CHECK_INT(applied(graph, "gates"), GRAPH_APPLY);
	graph_destroy(graph);
}

/* A variable that is only known to a body; one that is read and looked up; two lookups of one table. */
void training_makes_the_loss_less(void)
{
	const struct graph_definition d = { .dtype = "float64" }, frozen = { .dtype = "float64", .frozen = true };
	struct graph_plan_options options;
	struct graph_tensor fetches[1];
	struct graph_value x, i, y, v, t, loss;
	struct graph_loop loop;
	double before = 0, after = 0, kept = 0;
	struct stepper s;
	struct numeric n;

	numeric_init(&n, 1, true);
	x = numeric_feed(&n, STAR_FLOAT64, GRAPH_DIMS(5, 3), -1, 1);
	i = numeric_feed(&n, STAR_INT64, GRAPH_DIMS(5), 0, 4);
	v = graph_variable(n.g, "both", GRAPH_DIMS(4, 3), &d);
	t = graph_table(n.g, "words", 3, &d);
	y = graph_plus(n.g, graph_lookup(n.g, v, i), graph_plus(n.g, graph_lookup(n.g, t, i), graph_lookup(n.g, t, i)));
	y = graph_plus(n.g, y, graph_reduce(n.g, GRAPH_SUM, graph_read(n.g, v), 0));
	y = graph_plus(n.g, y, graph_read(n.g, graph_variable(n.g, "frozen", GRAPH_DIMS(3), &frozen)));
	loop = graph_loop_begin(n.g, (struct graph_value[]){ graph_number(n.g, STAR_INT64, 0), y }, 2, NULL, 0);
	y = graph_times(loop.body, loop.in[1],
			graph_read(loop.body, graph_variable(loop.body, "inner", GRAPH_DIMS(3), &d)));
	i = graph_plus(loop.body, loop.in[0], graph_number(loop.body, STAR_INT64, 1));
	y = graph_loop_end(&loop, graph_less(loop.cond, loop.in[0], graph_number(loop.cond, STAR_INT64, 2)),
			   (struct graph_value[]){ i, y }, 2, 2);
	loss = graph_mean(n.g, graph_square(n.g, graph_minus(n.g, graph_output(y, 1), x)));
	CHECK_INT(graph_train(n.g, loss, &(struct graph_train_options){ .clip_norm = 5 }, NULL), 0);
	CHECK_STR(n.g->err.text, "");
	CHECK_INT(applied(n.g, "both"), GRAPH_APPLY);
	CHECK_INT(applied(n.g, "words"), GRAPH_APPLY_ROWS);
	CHECK_INT(applied(n.g, "inner"), GRAPH_APPLY);
	CHECK_INT(applied(n.g, "frozen"), GRAPH_NO_OP);
	graph_set_results(n.g, &loss, 1);
	options = (struct graph_plan_options){ .feeds = n.feeds, .feeds_count = n.count, .ps = &n.ps.ps };
	if (stepper_begin(&s, n.g, NULL, &options))
		for (uint64_t step = 0; step < 200; step++) {
			if (!CHECK_INT(graph_run_step(s.run, step, n.tensors, fetches, &s.err), 0))
				break;
			after = *(const double *)fetches[0].data;
			before = step ? before : after;
			if (step == 0)
				kept = plain_ps_variable(&n.ps, "frozen", 3, 1)->values[0];
		}
	CHECK_STR(s.err.text, "");
	CHECK(after < 0.9 * before);
	CHECK_NEAR(plain_ps_variable(&n.ps, "frozen", 3, 1)->values[0], kept, 0);
	stepper_end(&s);
	numeric_fini(&n);
}

/* Of v and w, 3 and 4 long, with gradients 2v and 2w. */
void gradients_are_clipped_together(void)
{
	static const struct graph_definition d = { .dtype = "float64" };
	struct graph_plan_options options;
	struct graph_value v, w, norm, results[3];
	struct graph_tensor fetches[3];
	struct plain_variable *values;
	struct stepper s;
	struct numeric n;
	double sum = 0, step = 0;

	numeric_init(&n, 1, true);
	v = graph_read(n.g, graph_variable(n.g, "v", GRAPH_DIMS(3), &d));
	w = graph_read(n.g, graph_variable(n.g, "w", GRAPH_DIMS(4), &d));
	CHECK_INT(graph_train(n.g,
			      graph_plus(n.g, graph_sum(n.g, graph_square(n.g, v)),
					 graph_sum(n.g, graph_square(n.g, w))),
			      &(struct graph_train_options){ .clip_norm = 0.5 }, &norm),
		  0);
	results[0] = norm;
	for (uint32_t i = 0, next = 1; i < n.g->nodes_count && next < 3; i++)
		if (n.g->nodes[i]->op == GRAPH_APPLY)
			results[next++] = n.g->nodes[i]->inputs[1];
	graph_set_results(n.g, results, 3);
	options = (struct graph_plan_options){ .ps = &n.ps.ps };
	if (CHECK(stepper_begin(&s, n.g, NULL, &options)) &&
	    CHECK_INT(graph_run_step(s.run, 1, NULL, fetches, &s.err), 0)) {
		for (unsigned r = 1; r < 3; r++)
			for (int64_t i = 0; i < fetches[r].type.shape.dims[0]; i++)
				step += pow(((const double *)fetches[r].data)[i], 2);
		CHECK_NEAR(sqrt(step), 0.5, 1e-12);
		sum = *(const double *)fetches[0].data;
		values = plain_ps_variable(&n.ps, "v", 3, 1);
		CHECK(values && sum > 0.5);
	}
	stepper_end(&s);
	numeric_fini(&n);
}

void no_gradient_where_there_is_none(void)
{
	struct graph *graph = graph_create();
	struct graph_value x = graph_feed(graph, "x", STAR_FLOAT32, GRAPH_DIMS(3)), loss, of[2];
	struct graph_gradient gradients[2];
	struct star_error err = { 0 };
	struct graph_value y = graph_feed(graph, "y", STAR_FLOAT32, GRAPH_DIMS(3));

	of[0] = x;
	of[1] = y;
	loss = graph_sum(graph, graph_times(graph, x, graph_stop_gradient(graph, y)));
	CHECK_INT(graph_gradients(graph, loss, of, 2, gradients), 0);
	CHECK(!graph_is_none(gradients[0].dense) && graph_is_none(gradients[1].dense));
	loss = graph_sum(graph, graph_cast(graph, graph_less(graph, x, y), STAR_FLOAT32));
	CHECK_INT(graph_gradients(graph, loss, of, 2, gradients), 0);
	CHECK(graph_is_none(gradients[0].dense) && graph_is_none(gradients[1].dense));
	CHECK_INT(graph_train(graph, loss, NULL, NULL), -22);
	CHECK_INT(graph_error(graph, &err), -22);
	CHECK_HAS(err.text, "does not depend on any trainable variable or table");
	graph_destroy(graph);

	graph = graph_create();
	x = graph_feed(graph, "x", STAR_FLOAT32, GRAPH_DIMS(3));
	CHECK_INT(graph_gradients(graph, x, &x, 1, gradients), -22);
	CHECK_STR(graph->err.text, "node \"x\": a loss must be a float scalar");
	graph_destroy(graph);

	graph = graph_create(); /* the second gradient would go through softmax_grad */
	x = graph_feed(graph, "x", STAR_FLOAT32, GRAPH_DIMS(3));
	loss = graph_sum(graph, graph_square(graph, graph_softmax(graph, x)));
	CHECK_INT(graph_gradients(graph, loss, &x, 1, gradients), 0);
	loss = graph_sum(graph, gradients[0].dense);
	CHECK_INT(graph_gradients(graph, loss, &x, 1, gradients), -22);
	CHECK_HAS(graph->err.text, "softmax_grad has no gradient");
	graph_destroy(graph);
}

void gradients_are_where_their_nodes_are(void)
{
	const struct graph_definition d = { .device = "/job:ps/task:2" };
	struct graph *graph = graph_create();
	struct graph_value v = graph_read(graph, graph_variable(graph, "v", GRAPH_DIMS(3), &d)), x;
	const struct graph_node *tanh, *gradient = NULL;

	x = graph_add(graph, &(struct graph_node_spec){
				     .op = GRAPH_TANH, .device = "/job:ps/task:2", .inputs = &v, .inputs_count = 1 });
	tanh = graph->nodes[x.node];
	x = graph_sum(graph, graph_exp(graph, x));
	CHECK_INT(graph_train(graph, x, NULL, NULL), 0);
	for (uint32_t i = x.node + 1; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		if (node->op == GRAPH_SQUARE && graph_same(node->inputs[0], (struct graph_value){ tanh->id, 0 }))
			gradient = node;
		if (node->op == GRAPH_EXPAND)
			CHECK_INT(node->device.job, GRAPH_UNPLACED);
		if (node->op == GRAPH_APPLY)
			CHECK_INT(node->device.task, 2);
	}
	if (CHECK(gradient))
		CHECK_INT(gradient->device.task, 2);
	graph_destroy(graph);
}
