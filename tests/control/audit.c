/* SPDX-License-Identifier: BSD-3-Clause */
/* The audit log: a chain that shows what was changed, and a count of what was lost. */
#include "control/audit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/control/cases.h"
#include "tests/unit.h"

enum { WRITERS = 4, EVENTS = 2000, TEXT_MAX = 64 << 10 };

static const struct audit_event done = {
	.principal = "trainer", .role = "worker", .from = "198.18.0.9", .method = "create"
};
static const struct audit_event refused = {
	.from = "uid 0", .method = "shutdown\x01\xff", .code = -EPERM, .text = "no \"way\""
};

struct place {
	char folder[UNIT_FOLDER], path[128];
};

static void place_init(struct place *p)
{
	unit_folder(p->folder, "audit");
	snprintf(p->path, sizeof(p->path), "%s/log", p->folder);
}

static int verify(const char *path, struct audit_check *check, struct star_error *err)
{
	FILE *file = fopen(path, "re");
	int rc;

	*check = (struct audit_check){ 0 };
	if (!CHECK(file != NULL))
		return -ENOENT;
	rc = control_audit_verify(file, "log", check, err);
	fclose(file);
	return rc;
}

/* A log with three lines. */
static size_t three_lines(const struct place *p, char *text)
{
	struct star_error err = { 0 };
	struct audit *audit = control_audit_open(p->path, &err);

	if (!CHECK(audit != NULL))
		return 0;
	control_audit_note(audit, &done);
	control_audit_note(audit, &refused);
	control_audit_note(audit, &done);
	control_audit_close(audit);
	return unit_read(p->path, text, TEXT_MAX);
}

void an_audit_log_is_a_chain(void)
{
	char text[TEXT_MAX];
	struct star_error err = { 0 };
	struct audit_check check;
	struct audit *audit;
	struct stat file;
	struct place p;

	place_init(&p);
	three_lines(&p, text);
	CHECK_INT(verify(p.path, &check, &err), 0);
	CHECK_UINT(check.lines, 3);
	CHECK_UINT(check.failures, 1);
	CHECK_UINT(check.last, 2);
	CHECK_STR(check.begins, "0000000000000000000000000000000000000000000000000000000000000000");
	CHECK_HAS(text, "\"principal\":\"trainer\",\"role\":\"worker\",\"from\":\"198.18.0.9\",\"method\":\"create\"");
	CHECK_HAS(text, "\"outcome\":\"refused\",\"code\":-1,\"reason\":\"no \\\"way\\\"\",\"failures\":1");
	CHECK(stat(p.path, &file) == 0 && (file.st_mode & 07777) == 0600);
	/* It goes on where it was. */
	audit = control_audit_open(p.path, &err);
	control_audit_note(audit, &done);
	control_audit_close(audit);
	CHECK_INT(verify(p.path, &check, &err), 0);
	CHECK_UINT(check.lines, 4);
	unit_remove(p.folder);
}

void no_changed_byte_of_an_audit_log_passes(void)
{
	char text[TEXT_MAX], *second, *third;
	struct star_error err = { 0 };
	struct audit_check check, whole;
	struct place p;
	size_t bytes;

	place_init(&p);
	bytes = three_lines(&p, text);
	CHECK_INT(verify(p.path, &whole, &err), 0);
	for (size_t at = 0; at < bytes; at++) {
		text[at] ^= 1;
		unit_write(p.path, text, bytes);
		/* Of the last line nothing in the file speaks: its hash, which is kept elsewhere, does. */
		if (verify(p.path, &check, &err) == 0 && strcmp(check.ends, whole.ends) == 0)
			unit_fail(__FILE__, __LINE__, "byte %zu may be changed", at);
		text[at] ^= 1;
	}
	second = strchr(text, '\n') + 1;
	third = strchr(second, '\n') + 1;
	unit_write(p.path, text, (size_t)(second - text));
	CHECK_INT(verify(p.path, &check, &err), 0);
	memmove(second, third, strlen(third) + 1);
	unit_write_text(p.path, text);
	CHECK_INT(verify(p.path, &check, &err), -EBADMSG);
	CHECK_HAS(err.text, "log:2: ");
	CHECK_HAS(err.text, "taken out or put in");
	unit_write(p.path, text, strlen(text) - 1);
	CHECK_INT(verify(p.path, &check, &err), -EBADMSG);
	unit_write(p.path, "", 0);
	CHECK_INT(verify(p.path, &check, &err), -ENODATA);
	unit_remove(p.folder);
}

void a_torn_line_is_taken_away_and_told(void)
{
	char text[TEXT_MAX];
	struct star_error err = { 0 };
	struct audit_check check;
	struct audit *audit;
	struct place p;
	size_t bytes;

	place_init(&p);
	bytes = three_lines(&p, text);
	unit_write(p.path, text, bytes - 7);
	audit = control_audit_open(p.path, &err);
	control_audit_note(audit, &done);
	control_audit_close(audit);
	CHECK_INT(verify(p.path, &check, &err), 0);
	CHECK_UINT(check.lines, 3);
	unit_read(p.path, text, TEXT_MAX);
	CHECK_HAS(text, "\"cut\":");
	unit_write(p.path, "this is a letter\n", 17);
	CHECK(control_audit_open(p.path, &err) == NULL);
	CHECK_HAS(err.text, "is not an audit log");
	memset(text, 'x', TEXT_MAX);
	unit_write(p.path, text, TEXT_MAX);
	CHECK(control_audit_open(p.path, &err) == NULL);
	unit_read(p.path, text, TEXT_MAX);
	CHECK_INT(text[TEXT_MAX - 2], 'x');
	unlink(p.path);
	CHECK(symlink("/dev/null", p.path) == 0 && control_audit_open(p.path, &err) == NULL);
	unlink(p.path);
	CHECK(control_audit_open(p.folder, &err) == NULL);
	CHECK(control_audit_open(p.folder, NULL) == NULL);
	unit_remove(p.folder);
}

static void *write_many(void *arg)
{
	for (unsigned i = 0; i < EVENTS; i++)
		control_audit_note(arg, i % 2 ? &done : &refused);
	return NULL;
}

void what_finds_no_room_is_counted(void)
{
	pthread_t threads[WRITERS];
	struct star_error err = { 0 };
	struct audit_counts counts;
	struct audit_check check;
	struct audit *audit;
	unsigned long long last = 0;
	uint64_t own = 0;
	char line[AUDIT_LINE_MAX];
	struct place p;
	FILE *file;

	place_init(&p);
	audit = control_audit_open(p.path, &err);
	for (unsigned i = 0; i < WRITERS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, write_many, audit), 0);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	counts = control_audit_count(audit);
	control_audit_close(audit);
	CHECK_UINT(counts.events, WRITERS * EVENTS);
	CHECK_UINT(counts.failures, WRITERS * EVENTS / 2);
	CHECK_INT(verify(p.path, &check, &err), 0);
	CHECK_UINT(check.lost, counts.lost);
	file = fopen(p.path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		const char *number = strstr(line, "\"failures\":");
		const unsigned long long n = number ? strtoull(number + strlen("\"failures\":"), NULL, 10) : 0;

		own += strstr(line, "\"method\":\"audit\"") != NULL;
		/* None is there twice, in the place of another one. */
		CHECK(!number || n > last);
		last = number ? n : last;
	}
	if (file)
		fclose(file);
	/* Each event is a line, or is counted as lost: none is both, and none is neither. */
	CHECK_UINT(check.lines - own + check.lost, WRITERS * EVENTS);
	unit_remove(p.folder);
}

static void wait_lost(struct audit *audit, uint64_t lost)
{
	for (unsigned ms = 0; ms < 10000 && control_audit_count(audit).lost < lost; ms++)
		usleep(1000);
	CHECK_UINT(control_audit_count(audit).lost, lost);
}

void a_disk_that_refuses_is_told_later(void)
{
	struct rlimit before, none = { 0 };
	char text[TEXT_MAX];
	struct star_error err = { 0 };
	struct audit_check check;
	struct audit *audit;
	struct place p;
	size_t bytes;

	place_init(&p);
	bytes = three_lines(&p, text);
	audit = control_audit_open(p.path, &err);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	/* There is room for a part of a line, which is taken back. */
	none = (struct rlimit){ bytes + 20, before.rlim_max };
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &none), 0);
	control_audit_note(audit, &done);
	control_audit_note(audit, &refused);
	wait_lost(audit, 2);
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
	CHECK_UINT(unit_read(p.path, text, TEXT_MAX), bytes);
	control_audit_note(audit, &done);
	control_audit_close(audit);
	signal(SIGXFSZ, SIG_DFL);
	CHECK_INT(verify(p.path, &check, &err), 0);
	CHECK_UINT(check.lines, 4);
	CHECK_UINT(check.lost, 2);
	unit_remove(p.folder);
}
