/* SPDX-License-Identifier: BSD-3-Clause */
/* Received packets: the session that they belong to, their order, and the messages that they contain. */
#include <errno.h>

#include "rpc/dgram_seal.h"

enum {
	ECN_CE = 3,
	WHOLE = WIRE_PACKET_FIRST | WIRE_PACKET_LAST,
	USER_BYTES = 256, /* of the user's data per session, from its pointer on */
};

/* ---- messages ---- */

void dgram_message_drop(struct dgram_session *s)
{
	rte_pktmbuf_free(s->message.first);
	s->dgram->held -= s->message_mbufs;
	s->message = (struct dgram_chain){ NULL, NULL };
	s->message_mbufs = s->message_have = s->message_need = 0;
}

static bool broken(struct dgram_session *s, struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
	s->dgram->held--;
	s->dgram->counters.broken++;
	dgram_open_send_close(s);
	dgram_session_end(s, EPROTO);
	return false;
}

/* The length of a message by its frame, which is checked as by wire_frame_check, except for the length; 0: not a valid
 * frame. */
static inline uint64_t frame_bytes(const uint8_t *frame)
{
	struct {
		uint32_t magic;
		uint8_t version, opcode;
	} head;
	uint32_t payload_bytes;

	_Static_assert(offsetof(struct wire_frame, version) == 4 && offsetof(struct wire_frame, opcode) == 5, "head");
	memcpy(&head, frame, sizeof(head));
	memcpy(&payload_bytes, frame + offsetof(struct wire_frame, payload_bytes), sizeof(payload_bytes));
	if (unlikely(head.magic != WIRE_MAGIC || head.version != WIRE_VERSION || head.opcode < WIRE_EXECUTE ||
		     head.opcode > WIRE_PING))
		return 0;
	return sizeof(struct wire_frame) + (uint64_t)payload_bytes;
}

/* The number of messages in a packet of whole messages; 0: they do not fill it exactly. */
static inline uint32_t count_messages(const struct rte_mbuf *m)
{
	const uint8_t *body = rte_pktmbuf_mtod(m, const uint8_t *);
	const uint32_t bytes = m->data_len;
	uint32_t at = 0;

	for (uint32_t n = 1; at < bytes && bytes - at >= sizeof(struct wire_frame); n++) {
		const uint64_t message = frame_bytes(body + at);

		if (unlikely(message == 0 || message > bytes - at))
			return 0;
		at += (uint32_t)message;
		if (at == bytes)
			return n;
		at = wire_padded(at);
	}
	return 0;
}

/* Takes a packet of whole messages. */
static inline bool take_whole(struct dgram_session *s, struct rte_mbuf *m)
{
	struct dgram *d = s->dgram;
	const uint32_t number = s->number, messages = s->message_need ? 0 : count_messages(m);

	if (unlikely(!messages))
		return broken(s, m);
	d->held_whole++;
	if (unlikely(d->favoured == s))
		d->favoured = NULL;
	d->counters.messages_in += messages;
	d->options.handler->received(s->user, m, m->data_len, WIRE_OK);
	return s->number == number && s->state != DGRAM_FREE; /* its user may have closed it */
}

/* Whether the message that begins with this packet, and continues in others, may come; 0: it is not valid. A message
 * that needs more mbufs than messages may hold is refused for good, as there will never be more. */
static uint32_t begin_message(struct dgram_session *s, const struct rte_mbuf *m)
{
	struct dgram *d = s->dgram;
	struct wire_frame frame;
	uint64_t bytes;

	if (m->data_len < WIRE_PACKET_BODY_MIN)
		return 0;
	memcpy(&frame, rte_pktmbuf_mtod(m, const void *), sizeof(frame));
	bytes = sizeof(frame) + (uint64_t)frame.payload_bytes;
	s->message_status = WIRE_OK;
	if (unlikely(
		    bytes > d->options.message_max || frame.payload_bytes > WIRE_PAYLOAD_MAX ||
		    (bytes > m->data_len && (bytes + m->data_len - 1) / m->data_len > d->options.held_mbufs_max / 2))) {
		s->message_status = WIRE_OVER_LIMIT;
		frame.payload_bytes = 0;
	}
	if (wire_frame_check(&frame, NULL) != WIRE_OK || bytes > UINT32_MAX)
		return 0;
	if (unlikely(s->message_status != WIRE_OK))
		d->counters.over_limit++;
	s->message_packet = m->data_len;
	return (uint32_t)bytes;
}

/* The message is complete. */
static void deliver_messages(struct dgram_session *s)
{
	struct dgram *d = s->dgram;
	struct rte_mbuf *first = s->message.first;
	const uint32_t bytes = s->message_have;

	d->held_whole += s->message_mbufs;
	s->message = (struct dgram_chain){ NULL, NULL };
	s->message_need = s->message_have = s->message_mbufs = 0;
	if (unlikely(d->favoured == s))
		d->favoured = NULL;
	d->counters.messages_in++;
	d->options.handler->received(s->user, first, bytes, WIRE_OK);
}

/* Takes a packet of a refused message. The first one's frame is delivered at once, and the rest is dropped as it
 * arrives, so a peer that stops in the middle of such a message holds no mbufs. */
static void take_refused(struct dgram_session *s, struct rte_mbuf *m, uint16_t flags)
{
	struct dgram *d = s->dgram;

	if (flags & WIRE_PACKET_FIRST) {
		m->data_len = m->pkt_len = sizeof(struct wire_frame);
		d->held_whole++;
		d->counters.messages_in++;
		d->options.handler->received(s->user, m, m->data_len, s->message_status);
		return;
	}
	rte_pktmbuf_free(m);
	d->held--;
	if (!(flags & WIRE_PACKET_LAST))
		return;
	s->message_need = s->message_have = 0;
	if (d->favoured == s)
		d->favoured = NULL;
}

bool dgram_message_take(struct dgram_session *s, struct rte_mbuf *m, uint16_t flags)
{
	const uint32_t bytes = m->data_len;
	const uint32_t number = s->number;

	if (likely((flags & WHOLE) == WHOLE))
		return take_whole(s, m);
	if (flags & WIRE_PACKET_FIRST) {
		uint32_t need;

		if (s->message_need || !(need = begin_message(s, m)))
			return broken(s, m);
		s->message_need = need;
	} else if (!s->message_need || bytes == 0 || bytes > s->message_packet ||
		   (bytes < s->message_packet && !(flags & WIRE_PACKET_LAST))) {
		return broken(s, m);
	}
	s->message_have += bytes;
	if (s->message_have > s->message_need || (flags & WIRE_PACKET_LAST && s->message_have != s->message_need))
		return broken(s, m);
	if (unlikely(s->message_status != WIRE_OK)) {
		take_refused(s, m, flags);
	} else {
		if (s->message.last)
			s->message.last->next = m;
		else
			s->message.first = m;
		s->message.last = m;
		s->message_mbufs++;
		if (flags & WIRE_PACKET_LAST)
			deliver_messages(s);
	}
	return s->number == number && s->state != DGRAM_FREE; /* its user may have closed it */
}

/* ---- packets in their order ---- */

static inline bool is_present(const struct dgram_session *s, uint32_t number)
{
	const uint32_t at = number & s->dgram->window_mask;

	return s->reorder->present[at / 64] >> at % 64 & 1;
}

/* The packet may have been sent with credit that has lapsed since. */
static inline void advance(struct dgram_session *s)
{
	s->rx_next++;
	if (unlikely(number_before(s->rx_edge, s->rx_next)))
		s->rx_edge = s->rx_next;
}

/* Takes the early packets that are in order now. */
static void take_early(struct dgram_session *s)
{
	const uint32_t mask = s->dgram->window_mask;

	while (s->reorder->count && is_present(s, s->rx_next)) {
		const uint32_t at = s->rx_next & mask;
		struct rte_mbuf *m = s->reorder->packets[at];
		const int before = (int)offsetof(struct wire_packet, flags) - (int)sizeof(struct wire_packet);
		uint16_t flags;

		memcpy(&flags, rte_pktmbuf_mtod_offset(m, const uint8_t *, before), sizeof(flags));
		s->reorder->present[at / 64] &= ~(UINT64_C(1) << at % 64);
		s->reorder->count--;
		advance(s);
		if (!dgram_message_take(s, m, flags))
			return;
	}
	if (s->reorder->count == 0)
		dgram_reorder_release(s);
}

/* Stores a packet that came too early; false: there is no room, or it is a duplicate. */
static bool put_early(struct dgram_session *s, struct rte_mbuf *m, uint32_t number)
{
	struct dgram *d = s->dgram;
	const uint32_t at = number & d->window_mask;

	if (!s->reorder) {
		if (!d->reorders) {
			d->counters.crowded++;
			rte_pktmbuf_free(m);
			return false;
		}
		s->reorder = d->reorders;
		d->reorders = s->reorder->next;
		s->reorder->highest = number;
	}
	if (is_present(s, number)) {
		d->counters.duplicates++;
		rte_pktmbuf_free(m);
		return false;
	}
	s->reorder->present[at / 64] |= UINT64_C(1) << at % 64;
	s->reorder->packets[at] = m;
	s->reorder->count++;
	d->held++;
	if (number_before(s->reorder->highest, number))
		s->reorder->highest = number;
	return true;
}

/* After this many packets an acknowledgement is sent at once, because it brings credit. If a message has all the credit
 * that it needs, the acknowledgement waits for the reply, or for the delay. */
static inline uint32_t unacked_most(const struct dgram_session *s, const struct wire_packet *p)
{
	if (unlikely((p->flags & WHOLE) != WHOLE && !p->wants))
		return DGRAM_ACK_EVERY;
	return RTE_MIN((uint32_t)DGRAM_ACK_EVERY, (s->rx_edge - s->rx_next) / 2 + 2);
}

static inline void take_data(struct dgram_session *s, struct rte_mbuf *m, const struct dgram_from *from)
{
	struct dgram *d = s->dgram;
	const struct wire_packet *p = from->packet;
	const uint32_t ahead = p->number - s->rx_next;

	s->data_ns = from->now_ns;
	if (unlikely((int32_t)ahead < 0)) {
		d->counters.duplicates++;
		rte_pktmbuf_free(m);
		output_urgent(s);
		return;
	}
	if (unlikely(ahead >= s->rx_limit - s->rx_next)) {
		d->counters.outside++;
		rte_pktmbuf_free(m);
		output_urgent(s);
		return;
	}
	if (unlikely(d->held >= d->options.held_mbufs_max) && !dgram_credit_admit(s, p, from->now_ns)) {
		d->counters.crowded++;
		rte_pktmbuf_free(m);
		return;
	}
	rte_pktmbuf_adj(m, sizeof(*p));
	if (unlikely(ahead)) {
		if (put_early(s, m, p->number) && d->favoured == s)
			dgram_credit_favoured_sends(d, from->now_ns);
		output_urgent(s);
		return;
	}
	if (unlikely(d->favoured == s))
		dgram_credit_favoured_sends(d, from->now_ns);
	d->held++;
	advance(s);
	s->rx_unacked++;
	if (unlikely((p->flags & WIRE_PACKET_ACK_NOW) || s->reorder || s->rx_unacked >= unacked_most(s, p)))
		output_urgent(s);
	else
		dgram_output_owe(s, from->now_ns);
	if ((likely((p->flags & WHOLE) == WHOLE) ? take_whole(s, m) : dgram_message_take(s, m, p->flags)) &&
	    unlikely(s->reorder))
		take_early(s);
}

/* ---- packets of a session ---- */

/* The peer's address has changed. */
static void move(struct dgram_session *s, const struct dgram_from *from)
{
	struct net_udp_flow flow;

	if (net_udp_flow_init(s->dgram->net, &flow, from->address) == 0) {
		s->flow = flow;
		dgram_peer_move(s);
		dgram_congestion_init(&s->congestion);
	}
}

static inline bool is_from(const struct dgram_session *s, const struct net_udp_address *address)
{
	return s->flow.remote_port == address->remote_port &&
	       net_address_equal(&s->flow.path.remote, &address->remote) &&
	       net_address_equal(&s->flow.path.local, &address->local);
}

/* Evaluates the header that every packet of a session has. The current state of the peer is taken only from packets
 * that are not older than the newest one so far. False: the session's user has closed it. */
static __rte_always_inline bool take_header(struct dgram_session *s, const struct dgram_from *from)
{
	const struct wire_packet *p = from->packet;
	const bool first = !(s->flags & DGRAM_HEARD), news = first || number_before(s->peer_stamp, p->stamp);

	if (likely(news)) {
		if (unlikely(s->flags & DGRAM_ACCEPTED && !is_from(s, from->address)))
			move(s, from);
		s->peer_stamp = p->stamp;
		s->heard_ns = from->now_ns;
		s->flags |= DGRAM_HEARD;
	}
	if (unlikely((p->wants || s->peer_wants) && (news || p->stamp == s->peer_stamp)))
		dgram_credit_wanted(s, p, from->now_ns);
	if (number_before(s->tx_edge, p->edge)) {
		s->tx_edge = p->edge;
		s->sent_ns = from->now_ns; /* credit lapses from now on */
		s->flags &= (uint16_t)~DGRAM_ASKED;
		if (s->tx_queued)
			list_put(s, DGRAM_DUE);
	}
	return dgram_recovery_ack(s, from, news);
}

/* Finds the session of a packet by number and token. */
static struct dgram_session *find_session_of(struct dgram *d, const struct wire_packet *p)
{
	const uint32_t index = p->session & (DGRAM_SESSIONS_MAX - 1);
	struct dgram_session *s = &d->all[index];

	if (unlikely(index >= d->sessions_made || s->state == DGRAM_FREE || s->number != p->session)) {
		d->counters.unknown++;
		return NULL;
	}
	if (likely((s->flags & DGRAM_TAGGED ? p->token & DGRAM_TOKEN_MASK : p->token) == s->token &&
		   s->state != DGRAM_OPENING))
		return s;
	/* While a session is being opened, its answers carry the new token. */
	if ((s->state == DGRAM_OPENING || s->state == DGRAM_REOPENING) && p->token == s->open_token &&
	    (p->kind == WIRE_PACKET_COOKIE || p->kind == WIRE_PACKET_OPENED || p->kind == WIRE_PACKET_CLOSE))
		return s;
	d->counters.bad_tokens++;
	return NULL;
}

static inline bool is_of_opening(const struct dgram_session *s, const struct wire_packet *p)
{
	return s->state != DGRAM_OPEN && p->token == s->open_token;
}

/* Anyone on the path may have forged this, so a session that was open asks again, with another ticket. */
static void take_refusal(struct dgram_session *s, const struct wire_packet *p)
{
	const bool quota = p->number == WIRE_QUOTA_SESSIONS;

	if (s->seal && !quota)
		dgram_seal_refused(s);
	if (!s->seal || s->state == DGRAM_OPENING)
		dgram_session_end(s, quota ? EDQUOT : ECONNREFUSED);
}

static void take_other(struct dgram_session *s, const struct dgram_from *from)
{
	const bool opening = is_of_opening(s, from->packet);

	switch (from->packet->kind) {
	case WIRE_PACKET_COOKIE:
		if (opening)
			dgram_open_cookie(s, from);
		break;
	case WIRE_PACKET_OPENED:
		if (opening)
			dgram_open_opened(s, from);
		break;
	case WIRE_PACKET_CLOSE:
		if (opening)
			take_refusal(s, from->packet);
		else
			dgram_session_end(s, 0);
		break;
	case WIRE_PACKET_PING:
		if (take_header(s, from))
			output_urgent(s);
		break;
	case WIRE_PACKET_ACK:
		take_header(s, from);
		break;
	default:
		s->dgram->counters.bad_packets++;
	}
}

static inline bool well_formed(const struct wire_packet *p, uint32_t bytes)
{
	return p->magic == WIRE_PACKET_MAGIC && p->version == WIRE_PACKET_VERSION && p->kind >= WIRE_PACKET_OPEN &&
	       p->kind <= WIRE_PACKET_UNKNOWN &&
	       (p->kind == WIRE_PACKET_DATA || p->kind == WIRE_PACKET_ACK ||
		bytes <= sizeof(struct wire_packet_open) + sizeof(struct secure_hello));
}

/* A packet that belongs to no session. */
static void take_outside(struct dgram *d, const struct dgram_from *from)
{
	if (from->packet->kind == WIRE_PACKET_OPEN)
		dgram_open_asked(d, from);
	else if (from->packet->kind == WIRE_PACKET_UNKNOWN)
		dgram_open_unknown(d, from);
	else
		dgram_open_stranger(d, from);
}

void dgram_prefetch(const struct dgram_session *s)
{
	net_fetch(s, offsetof(struct dgram_session, client));
}

/* Nothing in the packet is verified yet: if it is nonsense, the prefetch is wasted, and nothing else. */
void dgram_prefetch_packet(void *ctx, const void *payload, uint32_t bytes, unsigned pass)
{
	const struct dgram *d = ctx;
	const struct dgram_session *s;
	uint32_t number, index;

	if (bytes < sizeof(struct wire_packet))
		return;
	memcpy(&number, (const char *)payload + offsetof(struct wire_packet, session), sizeof(number));
	index = number & (DGRAM_SESSIONS_MAX - 1);
	if (index >= d->sessions_made)
		return;
	s = &d->all[index];
	if (pass == 0) {
		dgram_prefetch(s);
		return;
	}
	net_fetch(s->user, USER_BYTES);
	if (s->window)
		rte_prefetch0(&s->window->packets[s->tx_una & d->window_mask]);
	if (s->in_flight.first)
		net_fetch(s->in_flight.first, sizeof(struct rte_mbuf) + sizeof(struct dgram_priv));
	if (s->in_flight.last)
		net_fetch(s->in_flight.last, sizeof(struct rte_mbuf) + sizeof(struct dgram_priv));
	if (s->message.last)
		net_fetch(s->message.last, sizeof(struct rte_mbuf));
}

void dgram_receive(void *ctx, struct net *net, const struct net_udp_address *address, struct rte_mbuf *m, uint8_t tos)
{
	struct dgram *d = ctx;
	struct dgram_session *s;
	struct wire_packet p;
	const struct dgram_from from = { address, &p, rte_pktmbuf_mtod(m, const uint8_t *) + sizeof(p),
					 m->data_len - (uint32_t)sizeof(p), net_now_ns(net) };

	d->counters.packets_in++;
	if (unlikely(m->data_len < sizeof(p)))
		goto bad;
	memcpy(&p, rte_pktmbuf_mtod(m, const void *), sizeof(p));
	if (unlikely(!well_formed(&p, from.bytes))) {
		if (p.magic != WIRE_PACKET_MAGIC || p.version == WIRE_PACKET_VERSION)
			goto bad;
		dgram_open_foreign(d, &from);
		rte_pktmbuf_free(m);
		return;
	}
	s = p.kind == WIRE_PACKET_OPEN || p.kind == WIRE_PACKET_UNKNOWN ? NULL : find_session_of(d, &p);
	if (unlikely(!s)) {
		take_outside(d, &from);
		rte_pktmbuf_free(m);
		return;
	}
	if (unlikely(s->flags & DGRAM_TAGGED) && !is_of_opening(s, &p) &&
	    !dgram_seal_open(s, &from, rte_pktmbuf_mtod(m, uint8_t *))) {
		rte_pktmbuf_free(m);
		return;
	}
	if (unlikely((tos & ECN_CE) == ECN_CE)) {
		d->counters.marked++;
		s->flags |= DGRAM_MARKED;
	}
	if (likely(p.kind == WIRE_PACKET_DATA)) {
		if (likely(take_header(s, &from)))
			take_data(s, m, &from);
		else
			rte_pktmbuf_free(m);
		return;
	}
	take_other(s, &from);
	rte_pktmbuf_free(m);
	return;
bad:
	d->counters.bad_packets++;
	rte_pktmbuf_free(m);
}
