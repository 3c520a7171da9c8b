/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a scrape of a large node costs its metrics' thread: the node's own code, from the HTTP server down to the
 * counters of 64 reactors and 100 tables. Only the reactors do not run; their counters and histograms have been filled
 * with random figures. All of it is what a node has (lib/node), with the smallest memory that it takes.
 */
#include <arpa/inet.h>
#include <jansson.h>
#include <pthread.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "jsonrpc/jsonrpc.h"
#include "jsonrpc/object_json.h"
#include "metrics/http.h"
#include "node/node.h"
#include "observe/observe.h"
#include "service/internal.h"
#include "service/kept.h"

enum {
	REACTORS = 64,
	TABLES = 100,
	ARENA_BYTES = 16 << 20,
	MBUFS = 63,
	MTU = 1500,
	ADDRESS = 0xc6120001, /* 198.18.0.1 */
	CALL_US = 10000000,
	SCRAPES_MAX = 10000,
	SAMPLES = 20000, /* of times, a reactor, class and size */
};

static struct {
	struct node node;
	struct config config;
	struct config_endpoint endpoint;
	struct control *control;
	struct metrics_server *server;
	struct prng prng;
	clockid_t clock; /* CPU time of the server's thread */
} b;

static void scrape_fail(const char *what)
{
	fprintf(stderr, "scrape-cost: %s\n", what);
	exit(EXIT_FAILURE);
}

/* ---- a node whose reactors do not run ---- */

/* Of reactors that are made, but not started. */
static unsigned never_steer(void *ctx, const struct rte_mbuf *frame)
{
	return REACTOR_HERE;
}

static void never_receive(void *ctx, struct rte_mbuf **frames, unsigned n, uint64_t now_ns)
{
}

static unsigned never_work(void *ctx, uint64_t now_ns)
{
	return 0;
}

static unsigned never_transmit(void *ctx, struct rte_mbuf **frames, unsigned max)
{
	return 0;
}

static void make_endpoint(struct shard *shard)
{
	struct rpc_server_options rpc = {
		.port = (uint16_t)(5555 + shard->index),
		.streams_max = 16,
		.payload_max = 1 << 20,
		.send_queue_bytes = 64 << 10,
		.held_mbufs_max = MBUFS / 2,
		.stall_ns = UINT64_C(30000000000),
		.datagrams = { .incarnation = 1,
			       .sessions_max = 16,
			       .active_max = 16,
			       .window_max = 16,
			       .credits = 16,
			       .held_mbufs_max = MBUFS / 2,
			       .message_max = 1 << 20,
			       .rto_min_ns = 1000000,
			       .rto_max_ns = 1000000000,
			       .lease_ns = UINT64_C(30000000000),
			       .heartbeat_ns = 1000000000,
			       .ack_delay_ns = 100000,
			       .target_delay_ns = 50000,
			       .secret = { 3, 4 } },
	};
	struct star_error err = { 0 };

	rpc.net = shard->net;
	rpc.observe = shard->observe;
	rpc.service = service_rpc(shard->service);
	shard->rpc = rpc_server_create(&rpc, &err);
	if (shard->rpc)
		shard->reactor = reactor_create(&(struct reactor_options){ .index = shard->index,
									   .core = -1,
									   .pool = shard->pool,
									   .ops = { .ctx = shard,
										    .steer = never_steer,
										    .receive = never_receive,
										    .work = never_work,
										    .transmit = never_transmit,
										    .wheel = net_wheel(shard->net) } },
						&err);
	if (!shard->reactor)
		scrape_fail(err.text);
}

static void make_shard(struct shard *shard, unsigned index)
{
	struct star_error err = { 0 };
	struct net_options net = {
		.interfaces_count = 1,
		.connections_max = 16,
		.receive_window_bytes = 64 << 10,
		.rto_min_us = 200000,
		.rto_max_us = 60000000,
		.delayed_ack_us = 1000,
		.time_wait_ms = 1000,
		.user_timeout_ms = 30000,
		.secret = { 1, 2 },
		.now_ns = clock_ns(),
		.interfaces = { { .mtu = MTU,
				  .mac = { { 2 } },
				  .addresses_count = 1,
				  .addresses = { { net_address_v4(rte_cpu_to_be_32(ADDRESS)), 24 } } } },
	};

	*shard = (struct shard){ .node = &b.node, .index = index };
	shard->arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (shard->arena == MAP_FAILED)
		scrape_fail("no memory for rows");
	shard->pool = port_mempool_create(index, MBUFS, MTU, &err);
	shard->store = shard->pool ? store_create(shard->arena, ARENA_BYTES, &err) : NULL;
	if (shard->store)
		shard->service = service_create(&(struct service_options){ .incarnation = 1,
									   .partitions = b.config.partitions,
									   .store = shard->store,
									   .payload_max = 1 << 20,
									   .share = 1.0 / REACTORS },
						&err);
	net.pool = shard->pool;
	shard->net = shard->service ? net_create(&net, &err) : NULL;
	shard->observe = shard->net ? observe_create(rte_get_tsc_hz(), &err) : NULL;
	if (!shard->observe)
		scrape_fail(err.text);
	make_endpoint(shard);
}

/* In place of the messages to reactors that do not run. */
static int install_table(void *ctx, const struct object_spec *spec, struct star_error *err)
{
	struct node *node = ctx;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < node->shards_count; i++)
		rc = service_install(node->shards[i].service, spec, err);
	return rc;
}

static int set_layout(void *ctx, const struct control_layout *layout, struct star_error *err)
{
	return 0;
}

/* folder: for the control plane's socket. */
static void make_node(const char *folder)
{
	const char *arguments[] = { "scrape-cost", "--no-huge",	     "-m",
				    "512",	   "--no-pci",	     "--no-telemetry",
				    "--no-shconf", "--iova-mode=va", "--log-level=4" };
	struct control_options options = { .config = &b.config, .incarnation = 1 };
	struct star_error err = { 0 };

	if (rte_eal_init(sizeof(arguments) / sizeof(arguments[0]), (char **)arguments) < 0)
		scrape_fail("DPDK does not start");
	pthread_mutex_init(&b.node.ports_lock, NULL);
	strcpy(b.config.job_name, "ps");
	b.config.ps = &b.endpoint.control;
	b.config.ps_count = 1;
	b.config.endpoints = &b.endpoint;
	b.config.endpoints_count = 1;
	strcpy(b.endpoint.data.host, "198.18.0.1");
	b.endpoint.data.port = 5555;
	b.config.reactors = REACTORS;
	b.config.partitions = 16384;
	b.config.request_mib = 4;
	b.config.connect_timeout_ms = 3000;
	b.config.observe_requests = true;
	b.config.metrics_tables = TABLES;
	if (snprintf(b.config.control_socket, sizeof(b.config.control_socket), "%s/ps-0.sock", folder) >=
	    (int)sizeof(b.config.control_socket))
		scrape_fail("the folder's path is too long");
	b.node.config = &b.config;
	b.node.arena_bytes = ARENA_BYTES;
	b.node.shards_count = REACTORS;
	for (unsigned i = 0; i < REACTORS; i++)
		make_shard(&b.node.shards[i], i);
	options.data_plane = node_data_plane(&b.node);
	options.data_plane.install = install_table;
	options.data_plane.set_layout = set_layout;
	options.data_plane.watch = NULL;
	/* The control address is one that nobody else has: this process's own. */
	snprintf(b.endpoint.control.host, sizeof(b.endpoint.control.host), "127.0.0.1");
	for (unsigned attempt = 0; !b.control && attempt < 100; attempt++) {
		b.endpoint.control.port = (uint16_t)(20000 + ((unsigned)getpid() + 97 * attempt) % 10000);
		b.config.own = b.endpoint;
		b.control = control_create(&options, &err);
	}
	if (!b.control)
		scrape_fail(err.text);
}

static void make_tables(void)
{
	struct star_error err = { 0 };
	struct jsonrpc_client *client = jsonrpc_connect(b.config.control_socket, CALL_US, &err);

	for (unsigned i = 0; client && i < TABLES; i++) {
		struct object_spec spec = { .kind = OBJECT_TABLE, .dtype = STAR_FLOAT32, .dim = 16 };
		json_t *result;

		snprintf(spec.name, sizeof(spec.name), "embedding_%02u/shared", i);
		wire_object_spec_defaults(&spec, OPTIM_ADAGRAD);
		result = jsonrpc_call(client, "create", jsonrpc_object_encode(&spec), CALL_US, &err);
		if (!result)
			scrape_fail(err.text);
		json_decref(result);
	}
	if (!client)
		scrape_fail(err.text);
	jsonrpc_close(client);
}

/* ---- what the reactors would have counted ---- */

/* Counters of a node that has run for a while have many digits, but for errors. */
static void fill(const void *counters, size_t bytes)
{
	uint64_t *each = (uint64_t *)(uintptr_t)counters;

	for (size_t i = 0; i < bytes / sizeof(*each); i++)
		each[i] = prng_below(&b.prng, 4) ? prng_next(&b.prng) >> (24 + prng_below(&b.prng, 20)) : 0;
}

/* Times around one that grows with the number of keys, with a tail. */
static void fill_times(struct observe *o, enum observe_class class, uint32_t keys)
{
	static uint64_t now_ns = 1000000000;

	for (unsigned i = 0; i < SAMPLES; i++) {
		struct observe_record *r = observe_next(o);
		const uint64_t run_ns = 500 + 40 * keys + prng_below(&b.prng, 1000),
			       tail_ns = prng_below(&b.prng, 100) ? prng_below(&b.prng, 4000)
								  : prng_below(&b.prng, 4000000);

		*r = (struct observe_record){ .arrived_ns = now_ns,
					      .total = observe_units(2000 + run_ns + tail_ns),
					      .wait = prng_below(&b.prng, 2) ? observe_units(tail_ns) : 0,
					      .run = observe_units(run_ns),
					      .what = observe_what(keys, 1, class) };
		observe_commit(o);
		if (i % 16 == 15)
			observe_sent(o, 0, 0);
	}
	observe_count(o);
}

static void fill_shard(const struct shard *shard, unsigned classes)
{
	static const uint32_t keys[OBSERVE_SIZES] = { 1, 20, 300, 5000 };

	fill(reactor_stats(shard->reactor), sizeof(struct reactor_stats));
	fill(rpc_counters(shard->rpc), sizeof(struct rpc_counters));
	fill(service_counters(shard->service), sizeof(struct service_counters));
	fill(service_kept_stats(shard->service), sizeof(struct kept_stats));
	fill(net_counters(shard->net), sizeof(struct net_counters));
	fill(dgram_counters(rpc_datagrams(shard->rpc)), sizeof(struct dgram_counters));
	for (unsigned c = 0; c < classes; c++)
		for (unsigned s = 0; s < OBSERVE_SIZES; s++)
			fill_times(shard->observe, (enum observe_class)c, keys[s]);
	for (uint32_t id = 1; id <= TABLES; id++)
		fill(store_table_counters(shard->service->tables[id]), sizeof(struct store_stats));
}

/* ---- scrapes ---- */

/* On the server's thread, whose clock of CPU time this is. */
static bool write_family(void *ctx, unsigned number, const struct openmetrics_page *page)
{
	if (!number)
		pthread_getcpuclockid(pthread_self(), &b.clock);
	return control_metrics(ctx, number, page);
}

static bool tell_health(void *ctx, char text[static METRICS_HEALTH_MAX])
{
	return control_healthy(ctx, text);
}

static void serve(void)
{
	const struct metrics_server_options options = {
		.address = "127.0.0.1", .ctx = b.control, .family = write_family, .health = tell_health
	};
	struct star_error err = { 0 };

	b.server = metrics_server_start(&options, &err);
	if (!b.server)
		scrape_fail(err.text);
}

static uint64_t cpu_ns(void)
{
	struct timespec t = { 0 };

	clock_gettime(b.clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int connect_server(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(metrics_server_port(b.server)),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct timeval patience = { .tv_sec = CALL_US / 1000000 };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		scrape_fail("the metrics' server cannot be reached");
	return fd;
}

/* One page, of which the bytes and lines are told; the length of each of its chunks counts for a line. */
static void scrape(int fd, uint64_t *bytes, uint64_t *lines)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
				      "Accept: application/openmetrics-text\r\n\r\n";
	static const char ends[] = "# EOF\n\r\n0\r\n\r\n";
	static char text[64 << 10];
	size_t kept = 0;

	*bytes = *lines = 0;
	if (write(fd, request, sizeof(request) - 1) != (ssize_t)sizeof(request) - 1)
		scrape_fail("a request cannot be sent");
	for (;;) {
		const ssize_t n = read(fd, text + kept, sizeof(text) - kept);

		if (n <= 0)
			scrape_fail("a page has no end");
		*bytes += (uint64_t)n;
		for (ssize_t i = 0; i < n; i++)
			*lines += text[kept + (size_t)i] == '\n';
		/* What may be the page's end is kept for the next look. */
		kept += (size_t)n;
		if (kept >= sizeof(ends) - 1 && memcmp(text + kept - sizeof(ends) + 1, ends, sizeof(ends) - 1) == 0)
			return;
		if (kept > sizeof(ends)) {
			memmove(text, text + kept - sizeof(ends), sizeof(ends));
			kept = sizeof(ends);
		}
	}
}

static int by_time(const void *a, const void *b_)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b_;

	return x < y ? -1 : x > y;
}

/* The times that the server's thread was busy with each; the first page warms up. */
static json_t *measure(unsigned scrapes)
{
	static uint64_t ns[SCRAPES_MAX];
	const int fd = connect_server();
	uint64_t bytes, lines;

	scrape(fd, &bytes, &lines);
	for (unsigned i = 0; i < scrapes; i++) {
		const uint64_t begun = cpu_ns();

		scrape(fd, &bytes, &lines);
		usleep(1000); /* it comes to rest */
		ns[i] = cpu_ns() - begun;
	}
	close(fd);
	qsort(ns, scrapes, sizeof(ns[0]), by_time);
	return json_pack("{s:f, s:f, s:f, s:I, s:I}", "median_ms", (double)ns[scrapes / 2] / 1e6, "min_ms",
			 (double)ns[0] / 1e6, "max_ms", (double)ns[scrapes - 1] / 1e6, "bytes", (json_int_t)bytes,
			 "lines", (json_int_t)lines);
}

int main(int argc, char **argv)
{
	const unsigned long scrapes = argc == 4 ? strtoul(argv[2], NULL, 10) : 0,
			    classes = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	json_t *json;

	if (!scrapes || scrapes > SCRAPES_MAX || !classes || classes > OBSERVE_CLASSES_COUNT) {
		fprintf(stderr,
			"usage: scrape-cost FOLDER SCRAPES CLASSES\n"
			"of a node of %d reactors and %d tables, which have had requests of 1 to %d classes\n",
			REACTORS, TABLES, OBSERVE_CLASSES_COUNT);
		return 2;
	}
	prng_seed(&b.prng, 1);
	log_set_level(LOG_ERROR);
	make_node(argv[1]);
	make_tables();
	for (unsigned i = 0; i < REACTORS; i++)
		fill_shard(&b.node.shards[i], (unsigned)classes);
	serve();
	json = measure((unsigned)scrapes);
	json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(json);
	metrics_server_stop(b.server);
	control_destroy(b.control);
	return 0;
}
