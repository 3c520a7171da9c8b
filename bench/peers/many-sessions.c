/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's host with very many sessions to one reactor, of which few do anything: opens them all over the port of a
 * worker's file, then keeps one pull of one row in flight on each of the busy ones, which stand evenly among the
 * others. Rate and latency as JSON. Its end of each session is the library's own (rpc/datagram.h); one thread, which
 * polls.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "app/starbench/histogram.h"
#include "base/clock.h"
#include "base/crc32.h"
#include "base/prng.h"
#include "config/config.h"
#include "jsonrpc/jsonrpc.h"
#include "jsonrpc/object_json.h"
#include "port/port.h"
#include "rpc/datagram.h"

enum {
	EXIT_USAGE = 2,
	SESSIONS_MAX = 1 << 16,
	OPENING_MAX = 64, /* at once */
	CLOSING_MAX = 16, /* in a turn */
	TIMERS_MAX = 256, /* in a turn */
	KEYS = 10000,
	DIM = 16,
	WINDOW = 64,
};
static const uint64_t second_ns = 1000000000, deadline_us = 5000000, warm_up_ns = 300000000;

struct request {
	struct wire_frame frame;
	struct wire_op op;
	uint64_t key;
};

struct session {
	struct dgram_session *dgram;
	uint64_t sequence; /* of the last request */
	uint64_t sent_ns;
	uint32_t key;
	bool ready; /* may send */
	bool busy;
	struct session *next; /* of those that are ready */
};

static struct {
	struct config *config;
	struct rte_mempool *pool;
	struct port *port;
	struct net *net;
	struct dgram *dgram;
	struct layout *layout;
	struct object_spec table;
	struct session sessions[SESSIONS_MAX];
	struct session *ready;
	uint32_t opened;
	bool counts; /* the time that is measured */
	uint64_t pulls, now_ns;
	float first[KEYS]; /* of each row: its first element */
	bool seen[KEYS];
	struct prng prng;
	struct histogram latency;
} b;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "many-sessions: %s\n", what);
	exit(EXIT_FAILURE);
}

/* ---- requests ---- */

static void make_ready(struct session *s)
{
	if (s->ready || !s->busy)
		return;
	s->ready = true;
	s->next = b.ready;
	b.ready = s;
}

static bool ask(struct session *s)
{
	struct rte_mbuf *m = dgram_alloc(s->dgram);
	struct request r = { .frame = { .magic = WIRE_MAGIC,
					.version = WIRE_VERSION,
					.opcode = WIRE_EXECUTE,
					.session = (uint64_t)(s - b.sessions) + 1,
					.sequence = s->sequence + 1,
					.epoch = b.layout->epoch,
					.incarnation = b.layout->nodes[0].incarnation,
					.deadline_us = (uint32_t)deadline_us,
					.payload_bytes = sizeof(r) - sizeof(r.frame) },
			     .op = { .kind = WIRE_PULL,
				     .result_dtype = STAR_FLOAT32,
				     .object = b.table.id,
				     .count = 1,
				     .dim = DIM,
				     .body_bytes = sizeof(r.key) } };

	if (!m)
		return false;
	s->sequence++;
	s->key = (uint32_t)prng_below(&b.prng, KEYS);
	s->sent_ns = b.now_ns;
	r.key = s->key;
	r.frame.checksum = base_crc32(&r, sizeof(r));
	memcpy(rte_pktmbuf_append(m, sizeof(r)), &r, sizeof(r));
	dgram_send(s->dgram, m);
	return true;
}

/* The row is the one that was read first; the checksum of what memory has carried is left to other benches. */
static void check(const struct session *s, const char *reply, uint32_t bytes)
{
	struct wire_frame frame;
	float first;

	if (bytes < sizeof(frame))
		fail("a reply is too short");
	memcpy(&frame, reply, sizeof(frame));
	if (frame.status != WIRE_OK)
		fail(wire_status_text(frame.status));
	if (frame.sequence != s->sequence || bytes != sizeof(frame) + sizeof(struct wire_result) + DIM * sizeof(float))
		fail("a reply is not that of its request");
	memcpy(&first, reply + sizeof(frame) + sizeof(struct wire_result), sizeof(first));
	if (!b.seen[s->key]) {
		b.first[s->key] = first;
		b.seen[s->key] = true;
	} else if (b.first[s->key] != first) {
		fail("a row is not what it was");
	}
}

/* ---- what sessions say ---- */

static void connected(void *user, bool resumed, uint32_t incarnation)
{
	if (resumed)
		fail("a session had gone silent");
	b.opened++;
}

static void received(void *user, struct rte_mbuf *m, uint32_t bytes, enum wire_status status)
{
	struct session *s = user;

	if (status != WIRE_OK || m->next)
		fail("a reply is too large");
	check(s, rte_pktmbuf_mtod(m, const char *), bytes);
	if (b.counts) {
		histogram_record(&b.latency, b.now_ns - s->sent_ns);
		b.pulls++;
	}
	rte_pktmbuf_free(m);
	dgram_taken(s->dgram, 1);
	make_ready(s);
}

static void acknowledged(void *user)
{
}

static void closed(void *user, int reason)
{
	fprintf(stderr, "many-sessions: session %zu of %u that are open has ended: %s\n",
		(struct session *)user - b.sessions, b.opened, strerror(reason));
	exit(EXIT_FAILURE);
}

static const struct dgram_handler handler = {
	.connected = connected, .received = received, .acknowledged = acknowledged, .closed = closed
};

/* ---- set up ---- */

static void ask_control(void)
{
	struct star_error err = { 0 };
	const struct config_address_text address = config_show(b.config->ps[0].host, b.config->ps[0].port);
	struct jsonrpc_client *client = jsonrpc_connect(address.text, deadline_us, &err);
	json_t *answer;

	b.table = (struct object_spec){
		.kind = OBJECT_TABLE, .dtype = STAR_FLOAT32, .dim = DIM, .name = "many-sessions"
	};
	wire_object_spec_defaults(&b.table, OPTIM_SGD);
	b.table.initializer = OBJECT_UNIFORM;
	b.table.scale = 1;
	if (!client)
		fail(err.text);
	answer = jsonrpc_call(client, "create", jsonrpc_object_encode(&b.table), deadline_us, &err);
	if (!answer || jsonrpc_object_decode(answer, &b.table, &err) < 0)
		fail(err.text);
	json_decref(answer);
	answer = jsonrpc_call(client, "layout", NULL, deadline_us, &err);
	b.layout = answer ? jsonrpc_layout_decode(answer, &err) : NULL;
	if (!b.layout)
		fail(err.text);
	json_decref(answer);
	jsonrpc_close(client);
	if (b.layout->reactors != 1)
		fail("the appliance has several reactors, and all sessions shall be one's");
}

static struct net_address address_of(const char *host)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, host, &v4) != 1)
		fail("an address is not an IPv4 address");
	return net_address_v4(v4.s_addr);
}

static void random_bytes(void *to, size_t bytes)
{
	if (getrandom(to, bytes, 0) != (ssize_t)bytes)
		fail("the kernel gives no random numbers");
}

static void make_net(void)
{
	const struct config_port *port = &b.config->ports[0];
	struct star_error err = { 0 };
	struct net_options o = { .interfaces_count = 1,
				 .connections_max = 1,
				 .receive_window_bytes = 1 << 16,
				 .rto_min_us = 200000,
				 .rto_max_us = 60000000,
				 .delayed_ack_us = 1000,
				 .time_wait_ms = 1000,
				 .user_timeout_ms = 30000,
				 .now_ns = clock_ns() };

	if (port_eal_start(b.config, port_mempool_bytes(b.config->mbufs, port->mtu), &err) < 0)
		fail(err.text);
	b.pool = port_mempool_create(0, b.config->mbufs, port->mtu, &err);
	b.port = b.pool ? port_open(port, 0, &b.pool, 1, 0, &err) : NULL;
	if (!b.port)
		fail(err.text);
	o.pool = b.pool;
	o.interfaces[0] = (struct net_interface_options){ .port = b.port->id,
							  .mtu = b.port->mtu,
							  .mac = b.port->mac,
							  .addresses_count = 1,
							  .addresses = { { address_of(port->addresses[0].host),
									   port->addresses[0].prefix } } };
	random_bytes(o.secret, sizeof(o.secret));
	b.net = net_create(&o, &err);
	if (!b.net)
		fail(err.text);
}

/* As a worker's (client_dpdk/setup.c), but for the number of sessions. */
static void make_dgram(uint32_t sessions)
{
	struct star_error err = { 0 };
	struct dgram_options o = { .net = b.net,
				   .sessions_max = sessions,
				   .active_max = sessions,
				   .window_max = WINDOW,
				   .credits = b.config->credits,
				   .held_mbufs_max = b.config->mbufs / 2,
				   .message_max = sizeof(struct wire_frame) + WIRE_PAYLOAD_DEFAULT,
				   .rto_min_ns = 1000000,
				   .rto_max_ns = second_ns,
				   .lease_ns = 10 * second_ns,
				   .heartbeat_ns = second_ns,
				   .ack_delay_ns = 100000,
				   .target_delay_ns = 10000000, /* 256 that wait for one reactor are no congestion */
				   .handler = &handler };

	random_bytes(o.secret, sizeof(o.secret));
	b.dgram = dgram_create(&o, &err);
	if (!b.dgram)
		fail(err.text);
}

/* ---- the loop ---- */

static void send_frames(struct rte_mbuf **frames, unsigned n)
{
	const uint64_t gives_up = b.now_ns + second_ns;
	unsigned sent = 0;

	while (sent < n) {
		sent += port_send(b.port, 0, frames + sent, (uint16_t)(n - sent));
		if (sent < n && clock_ns() > gives_up)
			fail("the appliance takes no frames");
	}
}

static void turn(void)
{
	struct rte_mbuf *frames[PORT_BURST];
	unsigned n = port_receive(b.port, 0, frames, PORT_BURST);
	struct session *s;
	bool more;

	b.now_ns = clock_ns();
	if (n)
		net_input(b.net, frames, n, b.now_ns);
	else
		net_turn(b.net, b.now_ns);
	wheel_advance(net_wheel(b.net), b.now_ns, TIMERS_MAX);
	while ((s = b.ready) && ask(s)) {
		b.ready = s->next;
		s->ready = false;
	}
	do {
		more = dgram_turn(b.dgram, b.now_ns);
		while ((n = net_output(b.net, frames, PORT_BURST)))
			send_frames(frames, n);
	} while (more);
}

static void wait_for_link(void)
{
	const uint64_t gives_up = clock_ns() + 10 * second_ns;

	while (!port_link(b.port))
		if (clock_ns() > gives_up)
			fail("the appliance does not answer at the memif");
	b.now_ns = clock_ns();
	net_turn(b.net, b.now_ns);
}

static double open_all(uint32_t sessions)
{
	const struct net_address to = address_of(b.layout->nodes[0].data_host);
	const uint64_t begun = clock_ns();
	struct star_error err;

	for (uint32_t i = 0; b.opened < sessions;) {
		while (i < sessions && i - b.opened < OPENING_MAX) {
			struct session *s = &b.sessions[i++];

			s->dgram = dgram_open(b.dgram, &to, b.layout->nodes[0].data_port, s, NULL, &err);
			if (!s->dgram)
				fail(err.text);
		}
		turn();
		if (b.now_ns - begun > 30 * second_ns)
			fail("the sessions cannot be opened within 30 s");
	}
	return (double)(clock_ns() - begun) * 1e-9;
}

/* Each is told, so that the next run finds room. */
static void close_all(uint32_t sessions)
{
	uint64_t until;

	for (uint32_t i = 0; i < sessions; i++) {
		dgram_close(b.sessions[i].dgram);
		if (i % CLOSING_MAX == 0)
			turn();
	}
	until = clock_ns() + warm_up_ns / 10;
	do
		turn();
	while (b.now_ns < until);
}

static void run_until(uint64_t until)
{
	do
		turn();
	while (b.now_ns < until);
}

static void measure(uint32_t sessions, uint32_t busy, double seconds)
{
	for (uint32_t i = 0; i < busy; i++) {
		struct session *s = &b.sessions[(uint64_t)i * sessions / busy];

		s->busy = true;
		make_ready(s);
	}
	run_until(clock_ns() + warm_up_ns);
	b.counts = true;
	run_until(clock_ns() + (uint64_t)(seconds * 1e9));
	b.counts = false;
	b.ready = NULL;
	for (uint32_t i = 0; i < sessions; i++)
		b.sessions[i].busy = false;
}

int main(int argc, char **argv)
{
	const long sessions = argc == 5 ? strtol(argv[2], NULL, 10) : 0,
		   busy = argc == 5 ? strtol(argv[3], NULL, 10) : 0;
	const double seconds = argc == 5 ? strtod(argv[4], NULL) : 0;
	struct star_error err = { 0 };
	double opening_s;

	if (busy < 1 || sessions < busy || sessions > SESSIONS_MAX || !(seconds > 0 && seconds < 1000)) {
		fprintf(stderr, "usage: many-sessions FILE SESSIONS BUSY SECONDS\n"
				"FILE is a worker's; BUSY of at most 65536 SESSIONS pull\n");
		return EXIT_USAGE;
	}
	b.config = config_load_worker(argv[1], &err);
	if (!b.config)
		fail(err.text);
	prng_seed(&b.prng, 1);
	ask_control();
	make_net();
	make_dgram((uint32_t)sessions);
	wait_for_link();
	opening_s = open_all((uint32_t)sessions);
	measure((uint32_t)sessions, (uint32_t)busy, seconds);
	close_all((uint32_t)sessions);
	printf("{\"rate\":%.1f,\"p50_us\":%.3f,\"p99_us\":%.3f,\"opening_s\":%.3f,\"retransmitted\":%llu}\n",
	       (double)b.pulls / seconds, histogram_quantile(&b.latency, 0.5) * 1e-3,
	       histogram_quantile(&b.latency, 0.99) * 1e-3, opening_s,
	       (unsigned long long)dgram_counters(b.dgram)->retransmitted);
	dgram_destroy(b.dgram);
	net_destroy(b.net);
	port_close(b.port);
	free(b.layout);
	config_free(b.config);
	return EXIT_SUCCESS;
}
