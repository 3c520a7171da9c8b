/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP (RFC 768). */
#include "net/internal.h"

#include <errno.h>

void udp_input(struct net *net, struct rte_mbuf *packet, const struct rte_ipv4_hdr *ip)
{
	const struct rte_udp_hdr *udp = rte_pktmbuf_mtod(packet, const struct rte_udp_hdr *);
	const uint16_t have = rte_pktmbuf_data_len(packet);
	uint16_t bytes;

	if (have < sizeof(*udp)) {
		NET_DROP(net, packet, udp_bad);
		return;
	}
	bytes = rte_be_to_cpu_16(udp->dgram_len);
	if (bytes < sizeof(*udp) || bytes > have) {
		NET_DROP(net, packet, udp_bad);
		return;
	}
	if (udp->dgram_cksum && !net_checksum_holds(ip, udp, bytes)) {
		NET_DROP(net, packet, udp_bad);
		return;
	}
	for (unsigned i = 0; i < net->udp_ports_count; i++) {
		const struct udp_port *p = &net->udp_ports[i];

		if (p->port != rte_be_to_cpu_16(udp->dst_port))
			continue;
		net->counters.udp_in++;
		p->receive(p->ctx, net, ip->src_addr, udp->src_port, udp + 1, bytes - sizeof(*udp));
		rte_pktmbuf_free(packet);
		return;
	}
	NET_DROP(net, packet, udp_no_port);
}

int net_udp_bind(struct net *net, uint16_t port, net_udp_receive *receive, void *ctx)
{
	for (unsigned i = 0; i < net->udp_ports_count; i++)
		if (net->udp_ports[i].port == port)
			return -EADDRINUSE;
	if (net->udp_ports_count == NET_UDP_PORTS_MAX)
		return -ENOSPC;
	net->udp_ports[net->udp_ports_count++] = (struct udp_port){ port, receive, ctx };
	return 0;
}

int net_udp_send(struct net *net, uint16_t from_port, rte_be32_t address, rte_be16_t port, const void *payload,
		 uint16_t bytes)
{
	rte_be32_t next_hop;
	struct net_interface *interface = net_route(net, address, &next_hop);
	struct rte_ipv4_hdr *ip;
	struct rte_udp_hdr *udp;
	struct rte_mbuf *packet;

	if (!interface)
		return -EHOSTUNREACH;
	if (bytes + sizeof(*ip) + sizeof(*udp) > interface->options.mtu)
		return -EMSGSIZE;
	packet = net_alloc(net);
	if (!packet)
		return -ENOMEM;
	ip = (struct rte_ipv4_hdr *)rte_pktmbuf_append(packet, sizeof(*ip) + sizeof(*udp) + bytes);
	udp = (struct rte_udp_hdr *)(ip + 1);
	memcpy(udp + 1, payload, bytes);
	net_fill_ip(net, ip, IPPROTO_UDP, interface->options.address, address, rte_pktmbuf_data_len(packet));
	udp->src_port = rte_cpu_to_be_16(from_port);
	udp->dst_port = port;
	udp->dgram_len = rte_cpu_to_be_16(bytes + sizeof(*udp));
	udp->dgram_cksum = 0;
	udp->dgram_cksum = (uint16_t)~checksum_transport(ip->src_addr, address, IPPROTO_UDP, udp, bytes + sizeof(*udp));
	if (udp->dgram_cksum == 0)
		udp->dgram_cksum = 0xffff; /* 0 means none (RFC 768) */
	net->counters.udp_out++;
	net_send_ip(net, interface, packet, next_hop);
	return 0;
}
