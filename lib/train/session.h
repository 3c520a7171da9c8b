/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A training session, after TensorFlow's MonitoredTrainingSession: opens the cluster, cuts the graph by the protocol,
 * creates its variables and tables (the chief, worker 0, does; the other workers wait for them), executes steps, and
 * calls hooks around them. When a PS task goes away in the middle of a step, the session waits until it is back,
 * creates again what it has lost (the task restores checkpoints itself, if configured), and repeats the whole step.
 *
 * Threads: each session is used by one thread at a time. It has threads of its own if several steps are in flight.
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
 * Instead of PS tasks: variables and tables are kept in this process, in one store for all of its sessions, until the
 * process ends. One worker, no network, no hugepages, no checkpoints; all sessions that use it must be on the same
 * thread. Results have the same bits as with a node with one reactor.
 */
#define SESSION_LOCAL "local"

/* The parts of TensorFlow's RunConfig and ConfigProto that apply here, with the same names. Zero means the default in
 * brackets. */
struct session_config {
	const char *ps;	      /* as for star_open; or SESSION_LOCAL */
	uint32_t task_index;  /* of the worker; 0 is the chief */
	bool evaluator;	      /* not a worker: evaluates what the workers have trained (estimator_train_and_evaluate) */
	const char *protocol; /* "grpc", "grpc++", "star_server", "star_server_lite" [star_server] */
	bool tensor_fuse;     /* grpc++ only */
	/* The type in which rows of tables and their gradients are sent: "float16", "bfloat16", "scaled_int8". The
	 * model computes in float32; what PS tasks compute of a graph, and dense variables, are sent as float32
	 * [float32]. */
	const char *wire;
	uint32_t intra_op_parallelism_threads, inter_op_parallelism_threads; /* [1] */
	/* maximum, for asynchronous jobs: see session_submit; up to SESSION_IN_FLIGHT_MAX [1] */
	uint32_t steps_in_flight;
	const char *train_distribute; /* a distribution strategy: must be NULL, see session_config_check */

	const char *model_dir;	       /* the chief writes summaries there; NULL: none */
	uint32_t save_summary_steps;   /* [100] */
	uint32_t log_step_count_steps; /* a line on standard error [100]; UINT32_MAX: none */
	/* of the whole job: the global step at which session_should_stop returns true; 0: none */
	uint64_t last_step;
	/* The chief requests a checkpoint of the cluster each time after this many global steps or seconds, between two
	 * steps, and waits for it. At most one of the two may be set; 0: never. */
	uint32_t save_checkpoints_steps, save_checkpoints_secs;
	/* Number of full checkpoints to keep: at least checkpoint.keep of the nodes, which is the default, and at most
	 * their checkpoint.keep_max. */
	uint32_t keep_checkpoint_max;
	uint64_t seed;	      /* of random numbers in the graph */
	uint64_t deadline_us; /* of each call to PS tasks [30 s] */
	uint64_t recovery_us; /* how long to wait for PS tasks that are away, and for the chief [300 s] */
	uint64_t connect_us;  /* how long to wait for PS tasks to answer at first [recovery_us] */

	/* How far workers wait for each other. "asynchronous": not at all; "ssp": no worker begins a step while another
	 * live worker is more than `staleness` steps behind (0: all make each step together); "synchronous": the mean
	 * of the gradients of the first grads_to_wait workers is applied once per step, and later ones are dropped
	 * (TensorFlow's SyncReplicasOptimizer) [asynchronous]. All but the first need the number of workers. */
	const char *consistency;
	const char *job;	/* the job's name; its workers find each other by it ["job"] */
	uint32_t workers;	/* of the job */
	uint64_t staleness;	/* steps */
	uint32_t grads_to_wait; /* the others are backup workers [workers] */
	/* synchronous: a row that is updated by ids is divided by the number of workers of the round that have touched
	 * it, as in TensorFlow's SyncReplicasOptimizer, instead of grads_to_wait [off]. It must be the same for all
	 * workers, and a graph must update each table in one place. */
	bool mean_by_row;
	uint64_t lease_us; /* how long the others wait for a worker that is not heard from [10 s] */
	/* Creates nothing: if PS tasks do not have a table or variable of the graph, session_create fails with
	 * -ENOTRECOVERABLE and names the first one; also if they have lost a part of a variable. For
	 * programs that only evaluate what others have trained [off]; no effect with SESSION_LOCAL. */
	bool must_exist;
};

/* 0, or -EINVAL with what is wrong and what to do. */
int session_config_check(const struct session_config *config, struct star_error *err);

/* What a session executes. */
struct session_model {
	const struct graph *graph; /* the names of its results, in order: */
	const char *const *results;
	const struct graph_plan_feed *feeds; /* the largest types of a step's feeds, in their order */
	uint32_t feeds_count;
};

/* Results with a meaning for the session: "global_step" (graph_global_step), and "loss" (a scalar: NaN ends
 * training). */
#define SESSION_GLOBAL_STEP "global_step"
#define SESSION_LOSS "loss"

/* What a hook gets after each step. */
struct session_step {
	uint64_t global_step; /* without a result "global_step": the steps of this worker */
	uint64_t local_step;  /* in this session, from 1 */
	const struct graph_tensor *results;
	double loss; /* NAN without a result "loss" */
};

/* Hooks are called in the order in which they were given. A negative errno with err ends the step, or session_create,
 * with that error. Any member may be NULL. */
struct session_hook {
	void *arg;
	int (*begin)(void *arg, struct session *session, struct star_error *err); /* before the first step */
	int (*after_step)(void *arg, struct session *session, const struct session_step *step, struct star_error *err);
	int (*end)(void *arg, struct session *session,
		   struct star_error *err); /* by session_close, if no step failed */
};

/* config, model and hooks are copied; what they point to must outlive the session. NULL with err: -EINVAL (config or
 * model), -ENOTRECOVERABLE (must_exist), -ETIMEDOUT (no PS tasks within connect_us, or no chief within recovery_us),
 * the error of a hook's begin, or an error of star_open or star_table_create. */
struct session *session_create(const struct session_config *config, const struct session_model *model,
			       const struct session_hook *hooks, uint32_t hooks_count, struct star_error *err);

/*
 * Executes one step; none may be in flight. Results are valid until the next step. 0; -EDOM: the loss is not a number;
 * the error of a call to PS tasks, if they did not come back within recovery_us; -EINVAL as graph_run_step; -EBUSY:
 * steps are in flight.
 */
int session_run(struct session *session, const struct graph_tensor *feeds, const struct graph_tensor **results,
		struct star_error *err);

/*
 * Several steps at once, so that one computes while others wait for PS tasks. (In TensorFlow, several threads call
 * Session.run for this.)
 *
 * session_submit starts a step and does not wait. At most steps_in_flight steps may have been submitted and not taken:
 * -EAGAIN. feeds are as for session_run; what they point to must stay valid until the step is taken, the array itself
 * need not. (If steps_in_flight is 1, session_take executes the step.)
 *
 * session_take waits for the oldest submitted step, and returns what session_run would. So steps end, and hooks are
 * called, in the order of submission, whichever step was faster. Results are valid until the next session_submit,
 * session_take or session_run. -EINVAL: nothing is in flight. After any error nothing is in flight: the later steps
 * were waited for and dropped; what they have pushed stays.
 *
 * Steps in flight know nothing of each other: what one reads may lack what earlier ones push, as with steps of other
 * workers, and their results "global_step" may be in another order. The session's own global step only goes back if
 * that of the PS tasks has. When PS tasks go away, the steps in flight are waited for; then those that failed are
 * repeated one after the other, and those that succeeded are not. The chief waits for its steps in flight before a
 * checkpoint, so none of its own steps is in one in part.
 */
int session_submit(struct session *session, const struct graph_tensor *feeds, struct star_error *err);
int session_take(struct session *session, const struct graph_tensor **results, struct star_error *err);
uint32_t session_in_flight(const struct session *session);

/* Whether to stop. It is true as soon as the steps in flight are enough for last_step, before the first step if the job
 * has made as many; when they have been taken, they may turn out not to have been. */
bool session_should_stop(const struct session *session);
void session_request_stop(struct session *session);
uint64_t session_global_step(const struct session *session); /* after the last step */
/* For a synchronous job: the steps of this worker whose gradients arrived too late and were dropped. */
uint64_t session_dropped(const struct session *session);
/* The number of steps that this worker has made, as the other workers count them: a worker that was away for long
 * continues with their count. From 0. */
uint64_t session_clock(const struct session *session);

/* The cut: round trips, requests and more. */
const struct graph_cut *session_cut(const struct session *session);

/* Waits for the steps in flight without calling their hooks, calls the hooks' `end`, and frees the session. 0, or the
 * first error of a step or a hook. NULL is allowed. */
int session_close(struct session *session, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
