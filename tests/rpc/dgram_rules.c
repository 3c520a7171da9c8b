/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules of sessions over UDP, one by one: what is lost comes again and soon, credit is shared and lapses, messages are
 * held within a budget. */
#include <rte_ip.h>
#include <rte_udp.h>

#include "tests/rpc/cases.h"
#include "tests/rpc/dgram_rig.h"

enum { HEADERS = 14 + sizeof(struct rte_ipv4_hdr) + sizeof(struct rte_udp_hdr) };

/* ---- what a tap does ---- */

static struct {
	int from;
	uint32_t first, last; /* numbers of DATA packets, whose first transmissions are lost, or late */
	unsigned times;
	unsigned kinds[WIRE_PACKET_UNKNOWN + 1]; /* packets seen, of both sides */
	uint32_t sack_words_max;
	uint32_t outstanding_max; /* credit granted by the server to all */
} tap;

static bool take_away(struct link *link, int from, struct rte_mbuf *m)
{
	struct wire_packet p;
	bool lost;

	if (net_flow(m).kind != NET_FLOW_UDP || m->data_len < HEADERS + sizeof(p))
		return false;
	memcpy(&p, rte_pktmbuf_mtod_offset(m, uint8_t *, HEADERS), sizeof(p));
	tap.kinds[p.kind]++;
	if (p.kind == WIRE_PACKET_ACK)
		tap.sack_words_max = RTE_MAX(tap.sack_words_max, (uint32_t)((m->data_len - HEADERS - sizeof(p)) / 8));
	lost = p.kind == WIRE_PACKET_DATA && from == tap.from && tap.times && p.number >= tap.first &&
	       p.number <= tap.last;
	tap.times -= lost;
	return lost;
}

/* A client with its window open, and a tap that takes the numbers away, counted from the next one that will be sent. */
static struct dg_end *begin(uint64_t seed, uint32_t first, uint32_t last, unsigned times)
{
	struct dg_end *client;

	dg_init(seed);
	dg_up();
	client = dg_open(0);
	dg_send(client, 300000, 1);
	CHECK(dg_run(DG_S, dg_answered, client));
	CHECK(client->session->congestion.packets > 64);
	memset(&tap, 0, sizeof(tap));
	tap.from = 1;
	tap.first = client->session->tx_next + first;
	tap.last = client->session->tx_next + last;
	tap.times = times;
	dg.link.tap = take_away;
	return client;
}

static uint64_t answered_in(struct dg_end *client)
{
	const uint64_t from = dg.link.now_ns;

	CHECK(dg_run(DG_S, dg_answered, client));
	return dg.link.now_ns - from;
}

void dgram_losses_are_found_by_what_follows(void)
{
	struct dg_end *client = begin(20, 5, 5, 1);

	dg_send(client, 100000, 1);
	CHECK(answered_in(client) < 100000);
	CHECK_UINT(dg_counters(1)->retransmitted, 1);
	CHECK_UINT(dg_counters(1)->timeouts, 0);
	dg_check_quiet();
	dg_down();
}

void dgram_old_losses_are_reported_in_further_words(void)
{
	struct dg_end *client = begin(21, 0, 0, 1);

	/* The acknowledgements that come before it is sent again tell of more than 65 packets behind it. */
	dg.link.delay_ns = 50000;
	client->session->congestion.window = 250;
	client->session->congestion.packets = 250;
	client->session->reordering = 16;
	client->session->srtt_ns = 400000;
	for (unsigned i = 0; i < 3; i++)
		dg_send(client, 250000, 1);
	answered_in(client);
	CHECK(tap.sack_words_max >= 1);
	CHECK_UINT(dg_counters(1)->retransmitted, 1);
	dg_check_quiet();
	dg_down();
}

void dgram_lost_tails_are_probed(void)
{
	struct dg_end *client = begin(22, 69, 69, 1);

	dg_send(client, 69 * 1408 + 5, 1); /* 70 packets */
	CHECK_NEAR((double)answered_in(client), 250000, 250000);
	CHECK_UINT(dg_counters(1)->timeouts, 0);
	CHECK_UINT(dg_counters(1)->retransmitted, 1);
	dg_down();
}

void dgram_lost_retransmissions_time_out(void)
{
	struct dg_end *client = begin(23, 0, 0, 4);

	dg_send(client, 10, 1);
	CHECK(answered_in(client) < 10000000);
	CHECK(dg_counters(1)->timeouts >= 1);
	CHECK_UINT(dg_counters(1)->retransmitted, 4);
	dg_check_quiet();
	dg_down();
}

void dgram_lost_acknowledgements_do_no_harm(void)
{
	struct dg_end *client;

	dg_init(24);
	dg_up();
	client = dg_open(0);
	dg.link.loss = 100;
	for (unsigned i = 0; i < 300; i++) {
		dg_send(client, 10 + 20 * i, 1 + 10);
		CHECK(dg_run(DG_S, dg_answered, client));
	}
	CHECK_UINT(dg_counters(0)->messages_in, 300);
	dg_wait(DG_S);
	dg_check_quiet();
	dg_down();
}

void dgram_repeated_packets_count_once(void)
{
	struct dg_end *client;

	dg_init(25);
	dg.link.duplicate = 1000;
	dg_up();
	client = dg_open(0);
	for (unsigned i = 0; i < 50; i++)
		dg_send(client, 100 * i, 1 + 100 * i);
	CHECK(dg_run(DG_S, dg_answered, client));
	CHECK_UINT(dg_counters(0)->messages_in, 50);
	CHECK(dg_counters(0)->duplicates > 50);
	dg_wait(LINK_MS);
	dg_check_quiet();
	dg_down();
}

void dgram_disorder_is_not_loss(void)
{
	struct dg_end *client;

	dg_init(26);
	dg.link.reorder = 100;
	dg.link.delay_ns = 20000;
	dg_up();
	client = dg_open(0);
	for (unsigned i = 0; i < 40; i++) {
		dg_send(client, 100000, 1);
		CHECK(dg_run(DG_S, dg_answered, client));
	}
	CHECK(dg_counters(0)->packets_in > 2800);
	CHECK(dg_counters(1)->retransmitted < 700); /* packets are late by up to two and a half round trips */
	dg_check_quiet();
	dg_down();
}

/* ---- credit ---- */

void dgram_credit_comes_when_wanted_and_lapses(void)
{
	struct dg_end *client, *server;

	dg_init(30);
	dg_up();
	client = dg_open(0);
	server = dg_server_of(client);
	dg_send(client, 10, 1 + 10);
	CHECK(dg_run(DG_S, dg_answered, client));
	CHECK(server->session->rx_edge - server->session->rx_next <= 1);
	CHECK(!(server->session->flags & DGRAM_ACTIVE));
	dg_send(client, 200000, 1);
	CHECK(dg_run(DG_S, dg_answered, client));
	CHECK(server->session->rx_edge - server->session->rx_next > 100);
	CHECK(dg.dgram[0]->credits_out > 100);
	for (unsigned i = 0; i < 100; i++) /* lapsed credit is looked for in turns */
		dg_wait(LINK_MS);
	CHECK_UINT(server->session->rx_edge - server->session->rx_next, 1);
	CHECK_UINT(dg.dgram[0]->credits_out, 0);
	CHECK_UINT(dg.dgram[0]->actives, 0);
	/* The sender knows it, too: one packet, then what comes back. */
	dg.link.tap = take_away;
	memset(&tap, 0, sizeof(tap));
	dg_send(client, 200000, 1);
	dg_wait(4000);
	CHECK_UINT(tap.kinds[WIRE_PACKET_DATA], 1);
	CHECK(dg_run(DG_S, dg_answered, client));
	CHECK_UINT(dg_counters(0)->outside, 0);
	dg_down();
}

void dgram_messages_behind_one_in_flight_ask_for_credit(void)
{
	struct dg_end *client;

	dg_init(31);
	dg_up();
	client = dg_open(0);
	dg_server_of(client)->quiet = true; /* no reply brings credit */
	dg_send(client, 10, 1);
	dg_wait(1000);
	dg_send(client, 10, 1);
	dg_wait(40000); /* not as long as an acknowledgement may be late */
	CHECK_UINT(dg_server_of(client)->received, 2);
	dg_down();
}

static bool count_credit(struct link *link, int from, struct rte_mbuf *m)
{
	uint32_t credit = 0;

	for (unsigned i = 0; i < dg.servers_count; i++)
		if (dg.servers[i].session)
			credit += dg.servers[i].session->rx_edge - dg.servers[i].session->rx_next;
	tap.outstanding_max = RTE_MAX(tap.outstanding_max, credit);
	return false;
}

static bool everyone(void *ctx)
{
	for (unsigned i = 0; i < *(unsigned *)ctx; i++)
		if (!dg_answered(&dg.clients[i]))
			return false;
	return true;
}

void dgram_credits_are_shared(void)
{
	unsigned clients = 60;

	dg_init(32);
	dg.options[0].credits = 100;
	dg_up();
	for (unsigned i = 0; i < clients; i++)
		dg_open(i);
	memset(&tap, 0, sizeof(tap));
	dg.link.tap = count_credit;
	for (unsigned i = 0; i < clients; i++)
		dg_send(&dg.clients[i], 100000, 1);
	CHECK(dg_run(DG_S, everyone, &clients));
	CHECK(tap.outstanding_max <= 100 + clients);
	CHECK(tap.outstanding_max > 100);
	CHECK_UINT(dg_counters(0)->outside, 0);
	dg_down();
}

void dgram_lost_credit_is_asked_for_again(void)
{
	struct dg_end *client, *server;

	dg_init(33);
	dg_up();
	client = dg_open(0);
	server = dg_server_of(client);
	client->session->tx_edge = client->session->tx_next; /* as if the packets that said more were lost */
	dg.link.loss = 1000;
	dg_send(client, 10, 1 + 10);
	dg_wait(3 * LINK_MS);
	dg.link.loss = 0;
	CHECK(dg_run(DG_S / 10, dg_answered, client));
	CHECK_UINT(server->received, 1);
	dg_down();
}

/* ---- messages that are held ---- */

void dgram_messages_are_held_within_a_budget(void)
{
	unsigned clients = 8;

	dg_init(40);
	dg.options[0].held_mbufs_max = 100;
	for (unsigned i = 0; i < clients; i++)
		dg.servers[i].hold = true;
	dg_up();
	for (unsigned i = 0; i < clients; i++)
		dg_open(i);
	/* 15 messages of 40 mbufs each, of all at once: their parts would fill the budget without one being whole. */
	for (unsigned i = 0; i < clients; i++)
		for (unsigned j = 0; j < 15; j++)
			dg_send(&dg.clients[i], 55000, 1);
	for (unsigned i = 0; i < 4000 && !everyone(&clients); i++) {
		dg_wait(LINK_MS);
		if (dg.dgram[0]->held > 200)
			unit_fail(__FILE__, __LINE__, "%u mbufs are held", dg.dgram[0]->held);
		for (unsigned j = 0; j < clients; j++)
			dg_take(&dg.servers[j]);
	}
	CHECK(everyone(&clients));
	CHECK_UINT(dg_counters(0)->over_limit, 0);
	dg_wait(DG_S);
	dg_check_quiet();
	dg_down();
}

/* What comes behind a favoured session's message waits for its turn: else a peer that leaves out a packet, and sends
 * on, would hold a window more than there is. */
void dgram_favourites_hold_no_more_than_their_message(void)
{
	struct dg_end *client;

	dg_init(45);
	dg.apart = true;
	dg.options[0].held_mbufs_max = 20;
	dg_up();
	client = dg_open(0);
	for (unsigned i = 0; i < 40; i++)
		dg_send(client, 10000, 1);
	CHECK(dg_run(DG_S, dg_answered, client));
	CHECK(client->session->congestion.packets > 64);
	CHECK(client->session->tx_edge - client->session->tx_next > 64);
	/* The first packet comes late, when others fill the budget, and makes its session the favoured one; the second
	 * one does not. */
	memset(&tap, 0, sizeof(tap));
	tap.from = 1;
	tap.first = client->session->tx_next;
	tap.last = tap.first + 1;
	tap.times = 2;
	dg.link.tap = take_away;
	dg_send(client, 6 * 1408, 1); /* 7 packets */
	for (unsigned i = 0; i < 100; i++)
		dg_send(client, 1000, 1);
	for (unsigned i = 0; i < 100 && dg_counters(0)->crowded == 0; i++)
		dg_wait(1000);
	CHECK_UINT(dg.dgram[0]->held, 20);
	tap.first = tap.last;
	tap.times = 3;
	for (unsigned i = 0; i < 2000 && !dg_answered(client); i++) {
		dg_wait(LINK_MS / 100);
		if (dg.dgram[0]->held > 26)
			unit_fail(__FILE__, __LINE__, "%u mbufs are held", dg.dgram[0]->held);
	}
	CHECK_UINT(tap.times, 0);
	CHECK(dg_run(DG_S, dg_answered, client));
	dg_wait(DG_S);
	dg_check_quiet();
	dg_down();
}

void dgram_messages_that_cannot_fit_are_refused(void)
{
	struct dg_end *client, *server;

	dg_init(41);
	dg.options[0].held_mbufs_max = 100;
	dg.options[0].message_max = 100000;
	dg_up();
	client = dg_open(0);
	server = dg_server_of(client);
	dg_send(client, 100000, 1);
	CHECK(dg_run(DG_S, dg_answered, client));
	CHECK_UINT(server->refused, 1);
	CHECK_UINT(server->status, WIRE_OVER_LIMIT);
	dg_send(client, 90000, 1); /* 64 mbufs */
	CHECK(dg_run(DG_S, dg_answered, client));
	CHECK_UINT(server->refused, 2);
	CHECK_UINT(server->status, WIRE_OVER_LIMIT); /* it never fits: nothing is gained by sending it again */
	dg_send(client, 60000, 1 + 60);
	CHECK(dg_run(DG_S, dg_answered, client));
	CHECK_UINT(server->refused, 2);
	CHECK_UINT(dg_counters(0)->over_limit, 2);
	dg_wait(LINK_MS);
	dg_check_quiet();
	dg_down();
}

void dgram_messages_of_64_mib(void)
{
	struct dg_end *client;

	dg_init(42);
	for (int side = 0; side < 2; side++) {
		link_pool(&dg.link, side, 51199);
		dg.net_options[side].pool = dg.link.pool[side];
		dg.options[side].held_mbufs_max = 100000;
		dg.options[side].message_max = sizeof(struct wire_frame) + WIRE_PAYLOAD_MAX;
	}
	dg.link.loss = 1;
	dg_up();
	client = dg_open(0);
	CHECK(dg_send(client, WIRE_PAYLOAD_MAX, 1));
	CHECK(dg_run(60 * DG_S, dg_answered, client));
	CHECK(dg_send(client, 100, 1 + WIRE_PAYLOAD_MAX));
	CHECK(dg_run(60 * DG_S, dg_answered, client));
	CHECK_UINT(client->bytes, 2 * sizeof(struct wire_frame) + WIRE_PAYLOAD_MAX);
	CHECK(dg_counters(0)->retransmitted && dg_counters(1)->retransmitted);
	dg_wait(DG_S);
	dg_check_quiet();
	dg_down();
}

void dgram_windows_are_shared_in_turn(void)
{
	unsigned clients = 10;

	dg_init(43);
	dg.options[0].active_max = dg.options[1].active_max = 2;
	dg_up();
	for (unsigned i = 0; i < clients; i++)
		dg_client(i);
	for (unsigned i = 0; i < clients; i++)
		for (unsigned j = 0; j < 5; j++)
			dg_send(&dg.clients[i], 30000, 1 + 30000);
	CHECK(dg_run(DG_S, everyone, &clients));
	dg_wait(LINK_MS);
	dg_check_quiet();
	dg_down();
}

static struct rte_mbuf *kept[LINK_MBUFS];
static unsigned kept_count;

/* A driver that never lets go: it holds a reference to what the client sends, which is lost. */
static bool keep(struct link *link, int from, struct rte_mbuf *m)
{
	if (from == 0 || net_flow(m).kind != NET_FLOW_UDP || kept_count == LINK_MBUFS)
		return false;
	rte_mbuf_refcnt_update(m, 1);
	kept[kept_count++] = m;
	return true;
}

void dgram_empty_pool_delays_only(void)
{
	struct dg_end *client;

	dg_init(44);
	dg_up();
	client = dg_open(0);
	kept_count = 0;
	for (unsigned i = 0; i < 20; i++)
		dg_send(client, 3000, 1);
	dg.link.tap = keep;
	dg_wait(10000);
	while (kept_count < LINK_MBUFS && (kept[kept_count] = rte_pktmbuf_alloc(dg.link.pool[1])))
		kept_count++;
	dg_wait(50 * LINK_MS);
	CHECK(dg_counters(1)->starved > 0);
	while (kept_count)
		rte_pktmbuf_free(kept[--kept_count]);
	dg.link.tap = NULL;
	CHECK(dg_run(2 * DG_S, dg_answered, client));
	dg_check_quiet();
	dg_down();
}
