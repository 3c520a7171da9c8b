/* SPDX-License-Identifier: BSD-3-Clause */
/* Hand-written frames against one stack: damaged, hostile, or out of the order of things. */
#include <errno.h>
#include <rte_arp.h>
#include <rte_icmp.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include <rte_udp.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/checksum.h"
#include "tests/net/cases.h"
#include "tests/net/frame.h"
#include "tests/unit.h"

struct frame {
	uint8_t bytes[256];
	unsigned length;
};

static void put_eth(struct frame *f, uint16_t type)
{
	const uint8_t header[12] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2 };

	memset(f, 0, sizeof(*f));
	memcpy(f->bytes, header, sizeof(header));
	f->bytes[12] = (uint8_t)(type >> 8);
	f->bytes[13] = (uint8_t)type;
	f->length = 14;
}

static struct rte_ipv4_hdr *put_ip(struct frame *f, rte_be32_t from, uint8_t protocol, unsigned payload)
{
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(f->bytes + 14);

	put_eth(f, RTE_ETHER_TYPE_IPV4);
	ip->version_ihl = 0x45;
	ip->time_to_live = 64;
	ip->next_proto_id = protocol;
	ip->total_length = rte_cpu_to_be_16((uint16_t)(20 + payload));
	ip->src_addr = from;
	ip->dst_addr = link_address(0);
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	f->length = 34 + payload;
	return ip;
}

static void put_segment(struct frame *f, const struct segment_spec *s)
{
	struct rte_ipv4_hdr *ip = put_ip(f, s->from, IPPROTO_TCP, 20 + s->options_bytes + s->payload);
	struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)(ip + 1);

	tcp->src_port = rte_cpu_to_be_16(s->from_port);
	tcp->dst_port = rte_cpu_to_be_16(s->to_port);
	tcp->sent_seq = rte_cpu_to_be_32(s->seq);
	tcp->recv_ack = rte_cpu_to_be_32(s->ack);
	tcp->data_off = s->data_off ? s->data_off : (uint8_t)((20 + s->options_bytes) / 4 << 4);
	tcp->tcp_flags = s->flags;
	tcp->rx_win = RTE_BE16(65535);
	if (s->options)
		memcpy(tcp + 1, s->options, s->options_bytes);
	memset((uint8_t *)(tcp + 1) + s->options_bytes, 'x', s->payload);
	tcp->cksum = rte_ipv4_udptcp_cksum(ip, tcp) ^ (s->bad_checksum ? 0x5555 : 0);
}

void inject(const struct segment_spec *s)
{
	struct frame f;

	put_segment(&f, s);
	link_inject(&net_link, 0, f.bytes, f.length);
}

void damaged_segments_are_dropped_and_counted(void)
{
	static const uint8_t length_0[] = { 8, 0, 1, 1 }, length_1[] = { 2, 1, 0, 0 }, past_end[] = { 1, 1, 2, 4 },
			     lone[] = { 1, 1, 1, 8 };
	const struct {
		struct segment_spec s;
		size_t counter;
	} cases[] = {
		{ { .flags = RTE_TCP_SYN_FLAG, .options = length_0, .options_bytes = 4 },
		  offsetof(struct net_counters, tcp_bad_option) },
		{ { .flags = RTE_TCP_SYN_FLAG, .options = length_1, .options_bytes = 4 },
		  offsetof(struct net_counters, tcp_bad_option) },
		{ { .flags = RTE_TCP_SYN_FLAG, .options = past_end, .options_bytes = 4 },
		  offsetof(struct net_counters, tcp_bad_option) },
		{ { .flags = RTE_TCP_ACK_FLAG, .options = lone, .options_bytes = 4 },
		  offsetof(struct net_counters, tcp_bad_option) },
		{ { .flags = RTE_TCP_SYN_FLAG, .data_off = 4 << 4 }, offsetof(struct net_counters, tcp_bad_header) },
		{ { .flags = RTE_TCP_SYN_FLAG, .data_off = 15 << 4 }, offsetof(struct net_counters, tcp_bad_header) },
		{ { .flags = RTE_TCP_SYN_FLAG, .bad_checksum = true },
		  offsetof(struct net_counters, tcp_bad_checksum) },
	};
	struct pair p;

	link_init(&net_link, 7);
	link_up(&net_link);
	pair_init(&p, 7, 0, 0);
	CHECK_INT(tcp_listen(net_link.net[0], PORT, &stream_handler, &p.server), 0);
	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		const char *counters = (const char *)net_counters(net_link.net[0]);
		const uint64_t before = *(const uint64_t *)(counters + cases[i].counter);
		struct segment_spec s = cases[i].s;

		s.from = link_address(1);
		s.from_port = 1234;
		s.to_port = PORT;
		inject(&s);
		if (!CHECK_UINT(*(const uint64_t *)(counters + cases[i].counter), before + 1))
			printf("# case %zu\n", i);
		CHECK_UINT(net_connections(net_link.net[0]), 0);
	}
	link_down(&net_link);
}

/* RFC 5961: an established connection survives RSTs and SYNs of somebody who does not know its exact numbers. */
bool last_ack(struct link *l, int from, struct rte_mbuf *m)
{
	const struct rte_tcp_hdr *tcp = rte_pktmbuf_mtod_offset(m, const struct rte_tcp_hdr *, 34);
	struct segment_spec *next = l->tap_ctx;

	if (from == 1 && m->data_len >= 54) {
		next->from_port = rte_be_to_cpu_16(tcp->src_port);
		next->seq = rte_be_to_cpu_32(tcp->sent_seq);
		next->ack = rte_be_to_cpu_32(tcp->recv_ack);
	}
	return false;
}

void blind_resets_do_not_end_a_connection(void)
{
	struct segment_spec s = { .from = link_address(1), .to_port = PORT }, exact;
	struct pair p;

	link_init(&net_link, 8);
	net_link.tap = last_ack;
	net_link.tap_ctx = &s;
	link_up(&net_link);
	pair_init(&p, 8, 0, 0);
	pair_connect(&p);
	link_run(&net_link, 100 * LINK_MS, NULL, NULL);
	CHECK(p.server.opened);
	exact = s;
	s.flags = RTE_TCP_RST_FLAG;
	s.seq = exact.seq + 1000; /* in the window, but not exact: a challenge ACK */
	inject(&s);
	s.seq = exact.seq - 1; /* outside: nothing */
	inject(&s);
	s.flags = RTE_TCP_SYN_FLAG;
	s.seq = exact.seq + 5;
	inject(&s);
	CHECK(!p.server.closed);
	CHECK_UINT(net_counters(net_link.net[0])->tcp_challenge_acks, 1); /* a connection has two a second */
	s = exact;
	s.flags = RTE_TCP_ACK_FLAG;
	s.ack = exact.ack + 100000; /* acknowledges what was never sent */
	inject(&s);
	CHECK(!p.server.closed);
	for (int i = 0; i < 1000; i++) { /* challenge ACKs are bounded */
		s.flags = RTE_TCP_SYN_FLAG;
		inject(&s);
	}
	CHECK_UINT(net_counters(net_link.net[0])->tcp_challenge_acks, 1);
	s = exact;
	s.flags = RTE_TCP_RST_FLAG;
	inject(&s);
	CHECK(p.server.closed);
	CHECK_INT(p.server.reason, ECONNRESET);
	link_down(&net_link);
}

void half_open_connections_are_bounded_and_reclaimed(void)
{
	struct pair p;

	link_init(&net_link, 9);
	link_up(&net_link);
	pair_init(&p, 9, 1000, 1000);
	CHECK_INT(tcp_listen(net_link.net[0], PORT, &stream_handler, &p.server), 0);
	for (unsigned i = 0; i < 1000; i++)
		inject(&(struct segment_spec){ .from = rte_cpu_to_be_32(0xc6120064 + i % 100),
					       .from_port = (uint16_t)(1000 + i),
					       .to_port = PORT,
					       .seq = i,
					       .flags = RTE_TCP_SYN_FLAG });
	CHECK(net_connections(net_link.net[0]) <= 64 / 4 + 1);
	CHECK(net_counters(net_link.net[0])->tcp_cookies_sent >= 900);
	link_run(&net_link, 200000 * LINK_MS, NULL, NULL);
	CHECK_UINT(net_connections(net_link.net[0]), 0);
	p.client.conn = tcp_connect(net_link.net[1], link_ip(0), PORT, &stream_handler, &p.client, &p.client, NULL);
	CHECK(link_run(&net_link, 10000 * LINK_MS, both_received, &p));
	check_streams(&p, 9);
	link_down(&net_link);
}

void time_wait_gives_way_to_a_new_connection(void)
{
	struct pair p;
	struct segment_spec s = { .from = link_address(1), .to_port = PORT };

	link_init(&net_link, 10);
	net_link.tap = last_ack;
	net_link.tap_ctx = &s;
	link_up(&net_link);
	pair_init(&p, 10, 0, 0);
	p.server.close_at_end = true; /* the server closes first, and so has the TIME_WAIT */
	pair_connect(&p);
	link_run(&net_link, 100 * LINK_MS, both_closed, &p);
	CHECK_UINT(net_connections(net_link.net[0]), 1);
	p.server = (struct stream){ 0 };
	s.flags = RTE_TCP_SYN_FLAG;
	s.seq += 100000;
	s.ack = 0;
	inject(&s);
	CHECK_UINT(net_counters(net_link.net[0])->tcp_time_wait_reused, 1);
	CHECK_UINT(net_connections(net_link.net[0]), 1);
	link_down(&net_link);
}

static bool echoed(struct link *l, int from, struct rte_mbuf *m)
{
	const uint8_t *b = rte_pktmbuf_mtod(m, const uint8_t *);

	if (from == 0 && m->data_len >= 42 && b[23] == IPPROTO_ICMP && b[34] == 0)
		++*(int *)l->tap_ctx;
	return false;
}

void icmp_echo_is_answered(void)
{
	struct frame f;
	int replies = 0;

	link_init(&net_link, 11);
	net_link.tap = echoed;
	net_link.tap_ctx = &replies;
	link_up(&net_link);
	put_ip(&f, link_address(1), IPPROTO_ICMP, 8 + 56);
	f.bytes[34] = RTE_IP_ICMP_ECHO_REQUEST;
	*(uint16_t *)(f.bytes + 36) = (uint16_t)~rte_raw_cksum(f.bytes + 34, 64);
	link_inject(&net_link, 0, f.bytes, f.length);
	link_run(&net_link, 10 * LINK_MS, NULL, NULL);
	CHECK_INT(replies, 1);
	f.bytes[40] ^= 1; /* damaged */
	link_inject(&net_link, 0, f.bytes, f.length);
	link_run(&net_link, 10 * LINK_MS, NULL, NULL);
	CHECK_INT(replies, 1);
	CHECK_UINT(net_counters(net_link.net[0])->icmp_bad, 1);
	link_down(&net_link);
}

static void udp_pong(void *ctx, struct net *net, const struct net_udp_address *address, struct rte_mbuf *payload,
		     uint8_t tos)
{
	++*(int *)ctx;
	if (net == net_link.net[0])
		CHECK_INT(net_udp_send(net, address, rte_pktmbuf_mtod(payload, void *), payload->data_len), 0);
	else
		CHECK_MEM(rte_pktmbuf_mtod(payload, void *), "hello", 5);
	rte_pktmbuf_free(payload);
}

void udp_goes_both_ways_and_bad_lengths_are_dropped(void)
{
	const struct net_udp_address to = { .remote = *link_ip(0), .local_port = 1053, .remote_port = 53 };
	struct frame f;
	int calls = 0;

	link_init(&net_link, 12);
	link_up(&net_link);
	CHECK_INT(net_udp_bind(net_link.net[0], 53, udp_pong, &calls), 0);
	CHECK_INT(net_udp_bind(net_link.net[1], 1053, udp_pong, &calls), 0);
	CHECK_INT(net_udp_bind(net_link.net[1], 1053, udp_pong, &calls), -EADDRINUSE);
	CHECK_INT(net_udp_send(net_link.net[1], &to, "hello", 5), 0);
	CHECK_INT(net_udp_send(net_link.net[1], &to, "", 1473), -EMSGSIZE);
	link_run(&net_link, 10 * LINK_MS, NULL, NULL);
	CHECK_INT(calls, 2);
	for (unsigned length = 0; length < 16; length++) { /* the length field lies */
		if (length == 8)
			continue;
		put_ip(&f, link_address(1), IPPROTO_UDP, 8);
		f.bytes[37] = 53;
		f.bytes[39] = (uint8_t)length;
		link_inject(&net_link, 0, f.bytes, f.length);
	}
	CHECK_UINT(net_counters(net_link.net[0])->udp_bad, 15);
	CHECK_INT(calls, 2);
	link_down(&net_link);
}

/* Sees whether datagrams have a checksum: bit 0 of *seen one of IPv4 without, 1 with, 2 and 3 of IPv6. */
static bool watch_checksums(struct link *link, int from, struct rte_mbuf *m)
{
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	const bool v6 = frame[12] == 0x86;
	const uint8_t *udp = frame + 14 + (v6 ? 40 : 20);

	if (frame[v6 ? 20 : 23] == IPPROTO_UDP)
		*(unsigned *)link->tap_ctx |= 1u << ((udp[6] || udp[7] ? 1 : 0) + (v6 ? 2 : 0));
	return false;
}

void udp_over_memory_goes_without_checksum_where_it_may(void)
{
	for (unsigned memory = 0; memory < 2; memory++) {
		unsigned seen = 0;
		int calls = 0;

		link_init(&net_link, 14);
		net_link.offloads[0] = net_link.offloads[1] = memory ? OFFLOAD_MEMORY : 0;
		net_link.tap = watch_checksums;
		net_link.tap_ctx = &seen;
		link_up(&net_link);
		CHECK_INT(net_udp_bind(net_link.net[0], 53, udp_pong, &calls), 0);
		CHECK_INT(net_udp_bind(net_link.net[1], 1053, udp_pong, &calls), 0);
		for (unsigned v6 = 0; v6 < 2; v6++)
			CHECK_INT(net_udp_send(net_link.net[1],
					       &(struct net_udp_address){ .remote = v6 ? *link_ip6(0) : *link_ip(0),
									  .local_port = 1053,
									  .remote_port = 53 },
					       "hello", 5),
				  0);
		link_run(&net_link, 10 * LINK_MS, NULL, NULL);
		CHECK_INT(calls, 4);
		CHECK_UINT(seen, memory ? 1 | 8 : 2 | 8);
		link_down(&net_link);
	}
}

void arp_table_is_bounded_and_survives_nonsense(void)
{
	struct frame f;
	struct pair p;

	link_init(&net_link, 13);
	link_up(&net_link);
	for (unsigned i = 0; i < 5000; i++) { /* mTCP's table was written past its end by these */
		struct rte_arp_hdr *arp = (struct rte_arp_hdr *)(f.bytes + 14);

		put_eth(&f, RTE_ETHER_TYPE_ARP);
		arp->arp_hardware = RTE_BE16(RTE_ARP_HRD_ETHER);
		arp->arp_protocol = RTE_BE16(RTE_ETHER_TYPE_IPV4);
		arp->arp_hlen = i % 7 ? 6 : (uint8_t)i;
		arp->arp_plen = i % 11 ? 4 : (uint8_t)i;
		arp->arp_opcode = rte_cpu_to_be_16((uint16_t)(i % 4));
		arp->arp_data.arp_sha.addr_bytes[0] = 2;
		arp->arp_data.arp_sha.addr_bytes[4] = (uint8_t)i;
		arp->arp_data.arp_sip = rte_cpu_to_be_32(0xc6120003 + i % 250);
		arp->arp_data.arp_tip = link_address(0);
		f.length = i % 13 ? 42 : 14 + i % 28;
		link_inject(&net_link, 0, f.bytes, f.length);
		net_turn(net_link.net[0], net_link.now_ns += 1000);
	}
	pair_init(&p, 13, 10000, 10000);
	pair_connect(&p);
	CHECK(link_run(&net_link, 60000 * LINK_MS, both_received, &p));
	check_streams(&p, 13);
	link_down(&net_link);
}

/* Frames that begin well and go on at random, and frames of a real exchange with bytes changed. */
void random_frames_change_nothing(void)
{
	struct prng prng;
	struct pair p;

	link_init(&net_link, 14);
	link_up(&net_link);
	pair_init(&p, 14, 50000, 50000);
	pair_connect(&p);
	prng_seed(&prng, 14);
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 100; i++) {
			struct frame f;
			unsigned start = prng_below(&prng, 60);

			put_segment(&f, &(struct segment_spec){ .from = link_address(1),
								.from_port = 49152,
								.to_port = PORT,
								.flags = (uint8_t)prng_next(&prng) });
			for (unsigned b = start; b < sizeof(f.bytes); b++)
				f.bytes[b] = (uint8_t)prng_next(&prng);
			link_inject(&net_link, 0, f.bytes, 1 + prng_below(&prng, 255));
		}
		link_run(&net_link, LINK_MS / 4, NULL, NULL);
	}
	CHECK(link_run(&net_link, 60000 * LINK_MS, both_received, &p));
	check_streams(&p, 14);
	link_down(&net_link);
}

void checksums_equal_those_of_dpdk(void)
{
	uint8_t bytes[1600];
	struct prng prng;

	prng_seed(&prng, 16);
	for (int round = 0; round < 5000; round++) {
		const unsigned from = prng_below(&prng, 16), length = prng_below(&prng, 1500);

		for (unsigned i = 0; i < length; i++)
			bytes[from + i] = round % 3 ? (uint8_t)prng_next(&prng) : 0xff;
		CHECK_UINT(checksum_fold(checksum_add(0, bytes + from, length)), rte_raw_cksum(bytes + from, length));
	}
}

void flows_are_read_without_trust(void)
{
	const struct segment_spec s = {
		.from = link_address(1), .from_port = 1, .to_port = PORT, .flags = RTE_TCP_SYN_FLAG
	};
	struct net_flow flow;
	struct rte_mbuf *m;
	struct frame f;

	link_init(&net_link, 15);
	link_up(&net_link);
	put_segment(&f, &s);
	m = rte_pktmbuf_alloc(net_link.pool[0]);
	memcpy(rte_pktmbuf_append(m, (uint16_t)f.length), f.bytes, f.length);
	flow = net_flow(m);
	CHECK_INT(flow.kind, NET_FLOW_TCP);
	CHECK_UINT(flow.port, PORT);
	rte_pktmbuf_mtod(m, uint8_t *)[14] = 0x4f; /* options to the end: the ports are not there */
	CHECK_INT(net_flow(m).kind, NET_FLOW_OTHER);
	rte_pktmbuf_mtod(m, uint8_t *)[14] = 0x41;
	CHECK_INT(net_flow(m).kind, NET_FLOW_OTHER);
	m->data_len = 13;
	CHECK_INT(net_flow(m).kind, NET_FLOW_OTHER);
	rte_pktmbuf_free(m);
	link_down(&net_link);
}
