/* SPDX-License-Identifier: BSD-3-Clause */
/* The models; each cites its source. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/startrain/zoo/models.h"

static uint32_t columns_of(const struct zoo_inputs *in)
{
	return in->fields + in->lists_count;
}

/* A weight for each id (ids: [n, k], or none), word of a list and number: their sum, [n]. */
static struct graph_value linear(struct zoo *zoo, const struct zoo_inputs *in, struct graph_value ids)
{
	struct graph *g = zoo->graph;
	struct graph_value parts[3]; /* [n, 1] each */
	uint32_t count = 0;

	if (!graph_is_none(ids))
		parts[count++] = graph_reduce(g, GRAPH_SUM, zoo_embed(zoo, "wide", 1, ids), 1);
	if (in->lists_count)
		parts[count++] = graph_reduce(g, GRAPH_SUM, zoo_embed_lists(zoo, "wide", 1, in), 1);
	if (in->dense_count)
		parts[count++] = zoo_linear(zoo, in->dense, "linear");
	for (uint32_t i = 1; i < count; i++)
		parts[0] = graph_plus(g, parts[0], parts[i]);
	return zoo_column(zoo, parts[0]);
}

/* Embeddings of all columns, side by side: [n, columns * dim]. */
static struct graph_value embeddings(struct zoo *zoo, const struct zoo_inputs *in)
{
	const int64_t dim = zoo->options->dim;

	return graph_reshape(zoo->graph, zoo_embed_columns(zoo, "embedding", dim, in),
			     GRAPH_DIMS(-1, columns_of(in) * dim));
}

static struct graph_value with_dense(struct zoo *zoo, struct graph_value x, const struct zoo_inputs *in)
{
	return in->dense_count ? graph_concat(zoo->graph, (const struct graph_value[]){ x, in->dense }, 2, 1) : x;
}

static struct graph_value logistic_regression(struct zoo *zoo, const struct zoo_inputs *in)
{
	struct graph *g = zoo->graph;
	struct graph_value weights;

	if (!in->loose)
		return linear(zoo, in, in->fields ? in->ids : GRAPH_NONE);
	weights = graph_times(g, zoo_column(zoo, zoo_embed(zoo, "wide", 1, in->ids)), in->values);
	return graph_op3(g, GRAPH_SEGMENT_SUM, weights, in->segments, in->labels);
}

/* After PERSIA's example for the Census Income data. */
static struct graph_value dnn(struct zoo *zoo, const struct zoo_inputs *in)
{
	return zoo_column(zoo, zoo_mlp(zoo, with_dense(zoo, embeddings(zoo, in), in), ZOO_UNITS(256, 128, 1),
				       GRAPH_NO_OP, "deep"));
}

/* Each column's ids crossed with those of its next neighbour: [n, fields - 1]. */
static struct graph_value crosses(struct zoo *zoo, const struct zoo_inputs *in)
{
	struct graph *g = zoo->graph;
	const int64_t size[] = { -1, in->fields - 1 };
	const struct graph_value columns[] = {
		graph_slice(g, in->ids, (const int64_t[]){ 0, 0 }, size, 2),
		graph_slice(g, in->ids, (const int64_t[]){ 0, 1 }, size, 2),
	};

	return graph_hash_cross(g, columns, 2, INT64_C(1) << 60);
}

static struct graph_value with_crosses(struct zoo *zoo, const struct zoo_inputs *in)
{
	struct graph_value both[2] = { in->ids };

	if (in->fields < 2)
		return in->fields ? in->ids : GRAPH_NONE;
	both[1] = crosses(zoo, in);
	return graph_concat(zoo->graph, both, 2, 1);
}

/* Cheng et al., "Wide & Deep learning for recommender systems", 2016. */
static struct graph_value wide_deep(struct zoo *zoo, const struct zoo_inputs *in)
{
	struct graph *g = zoo->graph;
	const struct graph_value wide = linear(zoo, in, with_crosses(zoo, in));
	const struct graph_value deep = zoo_mlp(zoo, with_dense(zoo, embeddings(zoo, in), in),
						ZOO_UNITS(100, 75, 50, 25, 1), GRAPH_NO_OP, "deep");

	return graph_plus(g, wide, zoo_column(zoo, deep));
}

/* Guo et al., "DeepFM: a factorization-machine based neural network for CTR prediction", 2017. */
static struct graph_value deepfm(struct zoo *zoo, const struct zoo_inputs *in)
{
	struct graph *g = zoo->graph;
	const int64_t dim = zoo->options->dim;
	const struct graph_value rows = zoo_embed_columns(zoo, "embedding", dim, in); /* [n, columns, dim] */
	/* The sum over pairs of v_i v_j is half of (the square of the sum, less the sum of the squares). */
	const struct graph_value square_of_sum = graph_square(g, graph_reduce(g, GRAPH_SUM, rows, 1));
	const struct graph_value sum_of_squares = graph_reduce(g, GRAPH_SUM, graph_square(g, rows), 1);
	const struct graph_value pairs = graph_reduce(g, GRAPH_SUM, graph_minus(g, square_of_sum, sum_of_squares), 1);
	const struct graph_value flat = graph_reshape(g, rows, GRAPH_DIMS(-1, columns_of(in) * dim));
	const struct graph_value deep =
		zoo_mlp(zoo, with_dense(zoo, flat, in), ZOO_UNITS(128, 128, 1), GRAPH_NO_OP, "deep");
	const struct graph_value fm =
		graph_plus(g, linear(zoo, in, in->fields ? in->ids : GRAPH_NONE), graph_scale(g, pairs, 0.5));

	return graph_plus(g, fm, zoo_column(zoo, deep));
}

/* The products of each pair of rows, x [n, k, dim]: [n, k (k - 1) / 2]. */
static struct graph_value dot_products(struct zoo *zoo, struct graph_value x, uint32_t k)
{
	struct graph *g = zoo->graph;
	const struct graph_value all = graph_reshape(g, graph_matmul_transposed(g, x, x), GRAPH_DIMS(-1, k * k));
	int64_t *below = calloc((size_t)k * k, sizeof(*below)), count = 0;
	struct graph_value which = GRAPH_NONE;

	for (uint32_t i = 0; below && i < k; i++)
		for (uint32_t j = 0; j < i; j++)
			below[count++] = i * k + j;
	if (below)
		which = graph_constant(g, STAR_INT64, &count, 1, below);
	free(below);
	return graph_columns(g, all, which);
}

/* Naumov et al., "Deep learning recommendation model for personalization and recommendation systems", 2019. */
static struct graph_value dlrm(struct zoo *zoo, const struct zoo_inputs *in)
{
	struct graph *g = zoo->graph;
	const int64_t dim = zoo->options->dim;
	const struct graph_value bottom = zoo_mlp(zoo, in->dense, ZOO_UNITS(64, dim), GRAPH_RELU, "bottom");
	const struct graph_value rows[] = { zoo_embed_columns(zoo, "embedding", dim, in),
					    graph_reshape(g, bottom, GRAPH_DIMS(-1, 1, dim)) };
	const struct graph_value pairs = dot_products(zoo, graph_concat(g, rows, 2, 1), columns_of(in) + 1);
	const struct graph_value top[] = { bottom, pairs };

	return zoo_column(zoo, zoo_mlp(zoo, graph_concat(g, top, 2, 1), ZOO_UNITS(128, 64, 1), GRAPH_NO_OP, "top"));
}

/* A softmax over the task's gate of all experts: [n, experts, 1]. */
static struct graph_value gate(struct zoo *zoo, struct graph_value x, int64_t experts, uint32_t task)
{
	char name[ZOO_NAME_ROOM];
	struct graph_value logits;

	snprintf(name, sizeof(name), "gate/%u", task);
	logits = zoo_dense(zoo, x, experts, GRAPH_NO_OP, name);
	return graph_reshape(zoo->graph, graph_op1(zoo->graph, GRAPH_SOFTMAX, logits), GRAPH_DIMS(-1, experts, 1));
}

/* Ma et al., "Modeling task relationships in multi-task learning with multi-gate mixture-of-experts", KDD 2018: all
 * tasks share the experts; each has a gate that weighs them, and a tower of its own. */
static struct graph_value mmoe(struct zoo *zoo, const struct zoo_inputs *in)
{
	enum { EXPERTS = 4, WIDTH = 32 };
	struct graph *g = zoo->graph;
	const struct graph_value x = with_dense(zoo, embeddings(zoo, in), in);
	struct graph_value experts[EXPERTS], all, first = GRAPH_NONE;
	char name[ZOO_NAME_ROOM];

	for (uint32_t i = 0; i < EXPERTS; i++) {
		snprintf(name, sizeof(name), "expert/%u", i);
		experts[i] = graph_reshape(g, zoo_mlp(zoo, x, ZOO_UNITS(64, WIDTH), GRAPH_RELU, name),
					   GRAPH_DIMS(-1, 1, WIDTH));
	}
	all = graph_concat(g, experts, EXPERTS, 1);
	for (uint32_t task = 0; task <= in->more_count; task++) {
		const struct graph_value mixed =
			graph_reduce(g, GRAPH_SUM, graph_times(g, all, gate(zoo, x, EXPERTS, task)), 1);
		struct graph_value *logits = task ? &zoo->more_logits[task - 1] : &first;

		snprintf(name, sizeof(name), "tower/%u", task);
		*logits = zoo_column(zoo, zoo_mlp(zoo, mixed, ZOO_UNITS(16, 1), GRAPH_NO_OP, name));
	}
	return first;
}

const struct zoo_model zoo_models[] = {
	{ .name = "logistic",
	  .help = "logistic regression: a weight for each id and each number",
	  .any_row = true,
	  .no_embeddings = true,
	  .logits = logistic_regression },
	{ .name = "dnn", .help = "embeddings and numbers into dense layers", .logits = dnn },
	{ .name = "wide-deep",
	  .help = "Wide & Deep: a linear model with crossed columns, and dense layers",
	  .logits = wide_deep },
	{ .name = "deepfm", .help = "DeepFM: a factorization machine and dense layers", .logits = deepfm },
	{ .name = "dlrm",
	  .help = "DLRM: products of all pairs of embeddings, between dense layers",
	  .logits = dlrm,
	  .numbers = true },
	{ .name = "mmoe",
	  .help = "MMoE: several labels of a row at once, with shared experts and separate gates",
	  .logits = mmoe,
	  .tasks = true },
	{ .name = "dssm",
	  .help = "DSSM: the cosine of a user with the mean of the user's clicks, and an item",
	  .logits = zoo_dssm,
	  .history = true },
	{ .name = "din",
	  .help = "DIN: clicks weighted by their relevance to the item",
	  .logits = zoo_din,
	  .history = true },
	{ .name = "dien",
	  .help = "DIEN: recurrent layers of interest, with attention to the item",
	  .logits = zoo_dien,
	  .history = true },
	{ .name = "language",
	  .help = "a recurrent model of a text's next word, of gated units",
	  .kind = ZOO_WINDOWS,
	  .text = zoo_language },
	{ .name = "skip-gram",
	  .help = "skip-gram: word vectors of a text, by negative sampling",
	  .kind = ZOO_PAIRS,
	  .text = zoo_skip_gram },
	{ .name = NULL },
};

const struct zoo_model *zoo_model_find(const char *name)
{
	for (const struct zoo_model *model = zoo_models; model->name; model++)
		if (!strcmp(model->name, name))
			return model;
	return NULL;
}
