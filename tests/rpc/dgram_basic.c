/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions over UDP on a good link: opening, messages of all sizes both ways, credit, acknowledgements, closing. */
#include <errno.h>

#include "tests/rpc/cases.h"
#include "tests/rpc/dgram_rig.h"

static bool all_idle(void *ctx)
{
	const struct dg_end *client = ctx;

	return dg_answered(ctx) && dgram_queued(client->session) == 0;
}

void dgram_small_messages_go_both_ways(void)
{
	struct dg_end *client;

	dg_init(1);
	dg_up();
	client = dg_open(0);
	CHECK_UINT(client->connects, 1);
	CHECK_UINT(client->resumes, 0);
	CHECK_UINT(client->incarnation, DG_INCARNATION);
	CHECK_UINT(dgram_sessions(dg.dgram[0]), 1);
	for (unsigned i = 0; i < 100; i++) {
		dg_send(client, 64, 1 + 64);
		CHECK(dg_run(DG_S, dg_answered, client));
	}
	dg_wait(LINK_MS);
	CHECK_UINT(dg_counters(0)->messages_in, 100);
	CHECK_UINT(dg_counters(1)->messages_in, 100);
	CHECK_UINT(dg_counters(0)->retransmitted + dg_counters(1)->retransmitted, 0);
	/* Acknowledgements ride on data: hardly a packet has none. */
	CHECK(dg_counters(0)->packets_out <= 100 + 10);
	CHECK(dg_counters(1)->packets_out <= 100 + 10);
	dg_check_quiet();
	dg_down();
}

void dgram_messages_of_all_sizes_arrive(void)
{
	struct dg_end *client;
	uint32_t most;

	dg_init(2);
	dg_up();
	client = dg_open(0);
	most = dgram_payload(client->session);
	CHECK_UINT(most, 1500 - 20 - 8 - 64);
	for (uint32_t bytes = 0; bytes<3 * most; bytes += bytes % most> most - 70 ? 1 : 60) {
		dg_send(client, bytes, 1 + bytes);
		if (bytes % 7 == 0)
			CHECK(dg_run(DG_S, dg_answered, client));
	}
	CHECK(dg_run(DG_S, all_idle, client));
	for (uint32_t bytes = 100000; bytes < 4 << 20; bytes *= 3) {
		dg_send(client, bytes, 1 + bytes);
		CHECK(dg_run(DG_S, all_idle, client));
	}
	CHECK_UINT(dg_counters(0)->outside + dg_counters(1)->outside, 0);
	CHECK_UINT(dg_counters(0)->retransmitted + dg_counters(1)->retransmitted, 0);
	dg_wait(LINK_MS);
	dg_check_quiet();
	dg_down();
}

void dgram_queued_before_opening_is_sent(void)
{
	struct dg_end *client;

	dg_init(3);
	dg_up();
	client = dg_client(0);
	for (unsigned i = 0; i < 10; i++)
		dg_send(client, 2000, 1 + 10);
	CHECK(dgram_queued(client->session) == 20);
	CHECK(dg_run(DG_S, all_idle, client));
	dg_down();
}

void dgram_close_reaches_the_peer(void)
{
	struct dg_end *client, *server;

	dg_init(4);
	dg_up();
	client = dg_open(0);
	server = dg_server_of(client);
	dg_send(client, 5000, 1 + 5000);
	dgram_close(client->session);
	client->session = NULL;
	dg_wait(LINK_MS);
	CHECK_UINT(server->closes, 1);
	CHECK_INT(server->reason, 0);
	CHECK_UINT(client->closes, 0);
	client = dg_open(1);
	server = dg_server_of(client);
	dg_send(client, 50000, 1 + 50000);
	dg_wait(10000);
	dgram_close(server->session);
	server->session = NULL;
	dg_wait(LINK_MS);
	CHECK_UINT(client->closes, 1);
	CHECK_INT(client->reason, 0);
	CHECK_UINT(dgram_sessions(dg.dgram[0]) + dgram_sessions(dg.dgram[1]), 0);
	dg_check_quiet();
	dg_down();
}

void dgram_closed_while_receiving(void)
{
	struct dg_end *client;

	dg_init(5);
	dg_up();
	for (unsigned i = 0; i < 20; i++) {
		client = dg_open(0);
		for (unsigned j = 0; j < 10; j++)
			dg_send(client, 100 * i * j, 1 + 3000);
		if (i % 2)
			client->shut = true;
		else
			dg_server_of(client)->shut = true;
		dg_wait(DG_S / 10);
		CHECK_UINT(dgram_sessions(dg.dgram[0]) + dgram_sessions(dg.dgram[1]), 0);
	}
	dg_check_quiet();
	dg_down();
}

void dgram_refused_sessions_are_told(void)
{
	struct dg_end *client;

	dg_init(6);
	dg.options[0].sessions_max = 2;
	dg_up();
	dg.refuse = true;
	client = dg_client(0);
	dg_wait(LINK_MS);
	CHECK_UINT(client->closes, 1);
	CHECK_INT(client->reason, ECONNREFUSED);
	dg.refuse = false;
	dg_open(1);
	dg_open(2);
	client = dg_client(3);
	dg_wait(LINK_MS);
	CHECK_INT(client->reason, ECONNREFUSED);
	CHECK_UINT(dg_counters(0)->refused, 2);
	dg_down();
}

/* It goes without a word; the next one is another process. */
static void lose_server(void)
{
	dg.link.loss = 1000;
	dg_destroy(0);
	dg_wait(LINK_MS);
	dg.link.loss = 0;
	dg.options[0].secret[0]++;
}

/* At once: their clients may have another node to ask. One that was open is told, too, and knows that it is over. */
void dgram_closed_servers_refuse_until_they_listen(void)
{
	struct dg_end *client, *other;

	dg_init(11);
	dg_up();
	client = dg_open(0);
	dg_send(client, 3000, 1 + 3000);
	CHECK(dg_run(DG_S, dg_answered, client));
	lose_server();
	dg.options[0].closed = true;
	dg_create(0);
	dg_send(client, 100, 1 + 100);
	dg_wait(20 * LINK_MS);
	CHECK_UINT(client->closes, 1);
	CHECK_UINT(client->connects, 1);
	other = dg_client(1);
	dg_wait(LINK_MS);
	CHECK_UINT(other->closes, 1);
	CHECK_INT(other->reason, ECONNREFUSED);
	CHECK_UINT(dgram_sessions(dg.dgram[0]), 0);
	CHECK_UINT(dg_counters(0)->refused, 2);
	dgram_listen(dg.dgram[0]);
	other = dg_open(2);
	dg_send(other, 100, 1 + 100);
	CHECK(dg_run(DG_S, dg_answered, other));
	dg_down();
}

/* By ICMP. */
void dgram_nobody_at_the_port_is_told(void)
{
	struct dg_end *client;

	dg_init(10);
	dg_up();
	dg_destroy(0);
	client = dg_client(0);
	dg_wait(LINK_MS);
	CHECK_UINT(client->closes, 1);
	CHECK_INT(client->reason, ECONNREFUSED);
	/* A session that was open outlives it: its server comes back. */
	dg_create(0);
	client = dg_open(1);
	lose_server();
	dg_send(client, 10, 1);
	dg_wait(DG_S);
	CHECK_UINT(client->closes, 0);
	CHECK(net_counters(dg.link.net[1])->icmp_in_errors >= 2);
	dg_create(0);
	dg_wait(9 * DG_S);
	CHECK_UINT(client->closes, 0);
	CHECK_UINT(client->connects, 2);
	dg_down();
}

void dgram_silent_peers_are_given_up(void)
{
	struct dg_end *client, *server;

	dg_init(7);
	dg_up();
	client = dg_open(0);
	server = dg_server_of(client);
	dg_send(client, 10, 1 + 10);
	CHECK(dg_run(DG_S, dg_answered, client));
	/* Idle sessions live as long as they are heard. */
	dg_wait(60 * DG_S);
	CHECK_UINT(client->closes + server->closes, 0);
	CHECK(dg_counters(1)->packets_out < 60 + 10);
	dg_send(client, 10, 1 + 10);
	CHECK(dg_run(DG_S, dg_answered, client));
	dg.link.loss = 1000;
	dg_wait(8 * DG_S);
	CHECK_UINT(client->closes + server->closes, 0);
	dg_wait(4 * DG_S);
	CHECK_INT(client->reason, ETIMEDOUT);
	CHECK_INT(server->reason, ETIMEDOUT);
	CHECK_UINT(client->closes + server->closes, 2);
	client = dg_client(1);
	dg_wait(11 * DG_S);
	CHECK_UINT(client->closes, 1);
	CHECK_INT(client->reason, ETIMEDOUT);
	dg_down();
}

void dgram_sessions_resume_after_a_partition(void)
{
	struct dg_end *client;

	dg_init(8);
	dg_up();
	client = dg_open(0);
	for (unsigned i = 0; i < 5; i++)
		dg_send(client, 30000, 1 + 30000);
	dg_wait(20000);
	dg.link.loss = 1000;
	dg_wait(7 * DG_S);
	CHECK_UINT(client->session->state, DGRAM_REOPENING);
	dg.link.loss = 0;
	CHECK(dg_run(2 * DG_S, dg_answered, client));
	CHECK_UINT(client->closes, 0);
	CHECK_UINT(client->resumes, 1);
	CHECK_UINT(dg_counters(0)->opened, 1);
	CHECK_UINT(dg_counters(1)->messages_in, 5);
	dg_wait(DG_S);
	dg_check_quiet();
	dg_down();
}

void dgram_restarted_servers_are_noticed(void)
{
	struct dg_end *client;

	dg_init(9);
	dg_up();
	client = dg_open(0);
	dg_send(client, 3000, 1 + 3000);
	CHECK(dg_run(DG_S, dg_answered, client));
	lose_server();
	dg.options[0].incarnation++;
	dg_create(0);
	dg_send(client, 100, 1 + 100);
	dg_wait(20 * LINK_MS);
	CHECK_UINT(client->connects, 2);
	CHECK_UINT(client->resumes, 0);
	CHECK_UINT(client->incarnation, DG_INCARNATION + 1);
	CHECK_UINT(dgram_queued(client->session), 0);
	client->sent = client->received; /* it was lost: sent again */
	dg_send(client, 100, 1 + 100);
	CHECK(dg_run(DG_S, dg_answered, client));
	dg_down();
}
