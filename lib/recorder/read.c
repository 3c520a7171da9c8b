/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the file, which is not trusted: anybody may have made it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "recorder/format.h"

/* What remains to be read. */
struct rest {
	const uint8_t *at;
	size_t bytes;
};

static const void *take_bytes(struct rest *rest, size_t bytes)
{
	const void *at = rest->at;

	if (bytes > rest->bytes)
		return NULL;
	rest->at += bytes;
	rest->bytes -= bytes;
	return at;
}

static const char *recorded_name(void *ctx, uint32_t id, uint64_t arrived_ns)
{
	const struct recorder_file *file = ctx;

	return id && id <= WIRE_OBJECTS_MAX && arrived_ns >= file->since_ns[id] ? file->names[id] : "";
}

/* It becomes JSON, which is UTF-8; control characters are removed when it is printed. */
static void make_ascii(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text >= 0x80)
			*text = '?';
}

static bool read_names(struct recorder_file *file, struct rest *rest, uint32_t objects)
{
	for (uint32_t i = 0; i < objects; i++) {
		struct recorder_name name;
		const void *at = take_bytes(rest, sizeof(name));

		if (!at)
			return false;
		memcpy(&name, at, sizeof(name));
		if (name.id == 0 || name.id > WIRE_OBJECTS_MAX)
			return false;
		memcpy(file->names[name.id], name.text, WIRE_NAME_MAX);
		file->since_ns[name.id] = name.since_ns;
		make_ascii(file->names[name.id]);
	}
	return true;
}

static bool read_reactor(struct recorder_file *file, struct rest *rest, unsigned reactor)
{
	struct recorder_reactor_head head;
	struct observe *o = calloc(1, sizeof(*o));
	const void *at = take_bytes(rest, sizeof(head)), *peers, *records;

	file->recorder.of[reactor] = o;
	if (!o || !at)
		return false;
	memcpy(&head, at, sizeof(head));
	peers = take_bytes(rest, sizeof(o->peers));
	if (!peers || head.count > OBSERVE_RECORDS || head.first > UINT64_MAX / 2)
		return false;
	records = take_bytes(rest, head.count * sizeof(o->records[0]));
	if (!records)
		return false;
	memcpy(o->peers, peers, sizeof(o->peers));
	/* From number 0 on, so that a reader takes all of them. */
	memcpy(o->records, records, head.count * sizeof(o->records[0]));
	for (uint64_t i = 0; i < head.count; i++)
		if (o->records[i].arrived_ns > INT64_MAX)
			return false;
	o->head = o->timed = o->filled = head.count;
	file->now[reactor] = head.now;
	return true;
}

static int refuse_file(const char *path, const char *why, struct star_error *err)
{
	return star_error_set(err, -EINVAL, "%s is not a valid record of a node's last requests: %s", path, why);
}

static int read_all(struct recorder_file *file, struct rest *rest, const char *path, struct star_error *err)
{
	struct recorder_head head;
	const void *at = take_bytes(rest, sizeof(head));

	if (!at)
		return refuse_file(path, "it is too short", err);
	memcpy(&head, at, sizeof(head));
	if (head.magic != RECORDER_MAGIC || head.record_bytes != sizeof(struct observe_record) ||
	    head.peer_bytes != sizeof(struct observe_peer) || head.peers != OBSERVE_PEERS)
		return refuse_file(path, "its header is wrong, or that of another version", err);
	if (head.reactors == 0 || head.reactors > WIRE_REACTORS_MAX || head.objects > WIRE_OBJECTS_MAX ||
	    head.written_ns > INT64_MAX)
		return refuse_file(path, "its numbers exceed their limits", err);
	memcpy(file->node, head.node, sizeof(file->node) - 1);
	make_ascii(file->node);
	file->incarnation = head.incarnation;
	file->signal = head.signal;
	file->stuck = head.stuck;
	file->written_s = head.written_s;
	file->recorder.now_ns = head.written_ns;
	if (!read_names(file, rest, head.objects))
		return refuse_file(path, "its names of tables are incomplete or wrong", err);
	for (unsigned i = 0; i < head.reactors; i++) {
		file->recorder.reactors = i + 1;
		if (!read_reactor(file, rest, i))
			return refuse_file(path, "it is incomplete, or its records are wrong", err);
	}
	return 0;
}

struct recorder_file *recorder_read(const uint8_t *bytes, size_t n, const char *path, struct star_error *err)
{
	struct recorder_file *file = calloc(1, sizeof(*file));
	struct rest rest = { bytes, n };
	int rc = 0;

	if (file)
		file->names = calloc(WIRE_OBJECTS_MAX + 1, sizeof(*file->names));
	if (!file || !file->names) {
		star_error_set(err, -ENOMEM, "out of memory for the contents of %s", path);
		recorder_close(file);
		return NULL;
	}
	file->recorder.name = recorded_name;
	file->recorder.ctx = file;
	rc = read_all(file, &rest, path, err);
	if (rc == 0)
		return file;
	recorder_close(file);
	return NULL;
}

struct recorder_file *recorder_open(const char *path, struct star_error *err)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct recorder_file *file = NULL;
	uint8_t *bytes = NULL;
	struct stat stat;
	ssize_t n;

	if (fd < 0 || fstat(fd, &stat) < 0) {
		star_error_set(err, -errno, "%s cannot be read: %s", path, strerror(errno));
	} else if (!S_ISREG(stat.st_mode) || stat.st_size > RECORDER_FILE_MAX) {
		refuse_file(path, "it is not a regular file, or too large", err);
	} else {
		bytes = malloc((size_t)stat.st_size + 1);
		n = bytes ? base_read_all(fd, bytes, (size_t)stat.st_size) : -ENOMEM;
		if (n >= 0)
			file = recorder_read(bytes, (size_t)n, path, err);
		else
			star_error_set(err, (int)n, "%s cannot be read: %s", path, strerrordesc_np((int)-n));
	}
	free(bytes);
	if (fd >= 0)
		close(fd);
	return file;
}

void recorder_close(struct recorder_file *file)
{
	if (!file)
		return;
	for (unsigned i = 0; i < file->recorder.reactors; i++)
		free((struct observe *)(uintptr_t)file->recorder.of[i]);
	free(file->names);
	free(file);
}
