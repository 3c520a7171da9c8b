/* SPDX-License-Identifier: BSD-3-Clause */
/* The send queue's numbers and lists, against each other: what every test that lets things happen can ask at any
 * time. */
#ifndef TESTS_NET_SENDER_CHECK_H
#define TESTS_NET_SENDER_CHECK_H

#include "net/tcp_sender.h"

/* How many a list has; UINT32_MAX when its links disagree. */
static inline uint32_t sender_list_count(const struct tcp_segment_list *list)
{
	const struct rte_mbuf *before = NULL;
	uint32_t n = 0;

	for (struct rte_mbuf *m = list->first; m; before = m, m = net_priv(m)->newer, n++)
		if (net_priv(m)->older != before || n == UINT32_C(1) << 20)
			return UINT32_MAX;
	return list->last == before ? n : UINT32_MAX;
}

/* From a SACKed segment on, up to where its link leads, all are SACKed. */
static inline bool sender_run_holds(struct rte_mbuf *m)
{
	const struct rte_mbuf *to = net_priv(m)->newer;

	for (; to && m && m != to; m = net_priv(m)->next)
		if (!(net_priv(m)->segment & TCP_SEG_SACKED))
			return false;
	return !to || m == to;
}

static inline bool sender_skips_hold(const struct tcp_conn *c)
{
	const struct rte_mbuf *skip = c->skips.first;

	for (struct rte_mbuf *m = c->send_head; m; m = net_priv(m)->next) {
		if (!(net_priv(m)->segment & TCP_SEG_SKIP))
			continue;
		if (m != skip)
			return false;
		skip = net_priv(m)->skip;
	}
	return !skip;
}

/* NULL, or what is wrong. */
static inline const char *sender_fault(const struct tcp_conn *c)
{
	uint32_t pipe = 0, in_flight = 0, lost = 0, waiting_lost = 0, sacked = 0, retrans = 0;
	uint32_t seq = c->snd_una == c->iss ? c->iss + 1 : c->snd_una;
	bool sent = c->send_head != c->send_next, lost_at = !c->lost_at;

	for (struct rte_mbuf *m = c->send_head; m; m = net_priv(m)->next) {
		const struct net_priv *p = net_priv(m);
		const bool is_in_flight = p->segment & TCP_SEG_IN_FLIGHT, was_lost = p->segment & TCP_SEG_LOST;

		sent = sent && m != c->send_next;
		if (p->seq != seq || p->payload_len == 0)
			return "the queue has a gap";
		seq += p->payload_len;
		if (p->segment & TCP_SEG_SACKED ? is_in_flight || was_lost || !sender_run_holds(m)
						: sent != (is_in_flight || was_lost))
			return "a segment is in two states, or in none";
		if (m == c->send_next && seq_lt(p->seq, c->snd_nxt))
			return "what waits is below the next number";
		pipe += is_in_flight ? p->payload_len : 0;
		in_flight += is_in_flight;
		lost += was_lost;
		waiting_lost += was_lost && !is_in_flight;
		sacked += !!(p->segment & TCP_SEG_SACKED);
		retrans += is_in_flight && p->transmissions > 1;
		lost_at |= m == c->lost_at && was_lost && !is_in_flight;
		if (!p->next && m != c->send_tail)
			return "the queue ends before its tail";
	}
	if (c->send_next && sent)
		return "the next to send is not in the queue";
	if (pipe != c->pipe || lost != c->lost_segs || sacked != c->sacked_segs || retrans != c->retrans_segs)
		return "a counter is wrong";
	if (sender_list_count(&c->in_flight) != in_flight || sender_list_count(&c->lost) != waiting_lost)
		return "a list is wrong";
	if (!lost_at)
		return "lost_at is not a lost segment";
	if (!sender_skips_hold(c))
		return "the links that skip are wrong";
	if (c->cwnd < c->mss && c->pipe == 0 && c->recovery < TCP_RECOVERY_FAST)
		return "the window is less than a segment";
	return NULL;
}

#endif
