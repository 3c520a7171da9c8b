/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The format of the journal (docs/availability-design.rst says what it means). Little endian, fixed width, naturally
 * aligned. Pure data.
 *
 * Each reactor has one stream of records, which never starts again while a node runs; a position is a byte in it. A
 * process that starts or continues a journal is a life, numbered from 1; the streams of a life begin at position 0. A
 * stream is in segments, files whose payloads are consecutive: a header, then blocks, each of what was written at once.
 * Records may extend from one block into the next.
 */
#ifndef WIRE_JOURNAL_H
#define WIRE_JOURNAL_H

#include <stdint.h>

#include "wire/frame.h"

enum journal_constants {
	JOURNAL_VERSION = 4,
	JOURNAL_ALIGN = 4096, /* of blocks in a file, so that they can be written past the page cache */
	JOURNAL_BLOCK_MAX = 1 << 20,
	JOURNAL_RECORD_MAX = 256 << 10, /* bytes of a record: more than the longest row */
	JOURNAL_RUN_BYTES = 32 << 10,	/* a new run of rows begins after this many */
};
#define JOURNAL_MAGIC UINT64_C(0x4c4e524a52415453) /* "STARJRNL" */
#define JOURNAL_NO_BASE INT64_MAX		   /* no checkpoint has this id */
#define JOURNAL_BLOCK_MAGIC 0x4b4c424au		   /* "JBLK" */

enum journal_segment_flags {
	/* the life continues where the previous one ended: nothing is missing in between */
	JOURNAL_GOES_ON = 1 << 0,
	JOURNAL_SUMS_BEFORE = 1 << 1, /* an earlier segment of the stream has a record of JOURNAL_SUMS */
};

/* The first JOURNAL_ALIGN bytes of a segment; the rest of them is 0. */
struct journal_segment {
	uint64_t magic;
	uint32_t version;
	uint32_t checksum; /* CRC-32 of this struct, with this field taken as 0 */
	uint32_t life, reactor;
	uint32_t number; /* the segment's number, from 1 in each stream */
	uint32_t flags;
	uint32_t reactors, partitions; /* of the node that wrote it */
	uint32_t incarnation;	       /* the one that workers knew */
	uint32_t after;		       /* with GOES_ON: the previous life */
	uint64_t position;	       /* position in the stream of the first block's payload */
	/* The life in which the journal started again, and which this one continues, or this life itself. */
	uint32_t story;
	/* How many bytes at the beginning of the payload are the end, or the middle, of a record that began in the
	 * previous segment, which may be gone. Less than JOURNAL_RECORD_MAX. */
	uint32_t first_record;
	/* base: the checkpoint that it started from (0: none; JOURNAL_NO_BASE: none, because the node already had rows,
	 * so the life only continues checkpoints whose instants it has). passed_over: newer checkpoints up to this one
	 * do not count, because the cluster was rolled back. */
	uint64_t base, passed_over;
	/* with GOES_ON: the sum of the end positions of those streams of the previous life whose number modulo
	 * `reactors` is `reactor`. */
	uint64_t former;
	/* The place of the node's reactors among those of the cluster, which determines the rows that it had. */
	uint32_t cluster_reactors, first_reactor;
};
_Static_assert(sizeof(struct journal_segment) == 96, "journal_segment");

/* A block begins at a multiple of JOURNAL_ALIGN, and takes a multiple of it: zeros follow the payload. */
struct journal_block {
	uint32_t magic;
	uint32_t checksum; /* CRC-32 of header (with this field taken as 0) and payload */
	uint32_t life, reactor;
	uint64_t position; /* position of its first byte in the stream */
	uint32_t bytes;	   /* of payload; a multiple of 8 */
	uint32_t reserved;
};
_Static_assert(sizeof(struct journal_block) == 32, "journal_block");
enum { JOURNAL_PAYLOAD_MAX = JOURNAL_BLOCK_MAX - (int)sizeof(struct journal_block) };

enum journal_kind {
	/* A run of rows or keys in the format of checkpoints (wire/checkpoint.h), except that its object is named with
	 * its generation, as in requests: rows as they are from now on; keys that were removed; counts of an admission
	 * filter; totals of a table. */
	JOURNAL_RUN = 1,
	/* A request of a session has finished that has changed something: struct journal_outcome, and with
	 * JOURNAL_REFUSALS the results of its last WIRE_IN_FLIGHT_MAX requests. */
	JOURNAL_OUTCOME = 2,
	/* No request is partly executed at this point: everything before it is complete, and what comes after the last
	 * mark is not applied. */
	JOURNAL_MARK = 3,
	/* The same, and the instant of a checkpoint: struct journal_instant. */
	JOURNAL_INSTANT = 4,
	/* After an instant: the outcomes of all sessions have been written again since. struct journal_instant. */
	JOURNAL_SESSIONS = 5,
	/* Sums of gradients were opened, which are not in the journal: a node that comes back must not continue as if
	 * it had them. */
	JOURNAL_SUMS = 6,
	/* A table's admission filter was cleared: struct journal_object. */
	JOURNAL_CLEARED = 7,
};
enum journal_record_flags {
	JOURNAL_REFUSALS = 1 << 0, /* in an outcome */
	JOURNAL_FORGOT = 1 << 1,   /* in an outcome: sessions were forgotten before */
	JOURNAL_UNKNOWN = 1 << 2,  /* in an outcome: this one may have been among them */
};

/* Aligned to 8; its content follows. */
struct journal_record {
	uint32_t bytes; /* with this header; a multiple of 8 */
	uint16_t kind;
	uint16_t flags;
};
_Static_assert(sizeof(struct journal_record) == 8, "journal_record");

#define JOURNAL_GONE UINT64_MAX
struct journal_outcome {
	uint64_t session;
	uint64_t sequence; /* the highest finished one; JOURNAL_GONE: the session is forgotten */
	uint8_t ended[];   /* WIRE_IN_FLIGHT_MAX: enum wire_status, by sequence modulo their number */
};
struct journal_instant {
	uint64_t id;
};
struct journal_object {
	uint32_t object;
	uint32_t reserved;
};

#endif
