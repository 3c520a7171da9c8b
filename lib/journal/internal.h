/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files that read a journal. */
#ifndef JOURNAL_INTERNAL_H
#define JOURNAL_INTERNAL_H

#include "journal/reader.h"

#define JOURNAL_MOVE_AWAY \
	"Nothing was restored. To begin with the last checkpoint, without what the journal has, move what is in the " \
	"folder away"

/* A stream that is being read. */
struct journal_input {
	const struct journal_contents *contents;
	struct journal_file *files;
	uint32_t files_count;
	struct journal_segment begin; /* once begun */
	bool begun, over;
	uint32_t file;	   /* that is being read, and ... */
	uint64_t offset;   /* ... where in it the next block is */
	uint64_t position; /* of that block's payload */
	int fd, folder;
	uint64_t file_bytes;
	uint32_t skip;	 /* bytes of the next payloads to skip: the beginning of their record is missing */
	uint8_t *memory; /* a block */
	uint8_t *buffer; /* records that are not complete yet */
	size_t at, left; /* in the buffer: what was not returned yet */
};

int journal_input_open(struct journal_input *in, const struct journal_contents *contents, struct journal_file *files,
		       uint32_t count, struct star_error *err);
void journal_input_close(struct journal_input *in);
/* Gets the next record, valid until the next call. 1; 0 at the end; or a negative errno. */
int journal_input_next(struct journal_input *in, const struct journal_record **record, struct star_error *err);
/* The position after it. */
uint64_t journal_input_position(const struct journal_input *in);

#endif
