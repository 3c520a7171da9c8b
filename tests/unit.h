/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every unit test program shares: a table of cases run by CUnit, one "ok" or "not ok" line a case on standard
 * output (scripts/run-tests counts them), and asserts that print both values. A test program defines `unit_suite` and
 * `unit_cases` (ended by an entry without a name); main is in tests/unit.c. Arguments pick cases by part of a name.
 */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct unit_case {
	const char *name;
	void (*run)(void);
};

extern const char *const unit_suite;
extern const struct unit_case unit_cases[];

/* Records a failure at file:line with a message; returns false so that macros can be conditions. */
bool unit_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What this machine lacks for the case, which then counts as skipped unless it has failed. The caller returns. */
void unit_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CHECK(condition) ((condition) ? true : unit_fail(__FILE__, __LINE__, "not so: %s", #condition))
#define CHECK_INT(actual, expected) \
	unit_check_int(__FILE__, __LINE__, #actual, (long long)(actual), (long long)(expected))
#define CHECK_UINT(actual, expected) \
	unit_check_uint(__FILE__, __LINE__, #actual, (unsigned long long)(actual), (unsigned long long)(expected))
#define CHECK_NEAR(actual, expected, tolerance) \
	unit_check_near(__FILE__, __LINE__, #actual, (actual), (expected), (tolerance))
#define CHECK_STR(actual, expected) unit_check_str(__FILE__, __LINE__, #actual, (actual), (expected))
/* The text contains the part: for error sentences. */
#define CHECK_HAS(text, part) unit_check_has(__FILE__, __LINE__, #text, (text), (part))
#define CHECK_MEM(actual, expected, bytes) unit_check_mem(__FILE__, __LINE__, #actual, (actual), (expected), (bytes))

bool unit_check_int(const char *file, int line, const char *what, long long actual, long long expected);
bool unit_check_uint(const char *file, int line, const char *what, unsigned long long actual,
		     unsigned long long expected);
bool unit_check_near(const char *file, int line, const char *what, double actual, double expected, double tolerance);
bool unit_check_str(const char *file, int line, const char *what, const char *actual, const char *expected);
bool unit_check_has(const char *file, int line, const char *what, const char *text, const char *part);
bool unit_check_mem(const char *file, int line, const char *what, const void *actual, const void *expected,
		    size_t bytes);

/* How many entries a folder has: of /proc/self/fd, to see that nothing stays open. */
unsigned unit_entries(const char *folder);

/* Makes a new folder in /tmp, with its purpose in its name; writes its path. False: recorded as a failure. */
enum { UNIT_FOLDER = 64 };
bool unit_folder(char path[static UNIT_FOLDER], const char *name);

/* The same of a file: open for reading and writing, or -1. */
int unit_file(char path[static UNIT_FOLDER], const char *name);

/* The beginning of a file, ended by a NUL byte: how many bytes, fewer than room; 0 when there is none. */
size_t unit_read(const char *path, char *text, size_t room);

/* A file has just these bytes then. False: recorded as a failure. */
bool unit_write(const char *path, const void *data, size_t bytes);
bool unit_write_text(const char *path, const char *text);

/* Removes a folder with all that is in it; does not follow links. */
void unit_remove(const char *folder);

/* Runs the seeds from 1 on: count of them, or soak with STAR_SOAK; with STAR_SEED=n that one alone. How many. */
uint64_t unit_seeds(uint64_t count, uint64_t soak, void (*run)(uint64_t seed));

#endif
