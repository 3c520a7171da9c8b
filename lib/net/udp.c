/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP (RFC 768). */
#include "net/internal.h"

#include <errno.h>

void udp_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet)
{
	const struct rte_udp_hdr *udp = rte_pktmbuf_mtod(m, const struct rte_udp_hdr *);
	const uint16_t have = rte_pktmbuf_data_len(m);
	uint16_t bytes;

	if (have < sizeof(*udp)) {
		NET_DROP(net, m, udp_bad);
		return;
	}
	bytes = rte_be_to_cpu_16(udp->dgram_len);
	if (bytes < sizeof(*udp) || bytes > have) {
		NET_DROP(net, m, udp_bad);
		return;
	}
	if (udp->dgram_cksum && !net_checksum_holds(packet, udp, bytes)) {
		NET_DROP(net, m, udp_bad);
		return;
	}
	for (unsigned i = 0; i < net->udp_ports_count; i++) {
		const struct udp_port *p = &net->udp_ports[i];

		if (p->port != rte_be_to_cpu_16(udp->dst_port))
			continue;
		net->counters.udp_in++;
		p->receive(p->ctx, net, &packet->from, udp->src_port, udp + 1, bytes - sizeof(*udp));
		rte_pktmbuf_free(m);
		return;
	}
	NET_DROP(net, m, udp_no_port);
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

int net_udp_send(struct net *net, uint16_t from_port, const struct net_address *address, rte_be16_t port,
		 const void *payload, uint16_t bytes)
{
	struct rte_udp_hdr *udp;
	struct rte_mbuf *m;
	struct net_path path;

	if (!net_path_find(net, address, NULL, &path))
		return -EHOSTUNREACH;
	if (bytes + net_path_header(&path) + sizeof(*udp) > path.mtu)
		return -EMSGSIZE;
	m = net_alloc(net);
	if (!m)
		return -ENOMEM;
	udp = (struct rte_udp_hdr *)rte_pktmbuf_append(m, sizeof(*udp) + bytes);
	memcpy(udp + 1, payload, bytes);
	udp->src_port = rte_cpu_to_be_16(from_port);
	udp->dst_port = port;
	udp->dgram_len = rte_cpu_to_be_16(bytes + sizeof(*udp));
	udp->dgram_cksum = 0;
	udp->dgram_cksum =
		(uint16_t)~checksum_transport(&path.local, &path.remote, IPPROTO_UDP, udp, bytes + sizeof(*udp));
	if (udp->dgram_cksum == 0)
		udp->dgram_cksum = 0xffff; /* 0 means none (RFC 768) */
	net->counters.udp_out++;
	net_send(net, &path, m, IPPROTO_UDP, 0);
	return 0;
}
