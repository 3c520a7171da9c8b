/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls on the stream from which a request came: directly to lib/net's TCP, or through the server's transport
 * (rpc/transport.h). With TCP the choice costs one predictable branch.
 */
#ifndef RPC_LINK_H
#define RPC_LINK_H

#include <rte_branch_prediction.h>

#include "rpc/internal.h"

static inline const struct rpc_transport *link_transport(const struct rpc_work *w)
{
	return w->server->options.transport;
}

static inline struct tcp_address link_address(const struct rpc_work *w)
{
	return likely(!link_transport(w)) ? tcp_address(w->conn) : link_transport(w)->address(w->conn);
}

static inline struct rte_mbuf *link_alloc(const struct rpc_work *w)
{
	return likely(!link_transport(w)) ? tcp_alloc(w->conn) : link_transport(w)->alloc(w->conn);
}

static inline uint32_t link_mss(const struct rpc_work *w)
{
	return likely(!link_transport(w)) ? tcp_mss(w->conn) : link_transport(w)->mss(w->conn);
}

static inline bool link_send(const struct rpc_work *w, struct rte_mbuf *payload)
{
	return likely(!link_transport(w)) ? tcp_send(w->conn, payload) : link_transport(w)->send(w->conn, payload);
}

static inline uint32_t link_queued(const struct rpc_work *w)
{
	return likely(!link_transport(w)) ? tcp_queued(w->conn) : link_transport(w)->queued(w->conn);
}

static inline uint64_t link_stalled_ns(const struct rpc_work *w)
{
	return likely(!link_transport(w)) ? tcp_stalled_ns(w->conn) : link_transport(w)->stalled_ns(w->conn);
}

static inline void link_consumed(const struct rpc_work *w, uint32_t bytes)
{
	if (likely(!link_transport(w)))
		tcp_consumed(w->conn, bytes);
	else
		link_transport(w)->consumed(w->conn, bytes);
}

/* A hint to lib/net's TCP. The kernel decides by itself when it acknowledges. */
static inline void link_will_answer(const struct rpc_work *w)
{
	if (likely(!link_transport(w)))
		tcp_will_answer(w->conn);
}

static inline void link_prefetch(const struct rpc_work *w)
{
	if (likely(!link_transport(w)))
		tcp_prefetch(w->conn);
}

static inline void link_close(const struct rpc_work *w)
{
	if (likely(!link_transport(w)))
		tcp_close(w->conn);
	else
		link_transport(w)->close(w->conn);
}

static inline void link_abort(const struct rpc_work *w)
{
	if (likely(!link_transport(w)))
		tcp_abort(w->conn);
	else
		link_transport(w)->abort(w->conn);
}

#endif
