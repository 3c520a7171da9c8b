/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shard on the kernel's TCP sockets (network.stack = "kernel"): what replaces ports. Its lib/net stack has no
 * interface then, and only provides clock and timers.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/node.h"

enum { KERNEL_FRAME_BYTES = 8192 };

uint32_t node_kernel_mtu(void)
{
	return KERNEL_FRAME_BYTES - 128; /* port_mempool_create adds what frames need, and rounds up */
}

int node_shard_add_sockets(struct shard *shard, struct star_error *err)
{
	static const enum ksock_io_choice choices[] = { [CONFIG_SOCKETS_AUTO] = KSOCK_IO_AUTO,
							[CONFIG_SOCKETS_EPOLL] = KSOCK_IO_EPOLL,
							[CONFIG_SOCKETS_IO_URING] = KSOCK_IO_URING };
	const struct config *config = shard->node->config;
	const struct ksock_options options = {
		.io = choices[config->sockets],
		.pool = shard->pool,
		.host = config->own.data.host,
		.connections_max = config->connections_max,
		.receive_window_bytes = config->receive_window_kib << 10,
		.user_timeout_ms = config->user_timeout_ms,
		.keepalive_s = config->keepalive_s,
		.wheel = net_wheel(shard->net),
		.now_ns = clock_ns(),
	};

	shard->sockets = ksock_create(&options, err);
	return shard->sockets ? 0 : err->code;
}

unsigned node_mbufs_used(const struct shard *shard)
{
	const unsigned used = rte_mempool_in_use_count(shard->pool);
	const unsigned empty = shard->sockets ? ksock_buffers(shard->sockets) : 0;

	return used > empty ? used - empty : 0;
}

void node_tell_sockets(const struct shard *shard)
{
	const int refused = ksock_io_refused(shard->sockets);

	if (refused)
		log_info("kernel sockets by epoll: no io_uring (%s); see network.sockets", strerror(-refused));
	else
		log_info("kernel sockets by %s", ksock_io_name(shard->sockets));
}

void node_shard_explain_sockets(const struct shard *shard, struct star_error *err)
{
	const struct config_address *data = &shard->node->config->own.data;
	const struct config_address_text at = config_show(data->host, (uint16_t)(data->port + shard->index));

	if (err->code == -EADDRNOTAVAIL)
		star_error_set(err, -EADDRNOTAVAIL,
			       "the data address %s is not an address of this machine (`ip address` lists them): with "
			       "network.stack = \"kernel\" it must be one",
			       at.text);
	else if (err->code == -EADDRINUSE)
		star_error_set(err, -EADDRINUSE,
			       "another process listens at the data address %s (`ss -ltnp` says which): stop it, or "
			       "choose another data port",
			       at.text);
	else if (err->code == -EACCES)
		star_error_set(err, -EACCES, "the port of the data address %s needs root: choose one above 1023",
			       at.text);
	else
		star_error_set(err, err->code, "data address %s: %s", at.text, strerror(-err->code));
}

/* Reserves the port, so that a standby does not find out at its promotion that another process uses it. */
int node_shard_reserve_port(struct shard *shard, uint16_t port, struct star_error *err)
{
	const int status = ksock_reserve(shard->sockets, port);

	if (status == 0)
		return 0;
	err->code = status;
	node_shard_explain_sockets(shard, err);
	return status;
}

unsigned node_shard_poll_sockets(void *ctx, uint64_t now_ns)
{
	struct shard *shard = ctx;

	net_turn(shard->net, now_ns);
	return ksock_receive(shard->sockets, now_ns);
}

void node_shard_sleep(void *ctx, int wake_fd, uint64_t ns)
{
	ksock_sleep(((struct shard *)ctx)->sockets, wake_fd, ns);
}

/* There are no frames: data to be sent goes to the kernel. */
unsigned node_shard_transmit_sockets(void *ctx, struct rte_mbuf **frames, unsigned max)
{
	struct shard *shard = ctx;

	ksock_transmit(shard->sockets, net_now_ns(shard->net));
	return 0;
}
