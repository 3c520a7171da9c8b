/* SPDX-License-Identifier: BSD-3-Clause */
/* The way out: routes, IPv4 and Ethernet headers, the queue that net_output empties. */
#include "net/internal.h"

struct rte_mbuf *net_alloc(struct net *net)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(net->pool);

	if (unlikely(!m))
		net->counters.out_no_mbuf++;
	return m;
}

struct net_interface *net_route(struct net *net, rte_be32_t to, rte_be32_t *next_hop)
{
	for (unsigned i = 0; i < net->interfaces_count; i++) {
		struct net_interface *interface = &net->interfaces[i];

		if (((to ^ interface->options.address) & interface->mask) == 0) {
			*next_hop = to;
			return interface;
		}
	}
	for (unsigned i = 0; i < net->interfaces_count; i++)
		if (net->interfaces[i].options.gateway) {
			*next_hop = net->interfaces[i].options.gateway;
			return &net->interfaces[i];
		}
	return NULL;
}

void net_transmit(struct net *net, struct rte_mbuf *frame)
{
	if (unlikely(net->output_tail - net->output_head == NET_OUTPUT_MAX)) {
		NET_DROP(net, frame, out_queue_full);
		return;
	}
	net->output[net->output_tail++ % NET_OUTPUT_MAX] = frame;
}

void net_fill_ip(struct net *net, struct rte_ipv4_hdr *ip, uint8_t protocol, rte_be32_t from, rte_be32_t to,
		 uint16_t bytes)
{
	ip->version_ihl = RTE_IPV4_VHL_DEF;
	ip->type_of_service = 0;
	ip->total_length = rte_cpu_to_be_16(bytes);
	ip->packet_id = rte_cpu_to_be_16(net->ip_id++);
	ip->fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG);
	ip->time_to_live = NET_TTL;
	ip->next_proto_id = protocol;
	ip->hdr_checksum = 0;
	ip->src_addr = from;
	ip->dst_addr = to;
	ip->hdr_checksum = (uint16_t)~checksum_fold(checksum_add(0, ip, sizeof(*ip)));
}

void net_send_ip(struct net *net, struct net_interface *interface, struct rte_mbuf *packet, rte_be32_t next_hop)
{
	struct rte_ether_hdr *eth = (struct rte_ether_hdr *)rte_pktmbuf_prepend(packet, sizeof(*eth));
	const struct rte_ether_addr *mac;

	eth->src_addr = interface->options.mac;
	eth->ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4);
	packet->port = interface->options.port;
	mac = arp_resolve(net, interface, next_hop, packet);
	if (likely(mac)) {
		eth->dst_addr = *mac;
		net_transmit(net, packet);
	}
}
