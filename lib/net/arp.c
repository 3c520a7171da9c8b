/* SPDX-License-Identifier: BSD-3-Clause */
/* ARP packets (RFC 826). neighbour.c decides what to believe of them. */
#include "net/internal.h"

static void send_arp(struct net *net, struct net_interface *interface, uint16_t opcode, rte_be32_t from,
		     const struct rte_ether_addr *to_mac, rte_be32_t to)
{
	static const struct rte_ether_addr broadcast = { { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } };
	struct rte_mbuf *frame = net_alloc(net);
	struct rte_arp_hdr *arp;

	if (!frame)
		return;
	arp = (struct rte_arp_hdr *)rte_pktmbuf_append(frame, sizeof(*arp));
	arp->arp_hardware = RTE_BE16(RTE_ARP_HRD_ETHER);
	arp->arp_protocol = RTE_BE16(RTE_ETHER_TYPE_IPV4);
	arp->arp_hlen = RTE_ETHER_ADDR_LEN;
	arp->arp_plen = sizeof(rte_be32_t);
	arp->arp_opcode = rte_cpu_to_be_16(opcode);
	arp->arp_data.arp_sha = interface->options.mac;
	arp->arp_data.arp_sip = from;
	memset(&arp->arp_data.arp_tha, 0, sizeof(arp->arp_data.arp_tha));
	if (to_mac)
		arp->arp_data.arp_tha = *to_mac;
	arp->arp_data.arp_tip = to;
	net_put_ethernet(interface, frame, RTE_BE16(RTE_ETHER_TYPE_ARP))->dst_addr = to_mac ? *to_mac : broadcast;
	net_transmit(net, frame);
}

void arp_ask(struct net *net, struct net_interface *interface, const struct net_address *address,
	     const struct rte_ether_addr *mac)
{
	const struct net_interface_address *own = net_on_link(interface, address);

	if (own)
		send_arp(net, interface, RTE_ARP_OP_REQUEST, net_address_to_v4(&own->address), mac,
			 net_address_to_v4(address));
}

void arp_announce(struct net *net, struct net_interface *interface, const struct net_address *own)
{
	const rte_be32_t address = net_address_to_v4(own);

	send_arp(net, interface, RTE_ARP_OP_REQUEST, address, NULL, address);
}

static bool is_whole_arp(const struct rte_mbuf *m)
{
	const struct rte_arp_hdr *arp = rte_pktmbuf_mtod(m, const struct rte_arp_hdr *);

	return rte_pktmbuf_data_len(m) >= sizeof(*arp) && arp->arp_hardware == RTE_BE16(RTE_ARP_HRD_ETHER) &&
	       arp->arp_protocol == RTE_BE16(RTE_ETHER_TYPE_IPV4) && arp->arp_hlen == RTE_ETHER_ADDR_LEN &&
	       arp->arp_plen == sizeof(rte_be32_t) && rte_is_valid_assigned_ether_addr(&arp->arp_data.arp_sha);
}

void arp_input(struct net *net, struct net_interface *interface, struct rte_mbuf *m)
{
	const struct rte_arp_hdr *arp = rte_pktmbuf_mtod(m, const struct rte_arp_hdr *);
	const struct rte_arp_ipv4 *data = &arp->arp_data;
	struct net_address from, to;
	bool for_us, request;

	if (!is_whole_arp(m)) {
		NET_DROP(net, m, arp_bad);
		return;
	}
	request = arp->arp_opcode == RTE_BE16(RTE_ARP_OP_REQUEST);
	from = net_address_v4(data->arp_sip);
	to = net_address_v4(data->arp_tip);
	for_us = net_is_own(interface, &to);
	if (net_is_own(interface, &from)) {
		NET_DROP(net, m, address_conflicts);
		return;
	}
	/* A probe (RFC 5227): its sender has no address yet, and must learn that this one is taken. */
	if (data->arp_sip && !net_on_link(interface, &from)) {
		NET_DROP(net, m, arp_bad);
		return;
	}
	if (data->arp_sip)
		net_neighbour_heard(net, interface, &from, &data->arp_sha,
				    !for_us   ? NEIGHBOUR_ANNOUNCES
				    : request ? NEIGHBOUR_ASKS
					      : NEIGHBOUR_ANSWERS);
	if (for_us && request && !net->options.neighbours_silent)
		send_arp(net, interface, RTE_ARP_OP_REPLY, data->arp_tip, &data->arp_sha, data->arp_sip);
	rte_pktmbuf_free(m);
}
