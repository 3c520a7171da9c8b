/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port with offloads that needs no NIC: net_virtio_user, as a guest has it, whose other end is net_vhost, as its host
 * has it. Two stacks talk over the pair. The guest's leaves checksums and the cutting of segments to its port; what
 * comes out at the host's end are frames as large as they were sent, as a host with LRO sees them. Ours takes none
 * such: they are cut here.
 */
#include <rte_ip.h>
#include <rte_tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "port/net_interface.h"
#include "tests/net/stream.h"
#include "tests/port/cases.h"
#include "tests/port/child.h"
#include "tests/unit.h"

enum { HOST, GUEST, ENDS, SERVICE = 5555, STREAM_BYTES = 8 << 20, QUEUE_BYTES = 128 << 10, PATIENCE_S = 40 };

struct end {
	struct rte_mempool *pool;
	struct port *port;
	struct net *net;
	struct net_address address;
	struct stream stream;
	uint64_t large; /* frames received beyond the MTU */
	uint64_t unfilled,
		seen; /* frames received whose checksum was never filled in, and that the port has looked at */
	uint64_t left_checksum, left_cut; /* frames sent that left it, or the cutting, to the port */
};

static struct end ends[ENDS];

/* The i-th segment of a frame that was sent to be cut. */
static struct rte_mbuf *cut(const struct rte_mbuf *large, const uint8_t *whole, unsigned i, unsigned step)
{
	const unsigned l3 = sizeof(struct rte_ether_hdr) + sizeof(struct rte_ipv4_hdr);
	const unsigned headers = l3 + ((const struct rte_tcp_hdr *)(whole + l3))->data_off / 16 * 4u;
	const unsigned at = headers + i * step, bytes = RTE_MIN(step, large->pkt_len - at);
	struct rte_mbuf *m = rte_pktmbuf_alloc(ends[HOST].pool);
	struct rte_ipv4_hdr *ip;
	struct rte_tcp_hdr *tcp;

	if (!m)
		return NULL; /* TCP will send it again */
	memcpy(rte_pktmbuf_append(m, (uint16_t)headers), whole, headers);
	memcpy(rte_pktmbuf_append(m, (uint16_t)bytes), whole + at, bytes);
	ip = rte_pktmbuf_mtod_offset(m, struct rte_ipv4_hdr *, sizeof(struct rte_ether_hdr));
	tcp = (struct rte_tcp_hdr *)(ip + 1);
	ip->total_length = rte_cpu_to_be_16((uint16_t)(m->data_len - sizeof(struct rte_ether_hdr)));
	ip->hdr_checksum = 0;
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	tcp->sent_seq = rte_cpu_to_be_32(rte_be_to_cpu_32(tcp->sent_seq) + i * step);
	if (at + bytes < large->pkt_len)
		tcp->tcp_flags &= (uint8_t) ~(RTE_TCP_PSH_FLAG | RTE_TCP_FIN_FLAG);
	m->port = large->port;
	m->ol_flags = large->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
	return m;
}

static void receive_large(struct end *e, struct rte_mbuf *large, uint64_t now_ns)
{
	static uint8_t whole[UINT16_MAX + 1];
	const unsigned step = large->tso_segsz;

	e->large++;
	if (!CHECK(large->pkt_len <= sizeof(whole)) || !CHECK(large->ol_flags & RTE_MBUF_F_RX_LRO) ||
	    !CHECK(step > 500))
		return;
	if (rte_pktmbuf_read(large, 0, large->pkt_len, whole) != whole)
		memcpy(whole, rte_pktmbuf_mtod(large, void *), large->pkt_len);
	for (unsigned i = 0; i * step + 100 < large->pkt_len; i++) {
		struct rte_mbuf *m = cut(large, whole, i, step);

		if (m)
			net_input(e->net, &m, 1, now_ns);
	}
	rte_pktmbuf_free(large);
}

static void receive(struct end *e, uint64_t now_ns)
{
	struct rte_mbuf *frames[PORT_BURST];
	const unsigned n = port_receive(e->port, 0, frames, PORT_BURST);

	for (unsigned i = 0; i < n; i++) {
		const uint64_t seen = frames[i]->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;

		e->unfilled += seen == RTE_MBUF_F_RX_L4_CKSUM_NONE;
		e->seen += seen != 0;
		if (frames[i]->pkt_len > 1514u)
			receive_large(e, frames[i], now_ns);
		else
			net_input(e->net, &frames[i], 1, now_ns);
	}
}

static void transmit(struct end *e)
{
	struct rte_mbuf *frames[PORT_BURST];
	unsigned n;

	while ((n = net_output(e->net, frames, PORT_BURST)) > 0) {
		unsigned sent;

		for (unsigned i = 0; i < n; i++) {
			e->left_checksum += (frames[i]->ol_flags & RTE_MBUF_F_TX_L4_MASK) == RTE_MBUF_F_TX_TCP_CKSUM;
			e->left_cut += !!(frames[i]->ol_flags & RTE_MBUF_F_TX_TCP_SEG);
		}
		sent = port_send(e->port, 0, frames, (uint16_t)n);
		rte_pktmbuf_free_bulk(frames + sent, n - sent);
	}
}

static bool is_over(void)
{
	const struct stream *a = &ends[HOST].stream, *b = &ends[GUEST].stream;

	return (a->closed && b->closed) || a->reason || b->reason;
}

static void run(void)
{
	const uint64_t end_ns = clock_ns() + PATIENCE_S * UINT64_C(1000000000);
	uint64_t now_ns;

	do {
		now_ns = clock_ns();
		for (int i = 0; i < ENDS; i++) {
			net_turn(ends[i].net, now_ns);
			receive(&ends[i], now_ns);
			wheel_advance(net_wheel(ends[i].net), now_ns, 64);
			transmit(&ends[i]);
		}
	} while (!is_over() && now_ns < end_ns);
	CHECK(is_over());
}

static void make_stack(struct end *e, int which)
{
	struct net_options o = {
		.pool = e->pool,
		.interfaces_count = 1,
		.connections_max = 4,
		.receive_window_bytes = 1 << 20,
		.rto_min_us = 200000,
		.rto_max_us = 1000000,
		.delayed_ack_us = 1000,
		.time_wait_ms = 1,
		.user_timeout_ms = 30000,
		.secret = { 1, 2 },
		.now_ns = clock_ns(),
	};
	struct star_error err = { 0 };

	e->address = net_address_v4(rte_cpu_to_be_32(0xc6120001u + (unsigned)which));
	o.interfaces[0] = port_net_interface(e->port, &(struct config_port){ .vlan = 0 });
	o.interfaces[0].addresses_count = 1;
	o.interfaces[0].addresses[0].address = e->address;
	o.interfaces[0].addresses[0].prefix = 24;
	e->net = net_create(&o, &err);
	CHECK(e->net);
}

static bool open_end(int which, struct config_port *config, const char *device, const char *options)
{
	struct end *e = &ends[which];
	struct star_error err = { 0 };

	snprintf(config->device, sizeof(config->device), "%s", device);
	snprintf(config->options, sizeof(config->options), "%s", options);
	config->interface[0] = '\0';
	e->pool = port_mempool_create((unsigned)which, CHILD_MBUFS, 1500, &err);
	e->port = port_open(config, (unsigned)which, &e->pool, 1, 0, &err);
	if (!e->port)
		return unit_fail(__FILE__, __LINE__, "%s", err.text);
	make_stack(e, which);
	return e->net;
}

/* vhost takes frames once the guest's driver has told it where its rings are. */
static bool is_connected(void)
{
	struct rte_eth_link link = { 0 };

	for (int i = 0; i < 5000 && !link.link_status; i++) {
		usleep(1000);
		rte_eth_link_get_nowait(ends[HOST].port->id, &link);
	}
	return CHECK(link.link_status);
}

static void talk(void)
{
	struct stream *host = &ends[HOST].stream, *guest = &ends[GUEST].stream;
	struct star_error err = { 0 };

	*host = (struct stream){ .send_seed = 1, .expect_seed = 2 };
	*guest = (struct stream){ .send_seed = 2, .expect_seed = 1 };
	for (int i = 0; i < ENDS; i++) {
		ends[i].stream.send_total = STREAM_BYTES;
		ends[i].stream.queue_bytes = QUEUE_BYTES;
		ends[i].stream.full = ends[i].stream.close_at_end = ends[i].stream.shut = true;
	}
	CHECK_INT(tcp_listen(ends[HOST].net, SERVICE, &stream_handler, host), 0);
	guest->conn = tcp_connect(ends[GUEST].net, &ends[HOST].address, SERVICE, &stream_handler, guest, guest, &err);
	if (!CHECK(guest->conn))
		return;
	run();
	for (int i = 0; i < ENDS; i++) {
		CHECK_UINT(ends[i].stream.received, STREAM_BYTES);
		CHECK(!ends[i].stream.wrong);
		CHECK_INT(ends[i].stream.reason, 0);
		CHECK_UINT(net_counters(ends[i].net)->tcp_bad_checksum, 0);
	}
}

static void check_use(void)
{
	const struct net_counters *guest = net_counters(ends[GUEST].net);

	/* Nearly all of the guest's data left in large frames, and arrived in them. */
	CHECK(ends[GUEST].left_cut > 50);
	CHECK(guest->tcp_cut > STREAM_BYTES / 1448 / 2);
	CHECK(ends[HOST].large > 50);
	CHECK_UINT(ends[GUEST].large + ends[HOST].left_cut, 0);
	for (int i = 0; i < ENDS; i++) {
		CHECK(ends[i].left_checksum > 50);
		CHECK(ends[i].unfilled > 50);
		CHECK(ends[i].seen >= ends[i].unfilled);
	}
}

void virtio_offloads(void)
{
	static const uint32_t both =
		OFFLOAD_TX_TCP_CHECKSUM | OFFLOAD_TX_UDP_CHECKSUM | OFFLOAD_TX_SEGMENTS | OFFLOAD_RX_CHECKSUM;
	char socket[64], text[128];
	struct config config;

	snprintf(socket, sizeof(socket), "/tmp/star-vhost-%d.sock", (int)getpid());
	child_capture();
	child_config(&config, "net_vhost", 1500);
	if (!child_eal(&config))
		return;
	snprintf(text, sizeof(text), "iface=%s,tso=1", socket);
	if (!open_end(HOST, &config.ports[0], "net_vhost", text))
		return;
	snprintf(text, sizeof(text), "path=%s", socket);
	if (open_end(GUEST, &config.ports[0], "net_virtio_user", text) && is_connected()) {
		CHECK_UINT(ends[HOST].port->offloads, both);
		CHECK_UINT(ends[GUEST].port->offloads, both | OFFLOAD_TX_TSO);
		talk();
		check_use();
		port_close(ends[GUEST].port);
	}
	port_close(ends[HOST].port);
	for (int i = 0; i < ENDS; i++) {
		net_destroy(ends[i].net);
		CHECK_UINT(rte_mempool_in_use_count(ends[i].pool), 0);
	}
	unlink(socket);
	port_eal_stop();
}
