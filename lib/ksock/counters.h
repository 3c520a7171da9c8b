/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel's sockets of a reactor count. Plain counters with one writer, the reactor; any thread may read
 * them. */
#ifndef KSOCK_COUNTERS_H
#define KSOCK_COUNTERS_H

#include <stdint.h>

/* X(name, what it counts). */
#define KSOCK_COUNTERS(X) \
	X(accepted, "connections accepted") \
	X(refused, "connections refused: rpc had no stream for them") \
	X(accept_failed, "connections not accepted: no file descriptor or memory; tried again later") \
	X(idle_closed, "connections closed for a new one because the table was full: the one idle for longest, or " \
		       "one of an address with many") \
	X(resets, "connections ended by an error of the socket") \
	X(unsent_timeouts, "connections dropped while closing: the peer did not read") \
	X(no_mbuf, "turns in which nothing was received: no mbuf left") \
	X(bytes_in, "bytes received") \
	X(bytes_out, "bytes given to the kernel") \
	X(reads, "reads from a socket that the kernel completed") \
	X(writes, "writes to a socket that the kernel completed") \
	X(enters, "io_uring_enter calls; 0 with epoll")

struct ksock_counters {
#define X(name, text) uint64_t name;
	KSOCK_COUNTERS(X)
#undef X
};

#endif
