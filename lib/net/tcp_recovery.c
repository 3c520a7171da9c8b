/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an acknowledgement means to the sender, and what a missing one does. Fast recovery uses SACK and RACK (RFC 6675,
 * 8985) or, if the peer has no SACK, duplicates (NewReno, RFC 6582); timeouts are those of RFC 6298. A spurious
 * recovery is undone by timestamps (Eifel, RFC 3522 and 4015), D-SACK (the idea of RFC 3708) and F-RTO (RFC 5682). Rule
 * (4) of RFC 6675's NextSeg, the rescue retransmission, is left out: RACK finds the same loss one round trip later, and
 * never sends in vain. Limited transmit (RFC 3042) needs no code: a duplicate takes a segment out of the pipe, and so
 * allows another.
 */
#include "net/tcp_sender.h"

enum { PROBES = 4 };

void tcp_sender_init(struct tcp_conn *conn)
{
	conn->recover = conn->iss;
	conn->rack_end = conn->fack = conn->iss + 1;
	conn->mss_max = conn->mss;
	conn->undo_left = -1;
	tcp_rtt_init(conn);
	tcp_congestion_init(conn);
}

/* A retransmission may be undone as long as all of it may turn out to be spurious. */
static void undo_begin(struct tcp_conn *conn)
{
	conn->sender |= TCP_SENDER_UNDO;
	conn->undo_from = conn->snd_una;
	conn->undo_left = conn->retrans_segs ? (int32_t)conn->retrans_segs : -1;
	conn->retrans_ts = 0;
}

static void set_state(struct tcp_conn *conn, enum tcp_recovery state)
{
	conn->recovery = state;
	if (state == TCP_RECOVERY_NONE || state == TCP_RECOVERY_DISORDER)
		conn->sender &= ~(uint32_t)(TCP_SENDER_FRTO | TCP_SENDER_FRTO_NEW);
}

/* Back to open, or to disorder. */
static void settle_recovery(struct tcp_conn *conn)
{
	set_state(conn, conn->sacked_segs || conn->dupacks || conn->lost.first || conn->retrans_segs
				? TCP_RECOVERY_DISORDER
				: TCP_RECOVERY_NONE);
}

static void forget_duplicates(struct tcp_conn *conn)
{
	conn->dupacks = 0;
	conn->reno_sacked = 0;
}

void tcp_enter_recovery(struct tcp_conn *conn)
{
	conn->net->counters.tcp_fast_retrans++;
	undo_begin(conn);
	if (conn->recovery != TCP_RECOVERY_REDUCING)
		tcp_congestion_reduce(conn, TCP_BY_LOSS);
	conn->recover = conn->snd_nxt;
	set_state(conn, TCP_RECOVERY_FAST);
}

/* Does not change the window; ends as a timeout's recovery does. */
void tcp_recover_smaller(struct tcp_conn *conn)
{
	if (conn->recovery != TCP_RECOVERY_TIMEOUT) {
		conn->sender &= ~(uint32_t)TCP_SENDER_UNDO;
		conn->recover = conn->snd_nxt;
		set_state(conn, TCP_RECOVERY_TIMEOUT);
	}
	tcp_list(conn, TCP_OUTPUT);
}

/* RFC 3168, 6.1.2: reduces as after a loss, at most once per window; nothing is retransmitted. */
static void enter_reducing(struct tcp_conn *conn)
{
	conn->net->counters.tcp_ecn_reductions++;
	conn->sender &= ~(uint32_t)TCP_SENDER_UNDO;
	tcp_congestion_reduce(conn, TCP_BY_ECN);
	conn->recover = conn->snd_nxt;
	set_state(conn, TCP_RECOVERY_REDUCING);
}

/* Eifel: this ACK cannot answer the first retransmission. */
static bool echoes_original(const struct tcp_conn *conn, const struct tcp_ack *a)
{
	return conn->retrans_ts && a->segment->has_timestamp && conn->features & TCP_FEATURE_TIMESTAMP &&
	       a->segment->ts_echo && seq_lt(a->segment->ts_echo, conn->retrans_ts);
}

static bool was_in_vain(const struct tcp_conn *conn, const struct tcp_ack *a)
{
	return conn->sender & TCP_SENDER_UNDO && (conn->undo_left == 0 || echoes_original(conn, a));
}

static void undo(struct tcp_conn *conn)
{
	tcp_congestion_undo(conn);
	conn->sender &= ~(uint32_t)TCP_SENDER_UNDO;
	conn->undo_left = -1;
	conn->retrans_ts = 0;
}

static bool undo_recovery(struct tcp_conn *conn, const struct tcp_ack *a)
{
	if (!was_in_vain(conn, a))
		return false;
	if (conn->recovery == TCP_RECOVERY_TIMEOUT)
		conn->net->counters.tcp_timeout_undos++;
	else
		conn->net->counters.tcp_recovery_undos++;
	undo(conn);
	return true;
}

/* Each duplicate that the peer reports is a spurious retransmission. */
static void count_dsack(struct tcp_conn *conn, const struct tcp_ack *a)
{
	const struct tcp_sack_block *b = a->segment->sacks;
	int32_t segments;

	if (!a->dsack)
		return;
	conn->net->counters.tcp_dsacks_in++;
	if (conn->undo_left <= 0 || !seq_lt(conn->undo_from, b->end))
		return;
	segments = (int32_t)RTE_MIN((a->dsack_bytes + conn->mss - 1) / conn->mss, (uint32_t)INT16_MAX);
	conn->undo_left = RTE_MAX(conn->undo_left - segments, 0);
}

/* Without SACK a duplicate means that a segment has left the network; all but the first one may have. */
static void count_duplicate(struct tcp_conn *conn, struct tcp_ack *a)
{
	const uint32_t flight = conn->snd_nxt - conn->snd_una;

	if (conn->recovery == TCP_RECOVERY_TIMEOUT && !seq_lt(conn->recover, conn->snd_nxt))
		return; /* of data sent before the timeout */
	if (conn->dupacks < UINT8_MAX)
		conn->dupacks++;
	if (conn->reno_sacked + conn->mss < flight) {
		conn->reno_sacked += conn->mss;
		a->delivered += conn->mss;
	}
}

/* A cumulative ACK of a peer without SACK covers the segments that duplicates stood for, and one more. */
static void settle_duplicates(struct tcp_conn *conn, struct tcp_ack *a)
{
	const uint32_t covered = a->acked > conn->mss ? a->acked - conn->mss : 0;
	const uint32_t part = RTE_MIN(covered, conn->reno_sacked);

	conn->reno_sacked -= part;
	a->delivered -= RTE_MIN(part, a->delivered);
	if (conn->recovery != TCP_RECOVERY_FAST)
		forget_duplicates(conn);
}

static bool find_losses(struct tcp_conn *conn, const struct tcp_ack *a)
{
	if (conn->features & TCP_FEATURE_SACK)
		return a->rack && tcp_rack_detect(conn);
	if (conn->recovery == TCP_RECOVERY_FAST || conn->dupacks < TCP_DUPACKS || conn->send_head == conn->send_next ||
	    !seq_lt(conn->recover, conn->snd_una) || net_priv(conn->send_head)->segment & TCP_SEG_LOST)
		return false;
	tcp_scoreboard_lose(conn, conn->send_head);
	return true;
}

/* Fast recovery continues: a partial ACK shows the next hole of a peer without SACK (RFC 6582, 3.2 step 3). */
static void in_recovery(struct tcp_conn *conn, struct tcp_ack *a)
{
	if (conn->features & TCP_FEATURE_SACK)
		return;
	if (a->advanced && conn->send_head && conn->send_head != conn->send_next) {
		tcp_scoreboard_lose(conn, conn->send_head);
		a->lost = true;
	}
}

/* F-RTO (RFC 5682, 3.1): new data is sent after the first ACK that follows a timeout; the next ACK shows whether the
 * timeout was spurious. */
static void after_timeout(struct tcp_conn *conn, struct tcp_ack *a)
{
	const bool recovered = !seq_lt(conn->snd_una, conn->recover);

	conn->sender &= ~(uint32_t)TCP_SENDER_FRTO_NEW;
	if (a->advanced && undo_recovery(conn, a)) {
		tcp_scoreboard_undo(conn);
		settle_recovery(conn);
		return;
	}
	if (conn->sender & TCP_SENDER_FRTO) {
		/* A cumulative ACK alone might cover data from before the timeout that was not acknowledged because of
		 * a hole. */
		const bool tells = conn->features & TCP_FEATURE_SACK || seq_lt(conn->recover, conn->snd_nxt);

		if (a->original && tells && conn->sender & TCP_SENDER_UNDO) {
			conn->net->counters.tcp_timeout_undos++;
			undo(conn);
			tcp_scoreboard_undo(conn);
			settle_recovery(conn);
			return;
		}
		if (seq_lt(conn->recover, conn->snd_nxt)) {
			if (a->sacked || a->duplicate)
				conn->sender &= ~(uint32_t)TCP_SENDER_FRTO;
		} else if (a->advanced && !recovered) {
			conn->recover = conn->snd_nxt;
			if (conn->send_next &&
			    seq_le(tcp_end(net_priv(conn->send_next)), conn->snd_una + conn->snd_wnd))
				conn->sender |= TCP_SENDER_FRTO_NEW;
			else
				conn->sender &= ~(uint32_t)TCP_SENDER_FRTO;
		}
	}
	if (recovered)
		settle_recovery(conn);
}

/* Everything that was in flight when a reduction or recovery began has been acknowledged. */
static void finish_recovery(struct tcp_conn *conn, const struct tcp_ack *a)
{
	const bool fast = conn->recovery == TCP_RECOVERY_FAST;

	if (fast) {
		forget_duplicates(conn);
		tcp_rack_recovered(conn);
		if (undo_recovery(conn, a)) {
			settle_recovery(conn);
			return;
		}
	}
	tcp_congestion_reduced(conn);
	settle_recovery(conn);
}

/* The states and their transitions. */
static void advance(struct tcp_conn *conn, struct tcp_ack *a)
{
	const bool fast = conn->recovery == TCP_RECOVERY_FAST;

	if (conn->recovery == TCP_RECOVERY_TIMEOUT)
		after_timeout(conn, a);
	else if (fast && !seq_lt(conn->snd_una, conn->recover))
		finish_recovery(conn, a);
	else if (conn->recovery == TCP_RECOVERY_REDUCING && seq_lt(conn->recover, conn->snd_una))
		finish_recovery(conn, a);
	else if (fast && a->advanced && echoes_original(conn, a) && undo_recovery(conn, a))
		tcp_scoreboard_undo(conn), settle_recovery(conn);
	else if (a->dsack && undo_recovery(conn, a)) /* this may be long after the recovery */
		settle_recovery(conn);
	else if (fast)
		in_recovery(conn, a);
	a->lost |= find_losses(conn, a);
	if (conn->recovery >= TCP_RECOVERY_FAST)
		return;
	if (a->marked && conn->recovery < TCP_RECOVERY_REDUCING)
		enter_reducing(conn);
	if (conn->lost.first)
		tcp_enter_recovery(conn);
	else if (conn->recovery < TCP_RECOVERY_REDUCING)
		settle_recovery(conn);
}

static void take_news(struct tcp_conn *conn, uint32_t ack, struct tcp_ack *a)
{
	a->advanced = true;
	a->acked = ack - conn->snd_una;
	tcp_queue_release(conn, ack, a);
	if (conn->recovery == TCP_RECOVERY_NONE)
		conn->recover = conn->snd_una; /* not so far behind that it would seem to be ahead */
	conn->snd_una = ack;
	conn->progress_ns = conn->moved_ns = conn->net->now_ns;
	conn->tries = 0;
}

/* RFC 5681, 2. */
static bool is_duplicate(const struct tcp_conn *conn, const struct tcp_segment *s)
{
	return s->ack == conn->snd_una && s->space == 0 && conn->snd_una != conn->snd_nxt &&
	       s->window << conn->snd_scale == conn->snd_wnd && conn->snd_wnd;
}

bool tcp_sender_ack(struct tcp_conn *conn, const struct tcp_segment *s)
{
	const enum tcp_recovery before = conn->recovery;
	const uint32_t una = conn->snd_una;
	struct tcp_ack a = { .segment = s };

	if (conn->snd_una == conn->snd_nxt && !s->sack_count)
		return false;
	a.marked = conn->features & TCP_FEATURE_ECN && s->flags & RTE_TCP_ECE_FLAG;
	if (seq_lt(una, s->ack))
		take_news(conn, s->ack, &a);
	if (conn->features & TCP_FEATURE_SACK) {
		if (s->sack_count)
			tcp_scoreboard_sack(conn, s, una, &a);
	} else if (a.advanced) {
		settle_duplicates(conn, &a);
	} else if (is_duplicate(conn, s)) {
		a.duplicate = true;
		count_duplicate(conn, &a);
	}
	tcp_rtt_ack(conn, &a);
	tcp_rack_adapt(conn, &a);
	count_dsack(conn, &a);
	tcp_tlp_ack(conn, &a);
	if (conn->congestion->heard)
		conn->congestion->heard(conn, &a);
	advance(conn, &a);
	/* A reduction that has just ended has set the window; slow start after a timeout goes on. */
	if (conn->recovery == before || (before != TCP_RECOVERY_REDUCING && before != TCP_RECOVERY_FAST))
		tcp_congestion_ack(conn, &a);
	if (a.advanced || a.sacked || a.lost)
		tcp_sender_arm(conn, true);
	if (conn->send_next || conn->lost.first || conn->flags & TCP_FIN_QUEUED)
		tcp_list(conn, TCP_OUTPUT);
	else
		tcp_congestion_tried(conn);
	return a.advanced;
}

void tcp_back_off(struct tcp_conn *conn)
{
	conn->rto_us = RTE_MIN(conn->rto_us * 2, conn->net->options.rto_max_us);
	conn->rto_ns = conn->net->now_ns + conn->rto_us * NET_US;
	tcp_timer_start(conn, TCP_TIMER_RETRANSMIT, conn->rto_us);
}

void tcp_window_opened(struct tcp_conn *conn)
{
	tcp_rto_reset(conn);
	tcp_sender_arm(conn, true);
	tcp_list(conn, TCP_OUTPUT);
}

void tcp_sender_arm(struct tcp_conn *conn, bool restart)
{
	const uint64_t now_ns = conn->net->now_ns;
	uint64_t when_ns, probe_us;

	conn->sender &= ~(uint32_t)TCP_SENDER_TLP_TIMER;
	if (restart || !tcp_timer_runs(conn, TCP_TIMER_RETRANSMIT))
		conn->rto_ns = now_ns + conn->rto_us * NET_US;
	if (conn->snd_nxt == conn->snd_una) {
		tcp_timer_stop(conn, TCP_TIMER_REORDER);
		if (conn->send_next || (conn->flags & TCP_FIN_QUEUED && conn->snd_nxt == conn->snd_end))
			tcp_timer_start(conn, TCP_TIMER_RETRANSMIT, conn->rto_us);
		else
			tcp_timer_stop(conn, TCP_TIMER_RETRANSMIT);
		return;
	}
	when_ns = conn->rto_ns;
	probe_us = tcp_tlp_delay_us(conn);
	if (probe_us) { /* not later than the timeout that it replaces */
		conn->sender |= TCP_SENDER_TLP_TIMER;
		when_ns = RTE_MIN(when_ns, now_ns + probe_us * NET_US);
	}
	tcp_timer_start(conn, TCP_TIMER_RETRANSMIT, when_ns > now_ns ? (when_ns - now_ns) / NET_US : 0);
}

/* Whether a timeout is a new sign of congestion: there is one reduction per flight. */
static bool reduces(const struct tcp_conn *conn)
{
	return conn->recovery <= TCP_RECOVERY_DISORDER || !seq_lt(conn->snd_una, conn->recover) ||
	       (conn->recovery == TCP_RECOVERY_TIMEOUT && conn->tries == 0);
}

/* RFC 6298, 5. Segments that were sent too recently for RACK stay in flight (RFC 8985, 6.3). */
static void retransmission_timeout(struct tcp_conn *conn)
{
	const bool reneged = conn->send_head && net_priv(conn->send_head)->segment & TCP_SEG_SACKED;
	const bool doubtful = conn->recovery < TCP_RECOVERY_FAST || conn->tries;

	conn->net->counters.tcp_rtos++;
	conn->net->counters.tcp_sack_reneged += reneged;
	if (reduces(conn)) {
		tcp_congestion_reduce(conn, TCP_BY_TIMEOUT);
		undo_begin(conn);
	}
	if (conn->tries < UINT8_MAX)
		conn->tries++;
	tcp_mtu_timeout(conn);
	forget_duplicates(conn);
	tcp_timer_stop(conn, TCP_TIMER_REORDER);
	tcp_scoreboard_timeout(conn, reneged);
	conn->cwnd = conn->pipe + conn->mss;
	conn->recover = conn->snd_nxt;
	set_state(conn, TCP_RECOVERY_TIMEOUT);
	conn->sender &= ~(uint32_t)(TCP_SENDER_TLP | TCP_SENDER_TLP_AGAIN | TCP_SENDER_FRTO | TCP_SENDER_FRTO_NEW);
	if (doubtful)
		conn->sender |= TCP_SENDER_FRTO;
	tcp_transmit_head(conn);
	tcp_back_off(conn);
}

/* Nothing is in flight, and the peer's window is too small for what waits: sends a probe, or what fits. */
static void window_timeout(struct tcp_conn *conn)
{
	if (conn->tries < UINT8_MAX)
		conn->tries++;
	tcp_probe(conn);
	/* Several probes before a peer that does not answer is given up. */
	conn->rto_us = RTE_MIN(conn->rto_us, conn->user_timeout_ms * 1000 / PROBES / 2);
	tcp_back_off(conn);
}

void tcp_sender_timer(struct tcp_conn *conn, enum tcp_timer which)
{
	if (which == TCP_TIMER_REORDER) {
		if (tcp_rack_detect(conn) && conn->recovery < TCP_RECOVERY_FAST) {
			tcp_enter_recovery(conn);
			tcp_congestion_step(conn, conn->mss, false, false);
		}
		tcp_list(conn, TCP_OUTPUT);
	} else if (conn->snd_una == conn->snd_nxt) {
		if (conn->send_next || conn->flags & TCP_FIN_QUEUED)
			window_timeout(conn);
	} else if (conn->sender & TCP_SENDER_TLP_TIMER) {
		tcp_tlp_send(conn);
		tcp_sender_arm(conn, true);
	} else if (conn->snd_wnd == 0) { /* the peer shrank its window; nothing was lost */
		conn->net->counters.tcp_zero_window_probes++;
		tcp_transmit_head(conn);
		tcp_back_off(conn);
	} else {
		retransmission_timeout(conn);
	}
}
