/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/openmetrics.h"

#include <math.h>
#include <string.h>

static const char *const kinds[] = {
	[OPENMETRICS_GAUGE] = "gauge",
	[OPENMETRICS_COUNTER] = "counter",
	[OPENMETRICS_INFO] = "info",
	[OPENMETRICS_HISTOGRAM] = "histogram",
};
static const char *const suffixes[] = {
	[OPENMETRICS_GAUGE] = "",
	[OPENMETRICS_COUNTER] = "_total",
	[OPENMETRICS_INFO] = "_info",
	[OPENMETRICS_HISTOGRAM] = "",
};

/* ---- lines. A page has tens of thousands, so printf would take most of the time. ---- */

/* Lines are collected here first. */
enum { LINE_TEXT = 512, BEGIN_MAX = 256 };
struct line {
	FILE *out;
	size_t used;
	bool ended; /* a part was written, and is no longer here */
	char text[LINE_TEXT];
};

static void line_end(struct line *line)
{
	fwrite_unlocked(line->text, 1, line->used, line->out);
	line->used = 0;
	line->ended = true;
}

static inline void line_char(struct line *line, char c)
{
	if (line->used == sizeof(line->text))
		line_end(line);
	line->text[line->used++] = c;
}

static void line_bytes(struct line *line, const char *text, size_t bytes)
{
	if (bytes > sizeof(line->text) - line->used)
		line_end(line);
	if (bytes > sizeof(line->text)) {
		fwrite_unlocked(text, 1, bytes, line->out);
		return;
	}
	memcpy(line->text + line->used, text, bytes);
	line->used += bytes;
}

static void line_text(struct line *line, const char *text)
{
	line_bytes(line, text, strlen(text));
}

/* In label values and in help texts, backslash, newline and quote are escaped. */
static void line_escaped(struct line *line, const char *text)
{
	for (;;) {
		const size_t plain = strcspn(text, "\n\\\"");

		line_bytes(line, text, plain);
		text += plain;
		if (!*text)
			return;
		line_char(line, '\\');
		line_char(line, *text == '\n' ? 'n' : *text);
		text++;
	}
}

/* Writes two digits at a time. */
static void line_count(struct line *line, uint64_t value)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
				    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
				    "8081828384858687888990919293949596979899";
	enum { DIGITS = 20 }; /* of UINT64_MAX */
	char digits[DIGITS];
	unsigned at = DIGITS;

	for (; value >= 10; value /= 100) {
		at -= 2;
		memcpy(&digits[at], &pairs[2 * (value % 100)], 2);
	}
	if (value || at == DIGITS)
		digits[--at] = (char)('0' + value);
	line_bytes(line, &digits[at], DIGITS - at);
}

static void line_real(struct line *line, double value)
{
	enum { EXACT = 1 << 30 };
	char text[32];

	if (value >= 0 && value < EXACT && value == (double)(uint32_t)value && !signbit(value)) {
		line_count(line, (uint32_t)value);
		return;
	}
	if (isnan(value))
		strcpy(text, "NaN");
	else if (isinf(value))
		strcpy(text, value > 0 ? "+Inf" : "-Inf");
	else
		snprintf(text, sizeof(text), "%.12g", value);
	line_text(line, text);
}

static const char *unit_of(const struct openmetrics_family *family)
{
	static const char *const units[] = { "bytes", "seconds" };
	const char *end = strrchr(family->name, '_');

	for (unsigned i = 0; end && i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(end + 1, units[i]) == 0)
			return units[i];
	return NULL;
}

static void line_family(struct line *line, const char *what, const struct openmetrics_family *family,
			const char *suffix)
{
	line_text(line, what);
	line_text(line, family->name);
	line_text(line, suffix);
	line_char(line, ' ');
}

/* Before OpenMetrics, the family of a counter had the name of its samples, and "info" families were gauges. */
void openmetrics_family(const struct openmetrics_page *page, const struct openmetrics_family *family)
{
	const char *suffix = page->plain ? suffixes[family->kind] : "";
	const char *kind = kinds[page->plain && family->kind == OPENMETRICS_INFO ? OPENMETRICS_GAUGE : family->kind];
	const char *unit = unit_of(family);
	struct line line = { .out = page->out };

	if (page->take)
		return;
	line_family(&line, "# TYPE ", family, suffix);
	line_text(&line, kind);
	if (unit && !page->plain) {
		line_family(&line, "\n# UNIT ", family, "");
		line_text(&line, unit);
	}
	line_family(&line, "\n# HELP ", family, suffix);
	line_escaped(&line, family->help);
	line_char(&line, '\n');
	line_end(&line);
}

static void line_labels(struct line *line, const struct openmetrics_label *labels)
{
	for (; labels && labels->name; labels++) {
		line_text(line, labels->name);
		line_bytes(line, "=\"", 2);
		line_escaped(line, labels->value);
		line_bytes(line, "\",", 2);
	}
}

/* Writes a sample up to its value. */
static void line_sample(struct line *line, const struct openmetrics_family *family, const char *suffix,
			const struct openmetrics_label *labels)
{
	line_text(line, family->name);
	line_text(line, suffix);
	if (labels && labels->name) {
		line_char(line, '{');
		line_labels(line, labels);
		line->used--; /* the last comma, which is still in the buffer */
		line_char(line, '}');
	}
	line_char(line, ' ');
}

void openmetrics_count(const struct openmetrics_page *page, const struct openmetrics_family *family,
		       const struct openmetrics_label *labels, uint64_t value)
{
	struct line line;

	if (page->take) {
		page->take(page->ctx, labels, (double)value);
		return;
	}
	line.out = page->out;
	line.used = 0;
	line_sample(&line, family, suffixes[family->kind], labels);
	line_count(&line, value);
	line_char(&line, '\n');
	line_end(&line);
}

void openmetrics_real(const struct openmetrics_page *page, const struct openmetrics_family *family,
		      const struct openmetrics_label *labels, double value)
{
	struct line line;

	if (page->take) {
		page->take(page->ctx, labels, value);
		return;
	}
	line.out = page->out;
	line.used = 0;
	line_sample(&line, family, suffixes[family->kind], labels);
	line_real(&line, value);
	line_char(&line, '\n');
	line_end(&line);
}

/* Writes the beginning of a histogram's lines; also copies it to `begin`, if that is possible: returns its length, or
 * 0. */
static size_t line_bucket(struct line *line, const struct openmetrics_family *family,
			  const struct openmetrics_label *labels, char begin[static BEGIN_MAX])
{
	size_t bytes;

	line_end(line);
	line->ended = false;
	line_text(line, family->name);
	line_bytes(line, "_bucket{", 8);
	line_labels(line, labels);
	line_bytes(line, "le=\"", 4);
	bytes = line->ended ? 0 : line->used;
	if (bytes > BEGIN_MAX)
		bytes = 0;
	memcpy(begin, line->text, bytes);
	return bytes;
}

void openmetrics_histogram(const struct openmetrics_page *page, const struct openmetrics_family *family,
			   const struct openmetrics_label *labels, const char *const *bounds, const uint64_t *counts,
			   unsigned n, uint64_t count, double sum)
{
	char begin[BEGIN_MAX];
	struct line line;
	size_t same = 0;

	if (page->take) {
		page->take(page->ctx, labels, (double)count);
		return;
	}
	line.out = page->out;
	line.used = 0;
	for (unsigned i = 0; i <= n; i++) {
		if (same)
			line_bytes(&line, begin, same);
		else
			same = line_bucket(&line, family, labels, begin);
		line_text(&line, i < n ? bounds[i] : "+Inf");
		line_bytes(&line, "\"} ", 3);
		line_count(&line, i < n ? counts[i] : count);
		line_char(&line, '\n');
	}
	line_sample(&line, family, "_count", labels);
	line_count(&line, count);
	line_char(&line, '\n');
	line_sample(&line, family, "_sum", labels);
	line_real(&line, sum);
	line_char(&line, '\n');
	line_end(&line);
}

void openmetrics_end(const struct openmetrics_page *page)
{
	if (!page->plain)
		fputs("# EOF\n", page->out);
}

void openmetrics_rst_begin(FILE *out)
{
	fputs(".. list-table::\n   :header-rows: 1\n   :widths: 45 10 15 60\n\n"
	      "   * - Metric\n     - Kind\n     - Labels\n     - Meaning\n",
	      out);
}

void openmetrics_rst(FILE *out, const struct openmetrics_family *family)
{
	/* Of a histogram, the samples that queries use. */
	fprintf(out, "   * - ``%s%s``\n     - %s\n     - %s\n     - %s\n", family->name,
		family->kind == OPENMETRICS_HISTOGRAM ? "_bucket" : suffixes[family->kind], kinds[family->kind],
		family->labels ? family->labels : "", family->help);
}
