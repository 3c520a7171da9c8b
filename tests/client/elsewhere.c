/* SPDX-License-Identifier: BSD-3-Clause */
/* A node's place is taken by another, known one: when that is tried, and what it is sent. */
#include "client/attempt.h"
#include "client/client.h"
#include "tests/client/cases.h"

enum { DIM = 4 };

static const uint64_t key = 7;

static void push(struct bench *b)
{
	static const float row[DIM] = { 1, 1, 1, 1 };
	struct star_error err = { 0 };

	if (!CHECK_INT(star_push(b->table, &key, 1, row, LONG_US, &err), 0))
		unit_fail(__FILE__, __LINE__, "%s", err.text);
}

/* The other node has been brought some of what is kept, or all: it says so in its first reply, and only what it has not
 * is sent again. */
void what_the_other_node_has_is_not_sent_again(void)
{
	enum { PUSHES = 8 };
	float row[DIM];

	for (uint32_t there = 2; there <= PUSHES; there += 3) {
		struct bench b = bench_start(1, 1, DIM);
		struct star_error err = { 0 };

		peer_retain(b.peer);
		push(&b);
		peer_be_silent(b.peer); /* of what is durable from now on */
		for (uint32_t i = 2; i <= PUSHES; i++) {
			push(&b);
			if (i == there)
				peer_make_durable(b.peer);
		}
		CHECK_UINT(peer_counter(b.peer, &b.peer->kept), PUSHES - 1);
		peer_be_alone(b.peer);
		peer_fail_over(b.peer);
		CHECK_INT(star_pull(b.table, &key, 1, row, 0, LONG_US, &err), 0);
		CHECK_NEAR(row[0], peer_initial(1, key, 0) - PUSHES, 1e-3);
		CHECK_UINT(peer_counter(b.peer, &b.peer->kept_again), 1 + PUSHES - there);
		CHECK_INT(star_settle(b.cluster, LONG_US, &err), 0);
		bench_stop(&b);
	}
}

/* A node that closes the connection has given up its place: the other address is tried first, though the former one
 * would answer as well. */
void who_is_hung_up_on_tries_the_other_address_first(void)
{
	struct bench b = bench_start(1, 1, DIM);

	pull_works(&b);
	peer_open_door(b.peer);
	pull_works(&b);
	for (uint32_t i = 1; i <= 4; i++) {
		peer_fail_over(b.peer);
		if (i % 2)
			sleep_ms(5); /* it looks whether the connection is there still before it uses it again */
		pull_works(&b);
		CHECK_UINT(peer_counter(b.peer, &b.peer->door_connections), (i + 1) / 2);
	}
	bench_stop(&b);
}

/* A node that does not answer may be gone: the first attempts are short. */
void attempts_at_two_addresses_take_longer_each_time(void)
{
	static const uint32_t ms[] = { 50, 50, 100, 100, 200, 200, 400, 400, 500, 500, 500 };
	struct channel ch = { 0 };

	for (size_t i = 0; i < sizeof(ms) / sizeof(ms[0]); i++) {
		ch.attempts = (uint32_t)i + 1;
		CHECK_UINT(client_attempt_until_ns(&ch, 7), 7 + ms[i] * UINT64_C(1000000));
	}
	ch.attempts = UINT32_MAX;
	CHECK_UINT(client_attempt_until_ns(&ch, 7), 7 + UINT64_C(500000000));
}
