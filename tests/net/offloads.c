/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port with offloads (emulate.h) and one without put the same bytes on the wire, at the same times: whole
 * conversations are recorded and compared frame by frame, loss, marks and retransmission included. IPv4's
 * identification is left out: a NIC that cuts segments counts it up, and in a packet that may not be fragmented nobody
 * reads it (RFC 6864, 4.1).
 */
#include <rte_ip.h>
#include <rte_tcp.h>
#include <stdlib.h>

#include "tests/net/cases.h"
#include "tests/net/packet.h"
#include "tests/unit.h"

#define ALL (UINT32_MAX & ~(uint32_t)(OFFLOAD_TX_VLAN | OFFLOAD_RX_VLAN | OFFLOAD_MEMORY))

struct course {
	bool v6, full, ecn, nagle;
	uint16_t vlan, mss;
	uint32_t without;
	enum net_congestion congestion;
	unsigned loss, duplicate, reorder, corrupt, keeps;
	uint32_t mark_bytes;
	uint64_t bytes;
};

static const struct course courses[] = {
	{ .bytes = 300000, .full = true },
	{ .bytes = 300001, .v6 = true, .full = true, .keeps = 64 },
	{ .bytes = 300000, .loss = 20, .keeps = 4 },
	{ .bytes = 300000, .loss = 20, .full = true, .keeps = 64 },
	{ .bytes = 300000, .loss = 20, .reorder = 100, .duplicate = 30, .corrupt = 10, .v6 = true, .keeps = 16 },
	{ .bytes = 300000, .loss = 50, .reorder = 300, .without = NET_WITHOUT_SACK, .full = true, .keeps = 64 },
	{ .bytes = 300000, .loss = 20, .without = NET_WITHOUT_TIMESTAMPS, .full = true, .keeps = 32 },
	{ .bytes = 300000, .ecn = true, .mark_bytes = 5000, .full = true, .keeps = 16 },
	{ .bytes = 300000,
	  .ecn = true,
	  .mark_bytes = 5000,
	  .congestion = NET_DCTCP,
	  .v6 = true,
	  .full = true,
	  .loss = 5 },
	{ .bytes = 300000, .vlan = 7, .loss = 10, .full = true, .keeps = 16 },
	{ .bytes = 300000, .vlan = 7, .loss = 10, .v6 = true, .nagle = true, .keeps = 64 },
};

struct record {
	uint64_t at_ns;
	uint16_t bytes;
	uint8_t side;
	uint8_t frame[1600];
};

struct recording {
	struct record *records;
	unsigned count, room;
	uint16_t mss; /* as which the one of a SYN is passed on; 0: as it is */
};

/* Of a frame without a tag. The option comes first. */
static void change_mss(struct rte_mbuf *m, uint16_t mss)
{
	struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(m, struct rte_ipv4_hdr *, sizeof(struct rte_ether_hdr));
	struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)(ip + 1);
	uint8_t *option = (uint8_t *)(tcp + 1);

	if (m->data_len < PACKET_ETHERNET + sizeof(*ip) + sizeof(*tcp) || ip->next_proto_id != IPPROTO_TCP ||
	    !(tcp->tcp_flags & RTE_TCP_SYN_FLAG) || !CHECK(option[0] == 2 && option[1] == 4))
		return;
	option[2] = (uint8_t)(mss >> 8);
	option[3] = (uint8_t)mss;
	tcp->cksum = 0;
	tcp->cksum = rte_ipv4_udptcp_cksum(ip, tcp);
}

static bool record(struct link *l, int from, struct rte_mbuf *m)
{
	struct recording *r = l->tap_ctx;
	struct record *new;

	if (r->mss)
		change_mss(m, r->mss);
	if (r->count == r->room) {
		r->room = RTE_MAX(2 * r->room, 1024u);
		r->records = realloc(r->records, r->room * sizeof(*r->records));
	}
	new = &r->records[r->count++];
	*new = (struct record){ .at_ns = l->now_ns, .bytes = m->data_len, .side = (uint8_t)from };
	if (!CHECK(m->data_len <= sizeof(new->frame)))
		return true;
	memcpy(new->frame, rte_pktmbuf_mtod(m, void *), m->data_len);
	for (unsigned at = 12; at <= 16; at += 4)
		if (memcmp(new->frame + at, "\x08\0\x45", 3) == 0) {
			memset(new->frame + at + 6, 0, 2);
			memset(new->frame + at + 12, 0, 2); /* the header's checksum: the other side has looked at it */
		}
	return false;
}

/* How often each offload was used, by its bit. */
static uint64_t did(enum offload offload)
{
	return net_link.did[__builtin_ctz(offload)];
}

static void converse(const struct course *c, uint32_t offloads, struct recording *r)
{
	struct star_error err = { 0 };
	struct net_options o[2];
	struct pair p;

	link_init(&net_link, 90);
	for (int side = 0; side < 2; side++) {
		net_link.offloads[side] = offloads;
		net_link.keeps[side] = c->keeps;
		o[side] = link_options(&net_link, side);
		o[side].interfaces[0].vlan = c->vlan;
		o[side].without = c->without;
		o[side].congestion = c->congestion;
		o[side].ecn = c->ecn ? NET_ECN_ASK : NET_ECN_OFF;
		net_link.bottleneck[side] = (struct link_bottleneck){ .bytes_s = 50000000,
								      .queue_bytes = 100000,
								      .mark_bytes = c->mark_bytes };
	}
	link_up_with(&net_link, &o[0], &o[1]);
	r->mss = c->mss;
	net_link.tap = record;
	net_link.tap_ctx = r;
	net_link.loss = c->loss;
	net_link.duplicate = c->duplicate;
	net_link.reorder = c->reorder;
	net_link.corrupt = c->corrupt;
	pair_init(&p, 90, c->bytes, c->bytes / 2);
	p.client.close_at_end = p.server.close_at_end = true;
	p.client.shut = p.server.shut = true;
	p.client.full = p.server.full = c->full;
	p.client.nagle = p.server.nagle = c->nagle;
	CHECK_INT(tcp_listen(net_link.net[0], PORT, &stream_handler, &p.server), 0);
	p.client.conn = tcp_connect(net_link.net[1], c->v6 ? link_ip6(0) : link_ip(0), PORT, &stream_handler, &p.client,
				    &p.client, &err);
	net_udp_send(net_link.net[1],
		     &(struct net_udp_address){ .remote = c->v6 ? *link_ip6(0) : *link_ip(0), .remote_port = 9 }, "odd",
		     3);
	CHECK(link_run(&net_link, 600000 * LINK_MS, both_closed, &p));
	check_streams(&p, 90);
	link_down(&net_link);
}

static void compare(const struct course *c, const struct recording *a, const struct recording *b)
{
	for (unsigned i = 0; i < RTE_MIN(a->count, b->count); i++) {
		const struct record *x = &a->records[i], *y = &b->records[i];
		unsigned at = 0;

		if (memcmp(x, y, offsetof(struct record, frame) + x->bytes) == 0)
			continue;
		while (at < RTE_MIN(x->bytes, y->bytes) && x->frame[at] == y->frame[at])
			at++;
		unit_fail(__FILE__, __LINE__,
			  "course %ld: frame %u of %u: side %u at %llu ns, %u bytes; with offloads side %u at %llu ns, "
			  "%u "
			  "bytes; byte %u differs",
			  (long)(c - courses), i, a->count, x->side, (unsigned long long)x->at_ns, x->bytes, y->side,
			  (unsigned long long)y->at_ns, y->bytes, at);
		return;
	}
	CHECK_UINT(a->count, b->count);
}

void the_same_bytes_with_offloads_as_without(void)
{
	for (size_t i = 0; i < RTE_DIM(courses); i++) {
		const struct course *c = &courses[i];
		struct recording a = { 0 }, b = { 0 };

		converse(c, 0, &a);
		converse(c, ALL | (c->vlan ? OFFLOAD_TX_VLAN : 0), &b);
		compare(c, &a, &b);
		if (c->v6)
			CHECK_UINT(did(OFFLOAD_TX_IP4_CHECKSUM), 0);
		else
			CHECK(did(OFFLOAD_TX_IP4_CHECKSUM) > 50);
		CHECK(did(OFFLOAD_TX_TCP_CHECKSUM) > 50);
		CHECK_UINT(did(OFFLOAD_TX_UDP_CHECKSUM), 1);
		CHECK(did(OFFLOAD_RX_CHECKSUM) > 50);
		CHECK(!c->vlan || did(OFFLOAD_TX_VLAN) > 50);
		CHECK(did(OFFLOAD_TX_TSO) > 5);
		CHECK(c->loss < 10 || c->keeps < LINK_KEPT_MAX || did(OFFLOAD_TX_SEGMENTS) > 0);
		free(a.records);
		free(b.records);
	}
}

/* One offload at a time: it is used, and nothing else is asked for (emulate.c). */
void each_offload_stands_alone(void)
{
	static const uint32_t cases[] = {
		OFFLOAD_TX_IP4_CHECKSUM,
		OFFLOAD_TX_TCP_CHECKSUM,
		OFFLOAD_TX_UDP_CHECKSUM,
		OFFLOAD_TX_SEGMENTS,
		OFFLOAD_TX_SEGMENTS | OFFLOAD_TX_TCP_CHECKSUM | OFFLOAD_TX_TSO | OFFLOAD_TX_IP4_CHECKSUM,
		OFFLOAD_TX_SEGMENTS | OFFLOAD_TX_TCP_CHECKSUM | OFFLOAD_TX_TSO, /* vmxnet3, virtio */
		OFFLOAD_TX_VLAN,
		OFFLOAD_RX_CHECKSUM,
	};
	const struct course c = { .loss = 20, .keeps = LINK_KEPT_MAX, .vlan = 9, .full = true, .bytes = 200000 };
	struct recording a = { 0 }, b = { 0 };

	converse(&c, 0, &a);
	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		b.count = 0;
		converse(&c, cases[i], &b);
		compare(&c, &a, &b);
		for (unsigned bit = 0; bit < RTE_DIM(net_link.did); bit++)
			CHECK_INT(net_link.did[bit] > 0, cases[i] >> bit & 1);
	}
	free(a.records);
	free(b.records);
}

/* i40e and iavf refuse to cut into segments below 256 bytes, and with such a frame all that come behind it. */
void small_segments_are_not_the_ports_to_cut(void)
{
	const struct course c = { .bytes = 100000, .mss = NET_TSO_MSS_MIN - 1, .full = true };
	struct recording a = { 0 }, b = { 0 };

	converse(&c, 0, &a);
	converse(&c, ALL, &b);
	compare(&c, &a, &b);
	CHECK_UINT(did(OFFLOAD_TX_TSO), 0);
	CHECK(did(OFFLOAD_TX_TCP_CHECKSUM) > 50);
	free(a.records);
	free(b.records);
}

static void give_seen(const struct packet *p, uint64_t seen)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(net_link.pool[0]);

	memcpy(rte_pktmbuf_append(m, (uint16_t)p->length), p->bytes, p->length);
	m->ol_flags |= seen;
	net_input(net_link.net[0], &m, 1, net_link.now_ns);
}

/* What the port has seen of a checksum counts, and nothing else; where it has not looked, and of a port that has no
 * such offload, software looks. */
void checksums_are_looked_at_once(void)
{
	static const struct {
		uint64_t seen, seen_ip;
		bool good_taken, bad_taken; /* a frame whose checksum is right, or wrong, with the offload */
	} cases[] = {
		{ 0, 0, true, false },
		{ RTE_MBUF_F_RX_L4_CKSUM_GOOD, RTE_MBUF_F_RX_IP_CKSUM_GOOD, true, true },
		{ RTE_MBUF_F_RX_L4_CKSUM_NONE, RTE_MBUF_F_RX_IP_CKSUM_NONE, true, true },
		{ RTE_MBUF_F_RX_L4_CKSUM_BAD, RTE_MBUF_F_RX_IP_CKSUM_BAD, false, false },
	};

	for (unsigned i = 0; i < 4 * RTE_DIM(cases); i++) {
		const bool offload = i & 1, v6 = i & 2;
		const size_t which = i / 4;
		const uint64_t seen = cases[which].seen;
		const struct net_address *from = v6 ? link_ip6(1) : link_ip(1), *to = v6 ? link_ip6(0) : link_ip(0);
		struct net_options o;
		struct packet p;
		unsigned before;

		link_init(&net_link, 91);
		net_link.offloads[0] = offload ? OFFLOAD_RX_CHECKSUM : 0;
		o = link_options(&net_link, 0);
		link_down(&net_link);
		packets_alone(91, &o);
		packet_udp(&p, from, to, 1, 53, 9);
		give_seen(&p, seen);
		CHECK_UINT(packets_received, offload ? cases[which].good_taken : true);
		before = packets_received;
		p.bytes[p.length - 1] ^= 1;
		give_seen(&p, seen);
		CHECK_UINT(packets_received - before, offload && cases[which].bad_taken);
		CHECK_UINT(packets_received + COUNTER(udp_bad), 2);
		packet_tcp(&p, from, to, 1, 7, RTE_TCP_SYN_FLAG, 0);
		p.bytes[p.length - 1] ^= 1;
		give_seen(&p, seen);
		CHECK_UINT(COUNTER(tcp_bad_checksum), !(offload && cases[which].bad_taken));
		/* The IPv4 header's, which has its own flags. */
		if (!v6) {
			before = packets_received;
			packet_udp(&p, from, to, 1, 53, 9);
			p.bytes[PACKET_ETHERNET + 10] ^= 1;
			give_seen(&p, cases[which].seen_ip | RTE_MBUF_F_RX_L4_CKSUM_GOOD);
			CHECK_UINT(packets_received - before, offload && cases[which].bad_taken);
			CHECK_UINT(COUNTER(ip_bad_checksum), !(offload && cases[which].bad_taken));
		}
		link_down(&net_link);
	}
}

/* What a port says of a fragment says nothing of the packet. */
void fragments_are_looked_at_together(void)
{
	for (unsigned damaged = 0; damaged < 2; damaged++) {
		struct packet p, fragment;
		struct net_options o;

		link_init(&net_link, 92);
		net_link.offloads[0] = OFFLOAD_RX_CHECKSUM;
		o = link_options(&net_link, 0);
		link_down(&net_link);
		packets_alone(92, &o);
		packet_udp(&p, link_ip(1), link_ip(0), 1, 53, 500);
		p.bytes[p.length - 1] ^= (uint8_t)damaged;
		for (unsigned i = 0; packet_cut(&p, 256, i, 5, &fragment); i++)
			give_seen(&fragment, RTE_MBUF_F_RX_IP_CKSUM_GOOD | (damaged ? RTE_MBUF_F_RX_L4_CKSUM_GOOD
										    : RTE_MBUF_F_RX_L4_CKSUM_BAD));
		CHECK_UINT(packets_received, !damaged);
		CHECK_UINT(COUNTER(udp_bad), damaged);
		link_down(&net_link);
	}
}

/* Guests of one machine leave checksums to be filled in by a NIC, but there is none. */
void checksums_that_were_never_filled_in_do_no_harm(void)
{
	struct net_options a, b;
	struct pair p;

	link_init(&net_link, 93);
	net_link.offloads[0] = net_link.offloads[1] = OFFLOAD_TX_TCP_CHECKSUM | OFFLOAD_RX_CHECKSUM;
	net_link.partial = true;
	net_link.loss = 10;
	a = link_options(&net_link, 0);
	b = link_options(&net_link, 1);
	link_up_with(&net_link, &a, &b);
	pair_init(&p, 93, 100000, 100000);
	pair_connect(&p);
	CHECK(link_run(&net_link, 60000 * LINK_MS, both_received, &p));
	check_streams(&p, 93);
	CHECK_UINT(COUNTER(tcp_bad_checksum), 0);
	CHECK(did(OFFLOAD_TX_TCP_CHECKSUM) > 100);
	link_down(&net_link);
}

enum { TAIL = 101 };

struct tail {
	uint8_t bytes[TAIL];
	unsigned cut, again;
};

/* Lowers the first acknowledgement of side 1's data, so that it ends within the segment. */
static bool acknowledge_in_part(struct link *l, int from, struct rte_mbuf *m)
{
	struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(m, struct rte_ipv4_hdr *, PACKET_ETHERNET);
	struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)(ip + 1);
	struct tail *t = l->tap_ctx;
	unsigned payload;

	if (net_flow(m).kind != NET_FLOW_TCP)
		return false;
	payload = rte_be_to_cpu_16(ip->total_length) - (unsigned)sizeof(*ip) - tcp->data_off / 16 * 4u;
	if (from == 1 && payload > TAIL) {
		memcpy(t->bytes, rte_pktmbuf_mtod_offset(m, void *, m->data_len - TAIL), TAIL);
	} else if (from == 1 && payload == TAIL) {
		CHECK_MEM(rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len - TAIL), t->bytes, TAIL);
		t->again++;
	} else if (from == 0 && t->cut == 0 && tcp->tcp_flags == RTE_TCP_ACK_FLAG && t->bytes[0]) {
		tcp->recv_ack = rte_cpu_to_be_32(rte_be_to_cpu_32(tcp->recv_ack) - TAIL);
		tcp->cksum = 0;
		tcp->cksum = rte_ipv4_udptcp_cksum(ip, tcp);
		t->cut++;
	}
	return false;
}

/* What a partial ACK leaves has no room for aligned headers before it: it goes by reference, or as a copy. */
void an_odd_rest_is_sent_again_by_reference(void)
{
	for (int chains = 0; chains < 2; chains++) {
		struct tail t = { .cut = 0 };
		struct net_options a, b;
		struct pair p;

		link_init(&net_link, 94);
		net_link.offloads[1] = chains ? OFFLOAD_TX_SEGMENTS : 0;
		a = link_options(&net_link, 0);
		b = link_options(&net_link, 1);
		link_up_with(&net_link, &a, &b);
		net_link.tap = acknowledge_in_part;
		net_link.tap_ctx = &t;
		pair_init(&p, 94, 1000, 0);
		p.client.full = true;
		pair_connect(&p);
		link_run(&net_link, 10000 * LINK_MS, NULL, NULL);
		check_streams(&p, 94);
		CHECK_UINT(t.cut, 1);
		CHECK_UINT(t.again, 1);
		CHECK_UINT(tcp_queued(p.client.conn), 0);
		CHECK_UINT(did(OFFLOAD_TX_SEGMENTS), chains);
		link_down(&net_link);
	}
}

/* Chains need mbufs, too: where there are none, what is sent again has to wait, and nothing is lost. */
void a_chain_without_an_mbuf_waits(void)
{
	struct net_options a, b;
	struct rte_mbuf *all[LINK_MBUFS];
	unsigned n = 0;
	struct pair p;

	link_init(&net_link, 95);
	net_link.offloads[1] = ALL;
	net_link.keeps[1] = LINK_KEPT_MAX;
	a = link_options(&net_link, 0);
	b = link_options(&net_link, 1);
	link_up_with(&net_link, &a, &b);
	pair_init(&p, 95, 30000, 0);
	p.client.full = true;
	pair_connect(&p);
	link_run(&net_link, LINK_MS / 2, NULL, NULL);
	net_link.loss = 1000; /* all that is sent from here on */
	stream_pump(&p.client);
	link_run(&net_link, LINK_MS, NULL, NULL);
	while (n < LINK_MBUFS && (all[n] = rte_pktmbuf_alloc(net_link.pool[1])))
		n++;
	rte_pktmbuf_free(all[--n]); /* one: for the headers, but not for the reference */
	link_run(&net_link, 1000 * LINK_MS, NULL, NULL);
	CHECK(net_counters(net_link.net[1])->out_no_mbuf > 0);
	while (n)
		rte_pktmbuf_free(all[--n]);
	net_link.loss = 0;
	CHECK(link_run(&net_link, 60000 * LINK_MS, both_received, &p));
	check_streams(&p, 95);
	link_down(&net_link);
}
