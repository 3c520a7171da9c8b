/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes of ROWS gradients to random rows of 16 float32, over kernel TCP, for n seconds; what bench/journal runs.
 * Usage: journal-push HOST:PORT ROWS SECONDS */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/prng.h"
#include "star.h"

enum { DIM = 16, KEYS = 1000000, ROWS_MAX = 10000, PUSHES_MAX = 1 << 20 };
#define DEADLINE_US 20000000

static float gradients[ROWS_MAX * DIM];
static uint64_t keys[ROWS_MAX];
static double took_us[PUSHES_MAX];

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	const struct star_spec spec = { .name = "journal", .dim = DIM, .optimizer = "adagrad", .rate = 0.1f };
	const unsigned rows = argc == 4 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	const double seconds = argc == 4 ? strtod(argv[3], NULL) : 0;
	struct star_error err = { 0 };
	struct star_cluster *cluster;
	struct star_table *table;
	struct prng prng;
	uint64_t begun_ns, pushes = 0;
	double all;

	if (rows < 1 || rows > ROWS_MAX || !(seconds > 0)) {
		fprintf(stderr, "usage: %s HOST:PORT ROWS SECONDS\n", argv[0]);
		return 2;
	}
	prng_seed(&prng, 1);
	for (unsigned i = 0; i < rows * DIM; i++)
		gradients[i] = 0.001f * (float)(i % 7);
	cluster = star_open(argv[1], DEADLINE_US, &err);
	table = cluster ? star_table_create(cluster, &spec, DEADLINE_US, &err) : NULL;
	begun_ns = clock_ns();
	while (table && pushes < PUSHES_MAX) {
		const uint64_t now_ns = clock_ns();
		struct star_op op;

		if ((double)(now_ns - begun_ns) / 1e9 >= seconds)
			break;
		for (unsigned i = 0; i < rows; i++)
			keys[i] = prng_below(&prng, KEYS);
		op = star_op_push(table, keys, rows, gradients);
		if (star_execute(cluster, &op, 1, DEADLINE_US, &err) < 0)
			break;
		took_us[pushes++] = (double)(clock_ns() - now_ns) / 1e3;
	}
	all = (double)(clock_ns() - begun_ns) / 1e9;
	if (err.code < 0 || pushes == 0) {
		fprintf(stderr, "%s: %s\n", argv[0], err.text);
		return EXIT_FAILURE;
	}
	qsort(took_us, pushes, sizeof(took_us[0]), compare);
	printf("{\"rows_s\": %.0f, \"p50_us\": %.2f, \"p99_us\": %.2f, \"pushes\": %llu}\n",
	       (double)(pushes * rows) / all, took_us[pushes / 2], took_us[pushes * 99 / 100],
	       (unsigned long long)pushes);
	star_close(cluster);
	return EXIT_SUCCESS;
}
