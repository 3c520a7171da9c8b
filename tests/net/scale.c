/* SPDX-License-Identifier: BSD-3-Clause */
/* A hundred thousand connections between two stacks. */
#include <malloc.h>
#include <rte_mempool.h>
#include <stdlib.h>

#include "tests/net/cases.h"
#include "tests/unit.h"

enum {
	MANY = 100000,
	FEW = 64,
	WAVE = 128, /* opened, or closed, at the same moment */
	PORTS = 16, /* so that there are local ports enough */
	IDLE_BYTES_MAX = 1024,
};

struct member {
	struct tcp_conn *conn;
	bool answered;
};

struct crowd {
	struct member *members; /* of the client */
	uint32_t opened, answered, closed, wrong;
	uint32_t server_opened, server_closed;
	uint32_t wanted;
};

static struct crowd crowd;

static void send_number(struct tcp_conn *conn, uint32_t number)
{
	struct rte_mbuf *m = tcp_alloc(conn);

	if (!CHECK(m))
		return;
	memcpy(rte_pktmbuf_append(m, sizeof(number)), &number, sizeof(number));
	CHECK(tcp_send(conn, m));
}

static uint32_t take_number(struct tcp_conn *conn, struct rte_mbuf *payload)
{
	uint32_t number = UINT32_MAX;

	if (payload->data_len == sizeof(number))
		memcpy(&number, rte_pktmbuf_mtod(payload, const void *), sizeof(number));
	tcp_consumed(conn, payload->data_len);
	rte_pktmbuf_free(payload);
	return number;
}

/* The client's user is its member, the server's the connection. */
static bool client_opened(void *ctx, struct tcp_conn *conn, void **user)
{
	const struct member *member = *user;

	crowd.opened++;
	send_number(conn, (uint32_t)(member - crowd.members));
	return true;
}

static void client_received(void *user, struct rte_mbuf *payload)
{
	struct member *member = user;

	if (take_number(member->conn, payload) != (uint32_t)(member - crowd.members) || member->answered)
		crowd.wrong++;
	member->answered = true;
	crowd.answered++;
}

static bool server_opened(void *ctx, struct tcp_conn *conn, void **user)
{
	crowd.server_opened++;
	*user = conn;
	return true;
}

static void server_received(void *user, struct rte_mbuf *payload)
{
	send_number(user, take_number(user, payload));
}

static void nothing(void *user)
{
}

static void client_closed(void *user, int reason)
{
	struct member *member = user;

	member->conn = NULL;
	crowd.closed++;
	crowd.wrong += reason != 0;
}

static void server_closed(void *user, int reason)
{
	crowd.server_closed++;
	crowd.wrong += reason != 0;
}

static void server_finished(void *user)
{
	tcp_close(user);
}

static const struct tcp_handler client = { client_opened, client_received, nothing, nothing, client_closed };
static const struct tcp_handler server = { server_opened, server_received, nothing, server_finished, server_closed };

static bool all_answered(void *ctx)
{
	return crowd.answered == crowd.wanted;
}

static bool all_closed(void *ctx)
{
	return crowd.closed == crowd.wanted && crowd.server_closed == crowd.wanted;
}

static void open_all(void)
{
	struct star_error err = { 0 };

	for (uint32_t i = 0; i < MANY; i++) {
		crowd.members[i].conn = tcp_connect(net_link.net[1], link_ip(0), (uint16_t)(PORT + i % PORTS), &client,
						    NULL, &crowd.members[i], &err);
		if (!crowd.members[i].conn) {
			unit_fail(__FILE__, __LINE__, "connection %u: %s", i, err.text);
			return;
		}
		crowd.wanted = i + 1;
		/* The first alone: few frames may wait for an answer of ARP. */
		if ((i == 0 || crowd.wanted % WAVE == 0 || crowd.wanted == MANY) &&
		    !CHECK(link_run(&net_link, 1000 * LINK_MS, all_answered, NULL)))
			return;
	}
}

static void close_all(void)
{
	for (uint32_t i = 0; i < MANY; i++) {
		if (crowd.members[i].conn)
			tcp_close(crowd.members[i].conn);
		crowd.wanted = i + 1;
		if ((crowd.wanted % WAVE == 0 || crowd.wanted == MANY) &&
		    !CHECK(link_run(&net_link, 1000 * LINK_MS, all_closed, NULL)))
			return;
	}
}

/* Half a second: delayed ACKs have been sent by then. After it, silence, and not one mbuf in use. */
static void idle(void)
{
	uint64_t carried;

	link_run(&net_link, 500 * LINK_MS, NULL, NULL);
	carried = net_link.carried;
	link_run(&net_link, 60000 * LINK_MS, NULL, NULL);
	CHECK_UINT(net_link.carried, carried);
	for (int side = 0; side < 2; side++) {
		CHECK_UINT(net_connections(net_link.net[side]), MANY);
		CHECK_UINT(rte_mempool_in_use_count(net_link.pool[side]), 0);
	}
}

void many_connections_come_work_idle_and_go(void)
{
	struct net_options a, b;

	crowd = (struct crowd){ .members = calloc(MANY, sizeof(*crowd.members)) };
	link_init(&net_link, 1);
	a = link_options(&net_link, 0);
	b = link_options(&net_link, 1);
	a.connections_max = b.connections_max = MANY;
	link_up_with(&net_link, &a, &b);
	for (uint16_t i = 0; i < PORTS; i++)
		CHECK_INT(tcp_listen(net_link.net[0], PORT + i, &server, NULL), 0);
	open_all();
	CHECK_UINT(crowd.opened, MANY);
	CHECK_UINT(crowd.server_opened, MANY);
	idle();
	close_all();
	link_run(&net_link, 5000 * LINK_MS, NULL, NULL); /* TIME_WAIT */
	for (int side = 0; side < 2; side++) {
		CHECK_UINT(net_connections(net_link.net[side]), 0);
		CHECK_UINT(net_counters(net_link.net[side])->tcp_retrans_segs, 0);
	}
	CHECK_UINT(crowd.wrong, 0);
	link_down(&net_link);
	free(crowd.members);
}

static size_t allocated(void)
{
	const struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static size_t stack_bytes(uint32_t connections)
{
	struct net_options options = link_options(&net_link, 0);
	struct star_error err = { 0 };
	const size_t before = allocated();
	struct net *net;
	size_t bytes;

	options.connections_max = connections;
	net = net_create(&options, &err);
	bytes = allocated() - before;
	CHECK(net);
	net_destroy(net);
	return bytes;
}

/* A stack allocates at its creation only: what a connection costs there is all that it costs while it is idle. */
void an_idle_connection_takes_a_bounded_memory(void)
{
	size_t bytes;

	link_init(&net_link, 1);
	link_up(&net_link);
	bytes = (stack_bytes(MANY) - stack_bytes(FEW)) / (MANY - FEW);
	/* The sanitizer's allocator keeps no such accounts. */
#ifndef __SANITIZE_ADDRESS__
	CHECK(bytes > 0);
#endif
	if (bytes > IDLE_BYTES_MAX)
		unit_fail(__FILE__, __LINE__, "a connection takes %zu bytes, of %d", bytes, IDLE_BYTES_MAX);
	link_down(&net_link);
}
