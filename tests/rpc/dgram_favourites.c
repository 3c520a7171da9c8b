/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions that hold mbufs, and are favoured, and do not go on: others do. */
#include <rte_ip.h>
#include <rte_udp.h>

#include "tests/rpc/cases.h"
#include "tests/rpc/dgram_rig.h"

enum { HEADERS = 14 + sizeof(struct rte_ipv4_hdr) + sizeof(struct rte_udp_hdr) };

static uint32_t cut[8]; /* by client: what follows this packet does not arrive; 0: all does */

static bool cut_off(struct link *link, int from, struct rte_mbuf *m)
{
	struct wire_packet p;

	if (net_flow(m).kind != NET_FLOW_UDP || m->data_len < HEADERS + sizeof(p))
		return false;
	memcpy(&p, rte_pktmbuf_mtod_offset(m, uint8_t *, HEADERS), sizeof(p));
	for (unsigned i = 0; i < RTE_DIM(cut); i++)
		if (cut[i] && from == 1 && p.kind == WIRE_PACKET_DATA && p.number > cut[i] && dg.clients[i].session &&
		    p.session == dg.clients[i].session->peer_number)
			return true;
	return false;
}

void dgram_silent_favourites_let_others_go_on(void)
{
	struct dg_end *other;
	uint64_t from;

	dg_init(42);
	dg.options[0].held_mbufs_max = 64;
	dg_up();
	other = dg_open(2);
	dg_open(0);
	dg_open(1);
	memset(cut, 0, sizeof(cut));
	cut[0] = cut[1] = 20;
	dg.link.tap = cut_off;
	dg_send(&dg.clients[0], 40000, 1);
	dg_send(&dg.clients[1], 40000, 1);
	dg_wait(10 * LINK_MS);
	CHECK_UINT(dg.dgram[0]->held, 40);
	CHECK(dg.dgram[0]->favoured != NULL);
	from = dg.link.now_ns;
	dg_send(other, 20000, 1 + 10);
	CHECK(dg_run(2 * DG_S, dg_answered, other));
	CHECK(dg.link.now_ns - from > 100 * LINK_MS);
	CHECK(dg.link.now_ns - from < 1500 * LINK_MS);
	dg_down();
}

/* What a peer could send besides: DATA without a body, or a PING that asks for credit. */
static void give(const struct dg_end *client, enum wire_packet_kind kind, uint32_t number, uint16_t wants)
{
	const struct dgram_session *server = dg_server_of(client)->session;
	const struct net_udp_address to = { .remote = *link_ip(0),
					    .local_port = dg.dgram[1]->port,
					    .remote_port = DG_PORT };
	const struct wire_packet p = { .magic = WIRE_PACKET_MAGIC,
				       .version = WIRE_PACKET_VERSION,
				       .kind = (uint8_t)kind,
				       .session = server->number,
				       .token = server->token,
				       .number = number,
				       .stamp = server->peer_stamp,
				       .wants = wants,
				       .ack = server->tx_una,
				       .edge = server->tx_edge };

	net_turn(dg.link.net[1], dg.link.now_ns);
	CHECK_INT(net_udp_send(dg.link.net[1], &to, &p, sizeof(p)), 0);
}

static uint32_t left_out; /* a packet of the first client that does not arrive, either */

static bool leave_out(struct link *link, int from, struct rte_mbuf *m)
{
	struct wire_packet p;

	if (cut_off(link, from, m))
		return true;
	if (from == 0 || net_flow(m).kind != NET_FLOW_UDP || m->data_len < HEADERS + sizeof(p))
		return false;
	memcpy(&p, rte_pktmbuf_mtod_offset(m, uint8_t *, HEADERS), sizeof(p));
	return p.kind == WIRE_PACKET_DATA && p.session == dg.clients[0].session->peer_number && p.number == left_out;
}

void dgram_repeating_favourites_let_others_go_on(void)
{
	struct dg_end *other, *client, *standing;

	dg_init(47);
	dg.options[0].credits = 16;
	dg.options[0].held_mbufs_max = 40;
	dg_up();
	client = dg_open(0);
	other = dg_open(1);
	standing = dg_open(2);
	memset(cut, 0, sizeof(cut));
	cut[2] = 15;
	left_out = client->session->tx_next + 10;
	dg.link.tap = leave_out;
	dg_send(standing, 20 * 1408 - 64, 1);
	dg_wait(10 * LINK_MS);
	CHECK_UINT(dg.dgram[0]->held, 15);
	dg_send(client, 20 * 1408 - 64, 1);
	for (unsigned i = 0; i < 1000 && !dg.dgram[0]->favoured; i++)
		dg_wait(LINK_MS / 10);
	CHECK(dg.dgram[0]->favoured == dg_server_of(client)->session);
	dg_send(other, 12 * 1408, 1 + 10);
	for (unsigned i = 0; i < 100 && !dg_answered(other); i++) {
		const struct dgram_session *server = dg_server_of(client)->session;

		if (server->reorder) /* what it has, though those before it are missing */
			give(client, WIRE_PACKET_DATA, server->reorder->highest, 0);
		dg_wait(20 * LINK_MS);
	}
	CHECK(dg_answered(other));
	CHECK(dg_counters(0)->duplicates > 5);
	CHECK_UINT(client->closes, 0);
	dg_down();
}

/* A session that asks for credit all the time is favoured all the time, except over those that send. */
void dgram_asking_favourites_let_others_go_on(void)
{
	struct dg_end *other, *asking;

	dg_init(48);
	dg.options[0].held_mbufs_max = 40;
	dg_up();
	memset(cut, 0, sizeof(cut));
	cut[0] = cut[1] = 19;
	cut[2] = 3;
	dg.link.tap = cut_off;
	for (unsigned i = 0; i < 3; i++) {
		dg_open(i);
		dg_send(&dg.clients[i], 20 * 1408 - 64, 1);
		dg_wait(DG_S);
	}
	CHECK_UINT(dg.dgram[0]->held, 41);
	asking = dg_open(3);
	other = dg_open(4);
	dg_send(asking, 10, 1); /* its credit is used, and it is known to be alive */
	dg_wait(DG_S);
	dg_send(other, 5 * 1408, 1 + 10);
	for (unsigned i = 0; i < 2000 && !dg_answered(other); i++) {
		give(asking, WIRE_PACKET_PING, asking->session->tx_next, 7);
		dg_wait(LINK_MS);
	}
	CHECK(dg_answered(other));
	dg_down();
}

/* Messages that stand still hold one and a half times the budget; what fits besides is one message, of whichever
 * size. */
void dgram_standing_messages_leave_room_for_one(void)
{
	enum { STANDING = 4, WHOLE = STANDING, LARGE, CLIENTS, MOST = 20 };
	uint32_t held = 0;

	dg_init(46);
	dg.options[0].held_mbufs_max = 2 * MOST;
	dg_up();
	memset(cut, 0, sizeof(cut));
	for (unsigned i = 0; i < CLIENTS; i++)
		dg_open(i);
	dg.link.tap = cut_off;
	for (unsigned i = 0; i < STANDING; i++) {
		cut[i] = i < 3 ? MOST - 1 : 3;
		held += cut[i];
		dg_send(&dg.clients[i], MOST * 1408 - 64, 1);
		for (unsigned j = 0; j < 5000 && dg.dgram[0]->held < held; j++)
			dg_wait(LINK_MS);
		CHECK_UINT(dg.dgram[0]->held, held);
	}
	CHECK_UINT(held, 60);
	for (unsigned i = WHOLE; i < CLIENTS; i++)
		dg_server_of(&dg.clients[i])->hold = true;
	for (unsigned i = 0; i < MOST / 2; i++) {
		dg_send(&dg.clients[WHOLE], 1300, 0);
		dg_wait(300 * LINK_MS);
	}
	CHECK(dg.dgram[0]->held_whole > 0);
	dg_send(&dg.clients[LARGE], MOST * 1408 - 64, 1);
	for (unsigned i = 0; i < 1000; i++) {
		dg_wait(LINK_MS);
		held = RTE_MAX(held, dg.dgram[0]->held);
	}
	CHECK(held <= 4 * MOST);
	CHECK(held > 3 * MOST);
	/* A session that waits only for its user has its turn. */
	for (unsigned i = WHOLE; i < CLIENTS; i++) {
		dg_server_of(&dg.clients[i])->hold = false;
		dg_take(dg_server_of(&dg.clients[i]));
	}
	CHECK(dg_run(5 * DG_S, dg_answered, &dg.clients[LARGE]));
	dg_wait(3 * DG_S);
	CHECK_UINT(dg_server_of(&dg.clients[WHOLE])->received, MOST / 2);
	dg_down();
}

/* Messages that are refused for their length hold no mbufs, and their rest waits for no turn. */
void dgram_refused_messages_hold_nothing(void)
{
	enum { SILENT = 6, STANDING = SILENT, OTHER, LIMIT = 12 };
	uint64_t from;

	dg_init(49);
	dg.options[0].held_mbufs_max = LIMIT;
	dg_up();
	memset(cut, 0, sizeof(cut));
	dg.link.tap = cut_off;
	for (unsigned i = 0; i < SILENT; i++) {
		cut[i] = 1;
		dg_open(i);
		dg_send(&dg.clients[i], LIMIT * 1408, 1);
	}
	dg_wait(LINK_MS);
	CHECK_UINT(dg_counters(0)->over_limit, SILENT);
	CHECK_UINT(dg.dgram[0]->held, 0);
	/* One that stands still takes the budget and the turn; a refused one passes it all the same. */
	cut[STANDING] = LIMIT / 2 + 1;
	dg_open(STANDING);
	dg_send(&dg.clients[STANDING], (LIMIT / 2 - 1) * 1408, 1);
	dg_send(&dg.clients[STANDING], (LIMIT / 2 - 1) * 1408, 1);
	dg_wait(5 * LINK_MS);
	dg_open(OTHER);
	from = dg.link.now_ns;
	dg_send(&dg.clients[OTHER], 3 * LIMIT * 1408, 1);
	CHECK(dg_run(DG_S, dg_answered, &dg.clients[OTHER]));
	CHECK(dg.link.now_ns - from < 100 * LINK_MS);
	dg_down();
}
