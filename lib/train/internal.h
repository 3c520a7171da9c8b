/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of a session share: config.c checks the configuration, connect.c cuts the graph and connects to PS
 * tasks, session.c executes steps, flight.c several of them at once. One thread, except for those of flights. */
#ifndef TRAIN_INTERNAL_H
#define TRAIN_INTERNAL_H

#include <pthread.h>

#include "client/star.h"
#include "train/peers.h"
#include "train/session.h"
#include "train/summary.h"
#include "train/sync.h"

enum { SESSION_HOOKS_MAX = 32, SESSION_NOT_THERE = UINT32_MAX };

/* When something periodic was last done, in global steps and time. */
struct mark {
	uint64_t step, ns;
};

enum flight_state {
	FLIGHT_FREE,
	/* or its result was taken */ FLIGHT_WAITS, /* to be started */
	FLIGHT_RUNS,				    /* in its own thread */
	FLIGHT_HERE,				    /* is being executed by the session's caller */
	FLIGHT_DONE,
	FLIGHT_FAILED,
};

/* A step, from its submission until its graph run is used for another one. */
struct flight {
	struct session *session;
	struct graph_run *run;
	struct graph_tensor *feeds, *results;
	void *kept;		 /* memory of the results, when the run is gone */
	uint64_t number;	 /* local_step once it was taken */
	uint64_t step;		 /* the step number for tables: session_count_steps */
	enum flight_state state; /* protected by the session's lock */
	struct star_error err;	 /* if it failed */
	pthread_t thread;
	pthread_cond_t go;
};

struct session {
	struct session_config config;
	struct session_model model;
	struct session_hook hooks[SESSION_HOOKS_MAX];
	uint32_t hooks_count;
	struct star_cluster *cluster;
	bool reached;	/* PS tasks have answered once */
	bool had_peers; /* this worker has been one among others */
	struct graph_cut *cut;
	struct graph_ps *ps;
	struct graph_plan *plan;
	struct flight flights[SESSION_IN_FLIGHT_MAX]; /* a ring of steps_in_flight */
	uint32_t oldest, in_flight;		      /* index of the oldest step not taken, and their number */
	uint32_t at_once;			      /* how many may run at the same time */
	uint32_t threads;			      /* of flights; if there is one flight it has none */
	pthread_mutex_t lock;			      /* protects the flights' states */
	pthread_cond_t ended;			      /* a flight has ended */
	bool over;				      /* the threads have to end; under the lock */
	uint32_t step_result, loss_result;	      /* indices in the model's results; or SESSION_NOT_THERE */
	struct summary *summary;
	/* the last step in model_dir, from an earlier run; 0: none, or PS tasks continue from it */
	uint64_t summary_step;
	struct session_step last; /* the last step, without its results */
	struct peers *peers;	  /* NULL: workers do not wait for each other */
	struct sync sync;	  /* of a synchronous job */
	uint64_t clock;		  /* the number of steps that other workers believe this one has made */
	uint64_t global_step, local_step;
	uint64_t counted; /* the local step at which global_step was read */
	/* The counter of the job's steps on the PS tasks, as the graph has it. */
	struct session_counter {
		const char *name; /* NULL: it has none */
		bool adds;	  /* each step of the graph adds one */
		uint64_t value;	  /* the last known value */
		uint64_t local;	  /* and the local step at which it was read */
	} counter;
	struct mark logged, summarized, saved;
	bool stop, failed;
	bool no_summaries; /* the last ones could not be written; a message said so */
};

enum consistency { SESSION_UNKNOWN, SESSION_ASYNCHRONOUS, SESSION_BOUNDED, SESSION_SYNCHRONOUS };

/* ---- config.c ---- */

enum consistency session_consistency(const struct session_config *c);
bool session_is_local(const struct session_config *config);
/* Worker 0, which creates missing objects, writes summaries, and requests checkpoints. */
static inline bool session_is_chief(const struct session_config *config)
{
	return config->task_index == 0 && !config->evaluator;
}
void session_set_defaults(struct session_config *c);
/* The number of PS tasks; 0 with err: the worker's file cannot be read. */
uint32_t session_count_tasks(const char *ps, struct star_error *err);

/* ---- session.c ---- */

bool session_may_come_back(int code);
/* Executes the step of a flight, on the calling thread. */
int session_make_step(struct session *s, struct flight *f, uint64_t until_ns, struct star_error *err);

/*
 * The step number that tables use for the local step `number` (rates, decays, rows' lives): that of the job, which is
 * its counter on the PS tasks as this worker last saw it, plus its own steps since. If the graph does not increment the
 * counter, it is the counter's value; without a counter it is this session's own step number.
 */
static inline uint64_t session_count_steps(const struct session *s, uint64_t number)
{
	if (!s->counter.name)
		return number;
	return s->counter.value + (s->counter.adds ? number - s->counter.local : 0);
}

/* ---- flight.c ---- */

int train_flights_init(struct session *s, struct star_error *err);
/* Call it once the session is connected. */
int train_flights_start(struct session *s, struct star_error *err);
void train_flights_fini(struct session *s);

static inline struct flight *flights_at(struct session *s, uint32_t place)
{
	return &s->flights[(s->oldest + place) % s->config.steps_in_flight];
}

/* Adds the next step, which waits to be started. A flight must be free. */
void train_flights_add(struct session *s, const struct graph_tensor *feeds);
/* The session was connected again: no flight runs, and `value` is the counter of steps. */
void train_flights_recount(struct session *s, uint64_t value);
/* Starts the flights that may be started. */
void train_flights_go(struct session *s);
/* Waits until the oldest flight has ended: 0, or its error. If it was not started, the caller executes it. */
int train_flights_await(struct session *s, uint64_t until_ns, struct star_error *err);
/* Waits until no flight runs. */
void train_flights_settle(struct session *s);
bool train_flights_have_failed(struct session *s);
/* Copies the results of finished flights, so that their runs may be freed. */
int train_flights_keep(struct session *s, struct star_error *err);
/* After train_flights_settle: executes failed flights again, on the calling thread, until one fails again, or had an
 * error that cannot be retried. */
void train_flights_again(struct session *s, uint64_t until_ns);
/* Removes the oldest flight, which is done, from those in flight. */
struct flight *train_flights_take(struct session *s);
/* Drops all flights. 0, or the error of the oldest one that failed. */
int train_flights_drop(struct session *s, struct star_error *err);

/* ---- connect.c ---- */

/* What is moved to PS tasks besides reads and updates: as lite does; nothing; not even nodes that have a PS device. */
enum session_moves { SESSION_OFFLOADS, SESSION_NO_OFFLOAD, SESSION_WORKER_ONLY };
/* Cuts the graph. As long as there is no cluster, each PS task counts as one reactor. */
int session_make_cut(struct session *s, enum session_moves moves, struct star_error *err);
/* Finds the graph's counter of steps. */
void session_find_counter(struct session *s);
void session_tell_warnings(const struct graph_cut *cut);
/* Opens the cluster, creates what the graph needs there, and makes a plan, until until_ns at the latest. */
int session_connect(struct session *s, uint64_t until_ns, struct star_error *err);
void session_disconnect(struct session *s);

#endif
