/* SPDX-License-Identifier: BSD-3-Clause */
/* A stack's life, and its end of a turn. */
#include "net/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "net/tcp_internal.h"

static int check(const struct net_options *o, struct star_error *err)
{
	if (!o->pool || rte_pktmbuf_priv_size(o->pool) < sizeof(struct net_priv))
		return star_error_set(err, -EINVAL, "the mempool's mbufs need a private area of %d bytes",
				      NET_PRIV_BYTES);
	if (o->interfaces_count < 1 || o->interfaces_count > NET_INTERFACES_MAX)
		return star_error_set(err, -EINVAL, "a stack needs 1 to %d interfaces", NET_INTERFACES_MAX);
	if (o->connections_max < 1 || o->rto_min_us < 1 || o->rto_max_us < o->rto_min_us)
		return star_error_set(err, -EINVAL, "connections and retransmission timeouts must be positive");
	for (unsigned i = 0; i < o->interfaces_count; i++)
		if (o->interfaces[i].addresses_count < 1 || o->interfaces[i].addresses_count > NET_ADDRESSES_MAX ||
		    o->interfaces[i].mtu < 576 ||
		    o->interfaces[i].mtu > rte_pktmbuf_data_room_size(o->pool) - RTE_PKTMBUF_HEADROOM)
			return star_error_set(err, -EINVAL, "interface %u: %u addresses or mtu %u is out of range", i,
					      o->interfaces[i].addresses_count, o->interfaces[i].mtu);
	return 0;
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
	net->interfaces = calloc(options->interfaces_count, sizeof(*net->interfaces));
	if (!net->interfaces)
		goto free_net;
	net->options = *options;
	if (options->reorder_mbufs_max == 0)
		net->options.reorder_mbufs_max = options->pool->size / TCP_REORDER_SHARE;
	net->pool = options->pool;
	net->now_ns = options->now_ns;
	net->interfaces_count = options->interfaces_count;
	for (unsigned i = 0; i < options->interfaces_count; i++)
		net->interfaces[i].options = options->interfaces[i];
	wheel_init(&net->wheel, options->now_ns);
	net->arp_timer.fire = arp_timer_fire;
	if (tcp_table_init(net) < 0)
		goto free_interfaces;
	return net;

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
		arp_fini(net, &net->interfaces[i]);
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

uint64_t net_now_ns(const struct net *net)
{
	return net->now_ns;
}
