/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a frame should go. Steering reads these fields before any stack has seen the frame, so they are not trusted. */
#include "net/icmp.h"
#include "net/ip6.h"

/* upper: the first bytes of the upper layer, which ends at end. */
static struct net_flow of_ports(uint8_t protocol, const uint8_t *upper, const uint8_t *end)
{
	struct net_flow flow = { NET_FLOW_OTHER, 0 };

	/* TCP and UDP have their ports in the same place. */
	if (end - upper < (long)sizeof(struct rte_udp_hdr) || (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP))
		return flow;
	flow.kind = protocol == IPPROTO_TCP ? NET_FLOW_TCP : NET_FLOW_UDP;
	flow.port = (uint16_t)(upper[2] << 8 | upper[3]);
	return flow;
}

/* An error belongs to the flow of the packet that it quotes. */
static struct net_flow of_error(const uint8_t *icmp, const uint8_t *end, bool v4)
{
	struct net_flow flow = { NET_FLOW_OTHER, 0 };
	const uint16_t bytes = (uint16_t)(end - icmp);
	struct icmp_quote q;

	if (bytes < ICMP_HEADER_BYTES ||
	    !(v4 ? icmp_quote4 : icmp_quote6)(icmp + ICMP_HEADER_BYTES, bytes - ICMP_HEADER_BYTES, &q))
		return flow;
	if (q.protocol != IPPROTO_TCP && q.protocol != IPPROTO_UDP)
		return flow;
	flow.kind = NET_FLOW_ERROR;
	flow.port = (uint16_t)(q.upper[0] << 8 | q.upper[1]);
	return flow;
}

static struct net_flow of_ip4(const uint8_t *at, const uint8_t *end)
{
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)at;
	uint16_t header;

	if (end - at < (long)sizeof(*ip))
		return (struct net_flow){ NET_FLOW_OTHER, 0 };
	header = rte_ipv4_hdr_len(ip);
	if (header < sizeof(*ip) || end - at < header)
		return (struct net_flow){ NET_FLOW_OTHER, 0 };
	if (ip->fragment_offset & RTE_BE16(RTE_IPV4_HDR_OFFSET_MASK | RTE_IPV4_HDR_MF_FLAG))
		return (struct net_flow){ NET_FLOW_FRAGMENT, 0 };
	at += header;
	if (ip->next_proto_id == IPPROTO_ICMP && at < end && *at != RTE_IP_ICMP_ECHO_REQUEST)
		return of_error(at, end, true);
	return of_ports(ip->next_proto_id, at, end);
}

static struct net_flow of_ip6(const uint8_t *at, const uint8_t *end)
{
	const struct rte_ipv6_hdr *ip = (const struct rte_ipv6_hdr *)at;
	struct ip6_walk w;
	bool fragment;

	if (end - at < (long)sizeof(*ip))
		return (struct net_flow){ NET_FLOW_OTHER, 0 };
	ip6_walk_begin(&w, ip, (uint16_t)(end - at));
	if (!ip6_find_upper(&w, &fragment))
		return (struct net_flow){ NET_FLOW_OTHER, 0 };
	if (fragment)
		return (struct net_flow){ NET_FLOW_FRAGMENT, 0 };
	at += w.at;
	if (w.next != IPPROTO_ICMPV6 || at == end)
		return of_ports(w.next, at, end);
	if (*at == ND_SOLICITATION || *at == ND_ADVERTISEMENT || *at == MLD_QUERY)
		return (struct net_flow){ NET_FLOW_NEIGHBOUR, 0 };
	return *at < 128 ? of_error(at, end, false) : (struct net_flow){ NET_FLOW_OTHER, 0 };
}

struct net_flow net_flow(const struct rte_mbuf *frame)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(frame, const struct rte_ether_hdr *);
	const uint8_t *at = (const uint8_t *)(eth + 1), *end = (const uint8_t *)eth + rte_pktmbuf_data_len(frame);
	rte_be16_t type;

	if (at > end)
		return (struct net_flow){ NET_FLOW_OTHER, 0 };
	type = eth->ether_type;
	if (unlikely(type == RTE_BE16(RTE_ETHER_TYPE_VLAN))) {
		if (end - at < (long)sizeof(struct rte_vlan_hdr))
			return (struct net_flow){ NET_FLOW_OTHER, 0 };
		type = ((const struct rte_vlan_hdr *)at)->eth_proto;
		at += sizeof(struct rte_vlan_hdr);
	}
	if (likely(type == RTE_BE16(RTE_ETHER_TYPE_IPV4)))
		return of_ip4(at, end);
	if (type == RTE_BE16(RTE_ETHER_TYPE_IPV6))
		return of_ip6(at, end);
	return (struct net_flow){ type == RTE_BE16(RTE_ETHER_TYPE_ARP) ? NET_FLOW_NEIGHBOUR : NET_FLOW_OTHER, 0 };
}
