/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Byte streams over the kernel's TCP sockets, for reactors without NIC queues of their own: it replaces lib/net's TCP.
 * It needs no privileges, no hugepages, and no address besides the kernel's.
 *
 * A struct ksock belongs to one reactor. It has a listening socket and a connection for each worker, and an io_uring or
 * an epoll descriptor. All sockets are non-blocking, so no call waits for a peer.
 * - With epoll each ready connection is read in a turn by one readv into mbufs, which are delivered as by lib/net, and
 *   what was queued is sent by one sendmsg per connection.
 * - With io_uring the kernel reads into mbufs that were given to it beforehand, and one io_uring_enter sends what was
 *   queued on all connections, and collects what has arrived.
 * A reactor sleeps in ksock_sleep.
 *
 * If a reader does not consume what it has received (rpc_transport.consumed), reading is paused: the kernel's window
 * closes, and the peer waits.
 *
 * Thread: the reactor's, except for create and destroy. Memory is allocated only at creation.
 */
#ifndef KSOCK_KSOCK_H
#define KSOCK_KSOCK_H

#include <stdint.h>

#include "base/wheel.h"
#include "ksock/counters.h"
#include "rpc/transport.h"
#include "star_error.h"

/* How a reactor waits for its sockets, reads and writes them. AUTO: io_uring where the kernel allows it, else epoll. */
enum ksock_io_choice { KSOCK_IO_AUTO, KSOCK_IO_EPOLL, KSOCK_IO_URING };

struct ksock_options {
	enum ksock_io_choice io;
	struct rte_mempool *pool;
	const char *host; /* a numeric address that the kernel has on an interface: 127.0.0.1, ::1, 192.0.2.1 */
	uint32_t connections_max;
	/* Bytes that a connection may have received and not consumed. io_uring delivers what the kernel has read before
	 * it is told to stop: at most twice as many mbufs more as it has (ksock_buffers). */
	uint32_t receive_window_bytes;
	uint32_t user_timeout_ms; /* a connection ends if data is unacknowledged for this long; 0: the kernel's
				   * default */
	uint32_t keepalive_s;	  /* 0: none */
	struct wheel *wheel;	  /* of the reactor */
	uint64_t now_ns;
};

struct ksock;

/* NULL with err, which says what to do. */
struct ksock *ksock_create(const struct ksock_options *options, struct star_error *err);
/* Closes all connections without calling the handler. ks may be NULL. */
void ksock_destroy(struct ksock *ks);

/* Reserves the port on which the server will listen later: nobody else can use it from now on, and connections to it
 * are refused. 0, or a negative errno. */
int ksock_reserve(struct ksock *ks, uint16_t port);

/* For rpc_server_options.transport; the ctx is the struct ksock. */
extern const struct rpc_transport ksock_transport;

/* Sleeps until there is something to receive or room to send what waits, the event descriptor wake_fd (non-blocking) is
 * written, or ns nanoseconds are over; sometimes for less. What was written to wake_fd is read. */
void ksock_sleep(struct ksock *ks, int wake_fd, uint64_t ns);

/* How many empty mbufs the kernel has: with io_uring 32, or one per connection while little waits unread, and at most
 * an eighth of the pool. Approximate. Any thread. */
unsigned ksock_buffers(const struct ksock *ks);

/* "io_uring" or "epoll". Any thread. */
const char *ksock_io_name(const struct ksock *ks);

/* Why it is not io_uring, although that was wanted if possible: a negative errno; otherwise 0. Any thread. */
int ksock_io_refused(const struct ksock *ks);

/* Accepts connections, and receives from each ready one. Returns a measure of the work done; 0: nothing was ready. */
unsigned ksock_receive(struct ksock *ks, uint64_t now_ns);

/* Passes queued data to the kernel, as far as it accepts it. Returns how many connections had something to send. */
unsigned ksock_transmit(struct ksock *ks, uint64_t now_ns);

const struct ksock_counters *ksock_counters(const struct ksock *ks);

/* How many connections are open, approximately. Any thread. */
uint32_t ksock_connections(const struct ksock *ks);

/* A connection's state here, and the kernel's TCP_INFO of it (in the kernel's numbers and units). */
struct ksock_connection {
	struct tcp_address address;
	uint32_t queued;    /* bytes not yet passed to the kernel */
	uint32_t unread;    /* bytes received and not consumed */
	uint32_t silent_ms; /* since something was last received */
	uint64_t bytes_in, bytes_out;
	uint8_t state, recovery, retransmits, probes, send_scale, receive_scale;
	bool timestamps, sack, scale, ecn;
	char congestion[16];
	uint32_t send_mss, receive_mss, advertised_mss, path_mtu;
	uint32_t cwnd, ssthresh, unacked, sacked, lost, retransmitted, retransmitted_total; /* segments */
	uint32_t rto_us, rtt_us, rttvar_us, receive_space, last_sent_ms, last_heard_ms;
};

/* One step of a list of all connections, in bounded time: writes up to max connections from *cursor on (0 at first),
 * returns their number, and moves *cursor (UINT32_MAX: that was the last step). */
unsigned ksock_list(const struct ksock *ks, uint32_t *cursor, struct ksock_connection *list, unsigned max);

#endif
