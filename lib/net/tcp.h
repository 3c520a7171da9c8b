/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP (RFC 9293) of a stack: listen, connect, send, receive, close. Everything belongs to the stack's thread.
 *
 * Sending copies nothing: a payload is written once, into mbufs of tcp_alloc, one segment each; the stack puts headers
 * in front, and keeps the mbuf until it is acknowledged. Received payload is handed up in order, in the mbufs it came
 * in.
 *
 * A connection is valid from handler->opened (or tcp_connect) until handler->closed has returned. Handlers may call
 * tcp_send, tcp_close and tcp_abort on their own connection.
 */
#ifndef NET_TCP_H
#define NET_TCP_H

#include <stdbool.h>
#include <stdint.h>

#include "net/net.h"

struct tcp_conn;
enum { TCP_CONN_BYTES = 744 }; /* at most: what a connection takes, apart from what it has to send or has received */

struct tcp_handler {
	/* Established, from either side. *user is the connection's, to be set. False refuses: the peer gets a RST. */
	bool (*opened)(void *ctx, struct tcp_conn *conn, void **user);
	/* The next bytes of the stream: data_off and data_len show them. The callee owns payload; it gives the window
	 * back by tcp_consumed. Not called after tcp_close or tcp_abort. */
	void (*received)(void *user, struct rte_mbuf *payload);
	/* Some of what was sent has been acknowledged: tcp_queued has fallen. */
	void (*acknowledged)(void *user);
	/* The peer sends no more. The connection can still send, unless it was shut down; tcp_close ends it. */
	void (*finished)(void *user);
	/* It is gone: 0 after an orderly close, else ECONNRESET, ETIMEDOUT, ECONNREFUSED, ECONNABORTED; or, where ICMP
	 * said why nothing came, EHOSTUNREACH, ENETUNREACH, EACCES and the like. Called once for each connection that
	 * was opened, or that tcp_connect returned. */
	void (*closed)(void *user, int reason);
};

int tcp_listen(struct net *net, uint16_t port, const struct tcp_handler *handler, void *ctx);
/* Connections that it has accepted stay. -ENOENT: nobody listens there. */
int tcp_unlisten(struct net *net, uint16_t port);

/* Starts an active open; user is the connection's from the start. NULL with err. */
struct tcp_conn *tcp_connect(struct net *net, const struct net_address *address, uint16_t port,
			     const struct tcp_handler *handler, void *ctx, void *user, struct star_error *err);

/* The same from one of our addresses and ports; NULL and 0: any. */
struct tcp_conn *tcp_connect_from(struct net *net, const struct net_address *local, uint16_t local_port,
				  const struct net_address *address, uint16_t port, const struct tcp_handler *handler,
				  void *ctx, void *user, struct star_error *err);

/* Payload bytes that a segment can carry, while the path carries what it did at first: smaller ones are made by the
 * stack. */
uint32_t tcp_mss(const struct tcp_conn *conn);

/* An empty mbuf with room for tcp_mss bytes, headers apart; NULL when the pool is empty. */
struct rte_mbuf *tcp_alloc(struct tcp_conn *conn);

/* Queues a payload of 1 to tcp_mss bytes; owns it. Sent at once as far as windows allow, at the latest by net_output.
 * false (payload freed) when the connection can send no more. */
bool tcp_send(struct tcp_conn *conn, struct rte_mbuf *payload);

/* Bytes queued and not yet acknowledged. */
uint32_t tcp_queued(const struct tcp_conn *conn);

/* How long the peer has taken none of what is queued; 0 when nothing is. */
uint64_t tcp_stalled_ns(const struct tcp_conn *conn);

/* The reader has done with n bytes: the window may open again. */
void tcp_consumed(struct tcp_conn *conn, uint32_t bytes);

/* What has come so far will be answered, if perhaps not soon: until something is sent, an ACK is delayed for as long as
 * Linux delays it for such connections. */
void tcp_will_answer(struct tcp_conn *conn);

/* Something will be sent: starts loading what that needs. */
void tcp_prefetch(const struct tcp_conn *conn);

/* Sends what is queued, then FIN; goes on receiving, until the peer's FIN, which finished and then closed tell. */
void tcp_shutdown(struct tcp_conn *conn);

/* The same, and receives no more: data that still comes resets the connection. closed comes later. */
void tcp_close(struct tcp_conn *conn);

/* Sends RST. closed is called with ECONNABORTED before this returns. */
void tcp_abort(struct tcp_conn *conn);

/* Probes a peer that has sent nothing for idle_s, every interval_s, and gives the connection up (ETIMEDOUT) after this
 * many without an answer (RFC 9293, 3.8.4). idle_s 0: never. New connections have what net_options say. */
void tcp_set_keepalive(struct tcp_conn *conn, uint32_t idle_s, uint32_t interval_s, uint32_t probes);

/* For how long what was sent may stay unacknowledged, or unsent because the peer's window is closed (RFC 5482). 0: as
 * net_options say; then a peer that answers, and only does not read, is waited for. */
void tcp_set_user_timeout(struct tcp_conn *conn, uint32_t timeout_ms);

/* Holds a small segment back while data is unacknowledged (RFC 9293, 3.7.4). Off by default: requests and replies are
 * written whole. */
void tcp_set_nagle(struct tcp_conn *conn, bool on);

/* Another congestion control than net_options say, from now on. */
void tcp_set_congestion(struct tcp_conn *conn, enum net_congestion which);
const char *tcp_congestion_name(const struct tcp_conn *conn);

struct net *tcp_net(const struct tcp_conn *conn);

struct tcp_address {
	struct net_address local, remote;
	uint16_t local_port, remote_port;
};
struct tcp_address tcp_address(const struct tcp_conn *conn);

#endif
