/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ICMP errors, of both families, received and sent. Received ones are not trusted: only those about packets in flight
 * have an effect. Sent ones are rate-limited, so that nobody can make us flood a third party.
 */
#include "net/icmp.h"
#include "net/ip6.h"

enum {
	ERRORS_PER_SECOND = 100,
	ERRORS_BURST = 50,
	QUOTE4_MAX = 576 - sizeof(struct rte_ipv4_hdr) - ICMP_HEADER_BYTES,	     /* RFC 1812, 4.3.2.3 */
	QUOTE6_MAX = NET_MTU6_MIN - sizeof(struct rte_ipv6_hdr) - ICMP_HEADER_BYTES, /* RFC 4443, 2.4 (c) */
};

/* ---- in ---- */

bool icmp_quote4(const uint8_t *quoted, uint16_t bytes, struct icmp_quote *q)
{
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)quoted;
	uint16_t header;

	if (bytes < sizeof(*ip) || ip->version != 4)
		return false;
	header = rte_ipv4_hdr_len(ip);
	if (header < sizeof(*ip) || bytes < header + ICMP_QUOTED_BYTES ||
	    ip->fragment_offset & RTE_BE16(RTE_IPV4_HDR_OFFSET_MASK))
		return false;
	*q = (struct icmp_quote){ .from = net_address_v4(ip->src_addr),
				  .to = net_address_v4(ip->dst_addr),
				  .protocol = ip->next_proto_id,
				  .total = rte_be_to_cpu_16(ip->total_length),
				  .upper = quoted + header,
				  .upper_bytes = bytes - header };
	return true;
}

bool icmp_quote6(const uint8_t *quoted, uint16_t bytes, struct icmp_quote *q)
{
	const struct rte_ipv6_hdr *ip = (const struct rte_ipv6_hdr *)quoted;
	struct ip6_walk w;
	bool fragment;

	if (bytes < sizeof(*ip) || rte_be_to_cpu_32(ip->vtc_flow) >> 28 != 6)
		return false;
	ip6_walk_begin(&w, ip, bytes);
	if (!ip6_find_upper(&w, &fragment) || fragment || w.at + ICMP_QUOTED_BYTES > bytes)
		return false;
	*q = (struct icmp_quote){ .from = net_address_v6(ip->src_addr),
				  .to = net_address_v6(ip->dst_addr),
				  .protocol = w.next,
				  .total = (uint16_t)RTE_MIN(rte_be_to_cpu_16(ip->payload_len) + sizeof(*ip),
							     (size_t)UINT16_MAX),
				  .upper = quoted + w.at,
				  .upper_bytes = (uint16_t)(bytes - w.at) };
	return true;
}

/* An error about a datagram. Its sender decides whether to believe it, as only the sender knows what was sent. */
static bool udp_icmp_error(struct net *net, const struct net_udp_address *address, const struct icmp_quote *q,
			   enum net_icmp_error kind)
{
	for (unsigned i = 0; i < net->udp_ports_count; i++) {
		const struct udp_port port = net->udp_ports[i];

		if (port.port != address->local_port)
			continue;
		if (!port.quoted || (kind != NET_ICMP_PORT_UNREACHABLE && kind != NET_ICMP_TOO_BIG))
			return false;
		return port.quoted(port.ctx, net, address, q->upper + sizeof(struct rte_udp_hdr),
				   q->upper_bytes - (uint32_t)sizeof(struct rte_udp_hdr),
				   kind == NET_ICMP_PORT_UNREACHABLE);
	}
	return false;
}

void icmp_act(struct net *net, const struct net_packet *packet, const struct icmp_quote *q, enum net_icmp_error kind,
	      uint32_t mtu)
{
	struct {
		rte_be16_t from_port, to_port;
		rte_be32_t seq;
	} upper;
	bool believed = false;

	memcpy(&upper, q->upper, sizeof(upper));
	/* An error must be addressed to the sender of the quoted packet. */
	if (!net_address_equal(&q->from, &packet->to) || !net_is_ours(net, &q->from)) {
		net->counters.icmp_ignored++;
		return;
	}
	/* An MTU that no router may report, or one that would not have stopped the packet. */
	if (kind == NET_ICMP_TOO_BIG && (mtu < net_mtu_min(&q->to) || mtu >= q->total)) {
		net->counters.pmtu_refused++;
		return;
	}
	if (q->protocol == IPPROTO_TCP)
		believed = tcp_icmp_error(net, &q->from, upper.from_port, &q->to, upper.to_port,
					  rte_be_to_cpu_32(upper.seq), kind, (uint16_t)mtu);
	else if (q->protocol == IPPROTO_UDP)
		believed = udp_icmp_error(net,
					  &(struct net_udp_address){ q->from, q->to, rte_be_to_cpu_16(upper.from_port),
								     rte_be_to_cpu_16(upper.to_port) },
					  q, kind);
	if (!believed) {
		net->counters.icmp_ignored++;
		return;
	}
	net->counters.icmp_in_errors++;
	if (kind == NET_ICMP_TOO_BIG)
		net_pmtu_learn(net, &q->to, (uint16_t)mtu);
}

/* ---- out ---- */

static const struct {
	uint8_t type4, code4, type6, code6; /* type 0: there is no such error in this family */
} errors[] = {
	[ICMP_PROTOCOL_UNREACHABLE] = { 3, 2, 0, 0 }, [ICMP_PORT_UNREACHABLE] = { 3, 3, 1, 4 },
	[ICMP_REASSEMBLY_TIME] = { 11, 1, 3, 1 },     [ICMP6_BAD_FIELD] = { 0, 0, 4, 0 },
	[ICMP6_UNKNOWN_HEADER] = { 0, 0, 4, 1 },      [ICMP6_UNKNOWN_OPTION] = { 0, 0, 4, 2 },
};

/* An error about an error could go on for ever (RFC 1122, 3.2.2; RFC 4443, 2.4 (e)). Error types of ICMPv6 are below
 * 128. */
static bool is_error(const uint8_t *quoted, uint16_t bytes, bool v4)
{
	struct icmp_quote q;

	if (v4)
		return icmp_quote4(quoted, bytes, &q) && q.protocol == IPPROTO_ICMP &&
		       q.upper[0] != RTE_IP_ICMP_ECHO_REQUEST;
	return icmp_quote6(quoted, bytes, &q) && q.protocol == IPPROTO_ICMPV6 && q.upper[0] < 128;
}

void icmp_send_error(struct net *net, const struct rte_mbuf *m, const struct net_packet *packet,
		     enum icmp_error_out what, uint32_t word)
{
	const bool v4 = net_address_is_v4(&packet->from);
	const uint8_t *quoted = packet->header, *end = rte_pktmbuf_mtod(m, const uint8_t *) + rte_pktmbuf_data_len(m);
	const uint16_t bytes = (uint16_t)RTE_MIN(end - quoted, v4 ? (long)QUOTE4_MAX : (long)QUOTE6_MAX);
	struct icmp_message *icmp;
	struct rte_mbuf *out;
	struct net_path path;

	if (net_address_is_multicast6(&packet->to) || is_error(quoted, bytes, v4) ||
	    !net_path_find(net, &packet->from, &packet->to, &path))
		return;
	if (!bucket_take(&net->icmp_errors, net->now_ns, ERRORS_PER_SECOND, ERRORS_BURST)) {
		net->counters.icmp_limited++;
		return;
	}
	out = net_alloc(net);
	if (!out)
		return;
	icmp = (struct icmp_message *)rte_pktmbuf_append(out, sizeof(*icmp) + bytes);
	*icmp = (struct icmp_message){ .type = v4 ? errors[what].type4 : errors[what].type6,
				       .code = v4 ? errors[what].code4 : errors[what].code6,
				       .word = rte_cpu_to_be_32(word) };
	memcpy(icmp + 1, quoted, bytes);
	if (v4)
		icmp->checksum = (uint16_t)~checksum_fold(checksum_add(0, icmp, sizeof(*icmp) + bytes));
	else
		icmp->checksum = (uint16_t)~checksum_transport(&path.local, &path.remote, IPPROTO_ICMPV6, icmp,
							       sizeof(*icmp) + bytes);
	net->counters.icmp_out_errors++;
	net_send(net, &path, out, v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6, 0);
}

void icmp_echo(struct net *net, struct rte_mbuf *m, const struct net_packet *packet, uint8_t type)
{
	struct icmp_message *icmp = rte_pktmbuf_mtod(m, struct icmp_message *);
	const uint16_t bytes = rte_pktmbuf_data_len(m);
	struct net_path path;

	if (!net_path_find(net, &packet->from, &packet->to, &path)) {
		NET_DROP(net, m, ip_no_route);
		return;
	}
	net->counters.icmp_echos++;
	icmp->type = type;
	icmp->checksum = 0;
	if (net_address_is_v4(&path.remote))
		icmp->checksum = (uint16_t)~checksum_fold(checksum_add(0, icmp, bytes));
	else
		icmp->checksum = (uint16_t)~checksum_transport(&path.local, &path.remote, IPPROTO_ICMPV6, icmp, bytes);
	/* The reply uses the request's mbuf, with its headers in place of the old ones. */
	net_send(net, &path, m, packet->protocol, 0);
}
