/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A token bucket: a rate per second, with a maximum burst. A zeroed bucket is empty, and becomes full in the time of a
 * burst. It is used by one thread.
 */
#ifndef BASE_BUCKET_H
#define BASE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

struct bucket {
	uint64_t filled_ns;
	uint32_t left;
};

/* False: none is left. per_second is at most 1e9. */
static inline bool bucket_take(struct bucket *b, uint64_t now_ns, uint32_t per_second, uint32_t burst)
{
	const uint64_t each_ns = UINT64_C(1000000000) / per_second, tokens = (now_ns - b->filled_ns) / each_ns;

	if (b->left + tokens >= burst) {
		b->left = burst;
		b->filled_ns = now_ns;
	} else {
		b->left += (uint32_t)tokens;
		b->filled_ns += tokens * each_ns;
	}
	if (b->left == 0)
		return false;
	b->left--;
	return true;
}

#endif
