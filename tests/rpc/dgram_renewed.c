/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions that are opened again, or after a silence: packets of the former session do not pass for the new one's, and
 * a client that was answered has been heard. */
#include <errno.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "tests/rpc/cases.h"
#include "tests/rpc/dgram_rig.h"

enum {
	HEADERS = sizeof(struct rte_ether_hdr) + sizeof(struct rte_ipv4_hdr) + sizeof(struct rte_udp_hdr),
	LATE_FIRST = 0, /* the two packets of a message, */
	LATE_LAST,
	LATE_CLOSE, /* and the end of its session */
	LATES,
};

static struct {
	bool deaf; /* nothing of the server reaches the client but cookies */
	struct late {
		uint16_t bytes; /* 0: not seen */
		uint8_t frame[1600];
	} late[LATES];
	unsigned answers; /* of another version */
} seen;

static bool packet_in(const struct rte_mbuf *m, struct wire_packet *p)
{
	if (net_flow(m).kind != NET_FLOW_UDP || m->data_len < HEADERS + sizeof(*p))
		return false;
	memcpy(p, rte_pktmbuf_mtod_offset(m, const uint8_t *, HEADERS), sizeof(*p));
	return true;
}

static void asks_and_is_answered(struct dg_end *client, uint32_t bytes)
{
	if (!CHECK_UINT(client->closes, 0))
		return;
	dg_send(client, bytes, 1 + bytes);
	CHECK(dg_run(DG_S, dg_answered, client));
	CHECK_UINT(client->received, client->sent);
}

/* What is sent to the deaf client once it opens again is late. */
static bool keep_late(struct link *link, int from, struct rte_mbuf *m)
{
	const struct dgram_session *client = dg.clients[0].session;
	struct wire_packet p;
	struct late *late;

	if (from == 1 || !seen.deaf || !packet_in(m, &p) || p.kind == WIRE_PACKET_COOKIE)
		return false;
	if (client && client->state == DGRAM_REOPENING && (p.kind == WIRE_PACKET_DATA || p.kind == WIRE_PACKET_CLOSE)) {
		late = &seen.late[p.kind == WIRE_PACKET_CLOSE ? LATE_CLOSE : p.number == 1 ? LATE_FIRST : LATE_LAST];
		late->bytes = m->data_len;
		memcpy(late->frame, rte_pktmbuf_mtod(m, const void *), m->data_len);
	}
	return true;
}

static void arrive(unsigned which)
{
	CHECK(seen.late[which].bytes != 0);
	link_inject(&dg.link, 1, seen.late[which].frame, seen.late[which].bytes);
	dg_wait(LINK_MS);
}

static bool is_connected_again(void *ctx)
{
	const struct dg_end *client = ctx;

	return client->connects == 2 || client->closes;
}

/*
 * The client is deaf, opens again, and repeats its OPEN. By the first one the server resumes the session; then it gives
 * that up, and by the next one makes another. The client hears of the second, and then what was sent to it of the
 * first.
 */
static struct dg_end *begin_again(uint64_t seed)
{
	struct dg_end *client, *server;

	memset(&seen, 0, sizeof(seen));
	dg_init(seed);
	dg.options[0].lease_ns = 3 * DG_S;
	dg.link.tap = keep_late;
	dg.resend = true;
	dg_up();
	client = dg_open(0);
	dg_wait(LINK_MS);
	seen.deaf = true;
	dg_send(client, 10, 0);
	dg_wait(5500 * LINK_MS);
	CHECK_UINT(client->session->state, DGRAM_REOPENING);
	server = dg_server_of(client);
	server->session->tx_edge = server->session->tx_next + 2; /* as if it had been granted, now */
	server->session->sent_ns = dg.link.now_ns;
	dg_send(server, 2000, 0);
	dg_wait(4 * DG_S); /* it gives the session up, and an OPEN comes again */
	CHECK_UINT(client->session->state, DGRAM_REOPENING);
	CHECK_UINT(dg_counters(0)->opened, 2);
	arrive(LATE_CLOSE); /* it refuses nothing */
	CHECK_UINT(client->closes, 0);
	seen.deaf = false;
	CHECK(dg_run(DG_S, is_connected_again, client));
	CHECK_UINT(client->closes, 0);
	CHECK_UINT(client->resumes, 0);
	return client;
}

void dgram_late_packets_of_a_session_given_up_are_dropped(void)
{
	struct dg_end *client = begin_again(230);

	/* A message's beginning in the place of a reply, */
	arrive(LATE_FIRST);
	asks_and_is_answered(client, 100);
	/* its end without a beginning, */
	arrive(LATE_LAST);
	/* and an end that is not this session's. */
	arrive(LATE_CLOSE);
	CHECK_UINT(dg_counters(1)->bad_tokens, 1 + LATES);
	asks_and_is_answered(client, 5000);
	CHECK_UINT(dg_counters(1)->broken, 0);
	dg_down();
}

void dgram_idle_clients_outlive_a_silence(void)
{
	struct dg_end *client;

	dg_init(231);
	dg_up();
	client = dg_open(0);
	asks_and_is_answered(client, 10);
	dg.link.loss = 1000;
	dg_wait(7 * DG_S);
	CHECK_UINT(client->session->state, DGRAM_REOPENING);
	dg.link.loss = 0;
	dg_wait(60 * DG_S);
	CHECK_UINT(client->resumes, 1);
	asks_and_is_answered(client, 10);
	dg_down();
}

/* The time that it took does not count as the session's silence. */
void dgram_slow_openings_count_as_heard(void)
{
	struct dg_end *client;

	dg_init(232);
	dg_up();
	dg.link.loss = 1000;
	client = dg_client(0);
	dg_wait(9 * DG_S);
	dg.link.loss = 0;
	dg_wait(5 * DG_S);
	CHECK_UINT(client->closes, 0);
	CHECK_UINT(client->connects, 1);
	CHECK_UINT(client->session ? client->session->state : DGRAM_FREE, DGRAM_OPEN);
	dg_down();
}

/* The client is of version 1. */
static bool make_older(struct link *link, int from, struct rte_mbuf *m)
{
	struct wire_packet p;
	uint8_t *version;

	if (!packet_in(m, &p))
		return false;
	version = rte_pktmbuf_mtod_offset(m, uint8_t *, HEADERS + offsetof(struct wire_packet, version));
	if (from == 0) {
		CHECK_UINT(*version, 1);
		CHECK_UINT(p.kind, WIRE_PACKET_CLOSE);
		seen.answers++;
	}
	*version = from == 0 ? WIRE_PACKET_VERSION : 1;
	rte_pktmbuf_mtod_offset(m, struct rte_udp_hdr *, HEADERS - sizeof(struct rte_udp_hdr))->dgram_cksum = 0;
	return false;
}

void dgram_other_versions_are_refused_at_once(void)
{
	struct dg_end *client;

	memset(&seen, 0, sizeof(seen));
	dg_init(233);
	dg.link.tap = make_older;
	dg_up();
	client = dg_client(0);
	dg_wait(LINK_MS);
	CHECK_UINT(client->closes, 1);
	CHECK_INT(client->reason, ECONNREFUSED);
	CHECK_UINT(seen.answers, 1);
	CHECK_UINT(dg_counters(0)->bad_versions, 1);
	CHECK_UINT(dgram_sessions(dg.dgram[0]), 0);
	/* One that was open when the server was replaced hears nothing, opens again, and is told. */
	dg.link.tap = NULL;
	client = dg_open(1);
	dg.link.loss = 1000;
	dg_destroy(0);
	dg_wait(LINK_MS);
	dg.link.loss = 0;
	dg.link.tap = make_older;
	dg_create(0);
	dg_wait(6 * DG_S);
	CHECK_UINT(client->closes, 1);
	CHECK_INT(client->reason, ECONNREFUSED);
	dg_down();
}
