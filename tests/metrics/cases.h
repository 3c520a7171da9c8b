/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of openmetrics.c. */
#ifndef TESTS_METRICS_CASES_H
#define TESTS_METRICS_CASES_H

#define OPENMETRICS_CASES(X) \
	X(families_and_values_are_escaped) \
	X(counts_have_all_their_digits) \
	X(reals_are_as_prometheus_reads_them) \
	X(histograms_have_all_their_lines) \
	X(long_labels_are_whole)

#define X(name) void name(void);
OPENMETRICS_CASES(X)
#undef X

#endif
