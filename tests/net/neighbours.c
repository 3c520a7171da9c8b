/* SPDX-License-Identifier: BSD-3-Clause */
/* ARP and neighbour discovery: who is believed, and what a flood costs. */
#include <errno.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include <stdio.h>

#include "net/internal.h"
#include "tests/net/cases.h"
#include "tests/net/packet.h"
#include "tests/unit.h"

static const struct rte_ether_addr thief = { { 2, 0, 0, 0, 0, 0x66 } };

/* Sends a datagram to side 1, and says where it has gone: the last byte of the link address; 0: nowhere yet. */
static unsigned destination(bool v4)
{
	unsigned last = 0;

	net_udp_send(net_link.net[0],
		     &(struct net_udp_address){ .remote = v4 ? *link_ip(1) : *link_ip6(1), .remote_port = 9 }, "x", 1);
	packets_turn();
	return packets_count(IPPROTO_UDP, &last) ? packets_sent.sent[last].bytes[5] : 0;
}

static void claim(bool v4, bool asks, bool to_us, const struct rte_ether_addr *mac)
{
	const struct net_address all = { .bytes = { 0xff, 2, [15] = 1 } };
	struct packet p;

	if (v4)
		packet_arp(&p, asks ? 1 : 2, link_address(1), mac, to_us ? link_address(0) : link_address(1));
	else if (asks)
		packet_solicitation(&p, link_ip6(1), link_ip6(0), to_us ? link_ip6(0) : link_ip6(1), mac);
	else
		packet_advertisement(&p, link_ip6(1), to_us ? link_ip6(0) : &all, link_ip6(1), to_us ? 0x60 : 0x20,
				     mac);
	if (v4 && !to_us)
		memset(p.bytes, 0xff, 6);
	packet_give(&p);
}

void nobody_is_learnt_unasked(void)
{
	for (int v4 = 0; v4 < 2; v4++) {
		packets_alone(80, NULL);
		claim(v4, false, false, &thief);
		claim(v4, false, true, &thief);
		claim(v4, true, false, &thief);
		packets_turn();
		CHECK_UINT(packets_sent.count, 0);
		CHECK_UINT(destination(v4), 0); /* has to be asked for */
		CHECK_UINT(packets_sent.count, 1);
		claim(v4, false, false, &thief); /* to all, not to us */
		packets_turn();
		CHECK_UINT(packets_sent.count, 0);
		claim(v4, false, true, link_mac(1));
		packets_turn();
		CHECK_UINT(packets_sent.count, 1); /* what has waited */
		CHECK_UINT(packets_sent.sent[0].bytes[5], 2);
		CHECK_UINT(destination(v4), 2);
		link_down(&net_link);
	}
}

void who_asks_for_us_is_learnt_and_answered(void)
{
	unsigned last = 0;

	for (int v4 = 0; v4 < 2; v4++) {
		packets_alone(81, NULL);
		claim(v4, true, true, link_mac(1));
		packets_turn();
		if (CHECK_UINT(packets_questions(&last), 1)) {
			const uint8_t *message = packets_upper(last);

			CHECK_UINT(packets_sent.sent[last].bytes[5], 2);
			if (v4) {
				CHECK_UINT(packets_ip(last)[7], 2);
			} else {
				CHECK_UINT(message[0], 136);
				CHECK_UINT(message[4], 0x60);
				CHECK_MEM(message + 8, link_ip6(0), 16);
				CHECK_MEM(message + 24, "\2\1\2\0\0\0\0\1", 8);
				CHECK_UINT(packets_ip(last)[7], 255);
				CHECK_UINT(checksum_transport(link_ip6(0), link_ip6(1), IPPROTO_ICMPV6, message, 32),
					   0xffff);
			}
		}
		CHECK_UINT(destination(v4), 2);
		link_down(&net_link);
	}
}

/* A host that claims a neighbour's address gets no packets as long as the neighbour answers, and all of them when that
 * one is gone. */
void a_claimed_address_is_verified(void)
{
	for (int v4 = 0; v4 < 2; v4++)
		for (int how = 0; how < 3; how++) {
			unsigned last = 0;

			packets_alone(82, NULL);
			packets_introduce();
			CHECK_UINT(destination(v4), 2);
			packets_pass(2000);
			for (int i = 0; i < 50; i++)
				claim(v4, how == 0, how != 1, &thief);
			packets_turn();
			/* The neighbour itself is asked, once, and has answered. */
			CHECK_UINT(packets_questions(&last), how == 0 ? 51 : 1);
			CHECK_UINT(COUNTER(neighbour_conflicts), 50);
			CHECK_UINT(destination(v4), 2);
			packets_pass(2000);
			claim(v4, how == 0, how != 1, &thief);
			CHECK_UINT(destination(v4), 2);
			/* Now it is silent. */
			packets_answer = false;
			packets_pass(2000);
			claim(v4, how == 0, how != 1, &thief);
			CHECK_UINT(destination(v4), 2);
			packets_pass(1100);
			CHECK_UINT(destination(v4), 2);
			packets_pass(1100);
			CHECK_UINT(destination(v4), 0); /* everybody is asked */
			CHECK_UINT(packets_questions(&last), 1);
			CHECK_UINT(packets_sent.sent[last].bytes[0], v4 ? 0xff : 0x33);
			claim(v4, false, true, &thief);
			CHECK_UINT(destination(v4), 0x66);
			link_down(&net_link);
		}
}

void an_advertisement_that_may_not_override_does_not(void)
{
	struct packet p;

	packets_alone(83, NULL);
	packets_introduce();
	CHECK_UINT(destination(false), 2);
	packets_pass(2000);
	packet_advertisement(&p, link_ip6(1), link_ip6(0), link_ip6(1), 0x40, &thief);
	packet_give(&p);
	packets_turn();
	CHECK_UINT(packets_sent.count, 0);
	CHECK_UINT(COUNTER(neighbour_conflicts), 0);
	CHECK_UINT(destination(false), 2);
	link_down(&net_link);
}

void a_neighbour_that_answers_no_more_is_asked_for_again(void)
{
	unsigned last = 0, questions = 0;

	for (int v4 = 0; v4 < 2; v4++) {
		packets_alone(84, NULL);
		packets_introduce();
		CHECK_UINT(destination(v4), 2);
		packets_pass(10000);
		CHECK_UINT(destination(v4), 2); /* heard of lately: no question */
		CHECK_UINT(packets_questions(&last), 0);
		packets_answer = false;
		packets_pass(25000);
		questions = 0;
		for (int second = 0; second < 3; second++) {
			CHECK_UINT(destination(v4), 2);
			questions += packets_questions(&last);
			CHECK_UINT(packets_sent.sent[last].bytes[5], 2); /* to it alone */
			packets_pass(1100);
		}
		CHECK_UINT(questions, 3);
		CHECK_UINT(destination(v4), 0);
		CHECK_UINT(packets_questions(&last), 1);
		CHECK_UINT(packets_sent.sent[last].bytes[0], v4 ? 0xff : 0x33);
		packets_pass(10000);
		CHECK_UINT(rte_mempool_in_use_count(net_link.pool[0]), 0);
		CHECK(COUNTER(neighbour_unresolved) >= 1);
		link_down(&net_link);
	}
}

struct bad {
	const char *what;
	unsigned at; /* of the packet, from the IP header */
	int byte;
	int cut; /* bytes that are missing in the end */
};

void bad_neighbour_discovery_is_dropped(void)
{
	static const struct bad bad[] = {
		{ "passed a router", 7, 254, 0 },	  { "code 1", 41, 1, 0 },
		{ "a multicast target", 48, 0xff, 0 },	  { "an option of no length", 65, 0, 0 },
		{ "an option past the end", 65, 2, 0 },	  { "a multicast link address", 66, 3, 0 },
		{ "no whole target", -1u, 0, 9 },	  { "no whole option", -1u, 0, 1 },
		{ "half an option's header", -1u, 0, 7 },
	};

	packets_alone(85, NULL);
	for (unsigned kind = 0; kind < 2; kind++)
		for (size_t i = 0; i < RTE_DIM(bad); i++) {
			const uint64_t before = COUNTER(nd_bad);
			struct packet p;

			if (kind == 0)
				packet_solicitation(&p, link_ip6(1), link_ip6(0), link_ip6(0), link_mac(1));
			else
				packet_advertisement(&p, link_ip6(1), link_ip6(0), link_ip6(1), 0x60, link_mac(1));
			if (bad[i].cut == 9)
				p.length = p.upper + 20;
			else
				p.length -= (unsigned)bad[i].cut;
			if (bad[i].at != -1u)
				p.bytes[PACKET_ETHERNET + bad[i].at] = (uint8_t)bad[i].byte;
			packet_end(&p);
			packet_give(&p);
			if (!CHECK_UINT(COUNTER(nd_bad), before + 1))
				printf("# %s of %u\n", bad[i].what, kind);
		}
	packets_turn();
	CHECK_UINT(packets_sent.count, 0);
	CHECK_UINT(destination(false), 0);
	link_down(&net_link);
}

/* RFC 4861, 7.1.1 and 7.2.4; RFC 5227, 2.1.1. */
void who_probes_for_our_address_hears_that_it_is_taken(void)
{
	const struct net_address none = { { { 0 } } }, group = net_address_solicited_node(link_ip6(0));
	unsigned last = 0;
	struct packet p;

	packets_alone(86, NULL);
	packet_solicitation(&p, &none, &group, link_ip6(0), NULL);
	packet_give(&p);
	packets_turn();
	if (CHECK_UINT(packets_questions(&last), 1)) {
		CHECK_MEM(packets_sent.sent[last].bytes, "\x33\x33\0\0\0\1", 6);
		CHECK_MEM(packets_ip(last) + 24, "\xff\2\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16);
		CHECK_UINT(packets_upper(last)[4], 0x20);
	}
	packet_solicitation(&p, &none, &group, link_ip6(0), link_mac(1)); /* must not say where it is */
	packet_give(&p);
	packet_solicitation(&p, &none, link_ip6(0), link_ip6(0), NULL); /* must be for all who might have it */
	packet_give(&p);
	packets_turn();
	CHECK_UINT(packets_sent.count, 0);
	packet_arp(&p, 1, 0, link_mac(1), link_address(0));
	packet_give(&p);
	packets_turn();
	CHECK_UINT(packets_questions(&last), 1);
	/* And who says that it has it, is counted. */
	packet_arp(&p, 2, link_address(0), &thief, link_address(0));
	packet_give(&p);
	packet_advertisement(&p, link_ip6(1), link_ip6(0), link_ip6(0), 0x60, &thief);
	packet_give(&p);
	CHECK_UINT(COUNTER(address_conflicts), 2);
	packets_turn();
	CHECK_UINT(packets_sent.count, 0);
	link_down(&net_link);
}

void a_silent_stack_learns_and_leaves_the_answers(void)
{
	struct net_options o;
	unsigned last = 0;

	link_init(&net_link, 87);
	o = link_options(&net_link, 0);
	link_down(&net_link);
	o.neighbours_silent = true;
	packets_alone(87, &o);
	for (int v4 = 0; v4 < 2; v4++) {
		claim(v4, true, true, link_mac(1));
		packets_turn();
		CHECK_UINT(packets_questions(&last), 0);
		CHECK_UINT(destination(v4), 2);
	}
	link_down(&net_link);
}

/* Routers are configured: no advertisement makes one, and no redirect. */
void routers_advertisements_and_redirects_are_ignored(void)
{
	const struct net_address all = { .bytes = { 0xff, 2, [15] = 1 } };
	uint8_t advertisement[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 0x66 };
	struct net_udp_address far = { .remote = { .bytes = { 0x20, 1, 0, 2, 0xff, [15] = 1 } } };
	uint8_t redirect[32];
	struct packet p;

	packets_alone(88, NULL);
	packets_introduce();
	packet_icmp(&p, link_local(1), &all, 134, 0, 0x40000708, advertisement, sizeof(advertisement));
	p.bytes[PACKET_ETHERNET + 7] = 255;
	packet_give(&p);
	CHECK_INT(net_udp_send(net_link.net[0], &far, "x", 1), -EHOSTUNREACH);
	memcpy(redirect, link_local(1), 16);
	memcpy(redirect + 16, link_ip6(1), 16);
	packet_icmp(&p, link_local(1), link_ip6(0), 137, 0, 0, redirect, sizeof(redirect));
	p.bytes[PACKET_ETHERNET + 7] = 255;
	packet_give(&p);
	packet_icmp(&p, link_ip(1), link_ip(0), 5, 1, 0xc6120063, p.bytes + PACKET_ETHERNET, 28);
	packet_give(&p);
	CHECK_UINT(COUNTER(icmp_ignored), 3);
	CHECK_UINT(destination(false), 2);
	CHECK_UINT(destination(true), 2);
	link_down(&net_link);
}

static struct net_address forged(unsigned i)
{
	return (struct net_address){ .bytes = { 0x20, 1, 0, 2, [9] = 7, [12] = (uint8_t)(i >> 24), (uint8_t)(i >> 16),
						(uint8_t)(i >> 8), (uint8_t)i } };
}

/* A table of 4096 entries, and two hundred thousand who want a place in it. */
void a_flood_of_neighbours_takes_nobodys_place(void)
{
	struct net_udp_address to = { .remote_port = 9 };
	unsigned last = 0, asked = 0;
	struct packet p;

	packets_alone(89, NULL);
	packets_introduce();
	CHECK_UINT(destination(true), 2);
	CHECK_UINT(destination(false), 2);
	for (unsigned i = 0; i < 100000; i++) { /* they ask for us */
		const struct net_address from = forged(i);

		packet_solicitation(&p, &from, link_ip6(0), link_ip6(0), &thief);
		packet_give(&p);
		if (i % 50 == 0)
			packets_turn();
	}
	packets_turn();
	CHECK_UINT(destination(true), 2);
	CHECK_UINT(packets_questions(&last), 0);
	CHECK_UINT(destination(false), 2);
	CHECK_UINT(packets_questions(&last), 0);
	for (unsigned i = 0; i < 100000; i++) { /* we ask for them, as their SYNs make us */
		to.remote = forged(i + 1000000);
		net_udp_send(net_link.net[0], &to, "x", 1);
		if (i % 50 == 0) {
			packets_turn();
			asked += packets_questions(&last);
		}
	}
	CHECK(asked <= 1000 + 100);
	CHECK(COUNTER(neighbour_limited) >= 90000);
	packets_pass(1000);
	for (unsigned i = 0; i < 3000; i++) { /* several frames for each */
		to.remote = forged(i / 3 + 2000000);
		net_udp_send(net_link.net[0], &to, "x", 1);
		if (i % 50 == 0)
			packets_turn();
	}
	packets_turn();
	CHECK(rte_mempool_in_use_count(net_link.pool[0]) <= LINK_MBUFS / 16);
	CHECK_UINT(destination(true), 2);
	CHECK_UINT(destination(false), 2);
	packets_pass(10000);
	CHECK_UINT(rte_mempool_in_use_count(net_link.pool[0]), 0);
	link_down(&net_link);
}

/* How many of the first n forged neighbours the table has. */
static unsigned known(unsigned n)
{
	unsigned count = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct net_address address = forged(i);

		count += net_neighbour_known(net_link.net[0], net_link.net[0]->interfaces[0], &address) != NULL;
	}
	return count;
}

void confirmed_neighbours_keep_their_places_in_a_full_table(void)
{
	enum { NEIGHBOURS = 6000 };
	struct packet p;
	unsigned before;

	packets_alone(92, NULL);
	for (unsigned i = 0; i < NEIGHBOURS; i++) {
		const struct net_address from = forged(i);
		const struct net_udp_address to = { .remote = from, .remote_port = 9 };

		packet_solicitation(&p, &from, link_ip6(0), link_ip6(0), &thief);
		packet_give(&p);
		net_udp_send(net_link.net[0], &to, "x", 1);
		packets_turn();
		packet_advertisement(&p, &from, link_ip6(0), &from, 0x60, &thief);
		packet_give(&p);
		net_turn(net_link.net[0], net_link.now_ns += LINK_MS);
	}
	before = known(NEIGHBOURS);
	CHECK(before > NEIGHBOUR_SETS * NEIGHBOUR_WAYS * 3 / 4);
	for (unsigned i = 0; i < 50000; i++) {
		const struct net_address from = forged(i + 1000000);

		packet_solicitation(&p, &from, link_ip6(0), link_ip6(0), &thief);
		packet_give(&p);
		if (i % 50 == 0)
			packets_turn();
	}
	CHECK_UINT(known(NEIGHBOURS), before);
	link_down(&net_link);
}

static unsigned reports(unsigned *last)
{
	unsigned n = 0;

	for (unsigned i = 0; i < packets_sent.count; i++)
		if (packets_sent.sent[i].bytes[12] == 0x86 && packets_protocol(i) == IPPROTO_HOPOPTS) {
			CHECK_UINT(packets_upper(i)[8], 143);
			*last = i;
			n++;
		}
	return n;
}

/* RFC 3810: in which groups we are asked for, to switches that pass on no others. */
void groups_are_reported_at_the_start_and_when_asked_for(void)
{
	const struct net_address all = { .bytes = { 0xff, 2, [15] = 1 } }, to = { .bytes = { 0xff, 2, [15] = 0x16 } };
	static const uint8_t query[20] = { [16] = 2, 125 };
	struct net_options o;
	unsigned last = 0;
	struct packet p;

	link_init(&net_link, 91);
	o = link_options(&net_link, 0);
	link_down(&net_link);
	o.mld = true;
	packets_alone(91, &o);
	packets_pass(500);
	if (CHECK_UINT(reports(&last), 1)) {
		const uint8_t *ip = packets_ip(last), *report = packets_upper(last) + 8;

		CHECK_MEM(packets_sent.sent[last].bytes, "\x33\x33\0\0\0\x16", 6);
		CHECK_UINT(ip[7], 1);
		CHECK_MEM(ip + 8, link_local(0), 16);
		CHECK_MEM(ip + 24, &to, 16);
		CHECK_MEM(packets_upper(last), "\x3a\0\5\2\0\0\1\0", 8); /* a router alert */
		CHECK_UINT(packets_sent.sent[last].length, PACKET_ETHERNET + 40 + 8 + 8 + 2 * 20);
		CHECK_MEM(report + 4, "\0\0\0\2", 4);
		CHECK_MEM(report + 8, "\4\0\0\0\xff\2\0\0\0\0\0\0\0\0\0\1\xff\0\0\1", 20);
		CHECK_MEM(report + 28, "\4\0\0\0\xff\2\0\0\0\0\0\0\0\0\0\1\xff\0\0\1", 20);
		CHECK_UINT(checksum_transport(link_local(0), &to, IPPROTO_ICMPV6, report, 48), 0xffff);
	}
	packets_pass(10000);
	CHECK_UINT(reports(&last), 2);
	packets_turn();
	for (int i = 0; i < 5; i++) { /* one answer for all that is asked meanwhile */
		packet_icmp(&p, link_local(1), &all, 130, 0, 1000 << 16, query, sizeof(query));
		p.bytes[PACKET_ETHERNET + 7] = 1;
		packet_give(&p);
	}
	packets_pass(1100);
	CHECK_UINT(reports(&last), 1);
	CHECK_UINT(packets_upper(last)[16], 2);
	/* From beyond the link, or from nowhere on it, or cut. */
	packets_turn();
	p.bytes[PACKET_ETHERNET + 7] = 64;
	packet_give(&p);
	packet_icmp(&p, link_ip6(1), &all, 130, 0, 1000 << 16, query, sizeof(query));
	p.bytes[PACKET_ETHERNET + 7] = 1;
	packet_give(&p);
	packet_icmp(&p, link_local(1), &all, 130, 0, 1000 << 16, query, 15);
	p.bytes[PACKET_ETHERNET + 7] = 1;
	packet_give(&p);
	packets_pass(20000);
	CHECK_UINT(reports(&last), 0);
	CHECK_UINT(COUNTER(icmp_bad), 3);
	link_down(&net_link);
	packets_alone(91, NULL); /* others tell it */
	packet_icmp(&p, link_local(1), &all, 130, 0, 1000 << 16, query, sizeof(query));
	p.bytes[PACKET_ETHERNET + 7] = 1;
	packet_give(&p);
	packets_pass(20000);
	CHECK_UINT(packets_sent.count, 0);
	link_down(&net_link);
}

/* ARP announcements of the one address, and unsolicited advertisements of the other and of that of the link. */
static void expect_announcements(unsigned times)
{
	unsigned arps = 0, advertisements = 0;

	for (unsigned i = 0; i < packets_sent.count; i++) {
		const uint8_t *bytes = packets_sent.sent[i].bytes, *arp = bytes + 14;

		if (bytes[12] == 0x08 && bytes[13] == 0x06) {
			CHECK_MEM(bytes, "\xff\xff\xff\xff\xff\xff", 6);
			CHECK_MEM(arp + 6, "\0\1", 2);
			CHECK_MEM(arp + 8, link_mac(0), 6);
			CHECK_MEM(arp + 14, arp + 24, 4);
			arps++;
		} else if (bytes[12] == 0x86 && packets_protocol(i) == IPPROTO_ICMPV6 && packets_upper(i)[0] == 136) {
			CHECK_MEM(bytes, "\x33\x33\0\0\0\1", 6);
			CHECK_UINT(packets_upper(i)[4], 0x20);
			CHECK_MEM(packets_upper(i) + 26, link_mac(0), 6);
			advertisements++;
		}
	}
	CHECK_UINT(arps, times);
	CHECK_UINT(advertisements, 2 * times);
}

/* A node that was replaced has another link address: routers would send to the old one until they forget it. */
void addresses_are_announced_at_the_start_and_when_a_link_comes_up(void)
{
	struct net_options o;

	link_init(&net_link, 93);
	o = link_options(&net_link, 0);
	link_down(&net_link);
	o.announce = true;
	packets_alone(93, &o);
	packets_pass(500);
	expect_announcements(1);
	packets_pass(10000);
	expect_announcements(3);
	packets_turn();
	net_announce(net_link.net[0]);
	packets_pass(10000);
	expect_announcements(3);
	link_down(&net_link);
	packets_alone(93, NULL); /* others tell it */
	packets_pass(10000);
	CHECK_UINT(packets_sent.count, 0);
	link_down(&net_link);
}
