/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Out-of-order segments: a sorted list of runs, each a chain of mbufs without a gap. Segments that follow a hole arrive
 * in order, so nearly every one extends the last run, and needs no search. For others the runs are searched from the
 * front, where a retransmission belongs. The number of runs is bounded, and so is a search. The segments per connection
 * and per stack are bounded too: otherwise a few hundred peers that leave a hole for ever would take all mbufs.
 */
#include "net/tcp_internal.h"

enum {
	LOOKS_MAX = 16,	     /* connections that are checked for each segment that exceeds the stack's limit */
	STUCK_MS = 1000,     /* a list whose hole is not filled for this long may be dropped */
	CONNECTION_PART = 2, /* a connection may have half of the stack's limit */
	SACKS_AN_ACK = 3,    /* blocks beside timestamps (RFC 2018, 3) */
};

/* The limit is reached: drops the list of a connection that makes no progress, so that nobody can hold it for ever. Its
 * peer has no acknowledgement for it, and sends it again. */
static void give_up_one(struct net *net)
{
	for (unsigned i = 0; i < LOOKS_MAX; i++) {
		struct tcp_conn *conn = &net->conns[net->reorder_hand++ % net->options.connections_max];

		if (conn->reorder && net_ms(net) - conn->reorder_ms > STUCK_MS) {
			net->counters.tcp_out_of_order_dropped += conn->reorder_count;
			tcp_reorder_clear(conn);
			return;
		}
	}
}

static bool over_budget(struct tcp_conn *conn)
{
	struct net *net = conn->net;
	const uint32_t max = net->options.reorder_mbufs_max;

	if (net->pressure >= NET_PRESSURE_HIGH)
		return true;
	if (net->reorder_mbufs >= max)
		give_up_one(net);
	return net->reorder_mbufs >= max || conn->reorder_count >= RTE_MAX(max / CONNECTION_PART, 1u);
}

static void count_in(struct tcp_conn *conn)
{
	conn->net->counters.tcp_out_of_order++;
	if (conn->reorder_count++ == 0)
		conn->reorder_ms = net_ms(conn->net);
	conn->net->reorder_mbufs++;
}

static void count_out(struct tcp_conn *conn)
{
	conn->reorder_count--;
	conn->net->reorder_mbufs--;
}

/* Frees a whole run that is no longer in the list. */
static void free_run(struct tcp_conn *conn, struct rte_mbuf *m)
{
	while (m) {
		struct rte_mbuf *next = tcp_reorder_priv(m)->next;

		count_out(conn);
		rte_pktmbuf_free(m);
		m = next;
	}
}

/* ---- what the peer is told (RFC 2018, 4) ---- */

static bool set_duplicate(struct tcp_conn *conn, uint32_t begin, uint32_t end)
{
	/* One duplicate block per ACK: a segment that repeats several runs reports the first. */
	if (!(conn->features & TCP_FEATURE_SACK) || conn->flags & TCP_DSACK_DUE)
		return false;
	conn->dsack = (struct tcp_sack_block){ begin, end };
	conn->flags |= TCP_DSACK_DUE;
	return true;
}

void tcp_note_duplicate(struct tcp_conn *conn, uint32_t begin, uint32_t end)
{
	if (conn->flags & TCP_DSACK_DUE)
		tcp_send_ack(conn); /* an earlier segment's block goes first */
	conn->net->counters.tcp_dsack_old_sent += set_duplicate(conn, begin, end);
}

static void note_repeated(struct tcp_conn *conn, uint32_t begin, uint32_t end)
{
	conn->net->counters.tcp_dsack_ofo_sent += set_duplicate(conn, begin, end);
}

static bool is_apart(const struct tcp_sack_block *b, uint32_t begin, uint32_t end)
{
	return seq_lt(b->begin, begin) || seq_lt(end, b->end);
}

/* How many blocks the peer has not been told of, apart from the one from begin to end. There is one ACK at the end of a
 * turn. Blocks that do not fit into it must be sent now: with many losses the peer would take the segments between them
 * for lost, too. */
static unsigned count_fresh(struct tcp_conn *conn, uint32_t begin, uint32_t end)
{
	const unsigned room = SACKS_AN_ACK - !!(conn->flags & TCP_DSACK_DUE);
	unsigned fresh = 0;

	for (unsigned i = 0; i < conn->sacks_fresh; i++)
		fresh += is_apart(&conn->sacks[i], begin, end);
	if (fresh < room)
		return fresh;
	tcp_send_ack(conn);
	return 0;
}

/* Puts the run that was touched last first, and removes those that it has absorbed. */
static void note_run(struct tcp_conn *conn, uint32_t begin, uint32_t end)
{
	struct tcp_sack_block kept[TCP_SACK_BLOCKS_MAX];
	unsigned count = 0, fresh;

	if (!(conn->features & TCP_FEATURE_SACK))
		return;
	fresh = count_fresh(conn, begin, end);
	kept[count++] = (struct tcp_sack_block){ begin, end };
	for (unsigned i = 0; i < conn->sacks_count && count < TCP_SACK_BLOCKS_MAX; i++)
		if (is_apart(&conn->sacks[i], begin, end))
			kept[count++] = conn->sacks[i];
	memcpy(conn->sacks, kept, count * sizeof(kept[0]));
	conn->sacks_count = (uint8_t)count;
	conn->sacks_fresh = (uint8_t)(fresh + 1);
}

/* Removes blocks that have become part of the stream. */
static void forget_runs(struct tcp_conn *conn)
{
	unsigned count = 0;

	for (unsigned i = 0; i < conn->sacks_count; i++)
		if (seq_lt(conn->rcv_nxt, conn->sacks[i].begin))
			conn->sacks[count++] = conn->sacks[i];
	conn->sacks_count = (uint8_t)count;
	conn->sacks_fresh = (uint8_t)RTE_MIN(count, (unsigned)conn->sacks_fresh);
}

/* ---- the list ---- */

/* A received segment: begin and end are sequence numbers, including that of a FIN. */
struct arrival {
	struct rte_mbuf *m;
	uint32_t begin, end;
	bool fin;
};

static void trim_front(struct arrival *a, uint32_t begin)
{
	rte_pktmbuf_adj(a->m, (uint16_t)RTE_MIN(begin - a->begin, (uint32_t)a->m->data_len));
	a->begin = begin;
}

static void trim_end(struct arrival *a, uint32_t end)
{
	rte_pktmbuf_trim(a->m, (uint16_t)(a->end - end - a->fin));
	a->end = end;
	a->fin = false;
}

/* The last run that begins at or before seq, or NULL. */
static struct rte_mbuf *run_before(const struct tcp_conn *conn, uint32_t seq)
{
	struct rte_mbuf *before = NULL;

	if (conn->reorder_last && seq_le(tcp_reorder_priv(conn->reorder_last)->seq, seq))
		return conn->reorder_last;
	for (struct rte_mbuf *m = conn->reorder; m && seq_le(tcp_reorder_priv(m)->seq, seq);
	     m = tcp_reorder_priv(m)->next_run)
		before = m;
	return before;
}

static struct rte_mbuf *next_run(const struct tcp_conn *conn, struct rte_mbuf *run)
{
	return run ? tcp_reorder_priv(run)->next_run : conn->reorder;
}

/* Unlinks the run after `before`. */
static void unlink_next(struct tcp_conn *conn, struct rte_mbuf *before)
{
	struct rte_mbuf *run = next_run(conn, before), *after = tcp_reorder_priv(run)->next_run;

	if (before)
		tcp_reorder_priv(before)->next_run = after;
	else
		conn->reorder = after;
	if (conn->reorder_last == run)
		conn->reorder_last = before;
	conn->reorder_runs--;
}

/* Removes runs after `before` that lie within the new segment; if it only overlaps one, the segment is cut. */
static void clear_way(struct tcp_conn *conn, struct rte_mbuf *before, struct arrival *a)
{
	struct rte_mbuf *run;

	while ((run = next_run(conn, before)) && seq_lt(tcp_reorder_priv(run)->seq, a->end)) {
		const struct tcp_reorder_priv *p = tcp_reorder_priv(run);

		note_repeated(conn, p->seq, seq_lt(p->end, a->end) ? p->end : a->end);
		if (seq_lt(a->end, p->end)) {
			trim_end(a, p->seq);
			return;
		}
		unlink_next(conn, before);
		free_run(conn, run);
	}
}

/* Appends the segment to the run. */
static void extend_run(struct tcp_conn *conn, struct rte_mbuf *run, struct arrival *a)
{
	struct tcp_reorder_priv *p = tcp_reorder_priv(run);

	count_in(conn);
	p->end = a->end;
	*tcp_reorder_priv(a->m) = (struct tcp_reorder_priv){ .seq = a->begin, .fin = a->fin };
	tcp_reorder_priv(p->tail)->next = a->m;
	p->tail = a->m;
}

static void insert_run(struct tcp_conn *conn, struct rte_mbuf *before, const struct arrival *a)
{
	count_in(conn);
	*tcp_reorder_priv(a->m) = (struct tcp_reorder_priv){
		.seq = a->begin, .fin = a->fin, .end = a->end, .tail = a->m, .next_run = next_run(conn, before)
	};
	if (before)
		tcp_reorder_priv(before)->next_run = a->m;
	else
		conn->reorder = a->m;
	if (conn->reorder_last == before)
		conn->reorder_last = a->m;
	conn->reorder_runs++;
}

/* Merges the run after this one into it if there is no gap between them. */
static void join_run(struct tcp_conn *conn, struct rte_mbuf *run)
{
	struct tcp_reorder_priv *p = tcp_reorder_priv(run);
	struct rte_mbuf *next = p->next_run;

	if (!next || tcp_reorder_priv(next)->seq != p->end)
		return;
	unlink_next(conn, run);
	tcp_reorder_priv(p->tail)->next = next;
	p->tail = tcp_reorder_priv(next)->tail;
	p->end = tcp_reorder_priv(next)->end;
}

static void drop_segment(struct tcp_conn *conn, struct rte_mbuf *m)
{
	NET_DROP(conn->net, m, tcp_out_of_order_dropped);
}

void tcp_reorder_put(struct tcp_conn *conn, struct rte_mbuf *payload, uint32_t seq, bool fin)
{
	struct arrival a = { payload, seq, seq + payload->data_len + fin, fin };
	const bool refuse = over_budget(conn); /* first, because it may drop this very list */
	struct rte_mbuf *run = run_before(conn, seq);
	const struct tcp_reorder_priv *p = run ? tcp_reorder_priv(run) : NULL;

	if (p && seq_lt(a.begin, p->end)) { /* its beginning is already there */
		if (conn->flags & TCP_DSACK_DUE)
			tcp_send_ack(conn); /* an earlier segment's block goes first */
		note_repeated(conn, a.begin, seq_lt(p->end, a.end) ? p->end : a.end);
		if (seq_le(a.end, p->end)) {
			note_run(conn, p->seq, p->end);
			rte_pktmbuf_free(payload);
			return;
		}
		trim_front(&a, p->end);
	}
	if (refuse || (p && p->end == a.begin && tcp_reorder_priv(p->tail)->fin)) {
		drop_segment(conn, payload);
		return;
	}
	clear_way(conn, run, &a);
	if (p && p->end == a.begin) {
		extend_run(conn, run, &a);
	} else if (conn->reorder_runs < TCP_REORDER_RUNS_MAX) {
		insert_run(conn, run, &a);
		run = a.m;
	} else {
		drop_segment(conn, payload);
		return;
	}
	join_run(conn, run);
	note_run(conn, tcp_reorder_priv(run)->seq, tcp_reorder_priv(run)->end);
}

/* Removes the first mbuf of the first run; the run's fields move to the next mbuf. */
static struct rte_mbuf *pop_segment(struct tcp_conn *conn)
{
	struct rte_mbuf *m = conn->reorder;
	const struct tcp_reorder_priv *p = tcp_reorder_priv(m);

	if (p->next) {
		struct tcp_reorder_priv *n = tcp_reorder_priv(p->next);

		n->next_run = p->next_run;
		n->tail = p->tail;
		n->end = p->end;
		conn->reorder = p->next;
		if (conn->reorder_last == m)
			conn->reorder_last = p->next;
	} else {
		unlink_next(conn, NULL);
	}
	count_out(conn);
	conn->reorder_ms = net_ms(conn->net);
	return m;
}

/* The part of the first run that has also arrived in order is one duplicate, however many segments it was in (RFC 2883,
 * 4 (3)). *noted is the run's last segment, which stays the same while the first ones are removed. */
static void note_overtaken(struct tcp_conn *conn, const struct rte_mbuf **noted)
{
	const struct tcp_reorder_priv *p = tcp_reorder_priv(conn->reorder);

	if (p->tail == *noted || p->seq == conn->rcv_nxt)
		return;
	*noted = p->tail;
	note_repeated(conn, p->seq, seq_lt(p->end, conn->rcv_nxt) ? p->end : conn->rcv_nxt);
}

struct rte_mbuf *tcp_reorder_take(struct tcp_conn *conn, bool *fin)
{
	const struct rte_mbuf *noted = NULL;

	while (conn->reorder && seq_le(tcp_reorder_priv(conn->reorder)->seq, conn->rcv_nxt)) {
		const struct tcp_reorder_priv *p;
		struct rte_mbuf *m;
		uint32_t old;

		note_overtaken(conn, &noted);
		m = pop_segment(conn);
		p = tcp_reorder_priv(m);
		old = conn->rcv_nxt - p->seq;
		if (old < m->data_len || (old == m->data_len && p->fin)) {
			rte_pktmbuf_adj(m, (uint16_t)old);
			*fin = p->fin;
			return m;
		}
		rte_pktmbuf_free(m);
	}
	if (conn->sacks_count)
		forget_runs(conn);
	return NULL;
}

void tcp_reorder_clear(struct tcp_conn *conn)
{
	while (conn->reorder) {
		struct rte_mbuf *run = conn->reorder;

		unlink_next(conn, NULL);
		free_run(conn, run);
	}
	conn->sacks_count = conn->sacks_fresh = 0;
}
