/* SPDX-License-Identifier: BSD-3-Clause */
/* Received data: RFC 9293, 3.10.7.4, the seventh and eighth step. */
#include <errno.h>

#include "net/tcp_internal.h"

static void take_fin(struct tcp_conn *conn)
{
	conn->rcv_nxt++;
	if (seq_lt(conn->rcv_adv, conn->rcv_nxt))
		conn->rcv_adv = conn->rcv_nxt;
	tcp_list(conn, TCP_ACK_NOW);
	tcp_reorder_clear(conn);
	switch (conn->state) {
	case TCP_ESTABLISHED:
		conn->state = TCP_CLOSE_WAIT;
		break;
	case TCP_FIN_WAIT_1:
		conn->state = TCP_CLOSING;
		break;
	case TCP_FIN_WAIT_2:
		conn->state = TCP_CLOSING; /* while the user is told */
		if (!(conn->flags & TCP_READ_CLOSED) && conn->flags & TCP_TOLD)
			conn->handler->finished(conn->user);
		if (conn->state != TCP_CLOSED)
			tcp_enter_time_wait(conn);
		return;
	default:
		return;
	}
	if (!(conn->flags & TCP_READ_CLOSED) && conn->flags & TCP_TOLD)
		conn->handler->finished(conn->user);
}

/* Data that nobody will read: the peer must be told (RFC 9293, 3.6.1). It accepts a RST at once only with the number
 * that it has acknowledged; ours may be ahead of it by lost segments (RFC 5961, 3.2). */
static void refuse_data(struct tcp_conn *conn, const struct tcp_segment *s)
{
	conn->net->counters.tcp_abort_on_data++;
	tcp_refuse(conn->net, s->packet, s->tcp, s->space);
	tcp_conn_end(conn, ECONNABORTED);
}

/* Delivers data that is in order; owns it. */
static void deliver_payload(struct tcp_conn *conn, struct rte_mbuf *payload, bool fin)
{
	const uint32_t bytes = payload->data_len;

	conn->rcv_nxt += bytes;
	if (bytes == 0) {
		rte_pktmbuf_free(payload);
	} else if (unlikely(conn->flags & TCP_READ_CLOSED)) { /* the user has closed while it got earlier data */
		rte_pktmbuf_free(payload);
		conn->net->counters.tcp_abort_on_data++;
		tcp_abort(conn);
		return;
	} else {
		conn->owed += bytes;
		conn->unread += bytes;
		conn->net->unread_bytes += bytes;
		conn->bytes_received += bytes;
		conn->rcv_mss = (uint16_t)RTE_MAX(conn->rcv_mss, bytes);
		tcp_list(conn, 0);
		conn->handler->received(conn->user, payload);
	}
	if (fin && conn->state != TCP_CLOSED)
		take_fin(conn);
}

/* Delivers the queued data that follows these bytes. */
static void deliver_queued(struct tcp_conn *conn)
{
	struct rte_mbuf *m;
	bool fin;

	tcp_list(conn, TCP_ACK_NOW); /* a gap was filled, at least in part (RFC 5681, 4.2) */
	while (conn->state >= TCP_ESTABLISHED && (m = tcp_reorder_take(conn, &fin)))
		deliver_payload(conn, m, fin);
}

/* Queues data that is out of order. A duplicate ACK reports it at once; a peer without SACK counts these, one per
 * segment. */
static void put_aside(struct tcp_conn *conn, struct rte_mbuf *m, uint32_t seq, bool fin)
{
	tcp_reorder_put(conn, m, seq, fin);
	tcp_list(conn, TCP_ACK_NOW);
	if (!(conn->features & TCP_FEATURE_SACK))
		tcp_send_ack(conn);
}

void tcp_take_data(struct tcp_conn *conn, const struct tcp_segment *s)
{
	struct rte_mbuf *m = s->payload;
	uint32_t seq = s->seq, bytes = s->bytes;
	bool fin = s->flags & RTE_TCP_FIN_FLAG;

	if (conn->features & TCP_FEATURE_ECN)
		tcp_ecn_received(conn, s);
	if (unlikely(seq_lt(seq, conn->rcv_nxt))) { /* the old part */
		const uint32_t old = RTE_MIN(conn->rcv_nxt - seq, bytes);

		if (old)
			tcp_note_duplicate(conn, seq, seq + old);
		rte_pktmbuf_adj(m, (uint16_t)old);
		seq += old;
		bytes -= old;
		fin = fin && seq == conn->rcv_nxt; /* otherwise it is old, too */
		tcp_list(conn, TCP_ACK_NOW);
	}
	if (unlikely(bytes && seq_lt(conn->rcv_adv, seq + bytes))) { /* the part beyond the window */
		const uint32_t fits = seq_lt(seq, conn->rcv_adv) ? conn->rcv_adv - seq : 0;

		rte_pktmbuf_trim(m, (uint16_t)(bytes - fits));
		bytes = fits;
		fin = false;
		tcp_list(conn, TCP_ACK_NOW);
	}
	if (unlikely(bytes == 0 && !fin)) {
		rte_pktmbuf_free(m);
		return;
	}
	if (unlikely(bytes && conn->flags & TCP_READ_CLOSED)) {
		refuse_data(conn, s); /* before the mbuf is freed, which has the segment's header */
		rte_pktmbuf_free(m);
		return;
	}
	if (unlikely(seq != conn->rcv_nxt)) {
		put_aside(conn, m, seq, fin);
		return;
	}
	/* The last mbufs are left to replies: what is received is freed only when it has been answered. The peer sends
	 * it again. */
	if (unlikely(bytes && conn->net->pressure == NET_PRESSURE_FULL)) {
		NET_DROP(conn->net, m, tcp_data_dropped);
		return;
	}
	deliver_payload(conn, m, fin);
	if (unlikely(conn->reorder) && conn->state >= TCP_ESTABLISHED)
		deliver_queued(conn);
}
