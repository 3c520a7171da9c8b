/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A log-linear histogram of nanoseconds (base/loglinear.h): exact below 512 ns, and buckets at most 0.4 % wide above.
 * Recording is one increment. A histogram belongs to one thread.
 */
#ifndef STARBENCH_HISTOGRAM_H
#define STARBENCH_HISTOGRAM_H

#include <stdint.h>

#include "base/loglinear.h"

enum {
	HISTOGRAM_BITS = 8, /* log2 of the buckets of an octave */
	HISTOGRAM_OCTAVES = 32,
	HISTOGRAM_BUCKETS = LOGLINEAR_BUCKETS(HISTOGRAM_BITS, HISTOGRAM_OCTAVES),
};

struct histogram {
	uint64_t count;
	uint64_t max_ns;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Values above about 18 minutes fall into the last bucket; max_ns still has the largest. */
static inline unsigned histogram_bucket(uint64_t ns)
{
	return loglinear_bucket(ns, HISTOGRAM_BITS, HISTOGRAM_OCTAVES);
}

static inline void histogram_record(struct histogram *h, uint64_t ns)
{
	h->buckets[histogram_bucket(ns)]++;
	h->count++;
	if (ns > h->max_ns)
		h->max_ns = ns;
}

/* The quantile for a share of 0 to 1 of all recorded values, as the middle of its bucket. 0 if empty. */
double histogram_quantile(const struct histogram *h, double share);

#endif
