/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP (RFC 9293) of a stack: listen, connect, send, receive, close. Everything belongs to the stack's thread.
 *
 * Sending copies nothing: a payload is written once, into mbufs of tcp_alloc, one segment each; the stack puts headers in
 * front, and keeps the mbuf until it is acknowledged. Received payload is handed up in order, in the mbufs it came in.
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

struct tcp_handler {
	/* Established, from either side. *user is the connection's, to be set. False refuses: the peer gets a RST. */
	bool (*opened)(void *ctx, struct tcp_conn *conn, void **user);
	/* The next bytes of the stream: data_off and data_len show them. The callee owns payload; it gives the window back by
	 * tcp_consumed. Not called after tcp_close or tcp_abort. */
	void (*received)(void *user, struct rte_mbuf *payload);
	/* Some of what was sent has been acknowledged: tcp_queued has fallen. */
	void (*acknowledged)(void *user);
	/* The peer sends no more. The connection can still send; tcp_close ends it. */
	void (*finished)(void *user);
	/* It is gone: 0 after an orderly close, else ECONNRESET, ETIMEDOUT, ECONNREFUSED, ECONNABORTED. Called once for each
	 * connection that was opened, or that tcp_connect returned. */
	void (*closed)(void *user, int reason);
};

int tcp_listen(struct net *net, uint16_t port, const struct tcp_handler *handler, void *ctx);

/* Starts an active open; user is the connection's from the start. NULL with err. */
struct tcp_conn *tcp_connect(struct net *net, const struct net_address *address, uint16_t port,
			     const struct tcp_handler *handler, void *ctx, void *user, struct star_error *err);

/* Payload bytes that a segment of this connection can carry. */
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

/* The reader has done with so many bytes: the window may open again. */
void tcp_consumed(struct tcp_conn *conn, uint32_t bytes);

/* Sends what is queued, then FIN. closed comes later. */
void tcp_close(struct tcp_conn *conn);

/* Sends RST. closed is called with ECONNABORTED before this returns. */
void tcp_abort(struct tcp_conn *conn);

struct net *tcp_net(const struct tcp_conn *conn);

struct tcp_address {
	struct net_address local, remote;
	uint16_t local_port, remote_port;
};
struct tcp_address tcp_address(const struct tcp_conn *conn);

#endif
