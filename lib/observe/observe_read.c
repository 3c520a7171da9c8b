/* SPDX-License-Identifier: BSD-3-Clause */
#include "observe/observe_read.h"

#include <string.h>

/* Functions that race with the reactor on purpose; the result is checked afterwards. */
#define RACES __attribute__((no_sanitize("thread")))

/* Records before the head that the reactor may be writing. */
enum { IN_WORK = 2 * OBSERVE_TURN_MAX };

uint64_t observe_add(const struct observe *o, enum observe_class class, unsigned size, enum observe_time time,
		     struct observe_histogram *sum)
{
	const struct observe_histogram *from = &o->histograms[class][size][time];
	const struct observe_brief *brief = &o->briefs[class][size][time];
	uint64_t all = 0;

	for (unsigned octave = 0; octave <= OBSERVE_OCTAVES; octave++) {
		const unsigned begin = octave << OBSERVE_BITS, end = begin + (1 << OBSERVE_BITS);

		if (__atomic_load_n(&brief->octaves[octave], __ATOMIC_RELAXED) == 0)
			continue; /* most buckets are empty */
		for (unsigned i = begin; i < end; i++) {
			const uint64_t n = __atomic_load_n(&from->buckets[i], __ATOMIC_RELAXED);

			all += n;
			sum->buckets[i] += n;
		}
	}
	return all;
}

static double middle_ns(unsigned bucket)
{
	return loglinear_middle(bucket, OBSERVE_BITS) * (1 << OBSERVE_UNIT_SHIFT);
}

double observe_quantile(const struct observe_histogram *h, double share)
{
	uint64_t all = 0, seen = 0;

	for (unsigned i = 0; i < OBSERVE_BUCKETS; i++)
		all += h->buckets[i];
	for (unsigned i = 0; all && i < OBSERVE_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen && (double)seen >= share * (double)all)
			return middle_ns(i);
	}
	return 0;
}

double observe_mean(const struct observe_histogram *h)
{
	double sum = 0;
	uint64_t all = 0;

	for (unsigned i = 0; i < OBSERVE_BUCKETS; i++) {
		sum += (double)h->buckets[i] * middle_ns(i);
		all += h->buckets[i];
	}
	return all ? sum / (double)all : 0;
}

uint64_t observe_at_most(const struct observe_histogram *h, uint64_t ns)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < OBSERVE_BUCKETS && middle_ns(i) <= (double)ns; i++)
		sum += h->buckets[i];
	return sum;
}

uint64_t observe_octaves(const struct observe *o, enum observe_class class, enum observe_time time,
			 uint64_t counts[static OBSERVE_OCTAVES + 1], double *sum_ns)
{
	uint64_t seen = 0, units = 0;

	memset(counts, 0, (OBSERVE_OCTAVES + 1) * sizeof(*counts));
	for (unsigned size = 0; size < OBSERVE_SIZES; size++) {
		const struct observe_brief *brief = &o->briefs[class][size][time];

		for (unsigned i = 0; i <= OBSERVE_OCTAVES; i++)
			counts[i] += __atomic_load_n(&brief->octaves[i], __ATOMIC_RELAXED);
		units += __atomic_load_n(&brief->units, __ATOMIC_RELAXED);
	}
	for (unsigned i = 0; i <= OBSERVE_OCTAVES; i++)
		counts[i] = seen += counts[i];
	*sum_ns = (double)units * (1 << OBSERVE_UNIT_SHIFT);
	return seen;
}

const char *observe_size_text(unsigned size)
{
	static const char *const texts[OBSERVE_SIZES] = { "1", "2-63", "64-1023", "1024-" };

	return texts[size];
}

const char *observe_class_text(enum observe_class class)
{
	static const char *const texts[] = {
#define X(name, number, text) [OBSERVE_##name] = text,
		OBSERVE_CLASSES(X)
#undef X
	};

	return texts[class];
}

const char *observe_reason_text(enum observe_reason_bit bit)
{
	static const char *const texts[] = {
#define X(name, text) [OBSERVE_BIT_##name] = text,
		OBSERVE_REASONS(X)
#undef X
	};

	return texts[bit];
}

/* The oldest record that the reactor is not about to overwrite. */
static uint64_t oldest(uint64_t head)
{
	return head > OBSERVE_RECORDS - IN_WORK ? head - (OBSERVE_RECORDS - IN_WORK) : 0;
}

RACES size_t observe_copy(const struct observe *o, uint64_t *from, struct observe_record *to, size_t n)
{
	const uint64_t head = __atomic_load_n(&o->head, __ATOMIC_ACQUIRE);
	uint64_t first = *from > oldest(head) ? *from : oldest(head), good;

	if (first > head)
		first = head;
	if (n > head - first)
		n = (size_t)(head - first);
	for (size_t i = 0; i < n; i++)
		to[i] = o->records[(first + i) % OBSERVE_RECORDS];
	/* Records that were overwritten meanwhile are dropped. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	good = oldest(__atomic_load_n(&o->head, __ATOMIC_ACQUIRE));
	if (good > first) {
		const size_t lost = good - first < n ? (size_t)(good - first) : n;

		memmove(to, to + lost, (n - lost) * sizeof(*to));
		n -= lost;
		first += lost;
	}
	*from = first;
	return n;
}

RACES size_t observe_copy_samples(const struct observe *o, struct observe_sample *to)
{
	const uint64_t end = __atomic_load_n(&o->sampled, __ATOMIC_ACQUIRE);
	const uint64_t begin = end > OBSERVE_SAMPLES ? end - OBSERVE_SAMPLES : 0;
	uint64_t written;
	size_t n = 0;

	for (uint64_t i = begin; i < end; i++)
		to[n++] = o->samples[i % OBSERVE_SAMPLES];
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	/* The record after the last one may be partly written. */
	written = __atomic_load_n(&o->sampled, __ATOMIC_ACQUIRE) + 1;
	if (written > begin + OBSERVE_SAMPLES) {
		const size_t lost = written - begin - OBSERVE_SAMPLES < n ? written - begin - OBSERVE_SAMPLES : n;

		memmove(to, to + lost, (n - lost) * sizeof(*to));
		n -= lost;
	}
	return n;
}

RACES bool observe_find_peer(const struct observe *o, uint32_t peer, uint64_t arrived_ns, struct observe_peer *found)
{
	const struct observe_peer *p = &o->peers[observe_peer_at(peer)];
	const uint32_t before = __atomic_load_n(&p->peer, __ATOMIC_ACQUIRE);

	memcpy(found->address, p->address, sizeof(found->address));
	found->port = p->port;
	found->opened_ns = __atomic_load_n(&p->opened_ns, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	found->peer = __atomic_load_n(&p->peer, __ATOMIC_RELAXED);
	return before == peer && found->peer == peer && found->opened_ns <= arrived_ns;
}
