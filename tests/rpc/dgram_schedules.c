/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random schedules of sessions over UDP: clients and a server over a link that delays, loses, repeats, reorders and
 * damages packets, has a bottleneck, is cut for a while; clients whose address changes, and a server that starts again;
 * all from a seed, which a failure prints. Within a session each message comes once, in order and whole (the rig checks
 * it); nothing waits for longer than the lease; in the end everything has been given back. STAR_SEED runs one of them.
 */
#include <errno.h>
#include <rte_ip.h>
#include <rte_udp.h>
#include <stdlib.h>

#include "net/checksum.h"
#include "tests/rpc/cases.h"
#include "tests/rpc/dgram_rig.h"

enum { SCHEDULES = 300, SCHEDULES_SOAK = 10000, CLIENTS_MAX = 4, ETH = 14, NAT_PORT = 20000 };

static struct schedule {
	struct prng prng;
	unsigned clients;
	uint64_t wanted[CLIENTS_MAX]; /* messages that each is to send and have answered */
	uint32_t size_max, ahead_max;
	uint64_t cut_ns, mend_ns; /* the link is cut in between */
	uint64_t move_ns;	  /* the clients' address changes; 0: no */
	uint64_t restart_ns;	  /* the server is restarted; 0: no */
	uint64_t take_ns;	  /* lazy readers take what they hold */
	uint16_t client_port;
	bool moved;
} sched;

static uint32_t below(uint32_t n)
{
	return prng_below(&sched.prng, n);
}

static bool one_in(uint32_t n)
{
	return below(n) == 0;
}

/* Sums change by the difference of the words (RFC 1624). */
static void change_port(struct rte_udp_hdr *udp, bool source, uint16_t to)
{
	const rte_be16_t was = source ? udp->src_port : udp->dst_port;
	const uint32_t sum = (uint16_t)~udp->dgram_cksum + (uint32_t)(uint16_t)~was + rte_cpu_to_be_16(to);
	uint32_t folded = (sum & 0xffff) + (sum >> 16);

	folded = (folded & 0xffff) + (folded >> 16);
	udp->dgram_cksum = (uint16_t)~folded;
	if (udp->dgram_cksum == 0)
		udp->dgram_cksum = 0xffff;
	if (source)
		udp->src_port = rte_cpu_to_be_16(to);
	else
		udp->dst_port = rte_cpu_to_be_16(to);
}

/* A translator of addresses that has forgotten, and chosen another port: what is sent to the old one is lost. */
static bool translate(struct link *link, int from, struct rte_mbuf *m)
{
	struct rte_udp_hdr *udp =
		rte_pktmbuf_mtod_offset(m, struct rte_udp_hdr *, ETH + (int)sizeof(struct rte_ipv4_hdr));

	if (net_flow(m).kind != NET_FLOW_UDP)
		return false;
	if (from == 1) {
		if (sched.moved)
			change_port(udp, true, NAT_PORT);
		return false;
	}
	if (!sched.moved)
		return udp->dst_port == RTE_BE16(NAT_PORT);
	if (udp->dst_port != RTE_BE16(NAT_PORT))
		return true;
	change_port(udp, false, sched.client_port);
	return false;
}

static void choose_link(void)
{
	dg.link.delay_ns = 1000 + below(one_in(4) ? 3000000 : 50000);
	dg.link.loss = one_in(3) ? 0 : below(one_in(8) ? 300 : 50);
	dg.link.duplicate = below(50);
	dg.link.reorder = one_in(3) ? 0 : below(one_in(3) ? 800 : 100);
	dg.link.corrupt = below(30);
	if (one_in(3))
		for (int i = 0; i < 2; i++)
			dg.link.bottleneck[i] = (struct link_bottleneck){ .bytes_s = 10000000u << below(8),
									  .queue_bytes = 10000u << below(5),
									  .mark_bytes = one_in(2) ? 8000 : 0 };
	dg.link.tap = translate;
}

static void choose_options(void)
{
	for (int side = 0; side < 2; side++) {
		struct dgram_options *o = &dg.options[side];

		o->window_max = 2u << below(9);
		o->credits = one_in(3) ? 1 + below(20) : 4096;
		o->active_max = one_in(4) ? 1 : DG_ENDS_MAX;
		o->held_mbufs_max = one_in(3) ? 8 + below(60) : 8192;
		o->lease_ns = 4 * DG_S;
		o->heartbeat_ns = DG_S / 2;
		dg.net_options[side].interfaces[0].mtu = (uint16_t)(one_in(3) ? 1500 : 600 + below(901));
	}
}

static void choose_events(uint64_t now_ns)
{
	if (one_in(3)) {
		sched.cut_ns = now_ns + below(20) * LINK_MS;
		sched.mend_ns = sched.cut_ns + (one_in(2) ? below(30) : below(7000)) * LINK_MS;
	}
	sched.move_ns = one_in(4) ? now_ns + below(20) * LINK_MS : 0;
	sched.restart_ns = one_in(4) ? now_ns + below(20) * LINK_MS : 0;
	sched.clients = 1 + below(CLIENTS_MAX);
	sched.size_max = one_in(3) ? 200 : one_in(2) ? 3000 : 60000;
	sched.ahead_max = 1 + below(one_in(2) ? 3 : 20);
	for (unsigned i = 0; i < sched.clients; i++)
		sched.wanted[i] = 1 + below(60);
}

/* A message that is larger than half of what may be held is refused: not here. */
static uint32_t size(void)
{
	uint32_t most = sched.size_max;

	for (int side = 0; side < 2; side++)
		most = RTE_MIN(most, dg.options[side].held_mbufs_max / 2 * 400);
	return below(one_in(3) ? 100 : most);
}

/* What was not answered at the server's end is lost with it: each session starts where its client is. */
static void pump(unsigned i)
{
	struct dg_end *client = &dg.clients[i];

	if (client->closes && client->received < sched.wanted[i]) { /* given up: again */
		const uint64_t received = client->received;

		dg_client(i);
		client->sent = client->received = received;
	}
	while (client->session && client->sent < sched.wanted[i] && client->sent - client->received < sched.ahead_max &&
	       dg_send(client, size(), 1 + size()))
		;
}

static void events(void)
{
	const uint64_t now_ns = dg.link.now_ns;

	sched.moved = sched.move_ns && now_ns >= sched.move_ns;
	if (sched.restart_ns && now_ns >= sched.restart_ns) {
		sched.restart_ns = 0;
		dg_destroy(0);
		dg.options[0].incarnation++;
		dg.options[0].secret[0] ^= 0x5555;
		if (dg.data)
			dg_renew_tickets();
		dg_create(0);
	}
	if (now_ns >= sched.take_ns) {
		sched.take_ns = now_ns + below(5) * LINK_MS;
		for (unsigned i = 0; i < dg.servers_count; i++)
			if (dg.servers[i].session && dg.servers[i].held)
				dg_take(&dg.servers[i]);
	}
}

/* After each event. */
static bool look(void *ctx)
{
	bool done = true;

	events();
	for (unsigned i = 0; i < sched.clients; i++) {
		pump(i);
		done = done && dg.clients[i].received >= sched.wanted[i];
	}
	return done;
}

static bool cut(struct link *link, int from, struct rte_mbuf *m)
{
	return (link->now_ns >= sched.cut_ns && link->now_ns < sched.mend_ns) || translate(link, from, m);
}

static void run_schedule_with(uint64_t seed, enum secure_data data)
{
	memset(&sched, 0, sizeof(sched));
	prng_seed(&sched.prng, ~seed);
	dg_init(seed);
	dg.data = data;
	dg.resend = true;
	choose_link();
	choose_options();
	choose_events(dg.link.now_ns);
	dg.link.tap = cut;
	for (unsigned i = 0; i < DG_ENDS_MAX; i++)
		dg.servers[i].hold = one_in(5);
	dg_up();
	sched.client_port = dg.dgram[1]->port;
	for (unsigned i = 0; i < sched.clients; i++)
		dg_client(i);
	if (!dg_run(400 * DG_S, look, NULL))
		for (unsigned i = 0; i < sched.clients; i++)
			if (dg.clients[i].received < sched.wanted[i])
				unit_fail(__FILE__, __LINE__, "seed %llu: client %u has %llu of %llu answers",
					  (unsigned long long)seed, i, (unsigned long long)dg.clients[i].received,
					  (unsigned long long)sched.wanted[i]);
	/* What is in flight still, and messages that were held, come to their end. */
	for (unsigned i = 0; i < DG_ENDS_MAX; i++) {
		dg.servers[i].hold = false;
		if (dg.servers[i].session && dg.servers[i].held)
			dg_take(&dg.servers[i]);
	}
	dg_wait(20 * DG_S);
	for (unsigned i = 0; i < sched.clients; i++)
		if (dg.clients[i].session && dgram_queued(dg.clients[i].session))
			unit_fail(__FILE__, __LINE__, "seed %llu: client %u has %u packets queued",
				  (unsigned long long)seed, i, dgram_queued(dg.clients[i].session));
	dg_check_quiet();
	dg_down();
}

static void run_schedule(uint64_t seed)
{
	run_schedule_with(seed, SECURE_DATA_OPEN);
}

static void run_sealed_schedule(uint64_t seed)
{
	run_schedule_with(seed, seed % 2 ? SECURE_DATA_SEALED : SECURE_DATA_CHECKED);
}

void dgram_random_sealed_schedules_keep_messages_whole(void)
{
	unit_seeds(SCHEDULES / 2, SCHEDULES_SOAK, run_sealed_schedule);
}

void dgram_random_schedules_keep_messages_whole(void)
{
	unit_seeds(SCHEDULES, SCHEDULES_SOAK, run_schedule);
}
