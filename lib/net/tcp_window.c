/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive window, and when it is announced: acknowledgements are delayed (RFC 9293, 3.8.6.3), small steps of the
 * window are not announced (3.8.6.2.2), and its size follows what the reader takes per round trip (dynamic
 * right-sizing: Fisk, Feng, LACSI 2001), within a budget that all connections of the stack share.
 */
#include "net/tcp_internal.h"

enum {
	LOOKS_MAX = 8,	     /* connections that are checked when the budget is used up */
	SLACK_SEGMENTS = 16, /* in addition to twice what was read: for losses, and for slow start's next step */
	UNKNOWN_RTT_US = 1000000,
	UNUSED_US = 10000000, /* a window that has grown, and was not used for this long, may be reduced */
	TIGHT_SEGMENTS = 2,   /* what a reader without unread data may always be sent */
	/* An ACK waits this long for an answer that the user has promised, and for at most this many segments: half of
	 * an initial window (RFC 6928), so that the sender does not wait for the ACK meanwhile. */
	ANSWER_US = 40000,
	ANSWER_SEGMENTS = 5,
};

/* The right edge that the reader's buffer allows. When mbufs are short, every connection gets room for the next few
 * segments only. */
static uint32_t room_edge(struct tcp_conn *conn)
{
	const struct net *net = conn->net;
	uint32_t room = conn->rcv_buf;

	if (unlikely(net->pressure != NET_PRESSURE_NONE || net->unread_bytes > net->options.unread_bytes)) {
		room = RTE_MIN(room, (uint32_t)TIGHT_SEGMENTS * conn->path.interface->options.mtu);
		conn->net->counters.tcp_window_tight++;
	}
	room = conn->unread < room ? room - conn->unread : 0;
	return conn->rcv_nxt + RTE_MIN(room, (uint32_t)UINT16_MAX << conn->rcv_scale); /* the field's maximum */
}

/* The announced edge never moves back (RFC 9293, 3.8.6.2.1), and does not move in small steps. */
uint16_t tcp_window_field(struct tcp_conn *conn, uint8_t flags)
{
	const unsigned scale = flags & RTE_TCP_SYN_FLAG ? 0 : conn->rcv_scale;
	const uint32_t edge = room_edge(conn), step = RTE_MIN((uint32_t)conn->mss, conn->rcv_buf / 2);
	uint32_t window;

	if (seq_le(conn->rcv_adv + step, edge))
		window = (edge - conn->rcv_nxt) >> scale;
	else
		window = (conn->rcv_adv - conn->rcv_nxt + (1u << scale) - 1) >> scale;
	window = RTE_MIN(window, (uint32_t)UINT16_MAX);
	if (seq_lt(conn->rcv_adv, conn->rcv_nxt + (window << scale)))
		conn->rcv_adv = conn->rcv_nxt + (window << scale);
	return (uint16_t)window;
}

void tcp_ack_sent(struct tcp_conn *conn, uint32_t payload)
{
	if (conn->owed && payload)
		conn->quick = 0;
	if (payload)
		conn->flags &= ~(uint32_t)TCP_ANSWERS;
	conn->owed = 0;
	conn->segs_out++;
	conn->ack_sent = conn->rcv_nxt;
	tcp_timer_stop(conn, TCP_TIMER_ACK);
	if (!(conn->flags & TCP_SACKS_LEFT))
		conn->flags &= ~(uint32_t)TCP_ACK_NOW;
}

/* In the beginning a sender's slow start needs every ACK at once, until data has carried one: then requests and replies
 * alternate, and the next reply carries the next ACK. */
static bool is_quick(struct tcp_conn *conn)
{
	if (conn->quick == 0)
		return false;
	conn->quick--;
	return true;
}

void tcp_ack_due(struct tcp_conn *conn)
{
	const bool answers = conn->flags & TCP_ANSWERS;
	const uint32_t enough = answers ? ANSWER_SEGMENTS * conn->rcv_mss : conn->rcv_mss;

	if (conn->flags & TCP_ACK_NOW || conn->owed > enough || (conn->owed && is_quick(conn)))
		tcp_send_ack(conn);
	else if (conn->owed && !tcp_timer_runs(conn, TCP_TIMER_ACK))
		tcp_timer_start(conn, TCP_TIMER_ACK, answers ? ANSWER_US : conn->net->options.delayed_ack_us);
}

void tcp_will_answer(struct tcp_conn *conn)
{
	conn->flags |= TCP_ANSWERS;
}

/* ---- its size ---- */

static void shrink(struct tcp_conn *conn)
{
	struct net *net = conn->net;

	if (conn->rcv_buf <= net->options.receive_initial_bytes)
		return;
	net->grown_bytes -= conn->rcv_buf - net->options.receive_initial_bytes;
	conn->rcv_buf = net->options.receive_initial_bytes;
}

/* The budget is used up: reduces windows that nobody uses to their initial size. */
static void take_back(struct net *net)
{
	for (unsigned i = 0; i < LOOKS_MAX; i++) {
		struct tcp_conn *conn = &net->conns[net->grown_hand++ % net->options.connections_max];

		/* Keepalives do not count as use. */
		if (conn->state != TCP_CLOSED && !conn->unread && net_us(net) - conn->taken_us > UNUSED_US)
			shrink(conn);
	}
}

static void grow_window(struct tcp_conn *conn, uint32_t want)
{
	struct net *net = conn->net;
	const uint64_t budget = net->options.receive_grown_bytes;
	uint32_t more;

	want = RTE_MIN(want, net->options.receive_window_bytes);
	if (want <= conn->rcv_buf)
		return;
	if (net->grown_bytes + (want - conn->rcv_buf) > budget)
		take_back(net);
	more = (uint32_t)RTE_MIN((uint64_t)(want - conn->rcv_buf),
				 budget > net->grown_bytes ? budget - net->grown_bytes : 0);
	conn->rcv_buf += more;
	net->grown_bytes += more;
}

/* Once per round trip: room for twice what was read in it. */
static void measure_window(struct tcp_conn *conn, uint32_t bytes)
{
	const uint32_t now_us = net_us(conn->net), elapsed_us = now_us - conn->taken_us;
	const uint32_t srtt_us = tcp_srtt_us(conn), rtt_us = srtt_us ? srtt_us : UNKNOWN_RTT_US;

	conn->taken += bytes;
	if (elapsed_us < rtt_us && (srtt_us || conn->taken < conn->rcv_buf))
		return;
	if (elapsed_us < 2 * rtt_us || !srtt_us)
		grow_window(conn, 2 * RTE_MIN(conn->taken, (uint32_t)1 << 29) + SLACK_SEGMENTS * conn->mss);
	conn->taken = 0;
	conn->taken_us = now_us;
}

void tcp_consumed(struct tcp_conn *conn, uint32_t bytes)
{
	uint32_t step;

	bytes = RTE_MIN(bytes, conn->unread);
	conn->unread -= bytes;
	conn->net->unread_bytes -= bytes;
	if (conn->state == TCP_CLOSED)
		return;
	measure_window(conn, bytes);
	/* The edge is announced when it has moved by two segments or half the window (RFC 9293, 3.8.6.2.2), and the
	 * peer may soon reach the old one. */
	step = RTE_MIN(2u * conn->mss, conn->rcv_buf / 2);
	if (seq_lt(conn->rcv_adv, conn->rcv_nxt + RTE_MAX(conn->rcv_buf / 4, step)) &&
	    seq_le(conn->rcv_adv + step, room_edge(conn)))
		tcp_list(conn, TCP_ACK_NOW);
}

void tcp_window_release(struct tcp_conn *conn)
{
	conn->net->unread_bytes -= conn->unread;
	conn->unread = 0;
	shrink(conn);
}
