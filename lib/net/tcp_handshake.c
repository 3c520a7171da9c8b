/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening connections: RFC 9293, 3.5 and 3.10.7.2 to 3.10.7.4. */
#include <errno.h>

#include "net/tcp_internal.h"

enum {
	MSS_MIN = 88,	      /* a smaller one is a trick to make us send headers */
	MSS_DEFAULT_V4 = 536, /* RFC 9293, 3.7.1 */
	MSS_DEFAULT_V6 = 1220,
};

static uint8_t asked_features(const struct tcp_conn *conn, const struct tcp_segment *s)
{
	return (s->sack_permitted ? TCP_FEATURE_SACK : 0) | (s->has_timestamp ? TCP_FEATURE_TIMESTAMP : 0) |
	       (s->scale >= 0 ? TCP_FEATURE_SCALE : 0) | (tcp_ecn_agreed(conn, s) ? TCP_FEATURE_ECN : 0);
}

void tcp_take_syn(struct tcp_conn *conn, const struct tcp_segment *s)
{
	const uint16_t own = conn->path.mtu - net_path_header(&conn->path) - sizeof(struct rte_tcp_hdr);
	const uint16_t usual = net_address_is_v4(&conn->path.remote) ? MSS_DEFAULT_V4 : MSS_DEFAULT_V6;
	const uint16_t theirs = RTE_MAX(s->mss ? s->mss : usual, (uint16_t)MSS_MIN);

	conn->features &= asked_features(conn, s);
	conn->mss = RTE_MIN(theirs, own);
	if (conn->features & TCP_FEATURE_TIMESTAMP) {
		conn->mss -= TCP_TIMESTAMPS_BYTES;
		conn->ts_recent = s->ts_value;
		conn->ts_heard_s = net_s(conn->net);
	}
	if (conn->features & TCP_FEATURE_SCALE)
		conn->snd_scale = (uint8_t)s->scale;
	else
		conn->rcv_scale = 0; /* both sides scale, or none (RFC 7323, 2.2) */
	conn->rcv_nxt = conn->rcv_adv = conn->ack_sent = s->seq + 1;
	conn->heard_ms = net_ms(conn->net);
	conn->segs_in++;
	tcp_sender_init(conn);
}

static void take_first_window(struct tcp_conn *conn, const struct tcp_segment *s, uint32_t ack)
{
	conn->snd_wl1 = s->seq;
	conn->snd_wl2 = ack;
	conn->snd_wnd = conn->snd_wnd_max = s->window;
}

void tcp_passive_open(struct net *net, const struct tcp_listener *listener, const struct tcp_segment *s,
		      struct tcp_conn *former)
{
	const uint32_t floor = former ? former->snd_nxt + TCP_ISS_STEP : 0;
	struct tcp_conn *conn;
	struct net_path path;

	if (net->pressure != NET_PRESSURE_NONE || s->flags & RTE_TCP_FIN_FLAG) { /* SYN and FIN: not a real peer */
		net->counters.tcp_listen_drops++;
		return;
	}
	if (!net_path_find(net, &s->packet->from, &s->packet->to, &path)) {
		net->counters.ip_no_route++;
		return;
	}
	if (former)
		tcp_leave_time_wait(former);
	/* No connection is closed in favour of an address that may be forged. */
	if (net->half_open >= net->options.half_open_max || net->options.cookies_always ||
	    tcp_is_crowded(net, &path.remote)) {
		tcp_cookie_send(net, listener, &path, s);
		return;
	}
	conn = tcp_conn_make(net, listener, &path, s->tcp->dst_port, s->tcp->src_port);
	if (!conn) {
		net->counters.tcp_listen_overflow++;
		return;
	}
	if (former && seq_lt(conn->iss, floor))
		tcp_set_iss(conn, floor);
	net->half_open++;
	conn->flags |= TCP_PASSIVE;
	conn->state = TCP_SYN_RECEIVED;
	tcp_take_syn(conn, s);
	take_first_window(conn, s, conn->iss);
	tcp_send_syn(conn);
	tcp_timer_start(conn, TCP_TIMER_RETRANSMIT, conn->rto_us);
}

bool tcp_establish(struct tcp_conn *conn)
{
	struct net *net = conn->net;

	if (conn->state == TCP_SYN_RECEIVED && conn->flags & TCP_PASSIVE) {
		net->half_open--;
		net->counters.tcp_passive_opens++;
	}
	conn->state = TCP_ESTABLISHED;
	tcp_timer_stop(conn, TCP_TIMER_RETRANSMIT);
	/* Measures the handshake's round trip, unless something was sent twice (Karn). */
	if (conn->tries == 0)
		tcp_measure_rtt(conn, conn->progress_ns);
	conn->tries = 0;
	conn->soft_error = 0;
	conn->progress_ns = net->now_ns;
	tcp_timer_idle(conn);
	if (conn->handler->opened(conn->ctx, conn, &conn->user))
		conn->flags |= TCP_TOLD;
	else
		tcp_abort(conn);
	return conn->state != TCP_CLOSED;
}

/* An answer to our SYN echoes a timestamp that we have sent since; otherwise it belongs to an older connection. */
static bool echoes_ours(const struct tcp_conn *conn, const struct tcp_segment *s)
{
	const uint64_t since_ms = (conn->net->now_ns - conn->progress_ns) / NET_MS;

	if (!(conn->features & TCP_FEATURE_TIMESTAMP) || !s->has_timestamp || s->ts_echo == 0)
		return true;
	return tcp_timestamp(conn) - s->ts_echo <= since_ms + 1;
}

bool tcp_syn_sent_input(struct tcp_conn *conn, const struct tcp_segment *s)
{
	const bool acks = s->flags & RTE_TCP_ACK_FLAG;
	struct tcp_segment rest = *s;

	if (acks && (s->ack != conn->iss + 1 || !echoes_ours(conn, s))) {
		conn->net->counters.tcp_paws_active += s->ack == conn->iss + 1;
		tcp_refuse(conn->net, s->packet, s->tcp, s->space);
		return false;
	}
	if (s->flags & RTE_TCP_RST_FLAG) {
		if (acks) {
			conn->net->counters.tcp_attempt_fails++;
			tcp_conn_end(conn, ECONNREFUSED);
		}
		return false;
	}
	if (!(s->flags & RTE_TCP_SYN_FLAG))
		return false;
	tcp_take_syn(conn, s);
	take_first_window(conn, s, s->ack);
	if (!acks) { /* simultaneous open */
		conn->state = TCP_SYN_RECEIVED;
		tcp_send_syn(conn);
		tcp_timer_start(conn, TCP_TIMER_RETRANSMIT, conn->rto_us);
		return false;
	}
	conn->snd_una = s->ack;
	tcp_list(conn, TCP_ACK_NOW);
	if (!tcp_establish(conn) || (s->bytes == 0 && !(s->flags & RTE_TCP_FIN_FLAG)))
		return false;
	/* Data that came with the SYN follows it; the window for it has not been announced yet. */
	rest.seq++;
	tcp_window_field(conn, 0);
	tcp_take_data(conn, &rest);
	return true;
}
