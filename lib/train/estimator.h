/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After TensorFlow's Estimator: a model function builds the graph for training, evaluation or prediction; input
 * functions supply batches; the estimator trains (with session.h), evaluates and predicts with the parameters on the PS
 * tasks. struct session_config corresponds to RunConfig. Without config.ps, the environment variable TF_CONFIG gives
 * the job's members and this task's place: cluster_spec_take_environment of cluster.h, which a program can also call
 * itself.
 *
 * Threads: each estimator is used by one thread at a time.
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

/* A further output of a model, for one of several tasks that are learned together. */
struct estimator_head {
	const char *name;		/* unique; its summaries are "NAME/auc" and so on */
	struct graph_value predictions; /* [n], or [n, m] for m outputs; unused in training */
	const char *labels;		/* the feed with labels of the same shape; NULL: no AUC and no metrics */
	double threshold;		/* for metrics; 0: 0.5 */
};

/* What a model function has built. It takes some 160 KiB, so that a model may have a feed for each of its columns. */
struct estimator_spec {
	/* With the largest types of a step's feeds, in the order in which input functions supply them. */
	struct graph_plan_feed feeds[ESTIMATOR_FEEDS_MAX];
	uint32_t feeds_count;
	struct graph_value loss;	/* a scalar; unused in prediction */
	struct graph_value predictions; /* [n]; unused in training */
	const char *labels; /* the feed that evaluation compares predictions with; NULL: no AUC and no metrics */
	double threshold;   /* for metrics: predictions of at least this are 1; 0: 0.5 */
	/* for training: scales all gradients by one factor so that their L2 norm is at most this; 0: no clipping */
	double clip_norm;
	/* In addition to predictions and labels, which are the first head; the loss is that of all of them together. */
	struct estimator_head heads[ESTIMATOR_HEADS_MAX];
	uint32_t heads_count;
};

/* Builds the model in an empty graph. It need not check the graph for errors, nor add training. 0 or a negative errno
 * with err. */
typedef int estimator_model_fn(void *params, enum estimator_mode mode, struct graph *graph, struct estimator_spec *spec,
			       struct star_error *err);

/* Supplies the next batch, in the order of spec.feeds. 1; 0: there are no more; or a negative errno. What the tensors
 * point to must stay valid until the next call. */
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
	uint64_t steps, examples; /* examples: the sum of the first feed's first size */
	/* training: a moving average that decays by a hundredth per step; evaluation: the mean over all examples */
	double loss;
	/* Evaluation with labels. NAN without a positive label (above 0.5), or without a negative one. */
	double auc;
	struct train_metrics_figures metrics;
	struct estimator_head_figures heads[ESTIMATOR_HEADS_MAX]; /* in the order of spec.heads */
	uint32_t rounds, requests;				  /* of a training step, from its cut */
	double seconds;						  /* for all steps but the first */
};

struct estimator {
	estimator_model_fn *model_fn;
	void *params;
	struct session_config config;
	const struct session_hook *hooks; /* for training */
	uint32_t hooks_count;
};

/* Trains until the input ends, a hook or config.last_step stops it, or for `steps` steps of this worker (0: no such
 * limit). All calls here return 0 or a negative errno: that of the model or input function, of a hook, or of
 * session_create and session_run; figures are then of what was done. */
int estimator_train(const struct estimator *estimator, struct estimator_input input, uint64_t steps,
		    struct estimator_figures *figures, struct star_error *err);

/*
 * Computes loss, AUC and metrics over the whole input. The chief also writes those that apply as a summary by global
 * step, in the directory "eval" in model_dir. All look-ups are read-only: no row is created or counted on PS tasks, and
 * ids that were never trained read as their initial values.
 */
int estimator_evaluate(const struct estimator *estimator, struct estimator_input input,
		       struct estimator_figures *figures, struct star_error *err);

/* Called with the predictions of each batch: spec.predictions, then those of the heads. They are valid during the call.
 * A negative result ends the prediction. Look-ups are read-only here too. */
typedef int estimator_each(void *arg, const struct graph_tensor *predictions, struct star_error *err);
int estimator_predict(const struct estimator *estimator, struct estimator_input input, estimator_each *each, void *arg,
		      struct star_error *err);

/*
 * Trains. If this is the chief, it also evaluates after every every_steps steps of this worker (0: never) and at the
 * end; the figures of the last evaluation go to *evaluated. open supplies an input of all examples again each time, and
 * close ends it. An evaluator (config.evaluator) does not train: it evaluates whenever the job has made every_steps
 * further global steps; when it has made config.last_step, which is required, it evaluates once more, and ends.
 * -ETIMEDOUT: the global step did not change for config.recovery_us before that.
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
