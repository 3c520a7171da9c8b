/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/net/emulate.h"

#include <rte_eal.h>
#include <rte_ip.h>
#include <rte_mempool.h>
#include <stdlib.h>

#include "tests/unit.h"

void link_eal(void)
{
	static bool done;
	static const char *const args[] = { "test", "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "-m",
					    "640",  "--lcores",	 "0@(0-1)",  "--log-level",    "error" };
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
	return rte_cpu_to_be_32(0xc6120001u + (unsigned)side);
}

const struct net_address *link_ip(int side)
{
	static struct net_address addresses[2];

	addresses[side] = net_address_v4(link_address(side));
	return &addresses[side];
}

const struct net_address *link_ip6(int side)
{
	static const struct net_address addresses[2] = { { .bytes = { 0x20, 1, 0, 2, [15] = 1 } },
							 { .bytes = { 0x20, 1, 0, 2, [15] = 2 } } };

	return &addresses[side];
}

const struct net_address *link_local(int side)
{
	static const struct net_address addresses[2] = {
		{ .bytes = { 0xfe, 0x80, [11] = 0xff, [12] = 0xfe, [15] = 1 } },
		{ .bytes = { 0xfe, 0x80, [11] = 0xff, [12] = 0xfe, [15] = 2 } }
	};

	return &addresses[side];
}

const struct rte_ether_addr *link_mac(int side)
{
	static const struct rte_ether_addr macs[2] = { { { 2, 0, 0, 0, 0, 1 } }, { { 2, 0, 0, 0, 0, 2 } } };

	return &macs[side];
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

	o.interfaces[0] =
		(struct net_interface_options){ .mtu = 1500,
						.mac = *link_mac(side),
						.addresses_count = 2,
						.addresses = { { *link_ip(side), 24 }, { *link_ip6(side), 64 } },
						.offloads = link->offloads[side],
						.tso_bytes = UINT16_MAX,
						.tso_segments = EMULATED_SEGMENTS };
	return o;
}

void link_pool(struct link *link, int side, unsigned mbufs)
{
	static unsigned count;
	char name[32];

	rte_mempool_free(link->pool[side]);
	snprintf(name, sizeof(name), "link%u", count++);
	link->pool[side] =
		rte_pktmbuf_pool_create(name, mbufs, 0, NET_PRIV_BYTES, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	if (!link->pool[side])
		exit(EXIT_FAILURE);
}

void link_init(struct link *link, uint64_t seed)
{
	link_eal();
	*link = (struct link){ .now_ns = 1000 * LINK_MS, .delay_ns = LINK_MS / 10 };
	prng_seed(&link->prng, seed);
	for (int i = 0; i < 2; i++)
		link_pool(link, i, LINK_MBUFS);
}

static struct net *create(const struct net_options *options)
{
	struct net_options o = *options;
	struct star_error err = { 0 };
	struct net *net;

	/* IPv6 needs a link of 1280 bytes: a smaller one has IPv4 only. */
	if (o.interfaces[0].mtu < 1280)
		o.interfaces[0].addresses_count = 1;
	net = net_create(&o, &err);
	if (!net) {
		unit_fail(__FILE__, __LINE__, "no stack: %s", err.text);
		exit(EXIT_FAILURE);
	}
	return net;
}

void link_up_with(struct link *link, const struct net_options *a, const struct net_options *b)
{
	link->net[0] = create(a);
	link->net[1] = create(b);
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
	emulate_release(link);
	for (int i = 0; i < 2; i++) {
		net_destroy(link->net[i]);
		CHECK_UINT(rte_mempool_in_use_count(link->pool[i]), 0);
		rte_mempool_free(link->pool[i]);
	}
}

static bool earlier(const struct link_frame *a, const struct link_frame *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

static void heap_put(struct link *link, const struct link_frame *f)
{
	unsigned at = link->queued++;

	for (unsigned up; at && earlier(f, &link->queue[up = (at - 1) / 2]); at = up)
		link->queue[at] = link->queue[up];
	link->queue[at] = *f;
}

static struct link_frame heap_take(struct link *link)
{
	const struct link_frame first = link->queue[0], last = link->queue[--link->queued];
	unsigned at = 0, down;

	while ((down = 2 * at + 1) < link->queued) {
		if (down + 1 < link->queued && earlier(&link->queue[down + 1], &link->queue[down]))
			down++;
		if (!earlier(&link->queue[down], &last))
			break;
		link->queue[at] = link->queue[down];
		at = down;
	}
	link->queue[at] = last;
	return first;
}

/* A frame reaches the other side in an mbuf of that side's pool, as over a wire. */
static struct rte_mbuf *enqueue(struct link *link, int to, const struct rte_mbuf *m, uint64_t at_ns)
{
	struct rte_mbuf *copy = rte_pktmbuf_alloc(link->pool[to]);

	if (!copy || link->queued == LINK_QUEUE_MAX) {
		rte_pktmbuf_free(copy);
		link->lost++;
		return NULL;
	}
	memcpy(rte_pktmbuf_append(copy, m->data_len), rte_pktmbuf_mtod(m, void *), m->data_len);
	heap_put(link, &(struct link_frame){ at_ns, link->order++, copy, to });
	return copy;
}

/* Sets CE in an IPv4 header that says it can be marked. */
static void mark(struct link_bottleneck *b, struct rte_mbuf *m)
{
	struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(m, struct rte_ipv4_hdr *, sizeof(struct rte_ether_hdr));

	if (ip->version != 4 || !(ip->type_of_service & 3))
		return;
	ip->type_of_service |= 3;
	ip->hdr_checksum = 0;
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	b->marked++;
}

/* When the frame has passed the bottleneck; 0: it was dropped there. */
static uint64_t pass(struct link *link, int from, struct rte_mbuf *m)
{
	struct link_bottleneck *b = &link->bottleneck[from];
	uint64_t queued;

	if (b->bytes_s == 0)
		return link->now_ns;
	b->free_ns = RTE_MAX(b->free_ns, link->now_ns);
	queued = (b->free_ns - link->now_ns) * b->bytes_s / 1000000000;
	if (queued + m->pkt_len > b->queue_bytes) {
		b->dropped++;
		return 0;
	}
	if (b->mark_bytes && queued >= b->mark_bytes)
		mark(b, m);
	b->longest_bytes = RTE_MAX(b->longest_bytes, (uint32_t)queued);
	b->free_ns += m->pkt_len * UINT64_C(1000000000) / b->bytes_s;
	return b->free_ns;
}

static bool chance(struct link *link, unsigned of_1000)
{
	return of_1000 && prng_below(&link->prng, 1000) < of_1000;
}

static void carry(struct link *link, int from, struct rte_mbuf *m)
{
	uint64_t at;
	struct rte_mbuf *sent;

	link->carried++;
	if (link->tap && link->tap(link, from, m)) {
		rte_pktmbuf_free(m);
		return;
	}
	at = chance(link, link->loss) ? 0 : pass(link, from, m);
	if (at == 0) {
		link->lost++;
		rte_pktmbuf_free(m);
		return;
	}
	at += link->delay_ns;
	if (chance(link, link->reorder))
		at += prng_below(&link->prng, 20) * link->delay_ns / 4;
	sent = enqueue(link, !from, m, at);
	if (chance(link, link->duplicate))
		enqueue(link, !from, m, at + prng_below(&link->prng, 10) * link->delay_ns / 4);
	/* ARP has no checksum of its own: what a wire corrupts there, the Ethernet's catches. */
	if (chance(link, link->corrupt) && sent && net_flow(sent).kind != NET_FLOW_NEIGHBOUR)
		rte_pktmbuf_mtod(sent, uint8_t *)[prng_below(&link->prng, sent->data_len)] ^=
			(uint8_t)(1 + prng_below(&link->prng, 255));
	rte_pktmbuf_free(m);
}

/* What is due at now goes in, in the order of its time and then of its sending. */
static void deliver(struct link *link)
{
	while (link->queued && link->queue[0].at_ns <= link->now_ns) {
		struct link_frame f = heap_take(link);

		emulate_receive(link, f.to, f.m);
		net_input(link->net[f.to], &f.m, 1, link->now_ns);
	}
}

static void transmit(struct link *link)
{
	struct rte_mbuf *frames[32];
	bool more;
	unsigned n;

	for (int side = 0; side < 2; side++) {
		net_turn(link->net[side], link->now_ns);
		do {
			more = link->turn && link->turn(link, side);
			while ((n = net_output(link->net[side], frames, 32)) > 0)
				for (unsigned i = 0; i < n; i++)
					emulate_send(link, side, frames[i], carry);
		} while (more);
	}
}

static uint64_t next_event(const struct link *link)
{
	uint64_t next = link->queued ? link->queue[0].at_ns : UINT64_MAX;

	for (int side = 0; side < 2; side++)
		next = RTE_MIN(next, wheel_next(net_wheel(link->net[side])));
	if (link->next_ns)
		next = RTE_MIN(next, link->next_ns(link));
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
