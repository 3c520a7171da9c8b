/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the rows of a store as they were at one instant, while the store continues to work. Between
 * store_snapshot_begin and the end the store is walked in slices. A row that is changed, deleted or evicted before the
 * walk reaches it is copied first, into memory reserved for that (copy on write). Rows created after the instant are
 * not in the snapshot. A full snapshot has every row; a delta has those that were created, pushed to or otherwise
 * changed since the instant of the last snapshot, and the keys removed since. The format is that of wire/checkpoint.h.
 * One thread, the store's, except for store_snapshot_memory.
 *
 * Rows are copied, and noted for the next delta, when they are found for a push (store_push_keys), when a pull changes
 * what policies record of them, and when they are removed; a gradient costs nothing more. Lack of room for copies must
 * not make the store's operations fail. So before each of these calls the caller asks store_snapshot_room, and waits.
 * If it does not ask, and there is no room, the snapshot is lost. A sweep asks by itself, and postpones its work.
 *
 * Without marks this costs one branch in each batch of keys; the same with marks, as long as no snapshot is under way
 * and no delta is possible.
 */
#ifndef STORE_SNAPSHOT_H
#define STORE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

enum store_snapshot_limits {
	STORE_SNAPSHOT_COPIES_MIN = 1 << 20,  /* bytes: more than the largest batch of a push needs */
	STORE_SNAPSHOT_SLICE_MIN = 160 << 10, /* bytes: the largest row, and the header of its run */
};

struct store_snapshot_options {
	/* Zeroed memory that outlives the store, aligned to 64 bytes. marks: store_snapshot_memory(arena_bytes) bytes;
	 * NULL: no snapshots. copies: for rows that wait to be written, at least STORE_SNAPSHOT_COPIES_MIN bytes beside
	 * the log. */
	void *marks;
	void *copies;
	size_t copies_bytes;
	/* Part of `copies`, at its end, for the log: 8 bytes for each row changed and 16 for each key deleted since the
	 * last snapshot. 0: no deltas. */
	size_t log_bytes;
};

/* Bytes of marks for an arena: a 64th of it. */
size_t store_snapshot_memory(size_t arena_bytes);

/* Call it once, before the first table. 0, or -EINVAL with err. */
int store_snapshot_init(struct store *store, const struct store_snapshot_options *options, struct star_error *err);

/* Whether the store has marks. */
bool store_snapshot_possible(const struct store *store);

enum store_snapshot_kind { STORE_SNAPSHOT_FULL = 1, STORE_SNAPSHOT_DELTA = 2 };

/* Whether a delta is possible: the last snapshot was kept, and all changes since fit the log. */
bool store_snapshot_delta_possible(const struct store *store);

/* Whether store_snapshot_begin may be called. The marks of the last snapshot must be cleared first, which each call
 * does for some 64 KiB: call it until it returns true. */
bool store_snapshot_ready(struct store *store);

/*
 * Takes the instant, in O(tables). false, and nothing happens: it is not ready, a snapshot is under way, a delta is not
 * possible, there are no marks, or a push is between its store_push_op and its end, so that its rows may have been
 * copied already.
 */
bool store_snapshot_begin(struct store *store, enum store_snapshot_kind kind);

/*
 * The next slice: visits about `rows` rows (those over 256 bytes count as several), and writes runs into `to`, which
 * has `bytes` >= STORE_SNAPSHOT_SLICE_MIN bytes and is aligned to 8. Returns the bytes written, which may be 0. *over:
 * nothing is left, because all is written or because the snapshot is lost. A snapshot becomes the base of the next
 * delta only when store_snapshot_end is told that it was kept.
 */
size_t store_snapshot_slice(struct store *store, void *to, size_t bytes, unsigned rows, bool *over);

/* Whether a row was changed that could not be copied, so that the snapshot is lost. */
bool store_snapshot_lost(const struct store *store);

/* Call it after the last slice. kept: it has been stored, and the next delta may be based on it. It also gives up a
 * snapshot that is under way, with kept false: then whoever waits for room continues. After a snapshot that was not
 * kept only a full one is possible. Does nothing if none is under way. */
void store_snapshot_end(struct store *store, bool kept);

/* How many bytes a batch of n keys may have to copy: for store_push_keys and store_delete (STORE_PUSH), and for
 * store_find with this mode. 0 if no snapshot is under way, and for pulls of tables whose rows record nothing about
 * pulls. */
uint64_t store_snapshot_need(const struct store_table *table, unsigned n, enum store_find_mode mode);
/* Whether there is room for that many bytes of copies. Also true if no copies wait, whatever the need is. */
bool store_snapshot_room(struct store *store, uint64_t need);

/* Progress of the snapshot that is under way, or of the last one. */
struct store_snapshot_progress {
	uint64_t rows;	  /* written */
	uint64_t deleted; /* keys written */
	uint64_t left;	  /* rows still to be visited, approximately */
	uint64_t copied;  /* rows that were copied because they were about to change */
	uint64_t put_off; /* times that there was no room */
	uint64_t step;	  /* the latest training step of the tables that were written */
};
struct store_snapshot_progress store_snapshot_progress(const struct store *store);

/* Bytes of a row of this table in a run. */
uint32_t store_row_record_bytes(const struct store_table *table);

/*
 * Loads n records of a run into a table: rows, deleted keys, an admission filter's counts, or the table's totals.
 * records must be aligned to 8. Existing rows are replaced and missing ones created, regardless of filters and of the
 * shard's share of rows_max (call store_trim afterwards); nothing counts as a pull or push. Counts for which there is
 * no room are dropped. 0; -ENOSPC: no room (earlier records stay); -EINVAL: the run does not fit the table, and nothing
 * of it is loaded. (Every field is checked, because a damaged file may have a correct checksum.) Not while a push is in
 * flight that has deleted rows.
 */
struct checkpoint_run;
enum { STORE_LOAD_MAX = STORE_BATCH }; /* records of one call: some tens of microseconds */
int store_load(struct store_table *table, const struct checkpoint_run *run, const void *records, unsigned n,
	       struct star_error *err);

/* Call it after loading: if the table has an eviction policy, evicts up to `budget` of the rows beyond its share of
 * rows_max. Returns how many were evicted; fewer than `budget`: no more need to be, or can be. Not while a push is in
 * flight. */
unsigned store_trim(struct store_table *table, unsigned budget);

#endif
