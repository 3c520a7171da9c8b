/* SPDX-License-Identifier: BSD-3-Clause */
/* A stack's life, and its end of a turn. */
#include "net/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "net/tcp_internal.h"

static int check_interface(const struct net_options *o, unsigned i, struct star_error *err)
{
	const struct net_interface_options *interface = &o->interfaces[i];
	bool v6 = false;

	if (interface->addresses_count < 1 || interface->addresses_count > NET_ADDRESSES_MAX)
		return star_error_set(err, -EINVAL, "interface %u has %u addresses; it takes 1 to %d", i,
				      interface->addresses_count, NET_ADDRESSES_MAX);
	for (unsigned j = 0; j < interface->addresses_count; j++) {
		const struct net_interface_address *a = &interface->addresses[j];
		const bool v4 = net_address_is_v4(&a->address);

		v6 |= !v4;
		if (!net_address_is_host(&a->address) || a->prefix < 1 || a->prefix > (v4 ? 32u : 128u))
			return star_error_set(err, -EINVAL,
					      "interface %u: address %u is no host's, or its prefix of %u bits "
					      "is out of range",
					      i, j, a->prefix);
	}
	if (interface->mtu < (v6 ? (uint16_t)NET_MTU6_MIN : 576) || interface->vlan >= NET_VLAN_MAX ||
	    interface->mtu > rte_pktmbuf_data_room_size(o->pool) - RTE_PKTMBUF_HEADROOM)
		return star_error_set(err, -EINVAL, "interface %u: mtu %u or vlan %u is out of range", i,
				      interface->mtu, interface->vlan);
	return 0;
}

static int check(const struct net_options *o, struct star_error *err)
{
	if (!o->pool || rte_pktmbuf_priv_size(o->pool) < sizeof(struct net_priv))
		return star_error_set(err, -EINVAL, "the mempool's mbufs need a private area of %d bytes",
				      NET_PRIV_BYTES);
	if (o->interfaces_count < 1 || o->interfaces_count > NET_INTERFACES_MAX)
		return star_error_set(err, -EINVAL, "a stack needs 1 to %d interfaces", NET_INTERFACES_MAX);
	if (o->connections_max < 1 || o->rto_min_us < 1 || o->rto_max_us < o->rto_min_us)
		return star_error_set(err, -EINVAL, "connections and retransmission timeouts must be positive");
	for (unsigned i = 0; i < o->interfaces_count; i++) {
		const int status = check_interface(o, i, err);

		if (status < 0)
			return status;
	}
	return 0;
}

static void add_address(struct net_interface *interface, const struct net_interface_address *address)
{
	interface->addresses[interface->addresses_count++] = *address;
	interface->addresses6_count += !net_address_is_v4(&address->address);
}

/* Its addresses, and with IPv6 that of the link, made from the station's (RFC 4291, 2.5.6 and appendix A). */
static void init_interface(struct net_interface *interface, const struct net_interface_options *o)
{
	const uint8_t *mac = o->mac.addr_bytes;

	interface->options = *o;
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

struct net *net_create(const struct net_options *options, struct star_error *err)
{
	struct net *net;

	if (check(options, err) < 0)
		return NULL;
	net = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(sizeof(*net), RTE_CACHE_LINE_SIZE));
	if (!net)
		goto fail;
	memset(net, 0, sizeof(*net));
	net->interfaces = aligned_alloc(RTE_CACHE_LINE_SIZE, options->interfaces_count * sizeof(*net->interfaces));
	if (!net->interfaces)
		goto free_net;
	memset(net->interfaces, 0, options->interfaces_count * sizeof(*net->interfaces));
	net->options = *options;
	tcp_defaults(&net->options);
	if (options->reassembly_mbufs_max == 0)
		net->options.reassembly_mbufs_max = options->pool->size / REASSEMBLY_SHARE;
	net->pool = options->pool;
	net->fragment_id = (uint32_t)(options->secret[0] >> 32); /* not to be guessed from outside (RFC 7739) */
	net->now_ns = options->now_ns;
	net->interfaces_count = options->interfaces_count;
	for (unsigned i = 0; i < options->interfaces_count; i++)
		init_interface(&net->interfaces[i], &options->interfaces[i]);
	wheel_init(&net->wheel, options->now_ns);
	net->neighbour_timer.fire = neighbour_timer_fire;
	net->reassembly.timer.fire = reassembly_timer_fire;
	if (reassembly_init(net) < 0)
		goto free_interfaces;
	if (tcp_table_init(net) < 0)
		goto free_reassembly;
	mld_init(net);
	return net;

free_reassembly:
	reassembly_fini(net);
free_interfaces:
	free(net->interfaces);
free_net:
	free(net);
fail:
	star_error_set(err, -ENOMEM, "no memory for a stack of %u connections", options->connections_max);
	return NULL;
}

void net_destroy(struct net *net)
{
	if (!net)
		return;
	tcp_table_fini(net);
	for (unsigned i = 0; i < net->interfaces_count; i++)
		neighbour_fini(net, &net->interfaces[i]);
	reassembly_fini(net);
	while (net->output_head != net->output_tail)
		rte_pktmbuf_free(net->output[net->output_head++ % NET_OUTPUT_MAX]);
	free(net->interfaces);
	free(net);
}

void net_turn(struct net *net, uint64_t now_ns)
{
	net->now_ns = now_ns;
}

unsigned net_output(struct net *net, struct rte_mbuf **frames, unsigned max)
{
	unsigned n = 0;

	tcp_flush(net);
	while (n < max && net->output_head != net->output_tail)
		frames[n++] = net->output[net->output_head++ % NET_OUTPUT_MAX];
	net->counters.out_frames += n;
	return n;
}

struct wheel *net_wheel(struct net *net)
{
	return &net->wheel;
}

const struct net_counters *net_counters(const struct net *net)
{
	return &net->counters;
}

unsigned net_connections(const struct net *net)
{
	return net->connections;
}

struct rte_mempool *net_pool(const struct net *net)
{
	return net->pool;
}

uint64_t net_now_ns(const struct net *net)
{
	return net->now_ns;
}
