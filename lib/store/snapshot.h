/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rows of a store as they were at one instant, written out while the store goes on. Between store_snapshot_begin and the end
 * the store is walked in slices; a row that is changed, deleted or evicted before the walk comes to it is copied first, into memory
 * set aside for that (copy on write). Rows made after the instant are not in the snapshot. A full snapshot has every row; a
 * delta those that were made, pushed to or otherwise changed since the begin of the last snapshot, and the keys that are
 * gone since. Bytes are wire/checkpoint.h's. One thread, the store's, but for store_snapshot_memory.
 *
 * A push never fails for it: before its first row, store_snapshot_room says whether what it may have to copy fits; if not, the
 * push waits until slices have made room. Everything else that would have to copy and can't (an eviction, a sweep) is put off.
 */
#ifndef STORE_SNAPSHOT_H
#define STORE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

struct store_snapshot_options {
	/* Of zeroed memory that outlives the store: marks has store_snapshot_memory(arena_bytes) bytes, copies any size (at least
	 * 256 KiB): rows that wait to be written out. NULL: without snapshots, which then cost nothing. */
	void *marks;
	void *copies;
	size_t copies_bytes;
	size_t log_bytes; /* of copies, at its end: rows touched and keys deleted since the last snapshot. 0: no deltas */
};

/* Bytes of marks for an arena: a 64th of it. */
size_t store_snapshot_memory(size_t arena_bytes);

/* Once, before the first table. 0 or -EINVAL. */
int store_snapshot_init(struct store *store, const struct store_snapshot_options *options, struct star_error *err);

enum store_snapshot_kind { STORE_SNAPSHOT_FULL = 1, STORE_SNAPSHOT_DELTA = 2 };

/* Whether a delta is possible: there was a snapshot that ended well, and what came since fits the log. */
bool store_snapshot_delta_possible(const struct store *store);

/*
 * The instant. Not while a push is between its first row and its end. False: one is under way, or a delta is not possible.
 */
bool store_snapshot_begin(struct store *store, enum store_snapshot_kind kind);

/*
 * The next slice, of about `rows` rows looked at: writes runs into `to`, of `bytes` >= 64 KiB, a multiple of 8; returns how many it
 * wrote. *over: that was the last. The snapshot counts as the base of the next delta once store_snapshot_end says that it was kept.
 */
size_t store_snapshot_slice(struct store *store, void *to, size_t bytes, unsigned rows, bool *over);

/* After the last slice: kept says whether it has been written down for good; a delta then goes on from it. Also gives up a snapshot
 * that is under way (kept is false then): what waits for room goes on. After one that was not kept only a full one is possible. */
void store_snapshot_end(struct store *store, bool kept);

/* Whether a request that pushes n rows of the table may begin: the copies it may need are set aside until it ends, or is given
 * up (store_push_begin). True when no snapshot is under way. */
bool store_snapshot_room(struct store *store, const struct store_table *table, unsigned n);

/* Rows written, and still to be looked at (about). */
struct store_snapshot_progress {
	uint64_t rows, left;
	uint64_t copied;  /* rows that were copied because they were about to change */
	uint64_t put_off; /* times that a push had to wait for room */
};
struct store_snapshot_progress store_snapshot_progress(const struct store *store);

/* Bytes of a row in a run of this table. */
uint32_t store_row_record_bytes(const struct store_table *table);

/*
 * Loads the payload of a run into a table, n records of it at most; *done: how many it took. A row that is there is replaced, one
 * that is not is made, whatever filters say; nothing counts as a pull or push. 0; -ENOSPC: no room; -EINVAL: the run does not fit the
 * table (a damaged file that has the right checksum: every field is checked).
 */
struct checkpoint_run;
int store_load(struct store_table *table, const struct checkpoint_run *run, const void *records, unsigned n,
	       struct star_error *err);

#endif
