/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a store's snapshots: marks of rows, the log for the next delta, copied rows, and the position of the
 * walk.
 *
 * Marks: two bits, one for each generation, for each 16 bytes of the arena, which is the smallest size of a row. The
 * bit of the current generation is set if the row was created or changed since the instant of the last snapshot; then
 * it has been logged, and copied if that was necessary. At each instant the two generations are exchanged. The other
 * generation's bits then say what the delta that begins has still to write, and are cleared as the log is processed.
 * After a full snapshot, or one that was given up, all marks are scanned to clear them. Free memory never has the bit
 * of the current generation, nor, while a delta is written, that of the other: bits are cleared when a row is removed.
 *
 * One thread, the store's.
 */
#ifndef STORE_SNAPSHOT_STATE_H
#define STORE_SNAPSHOT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/index.h"

struct store_table;

enum snapshot_phase {
	SNAPSHOT_TABLES,  /* totals of tables are being written */
	SNAPSHOT_DELETED, /* deleted keys from the log */
	SNAPSHOT_ROWS,
	SNAPSHOT_COUNTS, /* of admission filters */
	SNAPSHOT_OVER,
};

struct snapshot {
	bool touching; /* rows that are created, changed and removed must be marked */
	bool logging;  /* and logged: the log has all changes since the instant */
	bool based;    /* the last snapshot was kept */
	bool lost;
	bool dirty;   /* the other generation's marks are not all cleared yet: from clean_at on */
	uint8_t kind; /* of the snapshot under way; 0: none */
	uint8_t phase;
	uint8_t generation;
	uint8_t *marks;
	uint64_t marks_bytes, clean_at;

	/* The log: a ring of 8-byte slots. All positions except log_at only grow. An entry for a row has its table, and
	 * its handle in the low half; one for a deleted key has its table and STORE_NO_ROW, then the key. Entries from
	 * log_tail to log_split belong to the delta that is under way. */
	uint64_t *log;
	uint64_t log_slots, log_tail, log_split, log_head;
	uint64_t log_at;      /* log_head, as an index */
	uint64_t log_deleted; /* keys between log_split and log_head */
	uint64_t log_scan;    /* SNAPSHOT_DELETED: keys up to here are written */
	uint64_t log_ahead;   /* SNAPSHOT_ROWS: rows up to here are being prefetched */

	/* A ring of struct snapshot_copy, each followed by its record. Positions only grow. */
	uint8_t *copies;
	uint64_t copies_bytes, copies_tail, copies_head;
	uint64_t record_max;

	struct store_table *first; /* the first of the tables that existed at the instant */
	struct store_table *table; /* the table being written; NULL: all are written */
	/* The walk over its index: rows[0 .. rows_count), between `from` and the walk, are still to be written. */
	struct index_walk walk;
	uint64_t from;
	unsigned rows_count;
	store_row rows[INDEX_SEGMENT_ENTRIES];

	/* store_snapshot_progress */
	uint64_t written, deleted, total, copied, put_off, step;
};

struct snapshot_copy {
	uint32_t table; /* SNAPSHOT_WRAP: the next copy is at the beginning of the ring */
	uint32_t bytes; /* of the record */
};
#define SNAPSHOT_WRAP UINT32_MAX

/* A table's totals at the instant; and whether the walk has passed it, is in it, or has not reached it. */
struct table_snapshot {
	enum { TABLE_PAST, TABLE_HERE, TABLE_AHEAD } walk;
	uint32_t tick;
	uint64_t step, pushes, removed;
};

#endif
