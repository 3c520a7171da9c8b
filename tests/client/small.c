/* SPDX-License-Identifier: BSD-3-Clause */
/* Pulls and pushes of one row, which have a fast path of their own (client/small.h): they end as others do, whatever
 * happens. */
#include "tests/client/cases.h"

#include <errno.h>
#include <string.h>

enum { DIM = 4, WARM = 4 };

static int pull_one(struct star_table *table, uint64_t key, float *row, struct star_error *err)
{
	err->code = 0;
	err->text[0] = 0;
	memset(row, 0, DIM * sizeof(*row));
	return star_pull(table, &key, 1, row, 0, LONG_US, err);
}

static int push_one(struct star_table *table, uint64_t key, float gradient, struct star_error *err)
{
	const float row[DIM] = { gradient, gradient, gradient, gradient };

	err->code = 0;
	err->text[0] = 0;
	return star_push(table, &key, 1, row, LONG_US, err);
}

/* The row of a key as the peer has it after pushes of this sum. */
static bool row_is(struct bench *b, uint64_t key, float pushed)
{
	struct star_error err;
	float row[DIM];
	bool good = CHECK_INT(pull_one(b->table, key, row, &err), 0);

	for (uint32_t i = 0; i < DIM; i++)
		good &= CHECK_NEAR(row[i], peer_initial(1, key, i) - pushed, 1e-5);
	return good;
}

/* So that what follows finds a call that is over, on a connection that works. */
static void warm(struct bench *b)
{
	struct star_error err;

	for (int i = 0; i < WARM; i++) {
		CHECK(row_is(b, 1, 0));
		CHECK_INT(push_one(b->table, 2, 0, &err), 0);
	}
}

void small_calls_find_their_rows(void)
{
	struct bench b = bench_start(2, 2, DIM);
	struct star_table *other = bench_table(&b, "others", DIM), *odd = bench_table(&b, "odd", 3);
	struct star_error err;
	float row[DIM];

	for (int round = 0; round < 3; round++)
		for (uint64_t key = 0; key < 40; key++) {
			CHECK(row_is(&b, key, 0.5f * (float)round));
			CHECK_INT(push_one(b.table, key, 0.5f, &err), 0);
			CHECK_INT(pull_one(other, key, row, &err), 0);
			CHECK_NEAR(row[DIM - 1], peer_initial(2, key, DIM - 1), 0);
			CHECK_INT(pull_one(odd, key, row, &err), 0); /* its row is padded in a frame */
			CHECK_NEAR(row[2], peer_initial(3, key, 2), 0);
			CHECK_NEAR(row[3], 0, 0);
		}
	bench_stop(&b);
}

/* Flags and steps are those of each call, not of the one before it. */
void small_calls_say_what_was_asked_for(void)
{
	struct bench b = bench_start(1, 1, DIM);
	const uint64_t key = 7;
	struct star_error err;
	float row[DIM] = { 0 };
	struct star_op pull = star_op_pull(b.table, &key, 1, row), push = star_op_push(b.table, &key, 1, row);

	warm(&b);
	CHECK_INT(star_pull(b.table, &key, 1, row, STAR_READ_ONLY, LONG_US, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).flags, WIRE_READ_ONLY);
	CHECK_INT(star_pull(b.table, &key, 1, row, 0, LONG_US, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).flags, 0);
	pull.step = 12;
	CHECK_INT(star_execute(b.cluster, &pull, 1, LONG_US, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).step, 12);
	CHECK_INT(star_pull(b.table, &key, 1, row, 0, LONG_US, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).step, 0);
	push.step = 13;
	CHECK_INT(star_execute(b.cluster, &push, 1, LONG_US, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).step, 13);
	push.flags = STAR_RATE | STAR_SCALE;
	push.rate = 0.25f;
	push.scale = 2;
	CHECK_INT(star_execute(b.cluster, &push, 1, LONG_US, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).flags, WIRE_RATE | WIRE_SCALE);
	CHECK_NEAR(peer_last_op(b.peer).rate, 0.25, 0);
	CHECK_NEAR(peer_last_op(b.peer).scale, 2, 0);
	CHECK_INT(star_push(b.table, &key, 1, row, LONG_US, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).flags, 0);
	CHECK_UINT(peer_last_op(b.peer).step, 0);
	push.rate = -1;
	CHECK_INT(star_execute(b.cluster, &push, 1, LONG_US, &err), -EINVAL);
	CHECK_INT(star_pull(b.table, &key, 1, row, 1u << 20, LONG_US, &err), -EINVAL);
	CHECK_INT(star_pull(b.table, NULL, 1, row, 0, LONG_US, &err), -EINVAL);
	CHECK_INT(star_pull(b.table, &key, 1, NULL, 0, LONG_US, &err), -EINVAL);
	CHECK_INT(star_push(b.table, &key, 1, NULL, LONG_US, &err), -EINVAL);
	bench_stop(&b);
}

void bad_replies_to_small_calls_are_refused(void)
{
	static const struct {
		enum peer_fault fault;
		int code;
		bool pushes; /* makes sense of a push, whose result has no rows */
	} cases[] = {
		{ FAULT_CHECKSUM, -EBADMSG, true },	{ FAULT_SEQUENCE, -EPROTO, true },
		{ FAULT_SESSION, -EPROTO, true },	{ FAULT_MAGIC, -EPROTO, true },
		{ FAULT_OPCODE, -EPROTO, true },	{ FAULT_HUGE_LENGTH, -EPROTO, true },
		{ FAULT_SHORT_PAYLOAD, -EPROTO, true }, { FAULT_WRONG_COUNT, -EPROTO, true },
		{ FAULT_WRONG_OBJECT, -EPROTO, true },	{ FAULT_WRONG_BODY, -EPROTO, false },
		{ FAULT_GARBAGE, -EPROTO, true },	{ FAULT_LONG_SENTENCE, -EPROTO, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bench b = bench_start(1, 1, DIM);
		struct star_error err;
		float row[DIM];

		warm(&b);
		peer_misbehave(b.peer, cases[i].fault, 0, 1);
		CHECK_INT(pull_one(b.table, 3, row, &err), cases[i].code);
		CHECK_HAS(err.text, "PS task 0, reactor 0");
		CHECK(row_is(&b, 3, 0));
		if (cases[i].pushes) {
			peer_misbehave(b.peer, cases[i].fault, 0, 1);
			CHECK_INT(push_one(b.table, 3, 0, &err), cases[i].code);
			CHECK(row_is(&b, 3, 0));
		}
		bench_stop(&b);
	}
}

/* Refused, asked again, lost, dribbled, late: and then as before. */
void small_calls_go_on_after_faults(void)
{
	struct bench b = bench_start(1, 1, DIM);
	const uint64_t key = 5;
	struct star_error err;
	float row[DIM];

	warm(&b);
	for (int round = 0; round < 2; round++) {
		peer_answer(b.peer, WIRE_NO_MEMORY, "the parameter memory of this node is full", 1);
		CHECK_INT(pull_one(b.table, key, row, &err), -ENOSPC);
		CHECK_HAS(err.text, "memory of this node is full");
		CHECK(row_is(&b, key, (float)round));
		peer_answer(b.peer, WIRE_BUSY, "", 2);
		CHECK_INT(push_one(b.table, key, 1, &err), 0);
		peer_answer(b.peer, WIRE_BUSY, "", 1);
		CHECK(row_is(&b, key, (float)round + 1));
		peer_misbehave(b.peer, FAULT_DRIBBLE, 0, 1);
		CHECK(row_is(&b, key, (float)round + 1));
		peer_misbehave(b.peer, FAULT_HOLD, 0, 1);
		CHECK_INT(star_pull(b.table, &key, 1, row, 0, 20000, &err), -ETIMEDOUT);
		CHECK_HAS(err.text, "did not answer within");
		peer_open_gate(b.peer);
		CHECK(row_is(&b, key, (float)round + 1)); /* behind the late reply */
		CHECK(row_is(&b, key, (float)round + 1));
	}
	bench_stop(&b);
}

void small_calls_survive_lost_connections(void)
{
	static const enum peer_fault faults[] = { FAULT_CLOSE, FAULT_CLOSE_IN_REPLY, FAULT_RESET };

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct bench b = bench_start(1, 1, DIM);
		struct star_error err;
		float row[DIM];

		warm(&b);
		peer_misbehave(b.peer, faults[i], 0, 1);
		CHECK_INT(pull_one(b.table, 3, row, &err), 0); /* it is sent again */
		CHECK(row_is(&b, 3, 0));
		/* The end is seen before the next call uses the connection, or while it does. */
		peer_misbehave(b.peer, FAULT_CLOSE_AFTER, 0, 1);
		CHECK(row_is(&b, 3, 0));
		sleep_ms(5);
		CHECK_INT(pull_one(b.table, 3, row, &err), 0);
		CHECK(row_is(&b, 3, 0));
		bench_stop(&b);
	}
}

void small_calls_follow_the_layout(void)
{
	struct bench b = bench_start(2, 2, DIM);
	struct star_error err;
	float row[DIM];

	for (uint32_t active = 2; active-- > 0;) {
		for (uint64_t key = 0; key < 20; key++)
			CHECK(row_is(&b, key, 0));
		peer_relayout(b.peer, active ? 1 : 2, true);
	}
	for (uint64_t key = 0; key < 20; key++)
		CHECK(row_is(&b, key, 0));
	peer_restart_node(b.peer, 0);
	for (uint64_t key = 0; key < 20; key++)
		if (peer_owner(b.peer, &b.peer->objects[0], key) < 2)
			CHECK_INT(pull_one(b.table, key, row, &err), -ESTALE);
	bench_stop(&b);
}

/* ---- threads ---- */

struct worker {
	struct bench *b;
	pthread_t thread;
	uint64_t key;
	uint32_t failed, calls;
	int last; /* what the last call has returned */
};

enum { THREADS = 4, CALLS = 400 };

/* Each its own row: what it pushed last is what it pulls. Now and then a call that is not small, by the same
 * connection. */
static void *pull_and_push(void *arg)
{
	struct worker *w = arg;
	const uint64_t keys[] = { w->key, w->key, w->key };
	struct star_error err;

	for (uint32_t i = 0; i < CALLS; i++) {
		float row[DIM], rows[3 * DIM];

		w->failed += push_one(w->b->table, w->key, 1, &err) != 0;
		w->failed += pull_one(w->b->table, w->key, row, &err) != 0;
		w->failed += row[1] != peer_initial(1, w->key, 1) - (float)(i + 1);
		if (i % 8)
			continue;
		w->failed += star_pull(w->b->table, keys, 3, rows, 0, LONG_US, &err) != 0;
		w->failed += rows[2 * DIM + 1] != row[1];
	}
	return NULL;
}

void threads_make_small_calls_side_by_side(void)
{
	struct bench b = bench_start(2, 1, DIM);
	struct worker workers[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .b = &b, .key = i + 1 };
		pthread_create(&workers[i].thread, NULL, pull_and_push, &workers[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		CHECK_UINT(workers[i].failed, 0);
	}
	bench_stop(&b);
}

static void *pull_until_it_fails(void *arg)
{
	struct worker *w = arg;
	struct star_error err;
	float row[DIM];

	do {
		w->last = pull_one(w->b->table, w->key, row, &err);
		w->calls++;
	} while (w->last == 0);
	return NULL;
}

/* The handle is closed while a small call waits for a reply that does not come. */
void close_ends_small_calls(void)
{
	struct bench b = bench_start(1, 1, DIM);
	struct worker w = { .b = &b, .key = 3 };
	const uint64_t begun = now_us();

	warm(&b);
	peer_misbehave(b.peer, FAULT_HOLD, 3, 1);
	pthread_create(&w.thread, NULL, pull_until_it_fails, &w);
	peer_wait_held(b.peer, 1);
	star_close(b.cluster);
	pthread_join(w.thread, NULL);
	CHECK_INT(w.last, -ECANCELED);
	CHECK_UINT(w.calls, 4);
	CHECK(now_us() - begun < LONG_US / 2);
	peer_open_gate(b.peer);
	peer_stop(b.peer);
}
