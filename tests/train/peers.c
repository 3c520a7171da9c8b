/* SPDX-License-Identifier: BSD-3-Clause */
/* How far a worker may be ahead of others: the source under test, a table of their rows, and a clock that the test
 * moves. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "client/star.h"
#include "train/peers.h"
#include "tests/train/cases.h"
#include "tests/unit.h"

enum { WORKERS = 3, LEASE_US = 1000000, STALENESS = 2 };

/* Beats and clocks, by worker. The first one is the worker that is tested, whose thread writes it, too. */
static double rows[(1 + 3 + 6) * PEERS_MAX][2]; /* and their settings, and where they run */
static pthread_mutex_t rows_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sim_ns;

/* What happens before the own row is read: of another process that is this worker, say. */
static struct {
	uint64_t ns;
	unsigned beats_at, pulls;
} meanwhile;

static uint64_t sim_clock_ns(void)
{
	return sim_ns;
}

static int sim_execute(struct star_cluster *cluster, struct star_op *op, uint32_t count, uint64_t deadline_us,
		       struct star_error *err)
{
	(void)cluster;
	(void)count;
	(void)deadline_us;
	(void)err;
	pthread_mutex_lock(&rows_lock);
	for (size_t i = 0; i < op->count; i++)
		memcpy(rows[op->keys[i]], (const double *)op->values + 2 * i, sizeof(rows[0]));
	pthread_mutex_unlock(&rows_lock);
	return 0;
}

static int sim_pull(struct star_table *table, const uint64_t *keys, uint32_t count, void *values, uint32_t flags,
		    uint64_t deadline_us, struct star_error *err)
{
	(void)table;
	(void)flags;
	(void)deadline_us;
	(void)err;
	pthread_mutex_lock(&rows_lock);
	sim_ns += meanwhile.ns;
	rows[0][0] += ++meanwhile.pulls == meanwhile.beats_at;
	for (uint32_t i = 0; i < count; i++)
		memcpy((double *)values + 2 * (size_t)i, rows[keys[i]], sizeof(rows[0]));
	pthread_mutex_unlock(&rows_lock);
	return 0;
}

static struct star_table *sim_table_create(struct star_cluster *cluster, const struct star_spec *spec,
					   uint64_t deadline_us, struct star_error *err)
{
	static int table;

	(void)cluster;
	(void)spec;
	(void)deadline_us;
	(void)err;
	return (struct star_table *)&table;
}

#define star_execute sim_execute
#define star_pull sim_pull
#define star_table_create sim_table_create
#define clock_ns sim_clock_ns
#include "lib/train/peers.c"

static struct peers *open_peers(uint64_t clock)
{
	struct star_error err = { 0 };

	memset(rows, 0, sizeof(rows));
	sim_ns = 1;
	return train_peers_open(
		&(struct peers_options){ .job = "job", .count = WORKERS, .lease_us = LEASE_US, .clock = clock }, &err);
}

static void set(unsigned worker, double clock)
{
	rows[worker][BEAT]++;
	rows[worker][CLOCK] = clock;
}

/* Makes as many steps as it may, up to a number, and gives its clock. */
static uint64_t run(struct peers *p, uint64_t clock, uint64_t most)
{
	struct star_error err = { 0 };

	for (uint64_t i = 0; i < most; i++) {
		const int rc = train_peers_await(p, STALENESS, &clock, sim_ns, &err);

		if (rc < 0) {
			CHECK_INT(rc, -ETIME);
			return clock;
		}
		CHECK_INT(train_peers_set_clock(p, ++clock, &err), 0);
	}
	return clock;
}

static void tell(unsigned worker, enum peers_setting setting, double value)
{
	rows[(1 + setting / 2) * PEERS_MAX + worker][setting % 2] = value;
}

static struct peers *open_told(void)
{
	struct star_error err = { 0 };

	memset(rows, 0, sizeof(rows));
	sim_ns = 1;
	return train_peers_open(&(struct peers_options){ .job = "job",
							 .count = WORKERS,
							 .lease_us = LEASE_US,
							 .settings = { 3, WORKERS, 2, 1, 0.5, 77 } },
				&err);
}

/* A worker of this index that beats is alive, and one that does not is dead. Nothing is written before. */
void an_index_is_of_one_worker(void)
{
	struct peers_options options = { .job = "job", .count = WORKERS, .lease_us = LEASE_US };
	static const struct {
		double beat, clock;
		unsigned beats_at, pulls;
		bool again;
	} cases[] = {
		{ 0, 0, 0, 1, false },		/* there was none */
		{ 5, CLOCK_DONE, 0, 1, false }, /* it has ended */
		{ 5, 3, 0, 1, true },		/* it was this one */
		{ 5, 3, 0, 5, false },		/* it is dead: a quarter of a lease, 50 ms each */
		{ 5, 3, 4, 5, false },		/* it is alive; and it is asked where */
	};
	struct star_error err = { 0 };
	struct peers *p;

	/* As this one writes it. */
	memset(rows, 0, sizeof(rows));
	sim_ns = 1;
	p = train_peers_open(&options, &err);
	CHECK(p != NULL);
	train_peers_close(p, false);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const bool lives = cases[i].beats_at != 0;

		rows[0][BEAT] = cases[i].beat;
		rows[0][CLOCK] = cases[i].clock;
		rows[PEERS_MAX][0] = 77;
		meanwhile.ns = 50000000;
		meanwhile.beats_at = cases[i].beats_at;
		meanwhile.pulls = 0;
		options.again = cases[i].again;
		p = train_peers_open(&options, &err);
		CHECK_UINT(meanwhile.pulls, cases[i].pulls);
		meanwhile.ns = meanwhile.beats_at = 0;
		CHECK_INT(p == NULL, lives);
		CHECK_INT(rows[PEERS_MAX][0] == 77, lives); /* its settings */
		train_peers_close(p, false);
	}
	CHECK_INT(err.code, -EADDRINUSE);
	CHECK_HAS(err.text, "worker 0 of job \"job\" is alive already (");
	CHECK_HAS(err.text, ", process ");
	CHECK_HAS(err.text, "give each worker an index of its own, or end that one");
	/* What is there of where it runs may be anything. */
	for (unsigned i = 0; i < 6; i++)
		rows[(1 + 3 + i) * PEERS_MAX][0] = rows[(1 + 3 + i) * PEERS_MAX][1] = i % 2 ? 0x1p47 + 7 : -1e300;
	rows[0][BEAT] = 5;
	meanwhile.ns = 50000000;
	meanwhile.beats_at = 3;
	meanwhile.pulls = 0;
	options.again = false;
	CHECK(train_peers_open(&options, &err) == NULL);
	CHECK_HAS(err.text, "(its location is unknown)");
	meanwhile.ns = meanwhile.beats_at = 0;
}

/* Each setting has its name and both values in the message; also of workers of which this one knows nothing. */
void a_worker_sees_who_was_told_otherwise(void)
{
	static const struct {
		enum peers_setting setting;
		unsigned worker;
		double value;
		const char *said;
	} cases[] = {
		{ PEERS_CONSISTENCY, 1, 2, "this worker has consistency = synchronous, and worker 1 has ssp: it must" },
		{ PEERS_WORKERS, 2, 5, "this worker has workers = 3, and worker 2 has 5: it must be the same for all" },
		{ PEERS_WORKERS, 4, 5, "this worker has workers = 3, and worker 4 has 5" },
		{ PEERS_GRADS_TO_WAIT, 1, 3, "this worker has grads_to_wait = 2, and worker 1 has 3" },
		{ PEERS_MEAN_BY_ROW, 1, 2, "this worker has mean_by_row = false, and worker 1 has true" },
		{ PEERS_RATE, 1, 0.25, "this worker has rate = 0.5, and worker 1 has 0.25: it must be the same" },
		{ PEERS_RATES, 1, 78, "(their hash) = 000000000004d, and worker 1 has 000000000004e" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct star_error err = { 0 };
		struct peers *p = open_told();

		if (!CHECK(p))
			return;
		CHECK_INT(train_peers_join(p, 0, &err), 0);
		tell(cases[i].worker, cases[i].setting, cases[i].value);
		CHECK_INT(train_peers_check(p, &err), 0); /* it has not begun */
		set(cases[i].worker, 0);
		CHECK_INT(train_peers_check(p, &err), -EINVAL);
		CHECK_HAS(err.text, cases[i].said);
		CHECK_HAS(err.text, "of job \"job\"");
		rows[cases[i].worker][CLOCK] = CLOCK_DONE;
		CHECK_INT(train_peers_check(p, &err), 0);
		set(cases[i].worker, 0);
		tell(cases[i].worker, cases[i].setting, 0); /* it says nothing of it */
		CHECK_INT(train_peers_check(p, &err), 0);
		train_peers_close(p, true);
	}
}

/* A worker whose beat was not seen to change may be of an earlier run. */
void who_only_seems_to_live_may_be_of_a_run_before(void)
{
	struct peers *p = open_told();
	struct star_error err = { 0 };

	if (!CHECK(p))
		return;
	rows[1][BEAT] = 5;
	tell(1, PEERS_RATE, 0.25);
	CHECK_INT(train_peers_check(p, &err), 0);
	CHECK_INT(train_peers_join(p, sim_ns, &err), -EINVAL); /* no time to wait */
	CHECK_HAS(err.text, "this worker has rate = 0.5, and worker 1 has 0.25");
	sim_ns += LEASE_US * UINT64_C(1000);
	CHECK_INT(train_peers_check(p, &err), 0);
	CHECK_INT(train_peers_join(p, sim_ns, &err), 0);
	rows[1][BEAT] = 6;
	CHECK_INT(train_peers_check(p, &err), -EINVAL);
	tell(1, PEERS_RATE, 0.5); /* its place is another one's now */
	rows[1][BEAT] = 7;
	CHECK_INT(train_peers_check(p, &err), 0);
	train_peers_close(p, true);
}

/* Each that lives is at 5 when the worker begins at 5, and does nothing then. */
void a_worker_is_so_many_steps_ahead_at_most(void)
{
	struct peers *p = open_peers(5);

	if (!CHECK(p))
		return;
	set(1, 5);
	set(2, 7);
	CHECK_UINT(run(p, 5, 100), 5 + STALENESS + 1);
	set(1, 6);
	CHECK_UINT(run(p, 8, 100), 6 + STALENESS + 1);
	set(1, 100);
	CHECK_UINT(run(p, 9, 100), 7 + STALENESS + 1);
	train_peers_close(p, true);
}

/* Those that have died, or ended, and start again: when it was alone it does not go on as if it were so for ever. */
void a_worker_that_was_alone_sees_others_come_back(void)
{
	static const double before[] = { 5, CLOCK_DONE };

	for (unsigned i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		struct peers *p = open_peers(5);
		uint64_t clock;

		if (!CHECK(p))
			return;
		set(1, before[i]);
		set(2, before[i]);
		clock = run(p, 5, 1);
		sim_ns += LEASE_US * UINT64_C(2000);
		clock = run(p, clock, 1000);
		CHECK(clock >= 1000);
		set(1, (double)clock);
		CHECK(run(p, clock, 1000) <= clock + STALENESS + 1);
		train_peers_close(p, true);
	}
}

/* It goes on with the clock of the slowest one, and waits for it. */
void a_worker_that_comes_late_goes_on_with_the_slowest(void)
{
	struct peers *p = open_peers(0);

	if (!CHECK(p))
		return;
	set(1, 40);
	set(2, 50);
	CHECK_UINT(run(p, 0, 1), 41);
	CHECK_UINT(run(p, 41, 100), 40 + STALENESS + 1);
	train_peers_close(p, true);
}

/* The last worker of as many as there may be sees those next to it; one that knows of few sees what many were told. */
void a_job_has_as_many_workers_as_it_may(void)
{
	const struct peers_options many = {
		.job = "job", .index = PEERS_MAX - 1, .count = PEERS_MAX, .lease_us = LEASE_US, .clock = 5
	};
	struct star_error err = { 0 };
	struct peers *p;

	memset(rows, 0, sizeof(rows));
	sim_ns = 1;
	p = train_peers_open(&many, &err);
	if (!CHECK(p))
		return;
	sim_ns += LEASE_US * UINT64_C(2000); /* nobody else has begun */
	CHECK_UINT(run(p, 5, 10), 15);
	set(PEERS_MAX - 2, 14);
	CHECK_UINT(run(p, 15, 100), 14 + STALENESS + 1);
	train_peers_close(p, true);
	p = open_told();
	if (!CHECK(p))
		return;
	set(PEERS_LOOK_MIN - 1, 3);
	for (unsigned i = 0; i < PEERS_SETTINGS; i++)
		rows[(1 + i / 2) * PEERS_MAX + PEERS_LOOK_MIN - 1][i % 2] = i == PEERS_WORKERS ? PEERS_MAX : 0;
	train_peers_check(p, &err);
	set(PEERS_LOOK_MIN - 1, 4);
	CHECK_INT(train_peers_check(p, &err), -EINVAL);
	CHECK_HAS(err.text, "worker 4095 has 65536");
	train_peers_close(p, true);
}
