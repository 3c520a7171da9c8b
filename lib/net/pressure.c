/* SPDX-License-Identifier: BSD-3-Clause */
/* How scarce mbufs are. */
#include "net/internal.h"

enum {
	LOW_PART = 16, /* fractions of the pool that must be free */
	HIGH_PART = 32,
	FULL_PART = 64,
};

static enum net_pressure pressure_of(uint32_t avail, uint32_t all)
{
	if (avail >= all / HIGH_PART)
		return NET_PRESSURE_LOW;
	return avail >= all / FULL_PART ? NET_PRESSURE_HIGH : NET_PRESSURE_FULL;
}

void net_watch_pool(struct net *net)
{
	struct rte_mempool_cache *cache = rte_mempool_default_cache(net->memory.pool, rte_lcore_id());
	const uint32_t avail = net_mempool_free(net->memory.pool, cache);

	net->memory.cache = cache;
	if (likely(avail >= net->memory.pool->size / LOW_PART))
		net->pressure = NET_PRESSURE_NONE;
	else
		net->pressure = pressure_of(avail, net->memory.pool->size);
}

unsigned net_pressure(const struct net *net)
{
	return net->pressure == NET_PRESSURE_FULL ? NET_PRESSURE_HIGH : net->pressure;
}
