/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses a graph's text: words, numbers, values of attributes. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text_internal.h"

enum { WORD_MAX = 63 }; /* bytes per number */

void *graph_reader_memory(struct reader *r, struct block **blocks, size_t bytes)
{
	struct block *block = malloc(sizeof(*block) + bytes);

	if (!block) {
		graph_reader_fail(r, "out of memory");
		return NULL;
	}
	block->next = *blocks;
	*blocks = block;
	return block->data;
}

bool graph_reader_fail(struct reader *r, const char *format, ...)
{
	char text[400];
	va_list args;

	if (r->failed)
		return false;
	r->failed = true;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	star_error_set(r->err, -EINVAL, "%s:%u:%zu: %s", r->file, r->line, (size_t)(r->at - r->line_start) + 1, text);
	return false;
}

bool graph_reader_expected(struct reader *r, const char *what)
{
	if (r->at == r->end)
		return graph_reader_fail(r, "expected %s, but the text ends", what);
	if (*r->at == '\n' || *r->at == '\r')
		return graph_reader_fail(r, "expected %s, but the line ends", what);
	if (*r->at < ' ' || *r->at > '~')
		return graph_reader_fail(r, "expected %s, not byte 0x%02x", what, (unsigned char)*r->at);
	return graph_reader_fail(r, "expected %s, not '%c'", what, *r->at);
}

void graph_reader_skip(struct reader *r, bool lines)
{
	for (; r->at < r->end; r->at++) {
		if (*r->at == '#')
			while (r->at < r->end && *r->at != '\n')
				r->at++;
		if (r->at == r->end || (*r->at == '\n' && !lines))
			return;
		if (*r->at == '\n') {
			r->line++;
			r->line_start = r->at + 1;
		} else if (*r->at != ' ' && *r->at != '\t' && *r->at != '\r') {
			return;
		}
	}
}

bool graph_reader_take(struct reader *r, char c, bool lines)
{
	graph_reader_skip(r, lines);
	if (r->at == r->end || *r->at != c)
		return false;
	if (c == '\n') {
		r->line++;
		r->line_start = r->at + 1;
	}
	r->at++;
	return true;
}

bool graph_reader_want(struct reader *r, char c, bool lines)
{
	const char text[] = { '\'', c, '\'', 0 };

	return graph_reader_take(r, c, lines) || graph_reader_expected(r, c == '\n' ? "the end of the line" : text);
}

/* How many of the next bytes are in the set. */
static size_t span(const struct reader *r, const char *more)
{
	size_t n = 0;

	while (r->at + n < r->end) {
		const char c = r->at[n];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      (c && strchr(more, c))))
			break;
		n++;
	}
	return n;
}

bool graph_reader_name(struct reader *r, char name[static TEXT_NAME_MAX + 1], const char *what)
{
	const size_t n = span(r, "_./-");

	if (n == 0)
		return graph_reader_expected(r, what);
	if (n > TEXT_NAME_MAX)
		return graph_reader_fail(r, "a name has %zu bytes; at most %d are allowed", n, TEXT_NAME_MAX);
	memcpy(name, r->at, n);
	name[n] = 0;
	r->at += n;
	return true;
}

/* Reads the next number as text. */
static bool read_word(struct reader *r, char word[static WORD_MAX + 1], const char *what)
{
	const size_t n = span(r, "+-.");

	if (n == 0 || n > WORD_MAX)
		return graph_reader_expected(r, what);
	memcpy(word, r->at, n);
	word[n] = 0;
	return true;
}

/* Whether a word is an integer; reports no error. */
static bool is_int(const char *word, int64_t *value)
{
	const char *digits = word + (*word == '-' || *word == '+');
	char *end;

	if (!*digits || digits[strspn(digits, "0123456789")])
		return false;
	errno = 0;
	*value = strtoll(word, &end, 10);
	return errno == 0;
}

static bool is_float(const char *word, double *value)
{
	char *end;

	*value = strtod(word, &end);
	return !*end;
}

bool graph_reader_int(struct reader *r, int64_t *value)
{
	char word[WORD_MAX + 1];

	graph_reader_skip(r, true);
	if (!read_word(r, word, "an integer"))
		return false;
	if (!is_int(word, value))
		return graph_reader_fail(r, "expected an integer of 64 bits, not %s", word);
	r->at += strlen(word);
	return true;
}

/* The largest number of elements that the rest of the text can have. */
static size_t left(const struct reader *r)
{
	return (size_t)(r->end - r->at) + 1;
}

/* "[1, 2]" */
static bool read_ints(struct reader *r, int64_t *ints, uint32_t most, uint32_t *count)
{
	*count = 0;
	if (!graph_reader_want(r, '[', false))
		return false;
	if (graph_reader_take(r, ']', true))
		return true;
	do {
		if (*count == most)
			return graph_reader_fail(r, "a list has more than %u integers", most);
		if (!graph_reader_int(r, &ints[(*count)++]))
			return false;
	} while (graph_reader_take(r, ',', true));
	return graph_reader_want(r, ']', true);
}

/* ---- tensors ---- */

static bool read_element(struct reader *r, unsigned dtype, void *data, uint64_t i)
{
	char word[WORD_MAX + 1], *end;
	double value = 0;
	int64_t whole = 0;

	graph_reader_skip(r, true);
	if (!read_word(r, word, "a number"))
		return false;
	if (dtype == STAR_FLOAT32 || dtype == STAR_FLOAT64) {
		if (!is_float(word, &value))
			return graph_reader_fail(r, "expected a number, not %s", word);
	} else if (!is_int(word, &whole) || (dtype == STAR_INT32 && (whole < INT32_MIN || whole > INT32_MAX))) {
		return graph_reader_fail(r, "expected an %s, not %s", dtype_name(dtype), word);
	}
	if (dtype == STAR_FLOAT32)
		((float *)data)[i] = strtof(word, &end); /* not by way of double, which would round twice */
	else if (dtype == STAR_FLOAT64)
		((double *)data)[i] = value;
	else if (dtype == STAR_INT32)
		((int32_t *)data)[i] = (int32_t)whole;
	else
		((int64_t *)data)[i] = whole;
	r->at += strlen(word);
	return true;
}

static bool read_numbers(struct reader *r, unsigned dtype, void *data, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		if ((i && !graph_reader_want(r, ',', true)) || !read_element(r, dtype, data, i))
			return false;
	return graph_reader_want(r, '}', true);
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Two hexadecimal digits in lower case; -1: they are not. */
static int two_digits(const struct reader *r)
{
	if (r->end - r->at < 2 || digit(r->at[0]) < 0 || digit(r->at[1]) < 0)
		return -1;
	return digit(r->at[0]) << 4 | digit(r->at[1]);
}

static bool read_digits(struct reader *r, uint8_t *data, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++, r->at += 2) {
		const int byte = two_digits(r);

		if (byte < 0)
			return graph_reader_expected(r, "two hexadecimal digits");
		data[i] = (uint8_t)byte;
	}
	return graph_reader_want(r, '>', false);
}

/* "float32[2]{1, 2.5}" or "float32[2]<0000803f00002040>" */
static bool read_tensor(struct reader *r, struct graph_attr *attr, struct block **blocks)
{
	char name[TEXT_NAME_MAX + 1];
	uint32_t ndim;
	uint64_t count = 1;
	void *data;

	attr->kind = GRAPH_TENSOR;
	attr->type = (struct graph_type){ 0 };
	if (!graph_reader_name(r, name, "a value"))
		return false;
	attr->type.dtype = (uint8_t)dtype_parse(name);
	if (attr->type.dtype != STAR_FLOAT32 && attr->type.dtype != STAR_FLOAT64 && attr->type.dtype != STAR_INT32 &&
	    attr->type.dtype != STAR_INT64)
		return graph_reader_fail(r, "expected a tensor of float32, float64, int32 or int64, not \"%s\"", name);
	if (!read_ints(r, attr->type.shape.dims, GRAPH_DIMS_MAX, &ndim))
		return false;
	attr->type.shape.ndim = (uint8_t)ndim;
	for (uint32_t i = 0; i < ndim; i++) { /* each element takes at least one byte of the text */
		const int64_t size = attr->type.shape.dims[i];

		if (size < 0 || (uint64_t)size > left(r) || count * (uint64_t)size > left(r))
			return graph_reader_fail(r, "the text is too short for a tensor of this shape");
		count *= (uint64_t)size;
	}
	data = graph_reader_memory(r, blocks, count * dtype_bytes(attr->type.dtype));
	attr->data = data;
	if (!data)
		return false;
	if (graph_reader_take(r, '<', false))
		return read_digits(r, data, count * dtype_bytes(attr->type.dtype));
	return graph_reader_want(r, '{', false) && read_numbers(r, attr->type.dtype, data, count);
}

/* ---- attributes ---- */

static bool read_string(struct reader *r, struct graph_attr *attr, struct block **blocks)
{
	char *text = graph_reader_memory(r, blocks, TEXT_STRING_MAX + 1);
	size_t n = 0;

	attr->kind = GRAPH_STRING;
	attr->s = text;
	r->at++;
	for (; text && r->at < r->end && *r->at != '"'; r->at++) {
		int c = (unsigned char)*r->at;

		if (c < ' ' || c > '~')
			return graph_reader_expected(r, "'\"'");
		if (c == '\\' && r->at + 1 < r->end && (r->at[1] == '"' || r->at[1] == '\\')) {
			c = *++r->at;
		} else if (c == '\\') {
			r->at += 2;
			c = r->at <= r->end && r->at[-1] == 'x' ? two_digits(r) : -1;
			r->at = r->at < r->end ? r->at + 1 : r->end;
			if (c <= 0)
				return graph_reader_fail(
					r, "expected \\\", \\\\ or \\x with two hexadecimal digits, not 00");
		}
		if (n == TEXT_STRING_MAX)
			return graph_reader_fail(r, "a text has more than %d bytes", TEXT_STRING_MAX);
		text[n++] = (char)c;
	}
	if (!text)
		return false;
	text[n] = 0;
	return graph_reader_want(r, '"', false);
}

static bool read_list(struct reader *r, struct graph_attr *attr, struct block **blocks)
{
	int64_t *ints =
		graph_reader_memory(r, blocks, (left(r) < TEXT_INTS_MAX ? left(r) : TEXT_INTS_MAX) * sizeof(*ints));

	attr->kind = GRAPH_INTS;
	attr->ints = ints;
	return ints &&
	       read_ints(r, ints, left(r) < TEXT_INTS_MAX ? (uint32_t)left(r) : TEXT_INTS_MAX, &attr->ints_count);
}

bool graph_reader_attr(struct reader *r, struct graph_attr *attr, struct block **blocks)
{
	char word[WORD_MAX + 1];

	graph_reader_skip(r, false);
	if (r->at == r->end)
		return graph_reader_expected(r, "a value");
	if (*r->at == '"')
		return read_string(r, attr, blocks);
	if (*r->at == '[')
		return read_list(r, attr, blocks);
	if (!read_word(r, word, "a value"))
		return false;
	if (is_int(word, &attr->i))
		attr->kind = GRAPH_INT;
	else if (is_float(word, &attr->f))
		attr->kind = GRAPH_FLOAT;
	else
		return read_tensor(r, attr, blocks);
	r->at += strlen(word);
	return true;
}
