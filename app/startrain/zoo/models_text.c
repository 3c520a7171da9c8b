/* SPDX-License-Identifier: BSD-3-Clause */
/* The models of text; each cites its source. */
#include "app/startrain/zoo/models.h"

enum { STATE = 64 };

static struct graph_value matrix(struct zoo *zoo, const char *name, int64_t rows, int64_t units)
{
	return zoo_variable(zoo, name, GRAPH_DIMS(rows, units), "glorot_uniform", 0);
}

static struct graph_value zeros(struct zoo *zoo, const char *name, int64_t units)
{
	return zoo_variable(zoo, name, &units, 1, "zeros", 0);
}

/* Columns begin to begin + count - 1. */
static struct graph_value columns(struct graph *g, struct graph_value x, int64_t begin, int64_t count)
{
	return graph_slice(g, x, (const int64_t[]){ 0, begin }, (const int64_t[]){ -1, count }, 2);
}

/* x [n, k] and the state [n, m] through weights [k + m, units] and a bias. */
static struct graph_value affine(struct graph *g, struct graph_value x, struct graph_value state,
				 struct graph_value weights, struct graph_value bias)
{
	const struct graph_value both = graph_concat(g, (const struct graph_value[]){ x, state }, 2, 1);

	return graph_plus(g, graph_matmul(g, both, weights), bias);
}

/*
 * The gated recurrent unit of Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014, with r
 * first, then z: h' = z h + (1 - z) tanh(W [x, r h] + b).
 */
static struct graph_value recurrent_unit(struct graph *g, struct graph_value x, struct graph_value state,
					 const struct graph_value weights[4])
{
	const struct graph_value gates = graph_sigmoid(g, affine(g, x, state, weights[0], weights[1]));
	const struct graph_value reset = columns(g, gates, 0, STATE), keep = columns(g, gates, STATE, STATE);
	const struct graph_value candidate =
		graph_tanh(g, affine(g, x, graph_times(g, reset, state), weights[2], weights[3]));

	return graph_plus(g, candidate, graph_times(g, keep, graph_minus(g, state, candidate)));
}

/* The states after each word but the last: [n window, STATE]. Rows of a step's words are looked up in that step of the
 * loop. */
static struct graph_value states(struct zoo *zoo, const struct zoo_text_inputs *in)
{
	struct graph *g = zoo->graph;
	const int64_t dim = zoo->options->dim, none[] = { 1, STATE };
	const float nothing[STATE] = { 0 };
	const struct graph_value first = graph_cast(g, columns(g, in->words, 0, 1), STAR_FLOAT32);
	const struct graph_value carried[] = {
		graph_number(g, STAR_INT64, 0),
		graph_times(g, first, graph_constant(g, STAR_FLOAT32, none, 2, nothing)), /* zeros for each row */
	};
	const struct graph_value captures[] = {
		graph_transpose(g, in->words, (const int64_t[]){ 1, 0 }, 2),
		matrix(zoo, "gates/weights", dim + STATE, 2 * STATE),
		zeros(zoo, "gates/bias", 2 * STATE),
		matrix(zoo, "candidate/weights", dim + STATE, STATE),
		zeros(zoo, "candidate/bias", STATE),
	};
	struct graph_loop loop = graph_loop_begin(g, carried, 2, captures, 5);
	struct zoo inner = *zoo;
	struct graph_value more, row, next[3];

	inner.graph = loop.body;
	more = graph_less(loop.cond, loop.in[0], graph_number(loop.cond, STAR_INT64, (double)in->window));
	row = zoo_embed(&inner, "words", dim, graph_index(loop.body, loop.in[2], loop.in[0]));
	next[0] = graph_plus(loop.body, loop.in[0], graph_number(loop.body, STAR_INT64, 1));
	next[1] = next[2] = recurrent_unit(loop.body, row, loop.in[1], &loop.in[3]);
	row = graph_output(graph_loop_end(&loop, more, next, 3, in->window), 3); /* [window, n, STATE] */
	return graph_reshape(g, graph_transpose(g, row, (const int64_t[]){ 1, 0, 2 }, 3), GRAPH_DIMS(-1, STATE));
}

/* Mikolov et al., "Recurrent neural network based language model", 2010, with a gated unit and a full softmax. */
struct graph_value zoo_language(struct zoo *zoo, const struct zoo_text_inputs *in, struct graph_value *predictions)
{
	struct graph *g = zoo->graph;
	const struct graph_value weights = matrix(zoo, "next/weights", STATE, in->classes);
	const struct graph_value logits =
		graph_plus(g, graph_matmul(g, states(zoo, in), weights), zeros(zoo, "next/bias", in->classes));
	const struct graph_value next = graph_reshape(g, columns(g, in->words, 1, in->window), GRAPH_DIMS(-1));

	*predictions = logits;
	return graph_softmax_loss(g, logits, next);
}

/* Mikolov et al., "Distributed representations of words and phrases and their compositionality", 2013: negative
 * sampling. */
struct graph_value zoo_skip_gram(struct zoo *zoo, const struct zoo_text_inputs *in, struct graph_value *predictions)
{
	struct graph *g = zoo->graph;
	const int64_t dim = zoo->options->dim, targets = in->negatives + 1;
	const struct graph_value center =
		graph_reshape(g, zoo_embed(zoo, "in", dim, in->centers), GRAPH_DIMS(-1, dim, 1));
	const struct graph_value around = zoo_embed(zoo, "out", dim, in->targets); /* [n, targets, dim] */
	const struct graph_value logits = graph_reshape(g, graph_matmul(g, around, center), GRAPH_DIMS(-1, targets));

	*predictions = graph_sigmoid(g, logits);
	return graph_scale(g, graph_sigmoid_loss(g, logits, in->labels), (double)targets); /* of a pair */
}
