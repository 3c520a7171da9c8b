/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous calls, many threads, and the end of a cluster handle. */
#include "tests/client/cases.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct seen {
	atomic_int times;
	int status;
	pthread_t thread;
	struct star_error err;
};

static void note(void *arg, int status, const struct star_error *err)
{
	struct seen *s = arg;

	s->status = status;
	s->thread = pthread_self();
	s->err = *err;
	atomic_fetch_add(&s->times, 1);
}

void callbacks_run_once_elsewhere(void)
{
	enum { CALLS = 100 };
	struct bench b = bench_start(2, 2, 4);
	static struct seen seen[CALLS];
	static float rows[CALLS][20 * 4];
	struct star_request *requests[CALLS];
	struct star_error err = { 0 };
	uint64_t keys[20];

	memset(seen, 0, sizeof(seen));
	for (uint64_t i = 0; i < 20; i++)
		keys[i] = i * i;
	for (int i = 0; i < CALLS; i++) {
		const struct star_op op = {
			.kind = STAR_PULL, .table = b.table, .keys = keys, .count = 20, .values = rows[i]
		};

		requests[i] = star_execute_async(b.cluster, &op, 1, LONG_US, i % 3 ? note : NULL, &seen[i], &err);
		if (!CHECK(requests[i] != NULL))
			return;
	}
	for (int i = CALLS; i-- > 0;) {
		CHECK_INT(star_request_wait(requests[i], &err), 0);
		CHECK_INT(atomic_load(&seen[i].times), i % 3 ? 1 : 0); /* wait returns after the callback */
		if (i % 3) {
			CHECK_INT(seen[i].status, 0);
			CHECK(!pthread_equal(seen[i].thread, pthread_self()));
		}
		CHECK_NEAR(rows[i][19 * 4 + 1], peer_initial(1, keys[19], 1), 0);
	}
	/* A failure reaches both the callback and the waiter, with its sentence. */
	peer_answer(b.peer, WIRE_NO_MEMORY, "the parameter memory of this node is full", 4);
	const struct star_op op = { .kind = STAR_PULL, .table = b.table, .keys = keys, .count = 20, .values = rows[0] };
	struct star_request *request = star_execute_async(b.cluster, &op, 1, LONG_US, note, &seen[0], &err);

	while (atomic_load(&seen[0].times) < 1)
		sleep_ms(1);
	CHECK_INT(star_request_wait(request, &err), -ENOSPC); /* after done, too */
	CHECK_INT(seen[0].status, -ENOSPC);
	CHECK_HAS(seen[0].err.text, "memory of this node is full");
	CHECK_STR(seen[0].err.text, err.text);
	bench_stop(&b);
}

void pushes_and_pulls_of_a_channel_keep_their_order(void)
{
	enum { ROUNDS = 300 }; /* more than IN_FLIGHT_MAX */
	struct bench b = bench_start(1, 2, 1);
	static float rows[ROUNDS][8], ones[8];
	static struct star_request *requests[ROUNDS][2];
	uint64_t keys[8];
	struct star_error err = { 0 };

	for (uint64_t i = 0; i < 8; i++) {
		keys[i] = i;
		ones[i] = 1;
	}
	for (int i = 0; i < ROUNDS; i++) {
		const struct star_op push = {
			.kind = STAR_PUSH, .table = b.table, .keys = keys, .count = 8, .values = ones
		};
		const struct star_op pull = {
			.kind = STAR_PULL, .table = b.table, .keys = keys, .count = 8, .values = rows[i]
		};

		requests[i][0] = star_execute_async(b.cluster, &push, 1, LONG_US, NULL, NULL, &err);
		requests[i][1] = star_execute_async(b.cluster, &pull, 1, LONG_US, NULL, NULL, &err);
	}
	for (int i = 0; i < ROUNDS; i++)
		for (int j = 0; j < 2; j++)
			CHECK_INT(star_request_wait(requests[i][j], &err), 0);
	for (int i = 0; i < ROUNDS; i++)
		for (uint32_t k = 0; k < 8; k++)
			CHECK_NEAR(rows[i][k], peer_initial(1, keys[k], 0) - (float)(i + 1), 1e-2);
	CHECK_UINT(peer_connections(b.peer), 2);
	bench_stop(&b);
}

struct nested {
	struct bench *b;
	uint64_t key;
	float value;
	int waited, created, executed;
	struct star_request *inner;
	atomic_int done;
};

static void start_another(void *arg, int status, const struct star_error *err)
{
	struct nested *n = arg;
	const struct star_op op = {
		.kind = STAR_PULL, .table = n->b->table, .keys = &n->key, .count = 1, .values = &n->value
	};
	struct star_error inner = { 0 };

	n->executed = star_pull(n->b->table, &n->key, 1, &n->value, 0, LONG_US, &inner);
	star_lookup(n->b->cluster, "words", LONG_US, &inner);
	n->created = inner.code;
	n->inner = star_execute_async(n->b->cluster, &op, 1, LONG_US, NULL, NULL, &inner);
	n->waited = star_request_wait(n->inner, &inner);
	atomic_store(&n->done, 1);
}

void callbacks_may_start_calls_but_not_wait(void)
{
	struct bench b = bench_start(1, 1, 1);
	struct nested n = { .b = &b, .key = 3 };
	const struct star_op op = {
		.kind = STAR_PULL, .table = b.table, .keys = &n.key, .count = 1, .values = &n.value
	};
	struct star_error err = { 0 };
	struct star_request *request = star_execute_async(b.cluster, &op, 1, LONG_US, start_another, &n, &err);

	CHECK_INT(star_request_wait(request, &err), 0);
	CHECK_INT(atomic_load(&n.done), 1);
	CHECK_INT(n.executed, -EDEADLK);
	CHECK_INT(n.created, -EDEADLK);
	CHECK_INT(n.waited, -EDEADLK);
	CHECK_INT(star_request_wait(n.inner, &err), 0);
	CHECK_NEAR(n.value, peer_initial(1, 3, 0), 0);
	bench_stop(&b);
}

struct worker {
	struct bench *b;
	pthread_t thread;
	uint64_t base;
	uint32_t wrong, failed;
	struct star_error err;
};

/* Its own keys: so it knows what it must see, whatever the others do. */
static void *work(void *arg)
{
	enum { ROUNDS = 60, KEYS = 50, DIM = 3 };
	struct worker *w = arg;
	uint64_t keys[KEYS];
	float rows[KEYS * DIM], ones[KEYS * DIM];

	for (uint32_t i = 0; i < KEYS; i++)
		keys[i] = w->base + i;
	for (uint32_t i = 0; i < KEYS * DIM; i++)
		ones[i] = 1;
	for (int round = 0; round < ROUNDS; round++) {
		struct star_op ops[] = {
			{ .kind = STAR_PUSH, .table = w->b->table, .keys = keys, .count = KEYS, .values = ones },
			{ .kind = STAR_PULL, .table = w->b->table, .keys = keys, .count = KEYS, .values = rows },
		};

		if (round % 5 == 4) {
			struct star_request *request =
				star_execute_async(w->b->cluster, ops, 2, LONG_US, NULL, NULL, &w->err);

			w->failed += !request || star_request_wait(request, &w->err) != 0;
		} else {
			w->failed += star_execute(w->b->cluster, ops, 2, LONG_US, &w->err) != 0;
		}
		for (uint32_t i = 0; i < KEYS; i++)
			w->wrong += fabsf(rows[i * DIM] - peer_initial(1, keys[i], 0) + (float)(round + 1)) > 0.01f;
	}
	return NULL;
}

void many_threads_share_the_channels(void)
{
	enum { THREADS = 8 };
	struct bench b = bench_start(2, 2, 3);
	struct worker workers[THREADS];

	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .b = &b, .base = (uint64_t)i * 1000 };
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			abort();
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		CHECK_UINT(workers[i].wrong, 0);
		if (workers[i].failed)
			unit_fail(__FILE__, __LINE__, "%u calls failed: %s", workers[i].failed, workers[i].err.text);
	}
	CHECK_UINT(peer_connections(b.peer), 4);
	bench_stop(&b);
}

void many_threads_share_the_channels_polling(void)
{
	setenv("WORKER_ENABLE_POLLING", "True", 1);
	setenv("NETWORK_WORKER_CORE_NUMBER", "1", 1);
	many_threads_share_the_channels();
	unsetenv("WORKER_ENABLE_POLLING");
	unsetenv("NETWORK_WORKER_CORE_NUMBER");
}

struct stuck {
	struct bench *b;
	int status;
	struct star_error err;
};

static void *pull_for_ever(void *arg)
{
	struct stuck *s = arg;
	uint64_t key = 1;
	float row[2];

	s->status = star_pull(s->b->table, &key, 1, row, 0, LONG_US, &s->err);
	return NULL;
}

/* A layout is asked for, by a call of each kind, of a node that does not answer. */
void close_waits_for_no_layout(void)
{
	struct bench b = bench_start(1, 1, 2);
	struct stuck stuck = { .b = &b };
	static struct seen seen;
	static float row[2];
	struct star_error err = { 0 };
	const uint64_t key = 1;
	struct star_op op = star_op_pull(b.table, &key, 1, row);
	uint64_t begun, before;
	pthread_t thread;

	memset(&seen, 0, sizeof(seen));
	CHECK(pull_works(&b));
	before = peer_requests(b.peer);
	peer_hush(b.peer);
	peer_relayout(b.peer, 1, true);
	CHECK(star_execute_async(b.cluster, &op, 1, LONG_US, note, &seen, &err) != NULL);
	if (pthread_create(&thread, NULL, pull_for_ever, &stuck) != 0)
		abort();
	peer_wait_requests(b.peer, (uint32_t)before + 2);
	peer_wait_hushed(b.peer, 1);
	begun = now_us();
	star_close(b.cluster);
	pthread_join(thread, NULL);
	CHECK(now_us() - begun < LONG_US / 2);
	CHECK_INT(stuck.status, -ECANCELED);
	CHECK_INT(atomic_load(&seen.times), 1);
	CHECK_INT(seen.status, -ECANCELED);
	peer_stop(b.peer);
}

/* One thread asks for the layout on behalf of all of them. */
void deadlines_fire_while_another_call_waits_for_a_layout(void)
{
	struct bench b = bench_start(1, 1, 2);
	struct star_request *patient, *soon;
	static float rows[2][2];
	struct star_error err = { 0 };
	const uint64_t key = 1;
	struct star_op op = star_op_pull(b.table, &key, 1, rows[0]);
	uint64_t begun;

	CHECK(pull_works(&b));
	peer_hush(b.peer);
	peer_relayout(b.peer, 1, true);
	patient = star_execute_async(b.cluster, &op, 1, LONG_US, NULL, NULL, &err);
	peer_wait_hushed(b.peer, 1);
	op.values = rows[1];
	begun = now_us();
	soon = star_execute_async(b.cluster, &op, 1, 100000, NULL, NULL, &err);
	CHECK_INT(star_request_wait(soon, &err), -ETIMEDOUT);
	CHECK(now_us() - begun < LONG_US / 2);
	peer_speak(b.peer);
	CHECK_INT(star_request_wait(patient, &err), 0);
	CHECK_NEAR(rows[0][0], peer_initial(1, 1, 0), 0);
	bench_stop(&b);
}

void close_fails_what_is_in_flight(void)
{
	enum { CALLS = 10 };
	struct bench b = bench_start(1, 1, 2);
	struct stuck stuck = { .b = &b };
	static struct seen seen[CALLS];
	static float rows[CALLS][2];
	struct star_error err = { 0 };
	uint64_t key = 1, begun;
	pthread_t thread;

	memset(seen, 0, sizeof(seen));
	peer_misbehave(b.peer, FAULT_NO_ANSWER, 0, UINT32_MAX);
	for (int i = 0; i < CALLS; i++) {
		const struct star_op op = {
			.kind = STAR_PULL, .table = b.table, .keys = &key, .count = 1, .values = rows[i]
		};

		CHECK(star_execute_async(b.cluster, &op, 1, LONG_US, note, &seen[i], &err) != NULL);
	}
	if (pthread_create(&thread, NULL, pull_for_ever, &stuck) != 0)
		abort();
	peer_wait_requests(b.peer, CALLS + 1);
	begun = now_us();
	star_close(b.cluster);
	pthread_join(thread, NULL);
	CHECK(now_us() - begun < LONG_US / 2);
	CHECK_INT(stuck.status, -ECANCELED);
	CHECK_HAS(stuck.err.text, "PS task 0, reactor 0");
	for (int i = 0; i < CALLS; i++) {
		CHECK_INT(atomic_load(&seen[i].times), 1);
		CHECK_INT(seen[i].status, -ECANCELED);
	}
	peer_stop(b.peer);
}
