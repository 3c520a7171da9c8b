/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that are sent. */
#include "base/probe.h"
#include "rpc/dgram_seal.h"

enum { ECT_0 = 2 /* RFC 3168, 5 */, SLACK_NS = 1 << DGRAM_PACE_SHIFT };

void dgram_output_owe(struct dgram_session *s, uint64_t now_ns)
{
	s->flags |= DGRAM_ACK_OWED;
	if (s->listed & 1 << DGRAM_ACKS)
		return;
	s->ack_ns = now_ns + s->dgram->options.ack_delay_ns;
	list_put(s, DGRAM_ACKS);
}

/* 64 bits of the bitmap of received numbers, beginning at the given one. */
static uint64_t sack_word(const struct dgram_session *s, uint32_t from)
{
	const struct dgram_reorder *r = s->reorder;
	const uint32_t mask = s->dgram->window_mask;
	uint64_t bits = 0;

	if (mask >= 127) {
		const uint32_t at = from & mask, next = (at / 64 + 1) & mask / 64;

		bits = r->present[at / 64] >> at % 64;
		return at % 64 ? bits | r->present[next] << (64 - at % 64) : bits;
	}
	/* The window may be shorter than a word, so no number may be counted twice. */
	for (uint32_t i = 0; i <= mask && i < 64; i++)
		if (!number_before(r->highest, from + i))
			bits |= (r->present[((from + i) & mask) / 64] >> ((from + i) & mask) % 64 & 1) << i;
	return bits;
}

/* How many packets are queued without credit. */
static uint32_t wants_of(const struct dgram_session *s)
{
	const uint32_t credit = number_before(s->tx_next, s->tx_edge) ? s->tx_edge - s->tx_next : 0;

	return s->tx_queued > credit ? RTE_MIN(s->tx_queued - credit, (uint32_t)UINT16_MAX) : 0;
}

/* Every packet acknowledges, grants credit and asks for it. */
static __rte_always_inline void put_header(struct dgram_session *s, struct rte_mbuf *m, enum wire_packet_kind kind,
					   uint32_t number, uint16_t flags, uint64_t now_ns)
{
	struct wire_packet *h = (struct wire_packet *)rte_pktmbuf_prepend(m, sizeof(*h));
	uint32_t echo = 0;

	credit_update(s, now_ns);
	if (likely(s->flags & DGRAM_HEARD)) {
		echo = s->peer_stamp + (uint32_t)((now_ns - s->heard_ns) / WIRE_STAMP_NS);
		echo += echo == 0;
	}
	*h = (struct wire_packet){ .magic = WIRE_PACKET_MAGIC,
				   .version = WIRE_PACKET_VERSION,
				   .kind = (uint8_t)kind,
				   .session = s->peer_number,
				   .token = s->peer_token,
				   .number = number,
				   .ack = s->rx_next,
				   .sack = unlikely(s->reorder) ? sack_word(s, s->rx_next + 1) : 0,
				   .edge = s->rx_edge,
				   .stamp = dgram_stamp(now_ns),
				   .echo = echo,
				   .flags = flags | (s->flags & DGRAM_MARKED ? WIRE_PACKET_MARKED : 0),
				   .wants = unlikely(s->tx_queued) ? (uint16_t)wants_of(s) : 0 };
	if (unlikely(h->wants))
		s->flags |= DGRAM_ASKED;
	s->flags &= (uint16_t) ~(DGRAM_ACK_OWED | DGRAM_ACK_URGENT | DGRAM_MARKED);
	s->rx_unacked = 0;
	s->dgram->counters.packets_out++;
}

/* Called when the rest of the packet is complete. p: the private area of the packet that is kept for retransmission, if
 * that one is sent itself. */
static inline void put_tag(struct dgram_session *s, struct rte_mbuf *m, struct dgram_priv *p, uint64_t now_ns)
{
	struct wire_packet *h = rte_pktmbuf_mtod(m, struct wire_packet *);

	if (unlikely(s->flags & DGRAM_TAGGED))
		dgram_seal_packet(s, h, h + 1, m->data_len - (uint32_t)sizeof(*h), p, now_ns);
}

/* The mbuf to send: a second reference, or a copy if the driver still holds the previous reference. */
static inline struct rte_mbuf *packet_of(struct dgram_session *s, struct rte_mbuf *m)
{
	const struct dgram_priv *p = dgram_priv(m);
	struct rte_mbuf *copy;

	if (likely(rte_mbuf_refcnt_read(m) == 1)) {
		rte_mbuf_refcnt_update(m, 1);
		m->data_off = p->body_off;
		m->data_len = p->body_len;
		m->pkt_len = p->body_len;
		m->ol_flags = 0;
		return m;
	}
	copy = dgram_alloc(s);
	if (copy)
		memcpy(rte_pktmbuf_append(copy, p->body_len), (const char *)m->buf_addr + p->body_off, p->body_len);
	return copy;
}

static __rte_always_inline bool output_packet(struct dgram_session *s, struct rte_mbuf *m, uint16_t flags,
					      uint64_t now_ns)
{
	struct dgram_priv *p = dgram_priv(m);
	struct rte_mbuf *packet = packet_of(s, m);

	if (unlikely(!packet)) {
		s->dgram->counters.starved++;
		return false;
	}
	if (unlikely(p->lost)) {
		chain_remove(&s->lost, m);
		p->lost = 0;
	} else if (unlikely(p->transmissions)) {
		chain_remove(&s->in_flight, m);
		s->tx_in_flight--;
	}
	if (likely(p->transmissions == 0)) {
		p->transmissions = 1;
	} else {
		p->transmissions = 2;
		s->dgram->counters.retransmitted++;
		PROBE(retransmission, 17, s, s->flow.remote_port, s->dgram->counters.retransmitted - 1);
	}
	p->sent_ns = s->sent_ns = now_ns;
	chain_append(&s->in_flight, m);
	s->tx_in_flight++;
	if (unlikely(p->sealed))
		dgram_seal_undo(s, p, rte_pktmbuf_mtod(packet, void *));
	put_header(s, packet, WIRE_PACKET_DATA, p->number, flags | p->flags, now_ns);
	put_tag(s, packet, packet == m ? p : NULL, now_ns);
	net_udp_flow_send(s->dgram->net, &s->flow, packet, ECT_0);
	return true;
}

bool dgram_output_packet(struct dgram_session *s, struct rte_mbuf *m, uint16_t flags, uint64_t now_ns)
{
	return output_packet(s, m, flags, now_ns);
}

/* The words of the bitmap that do not fit into the header. */
static void put_sacks(const struct dgram_session *s, struct rte_mbuf *m)
{
	const uint32_t first = s->rx_next + 65;

	for (uint32_t w = 0; w < WIRE_PACKET_SACK_WORDS_MAX && !number_before(s->reorder->highest, first + 64 * w);
	     w++) {
		const uint64_t bits = sack_word(s, first + 64 * w);

		memcpy(rte_pktmbuf_append(m, sizeof(bits)), &bits, sizeof(bits));
	}
}

bool dgram_output_bare(struct dgram_session *s, enum wire_packet_kind kind, uint16_t flags, uint64_t now_ns)
{
	struct rte_mbuf *m = dgram_alloc(s);

	if (unlikely(!m)) {
		s->dgram->counters.starved++;
		return false;
	}
	if (unlikely(s->reorder) && kind == WIRE_PACKET_ACK)
		put_sacks(s, m);
	put_header(s, m, kind, s->tx_next, flags, now_ns);
	put_tag(s, m, NULL, now_ns);
	net_udp_flow_send(s->dgram->net, &s->flow, m, 0);
	return true;
}

/* Gives the first packet of the queue its number and an entry in the window. */
static inline struct rte_mbuf *number_next(struct dgram_session *s)
{
	struct rte_mbuf *m = s->queue.first;
	struct dgram_priv *p = dgram_priv(m);

	s->queue.first = p->next;
	if (!p->next)
		s->queue.last = NULL;
	p->number = s->tx_next;
	s->window->packets[s->tx_next & s->dgram->window_mask] = m;
	s->tx_next++;
	s->tx_queued--;
	s->tx_held++;
	return m;
}

/* Gets a window to send from; false: the session waits for one. */
static inline bool find_window(struct dgram_session *s)
{
	struct dgram *d = s->dgram;

	if (likely(s->window))
		return true;
	if (unlikely(!d->windows || !peer_may_take_window(s))) {
		list_put(s, DGRAM_WINDOWS);
		return false;
	}
	s->window = d->windows;
	d->windows = s->window->next;
	s->window->session = s;
	s->peer->windows++;
	d->windows_free--;
	return true;
}

/* Credit beyond one packet lapses while nothing is in flight. */
static inline void lapse(struct dgram_session *s, uint64_t now_ns)
{
	if (s->tx_held == 0 && now_ns - s->sent_ns >= WIRE_CREDIT_LAPSE_MS * DGRAM_MS &&
	    number_before(s->tx_next + 1, s->tx_edge))
		s->tx_edge = s->tx_next + 1;
}

static inline bool has_credit(const struct dgram_session *s)
{
	return number_before(s->tx_next, s->tx_edge) && s->tx_next - s->tx_una <= s->dgram->window_mask;
}

static inline bool may_fly(const struct dgram_session *s)
{
	return s->tx_in_flight < s->congestion.packets;
}

/* Whether something could be sent if congestion control allowed it. */
static inline bool has_next(const struct dgram_session *s)
{
	return s->lost.first || (s->queue.first && has_credit(s));
}

/* False: no mbufs; then the packet is treated as lost. */
static __rte_always_inline bool send_packet(struct dgram_session *s, struct rte_mbuf *m, uint16_t flags,
					    uint64_t now_ns)
{
	struct dgram_priv *p = dgram_priv(m);

	if (likely(output_packet(s, m, flags, now_ns)))
		return true;
	if (!p->lost) {
		p->lost = 1;
		chain_append(&s->lost, m);
	}
	return false;
}

static __rte_noinline bool send_one(struct dgram_session *s, struct rte_mbuf *m, uint16_t flags, uint64_t now_ns)
{
	return send_packet(s, m, flags, now_ns);
}

/* Sends one packet, lost ones first. False: no mbufs. */
static bool send_next(struct dgram_session *s, uint64_t now_ns)
{
	struct rte_mbuf *m = s->lost.first;
	uint16_t flags = 0;
	bool last;

	if (likely(!m)) {
		m = number_next(s);
		/* The first transmission needs no copy. */
		last = s->queue.first && !has_credit(s);
	} else {
		last = m == s->lost.last;
	}
	if (unlikely(last || (s->tx_in_flight + 1 >= s->congestion.packets && (s->queue.first || s->lost.first))))
		flags = WIRE_PACKET_ACK_NOW;
	if (!send_one(s, m, flags, now_ns))
		return false;
	if (unlikely(s->congestion.gap_ns))
		s->pace_ns = RTE_MAX(s->pace_ns, now_ns) + s->congestion.gap_ns;
	return true;
}

static void send_owed(struct dgram_session *s, uint64_t now_ns)
{
	const bool ask = s->tx_queued && !has_credit(s) && !(s->flags & DGRAM_ASKED);

	if (unlikely(s->flags & DGRAM_PING || ask)) {
		if (dgram_output_bare(s, WIRE_PACKET_PING, 0, now_ns))
			s->flags &= (uint16_t)~DGRAM_PING;
	} else if (s->flags & DGRAM_ACK_URGENT) {
		if (!dgram_output_bare(s, WIRE_PACKET_ACK, 0, now_ns)) {
			s->flags &= (uint16_t)~DGRAM_ACK_URGENT;
			dgram_output_owe(s, now_ns); /* tries again later, when mbufs may be free */
		}
	}
}

/* Sends one packet if nothing else is queued or in flight: a small reply, or request. False: there is something else,
 * or it could not be sent. */
static inline bool output_alone(struct dgram_session *s, uint64_t now_ns)
{
	if (s->tx_queued != 1 || s->tx_held || s->flags & DGRAM_PING || s->congestion.gap_ns ||
	    net_room(s->dgram->net) < 2 || !has_credit(s) || !find_window(s) ||
	    !send_packet(s, number_next(s), 0, now_ns))
		return false;
	dgram_recovery_arm(s, now_ns, true);
	return true;
}

bool dgram_output_session(struct dgram_session *s, uint64_t now_ns)
{
	const bool idle = s->tx_held == 0;
	uint32_t room = net_room(s->dgram->net);
	unsigned sent = 0;

	if (unlikely(s->state != DGRAM_OPEN))
		return true;
	lapse(s, now_ns);
	if (likely(output_alone(s, now_ns)))
		return true;
	while (has_next(s) && may_fly(s)) {
		if (unlikely(room < 2))
			return false;
		if (unlikely(s->congestion.gap_ns && s->pace_ns > now_ns + SLACK_NS)) {
			dgram_pace_at(s, s->pace_ns);
			break;
		}
		if (unlikely(sent == DGRAM_TURN_PACKETS)) {
			list_put(s, DGRAM_DUE);
			break;
		}
		if (!find_window(s) || !send_next(s, now_ns))
			break;
		sent++;
		room = net_room(s->dgram->net); /* because a packet may leave in fragments */
	}
	if (s->tx_held + s->tx_queued)
		dgram_recovery_arm(s, now_ns, idle);
	if (unlikely(room < 2))
		return !(s->flags & (DGRAM_ACK_URGENT | DGRAM_PING));
	send_owed(s, now_ns);
	return true;
}
