/* SPDX-License-Identifier: BSD-3-Clause */
/* Sent segments: how they are built, and when they may be sent. */
#include "base/probe.h"
#include "net/tcp_sender.h"

enum {
	ECT_0 = 2,	  /* RFC 3168, 5 */
	JOIN_BYTES = 512, /* a payload up to this size is appended to a waiting one: fewer segments, and fewer mbufs */
};

/* The last steps for every segment: TCP checksum, IP, Ethernet. segment's data starts with the TCP header. */
static void finish_segment(struct net *net, const struct net_path *path, struct rte_mbuf *segment, uint8_t tos)
{
	struct rte_tcp_hdr *tcp = rte_pktmbuf_mtod(segment, struct rte_tcp_hdr *);

	tcp->cksum = 0;
	net->counters.tcp_out++;
	if (likely(tcp_send_plain(net, path, segment, tos)))
		return;
	tcp->cksum = net_checksum_to_send(path, segment, IPPROTO_TCP, (uint8_t)(tcp->data_off >> 4 << 2));
	net_send(net, path, segment, IPPROTO_TCP, tos);
}

/* How many bytes of options fit beside a payload. */
static unsigned options_room(const struct tcp_conn *conn, uint32_t payload)
{
	const unsigned most = conn->path.mtu - net_path_header(&conn->path) - (unsigned)sizeof(struct rte_tcp_hdr);

	return RTE_MIN(most - payload, (unsigned)TCP_OPTIONS_MAX);
}

/* Puts a header before packet's data, the payload of one segment, or of several that the port splits (TSO): each of
 * step bytes but the last. Sends it, and owns it. */
static void send_segments(struct tcp_conn *conn, struct rte_mbuf *packet, uint32_t step, uint8_t flags, uint32_t seq,
			  uint8_t tos)
{
	uint8_t options[TCP_OPTIONS_MAX];
	const uint32_t payload = rte_pktmbuf_pkt_len(packet);
	const unsigned options_bytes = tcp_options_put(conn, flags, options_room(conn, step), options);
	struct rte_tcp_hdr *tcp =
		(struct rte_tcp_hdr *)rte_pktmbuf_prepend(packet, (uint16_t)(sizeof(*tcp) + options_bytes));

	memcpy(tcp + 1, options, options_bytes);
	tcp->src_port = conn->local_port;
	tcp->dst_port = conn->remote_port;
	tcp->sent_seq = rte_cpu_to_be_32(seq);
	tcp->recv_ack = flags & RTE_TCP_ACK_FLAG ? rte_cpu_to_be_32(conn->rcv_nxt) : 0;
	tcp->data_off = (uint8_t)((sizeof(*tcp) + options_bytes) / 4 << 4);
	tcp->tcp_flags = flags | tcp_ecn_flags(conn, flags);
	tcp->rx_win = rte_cpu_to_be_16(tcp_window_field(conn, flags));
	tcp->tcp_urp = 0;
	if (flags & RTE_TCP_ACK_FLAG)
		tcp_ack_sent(conn, payload);
	finish_segment(conn->net, &conn->path, packet, tos);
}

static void send_segment(struct tcp_conn *conn, struct rte_mbuf *packet, uint8_t flags, uint32_t seq, uint8_t tos)
{
	send_segments(conn, packet, rte_pktmbuf_pkt_len(packet), flags, seq, tos);
}

/* Sends a segment without payload; false: there is no mbuf for it, which is counted. The timers try again. */
static bool send_bare(struct tcp_conn *conn, uint8_t flags, uint32_t seq)
{
	struct rte_mbuf *packet = net_alloc(conn->net);

	if (packet)
		send_segment(conn, packet, flags, seq, 0);
	return packet;
}

/* The sequence number of a segment without data: the next one. If the peer has shrunk its window, not beyond that,
 * because there it would ignore the ACK. */
static uint32_t bare_seq(const struct tcp_conn *conn)
{
	const uint32_t edge = conn->snd_una + conn->snd_wnd;

	return seq_lt(edge, conn->snd_nxt) ? edge : conn->snd_nxt;
}

void tcp_send_ack(struct tcp_conn *conn)
{
	send_bare(conn, RTE_TCP_ACK_FLAG, bare_seq(conn));
}

void tcp_send_syn(struct tcp_conn *conn)
{
	const bool answer = conn->state == TCP_SYN_RECEIVED;

	send_bare(conn, RTE_TCP_SYN_FLAG | (answer ? RTE_TCP_ACK_FLAG : 0), conn->iss);
	conn->snd_nxt = conn->iss + 1;
}

void tcp_reset_peer(struct tcp_conn *conn)
{
	conn->net->counters.tcp_out_rsts++;
	send_bare(conn, RTE_TCP_RST_FLAG | RTE_TCP_ACK_FLAG, bare_seq(conn));
}

/* Sends a number that the peer has already acknowledged: it answers with the number that it expects, and its window. */
void tcp_send_probe(struct tcp_conn *conn)
{
	send_bare(conn, RTE_TCP_ACK_FLAG, conn->snd_una - 1);
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
	finish_segment(net, &path, segment, 0);
}

struct rte_mbuf *tcp_copy_payload(struct net *net, struct rte_mbuf *m)
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

/* An mbuf for the headers, followed by one that refers to m's payload: other users of m can go on reading it. */
static struct rte_mbuf *refer_to_payload(struct net *net, struct rte_mbuf *m)
{
	const struct net_priv *p = net_priv(m);
	struct rte_mbuf *packet = net_alloc(net), *part = packet ? net_alloc(net) : NULL;

	if (!part) {
		rte_pktmbuf_free(packet);
		return NULL;
	}
	rte_pktmbuf_attach(part, m);
	part->ol_flags = RTE_MBUF_F_INDIRECT;
	part->data_off = p->payload_off;
	part->data_len = p->payload_len;
	part->pkt_len = p->payload_len;
	packet->next = part;
	packet->nb_segs = 2;
	packet->pkt_len = p->payload_len;
	return packet;
}

/* The packet for a segment of the queue: a second reference to its mbuf, with the headers before the payload. Not while
 * the driver still holds the previous one. After a partial ACK the payload may begin anywhere, but headers need
 * alignment: then the headers get an mbuf of their own or, if the port takes no chains, the payload is copied. */
static struct rte_mbuf *packet_of(struct tcp_conn *conn, struct rte_mbuf *m)
{
	const uint32_t offloads = conn->path.interface->options.offloads;
	const struct net_priv *p = net_priv(m);

	if (unlikely(rte_mbuf_refcnt_read(m) != 1 || p->payload_off % sizeof(uint32_t)))
		return offloads & OFFLOAD_TX_SEGMENTS ? refer_to_payload(conn->net, m) : tcp_copy_payload(conn->net, m);
	rte_mbuf_refcnt_update(m, 1);
	/* left over from the previous time: freeing a chain does not reset it while we hold a reference */
	if (offloads) {
		m->ol_flags = 0;
		m->next = NULL;
		m->nb_segs = 1;
	}
	m->data_off = p->payload_off;
	m->data_len = p->payload_len;
	m->pkt_len = p->payload_len;
	return m;
}

/* Counts a retransmission for recovery. */
static void note_again(struct tcp_conn *conn)
{
	conn->net->counters.tcp_retrans_segs++;
	PROBE(retransmission, 6, conn, rte_be_to_cpu_16(conn->remote_port), conn->total_retrans);
	conn->total_retrans++;
	conn->undo_left = RTE_MAX(conn->undo_left, 0) + 1;
	if (!conn->retrans_ts)
		conn->retrans_ts = tcp_timestamp(conn);
}

/* Whether this new segment follows another of this turn, and the windows allow none after it. If more is queued, a PSH
 * there makes a receiver that merges segments (GRO) pass them on without waiting. */
static bool ends_burst(const struct tcp_conn *conn, const struct net_priv *p)
{
	const struct net_priv *next = net_priv(p->next), *before;
	const uint32_t bytes = RTE_MIN(next->payload_len, conn->mss);

	if (!conn->in_flight.last)
		return false;
	before = net_priv(conn->in_flight.last);
	return before->sent_ns == conn->net->now_ns && tcp_end(before) == p->seq &&
	       (tcp_pipe(conn) + p->payload_len + bytes > conn->cwnd ||
		seq_lt(conn->snd_una + conn->snd_wnd, next->seq + bytes));
}

/*
 * New segments that are sent as one frame, which the port splits (TSO): all of step bytes but the last. The port
 * derives their headers from the first one's: numbers count up, and only the last has PSH and FIN. Anything else that
 * may differ from one to the next (CWR, or how many SACK blocks fit beside the payload) ends the run.
 */
struct tcp_run {
	struct rte_mbuf *packet, *last; /* NULL: none has begun */
	uint32_t seq, step;
	uint8_t flags, tos;
};

static void run_send(struct tcp_conn *conn, struct tcp_run *run)
{
	struct rte_mbuf *packet = run->packet;
	uint32_t more;

	if (!packet)
		return;
	/* A single segment whose headers have an mbuf of their own (refer_to_payload) is a chain, too; it is not
	 * split. */
	more = packet->pkt_len > run->step ? packet->nb_segs - 1u : 0;
	if (more) {
		packet->ol_flags |= RTE_MBUF_F_TX_TCP_SEG;
		packet->tso_segsz = (uint16_t)run->step;
		conn->net->counters.tcp_out += more;
		conn->net->counters.tcp_cut += more + 1;
		conn->segs_out += more;
	}
	send_segments(conn, packet, run->step, run->flags, run->seq, run->tos);
	run->packet = NULL;
}

/* packet: new data, with flags; false: it cannot be added to this run. */
static bool run_join(const struct tcp_conn *conn, struct tcp_run *run, struct rte_mbuf *packet, uint32_t seq,
		     uint8_t flags, uint8_t tos)
{
	const struct net_interface_options *o = &conn->path.interface->options;
	struct rte_mbuf *first = run->packet;

	if (!first || run->step < NET_TSO_MSS_MIN || run->step > NET_TSO_MSS_MAX || run->flags != RTE_TCP_ACK_FLAG ||
	    flags & RTE_TCP_CWR_FLAG || tos != run->tos || run->seq + first->pkt_len != seq ||
	    run->last->data_len != run->step || packet->nb_segs != 1 || packet->data_len > run->step ||
	    first->nb_segs >= o->tso_segments || NET_HEADROOM + first->pkt_len + packet->data_len > o->tso_bytes ||
	    conn->sacks_count || conn->flags & TCP_DSACK_DUE)
		return false;
	run->last->next = packet;
	run->last = packet;
	first->nb_segs++;
	first->pkt_len += packet->data_len;
	run->flags = flags;
	return true;
}

/* The same as send_segment, perhaps later: run_send must follow. */
static void run_put(struct tcp_conn *conn, struct tcp_run *run, struct rte_mbuf *packet, uint8_t flags, uint32_t seq,
		    uint8_t tos, bool news)
{
	if (news && run_join(conn, run, packet, seq, flags, tos))
		return;
	run_send(conn, run);
	*run = (struct tcp_run){ .packet = packet,
				 .last = packet,
				 .seq = seq,
				 .step = rte_pktmbuf_pkt_len(packet),
				 .flags = flags,
				 .tos = tos };
	if (!news || packet->nb_segs != 1)
		run_send(conn, run);
}

/* run: for a port with TSO; NULL: the segment is sent at once. */
static bool transmit(struct tcp_conn *conn, struct rte_mbuf *m, struct tcp_run *run)
{
	const bool news = m == conn->send_next;
	struct net_priv *p = net_priv(m);
	uint8_t flags = RTE_TCP_ACK_FLAG, tos = 0;
	struct rte_mbuf *packet;

	if (unlikely(p->payload_len > conn->mss) && !tcp_queue_split(conn, m, conn->mss))
		return false;
	packet = packet_of(conn, m);
	if (!packet)
		return false;
	if (tcp_end(p) == conn->snd_end) {
		flags |= RTE_TCP_PSH_FLAG;
		if (conn->flags & TCP_FIN_QUEUED)
			flags |= RTE_TCP_FIN_FLAG;
	} else if (news && ends_burst(conn, p)) {
		flags |= RTE_TCP_PSH_FLAG;
	}
	if (!news) {
		note_again(conn);
	} else if (conn->features & TCP_FEATURE_ECN) { /* RFC 3168, 6.1.5: new data only */
		tos = ECT_0;
		if (conn->sender & TCP_SENDER_CWR)
			flags |= RTE_TCP_CWR_FLAG;
		conn->sender &= ~(uint32_t)TCP_SENDER_CWR;
	}
	conn->sent_ns = conn->net->now_ns;
	conn->prr_out += p->payload_len;
	tcp_queue_sent(conn, m);
	if (flags & RTE_TCP_FIN_FLAG)
		conn->snd_nxt = conn->snd_end + 1;
	if (run)
		run_put(conn, run, packet, flags, p->seq, tos, news);
	else
		send_segment(conn, packet, flags, p->seq, tos);
	return true;
}

bool tcp_transmit(struct tcp_conn *conn, struct rte_mbuf *m)
{
	return transmit(conn, m, NULL);
}

bool tcp_transmit_fin(struct tcp_conn *conn)
{
	if (!(conn->flags & TCP_FIN_QUEUED) || conn->send_next)
		return false;
	if (conn->snd_nxt != conn->snd_end)
		note_again(conn);
	conn->snd_nxt = conn->snd_end + 1;
	conn->sent_ns = conn->net->now_ns;
	return send_bare(conn, RTE_TCP_FIN_FLAG | RTE_TCP_ACK_FLAG, conn->snd_end);
}

void tcp_transmit_head(struct tcp_conn *conn)
{
	if (conn->send_head)
		tcp_transmit(conn, conn->send_head);
	else
		tcp_transmit_fin(conn);
}

static bool segment_fits(const struct tcp_conn *conn, uint32_t bytes)
{
	const uint32_t pipe = tcp_pipe(conn);

	return pipe + bytes <= conn->cwnd || pipe == 0;
}

/* The next lost segment, if it may be sent; the first one is sent whatever the window. */
static struct rte_mbuf *next_lost(struct tcp_conn *conn, bool *limited)
{
	struct rte_mbuf *m = conn->lost.first;
	const struct net_priv *p = net_priv(m);

	if (!segment_fits(conn, RTE_MIN(p->payload_len, conn->mss))) {
		*limited = true;
		return NULL;
	}
	if (m != conn->send_head && seq_lt(conn->snd_una + conn->snd_wnd, tcp_end(p)))
		return NULL;
	return m;
}

/*
 * The next new segment, if it may be sent. If all of it does not fit into the peer's window, a part is sent when half
 * of the largest window is open. Otherwise it waits, to avoid the silly window syndrome (RFC 9293, 3.8.6.2.1), until a
 * timer ends that.
 */
static struct rte_mbuf *next_new(struct tcp_conn *conn, bool *limited)
{
	struct rte_mbuf *m = conn->send_next;
	const struct net_priv *p = net_priv(m);
	const uint32_t bytes = RTE_MIN(p->payload_len, conn->mss);
	const uint32_t edge = conn->snd_una + conn->snd_wnd;
	const uint32_t usable = seq_lt(conn->snd_nxt, edge) ? edge - conn->snd_nxt : 0;

	if (!segment_fits(conn, bytes)) {
		*limited = true;
		return NULL;
	}
	if (bytes > usable && (usable == 0 || usable < conn->snd_wnd_max / 2 || !tcp_queue_split(conn, m, usable)))
		return NULL;
	if (conn->sender & TCP_SENDER_NAGLE && bytes < conn->mss && !p->next && conn->snd_una != conn->snd_nxt &&
	    !(conn->flags & TCP_FIN_QUEUED))
		return NULL; /* RFC 9293, 3.7.4 */
	return m;
}

static struct rte_mbuf *next_segment(struct tcp_conn *conn, bool *limited)
{
	if (conn->lost.first && !(conn->sender & TCP_SENDER_FRTO_NEW))
		return next_lost(conn, limited);
	return conn->send_next ? next_new(conn, limited) : NULL;
}

void tcp_output(struct tcp_conn *conn)
{
	const uint32_t nxt = conn->snd_nxt;
	struct tcp_run cut = { .packet = NULL }, *run = NULL;
	bool limited = false, restart = false;
	struct rte_mbuf *m;

	if (conn->state < TCP_ESTABLISHED || conn->state == TCP_TIME_WAIT)
		return;
	if (conn->path.interface->options.offloads & OFFLOAD_TX_TSO)
		run = &cut;
	if (conn->send_next && conn->snd_una == nxt)
		tcp_congestion_restart(conn);
	if (unlikely(conn->mss < conn->mss_max))
		tcp_mtu_return(conn);
	while ((m = next_segment(conn, &limited))) {
		if (net_room(conn->net) <= (cut.packet ? 1 : 0)) {
			conn->flags |= TCP_OUTPUT; /* continues when net_output has made room */
			break;
		}
		restart |= m == conn->send_head && m != conn->send_next;
		if (!transmit(conn, m, run))
			break;
	}
	run_send(conn, &cut);
	if (!conn->send_next && conn->flags & TCP_FIN_QUEUED && conn->snd_nxt == conn->snd_end)
		tcp_transmit_fin(conn);
	if (!(conn->flags & TCP_OUTPUT))
		tcp_congestion_tried(conn);
	if (conn->snd_nxt != nxt || limited)
		tcp_congestion_sent(conn, limited);
	if (restart || !tcp_timer_runs(conn, TCP_TIMER_RETRANSMIT)) {
		if (conn->snd_una == nxt)
			conn->progress_ns = conn->net->now_ns;
		tcp_sender_arm(conn, true);
	} else if (conn->snd_nxt != nxt) {
		tcp_sender_arm(conn, conn->snd_una == nxt);
	}
}

void tcp_probe(struct tcp_conn *conn)
{
	struct rte_mbuf *m = conn->send_next;

	conn->net->counters.tcp_zero_window_probes++;
	if (!m || conn->snd_wnd == 0)
		tcp_send_probe(conn);
	else if (net_priv(m)->payload_len <= conn->snd_wnd || tcp_queue_split(conn, m, conn->snd_wnd))
		tcp_transmit(conn, m);
}

uint32_t tcp_mss(const struct tcp_conn *conn)
{
	return conn->mss_max;
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

/* Appends payload to the last segment of the queue, if that waits and has room: a small one as a whole, with Nagle's
 * algorithm also the first part of a larger one, so that the segment becomes full. */
static void join_payload(struct tcp_conn *conn, struct rte_mbuf *payload)
{
	struct net_priv *p = conn->send_next ? net_priv(conn->send_tail) : NULL;
	uint32_t room, part;
	char *end;

	if (!p || p->payload_len >= conn->mss)
		return;
	room = conn->send_tail->buf_len - p->payload_off - p->payload_len;
	room = RTE_MIN(room, (uint32_t)conn->mss - p->payload_len);
	part = RTE_MIN(room, (uint32_t)payload->data_len);
	if (!(conn->sender & TCP_SENDER_NAGLE) && (part < payload->data_len || part > JOIN_BYTES))
		return;
	end = (char *)conn->send_tail->buf_addr + p->payload_off + p->payload_len;
	memcpy(end, rte_pktmbuf_mtod(payload, const char *), part);
	p->payload_len += part;
	payload->data_off += part;
	payload->data_len -= part;
	conn->snd_end += part;
}

bool tcp_send(struct tcp_conn *conn, struct rte_mbuf *payload)
{
	if ((conn->state != TCP_ESTABLISHED && conn->state != TCP_CLOSE_WAIT) || payload->data_len == 0 ||
	    payload->data_len > conn->mss_max) {
		rte_pktmbuf_free(payload);
		return false;
	}
	if (tcp_queued(conn) == 0)
		conn->moved_ns = conn->net->now_ns;
	join_payload(conn, payload);
	if (payload->data_len == 0) {
		rte_pktmbuf_free(payload);
	} else {
		*net_priv(payload) = (struct net_priv){ .seq = conn->snd_end,
							.payload_off = payload->data_off,
							.payload_len = payload->data_len };
		tcp_queue_append(conn, payload);
		conn->snd_end += payload->data_len;
	}
	tcp_list(conn, TCP_OUTPUT);
	return true;
}

void tcp_set_nagle(struct tcp_conn *conn, bool on)
{
	conn->sender = on ? conn->sender | TCP_SENDER_NAGLE : conn->sender & ~(uint32_t)TCP_SENDER_NAGLE;
	tcp_list(conn, TCP_OUTPUT);
}
