/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the benchmarks of the store: memory, a table, keys. */
#include "app/starbench/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "optim/optim.h"

enum { HUGEPAGE = 2 << 20, PAGE = 4096 };

static int map_memory(struct store_bench *b, uint64_t bytes, struct star_error *err)
{
	const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;

	b->memory_bytes = (bytes + HUGEPAGE - 1) / HUGEPAGE * HUGEPAGE;
	b->memory_kind = "2 MiB hugepages";
	b->memory = mmap(NULL, b->memory_bytes, protection, flags | MAP_HUGETLB, -1, 0);
	if (b->memory == MAP_FAILED) {
		b->memory_kind = "transparent hugepages (madvise)";
		b->memory = mmap(NULL, b->memory_bytes, protection, flags, -1, 0);
		if (b->memory == MAP_FAILED) {
			b->memory = NULL;
			return star_error_set(err, -ENOMEM, "cannot get %zu MiB of memory: lower --rows or --mib",
					      b->memory_bytes >> 20);
		}
		if (madvise(b->memory, b->memory_bytes, MADV_HUGEPAGE))
			b->memory_kind = "4 KiB pages";
	}
	/* Touched in advance, as a reactor's memory is: page faults must not be measured. */
	for (size_t at = 0; at < b->memory_bytes; at += PAGE)
		((volatile uint8_t *)b->memory)[at] = 0;
	return 0;
}

int store_bench_open(struct store_bench *b, const struct store_options *options, uint64_t bytes, struct star_error *err)
{
	*b = (struct store_bench){ .options = options, .row_bytes = options->dim * (uint32_t)sizeof(float) };
	prng_seed(&b->prng, options->seed);
	if (options->power > 0)
		power_law_init(&b->law, options->power, options->rows);
	if (map_memory(b, bytes, err) < 0)
		return err->code;
	b->store = store_create(b->memory, b->memory_bytes, err);
	return b->store ? 0 : err->code;
}

void store_bench_close(struct store_bench *b)
{
	store_destroy(b->store);
	if (b->memory)
		munmap(b->memory, b->memory_bytes);
	free(b->handles);
}

struct store_table *store_bench_table(struct store_bench *b, const char *name, struct star_error *err)
{
	struct object_spec spec = { .kind = OBJECT_TABLE, .dtype = STAR_FLOAT32, .dim = b->options->dim };

	wire_object_spec_defaults(&spec, optim_kind_parse(b->options->optimizer));
	spec.initializer = OBJECT_UNIFORM;
	spec.scale = 0.05f;
	snprintf(spec.name, sizeof(spec.name), "%s", name);
	return store_table_create(b->store, &spec, 1, err);
}

uint64_t store_bench_bytes(const struct store_options *o)
{
	struct optim_options options;
	struct optim optim;
	uint64_t row_bytes;

	if (optim_defaults(&options, optim_kind_parse(o->optimizer)) < 0 ||
	    optim_init(&optim, &options, OPTIM_BEST) < 0)
		return 0;
	row_bytes = sizeof(uint64_t) + 8 + (uint64_t)o->dim * sizeof(float) * (1u + optim.slots);
	return o->rows * (row_bytes + 12) + (64 << 20);
}

int store_bench_fill(struct store_bench *b, struct store_table *table, uint64_t first, uint64_t count,
		     struct star_error *err)
{
	uint64_t keys[STORE_BATCH];
	store_row rows[STORE_BATCH];

	for (uint64_t at = first; at < first + count; at += STORE_BATCH) {
		const unsigned n = first + count - at < STORE_BATCH ? (unsigned)(first + count - at) : STORE_BATCH;

		for (unsigned i = 0; i < n; i++)
			keys[i] = store_bench_key(at + i);
		if (store_find(table, keys, n, STORE_PULL, 0, rows))
			return star_error_set(err, -ENOMEM, "the store is full with %llu rows",
					      (unsigned long long)store_table_stats(table)->rows);
		if (b->handles)
			memcpy(b->handles + at, rows, n * sizeof(*rows));
	}
	return 0;
}

uint32_t store_bench_draw(struct store_bench *b)
{
	return b->options->power > 0 ? power_law_draw(&b->law, &b->prng) : prng_below(&b->prng, b->options->rows);
}

void store_bench_side(json_t *result, const char *side, const double *ns, uint32_t rounds)
{
	json_t *sides = json_object_get(result, "sides"), *list = json_array();

	if (!sides) {
		sides = json_object();
		json_object_set_new(result, "sides", sides);
	}
	for (uint32_t i = 0; i < rounds; i++)
		json_array_append_new(list, json_real(ns[i]));
	json_object_set_new(sides, side, json_pack("{s:o}", "ns", list));
}

/* Finds the fastest way for the limit, which may choose it. */
static struct store_ahead calibrate(const struct store_race *race)
{
	uint64_t least = UINT64_MAX;
	struct store_ahead best = { 0 };

	for (uint32_t rows = 4; rows <= 64; rows += rows / 2)
		for (int far = 0; far < 2; far++) {
			const struct store_ahead ahead = { .rows = rows, .far = far };
			uint64_t time = 0;

			for (unsigned i = 0; i < race->calibration; i++)
				time += race->time_limit(race->context, ahead);
			if (time < least) {
				least = time;
				best = ahead;
			}
		}
	return best;
}

void store_bench_race(const struct store_options *options, const struct store_race *race, json_t *result)
{
	const uint32_t rounds = options->rounds;
	double *mine = calloc(rounds, sizeof(double)), *limit = calloc(rounds, sizeof(double));
	const struct store_ahead ahead = calibrate(race);

	for (uint32_t round = 0; mine && limit && round < rounds; round++) {
		const uint64_t ends = clock_ns() + (uint64_t)(options->round_s * 1e9);
		double items = 0;

		while (clock_ns() < ends) {
			mine[round] += (double)race->time_mine(race->context);
			limit[round] += (double)race->time_limit(race->context, ahead);
			items += options->keys;
		}
		mine[round] /= items;
		limit[round] /= items;
	}
	store_bench_side(result, race->mine, mine, rounds);
	store_bench_side(result, race->limit, limit, rounds);
	json_object_set_new(result, "prefetch_rows", json_integer(ahead.rows));
	json_object_set_new(result, "prefetch_level", json_integer(ahead.far ? 2 : 1));
	free(mine);
	free(limit);
}
