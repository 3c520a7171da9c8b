/* SPDX-License-Identifier: BSD-3-Clause */
/* Received segments: RFC 9293, 3.10.7, with the checks of RFC 5961 and RFC 7323. */
#include "net/tcp_internal.h"

#include <errno.h>

#include "net/siphash.h"

enum {
	CHALLENGE_ACKS_PER_SECOND = 1000,
	INVALID_ANSWER_MS = 500,
	TIMESTAMP_OLD_S = 24 * 86400, /* RFC 7323, 5.5 */
	WINDOW_MAX = 1 << 30,	      /* RFC 7323, 2.3 */
};

#define SECOND_NS (1000 * NET_MS)

/* Owns the payload on success only. */
static bool parse_segment(struct net *net, struct rte_mbuf *m, const struct net_packet *packet, struct tcp_segment *s)
{
	const struct rte_tcp_hdr *tcp = rte_pktmbuf_mtod(m, const struct rte_tcp_hdr *);
	const uint16_t have = rte_pktmbuf_data_len(m);
	uint16_t header;

	if (have < sizeof(*tcp)) {
		net->counters.tcp_bad_header++;
		return false;
	}
	header = (tcp->data_off >> 4) * 4;
	if (header < sizeof(*tcp) || header > have) {
		net->counters.tcp_bad_header++;
		return false;
	}
	if (!net_checksum_seen_holds(packet, m, tcp, have)) {
		net->counters.tcp_bad_checksum++;
		return false;
	}
	if (!tcp_segment_read(s, packet, m, tcp, have)) {
		net->counters.tcp_bad_option++;
		return false;
	}
	/* Urgent data is treated as data, and the pointer is ignored, so that two readers of a stream cannot be made to
	 * disagree (RFC 6093). */
	net->counters.tcp_urgent += !!(s->flags & RTE_TCP_URG_FLAG);
	rte_pktmbuf_adj(m, header);
	return true;
}

/* Challenge ACKs: two per second for a connection, which is all that its peer needs, and this many per second for the
 * stack. That number changes at random every second, so counting them reveals nothing about other connections
 * (CVE-2016-5696). */
static bool may_answer(struct tcp_conn *conn)
{
	struct net *net = conn->net;
	const uint64_t second = net->now_ns / SECOND_NS;

	if (conn->answered_ms && net_ms(net) - conn->answered_ms < INVALID_ANSWER_MS) {
		net->counters.tcp_acks_skipped++;
		return false;
	}
	if (net->challenge_second != second) {
		net->challenge_second = second;
		net->challenge_acks = CHALLENGE_ACKS_PER_SECOND / 2 +
				      (uint32_t)siphash(net->options.secret, &second, 1) % CHALLENGE_ACKS_PER_SECOND;
	}
	if (net->challenge_acks == 0) {
		net->counters.tcp_acks_skipped++;
		return false;
	}
	net->challenge_acks--;
	conn->answered_ms = RTE_MAX(net_ms(net), 1u);
	return true;
}

void tcp_challenge(struct tcp_conn *conn)
{
	if (!may_answer(conn))
		return;
	conn->net->counters.tcp_challenge_acks++;
	tcp_list(conn, TCP_ACK_NOW);
}

/* Answers a segment that is not acceptable. One without data is answered only now and then: two ends that find each
 * other's ACKs old would never stop. */
static void answer_segment(struct tcp_conn *conn, const struct tcp_segment *s)
{
	if ((s->space && !(s->flags & RTE_TCP_SYN_FLAG)) || may_answer(conn))
		tcp_list(conn, TCP_ACK_NOW);
}

/* news: the segment acknowledges something for the first time, so it is not older than what came before. A segment
 * after a hole counts as if it came before the hole: with its own number it would hide all windows until that number is
 * reached. */
void tcp_take_window(struct tcp_conn *conn, const struct tcp_segment *s, bool news)
{
	if (news || seq_lt(conn->snd_wl1, s->seq) || (conn->snd_wl1 == s->seq && seq_le(conn->snd_wl2, s->ack))) {
		const uint32_t window = s->window << (s->flags & RTE_TCP_SYN_FLAG ? 0 : conn->snd_scale);

		if (window && conn->snd_wnd == 0)
			tcp_window_opened(conn);
		else if (window > conn->snd_wnd && conn->send_next)
			tcp_list(conn, TCP_OUTPUT);
		conn->snd_wnd = window;
		conn->snd_wnd_max = RTE_MAX(conn->snd_wnd_max, window);
		conn->snd_wl1 = seq_lt(conn->rcv_nxt, s->seq) ? conn->rcv_nxt : s->seq;
		conn->snd_wl2 = s->ack;
	}
}

/* Checks the sequence number against the advertised window. A segment that is completely old, or beyond the window, is
 * answered by an ACK. */
static bool acceptable(const struct tcp_conn *conn, const struct tcp_segment *s)
{
	const uint32_t window = conn->rcv_adv - conn->rcv_nxt;
	const uint32_t last = s->seq + s->space - 1;

	if (s->space == 0)
		return s->seq - conn->rcv_nxt <= window; /* at the edge: sent when the window was full */
	if (window == 0)
		return s->seq == conn->rcv_nxt; /* its data is cut off later, but its ACK counts */
	return s->seq - conn->rcv_nxt < window || last - conn->rcv_nxt < window;
}

/* False: the segment must be dropped. */
static bool take_ack(struct tcp_conn *conn, const struct tcp_segment *s)
{
	const uint32_t una = conn->snd_una;
	bool had_payload, news;

	/* It acknowledges what was never sent, or what was acknowledged so long ago that no peer can still do so (RFC
	 * 5961, 5.2). */
	if (seq_lt(conn->snd_nxt, s->ack) ||
	    (seq_lt(s->ack, conn->snd_una) && conn->snd_una - s->ack > conn->snd_wnd_max)) {
		tcp_challenge(conn);
		return false;
	}
	had_payload = conn->send_head;
	news = tcp_sender_ack(conn, s);
	/* The peer is alive, but not reading. */
	if (!news && (conn->snd_wnd == 0 || s->window == 0))
		conn->progress_ns = conn->net->now_ns;
	tcp_take_window(conn, s, news);
	conn->bytes_acked += conn->snd_una - una;
	if (news)
		conn->soft_error = 0;
	if (news && had_payload && conn->flags & TCP_TOLD)
		conn->handler->acknowledged(conn->user);
	return conn->state != TCP_CLOSED;
}

/* Our FIN was acknowledged. */
static void fin_acked(struct tcp_conn *conn)
{
	switch (conn->state) {
	case TCP_FIN_WAIT_1:
		conn->state = TCP_FIN_WAIT_2;
		tcp_timer_stop(conn, TCP_TIMER_RETRANSMIT);
		tcp_timer_idle(conn);
		break;
	case TCP_CLOSING:
		tcp_enter_time_wait(conn);
		break;
	case TCP_LAST_ACK:
		tcp_conn_end(conn, 0);
		break;
	default:
		break;
	}
}

/* Processes a segment that is not acceptable; true: its ACK counts anyway. */
static bool outside_window(struct tcp_conn *conn, const struct tcp_segment *s)
{
	const bool data = s->space && !(s->flags & RTE_TCP_SYN_FLAG);
	/* Not older than the largest window: a number half the number space away could be old or new. */
	const bool old = data && conn->rcv_nxt - (s->seq + s->space) < WINDOW_MAX;
	struct net *net = conn->net;

	if (old)
		net->counters.tcp_old_segs++;
	else
		net->counters.tcp_outside_window++;
	if (s->flags & RTE_TCP_RST_FLAG)
		return false;
	if (conn->state == TCP_SYN_RECEIVED && s->flags & RTE_TCP_SYN_FLAG && s->seq == conn->rcv_nxt - 1) {
		if (may_answer(conn))
			tcp_send_syn(conn); /* our answer was lost */
		return false;
	}
	/* The peer has not received our ACK of its FIN, so the time in which it may repeat the FIN starts again (RFC
	 * 9293, 3.10.7.4). */
	if (old && s->flags & RTE_TCP_FIN_FLAG && conn->state == TCP_TIME_WAIT)
		tcp_timer_start(conn, TCP_TIMER_STATE, net->options.time_wait_ms * 1000ul);
	answer_segment(conn, s);
	/* A retransmission whose ACK was lost may carry a new ACK. */
	return old && s->flags & RTE_TCP_ACK_FLAG && conn->state != TCP_SYN_RECEIVED;
}

/* Networks reorder packets: an ACK without news was overtaken by the segment that set the timestamp; that is not a sign
 * of old data. */
static bool is_overtaken_ack(const struct tcp_conn *conn, const struct tcp_segment *s)
{
	return s->space == 0 && s->flags & RTE_TCP_ACK_FLAG && seq_le(s->seq, conn->rcv_nxt) &&
	       seq_le(s->ack, conn->snd_una);
}

/* Checks timestamps (RFC 7323, 5.3): false if the segment is old, or has none. A RST may be of any age. */
static bool timestamp_holds(struct tcp_conn *conn, const struct tcp_segment *s)
{
	struct net *net = conn->net;

	if (s->flags & RTE_TCP_RST_FLAG)
		return true;
	if (!s->has_timestamp) {
		net->counters.tcp_no_timestamp++;
		if (s->flags & RTE_TCP_SYN_FLAG)
			tcp_challenge(conn);
		return false;
	}
	if ((int32_t)(s->ts_value - conn->ts_recent) < 0 && net_s(net) - conn->ts_heard_s < TIMESTAMP_OLD_S) {
		if (is_overtaken_ack(conn, s))
			net->counters.tcp_paws_old_acks++;
		else
			net->counters.tcp_paws++;
		if (s->flags & RTE_TCP_SYN_FLAG)
			tcp_challenge(conn);
		else
			answer_segment(conn, s);
		return false;
	}
	return true;
}

/* Ends the connection if a RST is in the window (RFC 5961, 3.2). */
static void take_reset(struct tcp_conn *conn, const struct tcp_segment *s)
{
	if (conn->state == TCP_TIME_WAIT)
		return; /* RFC 1337 */
	if (s->seq != conn->rcv_nxt) {
		tcp_challenge(conn);
		return;
	}
	if (conn->state == TCP_SYN_RECEIVED)
		conn->net->counters.tcp_attempt_fails++;
	else
		conn->net->counters.tcp_estab_resets++;
	tcp_conn_end(conn, conn->state == TCP_SYN_RECEIVED ? ECONNREFUSED : ECONNRESET);
}

/* The other side's SYN and ACK in a simultaneous open: its number is one below the window (RFC 9293, figure 8). */
static bool is_simultaneous(const struct tcp_conn *conn, const struct tcp_segment *s)
{
	const uint8_t both = RTE_TCP_SYN_FLAG | RTE_TCP_ACK_FLAG;

	return conn->state == TCP_SYN_RECEIVED && (s->flags & (both | RTE_TCP_RST_FLAG)) == both && s->space == 1 &&
	       s->seq == conn->rcv_nxt - 1 && s->ack == conn->iss + 1;
}

/* The checks before a segment's ACK and data count; false: it must be dropped. */
static bool check_in_window(struct tcp_conn *conn, const struct tcp_segment *s)
{
	if (conn->features & TCP_FEATURE_TIMESTAMP && !timestamp_holds(conn, s))
		return false;
	if (unlikely(!acceptable(conn, s)))
		return is_simultaneous(conn, s) || outside_window(conn, s);
	if (unlikely(s->flags & RTE_TCP_RST_FLAG)) {
		take_reset(conn, s);
		return false;
	}
	if (unlikely(s->flags & RTE_TCP_SYN_FLAG)) {
		tcp_challenge(conn);
		return false;
	}
	return s->flags & RTE_TCP_ACK_FLAG;
}

bool tcp_conn_input(struct tcp_conn *conn, const struct tcp_segment *s)
{
	const uint32_t una = conn->snd_una;

	conn->heard_ms = net_ms(conn->net);
	conn->segs_in++;
	conn->keep_sent = 0;
	if (!check_in_window(conn, s))
		return false;
	if (unlikely(conn->state == TCP_SYN_RECEIVED)) {
		if (s->ack != conn->iss + 1) {
			tcp_refuse(conn->net, s->packet, s->tcp, s->space);
			return false;
		}
		conn->snd_una = s->ack;
		tcp_take_window(conn, s, true);
		if (!tcp_establish(conn))
			return false;
	} else if (!take_ack(conn, s)) {
		return false;
	}
	if (conn->snd_una != una || (s->bytes && seq_lt(conn->rcv_nxt, s->seq + s->bytes)))
		conn->data_ms = conn->heard_ms;
	/* A segment that spans our last ACK updates the peer's current timestamp (RFC 7323, 4.3). */
	if (conn->features & TCP_FEATURE_TIMESTAMP && seq_le(s->seq, conn->ack_sent) &&
	    seq_le(conn->ack_sent, s->seq + s->space)) {
		conn->ts_recent = s->ts_value;
		conn->ts_heard_s = net_s(conn->net);
	}
	if (conn->flags & TCP_FIN_QUEUED && conn->snd_una == conn->snd_end + 1)
		fin_acked(conn);
	if (s->bytes == 0 && !(s->flags & RTE_TCP_FIN_FLAG))
		return false;
	switch (conn->state) {
	case TCP_ESTABLISHED:
	case TCP_FIN_WAIT_1:
	case TCP_FIN_WAIT_2:
		tcp_take_data(conn, s);
		return true;
	case TCP_CLOSED:
		return false;
	default: /* the peer has sent its FIN, so this is a repetition */
		tcp_list(conn, TCP_ACK_NOW);
		return false;
	}
}

static const struct tcp_listener *find_listener(const struct net *net, rte_be16_t port)
{
	for (unsigned i = 0; i < net->listeners_count; i++)
		if (net->listeners[i].port == rte_be_to_cpu_16(port))
			return &net->listeners[i];
	return NULL;
}

static bool is_syn(const struct tcp_segment *s)
{
	return (s->flags & (RTE_TCP_SYN_FLAG | RTE_TCP_ACK_FLAG | RTE_TCP_RST_FLAG)) == RTE_TCP_SYN_FLAG;
}

static bool is_ack(const struct tcp_segment *s)
{
	return (s->flags & (RTE_TCP_SYN_FLAG | RTE_TCP_ACK_FLAG | RTE_TCP_RST_FLAG)) == RTE_TCP_ACK_FLAG;
}

/* Whether a SYN may follow a connection in TIME_WAIT: it is not an old one if its number or its timestamp is above all
 * that was received (RFC 9293, 3.6.1; RFC 6191). */
static bool may_follow(const struct tcp_conn *former, const struct tcp_segment *s)
{
	if (former->state != TCP_TIME_WAIT || !is_syn(s))
		return false;
	if (former->features & TCP_FEATURE_TIMESTAMP && s->has_timestamp && s->ts_value != former->ts_recent)
		return (int32_t)(s->ts_value - former->ts_recent) > 0;
	return seq_lt(former->rcv_nxt, s->seq);
}

/* Processes a segment that belongs to no connection; true: its payload was taken over. */
static bool listen_input(struct net *net, const struct tcp_segment *s, struct tcp_conn *former)
{
	const struct tcp_listener *listener = find_listener(net, s->tcp->dst_port);
	struct tcp_conn *conn;

	if (listener && is_syn(s)) {
		tcp_passive_open(net, listener, s, former);
		return false;
	}
	if (listener && is_ack(s) && (conn = tcp_cookie_open(net, listener, s)))
		return tcp_conn_input(conn, s);
	if (listener && !(s->flags & (RTE_TCP_SYN_FLAG | RTE_TCP_ACK_FLAG | RTE_TCP_RST_FLAG))) {
		net->counters.tcp_no_flags++; /* RFC 9293, 3.10.7.2: "other" */
		return false;
	}
	net->counters.tcp_no_port++;
	tcp_refuse(net, s->packet, s->tcp, s->space);
	return false;
}

void tcp_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet)
{
	struct tcp_conn *conn;
	struct tcp_segment s;
	bool taken;

	net->counters.tcp_in++;
	if (!parse_segment(net, m, packet, &s)) {
		rte_pktmbuf_free(m);
		return;
	}
	conn = tcp_find(net, &packet->to, s.tcp->dst_port, &packet->from, s.tcp->src_port);
	if (unlikely(!conn) || unlikely(may_follow(conn, &s)))
		taken = listen_input(net, &s, conn);
	else if (unlikely(conn->state == TCP_SYN_SENT))
		taken = tcp_syn_sent_input(conn, &s);
	else
		taken = tcp_conn_input(conn, &s);
	if (!taken)
		rte_pktmbuf_free(m);
}
