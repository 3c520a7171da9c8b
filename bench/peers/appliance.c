/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/peers/appliance.h"

#include <errno.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "bench/peers/appliance_stream.h"
#include "port/port.h"
#include "rpc/rpc.h"

enum {
	MBUFS = 8191, /* of each side, */
	WORKERS = 64, /* and workers, where no more are asked for */
	MTU = 1500,
	EPOCH = 1,
	INCARNATION = 7,
	PATIENCE_US = 60000000, /* a machine that stands still for seconds is no fault of the appliance */
	BURSTS = 4,		/* that a reactor takes in a turn */
	FRAMES = BURSTS * PORT_BURST,
};

struct side {
	struct rte_mempool *pool;
	struct net *net;
};

/* A door of the one shard, at a port of its own, and the worker's session there. */
struct way {
	struct rpc_server *rpc;
	struct secure_tickets *tickets; /* NULL: it takes none */
	struct dgram_session *session;
	struct dgram_ticket ticket; /* the session's */
	struct dgram_seal *seal;    /* memory for its keys; NULL: it has none */
	uint64_t sequence;	    /* of the worker there, while it is another one's turn */
};

static struct {
	struct appliance *a;
	struct side server, worker;
	struct way ways[APPLIANCE_WAYS], *way; /* and the one whose turn it is */
	struct dgram *dgram;
	uint64_t turn_cycles; /* that the last turn took */
} rig = { .way = rig.ways };

void appliance_fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
	exit(EXIT_FAILURE);
}

/* ---- both sides ---- */

static void make_net(struct side *side, unsigned index)
{
	const struct rte_ether_addr mac = { { 2, 0, 0, 0, 0, (uint8_t)(index + 1) } };
	struct star_error err = { 0 };
	struct net_options o = {
		.interfaces_count = 1,
		.connections_max = rig.a->workers + 1,
		.receive_window_bytes = 256 * 1024,
		.rto_min_us = 200000,
		.rto_max_us = 60000000,
		.delayed_ack_us = 1000,
		.time_wait_ms = 1000,
		.user_timeout_ms = 30000,
		.secret = { 1 + index, 2 },
		.now_ns = clock_ns(),
	};

	side->pool = port_mempool_create(index, rig.a->mbufs, MTU, &err);
	if (!side->pool)
		appliance_fail(err.text);
	o.pool = side->pool;
	o.interfaces[0] = (struct net_interface_options){
		.mtu = MTU,
		.mac = mac,
		.addresses_count = 1,
		.addresses = { { net_address_v4(rte_cpu_to_be_32(APPLIANCE_ADDRESS + index)), 24 } },
		.offloads = rig.a->memory		  ? OFFLOAD_MEMORY
			    : rig.a->stream && index == 0 ? OFFLOAD_TX_SEGMENTS | OFFLOAD_TX_TSO
							  : 0,
		.tso_bytes = UINT16_MAX,
		.tso_segments = 16,
	};
	side->net = net_create(&o, &err);
	if (!side->net)
		appliance_fail(err.text);
}

static struct dgram_options sessions(void)
{
	return (struct dgram_options){
		.incarnation = INCARNATION,
		.sessions_max = rig.a->workers,
		.active_max = RTE_MIN(rig.a->workers, 1024u),
		.window_max = 256,
		.credits = 512,
		.held_mbufs_max = rig.a->mbufs / 2,
		.message_max = sizeof(struct wire_frame) + WIRE_PAYLOAD_DEFAULT,
		.rto_min_ns = 50000000, /* the worker stands still while the server is measured, and the reverse */
		.rto_max_ns = UINT64_C(1000000000),
		.lease_ns = PATIENCE_US * UINT64_C(1000),
		.heartbeat_ns = UINT64_C(1000000000),
		.ack_delay_ns = 100000,
		.target_delay_ns = 50000,
		.secret = { 3, 4 },
	};
}

static const struct object_spec look_up = {
	.id = APPLIANCE_PROGRAM,
	.kind = OBJECT_PROGRAM,
	.program = { .version = PROGRAM_VERSION,
		     .count = 3,
		     .nodes = { { .op = PROGRAM_KEYS, .object = APPLIANCE_TABLE, .dim = APPLIANCE_DIM },
				{ .op = PROGRAM_LOOKUP },
				{ .op = PROGRAM_FETCH, .a = 1 } } },
};

static void make_way(struct appliance *a, unsigned index)
{
	struct way *way = &rig.ways[index];
	struct star_error err = { 0 };
	struct rpc_server_options o = {
		.net = rig.server.net,
		.port = (uint16_t)(APPLIANCE_PORT + index),
		.streams_max = a->workers,
		.datagrams = sessions(),
		.payload_max = WIRE_PAYLOAD_DEFAULT,
		.send_queue_bytes = 1 << 20,
		.held_mbufs_max = a->mbufs / 2,
		.stall_ns = UINT64_C(30000000000),
		.service = service_rpc(a->service),
	};

	if (index) {
		way->tickets =
			secure_tickets_create(index == APPLIANCE_SEALED ? SECURE_DATA_SEALED : SECURE_DATA_CHECKED,
					      &err);
		way->seal = aligned_alloc(64, RTE_ALIGN(dgram_seal_bytes(), 64));
		if (!way->tickets || !way->seal)
			appliance_fail(way->tickets ? "no memory for keys" : err.text);
		memset(way->seal, 0, dgram_seal_bytes());
		o.tickets = way->tickets;
	}
	way->rpc = rpc_server_create(&o, &err);
	if (!way->rpc)
		appliance_fail(err.text);
	rpc_server_set_layout(way->rpc, EPOCH, INCARNATION);
}

static void make_server(struct appliance *a, const struct store_snapshot_options *snapshots)
{
	void *arena = mmap(NULL, APPLIANCE_ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct star_error err = { 0 };

	if (arena == MAP_FAILED)
		appliance_fail("no memory for the rows");
	madvise(arena, APPLIANCE_ARENA_BYTES, MADV_HUGEPAGE);
	a->spec = (struct object_spec){
		.id = APPLIANCE_TABLE, .kind = OBJECT_TABLE, .dtype = STAR_FLOAT32, .dim = APPLIANCE_DIM, .name = "rows"
	};
	wire_object_spec_defaults(&a->spec, OPTIM_ADAGRAD);
	if (wire_object_spec_options(&a->spec, "initializer=uniform, scale=1", &err) < 0 ||
	    wire_object_spec_check(&a->spec, &err) < 0)
		appliance_fail(err.text);
	a->store = store_create(arena, APPLIANCE_ARENA_BYTES, &err);
	if (!a->store || (snapshots && store_snapshot_init(a->store, snapshots, &err) < 0))
		appliance_fail(err.text);
	a->service = service_create(&(struct service_options){ .incarnation = INCARNATION,
							       .partitions = APPLIANCE_PARTITIONS,
							       .store = a->store,
							       .payload_max = WIRE_PAYLOAD_DEFAULT,
							       .share = 1,
							       .rights = a->keyed ? rpc_request_rights : NULL },
				    &err);
	if (!a->service || service_install(a->service, &a->spec, &err) < 0 ||
	    service_install(a->service, &look_up, &err) < 0)
		appliance_fail(err.text);
	service_set_layout(a->service, EPOCH, 0, APPLIANCE_PARTITIONS);
	for (unsigned i = 0; i < (a->keyed ? (unsigned)APPLIANCE_WAYS : 1); i++)
		make_way(a, i);
}

/* ---- the worker ---- */

static void worker_connected(void *user, bool resumed, uint32_t incarnation)
{
}

static void worker_received(void *user, struct rte_mbuf *m, uint32_t bytes, enum wire_status status)
{
	struct wire_frame frame; /* in the mbuf it may lie anywhere */
	uint32_t mbufs = 0;

	/* Several small replies may share a packet. */
	for (uint32_t at = 0; at < m->data_len; at += (uint32_t)sizeof(frame) + wire_padded(frame.payload_bytes)) {
		memcpy(&frame, rte_pktmbuf_mtod_offset(m, const void *, at), sizeof(frame));
		rig.a->answered++;
		if (status != WIRE_OK || frame.status != WIRE_OK || frame.sequence != rig.a->answered)
			rig.a->bad++;
	}
	for (struct rte_mbuf *next; m; m = next, mbufs++) {
		next = m->next;
		m->next = NULL;
		rte_pktmbuf_free(m);
	}
	dgram_taken(((struct way *)user)->session, mbufs);
}

static void worker_acknowledged(void *user)
{
}

static void worker_closed(void *user, int reason)
{
	appliance_fail("the session has ended");
}

/* A ticket that is there already, and a random number of this attempt's own. */
static bool worker_ticket(void *user, struct dgram_ticket *ticket)
{
	static uint64_t attempts;
	struct way *way = user;

	*ticket = way->ticket;
	attempts++;
	memcpy(ticket->random, &attempts, sizeof(attempts));
	return true;
}

static void worker_refused(void *user)
{
	appliance_fail("the ticket was not taken");
}

static const struct dgram_handler worker_handler = {
	.connected = worker_connected,
	.received = worker_received,
	.acknowledged = worker_acknowledged,
	.closed = worker_closed,
	.ticket = worker_ticket,
	.refused = worker_refused,
};

struct dgram *appliance_sessions(struct appliance *a, const struct dgram_handler *handler)
{
	struct dgram_options o = sessions();
	struct star_error err = { 0 };

	o.net = rig.worker.net;
	o.handler = handler;
	o.credits *= a->workers; /* each has a receive ring of its own */
	rig.dgram = dgram_create(&o, &err);
	if (!rig.dgram)
		appliance_fail(err.text);
	return rig.dgram;
}

static void open_session(struct way *way)
{
	const struct net_address to = net_address_v4(rte_cpu_to_be_32(APPLIANCE_ADDRESS));
	const uint16_t port = (uint16_t)(APPLIANCE_PORT + (way - rig.ways));
	struct star_error err = { 0 };

	way->session = dgram_open(rig.dgram, &to, port, way, way->seal, &err);
	if (!way->session)
		appliance_fail(err.text);
}

static void make_worker(struct appliance *a)
{
	const struct secure_key principal = { .principal = "job1", .role = SECURE_WORKER, .id = "00000001" };
	struct star_error err = { 0 };

	appliance_sessions(a, &worker_handler);
	for (struct way *way = rig.ways; way < rig.ways + APPLIANCE_WAYS && way->rpc; way++) {
		if (way->tickets && secure_tickets_issue(way->tickets, &principal, clock_ns(), &way->ticket.ticket,
							 way->ticket.secret, &err) < 0)
			appliance_fail(err.text);
		open_session(way);
	}
}

void appliance_use(struct appliance *a, enum appliance_way way)
{
	rig.way->sequence = a->sequence;
	rig.way = &rig.ways[way];
	a->sequence = a->answered = rig.way->sequence;
}

void appliance_reopen(struct appliance *a)
{
	dgram_close(rig.way->session);
	open_session(rig.way);
}

/* Sends a message as the session's packets carry it. */
static void send_message(const uint8_t *message, uint32_t bytes)
{
	const uint32_t each = dgram_payload(rig.way->session);
	struct rte_mbuf *first = NULL, **last = &first;

	for (uint32_t at = 0; at < bytes; at += each, last = &(*last)->next) {
		const uint32_t n = RTE_MIN(bytes - at, each);
		char *to;

		*last = dgram_alloc(rig.way->session);
		to = *last ? rte_pktmbuf_append(*last, (uint16_t)n) : NULL;
		if (!to)
			appliance_fail("no mbuf");
		memcpy(to, message + at, n);
	}
	dgram_send(rig.way->session, first);
}

uint32_t appliance_fill(uint64_t session, uint64_t sequence, enum wire_op_kind kind, const uint64_t *keys, uint32_t n,
			const uint8_t **filled)
{
	static uint8_t message[sizeof(struct wire_frame) + sizeof(struct wire_op) + sizeof(uint64_t) +
			       APPLIANCE_KEYS_MAX * (sizeof(uint64_t) + APPLIANCE_DIM * sizeof(float))];
	struct wire_frame frame = { .magic = WIRE_MAGIC,
				    .version = WIRE_VERSION,
				    .opcode = WIRE_EXECUTE,
				    .flags = rig.a->flags,
				    .session = session,
				    .sequence = sequence,
				    .epoch = EPOCH,
				    .incarnation = INCARNATION,
				    .deadline_us = PATIENCE_US };
	struct wire_op op = { .kind = (uint8_t)kind,
			      .dtype = kind == WIRE_PUSH ? STAR_FLOAT32 : 0,
			      .result_dtype = kind == WIRE_PULL ? STAR_FLOAT32 : 0,
			      .object = kind == WIRE_RUN ? APPLIANCE_PROGRAM : APPLIANCE_TABLE,
			      .count = n,
			      .dim = kind == WIRE_RUN ? 0 : APPLIANCE_DIM };
	uint8_t *body = message + sizeof(frame) + sizeof(op);

	op.body_bytes = (uint32_t)(kind == WIRE_RUN ? sizeof(uint64_t) * (n + 1) : wire_op_bytes(&op));
	frame.payload_bytes = (uint32_t)sizeof(op) + wire_padded(op.body_bytes);
	memset(body, 0, op.body_bytes);
	memcpy(message + sizeof(frame), &op, sizeof(op));
	if (kind == WIRE_RUN) {
		memcpy(body, &n, sizeof(n));
		body += sizeof(uint64_t);
	}
	memcpy(body, keys, n * sizeof(*keys));
	frame.checksum = wire_checksum(&frame, message + sizeof(frame), frame.payload_bytes);
	memcpy(message, &frame, sizeof(frame));
	*filled = message;
	return (uint32_t)sizeof(frame) + frame.payload_bytes;
}

void appliance_ask(struct appliance *a, enum wire_op_kind kind, const uint64_t *keys, uint32_t n)
{
	const uint8_t *message;
	const uint32_t bytes = appliance_fill(1, ++a->sequence, kind, keys, n, &message);

	if (a->stream)
		appliance_stream_send(message, bytes);
	else
		send_message(message, bytes);
}

/* ---- the cable ---- */

/* Moves frames over, as a driver would: into mbufs of the other side. */
static unsigned carry(struct rte_mbuf **frames, unsigned n, struct side *to)
{
	for (unsigned i = 0; i < n; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(to->pool);

		if (!m)
			appliance_fail("no mbuf");
		memcpy(rte_pktmbuf_append(m, frames[i]->data_len), rte_pktmbuf_mtod(frames[i], void *),
		       frames[i]->data_len);
		rte_pktmbuf_free(frames[i]);
		frames[i] = m;
	}
	return n;
}

/* The server's turn, in one piece for profilers. */
static __rte_noinline unsigned server_turn(struct appliance *a, struct rte_mbuf **frames, unsigned n)
{
	const bool by_stage = appliance_by_stage(a);
	const unsigned received = n;
	const uint64_t now = clock_ns();
	uint64_t at[APPLIANCE_MOMENTS] = { 0 };
	unsigned slices;

	at[APPLIANCE_RECEIVE] = rte_rdtsc_precise();
	for (unsigned i = 0; i < n; i += PORT_BURST)
		net_input(rig.server.net, frames + i, RTE_MIN(n - i, (unsigned)PORT_BURST), now);
	if (by_stage)
		at[APPLIANCE_EXECUTE] = rte_rdtsc_precise();
	if (a->work)
		a->work(a, now);
	slices = rpc_run(rig.way->rpc, 8, now);
	if (by_stage)
		at[APPLIANCE_TRANSMIT] = rte_rdtsc_precise();
	rpc_transmit(rig.way->rpc, now);
	a->sent = n = net_output(rig.server.net, frames, FRAMES);
	/* A reactor has read the clock anyway; here the length of the last turn does. */
	if (a->observe && (n || slices))
		rpc_turn_sent(rig.way->rpc, at[APPLIANCE_RECEIVE], at[APPLIANCE_RECEIVE] + rig.turn_cycles);
	if (a->observe && !slices)
		observe_idle(a->observe);
	at[APPLIANCE_END] = rte_rdtsc_precise();
	rig.turn_cycles = at[APPLIANCE_END] - at[APPLIANCE_RECEIVE];
	wheel_advance(net_wheel(rig.server.net), now, 16);
	if (a->turned)
		a->turned(a, received, at);
	if (a->housekeeping)
		a->housekeeping(a, now, slices != 0);
	return n;
}

/* The same where it counts. */
static __rte_noinline unsigned counted_turn(struct appliance *a, struct rte_mbuf **frames, unsigned n)
{
	const unsigned left = server_turn(a, frames, n);

	__asm__ volatile("" ::: "memory"); /* it returns to here */
	return left;
}

/* Everything that is under way arrives. */
static void exchange(struct appliance *a)
{
	struct rte_mbuf *frames[FRAMES];

	for (unsigned round = 0; round < 64; round++) {
		const uint64_t now = clock_ns();
		unsigned n;

		net_turn(rig.worker.net, now);
		wheel_advance(net_wheel(rig.worker.net), now, 16);
		if (rig.dgram)
			dgram_turn(rig.dgram, now);
		n = carry(frames, net_output(rig.worker.net, frames, FRAMES), &rig.server);
		if (a->arrived)
			a->arrived(a, frames, n);
		n = a->counted && n ? counted_turn(a, frames, n) : server_turn(a, frames, n);
		if (n == 0)
			return;
		net_input(rig.worker.net, frames, carry(frames, n, &rig.worker), clock_ns());
		if (a->answered == a->sequence)
			return;
	}
}

void appliance_observe(struct appliance *a, struct observe *observe)
{
	a->observe = observe;
	rpc_observe(rig.way->rpc, observe);
}

void appliance_turn(struct appliance *a)
{
	exchange(a);
}

unsigned appliance_round(struct appliance *a)
{
	struct rte_mbuf *frames[FRAMES];
	const uint64_t now = clock_ns();
	unsigned n, received = 0;

	net_turn(rig.worker.net, now);
	wheel_advance(net_wheel(rig.worker.net), now, FRAMES);
	if (rig.dgram)
		dgram_turn(rig.dgram, now);
	while (received < FRAMES && (n = net_output(rig.worker.net, frames + received, FRAMES - received)))
		received += n;
	carry(frames, received, &rig.server);
	n = server_turn(a, frames, received);
	net_input(rig.worker.net, frames, carry(frames, n, &rig.worker), clock_ns());
	return received + n;
}

void appliance_await(struct appliance *a)
{
	const uint64_t until = clock_ns() + PATIENCE_US * UINT64_C(1000);

	do {
		exchange(a);
		if (clock_ns() > until)
			appliance_fail("a request was not answered");
	} while (a->answered != a->sequence);
}

void appliance_start(struct appliance *a, const struct store_snapshot_options *snapshots)
{
	const char *arguments[] = { "appliance",   "--no-huge",	     "-m",
				    "256",	   "--no-pci",	     "--no-telemetry",
				    "--no-shconf", "--iova-mode=va", "--log-level=4" };

	if (rte_eal_init(sizeof(arguments) / sizeof(arguments[0]), (char **)arguments) < 0)
		appliance_fail("DPDK does not start");
	rig.a = a;
	a->workers = RTE_MAX(a->workers, (uint32_t)WORKERS);
	a->mbufs = RTE_MAX(a->mbufs, (uint32_t)MBUFS);
	prng_seed(&a->prng, 1);
	make_net(&rig.server, 0);
	make_net(&rig.worker, 1);
	make_server(a, snapshots);
	a->worker_net = rig.worker.net;
	if (a->stream)
		appliance_stream_open(a);
	else if (!a->alone)
		make_worker(a);
}

struct rpc_server *appliance_rpc(void)
{
	return rig.ways[APPLIANCE_OPEN].rpc;
}

struct rte_mempool *appliance_pool(void)
{
	return rig.server.pool;
}
