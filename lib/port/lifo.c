/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mempool's store that gives the mbuf back that was freed last: what is in use stays in the caches, where a ring would
 * go round all the pool's memory. It belongs to one thread at a time, as its pool does: no lock, no atomic. It lies where the pool does, in DPDK's
 * memory: on its NUMA node, and not found to have leaked by who looks for pointers everywhere else.
 */
#include <errno.h>
#include <rte_malloc.h>
#include <string.h>

#include "port/internal.h"

struct lifo {
	unsigned count, size;
	void *objects[];
};

static int lifo_alloc(struct rte_mempool *pool)
{
	struct lifo *lifo = rte_malloc_socket("star_lifo", sizeof(*lifo) + pool->size * sizeof(lifo->objects[0]),
					      RTE_CACHE_LINE_SIZE, pool->socket_id);

	if (!lifo)
		return -ENOMEM;
	lifo->count = 0;
	lifo->size = pool->size;
	pool->pool_data = lifo;
	return 0;
}

static void lifo_free(struct rte_mempool *pool)
{
	rte_free(pool->pool_data);
}

static int lifo_put(struct rte_mempool *pool, void *const *objects, unsigned n)
{
	struct lifo *lifo = pool->pool_data;

	if (n > lifo->size - lifo->count)
		return -ENOBUFS;
	memcpy(lifo->objects + lifo->count, objects, n * sizeof(objects[0]));
	lifo->count += n;
	return 0;
}

static int lifo_take(struct rte_mempool *pool, void **objects, unsigned n)
{
	struct lifo *lifo = pool->pool_data;

	if (n > lifo->count)
		return -ENOBUFS;
	lifo->count -= n;
	memcpy(objects, lifo->objects + lifo->count, n * sizeof(objects[0]));
	return 0;
}

static unsigned lifo_count(const struct rte_mempool *pool)
{
	const struct lifo *lifo = pool->pool_data;

	return lifo->count;
}

static const struct rte_mempool_ops ops = {
	.name = "star_lifo",
	.alloc = lifo_alloc,
	.free = lifo_free,
	.enqueue = lifo_put,
	.dequeue = lifo_take,
	.get_count = lifo_count,
};

RTE_MEMPOOL_REGISTER_OPS(ops);

int port_lifo(struct rte_mempool *pool)
{
	return rte_mempool_set_ops_byname(pool, ops.name, NULL);
}
