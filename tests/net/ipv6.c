/* SPDX-License-Identifier: BSD-3-Clause */
/* IPv6 and its extension headers, several addresses, routes. */
#include <errno.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include <stdio.h>

#include "net/internal.h"
#include "tests/net/cases.h"
#include "tests/net/packet.h"
#include "tests/unit.h"

static const struct net_address elsewhere = { .bytes = { 0x20, 1, 0, 2, 0xff, [15] = 9 } };

static void connect_over_ipv6(struct pair *p, uint64_t seed, uint64_t bytes)
{
	pair_init(p, seed, bytes, bytes);
	CHECK_INT(tcp_listen(net_link.net[0], PORT, &stream_handler, &p->server), 0);
	p->client.conn = tcp_connect(net_link.net[1], link_ip6(0), PORT, &stream_handler, &p->client, &p->client, NULL);
	CHECK(p->client.conn);
}

void streams_arrive_over_ipv6(void)
{
	struct pair p;

	link_init(&net_link, 60);
	link_up(&net_link);
	connect_over_ipv6(&p, 60, 500000);
	CHECK(link_run(&net_link, 60000 * LINK_MS, both_received, &p));
	check_streams(&p, 60);
	CHECK_UINT(tcp_address(p.client.conn).remote.bytes[15], 1);
	/* A segment is as large as the link carries, but for options. */
	CHECK(tcp_mss(p.client.conn) > 1500 - 60 - 40);
	CHECK(tcp_mss(p.client.conn) <= 1500 - 60);
	CHECK_UINT(net_counters(net_link.net[0])->ip_frag_creates, 0);
	link_down(&net_link);
}

void random_schedules_over_ipv6(void)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct pair p;

		link_init(&net_link, seed);
		net_link.loss = prng_below(&net_link.prng, 60);
		net_link.duplicate = prng_below(&net_link.prng, 50);
		net_link.reorder = prng_below(&net_link.prng, 200);
		net_link.corrupt = prng_below(&net_link.prng, 30);
		link_up(&net_link);
		connect_over_ipv6(&p, seed, prng_below(&net_link.prng, 100000));
		link_run(&net_link, 3600000 * LINK_MS, both_received, &p);
		check_streams(&p, seed);
		link_down(&net_link);
	}
}

void every_truncated_ipv6_packet_is_dropped(void)
{
	static const uint8_t options[14] = { 1, 12 };
	struct packet p;

	packets_alone(61, NULL);
	packet_begin(&p, link_ip6(1), link_ip6(0));
	packet_extension(&p, IPPROTO_HOPOPTS, options, 14);
	packet_extension(&p, IPPROTO_DSTOPTS, options, 14);
	packet_upper(&p, IPPROTO_UDP);
	packet_append(&p, "\0\1\0\65\0\20\0\0xxxxxxxx", 16);
	packet_end(&p);
	for (unsigned length = 1; length < p.length; length++) {
		link_inject(&net_link, 0, p.bytes, length); /* the frame is cut */
		if (length >= PACKET_ETHERNET + 40) {	    /* the packet is cut, and says so */
			struct packet cut = p;

			cut.length = length;
			packet_end(&cut);
			packet_give(&cut);
		}
	}
	CHECK_UINT(packets_received, 0);
	packet_give(&p);
	CHECK_UINT(packets_received, 1);
	packet_append(&p, NULL, 20); /* Ethernet's padding is not part of the packet */
	packet_give(&p);
	CHECK_UINT(packets_received, 2);
	p.bytes[PACKET_ETHERNET + 5] += 30; /* longer than the frame */
	packet_give(&p);
	CHECK_UINT(packets_received, 2);
	p.bytes[PACKET_ETHERNET] = 0x40; /* no IPv6 */
	packet_give(&p);
	CHECK_UINT(packets_received, 2);
	link_down(&net_link);
}

/* A chain of extension headers before a datagram to port 53. */
struct chain {
	const char *what;
	struct {
		uint8_t type, bytes; /* of body: 6, 14 ... */
		uint8_t body[22];
	} headers[10];
	uint8_t repeat; /* the first one, this many times more */
	bool taken;
	uint8_t told; /* 1 + the code of the parameter problem that is sent back */
	unsigned pointer;
};

static const struct chain chains[] = {
	{ "options for every hop", { { IPPROTO_HOPOPTS, 6, { 1, 4 } } }, 0, true, 0, 0 },
	{ "a router alert", { { IPPROTO_HOPOPTS, 6, { 5, 2, 0, 0, 1, 0 } } }, 0, true, 0, 0 },
	{ "padding by ones", { { IPPROTO_DSTOPTS, 6, { 0 } } }, 0, true, 0, 0 },
	{ "a route that is done", { { IPPROTO_ROUTING, 6, { 0, 0 } } }, 0, true, 0, 0 },
	{ "an atomic fragment", { { IPPROTO_FRAGMENT, 6, { 0, 0, 1, 2, 3, 4 } } }, 0, true, 0, 0 },
	{ "several",
	  { { IPPROTO_HOPOPTS, 6, { 1, 4 } },
	    { IPPROTO_DSTOPTS, 14, { 1, 12 } },
	    { IPPROTO_ROUTING, 6, { 4, 0 } },
	    { IPPROTO_DSTOPTS, 6, { 0x1e, 4 } } }, /* an option that may be skipped */
	  0,
	  true,
	  0,
	  0 },
	{ "eight", { { IPPROTO_DSTOPTS, 6, { 1, 4 } } }, 7, true, 0, 0 },
	{ "nine", { { IPPROTO_DSTOPTS, 6, { 1, 4 } } }, 8, false, 0, 0 },
	{ "options for every hop twice", { { IPPROTO_HOPOPTS, 6, { 1, 4 } } }, 1, false, 0, 0 },
	{ "options for every hop later",
	  { { IPPROTO_DSTOPTS, 6, { 1, 4 } }, { IPPROTO_HOPOPTS, 6, { 1, 4 } } },
	  0,
	  false,
	  0,
	  0 },
	{ "an option past the end", { { IPPROTO_DSTOPTS, 6, { 1, 5 } } }, 0, false, 0, 0 },
	{ "an option without a length", { { IPPROTO_DSTOPTS, 6, { 1, 3, 0, 0, 0, 1 } } }, 0, false, 0, 0 },
	{ "an option to drop for", { { IPPROTO_DSTOPTS, 6, { 0x5e, 4 } } }, 0, false, 0, 0 },
	{ "an option to complain about", { { IPPROTO_DSTOPTS, 6, { 0x9e, 4 } } }, 0, false, 3, 42 },
	{ "a worse one, behind padding", { { IPPROTO_DSTOPTS, 14, { 1, 1, 0, 0xde, 9 } } }, 0, false, 3, 45 },
	{ "a jumbogram", { { IPPROTO_HOPOPTS, 6, { 0xc2, 4, 0, 1, 0, 0 } } }, 0, false, 3, 42 },
	{ "a route that goes on", { { IPPROTO_ROUTING, 22, { 0, 1 } } }, 0, false, 1, 42 },
	{ "another kind of route",
	  { { IPPROTO_DSTOPTS, 6, { 1, 4 } }, { IPPROTO_ROUTING, 6, { 77, 3 } } },
	  0,
	  false,
	  1,
	  50 },
	{ "an unknown header", { { IPPROTO_DSTOPTS, 6, { 1, 4 } }, { IPPROTO_ESP, 6, { 0 } } }, 0, false, 2, 40 },
	{ "authentication", { { IPPROTO_AH, 6, { 0 } } }, 0, false, 2, 6 },
	{ "nothing", { { IPPROTO_NONE, 6, { 0 } } }, 0, false, 0, 0 },
};

static void give_chain(const struct chain *c)
{
	struct packet p;

	packet_begin(&p, link_ip6(1), link_ip6(0));
	for (unsigned i = 0; i < RTE_DIM(c->headers) && c->headers[i].bytes; i++)
		for (unsigned k = 0; k <= (i == 0 ? c->repeat : 0u); k++)
			packet_extension(&p, c->headers[i].type, c->headers[i].body, c->headers[i].bytes);
	packet_upper(&p, IPPROTO_UDP);
	packet_append(&p, "\0\1\0\65\0\10\0", 8);
	packet_end(&p);
	packet_give(&p);
}

void extension_headers_are_walked_with_bounds(void)
{
	unsigned last = 0;

	packets_alone(62, NULL);
	packets_introduce();
	for (size_t i = 0; i < RTE_DIM(chains); i++) {
		const struct chain *c = &chains[i];
		const unsigned before = packets_received;
		unsigned told;

		net_link.now_ns += 1000 * LINK_MS; /* the errors' rate is another case's */
		net_turn(net_link.net[0], net_link.now_ns);
		give_chain(c);
		packets_turn();
		told = packets_count(IPPROTO_ICMPV6, &last);
		if (!CHECK_UINT(packets_received - before, c->taken) || !CHECK_UINT(told, !!c->told))
			printf("# %s\n", c->what);
		if (told && c->told) {
			const uint8_t *icmp = packets_upper(last);

			CHECK_UINT(icmp[0], 4);
			CHECK_UINT(icmp[1], c->told - 1u);
			if (!CHECK_UINT(icmp[7], c->pointer))
				printf("# %s\n", c->what);
		}
	}
	/* What comes with an error, or to a group, is not answered by one, whatever is wrong with it. */
	for (int group = 0; group < 2; group++) {
		const struct net_address all = { .bytes = { 0xff, 2, [15] = 1 } };
		struct packet p;

		packet_begin(&p, link_ip6(1), group ? &all : link_ip6(0));
		packet_extension(&p, IPPROTO_DSTOPTS, "\x9e\4\0\0\0\0", 6);
		packet_upper(&p, group ? IPPROTO_UDP : IPPROTO_ICMPV6);
		packet_append(&p, "\1\4\0\0\0\0\0\0", 8);
		packet_end(&p);
		packet_give(&p);
		packets_turn();
		CHECK_UINT(packets_count(IPPROTO_ICMPV6, &last), 0);
	}
	/* A header that says that it is longer than the packet, and chains with bytes at random. */
	for (unsigned round = 0; round < 20000; round++) {
		struct packet p;

		packet_begin(&p, link_ip6(1), link_ip6(0));
		for (unsigned k = prng_below(&net_link.prng, 4) + 1; k; k--)
			packet_extension(&p, (uint8_t[]){ 0, 43, 44, 60 }[prng_below(&net_link.prng, 4)], NULL,
					 6 + 8 * prng_below(&net_link.prng, 3));
		packet_upper(&p, (uint8_t)prng_next(&net_link.prng));
		packet_append(&p, NULL, prng_below(&net_link.prng, 30));
		packet_end(&p);
		for (unsigned k = prng_below(&net_link.prng, 8); k; k--)
			p.bytes[PACKET_ETHERNET + 40 + prng_below(&net_link.prng, p.length - PACKET_ETHERNET - 40)] =
				(uint8_t)prng_next(&net_link.prng);
		packet_give(&p);
		if (round % 20 == 0)
			packets_turn();
	}
	link_run(&net_link, 60000 * LINK_MS, NULL, NULL);
	link_down(&net_link);
}

void ipv6_addresses_that_no_host_has_are_refused(void)
{
	static const struct net_address from[] = {
		{ .bytes = { [15] = 0 } },			   /* none */
		{ .bytes = { [15] = 1 } },			   /* loopback */
		{ .bytes = { [10] = 0xff, 0xff, 198, 18, 0, 2 } }, /* what stands for IPv4 here */
		{ .bytes = { [12] = 198, 18, 0, 2 } },
		{ .bytes = { 0xff, 2, [15] = 1 } },
		{ .bytes = { 0x20, 1, 0, 2, [15] = 1 } }, /* our own */
	};
	static const struct net_address to[] = {
		{ .bytes = { 0x20, 1, 0, 2, [15] = 3 } },
		{ .bytes = { 0xff, 2, [15] = 2 } },		    /* all routers */
		{ .bytes = { 0xff, 2, [11] = 1, 0xff, [15] = 9 } }, /* another solicited node */
		{ .bytes = { 0xff, 5, [15] = 1 } },		    /* of the site */
		{ .bytes = { [10] = 0xff, 0xff, 198, 18, 0, 1 } },
	};
	struct packet p;

	packets_alone(63, NULL);
	packets_introduce();
	for (size_t i = 0; i < RTE_DIM(from); i++) {
		packet_udp(&p, &from[i], link_ip6(0), 1, 53, 8);
		packet_give(&p);
		packet_tcp(&p, &from[i], link_ip6(0), 1, 7, RTE_TCP_SYN_FLAG, 1);
		packet_give(&p);
	}
	CHECK_UINT(COUNTER(ip_bad_source), 2 * RTE_DIM(from));
	for (size_t i = 0; i < RTE_DIM(to); i++) {
		packet_begin(&p, link_ip6(1), link_ip6(0));
		memcpy(p.bytes + PACKET_ETHERNET + 24, &to[i], 16);
		if (to[i].bytes[0] == 0xff)
			memcpy(p.bytes, (uint8_t[]){ 0x33, 0x33, 0, 0, 0, 2 }, 6);
		packet_give(&p);
	}
	CHECK_UINT(COUNTER(ip_not_mine), RTE_DIM(to));
	/* To us, but in a frame to all; and to a group of ours, but in a frame to us. */
	packet_udp(&p, link_ip6(1), link_ip6(0), 1, 53, 8);
	p.bytes[0] = p.bytes[1] = 0x33;
	packet_give(&p);
	packet_udp(&p, link_ip6(1), &(struct net_address){ .bytes = { 0xff, 2, [15] = 1 } }, 1, 53, 8);
	memcpy(p.bytes, link_mac(0), 6);
	packet_give(&p);
	CHECK_UINT(COUNTER(ip_not_mine), RTE_DIM(to) + 2);
	packet_udp(&p, link_ip(1), link_ip(0), 1, 53, 8);
	memset(p.bytes, 0xff, 6);
	packet_give(&p);
	CHECK_UINT(COUNTER(eth_not_mine), 1);
	CHECK_UINT(packets_received, 0);
	packets_turn();
	CHECK_UINT(packets_sent.count, 0);
	link_down(&net_link);
}

void datagrams_go_both_ways_over_ipv6(void)
{
	struct net_udp_address to = { .remote = *link_ip6(1), .local_port = 53, .remote_port = 1053 };
	unsigned last = 0;
	struct packet p;

	packets_alone(64, NULL);
	packets_introduce();
	packet_udp(&p, link_ip6(1), link_ip6(0), 1053, 53, 100);
	packet_give(&p);
	CHECK_UINT(packets_received, 1);
	CHECK(net_address_equal(&packets_received_by.local, link_ip6(0)));
	CHECK(net_address_equal(&packets_received_by.remote, link_ip6(1)));
	CHECK_UINT(packets_received_by.remote_port, 1053);
	CHECK_INT(net_udp_send(net_link.net[0], &to, "hello", 5), 0);
	packets_turn();
	if (CHECK_UINT(packets_count(IPPROTO_UDP, &last), 1)) {
		CHECK_MEM(packets_upper(last), "\0\65\4\35\0\15", 6);
		CHECK_MEM(packets_upper(last) + 8, "hello", 5);
		CHECK_UINT(checksum_transport(link_ip6(0), link_ip6(1), IPPROTO_UDP, packets_upper(last), 13), 0xffff);
		CHECK_UINT(packets_ip(last)[7], 64);
	}
	CHECK_INT(net_udp_send(net_link.net[0], &to, "", 1453), -EMSGSIZE);
	/* Without a checksum only over IPv4 (RFC 8200, 8.1). */
	packet_udp(&p, link_ip6(1), link_ip6(0), 1053, 53, 100);
	memset(p.bytes + p.upper + 6, 0, 2);
	packet_give(&p);
	CHECK_UINT(packets_received, 1);
	CHECK_UINT(COUNTER(udp_bad), 1);
	packet_udp(&p, link_ip(1), link_ip(0), 1053, 53, 100);
	memset(p.bytes + p.upper + 6, 0, 2);
	packet_give(&p);
	CHECK_UINT(packets_received, 2);
	link_down(&net_link);
}

void each_address_answers_for_itself(void)
{
	const struct net_address second4 = net_address_v4(RTE_BE32(0xc6120501)),
				 peer4 = net_address_v4(RTE_BE32(0xc6120502));
	const struct net_address second6 = { .bytes = { 0x20, 1, 0, 2, 0, 5, [15] = 1 } };
	const struct net_address gateway6 = { .bytes = { 0xfe, 0x80, [15] = 0x99 } };
	const struct net_address far4 = net_address_v4(RTE_BE32(0xc6130001));
	const struct {
		const struct net_address *from, *to;
	} cases[] = {
		{ link_ip(1), link_ip(0) },	  { &peer4, &second4 },
		{ link_ip6(1), link_ip6(0) },	  { link_ip6(1), &second6 },
		{ link_local(1), link_local(0) },
	};
	struct net_options o;
	struct packet p;
	unsigned last = 0;

	link_init(&net_link, 65);
	o = link_options(&net_link, 0);
	link_down(&net_link);
	o.interfaces[0].addresses[2] = (struct net_interface_address){ second4, 24 };
	o.interfaces[0].addresses[3] = (struct net_interface_address){ second6, 64 };
	o.interfaces[0].addresses_count = 4;
	o.interfaces[0].gateway4 = *link_ip(1);
	o.interfaces[0].gateway6 = gateway6;
	packets_alone(65, &o);
	packets_introduce();
	packet_arp(&p, 1, net_address_to_v4(&peer4), link_mac(1), net_address_to_v4(&second4));
	packet_give(&p);
	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		const bool v4 = net_address_is_v4(cases[i].to);

		packet_icmp(&p, cases[i].from, cases[i].to, v4 ? 8 : 128, 0, 7, "abc", 3);
		packet_give(&p);
	}
	CHECK_UINT(COUNTER(icmp_echos), RTE_DIM(cases));
	packets_turn();
	for (unsigned i = 0, k = 0; i < packets_sent.count; i++) {
		const uint8_t *ip = packets_ip(i);
		const bool v4 = ip[0] >> 4 == 4;

		if (packets_protocol(i) != (v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6) || packets_upper(i)[0] > 129)
			continue; /* a question */
		CHECK_MEM(ip + (v4 ? 12 : 8), v4 ? (const void *)&cases[k].to->words[3] : cases[k].to, v4 ? 4 : 16);
		CHECK_MEM(ip + (v4 ? 16 : 24), v4 ? (const void *)&cases[k].from->words[3] : cases[k].from,
			  v4 ? 4 : 16);
		k++;
	}
	/* What is elsewhere is reached by the gateway of its family, from an address that is not of the link only. */
	packets_turn();
	CHECK_INT(net_udp_send(net_link.net[0], &(struct net_udp_address){ .remote = elsewhere }, "x", 1), 0);
	CHECK_INT(net_udp_send(net_link.net[0], &(struct net_udp_address){ .remote = far4 }, "x", 1), 0);
	packets_turn();
	CHECK_UINT(packets_count(IPPROTO_UDP, &last), 1);
	CHECK_MEM(packets_ip(last) + 12, &link_ip(0)->words[3], 4);
	CHECK_MEM(packets_sent.sent[last].bytes, link_mac(1), 6);
	/* fe80::99 is asked for */
	packet_icmp(&p, &gateway6, link_local(0), 136, 0, 0x60000000, NULL, 24);
	memcpy(p.bytes + p.upper + 8, &gateway6, 16);
	memcpy(p.bytes + p.upper + 24, (uint8_t[]){ 2, 1, 2, 0, 0, 0, 0, 0x99 }, 8);
	p.bytes[PACKET_ETHERNET + 7] = 255;
	packet_mend(&p);
	packet_give(&p);
	packets_turn();
	if (CHECK_UINT(packets_count(IPPROTO_UDP, &last), 1)) {
		CHECK_MEM(packets_ip(last) + 8, link_ip6(0), 16);
		CHECK_UINT(packets_sent.sent[last].bytes[5], 0x99);
	}
	link_down(&net_link);
}

void addresses_without_a_route_are_not_sent_to(void)
{
	const struct net_address to[] = {
		/* Three that a router might know. */
		elsewhere,
		net_address_v4(RTE_BE32(0xc6120101)),
		{ .bytes = { 0xfe, 0xc0, [15] = 1 } },
		net_address_v4(RTE_BE32(0xc61200ff)), /* broadcast */
		net_address_v4(0),
		net_address_v4(RTE_BE32(0x7f000001)),
		net_address_v4(RTE_BE32(0xe0000001)),
		{ .bytes = { [15] = 1 } },
		{ .bytes = { 0xff, 2, [15] = 1 } },
		{ .bytes = { [15] = 0 } },
	};

	for (int gateway = 0; gateway < 2; gateway++) {
		struct net_options o;

		link_init(&net_link, 66);
		o = link_options(&net_link, 0);
		link_down(&net_link);
		o.interfaces[0].gateway4 = gateway ? *link_ip(1) : (struct net_address){ .halves = { 0, 0 } };
		o.interfaces[0].gateway6 = gateway ? *link_ip6(1) : (struct net_address){ .halves = { 0, 0 } };
		packets_alone(66, &o);
		for (size_t i = gateway ? 3 : 0; i < RTE_DIM(to); i++)
			CHECK_INT(net_udp_send(net_link.net[0], &(struct net_udp_address){ .remote = to[i] }, "x", 1),
				  -EHOSTUNREACH);
		packets_turn();
		CHECK_UINT(packets_sent.count, 0);
		link_down(&net_link);
	}
}

/* Two interfaces, each with a gateway: an answer leaves where the question has come in. */
void answers_leave_by_the_interface_of_their_source(void)
{
	const struct net_address far = net_address_v4(RTE_BE32(0xc6130001)), far6 = elsewhere;
	const struct net_address second4 = net_address_v4(RTE_BE32(0xc6120901)),
				 gate4 = net_address_v4(RTE_BE32(0xc61209fe));
	const struct net_address second6 = { .bytes = { 0x20, 1, 0, 2, 0, 9, [15] = 1 } };
	const struct net_address gate6 = { .bytes = { 0x20, 1, 0, 2, 0, 9, [15] = 0xfe } };
	const struct net_address none = { .halves = { 0, 0 } };

	for (int gateways = 0; gateways < 2; gateways++) {
		struct net_options o;
		unsigned last = 0;
		struct packet p;

		link_init(&net_link, 70);
		o = link_options(&net_link, 0);
		link_down(&net_link);
		o.interfaces[0].gateway4 = *link_ip(1);
		o.interfaces[0].gateway6 = *link_ip6(1);
		o.interfaces[1] = o.interfaces[0];
		o.interfaces[1].port = 1;
		o.interfaces[1].mac.addr_bytes[4] = 1;
		o.interfaces[1].addresses[0].address = second4;
		o.interfaces[1].addresses[1].address = second6;
		o.interfaces[1].gateway4 = gateways ? gate4 : none;
		o.interfaces[1].gateway6 = gateways ? gate6 : none;
		o.interfaces_count = 2;
		packets_alone(70, &o);
		for (int v4 = 0; v4 < 2; v4++) {
			struct rte_mbuf *m = rte_pktmbuf_alloc(net_link.pool[0]);

			packet_icmp(&p, v4 ? &far : &far6, v4 ? &second4 : &second6, v4 ? 8 : 128, 0, 0, NULL, 8);
			p.bytes[4] = 1;
			memcpy(rte_pktmbuf_append(m, (uint16_t)p.length), p.bytes, p.length);
			m->port = 1;
			net_input(net_link.net[0], &m, 1, net_link.now_ns);
			packets_turn();
			/* The gateway is asked for: by which interface? Without one there, the other's has to do. */
			if (CHECK_UINT(packets_questions(&last), 1))
				CHECK_UINT(packets_sent.sent[last].bytes[10], gateways);
		}
		link_down(&net_link);
	}
}

/* RFC 7126, 4.3 and 4.4; RFC 1122, 3.2.1.8. */
void ipv4_options_are_skipped_or_refused(void)
{
	static const struct {
		uint8_t options[12];
		bool taken;
	} cases[] = {
		{ { 1, 1, 1, 0 }, true },
		{ { 0x94, 4, 0, 0, 1, 1, 1, 1, 0, 9, 9, 9 },
		  true },			      /* a router alert, an end, and what stands behind it */
		{ { 7, 7, 4, 0, 0, 0, 0, 0 }, true }, /* a record of the route */
		{ { 131, 7, 4, 198, 18, 0, 9, 0 }, false },
		{ { 1, 137, 7, 4, 198, 18, 0, 9 }, false },
		{ { 7, 0, 0, 0 }, false },
		{ { 7, 1, 0, 0 }, false },
		{ { 1, 1, 1, 7, 1, 1, 1, 1, 1, 1, 1, 7 }, false },
		{ { 7, 13, 4, 0 }, false },
	};

	packets_alone(71, NULL);
	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		struct packet p;

		packet_begin(&p, link_ip(1), link_ip(0));
		p.bytes[PACKET_ETHERNET] = 0x48;
		packet_append(&p, cases[i].options, 12);
		packet_upper(&p, IPPROTO_UDP);
		packet_append(&p, "\0\1\0\65\0\10\0", 8);
		packet_end(&p);
		packets_received = 0;
		packet_give(&p);
		if (!CHECK_UINT(packets_received, cases[i].taken))
			printf("# case %zu\n", i);
	}
	CHECK_UINT(COUNTER(ip_bad_header), 6);
	link_down(&net_link);
}
