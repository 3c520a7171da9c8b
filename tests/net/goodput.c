/* SPDX-License-Identifier: BSD-3-Clause */
/* How much a path carries under loss and marks: two stacks and a bottleneck, in virtual time, so that the figures are
 * the same on every machine. */
#include <stdlib.h>

#include "tests/net/cases.h"
#include "tests/unit.h"

struct course {
	enum net_congestion congestion;
	uint32_t without;
	unsigned loss;	    /* of 1000, both ways */
	unsigned data_loss; /* instead: of the sender's frames only */
	uint64_t bytes_s, delay_ns, bytes;
	uint32_t queue_bytes, mark_bytes;
	uint32_t rto_min_us;
};

struct outcome {
	uint64_t ns; /* until all had arrived */
	uint64_t rtos, retrans;
	uint32_t longest_bytes; /* of the bottleneck's queue, once slow start was over */
};

static bool half_received(void *ctx)
{
	const struct pair *p = ctx;

	return p->client.received >= p->server.send_total / 2;
}

/* Loses what the sender sends, and none of what it is answered. */
static bool lose_data(struct link *link, int from, struct rte_mbuf *m)
{
	const struct course *c = link->tap_ctx;

	return from == 0 && prng_below(&link->prng, 1000) < c->data_loss;
}

static struct outcome run(const struct course *c)
{
	struct outcome o = { 0 };
	struct net_options a, b;
	struct pair p;
	uint64_t begin_ns;

	link_init(&net_link, 77);
	net_link.delay_ns = c->delay_ns;
	net_link.bottleneck[0] = (struct link_bottleneck){ .bytes_s = c->bytes_s,
							   .queue_bytes = c->queue_bytes,
							   .mark_bytes = c->mark_bytes };
	a = link_options(&net_link, 0);
	b = link_options(&net_link, 1);
	a.congestion = c->congestion;
	a.without = c->without;
	a.rto_min_us = c->rto_min_us ? c->rto_min_us : 200000;
	b.ecn = NET_ECN_ASK;
	b.congestion = c->congestion;
	b.receive_window_bytes = b.receive_initial_bytes = 4 << 20;
	link_up_with(&net_link, &a, &b);
	pair_init(&p, 77, 0, c->bytes);
	p.server.queue_bytes = 1 << 20;
	pair_connect(&p);
	link_run(&net_link, LINK_MS / 2, NULL, NULL);
	begin_ns = net_link.now_ns;
	net_link.loss = c->loss;
	net_link.tap = c->data_loss ? lose_data : NULL;
	net_link.tap_ctx = (void *)(uintptr_t)c;
	CHECK(link_run(&net_link, 600000 * LINK_MS, half_received, &p));
	net_link.bottleneck[0].longest_bytes = 0;
	CHECK(link_run(&net_link, 600000 * LINK_MS, both_received, &p));
	check_streams(&p, 77);
	o.ns = net_link.now_ns - begin_ns;
	o.rtos = net_counters(net_link.net[0])->tcp_rtos;
	o.retrans = net_counters(net_link.net[0])->tcp_retrans_segs;
	o.longest_bytes = net_link.bottleneck[0].longest_bytes;
	if (getenv("STAR_GOODPUT"))
		printf("# %u loss %u: %.1f MB/s, %llu rtos, %llu retransmitted, queue %u\n", c->congestion,
		       c->loss + c->data_loss, (double)c->bytes * 1e3 / (double)o.ns, (unsigned long long)o.rtos,
		       (unsigned long long)o.retrans, o.longest_bytes);
	link_down(&net_link);
	return o;
}

/* A link of a data centre: 10 Gbit/s, 50 us. Losses are repaired within round trips, without a timeout. */
static const struct course data_centre = {
	.bytes_s = 1250000000, .delay_ns = 25000, .bytes = 20000000, .queue_bytes = 2000000
};

void losses_in_a_data_centre_cost_little(void)
{
	struct course c = data_centre;
	struct outcome clean, tenth, one, without;

	clean = run(&c);
	c.loss = 1;
	tenth = run(&c);
	c.loss = 10;
	one = run(&c);
	c.without = NET_WITHOUT_SACK;
	without = run(&c);
	CHECK_UINT(clean.retrans, 0);
	CHECK_UINT(clean.rtos + tenth.rtos + one.rtos, 0);
	CHECK(clean.ns >= tenth.ns * 8 / 10);
	CHECK(clean.ns >=
	      one.ns * 25 / 100); /* 12 segments a round trip: what 1 % of loss leaves to CUBIC as to Reno */
	CHECK(one.ns < without.ns);
	CHECK(one.retrans <= 20000000 / 1448 * 13 / 1000); /* what was lost, and hardly more */
}

/* The same with a switch that marks: DCTCP keeps the queue short and the link full (RFC 8257); CUBIC fills the
 * queue. */
void dctcp_keeps_the_queue_short(void)
{
	struct course c = data_centre;
	struct outcome cubic, dctcp;

	cubic = run(&c);
	c.mark_bytes = 30000;
	c.congestion = NET_DCTCP;
	dctcp = run(&c);
	CHECK(cubic.longest_bytes > 500000);
	CHECK(dctcp.longest_bytes < 100000);
	CHECK(cubic.ns >= dctcp.ns * 9 / 10);
	CHECK_UINT(dctcp.retrans, 0);
}

/* A peer on the same machine: the ACKs of a whole flight come at once, and a round trip takes no time. What is lost,
 * and lost again, is found by what follows it: a timeout would cost ten thousand round trips. */
void losses_to_a_near_peer_take_no_timeouts(void)
{
	struct course c = { .delay_ns = 5000, .bytes = 100000000 };

	for (c.data_loss = 10; c.data_loss <= 30; c.data_loss += 20) {
		const struct outcome o = run(&c);

		CHECK_UINT(o.rtos, 0);
		CHECK(o.retrans <= c.bytes / 1448 * c.data_loss * 13 / 10000);
	}
}
