/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the contents of a journal directory: once to know which streams there are, where each ends, and that nothing in
 * between is damaged; then again to apply it. Nothing that is read is used before it is checked.
 *
 * A stream ends with its last mark. What comes after that, or is not a whole block, was left by a process that died,
 * and is ignored. A damaged block that is followed by whole ones is an error that gives file and offset; so is a stream
 * that ends before the position up to which a later life has applied it. Threads: one.
 */
#ifndef JOURNAL_READER_H
#define JOURNAL_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "star_error.h"
#include "wire/journal.h"

struct journal_stream {
	struct journal_segment begin; /* the header of the first segment that exists */
	uint64_t end;		      /* position after its last mark; begin.position: nothing in it counts */
	bool sums;		      /* sums were opened */
	struct journal_mark_at {
		uint64_t id, at;
	} * instants; /* of checkpoints, in order; at: position after the record */
	uint32_t instants_count;
	uint32_t first_file, files_count;
};

/* A life: its streams, one for each of `reactors`. */
struct journal_past_life {
	uint32_t number, reactors;
	bool goes_on, sums;
	bool whole; /* nothing of it is missing due to a failure of its journal */
	uint32_t after, story, incarnation, partitions, cluster_reactors, first_reactor;
	uint64_t base, passed_over;
	struct journal_stream *streams;
	struct star_error fault; /* code 0: none; it only matters to a restart that needs this life */
};

struct journal_contents {
	char *directory;
	struct journal_file {
		uint32_t life, reactor, number;
		uint64_t bytes, used; /* the file's size, and the end of its whole blocks */
		bool right;	      /* its stream was read to the end without errors */
	} * files;		      /* sorted */
	uint32_t files_count;
	struct journal_past_life *lives; /* sorted */
	uint32_t lives_count;
	uint32_t last;	/* the highest number of any life, even of one that never began; 0: none */
	uint64_t bytes; /* of all segments */
};

/* progress, which may be NULL, is called from time to time, and returns whether to continue. NULL with err. */
struct journal_contents *journal_contents_read(const char *directory, bool (*progress)(void *ctx), void *ctx,
					       struct star_error *err);
void journal_contents_free(struct journal_contents *contents);

/* Returns to the disk what files have allocated beyond their last whole blocks. Files that cannot be truncated stay as
 * they are. Updates contents->bytes. */
void journal_contents_cut(struct journal_contents *contents);

/* Finds the lives that lead from a checkpoint (0: from nothing) to the end of the journal: contents->lives[*first] and
 * those after it. 1; 0: there are none; -EBADMSG: one of them is damaged; err says where. */
int journal_contents_from(const struct journal_contents *contents, uint64_t id, uint32_t *first,
			  struct star_error *err);
/* The position in a stream of the first of these lives where the records after the checkpoint begin. */
uint64_t journal_stream_from(const struct journal_past_life *life, const struct journal_stream *stream, uint64_t id);

/* Calls visit for each record up to the stream's end, with the position after the record; it returns 0 or a negative
 * errno, with err. content: aligned to 8. */
typedef int journal_visit(void *ctx, const struct journal_record *record, const void *content, uint64_t behind,
			  struct star_error *err);
int journal_stream_visit(const struct journal_contents *contents, const struct journal_stream *stream,
			 journal_visit *visit, void *ctx, struct star_error *err);

/* The size of the segments of all lives up to this number; UINT64_MAX: the directory cannot be read. */
uint64_t journal_bytes(const char *directory, uint32_t up_to);
/* Removes these segments. */
int journal_remove(const char *directory, uint32_t up_to, struct star_error *err);

#endif
