/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a payload from a chain of mbufs, whose boundaries can be anywhere. The caller has checked that the bytes are
 * there. Pure functions.
 */
#ifndef RPC_CURSOR_H
#define RPC_CURSOR_H

#include <rte_mbuf.h>
#include <stdint.h>
#include <string.h>

struct rpc_cursor {
	struct rte_mbuf *m;
	uint32_t offset; /* in m's data */
};

/* Copies n bytes that may be in several mbufs, and moves the cursor. */
void rpc_cursor_copy_spanning(struct rpc_cursor *c, void *to, uint32_t n);

/* Moves the cursor by n bytes. */
void rpc_cursor_skip(struct rpc_cursor *c, uint32_t n);

static inline void rpc_cursor_copy(struct rpc_cursor *c, void *to, uint32_t n)
{
	if (likely(c->m && c->offset + n <= c->m->data_len)) {
		memcpy(to, rte_pktmbuf_mtod_offset(c->m, const char *, c->offset), n);
		c->offset += n;
	} else {
		rpc_cursor_copy_spanning(c, to, n);
	}
}

/* The next n bytes: in place if they are contiguous and aligned to `alignment` (a power of two), else copied to
 * scratch. Moves the cursor. */
static inline const void *rpc_cursor_take(struct rpc_cursor *c, uint32_t n, uint32_t alignment, void *scratch)
{
	if (c->m && c->offset + n <= c->m->data_len) {
		const char *at = rte_pktmbuf_mtod_offset(c->m, const char *, c->offset);

		if (((uintptr_t)at & (alignment - 1)) == 0) {
			c->offset += n;
			return at;
		}
	}
	rpc_cursor_copy(c, scratch, n);
	return scratch;
}

#endif
