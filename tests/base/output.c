/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/output.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/base/cases.h"
#include "tests/unit.h"

void output_that_arrives_is_no_error(void)
{
	struct star_error err = { 0 };
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	if (!CHECK(file))
		return;
	fputs("abc", file);
	CHECK_INT(output_flush(file, "a text", &err), 0);
	CHECK_INT(output_close(file, "a text", &err), 0);
	CHECK_STR(text, "abc");
	free(text);
}

void output_to_a_full_disk_is_told(void)
{
	struct star_error err = { 0 };
	FILE *file = fopen("/dev/full", "w");

	if (!CHECK(file))
		return;
	fputs("abc", file);
	CHECK_INT(output_flush(file, "a report", &err), -ENOSPC);
	CHECK_STR(err.text, "cannot write a report: No space left on device");
	CHECK(output_close(file, "a report", NULL) < 0);
}

/* Nothing is left to be written, and the stream knows no more than that something was refused. */
void output_that_failed_before_is_told(void)
{
	struct star_error err = { 0 };
	FILE *file = fopen("/dev/full", "w");

	if (!CHECK(file))
		return;
	setvbuf(file, NULL, _IONBF, 0);
	CHECK_INT(fputc('a', file), EOF);
	CHECK(output_flush(file, "a report", &err) < 0);
	CHECK_HAS(err.text, "cannot write a report: ");
	CHECK(output_close(file, "a report", &err) < 0);
	CHECK_HAS(err.text, "cannot write a report: ");
}

/* By a shell's >&-. */
void output_that_was_closed_matters_when_there_is_some(void)
{
	for (unsigned some = 0; some < 2; some++) {
		struct star_error err = { 0 };
		FILE *file = fopen("/dev/null", "w");

		if (!CHECK(file))
			return;
		if (some)
			fputs("abc", file);
		close(fileno(file));
		CHECK_INT(output_close(file, "a text", &err), some ? -EBADF : 0);
	}
}
