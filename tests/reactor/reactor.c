/* SPDX-License-Identifier: BSD-3-Clause */
/* Hand-over and lives of reactors; the table of all cases. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/prng.h"
#include "tests/reactor/cases.h"
#include "tests/reactor/rig.h"
#include "tests/unit.h"

const char *const unit_suite = "reactor";

enum { RING_CAPACITY = 2047 };

static const struct reactor_stats *stats(const struct rig *rig, unsigned index)
{
	return reactor_stats(rig->nodes[index]->reactor);
}

/* Every flow comes in by a queue that is not its reactor's. */
static void spread_wrongly(unsigned reactors, bool rings)
{
	const struct rig_options options = {
		.reactors = reactors, .ports = 1, .mbufs = 2047, .rings = rings, .spin_us = 20
	};
	enum { FRAMES = 8000, WINDOW = 256 };
	struct rig *rig = rig_create(&options);
	struct prng prng;

	prng_seed(&prng, reactors);
	rig_start(rig);
	for (uint32_t number = 0; number < FRAMES; number++) {
		const unsigned to = hash_mix(number) % reactors;

		if (number >= WINDOW && !CHECK(rig_await_received(rig, number - WINDOW + 1)))
			break;
		rig_inject(rig, 0, (to + 1 + prng_below(&prng, reactors - 1)) % reactors, to, number);
	}
	CHECK(rig_await_received(rig, FRAMES));
	for (uint32_t number = 0; number < FRAMES; number++)
		for (unsigned i = 0; i < reactors; i++)
			if (!CHECK_UINT(rig->nodes[i]->seen[number], i == hash_mix(number) % reactors))
				number = FRAMES - 1;
	for (unsigned i = 0; i < reactors; i++) {
		CHECK_UINT(stats(rig, i)->hand_over_full, 0);
		CHECK_UINT(stats(rig, i)->handed_in, rig->nodes[i]->received);
		CHECK_UINT(stats(rig, i)->handed_over, stats(rig, i)->received);
	}
	rig_destroy(rig);
}

static void wrongly_spread_flows_reach_2_reactors(void)
{
	spread_wrongly(2, true);
}

static void wrongly_spread_flows_reach_4_reactors(void)
{
	spread_wrongly(4, false);
}

static void wrongly_spread_flows_reach_16_reactors(void)
{
	spread_wrongly(16, true);
}

static void all_64_reactors_reach_each_other(void)
{
	const struct rig_options options = { .reactors = 64, .ports = 1, .mbufs = 127, .rings = true };
	struct rig *rig = rig_create(&options);

	rig_start(rig);
	for (unsigned i = 0; i < 64; i++)
		rig_inject(rig, 0, i, 63 - i, i);
	CHECK(rig_await_received(rig, 64));
	for (unsigned i = 0; i < 64; i++)
		CHECK_UINT(rig->nodes[63 - i]->seen[i], 1);
	rig_destroy(rig);
}

static void frames_for_here_and_beyond_stay(void)
{
	const struct rig_options options = { .reactors = 2, .ports = 1, .mbufs = 255 };
	const unsigned to[] = { REACTOR_HERE, 1, 2, REACTOR_MAX, 0xfffd, UINT16_MAX + 1 };
	struct rig *rig = rig_create(&options);

	rig_start(rig);
	for (uint32_t i = 0; i < 6; i++)
		rig_inject(rig, 0, 1, to[i], i);
	CHECK(rig_await_received(rig, 6));
	CHECK_UINT(rig->nodes[1]->received, 6);
	CHECK_UINT(stats(rig, 1)->handed_over, 0);
	rig_destroy(rig);
}

static void frames_for_all_are_copied(void)
{
	const struct rig_options options = { .reactors = 4, .ports = 1, .mbufs = 1023, .rings = true };
	enum { FRAMES = 100 };
	struct rig *rig = rig_create(&options);

	rig_start(rig);
	for (uint32_t number = 0; number < FRAMES; number++)
		rig_inject(rig, 0, number % 4, REACTOR_ALL, number);
	CHECK(rig_await_received(rig, 4 * FRAMES));
	for (uint32_t number = 0; number < FRAMES; number++)
		for (unsigned i = 0; i < 4; i++)
			CHECK_UINT(rig->nodes[i]->seen[number], 1);
	rig_destroy(rig);
}

/* What reactor 0's stack finds to be another's, such as a packet put together from fragments. */
static void a_stack_gives_frames_to_another(void)
{
	const struct rig_options options = {
		.reactors = 2, .ports = 1, .mbufs = 1023, .rings = true, .mode = RIG_GIVE
	};
	enum { FRAMES = 500 };
	struct rig *rig = rig_create(&options);

	rig_start(rig);
	for (uint32_t number = 0; number < FRAMES; number++)
		rig_inject(rig, 0, 0, REACTOR_HERE, number);
	CHECK(rig_await_received(rig, 2 * FRAMES));
	for (uint32_t number = 0; number < FRAMES; number++)
		CHECK_UINT(rig->nodes[1]->seen[number], 1);
	CHECK_UINT(stats(rig, 1)->handed_in, FRAMES);
	rig_destroy(rig);
}

static void full_ring_drops_and_counts(void)
{
	const struct rig_options options = { .reactors = 2, .ports = 1, .mbufs = 4095 };
	enum { FRAMES = 2200 };
	struct rig *rig = rig_create(&options);
	struct rig_block block;

	rig_start(rig);
	for (int round = 1; round <= 3; round++) {
		/* The consumer does not take; what is over the ring's capacity is dropped by the owner. */
		rig_block(rig->nodes[1]->reactor, &block);
		for (uint32_t number = 0; number < FRAMES; number++)
			rig_inject(rig, 0, 0, 1, number);
		CHECK(rig_await(&stats(rig, 0)->received, (uint64_t)round * FRAMES));
		/* A turn later its counters are all written. */
		CHECK(rig_await(&stats(rig, 0)->turns, rig_read(&stats(rig, 0)->turns) + 1));
		CHECK_UINT(stats(rig, 0)->handed_over, round * RING_CAPACITY);
		CHECK_UINT(stats(rig, 0)->hand_over_full, round * (FRAMES - RING_CAPACITY));
		rig_release(&block);
		CHECK(rig_await(&rig->nodes[1]->received, (uint64_t)round * RING_CAPACITY));
	}
	rig_destroy(rig);
}

static void consumer_without_mbufs_gives_the_frames_back(void)
{
	const struct rig_options options = { .reactors = 2, .ports = 1, .mbufs = 127, .mode = RIG_HOLD };
	enum { FRAMES = 300 };
	struct rig *rig = rig_create(&options);

	rig_start(rig);
	/* More than either pool holds: the owner's come back again and again, the consumer keeps its copies. */
	for (uint32_t number = 0; number < FRAMES; number++)
		rig_inject(rig, 0, 0, 1, number);
	CHECK(rig_await(&stats(rig, 0)->handed_over, FRAMES));
	CHECK(rig_await(&stats(rig, 1)->hand_over_full, FRAMES - 127));
	CHECK_UINT(stats(rig, 1)->handed_in, 127);
	CHECK_UINT(rig->nodes[1]->held_count, 127);
	rig_destroy(rig);
}

static void *release_later(void *block)
{
	usleep(20000);
	__atomic_store_n(&((struct rig_block *)block)->released, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void frames_under_way_at_the_stop_return(void)
{
	const struct rig_options options = { .reactors = 2, .ports = 1, .mbufs = 1023 };
	struct rig *rig = rig_create(&options);
	struct rig_block block;
	pthread_t thread;

	rig_start(rig);
	rig_block(rig->nodes[1]->reactor, &block);
	for (uint32_t number = 0; number < 200; number++)
		rig_inject(rig, 0, 0, 1, number);
	CHECK(rig_await(&stats(rig, 0)->handed_over, 200));
	/* The consumer is told to stop while it is held, and so never looks at its ring again. */
	pthread_create(&thread, NULL, release_later, &block);
	reactor_stop(rig->nodes[1]->reactor);
	pthread_join(thread, NULL);
	rig_destroy(rig); /* checks the pools */
}

static void frames_given_back_after_the_stop_return(void)
{
	const struct rig_options options = { .reactors = 2, .ports = 1, .mbufs = 1023 };
	struct rig *rig = rig_create(&options);
	struct rig_block block;

	rig_start(rig);
	rig_block(rig->nodes[1]->reactor, &block);
	for (uint32_t number = 0; number < 200; number++)
		rig_inject(rig, 0, 0, 1, number);
	CHECK(rig_await(&stats(rig, 0)->handed_over, 200));
	/* The owner ends; the consumer puts the originals where nobody takes them any more. */
	reactor_stop(rig->nodes[0]->reactor);
	rig_release(&block);
	CHECK(rig_await(&rig->nodes[1]->received, 200));
	rig_destroy(rig);
}

/* A turn takes more than a burst of what waits, and yet no more than four. */
static void some_bursts_are_received_in_a_turn(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 1, .mbufs = 1023 };
	struct rig *rig = rig_create(&options);
	struct rig_block block;

	rig_start(rig);
	rig_block(rig->nodes[0]->reactor, &block);
	for (uint32_t number = 0; number < 400; number++)
		rig_inject(rig, 0, 0, REACTOR_HERE, number);
	rig_release(&block);
	CHECK(rig_await(&rig->nodes[0]->turn_max, 1));
	CHECK(rig_await(&rig->nodes[0]->received, 400));
	CHECK_UINT(rig->nodes[0]->turn_max, 4 * PORT_BURST);
	rig_destroy(rig);
}

static void nothing_stays_behind(void)
{
	const struct rig_options options = { .reactors = 4, .ports = 1, .mbufs = 127, .rings = true };
	unsigned fds, threads;

	rig_eal();
	fds = unit_entries("/proc/self/fd");
	threads = unit_entries("/proc/self/task");
	for (int round = 0; round < 40; round++) { /* more lives than DPDK has lcore ids */
		struct rig *rig = rig_create(&options);

		rig_start(rig);
		rig_inject(rig, 0, 0, 1, 1);
		CHECK(rig_await_received(rig, 1));
		rig_destroy(rig);
	}
	CHECK_UINT(unit_entries("/proc/self/fd"), fds);
	CHECK_UINT(unit_entries("/proc/self/task"), threads);
}

static void where_am_i(void *ctx, struct reactor_message *message)
{
	struct rig_node *node = ctx;
	cpu_set_t cores;
	char name[16];

	pthread_getname_np(pthread_self(), name, sizeof(name));
	sched_getaffinity(0, sizeof(cores), &cores);
	node->work = 0;
	node->received = strcmp(name, "reactor-0") == 0 && CPU_COUNT(&cores) == 1 && CPU_ISSET(sched_getcpu(), &cores);
}

static int last_usable_core(void)
{
	cpu_set_t cores;
	int core = CPU_SETSIZE - 1;

	sched_getaffinity(0, sizeof(cores), &cores);
	while (core > 0 && !CPU_ISSET(core, &cores))
		core--;
	return core;
}

static void pinned_thread_stays_on_its_core(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 1, .mbufs = 127 };
	struct reactor_message message = { .run = where_am_i };
	struct rig *rig = rig_create(&options);
	struct reactor_options o;
	struct star_error err;

	rig_reactor_options(rig, 0, &o);
	o.core = last_usable_core();
	rig->nodes[0]->reactor = reactor_create(&o, &err);
	CHECK_INT(reactor_join(&rig->nodes[0]->reactor, 1, &err), 0);
	CHECK_INT(reactor_start(rig->nodes[0]->reactor, &err), 0);
	CHECK_INT(reactor_post(rig->nodes[0]->reactor, &message), 0);
	CHECK_INT(reactor_wait(&message, 10000000), 0);
	CHECK_UINT(rig->nodes[0]->received, 1);
	CHECK_INT(reactor_start(rig->nodes[0]->reactor, &err), -EALREADY);
	rig_destroy(rig);
}

/* Joins two reactors with these cores and this polling, on one usable core when asked; the error is what remains. */
static int join_two(int first, int second, bool polling, bool one_core, struct star_error *err)
{
	const struct rig_options options = { .reactors = 2, .ports = 1, .mbufs = 127, .polling = polling };
	struct rig *rig = rig_create(&options);
	const int cores[] = { first, second };
	struct reactor *reactors[2];
	struct reactor_options o;
	cpu_set_t before, one;
	int ret;

	sched_getaffinity(0, sizeof(before), &before);
	CPU_ZERO(&one);
	CPU_SET(last_usable_core(), &one);
	for (unsigned i = 0; i < 2; i++) {
		rig_reactor_options(rig, i, &o);
		o.core = cores[i];
		reactors[i] = rig->nodes[i]->reactor = reactor_create(&o, err);
	}
	CHECK_INT(reactor_start(reactors[0], err), -EINVAL);
	CHECK_HAS(err->text, "not joined");
	if (one_core)
		sched_setaffinity(0, sizeof(one), &one);
	ret = reactor_join(reactors, 2, err);
	sched_setaffinity(0, sizeof(before), &before);
	rig_destroy(rig);
	return ret;
}

static void more_than_the_cores_can_do_is_refused(void)
{
	const int core = last_usable_core();
	struct star_error err = { 0 };

	CHECK_INT(join_two(-1, -1, true, true, &err), -EINVAL);
	CHECK_HAS(err.text, "2 polling reactors need as many cores, and this process may use 1");
	CHECK_INT(join_two(core, core, false, false, &err), -EINVAL);
	CHECK_HAS(err.text, "two reactors are pinned to core");
	CHECK_INT(join_two(core, CPU_SETSIZE - 1, false, false, &err), -EINVAL);
	CHECK_HAS(err.text, "cannot be pinned to core 1023");
	CHECK_INT(join_two(CPU_SETSIZE, core, false, false, &err), -EINVAL);
	CHECK_INT(join_two(-1, -1, false, true, &err), 0);
}

static void wrong_options_are_refused(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 1, .mbufs = 127 };
	struct rig *rig = rig_create(&options);
	struct reactor_options o;
	struct star_error err = { 0 };

	rig_reactor_options(rig, 0, &o);
	o.index = 1;
	CHECK(!reactor_create(&o, &err));
	CHECK_HAS(err.text, "1 queues, none for reactor 1");
	o.index = REACTOR_MAX;
	CHECK(!reactor_create(&o, &err));
	CHECK_HAS(err.text, "at most 64 reactors");
	rig_reactor_options(rig, 0, &o);
	o.ops.work = NULL;
	CHECK(!reactor_create(&o, &err));
	CHECK_HAS(err.text, "lacks an operation");
	CHECK_INT(reactor_join(NULL, 0, &err), -EINVAL);
	CHECK_INT(reactor_join(NULL, REACTOR_MAX + 1, &err), -EINVAL);
	reactor_destroy(NULL);
	rig_destroy(rig);
}

const struct unit_case unit_cases[] = {
	{ "wrongly_spread_flows_reach_2_reactors", wrongly_spread_flows_reach_2_reactors },
	{ "wrongly_spread_flows_reach_4_reactors", wrongly_spread_flows_reach_4_reactors },
	{ "wrongly_spread_flows_reach_16_reactors", wrongly_spread_flows_reach_16_reactors },
	{ "all_64_reactors_reach_each_other", all_64_reactors_reach_each_other },
	{ "frames_for_here_and_beyond_stay", frames_for_here_and_beyond_stay },
	{ "frames_for_all_are_copied", frames_for_all_are_copied },
	{ "a_stack_gives_frames_to_another", a_stack_gives_frames_to_another },
	{ "full_ring_drops_and_counts", full_ring_drops_and_counts },
	{ "consumer_without_mbufs_gives_the_frames_back", consumer_without_mbufs_gives_the_frames_back },
	{ "frames_under_way_at_the_stop_return", frames_under_way_at_the_stop_return },
	{ "frames_given_back_after_the_stop_return", frames_given_back_after_the_stop_return },
	{ "some_bursts_are_received_in_a_turn", some_bursts_are_received_in_a_turn },
	{ "transmit_keeps_order_and_ports", transmit_keeps_order_and_ports },
	{ "a_ring_that_takes_nothing_is_not_waited_for", a_ring_that_takes_nothing_is_not_waited_for },
	{ "a_full_ring_makes_frames_wait", a_full_ring_makes_frames_wait },
	{ "few_frames_wait_for_a_ring", few_frames_wait_for_a_ring },
	{ "what_waits_leaves_as_soon_as_there_is_room", what_waits_leaves_as_soon_as_there_is_room },
	{ "buffers_that_are_short_do_not_wait", buffers_that_are_short_do_not_wait },
	{ "a_reactor_that_loses_its_core_tries_again", a_reactor_that_loses_its_core_tries_again },
	{ "what_is_left_at_the_end_is_sent", what_is_left_at_the_end_is_sent },
	{ "a_stop_does_not_wait_for_a_slow_ring", a_stop_does_not_wait_for_a_slow_ring },
	{ "what_a_driver_keeps_comes_back_when_mbufs_are_short", what_a_driver_keeps_comes_back_when_mbufs_are_short },
	{ "frames_for_unknown_ports_are_freed_and_counted", frames_for_unknown_ports_are_freed_and_counted },
	{ "ports_come_and_go", ports_come_and_go },
	{ "a_slow_port_goes", a_slow_port_goes },
	{ "a_port_that_follows_a_stuck_one_is_waited_for", a_port_that_follows_a_stuck_one_is_waited_for },
	{ "captured_frames_are_those_that_match", captured_frames_are_those_that_match },
	{ "captured_frames_come_in_order", captured_frames_come_in_order },
	{ "nothing_stays_behind", nothing_stays_behind },
	{ "pinned_thread_stays_on_its_core", pinned_thread_stays_on_its_core },
	{ "more_than_the_cores_can_do_is_refused", more_than_the_cores_can_do_is_refused },
	{ "wrong_options_are_refused", wrong_options_are_refused },
	{ "messages_of_many_threads_run_once_each", messages_of_many_threads_run_once_each },
	{ "full_mailbox_refuses", full_mailbox_refuses },
	{ "accepted_messages_run_before_the_stop", accepted_messages_run_before_the_stop },
	{ "waiting_for_a_message_ends", waiting_for_a_message_ends },
	{ "idle_reactor_costs_next_to_nothing", idle_reactor_costs_next_to_nothing },
	{ "idle_reactor_on_a_silent_port_costs_little", idle_reactor_on_a_silent_port_costs_little },
	{ "polling_reactor_never_sleeps", polling_reactor_never_sleeps },
	{ "work_keeps_it_awake", work_keeps_it_awake },
	{ "message_wakes_the_sleeper", message_wakes_the_sleeper },
	{ "frames_wake_the_sleeper", frames_wake_the_sleeper },
	{ "no_wake_up_is_lost", no_wake_up_is_lost },
	{ "sleeper_wakes_for_its_timers", sleeper_wakes_for_its_timers },
	{ NULL, NULL },
};
