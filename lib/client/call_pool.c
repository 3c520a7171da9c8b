/* SPDX-License-Identifier: BSD-3-Clause */
/* Reuses calls without a lock: a stack of free ones (Treiber, IBM RJ 5118, 1986), whose head counts its changes. */
#include "client/client.h"

#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
/* Nobody may use what the last user of a call left in its memory. */
#define FORBID(call) __asan_poison_memory_region((call)->memory, sizeof((call)->memory))
#define ALLOW(call) __asan_unpoison_memory_region((call)->memory, sizeof((call)->memory))
#else
#define FORBID(call) (void)0
#define ALLOW(call) (void)0
#endif

/* Slab s holds the POOL_FIRST << s numbers from (POOL_FIRST << s) - POOL_FIRST + 1 on. */
static inline struct call *pool_at(const struct call_pool *pool, uint32_t number)
{
	const uint32_t n = number - 1 + POOL_FIRST;
	const unsigned slab = 31u - (unsigned)__builtin_clz(n / POOL_FIRST);

	return &pool->slabs[slab][n - ((uint32_t)POOL_FIRST << slab)];
}

void client_call_stack_push(struct call_stack *stack, struct call *call)
{
	uint64_t head = atomic_load_explicit(&stack->head, memory_order_relaxed), next;

	do {
		atomic_store_explicit(&call->next_free, (uint32_t)head, memory_order_relaxed);
		next = ((head >> 32) + 1) << 32 | call->number;
	} while (!atomic_compare_exchange_weak_explicit(&stack->head, &head, next, memory_order_release,
							memory_order_relaxed));
}

struct call *client_call_stack_pop(const struct call_pool *pool, struct call_stack *stack)
{
	uint64_t head = atomic_load_explicit(&stack->head, memory_order_acquire);

	while ((uint32_t)head) {
		struct call *call = pool_at(pool, (uint32_t)head);
		/* Another thread may have taken it: then this value is wrong, but the head has changed, too. */
		const uint32_t next = atomic_load_explicit(&call->next_free, memory_order_relaxed);

		if (atomic_compare_exchange_weak_explicit(&stack->head, &head, ((head >> 32) + 1) << 32 | next,
							  memory_order_acquire, memory_order_acquire))
			return call;
	}
	return NULL;
}

/* Allocates another slab, whose first call is for the caller. Called with the cluster's lock. */
static struct call *grow_pool(struct call_pool *pool)
{
	const uint32_t s = pool->slabs_count, count = (uint32_t)POOL_FIRST << s;
	struct call *slab = s < POOL_SLABS ? aligned_alloc(_Alignof(struct call), count * sizeof(*slab)) : NULL;

	if (!slab)
		return NULL;
	pool->slabs[s] = slab;
	pool->slabs_count++;
	for (uint32_t i = 0; i < count; i++) {
		slab[i].number = count - POOL_FIRST + i + 1;
		slab[i].chunks = NULL;
		FORBID(&slab[i]);
		if (i)
			client_call_stack_push(&pool->free, &slab[i]);
	}
	return slab;
}

struct call *client_call_pool_take(struct star_cluster *cluster)
{
	struct call *call = client_call_stack_pop(&cluster->pool, &cluster->pool.free);

	if (!call) {
		pthread_mutex_lock(&cluster->lock);
		call = grow_pool(&cluster->pool);
		pthread_mutex_unlock(&cluster->lock);
	}
	if (call)
		ALLOW(call);
	return call;
}

static void free_chunks(struct call *call)
{
	struct chunk *chunk;

	while ((chunk = call->chunks)) {
		call->chunks = chunk->next;
		free(chunk);
	}
}

void client_call_pool_give(struct call_pool *pool, struct call *call)
{
	if (call->chunks)
		free_chunks(call);
	FORBID(call);
	client_call_stack_push(&pool->free, call);
}

void client_call_pool_fini(struct call_pool *pool)
{
	for (uint32_t s = 0; s < pool->slabs_count; s++) {
		for (uint32_t i = 0; i < (uint32_t)POOL_FIRST << s; i++) {
			free_chunks(&pool->slabs[s][i]); /* of requests that nobody has waited for */
			ALLOW(&pool->slabs[s][i]);
		}
		free(pool->slabs[s]);
	}
	pool->slabs_count = 0;
}
