/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Thousands of connections from one address, or from several, that are half open or idle; and an ordinary worker with
 * another address, which is served throughout.
 */
#include <rte_ether.h>
#include <rte_ip.h>
#include <stdlib.h>

#include "tests/net/cases.h"
#include "tests/unit.h"

enum { PLACES = 4096, CROWD = 6000, WAVE = 100, ROUNDS = 10, CROWDS = 2 };

struct caller {
	struct tcp_conn *conn; /* NULL: none */
	unsigned opens, answers, ends;
};

static struct {
	struct caller crowd[CROWDS][CROWD], worker;
	struct net_address addresses[CROWDS]; /* of the crowds */
	bool deaf;			      /* what the node sends to them is lost */
} c;

static void say(struct tcp_conn *conn)
{
	struct rte_mbuf *m = tcp_alloc(conn);

	if (CHECK(m)) {
		rte_pktmbuf_append(m, 10);
		CHECK(tcp_send(conn, m));
	}
}

static bool on_open(void *ctx, struct tcp_conn *conn, void **user)
{
	struct caller *caller = *user;

	caller->opens++;
	if (caller == &c.worker)
		say(conn);
	return true;
}

static void on_answer(void *user, struct rte_mbuf *payload)
{
	struct caller *caller = user;

	caller->answers++;
	tcp_consumed(caller->conn, payload->data_len);
	rte_pktmbuf_free(payload);
}

static bool node_opened(void *ctx, struct tcp_conn *conn, void **user)
{
	*user = conn;
	return true;
}

static void node_received(void *user, struct rte_mbuf *payload)
{
	tcp_consumed(user, payload->data_len);
	rte_pktmbuf_free(payload);
	say(user);
}

static void nothing(void *user)
{
}

static void node_finished(void *user)
{
	tcp_close(user);
}

static void on_closed(void *user, int reason)
{
	struct caller *caller = user;

	caller->conn = NULL;
	caller->ends++;
}

static void node_closed(void *user, int reason)
{
}

static const struct tcp_handler caller = { on_open, on_answer, nothing, nothing, on_closed };
static const struct tcp_handler node = { node_opened, node_received, nothing, node_finished, node_closed };

static bool lose_to_crowds(struct link *link, int from, struct rte_mbuf *m)
{
	const struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(m, const struct rte_ipv4_hdr *, 14);
	bool lost = false;

	if (!c.deaf || from != 0 ||
	    rte_pktmbuf_mtod(m, const struct rte_ether_hdr *)->ether_type != RTE_BE16(RTE_ETHER_TYPE_IPV4))
		return false;
	for (unsigned i = 0; i < CROWDS; i++)
		lost |= ip->dst_addr == net_address_to_v4(&c.addresses[i]);
	return lost;
}

static void begin(void)
{
	struct net_options a, b;

	memset(&c, 0, sizeof(c));
	link_init(&net_link, 1);
	a = link_options(&net_link, 0);
	b = link_options(&net_link, 1);
	a.connections_max = PLACES;
	b.connections_max = CROWDS * CROWD + 8;
	for (unsigned i = 0; i < CROWDS; i++) {
		c.addresses[i] = net_address_v4(rte_cpu_to_be_32(RTE_IPV4(198u, 18u, 0, 100 + i)));
		b.interfaces[0].addresses[b.interfaces[0].addresses_count].address = c.addresses[i];
		b.interfaces[0].addresses[b.interfaces[0].addresses_count++].prefix = 24;
	}
	link_up_with(&net_link, &a, &b);
	net_link.tap = lose_to_crowds;
	CHECK_INT(tcp_listen(net_link.net[0], PORT, &node, NULL), 0);
}

static void end(void)
{
	net_link.tap = NULL;
	link_down(&net_link);
}

/* All those of a crowd that have no connection dial. */
static void dial(unsigned which, unsigned count)
{
	struct star_error err = { 0 };

	for (unsigned i = 0; i < count; i++) {
		struct caller *caller_of = &c.crowd[which][i];

		if (!caller_of->conn)
			caller_of->conn = tcp_connect_from(net_link.net[1], &c.addresses[which], 0, link_ip(0), PORT,
							   &caller, NULL, caller_of, &err);
		/* The first alone: few frames may wait for an answer of ARP. */
		if (i % WAVE == 0)
			link_run(&net_link, 2 * LINK_MS, NULL, NULL);
	}
	link_run(&net_link, 20 * LINK_MS, NULL, NULL);
}

static bool worker_is_answered(void *ctx)
{
	return c.worker.answers > *(unsigned *)ctx;
}

/* Over the connection that it has; or over a new one. */
static void is_served(bool again)
{
	struct star_error err = { 0 };
	unsigned before = c.worker.answers;

	if (again && c.worker.conn) {
		tcp_close(c.worker.conn);
		link_run(&net_link, 20 * LINK_MS, NULL, NULL);
	}
	if (again)
		c.worker.conn = tcp_connect(net_link.net[1], link_ip(0), PORT, &caller, NULL, &c.worker, &err);
	else if (CHECK(c.worker.conn))
		say(c.worker.conn);
	CHECK(link_run(&net_link, 300 * LINK_MS, worker_is_answered, &before));
}

static unsigned connected(unsigned which)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CROWD; i++)
		n += c.crowd[which][i].conn && c.crowd[which][i].opens > c.crowd[which][i].ends;
	return n;
}

/* They never hear the answer to their SYNs, and send them again. */
void thousands_half_open_keep_nobody_out(void)
{
	begin();
	is_served(true);
	c.deaf = true;
	for (unsigned i = 0; i < CROWDS; i++) {
		dial(i, CROWD);
		is_served(false);
		is_served(true);
	}
	CHECK(net_counters(net_link.net[0])->tcp_cookies_sent > CROWD);
	CHECK(net_connections(net_link.net[0]) <= PLACES / 2);
	for (unsigned round = 0; round < ROUNDS; round++) {
		link_run(&net_link, 1000 * LINK_MS, NULL, NULL);
		is_served(false);
		is_served(true);
	}
	CHECK_UINT(connected(0) + connected(1), 0);
	CHECK_UINT(c.worker.ends, c.worker.opens - 1); /* those that it has closed itself */
	end();
}

/* All places are one address's; then another one comes with as many; and each dials again whenever it loses some. */
void thousands_of_idle_connections_leave_places_to_others(void)
{
	begin();
	dial(0, CROWD);
	CHECK_UINT(net_connections(net_link.net[0]), PLACES);
	is_served(true); /* comes when all places are taken */
	for (unsigned i = 0; i < CROWDS; i++)
		dial(i, CROWD);
	is_served(false);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < CROWDS; i++)
			dial(i, CROWD);
		is_served(false);
		is_served(round % 2);
	}
	CHECK_UINT(net_connections(net_link.net[0]), PLACES);
	CHECK(net_counters(net_link.net[0])->tcp_idle_closed > PLACES / 4);
	CHECK_UINT(c.worker.ends, c.worker.opens - 1);
	end();
}

static bool is_connected(void *ctx)
{
	const struct caller *one = ctx;

	return one->opens > one->ends;
}

/* One host takes another address of its /64 for each connection, until all places are taken: they are its share
 * together. */
void addresses_of_one_64_share(void)
{
	enum { ADDRESSES = 6 };
	const struct net_address other = link_ip6_of(1, 2), same = link_ip6_of(0, 77);
	const struct net_address v4 = net_address_v4(link_address(0)), next = net_address_v4(link_address(1));
	struct net_address own[ADDRESSES + 1], sharer[2];
	struct net_options a, b;
	struct star_error err = { 0 };

	sharer[0] = net_address_sharer(link_ip6(0)), sharer[1] = net_address_sharer(&same);
	CHECK(net_address_equal(&sharer[0], &sharer[1]));
	sharer[1] = net_address_sharer(&other);
	CHECK(!net_address_equal(&sharer[0], &sharer[1]));
	sharer[0] = net_address_sharer(&v4), sharer[1] = net_address_sharer(&next);
	CHECK(!net_address_equal(&sharer[0], &sharer[1]));

	memset(&c, 0, sizeof(c));
	link_init(&net_link, 2);
	a = link_options(&net_link, 0);
	b = link_options(&net_link, 1);
	a.connections_max = ADDRESSES;
	own[0] = *link_ip6(1);
	for (unsigned i = 1; i < ADDRESSES; i++)
		own[i] = link_ip6_of(0, 0x100 + i);
	own[ADDRESSES] = other; /* the worker's */
	for (unsigned i = 1; i <= ADDRESSES; i++) {
		b.interfaces[0].addresses[b.interfaces[0].addresses_count].address = own[i];
		b.interfaces[0].addresses[b.interfaces[0].addresses_count++].prefix = 64;
	}
	a.interfaces[0].addresses[a.interfaces[0].addresses_count].address = link_ip6_of(1, 1);
	a.interfaces[0].addresses[a.interfaces[0].addresses_count++].prefix = 64;
	link_up_with(&net_link, &a, &b);
	CHECK_INT(tcp_listen(net_link.net[0], PORT, &node, NULL), 0);
	for (unsigned i = 0; i < ADDRESSES; i++) {
		struct caller *one = &c.crowd[0][i];

		one->conn = tcp_connect_from(net_link.net[1], &own[i], 0, link_ip6(0), PORT, &caller, NULL, one, &err);
		CHECK(one->conn && link_run(&net_link, 100 * LINK_MS, is_connected, one));
	}
	CHECK_UINT(net_connections(net_link.net[0]), ADDRESSES);
	c.worker.conn = tcp_connect_from(net_link.net[1], &own[ADDRESSES], 0, link_ip6(0), PORT, &caller, NULL,
					 &c.worker, &err);
	CHECK(c.worker.conn && link_run(&net_link, 5000 * LINK_MS, is_connected, &c.worker));
	is_served(false);
	/* A client that has lost its place takes it neither from the worker nor, address by address, from itself. */
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < ADDRESSES; i++)
			if (!c.crowd[0][i].conn)
				c.crowd[0][i].conn = tcp_connect_from(net_link.net[1], &own[i], 0, link_ip6(0), PORT,
								      &caller, NULL, &c.crowd[0][i], &err);
		link_run(&net_link, 1000 * LINK_MS, NULL, NULL);
		is_served(false);
	}
	CHECK_UINT(c.worker.ends, 0);
	CHECK_UINT(net_counters(net_link.net[0])->tcp_idle_closed, 1);
	end();
}
