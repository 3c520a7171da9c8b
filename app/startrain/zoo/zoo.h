/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model zoo: models of click rates as graphs, trained by any number of workers: `startrain MODEL ...`. A model is a
 * function from the batch's values to logits; everything else is common to all.
 */
#ifndef STARTRAIN_ZOO_H
#define STARTRAIN_ZOO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "graph/build.h"
#include "input/input.h"
#include "train/cluster.h"
#include "train/estimator.h"
#include "train/queue.h"
#include "star_error.h"

enum { ZOO_FILES_MAX = 64, ZOO_DIM_MAX = 4096, ZOO_HISTORY_MAX = 1024, ZOO_FURTHER_MAX = 12 };

/* Further options of tables or variables, as the catalogue has them: "schedule=cosine, schedule_steps=1000". */
struct zoo_further {
	char text[1024]; /* what attrs point into */
	struct graph_attr attrs[ZOO_FURTHER_MAX];
	uint32_t count;
};

enum zoo_command { ZOO_TRAIN, ZOO_EVALUATE, ZOO_PREDICT };

struct zoo_options {
	const struct zoo_model *model;
	enum zoo_command command;
	const char *ps, *protocol;
	bool dpdk;		     /* ps is a worker's file, where % stands for the worker's number */
	struct cluster_spec cluster; /* of TF_CONFIG, if ps comes from it */
	bool tensor_fuse;
	const char *dtype, *wire; /* of the tables' rows: in which they are stored, and travel; NULL: float32 */
	bool apart;		  /* each column of ids has a table of its own */
	double clip_norm;	  /* of all gradients together; 0: none */
	bool batch_norm;	  /* between the dense layers */
	uint32_t workers, first_worker, local_workers;
	bool evaluator;			    /* it trains nothing: TF_CONFIG says so */
	uint64_t last_step, evaluate_every; /* global steps; 0: none, and the evaluator's own */
	enum input_format format;
	const char *schema_file;
	struct input_schema *schema; /* of INPUT_SCHEMA */
	const char *train[ZOO_FILES_MAX], *test[ZOO_FILES_MAX];
	uint32_t train_count, test_count;
	double threshold; /* of what is evaluated; 0: the estimator's own */
	uint32_t batch, epochs, dim, shuffle;
	const char *queue;  /* the name of the work queue that examples come from; NULL: each worker has its share */
	uint64_t slice_kib; /* of it; 0: the plan's own */
	uint32_t vocabulary, window, negatives; /* of text */
	uint32_t history;			/* clicks of a row at most */
	uint64_t seed, deadline_us;
	uint64_t connect_us;			 /* for PS tasks to answer at first; 0: the session's own */
	const char *optimizer, *dense_optimizer; /* of tables; of variables */
	double rate, dense_rate;
	struct zoo_further table, dense;
	const char *model_dir;
	uint32_t intra_op, inter_op, steps_in_flight;
	const char *consistency; /* session_config's; NULL: asynchronous */
	uint64_t staleness, lease_us;
	uint32_t grads_to_wait;
	bool mean_by_row;
	bool json;
};

/* 0; 1 when --help was answered; -EINVAL with err. argv[1] is the model's name. */
int zoo_options_parse(struct zoo_options *o, int argc, char **argv, struct star_error *err);

/* What rows of the format or schema have. */
struct input_shape zoo_shape(const struct zoo_options *o);
/* A number that is to be standardized. */
bool zoo_is_standardized(const struct zoo_options *o, uint32_t number);
bool zoo_has_standardized(const struct zoo_options *o);

/* All is in one process, without PS tasks. */
bool zoo_is_local(const struct zoo_options *o);

/* A graph that is being built, for training or for evaluating. */
struct zoo {
	struct graph *graph;
	const struct zoo_options *options;
	bool train;
	struct graph_value auxiliary; /* a scalar that a model adds to its loss in training; or none */
	struct graph_value more_logits[ESTIMATOR_HEADS_MAX]; /* of the further tasks: [n] each, as many as labels */
};

/* What the rows of a batch clicked on before: k clicks, those of a row together, the oldest first. */
struct zoo_clicks {
	struct graph_value items, categories; /* ids [k] */
	struct graph_value segments;	      /* the row of each, int32 [k] */
	struct graph_value first, lengths;    /* of each row: its first click and how many it has, int64 [n] */
	struct graph_value others;	      /* for each another click of the batch, drawn at random: int64 [k] */
};

/* What rows have several of: k words of m lists. */
struct zoo_lists {
	struct graph_value ids;	     /* [k] */
	struct graph_value segments; /* of each: row * m + the list's number, int32 [k] */
	struct graph_value lengths;  /* of each row and list: its words, [n * m] */
};

/* A batch of n rows. */
struct zoo_inputs {
	struct graph_value labels; /* [n] */
	struct graph_value dense;  /* [n, dense_count], standardized; not there without numbers */
	struct graph_value ids; /* [n, fields], if there are any; columns may share a table: no two have the same ids */
	/* Rows without columns: ids [k], and for each its value and its row. */
	bool loose;
	struct graph_value values, segments;
	struct zoo_lists lists;
	struct zoo_clicks clicks; /* of rows with histories: ids are user, item and category */
	uint32_t dense_count, fields, lists_count;
	struct graph_value more_labels[ESTIMATOR_HEADS_MAX]; /* of further tasks: [n] */
	uint32_t more_count;
};

/* A batch of n windows of a text, or of n pairs of words. */
struct zoo_text_inputs {
	struct graph_value
		words; /* windows: [n, window + 1], of which each but the first is to be told from those before it */
	struct graph_value centers; /* pairs: [n] */
	struct graph_value
		targets; /* [n, 1 + negatives]: the word that is near the center, then those that were drawn */
	struct graph_value labels;	    /* of these: 1, then 0s */
	int64_t window, negatives, classes; /* classes: ids are below that */
};

/* What a model is trained with. */
enum zoo_kind { ZOO_ROWS, ZOO_WINDOWS, ZOO_PAIRS };

struct zoo_model {
	const char *name, *help;
	bool any_row;	    /* takes rows without columns, too */
	bool no_embeddings; /* a weight for each id instead */
	struct graph_value (*logits)(struct zoo *zoo, const struct zoo_inputs *in); /* of rows: [n] */
	enum zoo_kind kind;
	/* Of a text: the loss. */
	struct graph_value (*text)(struct zoo *zoo, const struct zoo_text_inputs *in, struct graph_value *predictions);
	bool numbers, history; /* what rows must have */
	bool tasks;	       /* learns all labels of a row, not its only one */
};
extern const struct zoo_model zoo_models[]; /* ended by one without a name */

/* A model by its name; NULL: there is none. */
const struct zoo_model *zoo_model_find(const char *name);

/* The program: `startrain MODEL ...`. Returns the exit status. */
int zoo_main(int argc, char **argv);

/* `startrain generate ...` */
int zoo_generate(int argc, char **argv);

struct zoo_figures {
	struct estimator_figures estimator;
	double unigram_loss; /* of windows: what the words' frequencies in the training files alone come to */
};

/*
 * One worker's training, or the evaluation of what the PS tasks hold. seen is told what has been done while it is: of
 * sentences, ZOO_WHOLE is all. 0 or a negative errno.
 */
enum { ZOO_WHOLE = 1000000 };
struct figures;
int zoo_train(const struct zoo_options *o, uint32_t worker, struct figures *seen, struct zoo_figures *figures,
	      struct star_error *err);
int zoo_evaluate(const struct zoo_options *o, struct zoo_figures *figures, struct star_error *err);

/* Prints a line for each example, in the order of the files. */
int zoo_predict(const struct zoo_options *o, struct star_error *err);

/* Adds a feed to the graph and to the specification; most: its type in the greatest step. The first size is that of a
 * step. */
struct graph_value zoo_feed(struct graph *g, struct estimator_spec *spec, const char *name, struct graph_type most);

static inline struct graph_type zoo_type(unsigned dtype, unsigned ndim, int64_t rows, int64_t columns)
{
	return (struct graph_type){ .dtype = (uint8_t)dtype,
				    .shape = { .ndim = (uint8_t)ndim, .dims = { rows, columns } } };
}

/* Of rows with histories: their feeds, behind labels and ids, and what a step feeds them with. */
struct zoo_clicks_reader {
	struct prng prng;
	int64_t *others;
	uint32_t room;
};
struct zoo_clicks zoo_clicks_feeds(struct graph *g, struct estimator_spec *spec, const struct zoo_options *o);
/* 1 or a negative errno. */
int zoo_clicks_next(struct zoo_clicks_reader *reader, const struct input_batch *batch, struct graph_tensor *feeds,
		    struct star_error *err);

/* The name of a further task, which is a head of the estimator: that of its label. */
const char *zoo_task_name(const struct zoo_options *o, uint32_t task);

struct zoo_reader {
	struct input *input;
	struct train_queue *queue; /* that its slices come from, or NULL */
	double share;		   /* of all that is to be read, when the last batch was made */
	struct zoo_clicks_reader clicks;
	struct input_shape shape;
	uint32_t batch; /* rows at most */
};

/* Of a row's numbers. */
enum { ZOO_NUMBERS_MAX = INPUT_SCHEMA_COLUMNS_MAX };
struct zoo_scaling {
	float mean[ZOO_NUMBERS_MAX], deviation[ZOO_NUMBERS_MAX];
};

/* ---- what models are made of ---- */

/* Names are the model's own: "<model>/<name>". Models that are trained on the same PS tasks have nothing in common. */
enum { ZOO_NAME_ROOM = 128 };
const char *zoo_own_name(const struct zoo *zoo, const char *name, char own[static ZOO_NAME_ROOM]);

/* Rows of the table of that name for each id [n, k]: [n, k, dim]. Nothing is created when evaluating. */
struct graph_value zoo_embed(struct zoo *zoo, const char *name, int64_t dim, struct graph_value ids);

/*
 * The same for each column of the batch, [n, fields + lists, dim]: of a list the mean of its words' rows, 0 without
 * one; lists have a table of their own where columns are apart.
 */
struct graph_value zoo_embed_columns(struct zoo *zoo, const char *name, int64_t dim, const struct zoo_inputs *in);
struct graph_value zoo_embed_lists(struct zoo *zoo, const char *name, int64_t dim, const struct zoo_inputs *in);

/* Layers of relu units; the last one has no activation if `last` is GRAPH_NO_OP. Variables "<name>/0/weights", ... */
struct graph_value zoo_mlp(struct zoo *zoo, struct graph_value x, const int64_t *units, size_t layers,
			   enum graph_op last, const char *name);

/* One layer, with variables "<name>/weights" and "<name>/bias". */
struct graph_value zoo_dense(struct zoo *zoo, struct graph_value x, int64_t units, enum graph_op activation,
			     const char *name);

/* What a variable of the dense layers holds. */
struct graph_value zoo_variable(struct zoo *zoo, const char *name, const int64_t *dims, size_t ndim,
				const char *initializer, double scale);

/* A weight for each number, zero at first: [n, k] -> [n, 1]. Variables "<name>/weights", "<name>/bias". */
struct graph_value zoo_linear(struct zoo *zoo, struct graph_value x, const char *name);

/* [n, 1] -> [n] */
struct graph_value zoo_column(struct zoo *zoo, struct graph_value x);

#endif
