/* SPDX-License-Identifier: BSD-3-Clause */
/* The reactor's side. */
#include "observe/observe.h"

#include <errno.h>
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { COUNTED = 16 /* records that are counted together, which costs less than one by one */ };
_Static_assert((int)OBSERVE_RECENT >= OBSERVE_TURN_MAX + COUNTED, "none is written over before it is counted");

struct observe *observe_create(uint64_t cycles_hz, struct star_error *err)
{
	/* Some MiB: if the kernel has huge pages for them, that is a few page faults instead of a thousand. */
	const size_t page = 2 << 20, bytes = (sizeof(struct observe) + page - 1) / page * page;
	struct observe *o = aligned_alloc(page, bytes);

	if (!o) {
		star_error_set(err, -ENOMEM, "out of memory for %zu KiB of records of a reactor's last requests",
			       sizeof(*o) >> 10);
		return NULL;
	}
	madvise(o, bytes, MADV_HUGEPAGE);
	memset(o, 0, sizeof(*o)); /* so that all pages exist before the reactor runs */
	o->scale = (UINT64_C(1000000000) << 32) / cycles_hz;
	o->random = 1;
	return o;
}

void observe_destroy(struct observe *o)
{
	free(o);
}

/* By the number of bits in the number of keys. */
static const uint8_t sizes[] = { 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3 };
_Static_assert(OBSERVE_KEYS_MAX >> (sizeof(sizes) - 1) == 0, "every class has its entry");

static inline unsigned size_of(uint32_t keys)
{
	return sizes[32 - __builtin_clz(keys | 1)];
}

unsigned observe_size(uint32_t keys)
{
	return size_of(keys);
}

/* The share of each of n small requests in the time of their turn. */
static uint64_t share_of_turn(uint64_t ns, uint64_t n)
{
	static const uint16_t parts[] = { 0, 0, 32768, 21845, 16384, 13107, 10923, 9362, 8192 }; /* times 65536 */

	if (n <= 1)
		return n ? ns : 0;
	return n < sizeof(parts) / sizeof(parts[0]) ? ns * parts[n] >> 16 : ns / n;
}

static inline void count(struct observe_histogram *h, struct observe_brief *brief, uint32_t units, uint32_t n)
{
	const unsigned bucket = loglinear_bucket(units, OBSERVE_BITS, OBSERVE_OCTAVES);

	brief->octaves[bucket >> OBSERVE_BITS] += n;
	brief->units += (uint64_t)units * n;
	h->buckets[bucket] += n;
}

/* Counts n requests that were like this one. */
static inline void count_requests(struct observe *o, const struct observe_record *r, uint32_t n)
{
	const unsigned class = r->what & 7, size = size_of(observe_keys(r));
	struct observe_histogram *h = o->histograms[class][size];
	struct observe_brief *briefs = o->briefs[class][size];

	count(&h[OBSERVE_total], &briefs[OBSERVE_total], r->total, n);
	count(&h[OBSERVE_wait], &briefs[OBSERVE_wait], r->wait, n);
	count(&h[OBSERVE_run], &briefs[OBSERVE_run], r->run, n);
}

/* Small requests that arrived and were answered together took the same time, and are counted together. */
static inline bool is_like(const struct observe_record *a, const struct observe_record *b)
{
	return a->total == b->total && a->wait == b->wait && a->run == b->run && a->what == b->what;
}

/* Bypasses the caches, because the records are larger: each line would be read first, and would evict another one,
 * perhaps of rows. */
static inline void keep_record(struct observe *o, uint64_t number, const struct observe_record *r)
{
	const __m128i *from = (const __m128i *)r;
	__m128i *to = (__m128i *)&o->records[number % OBSERVE_RECORDS];

	_mm_stream_si128(to, _mm_load_si128(from));
	_mm_stream_si128(to + 1, _mm_load_si128(from + 1));
}

void observe_count(struct observe *o)
{
	const uint64_t end = o->timed;
	const struct observe_record *first = &o->recent[o->head % OBSERVE_RECENT];
	uint32_t n = 0;

	for (uint64_t i = o->head; i != end; i++) {
		const struct observe_record *r = &o->recent[i % OBSERVE_RECENT];

		keep_record(o, i, r);
		if (!is_like(r, first)) {
			count_requests(o, first, n);
			first = r;
			n = 0;
		}
		n++;
	}
	if (n)
		count_requests(o, first, n);
	_mm_sfence(); /* a release does not order streaming stores */
	__atomic_store_n(&o->head, end, __ATOMIC_RELEASE);
}

/* Sets the times of the records [first, end); the small ones among them were executed in the given time. */
static void complete_requests(struct observe *o, uint64_t first, uint64_t end, uint64_t end_ns, uint32_t small)
{
	for (uint64_t i = first; i != end; i++) {
		struct observe_record *r = &o->recent[i % OBSERVE_RECENT];
		const int64_t total = (int64_t)(end_ns - r->arrived_ns);

		r->total = total > 0 ? observe_units((uint64_t)total) : 0;
		if (observe_slices(r) == 0)
			r->run = small;
	}
	o->timed = end;
	if (end - o->head >= COUNTED)
		observe_count(o);
}

void observe_sent(struct observe *o, uint64_t begun, uint64_t ended)
{
	const uint64_t first = o->timed, end = o->filled, cycles = ended - begun, ns = observe_ns(o, cycles);
	uint64_t small_ns = ns;

	if (__builtin_expect(o->slices_cycles != 0, 0)) {
		small_ns = cycles > o->slices_cycles ? observe_ns(o, cycles - o->slices_cycles) : 0;
		o->slices_cycles = 0;
	}
	if (first != end)
		complete_requests(o, first, end, o->turn_ns + ns,
				  observe_units(share_of_turn(small_ns, end - first - o->large)));
	o->large = 0;
	o->stamp = 0;
}

/* George Marsaglia, Xorshift RNGs, 2003. Random, so that keys at the same position of each request are not sampled
 * always or never. */
static uint32_t draw_sample(struct observe *o)
{
	o->random ^= o->random << 13;
	o->random ^= o->random >> 17;
	o->random ^= o->random << 5;
	return o->random;
}

void observe_pass(struct observe *o)
{
	o->until_sample = (int32_t)(draw_sample(o) & OBSERVE_SAMPLE_MASK);
}

void observe_sample(struct observe *o, uint32_t keys, uint32_t object, uint64_t (*take)(void *ctx, uint32_t number),
		    void *ctx)
{
	/* Of many keys only some are taken, each of which stands for several. */
	const uint32_t part = keys / (OBSERVE_SAMPLES_EACH * ((OBSERVE_SAMPLE_MASK + 1) / 2)) + 1;
	int64_t at = (int64_t)keys + o->until_sample;

	for (; at < keys; at += ((int64_t)(draw_sample(o) & OBSERVE_SAMPLE_MASK) + 1) * part) {
		o->samples[o->sampled % OBSERVE_SAMPLES] = (struct observe_sample){
			.key = take(ctx, (uint32_t)at),
			.object = object,
			.weight = part,
		};
		__atomic_store_n(&o->sampled, o->sampled + 1, __ATOMIC_RELEASE);
	}
	o->until_sample = (int32_t)(at - keys);
}

void observe_peer(struct observe *o, uint32_t peer, const uint8_t address[static 16], uint16_t port, uint64_t now_ns)
{
	struct observe_peer *p = &o->peers[observe_peer_at(peer)];

	/* A reader in between finds no peer. */
	__atomic_store_n(&p->peer, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(p->address, address, sizeof(p->address));
	p->port = port;
	p->opened_ns = now_ns;
	__atomic_store_n(&p->peer, peer, __ATOMIC_RELEASE);
}
