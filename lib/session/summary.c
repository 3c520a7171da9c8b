/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The formats: TensorFlow's tensorflow/core/lib/io/record_writer.h (a record: length, its masked CRC, data, its masked CRC),
 * tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto (the fields' numbers below).
 */
#include "session/summary.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "session/crc32c.h"

enum { TAG_MAX = 127, RECORD_MAX = SUMMARY_SCALARS_MAX * (TAG_MAX + 16) + 64, PATH_BYTES = 4096 };

struct summary {
	FILE *events, *lines;
	char events_path[PATH_BYTES], lines_path[PATH_BYTES];
};

/* A protocol buffer that is being written. */
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

static int write_record(struct summary *s, const struct message *m)
{
	const uint64_t length = m->used;
	const uint32_t length_crc = crc32c_masked(&length, sizeof(length)), data_crc = crc32c_masked(m->bytes, m->used);

	if (fwrite(&length, sizeof(length), 1, s->events) != 1 ||
	    fwrite(&length_crc, sizeof(length_crc), 1, s->events) != 1 ||
	    fwrite(m->bytes, 1, m->used, s->events) != m->used ||
	    fwrite(&data_crc, sizeof(data_crc), 1, s->events) != 1 || fflush(s->events) != 0)
		return errno ? -errno : -EIO;
	return 0;
}

static int write_line(struct summary *s, uint64_t step, const struct summary_scalar *scalars, unsigned count)
{
	fprintf(s->lines, "{\"step\": %llu", (unsigned long long)step);
	for (unsigned i = 0; i < count; i++) {
		fprintf(s->lines, ", \"");
		for (const char *c = scalars[i].tag; *c; c++)
			fprintf(s->lines, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
		fprintf(s->lines, isfinite(scalars[i].value) ? "\": %.9g" : "\": null", scalars[i].value);
	}
	fprintf(s->lines, "}\n");
	return fflush(s->lines) == 0 && !ferror(s->lines) ? 0 : errno ? -errno : -EIO;
}

static int check(const struct summary_scalar *scalars, unsigned count, struct star_error *err)
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
			if ((unsigned char)*c < 0x20 || *c == 0x7f)
				return star_error_set(err, -EINVAL, "a summary's tag has no control characters");
	}
	return 0;
}

int summary_write(struct summary *s, uint64_t step, const struct summary_scalar *scalars, unsigned count,
		  struct star_error *err)
{
	struct message event = { .used = 0 }, values = { .used = 0 }, value;
	int status = check(scalars, count, err);

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
	errno = 0;
	status = write_record(s, &event);
	if (status < 0)
		return star_error_set(err, status, "cannot write %s: %s", s->events_path, strerror(-status));
	errno = 0;
	status = write_line(s, step, scalars, count);
	if (status < 0)
		return star_error_set(err, status, "cannot write %s: %s", s->lines_path, strerror(-status));
	return 0;
}

/* The first record says which version the others are of. */
static int write_version(struct summary *s)
{
	static const char version[] = "brain.Event:2";
	struct message event = { .used = 0 };

	put_now(&event);
	put_bytes(&event, 3, version, sizeof(version) - 1); /* Event.file_version */
	return write_record(s, &event);
}

static int open_files(struct summary *s, const char *directory, struct star_error *err)
{
	char host[65] = "host";
	int status;

	if (mkdir(directory, 0777) < 0 && errno != EEXIST)
		return star_error_set(err, -errno, "cannot make the directory %s: %s", directory, strerror(errno));
	gethostname(host, sizeof(host) - 1);
	if (snprintf(s->events_path, PATH_BYTES, "%s/events.out.tfevents.%lld.%s.%d", directory, (long long)time(NULL),
		     host, (int)getpid()) >= PATH_BYTES)
		return star_error_set(err, -ENAMETOOLONG, "the path %.100s... is too long", directory);
	snprintf(s->lines_path, PATH_BYTES, "%s/summaries.jsonl", directory);
	s->events = fopen(s->events_path, "ae");
	if (!s->events)
		return star_error_set(err, -errno, "cannot write %s: %s", s->events_path, strerror(errno));
	s->lines = fopen(s->lines_path, "ae");
	if (!s->lines)
		return star_error_set(err, -errno, "cannot write %s: %s", s->lines_path, strerror(errno));
	errno = 0;
	status = write_version(s);
	if (status < 0)
		return star_error_set(err, status, "cannot write %s: %s", s->events_path, strerror(-status));
	return 0;
}

struct summary *summary_create(const char *directory, struct star_error *err)
{
	struct summary *s = calloc(1, sizeof(*s));

	if (!s) {
		star_error_set(err, -ENOMEM, "no memory for summaries");
		return NULL;
	}
	if (open_files(s, directory, err) < 0) {
		summary_destroy(s);
		return NULL;
	}
	return s;
}

void summary_destroy(struct summary *s)
{
	if (!s)
		return;
	if (s->events)
		fclose(s->events);
	if (s->lines)
		fclose(s->lines);
	free(s);
}
