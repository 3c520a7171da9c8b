/* SPDX-License-Identifier: BSD-3-Clause */
/* The stack's numbers and queues, against each other. */
#include "tests/fuzz/net_world.h"

static void check_send_queue(const struct tcp_conn *c)
{
	uint32_t seq = c->snd_una == c->iss ? c->iss + 1 : c->snd_una;
	bool next = !c->send_next;

	for (struct rte_mbuf *m = c->send_head; m; m = net_priv(m)->next) {
		const struct net_priv *p = net_priv(m);

		FUZZ_CHECK(p->seq == seq && p->payload_len, "%u bytes at %u, not %u", p->payload_len, p->seq, seq);
		if (m == c->send_next) {
			next = true;
			FUZZ_CHECK(p->seq == c->snd_nxt || c->snd_nxt == c->iss, "next to send is %u, not %u", p->seq,
				   c->snd_nxt);
		}
		seq += p->payload_len;
		if (!p->next)
			FUZZ_CHECK(m == c->send_tail, "the queue ends before its tail");
	}
	FUZZ_CHECK(next, "the next to send is not in the queue");
	if (c->state != TCP_TIME_WAIT && tcp_queued(c))
		FUZZ_CHECK(seq == c->snd_end, "the queue ends at %u, not %u", seq, c->snd_end);
}

static void check_reorder(const struct tcp_conn *c)
{
	uint32_t n = 0, seq = 0;

	for (struct rte_mbuf *m = c->reorder; m; m = net_priv(m)->next, n++) {
		FUZZ_CHECK(n == 0 || seq_le(seq, net_priv(m)->seq), "out-of-order segments out of order");
		seq = net_priv(m)->seq;
		FUZZ_CHECK(seq_lt(c->rcv_nxt, seq) && seq_le(seq + m->data_len, c->rcv_adv), "%u outside %u to %u", seq,
			   c->rcv_nxt, c->rcv_adv);
	}
	FUZZ_CHECK(n == c->reorder_count && n <= TCP_REORDER_MAX, "%u segments wait, not %u", n, c->reorder_count);
}

void check_stack(void)
{
	uint32_t half_open = 0, open = 0, reorder = 0, pending = 0;

	for (uint32_t i = 0; i < w.net->options.connections_max; i++) {
		const struct tcp_conn *c = &w.net->conns[i];

		if (c->state == TCP_CLOSED)
			continue;
		open++;
		half_open += c->state == TCP_SYN_RECEIVED && c->flags & TCP_PASSIVE;
		FUZZ_CHECK(seq_le(c->snd_una, c->snd_nxt) && seq_le(c->snd_nxt, c->snd_max) &&
				   seq_le(c->snd_max, c->snd_end + 1),
			   "sent: %u, %u, %u, %u", c->snd_una, c->snd_nxt, c->snd_max, c->snd_end);
		FUZZ_CHECK(seq_le(c->rcv_nxt, c->rcv_adv), "received: %u, %u", c->rcv_nxt, c->rcv_adv);
		FUZZ_CHECK(c->mss >= 64 && c->mss <= MTU - 40, "a segment size of %u", c->mss);
		check_send_queue(c);
		check_reorder(c);
		reorder += c->reorder_count;
	}
	for (unsigned i = 0; i < ARP_SETS * ARP_WAYS; i++)
		pending += w.net->interfaces[0].arp[i / ARP_WAYS][i % ARP_WAYS].pending_count;
	FUZZ_CHECK(reorder == w.net->reorder_mbufs && reorder <= w.net->options.reorder_mbufs_max,
		   "%u out-of-order segments, not %u", reorder, w.net->reorder_mbufs);
	FUZZ_CHECK(pending == w.net->arp_pending && pending <= MBUFS / ARP_PENDING_SHARE,
		   "%u frames wait for ARP, not %u", pending, w.net->arp_pending);
	FUZZ_CHECK(open == net_connections(w.net), "%u connections, not %u", open, net_connections(w.net));
	FUZZ_CHECK(half_open == w.net->half_open && half_open <= w.net->half_open_max, "%u half open, not %u",
		   half_open, w.net->half_open);
	FUZZ_CHECK(net_counters(w.net)->in_frames == w.in_frames, "%llu frames in",
		   (unsigned long long)net_counters(w.net)->in_frames);
}
