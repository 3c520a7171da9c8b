/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a store knows of its snapshots: marks of rows, the log for the next delta, rows that were copied, and how far
 * the walk is.
 *
 * Marks: two bits for each 16 bytes of the arena, which is the least that a row takes. The bit of the current
 * generation: the row was made or touched since the instant of the last snapshot; it is then copied if it had to be,
 * and logged. The generations change places at each instant; then the other one's bits say what the delta that begins
 * has still to write, and are cleared with the log. After a full snapshot, or one that was given up, all marks are gone
 * through to clear them. Free memory has no bit of the current generation, nor, while a delta is written, of the other:
 * it is cleared when a row goes.
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
	SNAPSHOT_TABLES,  /* what is known of tables is written */
	SNAPSHOT_DELETED, /* keys of the log that were deleted */
	SNAPSHOT_ROWS,
	SNAPSHOT_COUNTS, /* of admission filters */
	SNAPSHOT_OVER,
};

struct snapshot {
	bool touching; /* rows that are made, touched and removed are to be marked */
	bool logging;  /* and logged: the log holds all that came since the instant */
	bool based;    /* the last snapshot was kept */
	bool lost;
	bool dirty;   /* the other generation's marks are not all clear: from clean_at on */
	uint8_t kind; /* of what is under way; 0: nothing */
	uint8_t phase;
	uint8_t generation;
	uint8_t *marks;
	uint64_t marks_bytes, clean_at;

	/* A ring of 8 byte slots; positions only grow, but for log_at. A row: its table, and its handle in the low
	 * half. A deleted key: its table and STORE_NO_ROW, then the key. From log_tail to log_split: of the delta that
	 * is under way. */
	uint64_t *log;
	uint64_t log_slots, log_tail, log_split, log_head;
	uint64_t log_at;      /* log_head, as an index */
	uint64_t log_deleted; /* keys between log_split and log_head */
	uint64_t log_scan;    /* SNAPSHOT_DELETED: up to where keys are written */
	uint64_t log_ahead;   /* SNAPSHOT_ROWS: up to where rows are being loaded */

	/* A ring of struct snapshot_copy, each with its record behind it; positions only grow. */
	uint8_t *copies;
	uint64_t copies_bytes, copies_tail, copies_head;
	uint64_t record_max;

	struct store_table *first; /* of those that there were at the instant */
	struct store_table *table; /* that is being written; NULL: all are */
	/* Its index: rows[0 .. rows_count) are to be written of what lies between `from` and the walk. */
	struct index_walk walk;
	uint64_t from;
	unsigned rows_count;
	store_row rows[INDEX_SEGMENT_ENTRIES];

	/* store_snapshot_progress */
	uint64_t written, deleted, total, copied, put_off, step;
};

struct snapshot_copy {
	uint32_t table; /* SNAPSHOT_WRAP: the next one is at the beginning */
	uint32_t bytes; /* of the record */
};
#define SNAPSHOT_WRAP UINT32_MAX

/* Of a table, at the instant; and where the walk is. */
struct table_snapshot {
	enum { TABLE_PAST, TABLE_HERE, TABLE_AHEAD } walk;
	uint32_t tick;
	uint64_t step, pushes, removed;
};

#endif
