/* SPDX-License-Identifier: BSD-3-Clause */
/* Interfaces of a running stack. */
#include <errno.h>

#include "net/internal.h"
#include "tests/net/cases.h"
#include "tests/net/packet.h"
#include "tests/unit.h"

enum { CONNECTIONS = 50 };

struct ends {
	unsigned opened, closed;
	int reason;
};

static bool opened(void *ctx, struct tcp_conn *conn, void **user)
{
	((struct ends *)ctx)->opened++;
	*user = ctx;
	return true;
}

static void received(void *user, struct rte_mbuf *payload)
{
	rte_pktmbuf_free(payload);
}

static void nothing(void *user)
{
}

static void closed(void *user, int reason)
{
	struct ends *e = user;

	e->closed++;
	e->reason = reason;
}

static const struct tcp_handler handler = { opened, received, nothing, nothing, closed };

static bool all_open(void *ctx)
{
	const struct ends *e = ctx;

	return e[0].opened == CONNECTIONS && e[1].opened == CONNECTIONS;
}

static bool all_closed(void *ctx)
{
	const struct ends *e = ctx;

	return e[1].closed == CONNECTIONS;
}

static void open_all(struct ends *ends)
{
	struct star_error err;

	for (int i = 0; i < CONNECTIONS; i++)
		CHECK(tcp_connect(net_link.net[1], i % 2 ? link_ip(0) : link_ip6(0), PORT, &handler, &ends[1], &ends[1],
				  &err));
	CHECK(link_run(&net_link, 5000 * LINK_MS, all_open, ends));
}

void interfaces_come_and_go(void)
{
	struct net_interface_options options;

	link_init(&net_link, 80);
	link_up(&net_link);
	options = link_options(&net_link, 0).interfaces[0];
	CHECK_INT(tcp_listen(net_link.net[0], PORT, &handler, NULL), 0);
	for (int life = 0; life < 3; life++) {
		struct ends ends[2] = { 0 };
		struct net_interface *interface;
		unsigned ended = 0, calls = 0;
		struct star_error err;
		uint32_t cursor = 0;

		CHECK_INT(tcp_unlisten(net_link.net[0], PORT), 0);
		CHECK_INT(tcp_listen(net_link.net[0], PORT, &handler, &ends[0]), 0);
		open_all(ends);
		interface = net_interface_remove(net_link.net[0], options.port);
		if (!CHECK(interface != NULL))
			break;
		CHECK(net_interface_remove(net_link.net[0], options.port) == NULL);
		CHECK(net_interface_find(net_link.net[0], options.port) == NULL);
		while (!net_interface_end(net_link.net[0], interface, &cursor, &ended) && calls < 100) {
			struct rte_mbuf *m = NULL;

			/* As a reactor does between two messages. */
			while (net_output(net_link.net[0], &m, 1) > 0)
				link_inject(&net_link, 1, rte_pktmbuf_mtod(m, void *), m->data_len),
					rte_pktmbuf_free(m);
			calls++;
		}
		CHECK_UINT(ended, CONNECTIONS);
		CHECK_UINT(net_connections(net_link.net[0]), 0);
		CHECK_UINT(ends[0].closed, CONNECTIONS);
		CHECK_INT(ends[0].reason, ENETDOWN);
		CHECK(link_run(&net_link, 5000 * LINK_MS, all_closed, ends));
		CHECK_INT(ends[1].reason, ECONNRESET);
		net_interface_free(interface);
		interface = net_interface_create(net_link.net[0], &options, &err);
		if (!CHECK(interface != NULL))
			break;
		net_interface_add(net_link.net[0], interface);
		CHECK(net_interface_find(net_link.net[0], options.port) == interface);
		link_run(&net_link, 2000 * LINK_MS, NULL, NULL);
	}
	link_down(&net_link);
}

void interfaces_that_do_not_fit_are_refused(void)
{
	struct net_interface_options options;
	struct star_error err = { 0 };

	link_init(&net_link, 81);
	link_up(&net_link);
	options = link_options(&net_link, 0).interfaces[0];
	CHECK(net_interface_create(net_link.net[0], &options, &err) == NULL);
	CHECK_INT(err.code, -EEXIST);
	options.port = 1;
	CHECK(net_interface_create(net_link.net[0], &options, &err) == NULL);
	CHECK_INT(err.code, -EADDRINUSE);
	options.addresses_count = 1;
	options.addresses[0].address = net_address_v4(RTE_BE32(0xc6120901));
	options.mtu = 9000;
	CHECK(net_interface_create(net_link.net[0], &options, &err) == NULL);
	CHECK_INT(err.code, -EINVAL);
	options.mtu = 1500;
	for (unsigned i = 1; i < NET_INTERFACES_MAX; i++) {
		struct net_interface *interface;

		options.port = (uint16_t)i;
		options.addresses[0].address = net_address_v4(rte_cpu_to_be_32(0xc6120901 + i * 256));
		interface = net_interface_create(net_link.net[0], &options, &err);
		if (!CHECK(interface != NULL))
			break;
		net_interface_add(net_link.net[0], interface);
	}
	options.port = NET_INTERFACES_MAX;
	options.addresses[0].address = net_address_v4(RTE_BE32(0xc6136301));
	CHECK(net_interface_create(net_link.net[0], &options, &err) == NULL);
	CHECK_INT(err.code, -ENOSPC);
	link_down(&net_link);
}

/* A worker behind the second interface speaks to the address of the first one; an address of the link is that link's
 * alone. */
void a_packet_for_us_may_come_by_any_interface(void)
{
	const struct net_address own = net_address_v4(RTE_BE32(0xc6120901)),
				 worker = net_address_v4(RTE_BE32(0xc6120902));
	struct net_options o;
	struct packet p;

	link_init(&net_link, 82);
	o = link_options(&net_link, 0);
	link_down(&net_link);
	o.interfaces[1] = o.interfaces[0];
	o.interfaces[1].port = 1;
	o.interfaces[1].mac.addr_bytes[4] = 1;
	o.interfaces[1].addresses_count = 1;
	o.interfaces[1].addresses[0] = (struct net_interface_address){ own, 24 };
	o.interfaces_count = 2;
	packets_alone(82, &o);
	for (int known = 0; known < 2; known++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(net_link.pool[0]);
		const unsigned before = packets_received;

		packet_udp(&p, &worker, link_ip(0), 1, 53, 8);
		p.bytes[4] = 1;
		memcpy(rte_pktmbuf_append(m, (uint16_t)p.length), p.bytes, p.length);
		m->port = known ? 1 : 5;
		net_input(net_link.net[0], &m, 1, net_link.now_ns);
		CHECK_UINT(packets_received - before, known);
	}
	CHECK_UINT(COUNTER(eth_other_vlan), 1);
	link_down(&net_link);
}
