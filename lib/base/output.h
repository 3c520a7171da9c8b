/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether what a program has written has arrived: a stream says so only when it is flushed, and of what failed before
 * keeps no more than that something did. A disk that is full is an error of the program's, not a short file. Threads:
 * as stdio has them.
 */
#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H

#include <stdio.h>

#include "star_error.h"

/* Writes what is left in the stream. 0; a negative errno if that or anything before it failed: name, a path or what it
 * is called, is in err. */
int output_flush(FILE *file, const char *name, struct star_error *err);

/* The same, and closes it; one that had nothing to write may be closed already, as by a shell's >&-. */
int output_close(FILE *file, const char *name, struct star_error *err);

/* What main returns, in the end: its status; but if that is 0 and standard output has not arrived, it is failed, after
 * a line on standard error. */
int output_end(const char *program, int status, int failed);

#endif
