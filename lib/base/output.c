/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/output.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio_ext.h>
#include <string.h>

static int report_output(const char *name, int status, struct star_error *err)
{
	return star_error_set(err, status ? status : -EIO, "cannot write %s: %s", name,
			      status ? strerror(-status) : "part of it could not be written; is the disk full?");
}

int output_flush(FILE *file, const char *name, struct star_error *err)
{
	const int status = fflush(file) == 0 ? 0 : -errno;

	return status < 0 || ferror(file) ? report_output(name, status, err) : 0;
}

int output_close(FILE *file, const char *name, struct star_error *err)
{
	const bool idle = __fpending(file) == 0, before = ferror(file) != 0;
	const int status = fclose(file) == 0 ? 0 : -errno;

	if (before || (status < 0 && !(idle && status == -EBADF)))
		return report_output(name, status, err);
	return 0;
}

int output_end(const char *program, int status, int failed)
{
	struct star_error err;

	if (output_close(stdout, "standard output", &err) == 0 || status)
		return status;
	fprintf(stderr, "%s: %s\n", program, err.text);
	return failed;
}
