/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments on their way out. */
#include "net/tcp_internal.h"

/* SYN options: MSS (RFC 9293) and window scale (RFC 7323), with a NOP between them for alignment. */
enum { OPTION_MSS = 2, OPTION_SCALE = 3, OPTION_NOP = 1, SYN_OPTIONS_BYTES = 8 };

/* The window field; moves the advertised edge, which never goes back (RFC 9293, 3.8.6.2.1). */
static uint16_t window_field(struct tcp_conn *conn, unsigned scale)
{
	const uint32_t room = conn->net->options.receive_window_bytes;
	const uint32_t edge = conn->rcv_nxt + (conn->unread < room ? room - conn->unread : 0);
	uint32_t window;

	if (seq_lt(conn->rcv_adv, edge))
		window = (edge - conn->rcv_nxt) >> scale;
	else
		window = (conn->rcv_adv - conn->rcv_nxt + (1u << scale) - 1) >> scale;
	window = RTE_MIN(window, (uint32_t)UINT16_MAX);
	if (seq_lt(conn->rcv_adv, conn->rcv_nxt + (window << scale)))
		conn->rcv_adv = conn->rcv_nxt + (window << scale);
	return (uint16_t)window;
}

static unsigned put_syn_options(const struct tcp_conn *conn, uint8_t *option, bool scale)
{
	const uint16_t mss = conn->path.mtu - net_path_header(&conn->path) - sizeof(struct rte_tcp_hdr);

	option[0] = OPTION_MSS;
	option[1] = 4;
	option[2] = mss >> 8;
	option[3] = mss & 0xff;
	if (!scale)
		return 4;
	option[4] = OPTION_NOP;
	option[5] = OPTION_SCALE;
	option[6] = 3;
	option[7] = conn->rcv_scale;
	return SYN_OPTIONS_BYTES;
}

/* The last steps of every segment: TCP's checksum, IP, Ethernet. segment's data starts with the TCP header. */
static void finish(struct net *net, const struct net_path *path, struct rte_mbuf *segment)
{
	struct rte_tcp_hdr *tcp = rte_pktmbuf_mtod(segment, struct rte_tcp_hdr *);

	tcp->cksum = 0;
	tcp->cksum = (uint16_t)~checksum_transport(&path->local, &path->remote, IPPROTO_TCP, tcp,
						   rte_pktmbuf_data_len(segment));
	net->counters.tcp_out++;
	net_send(net, path, segment, IPPROTO_TCP, 0);
}

/* payload, if there is one, is in the send queue: the reference that goes out is a second one. */
void tcp_send_segment(struct tcp_conn *conn, uint8_t flags, uint32_t seq, struct rte_mbuf *payload)
{
	struct net *net = conn->net;
	struct rte_mbuf *packet = payload;
	struct rte_tcp_hdr *tcp;
	unsigned options = 0;

	if (payload) {
		const struct net_priv *p = net_priv(payload);

		rte_mbuf_refcnt_update(payload, 1);
		payload->data_off = p->payload_off;
		payload->data_len = p->payload_len;
		payload->pkt_len = p->payload_len;
	} else {
		packet = net_alloc(net);
		if (!packet)
			return; /* counted; the timers try again */
		if (flags & RTE_TCP_SYN_FLAG)
			options = put_syn_options(conn, (uint8_t *)rte_pktmbuf_append(packet, SYN_OPTIONS_BYTES),
						  conn->rcv_scale != 0 || !(flags & RTE_TCP_ACK_FLAG));
		if (options)
			rte_pktmbuf_trim(packet, SYN_OPTIONS_BYTES - options);
	}
	tcp = (struct rte_tcp_hdr *)rte_pktmbuf_prepend(packet, sizeof(*tcp));
	tcp->src_port = conn->local_port;
	tcp->dst_port = conn->remote_port;
	tcp->sent_seq = rte_cpu_to_be_32(seq);
	tcp->recv_ack = flags & RTE_TCP_ACK_FLAG ? rte_cpu_to_be_32(conn->rcv_nxt) : 0;
	tcp->data_off = (uint8_t)((sizeof(*tcp) + options) / 4 << 4);
	tcp->tcp_flags = flags;
	tcp->rx_win = rte_cpu_to_be_16(window_field(conn, flags & RTE_TCP_SYN_FLAG ? 0 : conn->rcv_scale));
	tcp->tcp_urp = 0;
	if (flags & RTE_TCP_ACK_FLAG) {
		conn->owed = 0;
		conn->flags &= (uint8_t)~TCP_ACK_NOW;
	}
	finish(net, &conn->path, packet);
}

/*
 * The number of a segment without data: the highest sent, not the next one (after a timeout that is old, and the peer would
 * not look at the ACK); but not beyond the peer's window, where a probe's byte lies, for it would not look there either.
 */
static uint32_t bare_seq(const struct tcp_conn *conn)
{
	const uint32_t edge = conn->snd_una + conn->snd_wnd;

	return seq_lt(edge, conn->snd_max) ? edge : conn->snd_max;
}

void tcp_send_ack(struct tcp_conn *conn)
{
	tcp_send_segment(conn, RTE_TCP_ACK_FLAG, bare_seq(conn), NULL);
}

void tcp_send_syn(struct tcp_conn *conn)
{
	const bool answer = conn->state == TCP_SYN_RECEIVED;

	tcp_send_segment(conn, RTE_TCP_SYN_FLAG | (answer ? RTE_TCP_ACK_FLAG : 0), conn->iss, NULL);
	conn->snd_nxt = conn->snd_max = conn->iss + 1;
}

void tcp_reset_peer(struct tcp_conn *conn)
{
	conn->net->counters.tcp_out_rsts++;
	tcp_send_segment(conn, RTE_TCP_RST_FLAG | RTE_TCP_ACK_FLAG, bare_seq(conn), NULL);
}

/* RFC 9293, 3.10.7.1. */
void tcp_refuse(struct net *net, const struct net_packet *packet, const struct rte_tcp_hdr *in, uint32_t seg_len)
{
	struct net_path path;
	struct rte_mbuf *segment;
	struct rte_tcp_hdr *tcp;

	if (in->tcp_flags & RTE_TCP_RST_FLAG || !net_path_find(net, &packet->from, &packet->to, &path))
		return;
	segment = net_alloc(net);
	if (!segment)
		return;
	tcp = (struct rte_tcp_hdr *)rte_pktmbuf_append(segment, sizeof(*tcp));
	memset(tcp, 0, sizeof(*tcp));
	tcp->src_port = in->dst_port;
	tcp->dst_port = in->src_port;
	tcp->data_off = sizeof(*tcp) / 4 << 4;
	if (in->tcp_flags & RTE_TCP_ACK_FLAG) {
		tcp->sent_seq = in->recv_ack;
		tcp->tcp_flags = RTE_TCP_RST_FLAG;
	} else {
		tcp->recv_ack = rte_cpu_to_be_32(rte_be_to_cpu_32(in->sent_seq) + seg_len);
		tcp->tcp_flags = RTE_TCP_RST_FLAG | RTE_TCP_ACK_FLAG;
	}
	net->counters.tcp_out_rsts++;
	finish(net, &path, segment);
}

/* A copy of a payload in an mbuf of its own, e.g. for a transmission while the driver still holds the one before. */
static struct rte_mbuf *copy_payload(struct net *net, struct rte_mbuf *m)
{
	const struct net_priv *p = net_priv(m);
	struct rte_mbuf *copy = net_alloc(net);

	if (!copy)
		return NULL;
	memcpy(rte_pktmbuf_append(copy, p->payload_len), (const char *)m->buf_addr + p->payload_off, p->payload_len);
	*net_priv(copy) = *p;
	net_priv(copy)->payload_off = copy->data_off;
	return copy;
}

/* Sends an mbuf of the send queue, the first time or again. */
static void send_payload(struct tcp_conn *conn, struct rte_mbuf *m)
{
	struct net_priv *p = net_priv(m);
	const bool last = seq_le(conn->snd_end, p->seq + p->payload_len);
	const uint8_t flags = RTE_TCP_ACK_FLAG | (last ? RTE_TCP_PSH_FLAG : 0);

	p->sent_ns = conn->net->now_ns;
	if (p->transmissions < UINT8_MAX)
		p->transmissions++;
	if (p->transmissions > 1)
		conn->net->counters.tcp_retrans_segs++;
	/* After a partial ACK the payload may begin anywhere: headers before it need their alignment. */
	if (rte_mbuf_refcnt_read(m) == 1 && p->payload_off % sizeof(uint32_t) == 0) {
		tcp_send_segment(conn, flags, p->seq, m);
	} else {
		struct rte_mbuf *copy = copy_payload(conn->net, m);

		if (copy) {
			tcp_send_segment(conn, flags, p->seq, copy);
			rte_pktmbuf_free(copy); /* the segment's own reference stays */
		}
	}
}

static void note_sent(struct tcp_conn *conn, uint32_t end)
{
	conn->snd_nxt = end;
	if (seq_lt(conn->snd_max, end))
		conn->snd_max = end;
}

void tcp_retransmit_head(struct tcp_conn *conn)
{
	struct rte_mbuf *m = conn->send_head;

	if (m) {
		send_payload(conn, m);
		if (conn->send_next == m) {
			conn->send_next = net_priv(m)->next;
			note_sent(conn, net_priv(m)->seq + net_priv(m)->payload_len);
		}
	} else if (conn->flags & TCP_FIN_QUEUED) {
		tcp_send_segment(conn, RTE_TCP_FIN_FLAG | RTE_TCP_ACK_FLAG, conn->snd_end, NULL);
		note_sent(conn, conn->snd_end + 1);
	}
}

/* Cuts the first mbuf to send after so many bytes, because the window ends there. */
static bool split(struct tcp_conn *conn, uint32_t bytes)
{
	struct rte_mbuf *m = conn->send_next, *rest = copy_payload(conn->net, m);
	struct net_priv *p = net_priv(m), *r;

	if (!rest)
		return false;
	r = net_priv(rest);
	r->seq += bytes;
	r->payload_off += bytes;
	r->payload_len -= bytes;
	r->transmissions = 0;
	p->payload_len = bytes;
	p->next = rest;
	if (conn->send_tail == m)
		conn->send_tail = rest;
	return true;
}

/* One byte beyond a closed window (RFC 9293, 3.8.6.1): it stays in flight, and the timer sends it again. */
void tcp_probe_window(struct tcp_conn *conn)
{
	struct rte_mbuf *m = conn->send_next;

	conn->net->counters.tcp_zero_window_probes++;
	if (net_priv(m)->payload_len > 1 && !split(conn, 1))
		return;
	send_payload(conn, m);
	conn->send_next = net_priv(m)->next;
	note_sent(conn, net_priv(m)->seq + 1);
}

/* Sends what windows allow, then the FIN; arms the timer for what is in flight or cannot go. */
void tcp_output(struct tcp_conn *conn)
{
	if (conn->state < TCP_ESTABLISHED || conn->state == TCP_TIME_WAIT)
		return;
	while (conn->send_next) {
		struct rte_mbuf *m = conn->send_next;
		const uint32_t in_flight = conn->snd_nxt - conn->snd_una;
		const uint32_t limit = RTE_MIN(tcp_send_limit(conn), conn->snd_wnd);
		const uint32_t usable = limit > in_flight ? limit - in_flight : 0;

		if (net_room(conn->net) == 0) {
			conn->flags |= TCP_OUTPUT; /* goes on when net_output has made room */
			break;
		}

		if (net_priv(m)->payload_len > usable) {
			/* A receiver whose whole window is smaller than our segment gets what fits, if nothing else is
			 * on its way; else waiting avoids the silly window. */
			if (in_flight || usable == 0 || !split(conn, usable))
				break;
		}
		send_payload(conn, m);
		conn->send_next = net_priv(m)->next;
		note_sent(conn, net_priv(m)->seq + net_priv(m)->payload_len);
	}
	if (!conn->send_next && conn->flags & TCP_FIN_QUEUED && conn->snd_nxt == conn->snd_end) {
		tcp_send_segment(conn, RTE_TCP_FIN_FLAG | RTE_TCP_ACK_FLAG, conn->snd_end, NULL);
		note_sent(conn, conn->snd_end + 1);
	}
	if (!conn->deadline_ns && (conn->snd_nxt != conn->snd_una || conn->send_next)) {
		conn->progress_ns = conn->net->now_ns;
		tcp_timer_arm(conn, conn->rto_us);
	}
}

uint32_t tcp_mss(const struct tcp_conn *conn)
{
	return conn->mss;
}

struct rte_mbuf *tcp_alloc(struct tcp_conn *conn)
{
	return net_alloc(conn->net);
}

uint32_t tcp_queued(const struct tcp_conn *conn)
{
	return seq_lt(conn->snd_una, conn->snd_end) ? conn->snd_end - conn->snd_una : 0;
}

uint64_t tcp_stalled_ns(const struct tcp_conn *conn)
{
	return tcp_queued(conn) == 0 ? 0 : conn->net->now_ns - conn->moved_ns;
}

bool tcp_send(struct tcp_conn *conn, struct rte_mbuf *payload)
{
	struct net_priv *p = net_priv(payload);

	if ((conn->state != TCP_ESTABLISHED && conn->state != TCP_CLOSE_WAIT) || payload->data_len == 0 ||
	    payload->data_len > conn->mss) {
		rte_pktmbuf_free(payload);
		return false;
	}
	*p = (struct net_priv){ .seq = conn->snd_end,
				.payload_off = payload->data_off,
				.payload_len = payload->data_len };
	if (tcp_queued(conn) == 0)
		conn->moved_ns = conn->net->now_ns;
	conn->snd_end += payload->data_len;
	if (conn->send_tail && conn->send_head)
		net_priv(conn->send_tail)->next = payload;
	else
		conn->send_head = payload;
	conn->send_tail = payload;
	if (!conn->send_next)
		conn->send_next = payload;
	tcp_list(conn, TCP_OUTPUT);
	return true;
}

void tcp_consumed(struct tcp_conn *conn, uint32_t bytes)
{
	const uint32_t room = conn->net->options.receive_window_bytes;
	const uint32_t step = RTE_MIN(2u * conn->mss, room / 2);
	uint32_t edge;

	conn->unread -= RTE_MIN(bytes, conn->unread);
	if (conn->state == TCP_CLOSED)
		return;
	/* The edge is announced when it has moved by two segments or half the window (RFC 9293, 3.8.6.2.2), and the peer may
	 * soon be at the old one. */
	edge = conn->rcv_nxt + (conn->unread < room ? room - conn->unread : 0);
	if (seq_le(conn->rcv_adv + step, edge) && seq_lt(conn->rcv_adv, conn->rcv_nxt + RTE_MAX(room / 4, step)))
		tcp_list(conn, TCP_ACK_NOW);
}
