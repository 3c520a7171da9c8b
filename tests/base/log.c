/* SPDX-License-Identifier: BSD-3-Clause */
/* The log, as it arrives at a file that stands for standard error. */
#include "base/log.h"

#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cases.h"
#include "tests/unit.h"

static int real_stderr = -1, file = -1;

static void begin(enum log_format format, bool journal)
{
	char path[UNIT_FOLDER], stream[64];
	struct stat stat;

	file = unit_file(path, "log");
	unlink(path);
	real_stderr = dup(STDERR_FILENO);
	dup2(file, STDERR_FILENO);
	fstat(file, &stat);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)stat.st_dev,
		 (unsigned long long)stat.st_ino + !journal);
	setenv("JOURNAL_STREAM", stream, 1);
	log_open(format);
}

/* What was logged; static. */
static const char *end(void)
{
	static char text[1 << 20];
	const ssize_t n = pread(file, text, sizeof(text) - 1, 0);

	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	close(file);
	unsetenv("JOURNAL_STREAM");
	log_open(LOG_TEXT);
	text[n < 0 ? 0 : n] = 0;
	return text;
}

static void check_matches(const char *text, const char *pattern)
{
	regex_t regex;

	CHECK_INT(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
	if (!CHECK(regexec(&regex, text, 0, NULL, 0) == 0))
		printf("# %s\n", text);
	regfree(&regex);
}

#define DATE "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z"

void log_lines_have_their_date_and_level(void)
{
	static const struct {
		enum log_format format;
		bool journal;
		const char *pattern;
	} cases[] = {
		{ LOG_TEXT, false, "^" DATE " warning a \"b\\\\c\" \\?d\n" DATE " error e\n$" },
		{ LOG_LOGFMT, false,
		  "^time=" DATE " level=warning msg=\"a \\\\\"b\\\\\\\\c\\\\\" \\?d\"\ntime=" DATE
		  " level=error msg=\"e\"\n$" },
		{ LOG_TEXT, true, "^<4>a \"b\\\\c\" \\?d\n<3>e\n$" },
		{ LOG_LOGFMT, true,
		  "^<4>level=warning msg=\"a \\\\\"b\\\\\\\\c\\\\\" \\?d\"\n<3>level=error msg=\"e\"\n$" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(cases[i].format, cases[i].journal);
		log_set_level(LOG_WARN);
		log_warn("a \"b\\c\" %cd", '\n');
		log_info("not this");
		log_error("e");
		log_set_level(LOG_INFO);
		check_matches(end(), cases[i].pattern);
		log_tell_held(UINT64_MAX);
	}
}

/* A line that is as long as it can be is cut, and stays one line. */
void log_lines_are_cut(void)
{
	static char quotes[5000];
	const char *text;

	memset(quotes, '"', sizeof(quotes) - 1);
	begin(LOG_LOGFMT, false);
	log_error("%s", quotes);
	text = end();
	CHECK(strlen(text) > 1900 && strlen(text) < 2200);
	CHECK_INT(strcmp(text + strlen(text) - 3, "\"\"\n"), 0);
	log_tell_held(UINT64_MAX);
}

static unsigned count(const char *text, const char *part)
{
	unsigned found = 0;

	while ((text = strstr(text, part))) {
		found++;
		text++;
	}
	return found;
}

static void flood(unsigned lines)
{
	for (unsigned i = 0; i < lines; i++)
		log_warn("a peer does it again: %u", i);
}

void log_says_how_much_it_held_back(void)
{
	const char *text;

	begin(LOG_TEXT, false);
	flood(LOG_LINES_MAX + 23);
	log_error("something else");
	log_tell_held(0); /* a moment of no window's end */
	log_tell_held(UINT64_MAX);
	log_tell_held(UINT64_MAX);
	flood(1);
	text = end();
	CHECK_UINT(count(text, "warning a peer does it again"), LOG_LINES_MAX + 1);
	CHECK_UINT(count(text, "error something else"), 1);
	CHECK_UINT(count(text, "suppressed within"), 1);
	CHECK_UINT(count(text, "warning 23 more of these were suppressed within 10 s: a peer does it again: 122\n"), 1);
	log_tell_held(UINT64_MAX);
}

/* As of a pipe that nobody reads, of another end of a socket that stands still. */
static void log_to_nobody(int to, int from)
{
	static char text[1 << 16];
	const char *lost;
	size_t bytes = 0;
	ssize_t n;

	real_stderr = dup(STDERR_FILENO);
	dup2(to, STDERR_FILENO);
	close(to);
	log_open(LOG_TEXT);
	alarm(60); /* whoever waits is ended */
	for (unsigned i = 0; i < LOG_LINES_MAX; i++)
		log_warn("nobody reads this: %0900u", i);
	CHECK((n = read(from, text, sizeof(text))) > 0);
	log_error("read again");
	alarm(0);
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	log_open(LOG_TEXT);
	for (bytes = (size_t)n;
	     bytes < sizeof(text) - 1 && (n = read(from, text + bytes, sizeof(text) - 1 - bytes)) > 0;)
		bytes += (size_t)n;
	text[bytes] = 0;
	close(from);
	lost = strstr(text, " lines are missing");
	while (lost && lost > text && lost[-1] >= '0' && lost[-1] <= '9')
		lost--;
	CHECK_UINT(count(text, "warning nobody reads this") + (lost ? strtoul(lost, NULL, 10) : 0), LOG_LINES_MAX);
	check_matches(
		text,
		DATE " warning [1-9][0-9]* lines are missing here, because standard error was not read; starctl events "
		     "has the last ones\n" DATE " error read again\n$");
	log_tell_held(UINT64_MAX);
}

void log_waits_for_no_reader(void)
{
	int ends[2], small = 4096;

	CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
	CHECK(fcntl(ends[0], F_SETPIPE_SZ, small) > 0);
	log_to_nobody(ends[1], ends[0]);
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	CHECK_INT(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	log_to_nobody(ends[1], ends[0]);
}

void log_levels_have_names(void)
{
	enum log_level level;

	for (unsigned i = 0; i < LOG_LEVELS; i++) {
		CHECK(log_level_from(log_level_name((enum log_level)i), &level));
		CHECK_UINT(level, i);
	}
	CHECK(!log_level_from("loud", &level));
	CHECK(!log_level_name(LOG_LEVELS));
}

/* The last ones, oldest first, whether they were written or not; and no more of a flood than is written. */
void log_events_are_kept(void)
{
	struct log_event *events = calloc(LOG_KEPT, sizeof(*events));
	const char *text;
	unsigned n;

	begin(LOG_TEXT, false);
	log_set_level(LOG_WARN);
	log_info("kept 1, and not written");
	log_debug("kept by nobody");
	log_error("kept 2");
	log_set_level(LOG_INFO);
	text = end();
	CHECK(strstr(text, "kept 2") && !strstr(text, "kept 1") && !strstr(text, "nobody"));
	n = log_events(0, LOG_INFO, events, 2);
	CHECK_UINT(n, 2);
	CHECK_STR(events[0].text, "kept 1, and not written");
	CHECK_STR(events[1].text, "kept 2");
	CHECK(events[0].ms <= events[1].ms && events[1].ms > UINT64_C(1700000000000));
	CHECK_UINT(log_events(0, LOG_ERROR, events, 1), 1);
	CHECK_STR(events[0].text, "kept 2");
	CHECK_UINT(log_events(events[0].ms + 3600000, LOG_INFO, events, LOG_KEPT), 0);
	free(events);
}
