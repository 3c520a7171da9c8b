/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of TCP's users: opening, closing and configuring connections. */
#include <errno.h>

#include "net/tcp_internal.h"

enum {
	FIRST_PORT = 49152, /* ephemeral ports of active opens (RFC 6335, 6) */
	PORTS = 16384,
	TIME_WAIT_REST_MS = 1000, /* before an active open follows a connection in TIME_WAIT (RFC 6191) */
};

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

int tcp_unlisten(struct net *net, uint16_t port)
{
	for (unsigned i = 0; i < net->listeners_count; i++)
		if (net->listeners[i].port == port) {
			net->listeners[i] = net->listeners[--net->listeners_count];
			return 0;
		}
	return -ENOENT;
}

/* Whether a new connection may follow this one in TIME_WAIT. Its timestamps continue where the old ones ended, so
 * that the peer can tell old segments from new ones; at least one tick must have passed, and a second is on the safe
 * side. */
static bool may_follow(const struct tcp_conn *former)
{
	return former->state == TCP_TIME_WAIT && former->features & TCP_FEATURE_TIMESTAMP &&
	       net_ms(former->net) - former->heard_ms >= TIME_WAIT_REST_MS;
}

/* Whether a new connection may use these ports; former: the one in TIME_WAIT that it follows. */
static bool port_is_free(struct net *net, const struct net_path *path, uint16_t port, rte_be16_t remote_port,
			 struct tcp_conn **former)
{
	*former = tcp_find(net, &path->local, rte_cpu_to_be_16(port), &path->remote, remote_port);
	return !*former || may_follow(*former);
}

/* Ports count up from a value that nobody outside can guess (RFC 6056, 3.3.3). 0: none is free. */
static uint16_t choose_port(struct net *net, const struct net_path *path, rte_be16_t remote_port,
			    struct tcp_conn **former)
{
	const uint32_t offset = (uint32_t)tcp_secret(net, TCP_SECRET_PORT, &path->local, &path->remote, remote_port, 0);

	for (unsigned tries = 0; tries < PORTS; tries++) {
		const uint16_t port = (uint16_t)(FIRST_PORT + (offset + net->next_port++) % PORTS);

		if (port_is_free(net, path, port, remote_port, former))
			return port;
	}
	return 0;
}

static void start_connection(struct tcp_conn *conn, void *user)
{
	struct net *net = conn->net;

	if (net->options.ecn != NET_ECN_ASK)
		conn->features &= (uint8_t)~TCP_FEATURE_ECN;
	conn->user = user;
	conn->flags |= TCP_TOLD;
	conn->state = TCP_SYN_SENT;
	net->counters.tcp_active_opens++;
	tcp_send_syn(conn);
	tcp_timer_start(conn, TCP_TIMER_RETRANSMIT, conn->rto_us);
}

struct tcp_conn *tcp_connect_from(struct net *net, const struct net_address *local, uint16_t local_port,
				  const struct net_address *address, uint16_t port, const struct tcp_handler *handler,
				  void *ctx, void *user, struct star_error *err)
{
	const struct tcp_listener by = { 0, handler, ctx };
	const rte_be16_t remote_port = rte_cpu_to_be_16(port);
	struct tcp_conn *conn, *former = NULL;
	struct net_path path;
	uint32_t floor = 0;

	if (!net_path_find(net, address, local, &path)) {
		star_error_set(err, -EHOSTUNREACH, "no route to the address: give the port a gateway");
		return NULL;
	}
	if (!local_port)
		local_port = choose_port(net, &path, remote_port, &former);
	else if (!port_is_free(net, &path, local_port, remote_port, &former))
		local_port = 0;
	if (!local_port) {
		star_error_set(err, -EADDRNOTAVAIL, "all local ports to that address are in use");
		return NULL;
	}
	if (former) {
		floor = former->snd_nxt + TCP_ISS_STEP;
		tcp_leave_time_wait(former);
	}
	conn = tcp_conn_make(net, &by, &path, rte_cpu_to_be_16(local_port), remote_port);
	if (!conn) {
		star_error_set(err, -ENOBUFS, "all %u connections are in use", net->options.connections_max);
		return NULL;
	}
	if (former && seq_lt(conn->iss, floor))
		tcp_set_iss(conn, floor);
	start_connection(conn, user);
	return conn;
}

struct tcp_conn *tcp_connect(struct net *net, const struct net_address *address, uint16_t port,
			     const struct tcp_handler *handler, void *ctx, void *user, struct star_error *err)
{
	return tcp_connect_from(net, NULL, 0, address, port, handler, ctx, user, err);
}

void tcp_shutdown(struct tcp_conn *conn)
{
	switch (conn->state) {
	/* in a simultaneous open: the user of a passive open is not told before it is established */
	case TCP_SYN_RECEIVED:
	case TCP_ESTABLISHED:
		conn->state = TCP_FIN_WAIT_1;
		break;
	case TCP_CLOSE_WAIT:
		conn->state = TCP_LAST_ACK;
		break;
	default:
		return; /* already shut down, or closed */
	}
	if (tcp_queued(conn) == 0)
		conn->moved_ns = conn->net->now_ns;
	conn->flags |= TCP_FIN_QUEUED;
	tcp_list(conn, TCP_OUTPUT);
}

void tcp_close(struct tcp_conn *conn)
{
	conn->flags |= TCP_READ_CLOSED;
	if (conn->state == TCP_SYN_SENT)
		tcp_conn_end(conn, 0);
	else if (conn->state == TCP_FIN_WAIT_2)
		tcp_timer_idle(conn); /* it was shut down before, so now only the peer's FIN is missing */
	else
		tcp_shutdown(conn);
}

void tcp_abort(struct tcp_conn *conn)
{
	if (conn->state == TCP_CLOSED)
		return;
	if (conn->state != TCP_SYN_SENT && conn->state != TCP_TIME_WAIT)
		tcp_reset_peer(conn);
	tcp_conn_end(conn, ECONNABORTED);
}

void tcp_set_keepalive(struct tcp_conn *conn, uint32_t idle_s, uint32_t interval_s, uint32_t probes)
{
	conn->keep_idle_s = idle_s;
	conn->keep_interval_s = RTE_MAX(interval_s, 1u);
	conn->keep_probes = probes ? (uint8_t)RTE_MIN(probes, (uint32_t)UINT8_MAX) : 1;
	conn->keep_sent = 0;
	tcp_timer_idle(conn);
}

void tcp_set_user_timeout(struct tcp_conn *conn, uint32_t timeout_ms)
{
	conn->user_timeout_ms = timeout_ms ? timeout_ms : conn->net->options.user_timeout_ms;
	if (timeout_ms)
		conn->flags |= TCP_OWN_TIMEOUT;
	else
		conn->flags &= ~(uint32_t)TCP_OWN_TIMEOUT;
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
