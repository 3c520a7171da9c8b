/* SPDX-License-Identifier: BSD-3-Clause */
/* A stack's interfaces, which can be added and removed while it runs. */
#include "net/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "net/tcp_internal.h"

enum {
	CONNECTIONS_PER_CALL = 256, /* checked per call of net_interface_end: some microseconds */
	RESETS_PER_CALL = 64,	    /* closed per call */
};

static int check_interface_options(const struct net *net, const struct net_interface_options *interface,
				   struct star_error *err)
{
	const unsigned i = net->interfaces_count;
	bool v6 = false;

	if (interface->addresses_count < 1 || interface->addresses_count > NET_ADDRESSES_MAX)
		return star_error_set(err, -EINVAL, "interface %u has %u addresses; it takes 1 to %d", i,
				      interface->addresses_count, NET_ADDRESSES_MAX);
	for (unsigned j = 0; j < interface->addresses_count; j++) {
		const struct net_interface_address *a = &interface->addresses[j];
		const bool v4 = net_address_is_v4(&a->address);

		v6 |= !v4;
		if (!net_address_is_host(&a->address) || a->prefix < 1 || a->prefix > (v4 ? 32u : 128u))
			return star_error_set(
				err, -EINVAL,
				"interface %u: address %u is not a host address, or its prefix of %u bits "
				"is out of range",
				i, j, a->prefix);
	}
	if (interface->mtu < (v6 ? (uint16_t)NET_MTU6_MIN : 576) || interface->vlan >= NET_VLAN_MAX ||
	    interface->mtu > rte_pktmbuf_data_room_size(net->memory.pool) - RTE_PKTMBUF_HEADROOM)
		return star_error_set(err, -EINVAL, "interface %u: mtu %u or vlan %u is out of range", i,
				      interface->mtu, interface->vlan);
	return 0;
}

/* Whether the interface would share an address with another one. */
static int check_others(const struct net *net, const struct net_interface_options *o, struct star_error *err)
{
	if (net->interfaces_count == NET_INTERFACES_MAX)
		return star_error_set(err, -ENOSPC, "a stack has at most %d interfaces", NET_INTERFACES_MAX);
	for (unsigned i = 0; i < net->interfaces_count; i++)
		if (net->interfaces[i]->options.port == o->port && net->interfaces[i]->options.vlan == o->vlan)
			return star_error_set(err, -EEXIST, "interface %u is in VLAN %u of port %u already", i, o->vlan,
					      o->port);
	for (unsigned i = 0; i < o->addresses_count; i++)
		if (net_is_ours(net, &o->addresses[i].address))
			return star_error_set(err, -EADDRINUSE, "address %u is another interface's", i);
	return 0;
}

bool net_is_ours(const struct net *net, const struct net_address *address)
{
	for (unsigned i = 0; i < net->interfaces_count; i++)
		if (net_is_own(net->interfaces[i], address))
			return true;
	return false;
}

static void add_address(struct net_interface *interface, const struct net_interface_address *address)
{
	interface->addresses[interface->addresses_count++] = *address;
	interface->addresses6_count += !net_address_is_v4(&address->address);
}

/* Its addresses, and with IPv6 the link-local one, made from the MAC address (RFC 4291, 2.5.6 and appendix A). */
static void init_interface(struct net_interface *interface, const struct net_interface_options *o)
{
	const uint8_t *mac = o->mac.addr_bytes;

	interface->options = *o;
	if (!(o->offloads & OFFLOAD_TX_SEGMENTS))
		interface->options.offloads &= ~(uint32_t)OFFLOAD_TX_TSO;
	for (unsigned i = 0; i < o->addresses_count; i++)
		add_address(interface, &o->addresses[i]);
	if (interface->addresses6_count == 0)
		return;
	interface->link_local =
		(struct net_address){ .bytes = { 0xfe, 0x80, [8] = mac[0] ^ 2, [9] = mac[1], [10] = mac[2], [11] = 0xff,
						 [12] = 0xfe, [13] = mac[3], [14] = mac[4], [15] = mac[5] } };
	if (!net_is_own(interface, &interface->link_local))
		add_address(interface, &(struct net_interface_address){ interface->link_local, 64 });
}

struct net_interface *net_interface_create(const struct net *net, const struct net_interface_options *options,
					   struct star_error *err)
{
	struct net_interface *interface;

	if (check_interface_options(net, options, err) < 0 || check_others(net, options, err) < 0)
		return NULL;
	interface = aligned_alloc(RTE_CACHE_LINE_SIZE, sizeof(*interface));
	if (!interface) {
		star_error_set(err, -ENOMEM, "no memory for an interface's neighbours");
		return NULL;
	}
	memset(interface, 0, sizeof(*interface));
	init_interface(interface, options);
	return interface;
}

void net_interface_free(struct net_interface *interface)
{
	free(interface);
}

void net_interface_add(struct net *net, struct net_interface *interface)
{
	net->interfaces[net->interfaces_count++] = interface;
	net->path_news++;
	mld_news(net);
	net_announce(net);
}

struct net_interface *net_interface_find(const struct net *net, uint16_t port)
{
	for (unsigned i = 0; i < net->interfaces_count; i++)
		if (net->interfaces[i]->options.port == port)
			return net->interfaces[i];
	return NULL;
}

struct net_interface *net_interface_remove(struct net *net, uint16_t port)
{
	for (unsigned i = 0; i < net->interfaces_count; i++) {
		struct net_interface *interface = net->interfaces[i];

		if (interface->options.port != port)
			continue;
		net->path_news++;
		/* Keeps the order, in which routes are looked up. */
		net->interfaces_count--;
		for (; i < net->interfaces_count; i++)
			net->interfaces[i] = net->interfaces[i + 1];
		return interface;
	}
	return NULL;
}

/* A peer that waits for nothing need not be told. */
static void end_connection(struct tcp_conn *conn)
{
	if (conn->state != TCP_TIME_WAIT && conn->state != TCP_SYN_SENT)
		tcp_reset_peer(conn);
	tcp_conn_end(conn, ENETDOWN);
}

bool net_interface_end(struct net *net, struct net_interface *interface, uint32_t *cursor, unsigned *ended)
{
	const uint32_t count = net->options.connections_max;
	const uint32_t end = RTE_MIN(count, *cursor + CONNECTIONS_PER_CALL);
	unsigned left = RTE_MIN(net_room(net), (uint32_t)RESETS_PER_CALL);

	for (; *cursor < end && left > 0; ++*cursor) {
		struct tcp_conn *conn = &net->conns[*cursor];

		if (conn->state == TCP_CLOSED || conn->path.interface != interface)
			continue;
		end_connection(conn);
		++*ended;
		left--;
	}
	if (*cursor < count)
		return false;
	net_neighbour_fini(net, interface);
	memset(interface->neighbours, 0, sizeof(interface->neighbours));
	interface->last_neighbour = NULL;
	return true;
}
