/* SPDX-License-Identifier: BSD-3-Clause */
/* Pulls of batches of keys, against a gather of the same rows by their handles. */
#include "app/starbench/store.h"

#include <errno.h>
#include <stdlib.h>

enum { CALIBRATION = 100, LINE = 64 };

struct pull {
	struct store_bench b;
	uint64_t *keys;
	store_row *rows;
	uint8_t *out;
};

static uint64_t time_pull(struct pull *p)
{
	const uint32_t count = p->b.options->keys, bytes = p->b.row_bytes;
	store_row rows[STORE_BATCH];
	uint64_t begin;

	for (uint32_t i = 0; i < count; i++)
		p->keys[i] = store_bench_key(store_bench_draw(&p->b));
	begin = clock_ns();
	for (uint32_t at = 0; at < count; at += STORE_BATCH) {
		const unsigned n = count - at < STORE_BATCH ? count - at : STORE_BATCH;

		store_find(p->b.table, p->keys + at, n, STORE_PULL, 0, rows);
		for (unsigned i = 0; i < n; i++)
			store_bench_copy(p->out + (size_t)(at + i) * bytes,
					 store_values(p->b.table, rows[i], STAR_FLOAT32), bytes);
	}
	return clock_ns() - begin;
}

static uint64_t time_gather(struct pull *p, uint32_t ahead)
{
	const uint32_t count = p->b.options->keys, bytes = p->b.row_bytes;
	const struct store_table *t = p->b.table;
	uint64_t begin;

	for (uint32_t i = 0; i < count; i++)
		p->rows[i] = p->b.handles[store_bench_draw(&p->b)];
	begin = clock_ns();
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t next = i + ahead < count ? i + ahead : count - 1;
		const char *row = store_values(t, p->rows[next], STAR_FLOAT32);

		for (uint32_t at = 0; at < bytes; at += LINE)
			__builtin_prefetch(row + at);
		__builtin_prefetch(row + bytes - 1);
		store_bench_copy(p->out + (size_t)i * bytes, store_values(t, p->rows[i], STAR_FLOAT32), bytes);
	}
	return clock_ns() - begin;
}

/* The distance at which prefetching gathers fastest: it is the limit's to choose. */
static uint32_t find_distance(struct pull *p)
{
	static const uint32_t distances[] = { 4, 8, 12, 16, 24, 32, 48, 64 };
	uint64_t least = UINT64_MAX;
	uint32_t best = 0;

	for (unsigned d = 0; d < sizeof(distances) / sizeof(distances[0]); d++) {
		uint64_t time = 0;

		for (unsigned i = 0; i < CALIBRATION; i++)
			time += time_gather(p, distances[d]);
		if (time < least) {
			least = time;
			best = distances[d];
		}
	}
	return best;
}

static void measure(struct pull *p, json_t *result)
{
	const struct store_options *o = p->b.options;
	double *pull = calloc(o->rounds, sizeof(double)), *gather = calloc(o->rounds, sizeof(double));
	const uint32_t distance = find_distance(p);

	for (uint32_t round = 0; pull && gather && round < o->rounds; round++) {
		const uint64_t ends = clock_ns() + (uint64_t)(o->round_s * 1e9);
		double items = 0;

		while (clock_ns() < ends) {
			pull[round] += (double)time_pull(p);
			gather[round] += (double)time_gather(p, distance);
			items += o->keys;
		}
		pull[round] /= items;
		gather[round] /= items;
	}
	store_bench_side(result, "pull", pull, o->rounds);
	store_bench_side(result, "gather", gather, o->rounds);
	json_object_set_new(result, "prefetch_distance", json_integer(distance));
	free(pull);
	free(gather);
}

int store_bench_pull(const struct store_options *options, json_t *result, struct star_error *err)
{
	struct pull p = { 0 };
	int outcome = store_bench_open(&p.b, options, store_bench_bytes(options), err);

	p.keys = calloc(options->keys, sizeof(*p.keys));
	p.rows = calloc(options->keys, sizeof(*p.rows));
	p.out = aligned_alloc(LINE, ((size_t)options->keys * p.b.row_bytes + LINE - 1) / LINE * LINE);
	p.b.handles = calloc(options->rows, sizeof(*p.b.handles));
	if (!outcome && (!p.keys || !p.rows || !p.out || !p.b.handles))
		outcome = star_error_set(err, -ENOMEM, "out of memory");
	if (!outcome) {
		p.b.table = store_bench_table(&p.b, "pull", err);
		outcome = p.b.table ? store_bench_fill(&p.b, p.b.table, 0, options->rows, err) : err->code;
	}
	if (!outcome) {
		measure(&p, result);
		json_object_set_new(result, "memory", json_string(p.b.memory_kind));
	}
	free(p.keys);
	free(p.rows);
	free(p.out);
	store_bench_close(&p.b);
	return outcome;
}
