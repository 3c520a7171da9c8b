/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shard's parameters: tables of rows, in memory that the caller hands over once. One thread a store: the reactor. The
 * exceptions are store_create and store_destroy (the control plane, while no reactor uses the store) and the readers of
 * struct store_stats (plain counters with one writer). store_table_create takes from the arena, so once the reactor
 * runs it is the reactor that calls it, e.g. from its mailbox: it neither allocates nor waits.
 *
 * Nothing here allocates from the system: rows and index grow and shrink inside the arena, in bounded steps (making or
 * removing one row moves at most one index segment of 1536 entries). Rows never move, so a handle stays valid until its
 * row is deleted or evicted: that may happen in any later call that makes rows, deletes or sweeps, but not within one
 * store_find, and not to the rows of a push in flight (store/push.h).
 *
 * A row lies in one piece: key, what the table's policies keep for it (uint32 each: version, frequency, last use, last
 * step, the optimizer's count), values in the stored type, float32 masters, slots; padded to 8 bytes (to 16, 32 or 64
 * in an arena over 32, 64 or 128 GiB). Of rows of 4 KiB and more, values, masters and slots begin cache lines. Beyond
 * that the index takes 6 to 10.5 bytes a row while a table of more than some ten segments grows. Memory of removed rows
 * is kept for new rows of the same table, pages of the index and all that a dropped table had for anything.
 *
 * A row's first value depends on (seed, table name, key, element) alone (store/initial.h), so neither order nor core
 * count changes it.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "star_error.h"
#include "wire/object.h"

enum { STORE_BATCH = 128 }; /* keys of one call: the more, the less each waits for memory */

/* A row: where it lies in the arena, in units of its alignment; what the index holds in 4 bytes. */
typedef uint32_t store_row;
#define STORE_NO_ROW UINT32_MAX

/* X(name, what it counts). One writer; sums over shards, but for moved_max, mean the same of the whole. */
#define STORE_LEVELS(X) \
	X(rows, "rows") \
	X(memory_bytes, "of the arena, taken by rows, index and filters; what deletion gave back apart") \
	X(free_bytes, "given back, and kept for new rows") \
	X(moved_max, "most index entries that one operation moved")
#define STORE_EVENTS(X) \
	X(created, "rows made") \
	X(deleted, "rows deleted on request") \
	X(evicted, "rows that the table's policies removed") \
	X(refused, "rows not made because the arena, or the table's share of it, is full") \
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

struct store;
struct store_table;

/* The arena must outlive the store; it need not be zeroed. NULL with err when it is too small (1 MiB at least) or over
 * 256 GiB. */
struct store *store_create(void *arena, size_t arena_bytes, struct star_error *err);
void store_destroy(struct store *store); /* tables included */

/* How many rows its tables have made so far. */
uint64_t store_made(const struct store *store);

/* A store for tables of sums (store/sums.h) in the same arena, of which the first one's snapshots and sweeps know
 * nothing. To be destroyed before it. NULL with err. */
struct store *store_create_beside(struct store *store, struct star_error *err);

/* share: of the table's partitions that this store has, in (0, 1]: its part of rows_max and filter_keys. NULL with err,
 * e.g. when the arena is full. That the name is new is the caller's to know. */
struct store_table *store_table_create(struct store *store, const struct object_spec *spec, double share,
				       struct star_error *err);
const struct object_spec *store_table_spec(const struct store_table *table);
const struct store_stats *store_table_stats(const struct store_table *table);
/* For whoever executes requests on the table's thread: it counts there what they were (from requests_refused on, but
 * for pushes), and what look-ups by STORE_LOOK missed. */
struct store_stats *store_table_counters(struct store_table *table);
uint64_t store_name_hash(const struct store_table *table);

/*
 * The table is gone, with its rows: the pointer is invalid from now on, and so are handles of rows; no push may be in
 * flight on it. Its memory goes back to the arena, for rows, indexes and tables of any kind: by store_reclaim, about
 * `budget` slabs or index segments in each call, until that is false; and before anybody is refused for want of room. A
 * snapshot under way is lost, and the next one must be a full one.
 */
void store_table_drop(struct store_table *table);
bool store_reclaim(struct store *store, unsigned budget);

/* What a look-up does about keys without a row. */
enum store_find_mode {
	STORE_LOOK, /* nothing, and counts nothing: a read-only pull, whose misses its caller counts */
	STORE_PULL, /* a row is made if the filter admits the key: each of its places in keys counts */
	STORE_PUSH, /* the same; an unadmitted key's gradient will be dropped */
};

/*
 * Finds the rows of n <= STORE_BATCH keys at the worker's training step (0: unknown), which rows with steps to live or
 * LRU remember. rows[i] is STORE_NO_ROW where there is none or no room, STORE_UNADMITTED where the filter keeps the key
 * out. Works in passes: hash, prefetch, look up, prefetch the rows. Returns the number of keys for which there was no
 * room.
 */
#define STORE_UNADMITTED (UINT32_MAX - 1)
unsigned store_find(struct store_table *table, const uint64_t *keys, unsigned n, enum store_find_mode mode,
		    uint64_t step, store_row *rows);

/*
 * Starts loading what a look-up of a key will read, where the caches cannot be expected to have it: first its place in
 * the index; then (imminent: that has come by now) its row. Changes nothing; any key.
 */
void store_prefetch_key(const struct store_table *table, uint64_t key, enum store_find_mode mode, bool imminent);

/* Copies a row's values as a row of dtype (dtype_converts), dtype_row_bytes long: what is stored or, for another type
 * than that, the float32 master if the row has one. STORE_NO_ROW: the key's initial value, as its row would have it;
 * STORE_UNADMITTED: the filter's. */
void store_read(const struct store_table *table, store_row row, uint64_t key, unsigned dtype, void *to);
/* The row itself when dtype is the stored type; NULL else, or without a row. */
const void *store_values(const struct store_table *table, store_row row, unsigned dtype);
/* The same of n rows; false when one has none. */
bool store_values_of(const struct store_table *table, const store_row *rows, unsigned n, unsigned dtype,
		     const void **values);

/* A row's version: from 1 up by one with each push applied to it. A key whose row was deleted or evicted gets a row of
 * a higher version than it had. 0 for no row, or for a table without versions. */
uint32_t store_version(const struct store_table *table, store_row row);

/* The optimizer's state of a row: dim float32 (float64 for rows of float64) a slot; NULL if it has none. */
const void *store_slots(const struct store_table *table, store_row row);

/* Copies the initial value that the row of a key has or would have, in float32. */
void store_initial(const struct store_table *table, uint64_t key, float *values);

/* Starts loading the values of a row into the cache, if store_find has not done so: it does for rows of some hundred
 * bytes. To be called for the next row before one is read. Any row. */
void store_prefetch(const struct store_table *table, store_row row);

/* Deletes the rows of n <= STORE_BATCH keys; returns how many there were. Handles of them are stale from then on; a
 * push in flight that has them updates memory that nobody reads. */
unsigned store_delete(struct store_table *table, const uint64_t *keys, unsigned n);

/*
 * A slice of eviction for the whole store, of about `budget` rows looked at: called by the loop when there is time, and
 * again and again. Returns rows evicted. Rows whose steps to live have passed, by the latest training step that pushes
 * and pulls have brought, are looked for all the time (and keys that wait for admission as long: they are forgotten). A
 * pass over a table that was asked for with store_sweep_begin (starctl) also evicts by L2 weight; it starts again if
 * one is under way. After store_empty_begin all rows are deleted that were there then, and the admission filter forgets
 * its counts; rows that are made during the pass may be deleted with them. Their memory is kept for new rows of the
 * table. Of a table with a filter the next snapshot must be a full one.
 */
unsigned store_sweep(struct store *store, unsigned budget);
void store_sweep_begin(struct store_table *table);
void store_empty_begin(struct store_table *table);
/* About how many rows the running pass over a table has still to look at; 0 when none is under way. */
uint64_t store_sweep_left(const struct store_table *table);

#endif
