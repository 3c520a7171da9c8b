/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server's and a client's endpoint, and an attacker between them. The input is a program: messages of either side,
 * frames that are delivered, lost, repeated, held back, or forged from what was seen; time that passes, mbufs that are
 * short. The sessions 0 and 1 are honest; the attacker does not know their tokens. He knows those of session 2: in half
 * of the programs either of its ends gets packets that lie in every field (tests/rpc/dgram_liar.h) while its messages
 * are in flight. The input's first byte says how, and whether all goes over IPv6.
 *
 * Besides memory errors it finds: an mbuf that is missing in the end, a message of an honest session that comes out of
 * order, twice or with other bytes, an honest session that ends though its peer was to be heard, books that contradict
 * each other, and what does not get through when the link is good again.
 * With SEALED (dgram_sealed.c) sessions come by ticket: all are honest, and the attacker may change what he has seen.
 */
#ifndef SEALED
#define SEALED 0
#endif
#include <errno.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "net/checksum.h"
#include "rpc/dgram_seal.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/pool.h"
#include "tests/rpc/dgram_books.h"
#include "tests/rpc/dgram_liar.h"

enum {
	MBUFS = 2048,
	SESSIONS = 3, /* of the client */
	HONEST = SEALED ? SESSIONS : 2,
	SERVERS = 16,
	STEPS_MAX = 600,
	QUEUED_MAX = 40,
	PORT = 7000,
	BOOKS_EVERY = 16, /* steps between two looks at all windows */
};

struct user {
	struct dgram_session *session; /* NULL: none */
	uint64_t sent, received;
	struct rte_mbuf *held;
	bool client, honest, any_number;
	bool given_up; /* the server has ended it: it could not reach the client for long */
};

static struct {
	struct rte_mempool *pool;
	struct net *net[2];
	struct dgram *dgram[2];
	struct user clients[SESSIONS], servers[SERVERS];
	struct frames link[2]; /* by their sender */
	struct rte_mbuf *taken[MBUFS];
	unsigned taken_count, steps;
	uint64_t now_ns, silent_ns; /* since when the link may have lost something */
	uint64_t evicted;
	bool hold, lies, v6;
	struct secure_tickets *tickets; /* with SEALED */
	uint64_t randoms;
	_Alignas(64) struct dgram_seal seals[SESSIONS];
} w;

static size_t udp_off(void)
{
	return 14 + (w.v6 ? sizeof(struct rte_ipv6_hdr) : sizeof(struct rte_ipv4_hdr));
}

static size_t packet_off(void)
{
	return udp_off() + sizeof(struct rte_udp_hdr);
}

static struct net_address address_of(int side)
{
	struct in6_addr v6 = { .s6_addr = { 0x20, 1, 0, 2, [15] = (uint8_t)(1 + side) } };

	return w.v6 ? net_address_v6(&v6) : net_address_v4(rte_cpu_to_be_32(0xc6120001u + (unsigned)side));
}

static uint8_t content(uint64_t number, uint32_t i)
{
	return (uint8_t)(number * 131 + i * 7 + (i >> 8));
}

/* ---- users ---- */

static bool send_message(struct user *u, uint32_t bytes)
{
	struct wire_frame frame = { .magic = WIRE_MAGIC,
				    .version = WIRE_VERSION,
				    .opcode = WIRE_EXECUTE,
				    .sequence = u->sent + 1,
				    .payload_bytes = bytes };
	const uint32_t whole = (uint32_t)sizeof(frame) + bytes, most = dgram_payload(u->session);
	struct rte_mbuf *first = dgram_room(u->session, whole), **link = &first;

	if (first) {
		uint8_t *to = (uint8_t *)rte_pktmbuf_append(first, (uint16_t)whole);

		memcpy(to, &frame, sizeof(frame));
		for (uint32_t i = sizeof(frame); i < whole; i++)
			to[i] = content(frame.sequence, i);
		u->sent++;
		FUZZ_CHECK(dgram_append(u->session, first), "a packet has left by itself");
		return true;
	}
	for (uint32_t at = 0, n; at < whole; at += n) {
		struct rte_mbuf *m = dgram_alloc(u->session);
		uint8_t *to;

		n = RTE_MIN(most, whole - at);
		if (!m) {
			rte_pktmbuf_free(first);
			return false;
		}
		to = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)n);
		if (at == 0)
			memcpy(to, &frame, sizeof(frame));
		for (uint32_t i = at ? 0 : sizeof(frame); i < n; i++)
			to[i] = content(frame.sequence, at + i);
		*link = m;
		link = &m->next;
	}
	u->sent++;
	dgram_send(u->session, first);
	return true;
}

static void take(struct user *u)
{
	while (u->held) {
		struct rte_mbuf *m = u->held;
		uint32_t mbufs = 0;

		memcpy(&u->held, rte_mbuf_to_priv(m), sizeof(u->held));
		for (const struct rte_mbuf *i = m; i; i = i->next)
			mbufs++;
		rte_pktmbuf_free(m);
		dgram_taken(u->session, mbufs);
	}
}

static void check_message(const struct user *u, const struct rte_mbuf *m, uint32_t from, const struct wire_frame *frame)
{
	const uint64_t number = frame->sequence;
	const uint32_t whole = (uint32_t)sizeof(*frame) + frame->payload_bytes;
	uint32_t at = 0;

	FUZZ_CHECK(u->any_number || number == u->received + 1, "message %lu after %lu", number, u->received);
	for (; m; m = m->next, from = 0)
		for (uint32_t i = from; i < m->data_len && at < whole; i++, at++)
			FUZZ_CHECK(at < sizeof(*frame) ||
					   rte_pktmbuf_mtod(m, const uint8_t *)[i] == content(number, at),
				   "byte %u of message %lu", at, number);
	FUZZ_CHECK(at == whole, "%u bytes of message %lu, of %u", at, number, whole);
}

/* The message at `at`; returns where the next one begins, or 0. */
static uint32_t look_at(struct user *u, const struct rte_mbuf *m, uint32_t at, enum wire_status status)
{
	struct wire_frame frame;

	FUZZ_CHECK(at + sizeof(frame) <= m->data_len, "a message at %u of %u bytes", at, m->data_len);
	memcpy(&frame, rte_pktmbuf_mtod_offset(m, const void *, at), sizeof(frame));
	if (status == WIRE_OK && !m->next)
		FUZZ_CHECK(at + sizeof(frame) + frame.payload_bytes <= m->data_len, "a message beyond its packet");
	if (u->honest && status == WIRE_OK)
		check_message(u, m, at, &frame);
	u->any_number = false;
	u->received = frame.sequence;
	if (!u->client && dgram_queued(u->session) < QUEUED_MAX)
		send_message(u, (m->data_len - at) % 3000);
	return dgram_next(m, at);
}

static void on_received(void *user, struct rte_mbuf *m, uint32_t bytes, enum wire_status status)
{
	struct user *u = user;
	uint32_t have = 0, at = 0;

	for (const struct rte_mbuf *i = m; i; i = i->next)
		have += i->data_len;
	FUZZ_CHECK(have == bytes, "a message of %u bytes has %u", bytes, have);
	while ((at = look_at(u, m, at, status)))
		;
	memcpy(rte_mbuf_to_priv(m), &u->held, sizeof(u->held));
	u->held = m;
	if (!w.hold)
		take(u);
}

static bool on_opened(void *ctx, struct dgram_session *session, void **user)
{
	for (unsigned i = 0; i < SERVERS; i++)
		if (!w.servers[i].session) {
			w.servers[i] = (struct user){ .session = session, .any_number = true };
			for (unsigned j = 0; j < HONEST; j++)
				w.servers[i].honest |= w.clients[j].session &&
						       (SEALED || w.clients[j].session->client == session->client);
			*user = &w.servers[i];
			return true;
		}
	return false;
}

static void on_connected(void *user, bool resumed, uint32_t incarnation)
{
	struct user *u = user;

	if (!resumed)
		u->any_number = true;
}

static void on_acknowledged(void *user)
{
}

/* Frames that are held back for long are as good as lost; and a session that is idle for long makes room for others. */
static void on_given_up(const struct user *u)
{
	const struct dgram_session *s = u->session;

	for (unsigned i = 0; i < SESSIONS; i++)
		if (w.clients[i].session && (SEALED || w.clients[i].session->client == s->client))
			w.clients[i].given_up = true;
	FUZZ_CHECK(w.dgram[0]->counters.evicted == w.evicted || !u->honest || u->received == 0 ||
			   w.now_ns - RTE_MAX(s->data_ns, s->opening_ns) >= 60000 * DGRAM_MS,
		   "an honest session that is used was ended for another one");
	w.evicted = w.dgram[0]->counters.evicted;
}

static void on_closed(void *user, int reason)
{
	struct user *u = user;

	if (!u->client && reason == ETIMEDOUT)
		on_given_up(u);

	/* The lease may end what the link has kept silent. The server's answer of an honest client's close is 0. */
	FUZZ_CHECK(!u->honest || reason == ETIMEDOUT || reason == 0 || reason == ECONNREFUSED, "it ended with %d",
		   reason);
	/* A session on which nothing was sent since it was opened loses its place. */
	FUZZ_CHECK(!u->honest || !u->client || reason != 0 || u->sent == 0 || u->given_up ||
			   w.now_ns - w.silent_ns < 30000 * DGRAM_MS,
		   "an honest session was closed");
	take(u);
	u->session = NULL;
}

static bool on_ticket(void *user, struct dgram_ticket *ticket)
{
	static const struct secure_key worker = { .principal = "worker", .role = SECURE_WORKER, .id = "01234567" };

	memset(ticket->random, 0, sizeof(ticket->random));
	memcpy(ticket->random, &w.randoms, sizeof(w.randoms));
	w.randoms++;
	return secure_tickets_issue(w.tickets, &worker, w.now_ns, &ticket->ticket, ticket->secret, NULL) == 0;
}

static void on_refused(void *user)
{
}

static const struct dgram_handler handler = { on_opened, on_connected, on_received, on_acknowledged,
					      on_closed, on_ticket,    on_refused };

static void open_client(unsigned i)
{
	const struct net_address to = address_of(0);
	struct star_error err;

	if (w.clients[i].session)
		return;
	w.clients[i] = (struct user){ .client = true, .honest = i < HONEST, .any_number = true };
	w.clients[i].session = dgram_open(w.dgram[1], &to, PORT, &w.clients[i], SEALED ? &w.seals[i] : NULL, &err);
}

/* ---- the link ---- */

static void collect(int side)
{
	struct rte_mbuf *frames[32];
	bool more;
	unsigned n, rounds = 0;

	net_turn(w.net[side], w.now_ns);
	do {
		more = dgram_turn(w.dgram[side], w.now_ns);
		FUZZ_CHECK(rounds++ < 64, "a turn without an end");
		while ((n = net_output(w.net[side], frames, 32)) > 0)
			for (unsigned i = 0; i < n; i++)
				if (!frames_put(&w.link[side], frames[i]))
					w.silent_ns = w.now_ns;
	} while (more);
}

static void give(int side, struct rte_mbuf *m)
{
	net_input(w.net[side], &m, 1, w.now_ns);
}

/* Frames cross the wire into mbufs of their own. */
static void deliver(int side, unsigned i)
{
	struct rte_mbuf *m = frames_pick(&w.link[side], i), *copy = frames_copy(w.pool, m);

	rte_pktmbuf_free(m);
	if (copy)
		give(!side, copy);
}

/* A packet's sums are made right: else UDP would drop it. */
static void mend(struct rte_mbuf *m)
{
	struct rte_udp_hdr *udp = rte_pktmbuf_mtod_offset(m, struct rte_udp_hdr *, udp_off());
	const uint16_t bytes = (uint16_t)(m->data_len - udp_off());
	struct net_address from, to;

	if (w.v6) {
		struct rte_ipv6_hdr *ip = rte_pktmbuf_mtod_offset(m, struct rte_ipv6_hdr *, 14);

		ip->payload_len = rte_cpu_to_be_16(bytes);
		from = net_address_v6(ip->src_addr);
		to = net_address_v6(ip->dst_addr);
	} else {
		struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(m, struct rte_ipv4_hdr *, 14);

		ip->total_length = rte_cpu_to_be_16((uint16_t)(m->data_len - 14));
		ip->hdr_checksum = 0;
		ip->hdr_checksum = (uint16_t)~checksum_fold(checksum_add(0, ip, sizeof(*ip)));
		from = net_address_v4(ip->src_addr);
		to = net_address_v4(ip->dst_addr);
	}
	udp->dgram_len = rte_cpu_to_be_16(bytes);
	udp->dgram_cksum = 0;
	udp->dgram_cksum = (uint16_t)~checksum_transport(&from, &to, IPPROTO_UDP, udp, bytes);
}

static bool is_known(const struct wire_packet *p, bool to_server)
{
	const struct dgram_session *rogue = w.clients[SESSIONS - 1].session;

	if (!rogue)
		return false;
	return to_server ? p->token == rogue->peer_token : p->token == rogue->token || p->token == rogue->open_token;
}

/* A frame that was seen, with changes, and what follows to its receiver. Of an honest session neither token nor client
 * is known. */
static void forge(struct input *in, int side, unsigned i)
{
	struct rte_mbuf *m = frames_copy(w.pool, w.link[side].at[i]);
	struct wire_packet p;
	uint8_t *bytes;
	unsigned changes = take8(in) % 8;

	if (!m)
		return;
	if (m->data_len < packet_off() + sizeof(p) || net_flow(m).kind != NET_FLOW_UDP) {
		rte_pktmbuf_free(m);
		return;
	}
	bytes = rte_pktmbuf_mtod_offset(m, uint8_t *, packet_off());
	memcpy(&p, bytes, sizeof(p));
	if (SEALED)
		bytes[take16(in) % (m->data_len - packet_off())] ^= (uint8_t)(1 + take8(in) % 255);
	else if (p.kind == WIRE_PACKET_OPEN) /* its client names the session */
		memset(bytes + sizeof(p), take8(in), RTE_MIN(8u, m->data_len - packet_off() - sizeof(p)));
	else if (!is_known(&p, side == 1))
		bytes[8 + take8(in) % 8] ^= (uint8_t)(1 + take8(in) % 255);
	while (changes--) {
		const unsigned at = take16(in) % (m->data_len - packet_off());

		if (SEALED || at < 8 || at >= 16)
			bytes[at] = take8(in);
	}
	if (!SEALED && p.kind == WIRE_PACKET_OPEN && bytes[3] != WIRE_PACKET_OPEN)
		memset(bytes + 8, 1, 8);
	if (take8(in) & 1 && m->data_len > packet_off() + 70)
		m->data_len = m->pkt_len = (uint16_t)(packet_off() + take8(in) % 200 % (m->data_len - packet_off()));
	mend(m);
	give(!side, m);
}

static uint8_t next_byte(void *ctx)
{
	return take8(ctx);
}

/* One end of session 2; NULL: it is not there. */
static struct dgram_session *rogue_end(int side)
{
	const struct dgram_session *client = w.clients[SESSIONS - 1].session;

	if (side == 1 || !client)
		return side == 1 ? w.clients[SESSIONS - 1].session : NULL;
	for (unsigned i = 0; i < SERVERS; i++)
		if (w.servers[i].session && w.servers[i].session->client == client->client)
			return w.servers[i].session;
	return NULL;
}

/* A packet of session 2's other end to a side. It comes from where that is, now and then from another port. */
static void lie(struct input *in, int side)
{
	const struct liar liar = { next_byte, in, w.now_ns };
	const struct dgram_session *victim = rogue_end(side);
	const struct net_udp_address to = { .remote = address_of(side),
					    .local_port = take8(in) < 250 ? w.dgram[!side]->port : 9,
					    .remote_port = w.dgram[side]->port };
	uint8_t packet[LIAR_BYTES_MAX];
	struct rte_mbuf *frame;
	uint16_t bytes;

	if (!victim)
		return;
	bytes = liar_packet(&liar, victim, packet);
	collect(!side);
	net_turn(w.net[!side], w.now_ns);
	if (net_udp_send(w.net[!side], &to, packet, bytes) == 0 && net_output(w.net[!side], &frame, 1) == 1) {
		struct rte_mbuf *copy = frames_copy(w.pool, frame);

		rte_pktmbuf_free(frame);
		if (copy)
			give(side, copy);
	}
}

/* Messages that no request asked for. */
static void step_server(struct input *in)
{
	for (unsigned i = 0, n = take8(in) % 8; i < SERVERS; i++)
		if (w.servers[i].session && !w.servers[i].honest)
			while (n && dgram_queued(w.servers[i].session) < QUEUED_MAX && n--)
				send_message(&w.servers[i], take16(in) % 3000);
}

static void pass_time(uint64_t ns)
{
	w.now_ns += ns;
	for (int side = 0; side < 2; side++) {
		net_turn(w.net[side], w.now_ns);
		wheel_advance(net_wheel(w.net[side]), w.now_ns, 1000);
	}
}

/* ---- the program ---- */

static void check_books(bool all)
{
	for (int side = 0; side < 2; side++) {
		const char *wrong = books_wrong(w.dgram[side]);

		FUZZ_CHECK(!wrong, "side %d: %s", side, wrong);
		wrong = all ? books_of_pools(w.dgram[side]) : NULL;
		FUZZ_CHECK(!wrong, "side %d: %s", side, wrong);
	}
}

static void step_client(struct input *in, unsigned which)
{
	struct user *u = &w.clients[which % SESSIONS];

	if (!u->session)
		open_client(which % SESSIONS);
	else if (dgram_queued(u->session) < QUEUED_MAX)
		send_message(u, take16(in) % 8000);
}

static void step_frames(struct input *in, unsigned what, int side)
{
	if (w.link[side].count == 0)
		return;
	switch (what) {
	case 0: /* in their order */
		for (unsigned n = 1 + take8(in) % 16; n && w.link[side].count; n--)
			deliver(side, 0);
		break;
	case 1:
		deliver(side, take8(in) % w.link[side].count);
		break;
	case 2:
		w.silent_ns = w.now_ns;
		rte_pktmbuf_free(frames_pick(&w.link[side], take8(in) % w.link[side].count));
		break;
	case 3: {
		struct rte_mbuf *copy = frames_copy(w.pool, w.link[side].at[take8(in) % w.link[side].count]);

		if (copy)
			give(!side, copy);
		break;
	}
	default:
		forge(in, side, take8(in) % w.link[side].count);
	}
}

/* Replaces other steps if session 2 has a liar at its ends. */
static void step_rogue(struct input *in, uint8_t op)
{
	if ((op & 15) == 8)
		step_server(in);
	else
		lie(in, op >> 4 & 1);
}

static void step(struct input *in)
{
	const uint8_t op = take8(in);

	switch (op & 15) {
	case 0:
	case 1:
	case 2:
		step_client(in, op >> 4 & 3);
		break;
	case 3:
	case 4:
	case 5:
		step_frames(in, 0, op >> 4 & 1);
		break;
	case 6:
	case 7:
	case 8:
	case 9:
		if (w.lies && (op & 15) != 9) {
			step_rogue(in, op);
			break;
		}
		step_frames(in, 1 + (op >> 5 & 1) + (op & 2 ? 2 : 0), op >> 4 & 1);
		break;
	case 10:
	case 11:
		pass_time(UINT64_C(1000) << (take8(in) & 31) % 24);
		break;
	case 12:
		w.hold = op & 16;
		for (unsigned i = 0; i < SERVERS && !w.hold; i++)
			take(&w.servers[i]);
		for (unsigned i = 0; i < SESSIONS && !w.hold; i++)
			take(&w.clients[i]);
		break;
	case 13:
		for (unsigned n = take16(in) % MBUFS;
		     n && w.taken_count < MBUFS && (w.taken[w.taken_count] = rte_pktmbuf_alloc(w.pool)); n--)
			w.taken_count++;
		break;
	case 14:
		while (w.taken_count)
			rte_pktmbuf_free(w.taken[--w.taken_count]);
		break;
	case 15:
		if (w.clients[SESSIONS - 1].session && op & 16) {
			take(&w.clients[SESSIONS - 1]);
			dgram_close(w.clients[SESSIONS - 1].session);
			w.clients[SESSIONS - 1].session = NULL;
		}
		break;
	}
	if (!(op & 0x80)) {
		collect(0);
		collect(1);
	}
	check_books(++w.steps % BOOKS_EVERY == 0);
}

/* ---- the end ---- */

static bool all_is_through(void)
{
	bool through = true;

	for (unsigned i = 0; i < HONEST; i++)
		through &= !w.clients[i].session || dgram_queued(w.clients[i].session) == 0;
	for (unsigned i = 0; i < SERVERS; i++)
		through &= !w.servers[i].session || !w.servers[i].honest || dgram_queued(w.servers[i].session) == 0;
	return through;
}

/* The link loses nothing any more: what honest sessions have queued gets through. Then most programs end; the others
 * see leases end, which takes as long as a dozen programs. */
static void be_good(void)
{
	const bool long_one = w.steps % 16 == 0;
	const uint64_t end_ns = w.now_ns + 60000 * DGRAM_MS;

	w.hold = false;
	while (w.taken_count)
		rte_pktmbuf_free(w.taken[--w.taken_count]);
	for (unsigned i = 0; i < SERVERS; i++)
		take(&w.servers[i]);
	for (unsigned i = 0; i < SESSIONS; i++)
		take(&w.clients[i]);
	while (w.now_ns < end_ns && (long_one || !all_is_through())) {
		uint64_t next = end_ns;

		for (int side = 0; side < 2; side++) {
			collect(side);
			while (w.link[side].count)
				deliver(side, 0);
		}
		for (int side = 0; side < 2; side++) {
			next = RTE_MIN(next, wheel_next(net_wheel(w.net[side])));
			next = RTE_MIN(next, dgram_next_ns(w.dgram[side]));
		}
		pass_time(next > w.now_ns + 20 * DGRAM_US ? next - w.now_ns : 20 * DGRAM_US);
	}
	check_books(true);
	for (unsigned i = 0; i < HONEST; i++)
		FUZZ_CHECK(!w.clients[i].session || dgram_queued(w.clients[i].session) == 0,
			   "%u packets of session %u did not get through", dgram_queued(w.clients[i].session), i);
}

static void begin(struct input *in)
{
	const uint8_t first = take8(in);
	struct star_error err;

	w.now_ns = w.silent_ns = 1000 * DGRAM_MS;
	w.link[0].count = w.link[1].count = w.taken_count = w.steps = 0;
	w.evicted = 0;
	w.hold = false;
	w.v6 = first & 64;
	w.lies = !SEALED && first & 128;
	w.randoms = 0;
	if (SEALED && !w.tickets)
		w.tickets = secure_tickets_create(SECURE_DATA_SEALED, &err);
	memset(w.clients, 0, sizeof(w.clients));
	memset(w.servers, 0, sizeof(w.servers));
	for (int side = 0; side < 2; side++) {
		struct net_options options = { .pool = w.pool,
					       .interfaces_count = 1,
					       .connections_max = 1,
					       .rto_min_us = 200000,
					       .rto_max_us = 4000000,
					       .secret = { 1, 2 },
					       .now_ns = w.now_ns };
		struct dgram_options d = { .port = side ? 0 : PORT,
					   .accepts = !side,
					   .sessions_max = 8,
					   .active_max = 2 + (first & 1) * 6,
					   .window_max = 4u << (first >> 1 & 7),
					   .credits = first & 16 ? 5 : 200,
					   .held_mbufs_max = first & 32 ? 20 : 500,
					   .message_max = 6000,
					   .rto_min_ns = 50000,
					   .rto_max_ns = 1000 * DGRAM_MS,
					   .lease_ns = 10000 * DGRAM_MS,
					   .heartbeat_ns = 1000 * DGRAM_MS,
					   .ack_delay_ns = 100 * DGRAM_US,
					   .target_delay_ns = 50 * DGRAM_US,
					   .secret = { 3, 4 + (uint64_t)side },
					   .tickets = side ? NULL : w.tickets,
					   .handler = &handler };

		options.interfaces[0] = (struct net_interface_options){
			.mtu = 1500,
			.mac = { { 2, 0, 0, 0, 0, (uint8_t)(1 + side) } },
			.addresses_count = 1,
			.addresses = { { address_of(side), w.v6 ? 64 : 24 } },
		};
		w.net[side] = net_create(&options, &err);
		d.net = w.net[side];
		w.dgram[side] = w.net[side] ? dgram_create(&d, &err) : NULL;
		FUZZ_CHECK(w.dgram[side], "no endpoint");
	}
	for (unsigned i = 0; i < SESSIONS; i++)
		open_client(i);
	for (unsigned i = 0; i < 6; i++)
		for (int side = 1; side >= 0; side--) {
			collect(side);
			while (w.link[side].count)
				deliver(side, 0);
		}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	fuzz_eal();
	w.pool = fuzz_pool(MBUFS);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, data + bytes };

	begin(&in);
	for (unsigned i = 0; i < STEPS_MAX && input_left(&in); i++)
		step(&in);
	be_good();
	for (int side = 0; side < 2; side++) {
		dgram_destroy(w.dgram[side]);
		frames_free(&w.link[side]);
	}
	for (int side = 0; side < 2; side++)
		net_destroy(w.net[side]);
	fuzz_pool_whole(w.pool);
	return 0;
}
