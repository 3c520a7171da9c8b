/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The byte streams that requests come in by. By default they are connections of lib/net's TCP, which is called
 * directly. A server with this table uses another implementation instead, such as kernel sockets (lib/ksock).
 * Connections are opaque to rpc.
 *
 * net/tcp.h has the contract of each call, at the function of the same name. All on the reactor's thread.
 */
#ifndef RPC_TRANSPORT_H
#define RPC_TRANSPORT_H

#include "net/tcp.h"

struct rpc_transport {
	/* ctx is rpc_server_options.transport_ctx. 0 or a negative errno. */
	int (*listen)(void *ctx, uint16_t port, const struct tcp_handler *handler, void *handler_ctx);
	void (*unlisten)(void *ctx);
	struct rte_mbuf *(*alloc)(struct tcp_conn *conn);
	uint32_t (*mss)(const struct tcp_conn *conn);
	bool (*send)(struct tcp_conn *conn, struct rte_mbuf *payload);
	uint32_t (*queued)(const struct tcp_conn *conn);
	uint64_t (*stalled_ns)(const struct tcp_conn *conn);
	void (*consumed)(struct tcp_conn *conn, uint32_t bytes);
	void (*close)(struct tcp_conn *conn);
	void (*abort)(struct tcp_conn *conn);
	struct tcp_address (*address)(const struct tcp_conn *conn);
};

#endif
