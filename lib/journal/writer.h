/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reactor's journal on its way to the disk: a thread takes what the ring has, about every millisecond or as much as a
 * block holds, and writes it down with RWF_DSYNC, past the page cache where the file system can. Segments are
 * preallocated; what no restart needs any more is used again. After an error nothing more is written until a new life
 * is begun.
 */
#ifndef JOURNAL_WRITER_H
#define JOURNAL_WRITER_H

#include "journal/ring.h"

struct journal_life {
	const char *directory;
	uint32_t number, reactors, partitions, incarnation;
	uint32_t cluster_reactors, first_reactor;
	uint32_t flags; /* enum journal_segment_flags */
	uint32_t after, story;
	uint64_t base, passed_over;
	uint64_t segment_bytes;
	uint64_t limit_bytes; /* of all segments of a reactor */
};

struct journal_writer;

/* Makes the first segment of the reactor's stream, and starts the thread. former: as in struct journal_segment. NULL
 * with err. */
struct journal_writer *journal_writer_create(const struct journal_life *life, uint32_t reactor, uint64_t former,
					     struct journal_ring *ring, struct star_error *err);
/* Writes what was published, ends the thread, and closes the segment. */
void journal_writer_destroy(struct journal_writer *writer);

/* The checkpoint counts from now on: what lies before its instant goes, once the sessions are written again. From any
 * one thread. */
void journal_writer_keep_from(struct journal_writer *writer, uint64_t id);
/* Whether that has been done, so that former lives are of no use any more. From the same thread. */
bool journal_writer_keeps_from(struct journal_writer *writer, uint64_t id);

/* Another limit_bytes from now on. From any thread. */
void journal_writer_limit(struct journal_writer *writer, uint64_t bytes);

/* Ends it, for that reason. From any thread. */
void journal_writer_fail(struct journal_writer *writer, const struct star_error *why);

/* X(name, kind, what it says). */
#define JOURNAL_FIGURES(X) \
	X(bytes, COUNTER, "of the journal written, padding and all") \
	X(commits, COUNTER, "writes to the journal") \
	X(lag_bytes, GAUGE, "of the journal still to be written") \
	X(commit_max_us, GAUGE, "microseconds that the longest write to the journal took") \
	X(waits, COUNTER, "times that a reactor waited for its journal") \
	X(segments, GAUGE, "files of the journal") \
	X(failed, GAUGE, "whether the journal has ended, and the node serves without it")

struct journal_figures {
#define X(name, kind, text) uint64_t name;
	JOURNAL_FIGURES(X)
#undef X
};
/* Added to *sum; commit_max_us is the greatest. text, or NULL: why it failed, where it has. From any thread. */
void journal_writer_figures(struct journal_writer *writer, struct journal_figures *sum, struct star_error *why);

enum { JOURNAL_NAME_MAX = 32 };
/* "00000001-003-00000007.log" */
void journal_segment_name(char name[static JOURNAL_NAME_MAX], uint32_t life, uint32_t reactor, uint32_t number);
bool journal_segment_parse(const char *name, uint32_t *life, uint32_t *reactor, uint32_t *number);
/* A file of this name is there as long as nothing of the life is missing in its journal. */
void journal_whole_name(char name[static JOURNAL_NAME_MAX], uint32_t life);
uint32_t journal_segment_checksum(const struct journal_segment *segment);
uint32_t journal_block_checksum(const struct journal_block *block, const void *payload);

#endif
