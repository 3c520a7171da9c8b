/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/openmetrics.h"

#include <inttypes.h>
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

/* Backslash, newline and quote are escaped in label values and in help texts alike. */
static void write_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			fputs("\\n", out);
		else if (*text == '\\' || *text == '"')
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
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

/* Before OpenMetrics a counter's family had the name of its samples, and what tells something was a gauge. */
void openmetrics_family(const struct openmetrics_page *page, const struct openmetrics_family *family)
{
	const char *suffix = page->plain ? suffixes[family->kind] : "";
	const char *kind = kinds[page->plain && family->kind == OPENMETRICS_INFO ? OPENMETRICS_GAUGE : family->kind];
	const char *unit = unit_of(family);

	if (page->take)
		return;
	fprintf(page->out, "# TYPE %s%s %s\n", family->name, suffix, kind);
	if (unit && !page->plain)
		fprintf(page->out, "# UNIT %s %s\n", family->name, unit);
	fprintf(page->out, "# HELP %s%s ", family->name, suffix);
	write_escaped(page->out, family->help);
	fputc('\n', page->out);
}

static void write_sample(FILE *out, const struct openmetrics_family *family, const char *suffix,
			 const struct openmetrics_label *labels)
{
	fprintf(out, "%s%s", family->name, suffix);
	if (!labels || !labels->name)
		return;
	for (char before = '{'; labels->name; labels++, before = ',') {
		fprintf(out, "%c%s=\"", before, labels->name);
		write_escaped(out, labels->value);
		fputc('"', out);
	}
	fputc('}', out);
}

static void write_name(FILE *out, const struct openmetrics_family *family, const struct openmetrics_label *labels)
{
	write_sample(out, family, suffixes[family->kind], labels);
}

void openmetrics_count(const struct openmetrics_page *page, const struct openmetrics_family *family,
		       const struct openmetrics_label *labels, uint64_t value)
{
	if (page->take) {
		page->take(page->ctx, labels, (double)value);
		return;
	}
	write_name(page->out, family, labels);
	fprintf(page->out, " %" PRIu64 "\n", value);
}

void openmetrics_real(const struct openmetrics_page *page, const struct openmetrics_family *family,
		      const struct openmetrics_label *labels, double value)
{
	if (page->take) {
		page->take(page->ctx, labels, value);
		return;
	}
	write_name(page->out, family, labels);
	if (isnan(value))
		fputs(" NaN\n", page->out);
	else if (isinf(value))
		fputs(value > 0 ? " +Inf\n" : " -Inf\n", page->out);
	else
		fprintf(page->out, " %.12g\n", value);
}

void openmetrics_histogram(const struct openmetrics_page *page, const struct openmetrics_family *family,
			   const struct openmetrics_label *labels, const double *bounds, const uint64_t *counts,
			   unsigned n, uint64_t count, double sum)
{
	enum { LABELS_MAX = 4 };
	struct openmetrics_label with[LABELS_MAX + 2] = { { NULL, NULL } };
	unsigned used = 0;
	char text[32];

	if (page->take) {
		page->take(page->ctx, labels, (double)count);
		return;
	}
	for (; labels && labels[used].name && used < LABELS_MAX; used++)
		with[used] = labels[used];
	with[used] = (struct openmetrics_label){ "le", text };
	for (unsigned i = 0; i <= n; i++) {
		snprintf(text, sizeof(text), i < n ? "%.12g" : "+Inf", i < n ? bounds[i] : 0);
		write_sample(page->out, family, "_bucket", with);
		fprintf(page->out, " %" PRIu64 "\n", i < n ? counts[i] : count);
	}
	write_sample(page->out, family, "_count", labels);
	fprintf(page->out, " %" PRIu64 "\n", count);
	write_sample(page->out, family, "_sum", labels);
	fprintf(page->out, " %.12g\n", sum);
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
	/* Of a histogram the samples that one asks for. */
	fprintf(out, "   * - ``%s%s``\n     - %s\n     - %s\n     - %s\n", family->name,
		family->kind == OPENMETRICS_HISTOGRAM ? "_bucket" : suffixes[family->kind], kinds[family->kind],
		family->labels ? family->labels : "", family->help);
}
