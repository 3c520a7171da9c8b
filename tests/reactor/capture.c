/* SPDX-License-Identifier: BSD-3-Clause */
/* Captured frames: which match, and the ring that they go through, many times round. On mbufs of no pool. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "reactor/capture.h"
#include "tests/reactor/cases.h"
#include "tests/unit.h"

enum { ROOM = 2048, FRAME_MAX = 3000 };

/* A frame of one or two segments, without a pool: it is only read. */
struct frame {
	struct rte_mbuf m[2];
	uint8_t bytes[2][ROOM];
};

static struct rte_mbuf *frame_of(struct frame *f, const uint8_t *bytes, uint32_t n, uint32_t cut)
{
	const uint32_t first = n < cut ? n : cut;

	memset(f->m, 0, sizeof(f->m));
	memcpy(f->bytes[0], bytes, first);
	memcpy(f->bytes[1], bytes + first, n - first);
	for (unsigned i = 0; i < 2; i++) {
		f->m[i].buf_addr = f->bytes[i];
		f->m[i].data_len = (uint16_t)(i ? n - first : first);
	}
	f->m[0].nb_segs = n > first ? 2 : 1;
	f->m[0].next = n > first ? &f->m[1] : NULL;
	f->m[0].pkt_len = n;
	return f->m;
}

static const uint8_t tcp4[] = { 1,    2,    3, 4, 5,  6, 7, 8, 9,   10, 11,   12, 8,   0,  0x45, 0, 0,	  40,
				0,    0,    0, 0, 64, 6, 0, 0, 198, 18, 0,    1,  198, 18, 0,	 2, 0x15, 0xb3,
				0x9c, 0x40, 0, 0, 0,  0, 0, 0, 0,   0,	0x50, 0,  0,   0,  0,	 0, 0,	  0 };
static const uint8_t tagged_udp6[] = { 1, 2,	3,    4,    5, 6, 7,	8,    9,  10, 11, 12,	0x81, 0,  0,
				       7, 0x86, 0xdd, 0x60, 0, 0, 0,	0,    16, 0,  64, 0x20, 1,    0,  2,
				       0, 0,	0,    0,    0, 0, 0,	0,    0,  0,  0,  1,	0x20, 1,  0,
				       2, 0,	0,    0,    0, 0, 0,	0,    0,  0,  0,  0,	2,    17, 0,
				       0, 0,	0,    0,    0, 0, 0x15, 0xb3, 0,  9,  0,  8,	0,    0 };
static const uint8_t arp[] = { 255, 255, 255, 255, 255, 255, 7, 8, 9, 10, 11, 12, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1 };

void captured_frames_are_those_that_match(void)
{
	static const uint8_t host4[16] = { [10] = 0xff, [11] = 0xff, [12] = 198, [13] = 18, [15] = 2 };
	static const uint8_t host6[16] = { 0x20, 1, 0, 2, [15] = 1 };
	static const struct {
		struct reactor_capture_filter filter;
		bool tcp4, udp6, arp;
	} cases[] = {
		{ { .port = 0 }, true, true, true },
		{ { .port = 5555 }, true, true, false },
		{ { .port = 40000 }, true, false, false },
		{ { .port = 1 }, false, false, false },
		{ { .protocol = IPPROTO_TCP }, true, false, false },
		{ { .protocol = IPPROTO_UDP }, false, true, false },
		{ { .type = 0x0806 }, false, false, true },
		{ { .type = 0x86dd, .port = 9 }, false, true, false },
		{ { .ways = REACTOR_CAPTURE_OUT }, false, false, false },
	};
	struct star_error err;
	struct frame *f = malloc(sizeof(*f));

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]) + 2; i++) {
		const bool last = i >= sizeof(cases) / sizeof(cases[0]);
		struct reactor_capture_filter filter = last ? (struct reactor_capture_filter){ 0 } : cases[i].filter;
		const bool wanted[] = { last ? i % 2 == 1 : cases[i].tcp4, last ? i % 2 == 0 : cases[i].udp6,
					last ? false : cases[i].arp };
		const uint8_t *frames[] = { tcp4, tagged_udp6, arp };
		const uint32_t sizes[] = { sizeof(tcp4), sizeof(tagged_udp6), sizeof(arp) };

		if (last)
			memcpy(filter.host, i % 2 ? host4 : host6, 16);
		/* In one piece, in two, and cut off anywhere: what is not there does not match, and is not read. */
		for (unsigned k = 0; k < 3; k++)
			for (uint32_t n = 0; n <= sizes[k]; n++) {
				struct reactor_capture *c = reactor_capture_create(&filter, 256, &err);
				struct rte_mbuf *m = frame_of(f, frames[k], n, n % 2 ? 1000 : 20);
				uint64_t matched, dropped;

				reactor_capture_frames(c, 3, REACTOR_CAPTURE_IN, &m, 1);
				reactor_capture_count(c, &matched, &dropped);
				if (n == sizes[k] ? matched != wanted[k] : matched > wanted[k])
					unit_fail(__FILE__, __LINE__, "case %u, frame %u of %u bytes", i, k, n);
				reactor_capture_destroy(c);
			}
	}
	free(f);
}

/* Many times round, by a reader that comes now and then: what is there is whole and in order, and what found no room is
 * counted. */
void captured_frames_come_in_order(void)
{
	const struct reactor_capture_filter all = { 0 };
	struct star_error err;
	struct reactor_capture *c = reactor_capture_create(&all, 1500, &err);
	struct frame *f = malloc(sizeof(*f));
	struct reactor_capture_frame frame;
	uint64_t put = 0, taken = 0, matched, dropped, expected = 0;
	uint8_t bytes[FRAME_MAX];
	const uint8_t *head;
	struct prng prng;

	prng_seed(&prng, 4);
	while (put < 60000) {
		const bool reads = prng_below(&prng, 3000) == 0;
		const uint32_t n = (uint32_t)prng_below(&prng, FRAME_MAX - 64) + 64;
		struct rte_mbuf *m;

		for (uint32_t i = 0; i < n; i++)
			bytes[i] = (uint8_t)(put + i);
		memcpy(bytes, &put, sizeof(put));
		m = frame_of(f, bytes, n, ROOM / 2);
		reactor_capture_frames(c, 3, put % 2 ? REACTOR_CAPTURE_OUT : REACTOR_CAPTURE_IN, &m, 1);
		put++;
		while (reads && reactor_capture_next(c, &frame, &head)) {
			uint64_t number;

			memcpy(&number, head, sizeof(number));
			if (number < expected || frame.port != 3 || frame.way != (number % 2 ? 2 : 1) ||
			    frame.taken != (frame.bytes < 1500 ? frame.bytes : 1500) ||
			    head[frame.taken - 1] != (uint8_t)(number + frame.taken - 1)) {
				unit_fail(__FILE__, __LINE__, "number %llu, after %llu", (unsigned long long)number,
					  (unsigned long long)expected);
				return;
			}
			expected = number + 1;
			taken++;
			reactor_capture_done(c);
		}
	}
	while (reactor_capture_next(c, &frame, &head)) {
		reactor_capture_done(c);
		taken++;
	}
	reactor_capture_count(c, &matched, &dropped);
	CHECK_UINT(matched, put);
	CHECK_UINT(taken + dropped, put);
	CHECK(dropped > 0 && taken > 10000);
	reactor_capture_destroy(c);
	free(f);
}
