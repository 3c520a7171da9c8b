/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a delta costs, by the share of the rows that were touched since the last checkpoint: the bytes of its file, the
 * reactor's time (its slices) and the whole time from its begin to its commit, on a node that has nothing else to do.
 * Touched rows are drawn evenly from the whole table, in random order. Prints a JSON object.
 *
 *   ckpt-delta DIRECTORY ROUNDS SHARE-IN-PERCENT...
 */
#include <jansson.h>
#include <rte_cycles.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/saves.h"

enum { ROWS = APPLIANCE_ROWS_MAX, SHARES_MAX = 32, OTHER_BYTES = 64 << 20 };

static struct appliance appliance;
static struct saves saves;
static uint8_t other[OTHER_BYTES];

/* This many rows, each once: multiples of an odd number go through all residues of a power of two. */
static void touch(uint64_t count)
{
	const uint64_t odd = prng_next(&appliance.prng) | 1, first = prng_next(&appliance.prng);

	for (uint64_t i = 0; i < count; i++)
		appliance_request(&appliance, WIRE_PUSH, (first + i * odd) % ROWS);
}

/* When a delta is written, the caches have other things than what it looks at. They are read only: to have lines
 * written back would be in the delta's time. */
static void forget(void)
{
	for (uint64_t i = 0; i < OTHER_BYTES; i += RTE_CACHE_LINE_SIZE)
		__atomic_load_n(&other[i], __ATOMIC_RELAXED);
}

static struct saves_result save(enum store_snapshot_kind kind)
{
	saves_begin(&saves, kind);
	saves_finish(&saves);
	return saves_keep(&saves);
}

static json_t *measure(double share)
{
	const uint64_t count = (uint64_t)(share / 100 * ROWS + 0.5);
	struct saves_result result;

	touch(count);
	forget();
	result = save(STORE_SNAPSHOT_DELTA);
	if (result.rows != count)
		appliance_fail("a delta does not have the rows that were touched");
	return json_pack("{s:f, s:I, s:I, s:f, s:f}", "share", share, "rows", (json_int_t)count, "bytes",
			 (json_int_t)result.bytes, "reactor_us",
			 (double)result.slices_cycles * 1e6 / (double)rte_get_tsc_hz(), "whole_us",
			 (double)result.whole_ns / 1000);
}

int main(int argc, char **argv)
{
	const unsigned rounds = argc > 3 ? (unsigned)atoi(argv[2]) : 0;
	json_t *json = json_array();

	if (rounds == 0 || argc > 3 + SHARES_MAX) {
		fprintf(stderr, "usage: ckpt-delta DIRECTORY ROUNDS SHARE-IN-PERCENT...\n");
		return 2;
	}
	memset(other, 1, sizeof(other));
	saves_start(&saves, &appliance, argv[1]);
	for (uint64_t key = 0; key < ROWS; key++)
		appliance_request(&appliance, WIRE_PULL, key);
	save(STORE_SNAPSHOT_FULL);
	for (unsigned i = 0; i < rounds; i++) {
		json_t *round = json_array();

		/* Up and down in turn, so that none always follows the same. */
		for (int at = 3; at < argc; at++)
			json_array_append_new(round, measure(atof(argv[i % 2 ? argc + 2 - at : at])));
		json_array_append_new(json, round);
		save(STORE_SNAPSHOT_FULL);
	}
	json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(7));
	putchar('\n');
	json_decref(json);
	return appliance.bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
