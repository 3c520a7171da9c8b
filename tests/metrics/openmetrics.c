/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of pages: every one of them, to the byte, as the formats want it. */
#include "metrics/openmetrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/metrics/cases.h"
#include "tests/unit.h"

static struct {
	char *text;
	size_t bytes;
	FILE *out;
} p;

static const struct openmetrics_page *begin(bool plain)
{
	static struct openmetrics_page page;

	p.out = open_memstream(&p.text, &p.bytes);
	page = (struct openmetrics_page){ .out = p.out, .plain = plain };
	return &page;
}

static void end_as(const char *wanted)
{
	fclose(p.out);
	CHECK_STR(p.text, wanted);
	free(p.text);
}

static const struct openmetrics_family counter = { "star_x", OPENMETRICS_COUNTER, "a \"help\"\nof \\", "at" };
static const struct openmetrics_family gauge = { "star_y_bytes", OPENMETRICS_GAUGE, "y", NULL };
static const struct openmetrics_family times = { "star_t_seconds", OPENMETRICS_HISTOGRAM, "t", "at, le" };

void families_and_values_are_escaped(void)
{
	const struct openmetrics_label labels[] = { { "at", "a\\b\"c\nd" }, { "of", "" }, { NULL, NULL } };
	const struct openmetrics_page *page = begin(false);

	openmetrics_family(page, &counter);
	openmetrics_count(page, &counter, labels, 7);
	openmetrics_family(page, &gauge);
	openmetrics_count(page, &gauge, NULL, 0);
	openmetrics_end(page);
	end_as("# TYPE star_x counter\n# HELP star_x a \\\"help\\\"\\nof \\\\\n"
	       "star_x_total{at=\"a\\\\b\\\"c\\nd\",of=\"\"} 7\n"
	       "# TYPE star_y_bytes gauge\n# UNIT star_y_bytes bytes\n# HELP star_y_bytes y\nstar_y_bytes 0\n# EOF\n");
	page = begin(true);
	openmetrics_family(page, &counter);
	openmetrics_family(page, &gauge);
	openmetrics_end(page);
	end_as("# TYPE star_x_total counter\n# HELP star_x_total a \\\"help\\\"\\nof \\\\\n"
	       "# TYPE star_y_bytes gauge\n# HELP star_y_bytes y\n");
}

/* Around each power of ten and of two, against printf. */
void counts_have_all_their_digits(void)
{
	char wanted[64];

	for (unsigned i = 0; i < 2 * 64; i++) {
		uint64_t value = i < 64 ? UINT64_C(1) << i : 1;

		for (unsigned k = 64; k < i && value <= UINT64_MAX / 10; k++)
			value *= 10;
		for (uint64_t each = value - 1; each - (value - 1) < 3; each++) {
			openmetrics_count(begin(false), &gauge, NULL, each);
			snprintf(wanted, sizeof(wanted), "star_y_bytes %" PRIu64 "\n", each);
			end_as(wanted);
		}
	}
	openmetrics_count(begin(false), &gauge, NULL, UINT64_MAX);
	end_as("star_y_bytes 18446744073709551615\n");
}

void reals_are_as_prometheus_reads_them(void)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ -0.0, "-0" },
		{ 1, "1" },
		{ -1, "-1" },
		{ 0.1, "0.1" },
		{ 1073741823, "1073741823" },
		{ 1e9, "1e9" },
		{ 1073741824, "1073741824" },
		{ 4294967296.5, "4294967296.5" },
		{ 1e15, "1e+15" },
		{ NAN, "NaN" },
		{ INFINITY, "+Inf" },
		{ -INFINITY, "-Inf" },
	};
	char wanted[64];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		openmetrics_real(begin(false), &gauge, NULL, cases[i].value);
		snprintf(wanted, sizeof(wanted), "star_y_bytes %s\n",
			 strcmp(cases[i].text, "1e9") == 0 ? "1000000000" : cases[i].text);
		end_as(wanted);
	}
}

void histograms_have_all_their_lines(void)
{
	static const char *const bounds[] = { "0.001", "1" };
	const struct openmetrics_label labels[] = { { "at", "x" }, { NULL, NULL } };

	openmetrics_histogram(begin(false), &times, labels, bounds, (uint64_t[]){ 3, 5 }, 2, 6, 2.5);
	end_as("star_t_seconds_bucket{at=\"x\",le=\"0.001\"} 3\nstar_t_seconds_bucket{at=\"x\",le=\"1\"} 5\n"
	       "star_t_seconds_bucket{at=\"x\",le=\"+Inf\"} 6\nstar_t_seconds_count{at=\"x\"} "
	       "6\nstar_t_seconds_sum{at=\"x\"} 2.5\n");
	openmetrics_histogram(begin(false), &times, NULL, bounds, (uint64_t[]){ 0, 0 }, 2, 0, 0);
	end_as("star_t_seconds_bucket{le=\"0.001\"} 0\nstar_t_seconds_bucket{le=\"1\"} "
	       "0\nstar_t_seconds_bucket{le=\"+Inf\"} 0\n"
	       "star_t_seconds_count 0\nstar_t_seconds_sum 0\n");
}

/* Lines that are longer, about as long, and much longer than what they are put together in. */
void long_labels_are_whole(void)
{
	static const char *const bounds[] = { "1" };
	enum { LONGEST = 2000 };
	static char value[LONGEST + 1], wanted[8 * LONGEST];

	for (unsigned n = 100; n < LONGEST; n += n < 600 ? 1 : 97) {
		const struct openmetrics_label labels[] = { { "at", value }, { NULL, NULL } };

		memset(value, 'v', n);
		value[n] = '\0';
		openmetrics_count(begin(false), &gauge, labels, 12);
		snprintf(wanted, sizeof(wanted), "star_y_bytes{at=\"%s\"} 12\n", value);
		end_as(wanted);
		openmetrics_histogram(begin(false), &times, labels, bounds, (uint64_t[]){ 3 }, 1, 4, 1);
		snprintf(wanted, sizeof(wanted),
			 "star_t_seconds_bucket{at=\"%s\",le=\"1\"} 3\nstar_t_seconds_bucket{at=\"%s\",le=\"+Inf\"} 4\n"
			 "star_t_seconds_count{at=\"%s\"} 4\nstar_t_seconds_sum{at=\"%s\"} 1\n",
			 value, value, value, value);
		end_as(wanted);
	}
}
