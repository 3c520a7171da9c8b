/* SPDX-License-Identifier: BSD-3-Clause */
#include "input/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { PACKED_BYTES = 128 << 10, GZIP_WINDOW = 15 + 16, MAGIC_BYTES = 4 };

static const char *kind_name(const struct source *s)
{
	return s->kind == SOURCE_GZIP ? "gzip" : "zstd";
}

/* The offset in the file, from 0, up to which it was decompressed. */
static uint64_t offset(const struct source *s)
{
	return s->read - (s->end - s->begin);
}

static int source_no_memory(struct star_error *err)
{
	return star_error_set(err, -ENOMEM, "not enough memory to decompress it");
}

static ssize_t read_some(int fd, void *to, size_t bytes)
{
	ssize_t n;

	do
		n = read(fd, to, bytes);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Moves the rest of the buffer to its beginning, and reads more compressed bytes after it. */
static int fill_buffer(struct source *s, struct star_error *err)
{
	ssize_t n;

	memmove(s->packed, s->packed + s->begin, s->end - s->begin);
	s->end -= s->begin;
	s->begin = 0;
	n = read_some(s->fd, s->packed + s->end, PACKED_BYTES - s->end);
	if (n < 0)
		return star_error_set(err, (int)n, "%s", strerror((int)-n));
	s->ended = n == 0;
	s->end += (size_t)n;
	s->read += (uint64_t)n;
	return 0;
}

static int begin_unpacking(struct source *s, struct star_error *err)
{
	z_stream *gzip;

	if (s->kind == SOURCE_ZSTD) {
		s->state = ZSTD_createDStream();
		if (!s->state ||
		    ZSTD_isError(ZSTD_DCtx_setParameter(s->state, ZSTD_d_windowLogMax, SOURCE_WINDOW_LOG_MAX)))
			return source_no_memory(err);
		return 0;
	}
	gzip = calloc(1, sizeof(*gzip));
	if (!gzip || inflateInit2(gzip, GZIP_WINDOW) != Z_OK) {
		free(gzip);
		return source_no_memory(err);
	}
	s->state = gzip;
	return 0;
}

/* zstd's magic number, or that of a skippable frame. */
static bool is_zstd(const uint8_t *magic)
{
	static const uint8_t frame[] = { 0x28, 0xb5, 0x2f, 0xfd }, skipped[] = { 0x2a, 0x4d, 0x18 };

	return memcmp(magic, frame, sizeof(frame)) == 0 ||
	       (magic[0] >> 4 == 5 && memcmp(magic + 1, skipped, sizeof(skipped)) == 0);
}

int input_source_open_fd(struct source *s, int fd, struct star_error *err)
{
	int rc = 0;

	*s = (struct source){ .fd = fd, .packed = malloc(PACKED_BYTES) };
	if (!s->packed)
		rc = source_no_memory(err);
	while (rc == 0 && !s->ended && s->end < MAGIC_BYTES)
		rc = fill_buffer(s, err);
	if (rc == 0 && s->end >= 2 && s->packed[0] == 0x1f && s->packed[1] == 0x8b)
		s->kind = SOURCE_GZIP;
	else if (rc == 0 && s->end >= MAGIC_BYTES && is_zstd(s->packed))
		s->kind = SOURCE_ZSTD;
	if (rc == 0 && s->kind != SOURCE_PLAIN)
		rc = begin_unpacking(s, err);
	if (rc < 0)
		input_source_close(s);
	return rc;
}

int input_source_open(struct source *s, const char *path, struct star_error *err)
{
	const int fd =
		strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);

	*s = (struct source){ .fd = -1 };
	return fd < 0 ? star_error_set(err, -errno, "%s", strerror(errno)) : input_source_open_fd(s, fd, err);
}

int input_source_seek(struct source *s, uint64_t offset, struct star_error *err)
{
	if (lseek(s->fd, (off_t)offset, SEEK_SET) < 0)
		return star_error_set(err, -errno, "%s", strerror(errno));
	s->begin = s->end = 0;
	s->ended = false;
	s->read = offset;
	return 0;
}

void input_source_close(struct source *s)
{
	if (s->fd >= 0)
		close(s->fd);
	if (s->kind == SOURCE_ZSTD)
		ZSTD_freeDStream(s->state);
	else if (s->kind == SOURCE_GZIP && s->state)
		inflateEnd(s->state);
	if (s->kind == SOURCE_GZIP)
		free(s->state);
	free(s->packed);
	*s = (struct source){ .fd = -1 };
}

static int64_t read_plain(struct source *s, void *to, size_t bytes, struct star_error *err)
{
	const size_t n = s->end - s->begin < bytes ? s->end - s->begin : bytes;
	ssize_t more;

	if (n) { /* the bytes that were read to find the format */
		memcpy(to, s->packed + s->begin, n);
		s->begin += n;
		return (int64_t)n;
	}
	more = s->ended ? 0 : read_some(s->fd, to, bytes);
	if (more < 0)
		return star_error_set(err, (int)more, "%s", strerror((int)-more));
	s->ended = more == 0;
	s->read += (uint64_t)more;
	return more;
}

static int damaged(const struct source *s, const char *why, struct star_error *err)
{
	return star_error_set(err, -EBADMSG, "its %s stream is damaged at byte %" PRIu64 ": %s", kind_name(s),
			      offset(s), why);
}

/* Decompresses some of the buffer; returns the number of bytes, perhaps 0, or an error. */
static int64_t inflate_some(struct source *s, void *to, size_t bytes, struct star_error *err)
{
	z_stream *gzip = s->state;
	int rc;

	if (!s->inside && inflateReset(gzip) != Z_OK)
		return source_no_memory(err);
	s->inside = true;
	gzip->next_in = s->packed + s->begin;
	gzip->avail_in = (uInt)(s->end - s->begin);
	gzip->next_out = to;
	gzip->avail_out = (uInt)bytes;
	rc = inflate(gzip, Z_NO_FLUSH);
	s->begin = s->end - gzip->avail_in;
	s->inside = rc != Z_STREAM_END;
	if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
		return rc == Z_MEM_ERROR
			       ? source_no_memory(err)
			       : damaged(s,
					 gzip->msg ? gzip->msg
						   : "it was compressed with a dictionary, which is not supported",
					 err);
	return (int64_t)(bytes - gzip->avail_out);
}

static int64_t zstd_some(struct source *s, void *to, size_t bytes, struct star_error *err)
{
	ZSTD_inBuffer in = { s->packed, s->end, s->begin };
	ZSTD_outBuffer out = { to, bytes, 0 };
	const size_t rc = ZSTD_decompressStream(s->state, &out, &in);

	s->begin = in.pos;
	s->inside = rc != 0;
	return ZSTD_isError(rc) ? damaged(s, ZSTD_getErrorName(rc), err) : (int64_t)out.pos;
}

/* Like gzip itself, ignores zeros after a stream, which tapes produce. */
static void skip_zeros(struct source *s)
{
	while (s->kind == SOURCE_GZIP && !s->inside && s->unpacked && s->begin < s->end && !s->packed[s->begin])
		s->begin++;
}

static int check_ratio(const struct source *s, struct star_error *err)
{
	if (s->unpacked <= SOURCE_UNPACKED_FREE || s->unpacked / SOURCE_RATIO_MAX <= s->read)
		return 0;
	return star_error_set(err, -EFBIG,
			      "its first %" PRIu64 " bytes grow more than %d times when decompressed, which is unusual "
			      "for examples; if they are right, decompress the file first",
			      offset(s), SOURCE_RATIO_MAX);
}

int64_t input_source_read(struct source *s, void *to, size_t bytes, struct star_error *err)
{
	int64_t n = 0;

	if (s->kind == SOURCE_PLAIN)
		return read_plain(s, to, bytes, err);
	while (n == 0) {
		size_t before;

		if (s->begin == s->end && !s->ended && fill_buffer(s, err) < 0)
			return err->code;
		skip_zeros(s);
		before = s->begin;
		if (s->begin == s->end && !s->inside && s->ended)
			return 0;
		if (s->begin == s->end && !s->inside)
			continue;
		n = s->kind == SOURCE_GZIP ? inflate_some(s, to, bytes, err) : zstd_some(s, to, bytes, err);
		if (n == 0 && s->inside && s->begin == before && s->ended)
			return star_error_set(err, -EBADMSG,
					      "it ends at byte %" PRIu64
					      " in the middle of a %s stream: it was cut off",
					      offset(s), kind_name(s));
		if (n == 0 && s->inside && s->begin == before && s->begin < s->end && fill_buffer(s, err) < 0)
			return err->code;
	}
	if (n < 0)
		return n;
	s->unpacked += (uint64_t)n;
	return check_ratio(s, err) < 0 ? err->code : n;
}
