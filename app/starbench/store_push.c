/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes of batches of gradients, compared with plain loops that update the same bytes of the same rows by their
 * handles. */
#include "app/starbench/store.h"
#include "app/starbench/store_plain.h"

#include <errno.h>
#include <stdlib.h>

enum { CALIBRATION = 50, LINE = 64 };

struct push {
	struct store_bench b;
	struct store_push *push;
	uint64_t *keys;
	store_row *rows;
	float *gradients; /* keys of dim */
	bool adam;
	uint32_t update_bytes; /* of a row: value and slots */
};

/* The gradients from `at` on; returns their number. */
static unsigned point_at(const struct push *p, uint32_t at, const void *gradients[STORE_BATCH])
{
	const uint32_t count = p->b.options->keys, dim = p->b.options->dim;
	const unsigned n = count - at < STORE_BATCH ? count - at : STORE_BATCH;

	for (unsigned i = 0; i < n; i++)
		gradients[i] = p->gradients + (size_t)(at + i) * dim;
	return n;
}

static uint64_t time_push(void *context)
{
	struct push *p = context;
	const uint32_t count = p->b.options->keys;
	struct store_table *t = p->b.table;
	const void *gradients[STORE_BATCH];
	uint64_t begin;
	unsigned n;

	for (uint32_t i = 0; i < count; i++)
		p->keys[i] = store_bench_key(store_bench_draw(&p->b));
	begin = clock_ns();
	store_push_begin(p->push);
	store_push_op(p->push, t, count);
	for (uint32_t at = 0; at < count; at += n) {
		n = count - at < STORE_BATCH ? count - at : STORE_BATCH;
		store_push_keys(p->push, t, p->keys + at, n, 0);
	}
	do {
		for (uint32_t at = 0; store_push_needs_look(t) && at < count; at += n)
			store_push_look(p->push, t, gradients, STAR_FLOAT32, n = point_at(p, at, gradients));
	} while (store_push_look_again(p->push));
	store_push_step(p->push, t, &(struct store_push_step){ .rate = 0 });
	for (uint32_t at = 0; at < count; at += n)
		store_push_rows(p->push, t, gradients, STAR_FLOAT32, n = point_at(p, at, gradients));
	while (!store_push_finish(p->push, t, STORE_BATCH))
		;
	return clock_ns() - begin;
}

static float *plain_row(const struct push *p, uint32_t i)
{
	return (float *)(uintptr_t)store_values(p->b.table, p->rows[i], STAR_FLOAT32);
}

__attribute__((target("avx2"), always_inline)) static inline void update(struct push *p, uint32_t ahead,
									 const int level)
{
	const uint32_t count = p->b.options->keys, dim = p->b.options->dim;

	for (uint32_t i = 0; i < count; i++) {
		const char *next = (const char *)plain_row(p, i + ahead < count ? i + ahead : count - 1);
		const float *gradient = p->gradients + (size_t)i * dim;
		float *row = plain_row(p, i);

		for (uint32_t at = 0; at < p->update_bytes; at += LINE)
			__builtin_prefetch(next + at, 0, level);
		__builtin_prefetch(next + p->update_bytes - 1, 0, level);
		if (p->adam)
			plain_adam(row, row + dim, row + 2 * dim, gradient, dim);
		else
			plain_adagrad(row, row + dim, gradient, dim);
	}
}

__attribute__((target("avx2"))) static uint64_t time_plain(void *context, struct store_ahead ahead)
{
	struct push *p = context;
	uint64_t begin;

	for (uint32_t i = 0; i < p->b.options->keys; i++)
		p->rows[i] = p->b.handles[store_bench_draw(&p->b)];
	begin = clock_ns();
	if (ahead.far)
		update(p, ahead.rows, 2);
	else
		update(p, ahead.rows, 3);
	return clock_ns() - begin;
}

int store_bench_push(const struct store_options *options, json_t *result, struct star_error *err)
{
	const bool adam = optim_kind_parse(options->optimizer) == OPTIM_ADAM;
	const unsigned slots = adam ? 2 : 1;
	const uint32_t push_bytes = options->keys * options->dim * (uint32_t)sizeof(float);
	struct push p = { .adam = adam };
	int outcome;

	if (!__builtin_cpu_supports("avx2") || options->dim % 8)
		return star_error_set(err, -ENOTSUP, "the limit needs a machine with AVX2, and --dim a multiple of 8");
	if (!adam && optim_kind_parse(options->optimizer) != OPTIM_ADAGRAD)
		return star_error_set(err, -EINVAL, "--optimizer %s: adagrad or adam is needed", options->optimizer);
	outcome = store_bench_open(&p.b, options, store_bench_bytes(options), err);
	p.update_bytes = (1 + slots) * p.b.row_bytes;
	p.push = store_push_create(options->keys, push_bytes, err);
	p.keys = calloc(options->keys, sizeof(*p.keys));
	p.rows = calloc(options->keys, sizeof(*p.rows));
	p.gradients = calloc(options->keys, p.b.row_bytes);
	p.b.handles = calloc(options->rows, sizeof(*p.b.handles));
	if (!outcome && (!p.push || !p.keys || !p.rows || !p.gradients || !p.b.handles))
		outcome = star_error_set(err, -ENOMEM, "out of memory");
	if (!outcome) {
		for (size_t i = 0; i < (size_t)options->keys * options->dim; i++)
			p.gradients[i] = (float)(2 * prng_unit(&p.b.prng) - 1);
		p.b.table = store_bench_table(&p.b, "push", err);
		outcome = p.b.table ? store_bench_fill(&p.b, p.b.table, 0, options->rows, err) : err->code;
	}
	if (!outcome) {
		store_bench_race(options,
				 &(struct store_race){ .context = &p,
						       .mine = "push",
						       .limit = "plain",
						       .time_mine = time_push,
						       .time_limit = time_plain,
						       .calibration = CALIBRATION },
				 result);
		json_object_set_new(result, "memory", json_string(p.b.memory_kind));
	}
	store_push_destroy(p.push);
	free(p.keys);
	free(p.rows);
	free(p.gradients);
	store_bench_close(&p.b);
	return outcome;
}
