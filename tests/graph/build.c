/* SPDX-License-Identifier: BSD-3-Clause */
/* Models written with build.h. */
#include "graph/build.h"
#include "tests/graph/cases.h"
#include "tests/graph/models.h"
#include "tests/unit.h"

static void check_shape(const struct graph *graph, struct graph_value value, const char *expected)
{
	const struct graph_type *type = graph_type(graph, value);
	char text[GRAPH_SHAPE_TEXT];

	CHECK_STR(type ? graph_shape_text(&type->shape, text) : "none", expected);
}

void wide_and_deep_is_written(void)
{
	struct graph *graph = graph_create();
	struct star_error err = { 0 };
	struct graph_value loss = model_wide_deep(graph, STAR_FLOAT32);
	const struct graph_node *weights = graph_find(graph, "hidden1/weights"), *wide = graph_find(graph, "wide");

	CHECK_INT(graph_error(graph, &err), 0);
	CHECK_STR(err.text, "");
	check_shape(graph, loss, "[]");
	CHECK(weights && wide);
	CHECK_STR(graph_attr_string(weights, "initializer", ""), "glorot_uniform");
	CHECK_STR(graph_attr_string(weights, "optimizer", ""), "adagrad");
	CHECK_STR(graph_attr_string(graph_find(graph, "hidden1/bias"), "initializer", ""), "zeros");
	check_shape(graph, (struct graph_value){ weights->id, 0 }, "[9, 8]");
	CHECK_INT(weights->device.task, -1);
	CHECK_INT(wide->device.task, 0);
	CHECK_INT(graph_find(graph, "lookup")->device.task, 0);
	check_shape(graph, graph_global_step(graph), "[]");
	CHECK_INT(graph_error(graph, &err), 0);
	graph_destroy(graph);
}

void loop_with_a_table_is_written(void)
{
	struct graph *graph = graph_create();
	struct star_error err = { 0 };
	struct graph_value loss = model_recurrent(graph, STAR_FLOAT64, 4, 10);

	CHECK_INT(graph_error(graph, &err), 0);
	CHECK_STR(err.text, "");
	check_shape(graph, loss, "[]");
	check_shape(graph, (struct graph_value){ graph_find(graph, "while")->id, 3 }, "[10, ?, 4]");
	graph_use(graph, "nobody");
	CHECK_INT(graph_error(graph, &err), -22);
	CHECK_HAS(err.text, "\"nobody\"");
	graph_destroy(graph);
}

void first_error_is_kept(void)
{
	struct graph *graph = graph_create();
	struct star_error err = { 0 };
	struct graph_value x = graph_feed(graph, "x", STAR_FLOAT32, GRAPH_DIMS(-1, -1)), y;
	struct graph_branch branch;
	uint32_t nodes;

	y = graph_dense(graph, x, 4, GRAPH_RELU, "deep", NULL);
	CHECK(graph_is_none(y));
	nodes = graph->nodes_count;
	y = graph_layer_norm(graph, graph_scale(graph, y, 2), 1e-5, "norm", NULL);
	branch = graph_branch_begin(graph, y, &x, 1);
	y = graph_branch_end(&branch, &branch.in[0], &branch.in[0], 1);
	CHECK(graph_is_none(graph_sigmoid_loss(graph, y, x)));
	CHECK_UINT(graph->nodes_count, nodes);
	CHECK_INT(graph_error(graph, &err), -22);
	CHECK_STR(err.text, "node \"deep\": the last dimension of its input must be known, but its shape is [?, ?]");
	graph_destroy(graph);
}
