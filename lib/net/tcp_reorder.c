/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Out-of-order segments: a list sorted by sequence number, bounded in length and, by the receive window, in bytes. All lists
 * of a stack together are bounded too: a few hundred peers that leave a hole for ever would take all its mbufs.
 */
#include "net/tcp_internal.h"

enum { LOOKS_MAX = 16 }; /* connections looked at for each segment that finds the stack's share used up */

#define STUCK_NS (1000 * NET_MS) /* a list whose hole is not filled for so long may be given up */

/* The share is used up: gives up the list of a connection that makes no progress, so that nobody can sit on it. Its peer has
 * no acknowledgement of it, and sends it again. */
static void give_up_one(struct net *net)
{
	for (unsigned i = 0; i < LOOKS_MAX; i++) {
		struct tcp_conn *conn = &net->conns[net->reorder_hand++ % net->options.connections_max];

		if (conn->reorder && net->now_ns - conn->reorder_ns > STUCK_NS) {
			net->counters.tcp_out_of_order_dropped += conn->reorder_count;
			tcp_reorder_clear(conn);
			return;
		}
	}
}

void tcp_reorder_put(struct tcp_conn *conn, struct rte_mbuf *payload)
{
	const uint32_t seq = net_priv(payload)->seq;
	struct net *net = conn->net;
	struct rte_mbuf *after = NULL, *m;

	if (net->reorder_mbufs >= net->options.reorder_mbufs_max)
		give_up_one(net);
	if (conn->reorder_count >= TCP_REORDER_MAX || net->reorder_mbufs >= net->options.reorder_mbufs_max) {
		NET_DROP(net, payload, tcp_out_of_order_dropped);
		return;
	}
	for (m = conn->reorder; m && seq_le(net_priv(m)->seq, seq); m = net_priv(m)->next) {
		/* Wholly covered by one that is there: nothing new. */
		if (seq_le(seq + payload->data_len, net_priv(m)->seq + m->data_len) && !net_priv(payload)->fin) {
			rte_pktmbuf_free(payload);
			return;
		}
		after = m;
	}
	net->counters.tcp_out_of_order++;
	if (conn->reorder_count++ == 0)
		conn->reorder_ns = net->now_ns;
	net->reorder_mbufs++;
	net_priv(payload)->next = m;
	if (after)
		net_priv(after)->next = payload;
	else
		conn->reorder = payload;
}

static struct rte_mbuf *pop(struct tcp_conn *conn)
{
	struct rte_mbuf *m = conn->reorder;

	conn->reorder = net_priv(m)->next;
	conn->reorder_count--;
	conn->reorder_ns = conn->net->now_ns;
	conn->net->reorder_mbufs--;
	return m;
}

struct rte_mbuf *tcp_reorder_take(struct tcp_conn *conn)
{
	while (conn->reorder && seq_le(net_priv(conn->reorder)->seq, conn->rcv_nxt)) {
		struct rte_mbuf *m = pop(conn);
		struct net_priv *p = net_priv(m);
		const uint32_t old = conn->rcv_nxt - p->seq;

		if (old < m->data_len || (old == m->data_len && p->fin)) {
			rte_pktmbuf_adj(m, old);
			p->seq = conn->rcv_nxt;
			return m;
		}
		rte_pktmbuf_free(m); /* came meanwhile by another way */
	}
	return NULL;
}

void tcp_reorder_clear(struct tcp_conn *conn)
{
	while (conn->reorder)
		rte_pktmbuf_free(pop(conn));
}
