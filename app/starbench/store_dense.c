/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A variable of size --mib, in its blocks and in requests of 256 KiB: pulls are compared with memcpy, updates with a
 * plain fused loop. A pull writes to the same 256 KiB each time, because a reply's buffers are reused, and so does
 * memcpy.
 */
#include "app/starbench/store.h"
#include "app/starbench/store_plain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	BLOCK = 1024, /* elements */
	SLICE = 16,   /* blocks that the service processes at a time: 64 KiB */
	REQUEST = 64, /* blocks of a request, as libstar splits dense pushes */
	SHIFT = 4368, /* elements: some blocks, and a few cache lines of a page */
};

struct dense {
	struct store_bench b;
	struct store_push *push;
	uint32_t blocks;
	bool adam;
	/* Plain arrays with the same number of elements. */
	float *values, *m, *v, *gradients, *out;
};

/* The next keys of at most n blocks. */
static unsigned next_keys(uint64_t keys[SLICE], uint32_t at, uint32_t end)
{
	const unsigned n = end - at < SLICE ? end - at : SLICE;

	for (unsigned i = 0; i < n; i++)
		keys[i] = at + i;
	return n;
}

/* As the service copies rows into a reply: forwards, 16 bytes at a time (rte_memcpy on x86-64-v2). The C library's
 * memcpy begins with the end of the data, which has not been written yet. */
static void copy_block(float *to, const float *from)
{
	for (unsigned i = 0; i < BLOCK; i += 4)
		_mm_storeu_ps(to + i, _mm_loadu_ps(from + i));
}

static uint64_t time_pull(struct dense *d)
{
	const uint64_t begin = clock_ns();
	uint64_t keys[SLICE];
	store_row rows[SLICE];
	unsigned n;

	for (uint32_t at = 0; at < d->blocks; at += n) {
		n = next_keys(keys, at, d->blocks);
		store_find(d->b.table, keys, n, STORE_PULL, 0, rows);
		store_prefetch(d->b.table, rows[0]);
		for (unsigned i = 0; i < n; i++) {
			store_prefetch(d->b.table, i + 1 < n ? rows[i + 1] : STORE_NO_ROW);
			copy_block(d->out + (size_t)((at + i) % REQUEST) * BLOCK,
				   store_values(d->b.table, rows[i], STAR_FLOAT32));
		}
	}
	return clock_ns() - begin;
}

static uint64_t time_memcpy(struct dense *d)
{
	const uint64_t begin = clock_ns();

	for (uint32_t at = 0; at < d->blocks; at += REQUEST)
		memcpy(d->out, d->values + (size_t)at * BLOCK,
		       (d->blocks - at < REQUEST ? d->blocks - at : REQUEST) * BLOCK * sizeof(float));
	return clock_ns() - begin;
}

/* In a new store, so that all variables are in the same memory. */
static int make_variable(struct dense *d, const char *optimizer, enum object_nonfinite nonfinite,
			 struct star_error *err)
{
	struct object_spec spec = {
		.kind = OBJECT_VARIABLE, .dtype = STAR_FLOAT32, .ndim = 2, .shape = { d->blocks, BLOCK }
	};

	wire_object_spec_defaults(&spec, optim_kind_parse(optimizer));
	spec.initializer = OBJECT_UNIFORM;
	spec.scale = 0.05f;
	spec.nonfinite = (uint8_t)nonfinite;
	snprintf(spec.name, sizeof(spec.name), "%s", optimizer);
	store_destroy(d->b.store);
	d->b.store = store_create(d->b.memory, d->b.memory_bytes, err);
	d->b.table = d->b.store ? store_table_create(d->b.store, &spec, 1, err) : NULL;
	if (!d->b.table)
		return err->code;
	time_pull(d); /* creates the rows */
	return store_table_stats(d->b.table)->refused ? star_error_set(err, -ENOMEM, "the store is full") : 0;
}

/* For the n blocks from `at` on. */
static void point_at_gradients(const struct dense *d, const void *gradients[SLICE], uint32_t at, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		gradients[i] = d->gradients + (size_t)(at + i) * BLOCK;
}

/* As the service does it: rows are found and gradients checked, slice by slice; then they are applied. */
static void push_request(struct dense *d, uint32_t first, uint32_t count)
{
	struct store_table *t = d->b.table;
	const bool looks = store_push_needs_look(t);
	const void *gradients[SLICE];
	uint64_t keys[SLICE];
	unsigned n;

	store_push_begin(d->push);
	store_push_op(d->push, t, count);
	for (uint32_t at = first; at < first + count; at += n) {
		n = next_keys(keys, at, first + count);
		store_push_keys(d->push, t, keys, n, 0);
		point_at_gradients(d, gradients, at, n);
		if (looks)
			store_push_look(d->push, t, gradients, STAR_FLOAT32, n);
	}
	store_push_step(d->push, t, &(struct store_push_step){ .rate = 0 });
	for (uint32_t at = first; at < first + count; at += n) {
		n = next_keys(keys, at, first + count);
		point_at_gradients(d, gradients, at, n);
		store_push_rows(d->push, t, gradients, STAR_FLOAT32, n);
	}
	while (!store_push_finish(d->push, t, SLICE))
		;
}

static uint64_t time_push(struct dense *d)
{
	const uint64_t begin = clock_ns();

	for (uint32_t at = 0; at < d->blocks; at += REQUEST)
		push_request(d, at, d->blocks - at < REQUEST ? d->blocks - at : REQUEST);
	return clock_ns() - begin;
}

__attribute__((target("avx2"))) static uint64_t time_plain(struct dense *d)
{
	const size_t n = (size_t)d->blocks * BLOCK;
	const uint64_t begin = clock_ns();

	if (d->adam)
		plain_adam(d->values, d->m, d->v, d->gradients, n);
	else
		plain_sgd(d->values, d->gradients, n);
	return clock_ns() - begin;
}

/* The cost for a plain loop of a pass over each request's gradient before it is applied. */
__attribute__((target("avx2"))) static uint64_t time_two_loops(struct dense *d)
{
	const uint64_t begin = clock_ns();

	for (uint32_t at = 0; at < d->blocks; at += REQUEST) {
		const size_t first = (size_t)at * BLOCK,
			     n = (d->blocks - at < REQUEST ? d->blocks - at : REQUEST) * BLOCK;

		if (plain_finite(d->gradients + first, n))
			plain_sgd(d->values + first, d->gradients + first, n);
	}
	return clock_ns() - begin;
}

/* Both sides alternately; GB/s of the variable's own bytes would be 4 / ns. */
static void measure_dense(struct dense *d, json_t *result, const char *mine, uint64_t (*own)(struct dense *),
			  const char *limit, uint64_t (*other)(struct dense *))
{
	const uint32_t rounds = d->b.options->rounds;
	const double elements = (double)d->blocks * BLOCK;
	double *ours = calloc(rounds, sizeof(double)), *theirs = calloc(rounds, sizeof(double));

	own(d);
	other(d);
	for (uint32_t i = 0; ours && theirs && i < rounds; i++) {
		ours[i] = (double)own(d) / elements;
		theirs[i] = (double)other(d) / elements;
	}
	store_bench_side(result, mine, ours, rounds);
	store_bench_side(result, limit, theirs, rounds);
	free(ours);
	free(theirs);
}

/* An array of numbers in the same kind of memory as the arena. It begins at another offset in its page than the others,
 * so that the streams of the plain loops do not use the same cache sets. */
static float *make_array(struct dense *d, struct store_bench *memory, unsigned number, struct star_error *err)
{
	const size_t n = (size_t)d->blocks * BLOCK, shift = number * SHIFT;
	float *array;

	if (store_bench_open(memory, d->b.options, (n + shift) * sizeof(float), err) < 0)
		return NULL;
	array = (float *)memory->memory + shift;
	for (size_t i = 0; i < n; i++)
		array[i] = (float)(i % 1021) * 1e-3f + 1e-3f;
	return array;
}

static int run_dense(struct dense *d, json_t *result, struct star_error *err)
{
	static const struct {
		const char *optimizer, *mine, *limit;
		enum object_nonfinite nonfinite;
		bool pulled;
	} sides[] = { { "sgd", "sgd", "sgd loop", NONFINITE_REFUSE, true },
		      { "sgd", "sgd pass", "sgd loop, pass", NONFINITE_PASS, false },
		      { "adam", "adam", "adam loop", NONFINITE_REFUSE, false },
		      { "adam", "adam pass", "adam loop, pass", NONFINITE_PASS, false } };

	for (unsigned i = 0; i < sizeof(sides) / sizeof(sides[0]); i++) {
		if (make_variable(d, sides[i].optimizer, sides[i].nonfinite, err) < 0)
			return err->code;
		d->adam = strcmp(sides[i].optimizer, "adam") == 0;
		if (sides[i].pulled)
			measure_dense(d, result, "pull", time_pull, "memcpy", time_memcpy);
		measure_dense(d, result, sides[i].mine, time_push, sides[i].limit, time_plain);
		if (sides[i].pulled)
			measure_dense(d, result, "two loops", time_two_loops, "sgd loop, two", time_plain);
	}
	return 0;
}

int store_bench_dense(const struct store_options *options, json_t *result, struct star_error *err)
{
	const uint64_t bytes = (uint64_t)options->mib << 20;
	struct dense d = { .blocks = (uint32_t)(bytes / (BLOCK * sizeof(float))) };
	struct store_bench arrays[5] = { 0 };
	float **places[5] = { &d.values, &d.m, &d.v, &d.gradients, &d.out };
	int outcome;

	if (!__builtin_cpu_supports("avx2"))
		return star_error_set(err, -ENOTSUP, "the limit needs a machine with AVX2");
	outcome = store_bench_open(&d.b, options, bytes * 4 + bytes / 16 + (64 << 20), err);

	for (unsigned i = 0; i < 5 && !outcome; i++) {
		*places[i] = make_array(&d, &arrays[i], i, err);
		outcome = *places[i] ? 0 : err->code;
	}
	d.push = store_push_create(REQUEST, REQUEST * BLOCK * sizeof(float), err);
	if (!outcome && !d.push)
		outcome = err->code;
	if (!outcome)
		outcome = run_dense(&d, result, err);
	json_object_set_new(result, "memory", json_string(d.b.memory_kind));
	store_push_destroy(d.push);
	for (unsigned i = 0; i < 5; i++)
		store_bench_close(&arrays[i]);
	store_bench_close(&d.b);
	return outcome;
}
