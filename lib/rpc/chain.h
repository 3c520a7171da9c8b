/* SPDX-License-Identifier: BSD-3-Clause */
/* The CRC-32 of a message in a chain of mbufs. Pure functions. */
#ifndef RPC_CHAIN_H
#define RPC_CHAIN_H

#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include "base/crc32.h"

/* Prefetches an mbuf's data. It was written by another core, or long ago, so it is loaded while the data before it is
 * added to the checksum. */
static inline void rpc_chain_prefetch(const struct rte_mbuf *m)
{
	const char *at = m ? rte_pktmbuf_mtod(m, const char *) : NULL;

	for (uint32_t i = 0; m && i < m->data_len; i += RTE_CACHE_LINE_SIZE)
		rte_prefetch0(at + i);
}

/* The CRC-32 of a message that begins `at` bytes after the start of the first mbuf's data. It ends either in that mbuf
 * (several messages may share a packet) or at the end of the chain. */
static inline uint32_t rpc_chain_crc(const struct rte_mbuf *m, uint32_t at, uint32_t bytes)
{
	struct crc32_length length = { 0 };
	uint32_t crc;

	rpc_chain_prefetch(m->next);
	crc = base_crc32(rte_pktmbuf_mtod_offset(m, const char *, at), RTE_MIN(bytes, m->data_len - at));
	while ((m = m->next)) {
		rpc_chain_prefetch(m->next);
		crc = base_crc32_join(&length, crc, base_crc32(rte_pktmbuf_mtod(m, const char *), m->data_len),
				      m->data_len);
	}
	return crc;
}

#endif
