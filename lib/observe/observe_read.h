/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads what a reactor has recorded, while it continues: from any thread, without a lock, and without an effect on the
 * reactor. Counts are those of some moment during the call.
 */
#ifndef OBSERVE_OBSERVE_READ_H
#define OBSERVE_OBSERVE_READ_H

#include <stddef.h>

#include "observe/observe.h"

/* Adds the times of a class and size of requests. Returns their number. */
uint64_t observe_add(const struct observe *o, enum observe_class class, unsigned size, enum observe_time time,
		     struct observe_histogram *sum);

/* The time in nanoseconds that the given share (0 to 1) of them does not exceed: the middle of a bucket; 0 if there are
 * none. And their mean, from the buckets' middles. */
double observe_quantile(const struct observe_histogram *h, double share);
double observe_mean(const struct observe_histogram *h);
/* How many took at most this many nanoseconds, approximately: whole buckets are counted. */
uint64_t observe_at_most(const struct observe_histogram *h, uint64_t ns);

/* For a class and all sizes: counts[i] were shorter than 1024 << i nanoseconds, up to 69 s; their number, and their
 * sum. It reads only OBSERVE_OCTAVES words of each size. */
uint64_t observe_octaves(const struct observe *o, enum observe_class class, enum observe_time time,
			 uint64_t counts[static OBSERVE_OCTAVES + 1], double *sum_ns);

/* "1", "2-63", ...; and the name of a class. */
const char *observe_size_text(unsigned size);
const char *observe_class_text(enum observe_class class);
const char *observe_reason_text(enum observe_reason_bit bit);

/* Copies up to n records, starting with number *from or the oldest available one; sets *from to the number of the first
 * one. The next one has that number plus the number that is returned. */
size_t observe_copy(const struct observe *o, uint64_t *from, struct observe_record *to, size_t n);

/* Copies the last samples, up to OBSERVE_SAMPLES; returns their number. */
size_t observe_copy_samples(const struct observe *o, struct observe_sample *to);

/* The peer with this number in a record of a request that arrived at that time; false: it is no longer known. */
bool observe_find_peer(const struct observe *o, uint32_t peer, uint64_t arrived_ns, struct observe_peer *found);

/* Adds a time, in units. */
static inline void observe_note(struct observe_histogram *h, uint32_t units)
{
	h->buckets[loglinear_bucket(units, OBSERVE_BITS, OBSERVE_OCTAVES)]++;
}

static inline uint64_t observe_units_ns(uint32_t units)
{
	return (uint64_t)units << OBSERVE_UNIT_SHIFT;
}

#endif
