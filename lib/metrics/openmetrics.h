/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metrics in the OpenMetrics text format 1.0: families of samples, each family written as a whole. Whoever writes a page puts
 * openmetrics_end behind the last family.
 *
 * Threads: the functions keep no state; a stream belongs to one thread.
 */
#ifndef METRICS_OPENMETRICS_H
#define METRICS_OPENMETRICS_H

#include <stdint.h>
#include <stdio.h>

#define OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

enum openmetrics_kind { OPENMETRICS_GAUGE, OPENMETRICS_COUNTER, OPENMETRICS_INFO };

/* The name has the unit at its end, where there is one ("star_memory_bytes"), and no "_total": samples of counters get that. */
struct openmetrics_family {
	const char *name;
	enum openmetrics_kind kind;
	const char *unit; /* seconds, bytes; NULL: it counts something */
	const char *help; /* one line */
};

/* A list of them ends with a name of NULL; a value is UTF-8 of any characters. */
struct openmetrics_label {
	const char *name, *value;
};

void openmetrics_family(FILE *out, const struct openmetrics_family *family);
/* One sample of it; labels may be NULL. */
void openmetrics_count(FILE *out, const struct openmetrics_family *family, const struct openmetrics_label *labels,
		       uint64_t value);
void openmetrics_real(FILE *out, const struct openmetrics_family *family, const struct openmetrics_label *labels,
		      double value);
void openmetrics_end(FILE *out);

#endif
