/* SPDX-License-Identifier: BSD-3-Clause */
/* Out-of-order segments: a list sorted by sequence number, bounded in length and, by the receive window, in bytes. */
#include "net/tcp_internal.h"

void tcp_reorder_put(struct tcp_conn *conn, struct rte_mbuf *payload)
{
	const uint32_t seq = net_priv(payload)->seq;
	struct rte_mbuf *after = NULL, *m;

	if (conn->reorder_count >= TCP_REORDER_MAX) {
		NET_DROP(conn->net, payload, tcp_out_of_order_dropped);
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
	conn->net->counters.tcp_out_of_order++;
	conn->reorder_count++;
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
