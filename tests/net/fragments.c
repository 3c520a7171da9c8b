/* SPDX-License-Identifier: BSD-3-Clause */
/* Fragments, of both families: put together, refused, given up; and made by us. */
#include <rte_ip.h>
#include <rte_tcp.h>
#include <stdio.h>

#include "net/checksum.h"
#include "tests/net/cases.h"
#include "tests/net/packet.h"
#include "tests/unit.h"

enum { WHOLE = 1500 };

static const struct net_address *peer(bool v4)
{
	return v4 ? link_ip(1) : link_ip6(1);
}

static const struct net_address *own(bool v4)
{
	return v4 ? link_ip(0) : link_ip6(0);
}

static unsigned held(void)
{
	return rte_mempool_in_use_count(net_link.pool[0]);
}

static void give_fragment(const struct packet *whole, unsigned step, unsigned i, uint32_t id)
{
	struct packet fragment;

	CHECK(packet_cut(whole, step, i, id, &fragment));
	packet_give(&fragment);
}

/* The payload of a datagram of packet_udp. */
static bool arrived(const struct packet *whole, unsigned times)
{
	const bool right =
		CHECK_UINT(packets_received, times) &&
		CHECK_MEM(packets_received_bytes, whole->bytes + whole->upper + 8, whole->length - whole->upper - 8);

	return right && CHECK_UINT(held(), 0);
}

void fragments_are_put_together_in_any_order(void)
{
	static const uint8_t orders[][4] = { { 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 2, 0, 3, 1 }, { 1, 3, 0, 2 },
					     { 3, 0, 1, 2 }, { 0, 3, 2, 1 }, { 1, 2, 3, 0 }, { 2, 3, 0, 1 } };
	struct packet whole, other;
	unsigned last = 0;

	for (int v4 = 0; v4 < 2; v4++) {
		packets_alone(100, NULL);
		packets_introduce();
		packet_udp(&whole, peer(v4), own(v4), 999, 53, WHOLE);
		for (unsigned k = 0; k < RTE_DIM(orders); k++) {
			for (unsigned i = 0; i < 4; i++)
				give_fragment(&whole, 400, orders[k][i], 1 + k);
			if (!arrived(&whole, k + 1))
				printf("# order %u\n", k);
		}
		/* Eight are the most that a packet may have; two in flight do not mix. */
		packet_udp(&other, peer(v4), own(v4), 999, 53, 700);
		for (unsigned i = 0; i < 8; i++) {
			give_fragment(&whole, 192, i, 100);
			if (i * 96 < other.length - other.upper)
				give_fragment(&other, 96, i, 101);
		}
		arrived(&whole, RTE_DIM(orders) + 2);
		CHECK_UINT(COUNTER(ip_reasm_oks), RTE_DIM(orders) + 2);
		CHECK_UINT(COUNTER(ip_reasm_fails), 0);
		/* An echo too large for a frame comes back, in fragments of ours. */
		packets_turn();
		packet_icmp(&whole, peer(v4), own(v4), v4 ? 8 : 128, 0, 1, NULL, 1700);
		for (unsigned i = 0; i < 2; i++)
			give_fragment(&whole, 1000, i, 102);
		packets_turn();
		CHECK_UINT(packets_count(v4 ? IPPROTO_ICMP : IPPROTO_FRAGMENT, &last), 2);
		CHECK_UINT(COUNTER(ip_frag_creates), 2);
		CHECK_UINT(packets_sent.sent[last - 1].length, PACKET_ETHERNET + (v4 ? 1500 : 1496));
		if (v4) {
			CHECK_MEM(packets_ip(last - 1) + 6, "\x20\x00", 2);
			CHECK_MEM(packets_ip(last) + 6, "\x00\xb9", 2);
			CHECK_MEM(packets_ip(last - 1) + 4, packets_ip(last) + 4, 2);
		} else {
			CHECK_MEM(packets_upper(last - 1), "\x3a\0\0\1", 4);
			CHECK_MEM(packets_upper(last), "\x3a\0\5\xa8", 4);
			CHECK_MEM(packets_upper(last - 1) + 4, packets_upper(last) + 4, 4);
		}
		CHECK_UINT(held(), 0);
		link_down(&net_link);
	}
}

/* A fragment with its own offset and length, of a datagram that says nothing. */
static void give_piece(bool v4, uint8_t protocol, unsigned offset, unsigned bytes, bool more, uint32_t id)
{
	struct packet p;

	packet_begin(&p, peer(v4), own(v4));
	if (v4) {
		p.bytes[p.named] = protocol;
		p.bytes[PACKET_ETHERNET + 4] = (uint8_t)(id >> 8);
		p.bytes[PACKET_ETHERNET + 5] = (uint8_t)id;
		p.bytes[PACKET_ETHERNET + 6] = (uint8_t)((more ? 0x20 : 0) | offset / 8 >> 8);
		p.bytes[PACKET_ETHERNET + 7] = (uint8_t)(offset / 8);
	} else {
		uint8_t *header = packet_extension(&p, IPPROTO_FRAGMENT, NULL, 6);

		header[0] = protocol;
		header[2] = (uint8_t)(offset >> 8);
		header[3] = (uint8_t)(offset | more);
		header[6] = (uint8_t)(id >> 8);
		header[7] = (uint8_t)id;
	}
	memset(packet_append(&p, NULL, bytes), 0, bytes);
	packet_end(&p);
	packet_give(&p);
}

void fragments_that_cannot_be_are_refused(void)
{
	static const struct {
		const char *what;
		unsigned offset, bytes;
		bool more;
		uint8_t protocol;
	} bad[] = {
		{ "no bytes", 800, 0, true, IPPROTO_UDP },
		{ "no multiple of 8 before the end", 800, 9, true, IPPROTO_UDP },
		{ "beyond 65535", 65528, 100, false, IPPROTO_UDP },
		{ "beyond what an mbuf holds", 2040, 80, false, IPPROTO_UDP },
		{ "UDP without its header", 0, 0, true, IPPROTO_UDP },
		{ "TCP's ports alone", 0, 8, true, IPPROTO_TCP },
		{ "TCP without its flags", 0, 16, true, IPPROTO_TCP },
	};

	for (int v4 = 0; v4 < 2; v4++) {
		packets_alone(101, NULL);
		packets_introduce();
		for (size_t i = 0; i < RTE_DIM(bad); i++) {
			give_piece(v4, bad[i].protocol, bad[i].offset, bad[i].bytes, bad[i].more, 7);
			if (!CHECK_UINT(COUNTER(ip_reasm_fails), i + 1) || !CHECK_UINT(held(), 0))
				printf("# %s\n", bad[i].what);
		}
		if (v4) /* a second fragment over TCP's flags (RFC 3128) */
			give_piece(true, IPPROTO_TCP, 8, 32, false, 8);
		else /* neighbour discovery in pieces (RFC 6980) */
			for (unsigned i = 0; i < 2; i++) {
				struct packet p;

				packet_solicitation(&p, peer(false), own(false), own(false), link_mac(1));
				if (i == 0)
					give_fragment(&p, 16, 0, 9);
			}
		CHECK_UINT(COUNTER(ip_reasm_fails), RTE_DIM(bad) + 1);
		CHECK_UINT(held(), 0);
		link_down(&net_link);
	}
}

/* RFC 7112: what follows the extension headers stands in the first fragment; and no fragment is in a fragment. */
void fragments_that_hide_headers_are_refused(void)
{
	static const uint8_t bodies[][24] = {
		{ IPPROTO_UDP, 3, 1, 12, [16] = 1, 14 }, /* options of 32 bytes, of which 24 are there */
		{ IPPROTO_FRAGMENT, 0, 1, 4, [8] = IPPROTO_UDP, 0, 0, 1 }, /* then a fragment's header, then UDP's */
		{ IPPROTO_ROUTING, 0, 1, 4, [8] = IPPROTO_TCP, 0, 0, 0 },  /* then a route, then 8 bytes of TCP */
	};

	packets_alone(102, NULL);
	for (unsigned i = 0; i < RTE_DIM(bodies); i++) {
		struct packet p;
		uint8_t *header;

		packet_begin(&p, peer(false), own(false));
		header = packet_extension(&p, IPPROTO_FRAGMENT, "\0\1\0\0\0\1", 6);
		header[0] = IPPROTO_DSTOPTS;
		packet_append(&p, bodies[i], 24);
		packet_end(&p);
		packet_give(&p);
		CHECK_UINT(COUNTER(ip_reasm_fails), i + 1);
		CHECK_UINT(held(), 0);
	}
	link_down(&net_link);
}

/* RFC 5722, RFC 8200, 4.5: what overlaps is given up, whatever fits of it. */
void overlapping_fragments_are_given_up(void)
{
	static const struct {
		const char *what;
		struct {
			unsigned offset, bytes;
			bool more;
		} pieces[10];
	} cases[] = {
		{ "twice the first", { { 0, 80, true }, { 0, 80, true } } },
		{ "twice the last", { { 80, 80, false }, { 80, 80, false } } },
		{ "two ends", { { 80, 80, false }, { 160, 80, false } } },
		{ "the second reaches back", { { 0, 80, true }, { 72, 80, true }, { 152, 8, false } } },
		{ "the last reaches back", { { 0, 80, true }, { 64, 80, false } } },
		{ "one within another", { { 0, 80, true }, { 16, 16, true }, { 80, 80, false } } },
		{ "twice the middle", { { 0, 80, true }, { 80, 80, true }, { 80, 80, true }, { 160, 80, false } } },
		{ "as many bytes as there should be, and a hole",
		  { { 0, 80, true }, { 40, 80, true }, { 160, 80, false }, { 120, 40, true } } },
		{ "nine",
		  { { 0, 80, true },
		    { 80, 80, true },
		    { 160, 80, true },
		    { 240, 80, true },
		    { 320, 80, true },
		    { 400, 80, true },
		    { 480, 80, true },
		    { 560, 80, true },
		    { 640, 80, false } } },
	};

	for (int v4 = 0; v4 < 2; v4++) {
		packets_alone(103, NULL);
		packets_introduce();
		for (size_t k = 0; k < RTE_DIM(cases); k++) {
			for (unsigned i = 0; i < RTE_DIM(cases[k].pieces) && cases[k].pieces[i].bytes; i++)
				give_piece(v4, IPPROTO_UDP, cases[k].pieces[i].offset, cases[k].pieces[i].bytes,
					   cases[k].pieces[i].more, 20 + (uint32_t)k);
			if (!CHECK_UINT(COUNTER(ip_reasm_oks), 0) || !CHECK(COUNTER(ip_reasm_fails) > 0))
				printf("# %s\n", cases[k].what);
		}
		packets_pass(62000);
		CHECK_UINT(held(), 0);
		link_down(&net_link);
	}
}

void fragments_wait_for_a_bounded_time(void)
{
	unsigned last = 0;

	for (int v4 = 0; v4 < 2; v4++) {
		packets_alone(104, NULL);
		packets_introduce();
		give_piece(v4, IPPROTO_UDP, 0, 800, true, 1); /* the first of one */
		give_piece(v4, IPPROTO_UDP, 800, 80, true, 1);
		packets_pass(10000);
		give_piece(v4, IPPROTO_UDP, 800, 80, true, 2); /* not the first of another */
		packets_turn();
		CHECK_UINT(held(), 3);
		packets_pass(19000);
		CHECK_UINT(held(), 3);
		packets_turn();
		packets_pass(2000);
		CHECK_UINT(held(), 1);
		/* Its sender is told of the one whose first fragment has come (RFC 792). */
		if (CHECK_UINT(packets_count(v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6, &last), 1)) {
			CHECK_MEM(packets_upper(last), v4 ? "\13\1" : "\3\1", 2);
			CHECK_MEM(packets_upper(last) + 8 + (v4 ? 12 : 8),
				  v4 ? (const void *)&link_ip(1)->words[3] : (const void *)link_ip6(1), 4);
		}
		packets_turn();
		packets_pass(20000);
		CHECK_UINT(held(), 0);
		CHECK_UINT(packets_count(v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6, &last), 0);
		CHECK_UINT(COUNTER(ip_reasm_timeouts), 3);
		give_piece(v4, IPPROTO_UDP, 880, 80, false, 1); /* too late */
		CHECK_UINT(COUNTER(ip_reasm_oks), 0);
		link_down(&net_link);
	}
}

void a_flood_of_fragments_holds_a_bounded_share(void)
{
	struct packet whole;

	for (int v4 = 0; v4 < 2; v4++) {
		packets_alone(105, NULL);
		packets_introduce();
		for (unsigned i = 0; i < 60000; i++) {
			give_piece(v4, IPPROTO_UDP, 800 + 8 * (i % 90), 8, true, i);
			CHECK(held() <= LINK_MBUFS / 32);
		}
		CHECK(held() >= 60);
		/* Whole packets get through, and in half a minute fragments do again. */
		packet_udp(&whole, peer(v4), own(v4), 999, 53, 100);
		packet_give(&whole);
		CHECK_UINT(packets_received, 1);
		packets_pass(40000);
		CHECK_UINT(held(), 0);
		for (unsigned i = 0; i < 3; i++)
			give_fragment(&whole, 40, i, 1);
		CHECK_UINT(packets_received, 2);
		link_down(&net_link);
	}
}

void fragments_have_a_budget_of_their_own(void)
{
	struct net_options o;

	link_init(&net_link, 109);
	o = link_options(&net_link, 0);
	link_down(&net_link);
	o.reassembly_mbufs_max = 10;
	packets_alone(109, &o);
	for (unsigned i = 0; i < 100; i++)
		give_piece(i & 1, IPPROTO_UDP, 800 + 8 * i, 8, true, i % 5);
	CHECK_UINT(held(), 10);
	CHECK_UINT(COUNTER(ip_reasm_fails), 90);
	link_down(&net_link);
}

/* A router in the middle cuts every packet of side 1 in two. */
static bool cut_in_two(struct link *l, int from, struct rte_mbuf *m)
{
	static uint32_t id;
	struct packet whole = { .length = m->data_len };
	const bool v4 = rte_pktmbuf_mtod(m, const uint8_t *)[12] == 0x08;

	if (from == 0 || net_flow(m).kind != NET_FLOW_TCP || m->data_len < 200)
		return false;
	memcpy(whole.bytes, rte_pktmbuf_mtod(m, void *), m->data_len);
	whole.upper = PACKET_ETHERNET + (v4 ? 20 : 40);
	whole.protocol = IPPROTO_TCP;
	whole.from = *peer(v4);
	whole.to = *own(v4);
	id++;
	for (unsigned i = 0; i < 2; i++)
		give_fragment(&whole, (whole.length - whole.upper + 15) / 16 * 8, (id + i) % 2, id);
	return true;
}

void streams_arrive_through_a_path_that_fragments(void)
{
	for (int v4 = 0; v4 < 2; v4++) {
		struct pair p;

		link_init(&net_link, 106);
		net_link.tap = cut_in_two;
		net_link.loss = 10;
		link_up(&net_link);
		pair_init(&p, 106, 300000, 300000);
		CHECK_INT(tcp_listen(net_link.net[0], PORT, &stream_handler, &p.server), 0);
		p.client.conn =
			tcp_connect(net_link.net[1], own(v4), PORT, &stream_handler, &p.client, &p.client, NULL);
		CHECK(link_run(&net_link, 600000 * LINK_MS, both_received, &p));
		check_streams(&p, 106);
		CHECK(COUNTER(ip_reasm_oks) >= 300000 / 1460);
		link_down(&net_link);
	}
}

/* Sends a datagram in two fragments; returns their identification. */
static uint32_t identification(bool v4)
{
	enum { BODY = 192, BYTES = 1600 };
	const struct net_udp_address to = { .remote = *peer(v4), .local_port = 53, .remote_port = 999 };
	struct rte_mbuf *m = net_alloc(net_link.net[0]);
	struct net_udp_flow flow;
	unsigned last = 0;
	const uint8_t *at;
	uint16_t low;
	uint32_t id;

	CHECK_INT(net_udp_flow_init(net_link.net[0], &flow, &to), 0);
	m->data_off = BODY;
	memset(rte_pktmbuf_append(m, BYTES), 'x', BYTES);
	net_udp_flow_send(net_link.net[0], &flow, m, 0);
	packets_turn();
	if (!CHECK_UINT(packets_count(v4 ? IPPROTO_UDP : IPPROTO_FRAGMENT, &last), 2))
		return 0;
	at = packets_ip(last) + (v4 ? 4 : sizeof(struct rte_ipv6_hdr) + 4);
	memcpy(&id, at, sizeof(id));
	memcpy(&low, at, sizeof(low));
	return v4 ? rte_be_to_cpu_16(low) : rte_be_to_cpu_32(id);
}

/* Reactors share the node's addresses: what two of them send to one peer must not be put together. */
void stacks_with_one_address_share_no_identifications(void)
{
	enum { STACKS = 3 };

	for (unsigned stack = 0; stack < STACKS; stack++) {
		struct net_options o;

		link_init(&net_link, 107);
		o = link_options(&net_link, 0);
		o.stack = stack;
		o.stacks = STACKS;
		packets_alone(107, &o);
		packets_introduce();
		for (int v4 = 0; v4 < 2; v4++) {
			const uint32_t first = identification(v4), second = identification(v4);

			CHECK_UINT(first % 4, stack);
			CHECK_UINT(second % 4, stack);
			CHECK(first != second);
			CHECK(first / 4 != (uint32_t)(o.secret[0] >> 32) / 4); /* it is not a part of the secret */
		}
		link_down(&net_link);
	}
}

/* A packet that was put together for another stack, as steering sends all fragments to one. */
static struct rte_mbuf *taken;

static bool take(void *ctx, struct rte_mbuf *frame)
{
	const struct net_flow flow = net_flow(frame);

	if (flow.port != 5556)
		return false;
	taken = frame;
	return true;
}

void a_whole_packet_goes_to_the_stack_it_belongs_to(void)
{
	struct packet whole;

	for (int v4 = 0; v4 < 2; v4++)
		for (unsigned vlan = 0; vlan < 8; vlan += 7) {
			struct net_options o;

			link_init(&net_link, 107);
			o = link_options(&net_link, 0);
			link_down(&net_link);
			o.reassembled = take;
			o.interfaces[0].vlan = (uint16_t)vlan;
			o.interfaces[0].port = 3;
			packets_alone(107, &o);
			for (uint16_t port = 53; port; port = port == 53 ? 5556 : 0) {
				packet_udp(&whole, peer(v4), own(v4), 999, port, WHOLE);
				for (unsigned i = 0; i < 4; i++) {
					struct packet fragment;
					struct rte_mbuf *m = rte_pktmbuf_alloc(net_link.pool[0]);

					packet_cut(&whole, 400, i, port, &fragment);
					memcpy(rte_pktmbuf_append(m, (uint16_t)fragment.length), fragment.bytes,
					       fragment.length);
					m->port = 3;
					m->vlan_tci = (uint16_t)vlan;
					m->ol_flags = vlan ? RTE_MBUF_F_RX_VLAN_STRIPPED : 0;
					net_input(net_link.net[0], &m, 1, net_link.now_ns);
				}
			}
			CHECK_UINT(packets_received, 1);
			if (CHECK(taken != NULL)) {
				/* It is as if it had come in one piece. */
				CHECK_UINT(taken->port, 3);
				CHECK_UINT(taken->nb_segs, 1);
				CHECK_UINT(taken->pkt_len, whole.length);
				CHECK_INT(net_flow(taken).kind, NET_FLOW_UDP);
				CHECK_MEM(rte_pktmbuf_mtod(taken, const uint8_t *) + whole.upper,
					  whole.bytes + whole.upper, whole.length - whole.upper);
				rte_pktmbuf_free(taken);
				taken = NULL;
			}
			link_down(&net_link);
		}
}

/* Pieces at random of a few packets: never a wrong byte, never more than the bound, and nothing left. */
void random_fragments_change_nothing(void)
{
	struct packet whole[2][4];

	packets_alone(108, NULL);
	packets_introduce();
	for (unsigned v4 = 0; v4 < 2; v4++)
		for (unsigned i = 0; i < 4; i++)
			packet_udp(&whole[v4][i], peer(v4), own(v4), 999, 53, 200 + 300 * i);
	for (unsigned round = 0; round < 60000; round++) {
		const unsigned v4 = prng_below(&net_link.prng, 2), which = prng_below(&net_link.prng, 4);
		const struct packet *w = &whole[v4][which];
		const unsigned step = 8 + 8 * prng_below(&net_link.prng, 60), before = packets_received;
		struct packet fragment;

		if (!packet_cut(w, step, prng_below(&net_link.prng, 6), which + 4 * prng_below(&net_link.prng, 50),
				&fragment))
			continue;
		for (unsigned k = prng_below(&net_link.prng, 5) ? 0 : 2; k; k--)
			fragment.bytes[PACKET_ETHERNET +
				       prng_below(&net_link.prng, fragment.length - PACKET_ETHERNET)] =
				(uint8_t)prng_next(&net_link.prng);
		packet_mend(&fragment);
		packet_give(&fragment);
		CHECK(held() <= LINK_MBUFS / 32 + PACKETS_SENT_MAX);
		if (packets_received != before) {
			const unsigned port = packets_received_by.remote_port;

			CHECK_UINT(port, 999);
			CHECK_MEM(packets_received_bytes, whole[0][0].bytes + whole[0][0].upper + 8, 200);
		}
		if (round % 8 == 0)
			packets_turn();
		if (round % 5000 == 0)
			packets_pass(3000);
	}
	packets_turn();
	packets_pass(62000);
	CHECK_UINT(held(), 0);
	link_down(&net_link);
}
