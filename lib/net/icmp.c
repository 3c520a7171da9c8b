/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP (RFC 792): answers echo requests, and ignores the rest. */
#include "net/internal.h"

void icmp_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet)
{
	struct rte_icmp_hdr *icmp = rte_pktmbuf_mtod(m, struct rte_icmp_hdr *);
	const uint16_t bytes = rte_pktmbuf_data_len(m);
	struct net_path path;

	if (bytes < sizeof(*icmp) || checksum_fold(checksum_add(0, icmp, bytes)) != 0xffff ||
	    icmp->icmp_type != RTE_IP_ICMP_ECHO_REQUEST || icmp->icmp_code != 0) {
		NET_DROP(net, m, icmp_ignored);
		return;
	}
	if (!net_path_find(net, &packet->from, &packet->to, &path)) {
		NET_DROP(net, m, ip_no_route);
		return;
	}
	net->counters.icmp_echos++;
	icmp->icmp_type = RTE_IP_ICMP_ECHO_REPLY;
	icmp->icmp_cksum = 0;
	icmp->icmp_cksum = (uint16_t)~checksum_fold(checksum_add(0, icmp, bytes));
	/* The reply goes back in the request's mbuf: the place of the old headers is free. */
	net_send(net, &path, m, IPPROTO_ICMP, 0);
}
