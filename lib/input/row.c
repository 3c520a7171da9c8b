/* SPDX-License-Identifier: BSD-3-Clause */
#include "input/row.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { CRITEO_NUMBERS = 13, CRITEO_WORDS = 26, CENSUS_COLUMNS = 15 };
enum { HISTORY_LABEL, HISTORY_USER, HISTORY_ITEM, HISTORY_CATEGORY, HISTORY_CLICKS, HISTORY_COLUMNS };

/* The numeric columns of census in the file's order; the others are categorical. The label is the last. */
static const struct {
	const char *name;
	bool number;
} census[CENSUS_COLUMNS] = {
	{ "age", true },
	{ "workclass", false },
	{ "fnlwgt", true },
	{ "education", false },
	{ "education-num", true },
	{ "marital-status", false },
	{ "occupation", false },
	{ "relationship", false },
	{ "race", false },
	{ "sex", false },
	{ "capital-gain", true },
	{ "capital-loss", true },
	{ "hours-per-week", true },
	{ "native-country", false },
	{ "label", false },
};

enum input_format input_format_parse(const char *name, struct star_error *err)
{
	if (!strcmp(name, "criteo"))
		return INPUT_CRITEO;
	if (!strcmp(name, "census"))
		return INPUT_CENSUS;
	if (!strcmp(name, "libsvm"))
		return INPUT_LIBSVM;
	if (!strcmp(name, "text"))
		return INPUT_TEXT;
	if (!strcmp(name, "histories"))
		return INPUT_HISTORIES;
	star_error_set(err, -EINVAL, "\"%.40s\" is not a format; give criteo, census, libsvm, text or histories", name);
	return 0;
}

/* A format's categorical column by its name, or by its number if that is not negative; -1: there is none, and text gets
 * the names. */
static int named_column(enum input_format format, const char *name, long number, char text[static 256])
{
	static const char *const histories[] = {
		[HISTORY_USER] = "user", [HISTORY_ITEM] = "item", [HISTORY_CATEGORY] = "category"
	};
	const int columns = format == INPUT_CENSUS ? CENSUS_COLUMNS - 1 : HISTORY_CLICKS;
	size_t used = 0;

	for (int i = format == INPUT_CENSUS ? 0 : HISTORY_USER; i < columns; i++) {
		const char *own = format == INPUT_CENSUS ? census[i].name : histories[i];

		if (format == INPUT_CENSUS && census[i].number)
			continue;
		if (!strcmp(name, own) || number == i)
			return i;
		used += (size_t)snprintf(text + used, 256 - used, "%s%s", used ? ", " : "", own);
	}
	return -1;
}

int input_column(enum input_format format, const char *text, struct star_error *err)
{
	const bool criteo = format == INPUT_CRITEO;
	const long least = criteo ? 1 + CRITEO_NUMBERS : 0;
	const long most = criteo ? CRITEO_NUMBERS + CRITEO_WORDS : INPUT_COLUMN_MAX;
	char names[256];
	char *end;
	long number;
	int column;

	if (format == INPUT_LIBSVM)
		return star_error_set(err, -EINVAL,
				      "libsvm has no columns to choose: its keys are the numbers in its files");
	if (format == INPUT_TEXT)
		return star_error_set(err, -EINVAL,
				      "a text has no columns to choose: the key of a word is its rank by frequency in "
				      "the training files");
	errno = 0;
	number = strtol(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || number > INPUT_COLUMN_MAX)
		number = -1;
	if (format != INPUT_CENSUS && format != INPUT_HISTORIES)
		return number >= least && number <= most
			       ? (int)number
			       : star_error_set(err, -EINVAL, "column \"%.40s\": %s give a number from %ld to %ld",
						text,
						criteo ? "criteo's categorical columns have no names:"
						       : "without a format or a schema columns have no names:",
						least, most);
	column = named_column(format, text, number, names);
	return column >= 0
		       ? column
		       : star_error_set(err, -EINVAL, "there is no categorical column \"%.40s\"; the columns are %s",
					text, names);
}

struct input_shape input_shape(enum input_format format)
{
	return format == INPUT_CRITEO
		       ? (struct input_shape){ .dense = CRITEO_NUMBERS, .fields = CRITEO_WORDS, .columns = true }
	       : format == INPUT_CENSUS	   ? (struct input_shape){ .dense = 6, .fields = 8, .columns = true }
	       : format == INPUT_HISTORIES ? (struct input_shape){ .fields = HISTORY_CLICKS - HISTORY_USER,
								   .columns = true,
								   .history = true }
					   : (struct input_shape){ .fields = 0 };
}

void input_row_fini(struct row *row)
{
	free(row->ids);
	free(row->values);
	free(row->dense);
	free(row->more_labels);
	free(row->lengths);
}

int input_row_room(struct row *row, uint32_t dense, uint32_t lists, uint32_t more_labels)
{
	if (!row->dense)
		row->dense = calloc(dense + 1, sizeof(*row->dense));
	if (!row->lengths && lists)
		row->lengths = calloc(lists, sizeof(*row->lengths));
	if (!row->more_labels && more_labels)
		row->more_labels = calloc(more_labels, sizeof(*row->more_labels));
	return row->dense && (row->lengths || !lists) && (row->more_labels || !more_labels) ? 0 : -ENOMEM;
}

int input_row_add(struct row *row, int64_t id, float value, struct star_error *err)
{
	if (row->count == INPUT_IDS_MAX)
		return star_error_set(err, -E2BIG, "a row has more than %d ids", INPUT_IDS_MAX);
	if (row->count == row->room) {
		const uint32_t more = row->room ? 2 * row->room : 32;
		int64_t *ids = realloc(row->ids, more * sizeof(*ids));
		float *values;

		if (ids)
			row->ids = ids;
		values = realloc(row->values, more * sizeof(*values));
		if (values)
			row->values = values;
		if (!ids || !values)
			return star_error_set(err, -ENOMEM, "no memory for a row of %u ids", more);
		row->room = more;
	}
	row->ids[row->count] = id;
	row->values[row->count++] = value;
	return 0;
}

/* The id of a text in a column; never negative. */
static int64_t word_id(unsigned column, const char *word)
{
	return (int64_t)hash_word(column, word);
}

bool input_row_real(const char *text, double *value)
{
	char *end;

	if (isspace((unsigned char)*text))
		return false;
	*value = strtod(text, &end);
	return end != text && !*end && isfinite(*value) && fabs(*value) <= 3e38;
}

static int parse_click_label(const char *word, struct row *row, struct star_error *err)
{
	if (strcmp(word, "0") != 0 && strcmp(word, "1") != 0)
		return star_error_set(err, -EINVAL, "column 1: the label must be 0 or 1, not \"%.40s\"", word);
	row->label = *word == '1';
	return 0;
}

static int parse_criteo(char *line, struct row *row, struct star_error *err)
{
	char *at = line, *word;
	unsigned column = 0;
	double value;

	while ((word = strsep(&at, "\t"))) {
		if (column == 0) {
			if (parse_click_label(word, row, err) < 0)
				return -EINVAL;
		} else if (column <= CRITEO_NUMBERS) {
			value = 0;
			if (*word && !input_row_real(word, &value))
				return star_error_set(err, -EINVAL, "column %u: \"%.40s\" is not a number", column + 1,
						      word);
			row->dense[column - 1] = value > 0 ? (float)log1p(value) : 0;
		} else if (column <= CRITEO_NUMBERS + CRITEO_WORDS) {
			const int status = input_row_add(row, word_id(column, word), 1, err);

			if (status < 0)
				return status;
		}
		column++;
	}
	if (column != 1 + CRITEO_NUMBERS + CRITEO_WORDS)
		return star_error_set(
			err, -EINVAL,
			"the line has %u columns, not %d (label, %d numbers and %d categories, separated by tabs)",
			column, 1 + CRITEO_NUMBERS + CRITEO_WORDS, CRITEO_NUMBERS, CRITEO_WORDS);
	return 1;
}

static int parse_census(char *line, struct row *row, struct star_error *err)
{
	unsigned column = 0, dense = 0;
	char *at = line, *word;
	double value;

	if (*line == '|')
		return 0;
	while ((word = strsep(&at, ","))) {
		word += strspn(word, " ");
		if (column == CENSUS_COLUMNS - 1) {
			if (strncmp(word, ">50K", 4) != 0 && strncmp(word, "<=50K", 5) != 0)
				return star_error_set(err, -EINVAL,
						      "column %d (label): \"%.40s\" is neither <=50K nor >50K",
						      CENSUS_COLUMNS, word);
			row->label = *word == '>';
		} else if (column < CENSUS_COLUMNS && census[column].number) {
			if (!input_row_real(word, &value))
				return star_error_set(err, -EINVAL, "column %u (%s): \"%.40s\" is not a number",
						      column + 1, census[column].name, word);
			row->dense[dense++] = (float)value;
		} else if (column < CENSUS_COLUMNS) {
			const int status = input_row_add(row, word_id(column, word), 1, err);

			if (status < 0)
				return status;
		}
		column++;
	}
	if (column != CENSUS_COLUMNS)
		return star_error_set(err, -EINVAL, "the line has %u columns, not %d, separated by commas", column,
				      CENSUS_COLUMNS);
	return 1;
}

/* "index:value" */
static int parse_pair(char *word, struct row *row, struct star_error *err)
{
	char *colon = strchr(word, ':'), *end;
	double value;
	long long index;

	errno = 0;
	index = isdigit((unsigned char)*word) ? strtoll(word, &end, 10) : -1;
	if (!colon || index < 0 || errno || end != colon || !input_row_real(colon + 1, &value))
		return star_error_set(err, -EINVAL, "\"%.40s\" is not index:value", word);
	return input_row_add(row, index, (float)value, err);
}

static int parse_libsvm(char *line, struct row *row, struct star_error *err)
{
	char *at = line, *word;
	bool labelled = false;
	double value;

	line[strcspn(line, "#")] = 0;
	while ((word = strsep(&at, " \t"))) {
		int status = 0;

		if (!*word)
			continue;
		if (labelled) {
			status = parse_pair(word, row, err);
		} else {
			if (!input_row_real(word, &value) || (value != 0 && fabs(value) != 1))
				return star_error_set(err, -EINVAL,
						      "the label must be 0 or 1 (-1 counts as 0), not \"%.40s\"", word);
			row->label = value == 1;
			labelled = true;
		}
		if (status < 0)
			return status;
	}
	return labelled;
}

/* "item:category item:category ...", or nothing */
static int parse_clicks(char *text, struct row *row, struct star_error *err)
{
	char *word;

	while ((word = strsep(&text, " "))) {
		char *category = strchr(word, ':');
		int status;

		if (!*word && row->count == HISTORY_CLICKS - HISTORY_USER && !text)
			break;
		if (!category || category == word || !category[1] || strchr(category + 1, ':'))
			return star_error_set(err, -EINVAL, "column %d: \"%.40s\" is not item:category",
					      HISTORY_CLICKS + 1, word);
		*category++ = 0;
		status = input_row_add(row, word_id(HISTORY_ITEM, word), 1, err);
		if (status == 0)
			status = input_row_add(row, word_id(HISTORY_CATEGORY, category), 1, err);
		if (status < 0)
			return status;
	}
	return 0;
}

static int parse_history(char *line, struct row *row, struct star_error *err)
{
	unsigned column = 0;
	char *at = line, *word;
	int status = 0;

	for (; (word = strsep(&at, "\t")); column++) {
		if (column == HISTORY_LABEL)
			status = parse_click_label(word, row, err);
		else if (column == HISTORY_CLICKS)
			status = parse_clicks(word, row, err);
		else if (column < HISTORY_CLICKS)
			status = *word ? input_row_add(row, word_id(column, word), 1, err)
				       : star_error_set(err, -EINVAL, "column %u is empty", column + 1);
		if (status < 0)
			return status;
	}
	if (column != HISTORY_COLUMNS)
		return star_error_set(
			err, -EINVAL,
			"the line has %u columns, not %d (label, user, item, category and history, separated by tabs)",
			column, HISTORY_COLUMNS);
	return 1;
}

int input_row_parse(enum input_format format, char *line, struct row *row, struct star_error *err)
{
	size_t bytes = strlen(line);

	row->count = 0;
	if (input_row_room(row, input_shape(format).dense, 0, 0) < 0)
		return star_error_set(err, -ENOMEM, "no memory for a row");
	while (bytes && (line[bytes - 1] == '\n' || line[bytes - 1] == '\r'))
		line[--bytes] = 0;
	if (!line[strspn(line, " \t")])
		return 0;
	return format == INPUT_CRITEO	   ? parse_criteo(line, row, err)
	       : format == INPUT_CENSUS	   ? parse_census(line, row, err)
	       : format == INPUT_HISTORIES ? parse_history(line, row, err)
					   : parse_libsvm(line, row, err);
}

int input_row_text(const char *line, const struct vocabulary *vocabulary, struct vocabulary *learns, struct row *row,
		   struct star_error *err)
{
	struct line_words words = input_line_words_begin(line, strlen(line));
	char text[VOCABULARY_WORD_BYTES];
	size_t length;

	row->count = 0;
	row->label = 0;
	while ((length = input_line_words_next(&words, text)) > 0) {
		uint32_t place = VOCABULARY_NONE;
		int64_t id = 0;
		int rc;

		if (learns) {
			rc = vocabulary_add(learns, text, length, &place, err);
			if (rc < 0)
				return rc;
			learns->words[place].count++;
		} else if (vocabulary) {
			place = vocabulary_find(vocabulary, text);
		} else {
			id = word_id(0, text);
		}
		rc = input_row_add(row, place == VOCABULARY_NONE ? id : (int64_t)place + 1, 1, err);
		if (rc < 0)
			return rc;
	}
	return row->count > 0;
}
