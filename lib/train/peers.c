/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/peers.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "client/star.h"

enum {
	BEAT, /* below 0: its worker has by_row; 0: there was none yet */
	CLOCK,
	ROW, /* elements */
	BEATS_A_LEASE = 8,
	PAUSE_MIN_US = 100,
	PAUSE_MAX_US = 10000,
	TELL_S = 5,
	NAME_BYTES = 128,
};

/* The clock of a worker that has ended: the largest whole number up to which a double has all. */
#define CLOCK_DONE 0x1p53

struct peer {
	double beat, clock;
	uint64_t moved_ns; /* when the beat was first seen as it is */
	bool seen;	   /* to change */
};

struct peers {
	struct peers_options options;
	struct star_table *table;
	struct peer *peers;
	uint64_t *keys;
	double *rows;
	uint64_t opened_ns, looked_ns;
	uint64_t slowest; /* as of the last look; if no other one lived, this one was it: others may have come since */

	pthread_t thread;
	pthread_mutex_t lock; /* of what follows, and of the own row */
	pthread_cond_t ends;
	bool over;
	double clock, beat;
};

/* Under the lock, so that an older clock does not follow a newer one. The beat is not the same again in another life of the process. */
static int write_own(struct peers *p, struct star_error *err)
{
	const uint64_t key = p->options.index;
	struct timespec now;
	double row[ROW], beat;

	clock_gettime(CLOCK_REALTIME, &now);
	beat = (double)now.tv_sec * 1e6 + (double)(now.tv_nsec / 1000);
	p->beat = beat > p->beat ? beat : p->beat + 1;
	row[BEAT] = p->options.by_row ? -p->beat : p->beat;
	row[CLOCK] = p->clock;
	return star_execute(p->options.cluster,
			    &(struct star_op){
				    .kind = STAR_ASSIGN, .table = p->table, .keys = &key, .count = 1, .values = row },
			    1, p->options.deadline_us, err);
}

/* What a beat fails with, the next step's calls will fail with, too. */
static void *beat(void *arg)
{
	struct peers *p = arg;
	const uint64_t pause_ns = p->options.lease_us * 1000 / BEATS_A_LEASE;
	struct star_error ignored;

	pthread_mutex_lock(&p->lock);
	while (!p->over) {
		const struct timespec until = clock_timespec(clock_ns() + pause_ns);

		if (pthread_cond_timedwait(&p->ends, &p->lock, &until) == ETIMEDOUT && !p->over)
			write_own(p, &ignored);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static int make_table(struct peers *p, struct star_error *err)
{
	char name[NAME_BYTES];
	struct star_spec spec = {
		.name = name, .dtype = "float64", .dim = ROW, .initializer = "zeros", .optimizer = "sgd", .rate = 1
	};

	if ((size_t)snprintf(name, sizeof(name), "%s/workers", p->options.job) >= sizeof(name))
		return star_error_set(err, -EINVAL, "the job's name is too long: %.40s...", p->options.job);
	p->table = star_table_create(p->options.cluster, &spec, p->options.deadline_us, err);
	return p->table ? 0 : err->code;
}

static void release(struct peers *p)
{
	pthread_cond_destroy(&p->ends);
	pthread_mutex_destroy(&p->lock);
	free(p->peers);
	free(p->keys);
	free(p->rows);
	free(p);
}

static int start(struct peers *p, struct star_error *err)
{
	int rc;

	if (!p->peers || !p->keys || !p->rows)
		return star_error_set(err, -ENOMEM, "no memory for %u workers", p->options.count);
	for (uint32_t i = 0; i < p->options.count; i++) {
		p->keys[i] = i;
		p->peers[i].moved_ns = clock_ns();
	}
	rc = make_table(p, err);
	if (rc == 0)
		rc = write_own(p, err);
	if (rc == 0 && (rc = pthread_create(&p->thread, NULL, beat, p)) != 0)
		rc = star_error_set(err, -rc, "no thread for the beats of a worker");
	return rc;
}

struct peers *peers_open(const struct peers_options *options, struct star_error *err)
{
	struct peers *p = calloc(1, sizeof(*p));

	if (!p) {
		star_error_set(err, -ENOMEM, "no memory for a session");
		return NULL;
	}
	p->options = *options;
	p->clock = (double)options->clock;
	p->opened_ns = clock_ns();
	p->peers = calloc(options->count, sizeof(*p->peers));
	p->keys = calloc(options->count, sizeof(*p->keys));
	p->rows = calloc((size_t)options->count * ROW, sizeof(*p->rows));
	pthread_mutex_init(&p->lock, NULL);
	clock_condition_init(&p->ends);
	if (start(p, err) < 0) {
		release(p);
		return NULL;
	}
	return p;
}

void peers_close(struct peers *p, bool done)
{
	struct star_error ignored;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->over = true;
	pthread_cond_signal(&p->ends);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	p->clock = CLOCK_DONE;
	if (done) /* if it does not arrive, others wait for a lease */
		write_own(p, &ignored);
	release(p);
}

int peers_set_clock(struct peers *p, uint64_t clock, struct star_error *err)
{
	int rc;

	pthread_mutex_lock(&p->lock);
	p->clock = (double)clock;
	rc = write_own(p, err);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

int peers_look(struct peers *p, struct star_error *err)
{
	const int rc =
		star_pull(p->table, p->keys, p->options.count, p->rows, STAR_READ_ONLY, p->options.deadline_us, err);
	const bool first = p->looked_ns == 0;
	const uint64_t now_ns = clock_ns();

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < p->options.count; i++) {
		const double *row = p->rows + (size_t)i * ROW;
		struct peer *peer = &p->peers[i];

		if (row[BEAT] != peer->beat) {
			peer->seen |= !first;
			peer->moved_ns = now_ns;
		}
		peer->beat = row[BEAT];
		peer->clock = row[CLOCK];
	}
	p->looked_ns = now_ns;
	p->slowest = peers_slowest(p, NULL);
	if (p->slowest == UINT64_MAX && p->options.count > 1)
		p->slowest = (uint64_t)p->clock;
	return 0;
}

bool peers_lives(const struct peers *p, uint32_t index)
{
	const struct peer *peer = &p->peers[index];

	return index == p->options.index ||
	       (!(peer->clock >= CLOCK_DONE) && p->looked_ns - peer->moved_ns < p->options.lease_us * 1000);
}

bool peers_ended(const struct peers *p, uint32_t index)
{
	const struct peer *peer = &p->peers[index];

	return index != p->options.index && peer->clock >= CLOCK_DONE &&
	       (peer->seen || p->looked_ns - p->opened_ns >= p->options.lease_us * 1000);
}

enum peers_accord peers_accord(const struct peers *p, uint32_t *index)
{
	enum peers_accord accord = PEERS_AGREE;

	for (uint32_t i = 0; i < p->options.count && accord != PEERS_DIFFER; i++) {
		const struct peer *peer = &p->peers[i];

		if (i == p->options.index || peer->beat == 0 || (peer->beat < 0) == p->options.by_row ||
		    !peers_lives(p, i))
			continue;
		accord = peer->seen ? PEERS_DIFFER : PEERS_MAY_DIFFER;
		*index = i;
	}
	return accord;
}

uint64_t peers_slowest(const struct peers *p, uint32_t *index)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < p->options.count; i++) {
		/* A clock is what a worker wrote, or anybody. */
		const double clock = p->peers[i].clock;
		const uint64_t steps = clock > 0 && clock < CLOCK_DONE ? (uint64_t)clock : 0;

		if (i == p->options.index || !peers_lives(p, i) || steps >= least)
			continue;
		least = steps;
		if (index)
			*index = i;
	}
	return least;
}

void peers_pause(unsigned *pause_us)
{
	struct timespec pause = { 0 };

	*pause_us = *pause_us == 0 ? PAUSE_MIN_US : *pause_us * 2 < PAUSE_MAX_US ? *pause_us * 2 : PAUSE_MAX_US;
	pause.tv_nsec = (long)*pause_us * 1000;
	nanosleep(&pause, NULL);
}

bool peers_quiet(uint64_t *told_ns)
{
	const uint64_t now_ns = clock_ns();

	if (*told_ns == 0)
		*told_ns = now_ns;
	if (now_ns - *told_ns < TELL_S * UINT64_C(1000000000))
		return false;
	*told_ns = now_ns;
	return true;
}

/* Others are further ahead than they may be of a worker that lives. */
static int catch_up(struct peers *p, uint64_t staleness, uint64_t *clock, struct star_error *err)
{
	if (p->slowest == UINT64_MAX || p->slowest <= staleness + 1 || *clock >= p->slowest - staleness - 1)
		return 0;
	*clock = p->slowest;
	return peers_set_clock(p, *clock, err);
}

static bool may_begin(const struct peers *p, uint64_t staleness, uint64_t clock)
{
	return p->looked_ns && (p->slowest >= clock || clock - p->slowest <= staleness);
}

int peers_await(struct peers *p, uint64_t staleness, uint64_t *clock, uint64_t until_ns, struct star_error *err)
{
	uint64_t told_ns = 0;
	unsigned pause_us = 0;

	/* Clocks go forward, and who comes late does so with those of the others: what was enough at the last look is enough now. */
	while (!may_begin(p, staleness, *clock)) {
		uint32_t behind = 0;
		int rc = peers_look(p, err);

		if (rc == 0)
			rc = catch_up(p, staleness, clock, err);
		if (rc < 0)
			return rc;
		if (may_begin(p, staleness, *clock))
			return 0;
		peers_slowest(p, &behind);
		if (clock_ns() >= until_ns)
			return star_error_set(err, -ETIME,
					      "worker %u lives and is at step %" PRIu64 ", this one at %" PRIu64
					      ": the wait for it has lasted too long",
					      behind, p->slowest, *clock);
		if (peers_quiet(&told_ns))
			fprintf(stderr, "step %" PRIu64 ": waiting for worker %u, which is at step %" PRIu64 "\n",
				*clock, behind, p->slowest);
		peers_pause(&pause_us);
	}
	return 0;
}
