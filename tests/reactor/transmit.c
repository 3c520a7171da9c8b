/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames go to their ports, wait for room in rings, and ports come and go. */
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/reactor/cases.h"
#include "tests/reactor/rig.h"
#include "tests/unit.h"

static const struct reactor_stats *stats(const struct rig *rig, unsigned index)
{
	return reactor_stats(rig->nodes[index]->reactor);
}

void transmit_keeps_order_and_ports(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 2, .mbufs = 1023, .mode = RIG_ECHO };
	struct rig *rig = rig_create(&options);
	struct rig_block block;

	rig_start(rig);
	rig_block(rig->nodes[0]->reactor, &block);
	for (uint32_t number = 0; number < 400; number++)
		rig_inject(rig, number & 1, 0, REACTOR_HERE, number);
	rig_release(&block);
	CHECK(rig_await(&rig->queues[0][0].sent, 200));
	CHECK(rig_await(&rig->queues[1][0].sent, 200));
	for (uint32_t i = 0; i < 200; i++) {
		CHECK_UINT(rig->queues[0][0].order[i], 2 * i);
		CHECK_UINT(rig->queues[1][0].order[i], 2 * i + 1);
	}
	CHECK(rig_await(&stats(rig, 0)->sent, 400));
	CHECK_UINT(stats(rig, 0)->transmit_dropped, 0);
	rig_destroy(rig);
}

static void inject_all(struct rig *rig, uint32_t from, uint32_t to)
{
	for (uint32_t number = from; number < to; number++)
		rig_inject(rig, 0, 0, REACTOR_HERE, number);
}

void a_ring_that_takes_nothing_is_not_waited_for(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 1, .mbufs = 255, .mode = RIG_ECHO };
	struct rig *rig = rig_create(&options);

	rig->queues[0][0].room = 70;
	rig_start(rig);
	inject_all(rig, 0, 100);
	CHECK(rig_await(&stats(rig, 0)->transmit_dropped, 30));
	CHECK_UINT(stats(rig, 0)->sent, 70);
	/* What comes now is dropped at once, until the ring takes something. */
	inject_all(rig, 100, 110);
	CHECK(rig_await(&stats(rig, 0)->transmit_dropped, 40));
	CHECK_UINT(stats(rig, 0)->sent, 70);
	__atomic_store_n(&rig->queues[0][0].room, 20, __ATOMIC_RELEASE);
	inject_all(rig, 110, 130);
	CHECK(rig_await(&stats(rig, 0)->sent, 90));
	CHECK_UINT(stats(rig, 0)->transmit_dropped, 40);
	rig_destroy(rig);
}

void a_full_ring_makes_frames_wait(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 2, .mbufs = 1023, .mode = RIG_ECHO };
	struct rig *rig = rig_create(&options);

	rig->queues[0][0].slow = 7;
	rig_start(rig);
	for (uint32_t number = 0; number < 800; number++)
		rig_inject(rig, number & 1, 0, REACTOR_HERE, number);
	CHECK(rig_await(&rig->queues[1][0].sent, 400));
	CHECK(rig_await(&rig->queues[0][0].sent, 400));
	for (uint32_t i = 0; i < 256; i++)
		CHECK_UINT(rig->queues[0][0].order[i], 2 * i);
	CHECK(rig_await(&stats(rig, 0)->sent, 800));
	CHECK_UINT(stats(rig, 0)->transmit_dropped, 0);
	rig_destroy(rig);
}

void few_frames_wait_for_a_ring(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 1, .mbufs = 2047, .mode = RIG_ECHO };
	struct rig *rig = rig_create(&options);
	struct rig_block block;

	rig->queues[0][0].refuses = 500; /* the frames come within a tenth of that */
	rig_start(rig);
	rig_block(rig->nodes[0]->reactor, &block);
	inject_all(rig, 0, 900);
	rig_release(&block);
	CHECK(rig_await(&stats(rig, 0)->sent, 512));
	CHECK_UINT(stats(rig, 0)->transmit_dropped, 900 - 512);
	for (uint32_t i = 0; i < 256; i++)
		CHECK_UINT(rig->queues[0][0].order[i], i);
	rig_destroy(rig);
}

/* Five bursts a turn, where one waits: they must not meet a backlog that gives the ring one of them. */
void what_waits_leaves_as_soon_as_there_is_room(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 1, .mbufs = 4095, .mode = RIG_ECHO };
	struct rig *rig = rig_create(&options);
	struct rig_block block;

	rig->queues[0][0].refuses = 6; /* two turns */
	rig_start(rig);
	rig_block(rig->nodes[0]->reactor, &block);
	inject_all(rig, 0, 4000);
	rig_release(&block);
	CHECK(rig_await(&stats(rig, 0)->sent, 4000));
	CHECK_UINT(stats(rig, 0)->transmit_dropped, 0);
	for (uint32_t i = 0; i < 256; i++)
		CHECK_UINT(rig->queues[0][0].order[i], i);
	rig_destroy(rig);
}

/* A slow ring has them one by one; the others make room for what comes in. */
void buffers_that_are_short_do_not_wait(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 2, .mbufs = 127, .mode = RIG_ECHO };
	struct rig *rig = rig_create(&options);

	rig->queues[0][0].pause_ns = 60000000;
	rig_start(rig);
	inject_all(rig, 0, 600);
	CHECK(rig_await_received(rig, 600));
	CHECK(rig_read(&rig->queues[0][0].sent) < 400);
	for (uint32_t number = 600; number < 700; number++)
		rig_inject(rig, 1, 0, REACTOR_HERE, number);
	CHECK(rig_await(&rig->queues[1][0].sent, 100));
	CHECK(rig_read(&rig->queues[0][0].sent) < 400);
	rig_destroy(rig);
}

/* It has tried often enough, but not since it lost its core. If it also loses it before, it may take the ring to be
 * stuck:
 * that does not happen each time. */
void a_reactor_that_loses_its_core_tries_again(void)
{
	enum { LIVES = 10, STUCK_TRIES = 1000, CALLS = 3 };
	const struct rig_options options = { .reactors = 1, .ports = 1, .mbufs = 127, .mode = RIG_ECHO };
	unsigned lost = 0;

	for (unsigned life = 0; life < LIVES; life++) {
		struct rig *rig = rig_create(&options);

		rig->queues[0][0].refuses = (STUCK_TRIES + 5) * CALLS;
		rig->queues[0][0].nap_us = 150000;
		rig_start(rig);
		rig_inject(rig, 0, 0, REACTOR_HERE, 1);
		while (rig_read(&stats(rig, 0)->sent) + rig_read(&stats(rig, 0)->transmit_dropped) == 0)
			usleep(1000);
		lost += stats(rig, 0)->transmit_dropped > 0;
		rig_destroy(rig);
	}
	if (lost > LIVES / 2)
		unit_fail(__FILE__, __LINE__, "the frame was dropped %u times of %u", lost, LIVES);
}

void what_is_left_at_the_end_is_sent(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 1, .mbufs = 1023, .mode = RIG_LATE };
	struct rig *rig = rig_create(&options);

	rig_start(rig);
	inject_all(rig, 0, 200);
	CHECK(rig_await_received(rig, 200));
	CHECK_UINT(rig->nodes[0]->ends, 0);
	reactor_stop(rig->nodes[0]->reactor);
	CHECK_UINT(rig->nodes[0]->ends, 1);
	CHECK_UINT(stats(rig, 0)->sent, 200);
	rig_destroy(rig);
}

/* The ring is never stuck, and would need half a minute. */
void a_stop_does_not_wait_for_a_slow_ring(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 1, .mbufs = 1023, .mode = RIG_ECHO };
	struct rig *rig = rig_create(&options);
	uint64_t begin_ns;

	rig->queues[0][0].pause_ns = 60000000;
	rig_start(rig);
	inject_all(rig, 0, 500);
	CHECK(rig_await_received(rig, 500));
	begin_ns = clock_ns();
	reactor_stop(rig->nodes[0]->reactor);
	CHECK(clock_ns() - begin_ns < 15000000000);
	CHECK_UINT(stats(rig, 0)->sent + stats(rig, 0)->transmit_dropped, 500);
	CHECK(stats(rig, 0)->transmit_dropped > 0);
	rig_destroy(rig);
}

void what_a_driver_keeps_comes_back_when_mbufs_are_short(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 1, .mbufs = 255, .mode = RIG_ECHO };
	struct rig *rig = rig_create(&options);

	rig_keep_sent(rig);
	rig_start(rig);
	for (uint32_t number = 0; number < 1000; number++)
		rig_inject(rig, 0, 0, REACTOR_HERE, number);
	CHECK(rig_await(&rig->queues[0][0].sent, 1000));
	CHECK_UINT(stats(rig, 0)->transmit_dropped, 0);
	rig_destroy(rig);
}

/* Sends held frames by ports that do not exist. */
static void misdirect(void *ctx, struct reactor_message *message)
{
	struct rig_node *node = ctx;

	for (unsigned i = 0; i < node->held_count; i++)
		node->held[i]->port = i & 1 ? 3 : UINT16_MAX;
	node->mode = RIG_ECHO;
}

void frames_for_unknown_ports_are_freed_and_counted(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 1, .mbufs = 255, .mode = RIG_HOLD };
	struct reactor_message message = { .run = misdirect };
	struct rig *rig = rig_create(&options);

	rig_start(rig);
	for (uint32_t number = 0; number < 10; number++)
		rig_inject(rig, 0, 0, REACTOR_HERE, number);
	CHECK(rig_await_received(rig, 10));
	CHECK_INT(reactor_post(rig->nodes[0]->reactor, &message), 0);
	CHECK(rig_await(&stats(rig, 0)->transmit_dropped, 10));
	CHECK_UINT(stats(rig, 0)->sent, 0);
	rig_destroy(rig);
}

struct port_change {
	struct reactor_message message;
	struct port *port;
	bool add;
	int result;
};

static void change_ports(void *ctx, struct reactor_message *message)
{
	struct rig_node *node = ctx;
	struct port_change *change = (struct port_change *)message;

	if (change->add)
		change->result = reactor_add_port(node->reactor, change->port);
	else
		reactor_remove_port(node->reactor, change->port);
}

static int change(struct rig *rig, struct port *port, bool add)
{
	struct port_change change = { .message.run = change_ports, .port = port, .add = add };

	CHECK_INT(reactor_post(rig->nodes[0]->reactor, &change.message), 0);
	CHECK_INT(reactor_wait(&change.message, 5000000), 0);
	return change.result;
}

/* What is echoed to a port is sent before the port is gone, and what comes back later finds it again. */
void ports_come_and_go(void)
{
	const struct rig_options options = {
		.reactors = 1, .ports = 2, .mbufs = 1023, .spin_us = 20, .mode = RIG_ECHO
	};
	struct rig *rig = rig_create(&options);
	uint32_t number = 0;

	rig->queues[1][0].slow = 3; /* some wait for room when their port is to go */
	rig_start(rig);
	for (int life = 0; life < 20; life++) {
		for (unsigned i = 0; i < 40; i++)
			rig_inject(rig, i % 2, 0, REACTOR_HERE, number++);
		CHECK(rig_await_received(rig, number));
		CHECK_INT(change(rig, &rig->ports[1], false), 0);
		CHECK_UINT(stats(rig, 0)->sent, number);
		CHECK_UINT(stats(rig, 0)->transmit_dropped, 0);
		/* It is not looked at any more; the other one is. */
		rig_inject(rig, 1, 0, REACTOR_HERE, number);
		rig_inject(rig, 0, 0, REACTOR_HERE, number + 1);
		CHECK(rig_await_received(rig, number + 1));
		CHECK_UINT(rig->nodes[0]->seen[number], 0);
		CHECK_INT(change(rig, &rig->ports[1], true), 0);
		number += 2;
		CHECK(rig_await_received(rig, number));
	}
	for (unsigned i = 2; i < CONFIG_PORTS_MAX; i++)
		CHECK_INT(change(rig, &rig->ports[1], true), 0);
	CHECK_INT(change(rig, &rig->ports[1], true), -ENOSPC);
	rig_destroy(rig);
}

struct port_drain {
	struct reactor_message message;
	const struct port *port;
	bool done;
};

static void drain_port(void *ctx, struct reactor_message *message)
{
	const struct rig_node *node = ctx;
	struct port_drain *drain = (struct port_drain *)message;

	drain->done = reactor_drain_port(node->reactor, drain->port);
}

/* Whether nothing waits for it. */
static bool drained(struct rig *rig, const struct port *port)
{
	struct port_drain drain = { .message.run = drain_port, .port = port };

	CHECK_INT(reactor_post(rig->nodes[0]->reactor, &drain.message), 0);
	CHECK_INT(reactor_wait(&drain.message, 5000000), 0);
	return drain.done;
}

/* What waits for one that goes is its own: the other's frames stay, and a port that gets its id starts from scratch. */
void a_slow_port_goes(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 2, .mbufs = 2047, .mode = RIG_ECHO };
	struct rig *rig = rig_create(&options);

	for (unsigned p = 0; p < 2; p++)
		rig->queues[p][0].pause_ns = 60000000;
	rig_start(rig);
	for (uint32_t number = 0; number < 400; number++)
		rig_inject(rig, number & 1, 0, REACTOR_HERE, number);
	CHECK(rig_await_received(rig, 400));
	CHECK(!drained(rig, &rig->ports[1]));
	CHECK_INT(change(rig, &rig->ports[1], false), 0); /* would take twelve seconds */
	CHECK(drained(rig, &rig->ports[1]));
	CHECK_UINT(rig->queues[1][0].sent + stats(rig, 0)->transmit_dropped, 200);
	CHECK(!drained(rig, &rig->ports[0]));
	rig->queues[1][0].pause_ns = 0;
	CHECK_INT(change(rig, &rig->ports[1], true), 0);
	__atomic_store_n(&rig->queues[0][0].pause_ns, 0, __ATOMIC_RELEASE);
	CHECK(rig_await(&rig->queues[0][0].sent, 200));
	for (uint32_t i = 0; i < 200; i++)
		CHECK_UINT(rig->queues[0][0].order[i], 2 * i);
	rig_destroy(rig);
}

void a_port_that_follows_a_stuck_one_is_waited_for(void)
{
	const struct rig_options options = { .reactors = 1, .ports = 2, .mbufs = 1023, .mode = RIG_ECHO };
	struct rig *rig = rig_create(&options);

	rig->queues[1][0].room = 0;
	rig_start(rig);
	rig_inject(rig, 1, 0, REACTOR_HERE, 0);
	CHECK(rig_await(&stats(rig, 0)->transmit_dropped, 1));
	CHECK_INT(change(rig, &rig->ports[1], false), 0);
	rig->queues[1][0].room = UINT32_MAX;
	rig->queues[1][0].refuses = 30;
	CHECK_INT(change(rig, &rig->ports[1], true), 0);
	for (uint32_t number = 1; number <= 10; number++)
		rig_inject(rig, 1, 0, REACTOR_HERE, number);
	CHECK(rig_await(&stats(rig, 0)->sent, 10));
	CHECK_UINT(stats(rig, 0)->transmit_dropped, 1);
	rig_destroy(rig);
}
