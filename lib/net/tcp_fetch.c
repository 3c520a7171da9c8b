/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With thousands of connections, each segment finds its connection's state in memory: a dozen cache lines. All segments
 * of a burst are known before the first one is processed, so what they need is prefetched for all of them together, in
 * passes: the hash table's buckets, then the connections, then what these point to. Nothing that is read here is
 * trusted: the segments are checked, and their connections looked up, afterwards.
 */
#include "net/tcp_internal.h"

enum {
	BURST = 32,
	/* Bytes of the user's data per connection, assuming that it begins where the pointer leads. */
	USER_BYTES = 256,
};

/* The bucket of a segment without IP options or VLAN tag; NULL: it is not one. */
static const uint32_t *bucket_of(const struct net *net, const struct rte_mbuf *frame)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(frame, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip4 = (const struct rte_ipv4_hdr *)(eth + 1);
	const struct rte_ipv6_hdr *ip6 = (const struct rte_ipv6_hdr *)(eth + 1);
	const struct rte_tcp_hdr *tcp;
	struct net_address from, to;

	if (frame->data_len < sizeof(*eth) + sizeof(*ip4) + sizeof(*tcp))
		return NULL;
	if (eth->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV4) && ip4->version_ihl == RTE_IPV4_VHL_DEF &&
	    ip4->next_proto_id == IPPROTO_TCP) {
		tcp = (const struct rte_tcp_hdr *)(ip4 + 1);
		from = net_address_v4(ip4->src_addr);
		to = net_address_v4(ip4->dst_addr);
	} else if (eth->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV6) && ip6->proto == IPPROTO_TCP &&
		   frame->data_len >= sizeof(*eth) + sizeof(*ip6) + sizeof(*tcp)) {
		tcp = (const struct rte_tcp_hdr *)(ip6 + 1);
		memcpy(from.bytes, ip6->src_addr, sizeof(from.bytes));
		memcpy(to.bytes, ip6->dst_addr, sizeof(to.bytes));
	} else {
		return NULL;
	}
	return tcp_bucket(net, &to, tcp->dst_port, &from, tcp->src_port);
}

static void fetch_sent(struct rte_mbuf *m)
{
	net_fetch(m, sizeof(*m) + sizeof(struct net_priv));
}

static void fetch_burst(const struct net *net, struct rte_mbuf **frames, unsigned n)
{
	const uint32_t *buckets[BURST];
	const struct tcp_conn *conns[BURST];

	for (unsigned i = 0; i < n; i++) {
		buckets[i] = bucket_of(net, frames[i]);
		rte_prefetch0(buckets[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		const uint32_t number = buckets[i] ? *buckets[i] : 0;

		conns[i] = number ? &net->conns[number - 1] : NULL;
		if (conns[i])
			tcp_prefetch(conns[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		if (!conns[i])
			continue;
		net_fetch(conns[i]->user, USER_BYTES);
		if (conns[i]->send_head)
			fetch_sent(conns[i]->send_head);
		if (conns[i]->send_tail)
			fetch_sent(conns[i]->send_tail);
	}
}

void tcp_fetch(const struct net *net, struct rte_mbuf **frames, unsigned n)
{
	for (unsigned i = 0; i < n; i += BURST)
		fetch_burst(net, frames + i, RTE_MIN(n - i, (unsigned)BURST));
}

void tcp_prefetch(const struct tcp_conn *conn)
{
	net_fetch(conn, offsetof(struct tcp_conn, older));
}
