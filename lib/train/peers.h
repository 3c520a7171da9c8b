/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the workers of a job know of each other, by a table on the PS tasks, "<job>/workers": in row i worker i keeps a
 * beat, which a thread of its own changes all the time, and its clock, the number of steps that it has made. Whoever
 * looks takes a worker for dead whose beat has not changed for a lease, by the looker's own clock: so clocks of
 * different machines need not agree. A worker that ends in good order says so, and is waited for by nobody.
 *
 * Bounded staleness (Ho, Cipar et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server,
 * NIPS 2013): train_peers_await.
 *
 * Threads: one at a time, beside the thread that beats; the cluster must outlive both.
 */
#ifndef TRAIN_PEERS_H
#define TRAIN_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "star_error.h"

/* Workers of a job; and those that one looks at when it joins, however few it knows of: who believes in more of them
 * has some among these. */
enum { PEERS_MAX = 65536, PEERS_LOOK_MIN = 4096 };

struct peers;
struct star_cluster;

/* What is to be the same for all workers of a job that wait for each other: their rows say it. 0: it does not matter
 * here. */
enum peers_setting {
	PEERS_CONSISTENCY, /* enum consistency */
	PEERS_WORKERS,
	PEERS_GRADS_TO_WAIT,
	PEERS_MEAN_BY_ROW, /* how gradients are divided: 1: no, 2: yes */
	PEERS_RATE,	   /* of the graph's updates; of several the mean, and ... */
	PEERS_RATES,	   /* ... which ones: a hash */
	PEERS_SETTINGS,
};

struct peers_options {
	struct star_cluster *cluster;
	const char *job;
	uint32_t index, count; /* this worker, of this many: up to PEERS_MAX */
	uint64_t lease_us, deadline_us;
	uint64_t clock; /* steps that this worker has made */
	double settings[PEERS_SETTINGS];
};

/* Makes the table if it is not there, beats once, and begins to do so all the time. NULL with err. */
struct peers *train_peers_open(const struct peers_options *options, struct star_error *err);
/* done: this worker has made its last step, and nobody is to wait for it. NULL is allowed. */
void train_peers_close(struct peers *peers, bool done);

/* Tells the others how many steps this worker has made. 0, or what the call failed with. */
int train_peers_set_clock(struct peers *peers, uint64_t clock, struct star_error *err);

/* Looks at all rows. 0, or what the call failed with. */
int train_peers_look(struct peers *peers, struct star_error *err);

/* As of the last look: whether a worker lives and has not ended; a worker that has not begun yet lives for a lease. */
bool train_peers_lives(const struct peers *peers, uint32_t index);
/* Whether it has ended. That it had, before this worker began, does not count for a lease: it may belong to the job's
 * last run. */
bool train_peers_ended(const struct peers *peers, uint32_t index);
/* Looks at all workers that live, how many this one may think there are: -EINVAL when another one was seen to live
 * whose settings differ: which, and both values. 0: nobody was; or what a call failed with. */
int train_peers_check(struct peers *peers, struct star_error *err);
/* The same before the first step; again it is 0 at once. Who only seems to live may be of the job's last run, which is
 * known when a lease is over: waits for that, until until_ns. */
int train_peers_join(struct peers *peers, uint64_t until_ns, struct star_error *err);
/* Whether a worker of another job lives, by its beat within a lease; who has ended does not. 1 or 0; or what a call
 * failed with. */
int train_peers_job_lives(const struct peers_options *options, const char *job, struct star_error *err);
/* The least clock of all that live but this one, and whose it is; UINT64_MAX: there is none. */
uint64_t train_peers_slowest(const struct peers *peers, uint32_t *index);

/*
 * Waits until no worker that lives is more than `staleness` steps behind *clock, the steps that this one has made: 0:
 * all steps are made together. The wait ends when those that are behind have come along, or a lease after they have
 * died. A worker that was taken for dead, or comes late, finds the others further ahead than they may be of one that
 * lives: it goes on with the clock of the slowest of them; so far behind it may be left for `staleness` steps more,
 * until the others look again. The step in which it stood still counts, however late it is. -ETIME at until_ns (by
 * clock_ns), or what a call failed with.
 */
int train_peers_await(struct peers *peers, uint64_t staleness, uint64_t *clock, uint64_t until_ns,
		      struct star_error *err);

/* A wait between two looks: from 100 us to 10 ms, twice as long each time. Begins with *pause_us = 0. Says every 5 s
 * (*told_ns, which begins as 0) what is waited for. */
void train_peers_pause(unsigned *pause_us);
bool train_peers_quiet(uint64_t *told_ns);

#endif
