/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes that are kept until they are durable: sent again in their order, let go, bounded, waited for. */
#include "client/attempt.h"
#include "client/connect.h"
#include "tests/client/cases.h"

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

static _Atomic(bool) no_memory;

/* Where libstar keeps requests; of this program all else that asks for it does so too. */
void *aligned_alloc(size_t alignment, size_t bytes)
{
	void *memory = NULL;

	errno = no_memory ? ENOMEM : posix_memalign(&memory, alignment, bytes);
	return memory;
}

static _Atomic(bool) slow_messages;
static pthread_t slow_for;

/* How long other threads take for a message, as that of a connection which ended: what the caller does meanwhile is
 * what it could have done within nanoseconds. */
int vsnprintf(char *text, size_t bytes, const char *format, va_list args)
{
	int (*next)(char *, size_t, const char *, va_list) = NULL;

	*(void **)&next = dlsym(RTLD_NEXT, "vsnprintf");
	if (slow_messages && !pthread_equal(pthread_self(), slow_for))
		sleep_ms(200);
	return next(text, bytes, format, args);
}

static _Atomic(bool) slow_addresses;

/* The same of a numeric address, as layouts have them. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
	int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;

	*(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
	if (slow_addresses)
		sleep_ms(60);
	return next(name, service, hints, list);
}

enum { DIM = 4, KEYS = 6, LARGE_DIM = 1024, LARGE_KEYS = 64 };

static const uint64_t keys[KEYS] = { 3, 1, 4, 15, 92, 65 };

static struct bench start(uint32_t reactors)
{
	struct bench b = bench_start(1, reactors, DIM);

	peer_retain(b.peer);
	return b;
}

/* 1 is pushed to this many of the keys, in one request. */
static void push(struct bench *b, uint32_t count)
{
	float rows[KEYS * DIM];
	struct star_error err = { 0 };

	for (uint32_t i = 0; i < count * DIM; i++)
		rows[i] = 1;
	if (!CHECK_INT(star_push(b->table, keys, count, rows, LONG_US, &err), 0))
		unit_fail(__FILE__, __LINE__, "%s", err.text);
}

/* What was pushed to each key in all, as a pull says. */
static void pulls_show(struct bench *b, uint32_t count, float pushed)
{
	float rows[KEYS * DIM];
	struct star_error err = { 0 };

	CHECK_INT(star_pull(b->table, keys, count, rows, 0, LONG_US, &err), 0);
	for (uint32_t i = 0; i < count; i++)
		CHECK_NEAR(rows[i * DIM], peer_initial(1, keys[i], 0) - pushed, 1e-3);
}

/* And as the node has it. */
static bool node_has(struct bench *b, uint32_t pushes)
{
	uint32_t applied;
	float first;

	return peer_find(b->peer, 1, keys[0], &applied, &first) && applied == pushes;
}

static bool comes_true(struct bench *b, bool (*is)(struct bench *b, uint32_t n), uint32_t n)
{
	for (uint32_t ms = 0; ms < 20000; ms++) {
		if (is(b, n))
			return true;
		sleep_ms(1);
	}
	return false;
}

/* The first push of a table waits; those behind it are kept, come again in their order, and before all else. */
void what_is_not_durable_is_sent_again(void)
{
	struct bench b = start(2);

	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 10; i++) {
			push(&b, KEYS); /* a request to each reactor */
			push(&b, 1);	/* a small call, but for the first time */
			pulls_show(&b, 1, (float)(2 * i + 2 + 40 * (uint32_t)round));
		}
		CHECK_UINT(peer_counter(b.peer, &b.peer->waited), 2);
		CHECK(peer_counter(b.peer, &b.peer->kept) >= 28);
		CHECK_UINT(peer_counter(b.peer, &b.peer->kept_again), round ? 28 : 0);
		peer_fail_over(b.peer);
		for (uint32_t i = 0; i < 10; i++)
			push(&b, KEYS);
		for (uint32_t i = 0; i < 10; i++)
			push(&b, 1);
		pulls_show(&b, 1, (float)(40 * round + 40));
		peer_make_durable(b.peer);
	}
	CHECK(node_has(&b, 80));
	bench_stop(&b);
}

static bool nothing_is_kept(struct bench *b, uint32_t n)
{
	struct star_error err;

	return star_settle(b->cluster, 1, &err) == 0;
}

/* Without a call: the node is asked. */
void what_is_durable_is_let_go(void)
{
	struct bench b = start(1);

	for (uint32_t i = 0; i < 5; i++)
		push(&b, KEYS);
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept), 4);
	sleep_ms(50);
	CHECK(peer_counter(b.peer, &b.peer->pings) > 0);
	CHECK(!nothing_is_kept(&b, 0));
	peer_make_durable(b.peer);
	CHECK(comes_true(&b, nothing_is_kept, 0));
	peer_fail_over(b.peer);
	pulls_show(&b, KEYS, 5);
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept_again), 0);
	/* A node that has nobody to bring it to. */
	for (uint32_t i = 0; i < 5; i++)
		push(&b, KEYS);
	CHECK(!nothing_is_kept(&b, 0));
	pthread_mutex_lock(&b.peer->lock);
	b.peer->retains = false;
	pthread_mutex_unlock(&b.peer->lock);
	pulls_show(&b, KEYS, 10);
	CHECK(nothing_is_kept(&b, 0));
	bench_stop(&b);
}

/* A worker that is busy elsewhere does not keep its pushes from the others. */
void an_idle_worker_sends_again_by_itself(void)
{
	struct bench b = start(1);

	for (uint32_t i = 0; i < 20; i++)
		push(&b, KEYS);
	peer_fail_over(b.peer);
	CHECK(comes_true(&b, node_has, 20));
	sleep_ms(30);
	CHECK(node_has(&b, 20));
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept_again), 19);
	/* And where they had come, or some of them, after all. */
	peer_make_durable(b.peer);
	push(&b, KEYS);
	peer_fail_over(b.peer);
	CHECK(comes_true(&b, node_has, 21));
	bench_stop(&b);
}

static void *make_durable_later(void *arg)
{
	sleep_ms(150);
	peer_make_durable(((struct bench *)arg)->peer);
	return NULL;
}

static void *settle(void *arg)
{
	struct star_error err;

	return (void *)(intptr_t)star_settle(((struct bench *)arg)->cluster, LONG_US, &err);
}

/* star_settle says whether, star_close waits, for some seconds at most. */
void who_closes_waits_until_all_is_durable(void)
{
	struct bench b = start(1);
	struct star_error err = { 0 };
	pthread_t thread;
	uint64_t began;
	void *settled;

	CHECK_INT(star_settle(b.cluster, LONG_US, &err), 0);
	push(&b, KEYS);
	CHECK_INT(star_settle(b.cluster, LONG_US, &err), 0);
	push(&b, KEYS);
	began = now_us();
	CHECK_INT(star_settle(b.cluster, 60000, &err), -ETIMEDOUT);
	CHECK(now_us() - began >= 60000);
	CHECK(strncmp(err.text, "1 requests were answered", 24) == 0);
	CHECK(pthread_create(&thread, NULL, make_durable_later, &b) == 0);
	CHECK_INT(star_settle(b.cluster, LONG_US, &err), 0);
	CHECK(now_us() - began >= 150000);
	pthread_join(thread, NULL);
	push(&b, KEYS);
	CHECK(pthread_create(&thread, NULL, make_durable_later, &b) == 0);
	began = now_us();
	star_close(b.cluster);
	CHECK(now_us() - began >= 100000);
	pthread_join(thread, NULL);
	b.cluster = star_open(b.peer->address, LONG_US, &err);
	b.table = bench_table(&b, "words", DIM);
	push(&b, KEYS);
	push(&b, KEYS);
	/* A call that waits longer does not keep the cluster from being closed. */
	CHECK(pthread_create(&thread, NULL, settle, &b) == 0);
	sleep_ms(100);
	began = now_us();
	star_close(b.cluster);
	CHECK(now_us() - began >= 4000000 && now_us() - began < 20000000);
	pthread_join(thread, &settled);
	CHECK_INT((intptr_t)settled, -ECANCELED);
	peer_stop(b.peer);
}

/* What finds no room waits at the node; then there is room again. */
void what_is_kept_is_bounded(void)
{
	static float rows[LARGE_KEYS * LARGE_DIM];
	uint64_t many[LARGE_KEYS];
	struct star_error err = { 0 };
	struct star_table *large;
	struct bench b;

	setenv("STAR_KEEP_MIB", "1", 1);
	b = start(1);
	large = bench_table(&b, "large", LARGE_DIM);
	for (uint64_t i = 0; i < LARGE_KEYS; i++)
		many[i] = i;
	/* 257 KiB each: three fit. */
	for (uint32_t i = 0; i < 17; i++)
		CHECK_INT(star_push(large, many, LARGE_KEYS, rows, LONG_US, &err), 0);
	CHECK_UINT(peer_counter(b.peer, &b.peer->waited), 1 + 4);
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept), 12);
	bench_stop(&b);
	setenv("STAR_KEEP_MIB", "0", 1);
	b = start(1);
	for (uint32_t i = 0; i < 5; i++)
		push(&b, KEYS);
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept), 0);
	CHECK_UINT(peer_counter(b.peer, &b.peer->waited), 5);
	bench_stop(&b);
	setenv("STAR_KEEP_MIB", "much", 1);
	CHECK(!star_open("127.0.0.1:1", LONG_US, &err));
	CHECK_INT(err.code, -EINVAL);
	CHECK(strstr(err.text, "STAR_KEEP_MIB") != NULL);
	unsetenv("STAR_KEEP_MIB");
}

/* Neither does what finds no memory: nothing of it is lost, and the next one is kept. */
void what_finds_no_memory_waits(void)
{
	struct bench b = start(1);

	push(&b, KEYS);
	no_memory = true;
	push(&b, KEYS);
	push(&b, 1);
	push(&b, 1); /* a small call */
	no_memory = false;
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept), 0);
	CHECK_UINT(peer_counter(b.peer, &b.peer->waited), 4);
	push(&b, KEYS);
	push(&b, 1);
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept), 2);
	CHECK_UINT(peer_counter(b.peer, &b.peer->waited), 4);
	peer_fail_over(b.peer);
	pulls_show(&b, 1, 6);
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept_again), 2);
	peer_make_durable(b.peer);
	bench_stop(&b);
}

/* Deletes, commits and gradients for sums order workers among each other. */
void what_orders_workers_waits(void)
{
	struct bench b = start(1);
	struct star_error err = { 0 };
	struct star_op op = star_op_delete(b.table, keys, KEYS);

	push(&b, KEYS);
	push(&b, KEYS);
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept), 1);
	CHECK_INT(star_execute(b.cluster, &op, 1, LONG_US, &err), 0);
	CHECK_UINT(peer_counter(b.peer, &b.peer->waited), 2);
	CHECK(nothing_is_kept(&b, 0));
	bench_stop(&b);
}

static void answer_again(struct bench *b, unsigned status, uint32_t count)
{
	pthread_mutex_lock(&b->peer->lock);
	b->peer->again_status = status;
	b->peer->again_count = count;
	pthread_mutex_unlock(&b->peer->lock);
}

/* A busy node is asked again; what it refuses for good is lost, which is said once. */
void what_is_refused_when_it_comes_again_is_told(void)
{
	struct bench b = start(1);
	struct star_error err = { 0 };

	for (uint32_t i = 0; i < 4; i++)
		push(&b, KEYS);
	answer_again(&b, WIRE_BUSY, 2);
	peer_fail_over(b.peer);
	pulls_show(&b, KEYS, 4);
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept_again), 3 + 2);
	answer_again(&b, WIRE_QUOTA_REQUESTS, 1);
	peer_fail_over(b.peer);
	pulls_show(&b, KEYS, 4);
	answer_again(&b, WIRE_STALE_LAYOUT, 1);
	peer_fail_over(b.peer);
	pulls_show(&b, KEYS, 4);
	answer_again(&b, WIRE_NO_MEMORY, 1);
	peer_fail_over(b.peer);
	pulls_show(&b, KEYS, 3);
	peer_make_durable(b.peer);
	CHECK_INT(star_settle(b.cluster, LONG_US, &err), -EREMOTEIO);
	CHECK(strncmp(err.text, "1 requests that", 15) == 0);
	CHECK(strstr(err.text, "parameter memory") != NULL);
	CHECK_INT(star_settle(b.cluster, LONG_US, &err), 0);
	bench_stop(&b);
}

/* The layout leaves out a node that is just asked for what it had answered: that is lost, and told. Its reply is valid
 * all the same, and what comes behind it is no longer kept. */
void what_is_sent_again_may_outlast_its_layout(void)
{
	static const float row[DIM] = { 1 };
	struct bench b = bench_start(2, 1, DIM);
	struct star_error err = { 0 };
	struct star_request *request;
	uint64_t of[2] = { 0, 0 };
	float pulled[DIM];
	struct star_op op;

	peer_retain(b.peer);
	for (uint32_t r = 0; r < 2; r++)
		while (peer_owner(b.peer, &b.peer->objects[0], of[r]) != r)
			of[r]++;
	op = (struct star_op)star_op_push(b.table, &of[1], 1, row);
	for (uint32_t i = 0; i < 3; i++)
		CHECK_INT(star_execute(b.cluster, &op, 1, LONG_US, &err), 0);
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept), 2);
	b.peer->fault_reactor = 1;
	peer_misbehave(b.peer, FAULT_HOLD, 0, 1);
	peer_fail_over(b.peer);
	peer_wait_held(b.peer, 1);
	request = star_execute_async(b.cluster, &op, 1, LONG_US, NULL, NULL, &err);
	peer_relayout(b.peer, 1, true);
	CHECK_INT(star_pull(b.table, &of[0], 1, pulled, 0, LONG_US, &err), 0);
	/* A node that has not heard of it yet. */
	pthread_mutex_lock(&b.peer->lock);
	b.peer->epoch--;
	b.peer->active_nodes = 2;
	pthread_mutex_unlock(&b.peer->lock);
	peer_open_gate(b.peer);
	if (!CHECK_INT(star_request_wait(request, &err), 0))
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept), 2);
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept_again), 1);
	CHECK_UINT(peer_counter(b.peer, &b.peer->waited), 2);
	CHECK_INT(star_settle(b.cluster, LONG_US, &err), -EREMOTEIO);
	CHECK_HAS(err.text, "2 requests that");
	CHECK_HAS(err.text, "the layout does not name it any more");
	bench_stop(&b);
}

/* A node's place is taken by the one that was named before: the same session goes on there, with what is kept. */
void what_is_kept_goes_on_at_the_other_address(void)
{
	struct bench b = start(1);
	struct star_error err = { 0 };
	uint32_t again = 0;

	peer_open_door(b.peer);
	for (uint32_t places = 0; places < 3; places++) {
		for (uint32_t i = 0; i < 4; i++)
			push(&b, KEYS);
		CHECK_UINT(peer_counter(b.peer, &b.peer->kept), 4 * places + 3);
		again += places ? 4 * places - 1 : 0; /* all that is not durable, each time */
		CHECK_UINT(peer_counter(b.peer, &b.peer->kept_again), again);
		CHECK_UINT(peer_counter(b.peer, &b.peer->door_connections), (places + 1) / 2);
		CHECK_UINT(peer_connections(b.peer), 1 + places);
		peer_change_places(b.peer);
		pulls_show(&b, KEYS, (float)(4 * places + 4));
	}
	CHECK(node_has(&b, 12));
	peer_make_durable(b.peer);
	CHECK_INT(star_settle(b.cluster, LONG_US, &err), 0);
	bench_stop(&b);
}

/* A standby that the worker had never heard of, as it came while nothing was asked for, has taken over: the layout says
 * where it is, and the same session goes on there. */
void a_node_that_has_moved_is_looked_for(void)
{
	struct bench b = start(1);

	push(&b, KEYS);
	push(&b, KEYS);
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept), 1);
	peer_open_door(b.peer);
	peer_move_to_door(b.peer);
	peer_fail_over(b.peer);
	push(&b, KEYS);
	pulls_show(&b, KEYS, 3);
	CHECK(node_has(&b, 3));
	CHECK_UINT(peer_counter(b.peer, &b.peer->kept_again), 1);
	peer_make_durable(b.peer);
	bench_stop(&b);
}

/* A key of that reactor. */
static uint64_t key_of(const struct bench *b, uint32_t reactor)
{
	uint64_t key = 0;

	while (peer_owner(b->peer, &b->peer->objects[0], key) != reactor)
		key++;
	return key;
}

/* While a layout that has the two nodes in each other's place is taken over, a connection to where the node was is
 * being made: that this comes to nothing changes neither address. */
void both_addresses_change_at_once(void)
{
	struct bench b = bench_start(2, 1, DIM);
	const uint64_t there = key_of(&b, 0), elsewhere = key_of(&b, 1);
	struct star_error err = { 0 };
	struct star_request *waits;
	float row[DIM], other[DIM];
	struct star_op op = star_op_pull(b.table, &there, 1, row);

	CHECK(pull_works(&b));
	peer_open_door(b.peer);
	CHECK(pull_works(&b));
	peer_go_deaf(b.peer);
	peer_end_connections(b.peer, 0);
	waits = star_execute_async(b.cluster, &op, 1, LONG_US, NULL, NULL, &err);
	sleep_ms(50); /* it is about to connect */
	peer_change_places(b.peer);
	slow_addresses = true;
	/* Has the layout asked for. */
	CHECK_INT(star_pull(b.table, &elsewhere, 1, other, 0, LONG_US, &err), 0);
	slow_addresses = false;
	if (!CHECK_INT(star_request_wait(waits, &err), 0))
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK_NEAR(row[0], peer_initial(1, there, 0), 0);
	CHECK(peer_counter(b.peer, &b.peer->door_connections) >= 1);
	bench_stop(&b);
}

/* The same standby, and the connection to where the node was is there still: nothing comes. */
void a_silent_node_is_looked_for_elsewhere(void)
{
	struct bench b = bench_start(1, 1, DIM);
	struct star_error err = { 0 };
	float rows[KEYS * DIM];

	CHECK(pull_works(&b));
	peer_open_door(b.peer);
	peer_move_to_door(b.peer);
	peer_misbehave(b.peer, FAULT_NO_ANSWER, 0, 1);
	if (!CHECK_INT(star_pull(b.table, keys, KEYS, rows, 0, LONG_US / 2, &err), 0))
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK_UINT(peer_counter(b.peer, &b.peer->door_connections), 1);
	bench_stop(&b);
}

/* As when the layout has the node elsewhere while a connection is made. */
void an_attempt_where_a_node_was_swaps_nothing(void)
{
	struct star_cluster cluster = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct channel ch = { .cluster = &cluster,
			      .state = CHANNEL_CONNECTING,
			      .attempts = 2,
			      .address = { .ss_family = AF_INET },
			      .other = { .ss_family = AF_INET6 },
			      .address_bytes = sizeof(struct sockaddr_in),
			      .other_bytes = sizeof(struct sockaddr_in6) };

	for (ch.moved = true;; ch.moved = false) {
		client_attempt_failed(&ch, ECONNRESET, 1000);
		CHECK_INT(ch.state, CHANNEL_WAITING);
		CHECK_INT(ch.address.ss_family, ch.moved ? AF_INET : AF_INET6);
		CHECK(ch.moved ? ch.not_before_ns == 1000 : ch.not_before_ns > 1000);
		if (!ch.moved)
			break;
	}
}

/* The node has refused a request as it was busy, and is gone before it comes again: it was never executed, and is sent
 * by the next connection. */
void what_a_busy_node_has_refused_is_sent_to_the_next(void)
{
	struct bench b = bench_start(1, 1, DIM);
	struct star_error err = { 0 };
	struct star_request *waits;
	float rows[KEYS * DIM];
	struct star_op op = star_op_pull(b.table, keys, KEYS, rows);

	CHECK(pull_works(&b));
	for (uint32_t round = 0; round < 3; round++) {
		const uint32_t before = peer_requests(b.peer);

		peer_answer(b.peer, WIRE_BUSY, "no buffers", UINT32_MAX);
		waits = star_execute_async(b.cluster, &op, 1, LONG_US, NULL, NULL, &err);
		CHECK(peer_wait_requests(b.peer, before + 6)); /* by now it pauses for 0.1 s and more */
		sleep_ms(20);
		peer_misbehave(b.peer, FAULT_NONE, 0, 0);
		peer_end_connections(b.peer, 0);
		if (!CHECK_INT(star_request_wait(waits, &err), 0))
			unit_fail(__FILE__, __LINE__, "%s", err.text);
	}
	CHECK_UINT(peer_connections(b.peer), 4);
	bench_stop(&b);
}

/* The I/O thread, which waits for a ping's reply, sees the end of a connection just as the next call begins: such a
 * call is sent on a new one. */
void calls_begin_while_their_connection_ends(void)
{
	struct bench b = start(1);

	push(&b, 1); /* the first waits: nothing is kept for it */
	push(&b, 1);
	peer_misbehave(b.peer, FAULT_HOLD, 0, 1);
	CHECK(peer_wait_held(b.peer, 1)); /* it is asked what is durable */
	slow_for = pthread_self();
	slow_messages = true;
	peer_fail_over(b.peer);
	sleep_ms(20);
	push(&b, 1);
	slow_messages = false;
	peer_open_gate(b.peer);
	pulls_show(&b, 1, 3);
	CHECK(node_has(&b, 3));
	peer_make_durable(b.peer);
	bench_stop(&b);
}

/* Connections that end again and again, while what is kept is sent again too, and new calls come. */
void connections_end_while_it_is_sent_again(void)
{
	struct bench b = start(1);

	for (uint32_t i = 0; i < 12; i++)
		push(&b, KEYS);
	peer_fail_over(b.peer);
	peer_misbehave(b.peer, FAULT_CLOSE, 3, 1);
	push(&b, KEYS);
	pulls_show(&b, KEYS, 13);
	peer_fail_over(b.peer);
	peer_misbehave(b.peer, FAULT_RESET, 12, 1);
	push(&b, 1);
	push(&b, KEYS);
	pulls_show(&b, 1, 15);
	CHECK(node_has(&b, 15));
	peer_misbehave(b.peer, FAULT_NONE, 0, 0);
	peer_make_durable(b.peer);
	bench_stop(&b);
}

struct lane {
	struct bench *b;
	struct star_table *table;
	uint64_t key;
	_Atomic(uint32_t) pushes;
	bool failed;
};

enum { LANES = 3, PUSHES = 1500, DEEP = 20 };

/* One at a time, or many in flight. */
static void *push_on(void *arg)
{
	static const float row[DIM] = { 1 };
	struct lane *l = arg;
	struct star_request *requests[DEEP];
	struct star_error err = { 0 };

	for (uint32_t i = 0; i < PUSHES && !l->failed; i += DEEP) {
		const struct star_op op = star_op_push(l->table, &l->key, 1, row);

		for (uint32_t j = 0; j < DEEP; j++) {
			if (l->key % 2) {
				l->failed |= star_push(l->table, &l->key, 1, row, LONG_US, &err) < 0;
				l->pushes++;
			} else {
				requests[j] = star_execute_async(l->b->cluster, &op, 1, LONG_US, NULL, NULL, &err);
			}
		}
		for (uint32_t j = 0; j < DEEP && l->key % 2 == 0; j++) {
			l->failed |= star_request_wait(requests[j], &err) < 0;
			l->pushes++;
		}
	}
	if (err.code)
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	return NULL;
}

/* A call whose connections end again and again, and nothing is answered, is given up. */
static void await_progress(struct lane *lanes)
{
	for (uint32_t i = 0; i < LANES; i++) {
		const uint32_t pushes = atomic_load(&lanes[i].pushes);
		uint32_t ms = pushes < (uint32_t)PUSHES ? 0 : 20000;

		for (; ms < 20000 && atomic_load(&lanes[i].pushes) == pushes; ms++)
			sleep_ms(1);
	}
}

/* Nothing is lost or doubled, whoever pushes, and when. */
void each_push_is_there_once(void)
{
	struct bench b = start(2);
	struct lane lanes[LANES];
	pthread_t threads[LANES];
	uint32_t applied = 0;
	float first;

	for (uint32_t i = 0; i < LANES; i++) {
		lanes[i] = (struct lane){ .b = &b, .table = b.table, .key = 100 + i };
		CHECK(pthread_create(&threads[i], NULL, push_on, &lanes[i]) == 0);
	}
	for (uint32_t i = 0; i < 25; i++) {
		await_progress(lanes);
		if (i % 3)
			peer_make_durable(b.peer);
		sleep_ms(i % 5);
		peer_fail_over(b.peer);
	}
	for (uint32_t i = 0; i < LANES; i++)
		pthread_join(threads[i], NULL);
	peer_make_durable(b.peer);
	CHECK(comes_true(&b, nothing_is_kept, 0));
	for (uint32_t i = 0; i < LANES; i++) {
		CHECK(peer_find(b.peer, 1, lanes[i].key, &applied, &first));
		CHECK_UINT(applied, lanes[i].pushes);
		CHECK_UINT(applied, PUSHES);
	}
	CHECK(peer_counter(b.peer, &b.peer->kept_again) > 0);
	bench_stop(&b);
}
