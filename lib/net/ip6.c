/* SPDX-License-Identifier: BSD-3-Clause */
/* Received IPv6 packets, and their extension headers (RFC 8200). */
#include "net/ip6.h"

enum {
	EXTENSIONS_MAX = 8,
	EXTENSION_BYTES_MAX = 512, /* per packet, of all extension headers */
	OPTION_PAD1 = 0,
	OPTION_PADN = 1,
	OPTION_SKIP = 0, /* what to do about an unknown option, by its highest two bits (RFC 8200, 4.2) */
	OPTION_DROP = 1,
};

void ip6_walk_begin(struct ip6_walk *w, const struct rte_ipv6_hdr *ip, uint16_t have)
{
	*w = (struct ip6_walk){ .base = (const uint8_t *)ip,
				.at = sizeof(*ip),
				.end = have,
				.next = ip->proto,
				.named_at = offsetof(struct rte_ipv6_hdr, proto) };
}

enum ip6_step ip6_walk_step(struct ip6_walk *w)
{
	const uint8_t *header = w->base + w->at;
	uint16_t bytes = IP6_FRAGMENT_BYTES;

	w->type = w->next;
	if (w->type != IPPROTO_HOPOPTS && w->type != IPPROTO_ROUTING && w->type != IPPROTO_FRAGMENT &&
	    w->type != IPPROTO_DSTOPTS)
		return IP6_UPPER;
	/* Hop-by-hop options must come first (RFC 8200, 4.1). */
	if (++w->count > EXTENSIONS_MAX || (w->type == IPPROTO_HOPOPTS && w->count != 1) || w->at + 8 > w->end)
		return IP6_BAD;
	if (w->type != IPPROTO_FRAGMENT)
		bytes = (uint16_t)((header[1] + 1) * 8);
	if (w->at + bytes > w->end || w->at + bytes > sizeof(struct rte_ipv6_hdr) + EXTENSION_BYTES_MAX)
		return IP6_BAD;
	w->header = header;
	w->bytes = bytes;
	w->next = header[0];
	w->named_at = w->at;
	w->at += bytes;
	return IP6_EXTENSION;
}

bool ip6_is_atomic(const struct ip6_walk *w)
{
	return (w->header[2] << 8 | (w->header[3] & ~6)) == 0;
}

bool ip6_find_upper(struct ip6_walk *w, bool *fragment)
{
	enum ip6_step step;

	*fragment = false;
	while ((step = ip6_walk_step(w)) == IP6_EXTENSION)
		if (w->type == IPPROTO_FRAGMENT && !ip6_is_atomic(w)) {
			*fragment = true;
			return true;
		}
	return step == IP6_UPPER;
}

/* Our groups: all nodes, and the solicited-node groups of our addresses. */
static bool is_our_group(const struct net_interface *interface, const struct net_address *to)
{
	const struct net_address all = net_address_all_nodes();

	if (interface->addresses6_count && net_address_equal(to, &all))
		return true;
	for (unsigned i = 0; i < interface->addresses_count; i++) {
		const struct net_address group = net_address_solicited_node(&interface->addresses[i].address);

		if (!net_address_is_v4(&interface->addresses[i].address) && net_address_equal(to, &group))
			return true;
	}
	return false;
}

/* ::ffff:a.b.c.d stands for IPv4 addresses inside this stack, and must not appear in packets. */
static bool is_for_us(const struct net *net, const struct net_interface *interface, const struct net_address *to,
		      bool multicast)
{
	if (multicast)
		return is_our_group(interface, to);
	return !net_address_is_v4(to) &&
	       (net_is_own(interface, to) || (!net_address_is_link_local(to) && net_is_ours(net, to)));
}

/* Only duplicate address detection may use the unspecified address; nd.c checks that. */
static bool may_be_from(const struct net_interface *interface, const struct net_packet *p)
{
	if (net_address_is_none(&p->from))
		return net_address_is_multicast6(&p->to);
	return !net_address_is_v4(&p->from) && net_address_is_host(&p->from) && !net_is_own(interface, &p->from);
}

/* No option concerns a host that only terminates connections. False: the packet must be dropped, and its sender told if
 * the option says so. */
static bool options_fine(struct net *net, const struct rte_mbuf *m, const struct net_packet *p,
			 const struct ip6_walk *w)
{
	uint16_t at = 2;

	while (at < w->bytes) {
		const uint8_t type = w->header[at];

		if (type == OPTION_PAD1) {
			at++;
			continue;
		}
		if (at + 2 > w->bytes || at + 2 + w->header[at + 1] > w->bytes)
			return false;
		if (type != OPTION_PADN && type >> 6 != OPTION_SKIP) {
			if (type >> 6 != OPTION_DROP)
				icmp_send_error(net, m, p, ICMP6_UNKNOWN_OPTION, (uint32_t)(w->header - w->base) + at);
			return false;
		}
		at += 2 + w->header[at + 1];
	}
	return true;
}

/* Processes one extension header; false: the packet was dropped, or was taken for reassembly (m is then gone). */
static bool take_extension(struct net *net, struct rte_mbuf *m, const struct net_packet *p, const struct ip6_walk *w)
{
	switch (w->type) {
	case IPPROTO_HOPOPTS:
	case IPPROTO_DSTOPTS:
		if (options_fine(net, m, p, w))
			return true;
		break;
	/* we are not a router: with segments left the packet is refused, whatever the type (RFC 8200, 4.4) */
	case IPPROTO_ROUTING:
		if (w->header[3] == 0)
			return true;
		icmp_send_error(net, m, p, ICMP6_BAD_FIELD, (uint32_t)(w->header - w->base) + 2);
		break;
	default:
		if (ip6_is_atomic(w)) /* RFC 6946 */
			return true;
		net_reassembly_put6(net, m, p, w);
		return false;
	}
	NET_DROP(net, m, ip_bad_extension);
	return false;
}

static void deliver_ip6(struct net *net, struct rte_mbuf *m, struct net_packet *p, const struct ip6_walk *w)
{
	p->protocol = w->next;
	if (net_address_is_none(&p->from) && p->protocol != IPPROTO_ICMPV6) {
		NET_DROP(net, m, ip_bad_source);
		return;
	}
	switch (p->protocol) {
	case IPPROTO_TCP:
		rte_pktmbuf_adj(m, w->at);
		tcp_input(net, m, p);
		break;
	case IPPROTO_UDP:
		rte_pktmbuf_adj(m, w->at);
		udp_input(net, m, p);
		break;
	case IPPROTO_ICMPV6:
		rte_pktmbuf_adj(m, w->at);
		icmp6_input(net, m, p);
		break;
	default:
		if (p->protocol != IPPROTO_NONE)
			icmp_send_error(net, m, p, ICMP6_UNKNOWN_HEADER, w->named_at);
		NET_DROP(net, m, ip_unknown_protocol);
	}
}

void ip6_input(struct net *net, struct net_interface *interface, struct rte_mbuf *m, bool multicast)
{
	const struct rte_ipv6_hdr *ip = rte_pktmbuf_mtod(m, const struct rte_ipv6_hdr *);
	const uint16_t have = rte_pktmbuf_data_len(m);
	struct net_packet p;
	struct ip6_walk w;
	enum ip6_step step;
	uint16_t total;

	if (have < sizeof(*ip)) {
		NET_DROP(net, m, eth_short);
		return;
	}
	total = rte_be_to_cpu_16(ip->payload_len) + sizeof(*ip);
	if (rte_be_to_cpu_32(ip->vtc_flow) >> 28 != 6 || rte_be_to_cpu_16(ip->payload_len) > have - sizeof(*ip)) {
		NET_DROP(net, m, ip_bad_header);
		return;
	}
	p = (struct net_packet){ .interface = interface,
				 .header = ip,
				 .from = net_address_v6(ip->src_addr),
				 .to = net_address_v6(ip->dst_addr),
				 .tos = (uint8_t)(rte_be_to_cpu_32(ip->vtc_flow) >> 20) };
	if (!is_for_us(net, interface, &p.to, multicast)) {
		NET_DROP(net, m, ip_not_mine);
		return;
	}
	if (!may_be_from(interface, &p)) {
		NET_DROP(net, m, ip_bad_source);
		return;
	}
	rte_pktmbuf_trim(m, have - total);
	ip6_walk_begin(&w, ip, total);
	while (unlikely((step = ip6_walk_step(&w)) == IP6_EXTENSION))
		if (!take_extension(net, m, &p, &w))
			return;
	if (step == IP6_BAD) {
		NET_DROP(net, m, ip_bad_extension);
		return;
	}
	deliver_ip6(net, m, &p, &w);
}
