/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metrics in the OpenMetrics text format 1.0, or in the text format 0.0.4 that Prometheus had before it: families of
 * samples, each family written as a whole. A page ends with openmetrics_end. What is counted is not defined
 * here: each library has a list of its counters, and lib/node/metrics.c makes families of them.
 *
 * Threads: the functions keep no state; a page belongs to one thread.
 */
#ifndef METRICS_OPENMETRICS_H
#define METRICS_OPENMETRICS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define OPENMETRICS_PLAIN_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum openmetrics_kind { OPENMETRICS_GAUGE, OPENMETRICS_COUNTER, OPENMETRICS_INFO, OPENMETRICS_HISTOGRAM };

/* The name has the unit at its end, if that is bytes or seconds ("star_memory_bytes"), and no "_total": samples of
 * counters get that. */
struct openmetrics_family {
	const char *name;
	enum openmetrics_kind kind;
	const char *help;   /* one line */
	const char *labels; /* the labels of its samples, with commas; NULL: it has one sample, without labels */
};

/* A list of labels ends with a name of NULL; a value is any UTF-8 text. */
struct openmetrics_label {
	const char *name, *value;
};

/* Where families are written. */
struct openmetrics_page {
	FILE *out;
	bool plain; /* in the format 0.0.4 */
	/* Not NULL: nothing is written; it is called for each sample. */
	void (*take)(void *ctx, const struct openmetrics_label *labels, double value);
	void *ctx;
};

void openmetrics_family(const struct openmetrics_page *page, const struct openmetrics_family *family);
/* Adds a sample to the family; labels may be NULL. */
void openmetrics_count(const struct openmetrics_page *page, const struct openmetrics_family *family,
		       const struct openmetrics_label *labels, uint64_t value);
void openmetrics_real(const struct openmetrics_page *page, const struct openmetrics_family *family,
		      const struct openmetrics_label *labels, double value);
/* Adds a histogram to the family: the number of values up to each bound (as the label "le" has it; ascending, without
 * infinity), the number of all, and their sum. */
void openmetrics_histogram(const struct openmetrics_page *page, const struct openmetrics_family *family,
			   const struct openmetrics_label *labels, const char *const *bounds, const uint64_t *counts,
			   unsigned n, uint64_t count, double sum);
void openmetrics_end(const struct openmetrics_page *page);

/* A family as a row of the reference of all metrics (docs/metrics.rst), which openmetrics_rst_begin starts. */
void openmetrics_rst_begin(FILE *out);
void openmetrics_rst(FILE *out, const struct openmetrics_family *family);

#endif
