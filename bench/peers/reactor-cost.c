/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a request costs the appliance from the receive burst to the transmit burst, by stage, in cycles: a reactor's stack,
 * sessions, service and shard in this process, fed with the frames of a worker's stack, one request at a time; and what each
 * costs when several come at once. The driver's own
 * part is left out: frames are copied into the server's mbufs, which are then cold to nobody, before the clock is read.
 * With "programs": pulls, and runs of a program that looks up the same rows, in turns.
 */
#include <errno.h>
#include <jansson.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "app/starbench/histogram.h"
#include "base/clock.h"
#include "base/prng.h"
#include "port/port.h"
#include "rpc/rpc.h"
#include "service/service.h"

enum {
	MBUFS = 8191,
	MTU = 1500,
	PORT = 5555,
	EPOCH = 1,
	INCARNATION = 7,
	PARTITIONS = 16384,
	DIM = 16,
	TABLE = 1,
	PROGRAM = 2, /* looks up rows of the table */
	ROWS_MAX = 1 << 20,
	FRAMES = 64,
	BURST = 16,  /* requests that come together */
	MANY = 2000, /* rows of a large request */
	TURN = 500,  /* requests of one kind, before it is the other one's turn */
	WARM_UP = 20000,
	GAP_CYCLES = 4000, /* longer between two reads of the clock of an idle spin is the machine's doing */
};
#define ARENA_BYTES (UINT64_C(512) << 20)

enum stage { STAGE_RECEIVE, STAGE_EXECUTE, STAGE_TRANSMIT, STAGE_ALL, STAGE_BURST, STAGES };
static const char *const stage_names[STAGES] = { "receive", "execute", "transmit", "all", "burst" };

struct side {
	struct rte_mempool *pool;
	struct net *net;
};

static struct {
	struct side server, worker;
	struct service *service;
	struct store *store;
	struct rpc_server *rpc;
	struct dgram *dgram;
	struct dgram_session *session;
	uint64_t rows;
	uint64_t sequence, answered, bad;
	struct prng prng;
	uint64_t spent; /* cycles of the server's turns */
	struct histogram cycles[STAGES];
} b;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "reactor-cost: %s\n", what);
	exit(EXIT_FAILURE);
}

/* ---- both sides ---- */

static void make_net(struct side *side, unsigned index)
{
	const struct rte_ether_addr mac = { { 2, 0, 0, 0, 0, (uint8_t)(index + 1) } };
	struct star_error err = { 0 };
	struct net_options o = {
		.interfaces_count = 1,
		.connections_max = 64,
		.receive_window_bytes = 256 * 1024,
		.rto_min_us = 200000,
		.rto_max_us = 60000000,
		.delayed_ack_us = 1000,
		.time_wait_ms = 1000,
		.user_timeout_ms = 30000,
		.secret = { 1 + index, 2 },
		.now_ns = clock_ns(),
	};

	side->pool = port_mempool_create(index, MBUFS, MTU, &err);
	if (!side->pool)
		fail(err.text);
	o.pool = side->pool;
	o.interfaces[0] = (struct net_interface_options){
		.mtu = MTU,
		.mac = mac,
		.addresses_count = 1,
		.addresses = { { net_address_v4(rte_cpu_to_be_32(0xc6120001u + index)), 24 } },
	};
	side->net = net_create(&o, &err);
	if (!side->net)
		fail(err.text);
}

static struct dgram_options sessions(void)
{
	return (struct dgram_options){
		.incarnation = INCARNATION,
		.sessions_max = 64,
		.active_max = 64,
		.window_max = 256,
		.credits = 512,
		.held_mbufs_max = MBUFS / 2,
		.message_max = sizeof(struct wire_frame) + WIRE_PAYLOAD_DEFAULT,
		.rto_min_ns = 50000000, /* the worker stands still while the server is measured, and the reverse */
		.rto_max_ns = UINT64_C(1000000000),
		.lease_ns = UINT64_C(10000000000),
		.heartbeat_ns = UINT64_C(1000000000),
		.ack_delay_ns = 100000,
		.target_delay_ns = 50000,
		.secret = { 3, 4 },
	};
}

static const struct program look_up = {
	.version = PROGRAM_VERSION,
	.count = 3,
	.nodes = { { .op = PROGRAM_KEYS, .object = TABLE, .dim = DIM },
		   { .op = PROGRAM_LOOKUP },
		   { .op = PROGRAM_FETCH, .a = 1 } },
};

static void make_server(void)
{
	void *arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct object_spec spec = {
		.id = TABLE, .kind = OBJECT_TABLE, .dtype = STAR_FLOAT32, .dim = DIM, .name = "rows"
	};
	struct star_error err = { 0 };
	struct rpc_server_options o = {
		.net = b.server.net,
		.port = PORT,
		.streams_max = 16,
		.datagrams = sessions(),
		.payload_max = WIRE_PAYLOAD_DEFAULT,
		.send_queue_bytes = 1 << 20,
		.held_mbufs_max = MBUFS / 2,
		.stall_ns = UINT64_C(30000000000),
	};

	if (arena == MAP_FAILED)
		fail("no memory for the rows");
	madvise(arena, ARENA_BYTES, MADV_HUGEPAGE);
	object_spec_defaults(&spec, OPTIM_ADAGRAD);
	if (object_spec_options(&spec, "initializer=uniform, scale=1", &err) < 0 || object_spec_check(&spec, &err) < 0)
		fail(err.text);
	b.store = store_create(arena, ARENA_BYTES, &err);
	if (!b.store)
		fail(err.text);
	b.service = service_create(&(struct service_options){ .incarnation = INCARNATION,
							      .partitions = PARTITIONS,
							      .store = b.store,
							      .payload_max = WIRE_PAYLOAD_DEFAULT,
							      .share = 1 },
				   &err);
	if (!b.service || service_install(b.service, &spec, &err) < 0)
		fail(err.text);
	spec = (struct object_spec){ .id = PROGRAM, .kind = OBJECT_PROGRAM, .program = look_up };
	if (service_install(b.service, &spec, &err) < 0)
		fail(err.text);
	service_set_layout(b.service, EPOCH, 0, PARTITIONS);
	o.service = service_rpc(b.service);
	b.rpc = rpc_server_create(&o, &err);
	if (!b.rpc)
		fail(err.text);
	rpc_server_set_layout(b.rpc, EPOCH, INCARNATION);
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
		b.answered++;
		if (status != WIRE_OK || frame.status != WIRE_OK || frame.sequence != b.answered)
			b.bad++;
	}
	for (struct rte_mbuf *next; m; m = next, mbufs++) {
		next = m->next;
		m->next = NULL;
		rte_pktmbuf_free(m);
	}
	dgram_taken(b.session, mbufs);
}

static void worker_acknowledged(void *user)
{
}

static void worker_closed(void *user, int reason)
{
	fail("the session has ended");
}

static const struct dgram_handler worker_handler = {
	.connected = worker_connected,
	.received = worker_received,
	.acknowledged = worker_acknowledged,
	.closed = worker_closed,
};

static void make_worker(void)
{
	struct dgram_options o = sessions();
	const struct net_address to = net_address_v4(rte_cpu_to_be_32(0xc6120001u));
	struct star_error err = { 0 };

	o.net = b.worker.net;
	o.handler = &worker_handler;
	b.dgram = dgram_create(&o, &err);
	if (!b.dgram)
		fail(err.text);
	b.session = dgram_open(b.dgram, &to, PORT, &b, &err);
	if (!b.session)
		fail(err.text);
}

/* Sends a message as the session's packets carry it. */
static void send_message(const void *message, uint32_t bytes)
{
	const uint32_t each = dgram_payload(b.session);
	struct rte_mbuf *first = NULL, **last = &first;

	for (uint32_t at = 0; at < bytes; at += each, last = &(*last)->next) {
		const uint32_t n = RTE_MIN(bytes - at, each);
		char *to;

		*last = dgram_alloc(b.session);
		to = *last ? rte_pktmbuf_append(*last, (uint16_t)n) : NULL;
		if (!to)
			fail("no mbuf");
		memcpy(to, (const char *)message + at, n);
	}
	dgram_send(b.session, first);
}

static void ask(unsigned kind, const uint64_t *keys, uint32_t n)
{
	static uint8_t
		message[sizeof(struct wire_frame) + sizeof(struct wire_op) + 8 + MANY * (8 + DIM * sizeof(float))];
	struct wire_frame frame = { .magic = WIRE_MAGIC,
				    .version = WIRE_VERSION,
				    .opcode = WIRE_EXECUTE,
				    .session = 1,
				    .sequence = ++b.sequence,
				    .epoch = EPOCH,
				    .incarnation = INCARNATION,
				    .deadline_us = 1000000 };
	struct wire_op op = { .kind = (uint8_t)kind,
			      .dtype = kind == WIRE_PUSH ? STAR_FLOAT32 : 0,
			      .result_dtype = kind == WIRE_PULL ? STAR_FLOAT32 : 0,
			      .object = kind == WIRE_RUN ? PROGRAM : TABLE,
			      .count = n,
			      .dim = kind == WIRE_RUN ? 0 : DIM };
	uint8_t *body = message + sizeof(frame) + sizeof(op);

	op.body_bytes = (uint32_t)(kind == WIRE_RUN ? sizeof(uint64_t) * (n + 1) : wire_op_bytes(&op));
	frame.payload_bytes = (uint32_t)sizeof(op) + wire_padded(op.body_bytes);
	memset(body, 0, op.body_bytes); /* gradients of 0 */
	memcpy(message + sizeof(frame), &op, sizeof(op));
	if (kind == WIRE_RUN) {
		memcpy(body, &n, sizeof(n));
		body += sizeof(uint64_t);
	}
	memcpy(body, keys, n * sizeof(*keys));
	frame.checksum = wire_checksum(&frame, message + sizeof(frame), frame.payload_bytes);
	memcpy(message, &frame, sizeof(frame));
	send_message(message, (uint32_t)sizeof(frame) + frame.payload_bytes);
}

/* ---- the cable ---- */

/* Moves frames over, as a driver would: into mbufs of the other side. */
static unsigned carry(struct rte_mbuf **frames, unsigned n, struct side *to)
{
	for (unsigned i = 0; i < n; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(to->pool);

		if (!m)
			fail("no mbuf");
		memcpy(rte_pktmbuf_append(m, frames[i]->data_len), rte_pktmbuf_mtod(frames[i], void *),
		       frames[i]->data_len);
		rte_pktmbuf_free(frames[i]);
		frames[i] = m;
	}
	return n;
}

/* The server's turn, in one piece for profilers; its cycles are counted where `count`. To read the clock is to wait for all that
 * is under way, so the stages and the whole are measured in turns. */
static __rte_noinline unsigned server_turn(struct rte_mbuf **frames, unsigned n, bool count)
{
	const bool by_stage = b.sequence % 2;
	const uint64_t now = clock_ns();
	uint64_t at[STAGE_ALL + 1] = { 0 };
	unsigned out;

	at[STAGE_RECEIVE] = rte_rdtsc_precise();
	net_input(b.server.net, frames, n, now);
	if (by_stage)
		at[STAGE_EXECUTE] = rte_rdtsc_precise();
	rpc_run(b.rpc, 8, now);
	if (by_stage)
		at[STAGE_TRANSMIT] = rte_rdtsc_precise();
	rpc_transmit(b.rpc, now);
	out = net_output(b.server.net, frames, FRAMES);
	at[STAGE_ALL] = rte_rdtsc_precise();
	wheel_advance(net_wheel(b.server.net), now, 16);
	b.spent += at[STAGE_ALL] - at[STAGE_RECEIVE];
	for (unsigned s = 0; count && by_stage && s < STAGE_ALL; s++)
		histogram_record(&b.cycles[s], at[s + 1] - at[s]);
	if (count && !by_stage)
		histogram_record(&b.cycles[STAGE_ALL], at[STAGE_ALL] - at[STAGE_RECEIVE]);
	return out;
}

/* Everything that is under way arrives. */
static void exchange(bool count)
{
	struct rte_mbuf *frames[FRAMES];

	for (unsigned round = 0; round < 64; round++) {
		const uint64_t now = clock_ns();
		unsigned n;

		net_turn(b.worker.net, now);
		wheel_advance(net_wheel(b.worker.net), now, 16);
		dgram_turn(b.dgram, now);
		n = carry(frames, net_output(b.worker.net, frames, FRAMES), &b.server);
		n = server_turn(frames, n, count && n);
		if (n == 0)
			return;
		net_input(b.worker.net, frames, carry(frames, n, &b.worker), clock_ns());
		if (b.answered == b.sequence)
			return;
	}
}

static void await(bool count)
{
	const uint64_t until = clock_ns() + UINT64_C(5000000000);

	exchange(count);
	while (b.answered != b.sequence) {
		if (clock_ns() > until)
			fail("a request was not answered");
		exchange(false);
	}
}

static void request(unsigned kind, uint64_t key, bool count)
{
	ask(kind, &key, 1);
	await(count);
}

static void measure(unsigned kind, uint64_t requests, bool count)
{
	for (uint64_t i = 0; i < requests; i++)
		request(kind, prng_below(&b.prng, b.rows), count);
}

/* A request's share of the turns that a burst takes. */
static void measure_bursts(unsigned kind, uint64_t requests)
{
	for (uint64_t i = 0; i < requests; i += BURST) {
		for (unsigned k = 0; k < BURST; k++)
			ask(kind, &(uint64_t){ prng_below(&b.prng, b.rows) }, 1);
		b.spent = 0;
		await(false);
		histogram_record(&b.cycles[STAGE_BURST], b.spent / BURST);
	}
}

/* The longest 1 % of what an idle spin of this core sees between two reads of the clock, beyond the usual. */
static uint64_t gaps_share_ppm(void)
{
	const uint64_t begun = rte_rdtsc_precise(), until = begun + rte_get_tsc_hz() / 2;
	uint64_t before = begun, now = begun, gaps = 0, reads = 0;

	while (now < until) {
		now = rte_rdtsc_precise();
		gaps += now - before > GAP_CYCLES;
		reads++;
		before = now;
	}
	return gaps * 1000000 / reads;
}

static json_t *results(double ns)
{
	json_t *stages = json_object();

	for (unsigned s = 0; s < STAGES; s++) {
		const double median = histogram_quantile(&b.cycles[s], 0.5),
			     late = histogram_quantile(&b.cycles[s], 0.99);

		json_object_set_new(stages, stage_names[s],
				    json_pack("{s:f, s:f, s:f, s:f}", "median_cycles", median, "p99_cycles", late,
					      "median_ns", median * ns, "p99_ns", late * ns));
	}
	memset(b.cycles, 0, sizeof(b.cycles));
	return stages;
}

/* Of a request of n rows the cycles of all the server's turns that it takes; pulls and runs in turns. */
static json_t *compare(uint32_t n, uint64_t requests)
{
	static uint64_t keys[MANY];
	struct histogram *sides[2] = { &b.cycles[0], &b.cycles[1] };
	json_t *json;

	for (uint64_t done = 0; done < 2 * requests; done++) {
		const unsigned side = done / TURN % 2;

		for (uint32_t i = 0; i < n; i++)
			keys[i] = prng_below(&b.prng, b.rows);
		b.spent = 0;
		ask(side ? WIRE_RUN : WIRE_PULL, keys, n);
		await(false);
		if (done >= 2 * TURN) /* the first ones warm up */
			histogram_record(sides[side], b.spent);
	}
	json = json_pack("{s:f, s:f}", "pull", histogram_quantile(sides[0], 0.5), "run",
			 histogram_quantile(sides[1], 0.5));
	memset(b.cycles, 0, sizeof(b.cycles));
	return json;
}

static json_t *programs(uint64_t requests)
{
	json_t *one, *many;

	measure(WIRE_PULL, WARM_UP, false);
	one = compare(1, requests);
	many = compare(MANY, requests / MANY + 3 * TURN);
	return json_pack("{s:o, s:o, s:i, s:I}", "one", one, "many", many, "rows", MANY, "bad", (json_int_t)b.bad);
}

static json_t *stages(uint64_t requests, double ns)
{
	json_t *pull, *push;

	measure(WIRE_PULL, WARM_UP, false);
	measure(WIRE_PULL, requests, true);
	measure_bursts(WIRE_PULL, requests);
	pull = results(ns);
	measure(WIRE_PUSH, WARM_UP, false);
	measure(WIRE_PUSH, requests, true);
	measure_bursts(WIRE_PUSH, requests);
	push = results(ns);
	return json_pack("{s:o, s:o, s:I, s:I, s:f}", "pull", pull, "push", push, "gaps_ppm",
			 (json_int_t)gaps_share_ppm(), "bad", (json_int_t)b.bad, "tsc_hz", (double)rte_get_tsc_hz());
}

int main(int argc, char **argv)
{
	const char *arguments[] = { "reactor-cost", "--no-huge",      "-m",
				    "256",	    "--no-pci",	      "--no-telemetry",
				    "--no-shconf",  "--iova-mode=va", "--log-level=4" };
	const uint64_t requests = argc >= 3 ? strtoull(argv[1], NULL, 10) : 0;
	const bool of_programs = argc == 4 && strcmp(argv[3], "programs") == 0;
	json_t *json;

	b.rows = argc >= 3 ? strtoull(argv[2], NULL, 10) : 0;
	if (requests == 0 || b.rows == 0 || b.rows > ROWS_MAX || argc > 3 + of_programs) {
		fprintf(stderr, "usage: reactor-cost REQUESTS ROWS [programs]\n"
				"of each kind, at random rows of a table; at most 1048576\n");
		return 2;
	}
	if (rte_eal_init(sizeof(arguments) / sizeof(arguments[0]), (char **)arguments) < 0)
		fail("DPDK does not start");
	prng_seed(&b.prng, 1);
	make_net(&b.server, 0);
	make_net(&b.worker, 1);
	make_server();
	make_worker();
	for (uint64_t key = 0; key < b.rows; key++) /* every row is there */
		request(WIRE_PULL, key, false);
	json = of_programs ? programs(requests) : stages(requests, 1e9 / (double)rte_get_tsc_hz());
	json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return b.bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
