/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Synchronous steps (its source) against PS tasks that are simulated, by workers of whom each believes all the time
 * that the others are dead: all of them lead. They are coroutines that take turns at each request to a reactor. All
 * schedules with a bounded number of switches are tried; a switch leaves one worker standing until the others have done
 * all they can, or until a switch back: so each may stand still between any two requests, and go on at any time. A
 * state that was seen before is not gone on from: the PS tasks, and all that each worker was told.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "base/clock.h"
#include "client/star.h"
#include "train/peers.h"
#include "train/sync.h"
#include "tests/train/cases.h"
#include "tests/unit.h"

enum {
	WORKERS = 3,
	WAIT_FOR = 2,
	REACTORS = 2,
	ROWS = 256,
	MADE = 8,      /* steps of a run, at most */
	TURNS = 2000,  /* of a run that ends */
	IDLE = 6,      /* pauses after which all that go on have done what they can */
	CHOICES = 512, /* of a run */
	STACK_BYTES = 128 * 1024,
	SEEN = 1 << 22,
};

enum { ROUNDS, COUNTER, WEIGHTS, OBJECTS }; /* the counter is on reactor 0 */
static struct star_table {
	unsigned object;
} tables[OBJECTS] = { { ROUNDS }, { COUNTER }, { WEIGHTS } };

/* What a commit has applied: gradients by worker. */
struct made {
	uint64_t tag;
	float scale;
	uint32_t sum[WORKERS];
};

struct row {
	uint64_t key;
	double values[SYNC_ROW];
};

/* An object on a reactor. */
struct part {
	uint64_t open;
	uint32_t sum[WORKERS], made_count;
	struct made made[MADE];
	/* the rounds' */
	struct row rows[ROWS], sums[2];
	uint32_t rows_count, sums_count;
};

/* Has no gaps, and no pointers: it is compared by its bytes. */
static struct world {
	struct part parts[OBJECTS][REACTORS];
	uint64_t told[WORKERS]; /* a hash of all that a worker has been told */
	uint64_t clock, current, idle, held, ended, losses;
} world;

static struct worker {
	struct sync sync;
	ucontext_t context;
	char stack[STACK_BYTES];
	unsigned steps;
} workers[WORKERS];
static ucontext_t driver;

/* The search: what was chosen at each place where there is a choice. */
static struct {
	uint8_t chosen[CHOICES], ways[CHOICES];
	unsigned length, at, switches, switches_max, losses_max, turns, steps;
	bool known, failed;
	uint64_t *seen, runs, states;
} search;

static uint64_t mix(uint64_t hash, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;

	for (size_t i = 0; i < n; i += sizeof(hash)) {
		uint64_t word = 0;

		memcpy(&word, p + i, n - i < sizeof(word) ? n - i : sizeof(word));
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15) + n;
		hash ^= hash >> 29;
	}
	return hash;
}

static void tell(const void *what, size_t bytes)
{
	world.told[world.current] = mix(world.told[world.current], what, bytes);
}

/* ---- turns ---- */

static void leave(void)
{
	swapcontext(&workers[world.current].context, &driver);
}

/* Whether it was here with as many switches left. */
static bool was_seen(void)
{
	uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), world.told, sizeof(world) - offsetof(struct world, told));
	const uint64_t left = search.switches_max - search.switches;

	for (unsigned o = 0; o < OBJECTS; o++)
		for (unsigned r = 0; r < REACTORS; r++) {
			const struct part *p = &world.parts[o][r];

			hash = mix(hash, &p->open, offsetof(struct part, made));
			hash = mix(hash, p->made, p->made_count * sizeof(*p->made));
			hash = mix(hash, p->rows, p->rows_count * sizeof(*p->rows));
			hash = mix(hash, p->sums, p->sums_count * sizeof(*p->sums));
		}
	hash = hash << 4 | 8;
	for (uint64_t i = hash >> 20;; i++) {
		uint64_t *at = &search.seen[i % SEEN];

		if (*at && *at >> 4 != hash >> 4)
			continue;
		if (*at & 8 && (*at & 7) >= left)
			return true;
		if (*at == 0 && search.states++ == SEEN / 2) {
			search.failed = !unit_fail(__FILE__, __LINE__, "too many states");
			return true;
		}
		*at = hash | left;
		return false;
	}
}

/* 0, or n: a switch to the n-th of the others that have not ended. */
static unsigned choose(void)
{
	const unsigned ways = WORKERS - (unsigned)__builtin_popcountll(world.ended);
	const bool may = search.switches < search.switches_max && ways > 1;
	unsigned chosen = 0;

	if (search.at < search.length) {
		chosen = may ? search.chosen[search.at++] : 0;
	} else if (search.known || was_seen()) {
		search.known = true;
	} else if (may && search.length < CHOICES) {
		search.chosen[search.length] = 0;
		search.ways[search.length++] = (uint8_t)ways;
		search.at++;
	}
	search.switches += chosen != 0;
	return chosen;
}

/* Whether the reply to a request that has been executed is lost, and with it the connection. */
static bool lose(void)
{
	unsigned chosen = 0;

	if (search.known || world.losses == search.losses_max)
		return false;
	if (search.at < search.length) {
		chosen = search.chosen[search.at++];
	} else if (search.length < CHOICES) {
		search.chosen[search.length] = 0;
		search.ways[search.length++] = 2;
		search.at++;
	}
	world.losses += chosen;
	return chosen;
}

static unsigned next_of(unsigned from, uint64_t without)
{
	for (unsigned i = 1; i <= WORKERS; i++)
		if (!((without | world.ended) >> (from + i) % WORKERS & 1))
			return (from + i) % WORKERS;
	return WORKERS;
}

static unsigned other(unsigned n)
{
	for (unsigned i = 0; i < WORKERS; i++)
		if (i != world.current && !(world.ended >> i & 1) && n-- == 0)
			return i;
	return WORKERS;
}

static unsigned pick;

static void turn(void)
{
	unsigned chosen;

	if (++search.turns > TURNS) {
		search.failed = !unit_fail(__FILE__, __LINE__, "it does not end");
		search.known = true;
	}
	pick = (unsigned)world.current;
	chosen = choose();
	if (search.known) {
		leave();
	} else if (chosen) {
		world.held |= UINT64_C(1) << world.current;
		pick = other(chosen - 1);
		world.held &= ~(UINT64_C(1) << pick);
		leave();
	}
}

/* Others go on; those that were left standing, when these have done what they can. */
static void sim_pause(unsigned *pause_us)
{
	unsigned chosen;

	(void)pause_us;
	if (++world.idle > IDLE && world.held) {
		world.idle = 0;
		pick = (unsigned)__builtin_ctzll(world.held);
	} else {
		pick = next_of((unsigned)world.current, world.held);
	}
	chosen = choose();
	if (search.known)
		leave();
	if (chosen)
		pick = other(chosen - 1);
	world.held &= ~(UINT64_C(1) << pick);
	if (pick != world.current)
		leave();
}

/* ---- PS tasks ---- */

static unsigned reactor_of(uint64_t key)
{
	return key % REACTORS;
}

static struct row *row_of(struct row *rows, uint32_t *count, uint64_t key, bool make)
{
	for (uint32_t i = 0; i < *count; i++)
		if (rows[i].key == key)
			return &rows[i];
	if (!make)
		return NULL;
	if (*count == ROWS)
		abort();
	rows[*count] = (struct row){ .key = key };
	return &rows[(*count)++];
}

static int commit(struct part *p, const struct star_op *op)
{
	if (op->flags & STAR_OPEN) {
		p->open = op->tag;
	} else {
		if (p->made_count == MADE)
			abort();
		p->made[p->made_count] = (struct made){ .tag = op->tag, .scale = op->scale };
		memcpy(p->made[p->made_count++].sum, p->sum, sizeof(p->sum));
		for (uint32_t i = 0; i < p->sums_count; i++) {
			struct row *row = row_of(p->rows, &p->rows_count, p->sums[i].key, true);

			for (unsigned e = 0; e < SYNC_ROW; e++)
				row->values[e] += p->sums[i].values[e];
		}
		p->open = op->tag + 1;
	}
	memset(p->sum, 0, sizeof(p->sum));
	memset(p->sums, 0, sizeof(p->sums));
	p->sums_count = 0;
	world.idle = 0;
	return 0;
}

static bool lost; /* the reply to the request that is executed */

/* One key's part of an operation on the rounds. */
static void execute_row(struct part *p, const struct star_op *op, uint32_t i)
{
	const double *values = (const double *)op->values + (size_t)i * SYNC_ROW;
	struct row *row =
		row_of(p->rows, &p->rows_count, op->keys[i], op->kind != STAR_DELETE && op->kind != STAR_PULL);
	static const struct row none;

	if (op->kind == STAR_PULL) {
		row = row ? row : (struct row *)&none;
		memcpy((double *)op->values + (size_t)i * SYNC_ROW, row->values, sizeof(row->values));
		tell(row->values, sizeof(row->values));
		return;
	}
	world.idle = 0;
	if (op->kind == STAR_DELETE) {
		if (row)
			*row = p->rows[--p->rows_count];
	} else if (op->flags & STAR_ACCUMULATE) {
		row = row_of(p->sums, &p->sums_count, op->keys[i], true);
		for (unsigned e = 0; e < SYNC_ROW; e++)
			row->values[e] -= values[e];
	} else if (op->kind == STAR_ASSIGN) {
		memcpy(row->values, values, sizeof(row->values));
	} else {
		for (unsigned e = 0; e < SYNC_ROW; e++)
			row->values[e] -= values[e];
		if (lost)
			return;
		memcpy(op->results, row->values, sizeof(row->values));
		tell(row->values, sizeof(row->values));
	}
}

/* 0 or -EALREADY: as lib/service/commit.c. */
static int execute_on(unsigned reactor, struct star_op *op)
{
	struct part *p = &world.parts[op->table->object][reactor];

	if (op->kind == STAR_COMMIT) {
		const uint64_t after = op->flags & STAR_OPEN ? op->tag : op->tag + 1;

		if (p->open == after)
			return 0;
		if (op->flags & STAR_OPEN ? p->open > op->tag : p->open != op->tag)
			return -EALREADY;
		return commit(p, op);
	}
	if (op->flags & STAR_ACCUMULATE && p->open != op->tag)
		return -EALREADY;
	if (op->table->object == ROUNDS) {
		for (uint32_t i = 0; i < op->count; i++)
			if (reactor_of(op->keys[i]) == reactor)
				execute_row(p, op, i);
	} else if (op->kind == STAR_PUSH) {
		p->sum[world.current]++;
		world.idle = 0;
	} else {
		double value = 0;

		for (uint32_t i = 0; i < p->made_count; i++)
			for (unsigned w = 0; w < WORKERS; w++)
				value += p->made[i].sum[w];
		*(double *)op->values = value;
		tell(&value, sizeof(value));
	}
	return 0;
}

static bool concerns(const struct star_op *op, unsigned reactor)
{
	if (op->table->object == COUNTER)
		return reactor == 0;
	if (op->kind == STAR_COMMIT || op->table->object == WEIGHTS)
		return true;
	for (uint32_t i = 0; i < op->count; i++)
		if (reactor_of(op->keys[i]) == reactor)
			return true;
	return false;
}

/* As libstar does: the connection is made again, and the node says that it has executed the request. */
static int pull_later(unsigned reactor, const struct star_op *op)
{
	const struct star_op pull = {
		.kind = STAR_PULL, .table = op->table, .keys = op->keys, .count = op->count, .values = op->results
	};

	lost = false;
	if (op->flags & STAR_AT_ONCE)
		return -EREMOTEIO;
	turn();
	execute_row(&world.parts[op->table->object][reactor], &pull, 0);
	return 0;
}

/* A request to each reactor, one after the other; what is refused ends a request, and not the call. */
static int sim_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t count, uint64_t deadline_us,
		       struct star_error *err)
{
	int result = 0;

	(void)cluster;
	(void)deadline_us;
	for (unsigned r = 0; r < REACTORS; r++) {
		bool any = false;
		int rc = 0;

		for (uint32_t i = 0; i < count; i++)
			any |= concerns(&ops[i], r);
		if (any)
			turn();
		lost = any && ops[0].kind == STAR_PUSH_PULL && lose();
		for (uint32_t i = 0; any && rc == 0 && i < count; i++)
			if (concerns(&ops[i], r))
				rc = execute_on(r, &ops[i]);
		if (lost)
			rc = pull_later(r, &ops[0]);
		result = rc ? rc : result;
	}
	tell(&result, sizeof(result));
	return result ? star_error_set(err, result, "refused") : 0;
}

static int sim_pull(struct star_table *table, const uint64_t *keys, uint32_t count, void *values, uint32_t flags,
		    uint64_t deadline_us, struct star_error *err)
{
	struct star_op op = { .kind = STAR_PULL, .flags = flags, .table = table, .keys = keys, .count = count };

	op.values = values;
	return sim_execute(NULL, &op, 1, deadline_us, err);
}

static struct star_table *sim_table_create(struct star_cluster *cluster, const struct star_spec *spec,
					   uint64_t deadline_us, struct star_error *err)
{
	(void)cluster;
	(void)spec;
	(void)deadline_us;
	(void)err;
	return &tables[ROUNDS];
}

static bool sim_lives(const struct peers *peers, uint32_t index)
{
	(void)peers;
	return index == world.current;
}

static bool sim_ended(const struct peers *peers, uint32_t index)
{
	const bool ended = world.ended >> index & 1;

	(void)peers;
	tell(&ended, sizeof(ended));
	return ended;
}

static bool sim_quiet(uint64_t *told_ns)
{
	(void)told_ns;
	return false;
}

/* Each look is a lease after the last one. */
static uint64_t sim_clock_ns(void)
{
	static uint64_t ns;

	return ns += 1000000000;
}

static uint64_t sim_clock_date_us(void)
{
	world.clock++;
	tell(&world.clock, sizeof(world.clock));
	return world.clock * 1000;
}

/* ---- runs ---- */

#define star_execute sim_execute
#define star_pull sim_pull
#define star_table_create sim_table_create
#define train_peers_lives sim_lives
#define train_peers_ended sim_ended
#define train_peers_look(peers, err) 0
#define train_peers_check(peers, err) 0
#define train_peers_join(peers, until_ns, err) 0
#define train_peers_quiet sim_quiet
#define train_peers_pause sim_pause
#define clock_ns sim_clock_ns
#define clock_date_us sim_clock_date_us
/* Rows of rounds are deleted within a run, too. */
#define SYNC_ROWS_KEPT 2
#include "lib/train/sync.c"

static int make_step(struct sync *s, struct star_error *err)
{
	struct star_op ops[2];
	struct remote_round round;
	uint32_t count = 0;
	int rc = train_sync_begin(s, UINT64_MAX, err);

	if (rc == 0)
		rc = train_sync_admit(s, &round, err);
	if (rc < 0)
		return rc;
	if (round.counts && round.tag)
		ops[count++] = (struct star_op){ .table = &tables[COUNTER] };
	ops[count++] = (struct star_op){ .table = &tables[WEIGHTS] };
	for (uint32_t i = 0; i < count; i++) {
		ops[i].kind = STAR_PUSH;
		ops[i].flags = STAR_ACCUMULATE;
		ops[i].tag = round.tag;
	}
	if (round.tag && sim_execute(NULL, ops, count, 0, err) == -EALREADY)
		train_sync_refused(s);
	return train_sync_end(s, UINT64_MAX, err);
}

static void work(void)
{
	const unsigned w = pick;
	static const struct remote_update updates[] = { { &tables[COUNTER], "counter", true, 1, true, false, NULL },
							{ &tables[WEIGHTS], "weights", true, 1, false, false, NULL } };
	struct sync *s = &workers[w].sync;
	struct star_error err;
	int rc = train_sync_attach(s, NULL, NULL, updates, 2, &err);

	while (rc >= 0 && workers[w].steps < search.steps) {
		rc = make_step(s, &err);
		workers[w].steps += rc > 0;
	}
	if (rc < 0)
		search.failed = !unit_fail(__FILE__, __LINE__, "worker %u: %s", w, err.text);
	world.ended |= UINT64_C(1) << w;
	pick = next_of(w, world.held);
	if (pick == WORKERS && world.held)
		pick = (unsigned)__builtin_ctzll(world.held);
	world.held &= ~(UINT64_C(1) << pick % 64);
}

/* Each step is applied as a whole everywhere, and consists of this many whole gradients; and each worker knows which
 * were its own. */
static bool check_end(void)
{
	const struct part *counter = &world.parts[COUNTER][0];
	unsigned counted[WORKERS] = { 0 };
	bool good = true;

	for (unsigned r = 0; r < REACTORS; r++)
		good &= CHECK_UINT(world.parts[WEIGHTS][r].made_count, counter->made_count);
	for (uint32_t i = 0; good && i < counter->made_count; i++) {
		const struct made *m = &world.parts[WEIGHTS][0].made[i];
		unsigned sum = 0, steps = 0;

		good &= CHECK_MEM(&world.parts[WEIGHTS][1].made[i], m, sizeof(*m));
		good &= CHECK_UINT(counter->made[i].tag, m->tag);
		for (unsigned w = 0; w < WORKERS; w++) {
			sum += m->sum[w];
			steps += counter->made[i].sum[w];
			counted[w] += m->sum[w];
		}
		good &= CHECK_UINT(steps, 1) & CHECK_NEAR(sum * m->scale, 1, 1e-6);
	}
	for (unsigned w = 0; good && w < WORKERS; w++)
		good &= CHECK_UINT(workers[w].steps - workers[w].sync.dropped, counted[w]);
	return good;
}

static void run(void)
{
	memset(&world, 0, sizeof(world));
	search.at = search.switches = search.turns = 0;
	search.known = false;
	for (pick = 0; pick < WORKERS; pick++) {
		train_sync_init(&workers[pick].sync, &(struct sync_options){ .job = "job",
									     .index = pick,
									     .workers = WORKERS,
									     .wait_for = WAIT_FOR,
									     .lease_us = 1 });
		workers[pick].steps = 0;
		getcontext(&workers[pick].context);
		workers[pick].context.uc_stack.ss_sp = workers[pick].stack;
		workers[pick].context.uc_stack.ss_size = sizeof(workers[pick].stack);
		workers[pick].context.uc_link = &driver;
		makecontext(&workers[pick].context, work, 0);
	}
	for (pick = 0; pick < WORKERS && !search.known;) {
		world.current = pick;
		swapcontext(&driver, &workers[pick].context);
	}
	for (unsigned w = 0; w < WORKERS; w++)
		train_sync_fini(&workers[w].sync);
	search.runs++;
}

/* The next of all runs; false: there is none. */
static bool next_run(void)
{
	while (search.length && search.chosen[search.length - 1] + 1 == search.ways[search.length - 1])
		search.length--;
	if (search.length)
		search.chosen[search.length - 1]++;
	return search.length > 0;
}

static void search_all(unsigned steps, unsigned switches, unsigned losses)
{
	const char *more = getenv("STAR_SYNC_SWITCHES");

	memset(&search, 0, sizeof(search));
	search.switches_max = more ? (unsigned)atoi(more) & 7 : switches;
	search.losses_max = losses;
	search.steps = steps;
	search.seen = calloc(SEEN, sizeof(*search.seen));
	if (!CHECK(search.seen))
		return;
	do {
		run();
		if (!search.failed && !search.known)
			search.failed = !check_end();
	} while (!search.failed && next_run());
	if (search.failed || more) {
		fprintf(stderr, "%" PRIu64 " runs, %" PRIu64 " states; switches:", search.runs, search.states);
		for (unsigned i = 0; i < search.length; i++)
			if (search.chosen[i])
				fprintf(stderr, " %u at %u", search.chosen[i], i);
		fprintf(stderr, "\n");
	}
	free(search.seen);
}

void steps_are_whole_whoever_leads_and_stands_still(void)
{
	search_all(1, 2, 0);
	search_all(2, 2, 0);
}

/* A worker does not learn which ticket it has, or whether it was the last one. */
void steps_are_whole_when_replies_are_lost(void)
{
	search_all(1, 2, 1);
}

/* All that three leaders can have opened it with, as each of them sees it. */
void a_round_that_leaders_differ_about_is_not_committed(void)
{
	for (unsigned i = 0; i < 12 * 12 * 12; i++) {
		const unsigned needs[3] = { i % 12 + 1, i / 12 % 12 + 1, i / 144 + 1 };
		double row[SYNC_ROW] = { 0 };
		bool agree = true;

		for (unsigned n = 0; n < 3; n++) {
			row[OPENED]++;
			row[NEEDS] += needs[n];
			row[SQUARES] += needs[n] * needs[n];
			agree &= needs[n] == needs[0];
			for (unsigned seen = 0; seen <= n; seen++)
				CHECK_INT(is_applied(&(struct sync_round){ .need = needs[seen] }, row), agree);
		}
	}
	CHECK(!is_applied(&(struct sync_round){ .need = 1 }, (double[SYNC_ROW]){ 0 })); /* nobody has */
}
