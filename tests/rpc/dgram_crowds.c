/* SPDX-License-Identifier: BSD-3-Clause */
/* Credit where more sessions are active than there is credit for: short messages get theirs at once and in turn, nobody
 * is left behind, and never is more granted than there is. */
#include <rte_ip.h>
#include <rte_udp.h>

#include "tests/rpc/cases.h"
#include "tests/rpc/dgram_rig.h"

enum {
	HEADERS = 14 + sizeof(struct rte_ipv4_hdr) + sizeof(struct rte_udp_hdr),
	CROWD = 600,
	FOUR = 3 * 1408 + 100, /* bytes of payload that make four packets */
	EACH_NS = 200,	       /* between two that begin */
};

static struct {
	struct dg_end *servers[CROWD]; /* by client */
	unsigned standing;	       /* nothing of the first clients arrives but one packet of a message */
	unsigned greedy;	       /* those behind them send long messages without end */
	unsigned packets[2], data;     /* by their sender; of the clients' with data */
	unsigned rounds[CROWD];	       /* that each client has had answered */
	bool loops;
} crowd;

/* What is granted at this moment beyond a packet for each, and what the books say. */
static void check_books(void)
{
	const struct dgram *d = dg.dgram[0];
	uint32_t granted = 0, charged = 0;

	for (unsigned i = 0; i < dg.servers_count; i++) {
		const struct dgram_session *s = dg.servers[i].session;
		const uint32_t credit = s ? s->rx_edge - s->rx_next : 0;

		granted += credit > 1 ? credit - 1 : 0;
		charged += s ? s->rx_charge : 0;
	}
	if (granted > d->options.credits || charged != d->credits_out || charged > d->options.credits)
		unit_fail(__FILE__, __LINE__, "%u granted, %u charged, %u in the books, of %u", granted, charged,
			  d->credits_out, d->options.credits);
}

static bool watch(struct link *link, int from, struct rte_mbuf *m)
{
	struct wire_packet p;

	if (net_flow(m).kind != NET_FLOW_UDP || m->data_len < HEADERS + sizeof(p))
		return false;
	memcpy(&p, rte_pktmbuf_mtod_offset(m, uint8_t *, HEADERS), sizeof(p));
	crowd.packets[from]++;
	crowd.data += from == 1 && p.kind == WIRE_PACKET_DATA;
	if (crowd.packets[0] % 16 == 0)
		check_books();
	for (unsigned i = 0; i < crowd.standing; i++)
		if (from == 1 && p.kind == WIRE_PACKET_DATA && p.number > 1 &&
		    p.session == dg.clients[i].session->peer_number)
			return true;
	return false;
}

static bool all_answered(void *ctx)
{
	for (unsigned i = 0; i < CROWD; i++)
		if (!dg_answered(&dg.clients[i]))
			return false;
	return true;
}

static void on_reply(struct dg_end *client)
{
	crowd.rounds[client - dg.clients]++;
	if (crowd.loops)
		CHECK(dg_send(client, FOUR, 1));
}

static void begin(uint64_t seed, uint32_t credits)
{
	dg_init(seed);
	dg.options[0].credits = credits;
	dg.options[1].credits = 65536; /* each client's own */
	dg.unchecked = true;
	dg_up();
	memset(&crowd, 0, sizeof(crowd));
	for (unsigned i = 0; i < CROWD; i++)
		crowd.servers[i] = dg_server_of(dg_open(i));
	dg_wait(LINK_MS);
	dg.on_reply = on_reply;
	dg.link.tap = watch;
}

/* Each client sends a message, one after the other. */
static void round_of_all(void)
{
	for (unsigned i = 0; i < CROWD; i++) {
		CHECK(dg_send(&dg.clients[i], FOUR, 1));
		dg_wait(EACH_NS);
	}
	CHECK(dg_run(DG_S, all_answered, NULL));
}

/* The first packet asks, one brings credit for all others, and the reply acknowledges them. */
void dgram_crowds_send_short_messages_in_two_goes(void)
{
	begin(100, 512);
	for (unsigned i = 0; i < 80; i++) /* the one that was alone at first has used its large share */
		round_of_all();
	for (unsigned i = 0; i < 5; i++) {
		dg_wait(LINK_MS);
		memset(crowd.packets, 0, sizeof(crowd.packets));
		crowd.data = 0;
		round_of_all();
		CHECK_UINT(crowd.data, 4 * CROWD);
		CHECK(crowd.packets[1] <= 5 * CROWD); /* with what acknowledges the last reply */
		CHECK_UINT(crowd.packets[0], 2 * CROWD);
	}
	CHECK_UINT(dg.dgram[0]->actives, CROWD);
	CHECK_UINT(dg_counters(0)->outside + dg_counters(0)->crowded, 0);
	CHECK_UINT(dg_counters(1)->retransmitted, 0);
	dg_down();
}

static bool greedy_go_on(void *ctx)
{
	for (unsigned i = crowd.standing; i < crowd.standing + crowd.greedy; i++)
		while (dgram_queued(dg.clients[i].session) < 50 && dg_send(&dg.clients[i], 30000, 0))
			;
	return false;
}

void dgram_crowds_leave_nobody_behind(void)
{
	unsigned least = UINT32_MAX, most = 0;

	begin(101, 512);
	crowd.loops = true;
	crowd.standing = 30;
	crowd.greedy = 20;
	for (unsigned i = 0; i < CROWD; i++)
		if (i < crowd.standing || i >= crowd.standing + crowd.greedy)
			CHECK(dg_send(&dg.clients[i], FOUR, 1));
	dg_run(4 * LINK_MS, greedy_go_on, NULL);
	memset(crowd.rounds, 0, sizeof(crowd.rounds));
	dg_run(4 * LINK_MS, greedy_go_on, NULL);
	for (unsigned i = crowd.standing + crowd.greedy; i < CROWD; i++) {
		least = RTE_MIN(least, crowd.rounds[i]);
		most = RTE_MAX(most, crowd.rounds[i]);
	}
	if (least < 20 || least < most / 4)
		unit_fail(__FILE__, __LINE__, "%u to %u messages of a session", least, most);
	for (unsigned i = crowd.standing; i < crowd.standing + crowd.greedy; i++)
		CHECK(crowd.servers[i]->received > 5);
	CHECK_UINT(dg_counters(0)->outside + dg_counters(0)->crowded, 0);
	dg_down();
}
