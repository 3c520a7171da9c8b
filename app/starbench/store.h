/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Benchmarks of the parameter store in this process, on one core: the calls that a reactor makes, without network and
 * service. Each measures the store and a *limit* alternately, batch by batch, in rounds. The limit is a plain loop over
 * the same memory that knows in advance where every row is. One thread.
 */
#ifndef STARBENCH_STORE_H
#define STARBENCH_STORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/starbench/histogram.h"
#include "base/clock.h"
#include "base/power_law.h"
#include "base/prng.h"
#include "store/push.h"
#include "store/store.h"
#include "tensor/dtype.h"

enum {
	STORE_ROWS_MAX = 1000 * 1000 * 1000,
	STORE_KEYS_MAX = 65536,
	STORE_ROUNDS_MAX = 1000,
	STORE_MIB_MAX = 65536,
};

struct store_options {
	uint32_t rows, dim, keys, rounds, mib;
	double round_s;
	double power; /* exponent of the keys' power law; 0: uniform */
	uint64_t seed;
	const char *optimizer;
};

/* A store of one table or variable. */
struct store_bench {
	const struct store_options *options;
	void *memory;
	size_t memory_bytes;
	const char *memory_kind;
	struct store *store;
	struct store_table *table;
	uint32_t row_bytes; /* of values */
	store_row *handles; /* of the rows of keys 0, 1, ...: used by the limits */
	struct prng prng;
	struct power_law law; /* if options->power is not 0 */
};

/* Allocates `bytes` of memory for rows and index, in 2 MiB hugepages if there are any, else in transparent ones. 0 or a
 * negative errno. */
int store_bench_open(struct store_bench *b, const struct store_options *options, uint64_t bytes,
		     struct star_error *err);
void store_bench_close(struct store_bench *b);

/* Creates a table of float32 rows, options->dim elements each, in the benchmark's store. */
struct store_table *store_bench_table(struct store_bench *b, const char *name, struct star_error *err);

/* Bytes that the rows in the options need, including the index at its lowest fill; 0 for an unknown optimizer. */
uint64_t store_bench_bytes(const struct store_options *options);

/* The key of an index; keys are in no order. */
static inline uint64_t store_bench_key(uint64_t index)
{
	return hash_mix(index + 1);
}

/* Creates the rows of keys [first, first + count). 0 or -ENOMEM. */
int store_bench_fill(struct store_bench *b, struct store_table *table, uint64_t first, uint64_t count,
		     struct star_error *err);

/* Draws an index in [0, options->rows). */
uint32_t store_bench_draw(struct store_bench *b);

/* Copies a row; mostly it has 64 bytes. */
static inline void store_bench_copy(uint8_t *to, const void *from, uint32_t bytes)
{
	if (bytes == 64)
		__builtin_memcpy(to, from, 64);
	else
		__builtin_memcpy(to, from, bytes);
}

/* How a limit prefetches: how many rows ahead, and into which cache. */
struct store_ahead {
	uint32_t rows;
	bool far; /* into the second level only */
};

/* The store and its limit, measured alternately, batch by batch, each with its own keys. Times are in nanoseconds per
 * batch. */
struct store_race {
	void *context;
	const char *mine, *limit; /* the sides' names */
	uint64_t (*time_mine)(void *context);
	uint64_t (*time_limit)(void *context, struct store_ahead ahead);
	unsigned calibration; /* batches that find the limit's best way to prefetch */
};

/* Measures, and adds both sides' rounds and the limit's way to prefetch to result. */
void store_bench_race(const struct store_options *options, const struct store_race *race, json_t *result);

/* Adds a side's rounds, in nanoseconds per item, to result: "SIDE": { "ns": [...] }. */
void store_bench_side(json_t *result, const char *side, const double *ns, uint32_t rounds);

/* The modes. Each adds its members to result. 0 or a negative errno with err. */
int store_bench_pull(const struct store_options *options, json_t *result, struct star_error *err);
int store_bench_push(const struct store_options *options, json_t *result, struct star_error *err);
int store_bench_growth(const struct store_options *options, json_t *result, struct star_error *err);
int store_bench_dense(const struct store_options *options, json_t *result, struct star_error *err);

/* The command `starbench store`. Returns the exit status. */
int store_main(int argc, char **argv);

#endif
