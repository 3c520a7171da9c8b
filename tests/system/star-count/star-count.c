/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker that counts: star-count PS NAME SEED THREADS [DEADLINE_US [ordered]]. Each of its threads has keys of its
 * own, to which nobody else pushes, and knows at any time what their rows have to be: whatever it pulls, it compares.
 * Calls of all kinds and sizes follow one another, over whatever happens to the nodes, until there is a line or the
 * end on standard input. Then it waits until all is durable, looks at all of its rows, opens the cluster again and
 * looks once more.
 *
 * It prints "ready" when it begins, and in the end a JSON object: what it did, what it found wrong, and when calls took
 * SLOW_US or longer, as pairs of CLOCK_MONOTONIC in microseconds.
 */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "star.h"

enum {
	GROUPS = 4,	    /* of keys that a thread has; a call is for one of them */
	LARGE = GROUPS - 1, /* the one that takes several requests */
	DIM = 2,	    /* elements of a row */
	TOGETHER = 8,	    /* pushes in flight at once */
	AHEAD = 100,	    /* calls of one row in flight at once: more than go to a reactor */
	THREADS_MAX = 8,
	SLOW_US = 20000,
	SLOW_CALLS_MAX = 8192, /* of a thread */
	DISTINCT = 1000,       /* values that are assigned */
	NAP_US_MAX = 30000,
	WRONG_MAX = 700,
	LOOK_MS = 100,
};
static const uint32_t sizes[GROUPS] = { 1, 40, 500, 12000 };

static struct star_cluster *cluster;
static struct star_table *table;
static uint64_t deadline_us = 60000000;
static bool ordered; /* the layout stays as it is: calls in flight do not overtake each other */
static atomic_bool stop;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char wrong[WRONG_MAX]; /* under the lock: the first */
static double lost, doubled;  /* under the lock: how much less, or more, a row was than it had to be */

struct counter {
	pthread_t thread;
	unsigned number, seed;
	double has[GROUPS]; /* each element of the rows of a group */
	uint64_t *keys[GROUPS];
	float *values, *results;
	const char *call;
	uint64_t pushes, calls, unknown, longest_us;
	uint64_t slow[SLOW_CALLS_MAX][2];
	uint32_t slow_calls;
	bool ended;
};

static void say_wrong(struct counter *c, unsigned group, const char *what)
{
	pthread_mutex_lock(&lock);
	if (!wrong[0])
		snprintf(wrong, sizeof(wrong), "thread %u, %u rows, %s, call %llu: %s", c->number, sizes[group],
			 c->call, (unsigned long long)c->calls, what);
	pthread_mutex_unlock(&lock);
	c->ended = true;
	stop = true;
}

static void refused(struct counter *c, unsigned group, const struct star_error *err)
{
	char text[sizeof(err->text) + 40];

	snprintf(text, sizeof(text), "it failed (%d): %s", err->code, err->text);
	say_wrong(c, group, text);
}

static void fill(float *values, unsigned group, double value)
{
	for (uint32_t i = 0; i < DIM * sizes[group]; i++)
		values[i] = (float)value;
}

static void compare(struct counter *c, unsigned group, const float *rows, const char *when)
{
	char text[200];

	for (uint32_t i = 0; i < DIM * sizes[group]; i++) {
		if (rows[i] == (float)c->has[group])
			continue;
		snprintf(text, sizeof(text), "%s element %u is %g, and has to be %g", when, i, (double)rows[i],
			 c->has[group]);
		pthread_mutex_lock(&lock);
		if (rows[i] < c->has[group])
			lost += c->has[group] - rows[i];
		else
			doubled += rows[i] - c->has[group];
		pthread_mutex_unlock(&lock);
		say_wrong(c, group, text);
		return;
	}
}

static struct star_op operation(struct counter *c, enum star_op_kind kind, unsigned group, double value)
{
	struct star_op op = star_op_of(kind, table, c->keys[group], sizes[group]);

	fill(c->values, group, value);
	if (kind != STAR_DELETE)
		op.values = c->values;
	return op;
}

static bool execute(struct counter *c, unsigned group, struct star_op *ops, uint32_t count)
{
	struct star_error err = { 0 };

	if (star_execute(cluster, ops, count, deadline_us, &err) == 0)
		return true;
	refused(c, group, &err);
	return false;
}

static void pull(struct counter *c, unsigned group, const char *when)
{
	struct star_op op = operation(c, STAR_PULL, group, -77);

	op.flags = STAR_READ_ONLY;
	if (execute(c, group, &op, 1))
		compare(c, group, c->values, when);
}

static void push(struct counter *c, unsigned group)
{
	struct star_op op = operation(c, STAR_PUSH, group, -1);

	if (!execute(c, group, &op, 1))
		return;
	c->has[group]++;
	c->pushes++;
}

/* Where the reply is lost the push is there all the same, and libstar says so. */
static void push_pull(struct counter *c, unsigned group)
{
	struct star_op op = operation(c, STAR_PUSH_PULL, group, -1);
	struct star_error err = { 0 };
	int rc;

	op.results = c->results;
	op.flags = rand_r(&c->seed) % 2 ? STAR_AT_ONCE : 0;
	rc = star_execute(cluster, &op, 1, deadline_us, &err);
	if (rc < 0 && err.code != -EREMOTEIO) {
		refused(c, group, &err);
		return;
	}
	c->pushes++;
	c->has[group]++;
	c->unknown += rc < 0;
	if (rc < 0)
		pull(c, group, "when its reply was lost,");
	else
		compare(c, group, c->results, "as it came back,");
}

static void assign(struct counter *c, unsigned group)
{
	const double value = rand_r(&c->seed) % DISTINCT;
	struct star_op op = operation(c, STAR_ASSIGN, group, value);

	if (execute(c, group, &op, 1))
		c->has[group] = value;
}

static void delete (struct counter *c, unsigned group)
{
	struct star_op op = operation(c, STAR_DELETE, group, 0);

	if (execute(c, group, &op, 1))
		c->has[group] = 0;
}

static void push_several(struct counter *c, unsigned group)
{
	struct star_op op = operation(c, STAR_PUSH, group, -1);
	const unsigned count = group == LARGE ? TOGETHER / 2 : TOGETHER;
	struct star_request *requests[TOGETHER];
	struct star_error errors[TOGETHER] = { 0 };

	for (unsigned i = 0; i < count; i++)
		requests[i] = star_execute_async(cluster, &op, 1, deadline_us, NULL, NULL, &errors[i]);
	for (unsigned i = 0; i < count; i++) {
		if (!requests[i] || star_request_wait(requests[i], &errors[i]) < 0) {
			refused(c, group, &errors[i]);
			continue;
		}
		c->has[group]++;
		c->pushes++;
	}
}

/* A pull sees the pushes that were made before it, unless the layout changes meanwhile; and later ones, too, if it was
 * sent again over another connection. */
static void one_row_ahead(struct counter *c, unsigned ignored)
{
	const struct star_op push = operation(c, STAR_PUSH, 0, -1);
	struct star_request *requests[AHEAD];
	struct star_error errors[AHEAD] = { 0 };
	float rows[AHEAD][DIM];
	double least[AHEAD]; /* that a pull may read; -1: it is a push */
	unsigned pushes = 0;

	for (unsigned i = 0; i < AHEAD; i++) {
		const bool pushing = rand_r(&c->seed) % 2;
		const struct star_op op = pushing ? push : star_op_pull(table, c->keys[0], 1, rows[i]);

		least[i] = pushing ? -1 : c->has[0] + (ordered ? pushes : 0);
		pushes += pushing;
		requests[i] = star_execute_async(cluster, &op, 1, deadline_us, NULL, NULL, &errors[i]);
	}
	c->has[0] += pushes;
	for (unsigned i = 0; i < AHEAD; i++) {
		if (!requests[i] || star_request_wait(requests[i], &errors[i]) < 0) {
			refused(c, 0, &errors[i]);
			continue;
		}
		if (least[i] < 0)
			c->pushes++;
		else if (rows[i][0] < least[i] || rows[i][0] > c->has[0] || rows[i][0] != rows[i][DIM - 1])
			say_wrong(c, 0, "a pull in flight has read a row that never was, or was before");
	}
}

static void push_two_groups(struct counter *c, unsigned group)
{
	const unsigned other = (group + 1) % LARGE;
	struct star_op ops[2] = { operation(c, STAR_PUSH, group, -1),
				  star_op_push(table, c->keys[other], sizes[other], c->results) };

	fill(c->results, other, -2);
	if (!execute(c, group, ops, 2))
		return;
	c->has[group]++;
	c->has[other] += 2;
	c->pushes += 2;
}

static void call(struct counter *c)
{
	static const struct {
		const char *name;
		void (*call)(struct counter *c, unsigned group);
		unsigned weight;
	} kinds[] = {
		{ "push", push, 9 },
		{ "push_pull", push_pull, 3 },
		{ "assign", assign, 1 },
		{ "delete", delete, 1 },
		{ "pushes together", push_several, 1 },
		{ "push of two", push_two_groups, 1 },
		{ "one row in flight", one_row_ahead, 1 },
	};
	unsigned drawn = (unsigned)rand_r(&c->seed) % 20, group = (unsigned)rand_r(&c->seed) % GROUPS;

	if (group == LARGE && rand_r(&c->seed) % 3)
		group = 1;
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (drawn < kinds[i].weight) {
			c->call = kinds[i].name;
			kinds[i].call(c, group);
			return;
		}
		drawn -= kinds[i].weight;
	}
	c->call = "pull";
	if (drawn)
		pull(c, group, "as pulled,");
	else
		usleep((useconds_t)(rand_r(&c->seed) % NAP_US_MAX));
}

static void *count(void *argument)
{
	struct counter *c = argument;

	while (!stop) {
		const uint64_t begun_us = clock_us();
		uint64_t us;

		call(c);
		c->calls++;
		us = clock_us() - begun_us;
		if (us > c->longest_us)
			c->longest_us = us;
		if (us >= SLOW_US && c->slow_calls < SLOW_CALLS_MAX) {
			c->slow[c->slow_calls][0] = begun_us;
			c->slow[c->slow_calls++][1] = begun_us + us;
		}
	}
	return NULL;
}

static void pull_all(struct counter *c, const char *when)
{
	for (unsigned group = 0; !c->ended && group < GROUPS; group++)
		pull(c, group, when);
}

static void *memory(size_t bytes)
{
	void *p = malloc(bytes);

	if (!p)
		exit(EXIT_FAILURE);
	return p;
}

static void prepare(struct counter *c, unsigned number, unsigned seed)
{
	c->number = number;
	c->seed = seed * THREADS_MAX + number;
	c->call = "begin";
	c->values = memory(DIM * sizes[LARGE] * sizeof(*c->values));
	c->results = memory(DIM * sizes[LARGE] * sizeof(*c->results));
	for (unsigned group = 0; group < GROUPS; group++) {
		c->keys[group] = memory(sizes[group] * sizeof(*c->keys[group]));
		for (uint32_t i = 0; i < sizes[group]; i++)
			c->keys[group][i] = ((uint64_t)(number * GROUPS + group) << 32) + i;
	}
}

static void open_all(const char *ps, const char *name)
{
	const struct star_spec spec = {
		.name = name, .dim = DIM, .optimizer = "sgd", .rate = 1, .initializer = "zeros"
	};
	struct star_error err = { 0 };

	cluster = star_open(ps, deadline_us, &err);
	table = cluster ? star_table_create(cluster, &spec, deadline_us, &err) : NULL;
	if (table)
		return;
	fprintf(stderr, "star-count: %s\n", err.text);
	exit(EXIT_FAILURE);
}

static void print(const struct counter *counters, unsigned threads, uint64_t settled_us)
{
	uint64_t pushes = 0, calls = 0, unknown = 0, longest_us = 0;
	json_t *slow = json_array(), *all;

	for (unsigned i = 0; i < threads; i++) {
		const struct counter *c = &counters[i];
		json_t *of_thread = json_array();

		pushes += c->pushes;
		calls += c->calls;
		unknown += c->unknown;
		longest_us = c->longest_us > longest_us ? c->longest_us : longest_us;
		for (uint32_t n = 0; n < c->slow_calls; n++)
			json_array_append_new(of_thread, json_pack("[I, I]", (json_int_t)c->slow[n][0],
								   (json_int_t)c->slow[n][1]));
		json_array_append_new(slow, of_thread);
	}
	all = json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s, s:o}", "pushes", (json_int_t)pushes, "calls",
			(json_int_t)calls, "replies_lost", (json_int_t)unknown, "longest_us", (json_int_t)longest_us,
			"settled_us", (json_int_t)settled_us, "lost", lost, "doubled", doubled, "wrong", wrong, "slow",
			slow);
	if (!all || json_dumpf(all, stdout, JSON_COMPACT) < 0)
		exit(EXIT_FAILURE);
	puts("");
	json_decref(all);
}

int main(int argc, char **argv)
{
	static struct counter counters[THREADS_MAX];
	const unsigned threads = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
	struct pollfd told = { .fd = STDIN_FILENO, .events = POLLIN };
	struct star_error err = { 0 };
	uint64_t begun_us;

	if (threads < 1 || threads > THREADS_MAX) {
		fprintf(stderr, "usage: star-count PS NAME SEED THREADS [DEADLINE_US [ordered]], of threads 1 to %u\n",
			THREADS_MAX);
		return EXIT_FAILURE;
	}
	if (argc > 5)
		deadline_us = strtoull(argv[5], NULL, 10);
	ordered = argc > 6;
	open_all(argv[1], argv[2]);
	puts("ready");
	fflush(stdout);
	for (unsigned i = 0; i < threads; i++) {
		prepare(&counters[i], i, (unsigned)atoi(argv[3]));
		if (pthread_create(&counters[i].thread, NULL, count, &counters[i]) != 0)
			return EXIT_FAILURE;
	}
	while (!stop)
		stop = poll(&told, 1, LOOK_MS) > 0;
	for (unsigned i = 0; i < threads; i++)
		pthread_join(counters[i].thread, NULL);
	begun_us = clock_us();
	if (star_settle(cluster, deadline_us, &err) < 0 && !wrong[0])
		snprintf(wrong, sizeof(wrong), "star_settle: %s", err.text);
	begun_us = clock_us() - begun_us;
	for (unsigned i = 0; i < threads; i++)
		pull_all(&counters[i], "in the end,");
	star_close(cluster);
	open_all(argv[1], argv[2]);
	for (unsigned i = 0; i < threads; i++)
		pull_all(&counters[i], "when the cluster was opened again,");
	star_close(cluster);
	print(counters, threads, begun_us);
	return wrong[0] ? EXIT_FAILURE : EXIT_SUCCESS;
}
