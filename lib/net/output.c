/* SPDX-License-Identifier: BSD-3-Clause */
/* The way out: routes, IP and Ethernet headers, the queue that net_output empties. */
#include "net/internal.h"

struct rte_mbuf *net_alloc(struct net *net)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(net->pool);

	if (unlikely(!m))
		net->counters.out_no_mbuf++;
	return m;
}

const struct net_interface_address *net_on_link(const struct net_interface *interface, const struct net_address *to)
{
	for (unsigned i = 0; i < interface->options.addresses_count; i++) {
		const struct net_interface_address *a = &interface->options.addresses[i];
		const bool v4 = net_address_is_v4(&a->address);

		if (v4 == net_address_is_v4(to) && net_address_same_prefix(&a->address, to, a->prefix + (v4 ? 96 : 0)))
			return a;
	}
	return NULL;
}

static const struct net_interface_address *first_of_family(const struct net_interface *interface, bool v4)
{
	for (unsigned i = 0; i < interface->options.addresses_count; i++)
		if (net_address_is_v4(&interface->options.addresses[i].address) == v4)
			return &interface->options.addresses[i];
	return NULL;
}

bool net_path_find(struct net *net, const struct net_address *to, const struct net_address *from, struct net_path *path)
{
	const bool v4 = net_address_is_v4(to);
	const struct net_interface_address *own = NULL;
	struct net_interface *interface = NULL;

	path->next_hop = *to;
	for (unsigned i = 0; i < net->interfaces_count && !own; i++) {
		interface = &net->interfaces[i];
		own = net_on_link(interface, to);
	}
	for (unsigned i = 0; i < net->interfaces_count && !own; i++) {
		interface = &net->interfaces[i];
		path->next_hop = v4 ? interface->options.gateway4 : interface->options.gateway6;
		if (!net_address_is_none(&path->next_hop))
			own = first_of_family(interface, v4);
	}
	if (!own)
		return false;
	path->interface = interface;
	path->local = from ? *from : own->address;
	path->remote = *to;
	path->mtu = interface->options.mtu;
	return true;
}

void net_transmit(struct net *net, struct rte_mbuf *frame)
{
	if (unlikely(net->output_tail - net->output_head == NET_OUTPUT_MAX)) {
		NET_DROP(net, frame, out_queue_full);
		return;
	}
	net->output[net->output_tail++ % NET_OUTPUT_MAX] = frame;
}

static void put_ipv4(struct net *net, const struct net_path *path, struct rte_mbuf *packet, uint8_t protocol,
		     uint8_t tos)
{
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)rte_pktmbuf_prepend(packet, sizeof(*ip));

	ip->version_ihl = RTE_IPV4_VHL_DEF;
	ip->type_of_service = tos;
	ip->total_length = rte_cpu_to_be_16(rte_pktmbuf_data_len(packet));
	ip->packet_id = rte_cpu_to_be_16(net->ip_id++);
	ip->fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG);
	ip->time_to_live = NET_TTL;
	ip->next_proto_id = protocol;
	ip->hdr_checksum = 0;
	ip->src_addr = net_address_to_v4(&path->local);
	ip->dst_addr = net_address_to_v4(&path->remote);
	ip->hdr_checksum = (uint16_t)~checksum_fold(checksum_add(0, ip, sizeof(*ip)));
}

void net_send(struct net *net, const struct net_path *path, struct rte_mbuf *packet, uint8_t protocol, uint8_t tos)
{
	struct net_interface *interface = path->interface;
	const struct rte_ether_addr *mac;
	struct rte_ether_hdr *eth;

	put_ipv4(net, path, packet, protocol, tos);
	eth = (struct rte_ether_hdr *)rte_pktmbuf_prepend(packet, sizeof(*eth));
	eth->src_addr = interface->options.mac;
	eth->ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4);
	packet->port = interface->options.port;
	mac = arp_resolve(net, interface, net_address_to_v4(&path->next_hop), packet);
	if (likely(mac)) {
		eth->dst_addr = *mac;
		net_transmit(net, packet);
	}
}
