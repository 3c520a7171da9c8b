/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RACK-TLP (RFC 8985): a segment is lost if one that was sent later has been delivered, and it is later than reordering
 * explains. A probe repairs, or reveals, losses at the end of a flight.
 */
#include "net/tcp_sender.h"

enum {
	PERSIST = 16,	      /* recoveries for which a wider reordering window is kept */
	WIDEST = 64,	      /* times min_rtt / 4: srtt bounds it anyway */
	PTO_MARGIN_US = 5000, /* an odd last segment's ACK may be delayed, and two round trips be 100 us here */
	PTO_FIRST_US = 1000000,
};

static bool sent_after(uint64_t sent_ns, uint32_t end, uint64_t than_ns, uint32_t than_end)
{
	return sent_ns > than_ns || (sent_ns == than_ns && seq_lt(than_end, end));
}

static uint32_t age_us(const struct tcp_conn *conn, uint64_t sent_ns)
{
	const uint64_t us = (conn->net->now_ns - sent_ns) / NET_US;

	return (uint32_t)RTE_MIN(us, (uint64_t)INT32_MAX);
}

/* Whether the ACK of a segment that was sent twice is for the first transmission (RFC 8985, 6.2 step 2). */
static bool is_of_original(const struct tcp_conn *conn, const struct net_priv *p, const struct tcp_segment *s,
			   uint32_t rtt_us)
{
	if (s && conn->features & TCP_FEATURE_TIMESTAMP && s->has_timestamp &&
	    seq_lt(s->ts_echo, tcp_timestamp_at(conn, p->sent_ns)))
		return true;
	return rtt_us < conn->min_rtt_us;
}

void tcp_rack_delivered(struct tcp_conn *conn, const struct net_priv *p, struct tcp_ack *a)
{
	const uint32_t rtt_us = age_us(conn, p->sent_ns);

	if (p->transmissions > 1 && is_of_original(conn, p, a->segment, rtt_us))
		return;
	a->rack = true;
	conn->rack_rtt_us = rtt_us;
	if (sent_after(p->sent_ns, tcp_end(p), conn->rack_sent_ns, conn->rack_end)) {
		conn->rack_sent_ns = p->sent_ns;
		conn->rack_end = tcp_end(p);
	}
}

/* RFC 8985, 6.2 step 4: duplicates widen the window, once per round trip. */
void tcp_rack_adapt(struct tcp_conn *conn, const struct tcp_ack *a)
{
	if (conn->sender & TCP_SENDER_DSACK_ROUND && !seq_lt(conn->snd_una, conn->rack_dsack_round))
		conn->sender &= ~(uint32_t)TCP_SENDER_DSACK_ROUND;
	if (!a->dsack || conn->sender & TCP_SENDER_DSACK_ROUND)
		return;
	conn->sender |= TCP_SENDER_DSACK_ROUND;
	conn->rack_dsack_round = conn->snd_nxt;
	conn->rack_persist = PERSIST;
	if (conn->rack_wider < WIDEST)
		conn->rack_wider++;
}

void tcp_rack_recovered(struct tcp_conn *conn)
{
	if (conn->rack_persist && --conn->rack_persist == 0)
		conn->rack_wider = 0;
}

static uint32_t reorder_window_us(const struct tcp_conn *conn)
{
	if (!(conn->sender & TCP_SENDER_REORDERED) &&
	    (conn->recovery >= TCP_RECOVERY_FAST || conn->sacked_segs >= TCP_DUPACKS))
		return 0;
	return RTE_MIN((uint64_t)conn->min_rtt_us * (1u + conn->rack_wider) / 4, (uint64_t)tcp_srtt_us(conn));
}

/* The time until it counts as lost; 0 or less: it does. */
static int64_t left_us(const struct tcp_conn *conn, const struct net_priv *p, uint32_t window_us)
{
	return (int64_t)conn->rack_rtt_us + window_us - age_us(conn, p->sent_ns);
}

/* RFC 8985, 6.3. RACK's round trip may exceed the timeout, if that is bounded or the path has become shorter: then a
 * segment that has been in flight for a timeout is as late as the first one. */
bool tcp_rack_recent(const struct tcp_conn *conn, const struct net_priv *p)
{
	return conn->features & TCP_FEATURE_SACK && age_us(conn, p->sent_ns) < RTE_MIN(conn->rack_rtt_us, conn->rto_us);
}

bool tcp_rack_detect(struct tcp_conn *conn)
{
	const uint32_t window_us = reorder_window_us(conn);
	struct rte_mbuf *m;
	bool any = false;

	tcp_timer_stop(conn, TCP_TIMER_REORDER);
	/* The list is in sending order: after the first segment that is not late, none is. */
	while ((m = conn->in_flight.first)) {
		const struct net_priv *p = net_priv(m);
		int64_t left;

		if (!sent_after(conn->rack_sent_ns, conn->rack_end, p->sent_ns, tcp_end(p)))
			break;
		left = left_us(conn, p, window_us);
		if (left > 0) {
			tcp_timer_start(conn, TCP_TIMER_REORDER, (uint64_t)left);
			break;
		}
		tcp_scoreboard_lose(conn, m);
		any = true;
	}
	return any;
}

/* RFC 8985, 7.2. */
uint64_t tcp_tlp_delay_us(const struct tcp_conn *conn)
{
	const uint32_t floor_us = conn->net->options.rto_min_us;
	uint64_t us = PTO_FIRST_US;

	if (!(conn->features & TCP_FEATURE_SACK) || conn->recovery > TCP_RECOVERY_REDUCING ||
	    conn->recovery == TCP_RECOVERY_DISORDER || conn->sender & TCP_SENDER_TLP || conn->sacked_segs ||
	    conn->snd_nxt == conn->snd_una || conn->snd_wnd == 0)
		return 0;
	if (conn->srtt_8) {
		us = 2ull * tcp_srtt_us(conn);
		/* The ACK of a single segment may be delayed. */
		us += conn->snd_nxt - conn->snd_una <= conn->mss ? floor_us
								 : RTE_MIN((uint32_t)PTO_MARGIN_US, floor_us / 2);
	}
	return us;
}

/* Sends new data if there is any and the peer has room, else the last segment again (RFC 8985, 7.3). */
void tcp_tlp_send(struct tcp_conn *conn)
{
	struct rte_mbuf *m = conn->send_next;
	const bool news = m && seq_le(tcp_end(net_priv(m)), conn->snd_una + conn->snd_wnd);

	if (!news)
		m = conn->in_flight.last;
	if (!(m ? tcp_transmit(conn, m) : tcp_transmit_fin(conn)))
		return;
	conn->net->counters.tcp_loss_probes++;
	conn->sender |= TCP_SENDER_TLP | (news ? 0 : TCP_SENDER_TLP_AGAIN);
	conn->tlp_end = conn->snd_nxt;
}

/* The probe has repaired a loss that would otherwise have been detected, so the window is reduced anyway. */
static void repaired_by_probe(struct tcp_conn *conn)
{
	conn->net->counters.tcp_loss_probe_recoveries++;
	if (conn->recovery >= TCP_RECOVERY_REDUCING)
		return;
	tcp_congestion_reduce(conn, TCP_BY_LOSS);
	tcp_congestion_reduced(conn);
}

/* RFC 8985, 7.4.2: evaluates an ACK for the probe. */
void tcp_tlp_ack(struct tcp_conn *conn, const struct tcp_ack *a)
{
	if (!(conn->sender & TCP_SENDER_TLP) || seq_lt(a->segment->ack, conn->tlp_end))
		return;
	if (conn->sender & TCP_SENDER_TLP_AGAIN && !a->dsack) {
		/* The original's ACK may come first. Then the probe's own, a duplicate, shows that nothing was lost. */
		if (a->segment->ack == conn->tlp_end && (a->advanced || a->segment->space || a->segment->sack_count))
			return;
		if (a->segment->ack != conn->tlp_end)
			repaired_by_probe(conn);
	}
	conn->sender &= ~(uint32_t)(TCP_SENDER_TLP | TCP_SENDER_TLP_AGAIN);
}
