/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that bypass the caches (streaming stores), for data that another core or a much later time needs. Any
 * thread. */
#ifndef BASE_STREAM_H
#define BASE_STREAM_H

#include <emmintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { STREAM_LINE = 64 };

/* As memcpy, but whole cache lines are written directly to memory, without reading them first. Call stream_end before
 * another thread is told about the data by a flag or a ring. */
static inline void stream_copy(void *to, const void *from, size_t bytes)
{
	const size_t head = (size_t)(-(uintptr_t)to % STREAM_LINE);
	const char *in = from;
	char *out = to;

	if (bytes < head) {
		memcpy(out, in, bytes);
		return;
	}
	memcpy(out, in, head);
	for (out += head, in += head, bytes -= head; bytes >= STREAM_LINE;
	     bytes -= STREAM_LINE, out += STREAM_LINE, in += STREAM_LINE) {
		const __m128i *line = (const __m128i *)in;
		const __m128i a = _mm_loadu_si128(line), b = _mm_loadu_si128(line + 1), c = _mm_loadu_si128(line + 2),
			      d = _mm_loadu_si128(line + 3);

		_mm_stream_si128((__m128i *)out, a);
		_mm_stream_si128((__m128i *)out + 1, b);
		_mm_stream_si128((__m128i *)out + 2, c);
		_mm_stream_si128((__m128i *)out + 3, d);
	}
	memcpy(out, in, bytes);
}

static inline void stream_end(void)
{
	_mm_sfence();
}

#endif
