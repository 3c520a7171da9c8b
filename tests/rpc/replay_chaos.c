/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executed and refused requests of one session in flight together, over TCP, over datagrams, and over both by turns;
 * connections that are lost at any moment, with and without a word to the node. What the client hears of each request
 * is what the service did, which counts.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/rpc/cases.h"

enum {
	REQUESTS = 400,
	TURN_NS = 20000,
	BIG = 40000,  /* bytes of a payload for which there are never enough mbufs */
	OVER = 60000, /* more than the node takes */
	HELD_MAX = 24,
	FLIGHT = 40,
	PEERS = 512, /* connections that the node has not heard the end of */
};

enum way { BY_TCP, BY_DATAGRAMS, BY_BOTH, WAYS };

static struct {
	struct link link;
	struct prng prng;
	struct rpc_server *server;
	struct dgram *endpoint;
	struct tcp_conn *conn;
	struct dgram_session *session;
	bool open;
	uint8_t in[1 << 16];
	uint32_t in_bytes;
	uint64_t first, next, resend,
		number; /* of requests: the first unanswered one, the next new one, the next one sent again */
	bool resumed;
	uint32_t bytes[REQUESTS + 1], deadline_us[REQUESTS + 1];
	uint8_t flags[REQUESTS + 1];
	/* what the service did */
	uint8_t executed[REQUESTS + 1], slices[REQUESTS + 1];
	uint64_t last_executed;
	/* what the client heard */
	unsigned heard[256], lost;
} c;

/* ---- the service ---- */

static const uint8_t refusals[] = { WIRE_NO_KEYS,  WIRE_NOT_FINITE, WIRE_NO_MEMORY,    WIRE_CLOSED,	  WIRE_GONE,
				    WIRE_NOT_KEPT, WIRE_BUSY,	    WIRE_STALE_LAYOUT, WIRE_SHUTTING_DOWN };

static enum rpc_progress execute(void *ctx, struct rpc_request *request, uint64_t now_ns)
{
	const uint64_t s = request->frame.sequence;

	(void)ctx;
	(void)now_ns;
	if (prng_below(&c.prng, 3) == 0 && c.slices[s]++ < 20) {
		request->begun |= prng_below(&c.prng, 2) == 0;
		return RPC_MORE;
	}
	if (!request->begun && prng_below(&c.prng, 3) == 0)
		return rpc_reply_fail(request, refusals[prng_below(&c.prng, RTE_DIM(refusals))], "no");
	CHECK(s > c.last_executed);
	c.last_executed = s;
	c.executed[s]++;
	request->begun = true;
	if (rpc_reply_room(request, sizeof(s)))
		rpc_reply_put(request, &s, sizeof(s));
	return RPC_DONE;
}

/* ---- the client ---- */

static void take_reply(const struct wire_frame *frame)
{
	const uint64_t s = frame->sequence;
	unsigned executed = frame->status == WIRE_OK || frame->status == WIRE_REPEATED;

	CHECK_UINT(s, c.first);
	c.first++;
	c.heard[frame->status]++;
	if (!CHECK_UINT(c.executed[s], executed))
		printf("# request %llu: the client heard %s\n", (unsigned long long)s, wire_status_text(frame->status));
	CHECK(frame->status != WIRE_FORGOTTEN);
}

static bool on_opened(void *ctx, struct tcp_conn *conn, void **user)
{
	c.open = true;
	return true;
}

static void on_received(void *user, struct rte_mbuf *m)
{
	struct wire_frame frame;
	uint32_t at = 0;

	memcpy(c.in + c.in_bytes, rte_pktmbuf_mtod(m, void *), m->data_len);
	c.in_bytes += m->data_len;
	tcp_consumed(c.conn, m->data_len);
	rte_pktmbuf_free(m);
	while (c.in_bytes - at >= sizeof(frame)) {
		memcpy(&frame, c.in + at, sizeof(frame));
		if (c.in_bytes - at < sizeof(frame) + frame.payload_bytes)
			break;
		take_reply(&frame);
		at += (uint32_t)sizeof(frame) + frame.payload_bytes;
	}
	c.in_bytes -= at;
	memmove(c.in, c.in + at, c.in_bytes);
}

static void on_acknowledged(void *user)
{
}

static void on_finished(void *user)
{
}

static void on_closed(void *user, int reason)
{
	c.conn = NULL;
	c.open = false;
}

static const struct tcp_handler by_tcp = { on_opened, on_received, on_acknowledged, on_finished, on_closed };

static void dgram_connected(void *user, bool resumed, uint32_t incarnation)
{
	c.open = true;
}

static void dgram_received(void *user, struct rte_mbuf *m, uint32_t bytes, enum wire_status status)
{
	uint32_t at = 0;

	do {
		struct wire_frame frame;

		memcpy(&frame, rte_pktmbuf_mtod_offset(m, const void *, at), sizeof(frame));
		take_reply(&frame);
	} while ((at = dgram_next(m, at)));
	rte_pktmbuf_free(m);
	dgram_taken(c.session, 1);
}

static void dgram_closed(void *user, int reason)
{
	c.session = NULL;
	c.open = false;
}

static const struct dgram_handler by_datagrams = { .connected = dgram_connected,
						   .received = dgram_received,
						   .acknowledged = on_acknowledged,
						   .closed = dgram_closed };

static void open_connection(enum way way)
{
	struct star_error err = { 0 };

	c.in_bytes = 0;
	c.open = false;
	c.resend = c.first;
	c.resumed = c.number++ > 0;
	if (way == BY_TCP || (way == BY_BOTH && prng_below(&c.prng, 2))) {
		c.conn = tcp_connect(c.link.net[1], link_ip(0), RIG_PORT, &by_tcp, NULL, NULL, &err);
	} else {
		c.session = dgram_open(c.endpoint, link_ip(0), RIG_PORT, &c, NULL, &err);
	}
	CHECK(c.conn || c.session);
}

static void lose_connection(void)
{
	const bool silent = prng_below(&c.prng, 2);

	c.lost++;
	if (silent) { /* replies that are under way are lost, and the node is told nothing */
		c.link.loss = 1000;
		link_run(&c.link, prng_below(&c.prng, 10) * TURN_NS, NULL, NULL);
	}
	if (c.conn)
		tcp_abort(c.conn);
	if (c.session)
		dgram_close(c.session);
	c.conn = NULL;
	c.session = NULL;
	if (silent)
		link_run(&c.link, LINK_MS, NULL, NULL);
	c.link.loss = 0;
}

/* As many bytes as there is room for; true: all. A frame and its payload, which is zeros. */
static bool send_bytes(const struct wire_frame *frame)
{
	static const uint8_t zeros[OVER];
	uint32_t at = 0, left = (uint32_t)sizeof(*frame) + frame->payload_bytes;
	struct rte_mbuf *first = NULL, **link = &first;

	while (left) {
		const uint32_t most = c.conn ? tcp_mss(c.conn) : dgram_payload(c.session), n = RTE_MIN(most, left);
		struct rte_mbuf *m = c.conn ? tcp_alloc(c.conn) : dgram_alloc(c.session);
		uint32_t head = at == 0 ? (uint32_t)sizeof(*frame) : 0;

		if (!m)
			exit(EXIT_FAILURE);
		if (head)
			memcpy(rte_pktmbuf_append(m, sizeof(*frame)), frame, sizeof(*frame));
		memcpy(rte_pktmbuf_append(m, (uint16_t)(n - head)), zeros, n - head);
		at += n;
		left -= n;
		if (c.conn) {
			tcp_send(c.conn, m);
			continue;
		}
		*link = m;
		link = &m->next;
	}
	if (!c.conn)
		dgram_send(c.session, first);
	return true;
}

static void send_request(uint64_t s, bool again)
{
	static const uint8_t zeros[OVER];
	struct wire_frame frame = { .magic = WIRE_MAGIC,
				    .version = WIRE_VERSION,
				    .opcode = WIRE_EXECUTE,
				    .session = 77,
				    .sequence = s,
				    .epoch = RIG_EPOCH,
				    .incarnation = RIG_INCARNATION,
				    .deadline_us = c.deadline_us[s],
				    .payload_bytes = c.bytes[s] };

	frame.flags = (uint8_t)((c.resumed ? WIRE_GOES_ON : 0) | (again ? WIRE_RESENT : 0) |
				(s != c.first ? WIRE_BEHIND : 0));
	frame.checksum = wire_checksum(&frame, zeros, frame.payload_bytes);
	send_bytes(&frame);
}

static void send_some(void)
{
	for (unsigned n = prng_below(&c.prng, 8); n && c.open; n--) {
		if (c.resend < c.next && c.resend >= c.first) {
			send_request(c.resend++, true);
		} else if (c.next <= REQUESTS && c.next - c.first < FLIGHT) {
			send_request(c.next++, false);
			c.resend = c.next;
		}
	}
}

/* ---- a run ---- */

static bool on_turn(struct link *link, int side)
{
	if (side == 0) {
		rpc_run(c.server, 2, link->now_ns);
		rpc_transmit(c.server, link->now_ns);
	} else {
		return dgram_turn(c.endpoint, link->now_ns);
	}
	return false;
}

static struct dgram_options datagrams(void)
{
	return (struct dgram_options){
		.incarnation = RIG_INCARNATION,
		.sessions_max = PEERS,
		.active_max = 64,
		.window_max = 64,
		.credits = 64,
		.held_mbufs_max = 1024,
		.message_max = 1 << 20,
		.rto_min_ns = 1000000,
		.rto_max_ns = 1000 * LINK_MS,
		.lease_ns = 200 * LINK_MS,
		.heartbeat_ns = 20 * LINK_MS,
		.ack_delay_ns = 100000,
		.target_delay_ns = 10 * LINK_MS,
		.secret = { 1, 2 },
	};
}

static void begin(uint64_t seed, enum way way)
{
	struct rpc_server_options o = { .port = RIG_PORT,
					.streams_max = PEERS,
					.datagrams = datagrams(),
					.payload_max = OVER - 1,
					.send_queue_bytes = 1 << 20,
					.held_mbufs_max = HELD_MAX,
					.stall_ns = 30000 * LINK_MS,
					.service = { .task_bytes = 8, .execute = execute } };
	struct dgram_options client = datagrams();
	struct net_options options[2];
	struct star_error err = { 0 };

	memset(&c, 0, sizeof(c));
	prng_seed(&c.prng, seed);
	link_init(&c.link, seed);
	for (int side = 0; side < 2; side++) {
		options[side] = link_options(&c.link, side);
		options[side].connections_max = PEERS;
	}
	link_up_with(&c.link, &options[0], &options[1]);
	o.net = c.link.net[0];
	c.server = rpc_server_create(&o, &err);
	rpc_server_set_layout(c.server, RIG_EPOCH, RIG_INCARNATION);
	client.net = c.link.net[1];
	client.handler = &by_datagrams;
	c.endpoint = dgram_create(&client, &err);
	if (!c.server || !c.endpoint)
		exit(EXIT_FAILURE);
	c.link.turn = on_turn;
	c.first = c.next = 1;
	for (unsigned s = 1; s <= REQUESTS; s++) {
		const uint32_t kind = prng_below(&c.prng, 20);

		c.bytes[s] = kind == 0 ? BIG : kind == 1 && way == BY_DATAGRAMS ? OVER : kind < 4 ? 3000 : 16;
		c.deadline_us[s] = prng_below(&c.prng, 10) == 0 ? 1 + prng_below(&c.prng, 300) : 0;
	}
}

static void run(uint64_t seed, enum way way, unsigned heard[256], unsigned *lost)
{
	unsigned turns = 0;

	begin(seed, way);
	while (c.first <= REQUESTS && turns++ < 200000) {
		if (!c.conn && !c.session)
			open_connection(way);
		send_some();
		link_run(&c.link, TURN_NS, NULL, NULL);
		if (prng_below(&c.prng, 100) == 0)
			lose_connection();
	}
	if (!CHECK_UINT(c.first, REQUESTS + 1))
		printf("# way %u, seed %llu: %u connections were lost\n", way, (unsigned long long)seed, c.lost);
	for (unsigned i = 0; i < 256; i++)
		heard[i] += c.heard[i];
	*lost += c.lost;
	if (c.conn)
		tcp_abort(c.conn);
	if (c.session)
		dgram_close(c.session);
	dgram_destroy(c.endpoint);
	rpc_server_destroy(c.server);
	link_down(&c.link);
}

void what_a_client_hears_is_what_was_done(void)
{
	const char *more = getenv("STAR_REPLAY_SEEDS");
	const uint64_t seeds = more ? strtoull(more, NULL, 10) : 15;

	for (unsigned way = 0; way < WAYS; way++) {
		unsigned heard[256] = { 0 }, lost = 0;

		for (uint64_t seed = 1; seed <= seeds; seed++)
			run(seed * WAYS + way, (enum way)way, heard, &lost);
		CHECK(lost > seeds);
		CHECK(heard[WIRE_OK] && heard[WIRE_REPEATED] && heard[WIRE_DEADLINE]);
		CHECK(heard[WIRE_OVER_LIMIT] || way != BY_DATAGRAMS);
		for (unsigned i = 0; i < RTE_DIM(refusals); i++)
			CHECK(heard[refusals[i]]);
	}
}
