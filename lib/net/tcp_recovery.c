/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Acknowledgements: round-trip times and the retransmission timer (RFC 6298, Karn's rule), slow start, congestion avoidance
 * and limited transmit (RFC 5681, 3042), fast retransmit and fast recovery (NewReno, RFC 6582).
 */
#include "net/tcp_internal.h"

#include <errno.h>

enum {
	INITIAL_RTO_US = 1000000,
	GRANULARITY_US = 1000,
	INITIAL_WINDOW_SEGMENTS = 10, /* RFC 6928 */
	DUPACKS = 3,
};

void tcp_recovery_init(struct tcp_conn *conn)
{
	conn->rto_us = INITIAL_RTO_US;
	conn->cwnd = INITIAL_WINDOW_SEGMENTS * conn->mss;
	conn->ssthresh = UINT32_MAX;
	conn->recover = conn->iss;
}

uint32_t tcp_send_limit(const struct tcp_conn *conn)
{
	/* Limited transmit: each of the first two duplicate ACKs lets one more segment go. */
	if (!(conn->flags & TCP_RECOVERY) && conn->dupacks < DUPACKS)
		return conn->cwnd + (uint32_t)conn->dupacks * conn->mss;
	return conn->cwnd;
}

static uint32_t halved_flight(const struct tcp_conn *conn)
{
	return RTE_MAX((conn->snd_max - conn->snd_una) / 2, 2u * conn->mss);
}

/* The timeout that the measured round trips ask for. */
static uint32_t measured_rto(const struct tcp_conn *conn)
{
	const uint32_t us = conn->srtt_us == 0 ? INITIAL_RTO_US
					       : conn->srtt_us + RTE_MAX((uint32_t)GRANULARITY_US, 4 * conn->rttvar_us);
	const struct net_options *o = &conn->net->options;

	return us < o->rto_min_us ? o->rto_min_us : RTE_MIN(us, o->rto_max_us);
}

void tcp_measure_rtt(struct tcp_conn *conn, uint64_t sent_ns)
{
	const uint64_t ns = conn->net->now_ns - sent_ns;
	const uint32_t rtt = (uint32_t)RTE_MIN(ns / NET_US, UINT64_C(60000000));
	uint32_t off;

	if (conn->srtt_us == 0) {
		conn->srtt_us = RTE_MAX(rtt, 1u);
		conn->rttvar_us = rtt / 2;
	} else {
		off = rtt > conn->srtt_us ? rtt - conn->srtt_us : conn->srtt_us - rtt;
		conn->rttvar_us = conn->rttvar_us - conn->rttvar_us / 4 + off / 4;
		conn->srtt_us = RTE_MAX(conn->srtt_us - conn->srtt_us / 8 + rtt / 8, 1u);
	}
	conn->rto_us = measured_rto(conn);
}

/* Takes acknowledged bytes off the send queue; returns when the last of them was sent, or 0 if any of them was sent twice:
 * then it is unknown which one this answers (Karn), and what lay behind a hole has waited for it to be filled. */
static uint64_t release(struct tcp_conn *conn, uint32_t ack)
{
	uint64_t sent_ns = 0;
	bool twice = false;

	while (conn->send_head) {
		struct rte_mbuf *m = conn->send_head;
		struct net_priv *p = net_priv(m);
		const uint32_t end = p->seq + p->payload_len;

		if (seq_lt(ack, end)) {
			if (seq_lt(p->seq, ack)) {
				p->payload_off += ack - p->seq;
				p->payload_len = end - ack;
				p->seq = ack;
			}
			break;
		}
		sent_ns = p->sent_ns;
		twice |= p->transmissions > 1;
		conn->send_head = p->next;
		if (conn->send_next == m)
			conn->send_next = p->next;
		rte_pktmbuf_free(m);
	}
	if (!conn->send_head)
		conn->send_tail = NULL;
	return twice ? 0 : sent_ns;
}

static void grow(struct tcp_conn *conn, uint32_t acked, uint32_t was_in_flight)
{
	const uint32_t mss = conn->mss;

	/* Only a window that was used tells something about the path (RFC 7661's reason). */
	if (was_in_flight + mss < conn->cwnd / 2)
		return;
	if (conn->cwnd < conn->ssthresh)
		conn->cwnd += RTE_MIN(acked, 2 * mss);
	else
		conn->cwnd += (uint32_t)((uint64_t)mss * RTE_MIN(acked, mss) / conn->cwnd) + 1;
	conn->cwnd = RTE_MIN(conn->cwnd, UINT32_C(1) << 30);
}

/* ack is in (snd_una, snd_max]. */
void tcp_acked(struct tcp_conn *conn, uint32_t ack)
{
	struct net *net = conn->net;
	const uint32_t acked = ack - conn->snd_una, was_in_flight = conn->snd_nxt - conn->snd_una;
	const uint64_t sent_ns = release(conn, ack);

	conn->snd_una = ack;
	if (seq_lt(conn->snd_nxt, ack))
		conn->snd_nxt = ack;
	conn->progress_ns = conn->moved_ns = net->now_ns;
	conn->tries = 0;
	if (sent_ns) {
		tcp_measure_rtt(conn, sent_ns);
	} else {
		/* Karn's rule gives no sample of what was sent twice; on a lossy path there might be none for long. So
		 * progress ends the backoff, but for a factor of two: a path that has become slower gets a chance. */
		const uint32_t measured = measured_rto(conn);

		conn->rto_us = RTE_MIN(conn->rto_us, 2 * measured);
	}
	if (conn->flags & TCP_RECOVERY) {
		if (seq_le(conn->recover, ack)) {
			conn->flags &= (uint8_t)~TCP_RECOVERY;
			conn->cwnd = RTE_MAX(conn->snd_max - ack, (uint32_t)conn->mss) + conn->mss;
			conn->cwnd = RTE_MIN(conn->ssthresh, conn->cwnd);
		} else { /* a partial ACK: the next hole */
			tcp_retransmit_head(conn);
			conn->cwnd -= RTE_MIN(acked, conn->cwnd);
			conn->cwnd += conn->mss;
		}
	} else {
		grow(conn, acked, was_in_flight);
	}
	conn->dupacks = 0;
	if (conn->snd_una == conn->snd_max && !conn->send_next)
		conn->deadline_ns = 0;
	else
		tcp_timer_arm(conn, conn->rto_us);
	if (conn->send_next || conn->flags & TCP_FIN_QUEUED)
		tcp_list(conn, TCP_OUTPUT);
}

void tcp_duplicate_ack(struct tcp_conn *conn)
{
	if (conn->dupacks < UINT8_MAX)
		conn->dupacks++;
	if (conn->flags & TCP_RECOVERY) {
		conn->cwnd += conn->mss;
	} else if (conn->dupacks == DUPACKS && seq_lt(conn->recover, conn->snd_una)) {
		conn->ssthresh = halved_flight(conn);
		conn->cwnd = conn->ssthresh + DUPACKS * conn->mss;
		conn->recover = conn->snd_max;
		conn->flags |= TCP_RECOVERY;
		conn->net->counters.tcp_fast_retrans++;
		tcp_retransmit_head(conn);
	}
	tcp_list(conn, TCP_OUTPUT);
}

/* A wheel's timer that is armed for an earlier time stays there: when it fires, it is moved to the deadline. */
void tcp_timer_arm(struct tcp_conn *conn, uint64_t delay_us)
{
	conn->deadline_ns = conn->net->now_ns + delay_us * NET_US;
	if (!wheel_armed(&conn->timer) || conn->timer.tick << WHEEL_TICK_SHIFT > conn->deadline_ns)
		wheel_arm(&conn->net->wheel, &conn->timer, conn->deadline_ns);
}

static void back_off(struct tcp_conn *conn)
{
	conn->rto_us = RTE_MIN(conn->rto_us * 2, conn->net->options.rto_max_us);
	tcp_timer_arm(conn, conn->rto_us);
}

static void syn_timeout(struct tcp_conn *conn)
{
	if (++conn->tries > TCP_SYN_TRIES) {
		conn->net->counters.tcp_attempt_fails++;
		tcp_conn_end(conn, ETIMEDOUT);
		return;
	}
	tcp_send_syn(conn);
	back_off(conn);
}

void tcp_window_opened(struct tcp_conn *conn)
{
	conn->rto_us = measured_rto(conn);
	if (conn->snd_una == conn->snd_max && !conn->send_next)
		return;
	/* What is in flight is a probe, which the receiver has dropped. It goes again at once, with what follows it: by the
	 * timer, which has backed off all the while, it might take a minute. */
	if (conn->snd_max - conn->snd_una <= 1) {
		conn->snd_nxt = conn->snd_una;
		conn->send_next = conn->send_head;
	}
	tcp_timer_arm(conn, conn->rto_us);
	tcp_list(conn, TCP_OUTPUT);
}

/* Everything unacknowledged is sent again, from the first byte, as slow start lets it. */
static void retransmission_timeout(struct tcp_conn *conn)
{
	if (conn->snd_wnd == 0 && conn->send_head) { /* a probe again: nothing was lost on the way */
		conn->net->counters.tcp_zero_window_probes++;
		tcp_retransmit_head(conn);
		back_off(conn);
		return;
	}
	conn->net->counters.tcp_rtos++;
	if (conn->tries++ == 0)
		conn->ssthresh = halved_flight(conn);
	conn->cwnd = conn->mss;
	conn->recover = conn->snd_max;
	conn->dupacks = 0;
	conn->flags &= (uint8_t)~TCP_RECOVERY;
	conn->snd_nxt = conn->snd_una;
	conn->send_next = conn->send_head;
	tcp_retransmit_head(conn); /* whatever the window: a closed one is probed so */
	back_off(conn);
}

void tcp_timer_fire(struct wheel_timer *timer, uint64_t now_ns)
{
	struct tcp_conn *conn = (struct tcp_conn *)((char *)timer - offsetof(struct tcp_conn, timer));
	struct net *net = conn->net;

	net->now_ns = now_ns;
	if (conn->deadline_ns == 0)
		return;
	if (conn->deadline_ns > now_ns) {
		wheel_arm(&net->wheel, timer, conn->deadline_ns);
		return;
	}
	conn->deadline_ns = 0;
	switch (conn->state) {
	case TCP_SYN_SENT:
	case TCP_SYN_RECEIVED:
		syn_timeout(conn);
		return;
	case TCP_TIME_WAIT:
	case TCP_FIN_WAIT_2:
		tcp_conn_end(conn, 0);
		return;
	default:
		break;
	}
	if (now_ns - conn->progress_ns >= net->options.user_timeout_ms * NET_MS) {
		net->counters.tcp_timeouts++;
		tcp_reset_peer(conn);
		tcp_conn_end(conn, ETIMEDOUT);
	} else if (conn->snd_una != conn->snd_max) {
		retransmission_timeout(conn);
	} else if (conn->send_next) {
		tcp_probe_window(conn);
		back_off(conn);
	}
}

void tcp_ack_timer_fire(struct wheel_timer *timer, uint64_t now_ns)
{
	struct tcp_conn *conn = (struct tcp_conn *)((char *)timer - offsetof(struct tcp_conn, ack_timer));

	conn->net->now_ns = now_ns;
	if (conn->owed) {
		conn->net->counters.tcp_delayed_acks++;
		tcp_send_ack(conn);
	}
}
