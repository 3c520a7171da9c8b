/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMPv6 (RFC 4443): answers echo requests, receives errors, and passes neighbour discovery its messages. */
#include "net/icmp.h"

enum {
	DESTINATION_UNREACHABLE = 1,
	PACKET_TOO_BIG = 2,
	TIME_EXCEEDED = 3,
	PARAMETER_PROBLEM = 4,
	ECHO_REQUEST = 128,
	ECHO_REPLY = 129,
};

static bool error_kind(const struct icmp_message *icmp, enum net_icmp_error *kind)
{
	static const uint8_t unreachable[] = {
		NET_ICMP_NET_UNREACHABLE,  NET_ICMP_PROHIBITED, NET_ICMP_HOST_UNREACHABLE, NET_ICMP_HOST_UNREACHABLE,
		NET_ICMP_PORT_UNREACHABLE, NET_ICMP_PROHIBITED, NET_ICMP_PROHIBITED,
	};

	switch (icmp->type) {
	case DESTINATION_UNREACHABLE:
		*kind = unreachable[RTE_MIN(icmp->code, (uint8_t)(RTE_DIM(unreachable) - 1))];
		return icmp->code < RTE_DIM(unreachable);
	case PACKET_TOO_BIG:
		*kind = NET_ICMP_TOO_BIG;
		return true;
	case TIME_EXCEEDED:
		*kind = NET_ICMP_TIME_EXCEEDED;
		return true;
	case PARAMETER_PROBLEM:
		*kind = icmp->code == 1 ? NET_ICMP_PROTOCOL_UNREACHABLE : NET_ICMP_PARAMETER_PROBLEM;
		return true;
	default:
		return false;
	}
}

void icmp6_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet)
{
	const struct icmp_message *icmp = rte_pktmbuf_mtod(m, const struct icmp_message *);
	const uint16_t bytes = rte_pktmbuf_data_len(m);
	const bool multicast = net_address_is_multicast6(&packet->to), nobody = net_address_is_none(&packet->from);
	enum net_icmp_error kind;
	struct icmp_quote quote;

	if (bytes < sizeof(*icmp) || !net_checksum_holds(packet, icmp, bytes)) {
		NET_DROP(net, m, icmp_bad);
		return;
	}
	if (icmp->type == ND_SOLICITATION || icmp->type == ND_ADVERTISEMENT) {
		nd_input(net, m, packet);
		return;
	}
	if (icmp->type == MLD_QUERY) {
		if (mld_query(net, packet, icmp, bytes))
			rte_pktmbuf_free(m);
		else
			NET_DROP(net, m, icmp_bad);
		return;
	}
	/* An echo request to a multicast group only serves to flood somebody. */
	if (icmp->type == ECHO_REQUEST && icmp->code == 0 && !multicast && !nobody) {
		icmp_echo(net, m, packet, ECHO_REPLY);
		return;
	}
	if (!multicast && !nobody && error_kind(icmp, &kind) &&
	    icmp_quote6((const uint8_t *)(icmp + 1), bytes - (uint16_t)sizeof(*icmp), &quote))
		icmp_act(net, packet, &quote, kind, kind == NET_ICMP_TOO_BIG ? rte_be_to_cpu_32(icmp->word) : 0);
	else
		net->counters.icmp_ignored++; /* this includes router advertisements and redirects */
	rte_pktmbuf_free(m);
}
