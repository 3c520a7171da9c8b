/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Synchronous steps, after TensorFlow's SyncReplicasOptimizer: in each round workers compute gradients from the same
 * parameters; those of the first `wait_for` workers are summed up on the PS tasks (STAR_ACCUMULATE), and their mean is
 * applied once (STAR_COMMIT). The others are backup workers: what comes later is dropped, and its worker goes on with
 * the next round.
 *
 * A table, "<job>/rounds", has in row 0 the present round: the tag of its sums, the steps made before it, the global
 * step, and how many gradients it takes; and in the row of each tag how many workers have taken a ticket, and how many
 * of them have pushed all their gradients. Adding to a row and reading it is one operation, so that tickets are given
 * once. The lowest worker that lives leads (session/peers.h): when all gradients are there, it commits the sums, and
 * writes the next round into row 0. Where a worker has died between its ticket and its last gradient, or ended and is
 * missed, it has the sums thrown away, and the same step is made again under the next tag.
 *
 * Any of them may die or stand still between two calls, and any number of them lead at once. Whether a round is
 * committed or thrown away is decided in one place, the reactor that has the round's row: the table has sums of its own
 * with the same tags, and in them, for that row, stands what the round was opened with. They are committed or thrown
 * away before all others. The first one decides; whoever comes later changes nothing, reads in the row which of both it
 * was, and does the same with all other sums: nodes commit a tag once, refuse what is older than they are, and finish
 * what was begun. The next round is written when that is done everywhere. A leader that wakes up late may write an old
 * round into row 0; but each one also writes what it has begun into a row of its own, whose latest is the present one.
 *
 * A worker that stood still learns from its round's row whether what it has brought was applied. Rows of committed
 * rounds are deleted soon, those of rounds that were thrown away are kept for many rounds: so what has no row was
 * applied.
 *
 * How gradients are divided (mean_by_row), how many a round takes, and at which rate they are applied is the leader's
 * word for all, so all must have been told the same. Who connects looks first whether others live who were told
 * otherwise (train_peers_join), and fails; and no worker takes a ticket of a round, or goes on with it, whose leader
 * was.
 *
 * What is not promised: a node that is restarted has lost its sums, and perhaps a round's row, with what was decided.
 * Then what of the step is not yet applied is thrown away, also where other nodes have applied their part of it. And a
 * leader that stood still for longer than its lease before it calls `boundary`, or in it, does so while others go on.
 *
 * Threads: one at a time, but for train_sync_admit.
 */
#ifndef TRAIN_SYNC_H
#define TRAIN_SYNC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "train/peers.h"
#include "train/remote.h"

enum { SYNC_ROW = 5 };

struct sync_options {
	const char *job;
	uint32_t index, workers, wait_for;
	uint64_t lease_us, deadline_us;
	bool by_row; /* remote_options.mean_by_row: the same for all workers of a job */
	/* The leader's, between two steps: all nodes have the parameters of this one. */
	void (*boundary)(void *arg, uint64_t global_step);
	void *arg;
};

struct sync_round {
	uint64_t tag; /* 0: none yet */
	uint64_t step, global_step;
	uint32_t need; /* gradients */
	bool by_row;   /* as its leader has it */
};

struct sync {
	struct sync_options options;
	struct star_cluster *cluster;
	struct peers *peers;
	const struct remote_update *updates;
	uint32_t updates_count;
	struct star_table *table;
	struct sync_round round;    /* that this worker is at */
	bool fresh;		    /* since it is connected it has not led */
	uint64_t applied;	    /* the tag of the last round that it knows to be committed */
	uint64_t given_up;	    /* the tag of a round in which a step of this worker failed with its ticket taken */
	uint64_t dropped, repeated; /* steps: whose gradients came too late; that were made again */
	/* the row of the round, and since when it is so */
	double tickets, done;
	uint64_t moved_ns, looked_ns;

	pthread_mutex_t lock; /* of what follows: a step's parts are begun by several threads */
	bool asked, admitted, counts, late, counted;
	bool unsure; /* what became of the ticket */
};

void train_sync_init(struct sync *sync, const struct sync_options *options);
void train_sync_fini(struct sync *sync);

/* Connected, or connected again; what is given must stay until the next time. 0 or a negative errno. */
int train_sync_attach(struct sync *sync, struct star_cluster *cluster, struct peers *peers,
		      const struct remote_update *updates, uint32_t updates_count, struct star_error *err);

/* Goes to the present round; waits for one that this worker has not tried in vain yet. 0; -ETIME at until_ns; what a
 * call failed with. */
int train_sync_begin(struct sync *sync, uint64_t until_ns, struct star_error *err);

/* What tables count the step of the present round by: the counter of steps on the PS tasks, and this step; without a
 * counter the rounds. */
uint64_t train_sync_step(const struct sync *sync);

/* remote_options.admit and .refused: in the step. */
int train_sync_admit(void *sync, struct remote_round *round, struct star_error *err);
void train_sync_refused(void *sync);

/* After the step: waits for the round's end. 1: it was committed; 0: the same step is to be made again; as
 * train_sync_begin. */
int train_sync_end(struct sync *sync, uint64_t until_ns, struct star_error *err);

/* The step has failed. */
void train_sync_failed(struct sync *sync);

#endif
