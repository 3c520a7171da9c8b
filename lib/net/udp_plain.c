/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of nearly all datagrams: IPv4 without options and fragments, untagged frames, known hosts. A received
 * datagram is checked once, and the headers of a sent one are copied from those that its flow has prepared. The checks
 * are those of the general path (input.c, ip4.c, udp.c; output.c), which handles everything else.
 */
#include "net/plain.h"

struct plain_headers {
	struct rte_ether_hdr eth;
	struct rte_ipv4_hdr ip;
	struct rte_udp_hdr udp;
};
_Static_assert(sizeof(struct plain_headers) == NET_UDP_PLAIN_HEADERS, "plain_headers");

/* ---- in ---- */

/* Remembers the sender, if its address can be a host's. */
static bool learn_sender(struct udp_last *last, rte_be32_t src)
{
	const struct net_address from = net_address_v4(src);

	if (!net_address_is_host(&from) || net_is_own(last->like.interface, &from))
		return false;
	last->address = (struct net_udp_address){ last->like.to, from, last->port.port, 0 };
	last->from = src;
	return true;
}

/* Whether a frame is for us at all; if so, frames like it are recognized from now on. */
static bool learn_flow(struct net *net, const struct rte_mbuf *frame)
{
	const struct plain_headers *h = rte_pktmbuf_mtod(frame, const struct plain_headers *);

	for (unsigned i = 0; i < net->udp_ports_count; i++)
		if (net->udp_ports[i].port == rte_be_to_cpu_16(h->udp.dst_port)) {
			if (!plain_learn(net, &net->udp_last.like, frame, PLAIN_UDP))
				return false;
			net->udp_last.port = net->udp_ports[i];
			if (learn_sender(&net->udp_last, h->ip.src_addr))
				return true;
			net->udp_last.like.interface = NULL;
			return false;
		}
	return false;
}

/* The sum is not 0, which means no checksum. */
static inline bool udp_sum_holds(const struct udp_last *last, const struct rte_mbuf *frame,
				 const struct plain_headers *h, uint16_t bytes)
{
	const struct net_packet packet = { .interface = last->like.interface,
					   .from = last->address.remote,
					   .to = last->like.to,
					   .protocol = IPPROTO_UDP };

	return net_checksum_seen_holds(&packet, frame, &h->udp, bytes);
}

bool udp_take_plain(struct net *net, struct rte_mbuf *frame)
{
	const struct plain_headers *h = rte_pktmbuf_mtod(frame, const struct plain_headers *);
	const uint16_t total = rte_be_to_cpu_16(h->ip.total_length), bytes = rte_be_to_cpu_16(h->udp.dgram_len);
	const uint8_t tos = h->ip.type_of_service;
	struct udp_last *last = &net->udp_last;

	if (unlikely(!plain_is_like(net, &last->like, frame, PLAIN_UDP)) && !learn_flow(net, frame))
		return false;
	if (unlikely(h->ip.src_addr != last->from) && !learn_sender(last, h->ip.src_addr))
		return false;
	if (unlikely(total < sizeof(h->ip) + sizeof(h->udp) || total + sizeof(h->eth) > frame->data_len ||
		     bytes != total - sizeof(h->ip) ||
		     !net_ip4_checksum_holds(last->like.interface, frame, &h->ip, sizeof(h->ip)) ||
		     (h->udp.dgram_cksum && !udp_sum_holds(last, frame, h, bytes))))
		return false;
	last->address.remote_port = rte_be_to_cpu_16(h->udp.src_port);
	net->counters.udp_in++;
	frame->data_off += (uint16_t)sizeof(*h);
	frame->data_len = (uint16_t)(bytes - sizeof(h->udp));
	frame->pkt_len = frame->data_len;
	last->port.receive(last->port.ctx, net, &last->address, frame, tos);
	return true;
}

void udp_fetch(const struct net *net, struct rte_mbuf **frames, unsigned n)
{
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned i = 0; i < n; i++) {
			const struct plain_headers *h = rte_pktmbuf_mtod(frames[i], const struct plain_headers *);

			if (frames[i]->data_len < sizeof(*h) || h->eth.ether_type != RTE_BE16(RTE_ETHER_TYPE_IPV4) ||
			    h->ip.version_ihl != RTE_IPV4_VHL_DEF || h->ip.next_proto_id != IPPROTO_UDP)
				continue;
			for (unsigned p = 0; p < net->udp_ports_count; p++)
				if (net->udp_ports[p].prefetch &&
				    net->udp_ports[p].port == rte_be_to_cpu_16(h->udp.dst_port))
					net->udp_ports[p].prefetch(net->udp_ports[p].ctx, h + 1,
								   frames[i]->data_len - (uint32_t)sizeof(*h), pass);
		}
}

/* ---- out ---- */

void udp_make_plain(struct net_udp_flow *flow)
{
	const struct net_path *path = &flow->path;
	const struct net_interface *interface = path->interface;
	struct plain_headers *h = (struct plain_headers *)flow->headers;

	if (!net_address_is_v4(&path->remote) || interface->options.vlan ||
	    interface->options.offloads & OFFLOAD_TX_CHECKSUMS || path->mtu != interface->options.mtu)
		return;
	*h = (struct plain_headers){
		.eth = { .src_addr = interface->options.mac, .ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4) },
		.ip = { .version_ihl = RTE_IPV4_VHL_DEF,
			.fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG),
			.time_to_live = NET_TTL,
			.next_proto_id = IPPROTO_UDP,
			.src_addr = net_address_to_v4(&path->local),
			.dst_addr = net_address_to_v4(&path->remote) },
		.udp = { .src_port = rte_cpu_to_be_16(flow->local_port),
			 .dst_port = rte_cpu_to_be_16(flow->remote_port) },
	};
	flow->ip_sum = checksum_ip4(&h->ip);
	flow->udp_sum = checksum_fold(checksum_pseudo(&path->local, &path->remote, IPPROTO_UDP, 0) + h->udp.src_port +
				      h->udp.dst_port);
	flow->hop = interface->last_neighbour;
}

bool udp_send_plain(struct net *net, struct net_udp_flow *flow, struct rte_mbuf *payload, uint8_t tos)
{
	const uint16_t bytes = (uint16_t)(payload->data_len + sizeof(struct rte_udp_hdr));
	const rte_be16_t udp_bytes = rte_cpu_to_be_16(bytes);
	const rte_be16_t ip_bytes = rte_cpu_to_be_16((uint16_t)(bytes + sizeof(struct rte_ipv4_hdr)));
	struct plain_headers *h;
	uint16_t sum = 0;

	if (unlikely(!flow->hop || flow->path_news != net->path_news ||
		     !neighbour_is_sure(net, flow->hop, &flow->path.next_hop) ||
		     bytes + sizeof(struct rte_ipv4_hdr) > flow->path.mtu))
		return false;
	if (!(flow->path.interface->options.offloads & OFFLOAD_MEMORY)) {
		sum = (uint16_t)~checksum_fold(checksum_add((uint64_t)flow->udp_sum + udp_bytes + udp_bytes,
							    rte_pktmbuf_mtod(payload, const void *),
							    payload->data_len));
		sum = sum ? sum : 0xffff; /* 0 means none (RFC 768) */
	}
	payload->data_off -= (uint16_t)sizeof(*h);
	payload->data_len += (uint16_t)sizeof(*h);
	payload->pkt_len = payload->data_len;
	payload->port = flow->path.interface->options.port;
	h = rte_pktmbuf_mtod(payload, struct plain_headers *);
	memcpy(h, flow->headers, sizeof(*h));
	h->eth.dst_addr = flow->hop->mac;
	h->ip.type_of_service = tos;
	h->ip.total_length = ip_bytes;
	/* In memory, type_of_service is the second byte of its word. */
	h->ip.hdr_checksum = (uint16_t)~checksum_fold((uint64_t)flow->ip_sum + ip_bytes + ((uint32_t)tos << 8));
	h->udp.dgram_len = udp_bytes;
	h->udp.dgram_cksum = sum;
	net->counters.udp_out++;
	net_transmit(net, payload);
	return true;
}
