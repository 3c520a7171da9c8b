/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only place that knows lib/net: a stack in this process, without a NIC, whose packets begin with their IP header.
 * Its one interface reaches all others through a gateway, which answers at once. One stack at a time; the caller keeps
 * calls apart. Connections tell their user, a struct sock, by the calls named socket_* below.
 */
#ifndef TESTS_PACKETDRILL_STACK_H
#define TESTS_PACKETDRILL_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STACK_PACKET_MAX = 65300 }; /* packetdrill hands in what Linux would have joined, too */

struct sock;
struct tcp_conn;

/* An IPv4 address stands in the first 4 bytes. Port in host order. */
struct endpoint {
	int family; /* AF_INET, AF_INET6, AF_UNSPEC: none */
	uint8_t address[16];
	uint16_t port;
};

struct stack_options {
	struct endpoint local;
	unsigned mtu;
	uint64_t now_ns;
	uint32_t receive_window_bytes, receive_initial_bytes;
	uint32_t rto_min_us;
	bool sack, timestamps, scale, idle_restart;
	int ecn; /* as Linux's sysctl: 0 off, 1 asked for, 2 accepted */
	const char *congestion;
};

struct stack_conn_options {
	const char *congestion; /* NULL: stays */
	uint32_t user_timeout_ms;
	uint32_t keepalive_idle_s, keepalive_interval_s, keepalive_probes; /* idle 0: none */
	uint32_t receive_bytes; /* its receive buffer, which grows no more; 0: stays */
};

/* Names and units are those of Linux's struct tcp_info. */
struct stack_info {
	uint8_t state, ca_state, retransmits, backoff, snd_scale, rcv_scale;
	bool sack, timestamps, scale, ecn;
	uint32_t rto_us, mss, rcv_mss, advmss, unacked, sacked, lost, retrans;
	uint32_t rtt_us, rttvar_us, min_rtt_us, ssthresh, cwnd, reordering, total_retrans;
	uint32_t unsent_bytes, snd_wnd, snd_wnd_max;
};

/* false with a message on standard error. */
bool stack_up(const struct stack_options *options, void (*output)(void *ctx, const void *packet, size_t bytes),
	      void *ctx);
void stack_down(void);
/* Whether it runs, and over which version of IP. */
int stack_family(void);

void stack_input(const void *packet, size_t bytes, uint64_t now_ns);
/* Everything that is due by then. */
void stack_turn(uint64_t now_ns);
/* When something may become due; UINT64_MAX: never. */
uint64_t stack_next_ns(void);

/* 0 or -errno. receive_bytes: the receive buffer of a connection, which does not grow; 0: as stack_options say. */
int stack_listen(uint16_t port, struct sock *listener, uint32_t receive_bytes);
void stack_unlisten(uint16_t port);
/* local's port may be 0. */
int stack_connect(struct sock *sock, const struct endpoint *local, const struct endpoint *remote,
		  uint32_t receive_bytes, struct tcp_conn **conn);
void stack_addresses(const struct tcp_conn *conn, struct endpoint *local, struct endpoint *remote);

uint32_t stack_mss(const struct tcp_conn *conn);
/* Bytes queued: not yet acknowledged, and of these not yet sent. */
uint32_t stack_unacked(const struct tcp_conn *conn);
uint32_t stack_unsent(const struct tcp_conn *conn);
/* A segment of at most stack_mss bytes; false when there is no memory, or no connection to send on. */
bool stack_send(struct tcp_conn *conn, const void *data, uint32_t bytes);
void stack_consumed(struct tcp_conn *conn, uint32_t bytes, uint32_t receive_bytes);
/* Half-close. */
void stack_finish(struct tcp_conn *conn);
void stack_set(struct tcp_conn *conn, const struct stack_conn_options *options);
/* Whether there is a congestion control of that name. */
bool stack_has_congestion(const char *name);
void stack_close(struct tcp_conn *conn);
void stack_abort(struct tcp_conn *conn);
void stack_info(const struct tcp_conn *conn, struct stack_info *info);

/* What a connection tells. socket_opened's listener is NULL for an active open; it returns the connection's sock, or
 * NULL to refuse. data is valid during the call. */
struct sock *socket_opened(struct sock *listener, struct sock *sock, struct tcp_conn *conn);
void socket_received(struct sock *sock, const void *data, uint32_t bytes);
void socket_acknowledged(struct sock *sock);
void socket_finished(struct sock *sock);
void socket_closed(struct sock *sock, int reason);

#endif
