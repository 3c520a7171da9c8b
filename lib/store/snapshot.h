/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rows of a store as they were at one instant, written out while the store goes on. Between store_snapshot_begin
 * and the end the store is walked in slices; a row that is changed, deleted or evicted before the walk comes to it is
 * copied first, into memory set aside for that (copy on write). Rows made after the instant are not in the snapshot. A
 * full snapshot has every row; a delta those that were made, pushed to or otherwise changed since the begin of the last
 * snapshot, and the keys that are gone since. Bytes are wire/checkpoint.h's. One thread, the store's, but for
 * store_snapshot_memory.
 *
 * Rows are copied, and noted for the next delta, when they are found for a push (store_push_keys), when a pull changes
 * what their policies keep of them, and when they are removed; nothing more is done for a gradient. Nothing of the
 * store fails for want of room: before each of these calls the caller asks store_snapshot_room, and waits. If it does
 * not ask, and there is none, the snapshot is lost. A sweep asks by itself, and puts off what it would have done.
 *
 * Without marks nothing here costs anything but a branch in a batch of keys; and with them, as long as no snapshot is
 * under way and no delta is possible.
 */
#ifndef STORE_SNAPSHOT_H
#define STORE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

enum store_snapshot_limits {
	STORE_SNAPSHOT_COPIES_MIN = 1 << 20,  /* what the largest batch of a push needs, and more */
	STORE_SNAPSHOT_SLICE_MIN = 160 << 10, /* the largest row, and the header of its run */
};

struct store_snapshot_options {
	/* Zeroed memory that outlives the store, aligned to 64 bytes. Marks have store_snapshot_memory(arena_bytes)
	 * bytes; NULL: without snapshots. Copies: rows that wait to be written out, at least STORE_SNAPSHOT_COPIES_MIN
	 * beside the log. */
	void *marks;
	void *copies;
	size_t copies_bytes;
	/* Of copies, at its end: 8 bytes for each row touched and 16 for each key deleted since the last snapshot. 0:
	 * no deltas. */
	size_t log_bytes;
};

/* Bytes of marks for an arena: a 64th of it. */
size_t store_snapshot_memory(size_t arena_bytes);

/* Once, before the first table. 0 or -EINVAL. */
int store_snapshot_init(struct store *store, const struct store_snapshot_options *options, struct star_error *err);

/* Whether it has marks. */
bool store_snapshot_possible(const struct store *store);

enum store_snapshot_kind { STORE_SNAPSHOT_FULL = 1, STORE_SNAPSHOT_DELTA = 2 };

/* Whether a delta is possible: there was a snapshot that ended well, and what came since fits the log. */
bool store_snapshot_delta_possible(const struct store *store);

/* Whether store_snapshot_begin may be called. The marks of the last snapshot are cleared first, some 64 KiB of them in
 * each call: to be called again and again until it is true. */
bool store_snapshot_ready(struct store *store);

/*
 * The instant. Takes O(tables). False, and nothing happens: it is not ready, one is under way, a delta is not possible,
 * there are no marks, or a push is between its store_push_op and its end: its rows may be copied already.
 */
bool store_snapshot_begin(struct store *store, enum store_snapshot_kind kind);

/*
 * The next slice, of about `rows` rows looked at, of which those over 256 bytes count as several: writes runs into
 * `to`, of `bytes` >= STORE_SNAPSHOT_SLICE_MIN and aligned to 8; returns how many it wrote, perhaps 0. *over: there is
 * nothing more, because all is written or because the snapshot is lost. It counts as the base of the next delta once
 * store_snapshot_end says that it was kept.
 */
size_t store_snapshot_slice(struct store *store, void *to, size_t bytes, unsigned rows, bool *over);

/* A row was changed that could not be copied. */
bool store_snapshot_lost(const struct store *store);

/* After the last slice: kept says whether it has been written down for good; a delta then goes on from it. Also gives
 * up a snapshot that is under way (kept is false then): what waits for room goes on. After one that was not kept only a
 * full one is possible. Nothing when none is under way. */
void store_snapshot_end(struct store *store, bool kept);

/* What a batch of n keys may have to copy, in bytes: before store_push_keys and store_delete (STORE_PUSH), and before
 * store_find with this mode. 0 when no snapshot is under way, and for pulls of tables whose rows keep nothing of
 * them. */
uint64_t store_snapshot_need(const struct store_table *table, unsigned n, enum store_find_mode mode);
/* Whether as much can be copied now. Also when nothing is copied that waits, whatever the need is. */
bool store_snapshot_room(struct store *store, uint64_t need);

/* Of the snapshot that is under way, or of the last one. */
struct store_snapshot_progress {
	uint64_t rows;	  /* written */
	uint64_t deleted; /* keys written */
	uint64_t left;	  /* rows still to be looked at, about */
	uint64_t copied;  /* rows that were copied because they were about to change */
	uint64_t put_off; /* times that there was no room */
	uint64_t step;	  /* the latest training step of the tables that were written */
};
struct store_snapshot_progress store_snapshot_progress(const struct store *store);

/* Bytes of a row in a run of this table. */
uint32_t store_row_record_bytes(const struct store_table *table);

/*
 * Loads n records of a run into a table: of rows, deleted keys, an admission filter's counts or the table's own.
 * records: aligned to 8. A row that is there is replaced, one that is not is made, whatever filters and the shard's
 * share of rows_max say (store_trim is to follow); nothing counts as a pull or push. Counts that find no room are
 * forgotten. 0; -ENOSPC: no room (what came before stays); -EINVAL: the run does not fit the table (a damaged file that
 * has the right checksum: every field is checked): nothing is taken of it. Not while a push is in flight that has
 * deleted rows.
 */
struct checkpoint_run;
enum { STORE_LOAD_MAX = STORE_BATCH }; /* records of one call: some tens of microseconds */
int store_load(struct store_table *table, const struct checkpoint_run *run, const void *records, unsigned n,
	       struct star_error *err);

/* After loading: evicts up to `budget` rows of those that a table with such a policy has beyond its share of rows_max.
 * Returns how many; fewer than that: no more are over, or may go. Not while a push is in flight. */
unsigned store_trim(struct store_table *table, unsigned budget);

#endif
