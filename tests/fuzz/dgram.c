/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server's and a client's endpoint, and whoever stands between them. The input is a program: messages of either side, frames
 * that are delivered, lost, repeated, held back, or forged from what was seen; time that passes, mbufs that are short. The
 * sessions 0 and 1 are honest; whoever forges does not know their tokens. Of session 2 he knows all.
 *
 * Besides memory errors it finds: an mbuf that is missing in the end, a message of an honest session that comes out of order,
 * twice or with other bytes, an honest session that ends though its peer was to be heard, books that contradict each other, and
 * what does not get through when the link is good again.
 */
#include <errno.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "net/checksum.h"
#include "rpc/dgram_internal.h"
#include "tests/fuzz/pool.h"

enum {
	MBUFS = 2048,
	SESSIONS = 3, /* of the client */
	HONEST = 2,
	SERVERS = 16,
	FRAMES = 128, /* on the way, of each direction */
	STEPS_MAX = 600,
	QUEUED_MAX = 40,
	PORT = 7000,
	UDP_OFF = 14 + sizeof(struct rte_ipv4_hdr),
	PACKET_OFF = UDP_OFF + sizeof(struct rte_udp_hdr),
};

struct user {
	struct dgram_session *session; /* NULL: none */
	uint64_t sent, received;
	struct rte_mbuf *held;
	bool client, honest, any_number;
};

static struct {
	struct rte_mempool *pool;
	struct net *net[2];
	struct dgram *dgram[2];
	struct user clients[SESSIONS], servers[SERVERS];
	struct rte_mbuf *frames[2][FRAMES]; /* by their sender */
	unsigned count[2];
	struct rte_mbuf *taken[MBUFS];
	unsigned taken_count;
	uint64_t now_ns, silent_ns; /* since when the link may have lost something */
	bool hold;
} w;

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
				w.servers[i].honest |=
					w.clients[j].session && w.clients[j].session->client == session->client;
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

static void on_closed(void *user, int reason)
{
	struct user *u = user;

	/* The lease may end what the link has kept silent. The server's answer of an honest client's close is 0. */
	FUZZ_CHECK(!u->honest || reason == ETIMEDOUT || reason == 0 || reason == ECONNREFUSED,
		   "an honest session ended with %d", reason);
	FUZZ_CHECK(!u->honest || !u->client || reason != 0 || w.now_ns - w.silent_ns < 30000 * DGRAM_MS,
		   "an honest session was closed");
	take(u);
	u->session = NULL;
}

static const struct dgram_handler handler = { on_opened, on_connected, on_received, on_acknowledged, on_closed };

static void open_client(unsigned i)
{
	const struct net_address to = net_address_v4(RTE_BE32(0xc6120001));
	struct star_error err;

	if (w.clients[i].session)
		return;
	w.clients[i] = (struct user){ .client = true, .honest = i < HONEST, .any_number = true };
	w.clients[i].session = dgram_open(w.dgram[1], &to, PORT, &w.clients[i], &err);
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
			for (unsigned i = 0; i < n; i++) {
				if (w.count[side] == FRAMES) {
					w.silent_ns = w.now_ns;
					rte_pktmbuf_free(frames[i]);
				} else {
					w.frames[side][w.count[side]++] = frames[i];
				}
			}
	} while (more);
}

static struct rte_mbuf *copy_of(const struct rte_mbuf *m)
{
	struct rte_mbuf *copy = rte_pktmbuf_alloc(w.pool);

	if (copy)
		memcpy(rte_pktmbuf_append(copy, m->data_len), rte_pktmbuf_mtod(m, void *), m->data_len);
	return copy;
}

static void give(int side, struct rte_mbuf *m)
{
	net_input(w.net[side], &m, 1, w.now_ns);
}

/* Takes frame i away from those that side has sent. */
static struct rte_mbuf *pick(int side, unsigned i)
{
	struct rte_mbuf *m = w.frames[side][i];

	memmove(&w.frames[side][i], &w.frames[side][i + 1], (--w.count[side] - i) * sizeof(m));
	return m;
}

/* Frames cross the wire into mbufs of their own. */
static void deliver(int side, unsigned i)
{
	struct rte_mbuf *m = pick(side, i), *copy = copy_of(m);

	rte_pktmbuf_free(m);
	if (copy)
		give(!side, copy);
}

/* A packet's sums are made right: else UDP would drop it. */
static void mend(struct rte_mbuf *m)
{
	struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(m, struct rte_ipv4_hdr *, 14);
	struct rte_udp_hdr *udp = rte_pktmbuf_mtod_offset(m, struct rte_udp_hdr *, UDP_OFF);
	const struct net_address from = net_address_v4(ip->src_addr), to = net_address_v4(ip->dst_addr);
	const uint16_t bytes = (uint16_t)(m->data_len - UDP_OFF);

	ip->total_length = rte_cpu_to_be_16((uint16_t)(m->data_len - 14));
	ip->hdr_checksum = 0;
	ip->hdr_checksum = (uint16_t)~checksum_fold(checksum_add(0, ip, sizeof(*ip)));
	udp->dgram_len = rte_cpu_to_be_16(bytes);
	udp->dgram_cksum = 0;
	udp->dgram_cksum = (uint16_t)~checksum_transport(&from, &to, IPPROTO_UDP, udp, bytes);
}

static bool is_known(const struct wire_packet *p, bool to_server)
{
	const struct dgram_session *rogue = w.clients[SESSIONS - 1].session;

	return rogue && p->token == (to_server ? rogue->peer_token : rogue->token);
}

/* A frame that was seen, with changes, and what follows to its receiver. Of an honest session neither token nor client is known. */
static void forge(struct input *in, int side, unsigned i)
{
	struct rte_mbuf *m = copy_of(w.frames[side][i]);
	struct wire_packet p;
	uint8_t *bytes;
	unsigned changes = take8(in) % 8;

	if (!m)
		return;
	if (m->data_len < PACKET_OFF + sizeof(p) || net_flow(m).kind != NET_FLOW_UDP) {
		rte_pktmbuf_free(m);
		return;
	}
	bytes = rte_pktmbuf_mtod_offset(m, uint8_t *, PACKET_OFF);
	memcpy(&p, bytes, sizeof(p));
	if (p.kind == WIRE_PACKET_OPEN) /* its client names the session */
		memset(bytes + sizeof(p), take8(in), RTE_MIN(8u, m->data_len - PACKET_OFF - sizeof(p)));
	else if (!is_known(&p, side == 1))
		bytes[8 + take8(in) % 8] ^= (uint8_t)(1 + take8(in) % 255);
	while (changes--) {
		const unsigned at = take16(in) % (m->data_len - PACKET_OFF);

		if (at < 8 || at >= 16)
			bytes[at] = take8(in);
	}
	if (p.kind == WIRE_PACKET_OPEN && bytes[3] != WIRE_PACKET_OPEN)
		memset(bytes + 8, 1, 8);
	if (take8(in) & 1 && m->data_len > PACKET_OFF + 70)
		m->data_len = m->pkt_len = (uint16_t)(PACKET_OFF + take8(in) % 200 % (m->data_len - PACKET_OFF));
	mend(m);
	give(!side, m);
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

static void check_books(void)
{
	for (int side = 0; side < 2; side++) {
		const struct dgram *d = w.dgram[side];
		uint32_t actives = 0, charge = 0, held = 0;

		for (uint32_t i = 0; i < d->sessions_made; i++) {
			const struct dgram_session *s = &d->all[i];

			if (s->state == DGRAM_FREE)
				continue;
			actives += !!(s->flags & DGRAM_ACTIVE);
			charge += s->rx_charge;
			held += s->message_mbufs + (s->reorder ? s->reorder->count : 0);
			FUZZ_CHECK(!number_before(s->rx_limit, s->rx_edge) && !number_before(s->rx_edge, s->rx_next) &&
					   s->rx_limit - s->rx_next <= d->options.window_max,
				   "edges");
			FUZZ_CHECK(s->tx_next - s->tx_una <= d->options.window_max && s->tx_flying <= s->tx_held,
				   "window");
		}
		FUZZ_CHECK(actives == d->actives && charge == d->credits_out, "credit");
		FUZZ_CHECK(held + d->held_whole == d->held, "%u mbufs are held, not %u", held + d->held_whole, d->held);
		FUZZ_CHECK(d->held <= 2 * d->options.held_mbufs_max, "%u mbufs are held", d->held);
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
	if (w.count[side] == 0)
		return;
	switch (what) {
	case 0: /* in their order */
		for (unsigned n = 1 + take8(in) % 16; n && w.count[side]; n--)
			deliver(side, 0);
		break;
	case 1:
		deliver(side, take8(in) % w.count[side]);
		break;
	case 2:
		w.silent_ns = w.now_ns;
		rte_pktmbuf_free(pick(side, take8(in) % w.count[side]));
		break;
	case 3: {
		struct rte_mbuf *copy = copy_of(w.frames[side][take8(in) % w.count[side]]);

		if (copy)
			give(!side, copy);
		break;
	}
	default:
		forge(in, side, take8(in) % w.count[side]);
	}
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
	check_books();
}

/* ---- the end ---- */

/* The link loses nothing any more: what honest sessions have queued gets through. */
static void be_good(void)
{
	const uint64_t end_ns = w.now_ns + 60000 * DGRAM_MS;

	w.hold = false;
	while (w.taken_count)
		rte_pktmbuf_free(w.taken[--w.taken_count]);
	for (unsigned i = 0; i < SERVERS; i++)
		take(&w.servers[i]);
	for (unsigned i = 0; i < SESSIONS; i++)
		take(&w.clients[i]);
	while (w.now_ns < end_ns) {
		uint64_t next = end_ns;

		for (int side = 0; side < 2; side++) {
			collect(side);
			while (w.count[side])
				deliver(side, 0);
		}
		for (int side = 0; side < 2; side++) {
			next = RTE_MIN(next, wheel_next(net_wheel(w.net[side])));
			next = RTE_MIN(next, dgram_next_ns(w.dgram[side]));
		}
		pass_time(next > w.now_ns + 20 * DGRAM_US ? next - w.now_ns : 20 * DGRAM_US);
	}
	check_books();
	for (unsigned i = 0; i < HONEST; i++)
		FUZZ_CHECK(!w.clients[i].session || dgram_queued(w.clients[i].session) == 0,
			   "%u packets of session %u did not get through", dgram_queued(w.clients[i].session), i);
}

static void begin(struct input *in)
{
	const uint8_t first = take8(in);
	struct star_error err;

	w.now_ns = w.silent_ns = 1000 * DGRAM_MS;
	w.count[0] = w.count[1] = w.taken_count = 0;
	w.hold = false;
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
					   .handler = &handler };

		options.interfaces[0] = (struct net_interface_options){
			.mtu = 1500,
			.mac = { { 2, 0, 0, 0, 0, (uint8_t)(1 + side) } },
			.addresses_count = 1,
			.addresses = { { net_address_v4(rte_cpu_to_be_32(0xc6120001u + (unsigned)side)), 24 } },
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
			while (w.count[side])
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
		while (w.count[side])
			rte_pktmbuf_free(pick(side, 0));
	}
	for (int side = 0; side < 2; side++)
		net_destroy(w.net[side]);
	fuzz_pool_whole(w.pool);
	return 0;
}
