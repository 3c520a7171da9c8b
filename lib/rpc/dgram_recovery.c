/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What became of sent packets: acknowledgements, round trips, losses and timeouts. As RACK-TLP (RFC 8985), but with
 * packets instead of bytes: a packet that was sent sufficiently long before one that is acknowledged is lost; a probe
 * is sent when the tail stays silent; a timeout (RFC 6298) is the last resort.
 */
#include <errno.h>

#include "rpc/dgram_internal.h"

#define RTO_FIRST_NS (2 * DGRAM_MS)	/* until a round trip has been measured */
#define ASK_NS (5 * DGRAM_MS)		/* for credit */
#define RTT_MAX_NS UINT64_C(2000000000) /* half of 32 bits: differences fit */
#define REORDER_MIN_NS (2 * DGRAM_US)
enum { SACKED_ENOUGH = 3, REORDERING_RECOVERIES = 16, BACKOFF_MAX = 16 };

/* ---- round trips ---- */

/* RFC 6298, 2, with its alpha and beta. */
static void take_rtt(struct dgram_session *s, uint32_t rtt_ns)
{
	const int32_t error = (int32_t)(rtt_ns - s->srtt_ns);

	if (unlikely(s->srtt_ns == 0)) {
		s->srtt_ns = rtt_ns;
		s->rttvar_ns = rtt_ns / 2;
		return;
	}
	s->srtt_ns = (uint32_t)((int32_t)s->srtt_ns + error / 8);
	s->srtt_ns = RTE_MAX(s->srtt_ns, 1u);
	s->rttvar_ns = (uint32_t)((int32_t)s->rttvar_ns + ((error < 0 ? -error : error) - (int32_t)s->rttvar_ns) / 4);
}

static uint64_t rto_ns(const struct dgram_session *s)
{
	const struct dgram_options *o = &s->dgram->options;
	const uint64_t measured = s->srtt_ns ? s->srtt_ns + 4 * (uint64_t)s->rttvar_ns : RTO_FIRST_NS;
	const uint64_t rto = RTE_MAX(measured, o->rto_min_ns) + WIRE_ACK_DELAY_US * DGRAM_US;
	const uint8_t backoff = RTE_MIN(s->backoff, (uint8_t)BACKOFF_MAX);

	return RTE_MIN(rto << backoff, o->rto_max_ns);
}

/* RFC 8985, 7.2: two round trips, and the largest delay of an acknowledgement. */
static uint64_t probe_ns(const struct dgram_session *s)
{
	const uint64_t probe = 2 * (uint64_t)s->srtt_ns + s->dgram->options.rto_min_ns + WIRE_ACK_DELAY_US * DGRAM_US;

	return s->srtt_ns ? RTE_MIN(probe, rto_ns(s)) : rto_ns(s);
}

/* When to ask for credit while nothing is in flight. The peer knows what we want, unless our request or its answer was
 * lost. */
static uint64_t ask_ns(const struct dgram_session *s)
{
	const uint64_t rto = rto_ns(s), ask = ASK_NS << RTE_MIN(s->backoff, (uint8_t)BACKOFF_MAX);
	const uint64_t bounded = RTE_MIN(ask, s->dgram->options.rto_max_ns);

	return RTE_MAX(bounded, rto);
}

void dgram_recovery_arm(struct dgram_session *s, uint64_t now_ns, bool restart)
{
	if (restart)
		s->due_ns = now_ns + (s->tx_held == 0			      ? ask_ns(s)
				      : s->flags & DGRAM_PROBED || s->backoff ? rto_ns(s)
									      : probe_ns(s));
	/* A timer that is set for earlier checks again when it fires, so packets hardly ever have to move a timer. */
	if (!wheel_armed(&s->timer) || s->timer.tick > (s->due_ns >> WHEEL_TICK_SHIFT) + 1)
		wheel_arm(net_wheel(s->dgram->net), &s->timer, s->due_ns);
}

/* ---- acknowledgements ---- */

/* A packet was acknowledged: it was in flight, or had been declared lost. */
static __rte_always_inline void release_packet(struct dgram_session *s, struct rte_mbuf *m, uint64_t now_ns)
{
	const struct dgram_priv *p = dgram_priv(m);

	if (likely(!p->lost)) {
		chain_remove(&s->in_flight, m);
		s->tx_in_flight--;
	} else {
		chain_remove(&s->lost, m);
		s->reordering = REORDERING_RECOVERIES; /* it was late, not lost, or the retransmission was not needed */
	}
	s->tx_held--;
	if (p->sent_ns > s->newest_ns || (p->sent_ns == s->newest_ns && number_before(s->newest_number, p->number))) {
		/*
		 * If it was sent twice, the acknowledgement may be for the first transmission (RFC 8985, 6.2, step 2).
		 */
		if (likely(p->transmissions == 1 || now_ns - p->sent_ns >= s->srtt_ns / 2)) {
			s->newest_ns = p->sent_ns;
			s->newest_number = p->number;
			s->newest_rtt_ns = (uint32_t)RTE_MIN(now_ns - p->sent_ns, RTT_MAX_NS);
		}
	}
	if (unlikely(p->transmissions == 1 && number_before(p->number + 1, s->sacked_edge)))
		s->reordering = REORDERING_RECOVERIES;
	net_free(s->dgram->net, m);
}

static uint32_t take_bits(struct dgram_session *s, uint32_t first, uint64_t bits, uint64_t now_ns)
{
	const uint32_t mask = s->dgram->window_mask;
	uint32_t n = 0;

	for (; bits; bits &= bits - 1) {
		const uint32_t number = first + (uint32_t)__builtin_ctzll(bits);
		struct rte_mbuf *m;

		if (number_before(number, s->tx_una) || !number_before(number, s->tx_next))
			continue; /* never sent */
		m = s->window->packets[number & mask];
		if (!m)
			continue;
		s->window->packets[number & mask] = NULL;
		release_packet(s, m, now_ns);
		if (number_before(s->sacked_edge, number + 1))
			s->sacked_edge = number + 1;
		n++;
	}
	return n;
}

/* Evaluates all bits of the header's bitmap, and those in the body of a pure acknowledgement. */
static uint32_t take_sacks(struct dgram_session *s, const struct dgram_from *from)
{
	const struct wire_packet *p = from->packet;
	uint32_t n = take_bits(s, p->ack + 1, p->sack, from->now_ns);

	if (p->kind != WIRE_PACKET_ACK)
		return n;
	for (unsigned w = 0; w < WIRE_PACKET_SACK_WORDS_MAX && (w + 1) * sizeof(uint64_t) <= from->bytes; w++) {
		uint64_t bits;

		memcpy(&bits, from->body + w * sizeof(bits), sizeof(bits));
		n += take_bits(s, p->ack + 65 + 64 * w, bits, from->now_ns);
	}
	return n;
}

static inline struct congestion_limits limits_of(const struct dgram_session *s)
{
	return (struct congestion_limits){ .target_ns = (uint32_t)s->dgram->options.target_delay_ns,
					   .window_max = s->dgram->options.window_max };
}

static inline void take_congestion(struct dgram_session *s, const struct dgram_from *from, uint32_t rtt_ns,
				   uint32_t acked)
{
	const bool marked = from->packet->flags & WIRE_PACKET_MARKED;
	const struct congestion_limits limits = limits_of(s);

	/* Over shared memory the only queue is the receiver's ring, which credits bound. A delay or a silence there
	 * means that the peer is busy or has lost its core, and says nothing of the path. */
	if (s->flow.path.memory) {
		congestion_open(&s->congestion, &limits);
		return;
	}
	if (likely(congestion_idle(&s->congestion, rtt_ns, limits.target_ns, marked)))
		return;
	dgram_congestion_ack(&s->congestion, &limits,
			     &(struct congestion_ack){ .now_ns = from->now_ns,
						       .rtt_ns = rtt_ns,
						       .srtt_ns = s->srtt_ns,
						       .acked = acked,
						       .una = s->tx_una,
						       .next = s->tx_next,
						       .marked = marked });
}

bool dgram_recovery_ack(struct dgram_session *s, const struct dgram_from *from, bool news)
{
	const struct wire_packet *p = from->packet;
	const uint32_t number = s->number, mask = s->dgram->window_mask, held = s->tx_held;
	uint32_t rtt_ns = 0, acked;

	if (likely(news && p->echo)) {
		const uint64_t rtt = (uint64_t)(dgram_stamp(from->now_ns) - p->echo) * WIRE_STAMP_NS;

		if (likely(rtt < RTT_MAX_NS)) {
			rtt_ns = rtt ? (uint32_t)rtt : 1;
			take_rtt(s, rtt_ns);
		}
	}
	if (unlikely(p->ack - s->tx_una > s->tx_next - s->tx_una))
		return true; /* old, or for packets that were never sent */
	for (; s->tx_una != p->ack; s->tx_una++) {
		struct rte_mbuf *m = s->window->packets[s->tx_una & mask];

		if (likely(m)) {
			s->window->packets[s->tx_una & mask] = NULL;
			release_packet(s, m, from->now_ns);
		}
	}
	if (unlikely(p->sack || (p->kind == WIRE_PACKET_ACK && from->bytes)) && s->window)
		take_sacks(s, from);
	acked = held - s->tx_held;
	if (s->tx_held == 0)
		s->tx_una = s->tx_next; /* a false ack may step over less than was acknowledged out of order */
	take_congestion(s, from, rtt_ns, acked);
	if (acked == 0)
		return true;
	s->peer->mbufs -= acked;
	s->progress_ns = from->now_ns;
	s->backoff = 0;
	s->flags &= (uint16_t)~DGRAM_PROBED;
	if (s->tx_held) {
		dgram_recovery_arm(s, from->now_ns, true);
		dgram_recovery_detect(s, from->now_ns);
	} else {
		s->sacked_edge = s->tx_una;
		dgram_window_release(s);
		if (s->tx_queued)
			dgram_recovery_arm(s, from->now_ns, true);
	}
	if (s->tx_queued || s->lost.first)
		list_put(s, DGRAM_DUE);
	s->dgram->options.handler->acknowledged(s->user);
	return s->number == number && s->state != DGRAM_FREE;
}

/* ---- losses ---- */

static void lose_packet(struct dgram_session *s, struct rte_mbuf *m)
{
	chain_remove(&s->in_flight, m);
	dgram_priv(m)->lost = 1;
	chain_append(&s->lost, m);
	s->tx_in_flight--;
}

/* RFC 8985, 6.2, step 5, and its reordering window (step 4): none where packets behind a gap show it and the path has
 * kept the order so far; the largest that it allows where the path has not. */
void dgram_recovery_detect(struct dgram_session *s, uint64_t now_ns)
{
	const uint32_t sacked = s->tx_next - s->tx_una - s->tx_held;
	const uint64_t reorder = s->reordering		   ? s->srtt_ns
				 : sacked >= SACKED_ENOUGH ? 0
							   : RTE_MAX((uint64_t)s->srtt_ns / 4, REORDER_MIN_NS);
	struct rte_mbuf *m;
	uint32_t n = 0;

	while ((m = s->in_flight.first)) {
		const struct dgram_priv *p = dgram_priv(m);
		const uint64_t until = p->sent_ns + s->newest_rtt_ns + reorder;

		if (p->sent_ns > s->newest_ns ||
		    (p->sent_ns == s->newest_ns && !number_before(p->number, s->newest_number)))
			break;
		if (until > now_ns) {
			dgram_pace_at(s, until);
			break;
		}
		lose_packet(s, m);
		n++;
	}
	if (n == 0)
		return;
	if (s->reordering)
		s->reordering--;
	if (!s->flow.path.memory)
		dgram_congestion_lost(&s->congestion, n, s->tx_next);
	list_put(s, DGRAM_DUE);
}

static void timeout(struct dgram_session *s, uint64_t now_ns)
{
	s->dgram->counters.timeouts++;
	if (s->backoff < UINT8_MAX)
		s->backoff++;
	if (!s->flow.path.memory) {
		const struct congestion_limits limits = limits_of(s);

		dgram_congestion_timeout(&s->congestion, &limits, now_ns, s->srtt_ns);
	}
	while (s->in_flight.first)
		lose_packet(s, s->in_flight.first);
	s->pace_ns = now_ns;
	list_put(s, DGRAM_DUE);
}

/* Whether the peer has acknowledged nothing of what is in flight for a whole lease, even if it sends other packets. */
static bool is_unread(const struct dgram_session *s, uint64_t now_ns)
{
	return s->flags & DGRAM_ACCEPTED && s->tx_held && now_ns - s->progress_ns >= s->dgram->options.lease_ns;
}

static void give_up_peer(struct dgram_session *s)
{
	s->dgram->counters.expired++;
	dgram_open_send_close(s);
	dgram_session_end(s, ETIMEDOUT);
}

/* Something is in flight or waits for credit, and the peer is silent. */
static void retransmit(struct dgram_session *s, uint64_t now_ns)
{
	if (is_unread(s, now_ns)) {
		give_up_peer(s);
		return;
	}
	if (s->tx_held == 0) {
		if (s->backoff < UINT8_MAX)
			s->backoff++;
		s->flags |= DGRAM_PING; /* the packet that granted credit may have been lost */
		list_put(s, DGRAM_DUE);
	} else if (!(s->flags & DGRAM_PROBED) && s->in_flight.last) {
		s->flags |= DGRAM_PROBED;
		dgram_output_packet(s, s->in_flight.last, WIRE_PACKET_ACK_NOW, now_ns);
	} else {
		timeout(s, now_ns);
	}
	dgram_recovery_arm(s, now_ns, true);
}

void dgram_recovery_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct dgram_session *s = (struct dgram_session *)((char *)timer - offsetof(struct dgram_session, timer));

	net_turn(s->dgram->net, now_ns);
	if (s->state != DGRAM_OPEN) {
		dgram_open_timer(s, now_ns);
		return;
	}
	if (s->tx_held + s->tx_queued == 0)
		return;
	if (now_ns < s->due_ns)
		dgram_recovery_arm(s, now_ns, false);
	else
		retransmit(s, now_ns);
}

/* ---- life ---- */

void dgram_recovery_life(struct wheel_timer *timer, uint64_t now_ns)
{
	struct dgram_session *s = (struct dgram_session *)((char *)timer - offsetof(struct dgram_session, life));
	const struct dgram_options *o = &s->dgram->options;
	const uint64_t silence = now_ns - s->heard_ns;
	uint64_t next = s->heard_ns + (s->flags & DGRAM_ACCEPTED ? o->lease_ns : o->heartbeat_ns);

	net_turn(s->dgram->net, now_ns);
	if (silence >= o->lease_ns) {
		s->dgram->counters.expired++;
		dgram_session_end(s, ETIMEDOUT);
		return;
	}
	/* A client opens a session only when it has a request. */
	if (s->flags & DGRAM_ACCEPTED && s->data_ns == 0 && now_ns - s->opening_ns >= o->lease_ns) {
		give_up_peer(s);
		return;
	}
	if (!(s->flags & DGRAM_ACCEPTED) && silence >= o->heartbeat_ns) {
		if (silence >= o->lease_ns / 2) {
			dgram_open_begin(s);
			return;
		}
		s->flags |= DGRAM_PING;
		list_put(s, DGRAM_DUE);
		next = now_ns + o->heartbeat_ns;
	}
	wheel_arm(net_wheel(s->dgram->net), timer, next);
}
