/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model zoo: models of click rates as graphs, trained by any number of workers: `startrain MODEL ...`. A model is a function from
 * the batch's values to logits; everything else is common to all.
 */
#ifndef STARTRAIN_ZOO_H
#define STARTRAIN_ZOO_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/build.h"
#include "input/input.h"
#include "session/cluster.h"
#include "session/estimator.h"
#include "star_error.h"

enum { ZOO_FILES_MAX = 64, ZOO_WORKERS_MAX = 1024 };

struct zoo_options {
	const struct zoo_model *model;
	const char *ps, *protocol;
	bool dpdk;		     /* ps is a worker's file, where % stands for the worker's number */
	struct cluster_spec cluster; /* of TF_CONFIG, if ps comes from it */
	bool tensor_fuse;
	uint32_t workers, first_worker, local_workers;
	enum input_format format;
	const char *train[ZOO_FILES_MAX], *test[ZOO_FILES_MAX];
	uint32_t train_count, test_count;
	uint32_t batch, epochs, dim, shuffle;
	uint64_t seed, deadline_us;
	const char *optimizer, *dense_optimizer; /* of tables; of variables */
	double rate, dense_rate;
	const char *model_dir;
	uint32_t intra_op, inter_op;
	bool json;
};

/* 0; 1 when --help was answered; -EINVAL with err. argv[1] is the model's name. */
int zoo_options_parse(struct zoo_options *o, int argc, char **argv, struct star_error *err);

/* All is in one process, without PS tasks. */
bool zoo_is_local(const struct zoo_options *o);

/* A graph that is being built, for training or for evaluating. */
struct zoo {
	struct graph *graph;
	const struct zoo_options *options;
	bool train;
};

/* A batch of n rows. */
struct zoo_inputs {
	struct graph_value labels; /* [n] */
	struct graph_value dense;  /* [n, dense_count], standardized */
	struct graph_value ids;	   /* [n, fields]; columns may share a table: no two have the same ids */
	/* Rows without columns (fields is 0): ids [k], and for each its value and its row. */
	struct graph_value values, segments;
	uint32_t dense_count, fields;
};

struct zoo_model {
	const char *name, *help;
	bool any_row; /* takes rows without columns, too */
	struct graph_value (*logits)(struct zoo *zoo, const struct zoo_inputs *in); /* [n] */
};
extern const struct zoo_model zoo_models[]; /* ended by one without a name */

/* A model by its name; NULL: there is none. */
const struct zoo_model *zoo_model_find(const char *name);

/* The program: `startrain MODEL ...`. Returns the exit status. */
int zoo_main(int argc, char **argv);

/* `startrain generate ...` */
int zoo_generate(int argc, char **argv);

/* One worker's training, or the evaluation of what the PS tasks hold. 0 or a negative errno. */
int zoo_train(const struct zoo_options *o, uint32_t worker, struct estimator_figures *figures, struct star_error *err);
int zoo_evaluate(const struct zoo_options *o, struct estimator_figures *figures, struct star_error *err);

struct zoo_reader {
	struct input *input;
	enum input_format format;
};

/* Of a row's numbers. */
enum { ZOO_NUMBERS_MAX = 64 };
struct zoo_scaling {
	float mean[ZOO_NUMBERS_MAX], deviation[ZOO_NUMBERS_MAX];
};

/* ---- what models are made of ---- */

/* Names are the model's own: "<model>/<name>". */

/* Rows of the table of that name for each id [n, k]: [n, k, dim]. Nothing is created when evaluating. */
struct graph_value zoo_embed(struct zoo *zoo, const char *name, int64_t dim, struct graph_value ids);

/* Layers of relu units; the last one has no activation if `last` is GRAPH_NO_OP. Variables "<name>/0/weights", ... */
struct graph_value zoo_mlp(struct zoo *zoo, struct graph_value x, const int64_t *units, size_t layers,
			   enum graph_op last, const char *name);

/* A weight for each number, zero at first: [n, k] -> [n, 1]. Variables "<name>/weights", "<name>/bias". */
struct graph_value zoo_linear(struct zoo *zoo, struct graph_value x, const char *name);

/* [n, 1] -> [n] */
struct graph_value zoo_column(struct zoo *zoo, struct graph_value x);

#endif
