/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of programs: cut by reactor, stitched, and what happens to them when a node, layout or connection changes. */
#include "tests/client/cases.h"

#include <errno.h>
#include <stdlib.h>

#include "star_program.h"

enum { DIM = 3, KEYS = 500, BAGS = 7 };

static uint64_t keys[KEYS];
static uint32_t bags[KEYS];
static uint32_t most; /* bags, as it is said beforehand; 0: it is not */
static float gradients[KEYS * DIM], rows[KEYS * DIM], fed[KEYS * DIM], sums[BAGS * DIM];

/* Pools rows, fetches them and what was fed, and applies that. */
static struct star_program *program_of(struct bench *b)
{
	struct star_program_builder *p = star_program_begin(b->cluster);
	const int k = star_program_keys(p, b->table);
	const int s = most ? star_program_few_segments(p, k, most) : star_program_segments(p, k);
	const int g = star_program_rows(p, k, DIM), l = star_program_lookup(p, k, 0);
	struct star_program *program;
	struct star_error err;

	star_program_fetch(p, l);
	star_program_fetch(p, star_program_pool(p, l, s));
	star_program_fetch(p, g);
	star_program_apply(p, k, g);
	program = star_program_register(p, LONG_US, &err);
	if (!program)
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	return program;
}

static void fill(void)
{
	for (unsigned i = 0; i < KEYS; i++) {
		keys[i] = i % 400; /* some of them twice */
		bags[i] = i % BAGS;
		for (unsigned d = 0; d < DIM; d++)
			gradients[i * DIM + d] = (float)(i + d) / 8;
	}
}

static int run(struct bench *b, struct star_program *program, uint32_t count, bool async, struct star_error *err)
{
	const struct star_feed feeds[] = { { keys, count }, { bags, 0 }, { gradients, 0 } };
	float *const fetches[] = { rows, sums, fed };
	const struct star_run of = { program, feeds, 3, fetches, 3, BAGS, 0, 0 };
	struct star_op op = { .kind = STAR_RUN, .run = &of };
	struct star_request *request;

	if (!async)
		return star_execute(b->cluster, &op, 1, LONG_US, err);
	request = star_execute_async(b->cluster, &op, 1, LONG_US, NULL, NULL, err);
	return request ? star_request_wait(request, err) : err->code;
}

/* What the run brought, and what it left: gradients applied `times` times before it. */
static void check_results(unsigned times)
{
	float expected[BAGS * DIM] = { 0 };

	for (unsigned i = 0; i < KEYS; i++)
		for (unsigned d = 0; d < DIM; d++) {
			float value = peer_initial(1, keys[i], d);

			for (unsigned n = 0; n < times; n++)
				value -= (float)(keys[i] + d) / 8 +
					 (keys[i] < KEYS - 400 ? (float)(keys[i] + 400 + d) / 8 : 0);
			expected[bags[i] * DIM + d] += value;
			if (!CHECK_NEAR(rows[i * DIM + d], value, 1e-3) ||
			    !CHECK_NEAR(fed[i * DIM + d], gradients[i * DIM + d], 0))
				return;
		}
	for (unsigned i = 0; i < BAGS * DIM; i++)
		CHECK_NEAR(sums[i], expected[i], 1e-3 * (1 + fabs((double)expected[i])));
}

void programs_go_to_all_reactors(void)
{
	struct bench b = bench_start(2, 2, DIM);
	struct star_program *program = program_of(&b);
	struct star_error err = { 0 };

	fill();
	CHECK(program_of(&b) == program);
	for (unsigned times = 0; times < 3; times++) {
		memset(sums, 0x7f, sizeof(sums));
		if (!CHECK_INT(run(&b, program, KEYS, times % 2, &err), 0))
			unit_fail(__FILE__, __LINE__, "%s", err.text);
		check_results(times);
	}
	CHECK_UINT(peer_requests(b.peer), 3 * 4);
	bench_stop(&b);
}

/* The results are the same, and the requests shorter. */
void few_segments_take_fewer_bytes(void)
{
	static const struct {
		uint32_t most, bytes;
	} cases[] = { { 0, 4 }, { BAGS, 1 }, { 256, 1 }, { 257, 2 }, { 65536, 2 } };
	struct star_error err = { 0 };

	fill();
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bench b = bench_start(1, 1, DIM);
		struct star_program *program;

		most = cases[i].most;
		program = program_of(&b);
		memset(sums, 0x7f, sizeof(sums));
		if (!CHECK_INT(run(&b, program, KEYS, false, &err), 0))
			unit_fail(__FILE__, __LINE__, "%s", err.text);
		check_results(0);
		CHECK_UINT(peer_last_op(b.peer).body_bytes,
			   8 + KEYS * (8 + DIM * 4) + program_padded(KEYS * cases[i].bytes));
		bench_stop(&b);
	}
	most = 0;
}

void few_segments_have_bounds(void)
{
	static const uint32_t wrong[] = { 0, 65537 };
	struct bench b = bench_start(1, 1, DIM);
	const struct star_feed feeds[] = { { keys, 2 }, { bags, 0 }, { gradients, 0 } };
	static float many[257 * DIM];
	float *const fetches[] = { rows, many, fed };
	struct star_run bad = { .feeds = feeds, .feeds_count = 3, .fetches = fetches, .fetches_count = 3 };
	struct star_op op = { .kind = STAR_RUN, .run = &bad };
	struct star_error err = { 0 };

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct star_program_builder *p = star_program_begin(b.cluster);

		CHECK_INT(star_program_few_segments(p, star_program_keys(p, b.table), wrong[i]), -EINVAL);
		CHECK(!star_program_register(p, LONG_US, &err));
		CHECK_HAS(err.text, "a run has 1 to 65536 segments");
	}
	fill();
	most = 200;
	bad.program = program_of(&b);
	bad.segments = 257;
	CHECK_INT(star_execute(b.cluster, &op, 1, LONG_US, &err), -EINVAL);
	CHECK_HAS(err.text, "has 257 segments, and its program was made for 256 at most");
	most = 0;
	bench_stop(&b);
}

/* The layout changes in between: what one reactor has refused goes to others, and nothing is applied twice. */
void runs_follow_the_layout(void)
{
	struct bench b = bench_start(2, 2, DIM);
	struct star_program *program = program_of(&b);
	struct star_error err = { 0 };
	uint32_t applied = 0;
	float first;

	fill();
	peer_relayout(b.peer, 1, true);
	CHECK_INT(run(&b, program, KEYS, false, &err), 0);
	check_results(0);
	CHECK(peer_find(b.peer, 1, 17, &applied, &first) && applied == 1);
	bench_stop(&b);
}

/* A reply was lost: what was applied stays so, and the rest of the run is asked for again, also by a newer layout. */
void runs_that_were_executed_are_not_applied_again(void)
{
	for (unsigned moves = 0; moves < 2; moves++) {
		struct bench b = bench_start(1, 1, DIM);
		struct star_program *program = program_of(&b);
		struct star_error err = { 0 };
		uint32_t applied = 0;
		float first;

		fill();
		b.peer->repeats = true;
		b.peer->moves = moves;
		peer_misbehave(b.peer, FAULT_CLOSE, 0, 1);
		if (!CHECK_INT(run(&b, program, KEYS, false, &err), 0))
			unit_fail(__FILE__, __LINE__, "%s", err.text);
		check_results(1);
		CHECK(!b.peer->moves);
		CHECK(peer_find(b.peer, 1, 17, &applied, &first));
		CHECK_UINT(applied, 1);
		CHECK_UINT(peer_last_op(b.peer).flags, WIRE_APPLIED);
		bench_stop(&b);
	}
}

/* Keeps keys and segments; takes them, and applies. */
static struct star_program *keeping_of(struct bench *b, bool takes, bool computed)
{
	struct star_program_builder *p = star_program_begin(b->cluster);
	const int k = takes ? star_program_kept_keys(p, b->table) : star_program_keys(p, b->table);
	const int s = takes ? star_program_kept_segments(p, k, 2) : star_program_segments(p, k);
	const int g = star_program_rows(p, k, DIM), l = star_program_lookup(p, k, 0);
	struct star_program *program;
	struct star_error err;

	star_program_fetch(p, l);
	star_program_fetch(p, star_program_pool(p, l, s));
	star_program_fetch(p, g);
	if (takes) {
		star_program_apply(p, k, g);
	} else {
		star_program_keep(p, k, 0);
		star_program_keep(p, computed ? l : s, 2);
	}
	program = star_program_register(p, LONG_US, &err);
	if (!program)
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	return program;
}

static int run_kept(struct bench *b, struct star_program *program, const uint32_t *segments, uint32_t last,
		    struct star_error *err)
{
	const struct star_feed feeds[] = { { keys, KEYS }, { segments, 0 }, { gradients, 0 } };
	float *const fetches[] = { rows, sums, fed };
	const struct star_run of = { program, feeds, 3, fetches, 3, BAGS, .tag = 7, .last = last };
	struct star_op op = { .kind = STAR_RUN, .run = &of };

	return star_execute(b->cluster, &op, 1, LONG_US, err);
}

/* What finds no room, or is gone, is sent; but not what was computed on the node. */
void what_is_not_kept_is_brought(void)
{
	struct bench b = bench_start(2, 2, DIM);
	struct star_program *keeps = keeping_of(&b, false, false), *takes = keeping_of(&b, true, false);
	struct star_error err = { 0 };
	uint32_t applied = 0;
	float first;

	fill();
	CHECK_INT(run_kept(&b, keeps, bags, 0, &err), 0);
	check_results(0);
	CHECK_UINT(peer_last_op(b.peer).version, 7);
	pthread_mutex_lock(&b.peer->lock);
	b.peer->full = true;
	pthread_mutex_unlock(&b.peer->lock);
	CHECK_INT(run_kept(&b, keeps, bags, 0, &err), 0);
	check_results(0);
	CHECK_UINT(peer_requests(b.peer), 4 + 8);
	if (!CHECK_INT(run_kept(&b, takes, bags, 1, &err), 0))
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	check_results(0);
	CHECK_UINT(peer_last_op(b.peer).flags, WIRE_ALONE);
	CHECK_UINT(peer_last_op(b.peer).version, 0);
	CHECK(peer_find(b.peer, 1, 17, &applied, &first) && applied == 1);
	CHECK_UINT(peer_requests(b.peer), 12 + 8);
	CHECK_INT(run_kept(&b, takes, NULL, 0, &err), -ENODATA);
	CHECK_HAS(err.text, "what an earlier request has kept for this one is missing");
	CHECK_INT(run_kept(&b, keeping_of(&b, false, true), bags, 0, &err), -ENOBUFS);
	CHECK_HAS(err.text, "no memory for what the request is to keep");
	CHECK(peer_find(b.peer, 1, 17, &applied, &first) && applied == 1);
	bench_stop(&b);
}

void wrong_results_of_runs_are_refused(void)
{
	static const enum peer_fault faults[] = { FAULT_WRONG_COUNT, FAULT_WRONG_OBJECT, FAULT_WRONG_BODY,
						  FAULT_SHORT_PAYLOAD };

	fill();
	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct bench b = bench_start(1, 1, DIM);
		struct star_program *program = program_of(&b);
		struct star_error err = { 0 };

		memset(rows, 0, sizeof(rows));
		memset(sums, 0, sizeof(sums));
		peer_misbehave(b.peer, faults[i], 0, 1);
		CHECK_INT(run(&b, program, KEYS, false, &err), -EPROTO);
		CHECK(rows[0] == 0 && sums[0] == 0);
		CHECK_INT(run(&b, program, KEYS, false, &err), 0); /* the node has executed the first one, too */
		check_results(1);
		bench_stop(&b);
	}
}

void nonsense_about_runs_is_refused(void)
{
	struct bench b = bench_start(1, 1, DIM), other = bench_start(1, 1, DIM);
	struct star_program *program = program_of(&b), *foreign = program_of(&other);
	struct star_feed feeds[] = { { keys, 2 }, { bags, 0 }, { gradients, 0 } };
	float *fetches[] = { rows, sums, fed };
	struct star_run good = { program, feeds, 3, fetches, 3, BAGS, 0, 0 };
	static uint64_t many[WIRE_KEYS_MAX + 1];
	static uint32_t many_bags[WIRE_KEYS_MAX + 1];
	float *many_rows = calloc((WIRE_KEYS_MAX + 1) * DIM, sizeof(float));
	const struct star_feed too_many[] = { { many, WIRE_KEYS_MAX + 1 }, { many_bags, 0 }, { many_rows, 0 } };
	float *const many_fetches[] = { many_rows, sums, many_rows };
	struct star_run bad;
	struct star_error err = { 0 };
	struct star_op op = { .kind = STAR_RUN, .run = &bad };

#define REFUSED(change, says) \
	do { \
		bad = good; \
		op = (struct star_op){ .kind = STAR_RUN, .run = &bad }; \
		change; \
		refuse_op(&b, op, says); \
	} while (0)
	fill();
	REFUSED(bad.program = NULL, "the run's program is NULL");
	REFUSED(bad.program = foreign, "another cluster handle");
	REFUSED(bad.feeds_count = 2, "has 2 feeds and 3 fetches, its program 3 and 3");
	REFUSED(bad.fetches_count = 4, "3 feeds and 4 fetches");
	REFUSED(bad.segments = 0, "has 0 segments: 1 to 65536 are possible");
	REFUSED(bad.segments = 65537, "has 65537 segments");
	REFUSED(bad.segments = 1, "has 1 segments, one of its keys names 1");
	REFUSED(op.table = b.table, "is a run: everything but run, rate, scale and step must be 0");
	REFUSED(op.rate = -1, "learning rate is -1");
	REFUSED(op.scale = INFINITY, "the scale is inf");
	REFUSED(op.flags = STAR_READ_ONLY, "must be 0");
	feeds[0].count = 0;
	REFUSED((void)0, "the run names 0 keys");
	feeds[0].count = 2;
	feeds[2].data = NULL;
	REFUSED((void)0, "feed 2 of the run, rows, is NULL");
	feeds[2].data = gradients;
	fetches[1] = NULL;
	REFUSED((void)0, "fetch 1 of the run is NULL");
	bad = (struct star_run){ program, too_many, 3, many_fetches, 3, BAGS, 0, 0 };
	op = (struct star_op){ .kind = STAR_RUN, .run = &bad };
	CHECK_INT(star_execute(b.cluster, &op, 1, LONG_US, &err), -E2BIG);
	CHECK_HAS(err.text, "has 65537 keys");
	CHECK_HAS(err.text, "make several runs");
	CHECK_UINT(peer_requests(b.peer), 0);
	free(many_rows);
	bench_stop(&b);
	bench_stop(&other);
}
