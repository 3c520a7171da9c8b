/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stack and its peers. The input is a program: inject a segment whose numbers are relative to what the stack expects,
 * or a raw frame; let time pass; send, consume, close, abort, connect; take mbufs away; hold frames as a driver does.
 *
 * Besides memory errors it finds: an mbuf that is missing in the end, queues and numbers that contradict each other, a
 * byte that is sent or handed up at the wrong place, a frame that is malformed, data that does not get through to a
 * peer who turned honest, and a connection that outlives its close although nobody answers.
 */
#include "tests/fuzz/net_world.h"

enum {
	STEPS_MAX = 400,
	SEND_MAX = 64 * 1024, /* bytes that a user queues at most */
	FRAMES_MAX = 8192,    /* of one net_output */
};

enum habits {
	HABIT_HOLD = 1,		/* keeps what it receives, until it is told to consume it */
	HABIT_CLOSE = 2,	/* closes when the peer has finished */
	HABIT_ECHO = 4,		/* sends when it receives */
	HABIT_ABORT = 8,	/* aborts when it receives */
	HABIT_CLOSE_EARLY = 16, /* closes when it receives */
	HABIT_REFUSE = 32,	/* refuses new connections */
};

struct world w;

/* ---- the stack's users ---- */

static void send_bytes(struct user *u, uint32_t n)
{
	while (u->conn && n && tcp_queued(u->conn) < SEND_MAX) {
		const uint32_t part = RTE_MIN(n, tcp_mss(u->conn));
		struct rte_mbuf *m = tcp_alloc(u->conn);
		uint8_t *at;

		if (!m)
			return;
		at = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)part);
		for (uint32_t i = 0; i < part; i++)
			at[i] = content(u->conn->snd_end + i);
		n -= part;
		if (!tcp_send(u->conn, m))
			return;
	}
}

static void free_held(struct user *u)
{
	while (u->held) {
		struct rte_mbuf *next = u->held->next;

		u->held->next = NULL;
		rte_pktmbuf_free(u->held);
		u->held = next;
	}
	if (u->conn)
		tcp_consumed(u->conn, u->held_bytes);
	u->held_bytes = 0;
}

static bool on_opened(void *ctx, struct tcp_conn *conn, void **user)
{
	struct user *u = *user;

	if (!u && (w.habits & HABIT_REFUSE || w.users_count == USERS))
		return false;
	if (!u)
		u = *user = &w.users[w.users_count++];
	u->conn = conn;
	return true;
}

static void on_received(void *user, struct rte_mbuf *m)
{
	struct user *u = user;
	const uint32_t n = m->data_len, seq = u->conn->rcv_nxt - n;

	FUZZ_CHECK(n > 0 && m->nb_segs == 1 && m->pkt_len == n, "a payload of %u bytes", n);
	FUZZ_CHECK(!u->closing, "data after tcp_close");
	FUZZ_CHECK(!u->synced || seq == u->next_seq, "bytes from %u, not %u", seq, u->next_seq);
	for (uint32_t i = 0; i < n && !w.tainted; i++)
		FUZZ_CHECK(rte_pktmbuf_mtod(m, uint8_t *)[i] == content(seq + i), "byte %u of the stream", seq + i);
	u->synced = true;
	u->next_seq = seq + n;
	m->next = u->held;
	u->held = m;
	u->held_bytes += n;
	if (!(w.habits & HABIT_HOLD))
		free_held(u);
	if (w.habits & HABIT_ECHO)
		send_bytes(u, n);
	if (w.habits & HABIT_ABORT) {
		tcp_abort(u->conn);
	} else if (w.habits & HABIT_CLOSE_EARLY) {
		u->closing = true;
		tcp_close(u->conn);
	}
}

static void on_acknowledged(void *user)
{
	struct user *u = user;

	FUZZ_CHECK(u->conn, "acknowledged after the end");
}

static void on_finished(void *user)
{
	struct user *u = user;

	FUZZ_CHECK(u->conn, "finished after the end");
	if (w.habits & HABIT_CLOSE) {
		u->closing = true;
		tcp_close(u->conn);
	}
}

static void on_closed(void *user, int reason)
{
	struct user *u = user;

	FUZZ_CHECK(!u->closed, "closed twice");
	u->conn = NULL;
	u->closed = true;
	free_held(u);
}

static const struct tcp_handler handler = { on_opened, on_received, on_acknowledged, on_finished, on_closed };

static void on_datagram(void *ctx, struct net *net, const struct net_udp_address *address, struct rte_mbuf *payload,
			uint8_t tos)
{
	net_udp_send(net, address, rte_pktmbuf_mtod(payload, void *), payload->data_len);
	rte_pktmbuf_free(payload);
}

/* ---- turns ---- */

/* The end of a turn. */
static void send_frames(void)
{
	unsigned total = 0, n;

	do {
		struct rte_mbuf *frames[32];

		n = net_output(w.net, frames, 32);
		total += n;
		FUZZ_CHECK(total <= FRAMES_MAX, "a turn without an end");
		for (unsigned i = 0; i < n; i++) {
			check_frame(frames[i]);
			if (w.hold && w.held_count < HELD_MAX) {
				w.hold--;
				w.held[w.held_count++] = frames[i];
			} else {
				rte_pktmbuf_free(frames[i]);
			}
		}
	} while (n);
}

static void release_frames(void)
{
	while (w.held_count)
		rte_pktmbuf_free(w.held[--w.held_count]);
}

static void take_mbufs(unsigned n)
{
	while (n-- && w.taken_count < MBUFS && (w.taken[w.taken_count] = rte_pktmbuf_alloc(w.pool)))
		w.taken_count++;
}

static void give_mbufs(unsigned n)
{
	while (n-- && w.taken_count)
		rte_pktmbuf_free(w.taken[--w.taken_count]);
}

static void pass_time(uint64_t ns)
{
	w.now_ns += ns;
	net_turn(w.net, w.now_ns);
	wheel_advance(net_wheel(w.net), w.now_ns, 1000);
}

/* ---- the program ---- */

static struct user *pick(struct input *in)
{
	return w.users_count ? &w.users[take8(in) % w.users_count] : &w.users[0];
}

static void close_user(struct user *u)
{
	if (!u->conn)
		return;
	u->closing = true;
	tcp_close(u->conn);
}

static void connect_out(struct input *in)
{
	struct star_error err;
	struct user *u = &w.users[w.users_count];
	struct net_address to;

	if (w.users_count == USERS)
		return;
	w.users_count++;
	to = w.v6 ? peer_address6 : net_address_v4(PEER_ADDRESS);
	to.words[3] ^= rte_cpu_to_be_32(take8(in) & 3);
	u->conn = tcp_connect(w.net, &to, PEER_PORT + take8(in) % PEERS, &handler, NULL, u, &err);
}

static void step_user(struct input *in, unsigned what)
{
	struct user *u = pick(in);

	switch (what & 7) {
	case 0:
	case 1:
	case 2:
		if (u->conn && !u->closing)
			send_bytes(u, take16(in));
		break;
	case 3:
	case 4:
		free_held(u);
		break;
	case 5:
		close_user(u);
		break;
	case 6:
		if (u->conn)
			tcp_abort(u->conn);
		break;
	case 7:
		connect_out(in);
		break;
	}
}

static void step(struct input *in)
{
	const uint8_t op = take8(in);

	switch (op & 15) {
	case 0:
	case 1:
	case 2:
	case 3:
	case 4:
		step_segment(in, op >> 4 & 3);
		break;
	case 5:
		inject_raw(in);
		break;
	case 6:
		inject_neighbour(in);
		break;
	case 7:
	case 8:
		pass_time(UINT64_C(1000) << (take8(in) & 31) % 26);
		break;
	case 9:
	case 10:
		step_user(in, op >> 4);
		break;
	case 11:
		w.habits = take8(in);
		break;
	case 12:
		w.hold = take8(in) % HELD_MAX;
		break;
	case 13:
		release_frames();
		break;
	case 14:
		take_mbufs(take16(in) % MBUFS);
		break;
	case 15:
		give_mbufs(take16(in));
		break;
	}
	if (!(op & 0x80)) /* else the turn goes on */
		send_frames();
	check_stack();
}

/* ---- the end ---- */

/* The peer of an established connection, if it is the one that its port's peer knows last; else PEERS. */
static unsigned peer_of(const struct tcp_conn *c)
{
	const unsigned peer = c ? rte_be_to_cpu_16(c->remote_port) - PEER_PORT : PEERS;
	const struct net_address v4 = net_address_v4(PEER_ADDRESS);

	return peer < PEERS && c->state >= TCP_ESTABLISHED &&
			       net_address_equal(&c->path.remote, w.v6 ? &peer_address6 : &v4) &&
			       w.peers[peer].port == rte_be_to_cpu_16(c->local_port)
		       ? peer
		       : PEERS;
}

/* From now on all peers are honest, starting from what the stack thinks of them: all that was queued must get
 * through. */
static void be_honest(void)
{
	w.habits = 0;
	w.honest = true;
	introduce_peer();
	for (unsigned i = 0; i < w.users_count; i++) {
		const struct tcp_conn *c = w.users[i].conn;
		const unsigned peer = peer_of(c);

		free_held(&w.users[i]);
		if (peer == PEERS)
			continue;
		w.peers[peer].seq = c->rcv_nxt;
		w.peers[peer].taken = c->snd_una;
		inject_segment(&(struct made_segment){ .peer = peer,
						       .flags = RTE_TCP_ACK_FLAG,
						       .seq = c->rcv_nxt,
						       .ack = c->snd_una,
						       .window = 0xffff });
	}
	for (unsigned turn = 0; turn < 3000; turn++) {
		send_frames();
		pass_time(10 * NET_MS);
	}
	for (unsigned i = 0; i < w.users_count; i++)
		if (peer_of(w.users[i].conn) < PEERS)
			FUZZ_CHECK(tcp_queued(w.users[i].conn) == 0, "%u bytes did not get through to peer %u",
				   tcp_queued(w.users[i].conn), peer_of(w.users[i].conn));
}

/* Nobody answers any more: what is closed comes to its end all the same. */
static void close_all(void)
{
	w.honest = false;
	for (unsigned i = 0; i < w.users_count; i++) {
		close_user(&w.users[i]);
		free_held(&w.users[i]);
	}
	for (unsigned turn = 0; turn < 300 && net_connections(w.net); turn++) {
		pass_time(1000 * NET_MS);
		send_frames();
	}
	for (uint32_t i = 0; i < w.net->options.connections_max; i++)
		FUZZ_CHECK(w.net->conns[i].state == TCP_CLOSED, "a connection is in state %u long after the end",
			   w.net->conns[i].state);
	for (unsigned i = 0; i < w.users_count; i++)
		FUZZ_CHECK(!w.users[i].conn, "a user was not told of the end");
}

static void begin(struct input *in)
{
	const uint8_t first = take8(in);
	struct net_options options = { .pool = w.pool,
				       .interfaces_count = 1,
				       .connections_max = 8,
				       .receive_window_bytes = 4096u << (first & 0x7f) % 7,
				       .reorder_mbufs_max = 24,
				       .rto_min_us = 200000,
				       .rto_max_us = 4000000,
				       .delayed_ack_us = 1000,
				       .time_wait_ms = 1000,
				       .user_timeout_ms = 20000,
				       .half_open_max = 3,
				       .unread_bytes = 16384,
				       .receive_grown_bytes = 65536,
				       .keepalive_idle_s = 60,
				       .keepalive_interval_s = 5,
				       .keepalive_probes = 2,
				       .secret = { 1, 2 },
				       .now_ns = 1000 * NET_MS };
	struct star_error err;

	w = (struct world){ .pool = w.pool, .now_ns = options.now_ns, .v6 = first & 0x80 };
	for (unsigned i = 0; i < PEERS; i++)
		w.peers[i] = (struct peer){ .port = PORT, .seq = 0xffffff00u + i };
	options.interfaces[0] = (struct net_interface_options){
		.mtu = MTU,
		.mac = own_mac,
		.addresses_count = 2,
		.addresses = { { net_address_v4(OWN_ADDRESS), 24 }, { own_address6, 64 } },
	};
	w.net = net_create(&options, &err);
	FUZZ_CHECK(w.net && tcp_listen(w.net, PORT, &handler, NULL) == 0 &&
			   net_udp_bind(w.net, PORT, on_datagram, NULL) == 0,
		   "no stack");
}

/* The peers are known, and peer 0 is connected, by the usual exchange. */
static void open_first(struct input *in)
{
	uint8_t options[TCP_OPTIONS_MAX], flags = RTE_TCP_SYN_FLAG;
	const uint8_t mss = take8(in), bytes = syn_options(mss, take8(in), options, &flags);

	introduce_peer();
	inject_segment(&(struct made_segment){
		.flags = flags, .seq = w.peers[0].seq, .window = 0xffff, .options = options, .options_bytes = bytes });
	send_frames();
	inject_segment(&(struct made_segment){
		.flags = RTE_TCP_ACK_FLAG, .seq = w.peers[0].seq, .ack = w.peers[0].ack, .window = take16(in) });
	send_frames();
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
	bool honest;

	begin(&in);
	open_first(&in);
	honest = take8(&in) & 1;
	for (unsigned i = 0; i < STEPS_MAX && input_left(&in); i++)
		step(&in);
	give_mbufs(MBUFS);
	release_frames();
	w.hold = 0;
	if (honest)
		be_honest();
	close_all();
	net_destroy(w.net);
	fuzz_pool_whole(w.pool);
	return 0;
}
