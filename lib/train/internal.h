/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of a session share: config.c looks at what is asked for, connect.c cuts the graph and reaches PS
 * tasks, session.c makes the steps, flight.c several at once. One thread, but for the flights' own. */
#ifndef TRAIN_INTERNAL_H
#define TRAIN_INTERNAL_H

#include <pthread.h>

#include "client/star.h"
#include "train/peers.h"
#include "train/session.h"
#include "train/summary.h"
#include "train/sync.h"

enum { SESSION_HOOKS_MAX = 32, SESSION_NOT_THERE = UINT32_MAX };

/* Where something was done last that is done every so many global steps. */
struct mark {
	uint64_t step, ns;
};

enum flight_state {
	FLIGHT_FREE,  /* or taken */
	FLIGHT_WAITS, /* to be started */
	FLIGHT_RUNS,  /* in its own thread */
	FLIGHT_HERE,  /* is made by the session's caller */
	FLIGHT_DONE,
	FLIGHT_FAILED,
};

/* A step, from its submission until its run is used for another one. */
struct flight {
	struct session *session;
	struct graph_run *run;
	struct graph_tensor *feeds, *results;
	void *kept;		 /* results, when the run is gone */
	uint64_t number;	 /* local_step, when it has been taken */
	uint64_t step;		 /* what tables count by: session_count_steps */
	enum flight_state state; /* under the session's lock */
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
	bool reached; /* PS tasks have answered once */
	struct graph_cut *cut;
	struct graph_ps *ps;
	struct graph_plan *plan;
	struct flight flights[SESSION_IN_FLIGHT_MAX]; /* steps_in_flight of them, used in turns */
	uint32_t oldest, in_flight;	   /* of those that were submitted and not taken: which, and how many */
	uint32_t at_once;		   /* this many run at most; */
	uint32_t threads;		   /* of the flights; one flight has none */
	pthread_mutex_t lock;		   /* of their states */
	pthread_cond_t ended;		   /* one of them has */
	bool over;			   /* the threads end; under the lock */
	uint32_t step_result, loss_result; /* of the model's; SESSION_NOT_THERE */
	struct summary *summary;
	uint64_t
		summary_step; /* the last one in model_dir, of an earlier run; 0: none, or PS tasks have what it left */
	struct session_step last; /* that was made; without its results */
	struct peers *peers;	  /* NULL: workers do not wait for each other */
	struct sync sync;	  /* of a synchronous job */
	uint64_t clock;		  /* steps that the others take this worker to have made */
	uint64_t global_step, local_step;
	uint64_t counted; /* the local step that global_step is of */
	/* The counter of the job's steps on the PS tasks, as the graph has it. */
	struct session_counter {
		const char *name; /* NULL: it has none */
		bool adds;	  /* each step of the graph is one more */
		uint64_t value;	  /* the last that is known, ... */
		uint64_t local;	  /* ... and the local step that it is of */
	} counter;
	struct mark logged, summarized, saved;
	bool stop, failed;
	bool no_summaries; /* the last ones could not be written, which has been told */
};

enum consistency { SESSION_UNKNOWN, SESSION_ASYNCHRONOUS, SESSION_BOUNDED, SESSION_SYNCHRONOUS };

/* ---- config.c ---- */

enum consistency session_consistency(const struct session_config *c);
bool session_is_local(const struct session_config *config);
/* Worker 0, which makes what is not there, writes summaries and has checkpoints written. */
static inline bool session_is_chief(const struct session_config *config)
{
	return config->task_index == 0 && !config->evaluator;
}
void session_set_defaults(struct session_config *c);
/* How many PS tasks there are; 0: the worker's file cannot be read. */
uint32_t session_count_tasks(const char *ps, struct star_error *err);

/* ---- session.c ---- */

bool session_may_come_back(int code);
/* One step of a flight, by the calling thread. */
int session_make_step(struct session *s, struct flight *f, uint64_t until_ns, struct star_error *err);

/*
 * The number by which tables count the local step `number` (rates, decays, rows' lives): that of the job, by its
 * counter on the PS tasks as this worker last saw it, and its own steps since. A graph that adds nothing to the counter
 * counts by where it stands; one without by this session's own steps.
 */
static inline uint64_t session_count_steps(const struct session *s, uint64_t number)
{
	if (!s->counter.name)
		return number;
	return s->counter.value + (s->counter.adds ? number - s->counter.local : 0);
}

/* ---- flight.c ---- */

int train_flights_init(struct session *s, struct star_error *err);
/* Once the session is connected. */
int train_flights_start(struct session *s, struct star_error *err);
void train_flights_fini(struct session *s);

static inline struct flight *flights_at(struct session *s, uint32_t place)
{
	return &s->flights[(s->oldest + place) % s->config.steps_in_flight];
}

/* The next step, which waits. There is a flight free. */
void train_flights_add(struct session *s, const struct graph_tensor *feeds);
/* The session was connected again: none runs, and `value` is what the counter of steps has. */
void train_flights_recount(struct session *s, uint64_t value);
/* Starts those that may be. */
void train_flights_go(struct session *s);
/* Until the oldest one has ended: 0, or what it failed with. What was not started is made by the caller. */
int train_flights_await(struct session *s, uint64_t until_ns, struct star_error *err);
/* Until none runs. */
void train_flights_settle(struct session *s);
bool train_flights_have_failed(struct session *s);
/* What the done ones have is theirs, and not their runs' any more. */
int train_flights_keep(struct session *s, struct star_error *err);
/* Of those that have settled: makes those again that failed, by the calling thread, until one fails or has failed with
 * what does not come back. */
void train_flights_again(struct session *s, uint64_t until_ns);
/* The oldest one, which is done: it is not in flight any more. */
struct flight *train_flights_take(struct session *s);
/* Nothing is in flight then. 0, or what the oldest that failed did. */
int train_flights_drop(struct session *s, struct star_error *err);

/* ---- connect.c ---- */

/* What is moved to PS tasks, besides reads and updates: what lite would; nothing; not even what has their device. */
enum session_moves { SESSION_OFFLOADS, SESSION_NO_OFFLOAD, SESSION_WORKER_ONLY };
/* Until there is a cluster, a PS task counts as one reactor. */
int session_make_cut(struct session *s, enum session_moves moves, struct star_error *err);
/* The counter of steps that the graph has. */
void session_find_counter(struct session *s);
void session_tell_warnings(const struct graph_cut *cut);
/* Opens the cluster, makes what the graph needs there, and a plan: until until_ns at most. */
int session_connect(struct session *s, uint64_t until_ns, struct star_error *err);
void session_disconnect(struct session *s);

#endif
