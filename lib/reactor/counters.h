/* SPDX-License-Identifier: BSD-3-Clause */
/* What a reactor's loop counts. Plain counters with one writer, the reactor; any thread may read them. */
#ifndef REACTOR_COUNTERS_H
#define REACTOR_COUNTERS_H

#include <stdint.h>

/* X(name, what it counts), or F if something went wrong: `errors` in a node's status. */
#define REACTOR_COUNTERS(X, F) \
	X(turns, "turns of the loop") \
	X(busy_turns, "turns that did work") \
	X(sleeps, "times it slept") \
	X(received, "frames taken from ports") \
	X(sent, "frames given to ports") \
	X(handed_over, "frames given to another reactor") \
	X(handed_in, "frames taken from another reactor") \
	F(hand_over_full, "frames dropped: the other reactor's ring, or the own mempool, was full") \
	F(transmit_dropped, "frames dropped: the port took none for long, or too many waited for it") \
	F(transmit_refused, "frames that the driver finds wrong for the device")

struct reactor_stats {
#define X(name, text) uint64_t name;
	REACTOR_COUNTERS(X, X)
#undef X
	uint64_t busy_cycles, idle_cycles; /* of turns that did work, and of the others, including sleep */
};

#endif
