/* SPDX-License-Identifier: BSD-3-Clause */
/* A file's lines, one after the other, each with its length: zero bytes in it show. Threads: one at a time. */
#ifndef INPUT_LINES_H
#define INPUT_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct lines {
	int fd; /* -1: none is open */
	bool ended;
	char *buffer; /* a line of INPUT_LINE_MAX - 1 bytes, its '\n', and a zero */
	size_t begin, end;
};

/* 0 or a negative errno; no file is open then. */
int lines_init(struct lines *lines);
int lines_open(struct lines *lines, const char *path);
void lines_close(struct lines *lines); /* the file; another one may be opened */
void lines_fini(struct lines *lines);

/*
 * The next line without its '\n', a zero in its place, which may be changed until the next call: 1; 0: there is none, also of the last line
 * without '\n' behind it; -E2BIG: it has INPUT_LINE_MAX bytes or more; or what reading failed with.
 */
int lines_next(struct lines *lines, char **line, size_t *bytes);

#endif
