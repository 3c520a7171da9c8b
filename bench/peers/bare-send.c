/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast a DPDK driver sends full frames, with nothing behind it: one queue, datagrams of 1514 bytes from a mempool,
 * as bursts, until it is told to end. What testpmd does with --forward-mode=txonly. They are for a reader on the
 * kernel's UDP (udp-count.c), which counts them; after SIGUSR2 for a station that is not there, so that the kernel at
 * the other end drops them at once, and after SIGUSR1 for the reader again.
 */
#include <arpa/inet.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_udp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port/port.h"

enum { MTU = 1500, MBUFS = 8191, DESCRIPTORS = 512, BURST = 32, EXIT_USAGE = 2 };

struct head {
	struct rte_ether_hdr eth;
	struct rte_ipv4_hdr ip;
	struct rte_udp_hdr udp;
};
enum { FRAME_BYTES = MTU + sizeof(struct rte_ether_hdr) };

static volatile sig_atomic_t ended, nobody;

static void end(int number)
{
	ended = 1;
}

static void redirect(int number)
{
	nobody = number == SIGUSR2;
}

static int fail(const char *what)
{
	fprintf(stderr, "bare-send: %s\n", what);
	return EXIT_FAILURE;
}

static int start_eal(const char *device, const char *interface)
{
	char vdev[128];
	const char *arguments[] = { "bare-send",   "--no-huge",	     "-m",
				    "256",	   "--no-pci",	     "--no-telemetry",
				    "--no-shconf", "--iova-mode=va", "--log-level=4",
				    vdev };

	snprintf(vdev, sizeof(vdev), "--vdev=%s0,iface=%s", device, interface);
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

/* The datagrams have no checksum, as UDP over IPv4 may. */
static void fill_head(struct head *head, const struct rte_ether_addr *mac, in_addr_t to, in_addr_t from, uint16_t port)
{
	memset(head, 0, sizeof(*head));
	head->eth.dst_addr = *mac;
	rte_eth_macaddr_get(0, &head->eth.src_addr);
	head->eth.ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4);
	head->ip.version_ihl = RTE_IPV4_VHL_DEF;
	head->ip.total_length = RTE_BE16(MTU);
	head->ip.time_to_live = 1;
	head->ip.next_proto_id = IPPROTO_UDP;
	head->ip.src_addr = from;
	head->ip.dst_addr = to;
	head->ip.hdr_checksum = rte_ipv4_cksum(&head->ip);
	head->udp.src_port = head->udp.dst_port = rte_cpu_to_be_16(port);
	head->udp.dgram_len = RTE_BE16(MTU - sizeof(head->ip));
}

static void send_all(struct rte_mempool *pool, const struct head heads[2])
{
	struct rte_mbuf *frames[BURST];
	uint16_t have = 0;

	while (!ended) {
		uint16_t sent;

		if (rte_pktmbuf_alloc_bulk(pool, frames + have, BURST - have) == 0)
			for (; have < BURST; have++)
				memcpy(rte_pktmbuf_append(frames[have], FRAME_BYTES), &heads[nobody], sizeof(heads[0]));
		sent = rte_eth_tx_burst(0, 0, frames, have);
		have -= sent;
		memmove(frames, frames + sent, have * sizeof(frames[0]));
	}
}

int main(int argc, char **argv)
{
	const struct rte_ether_addr absent = { { 0x02, 0, 0, 0, 0, 0 } };
	struct rte_ether_addr mac;
	struct star_error err = { 0 };
	struct head heads[2];
	struct in_addr to, from;
	struct rte_mempool *pool;

	if (argc != 7 || rte_ether_unformat_addr(argv[3], &mac) < 0 || inet_pton(AF_INET, argv[4], &to) != 1 ||
	    inet_pton(AF_INET, argv[5], &from) != 1) {
		fprintf(stderr,
			"usage: bare-send net_af_packet|net_af_xdp INTERFACE TO_MAC TO_ADDRESS FROM_ADDRESS PORT\n");
		return EXIT_USAGE;
	}
	signal(SIGTERM, end);
	signal(SIGUSR1, redirect);
	signal(SIGUSR2, redirect);
	if (start_eal(argv[1], argv[2]) < 0)
		return fail("DPDK does not start");
	pool = port_mempool_create(0, MBUFS, MTU, &err);
	if (!pool || start_port(pool) != 0)
		return fail(pool ? "the port does not start" : err.text);
	fill_head(&heads[0], &mac, to.s_addr, from.s_addr, (uint16_t)atoi(argv[6]));
	fill_head(&heads[1], &absent, to.s_addr, from.s_addr, (uint16_t)atoi(argv[6]));
	send_all(pool, heads);
	rte_eth_dev_stop(0);
	rte_eal_cleanup();
	return EXIT_SUCCESS;
}
