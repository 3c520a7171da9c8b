/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's side of a memif port: DPDK's net_memif as the client, and our own stack over it. Opens a TCP connection to
 * an appliance and sends it what stands in a file, over and over, until it is ended; "connected" and then the number of
 * bytes that came back are told on standard output.
 *
 *     star-memif DEVICE QUEUES ADDRESS GATEWAY TO PORT [FILE]
 */
#include <arpa/inet.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/tcp.h"

enum {
	MBUFS = 4095,
	DESCRIPTORS = 1024,
	BURST = 32,
	BYTES_MAX = 1 << 16,
	CONNECT_MS = 5000,
	IDLE_TURNS = 1000,
	NAP_US = 50
};

struct worker {
	struct net *net;
	struct tcp_conn *conn;
	uint16_t queues;
	bool open, over;
	uint64_t received;
	uint8_t bytes[BYTES_MAX];
	size_t bytes_count;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "star-memif: %s: %s\n", what, why);
	exit(1);
}

static bool opened(void *ctx, struct tcp_conn *conn, void **user)
{
	((struct worker *)ctx)->open = true;
	return true;
}

static void received(void *user, struct rte_mbuf *payload)
{
	struct worker *w = user;

	w->received += payload->data_len;
	tcp_consumed(w->conn, payload->data_len);
	rte_pktmbuf_free(payload);
}

static void acknowledged(void *user)
{
}

static void finished(void *user)
{
	tcp_close(((struct worker *)user)->conn);
}

static void closed(void *user, int reason)
{
	struct worker *w = user;

	w->over = true;
	w->conn = NULL;
	printf("closed %d\n", reason);
	fflush(stdout);
}

static const struct tcp_handler handler = { opened, received, acknowledged, finished, closed };

static struct rte_mempool *start_port(const char *device, uint16_t queues)
{
	const char *arguments[] = { "star-memif",     "--no-pci",	   "--no-huge", "--no-shconf", "-m", "64",
				    "--no-telemetry", "--log-level=error", "--vdev",	device,	       NULL };
	struct rte_eth_conf conf = { 0 };
	struct rte_eth_link link = { 0 };
	struct rte_mempool *pool;

	if (rte_eal_init(10, (char **)(uintptr_t)arguments) < 0)
		die("EAL", rte_strerror(rte_errno));
	pool = rte_pktmbuf_pool_create("mbufs", MBUFS, 0, NET_PRIV_BYTES, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	if (!pool || rte_eth_dev_configure(0, queues, queues, &conf) != 0)
		die("port", rte_strerror(rte_errno));
	for (uint16_t q = 0; q < queues; q++)
		if (rte_eth_rx_queue_setup(0, q, DESCRIPTORS, SOCKET_ID_ANY, NULL, pool) != 0 ||
		    rte_eth_tx_queue_setup(0, q, DESCRIPTORS, SOCKET_ID_ANY, NULL) != 0)
			die("queues", rte_strerror(rte_errno));
	if (rte_eth_dev_start(0) != 0)
		die("start", "the memif socket does not answer");
	for (unsigned ms = 0; ms < CONNECT_MS && link.link_status != RTE_ETH_LINK_UP; ms++) {
		usleep(1000);
		rte_eth_link_get_nowait(0, &link);
	}
	return pool;
}

static struct net_address address_of(const char *text)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) != 1)
		die("address", text);
	return net_address_v4(v4.s_addr);
}

static struct net *make_net(struct rte_mempool *pool, const char *address, const char *gateway)
{
	struct net_options options = { .pool = pool,
				       .interfaces_count = 1,
				       .connections_max = 16,
				       .receive_window_bytes = 1 << 18,
				       .rto_min_us = 5000,
				       .rto_max_us = 1000000,
				       .delayed_ack_us = 500,
				       .time_wait_ms = 1000,
				       .user_timeout_ms = 10000,
				       .secret = { clock_ns(), (uint64_t)getpid() },
				       .now_ns = clock_ns() };
	struct star_error err = { 0 };
	struct net *net;

	options.interfaces[0] = (struct net_interface_options){ .port = 0,
								.mtu = 1500,
								.addresses_count = 1,
								.addresses = { { address_of(address), 24 } },
								.gateway4 = address_of(gateway) };
	rte_eth_macaddr_get(0, &options.interfaces[0].mac);
	net = net_create(&options, &err);
	if (!net)
		die("stack", err.text);
	return net;
}

static void send_some(struct worker *w)
{
	size_t at = 0;

	while (w->conn && at < w->bytes_count) {
		const size_t bytes = RTE_MIN(w->bytes_count - at, (size_t)tcp_mss(w->conn));
		struct rte_mbuf *m = tcp_alloc(w->conn);

		if (!m)
			return;
		memcpy(rte_pktmbuf_append(m, (uint16_t)bytes), w->bytes + at, bytes);
		if (!tcp_send(w->conn, m))
			return;
		at += bytes;
	}
}

/* How many frames came or went. */
static unsigned turn(struct worker *w)
{
	struct rte_mbuf *frames[BURST];
	unsigned n, moved = 0;

	for (uint16_t q = 0; q < w->queues; q++) {
		n = rte_eth_rx_burst(0, q, frames, BURST);
		moved += n;
		for (unsigned i = 0; i < n; i++)
			frames[i]->port = 0;
		net_input(w->net, frames, n, clock_ns());
	}
	net_turn(w->net, clock_ns());
	wheel_advance(net_wheel(w->net), clock_ns(), 64);
	while ((n = net_output(w->net, frames, BURST)) > 0) {
		const unsigned sent = rte_eth_tx_burst(0, 0, frames, (uint16_t)n);

		moved += n;
		if (sent < n)
			rte_pktmbuf_free_bulk(frames + sent, n - sent);
	}
	return moved;
}

int main(int argc, char **argv)
{
	static struct worker w;
	struct star_error err = { 0 };
	struct net_address to;
	uint64_t begin_ns, shown = 0, idle = 0;
	FILE *file;

	if (argc < 7)
		die("usage", "star-memif DEVICE QUEUES ADDRESS GATEWAY TO PORT [FILE]");
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	w.queues = (uint16_t)atoi(argv[2]);
	w.net = make_net(start_port(argv[1], w.queues), argv[3], argv[4]);
	if (argc > 7 && (file = fopen(argv[7], "rb"))) {
		w.bytes_count = fread(w.bytes, 1, sizeof(w.bytes), file);
		fclose(file);
	}
	to = address_of(argv[5]);
	w.conn = tcp_connect(w.net, &to, (uint16_t)atoi(argv[6]), &handler, &w, &w, &err);
	if (!w.conn)
		die("connect", err.text);
	begin_ns = clock_ns();
	while (!w.open && !w.over && clock_ns() - begin_ns < CONNECT_MS * UINT64_C(1000000))
		turn(&w);
	if (!w.open)
		die("connect", "no answer");
	printf("connected %llu us\n", (unsigned long long)(clock_ns() - begin_ns) / 1000);
	fflush(stdout);
	while (!w.over) {
		if (w.conn && tcp_queued(w.conn) == 0)
			send_some(&w);
		idle = turn(&w) ? 0 : idle + 1;
		if (idle > IDLE_TURNS) /* most of its time a case waits for something else */
			usleep(NAP_US);
		if (w.received > shown) {
			shown = w.received + (1 << 20);
			printf("received %llu\n", (unsigned long long)w.received);
			fflush(stdout);
		}
	}
	return 0;
}
