/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets from others than the peer, and from peers that break the protocol: nothing of theirs ends or changes a
 * session that is not their own, and nobody is sent more than he has sent. */
#include <errno.h>

#include "tests/rpc/cases.h"
#include "tests/rpc/dgram_rig.h"

enum { STRANGER_PORT = 3333 };

static struct {
	unsigned count;
	uint64_t bytes;
	struct wire_packet packet;
	uint8_t body[64];
} heard;

static void hear(void *ctx, struct net *net, const struct net_udp_address *address, struct rte_mbuf *m, uint8_t tos)
{
	heard.count++;
	heard.bytes += m->data_len;
	memcpy(&heard.packet, rte_pktmbuf_mtod(m, void *), sizeof(heard.packet));
	memcpy(heard.body, rte_pktmbuf_mtod_offset(m, void *, sizeof(heard.packet)),
	       RTE_MIN(m->data_len - sizeof(heard.packet), sizeof(heard.body)));
	rte_pktmbuf_free(m);
}

static struct dg_end *begin(uint64_t seed)
{
	struct dg_end *client;

	dg_init(seed);
	dg_up();
	memset(&heard, 0, sizeof(heard));
	CHECK_INT(net_udp_bind(dg.link.net[1], STRANGER_PORT, hear, NULL), 0);
	client = dg_open(0);
	dg_send(client, 1000, 1 + 1000);
	CHECK(dg_run(DG_S, dg_answered, client));
	dg_wait(LINK_MS);
	return client;
}

/* A packet to the server, or from it to the clients' port. */
static void give(int from, uint16_t from_port, const struct wire_packet *packet, const void *body, uint16_t bytes)
{
	const struct net_udp_address to = { .remote = *link_ip(!from),
					    .local_port = from_port,
					    .remote_port = from ? DG_PORT : dg.dgram[1]->port };
	uint8_t all[1400] = { 0 };

	memcpy(all, packet, sizeof(*packet));
	if (body)
		memcpy(all + sizeof(*packet), body, bytes);
	net_turn(dg.link.net[from], dg.link.now_ns);
	CHECK_INT(net_udp_send(dg.link.net[from], &to, all, (uint16_t)(sizeof(*packet) + bytes)), 0);
	dg_wait(20000);
}

static struct wire_packet packet_of(enum wire_packet_kind kind, uint32_t session, uint64_t token)
{
	return (struct wire_packet){ .magic = WIRE_PACKET_MAGIC,
				     .version = WIRE_PACKET_VERSION,
				     .kind = (uint8_t)kind,
				     .session = session,
				     .token = token,
				     .stamp = dgram_stamp(dg.link.now_ns) };
}

static void works_still(struct dg_end *client)
{
	CHECK_UINT(client->closes, 0);
	dg_send(client, 5000, 1 + 5000);
	CHECK(dg_run(DG_S, dg_answered, client));
	CHECK_UINT(client->connects, 1 + client->resumes);
}

void dgram_packets_without_the_token_change_nothing(void)
{
	struct dg_end *client = begin(60), *server = dg_server_of(client);

	for (int kind = 0; kind <= 20; kind++) {
		struct wire_packet p = packet_of(kind, client->session->peer_number, client->session->peer_token ^ 1);
		const struct dgram_session before = *server->session;

		p.number = server->session->rx_next;
		p.ack = server->session->tx_next;
		p.edge = p.number + 100;
		p.wants = 7;
		give(1, dg.dgram[1]->port, &p, NULL, 0);
		CHECK_MEM(server->session, &before, sizeof(before));
		p.session = client->session->number;
		p.token = client->session->token ^ 1;
		give(0, DG_PORT, &p, NULL, 0);
	}
	CHECK(dg_counters(0)->bad_tokens >= 6);
	CHECK(dg_counters(1)->bad_tokens >= 6);
	works_still(client);
	dg_down();
}

void dgram_malformed_packets_are_dropped(void)
{
	struct dg_end *client = begin(61);
	uint8_t bytes[1400];
	struct prng prng;

	prng_seed(&prng, 61);
	for (unsigned i = 0; i < 3000; i++) {
		const struct net_udp_address to = { .remote = *link_ip(0),
						    .local_port = STRANGER_PORT,
						    .remote_port = DG_PORT };
		const struct wire_packet p = packet_of(1 + prng_below(&prng, 8), 1 << 20, prng_next(&prng));
		const unsigned n = prng_below(&prng, sizeof(bytes));

		for (unsigned j = 0; j < n; j++)
			bytes[j] = (uint8_t)prng_next(&prng);
		if (i % 2)
			memcpy(bytes, &p, sizeof(p));
		net_udp_send(dg.link.net[1], &to, bytes, (uint16_t)n);
		if (i % 10 == 0)
			dg_wait(20000);
	}
	CHECK(dg_counters(0)->bad_packets > 1000);
	CHECK(heard.count < 3000);
	works_still(client);
	dg_down();
}

/* One with the token may move the session, end it, and break it: but not the endpoint. */
void dgram_broken_protocol_ends_the_session(void)
{
	static const struct {
		uint16_t flags, bytes;
		uint32_t payload;
		uint32_t magic;
	} cases[] = {
		{ WIRE_PACKET_LAST, 100, 36, WIRE_MAGIC },		       /* no beginning */
		{ WIRE_PACKET_FIRST | WIRE_PACKET_LAST, 63, 0, WIRE_MAGIC },   /* too short for a frame */
		{ WIRE_PACKET_FIRST | WIRE_PACKET_LAST, 100, 35, WIRE_MAGIC }, /* longer than the frame says */
		{ WIRE_PACKET_FIRST | WIRE_PACKET_LAST, 100, 37, WIRE_MAGIC },
		{ WIRE_PACKET_FIRST, 100, 3600, WIRE_MAGIC }, /* short, and not the last */
		{ WIRE_PACKET_FIRST | WIRE_PACKET_LAST, 100, 36, 7 },
		{ WIRE_PACKET_FIRST | WIRE_PACKET_LAST, 0, 0, WIRE_MAGIC },
	};

	for (unsigned i = 0; i < RTE_DIM(cases); i++) {
		struct dg_end *client = begin(62), *server = dg_server_of(client);
		struct wire_packet p =
			packet_of(WIRE_PACKET_DATA, client->session->peer_number, client->session->peer_token);
		uint8_t body[200] = { 0 };
		const struct wire_frame frame = { .magic = cases[i].magic,
						  .version = WIRE_VERSION,
						  .opcode = WIRE_EXECUTE,
						  .payload_bytes = cases[i].payload };

		memcpy(body, &frame, sizeof(frame));
		p.number = server->session->rx_next;
		p.flags = cases[i].flags;
		p.ack = client->session->rx_next;
		give(1, dg.dgram[1]->port, &p, body, cases[i].bytes);
		CHECK_UINT(server->closes, 1);
		CHECK_INT(server->reason, EPROTO);
		CHECK_UINT(dg_counters(0)->broken, 1);
		CHECK_UINT(client->closes, 1);
		dg_check_quiet();
		dg_down();
	}
}

void dgram_far_packets_are_dropped(void)
{
	struct dg_end *client = begin(63), *server = dg_server_of(client);
	static const uint32_t far[] = { 1, 2, 255, 1000, 1u << 30, 1u << 31, UINT32_MAX };

	for (unsigned i = 0; i < RTE_DIM(far); i++) {
		struct wire_packet p =
			packet_of(WIRE_PACKET_DATA, client->session->peer_number, client->session->peer_token);

		p.number = server->session->rx_limit + far[i] - 1;
		p.flags = WIRE_PACKET_FIRST | WIRE_PACKET_LAST;
		p.ack = server->session->tx_next + far[i]; /* was never sent */
		p.sack = UINT64_MAX;
		give(1, dg.dgram[1]->port, &p, NULL, 0);
	}
	CHECK_UINT(dg_counters(0)->outside + dg_counters(0)->duplicates, RTE_DIM(far));
	CHECK_UINT(server->closes, 0);
	works_still(client);
	dg_down();
}

void dgram_strangers_are_not_sent_more_than_they_send(void)
{
	struct dg_end *client = begin(64);
	struct wire_packet_open open = { .client = 9, .token = 10, .session = 11, .edge = 2 };
	struct wire_packet p = packet_of(WIRE_PACKET_OPEN, 0, 0);
	uint64_t sent = 0;

	for (unsigned i = 0; i < 20; i++) {
		open.cookie = i;
		give(1, STRANGER_PORT, &p, &open, sizeof(open));
		sent += sizeof(p) + sizeof(open);
		CHECK_UINT(heard.packet.kind, WIRE_PACKET_COOKIE);
	}
	CHECK_UINT(heard.count, 20);
	CHECK(heard.bytes <= sent);
	CHECK_UINT(dg_counters(0)->bad_cookies, 19);
	CHECK_UINT(dgram_sessions(dg.dgram[0]), 1);
	/* What is of no session is answered, but not for ever; answers and ends of sessions are not. */
	heard.count = 0;
	for (unsigned i = 0; i < 300; i++) {
		p = packet_of(WIRE_PACKET_DATA, 12345, i);
		give(1, STRANGER_PORT, &p, NULL, 0);
		if (i == 0)
			CHECK(heard.packet.kind == WIRE_PACKET_UNKNOWN && heard.packet.session == 12345);
	}
	CHECK(heard.count >= DGRAM_ANSWERS_BURST && heard.count < 150);
	heard.count = 0;
	dg_wait(DG_S);
	for (unsigned kind = WIRE_PACKET_COOKIE; kind <= WIRE_PACKET_UNKNOWN; kind++)
		if (kind < WIRE_PACKET_DATA || kind > WIRE_PACKET_PING) {
			p = packet_of(kind, 12345, 1);
			give(1, STRANGER_PORT, &p, NULL, 0);
		}
	CHECK_UINT(heard.count, 0);
	works_still(client);
	dg_down();
}

void dgram_cookies_are_of_one_address_and_time(void)
{
	struct dg_end *client = begin(65);
	struct wire_packet_open open = { .client = 9, .token = 10, .session = 11, .edge = 2 };
	const struct wire_packet p = packet_of(WIRE_PACKET_OPEN, 0, 0);

	give(1, STRANGER_PORT, &p, &open, sizeof(open));
	memcpy(&open, heard.body, sizeof(open));
	CHECK(open.cookie != 0);
	give(1, STRANGER_PORT + 1, &p, &open, sizeof(open));
	open.client++;
	give(1, STRANGER_PORT, &p, &open, sizeof(open));
	open.client--;
	CHECK_UINT(dgram_sessions(dg.dgram[0]), 1);
	CHECK_UINT(dg_counters(0)->bad_cookies, 2);
	give(1, STRANGER_PORT, &p, &open, sizeof(open));
	CHECK_UINT(dgram_sessions(dg.dgram[0]), 2);
	CHECK_UINT(heard.packet.kind, WIRE_PACKET_OPENED);
	CHECK_UINT(heard.packet.session, 11);
	CHECK_UINT(heard.packet.token, 10);
	/* Once more: it is the same session. */
	give(1, STRANGER_PORT, &p, &open, sizeof(open));
	CHECK_UINT(dgram_sessions(dg.dgram[0]), 2);
	open.client++;
	dg_wait(9 * DG_S);
	give(1, STRANGER_PORT, &p, &open, sizeof(open));
	CHECK_UINT(dg_counters(0)->bad_cookies, 3);
	works_still(client);
	dg_down();
}

void dgram_unknown_only_makes_clients_ask(void)
{
	struct dg_end *client = begin(66);
	struct wire_packet p =
		packet_of(WIRE_PACKET_UNKNOWN, client->session->peer_number, client->session->peer_token ^ 1);

	give(0, DG_PORT, &p, NULL, 0);
	p.token ^= 1;
	p.session ^= 1;
	give(0, DG_PORT, &p, NULL, 0);
	CHECK_UINT(client->session->state, DGRAM_OPEN);
	CHECK_UINT(client->resumes, 0);
	p.session ^= 1;
	give(0, DG_PORT, &p, NULL, 0);
	dg_wait(LINK_MS);
	CHECK_UINT(client->resumes, 1);
	CHECK_UINT(client->session->state, DGRAM_OPEN);
	works_still(client);
	dg_down();
}

void dgram_sessions_follow_the_newest_packet(void)
{
	struct dg_end *client = begin(67), *server = dg_server_of(client);
	struct wire_packet p = packet_of(WIRE_PACKET_PING, client->session->peer_number, client->session->peer_token);

	p.ack = client->session->rx_next;
	p.edge = client->session->rx_edge;
	p.stamp = server->session->peer_stamp - 1; /* an old one */
	give(1, STRANGER_PORT, &p, NULL, 0);
	CHECK_UINT(dgram_address(server->session).remote_port, dg.dgram[1]->port);
	p.stamp = dgram_stamp(dg.link.now_ns);
	give(1, STRANGER_PORT, &p, NULL, 0);
	CHECK_UINT(dgram_address(server->session).remote_port, STRANGER_PORT);
	CHECK_UINT(heard.packet.kind, WIRE_PACKET_ACK);
	works_still(client); /* which moves it back */
	CHECK_UINT(dgram_address(server->session).remote_port, dg.dgram[1]->port);
	dg_down();
}

void dgram_options_are_checked(void)
{
	struct star_error err = { 0 };
	struct dgram_options o;

	dg_init(68);
	dg_up();
#define REFUSED(field, value, part) \
	do { \
		o = dg.options[1]; \
		o.field = (value); \
		CHECK(!dgram_create(&o, &err)); \
		CHECK_HAS(err.text, part); \
	} while (0)
	REFUSED(sessions_max, 0, "sessions");
	REFUSED(sessions_max, DGRAM_SESSIONS_MAX + 1, "sessions");
	REFUSED(window_max, 96, "power of two");
	REFUSED(window_max, 2048, "power of two");
	REFUSED(credits, 0, "no room");
	REFUSED(message_max, 63, "no room");
	REFUSED(rto_max_ns, 1, "times");
	REFUSED(ack_delay_ns, 200000, "acknowledgements");
	REFUSED(port, dg.dgram[1]->port, "in use");
	dg_down();
}

static bool all_answered(void *ctx)
{
	const unsigned *n = ctx;

	for (unsigned i = 0; i < *n; i++)
		if (!dg_answered(&dg.clients[i]))
			return false;
	return true;
}

/* So many that a burst's packets are looked at ahead: of sessions, of none, and of none that ever was; and fewer
 * again. */
void dgram_many_sessions_are_loaded_ahead(void)
{
	unsigned many = DGRAM_PREFETCH_FROM + 36;

	begin(69);
	for (unsigned i = 1; i < many; i++)
		dg_open(i);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < many; i++)
			dg_send(&dg.clients[i], 100 + 30 * i, 1 + 4000);
		for (unsigned i = 0; i < 8; i++) {
			const struct wire_packet p = packet_of(WIRE_PACKET_DATA, i << 17 | i, 1);

			give(1, STRANGER_PORT, &p, NULL, 100);
		}
		CHECK(dg_run(10 * DG_S, all_answered, &many));
	}
	for (unsigned i = 10; i < many; i++) {
		dgram_close(dg.clients[i].session);
		dg.clients[i].session = NULL;
	}
	dg_wait(DG_S);
	CHECK_UINT(dgram_sessions(dg.dgram[0]), 10);
	many = 10;
	for (unsigned i = 0; i < many; i++)
		dg_send(&dg.clients[i], 1000, 1 + 1000);
	CHECK(dg_run(10 * DG_S, all_answered, &many));
	dg_down();
}
