/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Byte streams over the kernel's TCP sockets: what lib/net's TCP is to a reactor with NIC queues of its own, this is to
 * one without. It needs no privilege, no hugepages and no address that the kernel does not have.
 *
 * A stack of sockets belongs to one reactor: an epoll descriptor, a listening socket, and a connection for each worker.
 * All sockets are non-blocking, so no call waits for a peer. In a turn each ready connection is read by one readv into
 * mbufs, which are handed up as lib/net hands them up, and what was queued leaves by one sendmsg a connection. The
 * epoll descriptor is readable when there is something to do: the reactor sleeps on it.
 *
 * A reader that gives no window back (rpc_transport.consumed) is not read from: the kernel's window closes, and the
 * peer waits.
 *
 * Thread: the reactor's, create and destroy apart. Allocates at creation only.
 */
#ifndef KSOCK_KSOCK_H
#define KSOCK_KSOCK_H

#include <stdint.h>

#include "base/wheel.h"
#include "rpc/transport.h"
#include "star_error.h"

/* X(name, what it counts). */
#define KSOCK_COUNTERS(X) \
	X(accepted, "connections accepted") \
	X(refused, "connections refused: rpc had no stream for them") \
	X(accept_failed, "connections not accepted: no file descriptor or memory; tried again later") \
	X(idle_closed, \
	  "connections closed for a new one, all places being taken: the idlest, or of an address with many") \
	X(resets, "connections ended by an error of the socket") \
	X(unsent_timeouts, "connections given up while closing: the peer did not read") \
	X(no_mbuf, "turns in which nothing was received: no mbuf left") \
	X(bytes_in, "bytes received") \
	X(bytes_out, "bytes given to the kernel") \
	X(reads, "readv calls") \
	X(writes, "sendmsg calls")

struct ksock_counters {
#define X(name, text) uint64_t name;
	KSOCK_COUNTERS(X)
#undef X
};

struct ksock_options {
	struct rte_mempool *pool;
	const char *host; /* a literal that the kernel has on an interface: 127.0.0.1, ::1, 192.0.2.1 */
	uint32_t connections_max;
	uint32_t receive_window_bytes; /* what a connection may have received and not given back */
	uint32_t user_timeout_ms;      /* unacknowledged data for so long ends a connection; 0: the kernel's default */
	uint32_t keepalive_s;	       /* 0: none */
	struct wheel *wheel;	       /* of the reactor */
	uint64_t now_ns;
};

struct ksock;

/* NULL with a message that says what to do. */
struct ksock *ksock_create(const struct ksock_options *options, struct star_error *err);
/* Closes what is open, without telling the handler. NULL: nothing. */
void ksock_destroy(struct ksock *ks);

/* The port that will be listened at later: nobody else can do so from now on, and who connects is refused. 0, or a
 * negative errno. */
int ksock_reserve(struct ksock *ks, uint16_t port);

/* For rpc_server_options.transport; the ctx is the struct ksock. */
extern const struct rpc_transport ksock_transport;

/* Readable while there is something to receive, or room to send what waits. */
int ksock_wait_fd(const struct ksock *ks);

/* Accepts and receives what is there, some of each ready connection; returns how much it did, and how
 * many connections can send at once; 0: nothing was ready. */
unsigned ksock_receive(struct ksock *ks, uint64_t now_ns);

/* Gives what was queued to the kernel, as far as it takes it. Returns how many connections had something. */
unsigned ksock_transmit(struct ksock *ks, uint64_t now_ns);

const struct ksock_counters *ksock_counters(const struct ksock *ks);

/* How many connections are open. From any thread: a glimpse. */
uint32_t ksock_connections(const struct ksock *ks);

/* A connection: what is known here, and what the kernel's TCP_INFO says (the kernel's numbers and units). */
struct ksock_connection {
	struct tcp_address address;
	uint32_t queued;    /* not yet given to the kernel */
	uint32_t unread;    /* received, and not given back */
	uint32_t silent_ms; /* since something was last received */
	uint64_t bytes_in, bytes_out;
	uint8_t state, recovery, retransmits, probes, send_scale, receive_scale;
	bool timestamps, sack, scale, ecn;
	char congestion[16];
	uint32_t send_mss, receive_mss, advertised_mss, path_mtu;
	uint32_t cwnd, ssthresh, unacked, sacked, lost, retransmitted, retransmitted_total; /* segments */
	uint32_t rto_us, rtt_us, rttvar_us, receive_space, last_sent_ms, last_heard_ms;
};

/* One step of bounded time: up to max connections from *cursor on (0 at first); *cursor is moved, and UINT32_MAX after
 * the last. */
unsigned ksock_list(const struct ksock *ks, uint32_t *cursor, struct ksock_connection *list, unsigned max);

#endif
