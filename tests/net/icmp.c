/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP and ICMPv6: echo, errors that we send, and errors that others send us. */
#include <errno.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include <stdio.h>

#include "net/checksum.h"
#include "tests/net/cases.h"
#include "tests/net/packet.h"
#include "tests/unit.h"

static const struct net_address *peer(bool v4)
{
	return v4 ? link_ip(1) : link_ip6(1);
}

static const struct net_address *own(bool v4)
{
	return v4 ? link_ip(0) : link_ip6(0);
}

static uint8_t icmp_protocol(bool v4)
{
	return v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;
}

void echo_is_answered_in_both_families(void)
{
	const struct net_address all = { .bytes = { 0xff, 2, [15] = 1 } };
	unsigned last = 0;
	struct packet p;

	packets_alone(90, NULL);
	packets_introduce();
	for (int v4 = 0; v4 < 2; v4++) {
		packet_icmp(&p, peer(v4), own(v4), v4 ? 8 : 128, 0, 0x12345678, "payload", 7);
		packet_give(&p);
		packets_turn();
		if (CHECK_UINT(packets_count(icmp_protocol(v4), &last), 1)) {
			const uint8_t *icmp = packets_upper(last);

			CHECK_UINT(icmp[0], v4 ? 0 : 129);
			CHECK_MEM(icmp + 4, "\x12\x34\x56\x78payload", 11);
			CHECK_UINT(v4 ? checksum_fold(checksum_add(0, icmp, 15))
				      : checksum_transport(own(v4), peer(v4), IPPROTO_ICMPV6, icmp, 15),
				   0xffff);
		}
		for (unsigned length = p.upper; length < p.upper + 8; length++) { /* cut in its header */
			struct packet cut = p;

			cut.length = length;
			packet_end(&cut);
			packet_give(&cut);
		}
		p.bytes[p.length - 1] ^= 1; /* damaged */
		packet_give(&p);
		packets_turn();
		CHECK_UINT(packets_count(icmp_protocol(v4), &last), 0);
	}
	CHECK_UINT(COUNTER(icmp_bad), 2 * 9);
	packet_icmp(&p, peer(false), &all, 128, 0, 0, NULL, 8); /* for a whole link to answer */
	packet_give(&p);
	packets_turn();
	CHECK_UINT(packets_sent.count, 0);
	link_down(&net_link);
}

void closed_udp_ports_are_unreachable(void)
{
	struct packet p;
	unsigned last = 0;

	packets_alone(91, NULL);
	packets_introduce();
	for (int v4 = 0; v4 < 2; v4++) {
		const unsigned quote = v4 ? 576 - 28 : 1280 - 48;

		packet_udp(&p, peer(v4), own(v4), 1000, 54, 1300);
		packet_give(&p);
		packets_turn();
		if (CHECK_UINT(packets_count(icmp_protocol(v4), &last), 1)) {
			CHECK_MEM(packets_upper(last), v4 ? "\3\3" : "\1\4", 2);
			CHECK_MEM(packets_upper(last) + 8, p.bytes + PACKET_ETHERNET, quote);
			CHECK_UINT(packets_sent.sent[last].length, PACKET_ETHERNET + (v4 ? 28 : 48) + quote);
		}
	}
	packet_begin(&p, link_ip(1), link_ip(0)); /* a protocol that nobody speaks */
	packet_upper(&p, 99);
	packet_append(&p, NULL, 20);
	packet_end(&p);
	packet_give(&p);
	packets_turn();
	CHECK_UINT(packets_count(IPPROTO_ICMP, &last), 1);
	CHECK_MEM(packets_upper(last), "\3\2", 2);
	/* Nothing is said about what went to a group, or came damaged. */
	packet_udp(&p, peer(false), &(struct net_address){ .bytes = { 0xff, 2, [15] = 1 } }, 1000, 54, 10);
	packet_give(&p);
	packet_udp(&p, peer(true), own(true), 1000, 54, 10);
	p.bytes[p.upper + 6] ^= 1;
	packet_give(&p);
	packets_turn();
	CHECK_UINT(packets_sent.count, 0);
	CHECK_UINT(COUNTER(icmp_out_errors), 3);
	link_down(&net_link);
}

void errors_are_sent_at_a_rate(void)
{
	unsigned last = 0, sent = 0;
	struct packet p;

	packets_alone(92, NULL);
	packets_introduce();
	packet_udp(&p, peer(true), own(true), 1000, 54, 10);
	for (unsigned i = 0; i < 2000; i++) {
		packet_give(&p);
		if (i % 10 == 9) {
			packets_turn();
			sent += packets_count(IPPROTO_ICMP, &last);
		}
	}
	CHECK(sent >= 50 && sent <= 51);
	CHECK_UINT(COUNTER(icmp_limited), 2000 - sent);
	packets_pass(100);
	for (sent = 0; sent < 20; sent++)
		packet_give(&p);
	packets_turn();
	CHECK_UINT(packets_count(IPPROTO_ICMP, &last), 10);
	link_down(&net_link);
}

/* An error about a datagram of ours, from port 53. */
static void error_about(struct packet *p, bool v4, uint8_t type, uint8_t code, uint32_t word, unsigned bytes)
{
	struct packet ours;

	packet_udp(&ours, own(v4), peer(v4), 53, 999, bytes);
	packet_icmp(p, peer(v4), own(v4), type, code, word, ours.bytes + PACKET_ETHERNET, v4 ? 28 : 48);
}

static void too_big(bool v4, uint32_t mtu, unsigned bytes)
{
	struct packet p;

	error_about(&p, v4, v4 ? 3 : 2, v4 ? 4 : 0, mtu, bytes);
	packet_give(&p);
}

static bool in_flight; /* what port 53 says of what is quoted */

static bool on_quoted(void *ctx, struct net *net, const struct net_udp_address *address, const void *payload,
		      uint32_t bytes, bool refused)
{
	CHECK_UINT(address->local_port, 53);
	return in_flight && !refused;
}

static void watch(void)
{
	in_flight = true;
	net_udp_watch(net_link.net[0], 53, on_quoted);
}

/* What a datagram to side 1 may carry, by asking. */
static unsigned path_mtu(bool v4)
{
	const struct net_udp_address to = { .remote = *peer(v4), .local_port = 53, .remote_port = 999 };
	static const uint8_t payload[1500];
	unsigned low = 100, high = 1500;

	while (low < high) {
		const unsigned middle = (low + high + 1) / 2;

		if (net_udp_send(net_link.net[0], &to, payload, (uint16_t)(middle - (v4 ? 28 : 48))) == -EMSGSIZE)
			high = middle - 1;
		else
			low = middle;
	}
	packets_turn();
	return low;
}

void path_mtus_are_learnt_and_forgotten(void)
{
	packets_alone(93, NULL);
	packets_introduce();
	watch();
	for (int v4 = 0; v4 < 2; v4++) {
		CHECK_UINT(path_mtu(v4), 1500);
		too_big(v4, 1400, 1400);
		CHECK_UINT(path_mtu(v4), 1400);
		too_big(v4, 1450, 1460); /* it does not grow */
		CHECK_UINT(path_mtu(v4), 1400);
		too_big(v4, v4 ? 552 : 1280, 1300);
		CHECK_UINT(path_mtu(v4), v4 ? 552 : 1280);
		packets_pass(599000);
		CHECK_UINT(path_mtu(v4), v4 ? 552 : 1280);
		packets_pass(2000);
		CHECK_UINT(path_mtu(v4), 1500);
		/* Less than any link has, or no reason to keep our packet back. */
		too_big(v4, v4 ? 551 : 1279, 1400);
		too_big(v4, 1428 + 20 * !v4, 1400);
		too_big(v4, 0xffffffff, 1400);
		CHECK_UINT(path_mtu(v4), 1500);
	}
	CHECK_UINT(COUNTER(pmtu_refused), 6);
	CHECK_UINT(COUNTER(pmtu_updates), 4);
	too_big(false, 0, 1400);
	CHECK_UINT(COUNTER(pmtu_refused), 7);
	/* A router that does not say how much (RFC 1191, 5 and 7.1). */
	too_big(true, 0, 1400);
	CHECK_UINT(path_mtu(true), 1006);
	too_big(true, 0, 900);
	CHECK_UINT(path_mtu(true), 552);
	link_down(&net_link);
}

/* Anyone who knows the ports and addresses can forge an error: the user whose datagram it quotes is asked. */
void too_big_about_datagrams_must_be_of_one_in_flight(void)
{
	packets_alone(93, NULL);
	packets_introduce();
	for (int v4 = 0; v4 < 2; v4++) {
		net_udp_watch(net_link.net[0], 53, NULL);
		too_big(v4, 1300, 1400);
		CHECK_UINT(path_mtu(v4), 1500);
		watch();
		in_flight = false;
		too_big(v4, 1300, 1400);
		CHECK_UINT(path_mtu(v4), 1500);
		in_flight = true;
		too_big(v4, 1300, 1400);
		CHECK_UINT(path_mtu(v4), 1300);
	}
	CHECK_UINT(COUNTER(icmp_ignored), 4);
	link_down(&net_link);
}

void flows_of_datagrams_follow_their_path(void)
{
	enum { BODY = 192, BYTES = 1400 };
	const struct net_udp_address to = { .remote = *peer(true), .local_port = 53, .remote_port = 999 };
	struct net_udp_flow flow;
	unsigned last = 0;

	packets_alone(94, NULL);
	packets_introduce();
	watch();
	CHECK_INT(net_udp_flow_init(net_link.net[0], &flow, &to), 0);
	CHECK_UINT(net_udp_flow_payload(net_link.net[0], &flow), 1472);
	for (unsigned times = 0; times < 3; times++) {
		struct rte_mbuf *m = net_alloc(net_link.net[0]);

		m->data_off = BODY;
		memset(rte_pktmbuf_append(m, BYTES), 'x', BYTES);
		rte_mbuf_refcnt_update(m, 1); /* as the sender may have to send it again */
		net_udp_flow_send(net_link.net[0], &flow, m, 2);
		packets_turn();
		if (CHECK_UINT(packets_count(IPPROTO_UDP, &last), times == 1 ? 2 : 1) && times != 1) {
			CHECK_UINT(packets_ip(last)[1], 2);
			CHECK_MEM(packets_upper(last), "\0\65\3\347\5\200", 6);
			CHECK_UINT(checksum_transport(own(true), peer(true), IPPROTO_UDP, packets_upper(last),
						      BYTES + 8),
				   0xffff);
		}
		CHECK_MEM((char *)m->buf_addr + BODY, "xxxx", 4);
		CHECK_UINT(rte_mbuf_refcnt_read(m), 1);
		rte_pktmbuf_free(m);
		if (times == 0)
			too_big(true, 1000, 1400);
		CHECK_UINT(net_udp_flow_payload(net_link.net[0], &flow), times < 2 ? NET_UDP_PAYLOAD_BASE : 1472);
		if (times == 1)
			packets_pass(601000);
	}
	net_udp_unbind(net_link.net[0], 53);
	net_udp_unbind(net_link.net[0], 53);
	too_big(true, 1000, 1400); /* about a port that is nobody's any more */
	CHECK_UINT(net_udp_flow_payload(net_link.net[0], &flow), 1472);
	link_down(&net_link);
}

void errors_about_nothing_of_ours_are_ignored(void)
{
	struct packet p, whole;

	packets_alone(94, NULL);
	packets_introduce();
	watch();
	for (int v4 = 0; v4 < 2; v4++) {
		const unsigned ip = v4 ? 20 : 40;
		const struct {
			const char *what;
			unsigned at; /* in what is quoted */
			uint8_t byte;
		} changes[] = {
			{ "the wrong version", 0, 0x35 },
			{ "another source", v4 ? 15 : 23, 9 },
			{ "another port", ip + 1, 54 },
			{ "another protocol", v4 ? 9 : 6, 99 },
			{ "a later fragment", v4 ? 7 : 6, v4 ? 1 : 44 },
			{ "a header that is too long", v4 ? 0 : 6, v4 ? 0x4f : 60 },
		};

		error_about(&whole, v4, v4 ? 3 : 2, v4 ? 4 : 0, 1300, 1400);
		for (size_t i = 0; i < RTE_DIM(changes); i++) {
			p = whole;
			p.bytes[p.upper + 8 + changes[i].at] = changes[i].byte;
			packet_mend(&p);
			packet_give(&p);
			if (!CHECK_UINT(path_mtu(v4), 1500))
				printf("# %s\n", changes[i].what);
		}
		for (unsigned length = whole.upper; length < whole.length; length++) {
			p = whole;
			p.length = length;
			packet_end(&p);
			packet_give(&p);
		}
		CHECK_UINT(path_mtu(v4), 1500);
		/* To another of our addresses than the one that the packet came from. */
		packet_udp(&p, own(v4), peer(v4), 53, 999, 1400);
		if (!v4) {
			struct packet error;

			packet_icmp(&error, link_local(1), link_local(0), 2, 0, 1300, p.bytes + PACKET_ETHERNET, 48);
			packet_give(&error);
			CHECK_UINT(path_mtu(v4), 1500);
		}
		/* Kinds that mean nothing. */
		for (unsigned type = 0; type < 256; type++) {
			const bool request = type == (v4 ? 8 : 128), too_big_type = type == (v4 ? 3 : 2);

			if (request || too_big_type)
				continue;
			error_about(&p, v4, (uint8_t)type, 200, 1300, 1400);
			packet_give(&p);
		}
		packets_turn();
		CHECK_UINT(path_mtu(v4), 1500);
		packet_give(&whole);
		CHECK_UINT(path_mtu(v4), 1300);
	}
	link_down(&net_link);
}

static bool last_segment(struct link *l, int from, struct rte_mbuf *m)
{
	const uint8_t *ip = rte_pktmbuf_mtod(m, const uint8_t *) + PACKET_ETHERNET;
	struct packet *kept = l->tap_ctx;

	if (from == 0 && net_flow(m).kind == NET_FLOW_TCP && m->data_len > 1000 && !kept->length) {
		memcpy(kept->bytes, ip, m->data_len - PACKET_ETHERNET);
		kept->length = m->data_len - PACKET_ETHERNET;
	}
	return false;
}

/* Only an error about a segment in flight says something of the path. */
void too_big_about_tcp_must_know_the_numbers(void)
{
	for (int v4 = 0; v4 < 2; v4++) {
		struct packet kept = { .length = 0 }, p;
		struct pair pair;

		link_init(&net_link, 95);
		net_link.delay_ns = 20 * LINK_MS;
		net_link.tap = last_segment;
		net_link.tap_ctx = &kept;
		link_up(&net_link);
		pair_init(&pair, 95, 0, 300000);
		CHECK_INT(tcp_listen(net_link.net[0], PORT, &stream_handler, &pair.server), 0);
		pair.client.conn =
			tcp_connect(net_link.net[1], own(v4), PORT, &stream_handler, &pair.client, &pair.client, NULL);
		link_run(&net_link, 110 * LINK_MS, NULL, NULL);
		CHECK(pair.server.opened && kept.length > 1000);
		for (int step = 0; step < 3; step++) {
			uint8_t quoted[64];

			memcpy(quoted, kept.bytes, sizeof(quoted));
			if (step == 0)
				quoted[(v4 ? 20 : 40) + 4] ^= 0x40; /* far from what is in flight */
			else if (step == 1)
				quoted[(v4 ? 20 : 40) + 1] ^= 1; /* another connection */
			packet_icmp(&p, peer(v4), own(v4), v4 ? 3 : 2, v4 ? 4 : 0, 1300, quoted, v4 ? 28 : 48);
			packet_give(&p);
			CHECK_UINT(COUNTER(pmtu_updates), step == 2);
		}
		CHECK(link_run(&net_link, 600000 * LINK_MS, both_received, &pair));
		check_streams(&pair, 95);
		link_down(&net_link);
	}
}
