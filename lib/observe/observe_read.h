/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a reactor remembers, read while it goes on: by any thread, without a lock, and without the reactor noticing.
 * Counts are as they were at some moment of the call.
 */
#ifndef OBSERVE_OBSERVE_READ_H
#define OBSERVE_OBSERVE_READ_H

#include <stddef.h>

#include "observe/observe.h"

/* Adds the times of a class and size of requests. Returns how many there were. */
uint64_t observe_add(const struct observe *o, enum observe_class class, unsigned size, enum observe_time time,
		     struct observe_histogram *sum);

/* Nanoseconds that the given share (0 to 1) of them does not exceed: the middle of a bucket; 0 without any. And: their
 * mean, by the buckets' middles. */
double observe_quantile(const struct observe_histogram *h, double share);
double observe_mean(const struct observe_histogram *h);
/* How many were at most so many nanoseconds long, about: whole buckets. */
uint64_t observe_at_most(const struct observe_histogram *h, uint64_t ns);

/* Of a class, at all sizes: counts[i] were shorter than 1024 << i nanoseconds, up to 69 s; how many there were, and
 * their sum. Reads little: OBSERVE_OCTAVES words of each size. */
uint64_t observe_octaves(const struct observe *o, enum observe_class class, enum observe_time time,
			 uint64_t counts[static OBSERVE_OCTAVES + 1], double *sum_ns);

/* "1", "2-63", ...; and the name of a class. */
const char *observe_size_text(unsigned size);
const char *observe_class_text(enum observe_class class);
const char *observe_reason_text(enum observe_reason_bit bit);

/* Copies records from number *from on, or from the oldest that there is: up to n; *from is the number of the first one
 * then, and the next ones' is that plus what is returned. */
size_t observe_copy(const struct observe *o, uint64_t *from, struct observe_record *to, size_t n);

/* Copies the last samples, up to OBSERVE_SAMPLES; returns how many. */
size_t observe_copy_samples(const struct observe *o, struct observe_sample *to);

/* Who is meant by the number of a peer in a record that arrived then; false: nobody knows any more. */
bool observe_find_peer(const struct observe *o, uint32_t peer, uint64_t arrived_ns, struct observe_peer *found);

/* One time more, in units. */
static inline void observe_note(struct observe_histogram *h, uint32_t units)
{
	h->buckets[loglinear_bucket(units, OBSERVE_BITS, OBSERVE_OCTAVES)]++;
}

static inline uint64_t observe_units_ns(uint32_t units)
{
	return (uint64_t)units << OBSERVE_UNIT_SHIFT;
}

#endif
