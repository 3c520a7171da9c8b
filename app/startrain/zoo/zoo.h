/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model zoo: models as graphs, trained by any number of workers: `startrain MODEL ...`. A model of rows is a
 * function from a batch's values to logits, a model of text one to a loss; everything else is common to all.
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
	bool dpdk;		     /* ps is a worker's file, in which % stands for the worker's number */
	struct cluster_spec cluster; /* from TF_CONFIG, if ps comes from there */
	bool tensor_fuse;
	const char *dtype, *wire; /* types of the tables' rows: stored, and on the wire; NULL: float32 */
	bool apart;		  /* each column of ids has a table of its own */
	double clip_norm;	  /* of all gradients together; 0: none */
	bool batch_norm;	  /* between the dense layers */
	uint32_t workers, first_worker, local_workers;
	bool evaluator;			    /* TF_CONFIG says that this process only evaluates */
	uint64_t last_step, evaluate_every; /* global steps; 0: none, and the evaluator's own */
	enum input_format format;
	const char *schema_file;
	struct input_schema *schema; /* for format INPUT_SCHEMA */
	const char *train[ZOO_FILES_MAX], *test[ZOO_FILES_MAX];
	uint32_t train_count, test_count;
	double threshold; /* for evaluation; 0: the estimator's default */
	uint32_t batch, epochs, dim, shuffle;
	const char *queue;  /* the work queue that examples come from; NULL: each worker reads its share */
	uint64_t slice_kib; /* of the queue; 0: the default */
	uint32_t vocabulary, window, negatives; /* for text */
	uint32_t history;			/* most clicks of a row */
	uint64_t seed, deadline_us;
	uint64_t connect_us;			 /* time for PS tasks to answer at first; 0: the session's default */
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

/* 0; 1 if --help was printed; -EINVAL with err. argv[1] is the model's name. */
int zoo_options_parse(struct zoo_options *o, int argc, char **argv, struct star_error *err);

/* What rows of the format or schema consist of. */
struct input_shape zoo_shape(const struct zoo_options *o);
/* Whether a number is to be standardized; whether any is. */
bool zoo_is_standardized(const struct zoo_options *o, uint32_t number);
bool zoo_has_standardized(const struct zoo_options *o);

/* Whether everything is in one process, without PS tasks. */
bool zoo_is_local(const struct zoo_options *o);

/* A graph that is being built, for training or for evaluating. */
struct zoo {
	struct graph *graph;
	const struct zoo_options *options;
	bool train;
	struct graph_value auxiliary; /* a scalar that a model adds to its loss in training; or none */
	struct graph_value more_logits[ESTIMATOR_HEADS_MAX]; /* of the further tasks: [n] each, one per label */
};

/* The click histories of a batch's rows: k clicks, those of a row together, the oldest first. */
struct zoo_clicks {
	struct graph_value items, categories; /* ids [k] */
	struct graph_value segments;	      /* the row of each, int32 [k] */
	struct graph_value first, lengths;    /* of each row: its first click and how many it has, int64 [n] */
	struct graph_value others;	      /* for each click another one of the batch, drawn at random: int64 [k] */
};

/* The lists of a batch's rows: k words in m lists per row. */
struct zoo_lists {
	struct graph_value ids;	     /* [k] */
	struct graph_value segments; /* of each: row * m + the list's number, int32 [k] */
	struct graph_value lengths;  /* of each row and list: its words, [n * m] */
};

/* A batch of n rows. */
struct zoo_inputs {
	struct graph_value labels; /* [n] */
	struct graph_value dense;  /* [n, dense_count], standardized; absent if rows have no numbers */
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
		words; /* windows: [n, window + 1]; each word but the first is predicted from those before it */
	struct graph_value centers;	    /* pairs: [n] */
	struct graph_value targets;	    /* [n, 1 + negatives]: the context word, then the negative samples */
	struct graph_value labels;	    /* of the targets: 1, then 0s */
	int64_t window, negatives, classes; /* classes: ids are below that */
};

/* What a model is trained on. */
enum zoo_kind { ZOO_ROWS, ZOO_WINDOWS, ZOO_PAIRS };

struct zoo_model {
	const char *name, *help;
	bool any_row;	    /* accepts rows without columns, too */
	bool no_embeddings; /* has a weight for each id instead */
	struct graph_value (*logits)(struct zoo *zoo, const struct zoo_inputs *in); /* models of rows: [n] */
	enum zoo_kind kind;
	/* Models of text: the loss. */
	struct graph_value (*text)(struct zoo *zoo, const struct zoo_text_inputs *in, struct graph_value *predictions);
	bool numbers, history; /* rows must have these */
	bool tasks;	       /* learns all labels of a row, not only the first */
};
extern const struct zoo_model zoo_models[]; /* the last one has no name */

/* Finds a model by name; NULL: there is none. */
const struct zoo_model *zoo_model_find(const char *name);

/* The program: `startrain MODEL ...`. Returns the exit status. */
int zoo_main(int argc, char **argv);

/* `startrain generate ...` */
int zoo_generate(int argc, char **argv);

struct zoo_figures {
	struct estimator_figures estimator;
	double unigram_loss; /* windows: the loss of predicting by the words' frequencies in the training files */
};

/*
 * Trains as one worker, or evaluates the model that the PS tasks hold. seen is updated as it progresses; its sentences
 * go from 0 to ZOO_WHOLE, which means all. 0 or a negative errno.
 */
enum { ZOO_WHOLE = 1000000 };
struct figures;
int zoo_train(const struct zoo_options *o, uint32_t worker, struct figures *seen, struct zoo_figures *figures,
	      struct star_error *err);
int zoo_evaluate(const struct zoo_options *o, struct zoo_figures *figures, struct star_error *err);

/* Prints a line for each example, in the order of the files. */
int zoo_predict(const struct zoo_options *o, struct star_error *err);

/* Adds a feed to the graph and to the specification; most: its type in the largest step. Its first size may differ
 * from step to step. */
struct graph_value zoo_feed(struct graph *g, struct estimator_spec *spec, const char *name, struct graph_type most);

static inline struct graph_type zoo_type(unsigned dtype, unsigned ndim, int64_t rows, int64_t columns)
{
	return (struct graph_type){ .dtype = (uint8_t)dtype,
				    .shape = { .ndim = (uint8_t)ndim, .dims = { rows, columns } } };
}

/* The feeds of rows with histories, after those of labels and ids, and their values in a step. */
struct zoo_clicks_reader {
	struct prng prng;
	int64_t *others;
	uint32_t room;
};
struct zoo_clicks zoo_clicks_feeds(struct graph *g, struct estimator_spec *spec, const struct zoo_options *o);
/* 1 or a negative errno. */
int zoo_clicks_next(struct zoo_clicks_reader *reader, const struct input_batch *batch, struct graph_tensor *feeds,
		    struct star_error *err);

/* The name of a further task, that is, of a head of the estimator: the name of its label. */
const char *zoo_task_name(const struct zoo_options *o, uint32_t task);

struct zoo_reader {
	struct input *input;
	struct train_queue *queue; /* where its slices come from, or NULL */
	double share;		   /* of all input that had been read when the last batch was made */
	struct zoo_clicks_reader clicks;
	struct input_shape shape;
	uint32_t batch; /* most rows of a batch */
};

/* The scaling of a row's numbers. */
enum { ZOO_NUMBERS_MAX = INPUT_SCHEMA_COLUMNS_MAX };
struct zoo_scaling {
	float mean[ZOO_NUMBERS_MAX], deviation[ZOO_NUMBERS_MAX];
};

/* ---- what models are made of ---- */

/* The name of a variable or table of this model: "<model>/<name>". So models on the same PS tasks share nothing. */
enum { ZOO_NAME_ROOM = 128 };
const char *zoo_own_name(const struct zoo *zoo, const char *name, char own[static ZOO_NAME_ROOM]);

/* Looks up the rows of ids [n, k] in the table of that name: [n, k, dim]. An evaluation creates no rows. */
struct graph_value zoo_embed(struct zoo *zoo, const char *name, int64_t dim, struct graph_value ids);

/*
 * The same for each column of the batch, [n, fields + lists, dim]: for a list the mean of its words' rows, or 0 if it
 * is empty; with --apart lists have a table of their own.
 */
struct graph_value zoo_embed_columns(struct zoo *zoo, const char *name, int64_t dim, const struct zoo_inputs *in);
struct graph_value zoo_embed_lists(struct zoo *zoo, const char *name, int64_t dim, const struct zoo_inputs *in);

/* Layers of relu units; the last one has no activation if `last` is GRAPH_NO_OP. Variables "<name>/0/weights", ... */
struct graph_value zoo_mlp(struct zoo *zoo, struct graph_value x, const int64_t *units, size_t layers,
			   enum graph_op last, const char *name);

/* One layer, with variables "<name>/weights" and "<name>/bias". */
struct graph_value zoo_dense(struct zoo *zoo, struct graph_value x, int64_t units, enum graph_op activation,
			     const char *name);

/* A variable of the dense layers. */
struct graph_value zoo_variable(struct zoo *zoo, const char *name, const int64_t *dims, size_t ndim,
				const char *initializer, double scale);

/* A weight for each number, initially zero: [n, k] -> [n, 1]. Variables "<name>/weights", "<name>/bias". */
struct graph_value zoo_linear(struct zoo *zoo, struct graph_value x, const char *name);

/* [n, 1] -> [n] */
struct graph_value zoo_column(struct zoo *zoo, struct graph_value x);

#endif
