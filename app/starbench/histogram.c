/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/starbench/histogram.h"

static double bucket_middle(unsigned bucket)
{
	return loglinear_middle(bucket, HISTOGRAM_BITS);
}

double histogram_quantile(const struct histogram *h, double share)
{
	const double wanted = share * (double)h->count;
	uint64_t seen = 0;

	if (!h->count)
		return 0;
	for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
		seen += h->buckets[bucket];
		if (seen && (double)seen >= wanted)
			return bucket_middle(bucket) < (double)h->max_ns ? bucket_middle(bucket) : (double)h->max_ns;
	}
	return (double)h->max_ns;
}
