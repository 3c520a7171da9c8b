/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of nearly all segments: existing connections, IPv4 without options and fragments, untagged frames. A
 * received segment is checked once, and a sent one gets all its headers at once. The checks are those of the general
 * path (input.c, ip4.c, tcp_input.c; output.c), which handles everything else.
 */
#include "net/plain.h"
#include "net/tcp_internal.h"

struct plain_headers {
	struct rte_ether_hdr eth;
	struct rte_ipv4_hdr ip;
};

/* ---- in ---- */

/* The connection of a segment that only acknowledges and brings data; NULL: it is something else, or its connection is
 * being opened or in TIME_WAIT. */
static struct tcp_conn *find_conn_of(struct net *net, const struct net_packet *packet, const struct rte_tcp_hdr *tcp)
{
	struct tcp_conn *conn;

	if ((tcp->tcp_flags & (RTE_TCP_SYN_FLAG | RTE_TCP_RST_FLAG | RTE_TCP_ACK_FLAG)) != RTE_TCP_ACK_FLAG)
		return NULL;
	conn = tcp_find(net, &packet->to, tcp->dst_port, &packet->from, tcp->src_port);
	return conn && conn->state >= TCP_ESTABLISHED && conn->state < TCP_TIME_WAIT ? conn : NULL;
}

bool tcp_take_plain(struct net *net, struct rte_mbuf *frame)
{
	const struct plain_headers *h = rte_pktmbuf_mtod(frame, const struct plain_headers *);
	const struct rte_tcp_hdr *tcp = (const struct rte_tcp_hdr *)(h + 1);
	const struct plain_like *like = &net->tcp_last;
	struct net_packet packet;
	struct tcp_segment s;
	struct tcp_conn *conn;
	uint16_t total, bytes, header;

	if (unlikely(frame->data_len < sizeof(*h) + sizeof(*tcp)) ||
	    (unlikely(!plain_is_like(net, like, frame, PLAIN_TCP)) &&
	     !plain_learn(net, &net->tcp_last, frame, PLAIN_TCP)))
		return false;
	total = rte_be_to_cpu_16(h->ip.total_length);
	header = (uint16_t)((tcp->data_off >> 4) * 4);
	if (unlikely(total < sizeof(h->ip) + sizeof(*tcp) || total + sizeof(h->eth) > frame->data_len))
		return false;
	bytes = (uint16_t)(total - sizeof(h->ip));
	packet = (struct net_packet){ .interface = like->interface,
				      .header = &h->ip,
				      .from = net_address_v4(h->ip.src_addr),
				      .to = like->to,
				      .protocol = IPPROTO_TCP,
				      .tos = h->ip.type_of_service };
	if (unlikely(header < sizeof(*tcp) || header > bytes || !net_address_is_host(&packet.from) ||
		     net_is_own(like->interface, &packet.from)))
		return false;
	conn = find_conn_of(net, &packet, tcp);
	if (unlikely(!conn || !net_ip4_checksum_holds(like->interface, frame, &h->ip, sizeof(h->ip)) ||
		     !net_checksum_seen_holds(&packet, frame, tcp, bytes) ||
		     !tcp_segment_read(&s, &packet, frame, tcp, bytes)))
		return false;
	net->counters.tcp_in++;
	net->counters.tcp_urgent += !!(s.flags & RTE_TCP_URG_FLAG);
	frame->data_off = (uint16_t)(frame->data_off + sizeof(*h) + header);
	frame->data_len = (uint16_t)s.bytes;
	frame->pkt_len = s.bytes;
	if (!tcp_conn_input(conn, &s))
		rte_pktmbuf_free(frame);
	return true;
}

/* ---- out ---- */

bool tcp_send_plain(struct net *net, const struct net_path *path, struct rte_mbuf *segment, uint8_t tos)
{
	struct net_interface *interface = path->interface;
	const struct neighbour *hop = interface->last_neighbour;
	const uint16_t bytes = segment->data_len;
	struct rte_tcp_hdr *tcp = rte_pktmbuf_mtod(segment, struct rte_tcp_hdr *);
	struct plain_headers *h = (struct plain_headers *)((char *)tcp - sizeof(*h));

	if (unlikely(!net_address_is_v4(&path->remote) || interface->options.vlan ||
		     interface->options.offloads & OFFLOAD_TX_CHECKSUMS || segment->nb_segs != 1 ||
		     segment->ol_flags & RTE_MBUF_F_TX_TCP_SEG || bytes + sizeof(h->ip) > path->mtu ||
		     segment->data_off < sizeof(*h) || !hop || !neighbour_is_sure(net, hop, &path->next_hop)))
		return false;
	tcp->cksum = (uint16_t)~checksum_fold(
		checksum_add(checksum_pseudo(&path->local, &path->remote, IPPROTO_TCP, bytes), tcp, bytes));
	segment->data_off -= (uint16_t)sizeof(*h);
	segment->data_len += (uint16_t)sizeof(*h);
	segment->pkt_len = segment->data_len;
	segment->port = interface->options.port;
	h->eth = (struct rte_ether_hdr){ .dst_addr = hop->mac,
					 .src_addr = interface->options.mac,
					 .ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4) };
	h->ip = (struct rte_ipv4_hdr){ .version_ihl = RTE_IPV4_VHL_DEF,
				       .type_of_service = tos,
				       .total_length = rte_cpu_to_be_16((uint16_t)(bytes + sizeof(h->ip))),
				       .fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG),
				       .time_to_live = NET_TTL,
				       .next_proto_id = IPPROTO_TCP,
				       .src_addr = net_address_to_v4(&path->local),
				       .dst_addr = net_address_to_v4(&path->remote) };
	h->ip.hdr_checksum = (uint16_t)~checksum_ip4(&h->ip);
	net_transmit(net, segment);
	return true;
}
