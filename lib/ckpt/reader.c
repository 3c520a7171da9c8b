/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a data file block by block; nothing in it is trusted. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/ahead.h"
#include "ckpt/internal.h"

_Static_assert((int)CHECKPOINT_BLOCK_MAX <= (int)AHEAD_GET_MAX, "a block is read in one piece");

struct ckpt_reader {
	int fd;
	bool direct, over;
	int failed; /* the first error: nothing is read after it */
	uint64_t id, parent;
	uint32_t partitions;
	struct ckpt_file file;
	struct ckpt_ahead ahead;
	uint32_t blocks, checksum;
	char path[CKPT_PATH_MAX];
};

/* Gets the next bytes of the file. */
static int reader_get(struct ckpt_reader *r, uint32_t bytes, const uint8_t **at, struct star_error *err)
{
	const int rc = ckpt_ahead_get(&r->ahead, bytes, at);

	switch (rc) {
	case 0:
		return 0;
	case -ENODATA:
		return ckpt_damaged(err, r->path, r->file.name, "block %u extends beyond the end of the file",
				    r->blocks);
	case -ESTALE:
		return ckpt_damaged(err, r->path, r->file.name, "it was cut off while it was read");
	default:
		return ckpt_io_error(err, rc, "read", r->path, r->file.name);
	}
}

static bool all_zero(const uint8_t *from, size_t bytes)
{
	return bytes == 0 || (from[0] == 0 && memcmp(from, from + 1, bytes - 1) == 0);
}

static int check_file_header(struct ckpt_reader *r, struct star_error *err)
{
	const char *name = r->file.name;
	struct checkpoint_header header;
	const uint8_t *page;
	int rc = reader_get(r, CHECKPOINT_ALIGN, &page, err);

	if (rc < 0)
		return rc;
	memcpy(&header, page, sizeof(header));
	if (header.magic != CHECKPOINT_MAGIC)
		return ckpt_damaged(err, r->path, name, "it does not start like a data file of a checkpoint");
	if (header.checksum != ckpt_header_checksum(&header))
		return ckpt_damaged(err, r->path, name, "the checksum of its header does not match: it is damaged");
	if (header.version != CHECKPOINT_VERSION)
		return ckpt_damaged(err, r->path, name, "its version is %u; this program reads version %d",
				    header.version, CHECKPOINT_VERSION);
	if (header.reserved || !all_zero(page + sizeof(header), CHECKPOINT_ALIGN - sizeof(header)))
		return ckpt_damaged(err, r->path, name, "its header is not followed by zeros");
	if (header.id != r->id || header.parent != r->parent || header.partitions != r->partitions ||
	    header.task != r->file.task || header.reactor != r->file.reactor)
		return ckpt_damaged(err, r->path, name,
				    "it is another file than the manifest says: of checkpoint %" PRIu64
				    " after %" PRIu64 ", %u partitions, reactor %u of task %u",
				    header.id, header.parent, header.partitions, header.reactor, header.task);
	r->checksum = ckpt_add_checksum(0, header.checksum);
	ckpt_ahead_use(&r->ahead, CHECKPOINT_ALIGN);
	return 0;
}

static int open_checkpoint(struct ckpt_reader *r, struct star_error *err)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, folder = ckpt_open_folder(r->path, err);
	struct stat status;
	int code;

	if (folder < 0)
		return folder;
	r->direct = true;
	r->fd = openat(folder, r->file.name, flags | O_DIRECT);
	if (r->fd < 0 && errno == EINVAL) {
		r->direct = false;
		r->fd = openat(folder, r->file.name, flags);
	}
	code = -errno;
	close(folder);
	if (r->fd < 0)
		return code == -ENOENT ? ckpt_damaged(err, r->path, r->file.name, "it is missing")
				       : ckpt_io_error(err, code, "open", r->path, r->file.name);
	if (fstat(r->fd, &status) < 0)
		return ckpt_io_error(err, -errno, "look at", r->path, r->file.name);
	if (!S_ISREG(status.st_mode))
		return ckpt_damaged(err, r->path, r->file.name, "it is not a regular file");
	if ((uint64_t)status.st_size != r->file.bytes)
		return ckpt_damaged(err, r->path, r->file.name,
				    "it has %" PRIu64 " bytes, and %" PRIu64 " in the manifest",
				    (uint64_t)status.st_size, r->file.bytes);
	posix_fadvise(r->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return 0;
}

struct ckpt_reader *ckpt_reader_create(const char *path, const struct ckpt_manifest *manifest,
				       const struct ckpt_file *file, struct star_error *err)
{
	struct ckpt_reader *r;

	if (!ckpt_file_name_ok(file->name) || file->bytes % CHECKPOINT_ALIGN || file->bytes < CKPT_FILE_BYTES_MIN ||
	    strlen(path) >= CKPT_PATH_MAX) {
		star_error_set(err, -EINVAL, "\"%.64s\" is not a file of a checkpoint", file->name);
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		star_error_set(err, -ENOMEM, "no memory left to read %s", file->name);
		return NULL;
	}
	r->fd = -1;
	r->id = manifest->id;
	r->parent = manifest->parent;
	r->partitions = manifest->partitions;
	r->file = *file;
	strcpy(r->path, path);
	if (open_checkpoint(r, err) < 0)
		goto fail;
	if (ckpt_ahead_init(&r->ahead, r->fd, r->direct, file->bytes, CHECKPOINT_ALIGN) < 0) {
		star_error_set(err, -ENOMEM, "no memory left to read %s", file->name);
		goto fail;
	}
	if (check_file_header(r, err) == 0)
		return r;
fail:
	ckpt_reader_destroy(r);
	return NULL;
}

/* Checks a block's header, so that its length can be used. */
static int check_block_header(const struct ckpt_reader *r, const struct checkpoint_block *block, struct star_error *err)
{
	const bool last = block->flags & CHECKPOINT_LAST;
	const char *why = NULL;

	if (block->magic != CHECKPOINT_BLOCK_MAGIC)
		why = "it does not begin as a block does";
	else if (block->bytes > CHECKPOINT_PAYLOAD_MAX || block->bytes % sizeof(uint64_t) ||
		 (block->bytes == 0) != last)
		why = "its length is not possible";
	else if (block->id != r->id || block->number != r->blocks)
		why = "it is another block, or of another checkpoint";
	else if (block->flags & ~(uint32_t)CHECKPOINT_LAST || block->reserved || block->reserved2 ||
		 (block->rows && !last))
		why = "there is something where nothing should be";
	return why ? ckpt_damaged(err, r->path, r->file.name, "block %u, at byte %" PRIu64 ": %s", r->blocks,
				  r->ahead.used, why)
		   : 0;
}

/* After the last block: compares the totals with the manifest. */
static int check_end(const struct ckpt_reader *r, uint64_t rows, struct star_error *err)
{
	if (r->ahead.used != r->file.bytes)
		return ckpt_damaged(err, r->path, r->file.name, "there are %" PRIu64 " bytes behind its last block",
				    r->file.bytes - r->ahead.used);
	if (rows != r->file.rows + r->file.deleted)
		return ckpt_damaged(err, r->path, r->file.name,
				    "it says that it has %" PRIu64 " rows and deleted keys, and the manifest %" PRIu64,
				    rows, r->file.rows + r->file.deleted);
	if (r->checksum != r->file.checksum)
		return ckpt_damaged(err, r->path, r->file.name,
				    "its blocks are in order, but it is not the file of this manifest");
	return 0;
}

static int next_block(struct ckpt_reader *r, const uint8_t **payload, uint32_t *bytes, struct star_error *err)
{
	struct checkpoint_block block;
	uint32_t whole, used;
	const uint8_t *at;
	int rc = reader_get(r, CHECKPOINT_ALIGN, &at, err);

	if (rc < 0)
		return rc;
	memcpy(&block, at, sizeof(block));
	rc = check_block_header(r, &block, err);
	whole = ckpt_block_bytes(block.bytes);
	if (rc == 0)
		rc = reader_get(r, whole, &at, err);
	if (rc < 0)
		return rc;
	used = (uint32_t)sizeof(block) + block.bytes;
	if (ckpt_block_checksum(at, block.bytes) != block.checksum || !all_zero(at + used, whole - used))
		return ckpt_damaged(err, r->path, r->file.name,
				    "block %u, at byte %" PRIu64 ": its checksum does not match: it is damaged",
				    r->blocks, r->ahead.used);
	ckpt_ahead_use(&r->ahead, whole);
	r->checksum = ckpt_add_checksum(r->checksum, block.checksum);
	r->blocks++;
	if (block.flags & CHECKPOINT_LAST) {
		r->over = true;
		return check_end(r, block.rows, err);
	}
	*payload = at + sizeof(block);
	*bytes = block.bytes;
	return 1;
}

int ckpt_reader_next(struct ckpt_reader *r, const uint8_t **payload, uint32_t *bytes, struct star_error *err)
{
	int rc;

	if (r->failed)
		return star_error_set(err, r->failed, "%.280s/%s was refused before", r->path, r->file.name);
	if (r->over)
		return 0;
	rc = next_block(r, payload, bytes, err);
	if (rc < 0)
		r->failed = rc;
	return rc;
}

void ckpt_reader_destroy(struct ckpt_reader *r)
{
	if (!r)
		return;
	ckpt_ahead_fini(&r->ahead);
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}
