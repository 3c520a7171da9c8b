/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random schedules: two stacks of ours over a link that loses, repeats, reorders and damages frames, or drops what is
 * too large, with options and users chosen at random; all from a seed, which a failure prints. Each byte stream must
 * arrive whole, every connection end, every mbuf come back, and the senders' books hold after every event. STAR_SEED
 * runs one of them.
 */
#include <errno.h>
#include <rte_ip.h>
#include <stdlib.h>

#include "tests/net/cases.h"
#include "tests/net/sender_check.h"
#include "tests/unit.h"

enum { SCHEDULES = 400, SCHEDULES_SOAK = 10000, HOUR_MS = 3600 * 1000, ETH = 14, IP = 20, ICMP = 8, QUOTED = 28 };

struct schedule {
	struct pair pair;
	struct prng prng;
	uint64_t seed;
	uint16_t mtu; /* of the path; 0: as the interfaces' */
	bool tells;   /* the path says so */
	bool lazy;    /* readers stop reading for a while, now and then */
	uint64_t wakes_ns;
	bool failed;
};

static bool one_in(struct schedule *s, unsigned n)
{
	return prng_below(&s->prng, n) == 0;
}

/* RFC 792, 1191: it quotes the header and eight bytes. */
static void tell_too_big(const struct schedule *s, int to, const struct rte_mbuf *m)
{
	const uint8_t *quoted = rte_pktmbuf_mtod_offset(m, const uint8_t *, ETH);
	uint8_t frame[ETH + IP + ICMP + QUOTED] = { 0 }, *icmp = frame + ETH + IP;
	const struct rte_ether_hdr eth = { *link_mac(to), *link_mac(!to), RTE_BE16(RTE_ETHER_TYPE_IPV4) };
	struct rte_ipv4_hdr ip = { .version_ihl = 0x45,
				   .total_length = RTE_BE16(IP + ICMP + QUOTED),
				   .time_to_live = 64,
				   .next_proto_id = IPPROTO_ICMP,
				   .src_addr = link_address(!to),
				   .dst_addr = link_address(to) };
	uint16_t checksum;

	ip.hdr_checksum = rte_ipv4_cksum(&ip);
	memcpy(frame, &eth, sizeof(eth));
	memcpy(frame + ETH, &ip, sizeof(ip));
	icmp[0] = 3;
	icmp[1] = 4;
	icmp[6] = s->mtu >> 8;
	icmp[7] = s->mtu & 0xff;
	memcpy(icmp + ICMP, quoted, QUOTED);
	checksum = (uint16_t)~rte_raw_cksum(icmp, ICMP + QUOTED);
	memcpy(icmp + 2, &checksum, sizeof(checksum));
	link_inject(&net_link, to, frame, sizeof(frame));
}

/* A router on the way that cannot carry large packets. */
static bool narrow_path(struct link *l, int from, struct rte_mbuf *m)
{
	const struct schedule *s = l->tap_ctx;

	if (s->mtu == 0 || m->pkt_len <= (uint32_t)ETH + s->mtu)
		return false;
	if (s->tells)
		tell_too_big(s, from, m);
	return true;
}

static void check_books(struct schedule *s, const struct stream *stream)
{
	const char *fault = stream->conn ? sender_fault(stream->conn) : NULL;

	if (!fault || s->failed)
		return;
	s->failed = true;
	unit_fail(__FILE__, __LINE__, "seed %llu: %s", (unsigned long long)s->seed, fault);
}

static void wake(struct stream *s, bool hold)
{
	s->hold = hold;
	if (!hold && s->conn && s->held)
		tcp_consumed(s->conn, s->held);
	if (!hold)
		s->held = 0;
}

/* After each event. */
static void look(struct schedule *s)
{
	check_books(s, &s->pair.client);
	check_books(s, &s->pair.server);
	if (s->lazy && net_link.now_ns >= s->wakes_ns) {
		s->wakes_ns = net_link.now_ns + prng_below(&s->prng, 2000) * LINK_MS;
		wake(&s->pair.client, one_in(s, 2));
		wake(&s->pair.server, one_in(s, 2));
	}
}

static bool received(void *ctx)
{
	struct schedule *s = ctx;

	look(s);
	return both_received(&s->pair) || s->failed;
}

static bool over(void *ctx)
{
	struct schedule *s = ctx;

	look(s);
	return both_closed(&s->pair) || s->failed;
}

static void choose_options(struct schedule *s, struct net_options *o)
{
	o->receive_window_bytes =
		one_in(s, 10) ? 500 + (uint32_t)prng_below(&s->prng, 2000) : 3000u << prng_below(&s->prng, 8);
	o->interfaces[0].mtu = (uint16_t)(one_in(s, 3) ? 1500 : 576 + prng_below(&s->prng, 925));
	if (o->interfaces[0].mtu < 1280)
		o->interfaces[0].addresses_count = 1; /* the second is of IPv6, which wants more */
	o->without = one_in(s, 3) ? (uint32_t)prng_below(&s->prng, 8) : 0;
	o->ecn = (uint32_t)prng_below(&s->prng, 3);
	o->congestion = (uint32_t)prng_below(&s->prng, 3);
	o->rto_min_us = one_in(s, 2) ? 200000 : 5000;
	o->idle_keeps_window = one_in(s, 4);
	o->user_timeout_ms = HOUR_MS;
	o->time_wait_ms = HOUR_MS / 4; /* a FIN may have backed off for long before it comes again */
}

static void choose_link(struct schedule *s)
{
	net_link.loss = one_in(s, 4) ? 0 : (unsigned)prng_below(&s->prng, one_in(s, 10) ? 250 : 60);
	net_link.duplicate = (unsigned)prng_below(&s->prng, 50);
	net_link.reorder = (unsigned)prng_below(&s->prng, one_in(s, 4) ? 800 : 200);
	net_link.corrupt = (unsigned)prng_below(&s->prng, 30);
	net_link.delay_ns = LINK_MS / 100 * (1 + prng_below(&s->prng, 500));
	if (one_in(s, 3))
		for (int i = 0; i < 2; i++)
			net_link.bottleneck[i] =
				(struct link_bottleneck){ .bytes_s = 100000u << prng_below(&s->prng, 8),
							  .queue_bytes = 5000u << prng_below(&s->prng, 4),
							  .mark_bytes = one_in(s, 2) ? 3000 : 0 };
	s->mtu = one_in(s, 4) ? (uint16_t)(576 + prng_below(&s->prng, 800)) : 0;
	s->tells = one_in(s, 2);
	net_link.tap = narrow_path;
	net_link.tap_ctx = s;
}

/* Half of the ports have offloads, each others. */
static void choose_ports(const struct schedule *s)
{
	for (int side = 0; side < 2; side++) {
		const uint64_t chosen = hash_mix(2 * s->seed + (uint64_t)side);

		if (chosen & 1)
			continue;
		net_link.offloads[side] = chosen >> 1 & UINT8_MAX & ~(uint32_t)(OFFLOAD_TX_VLAN | OFFLOAD_RX_VLAN);
		net_link.keeps[side] = chosen >> 16 & 1 ? chosen >> 17 & (LINK_KEPT_MAX - 1) : 0;
	}
}

static void choose_users(struct schedule *s)
{
	struct pair *p = &s->pair;
	const bool small = one_in(s, 3);

	pair_init(p, s->seed, prng_below(&s->prng, small ? 3000 : 100000), prng_below(&s->prng, small ? 3000 : 100000));
	p->client.close_at_end = p->client.shut = !one_in(s, 3);
	p->server.close_at_end = p->server.shut = !one_in(s, 3);
	p->client.full = p->server.full = net_link.keeps[0] & 1;
	p->client.nagle = one_in(s, 4);
	p->server.nagle = one_in(s, 4);
	s->lazy = one_in(s, 5);
}

/* The handshake may lose every one of its tries. */
static bool never_met(const struct pair *p)
{
	return p->client.closed && !p->client.opened && p->client.reason == ETIMEDOUT && !p->server.opened;
}

static void check_ends(const struct schedule *s)
{
	const struct pair *p = &s->pair;

	if (!p->client.closed || !p->server.closed || p->client.reason || p->server.reason)
		unit_fail(__FILE__, __LINE__, "seed %llu: client %s with %d, server %s with %d",
			  (unsigned long long)s->seed, p->client.closed ? "closed" : "open", p->client.reason,
			  p->server.closed ? "closed" : "open", p->server.reason);
}

/* Whether the two came to talk. */
static bool run_schedule(uint64_t seed)
{
	struct schedule s = { .seed = seed };
	struct net_options a, b;
	bool met;

	link_init(&net_link, seed);
	prng_seed(&s.prng, ~seed);
	choose_link(&s);
	choose_ports(&s);
	a = link_options(&net_link, 0);
	b = link_options(&net_link, 1);
	choose_options(&s, &a);
	choose_options(&s, &b);
	link_up_with(&net_link, &a, &b);
	choose_users(&s);
	pair_connect(&s.pair);
	link_run(&net_link, HOUR_MS * LINK_MS, received, &s);
	met = !never_met(&s.pair);
	if (met) {
		check_streams(&s.pair, seed);
		if (s.pair.client.conn)
			tcp_close(s.pair.client.conn);
		link_run(&net_link, HOUR_MS * LINK_MS, over, &s);
		check_ends(&s);
	}
	link_down(&net_link);
	return met;
}

static uint64_t schedules_met;

static void count_schedule(uint64_t seed)
{
	schedules_met += run_schedule(seed);
}

void random_schedules_keep_streams_intact(void)
{
	uint64_t runs;

	schedules_met = 0;
	runs = unit_seeds(SCHEDULES, SCHEDULES_SOAK, count_schedule);
	CHECK(runs == 1 || schedules_met >= runs - runs / 50);
}
