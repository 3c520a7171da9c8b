/* SPDX-License-Identifier: BSD-3-Clause */
/* Received frames: Ethernet and 802.1Q. */
#include "net/internal.h"

/* The VLAN of a frame (0: none, or only a priority), and where its payload begins; false: it is too short. */
static bool find_vlan(const struct rte_mbuf *frame, uint16_t *vlan, uint16_t *type, uint16_t *header)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(frame, const struct rte_ether_hdr *);
	const struct rte_vlan_hdr *tag = (const struct rte_vlan_hdr *)(eth + 1);

	*type = eth->ether_type;
	*header = sizeof(*eth);
	*vlan = 0;
	if (unlikely(frame->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED)) {
		*vlan = frame->vlan_tci & NET_VLAN_MAX;
	} else if (unlikely(*type == RTE_BE16(RTE_ETHER_TYPE_VLAN))) {
		if (rte_pktmbuf_data_len(frame) < sizeof(*eth) + sizeof(*tag))
			return false;
		*vlan = rte_be_to_cpu_16(tag->vlan_tci) & NET_VLAN_MAX;
		*type = tag->eth_proto;
		*header += sizeof(*tag);
	}
	return true;
}

void net_frame_input(struct net *net, struct rte_mbuf *frame)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(frame, const struct rte_ether_hdr *);
	struct net_interface *interface;
	uint16_t vlan, type, header;
	bool mine;

	/* Some drivers split a long frame into several mbufs: e1000 does above an MTU of 1500, because its buffers are
	 * the next lower power of two of ours. Our mbufs hold a whole frame. */
	if (rte_pktmbuf_data_len(frame) < sizeof(*eth) ||
	    (unlikely(frame->nb_segs != 1) && rte_pktmbuf_linearize(frame) != 0) ||
	    !find_vlan(frame, &vlan, &type, &header)) {
		NET_DROP(net, frame, eth_short);
		return;
	}
	interface = net_interface_of(net, frame->port, vlan);
	if (!interface) {
		NET_DROP(net, frame, eth_other_vlan);
		return;
	}
	mine = rte_is_same_ether_addr(&eth->dst_addr, &interface->options.mac);
	rte_pktmbuf_adj(frame, header);
	if (type == RTE_BE16(RTE_ETHER_TYPE_IPV4) && mine)
		ip4_input(net, interface, frame); /* a broadcast packet gets no ICMP errors (RFC 1122, 3.3.6) */
	else if (type == RTE_BE16(RTE_ETHER_TYPE_IPV6) && (mine || rte_is_multicast_ether_addr(&eth->dst_addr)))
		ip6_input(net, interface, frame, !mine);
	else if (type == RTE_BE16(RTE_ETHER_TYPE_ARP) && (mine || rte_is_broadcast_ether_addr(&eth->dst_addr)))
		arp_input(net, interface, frame);
	else if (mine)
		NET_DROP(net, frame, eth_unknown_type);
	else
		NET_DROP(net, frame, eth_not_mine);
}

/* The fast path of usual frames. It reads only what it needs to decide; the rest is checked after it. */
static inline bool take_plain(struct net *net, struct rte_mbuf *frame)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(frame, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)(eth + 1);

	if (frame->data_len < NET_UDP_PLAIN_HEADERS || frame->nb_segs != 1 ||
	    eth->ether_type != RTE_BE16(RTE_ETHER_TYPE_IPV4) || frame->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED)
		return false;
	return ip->next_proto_id == IPPROTO_UDP	  ? udp_take_plain(net, frame)
	       : ip->next_proto_id == IPPROTO_TCP ? tcp_take_plain(net, frame)
						  : false;
}

void net_input(struct net *net, struct rte_mbuf **frames, unsigned n, uint64_t now_ns)
{
	net->now_ns = now_ns;
	net_watch_pool(net);
	net->counters.in_frames += n;
	if (net->connections >= TCP_FETCH_FROM)
		tcp_fetch(net, frames, n);
	if (net->udp_prefetches)
		udp_fetch(net, frames, n);
	for (unsigned i = 0; i < n; i++) {
		if (i + 2 < n)
			rte_prefetch0(rte_pktmbuf_mtod(frames[i + 2], void *));
		if (!take_plain(net, frames[i]))
			net_frame_input(net, frames[i]);
	}
}
