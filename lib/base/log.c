/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

enum { TEXT_MAX = 1000, SAMPLE_MAX = 200, KINDS_MAX = 64, READER_MS = 100 };

static enum log_level log_threshold = LOG_INFO;
static enum log_format log_format;
static bool log_to_journal;

/* The descriptor for lines, and the number of lines lost since the last one that was written. */
static pthread_mutex_t writer_lock = PTHREAD_MUTEX_INITIALIZER;
static int writer = STDERR_FILENO;
static bool writer_is_socket, writer_blocks;
static uint64_t lines_lost;

static const char *const names[LOG_LEVELS] = { "debug", "info", "warning", "error" };

/* The recent messages: an event that a peer can cause repeatedly must not fill a disk. */
static pthread_mutex_t kinds_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kind {
	const char *format; /* the message of these lines; NULL: unused */
	enum log_level level;
	uint64_t begun_us; /* of its window */
	uint64_t lines;	   /* lines in the window; those beyond LOG_LINES_MAX were suppressed */
	char last[SAMPLE_MAX];
} kinds[KINDS_MAX];

/* The last events; the oldest ones are overwritten. */
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_event kept[LOG_KEPT];
static uint64_t kept_count; /* number of events so far */

static void keep(enum log_level level, const char *text)
{
	struct timespec now;
	struct log_event *event;

	clock_gettime(CLOCK_REALTIME, &now);
	pthread_mutex_lock(&kept_lock);
	event = &kept[kept_count++ % LOG_KEPT];
	event->ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	event->level = level;
	snprintf(event->text, sizeof(event->text), "%.*s", LOG_KEPT_TEXT - 1, text);
	pthread_mutex_unlock(&kept_lock);
}

unsigned log_events(uint64_t since_ms, enum log_level level, struct log_event *to, unsigned max)
{
	unsigned n = 0;
	uint64_t first;

	pthread_mutex_lock(&kept_lock);
	first = kept_count > LOG_KEPT ? kept_count - LOG_KEPT : 0;
	/* From the newest on; then the order is reversed. */
	for (uint64_t i = kept_count; i > first && n < max; i--)
		if (kept[(i - 1) % LOG_KEPT].ms >= since_ms && kept[(i - 1) % LOG_KEPT].level >= level)
			to[n++] = kept[(i - 1) % LOG_KEPT];
	pthread_mutex_unlock(&kept_lock);
	for (unsigned i = 0; i < n / 2; i++) {
		const struct log_event event = to[i];

		to[i] = to[n - 1 - i];
		to[n - 1 - i] = event;
	}
	return n;
}

/* A pipe or terminal is opened again, because O_NONBLOCK would otherwise affect other processes that use it. */
static void open_writer(const struct stat *stat)
{
	const bool may_block = S_ISFIFO(stat->st_mode) || isatty(STDERR_FILENO);
	const int fd = may_block ? open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;

	pthread_mutex_lock(&writer_lock);
	if (writer != STDERR_FILENO)
		close(writer);
	writer = fd >= 0 ? fd : STDERR_FILENO;
	writer_is_socket = S_ISSOCK(stat->st_mode);
	writer_blocks = may_block && fd < 0; /* it may belong to another user */
	pthread_mutex_unlock(&writer_lock);
}

void log_open(enum log_format format)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat stat = { 0 };

	log_format = format;
	log_to_journal = fstat(STDERR_FILENO, &stat) == 0 && stream &&
			 sscanf(stream, "%llu:%llu", &device, &inode) == 2 && stat.st_dev == device &&
			 stat.st_ino == inode;
	open_writer(&stat);
}

void log_set_level(enum log_level level)
{
	__atomic_store_n(&log_threshold, level, __ATOMIC_RELAXED);
}

enum log_level log_get_level(void)
{
	return __atomic_load_n(&log_threshold, __ATOMIC_RELAXED);
}

const char *log_level_name(enum log_level level)
{
	return (unsigned)level < LOG_LEVELS ? names[level] : NULL;
}

bool log_level_from(const char *name, enum log_level *level)
{
	for (unsigned i = 0; i < LOG_LEVELS; i++) {
		if (strcmp(name, names[i]) != 0)
			continue;
		*level = (enum log_level)i;
		return true;
	}
	return false;
}

/* Called with writer_lock held. False: there is no room now. Other errors are ignored, because there is no place to
 * report them. */
static bool put_lines(const char *line, size_t bytes)
{
	struct pollfd room = { .fd = writer, .events = POLLOUT };
	ssize_t n;

	if (writer_blocks && poll(&room, 1, 0) == 0)
		return false;
	n = writer_is_socket ? send(writer, line, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) : write(writer, line, bytes);
	return n >= 0 || errno != EAGAIN;
}

enum { LINE_BYTES = 2 * TEXT_MAX + 128 };

static size_t make_line(char line[LINE_BYTES], enum log_level level, const char *text)
{
	static const int priorities[LOG_LEVELS] = { 7, 6, 4, 3 }; /* of syslog */
	struct timespec now;
	struct tm parts;
	char time[32] = "";
	size_t used = 0;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%S", &parts);
	if (log_to_journal)
		used += (size_t)sprintf(line, "<%d>", priorities[level]);
	if (log_format == LOG_LOGFMT && !log_to_journal)
		used += (size_t)sprintf(line + used, "time=%s.%03ldZ ", time, now.tv_nsec / 1000000);
	else if (!log_to_journal)
		used += (size_t)sprintf(line + used, "%s.%03ldZ %s ", time, now.tv_nsec / 1000000, names[level]);
	if (log_format == LOG_LOGFMT)
		used += (size_t)sprintf(line + used, "level=%s msg=\"", names[level]);
	for (; *text; text++) {
		if (log_format == LOG_LOGFMT && (*text == '"' || *text == '\\'))
			line[used++] = '\\';
		line[used++] = base_printable(*text);
	}
	if (log_format == LOG_LOGFMT)
		line[used++] = '"';
	line[used++] = '\n';
	return used;
}

/* In one line, whatever a peer's or a file's text contains: no part of it can look like a separate line. The reader may
 * have stopped (a terminal after Ctrl-S, a pipe, a journal that restarts): it is waited for once, for a moment, because
 * the node has other work. Lost lines are reported with the next line that is written. */
static void write_line(enum log_level level, const char *text)
{
	char lines[2 * LINE_BYTES], missing[SAMPLE_MAX];
	struct pollfd room;
	size_t bytes = 0;
	bool done;

	pthread_mutex_lock(&writer_lock);
	if (lines_lost) {
		snprintf(missing, sizeof(missing),
			 "%" PRIu64
			 " lines are missing here, because standard error was not read; starctl events has the "
			 "last ones",
			 lines_lost);
		bytes = make_line(lines, LOG_WARN, missing);
	}
	bytes += make_line(lines + bytes, level, text);
	done = put_lines(lines, bytes);
	if (!done && !lines_lost) {
		room = (struct pollfd){ .fd = writer, .events = POLLOUT };
		done = poll(&room, 1, READER_MS) > 0 && put_lines(lines, bytes);
	}
	lines_lost = done ? 0 : lines_lost + 1;
	pthread_mutex_unlock(&writer_lock);
}

static void tell_held(struct kind *kind)
{
	char text[SAMPLE_MAX + 128];

	if (kind->lines > LOG_LINES_MAX && kind->level >= log_get_level()) {
		snprintf(text, sizeof(text), "%" PRIu64 " more of these were suppressed within %u s: %s",
			 kind->lines - LOG_LINES_MAX, LOG_WINDOW_US / 1000000, kind->last);
		write_line(kind->level, text);
	}
	kind->format = NULL;
}

static bool is_over(const struct kind *kind, uint64_t now_us)
{
	return kind->format && now_us > kind->begun_us && now_us - kind->begun_us >= LOG_WINDOW_US;
}

void log_tell_held(uint64_t now_us)
{
	pthread_mutex_lock(&kinds_lock);
	for (unsigned i = 0; i < KINDS_MAX; i++)
		if (is_over(&kinds[i], now_us))
			tell_held(&kinds[i]);
	pthread_mutex_unlock(&kinds_lock);
}

/* The message's own entry, or a free one, or one whose window is over; NULL: all entries are in use, and this message
 * is not limited. Called with the lock held. */
static struct kind *find_kind(const char *format, uint64_t now_us)
{
	struct kind *room = NULL;

	for (unsigned i = 0; i < KINDS_MAX; i++) {
		struct kind *kind = &kinds[i];

		if (is_over(kind, now_us))
			tell_held(kind);
		if (kind->format == format)
			return kind;
		if (!kind->format && !room)
			room = kind;
	}
	if (room)
		*room = (struct kind){ .format = format, .begun_us = now_us };
	return room;
}

static bool is_held(enum log_level level, const char *format, const char *text)
{
	struct kind *kind;
	bool held = false;

	pthread_mutex_lock(&kinds_lock);
	kind = find_kind(format, clock_us());
	if (kind) {
		held = ++kind->lines > LOG_LINES_MAX;
		kind->level = level;
		if (held)
			snprintf(kind->last, sizeof(kind->last), "%.*s", SAMPLE_MAX - 1, text);
	}
	pthread_mutex_unlock(&kinds_lock);
	return held;
}

void log_write(enum log_level level, const char *format, ...)
{
	char text[TEXT_MAX];
	va_list args;

	if (level < LOG_INFO && level < log_get_level())
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (is_held(level, format, text))
		return;
	if (level >= LOG_INFO)
		keep(level, text);
	if (level >= log_get_level())
		write_line(level, text);
}
