/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames on their way between two stacks, for the fuzz targets that decide what becomes of them. */
#ifndef TESTS_FUZZ_FRAMES_H
#define TESTS_FUZZ_FRAMES_H

#include <rte_mbuf.h>
#include <stdbool.h>
#include <string.h>

enum { FRAMES_MAX = 128 };

struct frames {
	struct rte_mbuf *at[FRAMES_MAX];
	unsigned count;
};

/* False: there are too many, and it is freed. */
static inline bool frames_put(struct frames *f, struct rte_mbuf *m)
{
	if (f->count == FRAMES_MAX) {
		rte_pktmbuf_free(m);
		return false;
	}
	f->at[f->count++] = m;
	return true;
}

static inline struct rte_mbuf *frames_pick(struct frames *f, unsigned i)
{
	struct rte_mbuf *m = f->at[i];

	memmove(&f->at[i], &f->at[i + 1], (--f->count - i) * sizeof(m));
	return m;
}

static inline void frames_free(struct frames *f)
{
	rte_pktmbuf_free_bulk(f->at, f->count);
	f->count = 0;
}

/* In an mbuf of its own; NULL: there is none. */
static inline struct rte_mbuf *frames_copy(struct rte_mempool *pool, const struct rte_mbuf *m)
{
	struct rte_mbuf *copy = rte_pktmbuf_alloc(pool);

	if (copy)
		memcpy(rte_pktmbuf_append(copy, m->data_len), rte_pktmbuf_mtod(m, void *), m->data_len);
	return copy;
}

#endif
