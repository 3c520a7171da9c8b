/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A training session, after TensorFlow's MonitoredTrainingSession: opens the cluster, cuts the graph by the protocol,
 * makes its variables and tables (the chief, worker 0, does; others wait until they are there), executes steps, and
 * calls hooks around them. When a PS task goes away in the middle of a step, the session waits until it is back, makes
 * again what it has lost (it restores checkpoints by itself, if so configured), and executes the step again, as a
 * whole.
 *
 * Threads: one thread at a time for each session, which has threads of its own where several steps are in flight.
 */
#ifndef TRAIN_SESSION_H
#define TRAIN_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/exec.h"
#include "star_error.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

struct session;

enum { SESSION_IN_FLIGHT_MAX = 16 };

/*
 * Instead of PS tasks: variables and tables are kept in this process, by one store for all of its sessions, until it
 * ends. One worker, no network, no hugepages, no checkpoints; all sessions that use it belong to one thread together.
 * The same bits as a node with one reactor.
 */
#define SESSION_LOCAL "local"

/* TensorFlow's RunConfig and ConfigProto, as far as they mean something here, under their names. Zero means the default
 * in brackets. */
struct session_config {
	const char *ps;	      /* as star_open takes it; or SESSION_LOCAL */
	uint32_t task_index;  /* of the worker; 0 is the chief */
	bool evaluator;	      /* it is no worker, but looks at what they have trained: estimator_train_and_evaluate */
	const char *protocol; /* "grpc", "grpc++", "star_server", "star_server_lite" [star_server] */
	bool tensor_fuse;     /* of grpc++ */
	/* The type in which rows of tables and their gradients travel: "float16", "bfloat16", "scaled_int8". They are
	 * computed with in float32; what PS tasks compute of a graph, and dense variables, travel as float32
	 * [float32]. */
	const char *wire;
	uint32_t intra_op_parallelism_threads, inter_op_parallelism_threads; /* [1] */
	uint32_t steps_in_flight; /* at most, of an asynchronous job: session_submit; up to SESSION_IN_FLIGHT_MAX [1] */
	const char *train_distribute; /* a distribution strategy: must be NULL, see session_config_check */

	const char *model_dir;	       /* the chief writes summaries there; NULL: none */
	uint32_t save_summary_steps;   /* [100] */
	uint32_t log_step_count_steps; /* a line on standard error [100]; UINT32_MAX: none */
	uint64_t last_step;	       /* of the whole job: global step at which session_should_stop says so; 0: none */
	/* The chief has the cluster write a checkpoint every so many global steps, or seconds, and waits for it,
	 * between two steps; one of the two at most; 0: never. */
	uint32_t save_checkpoints_steps, save_checkpoints_secs;
	/* Full ones that are kept: at least checkpoint.keep of the nodes, which is the default, and at most their
	 * checkpoint.keep_max. */
	uint32_t keep_checkpoint_max;
	uint64_t seed;	      /* of random numbers in the graph */
	uint64_t deadline_us; /* of each call to PS tasks [30 s] */
	uint64_t recovery_us; /* how long PS tasks may be away, and others wait for the chief [300 s] */
	uint64_t connect_us;  /* how long PS tasks may take to answer at first [recovery_us] */

	/* How far workers wait for each other. "asynchronous": not at all; "ssp": none begins a step while another one
	 * that lives is more than `staleness` steps behind (0: all make each step together); "synchronous": the mean of
	 * the gradients of the first grads_to_wait workers is applied once a step, and what comes later is dropped
	 * (TensorFlow's SyncReplicasOptimizer) [asynchronous]. All but the first need the number of workers. */
	const char *consistency;
	const char *job;	/* the name under which its workers know of each other ["job"] */
	uint32_t workers;	/* of the job */
	uint64_t staleness;	/* steps */
	uint32_t grads_to_wait; /* the others are backup workers [workers] */
	/* synchronous: a row that is updated by ids is divided by the number of workers of the round that have touched
	 * it, as TensorFlow's SyncReplicasOptimizer does, and not by grads_to_wait [off]; the same for all workers. A
	 * graph then updates each table in one place. */
	bool mean_by_row;
	uint64_t lease_us; /* how long a worker that is not heard of is waited for [10 s] */
	/* Nothing is made: -ENOTRECOVERABLE with the first table or variable of the graph that PS tasks do not have.
	 * For those that only look at what others have trained [off]; without a meaning for SESSION_LOCAL. */
	bool must_exist;
};

/* 0, or -EINVAL with what is wrong and what to do. */
int session_config_check(const struct session_config *config, struct star_error *err);

/* What is executed. */
struct session_model {
	const struct graph *graph; /* its results, in order, are named by: */
	const char *const *results;
	const struct graph_plan_feed *feeds; /* the greatest types of a step's feeds, in their order */
	uint32_t feeds_count;
};

/* The results with a meaning for the session: "global_step" (graph_global_step), "loss" (a scalar: NaN ends
 * training). */
#define SESSION_GLOBAL_STEP "global_step"
#define SESSION_LOSS "loss"

/* What a hook is told after each step. */
struct session_step {
	uint64_t global_step; /* without a result "global_step": this worker's steps */
	uint64_t local_step;  /* of this session, from 1 */
	const struct graph_tensor *results;
	double loss; /* NAN without a result "loss" */
};

/* Called in the order in which they were given; a negative errno with err ends the step, or session_create, with that
 * error. Any may be NULL. */
struct session_hook {
	void *arg;
	int (*begin)(void *arg, struct session *session, struct star_error *err); /* before the first step */
	int (*after_step)(void *arg, struct session *session, const struct session_step *step, struct star_error *err);
	int (*end)(void *arg, struct session *session,
		   struct star_error *err); /* by session_close, if no step failed */
};

/* config, model and hooks are copied; what they point to must outlive the session. NULL with err: -EINVAL (config
 * or model), -ENOTRECOVERABLE (must_exist), -ETIMEDOUT (PS tasks, or the chief, within connect_us and recovery_us),
 * what a hook's begin returned, or as star_open and star_table_create. */
struct session *session_create(const struct session_config *config, const struct session_model *model,
			       const struct session_hook *hooks, uint32_t hooks_count, struct star_error *err);

/*
 * One step, with none in flight. Results are valid until the next one. 0; -EDOM: the loss is not a number; what a call
 * to PS tasks failed with, if they did not come back within recovery_us; -EINVAL as graph_run_step; -EBUSY: steps are
 * in flight.
 */
int session_run(struct session *session, const struct graph_tensor *feeds, const struct graph_tensor **results,
		struct star_error *err);

/*
 * Several steps at once, so that one computes while others wait for PS tasks: where TensorFlow has Session.run called
 * from several threads.
 *
 * session_submit starts a step and does not wait. There are steps_in_flight at most that have not been taken: -EAGAIN.
 * Feeds are as of session_run; what they point to must stay until the step is taken, the array itself need not. (With 1
 * the step is made by session_take.)
 *
 * session_take waits for the oldest step that was submitted. It returns what session_run would, so steps end in the
 * order in which they were submitted, whichever was faster, and so are hooks called. Results are valid until the next
 * session_submit, session_take or session_run. -EINVAL: nothing is in flight. After any error nothing is: the steps
 * behind are waited for and dropped; what they pushed stays.
 *
 * Steps in flight know nothing of each other: what one reads may lack what those before it push, as with other workers'
 * steps, and their results "global_step" may be in another order. The session's own global step rolls back only when
 * that of the PS tasks has. When PS tasks go away, the steps in flight are waited for, then those that failed are made
 * again, one after the other, and those that succeeded are not. The chief's checkpoints wait for the steps in flight,
 * so that none of its own is in one by half.
 */
int session_submit(struct session *session, const struct graph_tensor *feeds, struct star_error *err);
int session_take(struct session *session, const struct graph_tensor **results, struct star_error *err);
uint32_t session_in_flight(const struct session *session);

/* Also while the steps in flight are enough for last_step; when they have been taken it may turn out that they were
 * not. */
bool session_should_stop(const struct session *session);
void session_request_stop(struct session *session);
uint64_t session_global_step(const struct session *session); /* as of the last step */
/* Of a synchronous job: steps of this worker whose gradients came too late and were dropped. */
uint64_t session_dropped(const struct session *session);
/* How many steps this worker has made, as the others count them: one that has been away for long goes on where they
 * are. From 0. */
uint64_t session_clock(const struct session *session);

/* Round trips, requests and what else the cut says. */
const struct graph_cut *session_cut(const struct session *session);

/* Waits for the steps in flight, without hooks, calls the hooks' ends, and frees. 0, or the first error of a step or a
 * hook. NULL is allowed. */
int session_close(struct session *session, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
