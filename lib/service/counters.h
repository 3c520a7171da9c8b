/* SPDX-License-Identifier: BSD-3-Clause */
/* What the service of requests counts, and the values that programs keep. Plain counters with one writer, the
 * reactor; any thread may read them. */
#ifndef SERVICE_COUNTERS_H
#define SERVICE_COUNTERS_H

#include <stdint.h>

/* X(name, what it counts). */
#define SERVICE_COUNTERS(X) \
	X(pulls, "pulls executed") \
	X(pushes, "pushes and assigns executed") \
	X(rows_pulled, "rows read by pulls") \
	X(rows_pushed, "rows written by pushes and assigns") \
	X(direct, "small requests executed on the fast path, without a task") \
	X(runs, "programs executed by tasks") \
	X(commits, "sums that were applied") \
	X(late, "pushes refused: their sums are closed")

struct service_counters {
#define X(name, text) uint64_t name;
	SERVICE_COUNTERS(X)
#undef X
};

/* X(name, what it is): levels are current values, events are counted since the start. */
#define KEPT_LEVELS(X) \
	X(entries, "values that programs keep for a step") \
	X(bytes, "memory of values that programs keep")
#define KEPT_EVENTS(X) \
	X(refused, "values not kept: there was no room, or the session has used up its share") \
	X(expired, "values that nobody asked for in time")

struct kept_stats {
#define X(name, text) uint64_t name;
	KEPT_LEVELS(X)
	KEPT_EVENTS(X)
#undef X
};

#endif
