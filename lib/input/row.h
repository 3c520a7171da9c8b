/* SPDX-License-Identifier: BSD-3-Clause */
/* A line of a format to a row. Outside bytes: bounded by INPUT_LINE_MAX. Pure, but for the row's memory. */
#ifndef INPUT_ROW_H
#define INPUT_ROW_H

#include <string.h>

#include "input/input.h"

struct row {
	float label;
	uint32_t count;	 /* ids; those of a history behind the others: item, category, item, category ... */
	uint32_t room;	 /* for ids */
	uint32_t number; /* of the row's epoch */
	uint32_t slice;	 /* its place among the open ones */
	float *dense;
	float *more_labels; /* those of further tasks */
	int64_t *ids;
	float *values;
	uint32_t *lengths; /* of lists: ids of each, behind those of all single columns */
};

/* Memory for so many numbers, lists and further labels, of which a row has as many from now on. 0 or -ENOMEM. */
int input_row_room(struct row *row, uint32_t dense, uint32_t lists, uint32_t more_labels);
/* 0; -E2BIG or -ENOMEM with a message. */
int input_row_add(struct row *row, int64_t id, float value, struct star_error *err);
/* The bytes of the mark that spreadsheets write at a file's beginning. */
static inline size_t input_byte_order_mark(const char *text)
{
	return strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}
/* All of text is a finite number. */
bool input_row_real(const char *text, double *value);

/* Parses a line, which is changed; its end is a zero. 1; 0: there is nothing in it; -EINVAL with a message that names
 * the column. */
int input_row_parse(enum input_format format, char *line, struct row *row, struct star_error *err);

/*
 * The same for a line of text. With a vocabulary, ids are its places and one, and 0 for what it lacks. One that learns
 * gets all words, counted; its ids are those of their first sight, and one. Both may be NULL.
 */
int input_row_text(const char *line, const struct vocabulary *vocabulary, struct vocabulary *learns, struct row *row,
		   struct star_error *err);

void input_row_fini(struct row *row);

#endif
