/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of a session share: config.c looks at what is asked for, connect.c cuts the graph and reaches PS tasks, session.c makes
 * the steps. One thread. */
#ifndef SESSION_INTERNAL_H
#define SESSION_INTERNAL_H

#include "client/star.h"
#include "session/peers.h"
#include "session/session.h"
#include "session/summary.h"
#include "session/sync.h"

enum { SESSION_HOOKS_MAX = 32, SESSION_NOT_THERE = UINT32_MAX };

/* Where something was done last that is done every so many global steps. */
struct mark {
	uint64_t step, ns;
};

struct session {
	struct session_config config;
	struct session_model model;
	struct session_hook hooks[SESSION_HOOKS_MAX];
	uint32_t hooks_count;
	struct star_cluster *cluster;
	struct graph_cut *cut;
	struct graph_ps *ps;
	struct graph_plan *plan;
	struct graph_run *run;
	struct graph_tensor *results;
	uint32_t step_result, loss_result; /* of the model's; SESSION_NOT_THERE */
	struct summary *summary;
	struct peers *peers; /* NULL: workers do not wait for each other */
	struct sync sync;    /* of a synchronous job */
	uint64_t clock;	     /* steps that the others take this worker to have made */
	uint64_t global_step, local_step;
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

/* ---- connect.c ---- */

/* What is moved to PS tasks, besides reads and updates: what lite would; nothing; not even what has their device. */
enum session_moves { SESSION_MOVES, SESSION_STAYS, SESSION_COMES_HOME };
/* Until there is a cluster, a PS task counts as one reactor. */
int session_make_cut(struct session *s, enum session_moves moves, struct star_error *err);
void session_tell_warnings(const struct graph_cut *cut);
/* Opens the cluster, makes what the graph needs there, and a plan: until until_ns at most. */
int session_connect(struct session *s, uint64_t until_ns, struct star_error *err);
void session_disconnect(struct session *s);

#endif
