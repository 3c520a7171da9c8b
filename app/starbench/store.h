/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Benches of the parameter store in this process and on one core: no network, no service, the calls that a reactor
 * makes. Each measures the store and a limit in turn, batch by batch, in rounds: plain loops over the same memory that
 * know beforehand where everything lies.
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
	store_row *handles; /* of the rows of keys 0, 1, ...: what the limits know */
	struct prng prng;
	struct power_law law; /* if the options want one */
};

/* Memory for n bytes of rows and what goes with them: of 2 MiB hugepages if there are any, else transparent ones. */
int store_bench_open(struct store_bench *b, const struct store_options *options, uint64_t bytes,
		     struct star_error *err);
void store_bench_close(struct store_bench *b);

/* A table of float32 rows, dim of them, in the bench's store. */
struct store_table *store_bench_table(struct store_bench *b, const char *name, struct star_error *err);

/* Bytes that the options' rows need, the index at its least full included; 0 for an unknown optimizer. */
uint64_t store_bench_bytes(const struct store_options *options);

/* The key of an index, so that keys are of no order. */
static inline uint64_t store_bench_key(uint64_t index)
{
	return hash_mix(index + 1);
}

/* Makes the rows of keys first .. first + count. 0 or -ENOMEM. */
int store_bench_fill(struct store_bench *b, struct store_table *table, uint64_t first, uint64_t count,
		     struct star_error *err);

/* Draws an index below rows. */
uint32_t store_bench_draw(struct store_bench *b);

/* A row's copy, of 64 bytes mostly. */
static inline void store_bench_copy(uint8_t *to, const void *from, uint32_t bytes)
{
	if (bytes == 64)
		__builtin_memcpy(to, from, 64);
	else
		__builtin_memcpy(to, from, bytes);
}

/* How a limit loads rows: how many ahead, and to which cache. */
struct store_ahead {
	uint32_t rows;
	bool far; /* the second level */
};

/* The store and its limit, batch by batch in turn, each on keys of its own. The times are nanoseconds of a batch. */
struct store_race {
	void *context;
	const char *mine, *limit; /* the sides' names */
	uint64_t (*time_mine)(void *context);
	uint64_t (*time_limit)(void *context, struct store_ahead ahead);
	unsigned calibration; /* batches that tell which way of loading ahead is the limit's best */
};

/* Adds both sides' rounds, and what the limit loads ahead, to result. */
void store_bench_race(const struct store_options *options, const struct store_race *race, json_t *result);

/* Rounds of two sides' nanoseconds an item, as { "SIDE": { "ns": [...] } } members of result. */
void store_bench_side(json_t *result, const char *side, const double *ns, uint32_t rounds);

/* The modes. Each adds its members to result. 0 or a negative errno with err. */
int store_bench_pull(const struct store_options *options, json_t *result, struct star_error *err);
int store_bench_push(const struct store_options *options, json_t *result, struct star_error *err);
int store_bench_growth(const struct store_options *options, json_t *result, struct star_error *err);
int store_bench_dense(const struct store_options *options, json_t *result, struct star_error *err);

/* The command "store"; an exit status. */
int store_main(int argc, char **argv);

#endif
