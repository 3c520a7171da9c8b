/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Synchronous steps, after TensorFlow's SyncReplicasOptimizer. In each round, workers compute gradients from the same
 * parameters; those of the first `wait_for` workers are summed on the PS tasks (STAR_ACCUMULATE), and their mean is
 * applied once (STAR_COMMIT). The others are backup workers: their gradients are late and dropped, and they continue
 * with the next round.
 *
 * A table, "<job>/rounds", has in row 0 the current round: the tag of its sums, the number of steps before it, the
 * global step, and how many gradients it takes. The row of each tag counts the workers that have taken a ticket, and
 * those that have pushed all their gradients. Adding to a row and reading it is one operation, so each ticket is given
 * once. The live worker with the lowest index is the leader (train/peers.h): when all gradients have arrived, it
 * commits the sums, and writes the next round into row 0. If a worker has died between its ticket and its last
 * gradient, or has ended and is missing, the leader has the sums discarded, and the same step is repeated with the next
 * tag.
 *
 * Any worker may die or stop between two calls, and several may act as the leader at once. Whether a round commits or
 * aborts is decided in one place, the reactor that has the round's row: the table has sums of its own with the same
 * tags, and the sum for that row contains what the round was opened with. It is committed or discarded before all
 * others. The first request decides. A later one changes nothing; its worker reads the decision in the row, and does
 * the same with all other sums: nodes commit a tag once, refuse older tags, and finish what was begun. The next round
 * is written when that is done everywhere. A leader that resumes late may write an old round into row 0; but each
 * leader also writes what it has begun into a row of its own, and the latest of these is the present round.
 *
 * A worker that was stopped learns from its round's row whether its gradients were applied. Rows of committed rounds
 * are deleted soon; those of aborted rounds are kept for many rounds. So gradients of a round without a row were
 * applied.
 *
 * The leader's settings for dividing gradients (mean_by_row), for the number of gradients per round and for the rate
 * apply to all workers, so all must have the same. A worker that connects first checks whether live workers have others
 * (train_peers_join), and fails in that case; and no worker takes a ticket of a round, or continues with it, whose
 * leader has other settings.
 *
 * Not promised: a restarted node has lost its sums, and perhaps a round's row with the decision. Then the parts of the
 * step that are not applied yet are discarded, even if other nodes have applied theirs. And a leader that was stopped
 * for longer than its lease before or in `boundary` executes it while others continue.
 *
 * Threads: one at a time, except for train_sync_admit.
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
	bool by_row; /* remote_options.mean_by_row: must be the same for all workers of a job */
	/* Called by the leader between two steps, when all nodes have the parameters of this step. */
	void (*boundary)(void *arg, uint64_t global_step);
	void *arg;
};

struct sync_round {
	uint64_t tag; /* 0: no round yet */
	uint64_t step, global_step;
	uint32_t need; /* gradients */
	bool by_row;   /* its leader's setting */
};

struct sync {
	struct sync_options options;
	struct star_cluster *cluster;
	struct peers *peers;
	const struct remote_update *updates;
	uint32_t updates_count;
	struct star_table *table;
	struct sync_round round;    /* this worker's current round */
	bool fresh;		    /* it has not led since it connected */
	uint64_t applied;	    /* the tag of the last round that it knows to be committed */
	uint64_t given_up;	    /* the tag of a round in which a step of this worker failed with its ticket taken */
	uint64_t dropped, repeated; /* steps whose gradients were late; steps that were repeated */
	/* the round's row, and since when it has these values */
	double tickets, done;
	uint64_t moved_ns, looked_ns;

	pthread_mutex_t lock; /* protects what follows: several threads start the parts of a step */
	bool asked, admitted, counts, late, counted;
	bool unsure; /* whether the ticket was taken is unknown */
};

void train_sync_init(struct sync *sync, const struct sync_options *options);
void train_sync_fini(struct sync *sync);

/* To be called after connecting, and after each reconnection; the arguments must stay valid until the next call. 0 or a
 * negative errno. */
int train_sync_attach(struct sync *sync, struct star_cluster *cluster, struct peers *peers,
		      const struct remote_update *updates, uint32_t updates_count, struct star_error *err);

/* Goes to the current round; waits for one in which this worker has not failed yet. 0; -ETIME at until_ns; or the error
 * of a call. */
int train_sync_begin(struct sync *sync, uint64_t until_ns, struct star_error *err);

/* The number by which tables count the step of the current round: the counter of steps on the PS tasks, including this
 * step; without a counter, the number of rounds. */
uint64_t train_sync_step(const struct sync *sync);

/* remote_options.admit and .refused, called during the step. */
int train_sync_admit(void *sync, struct remote_round *round, struct star_error *err);
void train_sync_refused(void *sync);

/* After the step: waits for the round's end. 1: it was committed; 0: the same step has to be repeated; errors as
 * train_sync_begin. */
int train_sync_end(struct sync *sync, uint64_t until_ns, struct star_error *err);

/* The step has failed. */
void train_sync_failed(struct sync *sync);

#endif
