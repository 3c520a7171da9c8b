/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/starbench/histogram.h"

static double bucket_middle(unsigned bucket)
{
	unsigned shift;

	if (bucket < 2u << HISTOGRAM_BITS)
		return bucket;
	shift = (bucket >> HISTOGRAM_BITS) - 1;
	return ((bucket - (shift << HISTOGRAM_BITS)) + 0.5) * (double)(UINT64_C(1) << shift);
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
