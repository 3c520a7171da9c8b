/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the file; also used in a signal handler. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "recorder/format.h"

/* Records before the newest that the reactor may be writing. */
enum { IN_WORK = 2 * OBSERVE_TURN_MAX };

static uint64_t clock_now(clockid_t id, uint64_t *seconds)
{
	struct timespec now = { 0 };

	clock_gettime(id, &now);
	if (seconds)
		*seconds = (uint64_t)now.tv_sec;
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static int write_head(int fd, const struct recorder_dump *dump)
{
	struct recorder_head head = {
		.magic = RECORDER_MAGIC,
		.written_ns = clock_now(CLOCK_MONOTONIC, NULL),
		.reactors = dump->reactors,
		.objects = 0,
		.incarnation = dump->incarnation,
		.signal = dump->signal,
		.stuck = dump->stuck,
		.record_bytes = sizeof(struct observe_record),
		.peer_bytes = sizeof(struct observe_peer),
		.peers = OBSERVE_PEERS,
	};

	clock_now(CLOCK_REALTIME, &head.written_s);
	memcpy(head.node, dump->node, sizeof(head.node));
	for (unsigned id = 1; id <= dump->objects; id++)
		head.objects += dump->names[id] != NULL;
	return base_write_all(fd, &head, sizeof(head));
}

static int write_names(int fd, const struct recorder_dump *dump)
{
	int rc = 0;

	for (unsigned id = 1; rc == 0 && id <= dump->objects; id++) {
		struct recorder_name name = { .since_ns = dump->since_ns[id], .id = id };

		if (!dump->names[id])
			continue;
		for (unsigned i = 0; i < WIRE_NAME_MAX && dump->names[id][i]; i++)
			name.text[i] = dump->names[id][i];
		rc = base_write_all(fd, &name, sizeof(name));
	}
	return rc;
}

/* Writes the records from one number up to another; they may wrap around in the ring. */
static int write_ring(int fd, const struct observe_record *ring, size_t places, uint64_t from, uint64_t end)
{
	const size_t count = (size_t)(end - from), at = (size_t)(from % places);
	const size_t first = count < places - at ? count : places - at;
	const int rc = base_write_all(fd, &ring[at], first * sizeof(ring[0]));

	return rc < 0 ? rc : base_write_all(fd, ring, (count - first) * sizeof(ring[0]));
}

/* From *at on, writes the records before `end` that are in the long ring already. */
static int write_counted(int fd, const struct observe *o, uint64_t *at, uint64_t end)
{
	const uint64_t head = __atomic_load_n(&o->head, __ATOMIC_ACQUIRE), from = *at;
	const uint64_t to = head < end ? head : end;

	if (to <= from)
		return 0;
	*at = to;
	return write_ring(fd, o->records, OBSERVE_RECORDS, from, to);
}

/* Writes the newest records: those with times, which may not be counted in the histograms yet. */
static int write_reactor(int fd, const struct recorder_dump *dump, unsigned reactor)
{
	const struct observe *o = dump->of[reactor];
	const uint64_t most = RECORDER_RECORDS_BYTES / sizeof(struct observe_record) / dump->reactors;
	const uint64_t end = __atomic_load_n(&o->timed, __ATOMIC_ACQUIRE);
	const uint64_t room = most < OBSERVE_RECORDS - IN_WORK ? most : OBSERVE_RECORDS - IN_WORK;
	const uint64_t from = end - (end < room ? end : room);
	const struct recorder_reactor_head about = { .now = dump->now[reactor], .first = from, .count = end - from };
	uint64_t at = from;
	int rc = base_write_all(fd, &about, sizeof(about));

	if (rc == 0)
		rc = base_write_all(fd, o->peers, sizeof(o->peers));
	/* The counted ones, twice: a running reactor counts the others meanwhile, and reuses their ring. Their number
	 * is read after the end, so that no more are left than fit into that ring. */
	for (unsigned i = 0; rc == 0 && i < 2; i++)
		rc = write_counted(fd, o, &at, end);
	if (rc == 0)
		rc = write_ring(fd, o->recent, OBSERVE_RECENT, at, end);
	return rc;
}

/* Renames the previous file. */
static void move_old(const char *path)
{
	char old[RECORDER_PATH_MAX + 2];
	size_t n = strnlen(path, RECORDER_PATH_MAX - 1);

	memcpy(old, path, n);
	memcpy(old + n, ".1", 3);
	rename(path, old);
}

int recorder_write(const struct recorder_dump *dump)
{
	int fd, rc;

	if (!dump->path[0])
		return -ENOENT;
	move_old(dump->path);
	fd = open(dump->path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	rc = write_head(fd, dump);
	if (rc == 0)
		rc = write_names(fd, dump);
	for (unsigned i = 0; rc == 0 && i < dump->reactors; i++)
		rc = write_reactor(fd, dump, i);
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	return rc;
}
