/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes a reactor's journal to disk. A thread takes what the ring has, about every millisecond or as much as fits in a
 * block, and writes it with RWF_DSYNC, bypassing the page cache if the file system can. Segments are preallocated, and
 * reused when no restart needs them any more. After an error nothing more is written until a new life begins. It is
 * also an error if files that a restart needs are removed or cut by someone else, which is noticed within seconds.
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
	uint64_t limit_bytes; /* for all segments of a reactor */
};

struct journal_writer;

/* Creates the first segment of the reactor's stream, and starts the thread. former: as in struct journal_segment. NULL
 * with err. */
struct journal_writer *journal_writer_create(const struct journal_life *life, uint32_t reactor, uint64_t former,
					     struct journal_ring *ring, struct star_error *err);
/* Writes what was published, ends the thread, and closes the segment. */
void journal_writer_destroy(struct journal_writer *writer);

/* The checkpoint counts from now on: what precedes its instant is removed as soon as the sessions are written again.
 * From any one thread. */
void journal_writer_keep_from(struct journal_writer *writer, uint64_t id);
/* Whether that is done, so that former lives are no longer needed. From the same thread. */
bool journal_writer_keeps_from(struct journal_writer *writer, uint64_t id);

/* Sets limit_bytes. From any thread. */
void journal_writer_limit(struct journal_writer *writer, uint64_t bytes);

/* Segments of former lives, `bytes` in all, are needed from now on; 0: not any more, which is to be said before they
 * are removed. From any thread. */
void journal_writer_watch_former(struct journal_writer *writer, uint64_t bytes);

/* Ends the journal, with this reason. From any thread. */
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
/* Adds the figures to *sum; of commit_max_us, the maximum. why: if the writer has failed, the reason; may be NULL. Any
 * thread. */
void journal_writer_figures(struct journal_writer *writer, struct journal_figures *sum, struct star_error *why);

enum { JOURNAL_NAME_MAX = 32 };
/* "00000001-003-00000007.log" */
void journal_segment_name(char name[static JOURNAL_NAME_MAX], uint32_t life, uint32_t reactor, uint32_t number);
bool journal_segment_parse(const char *name, uint32_t *life, uint32_t *reactor, uint32_t *number);
/* A file of this name exists as long as nothing of the life is missing in its journal. */
void journal_whole_name(char name[static JOURNAL_NAME_MAX], uint32_t life);
uint32_t journal_segment_checksum(const struct journal_segment *segment);
uint32_t journal_block_checksum(const struct journal_block *block, const void *payload);

#endif
