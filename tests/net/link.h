/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two stacks joined by a simulated link, with a virtual clock: delay, loss, duplication, reordering and corruption from
 * a seed; on request a bottleneck, with a queue that drops or marks. Each stack has a mempool of its own, so that a
 * test can count that every mbuf came back.
 */
#ifndef TESTS_NET_LINK_H
#define TESTS_NET_LINK_H

#include "base/prng.h"
#include "net/net.h"
#include "net/tcp.h"

enum { LINK_QUEUE_MAX = 8192, LINK_MBUFS = 16384, LINK_KEPT_MAX = 64 };

struct link_frame {
	uint64_t at_ns, order;
	struct rte_mbuf *m;
	int to;
};

struct link {
	struct net *net[2];
	struct rte_mempool *pool[2];
	uint64_t now_ns, delay_ns;
	/* chances of 1000, for each frame */
	unsigned loss, duplicate, reorder, corrupt;
	struct prng prng;
	struct link_frame queue[LINK_QUEUE_MAX]; /* a heap: the next to arrive first */
	unsigned queued;
	uint64_t carried, lost, order;
	/* the bottleneck of each side's frames; none with bytes_s 0 */
	struct link_bottleneck {
		uint64_t bytes_s;
		uint32_t queue_bytes; /* more are dropped */
		uint32_t mark_bytes;  /* from there on frames that can be marked are; 0: never */
		uint64_t free_ns;     /* when what is in the queue has left */
		uint32_t longest_bytes;
		uint64_t dropped, marked;
	} bottleneck[2];
	/* the ports (emulate.h): enum offload, and how many frames one keeps before it frees them, as a NIC's ring
	 * does */
	uint32_t offloads[2];
	unsigned keeps[2];
	/* checksums that the sender leaves to its port are never filled in, as between guests of one machine */
	bool partial;
	struct rte_mbuf *kept[2][LINK_KEPT_MAX];
	uint64_t kept_count[2];
	uint64_t
		did[8]; /* how often, by enum offload's bits; TX_SEGMENTS: payloads by reference behind their headers */
	/* sees every frame that is sent; may be NULL; true swallows it */
	bool (*tap)(struct link *link, int from, struct rte_mbuf *m);
	void *tap_ctx;
	/* what runs above a stack: before its output is taken, again after it while true; and when it wants to be
	 * called next */
	bool (*turn)(struct link *link, int side);
	uint64_t (*next_ns)(const struct link *link);
};

#define LINK_MS UINT64_C(1000000)

void link_eal(void);
/* Options of side 0 or 1, to be changed before link_up_with. */
struct net_options link_options(struct link *link, int side);
void link_init(struct link *link, uint64_t seed);
/* Before link_options: a side's mempool has n mbufs. */
void link_pool(struct link *link, int side, unsigned mbufs);
void link_up(struct link *link);
void link_up_with(struct link *link, const struct net_options *a, const struct net_options *b);
/* Frees both stacks and what is on the link; checks that no mbuf is missing. */
void link_down(struct link *link);
/* Runs both stacks until until(ctx) or for this long, in virtual time; true when until was met. */
bool link_run(struct link *link, uint64_t for_ns, bool (*until)(void *ctx), void *ctx);
/* Gives a frame to a side as it is. */
void link_inject(struct link *link, int to, const void *frame, unsigned bytes);

/* 198.18.0.1 and .2, 2001:2::1 and ::2: both sides have both. */
rte_be32_t link_address(int side);
const struct net_address *link_ip(int side);
const struct net_address *link_ip6(int side);
/* 2001:2:0:subnet::host: both sides have subnet 0. */
static inline struct net_address link_ip6_of(uint8_t subnet, uint16_t host)
{
	return (struct net_address){ .bytes = { 0x20, 1, 0, 2, [7] = subnet, [14] = (uint8_t)(host >> 8),
						(uint8_t)host } };
}
/* What the station's own address of the link must be: fe80::ff:fe00:1 and 2. */
const struct net_address *link_local(int side);
const struct rte_ether_addr *link_mac(int side);

#endif
