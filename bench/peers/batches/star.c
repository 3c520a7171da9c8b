/* SPDX-License-Identifier: BSD-3-Clause */
/* The appliance, by libstar: a blocking call where one batch is in flight at a time, else asynchronous ones. */
#include "bench/peers/batches/batches.h"

#include <stddef.h>

#include "star.h"

enum { DEADLINE_US = TIMEOUT_S * 1000000 };

static struct star_cluster *cluster;
static struct star_table *table;
static struct star_request *requests[DEPTH_MAX];
static uint64_t begun, ended;

static void star_side_open(const struct worker *w)
{
	const struct star_spec spec = { .name = "batches", .dim = BATCH_DIM, .optimizer = "sgd", .rate = RATE };
	struct star_error err;

	cluster = star_open(w->address, DEADLINE_US, &err);
	table = cluster ? star_table_create(cluster, &spec, DEADLINE_US, &err) : NULL;
	if (!table)
		die("%s", err.text);
}

static void star_begin(const struct batch *batch, uint32_t depth)
{
	struct star_op op = {
		.kind = batch->push ? STAR_PUSH : STAR_PULL,
		.table = table,
		.keys = batch->keys,
		.count = batch->count,
		.flags = batch->push ? STAR_RATE : 0,
		.rate = batch->push ? batch->rate : 0,
		.values = batch->push ? (void *)(uintptr_t)batch->payload : batch->results,
	};
	struct star_error err;
	const uint64_t slot = begun++ % DEPTH_MAX;

	requests[slot] = NULL;
	if (depth == 1) {
		if (star_execute(cluster, &op, 1, DEADLINE_US, &err) < 0)
			die("%s", err.text);
		return;
	}
	requests[slot] = star_execute_async(cluster, &op, 1, DEADLINE_US, NULL, NULL, &err);
	if (!requests[slot])
		die("%s", err.text);
}

static void star_end(const struct batch *batch)
{
	struct star_request *request = requests[ended++ % DEPTH_MAX];
	struct star_error err;

	if (request && star_request_wait(request, &err) < 0)
		die("%s", err.text);
}

static void star_side_close(void)
{
	star_close(cluster);
}

const struct side side_star = {
	.name = "star", .open = star_side_open, .begin = star_begin, .end = star_end, .close = star_side_close
};
