/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Models of users' click histories. The clicks of all rows are concatenated, each with its row's number: nothing is
 * padded, except for the time steps of DIEN.
 */
#include <stdio.h>

#include "app/startrain/zoo/models.h"

static struct graph_value concat(struct zoo *zoo, const struct graph_value *values, size_t count)
{
	return graph_concat(zoo->graph, values, count, 1);
}
#define CONCAT(zoo, ...) \
	concat(zoo, (const struct graph_value[]){ __VA_ARGS__ }, \
	       sizeof((const struct graph_value[]){ __VA_ARGS__ }) / sizeof(struct graph_value))

/* The embeddings with which all of them begin, from one table. */
struct embedded {
	struct graph_value user, candidate;   /* [n, dim], [n, 2 dim]: item and category */
	struct graph_value items, categories; /* of the clicks, [k, dim] */
};

static struct embedded embed(struct zoo *zoo, const struct zoo_inputs *in)
{
	const int64_t dim = zoo->options->dim;
	const struct graph_value rows = zoo_embed(zoo, "embedding", dim, in->ids); /* [n, 3, dim] */
	const struct graph_value flat = graph_reshape(zoo->graph, rows, GRAPH_DIMS(-1, 3 * dim));
	const struct graph_value parts = graph_split(zoo->graph, flat, 1, GRAPH_DIMS(dim, 2 * dim));

	return (struct embedded){
		.user = parts,
		.candidate = graph_output(parts, 1),
		.items = zoo_embed(zoo, "embedding", dim, in->clicks.items),
		.categories = zoo_embed(zoo, "embedding", dim, in->clicks.categories),
	};
}

/* max(0, x) + alpha min(0, x), alpha learned for each unit: He et al., "Delving deep into rectifiers", 2015. */
static struct graph_value prelu(struct zoo *zoo, struct graph_value x, int64_t units, const char *name)
{
	struct graph *g = zoo->graph;
	const struct graph_value alpha = zoo_variable(zoo, name, &units, 1, "constant", 0.25);

	return graph_minus(g, graph_relu(g, x), graph_times(g, alpha, graph_relu(g, graph_neg(g, x))));
}

/* Layers with PReLU between them. */
static struct graph_value prelu_mlp(struct zoo *zoo, struct graph_value x, const int64_t *units, size_t layers,
				    const char *name)
{
	for (size_t i = 0; i < layers; i++) {
		char layer[32];

		snprintf(layer, sizeof(layer), "%s/%zu", name, i);
		x = zoo_dense(zoo, x, units[i], GRAPH_NO_OP, layer);
		snprintf(layer, sizeof(layer), "%s/%zu/alpha", name, i);
		x = i + 1 < layers ? prelu(zoo, x, units[i], layer) : x;
	}
	return x;
}

/* ---- DSSM ---- */

/* x . y / (|x| |y|), of rows */
static struct graph_value cosine(struct graph *g, struct graph_value x, struct graph_value y)
{
	const struct graph_value product = graph_reduce(g, GRAPH_SUM, graph_times(g, x, y), 1);
	const struct graph_value norms = graph_times(g, graph_reduce(g, GRAPH_SUM, graph_square(g, x), 1),
						     graph_reduce(g, GRAPH_SUM, graph_square(g, y), 1));

	return graph_divide(g, product, graph_sqrt(g, graph_plus(g, norms, graph_number(g, STAR_FLOAT32, 1e-12))));
}

/* The mean over each row's clicks; 0 if there are none. A PS task can compute the sum. */
static struct graph_value mean_of_clicks(struct zoo *zoo, struct graph_value rows, const struct zoo_inputs *in)
{
	struct graph *g = zoo->graph;
	const struct graph_value sum = graph_op3(g, GRAPH_SEGMENT_SUM, rows, in->clicks.segments, in->labels);
	const struct graph_value length = graph_cast(g, in->clicks.lengths, STAR_FLOAT32);
	const struct graph_value divisor = graph_maximum(g, length, graph_number(g, STAR_FLOAT32, 1));

	return graph_divide(g, sum, graph_reshape(g, divisor, GRAPH_DIMS(-1, 1)));
}

/*
 * Huang et al., "Learning deep structured semantic models for web search using clickthrough data", CIKM 2013: two
 * towers and their cosine. The files also have candidates that were not clicked on: so the loss is that of each
 * candidate by itself, with a learned factor of the cosine (gamma in the paper), where the paper has a softmax over
 * sampled ones.
 */
struct graph_value zoo_dssm(struct zoo *zoo, const struct zoo_inputs *in)
{
	struct graph *g = zoo->graph;
	const struct embedded e = embed(zoo, in);
	const struct graph_value who =
		CONCAT(zoo, e.user, mean_of_clicks(zoo, e.items, in), mean_of_clicks(zoo, e.categories, in));
	const struct graph_value user = zoo_mlp(zoo, who, ZOO_UNITS(64, 32), GRAPH_TANH, "user");
	const struct graph_value item = zoo_mlp(zoo, e.candidate, ZOO_UNITS(64, 32), GRAPH_TANH, "item");
	const struct graph_value gamma = zoo_variable(zoo, "gamma", GRAPH_DIMS(1), "constant", 5);
	const struct graph_value bias = zoo_variable(zoo, "bias", GRAPH_DIMS(1), "zeros", 0);

	return graph_plus(g, graph_times(g, gamma, cosine(g, user, item)), bias);
}

/* ---- DIN ---- */

/*
 * Zhou et al., "Deep interest network for click-through rate prediction", KDD 2018: an activation unit, whose inputs
 * are a click and the candidate, determines the click's weight; weights are not normalized (section 4.3). PReLU, not
 * Dice: Dice needs means over all batches, on which workers would have to agree.
 */
struct graph_value zoo_din(struct zoo *zoo, const struct zoo_inputs *in)
{
	struct graph *g = zoo->graph;
	const struct embedded e = embed(zoo, in);
	const struct graph_value click = CONCAT(zoo, e.items, e.categories); /* [k, 2 dim] */
	const struct graph_value wanted = graph_gather(g, e.candidate, graph_cast(g, in->clicks.segments, STAR_INT64));
	const struct graph_value both =
		CONCAT(zoo, click, wanted, graph_minus(g, click, wanted), graph_times(g, click, wanted));
	const struct graph_value weight = prelu_mlp(zoo, both, ZOO_UNITS(36, 1), "unit"); /* [k, 1] */
	const struct graph_value interest =
		graph_op3(g, GRAPH_SEGMENT_SUM, graph_times(g, click, weight), in->clicks.segments, in->labels);

	return zoo_column(zoo,
			  prelu_mlp(zoo, CONCAT(zoo, e.user, e.candidate, interest), ZOO_UNITS(200, 80, 1), "deep"));
}

/* ---- DIEN ---- */

/* A recurrent unit's parameters, read before the loop. */
enum { GATES, GATES_BIAS, OF_X, OF_H, BIAS, GRU_PARTS };

static void gru_read(struct zoo *zoo, const char *name, int64_t units, struct graph_value *gru)
{
	const struct {
		const char *name;
		int64_t dims[2];
	} parts[GRU_PARTS] = {
		[GATES] = { "gates", { 2 * units, 2 * units } },
		[GATES_BIAS] = { "gates_bias", { 2 * units } },
		[OF_X] = { "of_x", { units, units } },
		[OF_H] = { "of_h", { units, units } },
		[BIAS] = { "bias", { units } },
	};

	for (unsigned i = 0; i < GRU_PARTS; i++) {
		const size_t ndim = parts[i].dims[1] ? 2 : 1;
		char full[32];

		snprintf(full, sizeof(full), "%s/%s", name, parts[i].name);
		gru[i] = zoo_variable(zoo, full, parts[i].dims, ndim, ndim == 2 ? "glorot_uniform" : "zeros", 0);
	}
}

/*
 * A step from h, with x: equations 2 to 5 of the paper (Cho et al. 2014, Chung et al. 2014). attention: [n, 1], or
 * none; the update gate is multiplied by it (AUGRU, equations 13 and 14).
 */
static struct graph_value gru_step(struct graph *g, const struct graph_value *gru, struct graph_value x,
				   struct graph_value h, struct graph_value attention, int64_t units)
{
	const struct graph_value both = graph_concat(g, (const struct graph_value[]){ x, h }, 2, 1);
	const struct graph_value gates =
		graph_split(g, graph_sigmoid(g, graph_plus(g, graph_matmul(g, both, gru[GATES]), gru[GATES_BIAS])), 1,
			    GRAPH_DIMS(units, units));
	const struct graph_value reset = graph_times(g, graph_output(gates, 1), graph_matmul(g, h, gru[OF_H]));
	const struct graph_value mixed = graph_plus(g, graph_plus(g, graph_matmul(g, x, gru[OF_X]), reset), gru[BIAS]);
	const struct graph_value update = graph_is_none(attention) ? gates : graph_times(g, attention, gates);

	return graph_plus(g, h, graph_times(g, update, graph_minus(g, graph_tanh(g, mixed), h)));
}

/* Whether each row has a click at time t: int32 [n] */
static struct graph_value has_click(struct graph *g, struct graph_value t, struct graph_value lengths)
{
	return graph_less(g, t, lengths);
}

/* x where a row has a click, else y */
static struct graph_value where(struct graph *g, struct graph_value has, struct graph_value x, struct graph_value y)
{
	return graph_select(g, graph_reshape(g, has, GRAPH_DIMS(-1, 1)), x, y);
}

static struct graph_value next_time(struct graph *g, struct graph_value t)
{
	return graph_plus(g, t, graph_number(g, STAR_INT64, 1));
}

/* Zeros as row 0, which is looked up for rows that have ended. */
static struct graph_value behind_zeros(struct zoo *zoo, struct graph_value rows, int64_t units)
{
	const float zeros[2 * ZOO_DIM_MAX] = { 0 };

	return graph_concat(zoo->graph,
			    (const struct graph_value[]){
				    graph_constant(zoo->graph, STAR_FLOAT32, GRAPH_DIMS(1, units), zeros), rows },
			    2, 0);
}

/* How well h, of the earlier clicks, distinguishes the click x from another one: equation 6, for the rows that have
 * both; a sum. */
static struct graph_value tells_apart(struct graph *g, struct graph_value h, struct graph_value x,
				      struct graph_value other, struct graph_value has)
{
	const struct graph_value yes = graph_reduce(g, GRAPH_SUM, graph_times(g, h, x), 1);
	const struct graph_value no = graph_reduce(g, GRAPH_SUM, graph_times(g, h, other), 1);
	const struct graph_value zeros = graph_expand(g, graph_number(g, STAR_FLOAT32, 0), yes);
	const struct graph_value ones = graph_expand(g, graph_number(g, STAR_FLOAT32, 1), yes);
	const struct graph_value loss =
		graph_plus(g, graph_op2(g, GRAPH_SIGMOID_LOSS, yes, ones), graph_op2(g, GRAPH_SIGMOID_LOSS, no, zeros));

	return graph_sum(g, graph_select(g, has, loss, zeros));
}

/* A GRU over the clicks: its state after each, [most, n, units]. Sets the auxiliary loss. */
static struct graph_value extract_interests(struct zoo *zoo, const struct zoo_inputs *in, struct graph_value clicks,
					    struct graph_value start, struct graph_value longest, int64_t units)
{
	struct graph *g = zoo->graph, *b;
	enum { T, H, LOSS, CARRIED };
	enum { ROWS = CARRIED, OTHERS, FIRST, LENGTHS, LONGEST, GRU, CAPTURED = GRU + GRU_PARTS - CARRIED };
	const struct graph_value carried[] = { graph_number(g, STAR_INT64, 0), start,
					       graph_number(g, STAR_FLOAT32, 0) };
	struct graph_value captured[CAPTURED] = { behind_zeros(zoo, clicks, units),
						  behind_zeros(zoo, graph_gather(g, clicks, in->clicks.others), units),
						  in->clicks.first, in->clicks.lengths, longest };
	struct graph_value has, at, x, h, end, terms;
	struct graph_loop loop;

	gru_read(zoo, "extract", units, captured + GRU - CARRIED);
	loop = graph_loop_begin(g, carried, CARRIED, captured, CAPTURED);
	b = loop.body;
	has = has_click(b, loop.in[T], loop.in[LENGTHS]);
	at = graph_select(b, has, next_time(b, graph_plus(b, loop.in[FIRST], loop.in[T])),
			  graph_number(b, STAR_INT64, 0));
	x = graph_gather(b, loop.in[ROWS], at);
	h = where(b, has, gru_step(b, &loop.in[GRU], x, loop.in[H], GRAPH_NONE, units), loop.in[H]);
	terms = tells_apart(b, loop.in[H], x, graph_gather(b, loop.in[OTHERS], at),
			    graph_minimum(b, has, graph_less(b, graph_number(b, STAR_INT64, 0), loop.in[T])));
	end = graph_loop_end(&loop, graph_less(loop.cond, loop.in[T], loop.in[LONGEST]),
			     (const struct graph_value[]){ next_time(b, loop.in[T]), h,
							   graph_plus(b, loop.in[LOSS], terms), h },
			     4, zoo->options->history);
	terms = graph_minus(g, in->clicks.lengths, graph_number(g, STAR_INT64, 1));
	terms = graph_sum(g, graph_maximum(g, terms, graph_number(g, STAR_INT64, 0)));
	terms = graph_maximum(g, graph_cast(g, terms, STAR_FLOAT32), graph_number(g, STAR_FLOAT32, 1));
	zoo->auxiliary = graph_divide(g, graph_output(end, LOSS), terms);
	return graph_output(end, CARRIED + 1);
}

/* softmax over the clicks of h W candidate: equation 8; [most, n] */
static struct graph_value attend(struct zoo *zoo, const struct zoo_inputs *in, struct graph_value states,
				 struct graph_value candidate, int64_t units)
{
	struct graph *g = zoo->graph;
	const int64_t most = zoo->options->history, turn[] = { 1, 0 };
	const struct graph_value weights =
		zoo_variable(zoo, "attention", GRAPH_DIMS(units, units), "glorot_uniform", 0);
	const struct graph_value wanted = graph_matmul(g, candidate, weights);
	struct graph_value score = graph_reduce(g, GRAPH_SUM, graph_times(g, states, wanted), 2), has;
	int64_t times[ZOO_HISTORY_MAX];

	for (int64_t i = 0; i < most; i++)
		times[i] = i;
	has = has_click(g, graph_constant(g, STAR_INT64, &most, 1, times),
			graph_reshape(g, in->clicks.lengths, GRAPH_DIMS(-1, 1)));
	score = graph_transpose(g, score, turn, 2);
	score = graph_softmax(g, graph_select(g, has, score, graph_number(g, STAR_FLOAT32, -1e9)));
	return graph_transpose(g, score, turn, 2);
}

/* A GRU with attention to the candidate over those states: its last state, [n, units] */
static struct graph_value evolve_interest(struct zoo *zoo, const struct zoo_inputs *in, struct graph_value states,
					  struct graph_value attention, struct graph_value start,
					  struct graph_value longest, int64_t units)
{
	struct graph *g = zoo->graph, *b;
	enum { T, H, CARRIED };
	enum { STATES = CARRIED, ATTENTION, LENGTHS, LONGEST, GRU, CAPTURED = GRU + GRU_PARTS - CARRIED };
	const struct graph_value carried[] = { graph_number(g, STAR_INT64, 0), start };
	struct graph_value captured[CAPTURED] = { states, attention, in->clicks.lengths, longest }, h, a;
	struct graph_loop loop;

	gru_read(zoo, "evolve", units, captured + GRU - CARRIED);
	loop = graph_loop_begin(g, carried, CARRIED, captured, CAPTURED);
	b = loop.body;
	a = graph_reshape(b, graph_index(b, loop.in[ATTENTION], loop.in[T]), GRAPH_DIMS(-1, 1));
	h = gru_step(b, &loop.in[GRU], graph_index(b, loop.in[STATES], loop.in[T]), loop.in[H], a, units);
	h = where(b, has_click(b, loop.in[T], loop.in[LENGTHS]), h, loop.in[H]);
	return graph_output(graph_loop_end(&loop, graph_less(loop.cond, loop.in[T], loop.in[LONGEST]),
					   (const struct graph_value[]){ next_time(b, loop.in[T]), h }, CARRIED,
					   zoo->options->history),
			    H);
}

/*
 * Zhou et al., "Deep interest evolution network for click-through rate prediction", AAAI 2019: a GRU extracts interests
 * from the clicks, with an auxiliary loss (does its state distinguish the next click from another row's?); a second
 * one, whose update gate attends to the candidate, models their evolution.
 */
struct graph_value zoo_dien(struct zoo *zoo, const struct zoo_inputs *in)
{
	struct graph *g = zoo->graph;
	const int64_t units = 2 * zoo->options->dim;
	const struct embedded e = embed(zoo, in);
	const struct graph_value longest = graph_op1(g, GRAPH_REDUCE_MAX, in->clicks.lengths);
	const struct graph_value start = graph_expand(g, graph_number(g, STAR_FLOAT32, 0), e.candidate);
	const struct graph_value states =
		extract_interests(zoo, in, CONCAT(zoo, e.items, e.categories), start, longest, units);
	const struct graph_value interest =
		evolve_interest(zoo, in, states, attend(zoo, in, states, e.candidate, units), start, longest, units);

	return zoo_column(zoo,
			  prelu_mlp(zoo, CONCAT(zoo, e.user, e.candidate, interest), ZOO_UNITS(200, 80, 1), "deep"));
}
