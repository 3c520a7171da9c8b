/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls whose memory served others before: nothing of those is left, whoever made and ended them. */
#include "tests/client/cases.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { DIM = 2, ROWS = 900 /* of a large call: more than a call's own memory can describe */ };

static struct star_op pull_op(struct bench *b, const uint64_t *keys, uint32_t count, float *values)
{
	return star_op_pull(b->table, keys, count, values);
}

/* Each kind of call once, good and bad: what the next ones find in the memory. */
static void soil(struct bench *b)
{
	static float rows[ROWS * DIM];
	static uint64_t keys[ROWS];
	struct star_op ops[] = { pull_op(b, keys, ROWS, rows), pull_op(b, keys, 3, rows) };
	struct star_op nonsense = pull_op(b, keys, 1, NULL);
	struct star_request *request;
	struct star_error err = { 0 };

	for (uint64_t i = 0; i < ROWS; i++)
		keys[i] = i % 500;
	CHECK_INT(star_execute(b->cluster, ops, 2, LONG_US, &err), 0);
	CHECK_INT(star_execute(b->cluster, &nonsense, 1, LONG_US, &err), -EINVAL);
	peer_answer(b->peer, WIRE_NO_MEMORY, "the parameter memory of this node is full", 1);
	CHECK_INT(star_pull(b->table, keys, 1, rows, 0, LONG_US, &err), -ENOSPC);
	peer_misbehave(b->peer, FAULT_HOLD, 0, 1);
	CHECK_INT(star_pull(b->table, keys, 1, rows, 0, 20000, &err), -ETIMEDOUT);
	peer_open_gate(b->peer);
	CHECK_INT(star_pull(b->table, keys, 1, rows, 0, LONG_US, &err), 0); /* behind the late reply */
	peer_misbehave(b->peer, FAULT_HOLD, 0, 1);
	request = star_execute_async(b->cluster, ops + 1, 1, 20000, NULL, NULL, &err);
	CHECK_INT(star_request_wait(request, &err), -ETIMEDOUT);
	CHECK_HAS(err.text, "PS task");
	peer_open_gate(b->peer);
	CHECK_INT(star_pull(b->table, keys, 1, rows, 0, LONG_US, &err), 0);
}

void nothing_of_earlier_calls_is_left(void)
{
	enum { CALLS = 300 }; /* several slabs of them at once */
	struct bench b = bench_start(2, 2, DIM);
	static struct star_request *requests[CALLS];
	static float rows[CALLS][DIM];
	static uint64_t keys[CALLS];

	for (int round = 0; round < 3; round++) {
		soil(&b);
		for (int i = 0; i < CALLS; i++) {
			const struct star_op op = pull_op(&b, &keys[i], 1, rows[i]);
			struct star_error err = { 0 };

			keys[i] = (uint64_t)(i + round);
			requests[i] = star_execute_async(b.cluster, &op, 1, LONG_US, NULL, NULL, &err);
			if (!CHECK(requests[i] != NULL))
				return;
		}
		for (int i = 0; i < CALLS; i++) {
			const int at = (i * 7 + 3) % CALLS; /* in another order */
			struct star_error err = { 0 };

			CHECK_INT(star_request_wait(requests[at], &err), 0);
			CHECK_STR(err.text, "");
			CHECK_NEAR(rows[at][1], peer_initial(1, keys[at], 1), 0);
		}
		CHECK(pull_works(&b));
	}
	bench_stop(&b);
}

/* Calls that are made while this many are in flight may be sent together: but sent they are, whether or not anybody
 * comes back. */
void what_nobody_waits_for_is_sent(void)
{
	enum { CALLS = 100 };
	struct bench b = bench_start(1, 1, DIM);
	static struct star_request *requests[CALLS];
	static float rows[CALLS][DIM];
	static uint64_t keys[CALLS];
	struct star_error err = { 0 };

	CHECK(pull_works(&b));
	for (int round = 0; round < 3; round++) {
		const uint32_t before = peer_requests(b.peer);

		peer_misbehave(b.peer, FAULT_HOLD, 0, 1);
		for (int i = 0; i < CALLS; i++) {
			const struct star_op op = pull_op(&b, &keys[i], 1, rows[i]);

			keys[i] = (uint64_t)i;
			requests[i] = star_execute_async(b.cluster, &op, 1, LONG_US, NULL, NULL, &err);
		}
		peer_open_gate(b.peer);
		CHECK(peer_wait_requests(b.peer, before + CALLS));
		for (int i = 0; i < CALLS; i++) {
			CHECK_INT(star_request_wait(requests[i], &err), 0);
			CHECK_NEAR(rows[i][0], peer_initial(1, keys[i], 0), 0);
		}
	}
	bench_stop(&b);
}

struct chain {
	struct bench *b;
	struct star_request **requests;
	atomic_int made, ended, wrong;
	int most;
	struct link {
		struct chain *chain;
		uint64_t key;
		float row[DIM];
	} links[2000];
};

static void next_link(void *arg, int status, const struct star_error *err);

static void make_link(struct chain *c)
{
	const int i = atomic_fetch_add(&c->made, 1);
	struct link *l = &c->links[i];
	struct star_error err = { 0 };
	struct star_op op;

	if (i >= c->most)
		return;
	*l = (struct link){ .chain = c, .key = (uint64_t)i % 500 };
	op = pull_op(c->b, &l->key, 1, l->row);
	c->requests[i] = star_execute_async(c->b->cluster, &op, 1, LONG_US, next_link, l, &err);
	if (!c->requests[i])
		atomic_fetch_add(&c->wrong, 1);
}

static void next_link(void *arg, int status, const struct star_error *err)
{
	struct link *l = arg;
	struct chain *c = l->chain;

	if (status || l->row[1] != peer_initial(1, l->key, 1)) /* exact: the peer computes it alike */
		atomic_fetch_add(&c->wrong, 1);
	make_link(c);
	atomic_fetch_add(&c->ended, 1);
}

/* Chains of calls, each begun by the callback of the one before. */
void callbacks_keep_calls_going(void)
{
	enum { CHAINS = 16, LINKS = 1500 };
	static struct star_request *requests[LINKS];
	static struct chain chain;
	struct bench b = bench_start(1, 2, DIM);
	struct star_error err = { 0 };

	memset(&chain, 0, sizeof(chain));
	chain.b = &b;
	chain.requests = requests;
	chain.most = LINKS;
	for (int i = 0; i < CHAINS; i++)
		make_link(&chain);
	while (atomic_load(&chain.ended) < LINKS && !atomic_load(&chain.wrong))
		sleep_ms(1);
	CHECK_INT(atomic_load(&chain.wrong), 0);
	for (int i = 0; i < LINKS && !atomic_load(&chain.wrong); i++)
		CHECK_INT(star_request_wait(requests[i], &err), 0);
	bench_stop(&b);
}

enum { HANDED = 2000, LANE = 32 };

/* Requests from the thread that makes them to the one that waits for them. */
struct lane {
	struct bench *b;
	_Atomic(struct star_request *) slots[LANE];
	float rows[LANE][DIM];
	uint64_t keys[LANE];
	uint64_t base;
	atomic_int wrong;
	pthread_t maker, waiter;
};

static void *make_requests(void *arg)
{
	struct lane *l = arg;

	for (int i = 0; i < HANDED; i++) {
		const int at = i % LANE;
		struct star_error err = { 0 };
		struct star_request *request;
		struct star_op op;

		while (atomic_load(&l->slots[at]))
			sched_yield();
		l->keys[at] = l->base + (uint64_t)i % 100;
		op = pull_op(l->b, &l->keys[at], 1, l->rows[at]);
		request = star_execute_async(l->b->cluster, &op, 1, LONG_US, NULL, NULL, &err);
		if (!request) {
			atomic_fetch_add(&l->wrong, HANDED);
			return NULL;
		}
		atomic_store(&l->slots[at], request);
	}
	return NULL;
}

static void *wait_for_requests(void *arg)
{
	struct lane *l = arg;

	for (int i = 0; i < HANDED; i++) {
		const int at = i % LANE;
		struct star_error err = { 0 };
		struct star_request *request;

		while (!(request = atomic_load(&l->slots[at])))
			if (atomic_load(&l->wrong) >= HANDED)
				return NULL;
			else
				sched_yield();
		if (star_request_wait(request, &err) != 0 || l->rows[at][0] != peer_initial(1, l->keys[at], 0))
			atomic_fetch_add(&l->wrong, 1);
		atomic_store(&l->slots[at], NULL);
	}
	return NULL;
}

/* One thread's calls are given back by another one, and taken again by a third. */
void requests_are_waited_for_elsewhere(void)
{
	enum { LANES = 3 };
	static struct lane lanes[LANES];
	struct bench b = bench_start(1, 2, DIM);

	memset(lanes, 0, sizeof(lanes));
	for (int i = 0; i < LANES; i++) {
		lanes[i].b = &b;
		lanes[i].base = (uint64_t)i * 100;
		if (pthread_create(&lanes[i].maker, NULL, make_requests, &lanes[i]) != 0 ||
		    pthread_create(&lanes[i].waiter, NULL, wait_for_requests, &lanes[i]) != 0)
			abort();
	}
	for (int i = 0; i < LANES; i++) {
		pthread_join(lanes[i].maker, NULL);
		pthread_join(lanes[i].waiter, NULL);
		CHECK_INT(atomic_load(&lanes[i].wrong), 0);
	}
	bench_stop(&b);
}

/* In flight, finished, failed; small, and with memory beyond a call's own. The sanitizers see what is lost. */
void close_frees_what_nobody_waited_for(void)
{
	enum { CALLS = 60 };
	static float rows[CALLS][ROWS * DIM];
	static uint64_t keys[ROWS];
	struct bench b = bench_start(1, 2, DIM);
	struct star_request *last = NULL;
	struct star_error err = { 0 };

	for (uint64_t i = 0; i < ROWS; i++)
		keys[i] = i % 500;
	for (int i = 0; i < CALLS; i++) {
		const struct star_op op = pull_op(&b, keys, i % 2 ? ROWS : 1, rows[i]);

		if (i == CALLS / 2) {
			CHECK_INT(star_request_wait(last, &err), 0);
			peer_misbehave(b.peer, FAULT_NO_ANSWER, 0, UINT32_MAX);
		}
		last = star_execute_async(b.cluster, &op, 1, LONG_US, NULL, NULL, &err);
		CHECK(last != NULL);
	}
	bench_stop(&b);
}
