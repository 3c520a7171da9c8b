/* SPDX-License-Identifier: BSD-3-Clause */
#include "input/columns.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

int input_columns_init(struct columns *c, const struct input_schema *schema)
{
	*c = (struct columns){ .schema = schema, .count = schema->count };
	c->place = calloc(schema->count, sizeof(*c->place));
	c->words = calloc(schema->count + 1, sizeof(*c->words));
	if (!c->place || !c->words)
		return -ENOMEM;
	for (uint32_t i = 0; i < schema->count; i++)
		c->place[i] = i;
	return 0;
}

void input_columns_fini(struct columns *c)
{
	free(c->place);
	free(c->words);
}

/* ---- a line's words ---- */

/* Moves a quoted value to its own beginning, without the quotes. Returns what follows it, after blanks that are not
 * separators: the separator or the end; NULL: neither. */
static char *unquote(char *word, char separator)
{
	char *to = word, *at = word + 1;

	for (;; at++) {
		if (!*at)
			return NULL;
		if (*at == '"' && *++at != '"') /* two quotes stand for one */
			break;
		*to++ = *at;
	}
	if (separator != ' ')
		at += strspn(at, " ");
	*to = 0; /* overwrites a byte of the quoted value, or a quote */
	return at;
}

static char *trim_word(char *word, char *end)
{
	word += strspn(word, " ");
	while (end > word && end[-1] == ' ')
		*--end = 0;
	return word;
}

/* Splits a line in place. Returns the number of values, of which c->words has as many as fit; or an error. */
static int64_t split_words(struct columns *c, char *line, struct star_error *err)
{
	const char separator = c->schema->separator;
	int64_t count = 0;
	char *at = line;

	for (;;) {
		char *word = separator == ' ' ? at : at + strspn(at, " "), *end;
		bool last;

		if (c->schema->quotes && *word == '"') {
			end = unquote(word, separator);
			if (!end || (*end && *end != separator))
				return star_error_set(err, -EINVAL,
						      "column %lld: a quoted value is not closed before the end of the "
						      "line, or text follows the closing quote; if quotes have no "
						      "meaning in these files, write \"quotes no\" in the schema",
						      (long long)count + 1);
			last = !*end;
		} else {
			end = strchrnul(word, separator);
			last = !*end;
			*end = 0;
			if (separator != ' ')
				word = trim_word(word, end);
		}
		if (count <= c->schema->count) /* including the first excess value, which the error names */
			c->words[count] = word;
		count++;
		if (last)
			return count;
		at = end + 1;
	}
}

static char *without_line_end(char *line)
{
	size_t bytes = strlen(line);

	while (bytes && (line[bytes - 1] == '\n' || line[bytes - 1] == '\r'))
		line[--bytes] = 0;
	return line;
}

/* ---- the header ---- */

static uint32_t find_column(const struct input_schema *s, const char *name)
{
	uint32_t low = 0, high = s->count;

	while (low < high) {
		const uint32_t middle = (low + high) / 2, at = s->by_name[middle];
		const int order = strcmp(name, s->columns[at].name);

		if (order == 0)
			return at;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return UINT32_MAX;
}

int input_columns_header(struct columns *c, char *line, struct star_error *err)
{
	const struct input_schema *s = c->schema;
	int64_t count;

	line += input_byte_order_mark(line);
	for (uint32_t i = 0; i < s->count; i++)
		c->place[i] = UINT32_MAX;
	count = split_words(c, without_line_end(line), err);
	if (count < 0)
		return (int)count;
	for (uint32_t i = 0; i < count && i <= s->count; i++) {
		const uint32_t column = find_column(s, c->words[i]);

		if (column == UINT32_MAX)
			return star_error_set(
				err, -EINVAL,
				"column %u: the schema has no \"%.100s\": add it there, as \"ignore\" if it is not "
				"wanted",
				i + 1, c->words[i]);
		if (c->place[column] != UINT32_MAX)
			return star_error_set(err, -EINVAL,
					      "column %u: the header has \"%.100s\" twice: rename one in the file",
					      i + 1, c->words[i]);
		c->place[column] = i;
	}
	for (uint32_t i = 0; i < s->count; i++)
		if (c->place[i] == UINT32_MAX)
			return star_error_set(
				err, -EINVAL,
				"the header has no column \"%.100s\", which line %u of the schema names%s",
				s->columns[i].name, s->columns[i].line,
				count == 1 && s->count > 1 ? "; the header has one column only: is the separator right?"
							   : "");
	return 0;
}

/* ---- rows ---- */

static int parse_label(const struct schema_column *c, const char *word, float *label)
{
	if (c->positive) {
		*label = !strcmp(word, c->positive);
		return *label == 0 && c->negative && strcmp(word, c->negative) != 0 ? -EINVAL : 0;
	}
	if (strcmp(word, "0") != 0 && strcmp(word, "1") != 0)
		return -EINVAL;
	*label = *word == '1';
	return 0;
}

static int refuse_label(const struct schema_column *c, uint32_t place, const char *word, struct star_error *err)
{
	if (c->positive)
		return star_error_set(err, -EINVAL,
				      "column %u (%.100s): the label \"%.40s\" is neither \"%.40s\" nor \"%.40s\"",
				      place + 1, c->name, word, c->positive, c->negative);
	return star_error_set(err, -EINVAL,
			      "column %u (%.100s): the label must be 0 or 1, not \"%.40s\"; for other texts write "
			      "positive=TEXT in the schema",
			      place + 1, c->name, word);
}

static int parse_number(const struct schema_column *c, uint32_t place, const char *word, float *number,
			struct star_error *err)
{
	double value = c->missing;

	if (!*word && !c->has_missing && c->scale != SCALE_LOG)
		return star_error_set(
			err, -EINVAL,
			"column %u (%.100s) is empty: give a default for empty values in the schema, as in missing=0",
			place + 1, c->name);
	if (*word && !input_row_real(word, &value))
		return star_error_set(err, -EINVAL, "column %u (%.100s): \"%.40s\" is not a number", place + 1, c->name,
				      word);
	*number = c->scale == SCALE_LOG ? value > 0 ? (float)log1p(value) : 0 : (float)value;
	return 0;
}

static int64_t id_of(uint32_t column, const char *word)
{
	return (int64_t)hash_word(column, word);
}

static int parse_list(const struct schema_column *c, uint32_t column, uint32_t place, char *words, struct row *row,
		      uint32_t *length, struct star_error *err)
{
	const char separator[] = { c->separator, 0 };
	char *word;

	*length = 0;
	while (*words && (word = strsep(&words, separator))) {
		word = trim_word(word, word + strlen(word));
		if (!*word)
			return star_error_set(err, -EINVAL, "column %u (%.100s): value %u of the list is empty",
					      place + 1, c->name, *length + 1);
		if (++*length > c->most)
			return star_error_set(
				err, -E2BIG,
				"column %u (%.100s): the list has more than %u values: increase most= in the schema",
				place + 1, c->name, c->most);
		if (input_row_add(row, id_of(column, word), 1, err) < 0)
			return err->code;
		if (!words)
			break;
		if (!*words)
			return star_error_set(err, -EINVAL, "column %u (%.100s): value %u of the list is empty",
					      place + 1, c->name, *length + 1);
	}
	return 0;
}

/* Parses columns of all kinds except lists. */
static int parse_single(const struct schema_column *c, uint32_t column, uint32_t place, const char *word,
			struct row *row, uint32_t *number, uint32_t *label, struct star_error *err)
{
	switch (c->kind) {
	case COLUMN_LABEL:
		if (parse_label(c, word, *label ? &row->more_labels[*label - 1] : &row->label) < 0)
			return refuse_label(c, place, word, err);
		++*label;
		return 0;
	case COLUMN_NUMBER:
		return parse_number(c, place, word, &row->dense[(*number)++], err);
	case COLUMN_CATEGORY:
		return input_row_add(row, id_of(column, word), 1, err);
	default:
		return 0;
	}
}

static int parse_lists(struct columns *c, struct row *row, struct star_error *err)
{
	uint32_t list = 0;

	for (uint32_t i = 0; i < c->schema->count; i++) {
		const struct schema_column *column = &c->schema->columns[i];
		int rc = 0;

		if (column->kind == COLUMN_LIST)
			rc = parse_list(column, i, c->place[i], c->words[c->place[i]], row, &row->lengths[list++], err);
		if (rc < 0)
			return rc;
	}
	return 1;
}

int input_columns_row(struct columns *c, char *line, struct row *row, struct star_error *err)
{
	const struct input_schema *s = c->schema;
	uint32_t number = 0, label = 0;
	int64_t count;

	row->count = 0;
	without_line_end(line);
	if (!*line)
		return 0;
	if (input_row_room(row, s->shape.dense, s->shape.lists, s->shape.more_labels) < 0)
		return star_error_set(err, -ENOMEM, "no memory for a row");
	count = split_words(c, line, err);
	if (count < 0)
		return (int)count;
	if (count != s->count)
		return star_error_set(err, -EINVAL, "the line has %lld columns, but the schema has %u%s",
				      (long long)count, s->count, count == 1 ? ": is the separator right?" : "");
	for (uint32_t i = 0; i < s->count; i++) {
		const int rc =
			parse_single(&s->columns[i], i, c->place[i], c->words[c->place[i]], row, &number, &label, err);

		if (rc < 0)
			return rc;
	}
	return parse_lists(c, row, err);
}
