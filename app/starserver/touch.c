/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hugepages for parameters are set aside when they are mapped, but found and cleared only when they are touched: 100 us and more
 * for each that a reactor would have to wait for as its tables grow. They are touched before it starts, on its core, so
 * that they are of its NUMA node; all reactors' at a time. Ordinary memory is not: what is never used costs nothing then.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "control/thread.h"
#include "node.h"

struct touch {
	const struct shard *shard;
	pthread_t thread;
	int error;
};

static void *touch_arena(void *arg)
{
	struct touch *touch = arg;
	const struct node *node = touch->shard->node;
	cpu_set_t cores;

	CPU_ZERO(&cores);
	if (node->config->pin) {
		CPU_SET(node->config->cores[touch->shard->index], &cores);
		pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores);
	}
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
		status = thread_start(&touches[started].thread, "touch", touch_arena, &touches[started], err);
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
