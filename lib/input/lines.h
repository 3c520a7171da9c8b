/* SPDX-License-Identifier: BSD-3-Clause */
/* A file's lines, unpacked where it is packed, one after the other, each with its length: zero bytes in it show.
 * Threads: one at a time. */
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

/* 0 or a negative errno; no file is open then. Sentences do not name it. */
int input_lines_init(struct lines *lines);
int input_lines_open(struct lines *lines, const char *path, struct star_error *err); /* "-": standard input */
/* The next line is the first that begins there or behind; of a plain file that was just opened. *at: where that is. */
int input_lines_seek(struct lines *lines, uint64_t offset, uint64_t *at, struct star_error *err);
bool input_lines_are_open(const struct lines *lines);
void input_lines_close(struct lines *lines); /* the file; another one may be opened */
void input_lines_fini(struct lines *lines);

/*
 * The next line without its '\n', a zero in its place, which may be changed until the next call: 1; 0: there is none,
 * also of the last line without '\n' behind it; -E2BIG: it has INPUT_LINE_MAX bytes or more, and no sentence is set; or
 * what reading failed with, with one.
 */
int input_lines_next(struct lines *lines, char **line, size_t *bytes, struct star_error *err);

#endif
