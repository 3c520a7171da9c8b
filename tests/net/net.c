/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP between two stacks of ours. */
#include <errno.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include <stdlib.h>

#include "tests/net/cases.h"
#include "tests/unit.h"

struct link net_link;

void pair_init(struct pair *p, uint64_t seed, uint64_t up, uint64_t down)
{
	*p = (struct pair){ .client = { .send_seed = seed, .expect_seed = ~seed, .send_total = up },
			    .server = { .send_seed = ~seed, .expect_seed = seed, .send_total = down } };
}

void pair_connect(struct pair *p)
{
	struct star_error err = { 0 };

	CHECK_INT(tcp_listen(net_link.net[0], PORT, &stream_handler, &p->server), 0);
	p->client.conn = tcp_connect(net_link.net[1], link_ip(0), PORT, &stream_handler, &p->client, &p->client, &err);
	CHECK(p->client.conn);
}

bool both_received(void *ctx)
{
	const struct pair *p = ctx;

	return (p->client.received == p->server.send_total && p->server.received == p->client.send_total) ||
	       p->client.closed || p->server.closed;
}

bool both_closed(void *ctx)
{
	const struct pair *p = ctx;

	return p->client.closed && p->server.closed;
}

void check_streams(const struct pair *p, uint64_t seed)
{
	if (p->client.received != p->server.send_total || p->server.received != p->client.send_total ||
	    p->client.wrong || p->server.wrong)
		unit_fail(__FILE__, __LINE__,
			  "seed %llu: client got %llu of %llu%s, server %llu of %llu%s, reasons %d %d",
			  (unsigned long long)seed, (unsigned long long)p->client.received,
			  (unsigned long long)p->server.send_total, p->client.wrong ? " wrong" : "",
			  (unsigned long long)p->server.received, (unsigned long long)p->client.send_total,
			  p->server.wrong ? " wrong" : "", p->client.reason, p->server.reason);
}

static void streams_arrive_and_close_in_order(void)
{
	struct pair p;

	link_init(&net_link, 1);
	link_up(&net_link);
	pair_init(&p, 1, 1000000, 700000);
	pair_connect(&p);
	CHECK(link_run(&net_link, 60000 * LINK_MS, both_received, &p));
	check_streams(&p, 1);
	CHECK_UINT(net_counters(net_link.net[0])->tcp_retrans_segs + net_counters(net_link.net[1])->tcp_retrans_segs,
		   0);
	tcp_close(p.client.conn);
	CHECK(link_run(&net_link, 5000 * LINK_MS, both_closed, &p));
	CHECK_INT(p.client.reason, 0);
	CHECK_INT(p.server.reason, 0);
	CHECK(p.server.finished);
	/* TIME_WAIT passes, and nothing is left. */
	CHECK_UINT(net_connections(net_link.net[1]), 1);
	link_run(&net_link, 5000 * LINK_MS, NULL, NULL);
	CHECK_UINT(net_connections(net_link.net[0]) + net_connections(net_link.net[1]), 0);
	link_down(&net_link);
}

/* Every byte stream intact, whatever the link does: loss, reordering, duplication, corruption, odd windows. */
static void random_schedules_keep_streams_intact(void)
{
	for (uint64_t seed = 1; seed <= 400; seed++) {
		struct net_options a, b;
		struct pair p;

		link_init(&net_link, seed);
		net_link.loss = prng_below(&net_link.prng, 4) ? prng_below(&net_link.prng, 60) : 0;
		net_link.duplicate = prng_below(&net_link.prng, 50);
		net_link.reorder = prng_below(&net_link.prng, 200);
		net_link.corrupt = prng_below(&net_link.prng, 30);
		net_link.delay_ns = LINK_MS / 100 * (1 + prng_below(&net_link.prng, 500));
		a = link_options(&net_link, 0);
		b = link_options(&net_link, 1);
		a.receive_window_bytes = 3000u << prng_below(&net_link.prng, 8);
		b.receive_window_bytes = 3000u << prng_below(&net_link.prng, 8);
		b.interfaces[0].mtu = (uint16_t)(576 + prng_below(&net_link.prng, 925));
		link_up_with(&net_link, &a, &b);
		pair_init(&p, seed, prng_below(&net_link.prng, 100000), prng_below(&net_link.prng, 100000));
		pair_connect(&p);
		link_run(&net_link, 3600000 * LINK_MS, both_received, &p);
		check_streams(&p, seed);
		if (p.client.conn)
			tcp_close(p.client.conn);
		link_run(&net_link, 300000 * LINK_MS, both_closed, &p);
		link_down(&net_link);
	}
}

static bool stalled(void *ctx)
{
	const struct pair *p = ctx;

	return net_counters(net_link.net[1])->tcp_zero_window_probes >= 1 && p->server.held >= 64000;
}

static void closed_window_stops_the_sender_until_it_opens(void)
{
	struct net_options a, b;
	struct pair p;

	link_init(&net_link, 3);
	a = link_options(&net_link, 0);
	b = link_options(&net_link, 1);
	a.receive_window_bytes = 65000;
	link_up_with(&net_link, &a, &b);
	pair_init(&p, 3, 300000, 0);
	p.server.hold = true;
	pair_connect(&p);
	CHECK(link_run(&net_link, 60000 * LINK_MS, stalled, &p));
	CHECK(p.server.received <= 65001);
	/* A reader that only sleeps does not lose its connection, however long it does. */
	link_run(&net_link, 1800000 * LINK_MS, NULL, NULL);
	CHECK(!p.client.closed);
	p.server.hold = false;
	tcp_consumed(p.server.conn, p.server.held);
	CHECK(link_run(&net_link, 120000 * LINK_MS, both_received, &p));
	check_streams(&p, 3);
	tcp_abort(p.client.conn);
	CHECK_INT(p.client.reason, ECONNABORTED);
	link_run(&net_link, 1000 * LINK_MS, both_closed, &p);
	CHECK_INT(p.server.reason, ECONNRESET);
	link_down(&net_link);
}

/* Sequence numbers pass 2^32 in the middle of a stream, in both directions. */
static bool first_syn(struct link *l, int from, struct rte_mbuf *m)
{
	const struct rte_tcp_hdr *tcp = rte_pktmbuf_mtod_offset(m, const struct rte_tcp_hdr *, 34);

	if (from == 1 && m->data_len >= 54 && tcp->tcp_flags == RTE_TCP_SYN_FLAG && !*(uint32_t *)l->tap_ctx)
		*(uint32_t *)l->tap_ctx = rte_be_to_cpu_32(tcp->sent_seq);
	return false;
}

static void sequence_numbers_wrap(void)
{
	uint32_t first = 0;
	uint64_t start;
	struct pair p;

	for (int round = 0; round < 2; round++) {
		link_init(&net_link, 4);
		net_link.loss = 20;
		start = net_link.now_ns;
		if (round == 1) /* the ISN's clock ticks every 4 us: begin just below the wrap */
			net_link.now_ns = start + (uint64_t)(0xffffffffu - 30000 - first) * 4000;
		net_link.tap = first_syn;
		net_link.tap_ctx = &first;
		link_up(&net_link);
		pair_init(&p, 4, 200000, 200000);
		pair_connect(&p);
		CHECK(link_run(&net_link, 600000 * LINK_MS, both_received, &p));
		check_streams(&p, 4);
		link_down(&net_link);
	}
}

static void refused_and_unanswered_connects_end(void)
{
	const struct net_address nowhere = net_address_v4(RTE_BE32(0x08080808));
	struct stream s = { 0 };
	struct star_error err = { 0 };

	link_init(&net_link, 5);
	link_up(&net_link);
	s.conn = tcp_connect(net_link.net[1], link_ip(0), 7, &stream_handler, &s, &s, &err);
	link_run(&net_link, 1000 * LINK_MS, NULL, NULL);
	CHECK_INT(s.reason, ECONNREFUSED);
	net_link.loss = 1000;
	s = (struct stream){ 0 };
	s.conn = tcp_connect(net_link.net[1], link_ip(0), PORT, &stream_handler, &s, &s, &err);
	link_run(&net_link, 200000 * LINK_MS, NULL, NULL);
	CHECK(s.closed);
	CHECK_INT(s.reason, ETIMEDOUT);
	CHECK_UINT(net_connections(net_link.net[1]), 0);
	CHECK(!tcp_connect(net_link.net[1], &nowhere, PORT, &stream_handler, &s, &s, &err));
	CHECK_HAS(err.text, "no route");
	link_down(&net_link);
}

static void dead_peer_ends_a_connection_with_data(void)
{
	struct pair p;

	link_init(&net_link, 6);
	link_up(&net_link);
	pair_init(&p, 6, 1 << 20, 0);
	pair_connect(&p);
	link_run(&net_link, 2 * LINK_MS, NULL, NULL);
	CHECK(p.server.opened);
	net_link.loss = 1000;
	link_run(&net_link, 600000 * LINK_MS, NULL, NULL);
	CHECK(p.client.closed);
	CHECK_INT(p.client.reason, ETIMEDOUT);
	link_down(&net_link);
}

const char *const unit_suite = "net";
const struct unit_case unit_cases[] = {
	{ "streams_arrive_and_close_in_order", streams_arrive_and_close_in_order },
	{ "random_schedules_keep_streams_intact", random_schedules_keep_streams_intact },
	{ "closed_window_stops_the_sender_until_it_opens", closed_window_stops_the_sender_until_it_opens },
	{ "sequence_numbers_wrap", sequence_numbers_wrap },
	{ "refused_and_unanswered_connects_end", refused_and_unanswered_connects_end },
	{ "dead_peer_ends_a_connection_with_data", dead_peer_ends_a_connection_with_data },
	{ "damaged_segments_are_dropped_and_counted", damaged_segments_are_dropped_and_counted },
	{ "blind_resets_do_not_end_a_connection", blind_resets_do_not_end_a_connection },
	{ "half_open_connections_are_bounded_and_reclaimed", half_open_connections_are_bounded_and_reclaimed },
	{ "time_wait_gives_way_to_a_new_connection", time_wait_gives_way_to_a_new_connection },
	{ "icmp_echo_is_answered", icmp_echo_is_answered },
	{ "udp_goes_both_ways_and_bad_lengths_are_dropped", udp_goes_both_ways_and_bad_lengths_are_dropped },
	{ "arp_table_is_bounded_and_survives_nonsense", arp_table_is_bounded_and_survives_nonsense },
	{ "random_frames_change_nothing", random_frames_change_nothing },
	{ "flows_are_read_without_trust", flows_are_read_without_trust },
	{ "checksums_equal_those_of_dpdk", checksums_equal_those_of_dpdk },
	{ "holes_take_a_bounded_share_of_the_mbufs", holes_take_a_bounded_share_of_the_mbufs },
	{ "frames_do_not_wait_for_arp_for_ever", frames_do_not_wait_for_arp_for_ever },
	{ "a_window_that_was_closed_for_long_goes_on_at_once", a_window_that_was_closed_for_long_goes_on_at_once },
	{ "data_with_an_acknowledgement_of_long_ago_is_refused", data_with_an_acknowledgement_of_long_ago_is_refused },
	{ "addresses_that_no_host_has_are_not_answered", addresses_that_no_host_has_are_not_answered },
	{ NULL, NULL },
};
