/* SPDX-License-Identifier: BSD-3-Clause */
/* The fast path of plain datagrams, in and out, does what the general way does. */
#include <rte_ip.h>

#include "net/internal.h"
#include "tests/net/cases.h"
#include "tests/net/packet.h"
#include "tests/unit.h"

enum { BODY = 192, TRIALS = 20000 };

static struct outcome {
	uint64_t udp_in, udp_bad, udp_no_port, ip_bad_header, ip_bad_checksum, ip_not_mine, ip_bad_source, eth_not_mine,
		eth_short, ip_unknown_protocol;
	unsigned received;
	struct net_address local, remote;
	uint16_t local_port, remote_port;
	uint8_t bytes[204];
} outcomes[2];

/* general: the port says that it took a tag off, of no VLAN: that is not plain. */
static void give(const struct packet *p, bool general, struct outcome *o)
{
	const struct net_counters before = *net_counters(net_link.net[0]), *after = net_counters(net_link.net[0]);
	struct rte_mbuf *m = rte_pktmbuf_alloc(net_link.pool[0]);

	memcpy(rte_pktmbuf_append(m, (uint16_t)p->length), p->bytes, p->length);
	m->ol_flags = general ? RTE_MBUF_F_RX_VLAN_STRIPPED | RTE_MBUF_F_RX_VLAN : 0;
	m->vlan_tci = 0;
	packets_received = 0;
	memset(packets_received_bytes, 0, sizeof(o->bytes));
	memset(&packets_received_by, 0, sizeof(packets_received_by));
	net_input(net_link.net[0], &m, 1, net_link.now_ns);
	memset(o, 0, sizeof(*o));
#define TAKE(name) o->name = after->name - before.name
	TAKE(udp_in);
	TAKE(udp_bad);
	TAKE(udp_no_port);
	TAKE(ip_bad_header);
	TAKE(ip_bad_checksum);
	TAKE(ip_not_mine);
	TAKE(ip_bad_source);
	TAKE(eth_not_mine);
	TAKE(eth_short);
	TAKE(ip_unknown_protocol);
	o->received = packets_received;
	o->local = packets_received_by.local;
	o->remote = packets_received_by.remote;
	o->local_port = packets_received_by.local_port;
	o->remote_port = packets_received_by.remote_port;
	memcpy(o->bytes, packets_received_bytes, sizeof(o->bytes));
}

static bool is_fragment(const struct packet *p)
{
	return p->bytes[PACKET_ETHERNET + 6] & 0x3f || p->bytes[PACKET_ETHERNET + 7];
}

void plain_datagrams_are_taken_as_all_others(void)
{
	unsigned delivered = 0, refused = 0;
	struct prng prng;

	packets_alone(95, NULL);
	packets_introduce();
	prng_seed(&prng, 95);
	for (unsigned i = 0; i < TRIALS; i++) {
		const bool mend = prng_below(&prng, 2);
		struct packet p;

		packet_udp(&p, link_ip(1), link_ip(0), 1053, 53, prng_below(&prng, 100));
		for (unsigned changes = prng_below(&prng, 3); changes; changes--)
			p.bytes[prng_below(&prng, RTE_MIN(p.length, 50u))] = (uint8_t)prng_next(&prng);
		if (mend && p.bytes[12] == 8 && p.bytes[13] == 0 && p.bytes[PACKET_ETHERNET] == 0x45)
			packet_mend(&p);
		if (prng_below(&prng, 4) == 0)
			p.length = prng_below(&prng, p.length + 1);
		else if (prng_below(&prng, 4) == 0)
			p.length += prng_below(&prng, 20); /* Ethernet's padding */
		if (is_fragment(&p))
			continue; /* the second of two is another case */
		net_link.now_ns += LINK_MS;
		give(&p, false, &outcomes[0]);
		give(&p, true, &outcomes[1]);
		if (memcmp(&outcomes[0], &outcomes[1], sizeof(outcomes[0])))
			unit_fail(__FILE__, __LINE__, "trial %u: %u and %u received, %lu and %lu bad", i,
				  outcomes[0].received, outcomes[1].received, outcomes[0].udp_bad, outcomes[1].udp_bad);
		delivered += outcomes[0].received;
		refused += !outcomes[0].received;
	}
	CHECK(delivered > TRIALS / 10);
	CHECK(refused > TRIALS / 10);
	link_down(&net_link);
}

void plain_datagrams_take_the_fast_path(void)
{
	struct rte_mbuf *m;
	struct packet p;

	packets_alone(96, NULL);
	packets_introduce();
	packet_udp(&p, link_ip(1), link_ip(0), 1053, 53, 20);
	for (unsigned i = 0; i < 3; i++) {
		packets_received = 0;
		m = rte_pktmbuf_alloc(net_link.pool[0]);
		memcpy(rte_pktmbuf_append(m, (uint16_t)p.length), p.bytes, p.length);
		CHECK(udp_take_plain(net_link.net[0], m));
		CHECK_UINT(packets_received, 1);
	}
	/* A port that is closed is known no more. */
	net_udp_unbind(net_link.net[0], 53);
	m = rte_pktmbuf_alloc(net_link.pool[0]);
	memcpy(rte_pktmbuf_append(m, (uint16_t)p.length), p.bytes, p.length);
	CHECK(!udp_take_plain(net_link.net[0], m));
	rte_pktmbuf_free(m);
	link_down(&net_link);
}

static void give_out(struct net_udp_flow *flow, unsigned bytes, uint8_t tos)
{
	struct rte_mbuf *m = net_alloc(net_link.net[0]);

	m->data_off = BODY;
	memset(rte_pktmbuf_append(m, (uint16_t)bytes), (int)bytes, bytes);
	net_udp_flow_send(net_link.net[0], flow, m, tos);
}

void plain_datagrams_leave_as_all_others(void)
{
	const struct net_udp_address to = { .remote = *link_ip(1), .local_port = 53, .remote_port = 999 };
	struct net_udp_flow flow;
	unsigned last;

	packets_alone(97, NULL);
	packets_introduce();
	CHECK_INT(net_udp_flow_init(net_link.net[0], &flow, &to), 0);
	CHECK(flow.hop == NULL);
	give_out(&flow, 10, 0); /* by the answer to which the neighbour is confirmed */
	packets_turn();
	for (unsigned bytes = 0; bytes <= 1472; bytes += bytes < 100 ? 1 : 137) {
		const uint8_t tos = bytes % 3 ? 2 : 0xb8;

		flow.hop = NULL;
		give_out(&flow, bytes, tos);
		CHECK(flow.hop != NULL);
		give_out(&flow, bytes, tos);
		packets_turn();
		if (!CHECK_UINT(packets_sent.count, 2))
			continue;
		CHECK_UINT(packets_sent.sent[0].length, 42 + bytes);
		CHECK_UINT(packets_sent.sent[1].length, 42 + bytes);
		CHECK_MEM(packets_sent.sent[1].bytes, packets_sent.sent[0].bytes, 42 + bytes);
	}
	CHECK(udp_send_plain(net_link.net[0], &flow, net_alloc(net_link.net[0]), 0));
	packets_turn();
	/* What is larger goes in fragments, and a neighbour of whom nothing was heard for long is asked again. */
	give_out(&flow, 1473, 0);
	packets_turn();
	CHECK_UINT(packets_sent.count, 2);
	packets_pass(31000);
	packets_sent.count = 0;
	give_out(&flow, 10, 0);
	packets_turn();
	CHECK_UINT(packets_questions(&last), 1);
	link_down(&net_link);
}

/* A frame in mbufs of n bytes. */
static struct rte_mbuf *in_pieces(const struct packet *p, unsigned piece)
{
	struct rte_mbuf *first = NULL;

	for (unsigned at = 0; at < p->length; at += piece) {
		const uint16_t bytes = (uint16_t)RTE_MIN(piece, p->length - at);
		struct rte_mbuf *m = rte_pktmbuf_alloc(net_link.pool[0]);

		memcpy(rte_pktmbuf_append(m, bytes), p->bytes + at, bytes);
		if (!first)
			first = m;
		else
			rte_pktmbuf_chain(first, m);
	}
	return first;
}

void frames_in_pieces_are_put_together(void)
{
	static const unsigned pieces[] = { 14, 30, 42, 61 };
	const struct net_counters *counters;
	struct rte_mbuf *m, *more;
	struct packet p;

	packets_alone(97, NULL);
	packets_introduce();
	counters = net_counters(net_link.net[0]);
	packet_udp(&p, link_ip(1), link_ip(0), 1053, 53, 20);
	for (unsigned i = 0; i < RTE_DIM(pieces); i++) {
		packets_received = 0;
		m = in_pieces(&p, pieces[i]);
		CHECK(m->nb_segs > 1);
		net_input(net_link.net[0], &m, 1, net_link.now_ns);
		CHECK_UINT(packets_received, 1);
		CHECK_MEM(packets_received_bytes, p.bytes + p.length - 20, 20);
	}
	CHECK_UINT(counters->eth_short, 0);
	/* A frame that is not in a single mbuf is not ours. */
	packets_received = 0;
	m = in_pieces(&p, 42);
	more = rte_pktmbuf_alloc(net_link.pool[0]);
	rte_pktmbuf_append(more, rte_pktmbuf_tailroom(more));
	rte_pktmbuf_chain(m, more);
	net_input(net_link.net[0], &m, 1, net_link.now_ns);
	CHECK_UINT(packets_received, 0);
	CHECK_UINT(counters->eth_short, 1);
	link_down(&net_link);
}
