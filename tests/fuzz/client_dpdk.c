/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libstar-dpdk's side of the sessions: streams, messages and calls over a real endpoint, in one thread, with a node
 * behind another one. The input is a program: calls are made, aborted and looked at, frames are delivered, lost and
 * repeated, the node answers, refuses, closes, forgets; time passes, mbufs are short. The node of channel 0 is honest.
 * That of channel 1 knows its sessions' tokens, and in half of the programs lies in every field
 * (tests/rpc/dgram_liar.h), with requests and replies in flight: also with replies to what was really asked, whole and
 * spoiled. The input's first byte says how, and whether all goes over IPv6.
 *
 * Besides memory errors (a call's memory is freed as soon as the call has ended) it finds: a call that does not end, or
 * ends well with wrong rows; requests of an honest session out of order; an honest node that is called a liar; an mbuf
 * that is missing in the end; books that contradict each other.
 */
#include <errno.h>

#include "client_dpdk/poller.h"
#include "port/memif.h"
#include "port/memif_worker.h"
#include "tests/fuzz/client_dpdk.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/pool.h"
#include "tests/rpc/dgram_books.h"
#include "tests/rpc/dgram_liar.h"

enum {
	MBUFS = 2048,
	CHANNELS = 2,
	CALLS_MAX = 24,
	STEPS_MAX = 400,
	VIEWED_MAX = 60,
	BOOKS_EVERY = 16, /* steps between two looks at all windows */
	NODE = 0,	  /* sides */
	CLIENT = 1,
};

static struct {
	struct rte_mempool *pool;
	struct net *net; /* the client's */
	struct dgram *dgram;
	struct frames link[2]; /* by their sender */
	struct frames received;
	struct poller poller;
	struct port port;
	struct star_cluster cluster;
	struct waiter waiter;
	struct star_table table;
	struct route *routes[CHANNELS];
	struct node node;
	struct asked calls[CALLS_MAX];
	unsigned call_channel[CALLS_MAX];
	struct rte_mbuf *taken[MBUFS];
	unsigned taken_count, steps;
	uint64_t now_ns;
	bool lies, v6, wrong[CHANNELS]; /* a reply that is not the right one was sent */
} w;

static struct channel *channel_of(unsigned i)
{
	return w.routes[i]->channels[0];
}

static struct stream *stream_of(unsigned i)
{
	return channel_of(i)->datagrams;
}

static int channel_of_session(const struct dgram_session *session)
{
	for (unsigned i = 0; i < CHANNELS; i++)
		if (stream_of(i)->session && stream_of(i)->session->client == session->client)
			return (int)i;
	return -1;
}

static struct net_address address_of(int side)
{
	struct in6_addr v6 = { .s6_addr = { 0x20, 1, 0, 2, [15] = (uint8_t)(1 + side) } };

	return w.v6 ? net_address_v6(&v6) : net_address_v4(rte_cpu_to_be_32(0xc6120001u + (unsigned)side));
}

/* ---- what stands in for the port ---- */

uint16_t memif_worker_receive(struct memif_worker *worker, struct rte_mbuf **mbufs, uint16_t n)
{
	uint16_t got = 0;

	while (got < n && w.received.count)
		mbufs[got++] = frames_pick(&w.received, 0);
	return got;
}

uint16_t memif_worker_send(struct memif_worker *worker, struct rte_mbuf **mbufs, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++)
		frames_put(&w.link[CLIENT], mbufs[i]);
	return n;
}

uint16_t memif_receive(struct memif *memif, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	FUZZ_CHECK(false, "an appliance's memif");
	return 0;
}

uint16_t memif_send(struct memif *memif, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	FUZZ_CHECK(false, "an appliance's memif");
	return 0;
}

uint16_t port_packet_send(int fd, int cutting_fd, struct rte_mbuf **mbufs, uint16_t n)
{
	FUZZ_CHECK(false, "a packet socket");
	return 0;
}

uint16_t port_send_refused(const struct port *port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, uint16_t good,
			   uint64_t *refused)
{
	FUZZ_CHECK(false, "a driver");
	return 0;
}

void dpdk_poller_link(struct poller *p)
{
	p->link_ns = UINT64_MAX;
}

/* ---- and for transport.c, without its lock ---- */

static int open_stream(struct channel *ch, struct star_error *err)
{
	struct stream *s = calloc(1, sizeof(*s));

	s->ch = ch;
	s->poller = &w.poller;
	ch->datagrams = s;
	return 0;
}

static void close_stream(struct channel *ch)
{
	struct stream *s = ch->datagrams;

	dpdk_stream_close(s);
	if (s->dirty)
		TAILQ_REMOVE(&w.poller.dirty, s, link);
	free(s);
}

static const struct transport transport = { .open = open_stream, .close = close_stream };

/* ---- the link ---- */

static void node_turn(void)
{
	struct rte_mbuf *frames[32];
	unsigned n, rounds = 0;
	bool more;

	net_turn(w.node.net, w.now_ns);
	do {
		more = dgram_turn(w.node.dgram, w.now_ns);
		FUZZ_CHECK(rounds++ < 64, "a turn without an end");
		while ((n = net_output(w.node.net, frames, 32)) > 0)
			for (unsigned i = 0; i < n; i++)
				frames_put(&w.link[NODE], frames[i]);
	} while (more);
}

static void client_turn(void)
{
	w.poller.now_ns = w.now_ns;
	dpdk_poller_catch_up(&w.poller);
	FUZZ_CHECK(!w.received.count, "frames were left");
}

/* In an mbuf of its own. m: NULL for none. */
static void give(int side, struct rte_mbuf *m)
{
	if (!m)
		return;
	if (side == NODE) {
		net_input(w.node.net, &m, 1, w.now_ns);
	} else {
		frames_put(&w.received, m);
		client_turn();
	}
}

static void deliver(int side, unsigned i)
{
	struct rte_mbuf *m = frames_pick(&w.link[side], i), *copy = frames_copy(w.pool, m);

	rte_pktmbuf_free(m);
	give(!side, copy);
}

static void step_frames(struct input *in, int side)
{
	const uint8_t what = take8(in);
	struct frames *f = &w.link[side];

	if (!f->count)
		return;
	if (what < 160)
		for (unsigned n = 1 + what % 16; n && f->count; n--)
			deliver(side, 0);
	else if (what < 200)
		deliver(side, what % f->count);
	else if (what < 230)
		rte_pktmbuf_free(frames_pick(f, what % f->count));
	else
		give(!side, frames_copy(w.pool, f->at[what % f->count]));
}

static uint8_t next_byte(void *ctx)
{
	return take8(ctx);
}

/* A packet of the node to channel 1's session. */
static void lie(struct input *in)
{
	const struct liar liar = { next_byte, in, w.now_ns };
	const struct dgram_session *victim = stream_of(1)->session;
	const struct net_udp_address to = { .remote = address_of(CLIENT),
					    .local_port = take8(in) < 250 ? NODE_PORT : 9,
					    .remote_port = w.dgram->port };
	uint8_t packet[LIAR_BYTES_MAX];
	struct wire_packet head;
	struct rte_mbuf *frame;
	uint32_t body;
	uint16_t bytes;

	if (!victim)
		return;
	w.wrong[1] = true;
	bytes = liar_packet(&liar, victim, packet);
	memcpy(&head, packet, sizeof(head));
	if (head.kind == WIRE_PACKET_DATA && take8(in) & 3 &&
	    (body = node_lie(&w.node, 1, in, packet + sizeof(head), LIAR_BYTES_MAX - sizeof(head)))) {
		bytes = (uint16_t)(sizeof(head) + body);
		head.flags = (uint16_t)((head.flags & ~(WIRE_PACKET_FIRST | WIRE_PACKET_LAST)) | WIRE_PACKET_FIRST |
					(take8(in) & 7 ? WIRE_PACKET_LAST : 0));
		memcpy(packet, &head, sizeof(head));
	}
	node_turn();
	if (net_udp_send(w.node.net, &to, packet, bytes) == 0 && net_output(w.node.net, &frame, 1) == 1) {
		struct rte_mbuf *copy = frames_copy(w.pool, frame);

		rte_pktmbuf_free(frame);
		give(CLIENT, copy);
	}
}

static void pass_time(uint64_t ns)
{
	w.now_ns += ns;
	net_turn(w.node.net, w.now_ns);
	wheel_advance(net_wheel(w.node.net), w.now_ns, 1000);
	client_turn();
}

/* ---- the caller ---- */

static void make_call(struct input *in, uint8_t op)
{
	const unsigned channel = op >> 4 & 1;
	struct asked *a;
	struct call *call;
	unsigned i = 0;

	while (i < CALLS_MAX && w.calls[i].call)
		i++;
	if (i == CALLS_MAX)
		return;
	a = &w.calls[i];
	w.call_channel[i] = channel;
	asked_make(a, in, &w.table, w.routes[channel], op & 32 ? SIDES_SCALE_MAX : 1, true);
	call = a->call;
	call->waiter = &w.waiter;
	atomic_store(&call->finished, CALL_RUNS);
	call_begin(call, w.now_ns);
	if (op & 64) { /* as while another thread drives */
		dpdk_poller_post(&w.poller, call);
		return;
	}
	client_turn();
	dpdk_poller_drain(&w.poller);
	dpdk_call_start(&w.poller, call);
	if (!(op & 0x80))
		dpdk_poller_flush(&w.poller);
}

static void abort_call(unsigned i, int code)
{
	struct asked *a = &w.calls[i];

	if (!a->call)
		return;
	dpdk_poller_drain(&w.poller); /* dpdk_poller_lock does so */
	dpdk_call_abort(&w.poller, a->call, code);
	FUZZ_CHECK(a->call->finished == CALL_FINISHED, "a call that was aborted goes on");
}

/* An honest node's link fails, the node forgets and is restarted; but nothing it says is against the protocol. */
static bool may_fail_so(int code)
{
	return code == -ETIMEDOUT || code == -ECONNRESET || code == -ECANCELED || code == -ECONNREFUSED ||
	       code == -EBUSY || code == -ESTALE || code == -EHOSTUNREACH || code == -ENOMEM || code == -EREMOTEIO;
}

/* What has ended is looked at, and freed at once: of those with views only when views go, too. */
static void end_calls(bool views_too)
{
	for (unsigned i = 0; i < CALLS_MAX; i++) {
		struct asked *a = &w.calls[i];
		const unsigned channel = w.call_channel[i];

		if (!a->call || a->call->finished != CALL_FINISHED)
			continue;
		FUZZ_CHECK(a->call->remaining == 0, "%u parts are left", a->call->remaining);
		FUZZ_CHECK(channel || w.wrong[0] || !a->call->error.code || may_fail_so(a->call->error.code),
			   "an honest node: %s", a->call->error.text);
		if (!views_too && (a->views[0] || a->views[1] || a->views[2]))
			continue;
		if (!a->call->error.code && TAILQ_EMPTY(&a->call->stale) && !w.wrong[channel])
			asked_check(a);
		asked_free(a);
	}
}

/* ---- the program ---- */

static void check_books(bool all)
{
	const struct dgram *sides[] = { w.node.dgram, w.dgram };

	for (int side = 0; side < 2; side++) {
		const char *wrong = books_wrong(sides[side]);

		if (!wrong && all)
			wrong = books_of_pools(sides[side]);
		FUZZ_CHECK(!wrong, "side %d: %s", side, wrong);
	}
}

static void step_node(struct input *in)
{
	const uint8_t what = take8(in);
	struct node_session *n = &w.node.sessions[what % NODE_SESSIONS];

	if (what < 200) {
		node_answer(n, what >= 192);
	} else if (what < 230) {
		const int channel = node_spoil(n, in);

		if (channel >= 0)
			w.wrong[channel] = true;
	} else if (what < 248) {
		node_close(n);
	} else {
		node_restart(&w.node, what & 1);
	}
}

static void step_mbufs(struct input *in, bool take)
{
	for (unsigned n = take ? take16(in) % MBUFS : 0;
	     n && w.taken_count < MBUFS && (w.taken[w.taken_count] = rte_pktmbuf_alloc(w.pool)); n--)
		w.taken_count++;
	while (!take && w.taken_count)
		rte_pktmbuf_free(w.taken[--w.taken_count]);
}

static void step(struct input *in)
{
	const uint8_t op = take8(in);

	switch (op & 15) {
	case 0:
	case 1:
	case 2:
		make_call(in, op);
		break;
	case 3:
	case 4:
	case 5:
		step_frames(in, op >> 4 & 1);
		break;
	case 6:
	case 7:
	case 8:
	case 9:
		if (w.lies)
			lie(in);
		else
			step_frames(in, op & 1);
		break;
	case 10:
	case 11:
		step_node(in);
		break;
	case 12:
		pass_time(UINT64_C(1000) << (take8(in) & 31) % 24);
		break;
	case 13:
		abort_call(take8(in) % CALLS_MAX, op & 16 ? -ETIMEDOUT : -ECANCELED);
		break;
	case 14:
		step_mbufs(in, op & 16);
		break;
	default:
		end_calls(true);
	}
	if (op < 0xc0) {
		node_turn();
		client_turn();
	}
	end_calls(false);
	check_books(++w.steps % BOOKS_EVERY == 0);
}

/* ---- the end ---- */

/* The link loses nothing any more, and the node answers: what was asked of an honest one ends. */
static void be_good(void)
{
	const uint64_t end_ns = w.now_ns + 30000 * DGRAM_MS;

	step_mbufs(NULL, false);
	end_calls(true);
	for (bool busy = true; busy && w.now_ns < end_ns;) {
		uint64_t next = end_ns;

		for (unsigned i = 0; i < NODE_SESSIONS; i++)
			while (node_answer(&w.node.sessions[i], false))
				;
		node_turn();
		client_turn();
		for (int side = 0; side < 2; side++)
			while (w.link[side].count)
				deliver(side, 0);
		next = RTE_MIN(next, wheel_next(net_wheel(w.node.net)));
		next = RTE_MIN(next, wheel_next(net_wheel(w.net)));
		next = RTE_MIN(next, dgram_next_ns(w.node.dgram));
		next = RTE_MIN(next, dgram_next_ns(w.dgram));
		pass_time(next > w.now_ns + 20 * DGRAM_US ? next - w.now_ns : 20 * DGRAM_US);
		end_calls(true);
		busy = false;
		for (unsigned i = 0; i < CALLS_MAX; i++)
			busy |= w.calls[i].call && w.call_channel[i] == 0;
	}
	for (unsigned i = 0; i < CALLS_MAX; i++)
		FUZZ_CHECK(!w.calls[i].call || w.call_channel[i], "a call to an honest node does not end");
	for (unsigned i = 0; i < CALLS_MAX; i++)
		abort_call(i, -ETIMEDOUT);
	end_calls(true);
	check_books(true);
}

static struct net *make_stack(int side)
{
	struct net_options o = { .pool = w.pool,
				 .interfaces_count = 1,
				 .connections_max = 1,
				 .rto_min_us = 200000,
				 .rto_max_us = 4000000,
				 .secret = { 1, 2 },
				 .now_ns = w.now_ns };
	struct star_error err;
	struct net *net;

	o.interfaces[0] = (struct net_interface_options){
		.mtu = 1500,
		.mac = { { 2, 0, 0, 0, 0, (uint8_t)(1 + side) } },
		.addresses_count = 1,
		.addresses = { { address_of(side), w.v6 ? 64 : 24 } },
	};
	net = net_create(&o, &err);
	FUZZ_CHECK(net, "no stack: %s", err.text);
	return net;
}

/* As setup.c, but for what the input makes small. */
static void make_client(uint8_t first)
{
	const struct dgram_options o = { .net = w.net,
					 .sessions_max = 8,
					 .active_max =
						 CHANNELS + (first & 1) * 2, /* a liar may keep its window for ever */
					 .window_max = 4u << (first >> 1 & 7),
					 .credits = first & 16 ? 5 : 200,
					 .held_mbufs_max = first & 32 ? 20 : 500,
					 .message_max = sizeof(struct wire_frame) + WIRE_PAYLOAD_MAX,
					 .rto_min_ns = 50000,
					 .rto_max_ns = 1000 * DGRAM_MS,
					 .lease_ns = 10000 * DGRAM_MS,
					 .heartbeat_ns = 1000 * DGRAM_MS,
					 .ack_delay_ns = ACK_DELAY_NS,
					 .target_delay_ns = 2 * DOZE_MAX_NS,
					 .secret = { 5, 6 },
					 .handler = &dpdk_stream_handler };
	struct star_error err;

	w.dgram = dgram_create(&o, &err);
	FUZZ_CHECK(w.dgram, "no endpoint: %s", err.text);
	w.port = (struct port){ .id = RTE_MAX_ETHPORTS };
	w.poller = (struct poller){ .port = &w.port,
				    .net = w.net,
				    .dgram = w.dgram,
				    .pool = w.pool,
				    .now_ns = w.now_ns,
				    .viewed_max = VIEWED_MAX };
	TAILQ_INIT(&w.poller.dirty);
	for (unsigned i = 0; i < CHANNELS; i++) {
		w.routes[i]->channels[0] =
			client_channel_create(&w.cluster, i, 0, NODE_INCARNATION, w.v6 ? "2001:2::1" : "198.18.0.1",
					      NODE_PORT, &w.waiter, &err);
		FUZZ_CHECK(w.routes[i]->channels[0], "no channel: %s", err.text);
		prng_seed(&channel_of(i)->prng, i);
	}
}

static void begin(uint8_t first)
{
	w.now_ns = 1000 * DGRAM_MS;
	w.steps = 0;
	w.v6 = first & 64;
	w.lies = first & 128;
	w.wrong[0] = w.wrong[1] = false;
	w.node.net = make_stack(NODE);
	w.net = make_stack(CLIENT);
	w.node.incarnation = NODE_INCARNATION;
	w.node.starts = 0;
	make_client(first);
	node_start(&w.node);
}

static void end(void)
{
	for (unsigned i = 0; i < CHANNELS; i++) {
		FUZZ_CHECK(channel_of(i)->live == 0, "%u parts live on", channel_of(i)->live);
		client_channel_destroy(channel_of(i));
	}
	dpdk_poller_reclaim(&w.poller);
	FUZZ_CHECK(w.poller.viewed == 0, "%u mbufs in views", w.poller.viewed);
	dgram_destroy(w.dgram);
	dgram_destroy(w.node.dgram);
	for (int side = 0; side < 2; side++)
		frames_free(&w.link[side]);
	net_destroy(w.net);
	net_destroy(w.node.net);
	fuzz_pool_whole(w.pool);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	fuzz_eal();
	w.pool = fuzz_pool(MBUFS);
	pthread_mutex_init(&w.cluster.lock, NULL);
	w.node.channel_of = channel_of_session;
	w.cluster.transport = &transport;
	w.cluster.transport_state = &w.poller;
	w.cluster.connect_timeout_ns = 5000 * DGRAM_MS;
	w.cluster.pull_bytes = 32 << 10;
	sides_table(&w.table, &w.cluster);
	for (unsigned i = 0; i < CHANNELS; i++) {
		w.routes[i] = calloc(1, sizeof(*w.routes[i]) + sizeof(w.routes[i]->channels[0]));
		FUZZ_CHECK(w.routes[i], "no memory");
		w.routes[i]->epoch = 3;
		w.routes[i]->partitions = 16;
		w.routes[i]->reactors = 1;
		w.routes[i]->payload_max = WIRE_PAYLOAD_DEFAULT;
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, data + bytes };

	begin(take8(&in));
	for (unsigned i = 0; i < STEPS_MAX && input_left(&in); i++)
		step(&in);
	be_good();
	end();
	return 0;
}
