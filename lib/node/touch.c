/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hugepages for parameters are reserved when they are mapped, but allocated and cleared only when they are touched: a
 * reactor would have to wait 100 us or more for each as its tables grow. So they are touched before the reactor starts,
 * on its core, so that they are on its NUMA node; for all reactors in parallel. Ordinary pages are not: what is never
 * used then costs nothing. But if it is known what will be used, because a checkpoint is loaded, a thread touches that
 * ahead of the reactors.
 */
#include <errno.h>
#include <pthread.h>
#include <rte_lcore.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "jsonrpc/thread.h"
#include "node/node.h"
#include "store/arena.h"

struct touch {
	const struct shard *shard;
	pthread_t thread;
	int error;
};

static void go_to_core_of(const struct shard *shard)
{
	const struct config *config = shard->node->config;
	cpu_set_t cores;

	if (!config->pin)
		return;
	CPU_ZERO(&cores);
	CPU_SET(config->cores[shard->index], &cores);
	pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores);
}

static void *touch_arena(void *arg)
{
	struct touch *touch = arg;
	const struct node *node = touch->shard->node;

	go_to_core_of(touch->shard);
	if (madvise(touch->shard->arena, node->arena_bytes, MADV_POPULATE_WRITE) < 0)
		touch->error = errno;
	return NULL;
}

int node_touch(struct node *node, struct star_error *err)
{
	struct touch touches[WIRE_REACTORS_MAX];
	unsigned started = 0;
	int status = 0;

	if (!port_eal_hugepages())
		return 0;
	for (; status == 0 && started < node->shards_count; started += status == 0) {
		touches[started] = (struct touch){ .shard = &node->shards[started] };
		status = jsonrpc_thread_start(&touches[started].thread, "touch", touch_arena, &touches[started], err);
	}
	for (unsigned i = 0; i < started; i++) {
		pthread_join(touches[i].thread, NULL);
		if (status == 0 && touches[i].error)
			status = star_error_set(err, -touches[i].error,
						"parameters of reactor %u: the hugepages are not there: %s", i,
						strerror(touches[i].error));
	}
	return status;
}

/* ---- ahead of a restore ---- */

enum {
	PIECE_BYTES = 4 << 20,
	INDEX_BYTES_PER_ROW = 8, /* approximately */
};

struct touch_ahead {
	struct node *node;
	size_t rows_bytes, index_bytes; /* of each shard: from the beginning of its arena, and from its end */
	pthread_t thread;
	bool over;
};

/* [at, end) of the shard's arena. False: the kernel does not support it. */
static bool touch_piece(const struct shard *shard, size_t at, size_t end)
{
	/* The pages would be on this thread's NUMA node. */
	if (rte_socket_count() > 1)
		go_to_core_of(shard);
	return madvise((uint8_t *)shard->arena + at, end - at, MADV_POPULATE_WRITE) == 0;
}

static size_t pages(size_t bytes, size_t most)
{
	const size_t whole = (bytes + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE;

	return whole < most ? whole : most / ARENA_PAGE * ARENA_PAGE;
}

/* One piece of each shard in turn, because all of them are loaded at the same time. */
static void *touch_all(void *arg)
{
	struct touch_ahead *ahead = arg;
	const struct node *node = ahead->node;
	const size_t rows = ahead->rows_bytes, index = ahead->index_bytes, end = node->arena_bytes;
	const size_t pieces = (rows + PIECE_BYTES - 1) / PIECE_BYTES, index_piece = pages(index / pieces + 1, index);

	for (size_t piece = 0; piece < pieces; piece++)
		for (unsigned i = 0; i < node->shards_count; i++) {
			const size_t at = piece * PIECE_BYTES, done = piece * index_piece;

			if (__atomic_load_n(&ahead->over, __ATOMIC_RELAXED) ||
			    !touch_piece(&node->shards[i], at, at + pages(PIECE_BYTES, rows - at)) ||
			    (done < index &&
			     !touch_piece(&node->shards[i], end - done - pages(index_piece, index - done), end - done)))
				return NULL;
		}
	return NULL;
}

struct touch_ahead *node_touch_begin(struct node *node, uint64_t bytes, uint64_t rows)
{
	struct touch_ahead *ahead = port_eal_hugepages() || bytes == 0 ? NULL : calloc(1, sizeof(*ahead));
	struct star_error err;

	if (!ahead)
		return NULL;
	ahead->node = node;
	ahead->index_bytes = pages(rows * INDEX_BYTES_PER_ROW, node->arena_bytes / 2);
	ahead->rows_bytes = pages(bytes, node->arena_bytes - ahead->index_bytes);
	if (jsonrpc_thread_start(&ahead->thread, "touch", touch_all, ahead, &err) == 0)
		return ahead;
	free(ahead);
	return NULL;
}

void node_touch_end(struct touch_ahead *ahead)
{
	if (!ahead)
		return;
	__atomic_store_n(&ahead->over, true, __ATOMIC_RELAXED);
	pthread_join(ahead->thread, NULL);
	free(ahead);
}
