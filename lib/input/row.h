/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses lines into rows. Lines are not trusted; INPUT_LINE_MAX bounds them. No state but the row's memory. */
#ifndef INPUT_ROW_H
#define INPUT_ROW_H

#include <string.h>

#include "input/input.h"

struct row {
	float label;
	uint32_t count;	 /* number of ids; those of a history come last: item, category, item, category ... */
	uint32_t room;	 /* capacity in ids */
	uint32_t number; /* of the row in its epoch */
	uint32_t slice;	 /* its index among the open ones */
	float *dense;
	float *more_labels; /* labels of further tasks */
	int64_t *ids;
	float *values;
	uint32_t *lengths; /* for each list: the number of its ids, which follow those of single columns */
};

/* Allocates memory for this many numbers, lists and further labels, which every row has from now on. 0 or -ENOMEM. */
int input_row_room(struct row *row, uint32_t dense, uint32_t lists, uint32_t more_labels);
/* Adds an id. 0; -E2BIG or -ENOMEM with a message. */
int input_row_add(struct row *row, int64_t id, float value, struct star_error *err);
/* The size of the byte order mark that spreadsheets write at the beginning of a file; 0: there is none. */
static inline size_t input_byte_order_mark(const char *text)
{
	return strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}
/* Parses a finite number; false: text is anything else. */
bool input_row_real(const char *text, double *value);

/* Parses a line, a string, which is modified. 1; 0: it has no row; -EINVAL with a message that names the column. */
int input_row_parse(enum input_format format, char *line, struct row *row, struct star_error *err);

/*
 * The same for a line of text. With `vocabulary`, a word's id is its place there plus one, or 0 if it is not there.
 * With `learns`, all words are added to it and counted, and ids are those of first occurrence plus one. Both may be
 * NULL.
 */
int input_row_text(const char *line, const struct vocabulary *vocabulary, struct vocabulary *learns, struct row *row,
		   struct star_error *err);

void input_row_fini(struct row *row);

#endif
