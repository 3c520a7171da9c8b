/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send queue, and what is known of its segments (the scoreboard of RFC 6675). Peers may send false SACK blocks: a
 * block counts only within what was sent, and marks only whole segments. The cost of an ACK is bounded: a block's
 * beginning is found by links that skip 64 segments, and runs that were SACKed before are skipped by links, which are
 * shortened on the way (Tarjan's path halving). The sum over a segment's life is a small constant.
 */
#include "net/tcp_sender.h"

enum {
	SKIP = 64,	   /* one segment in this many is in conn->skips */
	INSERT_STEPS = 16, /* how far the list of lost segments is searched to keep it sorted */
};

static void list_insert(struct tcp_segment_list *list, struct rte_mbuf *m, struct rte_mbuf *after)
{
	struct net_priv *p = net_priv(m);

	p->older = after;
	p->newer = after ? net_priv(after)->newer : list->first;
	*(p->newer ? &net_priv(p->newer)->older : &list->last) = m;
	*(after ? &net_priv(after)->newer : &list->first) = m;
}

static void list_remove(struct tcp_segment_list *list, struct rte_mbuf *m)
{
	struct net_priv *p = net_priv(m);

	*(p->older ? &net_priv(p->older)->newer : &list->first) = p->newer;
	*(p->newer ? &net_priv(p->newer)->older : &list->last) = p->older;
}

void tcp_queue_append(struct tcp_conn *conn, struct rte_mbuf *m)
{
	*(conn->send_head ? &net_priv(conn->send_tail)->next : &conn->send_head) = m;
	conn->send_tail = m;
	if (!conn->send_next)
		conn->send_next = m;
	if (conn->queued_segments++ % SKIP == 0) {
		net_priv(m)->segment = TCP_SEG_SKIP;
		*(conn->skips.first ? &net_priv(conn->skips.last)->skip : &conn->skips.first) = m;
		conn->skips.last = m;
	}
}

/* Marks a segment as in flight. */
static void mark_in_flight(struct tcp_conn *conn, struct rte_mbuf *m)
{
	struct net_priv *p = net_priv(m);

	list_insert(&conn->in_flight, m, conn->in_flight.last);
	p->segment |= TCP_SEG_IN_FLIGHT;
	conn->pipe += p->payload_len;
	conn->retrans_segs += p->transmissions > 1;
}

static void unmark_in_flight(struct tcp_conn *conn, struct rte_mbuf *m)
{
	struct net_priv *p = net_priv(m);

	list_remove(&conn->in_flight, m);
	p->segment &= (uint8_t)~TCP_SEG_IN_FLIGHT;
	conn->pipe -= p->payload_len;
	conn->retrans_segs -= p->transmissions > 1;
}

static void lost_remove(struct tcp_conn *conn, struct rte_mbuf *m)
{
	if (conn->lost_at == m)
		conn->lost_at = net_priv(m)->older;
	list_remove(&conn->lost, m);
}

/* Removes a segment from its list. */
static void take_out_segment(struct tcp_conn *conn, struct rte_mbuf *m)
{
	if (net_priv(m)->segment & TCP_SEG_IN_FLIGHT)
		unmark_in_flight(conn, m);
	else if (net_priv(m)->segment & TCP_SEG_LOST)
		lost_remove(conn, m);
}

/* Losses mostly come in order, so the right place is near the last one; it need not be exact. */
static void lost_insert(struct tcp_conn *conn, struct rte_mbuf *m)
{
	const uint32_t seq = net_priv(m)->seq;
	struct rte_mbuf *after = conn->lost_at, *next;

	for (unsigned i = 0; i < INSERT_STEPS && after && seq_lt(seq, net_priv(after)->seq); i++)
		after = net_priv(after)->older;
	next = after ? net_priv(after)->newer : conn->lost.first;
	for (unsigned i = 0; i < INSERT_STEPS && next && seq_lt(net_priv(next)->seq, seq); i++) {
		after = next;
		next = net_priv(after)->newer;
	}
	list_insert(&conn->lost, m, after);
	conn->lost_at = m;
}

void tcp_scoreboard_lose(struct tcp_conn *conn, struct rte_mbuf *m)
{
	struct net_priv *p = net_priv(m);

	if (p->segment & TCP_SEG_IN_FLIGHT)
		unmark_in_flight(conn, m);
	else if (p->segment & TCP_SEG_LOST)
		return;
	conn->lost_segs += !(p->segment & TCP_SEG_LOST);
	p->segment |= TCP_SEG_LOST;
	lost_insert(conn, m);
}

void tcp_queue_sent(struct tcp_conn *conn, struct rte_mbuf *m)
{
	struct net_priv *p = net_priv(m);

	take_out_segment(conn, m);
	p->sent_ns = conn->net->now_ns;
	if (p->transmissions < UINT8_MAX)
		p->transmissions++;
	mark_in_flight(conn, m);
	if (m == conn->send_next) {
		conn->send_next = p->next;
		conn->snd_nxt = tcp_end(p);
	}
}

bool tcp_queue_split(struct tcp_conn *conn, struct rte_mbuf *m, uint32_t bytes)
{
	struct rte_mbuf *rest = tcp_copy_payload(conn->net, m);
	struct net_priv *p = net_priv(m), *r;

	if (!rest)
		return false;
	r = net_priv(rest);
	r->seq += bytes;
	r->payload_off += bytes;
	r->payload_len -= bytes;
	r->segment &= TCP_SEG_IN_FLIGHT | TCP_SEG_LOST;
	p->payload_len = (uint16_t)bytes;
	p->next = rest;
	if (conn->send_tail == m)
		conn->send_tail = rest;
	conn->lost_segs += !!(r->segment & TCP_SEG_LOST);
	if (r->segment & TCP_SEG_IN_FLIGHT) {
		list_insert(&conn->in_flight, rest, m);
		conn->retrans_segs += r->transmissions > 1;
	} else if (r->segment & TCP_SEG_LOST) {
		list_insert(&conn->lost, rest, m);
	}
	return true;
}

/* A segment, or its first part, has been delivered. */
static void delivered(struct tcp_conn *conn, const struct net_priv *p, struct tcp_ack *a)
{
	const uint32_t end = tcp_end(p);

	a->delivered += p->payload_len;
	if (p->transmissions == 1) {
		a->original |= seq_le(end, conn->recover);
		if (seq_lt(end, conn->fack))
			conn->sender |= TCP_SENDER_REORDERED;
	}
	if (seq_lt(conn->fack, end))
		conn->fack = end;
	tcp_rack_delivered(conn, p, a);
}

static void release_one(struct tcp_conn *conn, struct rte_mbuf *m, struct tcp_ack *a)
{
	struct net_priv *p = net_priv(m);

	take_out_segment(conn, m);
	if (p->segment & TCP_SEG_SKIP)
		conn->skips.first = p->skip;
	conn->lost_segs -= !!(p->segment & TCP_SEG_LOST);
	a->retransmitted |= p->transmissions > 1;
	if (p->segment & TCP_SEG_SACKED) {
		conn->sacked_segs--;
	} else {
		if (!a->sent_ns)
			a->sent_ns = p->sent_ns;
		delivered(conn, p, a);
	}
	conn->send_head = p->next;
	/* The rest of the chain is the driver's; this is our reference to one of its mbufs. */
	if (likely(!m->next))
		net_free(conn->net, m);
	else
		rte_pktmbuf_free_seg(m);
}

void tcp_queue_release(struct tcp_conn *conn, uint32_t ack, struct tcp_ack *a)
{
	struct rte_mbuf *m;

	while ((m = conn->send_head) && m != conn->send_next) {
		struct net_priv *p = net_priv(m);
		const uint32_t part = ack - p->seq;

		if (seq_lt(ack, tcp_end(p))) {
			if (!seq_lt(p->seq, ack))
				break;
			if (!(p->segment & TCP_SEG_SACKED))
				a->delivered += part;
			if (p->segment & TCP_SEG_IN_FLIGHT)
				conn->pipe -= part;
			p->seq = ack;
			p->payload_off += part;
			p->payload_len -= part;
			break;
		}
		release_one(conn, m, a);
	}
	if (!conn->send_head)
		conn->send_tail = NULL;
}

/* The first segment that begins at or after seq. */
static struct rte_mbuf *seek(const struct tcp_conn *conn, uint32_t seq)
{
	uint64_t *steps = &conn->net->counters.tcp_sack_steps;
	struct rte_mbuf *m = conn->send_head;

	for (struct rte_mbuf *skip = conn->skips.first; skip && seq_le(net_priv(skip)->seq, seq);
	     skip = net_priv(skip)->skip, ++*steps)
		m = skip;
	for (; m && seq_lt(net_priv(m)->seq, seq); ++*steps)
		m = net_priv(m)->next;
	return m;
}

/* The first segment after a SACKed one that is not SACKed. A SACKed segment's `newer` is a later one, with only SACKed
 * segments between them; NULL: not known. */
static struct rte_mbuf *behind(const struct tcp_conn *conn, struct rte_mbuf *m)
{
	for (; m && net_priv(m)->segment & TCP_SEG_SACKED; conn->net->counters.tcp_sack_steps++) {
		struct net_priv *p = net_priv(m);
		struct rte_mbuf *next = p->newer ? p->newer : p->next;

		if (next && net_priv(next)->segment & TCP_SEG_SACKED && net_priv(next)->newer)
			p->newer = net_priv(next)->newer;
		m = next;
	}
	return m;
}

static void sack_one(struct tcp_conn *conn, struct rte_mbuf *m, struct tcp_ack *a)
{
	struct net_priv *p = net_priv(m);

	take_out_segment(conn, m);
	conn->lost_segs -= !!(p->segment & TCP_SEG_LOST);
	p->segment = (uint8_t)((p->segment & ~TCP_SEG_LOST) | TCP_SEG_SACKED);
	p->newer = p->next;
	conn->sacked_segs++;
	a->sacked = true;
	if (!a->sack_sent_ns && p->transmissions == 1)
		a->sack_sent_ns = p->sent_ns;
	delivered(conn, p, a);
}

static void sack_block(struct tcp_conn *conn, const struct tcp_sack_block *block, struct tcp_ack *a)
{
	struct rte_mbuf *m = seek(conn, block->begin);

	while (m && m != conn->send_next && seq_le(tcp_end(net_priv(m)), block->end)) {
		if (net_priv(m)->segment & TCP_SEG_SACKED) {
			m = behind(conn, m);
		} else {
			sack_one(conn, m, a);
			m = net_priv(m)->next;
		}
	}
}

/* The first block reports a duplicate if it lies below the ACK or within the second block (RFC 2883, 4). It must be
 * within what was sent in this window and the last; if a peer lies about that, we send at most its own window again. */
static bool is_dsack(const struct tcp_conn *conn, const struct tcp_segment *s)
{
	const struct tcp_sack_block *b = s->sacks;

	if (!seq_lt(b->begin, b->end) || !seq_le(b->end, conn->snd_nxt) || conn->snd_nxt - b->begin > UINT32_C(1) << 30)
		return false;
	return seq_lt(b->begin, s->ack) ||
	       (s->sack_count > 1 && seq_le(s->sacks[1].begin, b->begin) && seq_le(b->end, s->sacks[1].end));
}

void tcp_scoreboard_sack(struct tcp_conn *conn, const struct tcp_segment *s, uint32_t una, struct tcp_ack *a)
{
	struct tcp_sack_block blocks[TCP_SACK_BLOCKS_MAX];
	unsigned count = 0, from = 0;

	if (s->sack_count && is_dsack(conn, s)) {
		a->dsack = true;
		a->dsack_bytes = s->sacks[0].end - s->sacks[0].begin;
		from = 1;
	}
	/* In sequence order, so that what arrived in order does not look reordered. */
	for (unsigned i = from, at; i < s->sack_count; i++) {
		const struct tcp_sack_block *b = &s->sacks[i];

		if (!seq_lt(b->begin, b->end) || !seq_lt(conn->snd_una, b->end) || !seq_le(b->end, conn->snd_nxt))
			continue;
		for (at = count++; at > 0 && seq_lt(b->begin, blocks[at - 1].begin); at--)
			blocks[at] = blocks[at - 1];
		blocks[at] = *b;
	}
	for (unsigned i = 0; i < count && conn->send_head; i++)
		sack_block(conn, &blocks[i], a);
}

void tcp_scoreboard_timeout(struct tcp_conn *conn, bool reneged)
{
	for (struct rte_mbuf *m = conn->send_head; m && m != conn->send_next; m = net_priv(m)->next) {
		struct net_priv *p = net_priv(m);

		if (p->segment & TCP_SEG_SACKED) {
			if (!reneged)
				continue;
			p->segment &= (uint8_t)~TCP_SEG_SACKED;
			conn->sacked_segs--;
		} else if (m != conn->send_head && !reneged && tcp_rack_recent(conn, p)) {
			continue;
		}
		tcp_scoreboard_lose(conn, m);
	}
}

bool tcp_scoreboard_lose_larger(struct tcp_conn *conn, uint32_t bytes)
{
	bool any = false;

	for (struct rte_mbuf *m = conn->send_head; m && m != conn->send_next; m = net_priv(m)->next)
		if (net_priv(m)->segment & TCP_SEG_IN_FLIGHT && net_priv(m)->payload_len > bytes) {
			tcp_scoreboard_lose(conn, m);
			any = true;
		}
	return any;
}

void tcp_scoreboard_undo(struct tcp_conn *conn)
{
	struct rte_mbuf *m;

	/* They were sent before everything in flight, so they go to the front, the last one first. */
	while ((m = conn->lost.last)) {
		struct net_priv *p = net_priv(m);

		lost_remove(conn, m);
		list_insert(&conn->in_flight, m, NULL);
		p->segment = (uint8_t)((p->segment & ~TCP_SEG_LOST) | TCP_SEG_IN_FLIGHT);
		conn->lost_segs--;
		conn->pipe += p->payload_len;
		conn->retrans_segs += p->transmissions > 1;
	}
}

void tcp_queue_clear(struct tcp_conn *conn)
{
	struct rte_mbuf *m = conn->send_head;

	while (m) {
		struct rte_mbuf *next = net_priv(m)->next;

		rte_pktmbuf_free_seg(m);
		m = next;
	}
	conn->send_head = conn->send_next = conn->send_tail = conn->lost_at = NULL;
	conn->in_flight = conn->lost = conn->skips = (struct tcp_segment_list){ NULL, NULL };
	conn->pipe = conn->sacked_segs = conn->lost_segs = conn->retrans_segs = 0;
}
