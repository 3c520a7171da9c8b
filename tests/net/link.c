/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/net/link.h"

#include <rte_eal.h>
#include <rte_mempool.h>
#include <stdlib.h>

#include "tests/unit.h"

void link_eal(void)
{
	static bool done;
	static const char *const args[] = { "test", "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "-m",
					    "256",  "--lcores",	 "0@(0-1)",  "--log-level",    "error" };
	static char text[RTE_DIM(args)][32], *argv[RTE_DIM(args) + 1]; /* the EAL moves them about */

	if (done)
		return;
	for (unsigned i = 0; i < RTE_DIM(args); i++)
		argv[i] = strcpy(text[i], args[i]);

	if (rte_eal_init(RTE_DIM(args), argv) < 0)
		exit(EXIT_FAILURE);
	done = true;
}

rte_be32_t link_address(int side)
{
	return rte_cpu_to_be_32(0xc6120001u + (unsigned)side); /* 198.18.0.1 and .2 */
}

const struct net_address *link_ip(int side)
{
	static struct net_address addresses[2];

	addresses[side] = net_address_v4(link_address(side));
	return &addresses[side];
}

struct net_options link_options(struct link *link, int side)
{
	struct net_options o = {
		.pool = link->pool[side],
		.interfaces_count = 1,
		.connections_max = 64,
		.receive_window_bytes = 256 * 1024,
		.rto_min_us = 200000,
		.rto_max_us = 60000000,
		.delayed_ack_us = 1000,
		.time_wait_ms = 1000,
		.user_timeout_ms = 120000,
		.secret = { 0x0123456789abcdefu + (unsigned)side, 0xfedcba9876543210u },
		.now_ns = link->now_ns,
	};

	o.interfaces[0] = (struct net_interface_options){ .mtu = 1500,
							  .addresses_count = 1,
							  .addresses = { { *link_ip(side), 24 } } };
	o.interfaces[0].mac.addr_bytes[0] = 2;
	o.interfaces[0].mac.addr_bytes[5] = (uint8_t)(side + 1);
	return o;
}

void link_init(struct link *link, uint64_t seed)
{
	static unsigned count;
	char name[32];

	link_eal();
	*link = (struct link){ .now_ns = 1000 * LINK_MS, .delay_ns = LINK_MS / 10 };
	prng_seed(&link->prng, seed);
	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "link%u", count++);
		link->pool[i] = rte_pktmbuf_pool_create(name, LINK_MBUFS, 0, NET_PRIV_BYTES, RTE_MBUF_DEFAULT_BUF_SIZE,
							SOCKET_ID_ANY);
		if (!link->pool[i])
			exit(EXIT_FAILURE);
	}
}

void link_up_with(struct link *link, const struct net_options *a, const struct net_options *b)
{
	struct star_error err = { 0 };

	link->net[0] = net_create(a, &err);
	link->net[1] = net_create(b, &err);
	if (!link->net[0] || !link->net[1])
		exit(EXIT_FAILURE);
}

void link_up(struct link *link)
{
	const struct net_options a = link_options(link, 0), b = link_options(link, 1);

	link_up_with(link, &a, &b);
}

void link_down(struct link *link)
{
	for (unsigned i = 0; i < link->queued; i++)
		rte_pktmbuf_free(link->queue[i].m);
	for (int i = 0; i < 2; i++) {
		net_destroy(link->net[i]);
		CHECK_UINT(rte_mempool_in_use_count(link->pool[i]), 0);
		rte_mempool_free(link->pool[i]);
	}
}

/* A frame reaches the other side in an mbuf of that side's pool, as over a wire. */
static void enqueue(struct link *link, int to, const struct rte_mbuf *m, uint64_t at_ns)
{
	struct rte_mbuf *copy = rte_pktmbuf_alloc(link->pool[to]);

	if (!copy || link->queued == LINK_QUEUE_MAX) {
		rte_pktmbuf_free(copy);
		link->lost++;
		return;
	}
	memcpy(rte_pktmbuf_append(copy, m->data_len), rte_pktmbuf_mtod(m, void *), m->data_len);
	link->queue[link->queued++] = (struct link_frame){ at_ns, copy, to };
}

static bool chance(struct link *link, unsigned of_1000)
{
	return of_1000 && prng_below(&link->prng, 1000) < of_1000;
}

static void carry(struct link *link, int from, struct rte_mbuf *m)
{
	uint64_t at = link->now_ns + link->delay_ns;

	link->carried++;
	if (m->nb_segs != 1)
		unit_fail(__FILE__, __LINE__, "a frame of %u segments", m->nb_segs);
	if (link->tap && link->tap(link, from, m)) {
		rte_pktmbuf_free(m);
		return;
	}
	if (chance(link, link->loss)) {
		link->lost++;
		rte_pktmbuf_free(m);
		return;
	}
	if (chance(link, link->reorder))
		at += prng_below(&link->prng, 20) * link->delay_ns / 4;
	enqueue(link, !from, m, at);
	if (chance(link, link->duplicate))
		enqueue(link, !from, m, at + prng_below(&link->prng, 10) * link->delay_ns / 4);
	/* ARP has no checksum of its own: what a wire corrupts there, the Ethernet's catches. */
	if (chance(link, link->corrupt) && link->queued &&
	    net_flow(link->queue[link->queued - 1].m).kind != NET_FLOW_ARP) {
		struct rte_mbuf *victim = link->queue[link->queued - 1].m;

		rte_pktmbuf_mtod(victim, uint8_t *)[prng_below(&link->prng, victim->data_len)] ^=
			(uint8_t)(1 + prng_below(&link->prng, 255));
	}
	rte_pktmbuf_free(m);
}

/* What is due at now goes in, in the order of its time and then of its sending. */
static void deliver(struct link *link)
{
	for (;;) {
		unsigned first = link->queued;

		for (unsigned i = 0; i < link->queued; i++)
			if (link->queue[i].at_ns <= link->now_ns &&
			    (first == link->queued || link->queue[i].at_ns < link->queue[first].at_ns))
				first = i;
		if (first == link->queued)
			return;
		struct link_frame f = link->queue[first];

		link->queued--;
		memmove(&link->queue[first], &link->queue[first + 1], (link->queued - first) * sizeof(f));
		net_input(link->net[f.to], &f.m, 1, link->now_ns);
	}
}

static void transmit(struct link *link)
{
	struct rte_mbuf *frames[32];
	unsigned n;

	for (int side = 0; side < 2; side++) {
		net_turn(link->net[side], link->now_ns);
		while ((n = net_output(link->net[side], frames, 32)) > 0)
			for (unsigned i = 0; i < n; i++)
				carry(link, side, frames[i]);
	}
}

static uint64_t next_event(const struct link *link)
{
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < link->queued; i++)
		next = RTE_MIN(next, link->queue[i].at_ns);
	for (int side = 0; side < 2; side++)
		next = RTE_MIN(next, wheel_next(net_wheel(link->net[side])));
	return next;
}

bool link_run(struct link *link, uint64_t for_ns, bool (*until)(void *ctx), void *ctx)
{
	const uint64_t end = link->now_ns + for_ns;

	for (;;) {
		uint64_t next;

		deliver(link);
		for (int side = 0; side < 2; side++)
			wheel_advance(net_wheel(link->net[side]), link->now_ns, 1000);
		transmit(link);
		if (until && until(ctx))
			return true;
		next = next_event(link);
		if (next > end || link->now_ns >= end) {
			link->now_ns = RTE_MAX(link->now_ns, end);
			return false;
		}
		link->now_ns = RTE_MAX(next, link->now_ns + 1000);
	}
}

void link_inject(struct link *link, int to, const void *frame, unsigned bytes)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(link->pool[to]);

	memcpy(rte_pktmbuf_append(m, (uint16_t)bytes), frame, bytes);
	net_input(link->net[to], &m, 1, link->now_ns);
}
