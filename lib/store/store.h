/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shard's parameters: tables of rows, in memory that the caller provides once. A store belongs to one thread, the
 * reactor's. Exceptions are store_create and store_destroy (on the control plane, while no reactor uses the store) and
 * readers of struct store_stats (plain counters with one writer). store_table_create takes memory from the arena, so
 * once the reactor runs, it must call it, for example from its mailbox; it neither allocates from the system nor waits.
 *
 * Nothing here allocates from the system: rows and index grow and shrink inside the arena, in bounded steps (creating
 * or removing one row moves at most one index segment of 1536 entries). Rows never move, so a handle stays valid until
 * its row is deleted or evicted. That may happen in any later call that creates rows, deletes or sweeps, but not within
 * one store_find, and not to the rows of a push in progress (store/push.h).
 *
 * A row is contiguous: key, the values that the table's policies need (uint32 each: version, frequency, last use, last
 * step, the optimizer's count), values in the stored type, float32 masters, slots; padded to 8 bytes (to 16, 32 or 64
 * in an arena over 32, 64 or 128 GiB). In rows of 4 KiB and more, values, masters and slots are aligned to cache lines.
 * In addition, the index takes 6 to 10.5 bytes per row while a table of more than some ten segments grows. Memory of
 * removed rows is reused for new rows of the same table; pages of the index, and all memory of a dropped table, are
 * reused for anything.
 *
 * A row's initial value depends only on (seed, table name, key, element) (store/initial.h), so neither order nor number
 * of cores changes it.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "star_error.h"
#include "store/counters.h"
#include "wire/object.h"

enum { STORE_BATCH = 128 }; /* keys per call: the more, the less each waits for memory */

/* A row: its place in the arena in units of its alignment; what the index holds in 4 bytes. */
typedef uint32_t store_row;
#define STORE_NO_ROW UINT32_MAX

struct store;
struct store_table;

/* The arena must outlive the store; it need not be zeroed. NULL with err when it is too small (1 MiB at least) or over
 * 256 GiB. */
struct store *store_create(void *arena, size_t arena_bytes, struct star_error *err);
void store_destroy(struct store *store); /* with its tables */

/* Number of rows that its tables have created so far. */
uint64_t store_made(const struct store *store);

/* A store for tables of sums (store/sums.h) in the same arena, which the first one's snapshots and sweeps ignore.
 * Destroy it before the first. NULL with err. */
struct store *store_create_beside(struct store *store, struct star_error *err);

/* share: the share of the table's partitions that this store has, in (0, 1]: its part of rows_max and filter_keys. NULL
 * with err, for example if the arena is full. The caller makes sure that the name is new. */
struct store_table *store_table_create(struct store *store, const struct object_spec *spec, double share,
				       struct star_error *err);
const struct object_spec *store_table_spec(const struct store_table *table);
const struct store_stats *store_table_stats(const struct store_table *table);
uint64_t store_table_step(const struct store_table *table); /* the latest training step that it has seen; any thread */
/* For the code that executes requests on the table's thread: it counts them here (from requests_refused on, except for
 * pushes), and the misses of look-ups by STORE_LOOK. */
struct store_stats *store_table_counters(struct store_table *table);
uint64_t store_name_hash(const struct store_table *table);

/*
 * Drops the table with its rows: the pointer and handles of its rows are invalid from now on; no push may be in
 * progress on it. Its memory returns to the arena, for rows, indexes and tables of any kind: by store_reclaim, about
 * `budget` slabs or index segments per call, until that returns false; and before anything is refused for lack of room.
 * A snapshot in progress is lost, and the next one must be a full one.
 */
void store_table_drop(struct store_table *table);
bool store_reclaim(struct store *store, unsigned budget);

/* What a look-up does with keys without a row. */
enum store_find_mode {
	STORE_LOOK, /* nothing, without counting: a read-only pull, whose misses its caller counts */
	STORE_PULL, /* creates a row if the filter admits the key: each occurrence in keys counts */
	STORE_PUSH, /* the same; the gradient of an unadmitted key will be dropped */
};

/*
 * Finds the rows of n <= STORE_BATCH keys at the worker's training step (0: unknown), which is recorded in rows with
 * steps to live or LRU. rows[i] is STORE_NO_ROW if there is no row or no room, and STORE_UNADMITTED if the filter does
 * not admit the key. Works in passes: hash, prefetch, look up, prefetch the rows. Returns the number of keys for which
 * there was no room.
 */
#define STORE_UNADMITTED (UINT32_MAX - 1)
unsigned store_find(struct store_table *table, const uint64_t *keys, unsigned n, enum store_find_mode mode,
		    uint64_t step, store_row *rows);

/*
 * Prefetches what a look-up of a key will read, if it is unlikely to be in the caches: first its place in the index;
 * then (imminent: the former has arrived by now) its row. Changes nothing; for any key.
 */
void store_prefetch_key(const struct store_table *table, uint64_t key, enum store_find_mode mode, bool imminent);

/* Copies a row's values as a row of dtype (dtype_converts), dtype_row_bytes long: the stored values or, for another
 * type, those of the float32 master if the row has one. STORE_NO_ROW: the key's initial value, as its row would have
 * it; STORE_UNADMITTED: the filter's value. */
void store_read(const struct store_table *table, store_row row, uint64_t key, unsigned dtype, void *to);
/* The row itself if dtype is the stored type; otherwise, or without a row, NULL. */
const void *store_values(const struct store_table *table, store_row row, unsigned dtype);
/* The same for n rows; false if that is NULL for one of them. */
bool store_values_of(const struct store_table *table, const store_row *rows, unsigned n, unsigned dtype,
		     const void **values);

/* A row's version: starts at 1, and is incremented by each push applied to the row. If a key's row was deleted or
 * evicted, its next row has a higher version. 0 for no row, or for a table without versions. */
uint32_t store_version(const struct store_table *table, store_row row);

/* The optimizer's state of a row: dim float32 (float64 for rows of float64) per slot; NULL if it has none. */
const void *store_slots(const struct store_table *table, store_row row);

/* Copies the initial value of a key's row, existing or not, in float32. */
void store_initial(const struct store_table *table, uint64_t key, float *values);

/* Prefetches the values of a row, if store_find has not done so (it does for rows of up to some hundred bytes). Call it
 * for the next row before reading one. For any row. */
void store_prefetch(const struct store_table *table, store_row row);

/* Deletes the rows of n <= STORE_BATCH keys; returns how many existed. Handles of them are invalid from then on; a push
 * in progress that has them updates memory that nobody reads. */
unsigned store_delete(struct store_table *table, const uint64_t *keys, unsigned n);

/*
 * Executes a slice of eviction for the whole store, examining about `budget` rows: called by the loop again and again,
 * when there is time. Returns the number of rows evicted. Rows whose steps to live have passed, relative to the latest
 * training step of pushes and pulls, are looked for all the time (and keys that wait for admission equally long are
 * forgotten). A pass over a table that was requested by store_sweep_begin (starctl) also evicts by L2 weight; it starts
 * again if one is in progress. After store_empty_begin all rows that existed then are deleted, and the admission filter
 * clears its counts; rows that are created during the pass may be deleted too. Their memory is reused for new rows of
 * the table. If the table has a filter, the next snapshot must be a full one.
 */
unsigned store_sweep(struct store *store, unsigned budget);
void store_sweep_begin(struct store_table *table);
void store_empty_begin(struct store_table *table);
/* Approximate number of rows that the running pass over a table still has to examine; 0 if there is none. */
uint64_t store_sweep_left(const struct store_table *table);

#endif
