/* SPDX-License-Identifier: BSD-3-Clause */
#include "input/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "input/input.h"

int input_lines_init(struct lines *lines)
{
	*lines = (struct lines){ .source.fd = -1, .buffer = malloc(INPUT_LINE_MAX + 1) };
	return lines->buffer ? 0 : -ENOMEM;
}

int input_lines_open(struct lines *lines, const char *path, struct star_error *err)
{
	lines->ended = false;
	lines->begin = lines->end = 0;
	return input_source_open(&lines->source, path, err);
}

bool input_lines_are_open(const struct lines *lines)
{
	return lines->source.fd >= 0;
}

void input_lines_close(struct lines *lines)
{
	input_source_close(&lines->source);
}

void input_lines_fini(struct lines *lines)
{
	input_lines_close(lines);
	free(lines->buffer);
}

/* Appends more bytes to those in the buffer, and leaves room for a zero byte. */
static int fill_lines(struct lines *lines, struct star_error *err)
{
	int64_t n;

	memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
	lines->end -= lines->begin;
	lines->begin = 0;
	if (lines->end == INPUT_LINE_MAX)
		return -E2BIG;
	n = input_source_read(&lines->source, lines->buffer + lines->end, INPUT_LINE_MAX - lines->end, err);
	if (n < 0)
		return (int)n;
	lines->ended = n == 0;
	lines->end += (size_t)n;
	return 0;
}

int input_lines_next(struct lines *lines, char **line, size_t *bytes, struct star_error *err)
{
	size_t looked = 0;

	for (;;) {
		char *const begin = lines->buffer + lines->begin;
		const size_t n = lines->end - lines->begin;
		char *end = memchr(begin + looked, '\n', n - looked);
		int rc;

		if (!end && lines->ended && n)
			end = begin + n;
		if (end) {
			*line = begin;
			*bytes = (size_t)(end - begin);
			lines->begin += *bytes + (*bytes < n);
			*end = 0;
			return 1;
		}
		if (lines->ended)
			return 0;
		looked = n;
		rc = fill_lines(lines, err);
		if (rc < 0)
			return rc;
	}
}

int input_lines_seek(struct lines *lines, uint64_t offset, uint64_t *at, struct star_error *err)
{
	size_t bytes = 0;
	char *line;
	int rc;

	*at = offset;
	if (offset == 0)
		return 0;
	rc = input_source_seek(&lines->source, offset - 1, err);
	if (rc < 0)
		return rc;
	/* A line that begins before the offset belongs to the slice before, so reading starts with the byte before. */
	*at = offset - 1;
	while ((rc = input_lines_next(lines, &line, &bytes, err)) == -E2BIG) {
		*at += lines->end - lines->begin;
		lines->begin = lines->end;
	}
	*at += bytes + 1;
	return rc < 0 ? rc : 0;
}
