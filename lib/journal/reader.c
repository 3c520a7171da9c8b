/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads one stream: blocks in order, and the records in them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "journal/internal.h"
#include "journal/writer.h"

enum { BUFFER = JOURNAL_BLOCK_MAX + JOURNAL_RECORD_MAX };

int journal_input_open(struct journal_input *in, const struct journal_contents *contents, struct journal_file *files,
		       uint32_t count, struct star_error *err)
{
	*in = (struct journal_input){ .contents = contents, .files = files, .files_count = count, .fd = -1 };
	in->folder = open(contents->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	in->memory = aligned_alloc(JOURNAL_ALIGN, JOURNAL_BLOCK_MAX);
	in->buffer = aligned_alloc(64, BUFFER);
	if (in->folder >= 0 && in->memory && in->buffer)
		return 0;
	return in->folder < 0 ? star_error_set(err, -errno, "journal.directory: %.300s cannot be opened: %s",
					       contents->directory, strerror(errno))
			      : star_error_set(err, -ENOMEM, "out of memory");
}

void journal_input_close(struct journal_input *in)
{
	if (in->fd >= 0)
		close(in->fd);
	if (in->folder >= 0)
		close(in->folder);
	free(in->memory);
	free(in->buffer);
}

static const char *name_of(const struct journal_file *file, char name[static JOURNAL_NAME_MAX])
{
	journal_segment_name(name, file->life, file->reactor, file->number);
	return name;
}

static int damaged(const struct journal_input *in, const struct journal_file *file, uint64_t offset, const char *what,
		   struct star_error *err)
{
	char name[JOURNAL_NAME_MAX];

	return star_error_set(err, -EBADMSG,
			      "the journal is damaged: %.200s/%s, byte %" PRIu64 ": %s. " JOURNAL_MOVE_AWAY,
			      in->contents->directory, name_of(file, name), offset, what);
}

static int read_error(const struct journal_input *in, const struct journal_file *file, ssize_t code,
		      struct star_error *err)
{
	char name[JOURNAL_NAME_MAX];

	return star_error_set(err, (int)code, "%.200s/%s cannot be read: %s", in->contents->directory,
			      name_of(file, name), strerror((int)-code));
}

/* Opens a file and reads its header. 1: it is this stream's; 0: it has not begun, or has another stream's header;
 * negative: an error. */
static int open_segment(struct journal_input *in, const struct journal_file *file, struct journal_segment *header,
			struct star_error *err)
{
	char name[JOURNAL_NAME_MAX];
	struct stat stat;
	ssize_t n;

	if (in->fd >= 0)
		close(in->fd);
	in->fd = openat(in->folder, name_of(file, name), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (in->fd < 0 || fstat(in->fd, &stat) < 0)
		return read_error(in, file, -errno, err);
	in->file_bytes = (uint64_t)stat.st_size;
	n = base_read_at(in->fd, header, sizeof(*header), 0);
	if (n < 0)
		return read_error(in, file, n, err);
	return n == (ssize_t)sizeof(*header) && header->magic == JOURNAL_MAGIC &&
	       header->checksum == journal_segment_checksum(header) && header->life == file->life &&
	       header->reactor == file->reactor && header->number == file->number;
}

/* Reads the block at an offset of the open file into in->memory. 1: it is complete, of this stream, and begins at
 * `position`, or at a later one unless that is exact. */
static int read_block(struct journal_input *in, const struct journal_file *file, uint64_t offset, uint64_t position,
		      bool exact, struct star_error *err)
{
	const struct journal_block *block = (const struct journal_block *)in->memory;
	ssize_t n = base_read_at(in->fd, in->memory, JOURNAL_ALIGN, offset);
	size_t all;

	if (n < 0)
		return read_error(in, file, n, err);
	if (n < JOURNAL_ALIGN || block->magic != JOURNAL_BLOCK_MAGIC || block->life != file->life ||
	    block->reactor != file->reactor || block->bytes == 0 || block->bytes % 8 ||
	    block->bytes > JOURNAL_PAYLOAD_MAX || (exact ? block->position != position : block->position < position))
		return 0;
	all = sizeof(*block) + block->bytes;
	if (all > JOURNAL_ALIGN) {
		n = base_read_at(in->fd, in->memory + JOURNAL_ALIGN, all - JOURNAL_ALIGN, offset + JOURNAL_ALIGN);
		if (n < 0)
			return read_error(in, file, n, err);
		if ((size_t)n < all - JOURNAL_ALIGN)
			return 0;
	}
	return block->checksum == journal_block_checksum(block, block + 1);
}

/* Whether the open file has a complete block after the given offset and position: then a gap there is not the end. */
static int find_later(struct journal_input *in, const struct journal_file *file, uint64_t offset, uint64_t position,
		      struct star_error *err)
{
	int rc = 0;

	for (; rc == 0 && offset + JOURNAL_ALIGN <= in->file_bytes; offset += JOURNAL_ALIGN)
		rc = read_block(in, file, offset, position, false, err);
	return rc;
}

/* No complete block follows, so the rest of the stream must be empty, too. */
static int check_end(struct journal_input *in, struct star_error *err)
{
	const struct journal_file *at = &in->files[in->file];
	const uint64_t offset = in->offset;
	int rc = find_later(in, at, offset, in->position, err);

	for (uint32_t i = in->file + 1; rc == 0 && i < in->files_count; i++) {
		struct journal_segment header;

		rc = open_segment(in, &in->files[i], &header, err);
		if (rc > 0)
			break; /* it was begun, so something is missing before it */
		if (rc == 0)
			rc = find_later(in, &in->files[i], JOURNAL_ALIGN, in->position, err);
	}
	in->over = true;
	in->files[in->file].used = offset;
	return rc > 0 ? damaged(in, at, offset, "a block is damaged, and others follow it", err) : rc;
}

static int other_version(const struct journal_input *in, const struct journal_segment *header, struct star_error *err)
{
	return star_error_set(
		err, -EPROTONOSUPPORT,
		"the journal in %.200s is of version %u, this program reads version %d. " JOURNAL_MOVE_AWAY
		"; to keep them, start the program that wrote it once more, have a checkpoint written (starctl "
		"checkpoint save), stop it, and only then move what is in the directory away",
		in->contents->directory, header->version, JOURNAL_VERSION);
}

/* How much of a record is still to be read. */
static uint64_t record_left(const struct journal_input *in)
{
	const struct journal_record *record = (const struct journal_record *)(in->buffer + in->at);

	return in->left ? record->bytes - in->left : in->skip;
}

/* Whether a segment's header can follow what was read. */
static int check_segment_header(const struct journal_input *in, const struct journal_file *file,
				const struct journal_segment *header, struct star_error *err)
{
	if (header->version != JOURNAL_VERSION)
		return other_version(in, header, err);
	if (in->begun && header->position != in->position)
		return damaged(in, &in->files[in->file], in->offset, "a block is missing", err);
	if (header->position > INT64_MAX || header->first_record >= JOURNAL_RECORD_MAX || header->first_record % 8 ||
	    (in->begun ? header->first_record != record_left(in) : !header->position && header->first_record))
		return damaged(in, file, 0, "where its first record begins cannot be", err);
	return 0;
}

/* Reads the header of the first file, or of the next one. */
static int next_file(struct journal_input *in, uint32_t file, struct star_error *err)
{
	struct journal_segment header;
	int rc = open_segment(in, &in->files[file], &header, err);

	if (rc < 0)
		return rc;
	if (in->begun)
		in->files[in->file].used = in->offset;
	if (rc == 0) {
		in->file = file;
		in->offset = 0;
		/* Without a valid header, any block in the file still shows that it was begun. */
		return check_end(in, err);
	}
	rc = check_segment_header(in, &in->files[file], &header, err);
	if (rc < 0)
		return rc;
	if (!in->begun) {
		in->begin = header;
		in->skip = header.first_record;
	}
	in->begun = true;
	in->file = file;
	in->position = header.position;
	in->offset = JOURNAL_ALIGN;
	return 0;
}

/* Appends the next block's payload to what is left in the buffer. 0: there is none. */
static int next_block(struct journal_input *in, struct star_error *err)
{
	const struct journal_block *block = (const struct journal_block *)in->memory;
	uint32_t skip;
	int rc = 0;

	if (!in->begun && !in->over)
		rc = next_file(in, 0, err);
	while (rc == 0 && !in->over) {
		rc = read_block(in, &in->files[in->file], in->offset, in->position, true, err);
		if (rc != 0)
			break;
		if (in->file + 1 < in->files_count) {
			const uint32_t file = in->file;

			/* A segment ends where the next one begins. */
			rc = find_later(in, &in->files[file], in->offset, in->position, err);
			if (rc > 0)
				return damaged(in, &in->files[file], in->offset,
					       "a block is damaged, and others follow it", err);
			if (rc == 0)
				rc = next_file(in, file + 1, err);
		} else {
			rc = check_end(in, err);
		}
	}
	if (rc <= 0)
		return rc;
	memmove(in->buffer, in->buffer + in->at, in->left);
	in->at = 0;
	skip = in->skip < block->bytes ? in->skip : block->bytes;
	in->skip -= skip;
	memcpy(in->buffer + in->left, (const uint8_t *)(block + 1) + skip, block->bytes - skip);
	in->left += block->bytes - skip;
	in->position += block->bytes;
	in->offset += (sizeof(*block) + block->bytes + JOURNAL_ALIGN - 1) / JOURNAL_ALIGN * JOURNAL_ALIGN;
	return 1;
}

static int bad_record(const struct journal_input *in, const char *what, struct star_error *err)
{
	return damaged(in, &in->files[in->file], in->offset, what, err);
}

int journal_input_next(struct journal_input *in, const struct journal_record **record, struct star_error *err)
{
	const struct journal_record *r;
	int rc = 1;

	while (rc > 0) {
		r = (const struct journal_record *)(in->buffer + in->at);
		if (in->left >= sizeof(*r)) {
			if (r->bytes < sizeof(*r) || r->bytes % 8 || r->bytes > JOURNAL_RECORD_MAX)
				return bad_record(in, "a record of an impossible length", err);
			if (in->left >= r->bytes) {
				in->at += r->bytes;
				in->left -= r->bytes;
				*record = r;
				return 1;
			}
		}
		rc = next_block(in, err);
	}
	return rc;
}

uint64_t journal_input_position(const struct journal_input *in)
{
	return in->position - in->left;
}

int journal_stream_visit(const struct journal_contents *contents, const struct journal_stream *stream,
			 journal_visit *visit, void *ctx, struct star_error *err)
{
	const struct journal_record *record;
	struct journal_input in;
	int rc = journal_input_open(&in, contents, &contents->files[stream->first_file], stream->files_count, err);

	while (rc == 0 && (!in.begun || journal_input_position(&in) < stream->end)) {
		rc = journal_input_next(&in, &record, err);
		if (rc <= 0)
			break;
		rc = journal_input_position(&in) <= stream->end
			     ? visit(ctx, record, record + 1, journal_input_position(&in), err)
			     : 0;
	}
	journal_input_close(&in);
	return rc;
}
