/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/graph/models.h"

struct graph_value model_wide_deep(struct graph *g, unsigned dtype)
{
	const char *type = dtype_name(dtype);
	const struct graph_definition table = { .dtype = type, .optimizer = "ftrl", .device = "/job:ps/task:0" };
	const struct graph_definition deep = { .dtype = type, .optimizer = "adagrad", .rate = 0.05 };
	struct graph_value dense = graph_feed(g, "dense", dtype, GRAPH_DIMS(-1, 5));
	struct graph_value ids = graph_feed(g, "ids", STAR_INT64, GRAPH_DIMS(-1));
	struct graph_value segments = graph_feed(g, "segments", STAR_INT32, GRAPH_DIMS(-1));
	struct graph_value labels = graph_feed(g, "labels", dtype, GRAPH_DIMS(-1, 1));
	struct graph_value wide =
		graph_bag(g, graph_table(g, "wide", 1, &table), ids, segments, labels, GRAPH_SEGMENT_SUM);
	struct graph_value words =
		graph_bag(g, graph_table(g, "words", 4, &deep), ids, segments, labels, GRAPH_SEGMENT_MEAN);
	struct graph_value x = graph_concat(g, (struct graph_value[]){ dense, words }, 2, 1);

	x = graph_dense(g, x, 8, GRAPH_RELU, "hidden1", &deep);
	x = graph_dense(g, x, 4, GRAPH_TANH, "hidden2", &deep);
	x = graph_dense(g, x, 1, GRAPH_NO_OP, "logits", &deep);
	return graph_sigmoid_loss(g, graph_plus(g, x, wide), labels);
}

struct graph_value model_recurrent(struct graph *g, unsigned dtype, int64_t dim, int64_t most)
{
	const struct graph_definition d = { .dtype = dtype_name(dtype) };
	struct graph_value ids = graph_feed(g, "ids", STAR_INT64, GRAPH_DIMS(-1, -1));
	struct graph_value length = graph_feed(g, "length", STAR_INT64, GRAPH_SCALAR);
	struct graph_value state = graph_feed(g, "state", dtype, GRAPH_DIMS(-1, dim));
	struct graph_value gates = graph_read(g, graph_variable(g, "gates", GRAPH_DIMS(2 * dim, dim), &d));
	struct graph_value t = graph_number(g, STAR_INT64, 0), update, next, x, joined;
	struct graph_loop loop;

	graph_table(g, "words", dim, &d);
	graph_variable(g, "new", GRAPH_DIMS(dim, dim), &d);
	loop = graph_loop_begin(g, (struct graph_value[]){ t, state }, 2, (struct graph_value[]){ ids, length, gates },
				3);
	x = graph_lookup(loop.body, graph_use(loop.body, "words"), graph_index(loop.body, loop.in[2], loop.in[0]));
	joined = graph_concat(loop.body, (struct graph_value[]){ x, loop.in[1] }, 2, 1);
	update = graph_sigmoid(loop.body, graph_matmul(loop.body, joined, loop.in[4]));
	next = graph_tanh(loop.body, graph_plus(loop.body, x,
						graph_matmul(loop.body, loop.in[1],
							     graph_read(loop.body, graph_use(loop.body, "new")))));
	next = graph_plus(loop.body, loop.in[1],
			  graph_times(loop.body, update, graph_minus(loop.body, next, loop.in[1])));
	t = graph_plus(loop.body, loop.in[0], graph_number(loop.body, STAR_INT64, 1));
	state = graph_loop_end(&loop, graph_less(loop.cond, loop.in[0], loop.in[3]),
			       (struct graph_value[]){ t, next, next }, 3, most);
	return graph_plus(g, graph_mean(g, graph_square(g, graph_output(state, 1))),
			  graph_sum(g, graph_output(state, 3)));
}
