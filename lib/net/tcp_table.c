/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection table: where connections come from, how they are found, and how they end. */
#include <errno.h>
#include <rte_jhash.h>
#include <stdlib.h>

#include "net/tcp_internal.h"

int tcp_table_init(struct net *net)
{
	const uint32_t count = net->options.connections_max;
	const uint32_t buckets = rte_align32pow2(count) * 2;

	net->conns = calloc(count, sizeof(*net->conns));
	net->hash = calloc(buckets, sizeof(*net->hash));
	if (!net->conns || !net->hash) {
		free(net->conns);
		free(net->hash);
		return -ENOMEM;
	}
	net->ack_tail = &net->ack_list;
	net->hash_mask = buckets - 1;
	net->hash_seed = (uint32_t)net->options.secret[0];
	net->half_open_max = count / TCP_HALF_OPEN_SHARE + 1;
	net->next_port = (uint16_t)(net->options.secret[1] % 16384);
	for (uint32_t i = count; i-- > 0;) {
		net->conns[i].net = net;
		net->conns[i].list_next = net->free_list;
		net->free_list = &net->conns[i];
	}
	return 0;
}

static void free_payloads(struct tcp_conn *conn)
{
	struct rte_mbuf *m = conn->send_head;

	while (m) {
		struct rte_mbuf *next = net_priv(m)->next;

		rte_pktmbuf_free(m);
		m = next;
	}
	conn->send_head = conn->send_next = conn->send_tail = NULL;
	tcp_reorder_clear(conn);
}

void tcp_table_fini(struct net *net)
{
	for (uint32_t i = 0; i < net->options.connections_max; i++)
		free_payloads(&net->conns[i]);
	free(net->conns);
	free(net->hash);
}

static struct tcp_conn **bucket(struct net *net, const struct net_address *local, rte_be16_t local_port,
				const struct net_address *remote, rte_be16_t remote_port)
{
	const uint32_t ports = (uint32_t)local_port << 16 | remote_port;
	uint32_t hash;

	if (net_address_is_v4(remote)) {
		hash = rte_jhash_3words(local->words[3], remote->words[3], ports, net->hash_seed);
	} else {
		uint32_t words[9];

		memcpy(words, local, sizeof(*local));
		memcpy(words + 4, remote, sizeof(*remote));
		words[8] = ports;
		hash = rte_jhash_32b(words, RTE_DIM(words), net->hash_seed);
	}
	return &net->hash[hash & net->hash_mask];
}

struct tcp_conn *tcp_find(struct net *net, const struct net_address *local, rte_be16_t local_port,
			  const struct net_address *remote, rte_be16_t remote_port)
{
	struct tcp_conn *conn = *bucket(net, local, local_port, remote, remote_port);

	while (conn && (conn->remote_port != remote_port || conn->local_port != local_port ||
			!net_address_equal(&conn->path.remote, remote) || !net_address_equal(&conn->path.local, local)))
		conn = conn->hash_next;
	return conn;
}

static uint64_t rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1], v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1], v[0] += v[3];
	v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

/* Initial sequence number by RFC 6528: a clock of 4 us plus SipHash-2-4 (Aumasson, Bernstein, 2012) of the four-tuple
 * under the stack's secret. */
static uint32_t initial_sequence(const struct net *net, const struct tcp_conn *conn)
{
	const uint64_t *key = net->options.secret;
	const uint64_t *local = conn->path.local.halves, *remote = conn->path.remote.halves;
	const uint64_t words[] = {
		local[0],	   local[1], remote[0], remote[1], (uint64_t)conn->local_port << 16 | conn->remote_port,
		UINT64_C(40) << 56
	};
	uint64_t v[4] = { key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
			  key[1] ^ 0x7465646279746573u };

	for (unsigned i = 0; i < RTE_DIM(words); i++) {
		v[3] ^= words[i];
		sip_round(v), sip_round(v);
		v[0] ^= words[i];
	}
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return (uint32_t)(net->now_ns / 4000) + (uint32_t)(v[0] ^ v[1] ^ v[2] ^ v[3]);
}

static void time_wait_unlink(struct tcp_conn *conn)
{
	struct net *net = conn->net;

	*(conn->older ? &conn->older->newer : &net->time_wait_oldest) = conn->newer;
	*(conn->newer ? &conn->newer->older : &net->time_wait_newest) = conn->older;
	conn->older = conn->newer = NULL;
}

struct tcp_conn *tcp_conn_make(struct net *net, const struct tcp_listener *listener, const struct net_path *path,
			       rte_be16_t local_port, rte_be16_t remote_port)
{
	struct tcp_conn *conn, **chain;
	uint8_t scale = 0;

	if (!net->free_list && net->time_wait_oldest) {
		net->counters.tcp_time_wait_reused++;
		tcp_conn_end(net->time_wait_oldest, 0);
		tcp_flush(net); /* brings its memory to the free list now */
	}
	conn = net->free_list;
	if (!conn)
		return NULL;
	net->free_list = conn->list_next;
	net->connections++;
	while (scale < 14 && net->options.receive_window_bytes >> scale > UINT16_MAX)
		scale++;
	*conn = (struct tcp_conn){
		.net = net,
		.path = *path,
		.local_port = local_port,
		.remote_port = remote_port,
		.handler = listener->handler,
		.ctx = listener->ctx,
		.rcv_scale = scale,
		.mss = 536, /* RFC 9293, 3.7.1: until the peer says otherwise */
		.timer.fire = tcp_timer_fire,
		.ack_timer.fire = tcp_ack_timer_fire,
		.progress_ns = net->now_ns,
	};
	conn->iss = initial_sequence(net, conn);
	conn->snd_una = conn->snd_nxt = conn->snd_max = conn->iss;
	conn->snd_end = conn->iss + 1;
	tcp_recovery_init(conn);
	chain = bucket(net, &path->local, local_port, &path->remote, remote_port);
	conn->hash_next = *chain;
	*chain = conn;
	return conn;
}

static void unhash(struct tcp_conn *conn)
{
	struct tcp_conn **link =
		bucket(conn->net, &conn->path.local, conn->local_port, &conn->path.remote, conn->remote_port);

	while (*link != conn)
		link = &(*link)->hash_next;
	*link = conn->hash_next;
}

/* The user hears of the end once. */
static void tell_closed(struct tcp_conn *conn, int reason)
{
	if (!(conn->flags & TCP_TOLD))
		return;
	conn->flags &= (uint8_t)~TCP_TOLD;
	conn->handler->closed(conn->user, reason);
}

void tcp_conn_end(struct tcp_conn *conn, int reason)
{
	struct net *net = conn->net;

	if (conn->state == TCP_CLOSED)
		return;
	if (conn->state == TCP_SYN_RECEIVED && conn->flags & TCP_PASSIVE)
		net->half_open--;
	if (conn->state == TCP_TIME_WAIT)
		time_wait_unlink(conn);
	conn->state = TCP_CLOSED;
	net->connections--;
	unhash(conn);
	free_payloads(conn);
	wheel_cancel(&net->wheel, &conn->timer);
	wheel_cancel(&net->wheel, &conn->ack_timer);
	tell_closed(conn, reason);
	tcp_list(conn, 0); /* tcp_flush puts it on the free list: pointers stay good for the rest of the turn */
}

void tcp_enter_time_wait(struct tcp_conn *conn)
{
	struct net *net = conn->net;

	free_payloads(conn);
	conn->state = TCP_TIME_WAIT;
	conn->older = net->time_wait_newest;
	*(conn->older ? &conn->older->newer : &net->time_wait_oldest) = conn;
	net->time_wait_newest = conn;
	tcp_timer_arm(conn, net->options.time_wait_ms * 1000ul);
	tell_closed(conn, 0);
}

void tcp_list(struct tcp_conn *conn, uint8_t why)
{
	conn->flags |= why;
	if (conn->flags & TCP_LISTED)
		return;
	conn->flags |= TCP_LISTED;
	conn->list_next = NULL;
	*conn->net->ack_tail = conn;
	conn->net->ack_tail = &conn->list_next;
}

/* What one connection has to send at the end of a turn. */
static void flush_conn(struct tcp_conn *conn)
{
	struct net *net = conn->net;

	if (conn->flags & TCP_OUTPUT) {
		conn->flags &= (uint8_t)~TCP_OUTPUT;
		tcp_output(conn);
	}
	if (conn->flags & TCP_ACK_NOW || conn->owed >= 2)
		tcp_send_ack(conn);
	else if (conn->owed && !wheel_armed(&conn->ack_timer))
		wheel_arm(&net->wheel, &conn->ack_timer, net->now_ns + net->options.delayed_ack_us * NET_US);
}

/* The end of a turn: sends what became possible, then the ACKs that no data has carried. What finds the output queue full
 * comes in the next call, behind those that had no turn yet. */
void tcp_flush(struct net *net)
{
	struct tcp_conn *list = net->ack_list, **end = net->ack_tail;

	net->ack_list = NULL;
	net->ack_tail = &net->ack_list;
	while (list && net_room(net)) {
		struct tcp_conn *conn = list;

		list = conn->list_next;
		conn->flags &= (uint8_t)~TCP_LISTED;
		if (conn->state == TCP_CLOSED) {
			conn->list_next = net->free_list;
			net->free_list = conn;
			continue;
		}
		flush_conn(conn);
		if (conn->flags & TCP_OUTPUT)
			tcp_list(conn, 0);
	}
	if (!list)
		return;
	*end = net->ack_list;
	if (net->ack_list == NULL)
		net->ack_tail = end;
	net->ack_list = list;
}

int tcp_listen(struct net *net, uint16_t port, const struct tcp_handler *handler, void *ctx)
{
	for (unsigned i = 0; i < net->listeners_count; i++)
		if (net->listeners[i].port == port)
			return -EADDRINUSE;
	if (net->listeners_count == NET_LISTENERS_MAX)
		return -ENOSPC;
	net->listeners[net->listeners_count++] = (struct tcp_listener){ port, handler, ctx };
	return 0;
}

struct tcp_conn *tcp_connect(struct net *net, const struct net_address *address, uint16_t port,
			     const struct tcp_handler *handler, void *ctx, void *user, struct star_error *err)
{
	const struct tcp_listener by = { 0, handler, ctx };
	struct tcp_conn *conn;
	struct net_path path;
	rte_be16_t local_port;
	int tries = 0;

	if (!net_path_find(net, address, NULL, &path)) {
		star_error_set(err, -EHOSTUNREACH, "no route to the address: give the port a gateway");
		return NULL;
	}
	do {
		local_port = rte_cpu_to_be_16(49152 + net->next_port++ % 16384);
		if (++tries > 16384) {
			star_error_set(err, -EADDRNOTAVAIL, "all local ports to that address are in use");
			return NULL;
		}
	} while (tcp_find(net, &path.local, local_port, address, rte_cpu_to_be_16(port)));
	conn = tcp_conn_make(net, &by, &path, local_port, rte_cpu_to_be_16(port));
	if (!conn) {
		star_error_set(err, -ENOBUFS, "all %u connections are in use", net->options.connections_max);
		return NULL;
	}
	conn->user = user;
	conn->flags |= TCP_TOLD;
	conn->state = TCP_SYN_SENT;
	net->counters.tcp_active_opens++;
	tcp_send_syn(conn);
	tcp_timer_arm(conn, conn->rto_us);
	return conn;
}

void tcp_close(struct tcp_conn *conn)
{
	conn->flags |= TCP_READ_CLOSED;
	switch (conn->state) {
	case TCP_SYN_SENT:
		tcp_conn_end(conn, 0);
		return;
	case TCP_SYN_RECEIVED: /* of a simultaneous open: the user of a passive one is not told before it is established */
	case TCP_ESTABLISHED:
		conn->state = TCP_FIN_WAIT_1;
		break;
	case TCP_CLOSE_WAIT:
		conn->state = TCP_LAST_ACK;
		break;
	default:
		return; /* closed already, or closing */
	}
	conn->flags |= TCP_FIN_QUEUED;
	tcp_list(conn, TCP_OUTPUT);
}

void tcp_abort(struct tcp_conn *conn)
{
	if (conn->state == TCP_CLOSED)
		return;
	if (conn->state != TCP_SYN_SENT && conn->state != TCP_TIME_WAIT)
		tcp_reset_peer(conn);
	tcp_conn_end(conn, ECONNABORTED);
}

struct net *tcp_net(const struct tcp_conn *conn)
{
	return conn->net;
}

struct tcp_address tcp_address(const struct tcp_conn *conn)
{
	return (struct tcp_address){ conn->path.local, conn->path.remote, rte_be_to_cpu_16(conn->local_port),
				     rte_be_to_cpu_16(conn->remote_port) };
}
