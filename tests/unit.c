/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit.h"

#include <CUnit/CUnit.h>
#include <CUnit/TestRun.h>
#include <dirent.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

bool unit_fail(const char *file, int line, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("# %s:%d: %s\n", file, line, text);
	CU_assertImplementation(CU_FALSE, (unsigned)line, text, file, "", CU_FALSE);
	return false;
}

static char skipped[256]; /* why the case is; "": it is not */

void unit_skip(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(skipped, sizeof(skipped), format, args);
	va_end(args);
}

unsigned unit_entries(const char *folder)
{
	DIR *dir = opendir(folder);
	unsigned n = 0;

	if (!dir) {
		unit_fail(__FILE__, __LINE__, "%s cannot be read", folder);
		return 0;
	}
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static char *temporary(char path[static UNIT_FOLDER], const char *name)
{
	snprintf(path, UNIT_FOLDER, "/tmp/star-%s-XXXXXX", name);
	return path;
}

bool unit_folder(char path[static UNIT_FOLDER], const char *name)
{
	return mkdtemp(temporary(path, name)) || unit_fail(__FILE__, __LINE__, "no folder %s: %m", path);
}

int unit_file(char path[static UNIT_FOLDER], const char *name)
{
	const int fd = mkstemp(temporary(path, name));

	if (fd < 0)
		unit_fail(__FILE__, __LINE__, "no file %s: %m", path);
	return fd;
}

size_t unit_read(const char *path, char *text, size_t room)
{
	FILE *file = fopen(path, "re");
	const size_t bytes = file ? fread(text, 1, room - 1, file) : 0;

	if (file)
		fclose(file);
	text[bytes] = 0;
	return bytes;
}

bool unit_write(const char *path, const void *data, size_t bytes)
{
	FILE *file = fopen(path, "we");
	const bool good = file && fwrite(data, 1, bytes, file) == bytes;

	return ((!file || fclose(file) == 0) && good) ||
	       unit_fail(__FILE__, __LINE__, "%s cannot be written: %m", path);
}

bool unit_write_text(const char *path, const char *text)
{
	return unit_write(path, text, strlen(text));
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
	(void)status, (void)type, (void)where;
	return remove(path);
}

uint64_t unit_seeds(uint64_t count, uint64_t soak, void (*run)(uint64_t seed))
{
	const char *one = getenv("STAR_SEED");
	const uint64_t first = one ? strtoull(one, NULL, 0) : 1, runs = one ? 1 : getenv("STAR_SOAK") ? soak : count;

	for (uint64_t i = 0; i < runs; i++)
		run(first + i);
	return runs;
}

void unit_remove(const char *folder)
{
	nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

bool unit_check_int(const char *file, int line, const char *what, long long actual, long long expected)
{
	return actual == expected || unit_fail(file, line, "%s is %lld, not %lld", what, actual, expected);
}

bool unit_check_uint(const char *file, int line, const char *what, unsigned long long actual,
		     unsigned long long expected)
{
	return actual == expected ||
	       unit_fail(file, line, "%s is %llu (%#llx), not %llu (%#llx)", what, actual, actual, expected, expected);
}

bool unit_check_near(const char *file, int line, const char *what, double actual, double expected, double tolerance)
{
	return fabs(actual - expected) <= tolerance ||
	       unit_fail(file, line, "%s is %.9g, not %.9g +- %.3g", what, actual, expected, tolerance);
}

bool unit_check_str(const char *file, int line, const char *what, const char *actual, const char *expected)
{
	return (actual && strcmp(actual, expected) == 0) ||
	       unit_fail(file, line, "%s is \"%s\", not \"%s\"", what, actual ? actual : "(NULL)", expected);
}

bool unit_check_has(const char *file, int line, const char *what, const char *text, const char *part)
{
	return (text && strstr(text, part)) ||
	       unit_fail(file, line, "%s is \"%s\", without \"%s\"", what, text ? text : "(NULL)", part);
}

bool unit_check_mem(const char *file, int line, const char *what, const void *actual, const void *expected,
		    size_t bytes)
{
	const uint8_t *a = actual, *b = expected;

	for (size_t i = 0; i < bytes; i++)
		if (a[i] != b[i])
			return unit_fail(file, line, "%s differs from byte %zu of %zu: %#x, not %#x", what, i, bytes,
					 a[i], b[i]);
	return true;
}

enum {
	LONG_MS = 500, /* of a processor: a case that takes as much says so */
};

static double used_s; /* of a processor, before the case */

static void begin(const CU_pTest test, const CU_pSuite suite)
{
	used_s = (double)clock() / CLOCKS_PER_SEC;
	skipped[0] = 0;
}

static void report(const CU_pTest test, const CU_pSuite suite, const CU_pFailureRecord failure)
{
	const double took_s = (double)clock() / CLOCKS_PER_SEC - used_s;

	if (took_s * 1000 >= LONG_MS)
		printf("# %.1f s of CPU\n", took_s);
	if (skipped[0] && !failure)
		printf("skip %s/%s: %s\n", suite->pName, test->pName, skipped);
	else
		printf("%s %s/%s\n", failure ? "not ok" : "ok", suite->pName, test->pName);
	fflush(stdout);
}

static bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strstr(name, argv[i]))
			return true;
	return argc < 2;
}

int main(int argc, char **argv)
{
	CU_pSuite suite;
	unsigned failed;

	if (CU_initialize_registry() != CUE_SUCCESS)
		return EXIT_FAILURE;
	suite = CU_add_suite(unit_suite, NULL, NULL);
	for (const struct unit_case *c = unit_cases; c->name; c++)
		if (wanted(c->name, argc, argv))
			CU_add_test(suite, c->name, c->run);
	CU_set_test_start_handler(begin);
	CU_set_test_complete_handler(report);
	CU_run_all_tests();
	failed = CU_get_number_of_tests_failed();
	CU_cleanup_registry();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
