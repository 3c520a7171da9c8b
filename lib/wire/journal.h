/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of the journal (docs/availability.rst says what they mean). Little endian, fixed width, naturally aligned.
 * Pure data.
 *
 * Each reactor has one stream of records, which never starts again while a node lives: a position is a byte of it. A
 * process that begins or goes on with a journal is a life, numbered from 1; the streams of a life begin at position 0.
 * A stream lies in segments, files whose payloads follow one another: a header, then blocks of what was written down at
 * once. Records go from one block into the next as they come.
 */
#ifndef WIRE_JOURNAL_H
#define WIRE_JOURNAL_H

#include <stdint.h>

#include "wire/frame.h"

enum journal_constants {
	JOURNAL_VERSION = 4,
	JOURNAL_ALIGN = 4096, /* of blocks in a file: they can be written past the page cache */
	JOURNAL_BLOCK_MAX = 1 << 20,
	JOURNAL_RECORD_MAX = 256 << 10, /* bytes of a record: more than the longest row */
	JOURNAL_RUN_BYTES = 32 << 10,	/* a run of rows starts again behind this many */
};
#define JOURNAL_MAGIC UINT64_C(0x4c4e524a52415453) /* "STARJRNL" */
#define JOURNAL_NO_BASE INT64_MAX		   /* no checkpoint has this id */
#define JOURNAL_BLOCK_MAGIC 0x4b4c424au		   /* "JBLK" */

enum journal_segment_flags {
	JOURNAL_GOES_ON = 1 << 0,     /* the life goes on where the one before it ended: nothing lies between */
	JOURNAL_SUMS_BEFORE = 1 << 1, /* a record of JOURNAL_SUMS is in a segment of the stream before this one */
};

/* The first JOURNAL_ALIGN bytes of a segment; the rest of them is 0. */
struct journal_segment {
	uint64_t magic;
	uint32_t version;
	uint32_t checksum; /* CRC-32 of this struct, in which this field counts as 0 */
	uint32_t life, reactor;
	uint32_t number; /* of the segment, from 1 in each stream */
	uint32_t flags;
	uint32_t reactors, partitions; /* of the node that wrote it */
	uint32_t incarnation;	       /* under which it was served */
	uint32_t after;		       /* GOES_ON: the life before it */
	uint64_t position;	       /* in the stream, of the first block's payload */
	/* The life that began again, which this one goes on from, or itself. */
	uint32_t story;
	/* Of the payload so many bytes are the end of a record that began in the segment before, or its middle: that
	 * one may be gone. Less than JOURNAL_RECORD_MAX. */
	uint32_t first_record;
	/* The checkpoint that it began with (0: with nothing; JOURNAL_NO_BASE: with none, the node had rows already, so
	 * that it goes on from the checkpoints alone whose instants it has); and checkpoints up to this one that are
	 * younger do not count: the cluster was taken back. */
	uint64_t base, passed_over;
	/* GOES_ON: where the streams of the life before end, of all whose number leaves `reactor` when divided by
	 * `reactors`: the sum. */
	uint64_t former;
	/* Where the reactors of the node that wrote it were among those of the cluster: from that follows which rows it
	 * had. */
	uint32_t cluster_reactors, first_reactor;
};
_Static_assert(sizeof(struct journal_segment) == 96, "journal_segment");

/* A block begins at a multiple of JOURNAL_ALIGN, and takes a multiple of it: zeros follow the payload. */
struct journal_block {
	uint32_t magic;
	uint32_t checksum; /* CRC-32 of header (in which this field counts as 0) and payload */
	uint32_t life, reactor;
	uint64_t position; /* of its first byte, in the stream */
	uint32_t bytes;	   /* of payload; a multiple of 8 */
	uint32_t reserved;
};
_Static_assert(sizeof(struct journal_block) == 32, "journal_block");
enum { JOURNAL_PAYLOAD_MAX = JOURNAL_BLOCK_MAX - (int)sizeof(struct journal_block) };

enum journal_kind {
	/* A run of rows or keys as checkpoints have them (wire/checkpoint.h), but for its object, which is named with
	 * its generation as requests do it: rows as they are from now on; keys that are gone; counts of an admission
	 * filter; what is known of a table. */
	JOURNAL_RUN = 1,
	/* A request of a session has ended that has changed something: struct journal_outcome, and with
	 * JOURNAL_REFUSALS how its last WIRE_IN_FLIGHT_MAX requests ended. */
	JOURNAL_OUTCOME = 2,
	/* Here no request is executed in part: what comes before is whole, and what comes after the last of these is
	 * not applied. */
	JOURNAL_MARK = 3,
	/* The same, and the instant of a checkpoint: struct journal_instant. */
	JOURNAL_INSTANT = 4,
	/* Behind an instant: the outcomes of all sessions have been written again since. struct journal_instant. */
	JOURNAL_SESSIONS = 5,
	/* Sums of gradients were opened, which are not in the journal: a node that comes back must not go on as if it
	 * had them. */
	JOURNAL_SUMS = 6,
	/* A table's admission filter has forgotten all: struct journal_object. */
	JOURNAL_CLEARED = 7,
};
enum journal_record_flags {
	JOURNAL_REFUSALS = 1 << 0, /* of an outcome */
	JOURNAL_FORGOT = 1 << 1,   /* of an outcome: sessions were forgotten before */
	JOURNAL_UNKNOWN = 1 << 2,  /* of an outcome: this one may have been */
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
	uint64_t sequence; /* the highest that has ended; JOURNAL_GONE: the session is forgotten */
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
