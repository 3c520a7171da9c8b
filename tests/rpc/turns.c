/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose turn it is, and what becomes of the requests of streams that end. */
#include "tests/rpc/cases.h"

#include <errno.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include <stdio.h>

static const struct order echo = { .reply_bytes = 20 };

static bool slices_done(void *ctx)
{
	return toy.slices >= *(const uint64_t *)ctx;
}

static void run_slices(uint64_t n)
{
	uint64_t until = toy.slices + n;

	CHECK(rig_run(&rig, 60 * RIG_S, slices_done, &until));
}

/* The most slices of others between two of one session. */
static unsigned longest_wait(uint64_t session)
{
	unsigned longest = 0, since = 0;
	bool seen = false;

	for (unsigned i = 0; i < toy.logged; i++) {
		if (toy.log[i] == session) {
			longest = seen ? RTE_MAX(longest, since) : 0;
			seen = true;
			since = 0;
		} else {
			since++;
		}
	}
	return longest;
}

void small_requests_do_not_wait_for_big_ones(void)
{
	static const struct order big = { .slices = 5000, .reply_bytes = 8 },
				  small = { .slices = 40, .reply_bytes = 8 };
	enum { BIGS = 5, DELAY_SLICES = 100000 / SLICE_NS };
	struct peer *peers[BIGS + 1];
	unsigned before;

	toy_init(1, 0);
	toy_start();
	for (unsigned i = 0; i <= BIGS; i++)
		peers[i] = rig_peer(&rig, i);
	for (unsigned i = 0; i < BIGS; i++)
		toy_send(peers[i], big, 100000);
	run_slices(1000);
	before = toy.logged;
	toy_send(peers[BIGS], small, 0);
	toy_await(peers[BIGS], 1, small, 0);
	/* On the wire, in a turn that has begun, and then one slice of each other stream before each of its own. */
	CHECK_UINT(longest_wait(peers[BIGS]->session), BIGS);
	CHECK(toy.logged - before <= (BIGS + 1) * (small.slices + 1) + 2 * DELAY_SLICES + 2 * rig.slices_per_turn);
	CHECK_UINT(toy.finished, 1);
	for (unsigned i = 0; i < BIGS; i++)
		toy_await(peers[i], 1, big, 100000);
	rig_stop(&rig);
}

/* Requests that hold several mbufs go before small ones, in the order in which they came, but for one of four; what
 * needs more slices goes on among the small ones. */
void full_requests_go_first_and_starve_none(void)
{
	enum { FULL = 8, SMALL = 20 };
	static const struct order full = { .slices = 1, .reply_bytes = 8 }, small = { .reply_bytes = 8 };
	struct peer *peers[SMALL + FULL];
	unsigned from, at[2] = { SMALL, 0 }; /* the next full one, the next small one */

	toy_init(20, 0);
	toy_start();
	for (unsigned i = 0; i < SMALL + FULL; i++)
		peers[i] = rig_peer(&rig, i);
	from = toy.logged;
	rig.slices_per_turn = 0; /* all are there before the first is executed */
	for (unsigned i = 0; i < SMALL + FULL; i++)
		toy_send(peers[i], i < SMALL ? small : full, i < SMALL ? 100 : 5000);
	rig_wait(&rig, 10 * LINK_MS);
	CHECK_UINT(toy.logged, from);
	rig.slices_per_turn = 8;
	for (unsigned i = 0; i < SMALL + FULL; i++)
		toy_await(peers[i], 1, i < SMALL ? small : full, i < SMALL ? 100 : 5000);
	CHECK_UINT(toy.logged, from + SMALL + 2 * FULL);
	for (unsigned i = 0; i < SMALL + FULL; i++) {
		const bool small_one = i % 4 == 3 || at[0] == SMALL + FULL;

		CHECK_UINT(toy.log[from + i], peers[at[small_one]++]->session);
	}
	for (unsigned i = 0; i < FULL; i++) /* their second slices came behind all that waited */
		CHECK_UINT(toy.log[from + SMALL + FULL + i], peers[SMALL + i]->session);
	rig_stop(&rig);
}

void requests_of_a_stream_keep_their_order(void)
{
	enum { PEERS = 6, REQUESTS = 50 };
	struct order orders[PEERS][REQUESTS];
	struct peer *peers[PEERS];

	toy_init(2, 0);
	toy_start();
	for (unsigned i = 0; i < PEERS; i++)
		peers[i] = rig_peer(&rig, i);
	for (unsigned r = 0; r < REQUESTS; r++)
		for (unsigned i = 0; i < PEERS; i++) {
			orders[i][r] = (struct order){ .slices = prng_below(&rig.link.prng, 30),
						       .begin_at = prng_below(&rig.link.prng, 3),
						       .reply_bytes = 4 + prng_below(&rig.link.prng, 20000),
						       .fail = prng_below(&rig.link.prng, 10) == 0 };
			toy_send(peers[i], orders[i][r], r * 10);
		}
	for (unsigned r = 0; r < REQUESTS; r++)
		for (unsigned i = 0; i < PEERS; i++)
			if (!toy_await(peers[i], r + 1, orders[i][r], r * 10))
				printf("# request %u of peer %u\n", r, i);
	CHECK_UINT(toy.started, PEERS * REQUESTS);
	CHECK_UINT(toy.finished, PEERS * REQUESTS);
	rig_stop(&rig);
}

void deadlines_pass_while_waiting(void)
{
	enum { OTHERS = 30 };
	static const struct order slow = { .slices = 400, .reply_bytes = 8 };
	static const struct order begun = { .slices = 400, .begin_at = 1, .reply_bytes = 8 };
	struct wire_frame frame;
	struct reply reply;
	struct peer *peer;

	toy_init(3, 0);
	toy_start();
	peer = rig_peer(&rig, OTHERS);
	for (unsigned i = 0; i < OTHERS; i++)
		toy_send(rig_peer(&rig, i), slow, 0);
	run_slices(1000);
	/* 30 slices of 20 us pass before its first one. */
	frame = peer_frame(peer, WIRE_EXECUTE);
	frame.deadline_us = 300;
	peer_send(peer, frame, &echo, sizeof(echo));
	peer_await(peer, &reply);
	CHECK_STATUS(reply, WIRE_DEADLINE, "the deadline passed before the request was executed");
	CHECK_UINT(toy.finished, 0);
	frame = peer_frame(peer, WIRE_EXECUTE);
	frame.deadline_us = 10000;
	peer_send(peer, frame, toy_payload(peer->session, 2, echo, 0), sizeof(echo));
	toy_await(peer, 2, echo, 0);
	CHECK_UINT(rpc_counters(rig.server)->late, 1);
	/* In the middle of a request: one that was begun is finished, another is not. */
	frame = peer_frame(peer, WIRE_EXECUTE);
	frame.deadline_us = 5000;
	peer_send(peer, frame, &slow, sizeof(slow));
	peer_await(peer, &reply);
	CHECK_STATUS(reply, WIRE_DEADLINE, "deadline");
	frame = peer_frame(peer, WIRE_EXECUTE);
	frame.deadline_us = 5000;
	peer_send(peer, frame, toy_payload(peer->session, 4, begun, 0), sizeof(begun));
	toy_await(peer, 4, begun, 0);
	CHECK_UINT(rpc_counters(rig.server)->late, 2);
	rig_stop(&rig);
}

/*
 * A middle box that closes the client's half of a stream: the last segment of what it sends gets a FIN, of which the
 * client itself does not know. lib/net closes both halves only.
 */
struct half_close {
	bool armed, marked;
	uint32_t end; /* the FIN's sequence number */
};

static bool close_half(struct link *link, int from, struct rte_mbuf *m)
{
	struct half_close *h = link->tap_ctx;
	struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(m, struct rte_ipv4_hdr *, sizeof(struct rte_ether_hdr));
	struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)(ip + 1);
	uint32_t bytes, seq;

	if (!h->armed || net_flow(m).kind != NET_FLOW_TCP)
		return false;
	bytes = rte_be_to_cpu_16(ip->total_length) - (uint32_t)sizeof(*ip) - (uint32_t)(tcp->data_off >> 4) * 4;
	seq = rte_be_to_cpu_32(tcp->sent_seq);
	if (from == 1 && bytes && (h->marked ? seq + bytes == h->end : (tcp->tcp_flags & RTE_TCP_PSH_FLAG) != 0)) {
		h->marked = true;
		h->end = seq + bytes;
		tcp->tcp_flags |= RTE_TCP_FIN_FLAG;
	} else if (from == 1 && h->marked && seq == h->end) {
		tcp->sent_seq = rte_cpu_to_be_32(h->end + 1);
	} else if (from == 0 && h->marked && rte_be_to_cpu_32(tcp->recv_ack) == h->end + 1) {
		tcp->recv_ack = rte_cpu_to_be_32(h->end);
	}
	tcp->cksum = 0;
	tcp->cksum = rte_ipv4_udptcp_cksum(ip, tcp);
	return false;
}

static bool is_finished(void *ctx)
{
	const struct peer *peer = ctx;

	return peer->finished || peer->closed;
}

void half_closed_streams_get_their_replies(void)
{
	static const struct order order = { .slices = 200, .reply_bytes = 700000 };
	/* The FIN comes with the last of three requests; with the only one; with a part of a second one; alone. */
	for (unsigned kind = 0; kind < 4; kind++) {
		struct half_close h = { 0 };
		struct peer *peer;

		toy_init(4 + kind, 0);
		rig.link.tap = close_half;
		rig.link.tap_ctx = &h;
		rig.options.send_queue_bytes = 100000; /* so that a request waits, blocked */
		toy_start();
		peer = rig_peer(&rig, 0);
		for (unsigned i = 0; kind == 0 && i < 2; i++)
			toy_send(peer, order, 300);
		if (kind == 2)
			toy_send(peer, order, 300);
		h.armed = true;
		if (kind < 2)
			toy_send(peer, order, 300);
		else if (kind == 2)
			peer_write(peer, "STAR and not more than that", 27);
		else
			peer_write(peer, "S", 1);
		for (unsigned i = 0; i < peer->sequence; i++)
			toy_await(peer, i + 1, order, 300);
		if (!CHECK(rig_run(&rig, 10 * RIG_S, is_finished, peer)))
			printf("# kind %u\n", kind);
		CHECK(!peer->closed);
		/* The server has closed its half in order; its end does not need the client's. */
		rig_wait(&rig, 100 * LINK_MS);
		CHECK_UINT(net_connections(rig.link.net[0]), 0);
		CHECK_UINT(net_counters(rig.link.net[0])->tcp_out_rsts, 0);
		CHECK_UINT(rte_mempool_in_use_count(rig.link.pool[0]), 0);
		CHECK_UINT(rpc_counters(rig.server)->requests, peer->sequence);
		rig_stop(&rig);
	}
}

static void abort_in_the_middle(struct order order, unsigned slices)
{
	struct peer *peer = rig_peer(&rig, 0), *next;

	toy_send(peer, order, 5000);
	toy_send(peer, echo, 0); /* behind it: never begun */
	run_slices(slices);
	tcp_abort(peer->conn);
	rig_wait(&rig, 500 * LINK_MS);
	CHECK_UINT(net_connections(rig.link.net[0]), 0);
	CHECK_UINT(rte_mempool_in_use_count(rig.link.pool[0]), 0);
	/* Its place is free again, the only one there is. */
	next = rig_peer(&rig, 0);
	toy_send(next, echo, 0);
	toy_await(next, 1, echo, 0);
	tcp_close(next->conn);
	rig_wait(&rig, 10 * RIG_S);
}

void begun_requests_of_dead_streams_are_finished(void)
{
	toy_init(8, 0);
	rig.options.streams_max = 1;
	toy_start();
	abort_in_the_middle((struct order){ .slices = 100, .begin_at = 1, .reply_bytes = WIRE_PAYLOAD_DEFAULT }, 50);
	CHECK_UINT(toy.finished, 2);
	CHECK_UINT(rpc_counters(rig.server)->abandoned, 1);
	CHECK_UINT(rpc_counters(rig.server)->requests, 1);
	abort_in_the_middle((struct order){ .slices = 100, .begin_at = 40, .fail = 1 }, 50);
	CHECK_UINT(toy.finished, 4);
	CHECK_UINT(rpc_counters(rig.server)->abandoned, 2);
	rig_stop(&rig);
}

void other_requests_of_dead_streams_are_forgotten(void)
{
	toy_init(9, 0);
	rig.options.streams_max = 1;
	toy_start();
	abort_in_the_middle((struct order){ .slices = 100, .reply_bytes = 100 }, 50);
	CHECK_UINT(toy.finished, 1);
	abort_in_the_middle((struct order){ .slices = 100, .begin_at = 80, .reply_bytes = 100 }, 50);
	CHECK_UINT(toy.finished, 2);
	CHECK_UINT(rpc_counters(rig.server)->abandoned, 0);
	CHECK_UINT(rpc_counters(rig.server)->requests, 2);
	rig_stop(&rig);
}

void streams_are_bounded_and_reused(void)
{
	struct peer *a, *b, *c;

	toy_init(10, 0);
	rig.options.streams_max = 2;
	toy_start();
	a = rig_peer(&rig, 0);
	b = rig_peer(&rig, 1);
	for (unsigned i = 0; i < 20; i++) {
		c = rig_peer(&rig, 2);
		CHECK(rig_run(&rig, RIG_S, peer_is_closed, c));
		CHECK_INT(c->reason, ECONNRESET);
		CHECK_UINT(rpc_counters(rig.server)->no_stream, i + 1);
		tcp_close(a->conn);
		rig_wait(&rig, 100 * LINK_MS);
		a = rig_peer(&rig, 0);
		toy_send(a, echo, i);
		toy_send(b, echo, i);
		toy_await(a, 1, echo, i);
		toy_await(b, i + 1, echo, i);
	}
	rig_stop(&rig);
}

void creation_refuses_a_port_in_use(void)
{
	struct star_error err = { 0 };

	toy_init(11, 0);
	toy_start();
	CHECK(!rpc_server_create(&rig.options, &err));
	CHECK_INT(err.code, -EADDRINUSE);
	CHECK_HAS(err.text, "data port 5555 is in use");
	rpc_server_destroy(NULL);
	rig_stop(&rig);
}

/* So many wait that they are loaded ahead of their turns: those whose peers die meanwhile, and those with several
 * turns, too. */
void long_lines_are_loaded_ahead_and_some_leave_them(void)
{
	enum { PEERS = 60, REQUESTS = 3 };
	static const struct order order = { .slices = 12, .begin_at = 6, .reply_bytes = 4000 };
	struct peer *peers[PEERS];

	toy_init(14, 0);
	toy_start();
	for (unsigned i = 0; i < PEERS; i++)
		peers[i] = rig_peer(&rig, i);
	for (unsigned r = 0; r < REQUESTS; r++)
		for (unsigned i = 0; i < PEERS; i++)
			toy_send(peers[i], order, 500 * (i % 12)); /* up to four mbufs, in one and in several pieces */
	run_slices(4 * PEERS);
	for (unsigned i = 0; i < PEERS; i += 3)
		tcp_abort(peers[i]->conn);
	for (unsigned i = 0; i < PEERS; i++)
		for (unsigned r = 0; i % 3 && r < REQUESTS; r++)
			toy_await(peers[i], r + 1, order, 500 * (i % 12));
	CHECK_UINT(rpc_counters(rig.server)->requests, PEERS * REQUESTS * 2 / 3);
	CHECK_UINT(net_connections(rig.link.net[0]), PEERS * 2 / 3);
	rig_stop(&rig);
}

/* rig_stop counts the mbufs. */
void destroyed_in_every_state(void)
{
	static const struct order big = { .slices = 100000, .begin_at = 1, .reply_bytes = 1 << 20 };
	static const struct order reply = { .reply_bytes = 200000 };
	struct wire_frame bad;
	struct peer *p;

	toy_init(12, 0);
	toy_start();
	p = rig_peer(&rig, 0); /* waiting for a header */
	peer_write(p, "STAR", 4);
	p = rig_peer(&rig, 1); /* for a payload */
	toy_send(p, big, 200000);
	p->out_bytes = p->out_sent;
	p = rig_peer(&rig, 2); /* being executed, with another request behind it */
	toy_send(p, big, 3000);
	toy_send(p, echo, 3000);
	p = rig_peer(&rig, 3); /* blocked */
	p->hold = true;
	for (int i = 0; i < 10; i++)
		toy_send(p, reply, 100);
	p = rig_peer(&rig, 4); /* answered by an error */
	bad = peer_frame(p, WIRE_EXECUTE);
	bad.magic = 0;
	peer_send(p, bad, NULL, 0);
	p = rig_peer(&rig, 5); /* died in the middle of a begun request */
	toy_send(p, big, 3000);
	rig_wait(&rig, 100 * LINK_MS);
	tcp_abort(p->conn);
	rig_wait(&rig, 100 * LINK_MS);
	CHECK_UINT(net_connections(rig.link.net[0]), 5);
	CHECK(rte_mempool_in_use_count(rig.link.pool[0]) > 100);
	rig_stop(&rig);
}
