/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a memif between two processes carries with nothing behind it: the limit that requests over datagrams are
 * measured against. Mbufs as the appliance's, one queue, no hugepages needed, the server's and the client's side each
 * on its core.
 *
 *   echo    a server: answers each frame by one of REPLY_BYTES, until it is told to end
 *   source  a server: sends full frames, into each of which it copies a part of 16 MiB and sums its checksum
 *   ask     a client of echo: keeps IN_FLIGHT frames of REQUEST_BYTES under way; rate and round trips as JSON
 *   drain   a client of source: bytes a second as JSON; reads and copies nothing
 */
#include <inttypes.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/starbench/histogram.h"
#include "base/clock.h"
#include "base/crc32.h"
#include "port/port.h"

enum {
	MBUFS = 8191,
	DESCRIPTORS = 1024,
	BURST = 32,
	EXIT_USAGE = 2,
	HEADERS = 106, /* of a frame of datagrams, from Ethernet to its packet's */
	SOURCE_BYTES = 16 << 20,
	MTU = 1500,
	FRAME_MAX = MTU + sizeof(struct rte_ether_hdr),
};

static volatile sig_atomic_t ended;

static void end(int number)
{
	ended = 1;
}

static int fail(const char *what)
{
	fprintf(stderr, "memif-bare: %s\n", what);
	return EXIT_FAILURE;
}

static int start_eal(const char *socket, bool server)
{
	char vdev[256], prefix[64];
	const char *arguments[] = { "memif-bare",    "--no-huge",      "-m",	      "256",
				    "--no-pci",	     "--no-telemetry", "--no-shconf", "--iova-mode=va",
				    "--log-level=4", prefix,	       vdev };

	snprintf(vdev, sizeof(vdev), "--vdev=net_memif0,role=%s,socket=%s,socket-abstract=no,rsize=10",
		 server ? "server" : "client", socket);
	snprintf(prefix, sizeof(prefix), "--file-prefix=memif-bare-%s", server ? "server" : "client");
	return rte_eal_init(sizeof(arguments) / sizeof(arguments[0]), (char **)arguments);
}

static int start_port(struct rte_mempool *pool)
{
	const struct rte_eth_conf conf = { 0 };
	uint16_t rx = DESCRIPTORS, tx = DESCRIPTORS;

	if (rte_eth_dev_count_avail() != 1 || rte_eth_dev_configure(0, 1, 1, &conf) != 0 ||
	    rte_eth_dev_adjust_nb_rx_tx_desc(0, &rx, &tx) != 0 ||
	    rte_eth_rx_queue_setup(0, 0, rx, SOCKET_ID_ANY, NULL, pool) != 0 ||
	    rte_eth_tx_queue_setup(0, 0, tx, SOCKET_ID_ANY, NULL) != 0)
		return -1;
	return rte_eth_dev_start(0);
}

static bool link_is_up(void)
{
	struct rte_eth_link link = { 0 };

	return rte_eth_link_get_nowait(0, &link) == 0 && link.link_status;
}

/* Sends all, or gives them back when the other side is gone. */
static void send_all(struct rte_mbuf **frames, uint16_t n)
{
	uint16_t sent = 0;

	while (sent < n && !ended) {
		const uint16_t now = rte_eth_tx_burst(0, 0, frames + sent, n - sent);

		sent += now;
		if (now == 0 && !link_is_up())
			break;
	}
	if (sent < n)
		rte_pktmbuf_free_bulk(frames + sent, n - sent);
}

static void echo(uint16_t bytes)
{
	struct rte_mbuf *frames[BURST];

	while (!ended) {
		const uint16_t n = rte_eth_rx_burst(0, 0, frames, BURST);

		for (uint16_t i = 0; i < n; i++)
			frames[i]->data_len = frames[i]->pkt_len = bytes;
		if (n)
			send_all(frames, n);
	}
}

static void source(struct rte_mempool *pool, uint8_t *data)
{
	struct rte_mbuf *frames[BURST];
	volatile uint32_t sum;
	size_t at = 0;

	while (!ended) {
		if (!link_is_up() || rte_pktmbuf_alloc_bulk(pool, frames, BURST) != 0)
			continue;
		for (unsigned i = 0; i < BURST; i++) {
			char *frame = rte_pktmbuf_append(frames[i], FRAME_MAX);

			if (at + FRAME_MAX > SOURCE_BYTES)
				at = 0;
			memcpy(frame + HEADERS, data + at, FRAME_MAX - HEADERS);
			sum = base_crc32(frame + HEADERS, FRAME_MAX - HEADERS);
			at += FRAME_MAX - HEADERS;
		}
		send_all(frames, BURST);
	}
	(void)sum;
}

struct asking {
	uint32_t in_flight;
	uint64_t sent[1024]; /* when; answers come in order */
	uint64_t asked, answered;
	struct histogram latency;
};

static void ask_more(struct asking *a, struct rte_mempool *pool, uint16_t bytes)
{
	struct rte_mbuf *frames[BURST];

	while (a->asked - a->answered < a->in_flight) {
		const unsigned n = RTE_MIN((unsigned)BURST, (unsigned)(a->in_flight - (a->asked - a->answered)));
		const uint64_t now = clock_ns();

		if (rte_pktmbuf_alloc_bulk(pool, frames, n) != 0)
			return;
		for (unsigned i = 0; i < n; i++) {
			memset(rte_pktmbuf_append(frames[i], bytes), 0, 64);
			a->sent[a->asked++ % RTE_DIM(a->sent)] = now;
		}
		send_all(frames, (uint16_t)n);
	}
}

static int ask(struct rte_mempool *pool, uint16_t bytes, uint32_t in_flight, double seconds)
{
	static struct asking a;
	struct rte_mbuf *frames[BURST];
	const uint64_t begin = clock_ns(), counts = begin + UINT64_C(300000000),
		       ends = counts + (uint64_t)(seconds * 1e9);
	uint64_t now = begin, counted = 0;

	a.in_flight = in_flight;
	while (now < ends && !ended) {
		uint16_t n;

		ask_more(&a, pool, bytes);
		n = rte_eth_rx_burst(0, 0, frames, BURST);
		now = clock_ns();
		for (uint16_t i = 0; i < n; i++) {
			if (now > counts) {
				histogram_record(&a.latency, now - a.sent[a.answered % RTE_DIM(a.sent)]);
				counted++;
			}
			a.answered++;
		}
		rte_pktmbuf_free_bulk(frames, n);
	}
	if (!counted)
		return fail("the other side does not answer");
	printf("{\"rate\":%.1f,\"p50_us\":%.4f,\"p99_us\":%.4f}\n", (double)counted / seconds,
	       histogram_quantile(&a.latency, 0.5) * 1e-3, histogram_quantile(&a.latency, 0.99) * 1e-3);
	return EXIT_SUCCESS;
}

static int drain(double seconds)
{
	struct rte_mbuf *frames[BURST];
	const uint64_t begin = clock_ns(), counts = begin + UINT64_C(300000000),
		       ends = counts + (uint64_t)(seconds * 1e9);
	uint64_t now = begin, bytes = 0;

	while (now < ends && !ended) {
		const uint16_t n = rte_eth_rx_burst(0, 0, frames, BURST);

		now = clock_ns();
		for (uint16_t i = 0; i < n && now > counts; i++)
			bytes += frames[i]->data_len - HEADERS;
		rte_pktmbuf_free_bulk(frames, n);
	}
	if (!bytes)
		return fail("nothing comes");
	printf("{\"mib_s\":%.1f}\n", (double)bytes / seconds / (1 << 20));
	return EXIT_SUCCESS;
}

static bool wait_for_link(void)
{
	const uint64_t ends = clock_ns() + UINT64_C(10000000000);

	while (!ended && clock_ns() < ends)
		if (link_is_up())
			return true;
	return false;
}

static int usage(void)
{
	fprintf(stderr, "usage: memif-bare echo SOCKET REPLY_BYTES\n"
			"       memif-bare source SOCKET\n"
			"       memif-bare ask SOCKET REQUEST_BYTES IN_FLIGHT SECONDS\n"
			"       memif-bare drain SOCKET SECONDS\n");
	return EXIT_USAGE;
}

static int run(struct rte_mempool *pool, char **argv)
{
	uint8_t *data;

	if (strcmp(argv[1], "echo") == 0) {
		echo((uint16_t)atoi(argv[3]));
		return EXIT_SUCCESS;
	}
	if (strcmp(argv[1], "source") == 0) {
		data = malloc(SOURCE_BYTES);
		if (!data)
			return fail("out of memory");
		memset(data, 7, SOURCE_BYTES);
		source(pool, data);
		free(data);
		return EXIT_SUCCESS;
	}
	if (!wait_for_link())
		return fail("the other side is not there");
	if (strcmp(argv[1], "ask") == 0)
		return ask(pool, (uint16_t)atoi(argv[3]), (uint32_t)atoi(argv[4]), atof(argv[5]));
	return drain(atof(argv[3]));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *mode;
		int arguments;
		bool server;
	} modes[] = { { "echo", 4, true }, { "source", 3, true }, { "ask", 6, false }, { "drain", 4, false } };
	struct star_error err = { 0 };
	struct rte_mempool *pool;
	size_t mode = 0;
	int status;

	while (argc > 2 && mode < RTE_DIM(modes) && strcmp(argv[1], modes[mode].mode) != 0)
		mode++;
	if (argc < 3 || mode == RTE_DIM(modes) || argc != modes[mode].arguments)
		return usage();
	signal(SIGTERM, end);
	signal(SIGINT, end);
	if (start_eal(argv[2], modes[mode].server) < 0)
		return fail("DPDK does not start");
	pool = port_mempool_create(0, MBUFS, MTU, &err);
	if (!pool || start_port(pool) != 0)
		return fail(pool ? "the port does not start" : err.text);
	status = run(pool, argv);
	rte_eth_dev_stop(0);
	rte_eal_cleanup();
	return status;
}
