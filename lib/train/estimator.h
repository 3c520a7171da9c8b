/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After TensorFlow's Estimator: a model function builds the graph for training, evaluating or predicting; input
 * functions bring batches; the estimator trains (by session.h), evaluates and predicts with what the PS tasks hold.
 * RunConfig is struct session_config; without config.ps the environment's TF_CONFIG says who takes part, and what this
 * task is: cluster_spec_take_environment of cluster.h, which a program calls itself that wants to know it first.
 *
 * Threads: one at a time for each estimator.
 */
#ifndef TRAIN_ESTIMATOR_H
#define TRAIN_ESTIMATOR_H

#include "train/metrics.h"
#include "train/session.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

enum { ESTIMATOR_FEEDS_MAX = 2048, ESTIMATOR_HEADS_MAX = 15, ESTIMATOR_HEAD_NAME_MAX = 100 };

enum estimator_mode { ESTIMATOR_TRAIN = 1, ESTIMATOR_EVAL, ESTIMATOR_PREDICT };

/* A further output of a model, as one of several tasks that are learned together. */
struct estimator_head {
	const char *name;		/* its own; its summaries are "NAME/auc" and so on */
	struct graph_value predictions; /* [n], or [n, m]: m outputs; not for training */
	const char *labels;		/* the feed with as many; NULL: no AUC and no metrics */
	double threshold;		/* of metrics; 0: 0.5 */
};

/* What a model function has built: some 160 KiB, so that a model may have a feed for each of its columns. */
struct estimator_spec {
	/* With the greatest types of a step's feeds, in the order in which input functions give them. */
	struct graph_plan_feed feeds[ESTIMATOR_FEEDS_MAX];
	uint32_t feeds_count;
	struct graph_value loss;	/* a scalar; not for predicting */
	struct graph_value predictions; /* [n]; not for training */
	const char *labels; /* the feed that evaluation compares predictions with; NULL: no AUC and no metrics */
	double threshold;   /* of metrics: predictions from here on say 1; 0: 0.5 */
	double clip_norm;   /* of training: all gradients are scaled down together to this L2 norm; 0: they are not */
	/* Beside predictions and labels, which are the first head; the loss is that of all of them together. */
	struct estimator_head heads[ESTIMATOR_HEADS_MAX];
	uint32_t heads_count;
};

/* Builds into an empty graph. It need not look at the graph's error, nor add training. 0 or a negative errno with
 * err. */
typedef int estimator_model_fn(void *params, enum estimator_mode mode, struct graph *graph, struct estimator_spec *spec,
			       struct star_error *err);

/* The next batch, in the order of spec.feeds: 1; 0: there is none; or a negative errno. What it points to stays until
 * the next call. */
typedef int estimator_input_fn(void *arg, struct graph_tensor *feeds, struct star_error *err);

struct estimator_input {
	estimator_input_fn *next;
	void *arg;
};

struct estimator_head_figures {
	double auc;
	struct train_metrics_figures metrics;
};

struct estimator_figures {
	uint64_t steps, examples; /* examples: the first size of the first feed, summed */
	double loss; /* training: of late, decaying by a hundredth a step; evaluation: the mean of all examples */
	/* Evaluation with labels. Without a positive label (above 0.5), or without a negative one: NAN. */
	double auc;
	struct train_metrics_figures metrics;
	struct estimator_head_figures heads[ESTIMATOR_HEADS_MAX]; /* as spec.heads */
	uint32_t rounds, requests;				  /* of a training step: its cut */
	double seconds;						  /* of all steps but the first */
};

struct estimator {
	estimator_model_fn *model_fn;
	void *params;
	struct session_config config;
	const struct session_hook *hooks; /* of training */
	uint32_t hooks_count;
};

/* Trains until the input ends, a hook or config.last_step stops it, or for n steps of this worker; 0: no such bound.
 * All calls here return 0 or a negative errno: that of the model or input function, of a hook, or as session_create
 * and session_run; figures are then of what was done. */
int estimator_train(const struct estimator *estimator, struct estimator_input input, uint64_t steps,
		    struct estimator_figures *figures, struct star_error *err);

/*
 * Loss, AUC and metrics over all of the input; the chief writes those that apply as a summary of the global step, too,
 * to the directory "eval" in model_dir. Creates and counts no row on PS tasks: all look-ups are made read-only, so ids
 * that were never trained read as their initial values.
 */
int estimator_evaluate(const struct estimator *estimator, struct estimator_input input,
		       struct estimator_figures *figures, struct star_error *err);

/* Predictions of each batch, those of the heads behind spec.predictions, valid during the call; what it returns, if
 * negative, ends it. Look-ups are read-only here, too. */
typedef int estimator_each(void *arg, const struct graph_tensor *predictions, struct star_error *err);
int estimator_predict(const struct estimator *estimator, struct estimator_input input, estimator_each *each, void *arg,
		      struct star_error *err);

/*
 * Trains, and evaluates after every so many steps of this worker, and at the end (0: at the end only), if it is the
 * chief; the last evaluation's figures go to *evaluated. open_eval gives an input of all examples again each time,
 * and close_eval ends it. An evaluator (config.evaluator) trains nothing: it evaluates whenever the job has made this
 * many global steps more, and when it has made config.last_step, which it needs, and ends. -ETIMEDOUT: the global step
 * stood still for config.recovery_us before.
 */
struct estimator_eval {
	uint64_t every_steps;
	void *arg;
	int (*open)(void *arg, struct estimator_input *input, struct star_error *err);
	void (*close)(void *arg, struct estimator_input *input);
};
int estimator_train_and_evaluate(const struct estimator *estimator, struct estimator_input input,
				 const struct estimator_eval *eval, struct estimator_figures *trained,
				 struct estimator_figures *evaluated, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
