/* SPDX-License-Identifier: BSD-3-Clause */
/* When connections or mbufs are short: who is refused, and who is not. */
#include <errno.h>

#include "tests/net/cases.h"
#include "tests/net/script.h"

#define SEGMENT(...) (&(struct script_segment){ __VA_ARGS__ })

enum { CONNECTIONS = 8 };

static void begin(void)
{
	struct net_options o = script_options();

	o.connections_max = CONNECTIONS;
	o.half_open_max = CONNECTIONS;
	o.idle_ms = 60000;
	script_begin(&o);
}

static void fill(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		script_connect(SEGMENT(.port = (uint16_t)(1000 + i)));
		script_wait(10);
	}
}

/* A table full of connections that are in use takes no more; one that nobody has used for long gives way, the idlest
 * first. */
void idle_connections_give_way(void)
{
	begin();
	fill(CONNECTIONS);
	script_wait(30000);
	script_in(SEGMENT(.flags = S, .port = 2000));
	script_quiet();
	CHECK_UINT(script_counters()->tcp_listen_overflow, 1);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .port = 1000 + CONNECTIONS - 1,
			  .bytes = 10)); /* this one is in use */
	script_drop();
	script_wait(31000);
	script_in(SEGMENT(.flags = S, .port = 2000));
	CHECK_UINT(script_counters()->tcp_idle_closed, 1);
	CHECK_UINT(script.ends, 1);
	CHECK_INT(script.reason, ETIMEDOUT);
	CHECK_UINT(script.out[script.out_head % SCRIPT_FRAMES_MAX].port, 1000);
	CHECK_UINT(script.out[script.out_head % SCRIPT_FRAMES_MAX].flags, R | A);
	for (unsigned i = 0; i < 2 * CONNECTIONS; i++)
		script_in(SEGMENT(.flags = S, .port = (uint16_t)(3000 + i)));
	CHECK_UINT(script_counters()->tcp_idle_closed, CONNECTIONS - 1); /* all but the one in use */
	script_drop();
	script_end();
}

/* A peer that answers keepalives is there, and has no use for its connection. Data that is sent and acknowledged is
 * one, too. */
void acknowledgements_alone_are_no_use(void)
{
	const uint16_t last = 1000 + CONNECTIONS - 1;

	for (unsigned sends = 0; sends < 2; sends++) {
		begin();
		fill(CONNECTIONS);
		script_wait(30000);
		for (unsigned i = 0; i < CONNECTIONS; i++)
			script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .port = (uint16_t)(1000 + i)));
		/* Nor is a byte that has come before, with which some stacks ask. */
		script_in(SEGMENT(.flags = A, .seq = 0, .ack = 1, .port = 1000, .bytes = 1));
		if (sends) {
			script_write(10);
			script_in(SEGMENT(.flags = A, .seq = 1, .ack = 11, .port = last));
		} else {
			script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .port = last, .bytes = 10));
		}
		script_wait(31000);
		script_drop();
		for (unsigned i = 0; i < 2 * CONNECTIONS; i++)
			script_in(SEGMENT(.flags = S, .port = (uint16_t)(3000 + i)));
		CHECK_UINT(script_counters()->tcp_idle_closed, CONNECTIONS - 1);
		script_drop();
		script_end();
	}
}

/* What is over goes before what is only idle. */
void time_wait_gives_way_first(void)
{
	begin();
	fill(CONNECTIONS);
	tcp_close(script.conn);
	script_drop();
	script_in(SEGMENT(.flags = A | F, .seq = 1, .ack = 2, .port = 1000 + CONNECTIONS - 1));
	CHECK_UINT(script.ends, 1);
	script_wait(59500);
	script_in(SEGMENT(.flags = S, .port = 2000));
	CHECK_UINT(script_counters()->tcp_time_wait_reused, 1);
	CHECK_UINT(script_counters()->tcp_idle_closed, 0);
	CHECK_UINT(net_connections(script.net), CONNECTIONS);
	script_drop();
	script_end();
}

static struct rte_mbuf *taken[SCRIPT_MBUFS];
static unsigned taken_count;

/* Leaves n mbufs in the pool. */
static void leave_mbufs(unsigned count)
{
	while (rte_mempool_avail_count(script.pool) > count)
		taken[taken_count++] = rte_pktmbuf_alloc(script.pool);
	while (taken_count && rte_mempool_avail_count(script.pool) < count)
		rte_pktmbuf_free(taken[--taken_count]);
}

/* Under 1/16 of the mbufs no connections are made, under 1/32 no out-of-order data is kept, under 1/64 no data. */
void who_is_there_goes_before_who_comes(void)
{
	const struct script_segment *s;

	script_begin(NULL);
	script_connect(SEGMENT(.mss = 1000, .sack_permitted = true));
	leave_mbufs(SCRIPT_MBUFS / 16 - 10);
	script_in(SEGMENT(.flags = S, .port = 40001));
	script_quiet();
	CHECK_UINT(script_counters()->tcp_listen_drops, 1);
	script_in(SEGMENT(.flags = A, .seq = 1001, .ack = 1, .bytes = 1000));
	CHECK_UINT(script_out(A, 1, 1, 0)->sacks_count, 1);
	leave_mbufs(SCRIPT_MBUFS / 32 - 10);
	script_in(SEGMENT(.flags = A, .seq = 3001, .ack = 1, .bytes = 1000));
	CHECK_UINT(script_out(A, 1, 1, 0)->sacks_count, 1);
	CHECK_UINT(script_counters()->tcp_out_of_order_dropped, 1);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = 1000));
	CHECK_UINT(script.received, 2000);
	s = script_out(A, 1, 2001, 0);
	CHECK(s->window > 3000); /* promised before */
	script_write(500);
	script_out(A | P, 1, 2001, 500);
	CHECK(script_counters()->tcp_window_tight > 0);
	leave_mbufs(SCRIPT_MBUFS / 64 - 5);
	script_in(SEGMENT(.flags = A, .seq = 2001, .ack = 501, .bytes = 1000));
	CHECK_UINT(script.received, 2000);
	CHECK_UINT(script_counters()->tcp_data_dropped, 1);
	leave_mbufs(SCRIPT_MBUFS);
	script_in(SEGMENT(.flags = A, .seq = 2001, .ack = 501, .bytes = 1000));
	CHECK_UINT(script.received, 3000);
	script_out(A, 501, 3001, 0);
	script_connect(SEGMENT(.port = 40001));
	CHECK_UINT(script.opens, 2);
	script_end();
}
