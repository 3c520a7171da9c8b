/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reassembly of fragments, of both families, by DPDK's rte_ip_frag. That holds at most RTE_LIBRTE_IP_FRAG_MAX_FRAG (8)
 * fragments per packet, and drops a packet with overlapping, duplicate or too many fragments (RFC 5722). Added here are
 * the checks that it leaves to its user, and the limits: packets and mbufs per stack, 30 s from a packet's first
 * fragment, and the size of a packet. It must fit into one mbuf, which is more than the link's MTU (RFC 1122, 3.3.2;
 * RFC 8200, 5). A complete packet is received again like a frame, by this stack or by the one that it belongs to.
 */
#define ALLOW_EXPERIMENTAL_API /* rte_ip_frag_table_del_expired_entries */
#include "net/ip6.h"

#include <errno.h>

enum {
	TABLE_WAYS = 8,
	PACKETS_MIN = 8,
	PACKETS_MAX = 512,
	FRAGMENTS_PER_PACKET = RTE_LIBRTE_IP_FRAG_MAX_FRAG,
	UNIT = 8, /* unit of offsets */
	/* The first fragment must contain the ports, and TCP's whole fixed header, so that the next one cannot
	 * overwrite them (RFC 1858, RFC 3128). */
	TCP_SHOWN = sizeof(struct rte_tcp_hdr),
	OTHER_SHOWN = 8,
};

#define TIMEOUT_NS \
	(30000 * NET_MS) /* as Linux; with RFC 8200's 60 s an attacker could occupy the table twice as long */

int net_reassembly_init(struct net *net)
{
	struct reassembly *r = &net->reassembly;
	const uint32_t packets = net->options.reassembly_mbufs_max / FRAGMENTS_PER_PACKET;

	r->packets_max = packets < PACKETS_MIN ? PACKETS_MIN : RTE_MIN(packets, (uint32_t)PACKETS_MAX);
	r->table = rte_ip_frag_table_create(RTE_MAX(r->packets_max / TABLE_WAYS, 1u), TABLE_WAYS, r->packets_max,
					    TIMEOUT_NS, SOCKET_ID_ANY);
	return r->table ? 0 : -ENOMEM;
}

void net_reassembly_fini(struct net *net)
{
	rte_ip_frag_table_destroy(net->reassembly.table);
}

/* Frees what rte_ip_frag has dropped; those mbufs are no longer held. */
static void bury(struct net *net)
{
	struct rte_ip_frag_death_row *row = &net->reassembly.row;

	for (uint32_t i = 0; i < row->cnt; i++) {
		net->reassembly.mbufs -= row->row[i]->nb_segs;
		net->counters.ip_reasm_fails += row->row[i]->nb_segs;
	}
	rte_ip_frag_free_death_row(row, 0);
}

/* If a packet times out, its first fragment is returned in an ICMP error (RFC 792; RFC 4443, 3.3). */
static void tell_expired(struct net *net, struct rte_mbuf *m)
{
	const struct rte_ipv4_hdr *ip4 = rte_pktmbuf_mtod(m, const struct rte_ipv4_hdr *);
	const struct rte_ipv6_hdr *ip6 = rte_pktmbuf_mtod(m, const struct rte_ipv6_hdr *);
	struct net_packet p = { .header = ip4 };

	if (ip4->version == 4) {
		p.from = net_address_v4(ip4->src_addr);
		p.to = net_address_v4(ip4->dst_addr);
		if (ip4->fragment_offset & RTE_BE16(RTE_IPV4_HDR_OFFSET_MASK))
			return;
	} else {
		p.from = net_address_v6(ip6->src_addr);
		p.to = net_address_v6(ip6->dst_addr);
		if (((const struct rte_ipv6_fragment_ext *)(ip6 + 1))->frag_data &
		    RTE_BE16(UINT16_MAX << 3 & UINT16_MAX))
			return;
	}
	if (net_is_ours(net, &p.to)) /* the address may have been removed since */
		icmp_send_error(net, m, &p, ICMP_REASSEMBLY_TIME, 0);
}

void net_reassembly_timer_fire(struct wheel_timer *timer, uint64_t now_ns)
{
	struct net *net = (struct net *)((char *)timer - offsetof(struct net, reassembly.timer));
	struct reassembly *r = &net->reassembly;

	net->now_ns = now_ns;
	/* Terminates: each iteration frees a full death row of them, or finds none. */
	do {
		rte_ip_frag_table_del_expired_entries(r->table, &r->row, now_ns);
		if (r->row.cnt == 0)
			break;
		for (uint32_t i = 0; i < r->row.cnt; i++)
			tell_expired(net, r->row.row[i]);
		net->counters.ip_reasm_timeouts += r->row.cnt;
		bury(net);
	} while (r->mbufs);
	if (r->mbufs)
		wheel_arm(&net->wheel, timer, now_ns + TIMEOUT_NS / 4);
}

static bool upper_is_shown(uint8_t protocol, const uint8_t *upper, uint16_t bytes)
{
	/* Neighbour discovery is never fragmented (RFC 6980). */
	if (protocol == IPPROTO_ICMPV6 && bytes && upper[0] >= 133 && upper[0] <= 137)
		return false;
	return bytes >= (protocol == IPPROTO_TCP ? (uint16_t)TCP_SHOWN : (uint16_t)OTHER_SHOWN);
}

/* Whether a fragment of n bytes at an offset can belong to a packet that we accept. */
static bool fragment_fits(const struct net *net, uint32_t offset, uint32_t bytes, bool more, uint32_t headers)
{
	const uint32_t room = rte_pktmbuf_data_room_size(net->memory.pool) - RTE_PKTMBUF_HEADROOM;

	return (!more || bytes % UNIT == 0) && headers + offset + bytes <= RTE_MIN(room, (uint32_t)UINT16_MAX);
}

/* Whether there is room for one more fragment; true: the table holds it from now on. */
static bool hold(struct net *net)
{
	struct reassembly *r = &net->reassembly;

	if (r->mbufs >= net->options.reassembly_mbufs_max)
		return false;
	r->mbufs++;
	if (!wheel_armed(&r->timer))
		wheel_arm(&net->wheel, &r->timer, net->now_ns + TIMEOUT_NS);
	return true;
}

/* Copies the chain into one mbuf; NULL: it does not fit, or there is no mbuf. Owns the chain. */
static struct rte_mbuf *flatten(struct net *net, struct rte_mbuf *chain)
{
	struct rte_mbuf *flat = net_alloc(net);

	if (flat && rte_pktmbuf_pkt_len(chain) > rte_pktmbuf_tailroom(flat)) {
		rte_pktmbuf_free(flat);
		flat = NULL;
	}
	for (const struct rte_mbuf *m = chain; m && flat; m = m->next)
		memcpy(rte_pktmbuf_append(flat, m->data_len), rte_pktmbuf_mtod(m, const void *), m->data_len);
	rte_pktmbuf_free(chain);
	return flat;
}

/*
 * Continues with the result of a fragment: nothing yet, or a complete packet, chained, which starts at its IP header.
 */
static void go_on(struct net *net, struct net_interface *interface, struct rte_mbuf *packet, rte_be16_t type)
{
	struct rte_ether_hdr *eth;

	if (packet)
		net->reassembly.mbufs -= packet->nb_segs;
	bury(net);
	if (!packet)
		return;
	packet = flatten(net, packet);
	if (!packet) {
		net->counters.ip_reasm_fails++;
		return;
	}
	net->counters.ip_reasm_oks++;
	if (type == RTE_BE16(RTE_ETHER_TYPE_IPV4)) {
		struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod(packet, struct rte_ipv4_hdr *);

		ip->hdr_checksum = 0;
		ip->hdr_checksum = (uint16_t)~checksum_fold(checksum_add(0, ip, rte_ipv4_hdr_len(ip)));
	}
	eth = (struct rte_ether_hdr *)rte_pktmbuf_prepend(packet, sizeof(*eth));
	eth->dst_addr = eth->src_addr = interface->options.mac;
	eth->ether_type = type;
	packet->port = interface->options.port;
	if (interface->options.vlan) {
		packet->vlan_tci = interface->options.vlan;
		packet->ol_flags = RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
	}
	if (!net->options.reassembled || !net->options.reassembled(net->options.reassembled_ctx, packet))
		net_frame_input(net, packet);
}

void net_reassembly_put4(struct net *net, struct rte_mbuf *m, const struct net_packet *p)
{
	struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod(m, struct rte_ipv4_hdr *);
	const uint16_t field = rte_be_to_cpu_16(ip->fragment_offset), header = rte_ipv4_hdr_len(ip);
	const uint16_t offset = (field & RTE_IPV4_HDR_OFFSET_MASK) * UNIT;
	const uint16_t bytes = rte_pktmbuf_data_len(m) - header;
	const bool more = field & RTE_IPV4_HDR_MF_FLAG;

	net->counters.ip_reasm_reqds++;
	if (!fragment_fits(net, offset, bytes, more, header) ||
	    (offset == 0 && !upper_is_shown(p->protocol, (const uint8_t *)ip + header, bytes)) ||
	    (offset == UNIT && p->protocol == IPPROTO_TCP) || !hold(net)) {
		NET_DROP(net, m, ip_reasm_fails);
		return;
	}
	m->l2_len = 0;
	m->l3_len = header;
	m = rte_ipv4_frag_reassemble_packet(net->reassembly.table, &net->reassembly.row, m, net->now_ns, ip);
	go_on(net, p->interface, m, RTE_BE16(RTE_ETHER_TYPE_IPV4));
}

/* The first fragment must contain all headers up to the upper layer's (RFC 7112), and none of them may be another
 * fragment header. */
static bool chain_is_shown(const struct ip6_walk *at_fragment)
{
	struct ip6_walk w = *at_fragment;
	enum ip6_step step;

	while ((step = ip6_walk_step(&w)) == IP6_EXTENSION)
		if (w.type == IPPROTO_FRAGMENT)
			return false;
	return step == IP6_UPPER && upper_is_shown(w.next, w.base + w.at, w.end - w.at);
}

void net_reassembly_put6(struct net *net, struct rte_mbuf *m, const struct net_packet *p, const struct ip6_walk *w)
{
	const uint16_t field = (uint16_t)(w->header[2] << 8 | w->header[3]), offset = field & (UINT16_MAX << 3);
	const uint16_t before = (uint16_t)(w->header - w->base) - (uint16_t)sizeof(struct rte_ipv6_hdr);
	const uint16_t bytes = w->end - w->at;
	struct rte_ipv6_hdr *ip;

	net->counters.ip_reasm_reqds++;
	if (!fragment_fits(net, offset, bytes, field & 1, sizeof(*ip)) || (offset == 0 && !chain_is_shown(w)) ||
	    !hold(net)) {
		NET_DROP(net, m, ip_reasm_fails);
		return;
	}
	/* The headers before the fragment header have been processed, and are not needed any more. */
	ip = (struct rte_ipv6_hdr *)memmove((uint8_t *)rte_pktmbuf_mtod(m, uint8_t *) + before,
					    rte_pktmbuf_mtod(m, uint8_t *), sizeof(*ip));
	rte_pktmbuf_adj(m, before);
	ip->proto = IPPROTO_FRAGMENT;
	ip->payload_len = rte_cpu_to_be_16(bytes + IP6_FRAGMENT_BYTES);
	m->l2_len = 0;
	m->l3_len = sizeof(*ip) + IP6_FRAGMENT_BYTES;
	m = rte_ipv6_frag_reassemble_packet(net->reassembly.table, &net->reassembly.row, m, net->now_ns, ip,
					    (struct rte_ipv6_fragment_ext *)(ip + 1));
	go_on(net, p->interface, m, RTE_BE16(RTE_ETHER_TYPE_IPV6));
}
