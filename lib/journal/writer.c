/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "journal/reader.h"

enum {
	PACE_US = 1000,		 /* between two writes, unless more than ... */
	HURRY_BYTES = 256 << 10, /* ... is waiting */
	SEGMENTS_MAX = 65536,
	FREE_MAX = 2, /* files that are kept for reuse */
	FILE_MODE = 0640,
	LOOK_US = 1000000, /* between two checks of the files */
	LOOK_MAX = 64,	   /* files per check; the others are checked next time */
};

/* A file of the stream. Files that are no longer needed come first. */
struct segment {
	uint32_t number;
	uint64_t position; /* position of its first payload byte */
};

struct journal_writer {
	struct journal_life life;
	char directory[PATH_MAX];
	uint32_t reactor;
	uint64_t former;
	uint64_t limit_bytes, former_bytes;
	struct journal_ring *ring;
	pthread_t thread;
	bool stop, threaded;
	/* used by the thread only */
	int fd, folder;
	bool direct, synced; /* O_DIRECT; RWF_DSYNC */
	uint64_t offset;     /* of the next block */
	uint64_t record_at;  /* position of the first record that is in no block yet */
	bool sums;	     /* a record of JOURNAL_SUMS comes before it */
	struct segment *segments;
	uint32_t segments_count, unneeded;
	uint32_t look_at; /* the next file to be checked */
	uint64_t looked_us;
	uint8_t *block;
	/* under lock */
	pthread_mutex_t lock;
	uint64_t keep_id, kept_id;
	struct journal_figures figures;
	struct star_error why;
};

static void set_failed(struct journal_writer *w, const struct star_error *why)
{
	char name[JOURNAL_NAME_MAX];

	pthread_mutex_lock(&w->lock);
	if (!w->figures.failed)
		w->why = *why;
	w->figures.failed = 1;
	pthread_mutex_unlock(&w->lock);
	__atomic_store_n(&w->ring->ends[JOURNAL_DISK].off, true, __ATOMIC_RELAXED);
	journal_whole_name(name, w->life.number);
	unlinkat(w->folder, name, 0);
}

static int fail_write(struct journal_writer *w, int code, const char *what, const char *name)
{
	struct star_error err;

	if (code == -ENOSPC || code == -EDQUOT)
		star_error_set(&err, code, "the disk of the journal is full: %s cannot be %s in %.200s", name, what,
			       w->directory);
	else
		star_error_set(&err, code, "the journal's %s cannot be %s in %.200s: %s", name, what, w->directory,
			       strerror(-code));
	set_failed(w, &err);
	return code;
}

/* Writes unbuffered and synchronously if the file system can. It may refuse this when a file is opened, or only when it
 * is written. */
static bool refuses(struct journal_writer *w, int code)
{
	if (code == EINVAL && w->direct && fcntl(w->fd, F_SETFL, 0) == 0) {
		w->direct = false;
		return true;
	}
	if (code == EOPNOTSUPP && w->synced) {
		w->synced = false;
		return true;
	}
	return false;
}

static int write_out(struct journal_writer *w, const char *name, const void *from, size_t bytes, uint64_t offset)
{
	for (size_t done = 0; done < bytes;) {
		const struct iovec piece = { .iov_base = (uint8_t *)from + done, .iov_len = bytes - done };
		const ssize_t n = pwritev2(w->fd, &piece, 1, (off_t)(offset + done), w->synced ? RWF_DSYNC : 0);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || (errno != EINTR && !refuses(w, errno)))
			return fail_write(w, n == 0 ? -EIO : -errno, "written", name);
		if (n > 0 && n % JOURNAL_ALIGN)
			refuses(w, EINVAL);
	}
	return w->synced || fdatasync(w->fd) == 0 ? 0 : fail_write(w, -errno, "synced", name);
}

static struct segment *last_segment(struct journal_writer *w)
{
	return &w->segments[w->segments_count - 1];
}

/* Renames a file that is not needed any more, or creates a new one. */
static int open_segment(struct journal_writer *w, const char *name)
{
	char old[JOURNAL_NAME_MAX];
	const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;

	if (w->unneeded) {
		journal_segment_name(old, w->life.number, w->reactor, w->segments[0].number);
		if (renameat(w->folder, old, w->folder, name) < 0)
			return fail_write(w, -errno, "renamed", old);
		/* Before its header is overwritten: otherwise a file could have the old name with the new number. */
		if (fsync(w->folder) < 0)
			return fail_write(w, -errno, "synced", "directory");
		memmove(w->segments, w->segments + 1, --w->segments_count * sizeof(*w->segments));
		w->unneeded--;
	}
	w->direct = true;
	w->fd = openat(w->folder, name, flags | O_CREAT | O_DIRECT, FILE_MODE);
	if (w->fd < 0 && errno == EINVAL) {
		w->direct = false;
		w->fd = openat(w->folder, name, flags | O_CREAT, FILE_MODE);
	}
	return w->fd < 0 ? fail_write(w, -errno, "opened", name) : 0;
}

static int over_limit(struct journal_writer *w)
{
	struct star_error err;

	star_error_set(&err, -EFBIG,
		       "the journal in %.200s has reached journal.limit_mib, because no checkpoint was written for too "
		       "long: see checkpoint.every_s and checkpoint.delta_every_s",
		       w->directory);
	set_failed(w, &err);
	return -EFBIG;
}

/* Begins the next file, whose first payload has this position. */
static int begin_segment(struct journal_writer *w, uint64_t position)
{
	const uint32_t number = w->segments_count ? last_segment(w)->number + 1 : 1;
	struct journal_segment header = { .magic = JOURNAL_MAGIC,
					  .version = JOURNAL_VERSION,
					  .life = w->life.number,
					  .reactor = w->reactor,
					  .number = number,
					  .flags = w->life.flags | (w->sums ? JOURNAL_SUMS_BEFORE : 0),
					  .reactors = w->life.reactors,
					  .partitions = w->life.partitions,
					  .incarnation = w->life.incarnation,
					  .after = w->life.after,
					  .story = w->life.story,
					  .first_record = (uint32_t)(w->record_at - position),
					  .position = position,
					  .base = w->life.base,
					  .passed_over = w->life.passed_over,
					  .former = w->former,
					  .cluster_reactors = w->life.cluster_reactors,
					  .first_reactor = w->life.first_reactor };
	char name[JOURNAL_NAME_MAX];
	int rc;

	journal_segment_name(name, w->life.number, w->reactor, number);
	if (!w->unneeded &&
	    (w->segments_count == SEGMENTS_MAX ||
	     (w->segments_count + 1) * w->life.segment_bytes > __atomic_load_n(&w->limit_bytes, __ATOMIC_RELAXED)))
		return over_limit(w);
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
	rc = open_segment(w, name);
	/* The file is allocated before it gets a block, so that a full disk is noticed here. */
	if (rc == 0) {
		rc = -posix_fallocate(w->fd, 0, (off_t)w->life.segment_bytes);
		if (rc < 0)
			fail_write(w, rc, "made as long as it will be", name);
	}
	header.checksum = journal_segment_checksum(&header);
	memset(w->block, 0, JOURNAL_ALIGN);
	memcpy(w->block, &header, sizeof(header));
	if (rc == 0)
		rc = write_out(w, name, w->block, JOURNAL_ALIGN, 0);
	if (rc == 0 && fsync(w->folder) < 0)
		rc = fail_write(w, -errno, "synced", "directory");
	if (rc < 0) {
		/* It is empty, and others need the space. */
		unlinkat(w->folder, name, 0);
		return rc;
	}
	w->segments[w->segments_count++] = (struct segment){ .number = number, .position = position };
	w->offset = JOURNAL_ALIGN;
	return 0;
}

/* The position at which the journal on disk ends. */
static uint64_t written_to(const struct journal_writer *w)
{
	return w->ring->ends[JOURNAL_DISK].at;
}

/* A block was written; it may end in the middle of a record. */
static void follow_records(struct journal_writer *w, const struct journal_block *block)
{
	while (w->record_at < block->position + block->bytes) {
		const uint64_t behind = w->record_at - block->position;
		const struct journal_record *record =
			(const struct journal_record *)((const uint8_t *)(block + 1) + behind);

		w->sums |= record->kind == JOURNAL_SUMS;
		w->record_at += record->bytes;
	}
}

/* The ring has gone on without its reader, because something waited for the disk for too long. */
static int cut_off(struct journal_writer *w)
{
	struct star_error err;

	star_error_set(&err, -EOVERFLOW,
		       "the journal in %.200s does not keep up, or its disk does not answer: requests have waited for "
		       "journal.wait_s",
		       w->directory);
	set_failed(w, &err);
	return err.code;
}

/* Writes a block of what is in the ring, up to `published`. */
static int write_block(struct journal_writer *w, uint64_t published)
{
	struct journal_ring *ring = w->ring;
	const uint64_t begun_us = clock_us(), from = written_to(w), left = published - from;
	const uint32_t bytes = (uint32_t)(left < JOURNAL_PAYLOAD_MAX ? left : JOURNAL_PAYLOAD_MAX);
	const size_t used = sizeof(struct journal_block) + bytes,
		     all = (used + JOURNAL_ALIGN - 1) / JOURNAL_ALIGN * JOURNAL_ALIGN;
	struct journal_block *header = (struct journal_block *)w->block;
	char name[JOURNAL_NAME_MAX];
	uint64_t took_us;
	int rc = 0;

	if (w->offset + all > w->life.segment_bytes)
		rc = begin_segment(w, from);
	if (rc < 0)
		return rc;
	journal_segment_name(name, w->life.number, w->reactor, last_segment(w)->number);
	*header = (struct journal_block){ .magic = JOURNAL_BLOCK_MAGIC,
					  .life = w->life.number,
					  .reactor = w->reactor,
					  .position = from,
					  .bytes = bytes };
	memcpy(header + 1, journal_at(ring, from), bytes);
	if (journal_is_cut_off(ring, JOURNAL_DISK))
		return cut_off(w);
	memset(w->block + used, 0, all - used);
	header->checksum = journal_block_checksum(header, header + 1);
	rc = write_out(w, name, w->block, all, w->offset);
	if (rc < 0)
		return rc;
	w->offset += all;
	follow_records(w, header);
	journal_free_to(ring, JOURNAL_DISK, from + bytes);
	took_us = clock_us() - begun_us;
	pthread_mutex_lock(&w->lock);
	w->figures.bytes += all;
	w->figures.commits++;
	w->figures.segments = w->segments_count;
	if (took_us > w->figures.commit_max_us)
		w->figures.commit_max_us = took_us;
	pthread_mutex_unlock(&w->lock);
	return 0;
}

/* Releases files that end before the first record that is needed; some are kept for reuse. */
static void drop_before(struct journal_writer *w, uint64_t position)
{
	char name[JOURNAL_NAME_MAX];
	uint32_t gone = 0;

	while (w->unneeded + 1 < w->segments_count && w->segments[w->unneeded + 1].position <= position)
		w->unneeded++;
	for (; w->unneeded > FREE_MAX; w->unneeded--) {
		journal_segment_name(name, w->life.number, w->reactor, w->segments[gone++].number);
		unlinkat(w->folder, name, 0);
	}
	w->segments_count -= gone;
	memmove(w->segments, w->segments + gone, w->segments_count * sizeof(*w->segments));
}

/* Releases what a committed checkpoint makes unnecessary, once everything that replaces it is written. */
static void keep_from(struct journal_writer *w)
{
	struct journal_ring *ring = w->ring;
	const uint64_t id = __atomic_load_n(&ring->sessions_of, __ATOMIC_ACQUIRE);
	const uint64_t at = __atomic_load_n(&ring->instant_at, __ATOMIC_ACQUIRE);
	bool counts;

	pthread_mutex_lock(&w->lock);
	counts = id && id == w->keep_id && id != w->kept_id &&
		 written_to(w) >= __atomic_load_n(&ring->published, __ATOMIC_ACQUIRE) &&
		 id == __atomic_load_n(&ring->instant_id, __ATOMIC_ACQUIRE);
	pthread_mutex_unlock(&w->lock);
	if (!counts)
		return;
	drop_before(w, at);
	pthread_mutex_lock(&w->lock);
	w->kept_id = id;
	w->figures.segments = w->segments_count;
	pthread_mutex_unlock(&w->lock);
}

/* Something that a restart needs was removed, moved or truncated while the node runs. */
static void miss(struct journal_writer *w, const char *what)
{
	struct star_error err;

	star_error_set(&err, -ENOENT,
		       "the journal in %.200s cannot be replayed any more: %s is gone, or shorter than it was",
		       w->directory, what);
	set_failed(w, &err);
}

/* Only if the file does not exist; if the file system does not answer, writes will show that. */
static bool is_gone(int rc)
{
	return rc < 0 && (errno == ENOENT || errno == ENOTDIR);
}

static bool has_directory(const struct journal_writer *w)
{
	struct stat there, own;
	const int rc = stat(w->directory, &there);

	return !is_gone(rc) &&
	       (rc < 0 || fstat(w->folder, &own) < 0 || (there.st_dev == own.st_dev && there.st_ino == own.st_ino));
}

static bool has_segment(const struct journal_writer *w, uint32_t i, char name[static JOURNAL_NAME_MAX])
{
	struct stat stat;
	int rc;

	journal_segment_name(name, w->life.number, w->reactor, w->segments[i].number);
	rc = fstatat(w->folder, name, &stat, AT_SYMLINK_NOFOLLOW);
	return !is_gone(rc) && (rc < 0 || (uint64_t)stat.st_size >= w->life.segment_bytes);
}

/* Whether everything is there that a restart would read: an operator may have deleted the wrong files. */
static void look_at_files(struct journal_writer *w, uint64_t now_us)
{
	const uint64_t former = __atomic_load_n(&w->former_bytes, __ATOMIC_ACQUIRE);
	char name[JOURNAL_NAME_MAX];

	if (now_us - w->looked_us < LOOK_US)
		return;
	w->looked_us = now_us;
	if (!has_directory(w)) {
		miss(w, "the directory itself");
		return;
	}
	if (!has_segment(w, w->segments_count - 1, name)) {
		miss(w, name);
		return;
	}
	for (unsigned i = 0; i < LOOK_MAX && i < w->segments_count - w->unneeded; i++) {
		if (w->look_at < w->unneeded || w->look_at >= w->segments_count)
			w->look_at = w->unneeded;
		if (!has_segment(w, w->look_at++, name)) {
			miss(w, name);
			return;
		}
	}
	/* Unless they were released meanwhile. */
	if (former && journal_bytes(w->directory, w->life.number - 1) < former &&
	    __atomic_load_n(&w->former_bytes, __ATOMIC_ACQUIRE) == former)
		miss(w, "a file of a former life");
}

static bool has_failed(struct journal_writer *w)
{
	bool failed;

	pthread_mutex_lock(&w->lock);
	failed = w->figures.failed;
	pthread_mutex_unlock(&w->lock);
	return failed || (journal_is_cut_off(w->ring, JOURNAL_DISK) && cut_off(w) < 0);
}

static void *writer_loop(void *arg)
{
	struct journal_writer *w = arg;
	bool stop;

	pthread_setname_np(pthread_self(), "journal");
	do {
		const uint64_t begun_us = clock_us();
		uint64_t published, left_us;

		/* Read before `published`: nothing is published after a stop. */
		stop = __atomic_load_n(&w->stop, __ATOMIC_ACQUIRE);
		published = __atomic_load_n(&w->ring->published, __ATOMIC_ACQUIRE);
		while (!has_failed(w) && written_to(w) != published && write_block(w, published) == 0 &&
		       (stop || published - written_to(w) >= HURRY_BYTES))
			if (!stop)
				published = __atomic_load_n(&w->ring->published, __ATOMIC_ACQUIRE);
		if (has_failed(w)) {
			if (stop)
				break;
		} else {
			keep_from(w);
			look_at_files(w, begun_us);
		}
		left_us = clock_us() - begun_us;
		left_us = left_us < PACE_US ? PACE_US - left_us : 0;
		if (!stop && left_us)
			nanosleep(&(struct timespec){ .tv_nsec = (long)left_us * 1000 }, NULL);
	} while (!stop);
	return NULL;
}

struct journal_writer *journal_writer_create(const struct journal_life *life, uint32_t reactor, uint64_t former,
					     struct journal_ring *ring, struct star_error *err)
{
	struct journal_writer *w = calloc(1, sizeof(*w));
	int rc;

	if (!w) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	w->life = *life;
	snprintf(w->directory, sizeof(w->directory), "%s", life->directory);
	w->life.directory = w->directory;
	w->reactor = reactor;
	w->former = former;
	w->limit_bytes = life->limit_bytes;
	w->ring = ring;
	ring->ends[JOURNAL_DISK].off = false; /* the thread that had tried before is gone */
	w->record_at = written_to(w);
	w->fd = -1;
	w->synced = true;
	pthread_mutex_init(&w->lock, NULL);
	w->folder = open(w->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w->segments = calloc(SEGMENTS_MAX, sizeof(*w->segments));
	w->block = aligned_alloc(JOURNAL_ALIGN, JOURNAL_BLOCK_MAX);
	if (w->folder < 0)
		star_error_set(err, -errno, "journal.directory: %.300s cannot be opened: %s", w->directory,
			       strerror(errno));
	else if (!w->segments || !w->block)
		star_error_set(err, -ENOMEM, "out of memory");
	else if (begin_segment(w, w->record_at) < 0)
		*err = w->why;
	else if ((rc = pthread_create(&w->thread, NULL, writer_loop, w)) != 0)
		star_error_set(err, -rc, "cannot start the journal's thread: %s", strerror(rc));
	else
		w->threaded = true;
	if (w->threaded) {
		w->figures.segments = w->segments_count;
		return w;
	}
	journal_writer_destroy(w);
	return NULL;
}

void journal_writer_destroy(struct journal_writer *w)
{
	if (!w)
		return;
	__atomic_store_n(&w->stop, true, __ATOMIC_RELEASE);
	if (w->threaded)
		pthread_join(w->thread, NULL);
	if (w->fd >= 0)
		close(w->fd);
	if (w->folder >= 0)
		close(w->folder);
	pthread_mutex_destroy(&w->lock);
	free(w->segments);
	free(w->block);
	free(w);
}

void journal_writer_keep_from(struct journal_writer *w, uint64_t id)
{
	pthread_mutex_lock(&w->lock);
	w->keep_id = id;
	pthread_mutex_unlock(&w->lock);
}

void journal_writer_limit(struct journal_writer *w, uint64_t bytes)
{
	__atomic_store_n(&w->limit_bytes, bytes, __ATOMIC_RELAXED);
}

void journal_writer_watch_former(struct journal_writer *w, uint64_t bytes)
{
	__atomic_store_n(&w->former_bytes, bytes, __ATOMIC_RELEASE);
}

bool journal_writer_keeps_from(struct journal_writer *w, uint64_t id)
{
	bool kept;

	pthread_mutex_lock(&w->lock);
	kept = w->kept_id == id;
	pthread_mutex_unlock(&w->lock);
	return kept;
}

void journal_writer_figures(struct journal_writer *w, struct journal_figures *sum, struct star_error *why)
{
	const uint64_t at = journal_reader_at(w->ring, JOURNAL_DISK);
	bool failed;

	pthread_mutex_lock(&w->lock);
	sum->bytes += w->figures.bytes;
	sum->commits += w->figures.commits;
	sum->segments += w->figures.segments;
	if (w->figures.commit_max_us > sum->commit_max_us)
		sum->commit_max_us = w->figures.commit_max_us;
	failed = w->figures.failed;
	sum->failed |= failed;
	if (w->figures.failed && why)
		*why = w->why;
	pthread_mutex_unlock(&w->lock);
	/* A ring with another reader goes on. */
	if (!failed)
		sum->lag_bytes += __atomic_load_n(&w->ring->published, __ATOMIC_ACQUIRE) - at;
	sum->waits += __atomic_load_n(&w->ring->waits, __ATOMIC_RELAXED);
}

void journal_writer_fail(struct journal_writer *w, const struct star_error *why)
{
	set_failed(w, why);
}
