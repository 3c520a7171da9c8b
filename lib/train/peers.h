/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the workers of a job know of each other, by a table on the PS tasks, "<job>/workers". In row i, worker i keeps a
 * heartbeat, which a thread of its own changes all the time, and its clock, the number of steps that it has made. A
 * worker counts as dead if its heartbeat has not changed for a lease, by the clock of the worker that reads it, so
 * clocks of different machines need not agree. A worker that finishes normally says so, and nobody waits for it.
 *
 * Bounded staleness (Ho, Cipar et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server,
 * NIPS 2013): train_peers_await.
 *
 * Threads: one at a time, besides the heartbeat thread; the cluster must outlive both.
 */
#ifndef TRAIN_PEERS_H
#define TRAIN_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "star_error.h"

/* The maximum number of workers of a job; and the number of rows that a worker reads at least when it joins, even if it
 * expects fewer workers: if another worker expects more of them, some are among these. */
enum { PEERS_MAX = 65536, PEERS_LOOK_MIN = 4096 };

struct peers;
struct star_cluster;

/* Settings that must be the same for all workers of a job that wait for each other. Their rows contain them. 0: the
 * setting does not matter here. */
enum peers_setting {
	PEERS_CONSISTENCY, /* enum consistency */
	PEERS_WORKERS,
	PEERS_GRADS_TO_WAIT,
	PEERS_MEAN_BY_ROW, /* how gradients are divided: 1: by grads_to_wait, 2: by row */
	PEERS_RATE,	   /* of the graph's updates; the mean if there are several, and ... */
	PEERS_RATES,	   /* ... a hash of them */
	PEERS_SETTINGS,
};

struct peers_options {
	struct star_cluster *cluster;
	const char *job;
	uint32_t index, count; /* index of this worker, and the number of workers: up to PEERS_MAX */
	uint64_t lease_us, deadline_us;
	uint64_t clock; /* number of steps that this worker has made */
	double settings[PEERS_SETTINGS];
	bool again; /* this process has been this worker before: what is there of it is its own */
};

/*
 * Creates the table if needed, writes the first heartbeat, and starts the heartbeat thread. NULL with err. -EADDRINUSE:
 * a live worker has this index; the message says where, and nothing was written. A worker of that index that has not
 * ended, and may have died, is watched for a quarter of a lease before its place is taken.
 */
struct peers *train_peers_open(const struct peers_options *options, struct star_error *err);
/* done: this worker has made its last step, and nobody needs to wait for it. NULL is allowed. */
void train_peers_close(struct peers *peers, bool done);

/* Tells the others how many steps this worker has made. 0, or the error of the call. */
int train_peers_set_clock(struct peers *peers, uint64_t clock, struct star_error *err);

/* Reads all rows. 0, or the error of the call. */
int train_peers_look(struct peers *peers, struct star_error *err);

/* As of the last read: whether a worker is alive and has not finished. A worker that has not started yet counts as
 * alive for a lease. */
bool train_peers_lives(const struct peers *peers, uint32_t index);
/* Whether it has finished. If it had finished before this worker started, that does not count for a lease: it may be of
 * the job's last run. */
bool train_peers_ended(const struct peers *peers, uint32_t index);
/* Reads the rows of all live workers, however many this one expects. -EINVAL if another one was seen alive with
 * different settings: the message says which, and both values. 0 if not; or the error of a call. */
int train_peers_check(struct peers *peers, struct star_error *err);
/* The same before the first step; later calls return 0 at once. A worker that only seems alive may be of the job's last
 * run, which is known after a lease: waits for that, until until_ns. */
int train_peers_join(struct peers *peers, uint64_t until_ns, struct star_error *err);
/* Whether any worker of another job is alive, that is, writes heartbeats; workers that have finished do not count. 1 or
 * 0; or the error of a call. */
int train_peers_job_lives(const struct peers_options *options, const char *job, struct star_error *err);
/* The lowest clock of all other live workers, and whose it is; UINT64_MAX: there are none. */
uint64_t train_peers_slowest(const struct peers *peers, uint32_t *index);

/*
 * Waits until no live worker is more than `staleness` steps behind *clock, the number of steps that this one has made;
 * with 0 all steps are made together. The wait ends when those that are behind have caught up, or a lease after they
 * have died. A worker that was considered dead, or joins late, finds the others further ahead than a live worker
 * allows: it continues with the clock of the slowest of them. It may remain that far behind for `staleness` more steps,
 * until the others read its row again. The step in which it was stopped counts, however late it is. -ETIME at until_ns
 * (by clock_ns), or the error of a call.
 */
int train_peers_await(struct peers *peers, uint64_t staleness, uint64_t *clock, uint64_t until_ns,
		      struct star_error *err);

/* Waits between two reads: from 100 us to 10 ms, twice as long each time. *pause_us starts as 0. train_peers_quiet says
 * every 5 s (*told_ns, which starts as 0) that it is time to report what is waited for. */
void train_peers_pause(unsigned *pause_us);
bool train_peers_quiet(uint64_t *told_ns);

#endif
