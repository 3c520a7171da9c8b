/* SPDX-License-Identifier: BSD-3-Clause */
/* Received IPv4 packets (RFC 791, RFC 1122). */
#include "net/internal.h"

enum { OPTION_END = 0, OPTION_NOP = 1, OPTION_LOOSE_ROUTE = 131, OPTION_STRICT_ROUTE = 137 };

/* Options are skipped. Packets with malformed options or source routes are dropped (RFC 7126, 4.3 and 4.4). */
static bool options_fine(const uint8_t *option, unsigned bytes)
{
	while (bytes && *option != OPTION_END) {
		const unsigned length = *option == OPTION_NOP ? 1 : bytes < 2 || option[1] < 2 ? bytes + 1 : option[1];

		if (length > bytes || *option == OPTION_LOOSE_ROUTE || *option == OPTION_STRICT_ROUTE)
			return false;
		option += length;
		bytes -= length;
	}
	return true;
}

/* Checks the header and removes Ethernet's padding; false: dropped and counted. */
static bool check_ip4_header(struct net *net, const struct net_interface *interface, struct rte_mbuf *m)
{
	const struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod(m, const struct rte_ipv4_hdr *);
	const uint16_t have = rte_pktmbuf_data_len(m);
	uint16_t header, total;

	if (have < sizeof(*ip)) {
		net->counters.eth_short++;
		return false;
	}
	header = rte_ipv4_hdr_len(ip);
	total = rte_be_to_cpu_16(ip->total_length);
	if (ip->version != 4 || header < sizeof(*ip) || header > have || total < header || total > have) {
		net->counters.ip_bad_header++;
		return false;
	}
	if (!net_ip4_checksum_holds(interface, m, ip, header)) {
		net->counters.ip_bad_checksum++;
		return false;
	}
	if (unlikely(header > sizeof(*ip)) && !options_fine((const uint8_t *)(ip + 1), header - sizeof(*ip))) {
		net->counters.ip_bad_header++;
		return false;
	}
	rte_pktmbuf_trim(m, have - total);
	return true;
}

void ip4_input(struct net *net, struct net_interface *interface, struct rte_mbuf *m)
{
	const struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod(m, const struct rte_ipv4_hdr *);
	struct net_packet p;

	if (!check_ip4_header(net, interface, m)) {
		rte_pktmbuf_free(m);
		return;
	}
	p = (struct net_packet){ .interface = interface,
				 .header = ip,
				 .from = net_address_v4(ip->src_addr),
				 .to = net_address_v4(ip->dst_addr),
				 .protocol = ip->next_proto_id,
				 .tos = ip->type_of_service };
	if (unlikely(!net_is_own(interface, &p.to)) && !net_is_ours(net, &p.to)) {
		NET_DROP(net, m, ip_not_mine);
		return;
	}
	if (!net_address_is_host(&p.from) || net_is_own(interface, &p.from)) {
		NET_DROP(net, m, ip_bad_source);
		return;
	}
	if (unlikely(ip->fragment_offset & RTE_BE16(RTE_IPV4_HDR_OFFSET_MASK | RTE_IPV4_HDR_MF_FLAG))) {
		net_reassembly_put4(net, m, &p);
		return;
	}
	rte_pktmbuf_adj(m, rte_ipv4_hdr_len(ip));
	switch (p.protocol) {
	case IPPROTO_TCP:
		tcp_input(net, m, &p);
		break;
	case IPPROTO_UDP:
		udp_input(net, m, &p);
		break;
	case IPPROTO_ICMP:
		icmp_input(net, m, &p);
		break;
	default:
		icmp_send_error(net, m, &p, ICMP_PROTOCOL_UNREACHABLE, 0);
		NET_DROP(net, m, ip_unknown_protocol);
	}
}
