/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames before IP: VLANs, and what steering reads. */
#include <rte_ip.h>
#include <rte_tcp.h>

#include "tests/net/cases.h"
#include "tests/net/packet.h"
#include "tests/unit.h"

static void tag(struct packet *p, unsigned tci)
{
	memmove(p->bytes + 16, p->bytes + 12, p->length - 12);
	memcpy(p->bytes + 12, (uint8_t[]){ 0x81, 0, (uint8_t)(tci >> 8), (uint8_t)tci }, 4);
	p->length += 4;
}

static void give_stripped(const struct packet *p, uint16_t tci)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(net_link.pool[0]);

	memcpy(rte_pktmbuf_append(m, (uint16_t)p->length), p->bytes, p->length);
	m->ol_flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
	m->vlan_tci = tci;
	m->port = 0; /* the interface's own */
	net_input(net_link.net[0], &m, 1, net_link.now_ns);
}

void tagged_frames_are_of_their_vlan_only(void)
{
	const struct {
		int tci;
		bool taken;
	} cases[] = { { 7, true }, { 0xa007, true }, { 8, false }, { 0, false }, { -1, false } };

	for (int insert = 0; insert < 2; insert++) {
		struct net_options o;
		struct packet p;

		link_init(&net_link, 67);
		o = link_options(&net_link, 0);
		link_down(&net_link);
		o.interfaces[0].vlan = 7;
		o.interfaces[0].offloads = insert ? OFFLOAD_TX_VLAN : 0;
		packets_alone(67, &o);
		for (size_t i = 0; i < RTE_DIM(cases); i++) {
			const unsigned before = packets_received;

			packet_udp(&p, link_ip(1), link_ip(0), 1, 53, 8);
			if (cases[i].tci >= 0)
				give_stripped(&p, (uint16_t)cases[i].tci);
			CHECK_UINT(packets_received - before, cases[i].taken && cases[i].tci >= 0);
			if (cases[i].tci >= 0)
				tag(&p, (unsigned)cases[i].tci);
			packet_give(&p);
			CHECK_UINT(packets_received - before, cases[i].taken ? 2 : 0);
		}
		CHECK_UINT(COUNTER(eth_other_vlan), 5);
		packet_udp(&p, link_ip(1), link_ip(0), 1, 53, 8);
		tag(&p, 7);
		for (unsigned length = 1; length < 18; length++)
			link_inject(&net_link, 0, p.bytes, length);
		tag(&p, 7); /* a tag behind the tag */
		packet_give(&p);
		CHECK_UINT(COUNTER(eth_unknown_type), 1);
		/* ARP, ND and what goes out are tagged too. */
		net_udp_send(net_link.net[0], &(struct net_udp_address){ .remote = *link_ip6(1) }, "x", 1);
		net_udp_send(net_link.net[0], &(struct net_udp_address){ .remote = *link_ip(1) }, "x", 1);
		packets_turn();
		CHECK_UINT(packets_sent.count, 2);
		for (unsigned i = 0; i < packets_sent.count; i++) {
			const uint8_t *type = packets_sent.sent[i].bytes + 12;

			if (insert) {
				CHECK(packets_sent.sent[i].flags & RTE_MBUF_F_TX_VLAN);
				CHECK_UINT(packets_sent.sent[i].vlan_tci, 7);
				CHECK_MEM(type, i ? "\x08\x06" : "\x86\xdd", 2);
			} else {
				CHECK_MEM(type, i ? "\x81\x00\x00\x07\x08\x06" : "\x81\x00\x00\x07\x86\xdd", 6);
			}
		}
		link_down(&net_link);
	}
}

void streams_arrive_in_a_vlan(void)
{
	struct net_options a, b;
	struct pair p;

	link_init(&net_link, 68);
	a = link_options(&net_link, 0);
	b = link_options(&net_link, 1);
	a.interfaces[0].vlan = b.interfaces[0].vlan = 4094;
	link_up_with(&net_link, &a, &b);
	net_link.loss = 10;
	pair_init(&p, 68, 200000, 200000);
	pair_connect(&p);
	CHECK(link_run(&net_link, 60000 * LINK_MS, both_received, &p));
	check_streams(&p, 68);
	link_down(&net_link);
}

void flows_of_every_kind_are_read_without_trust(void)
{
	struct packet p, inner, fragment;
	struct {
		struct packet *p;
		enum net_flow_kind kind;
		uint16_t port;
	} cases[9];
	static struct packet made[9];
	unsigned n = 0;

	link_init(&net_link, 69);
	link_up(&net_link);
	for (int v6 = 0; v6 < 2; v6++) {
		const struct net_address *from = v6 ? link_ip6(1) : link_ip(1), *to = v6 ? link_ip6(0) : link_ip(0);

		packet_tcp(&p, from, to, 1, 5556, RTE_TCP_SYN_FLAG, 0);
		made[n] = p, cases[n].kind = NET_FLOW_TCP, cases[n++].port = 5556;
		packet_tcp(&inner, to, from, 5557, 1, 0, 0);
		packet_icmp(&p, from, to, v6 ? 1 : 3, 1, 0, inner.bytes + PACKET_ETHERNET,
			    inner.length - PACKET_ETHERNET);
		made[n] = p, cases[n].kind = NET_FLOW_ERROR, cases[n++].port = 5557;
		packet_udp(&p, from, to, 1, 5555, 100);
		packet_cut(&p, 48, 1, 1, &fragment);
		made[n] = fragment, cases[n].kind = NET_FLOW_FRAGMENT, cases[n++].port = 0;
	}
	packet_icmp(&p, link_ip6(1), link_ip6(0), 135, 0, 0, NULL, 24);
	made[n] = p, cases[n].kind = NET_FLOW_NEIGHBOUR, cases[n++].port = 0;
	packet_begin(&p, link_local(1), link_ip6(0));
	packet_extension(&p, IPPROTO_HOPOPTS, "\5\2\0\0\1\0", 6);
	packet_upper(&p, IPPROTO_ICMPV6);
	packet_append(&p, "\x82", 1);
	packet_append(&p, NULL, 23);
	packet_end(&p);
	made[n] = p, cases[n].kind = NET_FLOW_NEIGHBOUR, cases[n++].port = 0;
	packet_begin(&p, link_ip6(1), link_ip6(0));
	packet_extension(&p, IPPROTO_DSTOPTS, "\1\4\0\0\0\0", 6);
	packet_upper(&p, IPPROTO_UDP);
	packet_append(&p, "\0\1\x15\xb3\0\10\0", 8);
	packet_end(&p);
	made[n] = p, cases[n].kind = NET_FLOW_UDP, cases[n++].port = 5555;
	for (unsigned i = 0; i < n; i++)
		for (int tagged = 0; tagged < 2; tagged++) {
			if (tagged)
				tag(&made[i], 5);
			for (unsigned length = 1; length <= made[i].length; length++) {
				struct rte_mbuf *m = rte_pktmbuf_alloc(net_link.pool[0]);
				struct net_flow flow;

				memcpy(rte_pktmbuf_append(m, (uint16_t)length), made[i].bytes, length);
				flow = net_flow(m);
				if (length == made[i].length) {
					CHECK_INT(flow.kind, cases[i].kind);
					CHECK_UINT(flow.port, cases[i].port);
				} else if (flow.kind != NET_FLOW_OTHER) { /* enough of it is there */
					CHECK_INT(flow.kind, cases[i].kind);
					CHECK_UINT(flow.port, cases[i].port);
				}
				rte_pktmbuf_free(m);
			}
		}
	link_down(&net_link);
}
