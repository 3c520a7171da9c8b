/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * star-program PS: programs on a cluster against the same by pulls, pushes and this worker's own arithmetic: a bag of
 * embeddings of two tables with weights, and its way back. What is row by row must be the same bits, sums agree to
 * 1e-5. Prints one JSON object: "rows" and "trained", hashes of what was fetched by key and of the rows in the end;
 * "pooled", some of the sums.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"
#include "base/hash.h"
#include "star_program.h"
#include "tensor/elementwise.h"

enum { KEYS = 5000, SMALL = 7, BAGS = 300, WIDE = 16, NARROW = 5 };

static struct star_cluster *cluster;
static struct star_table *wide, *narrow, *half, *applied, *pushed;
static uint64_t keys[KEYS];
static uint32_t bags[KEYS];
static float weights[KEYS], rows[KEYS * WIDE], others[KEYS * NARROW], gates[KEYS * NARROW], expected[KEYS * WIDE];
static float sums[BAGS * WIDE], other_sums[BAGS * NARROW], gradients[BAGS * WIDE], trained[2][KEYS * WIDE];
static float halves[KEYS * NARROW], half_rows[KEYS * NARROW];
static uint32_t rows_hash;

static _Noreturn void fail(const char *what, const struct star_error *err)
{
	fprintf(stderr, "star-program: %s%s%s\n", what, err ? ": " : "", err ? err->text : "");
	exit(EXIT_FAILURE);
}

static void need(int rc, const char *what, const struct star_error *err)
{
	if (rc < 0)
		fail(what, err);
}

static struct star_table *create(const char *name, const char *dtype, uint32_t dim, const char *optimizer,
				 const char *initializer)
{
	const struct star_spec spec = { .name = name,
					.dtype = dtype,
					.dim = dim,
					.optimizer = optimizer,
					.initializer = initializer,
					.scale = strcmp(initializer, "zeros") ? 1 : 0,
					.rate = 0.5f,
					.seed = 7 };
	struct star_error err;
	struct star_table *table = star_table_create(cluster, &spec, 0, &err);

	if (!table)
		fail(name, &err);
	return table;
}

static void fill(void)
{
	for (unsigned i = 0; i < KEYS; i++) {
		keys[i] = hash_mix(i % (KEYS / 2)); /* each of them twice */
		bags[i] = (uint32_t)(hash_mix(i + 1) % (BAGS - 1));
		weights[i] = (float)(i % 13) / 8 - 0.5f;
	}
	for (unsigned i = 0; i < BAGS * WIDE; i++)
		gradients[i] = (float)(i % 29) / 16 - 0.75f;
}

/* sum over a bag of weight * row of one table, and of rows of another; the rows' gates of the other one, by key. */
static struct star_program *bag(void)
{
	struct star_program_builder *b = star_program_begin(cluster);
	const int k = star_program_keys(b, wide), s = star_program_segments(b, k), w = star_program_rows(b, k, 1);
	const int o = star_program_keys(b, narrow), t = star_program_segments(b, o), f = star_program_shared(b, 1);
	const int rows_of_o = star_program_lookup(b, o, 0);
	struct star_program *program;
	struct star_error err;

	star_program_fetch(b, star_program_binary(b, "mul", star_program_unary(b, "sigmoid", rows_of_o, 0), f));
	star_program_fetch(b, star_program_pool(b, star_program_binary(b, "mul", star_program_lookup(b, k, 0), w), s));
	star_program_fetch(b, star_program_pool(b, rows_of_o, t));
	program = star_program_register(b, 0, &err);
	if (!program)
		fail("the bag's program", &err);
	return program;
}

/* The bag's way back: its gradient to each of its rows; and the rows before it. */
static struct star_program *way_back(void)
{
	struct star_program_builder *b = star_program_begin(cluster);
	const int k = star_program_keys(b, applied), s = star_program_segments(b, k);
	const int g = star_program_segment_rows(b, WIDE), l = star_program_lookup(b, k, STAR_READ_ONLY);
	struct star_program *program;
	struct star_error err;

	star_program_fetch(b, l);
	star_program_apply(b, k, star_program_unpool(b, g, s));
	program = star_program_register(b, 0, &err);
	if (!program)
		fail("the way back's program", &err);
	return program;
}

static struct star_program *read_half(void)
{
	struct star_program_builder *b = star_program_begin(cluster);
	struct star_program *program;
	struct star_error err;

	star_program_fetch(b, star_program_lookup(b, star_program_keys(b, half), 0));
	program = star_program_register(b, 0, &err);
	if (!program)
		fail("the reader's program", &err);
	return program;
}

static void near(const float *got, const float *wanted, unsigned n, const char *what)
{
	for (unsigned i = 0; i < n; i++)
		if (!(fabsf(got[i] - wanted[i]) <= 1e-5f * (1 + fabsf(wanted[i])))) {
			fprintf(stderr, "star-program: %s %u is %.9g, not %.9g\n", what, i, (double)got[i],
				(double)wanted[i]);
			exit(EXIT_FAILURE);
		}
}

static void same(const void *got, const void *wanted, size_t bytes, const char *what)
{
	if (memcmp(got, wanted, bytes))
		fail(what, NULL);
}

/* The first n keys of one table, and all but those of the other. */
static void run_bag(const struct star_program *program, unsigned n, bool async)
{
	static const float factor = 1.5f;
	const unsigned m = n == KEYS ? 0 : KEYS - n; /* no key of the other table, once */
	const struct star_feed feeds[] = { { keys, n }, { bags, 0 }, { weights, 0 },
					   { keys, m }, { bags, 0 }, { &factor, 0 } };
	float *const fetches[] = { gates, sums, other_sums };
	const struct star_run run = { (struct star_program *)(uintptr_t)program, feeds, 6, fetches, 3, BAGS, 0, 0 };
	static float pulled[KEYS * WIDE], wanted[BAGS * WIDE], other_wanted[BAGS * NARROW], gated[NARROW];
	struct star_op ops[] = { { .kind = STAR_RUN, .run = &run },
				 { .kind = STAR_PULL, .table = wide, .keys = keys, .count = n, .values = pulled } };
	const float *const gate = gated;
	struct star_error err;

	if (async)
		need(star_request_wait(star_execute_async(cluster, ops, 2, 0, NULL, NULL, &err), &err),
		     "an asynchronous run", &err);
	else
		need(star_execute(cluster, ops, 2, 0, &err), "a run", &err);
	need(star_pull(wide, keys, n, rows, STAR_READ_ONLY, 0, &err), "a pull", &err);
	same(pulled, rows, n * WIDE * sizeof(float), "the pull of the same call differs");
	if (m)
		need(star_pull(narrow, keys, m, others, STAR_READ_ONLY, 0, &err), "a pull", &err);
	memset(wanted, 0, sizeof(wanted));
	memset(other_wanted, 0, sizeof(other_wanted));
	for (unsigned i = 0; i < n; i++)
		for (unsigned d = 0; d < WIDE; d++)
			wanted[bags[i] * WIDE + d] += rows[i * WIDE + d] * weights[i];
	for (unsigned i = 0; i < m; i++) {
		const float *row = &others[i * NARROW];

		for (unsigned d = 0; d < NARROW; d++)
			other_wanted[bags[i] * NARROW + d] += row[d];
		tensor_elementwise_unary(ELEMENTWISE_SIGMOID, 0, &row, 1, NARROW, gated);
		tensor_elementwise_unary(ELEMENTWISE_SCALE, factor, &gate, 1, NARROW, &expected[i * NARROW]);
	}
	same(gates, expected, m * NARROW * sizeof(float), "rows that were computed differ");
	near(sums, wanted, BAGS * WIDE, "sum");
	near(other_sums, other_wanted, BAGS * NARROW, "sum of the other table");
	rows_hash ^= base_crc32(gates, m * NARROW * sizeof(float));
}

/* Against a push of the gradients that the worker has spread over the rows. */
static void train(const struct star_program *program)
{
	const struct star_feed feeds[] = { { keys, KEYS }, { bags, 0 }, { gradients, 0 } };
	static float before[KEYS * WIDE], spread[KEYS * WIDE], seen[KEYS * WIDE];
	float *const fetches[] = { seen };
	const struct star_run run = { (struct star_program *)(uintptr_t)program, feeds, 3, fetches, 1, BAGS, 0, 0 };
	struct star_op op = { .kind = STAR_RUN, .flags = STAR_RATE, .run = &run, .rate = 0.25f };
	struct star_op push = {
		.kind = STAR_PUSH,
		.flags = STAR_RATE,
		.table = pushed,
		.keys = keys,
		.count = KEYS,
		.rate = 0.25f,
		.values = spread,
	};
	struct star_error err;

	for (unsigned i = 0; i < KEYS; i++)
		memcpy(&spread[i * WIDE], &gradients[bags[i] * WIDE], WIDE * sizeof(float));
	/* Whatever an earlier run has left. */
	need(star_execute(cluster,
			  (struct star_op[]){ { .kind = STAR_DELETE, .table = applied, .keys = keys, .count = KEYS },
					      { .kind = STAR_DELETE, .table = pushed, .keys = keys, .count = KEYS } },
			  2, 0, &err),
	     "a deletion", &err);
	for (unsigned step = 0; step < 3; step++) {
		need(star_pull(applied, keys, KEYS, before, 0, 0, &err), "a pull", &err);
		need(star_execute(cluster, &op, 1, 0, &err), "a run that applies", &err);
		same(seen, before, sizeof(before), "a run does not see the rows as they were before it");
		need(star_execute(cluster, &push, 1, 0, &err), "a push", &err);
	}
	need(star_pull(applied, keys, KEYS, trained[0], 0, 0, &err), "a pull", &err);
	need(star_pull(pushed, keys, KEYS, trained[1], 0, 0, &err), "a pull", &err);
	same(trained[0], trained[1], sizeof(trained[0]),
	     "rows that a run applied to differ from rows that were pushed to");
}

static void refusals(const struct star_program *program)
{
	const struct star_feed feeds[] = { { keys, KEYS }, { bags, 0 }, { gradients, 0 } };
	float *const fetches[] = { sums };
	struct star_run run = { (struct star_program *)(uintptr_t)program, feeds, 3, fetches, 1, BAGS / 2, 0, 0 };
	const struct star_op op = { .kind = STAR_RUN, .run = &run };
	struct star_program_builder *b = star_program_begin(cluster);
	struct star_error err;

	if (star_execute(cluster, (struct star_op[]){ op }, 1, 0, &err) != -EINVAL ||
	    !strstr(err.text, "of its keys names"))
		fail("a segment beyond the last is not refused", &err);
	run.feeds_count = 2;
	if (star_execute(cluster, (struct star_op[]){ op }, 1, 0, &err) != -EINVAL || !strstr(err.text, "2 feeds"))
		fail("a run without one of its feeds is not refused", &err);
	star_program_fetch(b, star_program_unary(b, "relux", star_program_keys(b, wide), 0));
	if (star_program_register(b, 0, &err) || err.code != -EINVAL ||
	    !strstr(err.text, "there is no step of one operand called relux"))
		fail("an unknown step is not refused", &err);
	b = star_program_begin(cluster);
	star_program_fetch(b, star_program_unary(b, "relu", star_program_keys(b, wide), 0));
	if (star_program_register(b, 0, &err) || err.code != -EINVAL ||
	    !strstr(err.text, "node 1 of the program, a relu"))
		fail("a program that cannot be is not refused", &err);
}

int main(int argc, char **argv)
{
	struct star_program *program, *back;
	struct star_error err;

	if (argc != 2)
		fail("usage: star-program PS", NULL);
	cluster = star_open(argv[1], 0, &err);
	if (!cluster)
		fail("the cluster", &err);
	fill();
	wide = create("wide", NULL, WIDE, "sgd", "uniform");
	narrow = create("narrow", NULL, NARROW, "adagrad", "normal");
	half = create("half", "float16", NARROW, "sgd", "uniform");
	applied = create("applied", NULL, WIDE, "adagrad", "zeros");
	pushed = create("pushed", NULL, WIDE, "adagrad", "zeros");
	program = bag();
	if (bag() != program)
		fail("the same program twice has two handles", NULL);
	back = way_back();
	run_bag(program, SMALL, false);
	run_bag(program, KEYS / 2, true);
	run_bag(program, KEYS, false);
	run_bag(program, KEYS - SMALL, true);
	train(back);
	refusals(back);
	{
		const struct star_feed feed = { keys, KEYS };
		float *const fetches[] = { halves };
		const struct star_run run = { read_half(), &feed, 1, fetches, 1, 0, 0, 0 };
		struct star_op ops[] = { { .kind = STAR_RUN, .run = &run },
					 { .kind = STAR_PULL,
					   .table = half,
					   .keys = keys,
					   .count = KEYS,
					   .values = half_rows,
					   .dtype = "float32" } };

		need(star_execute(cluster, ops, 2, 0, &err), "a look-up of float16", &err);
		same(halves, half_rows, sizeof(halves), "a look-up differs from a pull");
	}
	printf("{\"rows\": %" PRIu32 ", \"trained\": %" PRIu32 ", \"pooled\": [", rows_hash,
	       base_crc32(trained[0], sizeof(trained[0])));
	for (unsigned i = 0; i < 32; i++)
		printf("%s%.9g", i ? ", " : "", (double)sums[i * 97]);
	puts("]}");
	star_close(cluster);
	return EXIT_SUCCESS;
}
