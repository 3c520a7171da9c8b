/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mempool's store that returns the mbuf that was freed last: so the mbufs in use stay in the caches, whereas a ring
 * would cycle through all of the pool's memory. Like its pool, it is used by one thread at a time: no lock, no atomics.
 * It is in DPDK's memory, as the pool is: on its NUMA node, and not reported by leak checkers, which do not search that
 * memory for pointers.
 */
#include <errno.h>
#include <rte_eal.h>
#include <rte_malloc.h>
#include <stdlib.h>
#include <string.h>

#include "port/internal.h"

static int lifo_alloc(struct rte_mempool *pool)
{
	struct port_lifo *lifo = rte_malloc_socket("star_lifo", sizeof(*lifo) + pool->size * sizeof(lifo->objects[0]),
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

/* NULL: the thread owns the pools, or their owners do not run. */
static __thread struct port_strays *strays;

void port_strays_begin(struct port_strays *of)
{
	*of = (struct port_strays){ .count = 0 };
	strays = of;
}

void port_strays_end(void)
{
	strays = NULL;
}

void port_strays_return(struct port_strays *of)
{
	for (unsigned i = 0; i < of->count; i++)
		rte_mempool_put(of->all[i].pool, of->all[i].object);
	free(of->all);
	*of = (struct port_strays){ .count = 0 };
}

static int stray(struct rte_mempool *pool, void *const *objects, unsigned n)
{
	if (strays->count + n > strays->size) {
		const unsigned size = 2 * (strays->count + n);
		void *all = realloc(strays->all, size * sizeof(strays->all[0]));

		if (!all)
			return -ENOBUFS;
		strays->all = all;
		strays->size = size;
	}
	for (unsigned i = 0; i < n; i++)
		strays->all[strays->count++] = (struct port_stray){ pool, objects[i] };
	return 0;
}

static int lifo_put(struct rte_mempool *pool, void *const *objects, unsigned n)
{
	struct port_lifo *lifo = pool->pool_data;

	if (unlikely(strays))
		return stray(pool, objects, n);
	if (n > lifo->size - lifo->count)
		return -ENOBUFS;
	memcpy(lifo->objects + lifo->count, objects, n * sizeof(objects[0]));
	lifo->count += n;
	return 0;
}

static int lifo_take(struct rte_mempool *pool, void **objects, unsigned n)
{
	struct port_lifo *lifo = pool->pool_data;

	if (n > lifo->count)
		return -ENOBUFS;
	lifo->count -= n;
	memcpy(objects, lifo->objects + lifo->count, n * sizeof(objects[0]));
	return 0;
}

static unsigned lifo_count(const struct rte_mempool *pool)
{
	const struct port_lifo *lifo = pool->pool_data;

	return lifo->count;
}

/* DPDK's own function leaves gaps, because objects must not cross the ends of pages; memory.c's contiguous memory,
 * which no NIC reads, does not need them. */
static int lifo_populate(struct rte_mempool *pool, unsigned most, void *memory, rte_iova_t iova, size_t bytes,
			 rte_mempool_populate_obj_cb_t *add, void *ctx)
{
	const size_t step = pool->header_size + pool->elt_size + pool->trailer_size;
	unsigned n = 0;

	if (!port_mempool_is_whole())
		return rte_mempool_op_populate_default(pool, most, memory, iova, bytes, add, ctx);
	for (; n < most && (n + 1) * step <= bytes; n++) {
		const size_t at = n * step + pool->header_size;
		void *object = (uint8_t *)memory + at;

		add(pool, ctx, object, iova == RTE_BAD_IOVA ? RTE_BAD_IOVA : iova + at);
		lifo_put(pool, &object, 1);
	}
	return (int)n;
}

static const struct rte_mempool_ops ops = {
	.name = "star_lifo",
	.alloc = lifo_alloc,
	.free = lifo_free,
	.enqueue = lifo_put,
	.dequeue = lifo_take,
	.get_count = lifo_count,
	.populate = lifo_populate,
};

RTE_MEMPOOL_REGISTER_OPS(ops);

int port_lifo(struct rte_mempool *pool)
{
	return rte_mempool_set_ops_byname(pool, ops.name, NULL);
}
