/* SPDX-License-Identifier: BSD-3-Clause */
/* Sent packets: routes, IP and Ethernet headers, fragments if a packet is too large, and the queue that net_output
 * empties. */
#include "net/internal.h"
#include "net/siphash.h"

enum { FRAGMENT_UNIT = 8 };

/* Offload flags with which a port needs the lengths of the headers. */
#define LEFT_TO_PORT (RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_TCP_SEG)

struct rte_mbuf *net_alloc(struct net *net)
{
	const struct net_memory *memory = &net->memory;
	void *m;

	if (unlikely(rte_mempool_generic_get(memory->pool, &m, 1, memory->cache) != 0)) {
		net->counters.out_no_mbuf++;
		return NULL;
	}
	rte_pktmbuf_reset(m);
	return m;
}

const struct net_interface_address *net_on_link(const struct net_interface *interface, const struct net_address *to)
{
	for (unsigned i = 0; i < interface->addresses_count; i++) {
		const struct net_interface_address *a = &interface->addresses[i];
		const bool v4 = net_address_is_v4(&a->address);

		if (v4 == net_address_is_v4(to) && net_address_same_prefix(&a->address, to, a->prefix + (v4 ? 96 : 0)))
			return a;
	}
	return NULL;
}

/* The source address for other networks: one in the gateway's network, else the first that is not link-local. */
static const struct net_interface_address *source_for(const struct net_interface *interface,
						      const struct net_address *gateway)
{
	const bool v4 = net_address_is_v4(gateway);
	const struct net_interface_address *a = net_on_link(interface, gateway);

	if (a && !net_address_is_link_local(&a->address))
		return a;
	for (unsigned i = 0; i < interface->addresses_count; i++) {
		a = &interface->addresses[i];
		if (net_address_is_v4(&a->address) == v4) /* the link-local address is the last */
			return a;
	}
	return NULL;
}

static bool is_broadcast(const struct net_address *to, unsigned prefix)
{
	const uint32_t host_bits = prefix < 31 ? UINT32_MAX >> prefix : 0;

	return net_address_is_v4(to) && host_bits && (rte_be_to_cpu_32(net_address_to_v4(to)) & host_bits) == host_bits;
}

static const struct net_interface_address *route_on_link(const struct net_interface *interface, struct net_path *path)
{
	const struct net_interface_address *own = net_on_link(interface, &path->remote);

	path->next_hop = path->remote;
	return own && !is_broadcast(&path->remote, own->prefix) ? own : NULL;
}

static const struct net_interface_address *route_by_gateway(const struct net_interface *interface,
							    struct net_path *path)
{
	const struct net_interface_options *o = &interface->options;

	path->next_hop = net_address_is_v4(&path->remote) ? o->gateway4 : o->gateway6;
	if (net_address_is_none(&path->next_hop) || net_address_is_link_local(&path->remote) ||
	    net_on_link(interface, &path->remote))
		return NULL;
	return source_for(interface, &path->next_hop);
}

/*
 * The interface with the address `from` comes first, so that an answer leaves where the request arrived, if possible.
 */
static const struct net_interface_address *route(struct net *net, const struct net_address *from, struct net_path *path,
						 const struct net_interface_address *(*by)(const struct net_interface *,
											   struct net_path *))
{
	const struct net_interface_address *own = NULL;

	for (unsigned pass = from ? 0 : 1; pass < 2 && !own; pass++)
		for (unsigned i = 0; i < net->interfaces_count && !own; i++) {
			path->interface = net->interfaces[i];
			if (pass == 1 || net_is_own(path->interface, from))
				own = by(path->interface, path);
		}
	return own;
}

bool net_path_find(struct net *net, const struct net_address *to, const struct net_address *from, struct net_path *path)
{
	const struct net_interface_address *own;

	if (!net_address_is_host(to))
		return false;
	path->remote = *to;
	own = route(net, from, path, route_on_link);
	if (!own)
		own = route(net, from, path, route_by_gateway);
	if (!own)
		return false;
	path->local = from ? *from : own->address;
	path->memory =
		path->interface->options.offloads & OFFLOAD_MEMORY && net_address_equal(&path->next_hop, &path->remote);
	path->mtu = net_path_mtu(net, path);
	return true;
}

/* The checksum of the pseudo header. For TSO without the length, which is not known yet (rte_ipv4_phdr_cksum). */
uint16_t net_leave_checksum(const struct net_path *path, struct rte_mbuf *m, uint8_t protocol, uint8_t header)
{
	const uint16_t bytes = m->ol_flags & RTE_MBUF_F_TX_TCP_SEG ? 0 : (uint16_t)rte_pktmbuf_pkt_len(m);

	m->ol_flags |= protocol == IPPROTO_TCP ? RTE_MBUF_F_TX_TCP_CKSUM : RTE_MBUF_F_TX_UDP_CKSUM;
	m->l4_len = header;
	return checksum_fold(checksum_pseudo(&path->local, &path->remote, protocol, bytes));
}

uint32_t net_room(const struct net *net)
{
	return NET_OUTPUT_MAX - (net->output_tail - net->output_head);
}

struct rte_ether_hdr *net_put_ethernet(struct net_interface *interface, struct rte_mbuf *packet, rte_be16_t type)
{
	struct rte_ether_hdr *eth;

	if (unlikely(interface->options.vlan && !(interface->options.offloads & OFFLOAD_TX_VLAN))) {
		struct rte_vlan_hdr *tag = (struct rte_vlan_hdr *)rte_pktmbuf_prepend(packet, sizeof(*tag));

		tag->vlan_tci = rte_cpu_to_be_16(interface->options.vlan);
		tag->eth_proto = type;
		type = RTE_BE16(RTE_ETHER_TYPE_VLAN);
	} else if (unlikely(interface->options.vlan)) {
		packet->vlan_tci = interface->options.vlan;
		packet->ol_flags |= RTE_MBUF_F_TX_VLAN;
	}
	eth = (struct rte_ether_hdr *)rte_pktmbuf_prepend(packet, sizeof(*eth));
	eth->src_addr = interface->options.mac;
	eth->ether_type = type;
	if (unlikely(packet->ol_flags & LEFT_TO_PORT))
		packet->l2_len =
			sizeof(*eth) + (type == RTE_BE16(RTE_ETHER_TYPE_VLAN) ? sizeof(struct rte_vlan_hdr) : 0);
	packet->port = interface->options.port;
	return eth;
}

static uint16_t ipv4_checksum(const struct rte_ipv4_hdr *ip)
{
	return (uint16_t)~checksum_ip4(ip);
}

/* The same, for a port that offloads checksums. */
static void leave_ipv4(const struct net_path *path, struct rte_mbuf *packet, struct rte_ipv4_hdr *ip)
{
	/* Also for TSO: a port that fills in the segments' checksums may not fill in this one (vmxnet3, virtio). */
	if (path->interface->options.offloads & OFFLOAD_TX_IP4_CHECKSUM)
		packet->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
	else
		ip->hdr_checksum = ipv4_checksum(ip);
	if (packet->ol_flags & LEFT_TO_PORT) {
		packet->ol_flags |= RTE_MBUF_F_TX_IPV4;
		packet->l3_len = sizeof(*ip);
	}
}

static void put_ipv4(const struct net_path *path, struct rte_mbuf *packet, uint8_t protocol, uint8_t tos, uint16_t id,
		     uint16_t fragment)
{
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)rte_pktmbuf_prepend(packet, sizeof(*ip));

	ip->version_ihl = RTE_IPV4_VHL_DEF;
	ip->type_of_service = tos;
	ip->total_length = rte_cpu_to_be_16((uint16_t)rte_pktmbuf_pkt_len(packet));
	ip->packet_id = rte_cpu_to_be_16(id);
	ip->fragment_offset = rte_cpu_to_be_16(fragment);
	ip->time_to_live = NET_TTL;
	ip->next_proto_id = protocol;
	ip->hdr_checksum = 0;
	ip->src_addr = net_address_to_v4(&path->local);
	ip->dst_addr = net_address_to_v4(&path->remote);
	if (path->interface->options.offloads & (OFFLOAD_TX_CHECKSUMS | OFFLOAD_TX_TSO))
		leave_ipv4(path, packet, ip);
	else
		ip->hdr_checksum = ipv4_checksum(ip);
}

static void put_ipv6(const struct net_path *path, struct rte_mbuf *packet, uint8_t protocol, uint8_t tos,
		     uint8_t hop_limit)
{
	const uint32_t payload = rte_pktmbuf_pkt_len(packet);
	struct rte_ipv6_hdr *ip = (struct rte_ipv6_hdr *)rte_pktmbuf_prepend(packet, sizeof(*ip));

	ip->vtc_flow = rte_cpu_to_be_32(UINT32_C(6) << 28 | (uint32_t)tos << 20);
	ip->payload_len = rte_cpu_to_be_16((uint16_t)payload);
	ip->proto = protocol;
	ip->hop_limits = hop_limit;
	memcpy(ip->src_addr, path->local.bytes, sizeof(ip->src_addr));
	memcpy(ip->dst_addr, path->remote.bytes, sizeof(ip->dst_addr));
	if (packet->ol_flags & LEFT_TO_PORT) {
		packet->ol_flags |= RTE_MBUF_F_TX_IPV6;
		packet->l3_len = sizeof(*ip);
	}
}

/* packet's data starts with the IP header. */
static void send_packet(struct net *net, const struct net_path *path, struct rte_mbuf *packet)
{
	const bool v4 = net_address_is_v4(&path->remote);
	struct rte_ether_hdr *eth =
		net_put_ethernet(path->interface, packet,
				 v4 ? RTE_BE16(RTE_ETHER_TYPE_IPV4) : RTE_BE16(RTE_ETHER_TYPE_IPV6));
	const struct rte_ether_addr *mac = net_neighbour_resolve(net, path->interface, &path->next_hop, packet);

	if (likely(mac)) {
		eth->dst_addr = *mac;
		net_transmit(net, packet);
	}
}

void net_send_link(struct net *net, const struct net_path *path, struct rte_mbuf *packet, uint8_t protocol,
		   uint8_t hop_limit, const struct rte_ether_addr *mac)
{
	put_ipv6(path, packet, protocol, 0, hop_limit);
	net_put_ethernet(path->interface, packet, RTE_BE16(RTE_ETHER_TYPE_IPV6))->dst_addr = *mac;
	net_transmit(net, packet);
}

/*
 * The next identification between two addresses, after RFC 7739, 5.3: it starts at an unpredictable value, and its
 * sequence reveals nothing about packets to others. The low bits identify the stack, so that stacks with the same
 * addresses never use the same value.
 */
static uint32_t next_identification(struct net *net, const struct net_path *path)
{
	const uint64_t words[5] = { path->local.halves[0], path->local.halves[1], path->remote.halves[0],
				    path->remote.halves[1], 0x746e656d67617266 };
	const uint64_t hash = siphash(net->options.secret, words, RTE_DIM(words));
	const uint32_t number = (uint32_t)hash + net->fragments[(hash >> 32) % FRAGMENT_COUNTERS]++;
	const uint32_t stacks = rte_align32pow2(RTE_MAX(net->options.stacks, 1u));

	return number * stacks + net->options.stack;
}

/* Copies a packet that exceeds the path's MTU into fragments; only these may need an identification (RFC 6864). */
static void send_fragments(struct net *net, const struct net_path *path, struct rte_mbuf *packet, uint8_t protocol,
			   uint8_t tos)
{
	const bool v4 = net_address_is_v4(&path->remote);
	const uint32_t bytes = rte_pktmbuf_pkt_len(packet), id = next_identification(net, path);
	const uint32_t headers =
		v4 ? sizeof(struct rte_ipv4_hdr) : sizeof(struct rte_ipv6_hdr) + sizeof(struct rte_ipv6_fragment_ext);
	const uint32_t step = (path->mtu - headers) / FRAGMENT_UNIT * FRAGMENT_UNIT;

	for (uint32_t offset = 0; offset < bytes; offset += step) {
		const uint32_t n = RTE_MIN(step, bytes - offset);
		const bool more = offset + n < bytes;
		struct rte_mbuf *m = net_alloc(net);
		const void *part;
		void *at;

		if (!m)
			break; /* the other fragments would be of no use */
		at = rte_pktmbuf_append(m, (uint16_t)n);
		part = rte_pktmbuf_read(packet, offset, n, at);
		if (part != at)
			memcpy(at, part, n);
		net->counters.ip_frag_creates++;
		if (v4) {
			put_ipv4(path, m, protocol, tos, (uint16_t)id,
				 (uint16_t)(offset / FRAGMENT_UNIT | (more ? RTE_IPV4_HDR_MF_FLAG : 0)));
		} else {
			struct rte_ipv6_fragment_ext *f =
				(struct rte_ipv6_fragment_ext *)rte_pktmbuf_prepend(m, sizeof(*f));

			*f = (struct rte_ipv6_fragment_ext){ .next_header = protocol,
							     .frag_data = rte_cpu_to_be_16((uint16_t)(offset | more)),
							     .id = rte_cpu_to_be_32(id) };
			put_ipv6(path, m, IPPROTO_FRAGMENT, tos, NET_TTL);
		}
		send_packet(net, path, m);
	}
	rte_pktmbuf_free(packet);
}

void net_send(struct net *net, const struct net_path *path, struct rte_mbuf *packet, uint8_t protocol, uint8_t tos)
{
	if (unlikely(rte_pktmbuf_pkt_len(packet) + net_path_header(path) > path->mtu) &&
	    !(packet->ol_flags & RTE_MBUF_F_TX_TCP_SEG)) {
		send_fragments(net, path, packet, protocol, tos);
		return;
	}
	if (net_address_is_v4(&path->remote))
		put_ipv4(path, packet, protocol, tos, 0, RTE_IPV4_HDR_DF_FLAG);
	else
		put_ipv6(path, packet, protocol, tos, NET_TTL);
	send_packet(net, path, packet);
}
