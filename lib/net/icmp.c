/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP (RFC 792, RFC 1122, 3.2.2): answers echo requests, and receives errors. */
#include "net/icmp.h"

enum {
	DESTINATION_UNREACHABLE = 3,
	TIME_EXCEEDED = 11,
	PARAMETER_PROBLEM = 12,
	PROTOCOL_UNREACHABLE = 2,
	PORT_UNREACHABLE = 3,
	FRAGMENTATION_NEEDED = 4,
};

/* RFC 1122, 3.2.2.1; source quench is deprecated (RFC 6633), and redirects are ignored. */
static bool error_kind(const struct icmp_message *icmp, enum net_icmp_error *kind)
{
	static const uint8_t unreachable[] = {
		NET_ICMP_NET_UNREACHABLE,  NET_ICMP_HOST_UNREACHABLE, NET_ICMP_PROTOCOL_UNREACHABLE,
		NET_ICMP_PORT_UNREACHABLE, NET_ICMP_TOO_BIG,	      NET_ICMP_HOST_UNREACHABLE /* by source route */,
		NET_ICMP_NET_UNREACHABLE,  NET_ICMP_HOST_UNREACHABLE, NET_ICMP_HOST_UNREACHABLE,
		NET_ICMP_PROHIBITED,	   NET_ICMP_PROHIBITED,	      NET_ICMP_NET_UNREACHABLE,
		NET_ICMP_HOST_UNREACHABLE, NET_ICMP_PROHIBITED,	      NET_ICMP_PROHIBITED,
		NET_ICMP_PROHIBITED,
	};

	switch (icmp->type) {
	case DESTINATION_UNREACHABLE:
		*kind = unreachable[RTE_MIN(icmp->code, (uint8_t)(RTE_DIM(unreachable) - 1))];
		return icmp->code < RTE_DIM(unreachable);
	case TIME_EXCEEDED:
		*kind = NET_ICMP_TIME_EXCEEDED;
		return true;
	case PARAMETER_PROBLEM:
		*kind = NET_ICMP_PARAMETER_PROBLEM;
		return true;
	default:
		return false;
	}
}

/* The MTU of the next hop. A router that does not know RFC 1191 does not report it; then the next lower usual value is
 * taken (its section 5). */
static uint32_t next_hop_mtu(const struct icmp_message *icmp, const struct icmp_quote *quote)
{
	static const uint16_t plateaus[] = { 32000, 17914, 8166, 4352, 2002, 1492, 1006, NET_MTU4_MIN };
	const uint16_t mtu = rte_be_to_cpu_32(icmp->word) & UINT16_MAX;

	for (size_t i = 0; mtu == 0 && i < RTE_DIM(plateaus); i++)
		if (plateaus[i] < quote->total)
			return plateaus[i];
	return mtu;
}

void icmp_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet)
{
	const struct icmp_message *icmp = rte_pktmbuf_mtod(m, const struct icmp_message *);
	const uint16_t bytes = rte_pktmbuf_data_len(m);
	enum net_icmp_error kind;
	struct icmp_quote quote;

	if (bytes < sizeof(*icmp) || checksum_fold(checksum_add(0, icmp, bytes)) != 0xffff) {
		NET_DROP(net, m, icmp_bad);
		return;
	}
	if (icmp->type == RTE_IP_ICMP_ECHO_REQUEST && icmp->code == 0) {
		icmp_echo(net, m, packet, RTE_IP_ICMP_ECHO_REPLY);
		return;
	}
	if (error_kind(icmp, &kind) &&
	    icmp_quote4((const uint8_t *)(icmp + 1), bytes - (uint16_t)sizeof(*icmp), &quote))
		icmp_act(net, packet, &quote, kind, kind == NET_ICMP_TOO_BIG ? next_hop_mtu(icmp, &quote) : 0);
	else
		net->counters.icmp_ignored++;
	rte_pktmbuf_free(m);
}
