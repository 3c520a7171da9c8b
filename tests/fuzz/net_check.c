/* SPDX-License-Identifier: BSD-3-Clause */
/* The stack's numbers and queues, against each other. */
#include "tests/fuzz/net_world.h"
#include "tests/net/sender_check.h"

static void check_send_queue(const struct tcp_conn *c)
{
	const char *fault = sender_fault(c);
	uint32_t seq = c->snd_una == c->iss ? c->iss + 1 : c->snd_una;

	FUZZ_CHECK(!fault, "the sender: %s", fault ? fault : "");
	for (struct rte_mbuf *m = c->send_head; m; m = net_priv(m)->next)
		seq += net_priv(m)->payload_len;
	if (c->state != TCP_TIME_WAIT && tcp_queued(c))
		FUZZ_CHECK(seq == c->snd_end, "the queue ends at %u, not %u", seq, c->snd_end);
}

/* One run of out-of-order data: how many mbufs it has. */
static uint32_t check_run(struct rte_mbuf *run)
{
	uint32_t n = 0, seq = tcp_reorder_priv(run)->seq;

	for (struct rte_mbuf *m = run; m; m = tcp_reorder_priv(m)->next, n++) {
		FUZZ_CHECK(tcp_reorder_priv(m)->seq == seq, "a hole in a run: %u, not %u", tcp_reorder_priv(m)->seq,
			   seq);
		seq += m->data_len + tcp_reorder_priv(m)->fin;
		if (!tcp_reorder_priv(m)->next)
			FUZZ_CHECK(m == tcp_reorder_priv(run)->tail, "a run ends before its tail");
	}
	FUZZ_CHECK(seq == tcp_reorder_priv(run)->end, "a run ends at %u, not %u", seq, tcp_reorder_priv(run)->end);
	return n;
}

static void check_reorder(const struct tcp_conn *c)
{
	uint32_t n = 0, runs = 0, end = c->rcv_nxt;

	for (struct rte_mbuf *run = c->reorder; run; run = tcp_reorder_priv(run)->next_run, runs++) {
		const struct tcp_reorder_priv *p = tcp_reorder_priv(run);

		FUZZ_CHECK(seq_lt(end, p->seq), "out-of-order data at %u is not behind %u", p->seq, end);
		end = p->end;
		n += check_run(run);
		if (!p->next_run)
			FUZZ_CHECK(run == c->reorder_last, "the runs end before the last");
	}
	FUZZ_CHECK(n == c->reorder_count && runs == c->reorder_runs, "%u segments in %u runs wait, not %u in %u", n,
		   runs, c->reorder_count, c->reorder_runs);
}

/* What the peer is told of it: blocks that are runs, each once. */
static void check_sacks(const struct tcp_conn *c)
{
	for (unsigned i = 0; i < c->sacks_count; i++) {
		struct rte_mbuf *run = c->reorder;

		while (run && tcp_reorder_priv(run)->seq != c->sacks[i].begin)
			run = tcp_reorder_priv(run)->next_run;
		FUZZ_CHECK(run && tcp_reorder_priv(run)->end == c->sacks[i].end, "no run is %u to %u",
			   c->sacks[i].begin, c->sacks[i].end);
		for (unsigned k = 0; k < i; k++)
			FUZZ_CHECK(c->sacks[k].begin != c->sacks[i].begin, "a block twice");
	}
	if (c->features & TCP_FEATURE_SACK)
		FUZZ_CHECK(!c->reorder == !c->sacks_count, "%u blocks of %u runs", c->sacks_count, c->reorder_runs);
}

void check_stack(void)
{
	uint64_t unread = 0, grown = 0;
	uint32_t half_open = 0, open = 0, reorder = 0, pending = 0;

	for (uint32_t i = 0; i < w.net->options.connections_max; i++) {
		const struct tcp_conn *c = &w.net->conns[i];

		if (c->state == TCP_CLOSED)
			continue;
		open++;
		half_open += c->state == TCP_SYN_RECEIVED && c->flags & TCP_PASSIVE;
		FUZZ_CHECK(seq_le(c->snd_una, c->snd_nxt) && seq_le(c->snd_nxt, c->snd_end + 1), "sent: %u, %u, %u",
			   c->snd_una, c->snd_nxt, c->snd_end);
		FUZZ_CHECK(seq_le(c->rcv_nxt, c->rcv_adv), "received: %u, %u", c->rcv_nxt, c->rcv_adv);
		FUZZ_CHECK(c->mss >= 64 && c->mss <= MTU - 40, "a segment size of %u", c->mss);
		check_send_queue(c);
		check_reorder(c);
		check_sacks(c);
		unread += c->unread;
		grown += c->rcv_buf - w.net->options.receive_initial_bytes;
		FUZZ_CHECK(c->rcv_buf <= w.net->options.receive_window_bytes, "a room of %u bytes", c->rcv_buf);
		reorder += c->reorder_count;
	}
	for (unsigned i = 0; i < NEIGHBOUR_SETS * NEIGHBOUR_WAYS; i++)
		pending += w.net->interfaces[0]->neighbours[i / NEIGHBOUR_WAYS][i % NEIGHBOUR_WAYS].pending_count;
	FUZZ_CHECK(reorder == w.net->reorder_mbufs && reorder <= w.net->options.reorder_mbufs_max,
		   "%u out-of-order segments, not %u", reorder, w.net->reorder_mbufs);
	FUZZ_CHECK(pending == w.net->neighbour_pending && pending <= MBUFS / NEIGHBOUR_PENDING_SHARE,
		   "%u frames wait for neighbours, not %u", pending, w.net->neighbour_pending);
	FUZZ_CHECK(w.net->reassembly.mbufs <= w.net->options.reassembly_mbufs_max, "%u fragments wait",
		   w.net->reassembly.mbufs);
	FUZZ_CHECK(unread == w.net->unread_bytes, "%llu bytes unread", (unsigned long long)w.net->unread_bytes);
	FUZZ_CHECK(grown == w.net->grown_bytes && grown <= w.net->options.receive_grown_bytes, "windows grown by %llu",
		   (unsigned long long)w.net->grown_bytes);
	FUZZ_CHECK(open == net_connections(w.net), "%u connections, not %u", open, net_connections(w.net));
	FUZZ_CHECK(half_open == w.net->half_open && half_open <= w.net->options.half_open_max, "%u half open, not %u",
		   half_open, w.net->half_open);
	FUZZ_CHECK(net_counters(w.net)->in_frames == w.in_frames, "%llu frames in",
		   (unsigned long long)net_counters(w.net)->in_frames);
}
