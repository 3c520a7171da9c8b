/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes for tracers (USDT: bpftrace, perf, SystemTap), of the provider "starserver". Each has a semaphore, which the
 * kernel increments while a tracer is attached: without one a probe is a load and a branch that is not taken, and its
 * arguments are not computed. They exist if <sys/sdt.h> (systemtap-sdt-dev) was available when the program was built.
 * Any thread.
 */
#ifndef BASE_PROBE_H
#define BASE_PROBE_H

/* X(name, its arguments). Scripts depend on both: new arguments are added at the end. */
#define PROBES(X) \
	X(request_begin, "request, session, sequence, bytes of its payload: before its first slice") \
	X(request_end, \
	  "request, session, sequence, status, bytes of the reply: executed, or refused without a beginning") \
	X(push_applied, "name of the table, rows (0: a commit of sums), pushes to it so far: on this reactor") \
	X(eviction, "name of the table, rows that have gone, 1 by a sweep or 0 to make room for a new one") \
	X(retransmission, \
	  "6 of TCP or 17 of a session of datagrams, connection, port of the peer, how many before it") \
	X(checkpoint_slice_begin, "checkpoint") \
	X(checkpoint_slice_end, "checkpoint, bytes in the block that is filled, 1 if it was the last slice")

#if __has_include(<sys/sdt.h>)
#define _SDT_HAS_SEMAPHORES 1
#define SDT_USE_VARIADIC 1
#include <sys/sdt.h>

#define X(name, text) extern unsigned short starserver_##name##_semaphore __attribute__((visibility("hidden")));
PROBES(X)
#undef X

/* Whether a tracer is attached. */
#define PROBE_ON(name) __builtin_expect(__atomic_load_n(&starserver_##name##_semaphore, __ATOMIC_RELAXED) != 0, 0)
#define PROBE(name, ...) \
	do { \
		if (PROBE_ON(name)) \
			STAP_PROBEV(starserver, name, __VA_ARGS__); \
	} while (0)
#else
static inline void probe_without(int unused, ...)
{
	(void)unused;
}
#define PROBE_ON(name) 0
#define PROBE(name, ...) \
	do { \
		if (0) \
			probe_without(0, __VA_ARGS__); \
	} while (0)
#endif

#endif
