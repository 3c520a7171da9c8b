/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP (RFC 768), over both families (RFC 8200, 8.1). */
#include "net/internal.h"

#include <errno.h>

/* The datagram's length; 0: it is malformed or corrupted. */
static uint16_t udp_checksum(const struct rte_mbuf *m, const struct net_packet *packet)
{
	const struct rte_udp_hdr *udp = rte_pktmbuf_mtod(m, const struct rte_udp_hdr *);
	const uint16_t have = rte_pktmbuf_data_len(m);
	uint16_t bytes;

	if (have < sizeof(*udp))
		return 0;
	bytes = rte_be_to_cpu_16(udp->dgram_len);
	if (bytes < sizeof(*udp) || bytes > have)
		return 0;
	if (udp->dgram_cksum == 0) /* only IPv4 allows datagrams without a checksum */
		return net_address_is_v4(&packet->from) ? bytes : 0;
	return net_checksum_seen_holds(packet, m, udp, bytes) ? bytes : 0;
}

void udp_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet)
{
	const struct rte_udp_hdr *udp = rte_pktmbuf_mtod(m, const struct rte_udp_hdr *);
	const uint16_t bytes = udp_checksum(m, packet);

	if (bytes == 0) {
		NET_DROP(net, m, udp_bad);
		return;
	}
	if (net_address_is_multicast6(&packet->to)) {
		NET_DROP(net, m, udp_no_port);
		return;
	}
	for (unsigned i = 0; i < net->udp_ports_count; i++) {
		const struct udp_port *p = &net->udp_ports[i];
		const struct net_udp_address address = { packet->to, packet->from, rte_be_to_cpu_16(udp->dst_port),
							 rte_be_to_cpu_16(udp->src_port) };

		if (p->port != address.local_port)
			continue;
		net->counters.udp_in++;
		rte_pktmbuf_adj(m, sizeof(*udp));
		m->data_len = (uint16_t)(bytes - sizeof(*udp));
		m->pkt_len = m->data_len;
		p->receive(p->ctx, net, &address, m, packet->tos);
		return;
	}
	icmp_send_error(net, m, packet, ICMP_PORT_UNREACHABLE, 0);
	NET_DROP(net, m, udp_no_port);
}

/* 0 means no checksum: IPv4 allows it (RFC 768; IPv6 does not: RFC 8200, 8.1), and frames in shared memory need
 * none. */
static inline uint16_t checksum_of(const struct net_path *path, struct rte_mbuf *m)
{
	uint16_t sum;

	if (path->interface->options.offloads & OFFLOAD_MEMORY && net_address_is_v4(&path->remote))
		return 0;
	sum = net_checksum_to_send(path, m, IPPROTO_UDP, sizeof(struct rte_udp_hdr));
	return sum ? sum : 0xffff;
}

/* m's data starts with udp, followed by its payload. */
static inline void send_datagram(struct net *net, const struct net_path *path, uint16_t from_port, uint16_t to_port,
				 struct rte_mbuf *m, struct rte_udp_hdr *udp, uint8_t tos)
{
	const uint16_t bytes = rte_pktmbuf_data_len(m);

	udp->src_port = rte_cpu_to_be_16(from_port);
	udp->dst_port = rte_cpu_to_be_16(to_port);
	udp->dgram_len = rte_cpu_to_be_16(bytes);
	udp->dgram_cksum = 0;
	udp->dgram_cksum = checksum_of(path, m);
	net->counters.udp_out++;
	net_send(net, path, m, IPPROTO_UDP, tos);
}

int net_udp_bind(struct net *net, uint16_t port, net_udp_receive *receive, void *ctx)
{
	for (unsigned i = 0; i < net->udp_ports_count; i++)
		if (net->udp_ports[i].port == port)
			return -EADDRINUSE;
	if (net->udp_ports_count == NET_UDP_PORTS_MAX)
		return -ENOSPC;
	net->udp_ports[net->udp_ports_count++] = (struct udp_port){ .port = port, .receive = receive, .ctx = ctx };
	return 0;
}

void net_udp_watch(struct net *net, uint16_t port, net_udp_quoted *quoted)
{
	for (unsigned i = 0; i < net->udp_ports_count; i++)
		if (net->udp_ports[i].port == port)
			net->udp_ports[i].quoted = quoted;
}

void net_udp_prefetch(struct net *net, uint16_t port, net_udp_prefetch_fn *prefetch)
{
	for (unsigned i = 0; i < net->udp_ports_count; i++)
		if (net->udp_ports[i].port == port) {
			net->udp_prefetches += !!prefetch;
			net->udp_prefetches -= !!net->udp_ports[i].prefetch;
			net->udp_ports[i].prefetch = prefetch;
		}
}

void net_udp_unbind(struct net *net, uint16_t port)
{
	net_udp_prefetch(net, port, NULL);
	for (unsigned i = 0; i < net->udp_ports_count; i++)
		if (net->udp_ports[i].port == port) {
			net->udp_last.like.interface = NULL;
			net->udp_ports[i] = net->udp_ports[--net->udp_ports_count];
			return;
		}
}

int net_udp_flow_init(struct net *net, struct net_udp_flow *flow, const struct net_udp_address *address)
{
	const struct net_address *from = net_address_is_none(&address->local) ? NULL : &address->local;

	if (!net_path_find(net, &address->remote, from, &flow->path))
		return -EHOSTUNREACH;
	flow->local_port = address->local_port;
	flow->remote_port = address->remote_port;
	flow->path_news = net->path_news;
	flow->hop = NULL;
	return 0;
}

/* Updates the path; false: there is none any more. A learned MTU expires, so a path that is narrower than its link is
 * looked up each time. */
static bool watch_path(struct net *net, struct net_udp_flow *flow)
{
	struct net_path *path = &flow->path;

	if (flow->path_news != net->path_news) {
		const struct net_address remote = path->remote, local = path->local;
		const uint16_t mtu = path->mtu;

		flow->path_news = net->path_news;
		flow->hop = NULL;
		if (net_path_find(net, &remote, &local, path))
			return true;
		*path = (struct net_path){ .local = local, .remote = remote, .mtu = mtu };
	}
	if (unlikely(!path->interface))
		return false;
	if (unlikely(path->mtu != path->interface->options.mtu))
		path->mtu = net_path_mtu(net, path);
	return true;
}

uint16_t net_udp_flow_payload(struct net *net, struct net_udp_flow *flow)
{
	const uint16_t headers = net_path_header(&flow->path) + (uint16_t)sizeof(struct rte_udp_hdr);
	uint16_t least = NET_UDP_PAYLOAD_BASE;

	if (!watch_path(net, flow))
		return flow->path.mtu - headers;
	least = RTE_MIN(least, (uint16_t)(flow->path.interface->options.mtu - headers));
	return RTE_MAX((uint16_t)(flow->path.mtu - headers), least);
}

void net_udp_flow_send(struct net *net, struct net_udp_flow *flow, struct rte_mbuf *payload, uint8_t tos)
{
	struct rte_udp_hdr *udp;

	if (likely(udp_send_plain(net, flow, payload, tos)))
		return;
	if (unlikely(!watch_path(net, flow))) {
		NET_DROP(net, payload, ip_no_route);
		return;
	}
	udp = (struct rte_udp_hdr *)rte_pktmbuf_prepend(payload, sizeof(*udp));
	send_datagram(net, &flow->path, flow->local_port, flow->remote_port, payload, udp, tos);
	udp_make_plain(flow);
}

int net_udp_send(struct net *net, const struct net_udp_address *address, const void *payload, uint16_t bytes)
{
	const struct net_address *from = net_address_is_none(&address->local) ? NULL : &address->local;
	struct rte_udp_hdr *udp;
	struct rte_mbuf *m;
	struct net_path path;

	if (!net_path_find(net, &address->remote, from, &path))
		return -EHOSTUNREACH;
	if (bytes + net_path_header(&path) + sizeof(*udp) > path.mtu)
		return -EMSGSIZE;
	m = net_alloc(net);
	if (!m)
		return -ENOMEM;
	udp = (struct rte_udp_hdr *)rte_pktmbuf_append(m, sizeof(*udp) + bytes);
	memcpy(udp + 1, payload, bytes);
	send_datagram(net, &path, address->local_port, address->remote_port, m, udp, 0);
	return 0;
}
