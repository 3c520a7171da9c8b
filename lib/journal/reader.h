/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a folder of journals has: read once to know which streams there are, where each ends, and that nothing in
 * between is damaged; then again to apply it. Nothing that is read is believed before it was checked.
 *
 * A stream ends with its last mark. What comes after that, or is no whole block, is the end of a process that died: it
 * is left out. A block that is damaged with whole ones behind it is an error, which names file and offset; so is a
 * stream that ends before the place up to which a later life has applied it. One thread.
 */
#ifndef JOURNAL_READER_H
#define JOURNAL_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "star_error.h"
#include "wire/journal.h"

struct journal_stream {
	struct journal_segment begin; /* the header of the first segment that is there */
	uint64_t end;		      /* behind its last mark; begin.position: nothing of it counts */
	bool sums;		      /* sums were opened */
	struct journal_mark_at {
		uint64_t id, at;
	} * instants; /* of checkpoints, in order; at: behind the record */
	uint32_t instants_count;
	uint32_t first_file, files_count;
};

/* A life: its streams, one of each of `reactors`. */
struct journal_past_life {
	uint32_t number, reactors;
	bool goes_on, sums;
	bool whole; /* nothing of it is missing because its journal has failed */
	uint32_t after, story, incarnation, partitions, cluster_reactors, first_reactor;
	uint64_t base, passed_over;
	struct journal_stream *streams;
	struct star_error fault; /* code 0: none; that matters only to who needs this life */
};

struct journal_contents {
	char *directory;
	struct journal_file {
		uint32_t life, reactor, number;
		uint64_t bytes, used; /* of the file; up to where it has whole blocks */
		bool right;	      /* its stream was read to the end, and nothing is wrong with it */
	} * files;		      /* sorted */
	uint32_t files_count;
	struct journal_past_life *lives; /* sorted */
	uint32_t lives_count;
	uint32_t last;	/* the highest number of any life, perhaps of one that never began; 0: there is none */
	uint64_t bytes; /* of all segments */
};

/* progress, which may be NULL, is asked now and then whether to go on. NULL with err. */
struct journal_contents *journal_contents_read(const char *directory, bool (*progress)(void *ctx), void *ctx,
					       struct star_error *err);
void journal_contents_free(struct journal_contents *contents);

/* What files have beyond their last whole blocks is given back to the disk: it was made before it was needed. Those
 * that cannot be cut stay as they are. contents->bytes is what it is then. */
void journal_contents_cut(struct journal_contents *contents);

/* The lives that bring a node from a checkpoint (0: from nothing) to where the journal ends: contents->lives[*first]
 * and those behind it. 1, or 0: there are none; -EBADMSG: one of them is damaged, and where. */
int journal_contents_from(const struct journal_contents *contents, uint64_t id, uint32_t *first,
			  struct star_error *err);
/* Where in a stream of the first of these the records begin that come after the checkpoint. */
uint64_t journal_stream_from(const struct journal_past_life *life, const struct journal_stream *stream, uint64_t id);

/* Calls visit for each record up to the stream's end, with the position behind it; it returns 0 or a negative errno,
 * with err. content: aligned to 8. */
typedef int journal_visit(void *ctx, const struct journal_record *record, const void *content, uint64_t behind,
			  struct star_error *err);
int journal_stream_visit(const struct journal_contents *contents, const struct journal_stream *stream,
			 journal_visit *visit, void *ctx, struct star_error *err);

/* Removes the segments of all lives up to this number. */
int journal_remove(const char *directory, uint32_t up_to, struct star_error *err);

#endif
