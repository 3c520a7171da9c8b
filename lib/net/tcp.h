/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP (RFC 9293) of a stack: listen, connect, send, receive, close. Everything belongs to the stack's thread.
 *
 * Sending copies nothing: the user writes a payload into mbufs of tcp_alloc, one for each segment; the stack adds
 * headers, and keeps the mbuf until it is acknowledged. Received payload is delivered in order, in the mbufs in which
 * it came.
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
enum { TCP_CONN_BYTES = 744 }; /* memory of a connection at most, without what it has to send or has received */

struct tcp_handler {
	/* The connection is established, from either side. Set *user, which the other handlers get. false refuses it:
	 * the peer gets a RST. */
	bool (*opened)(void *ctx, struct tcp_conn *conn, void **user);
	/* The next bytes of the stream are payload's data. The callee owns it, and must call tcp_consumed so that the
	 * window opens again. Not called after tcp_close or tcp_abort. */
	void (*received)(void *user, struct rte_mbuf *payload);
	/* Some of what was sent has been acknowledged: tcp_queued is lower now. */
	void (*acknowledged)(void *user);
	/* The peer has sent FIN. We can still send, unless tcp_shutdown was called; tcp_close ends the connection. */
	void (*finished)(void *user);
	/* The connection is gone. reason: 0 after an orderly close, else ECONNRESET, ETIMEDOUT, ECONNREFUSED,
	 * ECONNABORTED, ENETDOWN (its interface was removed); or, if ICMP said why no answer came, EHOSTUNREACH,
	 * ENETUNREACH, EACCES and the like. Called once for each connection that was opened, or that tcp_connect
	 * returned. */
	void (*closed)(void *user, int reason);
};

int tcp_listen(struct net *net, uint16_t port, const struct tcp_handler *handler, void *ctx);
/* Connections that were accepted stay. -ENOENT: nobody listens there. */
int tcp_unlisten(struct net *net, uint16_t port);

/* Starts an active open. `user` is what handlers get, from the start. NULL with err. */
struct tcp_conn *tcp_connect(struct net *net, const struct net_address *address, uint16_t port,
			     const struct tcp_handler *handler, void *ctx, void *user, struct star_error *err);

/* The same from one of our addresses and ports. NULL and 0: any. */
struct tcp_conn *tcp_connect_from(struct net *net, const struct net_address *local, uint16_t local_port,
				  const struct net_address *address, uint16_t port, const struct tcp_handler *handler,
				  void *ctx, void *user, struct star_error *err);

/* Payload bytes of a full segment, as agreed at the handshake. If the path's MTU becomes smaller later, the stack
 * splits segments itself. */
uint32_t tcp_mss(const struct tcp_conn *conn);

/* An empty mbuf with room for headers and tcp_mss bytes. NULL: the pool is empty. */
struct rte_mbuf *tcp_alloc(struct tcp_conn *conn);

/* Queues a payload of 1 to tcp_mss bytes, and owns it. It is sent at once as far as windows allow, at the latest by
 * net_output. false, and payload is freed: the connection cannot send any more. */
bool tcp_send(struct tcp_conn *conn, struct rte_mbuf *payload);

/* Bytes queued and not yet acknowledged. */
uint32_t tcp_queued(const struct tcp_conn *conn);

/* How long the peer has accepted nothing of what is queued; 0 if nothing is queued. */
uint64_t tcp_stalled_ns(const struct tcp_conn *conn);

/* The reader has consumed this many bytes: the window may open again. */
void tcp_consumed(struct tcp_conn *conn, uint32_t bytes);

/* What has arrived so far will be answered, though perhaps not soon. Until something is sent, ACKs are delayed as long
 * as Linux delays them for interactive connections. */
void tcp_will_answer(struct tcp_conn *conn);

/* Prefetches what sending on this connection needs. */
void tcp_prefetch(const struct tcp_conn *conn);

/* Sends what is queued, then FIN. Receiving continues until the peer's FIN; then finished and closed are called. */
void tcp_shutdown(struct tcp_conn *conn);

/* The same, and receives no more: data that still arrives resets the connection. closed is called later. */
void tcp_close(struct tcp_conn *conn);

/* Sends RST. closed is called, with ECONNABORTED, before this returns. */
void tcp_abort(struct tcp_conn *conn);

/* Probes a peer that has sent nothing for idle_s, every interval_s, and ends the connection (ETIMEDOUT) after `probes`
 * without an answer (RFC 9293, 3.8.4). idle_s 0: never. New connections have the values of net_options. */
void tcp_set_keepalive(struct tcp_conn *conn, uint32_t idle_s, uint32_t interval_s, uint32_t probes);

/* How long data may stay unacknowledged, or unsent because the peer's window is closed, before the connection ends (RFC
 * 5482). 0: as in net_options; then a peer that answers but does not read is waited for. */
void tcp_set_user_timeout(struct tcp_conn *conn, uint32_t timeout_ms);

/* Nagle's algorithm: holds a small segment back while data is unacknowledged (RFC 9293, 3.7.4). Off by default, because
 * requests and replies are written whole. */
void tcp_set_nagle(struct tcp_conn *conn, bool on);

/* Uses another congestion control than that of net_options, from now on. */
void tcp_set_congestion(struct tcp_conn *conn, enum net_congestion which);
const char *tcp_congestion_name(const struct tcp_conn *conn);

struct net *tcp_net(const struct tcp_conn *conn);

struct tcp_address {
	struct net_address local, remote;
	uint16_t local_port, remote_port;
};
struct tcp_address tcp_address(const struct tcp_conn *conn);

#endif
