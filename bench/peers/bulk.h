/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What both ends of a bulk transfer without an appliance agree on (bulk.c and epoll-bulk.c): the client asks for a
 * direction and a number of bytes; the bytes are those of a pattern, over and over, so that the reader can compare
 * every one of them by memcmp. The pattern has the size of the rows that bulk.c pulls from an appliance.
 */
#ifndef PEERS_BULK_H
#define PEERS_BULK_H

#include <stdint.h>
#include <string.h>

#include "base/prng.h"

enum bulk_limits {
	BULK_SETS = 16,		    /* different requests, in turn */
	BULK_ROWS = 64,		    /* rows of a request */
	BULK_DIM = 1024,	    /* float32 of a row */
	BULK_SET_BYTES = 256 << 10, /* of the rows of one request */
	BULK_PATTERN_BYTES = BULK_SETS * BULK_SET_BYTES,
};
_Static_assert(BULK_ROWS *BULK_DIM * 4 == BULK_SET_BYTES, "rows of a request");

enum bulk_kind { BULK_PULL = 1, BULK_PUSH = 2 };

struct bulk_ask {
	uint64_t kind;
	uint64_t bytes; /* a multiple of BULK_SET_BYTES */
};

/* The server's last word about a push. */
struct bulk_verdict {
	uint64_t bytes;
	uint64_t wrong; /* reads that were not what the pattern says */
};

static inline void bulk_fill(uint8_t *pattern)
{
	struct prng prng;

	prng_seed(&prng, 1);
	for (uint32_t at = 0; at < BULK_PATTERN_BYTES; at += sizeof(uint64_t)) {
		const uint64_t next = prng_next(&prng);

		memcpy(pattern + at, &next, sizeof(next));
	}
}

#endif
