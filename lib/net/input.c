/* SPDX-License-Identifier: BSD-3-Clause */
/* The way in: Ethernet and IPv4. */
#include "net/internal.h"

static struct net_interface *interface_of(struct net *net, const struct rte_mbuf *frame)
{
	for (unsigned i = 0; i < net->interfaces_count; i++)
		if (net->interfaces[i].options.port == frame->port)
			return &net->interfaces[i];
	return &net->interfaces[0];
}

/* Not "this network", loopback, multicast, reserved or broadcast (RFC 1122, 3.2.1.3): what is answered must be a host. */
static bool is_host(rte_be32_t address)
{
	const uint8_t first = rte_be_to_cpu_32(address) >> 24;

	return first != 0 && first != 127 && first < 224;
}

/* Hands an IPv4 packet, whose data starts at its header, to its protocol. */
static void ip_input(struct net *net, struct net_interface *interface, struct rte_mbuf *packet)
{
	const struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod(packet, const struct rte_ipv4_hdr *);
	const uint16_t have = rte_pktmbuf_data_len(packet);
	struct net_packet p;
	uint16_t header, total;

	if (have < sizeof(*ip)) {
		NET_DROP(net, packet, eth_short);
		return;
	}
	header = rte_ipv4_hdr_len(ip);
	total = rte_be_to_cpu_16(ip->total_length);
	if (ip->version != 4 || header < sizeof(*ip) || header > have || total < header || total > have) {
		NET_DROP(net, packet, ip_bad_header);
		return;
	}
	if (checksum_fold(checksum_add(0, ip, header)) != 0xffff) {
		NET_DROP(net, packet, ip_bad_checksum);
		return;
	}
	p = (struct net_packet){ .interface = interface,
				 .header = ip,
				 .from = net_address_v4(ip->src_addr),
				 .to = net_address_v4(ip->dst_addr),
				 .protocol = ip->next_proto_id,
				 .tos = ip->type_of_service };
	if (!net_is_own(interface, &p.to)) {
		NET_DROP(net, packet, ip_not_mine);
		return;
	}
	if (!is_host(ip->src_addr) || ip->src_addr == ip->dst_addr) {
		NET_DROP(net, packet, ip_bad_source);
		return;
	}
	if (ip->fragment_offset & RTE_BE16(RTE_IPV4_HDR_OFFSET_MASK | RTE_IPV4_HDR_MF_FLAG)) {
		NET_DROP(net, packet, ip_fragment);
		return;
	}
	rte_pktmbuf_trim(packet, have - total); /* Ethernet's padding */
	rte_pktmbuf_adj(packet, header);
	switch (ip->next_proto_id) {
	case IPPROTO_TCP:
		tcp_input(net, packet, &p);
		break;
	case IPPROTO_UDP:
		udp_input(net, packet, &p);
		break;
	case IPPROTO_ICMP:
		icmp_input(net, packet, &p);
		break;
	default:
		NET_DROP(net, packet, ip_unknown_protocol);
	}
}

static void eth_input(struct net *net, struct rte_mbuf *frame)
{
	struct net_interface *interface = interface_of(net, frame);
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(frame, const struct rte_ether_hdr *);

	/* No device that is opened here scatters a frame over segments: one that comes so is not trusted. */
	if (rte_pktmbuf_data_len(frame) < sizeof(*eth) || frame->nb_segs != 1) {
		NET_DROP(net, frame, eth_short);
		return;
	}
	if (!rte_is_same_ether_addr(&eth->dst_addr, &interface->options.mac) &&
	    !rte_is_broadcast_ether_addr(&eth->dst_addr)) {
		NET_DROP(net, frame, eth_not_mine);
		return;
	}
	if (eth->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV4)) {
		rte_pktmbuf_adj(frame, sizeof(*eth));
		ip_input(net, interface, frame);
	} else if (eth->ether_type == RTE_BE16(RTE_ETHER_TYPE_ARP)) {
		arp_input(net, interface, frame);
	} else {
		NET_DROP(net, frame, eth_unknown_type);
	}
}

void net_input(struct net *net, struct rte_mbuf **frames, unsigned n, uint64_t now_ns)
{
	net->now_ns = now_ns;
	net->counters.in_frames += n;
	for (unsigned i = 0; i < n; i++) {
		if (i + 2 < n)
			rte_prefetch0(rte_pktmbuf_mtod(frames[i + 2], void *));
		eth_input(net, frames[i]);
	}
}

struct net_flow net_flow(const struct rte_mbuf *frame)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(frame, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)(eth + 1);
	const uint16_t have = rte_pktmbuf_data_len(frame);
	struct net_flow flow = { NET_FLOW_OTHER, 0 };
	const struct rte_udp_hdr *ports;
	uint16_t header;

	if (have < sizeof(*eth))
		return flow;
	if (eth->ether_type == RTE_BE16(RTE_ETHER_TYPE_ARP)) {
		flow.kind = NET_FLOW_ARP;
		return flow;
	}
	if (eth->ether_type != RTE_BE16(RTE_ETHER_TYPE_IPV4) || have < sizeof(*eth) + sizeof(*ip))
		return flow;
	header = rte_ipv4_hdr_len(ip);
	if (header < sizeof(*ip) || have < sizeof(*eth) + header + sizeof(*ports) ||
	    ip->fragment_offset & RTE_BE16(RTE_IPV4_HDR_OFFSET_MASK))
		return flow;
	/* TCP and UDP have their ports in the same place. */
	ports = (const struct rte_udp_hdr *)((const char *)ip + header);
	if (ip->next_proto_id == IPPROTO_TCP)
		flow.kind = NET_FLOW_TCP;
	else if (ip->next_proto_id == IPPROTO_UDP)
		flow.kind = NET_FLOW_UDP;
	else
		return flow;
	flow.port = rte_be_to_cpu_16(ports->dst_port);
	return flow;
}
