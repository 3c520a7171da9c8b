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

/* How the limit loads rows: how many ahead, and to which cache. */
struct ahead {
	uint32_t rows;
	bool far; /* the second level */
};

static inline __attribute__((always_inline)) void gather(struct pull *p, uint32_t ahead, const int level)
{
	const uint32_t count = p->b.options->keys, bytes = p->b.row_bytes;
	const struct store_table *t = p->b.table;

	for (uint32_t i = 0; i < count; i++) {
		const char *row = store_values(t, p->rows[i + ahead < count ? i + ahead : count - 1], STAR_FLOAT32);

		for (uint32_t at = 0; at < bytes; at += LINE)
			__builtin_prefetch(row + at, 0, level);
		__builtin_prefetch(row + bytes - 1, 0, level);
		store_bench_copy(p->out + (size_t)i * bytes, store_values(t, p->rows[i], STAR_FLOAT32), bytes);
	}
}

static uint64_t time_gather(struct pull *p, struct ahead ahead)
{
	uint64_t begin;

	for (uint32_t i = 0; i < p->b.options->keys; i++)
		p->rows[i] = p->b.handles[store_bench_draw(&p->b)];
	begin = clock_ns();
	if (ahead.far)
		gather(p, ahead.rows, 2);
	else
		gather(p, ahead.rows, 3);
	return clock_ns() - begin;
}

/* What gathers fastest: it is the limit's to choose. */
static struct ahead calibrate(struct pull *p)
{
	uint64_t least = UINT64_MAX;
	struct ahead best = { 0 };

	for (uint32_t rows = 4; rows <= 64; rows += rows / 2)
		for (int far = 0; far < 2; far++) {
			const struct ahead ahead = { .rows = rows, .far = far };
			uint64_t time = 0;

			for (unsigned i = 0; i < CALIBRATION; i++)
				time += time_gather(p, ahead);
			if (time < least) {
				least = time;
				best = ahead;
			}
		}
	return best;
}

static void measure(struct pull *p, json_t *result)
{
	const struct store_options *o = p->b.options;
	double *pull = calloc(o->rounds, sizeof(double)), *gather = calloc(o->rounds, sizeof(double));
	const struct ahead ahead = calibrate(p);

	for (uint32_t round = 0; pull && gather && round < o->rounds; round++) {
		const uint64_t ends = clock_ns() + (uint64_t)(o->round_s * 1e9);
		double items = 0;

		while (clock_ns() < ends) {
			pull[round] += (double)time_pull(p);
			gather[round] += (double)time_gather(p, ahead);
			items += o->keys;
		}
		pull[round] /= items;
		gather[round] /= items;
	}
	store_bench_side(result, "pull", pull, o->rounds);
	store_bench_side(result, "gather", gather, o->rounds);
	json_object_set_new(result, "prefetch_rows", json_integer(ahead.rows));
	json_object_set_new(result, "prefetch_level", json_integer(ahead.far ? 2 : 1));
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
