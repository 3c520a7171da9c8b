/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP (RFC 792): answers echo requests, and ignores the rest. */
#include "net/internal.h"

void icmp_input(struct net *net, struct net_interface *interface, struct rte_mbuf *packet,
		const struct rte_ipv4_hdr *ip)
{
	struct rte_icmp_hdr *icmp = rte_pktmbuf_mtod(packet, struct rte_icmp_hdr *);
	const uint16_t bytes = rte_pktmbuf_data_len(packet);
	const rte_be32_t peer = ip->src_addr;
	struct rte_ipv4_hdr *out;
	rte_be32_t next_hop;

	if (bytes < sizeof(*icmp) || checksum_fold(checksum_add(0, icmp, bytes)) != 0xffff ||
	    icmp->icmp_type != RTE_IP_ICMP_ECHO_REQUEST || icmp->icmp_code != 0) {
		NET_DROP(net, packet, icmp_ignored);
		return;
	}
	interface = net_route(net, peer, &next_hop);
	if (!interface) {
		NET_DROP(net, packet, ip_no_route);
		return;
	}
	net->counters.icmp_echos++;
	icmp->icmp_type = RTE_IP_ICMP_ECHO_REPLY;
	icmp->icmp_cksum = 0;
	icmp->icmp_cksum = (uint16_t)~checksum_fold(checksum_add(0, icmp, bytes));
	/* The reply goes back in the request's mbuf: the place of the old headers is free. */
	out = (struct rte_ipv4_hdr *)rte_pktmbuf_prepend(packet, sizeof(*out));
	net_fill_ip(net, out, IPPROTO_ICMP, interface->options.address, peer, bytes + sizeof(*out));
	net_send_ip(net, interface, packet, next_hop);
}
