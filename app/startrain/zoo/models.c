/* SPDX-License-Identifier: BSD-3-Clause */
/* The models; each cites what it is after. */
#include <string.h>

#include "app/startrain/zoo/models.h"

/* A weight for each id and each number: their sum, [n]. */
static struct graph_value linear(struct zoo *zoo, const struct zoo_inputs *in, struct graph_value ids)
{
	struct graph *g = zoo->graph;
	const struct graph_value weights = zoo_embed(zoo, "wide", 1, ids); /* [n, k, 1] */
	const struct graph_value sparse = graph_reduce(g, GRAPH_SUM, weights, 1);

	if (!in->dense_count)
		return zoo_column(zoo, sparse);
	return zoo_column(zoo, graph_plus(g, sparse, zoo_linear(zoo, in->dense, "linear")));
}

/* Embeddings of all ids, side by side: [n, fields * dim]. */
static struct graph_value embeddings(struct zoo *zoo, const struct zoo_inputs *in)
{
	const int64_t dim = zoo->options->dim;

	return graph_reshape(zoo->graph, zoo_embed(zoo, "embedding", dim, in->ids), GRAPH_DIMS(-1, in->fields * dim));
}

static struct graph_value with_dense(struct zoo *zoo, struct graph_value x, const struct zoo_inputs *in)
{
	return in->dense_count ? graph_concat(zoo->graph, (const struct graph_value[]){ x, in->dense }, 2, 1) : x;
}

static struct graph_value logistic_regression(struct zoo *zoo, const struct zoo_inputs *in)
{
	struct graph *g = zoo->graph;
	struct graph_value weights;

	if (in->fields)
		return linear(zoo, in, in->ids);
	weights = graph_times(g, zoo_column(zoo, zoo_embed(zoo, "wide", 1, in->ids)), in->values);
	return graph_op3(g, GRAPH_SEGMENT_SUM, weights, in->segments, in->labels);
}

/* As PERSIA's example for the Census Income data. */
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

/* Cheng et al., "Wide & Deep learning for recommender systems", 2016. */
static struct graph_value wide_deep(struct zoo *zoo, const struct zoo_inputs *in)
{
	struct graph *g = zoo->graph;
	const struct graph_value both[] = { in->ids, crosses(zoo, in) };
	const struct graph_value wide = linear(zoo, in, graph_concat(g, both, 2, 1));
	const struct graph_value deep = zoo_mlp(zoo, with_dense(zoo, embeddings(zoo, in), in),
						ZOO_UNITS(100, 75, 50, 25, 1), GRAPH_NO_OP, "deep");

	return graph_plus(g, wide, zoo_column(zoo, deep));
}

/* Guo et al., "DeepFM: a factorization-machine based neural network for CTR prediction", 2017. */
static struct graph_value deepfm(struct zoo *zoo, const struct zoo_inputs *in)
{
	struct graph *g = zoo->graph;
	const int64_t dim = zoo->options->dim;
	const struct graph_value rows = zoo_embed(zoo, "embedding", dim, in->ids); /* [n, fields, dim] */
	/* The sum over pairs of v_i v_j is half of (the square of the sum, less the sum of the squares). */
	const struct graph_value square_of_sum = graph_square(g, graph_reduce(g, GRAPH_SUM, rows, 1));
	const struct graph_value sum_of_squares = graph_reduce(g, GRAPH_SUM, graph_square(g, rows), 1);
	const struct graph_value pairs = graph_reduce(g, GRAPH_SUM, graph_minus(g, square_of_sum, sum_of_squares), 1);
	const struct graph_value flat = graph_reshape(g, rows, GRAPH_DIMS(-1, in->fields * dim));
	const struct graph_value deep =
		zoo_mlp(zoo, with_dense(zoo, flat, in), ZOO_UNITS(128, 128, 1), GRAPH_NO_OP, "deep");
	const struct graph_value fm = graph_plus(g, linear(zoo, in, in->ids), graph_scale(g, pairs, 0.5));

	return graph_plus(g, fm, zoo_column(zoo, deep));
}

/* The products of each pair of rows, x [n, k, dim]: [n, k (k - 1) / 2]. */
static struct graph_value dot_products(struct zoo *zoo, struct graph_value x, uint32_t k)
{
	struct graph *g = zoo->graph;
	const struct graph_value all = graph_reshape(g, graph_matmul_transposed(g, x, x), GRAPH_DIMS(-1, k * k));
	int64_t below[64 * 64], count = 0;

	for (uint32_t i = 0; i < k; i++)
		for (uint32_t j = 0; j < i; j++)
			below[count++] = i * k + j;
	const struct graph_value which = graph_constant(g, STAR_INT64, &count, 1, below);

	return graph_columns(g, all, which);
}

/* Naumov et al., "Deep learning recommendation model for personalization and recommendation systems", 2019. */
static struct graph_value dlrm(struct zoo *zoo, const struct zoo_inputs *in)
{
	struct graph *g = zoo->graph;
	const int64_t dim = zoo->options->dim;
	const struct graph_value bottom = zoo_mlp(zoo, in->dense, ZOO_UNITS(64, dim), GRAPH_RELU, "bottom");
	const struct graph_value rows[] = { zoo_embed(zoo, "embedding", dim, in->ids),
					    graph_reshape(g, bottom, GRAPH_DIMS(-1, 1, dim)) };
	const struct graph_value pairs = dot_products(zoo, graph_concat(g, rows, 2, 1), in->fields + 1);
	const struct graph_value top[] = { bottom, pairs };

	return zoo_column(zoo, zoo_mlp(zoo, graph_concat(g, top, 2, 1), ZOO_UNITS(128, 64, 1), GRAPH_NO_OP, "top"));
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
	{ .name = "dssm",
	  .help = "DSSM: the cosine of a user with the mean of his clicks, and an item",
	  .logits = zoo_dssm,
	  .history = true },
	{ .name = "din",
	  .help = "DIN: clicks weighed by what they have to do with the item",
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
