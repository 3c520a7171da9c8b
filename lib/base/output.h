/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports write errors of output streams. stdio reports them only when a stream is flushed, and remembers only that
 * something failed. So a full disk becomes an error of the program, not a truncated file. Threads: as for stdio.
 */
#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H

#include <stdio.h>

#include "star_error.h"

/* Flushes the stream. 0, or a negative errno if this or an earlier write failed; err has `name`, a path or a
 * description. */
int output_flush(FILE *file, const char *name, struct star_error *err);

/* The same, and closes the stream. If nothing was written to it, it may be closed already (a shell's >&-). */
int output_close(FILE *file, const char *name, struct star_error *err);

/* Returns main's exit status: `status`; or, if that is 0 and standard output could not be written, `failed`, with a
 * line on standard error. */
int output_end(const char *program, int status, int failed);

#endif
