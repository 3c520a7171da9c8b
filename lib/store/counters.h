/* SPDX-License-Identifier: BSD-3-Clause */
/* What a table counts on its shard. Plain counters with one writer, the reactor; any thread may read them. */
#ifndef STORE_COUNTERS_H
#define STORE_COUNTERS_H

#include <stdint.h>

/* X(name, what it counts). Except for moved_max, sums over shards are the figures of the whole. */
#define STORE_LEVELS(X) \
	X(rows, "rows") \
	X(memory_bytes, "of the arena, taken by rows, index and filters; what deletion gave back apart") \
	X(free_bytes, "given back, and kept for new rows") \
	X(moved_max, "most index entries that one operation moved")
#define STORE_EVENTS(X) \
	X(created, "rows made") \
	X(deleted, "rows deleted on request") \
	X(evicted, "rows that the table's policies removed") \
	X(refused, "rows not created because the arena, or the table's share of rows_max, is full") \
	X(unadmitted, "pulls and pushes of keys that the filter keeps out") \
	X(nonfinite, "gradients with NaN or infinities") \
	X(missed, "keys of pulls and pushes that had no row") \
	X(admitted, "keys that the filter has let in: they got rows") \
	X(versioned, "pushes that name the version of the table that they were computed from") \
	X(staleness, \
	  "pushes to the table, on their shard, between that version and the push: of all of them together") \
	X(requests_refused, "requests that failed at an operation on the table") \
	X(pushes, "push and assign operations applied: wire_result.version") \
	X(rows_pushed, "rows that pushes and assigns brought") \
	X(pulls, "pulls executed, and look-ups by programs") \
	X(rows_pulled, "rows that they read") \
	X(bytes_in, "bytes of operations on the table: keys, rows, gradients; of a request for several, its own") \
	X(bytes_out, "bytes of their results: rows, versions; of programs what was looked up or computed of each row")
#define STORE_STATS(X) \
	STORE_LEVELS(X) \
	STORE_EVENTS(X)

struct store_stats {
#define X(name, text) uint64_t name;
	STORE_STATS(X)
#undef X
};

#endif
