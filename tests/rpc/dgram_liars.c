/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that lie about what they have received and what they will take, in sessions with messages in flight: of the
 * node and of the worker alike, over both families. Whatever they say, the books of the endpoint hold, and honest
 * sessions go on.
 */
#include <stdlib.h>

#include "tests/rpc/cases.h"
#include "tests/rpc/dgram_books.h"
#include "tests/rpc/dgram_liar.h"
#include "tests/rpc/dgram_rig.h"

enum {
	SCHEDULES = 40,
	SCHEDULES_SOAK = 5000,
	HONEST = 2,
	ROGUE = HONEST,
	MESSAGES = 40,
	STEPS = 1500,
	POOLS_EVERY = 16
};

static struct {
	int silent; /* what this side sends is lost; -1: none */
	struct prng prng;
	unsigned steps;
} lies;

static bool lose_side(struct link *link, int from, struct rte_mbuf *m)
{
	return from == lies.silent;
}

static void check_books(void)
{
	for (int side = 0; side < 2; side++) {
		const char *wrong = books_wrong(dg.dgram[side]);

		if (!wrong && lies.steps % POOLS_EVERY == 0)
			wrong = books_of_pools(dg.dgram[side]);
		if (wrong)
			unit_fail(__FILE__, __LINE__, "seed %llu, step %u, side %d: %s", (unsigned long long)dg.seed,
				  lies.steps, side, wrong);
	}
}

/* Sends a side a packet from where its peer is. */
static void give(int side, const void *packet, uint16_t bytes)
{
	const struct net_udp_address to = { .remote = dg.v6 ? *link_ip6(side) : *link_ip(side),
					    .local_port = dg.dgram[!side]->port,
					    .remote_port = dg.dgram[side]->port };

	net_turn(dg.link.net[!side], dg.link.now_ns);
	net_udp_send(dg.link.net[!side], &to, packet, bytes);
}

static void acknowledge(int side, const struct dgram_session *s, uint32_t ack, uint64_t sack)
{
	const struct wire_packet p = { .magic = WIRE_PACKET_MAGIC,
				       .version = WIRE_PACKET_VERSION,
				       .kind = WIRE_PACKET_ACK,
				       .session = s->number,
				       .token = s->token,
				       .stamp = dgram_stamp(dg.link.now_ns),
				       .number = s->rx_next,
				       .ack = ack,
				       .sack = sack,
				       .edge = s->tx_next + 8 };

	lies.silent = -1;
	give(side, &p, sizeof(p));
	dg_wait(20000);
	lies.silent = side;
	check_books();
}

/* Two ends of a session, of which the one on this side has packets in flight that the other one never hears of. */
static struct dgram_session *begin(uint64_t seed, int side, unsigned packets)
{
	struct dg_end *client, *end;

	dg_init(seed);
	dg.apart = true;
	dg_up();
	lies.silent = -1;
	dg.link.tap = lose_side;
	client = dg_open(0);
	dg_send(client, 1000, 1 + 1000);
	CHECK(dg_run(DG_S, dg_answered, client));
	dg_wait(LINK_MS);
	end = side ? client : dg_server_of(client);
	end->session->tx_edge = end->session->tx_next + packets; /* as if it had been granted */
	for (unsigned i = 0; i < packets; i++)
		dg_send(end, 500, 0);
	lies.silent = side;
	dg_wait(20000);
	CHECK_UINT(end->session->tx_held, packets);
	check_books();
	return end->session;
}

/* The last packet is acknowledged out of order, then those before it, but not it. */
void dgram_acknowledgements_that_step_back_do_no_harm(void)
{
	for (int side = 0; side < 2; side++) {
		struct dgram_session *s = begin(200, side, 2);
		const uint32_t una = s->tx_una;

		acknowledge(side, s, una, 1);
		acknowledge(side, s, una + 1, 0);
		CHECK_UINT(s->tx_held, 0);
		CHECK_UINT(s->tx_una, s->tx_next);
		acknowledge(side, s, una + 2, 0);
		acknowledge(side, s, una, UINT64_MAX);
		lies.silent = -1;
		dg_down();
	}
}

/* A window that is used again holds nothing of the session that had it before. */
void dgram_windows_are_given_back_empty(void)
{
	for (int side = 0; side < 2; side++) {
		struct dgram_session *s = begin(201, side, 5);
		struct dg_end *client = &dg.clients[0], *server = dg_server_of(client);

		acknowledge(side, s, s->tx_una + 1, 2);
		CHECK_UINT(s->tx_held, 3);
		dgram_close(s);
		*(side ? &client->session : &server->session) = NULL;
		check_books();
		lies.silent = -1;
		dg_down();
	}
}

/* ---- random lies ---- */

static uint8_t random_byte(void *ctx)
{
	return (uint8_t)prng_next(&lies.prng);
}

static void lie(int side)
{
	const struct liar liar = { random_byte, NULL, dg.link.now_ns };
	struct dg_end *client = &dg.clients[ROGUE], *end = side ? client : dg_server_of(client);
	uint8_t packet[LIAR_BYTES_MAX];

	if (end && end->session)
		give(side, packet, liar_packet(&liar, end->session, packet));
}

/* Messages of either end, few enough that the liar cannot take all mbufs. */
static void send_some(struct dg_end *end)
{
	if (end && end->session && dgram_queued(end->session) < 40)
		dg_send(end, prng_below(&lies.prng, 4000), 0);
}

static bool look(void *ctx)
{
	struct dg_end *rogue = &dg.clients[ROGUE];
	bool done = ++lies.steps > STEPS;

	check_books();
	for (unsigned i = 0; i < HONEST; i++) {
		struct dg_end *client = &dg.clients[i];

		if (client->sent < MESSAGES && client->sent - client->received < 4)
			dg_send(client, prng_below(&lies.prng, 3000), 1 + prng_below(&lies.prng, 3000));
		done = done && client->received == MESSAGES;
	}
	if (lies.steps > STEPS)
		return done;
	if (!rogue->session)
		dg_client(ROGUE)->liar = true;
	if (prng_below(&lies.prng, 3) == 0)
		lie((int)prng_below(&lies.prng, 2));
	if (prng_below(&lies.prng, 8) == 0)
		send_some(prng_below(&lies.prng, 2) ? rogue : dg_server_of(rogue));
	return false;
}

static void run_schedule(uint64_t seed)
{
	memset(&lies, 0, sizeof(lies));
	lies.silent = -1;
	prng_seed(&lies.prng, ~seed);
	dg_init(seed);
	dg.v6 = seed & 1;
	dg.link.loss = prng_below(&lies.prng, 100);
	dg.link.reorder = prng_below(&lies.prng, 100);
	for (int side = 0; side < 2; side++) {
		dg.options[side].window_max = 2u << prng_below(&lies.prng, 9);
		dg.options[side].active_max = prng_below(&lies.prng, 2) ? 4 : DG_ENDS_MAX;
	}
	dg_up();
	for (unsigned i = 0; i < HONEST; i++)
		dg_client(i);
	dg_client(ROGUE)->liar = true;
	if (!dg_run(100 * DG_S, look, NULL))
		unit_fail(__FILE__, __LINE__, "seed %llu: honest clients have %llu and %llu of %u answers",
			  (unsigned long long)seed, (unsigned long long)dg.clients[0].received,
			  (unsigned long long)dg.clients[1].received, MESSAGES);
	for (unsigned i = 0; i < HONEST; i++)
		CHECK_UINT(dg.clients[i].closes, 0);
	dg_down();
}

void dgram_random_lies_hurt_the_liar_only(void)
{
	unit_seeds(SCHEDULES, SCHEDULES_SOAK, run_schedule);
}
