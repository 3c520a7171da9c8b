/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/openmetrics.h"

#include <inttypes.h>
#include <math.h>
static const char *const kinds[] = {
	[OPENMETRICS_GAUGE] = "gauge",
	[OPENMETRICS_COUNTER] = "counter",
	[OPENMETRICS_INFO] = "info",
};
static const char *const suffixes[] = {
	[OPENMETRICS_GAUGE] = "",
	[OPENMETRICS_COUNTER] = "_total",
	[OPENMETRICS_INFO] = "_info",
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

void openmetrics_family(FILE *out, const struct openmetrics_family *family)
{
	fprintf(out, "# TYPE %s %s\n", family->name, kinds[family->kind]);
	if (family->unit)
		fprintf(out, "# UNIT %s %s\n", family->name, family->unit);
	fprintf(out, "# HELP %s ", family->name);
	write_escaped(out, family->help);
	fputc('\n', out);
}

static void write_name(FILE *out, const struct openmetrics_family *family, const struct openmetrics_label *labels)
{
	fprintf(out, "%s%s", family->name, suffixes[family->kind]);
	if (!labels || !labels->name)
		return;
	for (char before = '{'; labels->name; labels++, before = ',') {
		fprintf(out, "%c%s=\"", before, labels->name);
		write_escaped(out, labels->value);
		fputc('"', out);
	}
	fputc('}', out);
}

void openmetrics_count(FILE *out, const struct openmetrics_family *family, const struct openmetrics_label *labels,
		       uint64_t value)
{
	write_name(out, family, labels);
	fprintf(out, " %" PRIu64 "\n", value);
}

void openmetrics_real(FILE *out, const struct openmetrics_family *family, const struct openmetrics_label *labels,
		      double value)
{
	write_name(out, family, labels);
	if (isnan(value))
		fputs(" NaN\n", out);
	else if (isinf(value))
		fputs(value > 0 ? " +Inf\n" : " -Inf\n", out);
	else
		fprintf(out, " %.12g\n", value);
}

void openmetrics_end(FILE *out)
{
	fputs("# EOF\n", out);
}
