/* SPDX-License-Identifier: BSD-3-Clause */
/* Pulls of batches of keys, compared with a gather of the same rows by their handles. */
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

static uint64_t time_pull(void *context)
{
	struct pull *p = context;
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

static uint64_t time_gather(void *context, struct store_ahead ahead)
{
	struct pull *p = context;
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
		store_bench_race(options,
				 &(struct store_race){ .context = &p,
						       .mine = "pull",
						       .limit = "gather",
						       .time_mine = time_pull,
						       .time_limit = time_gather,
						       .calibration = CALIBRATION },
				 result);
		json_object_set_new(result, "memory", json_string(p.b.memory_kind));
	}
	free(p.keys);
	free(p.rows);
	free(p.out);
	store_bench_close(&p.b);
	return outcome;
}
