/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection table: how connections are created, found and ended. */
#include <errno.h>
#include <rte_jhash.h>
#include <stdlib.h>

#include "base/cores.h"
#include "net/siphash.h"
#include "net/tcp_internal.h"

enum {
	IDLE_LOOKS_MAX = 64,  /* connections that are checked for an idle one, each time when none is free */
	KEEP_INTERVAL_S = 75, /* RFC 9293, 3.8.4 leaves these open; they are the kernel's values */
	KEEP_PROBES = 9,
	QUICK_ACKS = 16,
};

void tcp_defaults(struct net_options *o)
{
	const uint64_t pool_bytes = (uint64_t)o->pool->size * rte_pktmbuf_data_room_size(o->pool);

	if (o->half_open_max == 0)
		o->half_open_max = o->connections_max / TCP_HALF_OPEN_SHARE + 1;
	if (o->receive_initial_bytes == 0 || o->receive_initial_bytes > o->receive_window_bytes)
		o->receive_initial_bytes = RTE_MIN((uint32_t)TCP_RECEIVE_INITIAL, o->receive_window_bytes);
	if (o->receive_grown_bytes == 0)
		o->receive_grown_bytes = pool_bytes / 2;
	if (o->unread_bytes == 0)
		o->unread_bytes = pool_bytes / 2;
	if (o->reorder_mbufs_max == 0)
		o->reorder_mbufs_max = o->pool->size / TCP_REORDER_SHARE;
	if (o->fin_wait_ms == 0)
		o->fin_wait_ms = o->user_timeout_ms;
	if (o->idle_ms == 0)
		o->idle_ms = TCP_IDLE_MS;
	if (o->keepalive_interval_s == 0)
		o->keepalive_interval_s = KEEP_INTERVAL_S;
	if (o->keepalive_probes == 0)
		o->keepalive_probes = KEEP_PROBES;
}

int tcp_table_init(struct net *net)
{
	const uint32_t count = net->options.connections_max;
	const uint32_t buckets = rte_align32pow2(count); /* at most one connection per bucket: idle ones cost memory */

	net->conns = calloc(count, sizeof(*net->conns));
	net->hash = calloc(buckets, sizeof(*net->hash));
	if (!net->conns || !net->hash) {
		free(net->conns);
		free(net->hash);
		return -ENOMEM;
	}
	base_cores_without_rest(net->conns, count * sizeof(*net->conns));
	net->ack_tail = &net->ack_list;
	net->hash_mask = buckets - 1;
	net->hash_seed = net->crowds.seed = (uint32_t)net->options.secret[0];
	for (uint32_t i = count; i-- > 0;) {
		net->conns[i].net = net;
		net->conns[i].list_next = net->free_list;
		net->free_list = &net->conns[i];
	}
	return 0;
}

static void free_payloads(struct tcp_conn *conn)
{
	tcp_queue_clear(conn);
	tcp_reorder_clear(conn);
}

void tcp_table_fini(struct net *net)
{
	for (uint32_t i = 0; i < net->options.connections_max; i++)
		free_payloads(&net->conns[i]);
	free(net->conns);
	free(net->hash);
}

/* Connections are numbered from 1. */
static struct tcp_conn *conn_at(const struct net *net, uint32_t number)
{
	return number ? &net->conns[number - 1] : NULL;
}

static uint32_t number_of(const struct tcp_conn *conn)
{
	return (uint32_t)(conn - conn->net->conns) + 1;
}

uint32_t *tcp_bucket(const struct net *net, const struct net_address *local, rte_be16_t local_port,
		     const struct net_address *remote, rte_be16_t remote_port)
{
	const uint32_t ports = tcp_ports(local_port, remote_port);
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

static inline bool is_between(const struct tcp_conn *conn, const struct net_address *local, rte_be16_t local_port,
			      const struct net_address *remote, rte_be16_t remote_port)
{
	return conn->remote_port == remote_port && conn->local_port == local_port &&
	       net_address_equal(&conn->path.remote, remote) && net_address_equal(&conn->path.local, local);
}

/* The last result is tried first, which saves the hash for several segments in a row. */
struct tcp_conn *tcp_find(struct net *net, const struct net_address *local, rte_be16_t local_port,
			  const struct net_address *remote, rte_be16_t remote_port)
{
	struct tcp_conn *conn = net->found;

	if (conn && is_between(conn, local, local_port, remote, remote_port))
		return conn;
	conn = conn_at(net, *tcp_bucket(net, local, local_port, remote, remote_port));
	while (conn && !is_between(conn, local, local_port, remote, remote_port))
		conn = conn_at(net, conn->hash_next);
	net->found = conn;
	return conn;
}

uint64_t tcp_secret(const struct net *net, enum tcp_secret_purpose purpose, const struct net_address *local,
		    const struct net_address *remote, uint32_t ports, uint64_t more)
{
	const uint64_t words[] = {
		local->halves[0], local->halves[1], remote->halves[0], remote->halves[1], ports, (uint64_t)purpose, more
	};

	return siphash(net->options.secret, words, RTE_DIM(words));
}

void tcp_set_iss(struct tcp_conn *conn, uint32_t iss)
{
	conn->iss = iss;
	conn->snd_una = conn->snd_nxt = iss;
	conn->snd_end = iss + 1;
}

static uint8_t offered_features(const struct net_options *o)
{
	return (o->without & NET_WITHOUT_SACK ? 0 : TCP_FEATURE_SACK) |
	       (o->without & NET_WITHOUT_TIMESTAMPS ? 0 : TCP_FEATURE_TIMESTAMP) |
	       (o->without & NET_WITHOUT_SCALE ? 0 : TCP_FEATURE_SCALE) | (o->ecn == NET_ECN_OFF ? 0 : TCP_FEATURE_ECN);
}

void tcp_conn_init(struct tcp_conn *conn, struct net *net, const struct tcp_listener *listener,
		   const struct net_path *path, rte_be16_t local_port, rte_be16_t remote_port)
{
	const struct net_options *o = &net->options;
	const uint32_t ports = tcp_ports(local_port, remote_port);
	const uint8_t features = offered_features(o);
	uint8_t scale = 0;

	while (features & TCP_FEATURE_SCALE && scale < TCP_SCALE_MAX && o->receive_window_bytes >> scale > UINT16_MAX)
		scale++;
	*conn = (struct tcp_conn){
		.net = net,
		.path = *path,
		.local_port = local_port,
		.remote_port = remote_port,
		.handler = listener->handler,
		.ctx = listener->ctx,
		.features = features,
		.rcv_scale = scale,
		.mss = 536, /* RFC 9293, 3.7.1: the default until the peer says otherwise */
		.timer.fire = tcp_timer_fire,
		.progress_ns = net->now_ns,
		.heard_ms = net_ms(net),
		.data_ms = net_ms(net),
		.rcv_buf = o->receive_initial_bytes,
		.taken_us = net_us(net),
		.quick = QUICK_ACKS,
		.ts_offset = (uint32_t)tcp_secret(net, TCP_SECRET_TIMESTAMP, &path->local, &path->remote, ports, 0),
		.keep_idle_s = o->keepalive_idle_s,
		.keep_interval_s = o->keepalive_interval_s,
		.keep_probes = (uint8_t)RTE_MIN(o->keepalive_probes, (uint32_t)UINT8_MAX),
		.user_timeout_ms = o->user_timeout_ms,
	};
	/* RFC 6528: a 4 us clock plus a secret of the four-tuple. */
	tcp_set_iss(conn, (uint32_t)(net->now_ns / 4000) +
				  (uint32_t)tcp_secret(net, TCP_SECRET_ISS, &path->local, &path->remote, ports, 0));
}

static void time_wait_unlink(struct tcp_conn *conn)
{
	struct net *net = conn->net;

	*(conn->older ? &conn->older->newer : &net->time_wait_oldest) = conn->newer;
	*(conn->newer ? &conn->newer->older : &net->time_wait_newest) = conn->older;
	conn->older = conn->newer = NULL;
}

/* Nothing is in flight in either direction. */
static bool is_idle(const struct tcp_conn *conn)
{
	return (conn->state == TCP_ESTABLISHED || conn->state == TCP_CLOSE_WAIT || conn->state == TCP_FIN_WAIT_2) &&
	       conn->snd_una == conn->snd_nxt && !conn->send_head && conn->unread == 0 && !conn->reorder;
}

/* The connection that has been idle longest, and long enough, of those that are checked; NULL: there is none. */
static struct tcp_conn *find_idle(struct net *net)
{
	struct tcp_conn *idlest = NULL;
	uint32_t longest_ms = net->options.idle_ms;

	for (unsigned i = 0; i < IDLE_LOOKS_MAX; i++) {
		struct tcp_conn *conn = &net->conns[net->idle_hand++ % net->options.connections_max];
		const uint32_t idle_ms = net_ms(net) - conn->data_ms; /* answering keepalives alone is idle, too */

		if (is_idle(conn) && idle_ms >= longest_ms) {
			longest_ms = idle_ms;
			idlest = conn;
		}
	}
	return idlest;
}

/*
 * A connection, of those that are checked, whose address has more than twice as many as the newcomer's would have: an
 * idle one if possible, and of these the one whose data moved longest ago. NULL: there is none.
 */
static struct tcp_conn *find_crowded(struct net *net, const struct net_address *newcomer)
{
	const uint32_t newcomers = *crowd_of(&net->crowds, newcomer);
	struct tcp_conn *worst = NULL;

	for (unsigned i = 0; i < IDLE_LOOKS_MAX; i++) {
		struct tcp_conn *conn = &net->conns[net->idle_hand++ % net->options.connections_max];

		if (conn->state < TCP_ESTABLISHED ||
		    !crowd_gives_way(*crowd_of(&net->crowds, &conn->path.remote), newcomers))
			continue;
		if (!worst || is_idle(conn) > is_idle(worst) ||
		    (is_idle(conn) == is_idle(worst) && net_ms(net) - conn->data_ms > net_ms(net) - worst->data_ms))
			worst = conn;
	}
	return worst;
}

bool tcp_is_crowded(struct net *net, const struct net_address *newcomer)
{
	return !net->free_list && !net->time_wait_oldest && !find_idle(net) && find_crowded(net, newcomer);
}

/* All connections are in use. Frees one that has ended, one that nobody has used for long, or one of an address that
 * has many. */
static void make_conn_room(struct net *net, const struct net_address *newcomer)
{
	struct tcp_conn *idle;

	if (net->time_wait_oldest) {
		net->counters.tcp_time_wait_reused++;
		tcp_conn_end(net->time_wait_oldest, 0);
	} else {
		idle = find_idle(net);
		if (!idle)
			idle = find_crowded(net, newcomer);
		if (!idle)
			return;
		net->counters.tcp_idle_closed++;
		tcp_reset_peer(idle);
		tcp_conn_end(idle, ETIMEDOUT);
	}
	tcp_flush(net); /* returns its memory to the free list now */
}

struct tcp_conn *tcp_conn_make(struct net *net, const struct tcp_listener *listener, const struct net_path *path,
			       rte_be16_t local_port, rte_be16_t remote_port)
{
	struct tcp_conn *conn;
	uint32_t *chain;

	if (!net->free_list)
		make_conn_room(net, &path->remote);
	conn = net->free_list;
	if (!conn)
		return NULL;
	net->free_list = conn->list_next;
	net->connections++;
	tcp_conn_init(conn, net, listener, path, local_port, remote_port);
	tcp_sender_init(conn);
	chain = tcp_bucket(net, &path->local, local_port, &path->remote, remote_port);
	conn->hash_next = *chain;
	*chain = number_of(conn);
	++*crowd_of(&net->crowds, &path->remote);
	return conn;
}

static void unhash(struct tcp_conn *conn)
{
	uint32_t *link =
		tcp_bucket(conn->net, &conn->path.local, conn->local_port, &conn->path.remote, conn->remote_port);

	if (conn->net->found == conn)
		conn->net->found = NULL;
	while (*link != number_of(conn))
		link = &conn_at(conn->net, *link)->hash_next;
	*link = conn->hash_next;
}

/* Tells the user once that the connection has ended. */
static void tell_closed(struct tcp_conn *conn, int reason)
{
	if (!(conn->flags & TCP_TOLD))
		return;
	conn->flags &= ~(uint32_t)TCP_TOLD;
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
	--*crowd_of(&net->crowds, &conn->path.remote);
	unhash(conn);
	free_payloads(conn);
	tcp_window_release(conn);
	wheel_cancel(&net->wheel, &conn->timer);
	tell_closed(conn, reason);
	tcp_list(conn, 0); /* tcp_flush frees it, so pointers stay valid for the rest of the turn */
}

void tcp_enter_time_wait(struct tcp_conn *conn)
{
	struct net *net = conn->net;

	free_payloads(conn);
	tcp_window_release(conn);
	conn->state = TCP_TIME_WAIT;
	conn->older = net->time_wait_newest;
	*(conn->older ? &conn->older->newer : &net->time_wait_oldest) = conn;
	net->time_wait_newest = conn;
	memset(conn->deadlines, 0, sizeof(conn->deadlines));
	tcp_timer_start(conn, TCP_TIMER_STATE, net->options.time_wait_ms * 1000ul);
	tell_closed(conn, 0);
}

void tcp_leave_time_wait(struct tcp_conn *conn)
{
	conn->net->counters.tcp_time_wait_reused++;
	tcp_conn_end(conn, 0);
}

void tcp_list(struct tcp_conn *conn, uint32_t why)
{
	conn->flags |= why;
	if (conn->flags & TCP_LISTED)
		return;
	conn->flags |= TCP_LISTED;
	conn->list_next = NULL;
	*conn->net->ack_tail = conn;
	conn->net->ack_tail = &conn->list_next;
}

/* Sends what one connection has to send at the end of a turn. */
static void flush_conn(struct tcp_conn *conn)
{
	if (conn->flags & TCP_OUTPUT) {
		conn->flags &= ~(uint32_t)TCP_OUTPUT;
		tcp_output(conn);
	}
	tcp_ack_due(conn);
}

/* The end of a turn: sends new segments, then the ACKs that no data has carried. If the output queue is full, the rest
 * is sent by the next call, after connections that had no turn yet. */
void tcp_flush(struct net *net)
{
	struct tcp_conn *list = net->ack_list, **end = net->ack_tail;

	net->ack_list = NULL;
	net->ack_tail = &net->ack_list;
	while (list && net_room(net)) {
		struct tcp_conn *conn = list;

		list = conn->list_next;
		conn->flags &= ~(uint32_t)TCP_LISTED;
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
