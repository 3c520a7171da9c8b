/* SPDX-License-Identifier: BSD-3-Clause */
/* What a call does when a node fails, lies, or is late. */
#include "tests/client/cases.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIM = 4, KEYS = 64 };

static uint64_t keys[KEYS];
static float pulled[KEYS * DIM];

/* They are always the same, and calls that are under way read them. */
static void fill_keys(void)
{
	if (keys[1])
		return;
	for (uint64_t i = 0; i < KEYS; i++)
		keys[i] = i;
}

static int pull(struct bench *b, float *rows, uint64_t deadline_us, struct star_error *err)
{
	fill_keys();
	err->text[0] = 0;
	return star_pull(b->table, keys, KEYS, rows, 0, deadline_us, err);
}

static struct star_request *pull_async(struct bench *b, float *rows, uint64_t deadline_us)
{
	const struct star_op op = { .kind = STAR_PULL, .table = b->table, .keys = keys, .count = KEYS, .values = rows };
	struct star_error err = { 0 };
	struct star_request *request;

	fill_keys();
	request = star_execute_async(b->cluster, &op, 1, deadline_us, NULL, NULL, &err);
	if (!request)
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	return request;
}

/* As errors name it. */
static const char *first_reactor(const struct bench *b)
{
	return b->peer->datagrams ? "PS task 0, reactor 0 (" PEER_DATA_HOST ":" : "PS task 0, reactor 0 (127.0.0.1:";
}

void a_bad_node_fails_the_call_and_is_reconnected(void)
{
	static const struct {
		enum peer_fault fault;
		int code;
		const char *says, *says_by_dpdk; /* NULL: the same */
	} cases[] = {
		{ FAULT_CHECKSUM, -EBADMSG, "checksum does not match", NULL },
		{ FAULT_SEQUENCE, -EPROTO, "out of sequence", NULL },
		{ FAULT_SESSION, -EPROTO, "session that is not this one", NULL },
		{ FAULT_MAGIC, -EPROTO, "not a reply frame", "violates the protocol" },
		{ FAULT_OPCODE, -EPROTO, "not a reply frame", NULL },
		{ FAULT_HUGE_LENGTH, -EPROTO, "not a reply frame", "violates the protocol" },
		{ FAULT_SHORT_PAYLOAD, -EPROTO, "payload of the wrong length", NULL },
		{ FAULT_WRONG_COUNT, -EPROTO, "not those of the request", NULL },
		{ FAULT_WRONG_OBJECT, -EPROTO, "not those of the request", NULL },
		{ FAULT_WRONG_BODY, -EPROTO, "not those of the request", NULL },
		{ FAULT_GARBAGE, -EPROTO, "not a reply frame", "violates the protocol" },
		{ FAULT_LONG_SENTENCE, -EPROTO, "sentence over the limit", NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (uint32_t skip = 0; skip < 2; skip++) {
			struct bench b = bench_start(1, 1, DIM);
			struct star_error err = { 0 };

			for (int j = 0; j < KEYS * DIM; j++)
				pulled[j] = -5;
			if (skip) /* on a connection that has worked */
				pull_works(&b);
			peer_misbehave(b.peer, cases[i].fault, 0, 1);
			CHECK_INT(pull(&b, pulled, LONG_US, &err), cases[i].code);
			CHECK_HAS(err.text, first_reactor(&b));
			CHECK_HAS(err.text,
				  b.peer->datagrams && cases[i].says_by_dpdk ? cases[i].says_by_dpdk : cases[i].says);
			for (int j = 0; j < KEYS * DIM; j++)
				if (!CHECK_NEAR(pulled[j], -5, 0))
					break;
			pull_works(&b);
			CHECK_UINT(peer_connections(b.peer), 2);
			bench_stop(&b);
		}
}

/* Over TCP by another connection with the same session, some times; over datagrams there is nothing to lose but the
 * session. */
void a_lost_connection_is_replaced_in_the_middle_of_calls(void)
{
	static const struct {
		enum peer_fault fault;
		const char *says, *says_by_dpdk;
	} cases[] = {
		{ FAULT_CLOSE, "closed the connection", "closed the connection" },
		{ FAULT_CLOSE_IN_REPLY, "closed the connection", "closed the connection" },
		/* "was lost", or, if a send has met the reset first, "closed" */
		{ FAULT_RESET, "while this call was in flight", "closed the connection" },
	};
	enum { CALLS = 5, UNANSWERED_MAX = 4 }; /* as in client/client.h */

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (uint32_t losses = 1; losses <= UNANSWERED_MAX; losses++) {
			struct bench b = bench_start(1, 1, DIM);
			const bool lasts = losses == UNANSWERED_MAX;
			struct star_request *requests[CALLS];
			static float rows[CALLS][KEYS * DIM];
			struct star_error err = { 0 };

			peer_misbehave(b.peer, cases[i].fault, 0, losses);
			for (int j = 0; j < CALLS; j++)
				requests[j] = pull_async(&b, rows[j], LONG_US);
			for (int j = 0; j < CALLS; j++) {
				const int rc = star_request_wait(requests[j], &err);

				if (lasts && j == 0) {
					CHECK_INT(rc, -ECONNRESET);
					CHECK_HAS(err.text, first_reactor(&b));
					CHECK_HAS(err.text, b.peer->datagrams ? cases[i].says_by_dpdk : cases[i].says);
				} else if (!lasts) {
					CHECK_INT(rc, 0);
				}
			}
			pull_works(&b);
			CHECK_UINT(peer_connections(b.peer), losses + 1);
			bench_stop(&b);
		}
}

void a_dying_channel_fails_all_in_flight_at_once(void)
{
	enum { CALLS = 20 };
	struct bench b = bench_start(1, 1, DIM);
	struct star_request *requests[CALLS];
	static float rows[CALLS][KEYS * DIM];
	struct star_error err = { 0 };
	const uint64_t begun = now_us();

	peer_misbehave(b.peer, FAULT_HOLD, 0, 1);
	for (int i = 0; i < CALLS; i++)
		requests[i] = pull_async(&b, rows[i], LONG_US);
	peer_wait_held(b.peer, 1);
	pthread_mutex_lock(&b.peer->lock);
	b.peer->fault = FAULT_TWICE; /* the first is answered, the second lies, and takes the rest with it */
	b.peer->fault_skip = 3;
	b.peer->fault_count = 1;
	pthread_mutex_unlock(&b.peer->lock);
	peer_open_gate(b.peer);
	for (int i = 0; i < CALLS; i++) {
		const int rc = star_request_wait(requests[i], &err);

		CHECK_INT(rc, i <= 4 ? 0 : -EPROTO);
		if (rc)
			CHECK_HAS(err.text, first_reactor(&b));
	}
	CHECK(now_us() - begun < LONG_US / 2);
	pull_works(&b);
	bench_stop(&b);
}

void other_reactors_go_on(void)
{
	struct bench b = bench_start(2, 1, DIM);
	struct star_error err = { 0 };
	uint64_t good[KEYS];
	uint32_t n = 0;

	b.peer->fault_reactor = 1;
	peer_misbehave(b.peer, FAULT_CLOSE, 0, UINT32_MAX);
	CHECK_INT(pull(&b, pulled, LONG_US, &err), -ECONNRESET);
	CHECK_HAS(err.text, "PS task 1, reactor 0");
	for (uint64_t key = 0; n < 10; key++)
		if (peer_owner(b.peer, &b.peer->objects[0], key) == 0)
			good[n++] = key;
	CHECK_INT(star_pull(b.table, good, n, pulled, 0, LONG_US, &err), 0);
	CHECK_NEAR(pulled[9 * DIM], peer_initial(1, good[9], 0), 0);
	bench_stop(&b);
}

void deadlines_fire(void)
{
	struct bench b = bench_start(1, 1, DIM);
	struct star_request *requests[3];
	struct star_error err = { 0 };
	static float rows[3][KEYS * DIM];
	uint64_t begun;

	pull_works(&b);
	begun = now_us();
	peer_misbehave(b.peer, FAULT_NO_ANSWER, 0, UINT32_MAX);
	CHECK_INT(pull(&b, pulled, 60000, &err), -ETIMEDOUT);
	CHECK(now_us() - begun >= 60000);
	CHECK_HAS(err.text, first_reactor(&b));
	CHECK_HAS(err.text, "did not answer within");
	begun = now_us();
	for (int i = 0; i < 3; i++)
		requests[i] = pull_async(&b, rows[i], 40000 * (uint64_t)(3 - i));
	for (int i = 2; i >= 0; i--) {
		CHECK_INT(star_request_wait(requests[i], &err), -ETIMEDOUT);
		CHECK(now_us() - begun >= 40000 * (uint64_t)(3 - i));
		CHECK_HAS(err.text, "did not answer");
	}
	bench_stop(&b);
}

/* One call's reply is held back, wholly or in its middle, until its deadline is over; a second call waits behind it. */
static void late(enum peer_fault fault)
{
	struct bench b = bench_start(1, 1, DIM);
	static float first[KEYS * DIM], second[KEYS * DIM];
	struct star_request *request;
	struct star_error err = { 0 };

	peer_misbehave(b.peer, fault, 0, 1);
	for (int i = 0; i < KEYS * DIM; i++)
		first[i] = second[i] = -5;
	request = pull_async(&b, second, LONG_US); /* the I/O thread keeps the channel */
	peer_wait_held(b.peer, 1);
	CHECK_INT(pull(&b, first, 200000, &err), -ETIMEDOUT);
	peer_open_gate(b.peer);
	CHECK_INT(star_request_wait(request, &err), 0);
	CHECK_NEAR(second[KEYS * DIM - 1], peer_initial(1, KEYS - 1, DIM - 1), 0);

	/* And the other way round: the late one is first. */
	peer_misbehave(b.peer, fault, 0, 1);
	request = pull_async(&b, first, 200000);
	peer_wait_held(b.peer, 1);
	CHECK_INT(star_request_wait(request, &err), -ETIMEDOUT);
	for (int i = 0; i < KEYS * DIM; i++)
		first[i] = -5;
	request = pull_async(&b, second, LONG_US);
	peer_open_gate(b.peer);
	CHECK_INT(star_request_wait(request, &err), 0);
	pull_works(&b); /* and once more, behind all that was late */
	for (int i = 0; i < KEYS * DIM; i++)
		if (!CHECK_NEAR(first[i], -5, 0))
			break;
	CHECK_UINT(peer_connections(b.peer), 1);
	bench_stop(&b);
}

void late_replies_are_dropped(void)
{
	late(FAULT_HOLD);
	late(FAULT_HOLD_IN_REPLY);
}

void a_request_half_sent_is_completed(void)
{
	enum { ROWS = 250, WIDE = 4096, CALLS = 6 };
	struct bench b = bench_start(1, 1, WIDE);
	struct star_request *requests[CALLS];
	static uint64_t rows_keys[ROWS];
	float *gradients = calloc(ROWS * WIDE, sizeof(*gradients));
	struct star_op op = {
		.kind = STAR_PUSH, .table = b.table, .keys = rows_keys, .count = ROWS, .values = gradients
	};
	struct star_error err = { 0 };

	for (uint64_t i = 0; i < ROWS; i++)
		rows_keys[i] = i;
	peer_misbehave(b.peer, FAULT_HOLD, 0,
		       1); /* it reads no further: the socket's buffers fill in a request's middle */
	for (int i = 0; i < CALLS; i++)
		requests[i] = star_execute_async(b.cluster, &op, 1, 500000, NULL, NULL, &err);
	peer_wait_held(b.peer, 1);
	for (int i = 0; i < CALLS; i++)
		CHECK_INT(star_request_wait(requests[i], &err), -ETIMEDOUT);
	for (int i = 0; i < ROWS * WIDE; i++)
		gradients[i] = 1e9f; /* the memory is ours again: what was cut off must not see this */
	peer_open_gate(b.peer);
	pull_works(&b);
	CHECK_UINT(peer_connections(b.peer), 1);
	free(gradients);
	bench_stop(&b);
}

void silent_requests_do_not_pile_up(void)
{
	enum { CALLS = 3000 }; /* more than may be in flight, though some time out before they are sent */
	struct bench b = bench_start(1, 1, DIM);
	struct star_error err = { 0 };

	pull_works(&b);
	peer_misbehave(b.peer, FAULT_NO_ANSWER, 0, CALLS);
	for (int i = 0; i < CALLS && peer_connections(b.peer) < 2; i++)
		CHECK_INT(pull(&b, pulled, 1000, &err), -ETIMEDOUT);
	CHECK_UINT(peer_connections(b.peer), 2); /* the first one was given up when it was full */
	peer_misbehave(b.peer, FAULT_NONE, 0, 0);
	/* Behind swallowed requests an answer is out of sequence; that ends the second connection, at the latest. */
	if (pull(&b, pulled, LONG_US, &err) < 0)
		CHECK_HAS(err.text, "out of sequence");
	pull_works(&b);
	bench_stop(&b);
}

void a_connection_closed_while_idle_is_replaced(void)
{
	struct bench b = bench_start(1, 2, DIM);

	for (int i = 0; i < 3; i++) {
		peer_misbehave(b.peer, FAULT_CLOSE_AFTER, 0, 2);
		pull_works(&b);
		sleep_ms(50); /* the FIN arrives, and the channel counts as idle */
		pull_works(&b);
	}
	CHECK_UINT(peer_connections(b.peer), 8);
	bench_stop(&b);
}

void slow_bytes_are_put_together(void)
{
	struct bench b = bench_start(1, 1, DIM);
	struct star_error err = { 0 };

	peer_misbehave(b.peer, FAULT_DRIBBLE, 0, 3);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(pull(&b, pulled, LONG_US, &err), 0);
		CHECK_NEAR(pulled[KEYS * DIM - 1], peer_initial(1, KEYS - 1, DIM - 1), 0);
	}
	bench_stop(&b);
}

void a_refusing_node_is_named(void)
{
	struct bench b = bench_start(1, 1, DIM);
	struct star_error err = { 0 };
	struct star_request *request;
	uint64_t begun;

	pull_works(&b);
	peer_unplug(b.peer);
	sleep_ms(50);
	for (int i = 0; i < 2; i++) {
		begun = now_us();
		CHECK_INT(pull(&b, pulled, 150000, &err), -ECONNREFUSED);
		CHECK(now_us() - begun >= 150000); /* it tried until then */
		CHECK_HAS(err.text, "cannot connect to");
		CHECK_HAS(err.text, first_reactor(&b));
		CHECK_HAS(err.text, "refused");
	}
	request = pull_async(&b, pulled, 150000);
	CHECK_INT(star_request_wait(request, &err), -ECONNREFUSED);
	bench_stop(&b);
}

void connecting_gives_up_in_time(void)
{
	struct star_error err = { 0 };
	struct bench b;
	uint64_t begun;

	setenv("NETWORK_MAX_CONNECTION_TIMEOUT", "300", 1);
	b = bench_start(1, 1, DIM);
	unsetenv("NETWORK_MAX_CONNECTION_TIMEOUT");
	peer_unplug(b.peer);
	begun = now_us();
	CHECK_INT(pull(&b, pulled, LONG_US, &err), -ECONNREFUSED);
	CHECK(now_us() - begun >= 300000);
	CHECK(now_us() - begun < LONG_US / 2);
	CHECK_HAS(err.text, "within 0.3 s");
	CHECK_INT(star_request_wait(pull_async(&b, pulled, LONG_US), &err), -ECONNREFUSED);
	bench_stop(&b);
}

/* One of the two is about to serve: a call that waits for it must not sleep long when it does. */
void two_addresses_are_tried_often_at_first(void)
{
	struct star_error err = { 0 };
	unsigned attempts = 0;
	const char *says;
	struct bench b;

	setenv("NETWORK_MAX_CONNECTION_TIMEOUT", "1000", 1);
	b = bench_start(1, 1, DIM);
	unsetenv("NETWORK_MAX_CONNECTION_TIMEOUT");
	pull_works(&b);
	peer_open_door(b.peer);
	pull_works(&b);
	peer_close_door(b.peer);
	peer_unplug(b.peer);
	CHECK_INT(pull(&b, pulled, LONG_US, &err), -ECONNREFUSED);
	says = strrchr(err.text, '(');
	CHECK(says && sscanf(says, "(%u attempts", &attempts) == 1);
	if (attempts < 20)
		unit_fail(__FILE__, __LINE__, "%u attempts in a second: %s", attempts, err.text);
	bench_stop(&b);
}

void statuses_become_errno(void)
{
	static const struct {
		unsigned status;
		int code;
	} cases[] = {
		{ WIRE_BAD_FRAME, -EPROTO },   { WIRE_BAD_CHECKSUM, -EBADMSG },	 { WIRE_BAD_REQUEST, -EINVAL },
		{ WIRE_WRONG_SHARD, -EPROTO }, { WIRE_UNKNOWN_OBJECT, -ENOENT }, { WIRE_WRONG_DIM, -EINVAL },
		{ WIRE_WRONG_TYPE, -EINVAL },  { WIRE_NO_KEYS, -EINVAL },	 { WIRE_OVER_LIMIT, -E2BIG },
		{ WIRE_NO_MEMORY, -ENOSPC },   { WIRE_DEADLINE, -ETIMEDOUT },	 { WIRE_SHUTTING_DOWN, -ECONNRESET },
		{ WIRE_NOT_FINITE, -EDOM },    { WIRE_CLOSED, -EALREADY },	 { 200, -EPROTO },
	};
	struct bench b = bench_start(1, 1, DIM);
	struct star_error err = { 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		peer_answer(b.peer, cases[i].status, "what the node\nhas to say", 1);
		CHECK_INT(pull(&b, pulled, LONG_US, &err), cases[i].code);
		CHECK_HAS(err.text, first_reactor(&b));
		CHECK_HAS(err.text, "what the node?has to say");
		peer_answer(b.peer, cases[i].status, "", 1);
		CHECK_INT(pull(&b, pulled, LONG_US, &err), cases[i].code);
		CHECK_HAS(err.text, wire_status_text(cases[i].status));
		pull_works(&b);
	}
	bench_stop(&b);
}

/* Its requests go one behind the other; the first one is refused, and asked again behind the others. */
static void large_pull_of_a_busy_node(struct bench *b)
{
	enum { ROWS = 3 * 4096 };
	uint64_t *many = calloc(ROWS, sizeof(*many));
	float *rows = calloc((size_t)ROWS * DIM, sizeof(*rows));
	const uint32_t before = peer_requests(b->peer);
	struct star_error err = { 0 };

	for (uint64_t i = 0; i < ROWS; i++)
		many[i] = i;
	peer_answer(b->peer, WIRE_BUSY, "no buffers", 1);
	CHECK_INT(star_pull(b->table, many, ROWS, rows, 0, LONG_US, &err), 0);
	CHECK_UINT(peer_requests(b->peer) - before, b->peer->datagrams ? 7 : 4);
	for (uint64_t i = 0; i < ROWS; i++)
		if (!CHECK_NEAR(rows[i * DIM], peer_initial(1, i, 0), 0))
			break;
	free(many);
	free(rows);
}

void a_busy_node_is_asked_again(void)
{
	struct bench b = bench_start(1, 1, DIM);
	struct star_error err = { 0 };

	peer_answer(b.peer, WIRE_BUSY, "no buffers", 3);
	CHECK_INT(pull(&b, pulled, LONG_US, &err), 0);
	CHECK_UINT(peer_requests(b.peer), 4);
	peer_answer(b.peer, WIRE_BUSY, "no buffers", 2);
	CHECK_INT(star_request_wait(pull_async(&b, pulled, LONG_US), &err), 0);
	peer_answer(b.peer, WIRE_BUSY, "no buffers", UINT32_MAX);
	CHECK_INT(pull(&b, pulled, 100000, &err), -EBUSY);
	CHECK_HAS(err.text, "overloaded: no buffers");
	large_pull_of_a_busy_node(&b);
	bench_stop(&b);
}

/* A push is refused, with a pull of another call behind it: both are sent again, and the pull sees the push. */
void refused_requests_keep_their_order(void)
{
	struct bench b = bench_start(1, 1, DIM);
	static float rows[3][KEYS * DIM], gradients[KEYS * DIM];
	const struct star_op push = {
		.kind = STAR_PUSH, .table = b.table, .keys = keys, .count = KEYS, .values = gradients
	};
	struct star_request *requests[4];
	struct star_error err = { 0 };

	for (int i = 0; i < KEYS * DIM; i++)
		gradients[i] = 1;
	for (unsigned busy = 1; busy <= 3; busy++) {
		peer_misbehave(b.peer, FAULT_HOLD, 0, 1);
		requests[0] = pull_async(&b, rows[0], LONG_US);
		peer_wait_held(b.peer, 1);
		requests[1] = star_execute_async(b.cluster, &push, 1, LONG_US, NULL, NULL, &err);
		requests[2] = pull_async(&b, rows[1], LONG_US);
		requests[3] = pull_async(&b, rows[2], LONG_US);
		pthread_mutex_lock(&b.peer->lock);
		b.peer->fault = FAULT_STATUS;
		b.peer->status = WIRE_BUSY;
		b.peer->sentence = "no buffers";
		b.peer->fault_count = busy;
		b.peer->held = 0;
		pthread_mutex_unlock(&b.peer->lock);
		peer_open_gate(b.peer);
		for (unsigned i = 0; i < 4; i++)
			CHECK_INT(star_request_wait(requests[i], &err), 0);
		for (int i = 0; i < KEYS * DIM; i++)
			if (!CHECK_NEAR(rows[1][i], rows[0][i] - 1, 1e-6) || !CHECK_NEAR(rows[2][i], rows[1][i], 0))
				break;
	}
	CHECK_UINT(peer_connections(b.peer), 1);
	bench_stop(&b);
}

void stale_layouts_are_fetched_again(void)
{
	struct bench b = bench_start(2, 2, DIM);
	static float rows[3][KEYS * DIM];
	struct star_request *requests[3];
	struct star_error err = { 0 };

	for (uint32_t active = 1; active <= 2; active++) {
		CHECK_INT(pull(&b, pulled, LONG_US, &err), 0);
		peer_relayout(b.peer, active, true);
		CHECK_INT(pull(&b, pulled, LONG_US, &err), 0);
		CHECK_NEAR(pulled[KEYS * DIM - 1], peer_initial(1, KEYS - 1, DIM - 1), 0);
	}
	for (uint32_t active = 1; active <= 2; active++) {
		peer_relayout(b.peer, active, true);
		for (int i = 0; i < 3; i++) {
			memset(rows[i], 0, sizeof(rows[i]));
			requests[i] = pull_async(&b, rows[i], LONG_US);
		}
		for (int i = 0; i < 3; i++) {
			CHECK_INT(star_request_wait(requests[i], &err), 0);
			for (uint32_t k = 0; k < KEYS; k++)
				if (!CHECK_NEAR(rows[i][k * DIM], peer_initial(1, k, 0), 0))
					break;
		}
	}
	if (err.code)
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	bench_stop(&b);
}

void an_unpublished_layout_ends_at_the_deadline(void)
{
	struct bench b = bench_start(1, 1, DIM);
	struct star_error err = { 0 };

	pull_works(&b);
	peer_relayout(b.peer, 1, false);
	/* On a busy machine the deadline may come while the node is asked once more. */
	for (uint64_t deadline_us = 200000; deadline_us <= 12800000; deadline_us *= 2) {
		CHECK_INT(pull(&b, pulled, deadline_us, &err), -ETIMEDOUT);
		if (strstr(err.text, "published layout"))
			break;
	}
	CHECK_HAS(err.text, "published layout (epoch 7)");
	CHECK_INT(star_request_wait(pull_async(&b, pulled, 200000), &err), -ETIMEDOUT);
	peer_relayout(b.peer, 1, true);
	pull_works(&b);
	bench_stop(&b);
}

void restarts_never_go_unnoticed(void)
{
	struct bench b = bench_start(2, 1, DIM);
	struct star_error err = { 0 };
	struct star_cluster *again;

	pull_works(&b);
	peer_restart_node(b.peer, 1);
	CHECK_INT(pull(&b, pulled, LONG_US, &err), -ESTALE);
	CHECK_HAS(err.text, "PS task 1, reactor 0");
	CHECK_HAS(err.text, "was restarted");
	CHECK_HAS(err.text, "is lost");
	/* The new layout names the new incarnation: taking it over silently would hide the loss. */
	peer_relayout(b.peer, 2, true);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(pull(&b, pulled, LONG_US, &err), -ESTALE);
		CHECK_HAS(err.text, b.peer->datagrams ? "PS task 1 (" PEER_DATA_HOST ":" : "PS task 1 (127.0.0.1:");
	}
	CHECK_INT(star_request_wait(pull_async(&b, pulled, LONG_US), &err), -ESTALE);
	again = star_open(b.peer->address, LONG_US, &err);
	if (CHECK(again != NULL))
		CHECK_INT(star_pull(star_lookup(again, "words", LONG_US, &err), keys, KEYS, pulled, 0, LONG_US, &err),
			  0);
	star_close(again);
	bench_stop(&b);
}

/* Ends the first connection, and never answers another one. */
static void *end_one(void *listener)
{
	const int fd = accept(*(int *)listener, NULL, NULL);

	close(fd);
	return NULL;
}

/* What star_open says of a control plane that ends one connection, and then leaves those that come unanswered. */
static void ask_in_vain(uint64_t deadline_us, struct star_error *err)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t bytes = sizeof(at);
	char address[64];
	pthread_t thread;

	CHECK_INT(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_INT(listen(listener, 64), 0);
	CHECK_INT(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
	snprintf(address, sizeof(address), "tcp:127.0.0.1:%u", ntohs(at.sin_port));
	pthread_create(&thread, NULL, end_one, &listener);
	CHECK(star_open(address, deadline_us, err) == NULL);
	shutdown(listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(listener);
}

/* Not the last one, which has little time left for an answer. On a busy machine that may be the first one, too. */
void the_last_try_with_time_says_why(void)
{
	struct star_error err = { 0 };

	for (unsigned i = 0; i < 5 && (i == 0 || err.code == -ETIMEDOUT); i++)
		ask_in_vain(900000, &err);
	CHECK(err.code != -ETIMEDOUT);
	CHECK_HAS(err.text, "failed until its deadline: ");
	/* One that has had its time says that. */
	ask_in_vain(2500000, &err);
	CHECK_INT(err.code, -ETIMEDOUT);
}
