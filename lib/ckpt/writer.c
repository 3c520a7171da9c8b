/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes a data file block by block, bypassing the page cache if the file system can: a checkpoint must not evict what
 * others use. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "ckpt/internal.h"

struct ckpt_writer {
	int fd;
	bool direct;
	int failed; /* the first error: nothing is written after it */
	struct checkpoint_header header;
	uint64_t offset, rows, deleted;
	uint32_t blocks, checksum;
	uint64_t limit_bytes_s; /* 0: none */
	uint64_t due_ns;	/* when the next block may be written */
	uint8_t *page;		/* CHECKPOINT_ALIGN bytes: the header, and the last block */
	char name[CKPT_FILE_NAME_MAX + 1];
	char path[CKPT_PATH_MAX];
};

/*
 * Waits so that the average rate stays within the limit. Unused capacity is lost, so there is no burst after a pause.
 */
static void keep_limit(struct ckpt_writer *w, uint32_t bytes)
{
	uint64_t now;

	if (!w->limit_bytes_s)
		return;
	now = clock_ns();
	while (now < w->due_ns) {
		const uint64_t wait = w->due_ns - now;
		const struct timespec pause = { (time_t)(wait / 1000000000), (long)(wait % 1000000000) };

		nanosleep(&pause, NULL);
		now = clock_ns();
	}
	w->due_ns = now + bytes * UINT64_C(1000000000) / w->limit_bytes_s;
}

/* Some file systems accept O_DIRECT when a file is opened, and refuse it afterwards. */
static bool refuses_direct(struct ckpt_writer *w)
{
	if (errno != EINVAL || !w->direct || fcntl(w->fd, F_SETFL, 0) < 0)
		return false;
	w->direct = false;
	return true;
}

static int write_out(struct ckpt_writer *w, const void *from, uint32_t bytes, struct star_error *err)
{
	keep_limit(w, bytes);
	for (uint32_t done = 0; done < bytes;) {
		const ssize_t n = pwrite(w->fd, (const uint8_t *)from + done, bytes - done, (off_t)(w->offset + done));

		if (n > 0)
			done += (uint32_t)n;
		else if (n == 0 || (errno != EINTR && !refuses_direct(w)))
			return w->failed = ckpt_io_error(err, n == 0 ? -EIO : -errno, "write", w->path, w->name);
		/* A short write that does not end at a disk block can only be continued through the page cache. */
		if (n > 0 && n % CHECKPOINT_ALIGN && w->direct && fcntl(w->fd, F_SETFL, 0) == 0)
			w->direct = false;
	}
	w->offset += bytes;
	return 0;
}

static int write_header(struct ckpt_writer *w, struct star_error *err)
{
	w->header.magic = CHECKPOINT_MAGIC;
	w->header.version = CHECKPOINT_VERSION;
	w->header.checksum = ckpt_header_checksum(&w->header);
	w->checksum = ckpt_add_checksum(0, w->header.checksum);
	memset(w->page, 0, CHECKPOINT_ALIGN);
	memcpy(w->page, &w->header, sizeof(w->header));
	return write_out(w, w->page, CHECKPOINT_ALIGN, err);
}

static int open_part(struct ckpt_writer *w, bool buffered, struct star_error *err)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
	const int folder = ckpt_open_folder(w->path, err);

	if (folder < 0)
		return folder;
	w->direct = !buffered;
	w->fd = openat(folder, w->name, flags | (w->direct ? O_DIRECT : 0), CKPT_FILE_MODE);
	if (w->fd < 0 && w->direct && errno == EINVAL) {
		/* Linux creates the file before it finds that O_DIRECT is not possible. */
		unlinkat(folder, w->name, 0);
		w->direct = false;
		w->fd = openat(folder, w->name, flags, CKPT_FILE_MODE);
	}
	if (w->fd < 0)
		ckpt_io_error(err, -errno, "create", w->path, w->name);
	close(folder);
	return w->fd;
}

struct ckpt_writer *ckpt_writer_create(const char *path, const char *name, const struct ckpt_writer_options *options,
				       struct star_error *err)
{
	struct ckpt_writer *w;

	if (!ckpt_file_name_ok(name) || strlen(path) >= CKPT_PATH_MAX) {
		star_error_set(err, -EINVAL, "no file of a checkpoint can have the name \"%.100s\"", name);
		return NULL;
	}
	w = calloc(1, sizeof(*w));
	if (w)
		w->page = aligned_alloc(CHECKPOINT_ALIGN, CHECKPOINT_ALIGN);
	if (!w || !w->page) {
		free(w);
		star_error_set(err, -ENOMEM, "no memory left to write %s", name);
		return NULL;
	}
	w->fd = -1;
	w->header = options->header;
	w->limit_bytes_s = (uint64_t)options->limit_mib_s << 20;
	strcpy(w->path, path);
	strcpy(w->name, name);
	if (open_part(w, options->buffered, err) < 0 || write_header(w, err) < 0) {
		ckpt_writer_destroy(w);
		return NULL;
	}
	return w;
}

static int write_block(struct ckpt_writer *w, void *block, uint32_t payload_bytes, uint32_t flags, uint64_t rows,
		       struct star_error *err)
{
	const uint32_t bytes = ckpt_block_bytes(payload_bytes), used = sizeof(struct checkpoint_block) + payload_bytes;
	struct checkpoint_block *header = block;

	*header = (struct checkpoint_block){ .magic = CHECKPOINT_BLOCK_MAGIC,
					     .id = w->header.id,
					     .number = w->blocks,
					     .bytes = payload_bytes,
					     .flags = flags,
					     .rows = rows };
	header->checksum = ckpt_block_checksum(block, payload_bytes);
	memset((uint8_t *)block + used, 0, bytes - used);
	if (write_out(w, block, bytes, err) < 0)
		return w->failed;
	w->checksum = ckpt_add_checksum(w->checksum, header->checksum);
	w->blocks++;
	return 0;
}

static int refuse_failed(const struct ckpt_writer *w, struct star_error *err)
{
	return star_error_set(err, w->failed, "%.280s/%s could not be written before: %s", w->path, w->name,
			      strerror(-w->failed));
}

int ckpt_writer_block(struct ckpt_writer *w, void *block, uint32_t payload_bytes, uint64_t rows, uint64_t deleted,
		      struct star_error *err)
{
	if (w->failed)
		return refuse_failed(w, err);
	if (payload_bytes == 0 || payload_bytes > CHECKPOINT_PAYLOAD_MAX || payload_bytes % sizeof(uint64_t))
		return w->failed = star_error_set(err, -EINVAL,
						  "a block's payload has %u bytes: 8 to %d, and a multiple of 8, are "
						  "possible",
						  payload_bytes, CHECKPOINT_PAYLOAD_MAX);
	if (write_block(w, block, payload_bytes, 0, 0, err) < 0)
		return w->failed;
	w->rows += rows;
	w->deleted += deleted;
	return 0;
}

int ckpt_writer_finish(struct ckpt_writer *w, struct ckpt_file *file, struct star_error *err)
{
	int fd;

	if (w->failed)
		return refuse_failed(w, err);
	if (write_block(w, w->page, 0, CHECKPOINT_LAST, w->rows + w->deleted, err) < 0)
		return w->failed;
	if (fsync(w->fd) < 0)
		return w->failed = ckpt_io_error(err, -errno, "sync", w->path, w->name);
	fd = w->fd;
	w->fd = -1;
	w->failed = -EBADF;
	if (close(fd) < 0) /* network file systems report write errors here */
		return w->failed = ckpt_io_error(err, -errno, "close", w->path, w->name);
	*file = (struct ckpt_file){ .task = w->header.task,
				    .reactor = w->header.reactor,
				    .bytes = w->offset,
				    .rows = w->rows,
				    .deleted = w->deleted,
				    .checksum = w->checksum };
	strcpy(file->name, w->name);
	return 0;
}

void ckpt_writer_destroy(struct ckpt_writer *w)
{
	if (!w)
		return;
	if (w->fd >= 0)
		close(w->fd);
	free(w->page);
	free(w);
}
