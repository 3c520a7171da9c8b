/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The formats: TensorFlow's tensorflow/core/lib/io/record_writer.h (a record: length, its masked CRC, data, its masked
 * CRC), tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto (the fields' numbers below).
 */
#include "train/summary.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "train/crc32c.h"

enum {
	TAG_MAX = 127,
	RECORD_MAX = SUMMARY_SCALARS_MAX * (TAG_MAX + 16) + 64,
	FRAME_BYTES = 16, /* of a record: its length and two CRCs */
	LINE_MAX_BYTES = SUMMARY_SCALARS_MAX * (2 * TAG_MAX + 32) + 64,
	PATH_BYTES = 4096,
};

/* Whole records are written, without a buffer. */
struct output {
	int fd; /* -1: not open */
	char path[PATH_BYTES];
};

struct summary {
	struct output events, lines;
	char directory[PATH_BYTES];
};

/* A protocol buffer message that is being written. */
struct message {
	uint8_t bytes[RECORD_MAX];
	size_t used;
};

enum wire_type { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_varint(struct message *m, uint64_t value)
{
	for (; value > 0x7f; value >>= 7)
		m->bytes[m->used++] = (uint8_t)(value | 0x80);
	m->bytes[m->used++] = (uint8_t)value;
}

static void put_key(struct message *m, unsigned field, enum wire_type type)
{
	put_varint(m, field << 3 | type);
}

static void put_raw(struct message *m, const void *data, size_t bytes)
{
	memcpy(m->bytes + m->used, data, bytes);
	m->used += bytes;
}

static void put_bytes(struct message *m, unsigned field, const void *data, size_t bytes)
{
	put_key(m, field, BYTES);
	put_varint(m, bytes);
	put_raw(m, data, bytes);
}

/* Event.wall_time */
static void put_now(struct message *m)
{
	struct timespec now;
	double seconds;

	clock_gettime(CLOCK_REALTIME, &now);
	seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
	put_key(m, 1, FIXED64);
	put_raw(m, &seconds, sizeof(seconds));
}

/* Summary.Value: tag and simple_value */
static void put_scalar(struct message *m, const struct summary_scalar *scalar)
{
	const float value = (float)scalar->value;

	put_bytes(m, 1, scalar->tag, strlen(scalar->tag));
	put_key(m, 2, FIXED32);
	put_raw(m, &value, sizeof(value));
}

static int write_record(const struct summary *s, const struct message *m)
{
	uint8_t record[RECORD_MAX + FRAME_BYTES];
	const uint64_t length = m->used;
	const uint32_t length_crc = crc32c_masked(&length, sizeof(length)), data_crc = crc32c_masked(m->bytes, m->used);

	memcpy(record, &length, sizeof(length));
	memcpy(record + 8, &length_crc, sizeof(length_crc));
	memcpy(record + 12, m->bytes, m->used);
	memcpy(record + 12 + m->used, &data_crc, sizeof(data_crc));
	/* A reader stops at an incomplete record, and would never see the records after it, once a full disk has room
	 * again. */
	return base_append_all(s->events.fd, record, m->used + FRAME_BYTES, NULL);
}

static int write_line(const struct summary *s, uint64_t step, const struct summary_scalar *scalars, unsigned count)
{
	char line[LINE_MAX_BYTES];
	size_t at = (size_t)snprintf(line, sizeof(line), "{\"step\": %llu", (unsigned long long)step);

	for (unsigned i = 0; i < count; i++) {
		at += (size_t)snprintf(line + at, sizeof(line) - at, ", \"");
		for (const char *c = scalars[i].tag; *c; c++) {
			if (*c == '"' || *c == '\\')
				line[at++] = '\\';
			line[at++] = *c;
		}
		at += (size_t)snprintf(line + at, sizeof(line) - at,
				       isfinite(scalars[i].value) ? "\": %.9g" : "\": null", scalars[i].value);
	}
	at += (size_t)snprintf(line + at, sizeof(line) - at, "}\n");
	return base_append_all(s->lines.fd, line, at, NULL);
}

static int check_scalars(const struct summary_scalar *scalars, unsigned count, struct star_error *err)
{
	if (count == 0 || count > SUMMARY_SCALARS_MAX)
		return star_error_set(err, -EINVAL, "a summary has 1 to %d scalars, not %u", SUMMARY_SCALARS_MAX,
				      count);
	for (unsigned i = 0; i < count; i++) {
		const size_t bytes = strlen(scalars[i].tag);

		if (bytes == 0 || bytes > TAG_MAX)
			return star_error_set(err, -EINVAL, "a summary's tag has 1 to %d bytes, not %zu", TAG_MAX,
					      bytes);
		for (const char *c = scalars[i].tag; *c; c++)
			if (base_is_control(*c))
				return star_error_set(err, -EINVAL, "a summary's tag has no control characters");
	}
	return 0;
}

static int cannot_write(const struct output *out, int status, struct star_error *err)
{
	return star_error_set(err, status, "cannot write %s: %s", out->path, strerror(-status));
}

static int open_output(struct output *out, struct star_error *err)
{
	out->fd = open(out->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	return out->fd < 0 ? cannot_write(out, -errno, err) : 0;
}

static void close_output(struct output *out)
{
	if (out->fd >= 0)
		close(out->fd);
	out->fd = -1;
}

/* The first record has the version of the others. */
static int write_version(const struct summary *s)
{
	static const char version[] = "brain.Event:2";
	struct message event = { .used = 0 };

	put_now(&event);
	put_bytes(&event, 3, version, sizeof(version) - 1); /* Event.file_version */
	return write_record(s, &event);
}

static int open_files(struct summary *s, struct star_error *err)
{
	char host[65] = "host";
	int status;

	if (mkdir(s->directory, 0777) < 0 && errno != EEXIST)
		return star_error_set(err, -errno, "cannot make the directory %s: %s", s->directory, strerror(errno));
	gethostname(host, sizeof(host) - 1);
	if (snprintf(s->events.path, PATH_BYTES, "%s/events.out.tfevents.%lld.%s.%d", s->directory,
		     (long long)time(NULL), host, (int)getpid()) >= PATH_BYTES ||
	    snprintf(s->lines.path, PATH_BYTES, "%s/summaries.jsonl", s->directory) >= PATH_BYTES)
		return star_error_set(err, -ENAMETOOLONG, "the path %.100s... is too long", s->directory);
	if (open_output(&s->events, err) < 0 || open_output(&s->lines, err) < 0)
		return err->code;
	status = write_version(s);
	return status < 0 ? cannot_write(&s->events, status, err) : 0;
}

static void close_files(struct summary *s)
{
	close_output(&s->events);
	close_output(&s->lines);
}

/* If files were removed while they are written, they are created again; otherwise nothing more would be seen. */
static int keep_files(struct summary *s, struct star_error *err)
{
	const struct output *const all[] = { &s->events, &s->lines };
	bool there = true;

	for (unsigned i = 0; i < 2; i++) {
		struct stat now;

		there = there && all[i]->fd >= 0 && fstat(all[i]->fd, &now) == 0 && now.st_nlink > 0;
	}
	if (there)
		return 0;
	close_files(s);
	if (open_files(s, err) == 0)
		return 0;
	close_files(s);
	return err->code;
}

int summary_write(struct summary *s, uint64_t step, const struct summary_scalar *scalars, unsigned count,
		  struct star_error *err)
{
	struct message event = { .used = 0 }, values = { .used = 0 }, value;
	struct star_error ignored;
	int status;

	err = err ? err : &ignored;
	status = check_scalars(scalars, count, err);
	if (status == 0)
		status = keep_files(s, err);
	if (status < 0)
		return status;
	for (unsigned i = 0; i < count; i++) {
		value.used = 0;
		put_scalar(&value, &scalars[i]);
		put_bytes(&values, 1, value.bytes, value.used); /* Summary.value */
	}
	put_now(&event);
	put_key(&event, 2, VARINT); /* Event.step */
	put_varint(&event, step);
	put_bytes(&event, 5, values.bytes, values.used); /* Event.summary */
	status = write_record(s, &event);
	if (status < 0)
		return cannot_write(&s->events, status, err);
	status = write_line(s, step, scalars, count);
	return status < 0 ? cannot_write(&s->lines, status, err) : 0;
}

struct summary *summary_create(const char *directory, struct star_error *err)
{
	struct summary *s = calloc(1, sizeof(*s));
	struct star_error ignored;
	int rc;

	err = err ? err : &ignored;
	if (!s) {
		star_error_set(err, -ENOMEM, "out of memory for summaries");
		return NULL;
	}
	s->events.fd = s->lines.fd = -1;
	if (snprintf(s->directory, PATH_BYTES, "%s", directory) < PATH_BYTES)
		rc = open_files(s, err);
	else
		rc = star_error_set(err, -ENAMETOOLONG, "the path %.100s... is too long", directory);
	if (rc == 0)
		return s;
	summary_destroy(s);
	return NULL;
}

uint64_t summary_last_step(const char *directory)
{
	char path[PATH_BYTES], end[2 * LINE_MAX_BYTES + 1];
	unsigned long long step, last = 0;
	ssize_t n;
	int fd;

	if (snprintf(path, sizeof(path), "%s/summaries.jsonl", directory) >= PATH_BYTES)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	(void)lseek(fd, -(off_t)(sizeof(end) - 1), SEEK_END); /* a shorter file is read from its beginning */
	n = base_read_all(fd, end, sizeof(end) - 1);
	close(fd);
	end[n > 0 ? n : 0] = 0;
	for (const char *line = end; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "{\"step\": %llu", &step) == 1)
			last = step;
	}
	return last;
}

void summary_destroy(struct summary *s)
{
	if (s)
		close_files(s);
	free(s);
}
