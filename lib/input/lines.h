/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the lines of a file, decompressed if needed, each with its length, so that zero bytes are noticed. One thread
 * at a time. */
#ifndef INPUT_LINES_H
#define INPUT_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "input/source.h"

struct lines {
	struct source source;
	bool ended;
	char *buffer; /* a line of INPUT_LINE_MAX - 1 bytes, its '\n', and a zero */
	size_t begin, end;
};

/* 0 or a negative errno, and no file is open. Messages do not name the file. */
int input_lines_init(struct lines *lines);
int input_lines_open(struct lines *lines, const char *path, struct star_error *err); /* "-": standard input */
/* The next line will be the first that begins at or after `offset`; *at: where it begins. Only for an uncompressed file
 * that was just opened. */
int input_lines_seek(struct lines *lines, uint64_t offset, uint64_t *at, struct star_error *err);
bool input_lines_are_open(const struct lines *lines);
void input_lines_close(struct lines *lines); /* closes the file; another one may be opened */
void input_lines_fini(struct lines *lines);

/*
 * Gets the next line, with a zero byte instead of its '\n'; the last line may lack that. It may be modified, and is
 * valid until the next call. 1; 0: there are no more; -E2BIG without a message: it has INPUT_LINE_MAX bytes or more; or
 * the error of reading, with a message.
 */
int input_lines_next(struct lines *lines, char **line, size_t *bytes, struct star_error *err);

#endif
