/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fuzz/pool.h"

#include <errno.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#include <stdbool.h>
#include <string.h>

#include "net/net.h"

/* A mempool handler: a ring of free objects, first in, first out. */
struct guard {
	unsigned size, head, count;
	bool armed; /* from when on the pool is made: what fills it writes to free objects */
	void *objects[];
};

static int guard_alloc(struct rte_mempool *pool)
{
	struct guard *g = calloc(1, sizeof(*g) + pool->size * sizeof(void *));

	if (!g)
		return -ENOMEM;
	g->size = pool->size;
	pool->pool_data = g;
	return 0;
}

static void guard_free(struct rte_mempool *pool)
{
	free(pool->pool_data);
}

static int guard_put(struct rte_mempool *pool, void *const *objects, unsigned n)
{
	struct guard *g = pool->pool_data;

	FUZZ_CHECK(g->count + n <= g->size, "more mbufs are free than there are");
	for (unsigned i = 0; i < n; i++) {
		g->objects[(g->head + g->count++) % g->size] = objects[i];
		if (g->armed)
			ASAN_POISON_MEMORY_REGION(objects[i], pool->elt_size);
	}
	return 0;
}

static int guard_get(struct rte_mempool *pool, void **objects, unsigned n)
{
	struct guard *g = pool->pool_data;

	if (n > g->count)
		return -ENOBUFS;
	for (unsigned i = 0; i < n; i++) {
		objects[i] = g->objects[g->head];
		g->head = (g->head + 1) % g->size;
		g->count--;
		ASAN_UNPOISON_MEMORY_REGION(objects[i], pool->elt_size);
	}
	return 0;
}

static unsigned guard_count(const struct rte_mempool *pool)
{
	const struct guard *g = pool->pool_data;

	return g->count;
}

static const struct rte_mempool_ops guard_ops = {
	.name = "guard",
	.alloc = guard_alloc,
	.free = guard_free,
	.enqueue = guard_put,
	.dequeue = guard_get,
	.get_count = guard_count,
};

RTE_MEMPOOL_REGISTER_OPS(guard_ops);

void fuzz_eal(void)
{
	static const char *const args[] = { "fuzz", "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "-m",
					    "64",   "--lcores",	 "0@(0-1)",  "--log-level",    "error" };
	static char *argv[RTE_DIM(args) + 1];

	/* What is referred to from DPDK's memory only would be taken for a leak. */
	__lsan_disable();
	for (unsigned i = 0; i < RTE_DIM(args); i++)
		argv[i] = strdup(args[i]); /* the EAL moves them about */
	FUZZ_CHECK(rte_eal_init(RTE_DIM(args), argv) >= 0, "the EAL does not start");
	__lsan_enable();
}

struct rte_mempool *fuzz_pool(unsigned mbufs)
{
	struct rte_mempool *pool;
	struct guard *g;

	__lsan_disable();
	pool = rte_pktmbuf_pool_create_by_ops("fuzz", mbufs, 0, NET_PRIV_BYTES, RTE_MBUF_DEFAULT_BUF_SIZE,
					      SOCKET_ID_ANY, "guard");
	__lsan_enable();
	FUZZ_CHECK(pool, "no mempool");
	g = pool->pool_data;
	g->armed = true;
	for (unsigned i = 0; i < g->count; i++)
		ASAN_POISON_MEMORY_REGION(g->objects[i], pool->elt_size);
	return pool;
}

void fuzz_pool_whole(const struct rte_mempool *pool)
{
	FUZZ_CHECK(rte_mempool_in_use_count(pool) == 0, "%u mbufs are missing", rte_mempool_in_use_count(pool));
}
