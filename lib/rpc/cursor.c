/* SPDX-License-Identifier: BSD-3-Clause */
#include "rpc/cursor.h"

void rpc_cursor_copy_spanning(struct rpc_cursor *c, void *to, uint32_t n)
{
	char *at = to;

	while (n) {
		const uint32_t left = c->m->data_len - c->offset, part = RTE_MIN(left, n);

		memcpy(at, rte_pktmbuf_mtod_offset(c->m, const char *, c->offset), part);
		at += part;
		n -= part;
		c->offset += part;
		if (n) {
			c->m = c->m->next;
			c->offset = 0;
		}
	}
}

void rpc_cursor_skip(struct rpc_cursor *c, uint32_t n)
{
	while (n > c->m->data_len - c->offset) {
		n -= c->m->data_len - c->offset;
		c->m = c->m->next;
		c->offset = 0;
	}
	c->offset += n;
}
