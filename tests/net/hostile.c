/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that want more than their share, and windows that close for long. */
#include <rte_tcp.h>

#include "tests/net/cases.h"
#include "tests/net/frame.h"
#include "tests/unit.h"

enum { PEERS = 40, FIRST_PORT = 1000, BUDGET = 100 };

/* What the stack answered to each peer's SYN; no segment reaches side 1, which would refuse them. */
static bool note_syn_ack(struct link *l, int from, struct rte_mbuf *m)
{
	const struct rte_tcp_hdr *tcp = rte_pktmbuf_mtod_offset(m, const struct rte_tcp_hdr *, 34);
	uint32_t *iss = l->tap_ctx;

	if (from != 0 || net_flow(m).kind != NET_FLOW_TCP)
		return false;
	if (tcp->tcp_flags & RTE_TCP_SYN_FLAG)
		iss[rte_be_to_cpu_16(tcp->dst_port) - FIRST_PORT] = rte_be_to_cpu_32(tcp->sent_seq);
	return true;
}

static void leave_hole(unsigned peer, const uint32_t *iss, uint32_t at)
{
	inject(&(struct segment_spec){ .from = link_address(1),
				       .from_port = (uint16_t)(FIRST_PORT + peer),
				       .to_port = PORT,
				       .seq = 1 + at,
				       .ack = iss[peer] + 1,
				       .flags = RTE_TCP_ACK_FLAG,
				       .payload = 1 });
}

static bool accept_silently(void *ctx, struct tcp_conn *conn, void **user)
{
	return true;
}

static void take_and_free(void *user, struct rte_mbuf *payload)
{
	rte_pktmbuf_free(payload);
}

static void hear_nothing(void *user)
{
}

static void hear_no_end(void *user, int reason)
{
}

void holes_take_a_bounded_share_of_the_mbufs(void)
{
	static const struct tcp_handler handler = { accept_silently, take_and_free, hear_nothing, hear_nothing,
						    hear_no_end };
	struct net_options a, b;
	uint32_t iss[PEERS] = { 0 };
	const struct net_counters *counters;
	uint64_t queued;

	link_init(&net_link, 20);
	a = link_options(&net_link, 0);
	b = link_options(&net_link, 1);
	a.connections_max = 256;
	a.reorder_mbufs_max = BUDGET;
	net_link.tap = note_syn_ack;
	net_link.tap_ctx = iss;
	link_up_with(&net_link, &a, &b);
	counters = net_counters(net_link.net[0]);
	CHECK_INT(tcp_listen(net_link.net[0], PORT, &handler, NULL), 0);
	for (unsigned i = 0; i < PEERS; i++)
		inject(&(struct segment_spec){ .from = link_address(1),
					       .from_port = (uint16_t)(FIRST_PORT + i),
					       .to_port = PORT,
					       .flags = RTE_TCP_SYN_FLAG });
	/* The first answers wait for ARP; what was dropped there comes again after a second. */
	link_run(&net_link, 1500 * LINK_MS, NULL, NULL);
	for (unsigned i = 0; i < PEERS; i++)
		for (uint32_t at = 1; at <= 10; at++)
			leave_hole(i, iss, 2 * at);
	CHECK_UINT(counters->tcp_passive_opens, PEERS);
	CHECK_UINT(counters->tcp_out_of_order, BUDGET);
	CHECK_UINT(counters->tcp_out_of_order_dropped, 10 * PEERS - BUDGET);
	link_run(&net_link, LINK_MS, NULL, NULL);
	CHECK(rte_mempool_in_use_count(net_link.pool[0]) <= BUDGET + PEERS);
	/* Holes that stay do not keep others from the share. */
	link_run(&net_link, 2000 * LINK_MS, NULL, NULL);
	queued = counters->tcp_out_of_order;
	for (unsigned i = 0; i < 30; i++)
		leave_hole(PEERS - 1, iss, 100 + 2 * i);
	CHECK(counters->tcp_out_of_order >= queued + 10);
	link_down(&net_link);
}

void frames_do_not_wait_for_arp_for_ever(void)
{
	link_init(&net_link, 21);
	link_up(&net_link);
	for (unsigned i = 0; i < 200; i++) /* 198.18.0.16 and on: nobody is there to be refused */
		inject(&(struct segment_spec){ .from = rte_cpu_to_be_32(0xc6120010 + i),
					       .from_port = 1234,
					       .to_port = PORT,
					       .flags = RTE_TCP_SYN_FLAG });
	CHECK(rte_mempool_in_use_count(net_link.pool[0]) >= 200);
	link_run(&net_link, 10000 * LINK_MS, NULL, NULL);
	CHECK_UINT(rte_mempool_in_use_count(net_link.pool[0]), 0);
	CHECK_UINT(net_counters(net_link.net[0])->neighbour_unresolved, 200);
	link_down(&net_link);
}

void a_window_that_was_closed_for_long_goes_on_at_once(void)
{
	struct pair p;

	link_init(&net_link, 22);
	link_up(&net_link);
	pair_init(&p, 22, 600000, 0);
	p.server.hold = true;
	pair_connect(&p);
	link_run(&net_link, 60000 * LINK_MS, NULL, NULL); /* probes have backed off by now */
	CHECK(net_counters(net_link.net[1])->tcp_zero_window_probes >= 4);
	CHECK(p.server.held && !p.client.closed);
	p.server.hold = false;
	tcp_consumed(p.server.conn, p.server.held);
	CHECK(link_run(&net_link, 300 * LINK_MS, both_received, &p));
	check_streams(&p, 22);
	link_down(&net_link);
}

void data_with_an_acknowledgement_of_long_ago_is_refused(void)
{
	struct segment_spec s = { .from = link_address(1), .to_port = PORT };
	struct net_options a, b;
	struct pair p;

	link_init(&net_link, 23);
	net_link.tap = last_ack;
	net_link.tap_ctx = &s;
	a = link_options(&net_link, 0);
	b = link_options(&net_link, 1);
	a.without = NET_WITHOUT_TIMESTAMPS;
	link_up_with(&net_link, &a, &b);
	pair_init(&p, 23, 0, 0);
	pair_connect(&p);
	link_run(&net_link, 100 * LINK_MS, NULL, NULL);
	s.flags = RTE_TCP_ACK_FLAG;
	s.payload = 10;
	s.ack -= 1 << 30;
	inject(&s);
	CHECK_UINT(p.server.received, 0);
	CHECK_UINT(net_counters(net_link.net[0])->tcp_challenge_acks, 1);
	s.ack += 1 << 30;
	inject(&s);
	CHECK_UINT(p.server.received, 10);
	link_down(&net_link);
}

void addresses_that_no_host_has_are_not_answered(void)
{
	const rte_be32_t from[] = { RTE_BE32(0x00000001), RTE_BE32(0x7f000001), RTE_BE32(0xe0000001),
				    RTE_BE32(0xffffffff), link_address(0) };
	struct pair p;

	link_init(&net_link, 24);
	link_up(&net_link);
	pair_init(&p, 24, 0, 0);
	CHECK_INT(tcp_listen(net_link.net[0], PORT, &stream_handler, &p.server), 0);
	for (size_t i = 0; i < RTE_DIM(from); i++)
		inject(&(struct segment_spec){
			.from = from[i], .from_port = 9, .to_port = PORT, .flags = RTE_TCP_SYN_FLAG });
	CHECK_UINT(net_counters(net_link.net[0])->ip_bad_source, RTE_DIM(from));
	CHECK_UINT(net_connections(net_link.net[0]), 0);
	link_down(&net_link);
}
