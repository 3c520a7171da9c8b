/* SPDX-License-Identifier: BSD-3-Clause */
/* What bench/python-call's Python side does, in C: pulls of the same rows by star_execute, one after the other. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "client/star.h"

enum { DIM = 16, ROWS_MAX = 1 << 16, CALLS_MAX = 1 << 22 };

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	struct star_error err = { 0 };
	struct star_cluster *cluster;
	struct star_table *table;
	const long rows = argc == 4 ? atol(argv[2]) : 0;
	const double seconds = argc == 4 ? atof(argv[3]) : 0;
	uint64_t *keys = calloc(ROWS_MAX, sizeof(*keys));
	float *values = calloc((size_t)ROWS_MAX * DIM, sizeof(*values));
	double *times = calloc(CALLS_MAX, sizeof(*times));
	uint32_t calls = 0;

	if (rows < 1 || rows > ROWS_MAX || seconds <= 0 || !keys || !values || !times) {
		fprintf(stderr, "usage: python-call PS ROWS SECONDS\n");
		return 2;
	}
	for (long i = 0; i < rows; i++)
		keys[i] = (uint64_t)i;
	cluster = star_open(argv[1], 0, &err);
	table = cluster ? star_lookup(cluster, "calls", 0, &err) : NULL;
	for (double began = now_us(), at = began; table && at < began + seconds * 1e6 && calls < CALLS_MAX;) {
		const double before = at;

		if (star_pull(table, keys, (uint32_t)rows, values, 0, 0, &err) < 0)
			break;
		at = now_us();
		times[calls++] = at - before;
	}
	if (err.code || !calls) {
		fprintf(stderr, "python-call: %s\n", err.text);
		return 1;
	}
	qsort(times, calls, sizeof(*times), by_size);
	printf("{\"p50_us\": %.3f, \"calls\": %u}\n", times[calls / 2], calls);
	star_close(cluster);
	free(keys);
	free(values);
	free(times);
	return 0;
}
