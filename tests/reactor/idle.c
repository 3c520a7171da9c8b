/* SPDX-License-Identifier: BSD-3-Clause */
/* Mailboxes, sleeping and waking. A sleeper that nobody wakes sleeps for a second: what it does in half of one shows
 * that it was woken. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/prng.h"
#include "tests/reactor/cases.h"
#include "tests/reactor/rig.h"
#include "tests/unit.h"

enum { MAILBOX_CAPACITY = 255, WOKEN_US = 500000 };

static const struct rig_options one_reactor = { .reactors = 1, .ports = 1, .mbufs = 127, .rings = true, .spin_us = 50 };

static const struct reactor_stats *stats(const struct rig *rig, unsigned index)
{
	return reactor_stats(rig->nodes[index]->reactor);
}

struct counted {
	struct reactor_message message;
	uint32_t runs;
	void *ctx;
};

static void count_run(void *ctx, struct reactor_message *message)
{
	struct counted *c = (struct counted *)message;

	c->runs++;
	c->ctx = ctx;
}

enum { POSTERS = 4, POSTS = 1000 };

struct poster {
	pthread_t thread;
	struct rig *rig;
	struct counted messages[POSTS];
};

static void *post_all(void *argument)
{
	struct poster *p = argument;

	for (unsigned i = 0; i < POSTS; i++) {
		p->messages[i].message.run = count_run;
		while (reactor_post(p->rig->nodes[i % 2]->reactor, &p->messages[i].message) == -EAGAIN)
			usleep(100);
	}
	return NULL;
}

void messages_of_many_threads_run_once_each(void)
{
	const struct rig_options options = { .reactors = 2, .ports = 1, .mbufs = 127, .rings = true };
	struct poster *posters = calloc(POSTERS, sizeof(*posters));
	struct rig *rig = rig_create(&options);

	rig_start(rig);
	for (unsigned t = 0; t < POSTERS; t++) {
		posters[t].rig = rig;
		pthread_create(&posters[t].thread, NULL, post_all, &posters[t]);
	}
	for (unsigned t = 0; t < POSTERS; t++)
		pthread_join(posters[t].thread, NULL);
	for (unsigned t = 0; t < POSTERS; t++) {
		for (unsigned i = 0; i < POSTS; i++) {
			CHECK_INT(reactor_wait(&posters[t].messages[i].message, 10000000), 0);
			CHECK_UINT(posters[t].messages[i].runs, 1);
			CHECK(posters[t].messages[i].ctx == rig->nodes[i % 2]);
		}
	}
	rig_destroy(rig);
	free(posters);
}

void full_mailbox_refuses(void)
{
	struct counted messages[MAILBOX_CAPACITY + 1] = { 0 };
	struct rig *rig = rig_create(&one_reactor);
	struct reactor *reactor;
	struct rig_block block;

	rig_start(rig);
	reactor = rig->nodes[0]->reactor;
	for (unsigned i = 0; i <= MAILBOX_CAPACITY; i++)
		messages[i].message.run = count_run;
	rig_block(reactor, &block);
	for (unsigned i = 0; i < MAILBOX_CAPACITY; i++)
		CHECK_INT(reactor_post(reactor, &messages[i].message), 0);
	CHECK_INT(reactor_post(reactor, &messages[MAILBOX_CAPACITY].message), -EAGAIN);
	rig_release(&block);
	for (unsigned i = 0; i < MAILBOX_CAPACITY; i++)
		CHECK_INT(reactor_wait(&messages[i].message, 10000000), 0);
	CHECK_UINT(messages[MAILBOX_CAPACITY].runs, 0);
	CHECK_INT(reactor_post(reactor, &messages[MAILBOX_CAPACITY].message), 0);
	CHECK_INT(reactor_wait(&messages[MAILBOX_CAPACITY].message, 10000000), 0);
	rig_destroy(rig);
}

void accepted_messages_run_before_the_stop(void)
{
	for (int round = 0; round < 20; round++) {
		struct counted messages[100] = { 0 };
		struct rig *rig = rig_create(&one_reactor);
		struct reactor *reactor;

		rig_start(rig);
		reactor = rig->nodes[0]->reactor;
		for (unsigned i = 0; i < 100; i++) {
			messages[i].message.run = count_run;
			CHECK_INT(reactor_post(reactor, &messages[i].message), 0);
		}
		reactor_stop(reactor);
		for (unsigned i = 0; i < 100; i++) {
			CHECK_UINT(messages[i].runs, 1);
			CHECK_UINT(messages[i].message.done, 1);
		}
		CHECK_INT(reactor_post(reactor, &messages[0].message), -ESHUTDOWN);
		rig_destroy(rig);
	}
}

void waiting_for_a_message_ends(void)
{
	struct counted counted = { .message.run = count_run };
	struct rig *rig = rig_create(&one_reactor);
	struct rig_block block;

	rig_start(rig);
	rig_block(rig->nodes[0]->reactor, &block);
	CHECK_INT(reactor_post(rig->nodes[0]->reactor, &counted.message), 0);
	CHECK_INT(reactor_wait(&counted.message, 2000), -ETIMEDOUT);
	CHECK_INT(reactor_wait(&counted.message, 0), -ETIMEDOUT);
	rig_release(&block);
	CHECK_INT(reactor_wait(&counted.message, 10000000), 0);
	CHECK_INT(reactor_wait(&counted.message, 0), 0);
	rig_destroy(rig);
}

struct cpu_time {
	struct reactor_message message;
	uint64_t ns;
};

static void read_cpu_time(void *ctx, struct reactor_message *message)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	((struct cpu_time *)message)->ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Lets a reactor be idle for a second; returns the share of a core that it took, and its turns. */
static double idle_second(bool rings, uint64_t *turns)
{
	struct cpu_time begin = { .message.run = read_cpu_time }, end = begin;
	struct rig_options options = one_reactor;
	uint64_t begin_ns, begin_turns, elapsed_ns;
	struct rig *rig;

	options.rings = rings;
	rig = rig_create(&options);
	rig_start(rig);
	CHECK_INT(reactor_post(rig->nodes[0]->reactor, &begin.message), 0);
	CHECK_INT(reactor_wait(&begin.message, 10000000), 0);
	begin_ns = clock_ns();
	/* It spins for 50 us after the message; that is not idle time. */
	usleep(1000);
	begin_turns = rig_read(&stats(rig, 0)->turns);
	usleep(1000000);
	*turns = rig_read(&stats(rig, 0)->turns) - begin_turns;
	elapsed_ns = clock_ns() - begin_ns;
	CHECK_INT(reactor_post(rig->nodes[0]->reactor, &end.message), 0);
	CHECK_INT(reactor_wait(&end.message, 10000000), 0);
	rig_destroy(rig);
	return (double)(end.ns - begin.ns) / (double)elapsed_ns;
}

void idle_reactor_costs_next_to_nothing(void)
{
	uint64_t turns;
	const double share = idle_second(true, &turns);

	printf("# idle, with a port that rings: %.3f %% of a core, %llu turns\n", share * 100,
	       (unsigned long long)turns);
	CHECK(share < 0.03);
	CHECK(turns < 100);
}

void idle_reactor_on_a_silent_port_costs_little(void)
{
	uint64_t turns;
	const double share = idle_second(false, &turns);

	printf("# idle, with a port that does not ring: %.3f %% of a core, %llu turns\n", share * 100,
	       (unsigned long long)turns);
	/* The turns are what the reactor decides. What one costs depends on the build and on the neighbours: 10 to 20
	 * us here, and four times that with sanitizers. */
	CHECK(turns < 1200);
	CHECK(share < 0.10);
}

void polling_reactor_never_sleeps(void)
{
	struct counted counted = { .message.run = count_run };
	struct rig_options options = one_reactor;
	struct rig *rig;

	options.polling = true;
	options.spin_us = 0;
	rig = rig_create(&options);
	rig_start(rig);
	CHECK(rig_await(&stats(rig, 0)->turns, 100000));
	CHECK_UINT(stats(rig, 0)->sleeps, 0);
	CHECK_INT(reactor_post(rig->nodes[0]->reactor, &counted.message), 0);
	CHECK_INT(reactor_wait(&counted.message, 10000000), 0);
	rig_inject(rig, 0, 0, REACTOR_HERE, 1);
	CHECK(rig_await_received(rig, 1));
	CHECK(rig_read(&stats(rig, 0)->idle_cycles) > 0);
	CHECK_UINT(stats(rig, 0)->sleeps, 0);
	rig_destroy(rig);
}

static void give_work(void *ctx, struct reactor_message *message)
{
	struct rig_node *node = ctx;

	node->work = 2000;
	node->housekeeping = 5000;
}

void work_keeps_it_awake(void)
{
	struct reactor_message message = { .run = give_work };
	struct rig_options options = one_reactor;
	uint64_t sleeps, turns, sent;
	struct rig *rig;

	options.spin_us = 0;
	rig = rig_create(&options);
	rig_start(rig);
	CHECK(rig_await(&stats(rig, 0)->sleeps, 1));
	sleeps = stats(rig, 0)->sleeps;
	turns = rig_read(&stats(rig, 0)->busy_turns);
	sent = rig_read(&rig->nodes[0]->sent);
	CHECK_INT(reactor_post(rig->nodes[0]->reactor, &message), 0);
	CHECK_INT(reactor_wait(&message, 10000000), 0);
	/* 5000 slices, the first in the turn of the message. */
	CHECK(rig_await(&stats(rig, 0)->busy_turns, turns + 5000));
	CHECK(rig_await(&stats(rig, 0)->sleeps, sleeps + 1));
	CHECK_UINT(stats(rig, 0)->busy_turns, turns + 5000);
	CHECK_UINT(rig->nodes[0]->work, 0);
	CHECK_UINT(rig->nodes[0]->housekeeping, 0);
	/* The message's turn, and those of the slices behind it: housekeeping alone has nothing to send. */
	CHECK_UINT(rig_read(&rig->nodes[0]->sent), sent + 2001);
	CHECK_UINT(rig_read(&rig->nodes[0]->wrong), 0);
	/* One for the post that may ring in vain, one after the work. */
	CHECK(stats(rig, 0)->sleeps <= sleeps + 2);
	rig_destroy(rig);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

enum { WAKE_UPS = 200 };

static void report(const char *what, uint64_t *us)
{
	qsort(us, WAKE_UPS, sizeof(us[0]), by_value);
	printf("# %s: median %llu us, 99 %% within %llu us\n", what, (unsigned long long)us[WAKE_UPS / 2],
	       (unsigned long long)us[WAKE_UPS * 99 / 100]);
}

void message_wakes_the_sleeper(void)
{
	struct rig *rig = rig_create(&one_reactor);
	uint64_t us[WAKE_UPS];

	rig_start(rig);
	for (int i = 0; i < WAKE_UPS; i++) {
		struct counted counted = { .message.run = count_run };
		const uint64_t sleeps = rig_read(&stats(rig, 0)->sleeps);
		uint64_t begin_us;

		/* Asleep since the last message, or about to be. */
		CHECK(rig_await(&stats(rig, 0)->sleeps, i ? sleeps : 1));
		usleep(300);
		begin_us = clock_us();
		CHECK_INT(reactor_post(rig->nodes[0]->reactor, &counted.message), 0);
		while (!__atomic_load_n(&counted.message.done, __ATOMIC_ACQUIRE) && clock_us() - begin_us < WOKEN_US)
			;
		us[i] = clock_us() - begin_us;
		CHECK_INT(reactor_wait(&counted.message, 10000000), 0);
		if (!CHECK(us[i] < WOKEN_US))
			break;
	}
	CHECK(stats(rig, 0)->sleeps >= WAKE_UPS / 2);
	report("wake-up by a message", us);
	rig_destroy(rig);
}

void frames_wake_the_sleeper(void)
{
	const struct rig_options options = { .reactors = 2, .ports = 1, .mbufs = 127, .rings = true, .spin_us = 50 };
	struct rig *rig = rig_create(&options);
	uint64_t us[WAKE_UPS];

	rig_start(rig);
	/* By the port of one reactor to the other one: both are woken. */
	for (uint32_t i = 0; i < WAKE_UPS; i++) {
		uint64_t begin_us;

		usleep(300);
		begin_us = clock_us();
		rig_inject(rig, 0, 0, 1, i);
		while (rig_read(&rig->nodes[1]->received) <= i && clock_us() - begin_us < WOKEN_US)
			;
		us[i] = clock_us() - begin_us;
		if (!CHECK(us[i] < WOKEN_US))
			break;
	}
	CHECK(stats(rig, 0)->sleeps >= WAKE_UPS / 2);
	CHECK(stats(rig, 1)->sleeps >= WAKE_UPS / 2);
	report("wake-up by a frame and its hand-over", us);
	rig_destroy(rig);
}

/* Spins: a sleeping waiter would come too late for the moment that is looked for. */
static bool spin_until(const uint32_t *flag)
{
	const uint64_t begin_us = clock_us();

	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		if (clock_us() - begin_us >= WOKEN_US)
			return false;
	return true;
}

void no_wake_up_is_lost(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 1, .mbufs = 127, .rings = true };
	struct rig *rig = rig_create(&options);
	struct prng prng;

	/* Without spinning, the next message meets a reactor that is just falling asleep after the one before; a turn
	 * that dawdles behind its look at the mailbox makes that moment long enough to be met often. */
	prng_seed(&prng, 1);
	rig->nodes[0]->dawdle = 400;
	rig_start(rig);
	for (uint32_t i = 0; i < 10000; i++) {
		struct counted counted = { .message.run = count_run };

		for (unsigned spin = prng_below(&prng, 600); spin > 0; spin--)
			__builtin_ia32_pause();
		CHECK_INT(reactor_post(rig->nodes[0]->reactor, &counted.message), 0);
		if (CHECK(spin_until(&counted.message.done)))
			continue;
		CHECK_INT(reactor_wait(&counted.message, 10000000), 0);
		break;
	}
	rig_destroy(rig);
}

struct alarm {
	struct reactor_message message;
	struct wheel_timer timer;
	uint64_t due_ns, fired_ns, fired;
};

static void ring(struct wheel_timer *timer, uint64_t now_ns)
{
	struct alarm *a = (struct alarm *)((char *)timer - offsetof(struct alarm, timer));

	a->fired_ns = now_ns;
	__atomic_store_n(&a->fired, 1, __ATOMIC_RELEASE);
}

static void set_alarm(void *ctx, struct reactor_message *message)
{
	struct alarm *a = (struct alarm *)message;

	a->due_ns = clock_ns() + 30000000;
	wheel_arm(&((struct rig_node *)ctx)->wheel, &a->timer, a->due_ns);
}

void sleeper_wakes_for_its_timers(void)
{
	struct alarm a = { .message.run = set_alarm, .timer.fire = ring };
	struct rig *rig = rig_create(&one_reactor);
	uint64_t turns;

	rig_start(rig);
	CHECK_INT(reactor_post(rig->nodes[0]->reactor, &a.message), 0);
	CHECK_INT(reactor_wait(&a.message, 10000000), 0);
	usleep(1000);
	turns = rig_read(&stats(rig, 0)->turns);
	CHECK(rig_await(&a.fired, 1));
	CHECK(a.fired_ns >= a.due_ns);
	CHECK(a.fired_ns - a.due_ns < (uint64_t)WOKEN_US * 1000);
	/* A few turns as the wheel's hand passes its levels, but no polling in between. */
	CHECK(rig_read(&stats(rig, 0)->turns) - turns < 20);
	rig_destroy(rig);
}
