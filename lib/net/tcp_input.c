/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments on their way in: RFC 9293, 3.10.7, with the checks of RFC 5961. */
#include "net/tcp_internal.h"

#include <errno.h>

enum {
	OPTION_END = 0,
	OPTION_NOP = 1,
	OPTION_MSS = 2,
	OPTION_SCALE = 3,
	SCALE_MAX = 14,
	CHALLENGE_ACKS_A_SECOND = 100,
	MSS_MIN = 64,
	WINDOW_MAX = 1 << 30, /* RFC 7323, 2.3 */
};

#define INVALID_ANSWER_NS (500 * NET_MS)

/* false for a list that does not parse: a length of 0 or 1, or past the end. */
static bool parse_options(struct tcp_segment *s, const uint8_t *option, unsigned bytes)
{
	s->mss = 536;
	s->scale = -1;
	while (bytes && *option != OPTION_END) {
		unsigned length;

		if (*option == OPTION_NOP) {
			option++;
			bytes--;
			continue;
		}
		if (bytes < 2 || option[1] < 2 || option[1] > bytes)
			return false;
		length = option[1];
		if (*option == OPTION_MSS && length == 4)
			s->mss = (uint16_t)(option[2] << 8 | option[3]);
		else if (*option == OPTION_SCALE && length == 3)
			s->scale = (int8_t)RTE_MIN(option[2], (uint8_t)SCALE_MAX);
		option += length;
		bytes -= length;
	}
	return true;
}

/* Owns the payload on success only. */
static bool parse(struct net *net, struct rte_mbuf *m, const struct net_packet *packet, struct tcp_segment *s)
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
	if (!net_checksum_holds(packet, tcp, have)) {
		net->counters.tcp_bad_checksum++;
		return false;
	}
	*s = (struct tcp_segment){
		.packet = packet,
		.tcp = tcp,
		.payload = m,
		.seq = rte_be_to_cpu_32(tcp->sent_seq),
		.ack = rte_be_to_cpu_32(tcp->recv_ack),
		.window = rte_be_to_cpu_16(tcp->rx_win),
		.bytes = have - header,
		.flags = tcp->tcp_flags,
	};
	s->space = s->bytes + !!(s->flags & RTE_TCP_SYN_FLAG) + !!(s->flags & RTE_TCP_FIN_FLAG);
	if (!parse_options(s, (const uint8_t *)(tcp + 1), header - sizeof(*tcp))) {
		net->counters.tcp_bad_option++;
		return false;
	}
	rte_pktmbuf_adj(m, header);
	return true;
}

/* At most so many a second: what a forger learns or causes by them is bounded (RFC 5961, 7). */
static void challenge(struct tcp_conn *conn)
{
	struct net *net = conn->net;
	const uint64_t second = net->now_ns / (1000 * NET_MS);

	if (net->challenge_second != second) {
		net->challenge_second = second;
		net->challenge_acks = CHALLENGE_ACKS_A_SECOND;
	}
	if (net->challenge_acks == 0)
		return;
	net->challenge_acks--;
	net->counters.tcp_challenge_acks++;
	tcp_list(conn, TCP_ACK_NOW);
}

static void take_syn_options(struct tcp_conn *conn, const struct tcp_segment *s)
{
	const uint16_t own = conn->path.mtu - net_path_header(&conn->path) - sizeof(struct rte_tcp_hdr);

	conn->mss = s->mss < MSS_MIN ? MSS_MIN : RTE_MIN(s->mss, own);
	if (s->scale >= 0)
		conn->snd_scale = (uint8_t)s->scale;
	else
		conn->rcv_scale = 0; /* both or none */
	conn->rcv_nxt = conn->rcv_adv = s->seq + 1;
	tcp_recovery_init(conn);
}

static void set_window(struct tcp_conn *conn, uint32_t window)
{
	conn->snd_wnd = window;
	conn->snd_wnd_max = RTE_MAX(conn->snd_wnd_max, window);
}

/* news: it acknowledges something for the first time, and so is no older than what was heard before. By the numbers alone one
 * segment from further on would hide all windows up to there. */
static void take_window(struct tcp_conn *conn, const struct tcp_segment *s, bool news)
{
	if (news || seq_lt(conn->snd_wl1, s->seq) || (conn->snd_wl1 == s->seq && seq_le(conn->snd_wl2, s->ack))) {
		const uint32_t window = s->window << (s->flags & RTE_TCP_SYN_FLAG ? 0 : conn->snd_scale);

		if (window && conn->snd_wnd == 0)
			tcp_window_opened(conn);
		else if (window > conn->snd_wnd && conn->send_next)
			tcp_list(conn, TCP_OUTPUT);
		set_window(conn, window);
		conn->snd_wl1 = s->seq;
		conn->snd_wl2 = s->ack;
	}
}

static void passive_open(struct net *net, const struct tcp_listener *listener, const struct tcp_segment *s)
{
	struct tcp_conn *conn = NULL;
	struct net_path path;

	if (!net_path_find(net, &s->packet->from, &s->packet->to, &path)) {
		net->counters.ip_no_route++;
		return;
	}
	if (net->half_open < net->half_open_max)
		conn = tcp_conn_make(net, listener, &path, s->tcp->dst_port, s->tcp->src_port);
	if (!conn) {
		net->counters.tcp_listen_overflow++;
		return;
	}
	net->half_open++;
	conn->flags |= TCP_PASSIVE;
	conn->state = TCP_SYN_RECEIVED;
	take_syn_options(conn, s);
	conn->snd_wl1 = s->seq;
	conn->snd_wl2 = conn->iss;
	set_window(conn, s->window);
	tcp_send_syn(conn);
	tcp_timer_arm(conn, conn->rto_us);
}

static bool establish(struct tcp_conn *conn)
{
	struct net *net = conn->net;

	if (conn->state == TCP_SYN_RECEIVED && conn->flags & TCP_PASSIVE) {
		net->half_open--;
		net->counters.tcp_passive_opens++;
	}
	conn->state = TCP_ESTABLISHED;
	conn->deadline_ns = 0;
	/* The handshake's round trip, if nothing of it was sent twice (Karn). */
	if (conn->tries == 0)
		tcp_measure_rtt(conn, conn->progress_ns);
	conn->tries = 0;
	conn->progress_ns = net->now_ns;
	if (!conn->handler->opened(conn->ctx, conn, &conn->user)) {
		if (conn->state != TCP_CLOSED)
			tcp_abort(conn);
		return false;
	}
	conn->flags |= TCP_TOLD;
	return conn->state != TCP_CLOSED;
}

/* RFC 9293, 3.10.7.3. */
static void syn_sent_input(struct tcp_conn *conn, const struct tcp_segment *s)
{
	const bool acks = s->flags & RTE_TCP_ACK_FLAG;

	if (acks && s->ack != conn->iss + 1) {
		tcp_refuse(conn->net, s->packet, s->tcp, s->space);
		return;
	}
	if (s->flags & RTE_TCP_RST_FLAG) {
		if (acks) {
			conn->net->counters.tcp_attempt_fails++;
			tcp_conn_end(conn, ECONNREFUSED);
		}
		return;
	}
	if (!(s->flags & RTE_TCP_SYN_FLAG))
		return;
	take_syn_options(conn, s);
	conn->snd_wl1 = s->seq;
	conn->snd_wl2 = s->ack;
	set_window(conn, s->window);
	if (acks) {
		conn->snd_una = s->ack;
		tcp_list(conn, TCP_ACK_NOW);
		establish(conn);
	} else { /* simultaneous open */
		conn->state = TCP_SYN_RECEIVED;
		tcp_send_syn(conn);
		tcp_timer_arm(conn, conn->rto_us);
	}
}

/* The sequence number, against the advertised window. A segment that is wholly old or beyond it is answered by an ACK. */
static bool acceptable(struct tcp_conn *conn, const struct tcp_segment *s)
{
	const uint32_t window = conn->rcv_adv - conn->rcv_nxt;
	const uint32_t last = s->seq + s->space - 1;

	if (s->space == 0)
		return s->seq - conn->rcv_nxt <= window; /* at the edge: sent with the window full */
	if (window == 0)
		return s->seq == conn->rcv_nxt; /* its data is cut off later, its ACK counts */
	return s->seq - conn->rcv_nxt < window || last - conn->rcv_nxt < window;
}

/* false when the segment is to be dropped. */
static bool take_ack(struct tcp_conn *conn, const struct tcp_segment *s)
{
	/* It acknowledges what was never sent, or what nobody can be in doubt about any more (RFC 5961, 5.2). */
	if (seq_lt(conn->snd_max, s->ack) ||
	    (seq_lt(s->ack, conn->snd_una) && conn->snd_una - s->ack > conn->snd_wnd_max)) {
		challenge(conn);
		return false;
	}
	if (seq_lt(conn->snd_una, s->ack)) {
		const bool had_payload = conn->send_head;

		tcp_acked(conn, s->ack);
		take_window(conn, s, true);
		if (had_payload && conn->flags & TCP_TOLD)
			conn->handler->acknowledged(conn->user);
		return conn->state != TCP_CLOSED;
	}
	if (s->ack == conn->snd_una && s->space == 0 && conn->snd_una != conn->snd_max &&
	    s->window << conn->snd_scale == conn->snd_wnd && conn->snd_wnd)
		tcp_duplicate_ack(conn);
	else if (conn->snd_wnd == 0 || s->window == 0)
		conn->progress_ns = conn->net->now_ns; /* alive, and only not reading */
	take_window(conn, s, false);
	return true;
}

/* What the acknowledgement of our FIN leads to. */
static void fin_acked(struct tcp_conn *conn)
{
	switch (conn->state) {
	case TCP_FIN_WAIT_1:
		conn->state = TCP_FIN_WAIT_2;
		tcp_timer_arm(conn, conn->net->options.user_timeout_ms * 1000ul); /* the peer may never close */
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
		if (conn->flags & TCP_TOLD)
			conn->handler->finished(conn->user);
		break;
	case TCP_FIN_WAIT_1:
		conn->state = TCP_CLOSING;
		break;
	case TCP_FIN_WAIT_2:
		tcp_enter_time_wait(conn);
		break;
	default:
		break;
	}
}

/* Data that is due; owns it. */
static void deliver(struct tcp_conn *conn, struct rte_mbuf *payload)
{
	const uint32_t bytes = payload->data_len;
	const bool fin = net_priv(payload)->fin;

	conn->rcv_nxt += bytes;
	if (bytes == 0) {
		rte_pktmbuf_free(payload);
	} else if (conn->flags & TCP_READ_CLOSED) {
		rte_pktmbuf_free(payload);
		tcp_abort(conn); /* data that nobody will read: the peer must know (RFC 9293, 3.6.1) */
		return;
	} else {
		conn->owed++;
		conn->unread += bytes;
		tcp_list(conn, 0);
		conn->handler->received(conn->user, payload);
	}
	if (fin && conn->state != TCP_CLOSED)
		take_fin(conn);
}

/* Cuts the payload to the window, and delivers it or keeps it for later; owns it. */
static void take_data(struct tcp_conn *conn, const struct tcp_segment *s)
{
	struct rte_mbuf *m = s->payload;
	uint32_t seq = s->seq, bytes = s->bytes;
	bool fin = s->flags & RTE_TCP_FIN_FLAG;

	if (seq_lt(seq, conn->rcv_nxt)) { /* the old part */
		const uint32_t old = RTE_MIN(conn->rcv_nxt - seq, bytes);

		rte_pktmbuf_adj(m, old);
		seq += old;
		bytes -= old;
		fin = fin && seq == conn->rcv_nxt; /* else it is old, too */
		tcp_list(conn, TCP_ACK_NOW);
	}
	if (bytes && seq_lt(conn->rcv_adv, seq + bytes)) { /* the part beyond the window */
		const uint32_t fits = seq_lt(seq, conn->rcv_adv) ? conn->rcv_adv - seq : 0;

		rte_pktmbuf_trim(m, bytes - fits);
		bytes = fits;
		fin = false;
		tcp_list(conn, TCP_ACK_NOW);
	}
	if (bytes == 0 && !fin) {
		rte_pktmbuf_free(m);
		return;
	}
	net_priv(m)->seq = seq;
	net_priv(m)->fin = fin;
	if (seq != conn->rcv_nxt) {
		tcp_list(conn, TCP_ACK_NOW); /* a duplicate ACK tells the sender at once */
		tcp_reorder_put(conn, m);
		return;
	}
	if (conn->reorder)
		tcp_list(conn, TCP_ACK_NOW);
	do
		deliver(conn, m);
	while (conn->state >= TCP_ESTABLISHED && conn->reorder && (m = tcp_reorder_take(conn)));
}

/* A segment that is not acceptable; true when its ACK counts all the same. */
static bool outside_window(struct tcp_conn *conn, const struct tcp_segment *s)
{
	const bool data = s->space && !(s->flags & RTE_TCP_SYN_FLAG);
	/* No further back than the largest window: what is nearly half the numbers away might be either old or new. */
	const bool old = data && conn->rcv_nxt - (s->seq + s->space) < WINDOW_MAX;
	const uint64_t now_ns = conn->net->now_ns;

	if (old)
		conn->net->counters.tcp_old_segs++;
	else
		conn->net->counters.tcp_outside_window++;
	if (s->flags & RTE_TCP_RST_FLAG)
		return false;
	if (conn->state == TCP_SYN_RECEIVED && s->flags & RTE_TCP_SYN_FLAG && s->seq == conn->rcv_nxt - 1) {
		tcp_send_syn(conn); /* our answer was lost */
		return false;
	}
	/* A pure ACK is answered now and then only: two ends that find each other's ACKs old would never stop. */
	if (data || now_ns - conn->answered_ns >= INVALID_ANSWER_NS) {
		conn->answered_ns = now_ns;
		tcp_list(conn, TCP_ACK_NOW);
	}
	/* Data that was sent again because our ACK was lost brings an ACK that may be news. */
	return old && s->flags & RTE_TCP_ACK_FLAG && conn->state != TCP_SYN_RECEIVED;
}

/* The checks before a segment's ACK and data count; false when it is to be dropped. */
static bool check(struct tcp_conn *conn, const struct tcp_segment *s)
{
	if (!acceptable(conn, s))
		return outside_window(conn, s);
	if (s->flags & RTE_TCP_RST_FLAG) {
		if (conn->state == TCP_TIME_WAIT)
			return false; /* RFC 1337 */
		if (s->seq != conn->rcv_nxt) {
			challenge(conn);
			return false;
		}
		if (conn->state == TCP_SYN_RECEIVED)
			conn->net->counters.tcp_attempt_fails++;
		else
			conn->net->counters.tcp_estab_resets++;
		tcp_conn_end(conn, ECONNRESET);
		return false;
	}
	if (s->flags & RTE_TCP_SYN_FLAG) {
		challenge(conn);
		return false;
	}
	return s->flags & RTE_TCP_ACK_FLAG;
}

/* true when the payload was taken over. */
static bool conn_input(struct tcp_conn *conn, const struct tcp_segment *s)
{
	if (!check(conn, s))
		return false;
	if (conn->state == TCP_SYN_RECEIVED) {
		if (s->ack != conn->iss + 1) {
			tcp_refuse(conn->net, s->packet, s->tcp, s->space);
			return false;
		}
		conn->snd_una = s->ack;
		take_window(conn, s, true);
		if (!establish(conn))
			return false;
	} else if (!take_ack(conn, s)) {
		return false;
	}
	if (conn->flags & TCP_FIN_QUEUED && conn->snd_una == conn->snd_end + 1)
		fin_acked(conn);
	if (s->bytes == 0 && !(s->flags & RTE_TCP_FIN_FLAG))
		return false;
	switch (conn->state) {
	case TCP_ESTABLISHED:
	case TCP_FIN_WAIT_1:
	case TCP_FIN_WAIT_2:
		take_data(conn, s);
		return true;
	case TCP_CLOSED:
		return false;
	default: /* the peer has sent its FIN: what comes is that one again */
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

static bool may_reuse_time_wait(const struct tcp_conn *conn, const struct tcp_segment *s)
{
	return conn->state == TCP_TIME_WAIT &&
	       (s->flags & (RTE_TCP_SYN_FLAG | RTE_TCP_ACK_FLAG | RTE_TCP_RST_FLAG)) == RTE_TCP_SYN_FLAG &&
	       seq_lt(conn->rcv_nxt, s->seq);
}

void tcp_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet)
{
	struct tcp_conn *conn;
	struct tcp_segment s;
	bool taken = false;

	net->counters.tcp_in++;
	if (!parse(net, m, packet, &s)) {
		rte_pktmbuf_free(m);
		return;
	}
	conn = tcp_find(net, &packet->to, s.tcp->dst_port, &packet->from, s.tcp->src_port);
	if (conn && may_reuse_time_wait(conn, &s)) {
		net->counters.tcp_time_wait_reused++;
		tcp_conn_end(conn, 0);
		conn = NULL;
	}
	if (conn && conn->state == TCP_SYN_SENT) {
		syn_sent_input(conn, &s);
	} else if (conn) {
		taken = conn_input(conn, &s);
	} else {
		const struct tcp_listener *listener = find_listener(net, s.tcp->dst_port);

		if (listener &&
		    (s.flags & (RTE_TCP_SYN_FLAG | RTE_TCP_ACK_FLAG | RTE_TCP_RST_FLAG)) == RTE_TCP_SYN_FLAG) {
			passive_open(net, listener, &s);
		} else {
			net->counters.tcp_no_port++;
			tcp_refuse(net, packet, s.tcp, s.space);
		}
	}
	if (!taken)
		rte_pktmbuf_free(m);
}
