/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes of ROWS gradients to random rows of 16 float32 for n seconds, or, with "pull", pulls of as many, when all of
 * them are there; what bench/journal and bench/standby run.
 * Usage: journal-push CLUSTER ROWS SECONDS [pull] */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/prng.h"
#include "star.h"

enum { DIM = 16, KEYS = 1000000, ROWS_MAX = 10000, FILL_ROWS = 2000, CALLS_MAX = 1 << 20 };
#define DEADLINE_US 20000000

static float values[ROWS_MAX * DIM];
static uint64_t keys[ROWS_MAX];
static double took_us[CALLS_MAX];

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Makes all rows. */
static void fill(struct star_table *table, struct star_error *err)
{
	for (uint64_t key = 0; key < KEYS && err->code == 0; key += FILL_ROWS) {
		for (unsigned i = 0; i < FILL_ROWS; i++)
			keys[i] = key + i;
		star_pull(table, keys, FILL_ROWS, values, 0, DEADLINE_US, err);
	}
}

int main(int argc, char **argv)
{
	const struct star_spec spec = { .name = "journal", .dim = DIM, .optimizer = "adagrad", .rate = 0.1f };
	const bool pulls = argc == 5 && strcmp(argv[4], "pull") == 0, usable = argc == 4 || pulls;
	const unsigned rows = usable ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	const double seconds = usable ? strtod(argv[3], NULL) : 0;
	struct star_error err = { 0 };
	struct star_cluster *cluster;
	struct star_table *table;
	struct prng prng;
	uint64_t begun_ns, calls = 0;
	double all;

	if (rows < 1 || rows > ROWS_MAX || !(seconds > 0)) {
		fprintf(stderr, "usage: %s CLUSTER ROWS SECONDS [pull]\n", argv[0]);
		return 2;
	}
	prng_seed(&prng, 1);
	for (unsigned i = 0; i < rows * DIM; i++)
		values[i] = 0.001f * (float)(i % 7);
	cluster = star_open(argv[1], DEADLINE_US, &err);
	table = cluster ? star_table_create(cluster, &spec, DEADLINE_US, &err) : NULL;
	if (table && pulls)
		fill(table, &err);
	begun_ns = clock_ns();
	while (table && err.code == 0 && calls < CALLS_MAX) {
		const uint64_t now_ns = clock_ns();
		struct star_op op;

		if ((double)(now_ns - begun_ns) / 1e9 >= seconds)
			break;
		for (unsigned i = 0; i < rows; i++)
			keys[i] = prng_below(&prng, KEYS);
		op = pulls ? star_op_pull(table, keys, rows, values) : star_op_push(table, keys, rows, values);
		if (star_execute(cluster, &op, 1, DEADLINE_US, &err) < 0)
			break;
		took_us[calls++] = (double)(clock_ns() - now_ns) / 1e3;
	}
	all = (double)(clock_ns() - begun_ns) / 1e9;
	if (err.code < 0 || calls == 0) {
		fprintf(stderr, "%s: %s\n", argv[0], err.text);
		return EXIT_FAILURE;
	}
	qsort(took_us, calls, sizeof(took_us[0]), compare);
	printf("{\"rows_s\": %.0f, \"p50_us\": %.2f, \"p99_us\": %.2f, \"calls\": %llu}\n",
	       (double)(calls * rows) / all, took_us[calls / 2], took_us[calls * 99 / 100], (unsigned long long)calls);
	star_close(cluster);
	return EXIT_SUCCESS;
}
