/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation and destruction of a stack, and the end of its turn. */
#include "net/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "net/tcp_internal.h"

static int check_net_options(const struct net_options *o, struct star_error *err)
{
	if (!o->pool || rte_pktmbuf_priv_size(o->pool) < sizeof(struct net_priv))
		return star_error_set(err, -EINVAL, "the mempool's mbufs need a private area of %d bytes",
				      NET_PRIV_BYTES);
	if (o->interfaces_count > NET_INTERFACES_MAX)
		return star_error_set(err, -EINVAL, "a stack has at most %d interfaces", NET_INTERFACES_MAX);
	if (o->connections_max < 1 || o->rto_min_us < 1 || o->rto_max_us < o->rto_min_us)
		return star_error_set(err, -EINVAL, "connections and retransmission timeouts must be positive");
	return 0;
}

struct net *net_create(const struct net_options *options, struct star_error *err)
{
	struct net *net;

	if (check_net_options(options, err) < 0)
		return NULL;
	net = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(sizeof(*net), RTE_CACHE_LINE_SIZE));
	if (!net)
		goto fail;
	memset(net, 0, sizeof(*net));
	net->options = *options;
	tcp_defaults(&net->options);
	if (options->reassembly_mbufs_max == 0)
		net->options.reassembly_mbufs_max = options->pool->size / REASSEMBLY_SHARE;
	net->memory.pool = options->pool;
	net->now_ns = options->now_ns;
	wheel_init(&net->wheel, options->now_ns);
	net->neighbour_timer.fire = net_neighbour_timer_fire;
	net->reassembly.timer.fire = net_reassembly_timer_fire;
	if (net_reassembly_init(net) < 0)
		goto free_net;
	if (tcp_table_init(net) < 0)
		goto free_reassembly;
	for (unsigned i = 0; i < options->interfaces_count; i++) {
		struct net_interface *interface = net_interface_create(net, &options->interfaces[i], err);

		if (!interface) {
			net_destroy(net);
			return NULL;
		}
		net_interface_add(net, interface);
	}
	return net;

free_reassembly:
	net_reassembly_fini(net);
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
	for (unsigned i = 0; i < net->interfaces_count; i++) {
		net_neighbour_fini(net, net->interfaces[i]);
		net_interface_free(net->interfaces[i]);
	}
	net_reassembly_fini(net);
	while (net->output_head != net->output_tail)
		rte_pktmbuf_free(net->output[net->output_head++ % NET_OUTPUT_MAX]);
	free(net);
}

void net_turn(struct net *net, uint64_t now_ns)
{
	net->now_ns = now_ns;
}

unsigned net_output(struct net *net, struct rte_mbuf **frames, unsigned max)
{
	unsigned n = 0;

	if (net->ack_list)
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
	return net->memory.pool;
}

uint64_t net_now_ns(const struct net *net)
{
	return net->now_ns;
}
