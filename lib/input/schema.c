/* SPDX-License-Identifier: BSD-3-Clause */
#include "input/schema.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "input/columns.h"

enum { WORDS_MAX = 8 /* per line */, LIST_USUAL = 64 };

/* A line while it is parsed. */
struct schema_line {
	struct input_schema *schema;
	const char *file;
	uint32_t number;
	uint32_t count;
	char *words[WORDS_MAX + 1]; /* name, value, name=value ... */
	uint32_t at[WORDS_MAX + 1]; /* the column at which each begins, from 1 */
	bool separator_told, header_told, quotes_told;
	struct star_error *err;
};

__attribute__((format(printf, 3, 4))) static int refuse(const struct schema_line *l, uint32_t word, const char *format,
							...)
{
	char text[400];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	return star_error_set(l->err, -EINVAL, "%.100s:%u:%u: %s", l->file, l->number, l->at[word], text);
}

/* ---- words ---- */

/* Moves a word to its own beginning, without the quotes that parts of it may have. Returns what follows it, or NULL: a
 * quote is open. */
static char *cut_word(char *word)
{
	char *to = word, *at = word;
	bool quoted = false;

	for (; *at && (quoted || !isblank((unsigned char)*at)); at++)
		if (*at != '"')
			*to++ = *at;
		else if (quoted && at[1] == '"')
			*to++ = *at++;
		else
			quoted = !quoted;
	if (quoted)
		return NULL;
	at += *at != 0;
	*to = 0;
	return at;
}

/* 1; 0: the line is empty; or an error. */
static int split_line(struct schema_line *l, char *line)
{
	char *at = line;

	l->count = 0;
	for (;;) {
		at += strspn(at, " \t");
		if (!*at || *at == '#')
			return l->count > 0;
		l->words[l->count] = at;
		l->at[l->count] = (uint32_t)(at - line) + 1;
		if (l->count == WORDS_MAX)
			return refuse(l, l->count,
				      "the line has more than %d words; write a name with blanks in \"quotes\"",
				      WORDS_MAX);
		at = cut_word(at);
		if (!at)
			return refuse(l, l->count, "the quote is not closed in this line");
		l->count++;
	}
}

/* The text after `name=`; NULL: it is another word. */
static char *option_value(const struct schema_line *l, uint32_t word, const char *name)
{
	const size_t bytes = strlen(name);

	return strncmp(l->words[word], name, bytes) == 0 && l->words[word][bytes] == '=' ? l->words[word] + bytes + 1
											 : NULL;
}

/* ---- settings ---- */

static int parse_separator(const struct schema_line *l, uint32_t word, const char *text, char *separator)
{
	static const struct {
		const char *name;
		char is;
	} names[] = { { "tab", '\t' }, { "comma", ',' }, { "semicolon", ';' }, { "space", ' ' }, { "bar", '|' } };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(text, names[i].name)) {
			*separator = names[i].is;
			return 0;
		}
	if (!text[0] || text[1] || !strchr("\t ,;|:!$%&/+*~^@.=_-", text[0]))
		return refuse(l, word,
			      "\"%.40s\" cannot be a separator: write tab, comma, semicolon, space, bar, or one "
			      "character of :!$%%&/+*~^@.=_-",
			      text);
	*separator = text[0];
	return 0;
}

static int parse_yes(const struct schema_line *l, bool *yes)
{
	*yes = !strcmp(l->words[1], "yes");
	return *yes || !strcmp(l->words[1], "no")
		       ? 0
		       : refuse(l, 1, "%s must be yes or no, not \"%.40s\"", l->words[0], l->words[1]);
}

/* 1: it is not a setting. */
static int parse_setting(struct schema_line *l)
{
	struct input_schema *s = l->schema;
	const bool is_separator = !strcmp(l->words[0], "separator"), is_quotes = !strcmp(l->words[0], "quotes");
	bool *told;

	if (!is_separator && !is_quotes && strcmp(l->words[0], "header") != 0)
		return 1;
	if (l->count != 2)
		return refuse(l, 0, "%s must be followed by one word", l->words[0]);
	told = is_separator ? &l->separator_told : is_quotes ? &l->quotes_told : &l->header_told;
	if (*told)
		return refuse(l, 0, "%s was set in an earlier line: remove one of them", l->words[0]);
	*told = true;
	return is_separator ? parse_separator(l, 1, l->words[1], &s->separator)
			    : parse_yes(l, is_quotes ? &s->quotes : &s->header);
}

/* ---- columns ---- */

static int parse_number_option(const struct schema_line *l, uint32_t word, struct schema_column *c)
{
	const char *missing = option_value(l, word, "missing");

	if (!strcmp(l->words[word], "log")) {
		c->scale = SCALE_LOG;
	} else if (!strcmp(l->words[word], "raw")) {
		c->scale = SCALE_RAW;
	} else if (strcmp(l->words[word], "standard") != 0) {
		if (!missing)
			return refuse(l, word,
				      "\"%.40s\": the name of a number may be followed by standard, log or raw, and by "
				      "missing=VALUE",
				      l->words[word]);
		if (!input_row_real(missing, &c->missing))
			return refuse(l, word, "missing=%.40s: give a number", missing);
		c->has_missing = true;
	}
	return 0;
}

static int parse_list_option(const struct schema_line *l, uint32_t word, struct schema_column *c)
{
	const char *separator = option_value(l, word, "separator"), *most = option_value(l, word, "most");
	unsigned long count;
	char *end;

	if (separator)
		return parse_separator(l, word, separator, &c->separator);
	if (!most)
		return refuse(l, word,
			      "\"%.40s\": the name of a list may be followed by separator=CHARACTER and most=COUNT",
			      l->words[word]);
	count = isdigit((unsigned char)*most) ? strtoul(most, &end, 10) : 0;
	if (count == 0 || count > INPUT_SCHEMA_LIST_MAX || *end)
		return refuse(l, word, "most=%.40s is out of range; allowed: 1 to %d", most, INPUT_SCHEMA_LIST_MAX);
	c->most = (uint32_t)count;
	return 0;
}

static int parse_label_option(const struct schema_line *l, uint32_t word, struct schema_column *c)
{
	const char *positive = option_value(l, word, "positive"), *negative = option_value(l, word, "negative");

	if (!positive && !negative)
		return refuse(l, word,
			      "\"%.40s\": the name of a label may be followed by positive=TEXT and negative=TEXT",
			      l->words[word]);
	*(positive ? &c->positive : &c->negative) = positive ? positive : negative;
	return 0;
}

static int parse_option(const struct schema_line *l, uint32_t word, struct schema_column *c)
{
	switch (c->kind) {
	case COLUMN_NUMBER:
		return parse_number_option(l, word, c);
	case COLUMN_LIST:
		return parse_list_option(l, word, c);
	case COLUMN_LABEL:
		return parse_label_option(l, word, c);
	default:
		return refuse(l, word,
			      "\"%.40s\": nothing may follow the name of such a column; write a name with blanks in "
			      "\"quotes\"",
			      l->words[word]);
	}
}

/* Words without '=' say how a number is scaled, so two of them conflict, as two missing= do. */
static int check_column_options(const struct schema_line *l, uint32_t word)
{
	const size_t name = strcspn(l->words[word], "=");
	const bool bare = !l->words[word][name];

	for (uint32_t i = 2; i < word; i++)
		if (bare ? !strchr(l->words[i], '=') : !strncmp(l->words[i], l->words[word], name + 1))
			return refuse(l, word, "\"%.40s\" conflicts with \"%.40s\": remove one of them", l->words[word],
				      l->words[i]);
	return 0;
}

static int check_label(const struct schema_line *l, const struct schema_column *c)
{
	if (c->negative && (!c->positive || !strcmp(c->positive, c->negative)))
		return refuse(l, 0, "negative= needs positive= with another text: give the texts of both classes");
	return 0;
}

/* Counts the column in the shape of rows. */
static int count_column(const struct schema_line *l, const struct schema_column *c)
{
	struct input_shape *shape = &l->schema->shape;

	shape->dense += c->kind == COLUMN_NUMBER;
	shape->fields += c->kind == COLUMN_CATEGORY;
	shape->lists += c->kind == COLUMN_LIST;
	shape->list_ids += c->kind == COLUMN_LIST ? c->most : 0;
	if (shape->fields + shape->list_ids > INPUT_IDS_MAX)
		return refuse(l, 0,
			      "the categories, and the lists at their longest, have more than %d values together: "
			      "decrease most=",
			      INPUT_IDS_MAX);
	return 0;
}

static int parse_column(struct schema_line *l)
{
	static const char *const kinds[] = { [COLUMN_LABEL] = "label",
					     [COLUMN_NUMBER] = "number",
					     [COLUMN_CATEGORY] = "category",
					     [COLUMN_LIST] = "list",
					     [COLUMN_IGNORE] = "ignore" };
	struct input_schema *s = l->schema;
	struct schema_column *c;
	uint32_t kind = 0;
	int rc = 0;

	while (kind < sizeof(kinds) / sizeof(kinds[0]) && strcmp(l->words[0], kinds[kind]) != 0)
		kind++;
	if (kind == sizeof(kinds) / sizeof(kinds[0]))
		return refuse(l, 0,
			      "\"%.40s\": a line must begin with separator, header, quotes, label, number, category, "
			      "list or ignore",
			      l->words[0]);
	if (l->count < 2 || !*l->words[1] || strlen(l->words[1]) > INPUT_SCHEMA_NAME_MAX)
		return refuse(l, 0, "%s must be followed by the column's name, of at most %d bytes", kinds[kind],
			      INPUT_SCHEMA_NAME_MAX);
	if (s->count == INPUT_SCHEMA_COLUMNS_MAX)
		return refuse(l, 0, "there are more than %d columns: leave out what no model needs (cut -f)",
			      INPUT_SCHEMA_COLUMNS_MAX);
	c = &s->columns[s->count++];
	*c = (struct schema_column){
		.kind = kind, .name = l->words[1], .line = l->number, .separator = '|', .most = LIST_USUAL
	};
	for (uint32_t i = 2; rc == 0 && i < l->count; i++) {
		rc = parse_option(l, i, c);
		if (rc == 0)
			rc = check_column_options(l, i);
	}
	if (rc == 0)
		rc = check_label(l, c);
	return rc == 0 ? count_column(l, c) : rc;
}

/* ---- the whole ---- */

static int compare_names(const void *a, const void *b, void *columns)
{
	const struct schema_column *c = columns;
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const int order = strcmp(c[x].name, c[y].name);

	return order ? order : x < y ? -1 : x > y;
}

static int sort_names(struct input_schema *s, const char *file, struct star_error *err)
{
	for (uint32_t i = 0; i < s->count; i++)
		s->by_name[i] = i;
	qsort_r(s->by_name, s->count, sizeof(*s->by_name), compare_names, s->columns);
	for (uint32_t i = 1; i < s->count; i++) {
		const struct schema_column *first = &s->columns[s->by_name[i - 1]],
					   *second = &s->columns[s->by_name[i]];

		if (!strcmp(first->name, second->name))
			return star_error_set(err, -EINVAL,
					      "%.100s:%u:1: there is already a column \"%.100s\" in line %u: give this "
					      "one another name",
					      file, second->line, second->name, first->line);
	}
	return 0;
}

static int check_whole(struct input_schema *s, const char *file, struct star_error *err)
{
	uint32_t labels = 0;

	for (uint32_t i = 0; i < s->count; i++) {
		const struct schema_column *c = &s->columns[i];

		labels += c->kind == COLUMN_LABEL;
		if (labels > INPUT_SCHEMA_LABELS_MAX)
			return star_error_set(
				err, -EINVAL,
				"%.100s:%u:1: there are more than %d labels: write the others as number or ignore",
				file, c->line, INPUT_SCHEMA_LABELS_MAX);
		if (c->kind == COLUMN_LIST && c->separator == s->separator)
			return star_error_set(err, -EINVAL,
					      "%.100s:%u:1: the list's separator also separates columns: give the list "
					      "another one (separator=)",
					      file, c->line);
	}
	if (!labels)
		return star_error_set(err, -EINVAL, "%.100s: there is no label: add a line \"label NAME\"", file);
	if (s->shape.dense + s->shape.fields + s->shape.lists == 0)
		return star_error_set(err, -EINVAL,
				      "%.100s: there are no features: add columns (number, category or list)", file);
	s->shape.more_labels = labels - 1;
	return 0;
}

static int parse_lines(struct input_schema *s, const char *name, struct star_error *err)
{
	struct schema_line l = { .schema = s, .file = name, .err = err };
	char *rest = s->text + input_byte_order_mark(s->text), *line;

	while ((line = strsep(&rest, "\n"))) {
		size_t bytes;
		int rc;

		l.number++;
		bytes = strlen(line);
		if (bytes && line[bytes - 1] == '\r')
			line[--bytes] = 0;
		if (strchr(line, '\r'))
			return star_error_set(err, -EINVAL,
					      "%.100s:%u: there is a carriage return within the line: lines must end "
					      "in \\n or \\r\\n",
					      name, l.number);
		rc = split_line(&l, line);
		if (rc > 0)
			rc = parse_setting(&l);
		if (rc > 0)
			rc = parse_column(&l);
		if (rc < 0)
			return rc;
	}
	if (!l.quotes_told)
		s->quotes = s->separator == ',' || s->separator == ';';
	return check_whole(s, name, err);
}

static uint32_t line_of(const char *text, const char *at)
{
	uint32_t line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

struct input_schema *input_schema_parse(const char *text, size_t bytes, const char *name, struct star_error *err)
{
	const char *zero = memchr(text, 0, bytes);
	struct input_schema *s;
	int rc;

	if (zero) {
		star_error_set(err, -EINVAL, "%.100s:%u: there is a zero byte: a schema must be plain text", name,
			       line_of(text, zero));
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (s) {
		s->text = strndup(text, bytes);
		s->columns = calloc(INPUT_SCHEMA_COLUMNS_MAX, sizeof(*s->columns));
		s->by_name = calloc(INPUT_SCHEMA_COLUMNS_MAX, sizeof(*s->by_name));
		s->separator = '\t';
		s->shape.columns = true;
	}
	rc = s && s->text && s->columns && s->by_name ? parse_lines(s, name, err)
						      : star_error_set(err, -ENOMEM, "no memory for a schema");
	if (rc == 0)
		rc = sort_names(s, name, err);
	if (rc == 0)
		return s;
	input_schema_destroy(s);
	return NULL;
}

static int64_t read_whole(const char *path, char *text, struct star_error *err)
{
	const int fd = base_open_file(AT_FDCWD, path, 0);
	int64_t bytes;

	if (fd < 0)
		return star_error_set(err, fd, "cannot read the schema %.200s: %s", path, base_open_error(fd));
	bytes = base_read_all(fd, text, INPUT_SCHEMA_BYTES_MAX + 1);
	if (bytes < 0)
		star_error_set(err, (int)bytes, "cannot read the schema %.200s: %s", path,
			       strerrordesc_np((int)-bytes));
	else if (bytes > INPUT_SCHEMA_BYTES_MAX)
		bytes = star_error_set(err, -E2BIG,
				       "%.200s has more than %d bytes: a schema has one line per column; files of "
				       "examples are given with --train",
				       path, INPUT_SCHEMA_BYTES_MAX);
	close(fd);
	return bytes;
}

struct input_schema *input_schema_read(const char *path, struct star_error *err)
{
	char *text = malloc(INPUT_SCHEMA_BYTES_MAX + 1);
	struct input_schema *s = NULL;
	int64_t bytes;

	if (!text) {
		star_error_set(err, -ENOMEM, "no memory for a schema");
		return NULL;
	}
	bytes = read_whole(path, text, err);
	if (bytes >= 0)
		s = input_schema_parse(text, (size_t)bytes, path, err);
	free(text);
	return s;
}

void input_schema_destroy(struct input_schema *s)
{
	if (!s)
		return;
	free(s->text);
	free(s->columns);
	free(s->by_name);
	free(s);
}

int input_schema_column(const struct input_schema *s, const char *text, struct star_error *err)
{
	unsigned long number = INPUT_SCHEMA_COLUMNS_MAX;
	uint32_t i = 0;
	char *end;

	while (i < s->count && strcmp(s->columns[i].name, text) != 0)
		i++;
	if (i == s->count && isdigit((unsigned char)*text)) {
		number = strtoul(text, &end, 10);
		if (!*end && number < s->count)
			i = (uint32_t)number;
	}
	if (i == s->count)
		return star_error_set(
			err, -EINVAL,
			"there is no column \"%.40s\": give a name of the schema, or a number from 0 to %u", text,
			s->count - 1);
	if (s->columns[i].kind != COLUMN_CATEGORY && s->columns[i].kind != COLUMN_LIST)
		return star_error_set(err, -EINVAL, "column \"%.40s\" has no keys: it is neither a category nor a list",
				      text);
	return (int)i;
}

struct input_shape input_schema_shape(const struct input_schema *s)
{
	return s->shape;
}

bool input_schema_is_standardized(const struct input_schema *s, uint32_t number)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->columns[i].kind == COLUMN_NUMBER && number-- == 0)
			return s->columns[i].scale == SCALE_STANDARD;
	return false;
}

const char *input_schema_label(const struct input_schema *s, uint32_t number)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->columns[i].kind == COLUMN_LABEL && number-- == 0)
			return s->columns[i].name;
	return NULL;
}
