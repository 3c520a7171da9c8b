/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "jsonrpc/member.h"
#include "jsonrpc/thread.h"

struct queued {
	struct audit_event event;
	struct timespec time;
	uint64_t failures; /* counted so far, including this one; 0: it is not a failure */
};

struct audit {
	const char *path;
	pthread_t thread;
	/* used by the thread only */
	int fd;
	uint64_t number; /* of the next line */
	char previous[AUDIT_HASH_TEXT];
	uint64_t cut; /* bytes of an incomplete line that were removed, to be reported */
	bool failing;
	struct queued taken;  /* the event that is being written */
	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t wake;
	bool stopping;
	uint64_t head, tail; /* of queue: the next event to write, and the next free entry */
	uint64_t lost;	     /* since the last line that reported them */
	struct audit_counts counts;
	struct queued queue[AUDIT_QUEUE_MAX];
};

static int cannot(int code, const char *what, const char *path, struct star_error *err)
{
	return star_error_set(err, code, "cannot %s the audit log %.200s: %s", what, path, strerrordesc_np(-code));
}

static int open_audit(const char *path, struct star_error *err)
{
	struct stat file;
	int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY, 0600);

	if (fd < 0)
		return cannot(-errno, "open", path, err);
	if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode))
		return fd;
	close(fd);
	return star_error_set(err, -EINVAL, "the audit log %.200s is not a regular file", path);
}

/* Reads the end of the file, which has the last complete line; anything after that belongs to an incomplete one. */
static int read_end(struct audit *audit, struct star_error *err)
{
	char text[2 * AUDIT_LINE_MAX];
	struct audit_check check = { 0 };
	const char *line = text, *end;
	struct stat file;
	off_t from;
	ssize_t n;

	if (fstat(audit->fd, &file) < 0)
		return cannot(-errno, "look at", audit->path, err);
	from = file.st_size > (off_t)sizeof(text) ? file.st_size - (off_t)sizeof(text) : 0;
	n = base_read_at(audit->fd, text, sizeof(text), (uint64_t)from);
	if (n < 0)
		return cannot((int)n, "read", audit->path, err);
	end = n ? memrchr(text, '\n', (size_t)n) : NULL;
	audit->cut = (uint64_t)n - (end ? (uint64_t)(end - text) + 1 : 0);
	if (audit->cut >= AUDIT_LINE_MAX || (!end && from))
		return star_error_set(err, -EINVAL, "%.200s is not an audit log: its last line is too long",
				      audit->path);
	if (audit->cut && ftruncate(audit->fd, file.st_size - (off_t)audit->cut) < 0)
		return cannot(-errno, "repair", audit->path, err);
	if (!end)
		return 0;
	line = end == text ? NULL : memrchr(text, '\n', (size_t)(end - text));
	line = line ? line + 1 : text;
	if (control_audit_verify_line(line, (size_t)(end - line), audit->path, 0, &check, NULL) < 0)
		return star_error_set(
			err, -EINVAL,
			"%.200s is not an audit log: its last line has another format; name another file, or move it "
			"away",
			audit->path);
	audit->number = check.last + 1;
	strcpy(audit->previous, check.ends);
	return 0;
}

/* If logrotate has moved the file away, the chain continues in a new one. */
static int follow_path(struct audit *audit)
{
	struct stat here, there;
	int fd;

	if (fstat(audit->fd, &here) == 0 && stat(audit->path, &there) == 0 && here.st_ino == there.st_ino &&
	    here.st_dev == there.st_dev)
		return 0;
	fd = open_audit(audit->path, NULL);
	if (fd < 0)
		return fd;
	close(audit->fd);
	audit->fd = fd;
	return 0;
}

static void put_text(json_t *json, const char *name, const char *text)
{
	if (text[0])
		json_object_set_new(json, name, jsonrpc_member_from_text(text));
}

static json_t *line_json(struct audit *audit, const struct queued *q, uint64_t lost)
{
	const struct audit_event *e = &q->event;
	json_t *json = json_pack("{s:I}", "n", (json_int_t)audit->number);
	char date[40], full[64];
	struct tm day;

	gmtime_r(&q->time.tv_sec, &day);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &day);
	snprintf(full, sizeof(full), "%s.%06ldZ", date, q->time.tv_nsec / 1000);
	put_text(json, "time", full);
	put_text(json, "principal", e->principal);
	put_text(json, "role", e->role);
	put_text(json, "from", e->from);
	put_text(json, "method", e->method);
	put_text(json, "outcome", e->code ? "refused" : "done");
	if (e->code) {
		json_object_set_new(json, "code", json_integer(e->code));
		put_text(json, "reason", e->text);
		json_object_set_new(json, "failures", json_integer((json_int_t)q->failures));
	}
	if (lost)
		json_object_set_new(json, "lost", json_integer((json_int_t)lost));
	if (audit->cut)
		json_object_set_new(json, "cut", json_integer((json_int_t)audit->cut));
	put_text(json, "previous", audit->previous);
	return json;
}

static int write_line(struct audit *audit, const char *line, size_t bytes)
{
	bool torn;
	const int rc = base_append_all(audit->fd, line, bytes, &torn);

	if (torn)
		log_error("the audit log %s has an incomplete line: %s", audit->path, strerrordesc_np(-rc));
	return rc;
}

static int write_event(struct audit *audit, const struct queued *q, uint64_t lost)
{
	char line[AUDIT_LINE_MAX];
	json_t *json = line_json(audit, q, lost);
	const size_t bytes = json ? json_dumpb(json, line, sizeof(line) - 1, JSON_COMPACT) : 0;
	int rc = follow_path(audit);

	json_decref(json);
	if (bytes == 0 || bytes >= sizeof(line) - 1)
		return -EMSGSIZE;
	line[bytes] = '\n';
	if (rc == 0)
		rc = write_line(audit, line, bytes + 1);
	if (rc < 0)
		return rc;
	control_audit_hash(line, bytes, audit->previous);
	audit->number++;
	audit->cut = 0;
	return 0;
}

/* Reports once that the disk refuses writes, and once that it accepts them again. */
static void report_audit_disk(struct audit *audit, int rc)
{
	if (rc < 0 && !audit->failing)
		log_error("the audit log %s cannot be written, and events are lost: %s", audit->path,
			  strerrordesc_np(-rc));
	else if (rc == 0 && audit->failing)
		log_info("the audit log %s is written again", audit->path);
	audit->failing = rc < 0;
}

/* Takes the next event of the queue or, if that is empty, the number of lost ones. */
static void take_next(struct audit *audit)
{
	if (audit->head != audit->tail) {
		audit->taken = audit->queue[audit->head++ % AUDIT_QUEUE_MAX];
		return;
	}
	audit->taken = (struct queued){ .event.method = "audit" };
	clock_gettime(CLOCK_REALTIME, &audit->taken.time);
}

/* With the lock, which is released meanwhile. */
static void write_next(struct audit *audit)
{
	const bool event = audit->head != audit->tail;
	const uint64_t lost = audit->lost;
	int rc;

	take_next(audit);
	pthread_mutex_unlock(&audit->lock);
	rc = write_event(audit, &audit->taken, lost);
	report_audit_disk(audit, rc);
	pthread_mutex_lock(&audit->lock);
	if (rc == 0) {
		audit->lost -= lost;
	} else if (event) {
		audit->lost++;
		audit->counts.lost++;
	}
}

static void *audit_loop(void *arg)
{
	struct audit *audit = arg;

	pthread_mutex_lock(&audit->lock);
	for (;;) {
		if (audit->head != audit->tail || (audit->lost && !audit->failing)) {
			write_next(audit);
			if (!audit->failing && audit->head == audit->tail) {
				pthread_mutex_unlock(&audit->lock);
				(void)fdatasync(audit->fd);
				pthread_mutex_lock(&audit->lock);
			}
		} else if (audit->stopping) {
			break;
		} else {
			pthread_cond_wait(&audit->wake, &audit->lock);
		}
	}
	pthread_mutex_unlock(&audit->lock);
	return NULL;
}

struct audit *control_audit_open(const char *path, struct star_error *err)
{
	struct audit *audit = calloc(1, sizeof(*audit));

	if (!audit) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	audit->path = path;
	memset(audit->previous, '0', sizeof(audit->previous) - 1);
	audit->fd = open_audit(path, err);
	if (audit->fd < 0 || read_end(audit, err) < 0)
		goto fail;
	pthread_mutex_init(&audit->lock, NULL);
	pthread_cond_init(&audit->wake, NULL);
	if (jsonrpc_thread_start(&audit->thread, "control-audit", audit_loop, audit, err) == 0)
		return audit;
	pthread_cond_destroy(&audit->wake);
	pthread_mutex_destroy(&audit->lock);
fail:
	if (audit->fd >= 0)
		close(audit->fd);
	free(audit);
	return NULL;
}

void control_audit_note(struct audit *audit, const struct audit_event *event)
{
	struct queued *q;

	pthread_mutex_lock(&audit->lock);
	audit->counts.events++;
	audit->counts.failures += event->code != 0;
	if (audit->tail - audit->head == AUDIT_QUEUE_MAX) {
		audit->lost++;
		audit->counts.lost++;
	} else {
		q = &audit->queue[audit->tail % AUDIT_QUEUE_MAX];
		q->event = *event;
		clock_gettime(CLOCK_REALTIME, &q->time);
		q->failures = event->code ? audit->counts.failures : 0;
		audit->tail++;
		pthread_cond_signal(&audit->wake);
	}
	pthread_mutex_unlock(&audit->lock);
}

struct audit_counts control_audit_count(struct audit *audit)
{
	struct audit_counts counts;

	pthread_mutex_lock(&audit->lock);
	counts = audit->counts;
	pthread_mutex_unlock(&audit->lock);
	return counts;
}

void control_audit_close(struct audit *audit)
{
	if (!audit)
		return;
	pthread_mutex_lock(&audit->lock);
	audit->stopping = true;
	pthread_cond_signal(&audit->wake);
	pthread_mutex_unlock(&audit->lock);
	pthread_join(audit->thread, NULL);
	close(audit->fd);
	pthread_cond_destroy(&audit->wake);
	pthread_mutex_destroy(&audit->lock);
	free(audit);
}
