/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker that only watches: star-watch PS TABLE KEY... pulls these rows again and again by one cluster handle, until
 * a signal ends it. A line on standard output for each outcome that differs from the one before: "ok", or "-CODE
 * SENTENCE".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "star.h"

enum { KEYS_MAX = 64, DEADLINE_US = 2000000, PAUSE_NS = 20000000 };

static int fail(const struct star_error *err)
{
	fprintf(stderr, "star-watch: %s\n", err->text);
	return EXIT_FAILURE;
}

static void watch(struct star_table *table, const uint64_t *keys, uint32_t count, float *values)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	int before = 1;

	for (;;) {
		struct star_error err = { 0 };
		const int status = star_pull(table, keys, count, values, STAR_READ_ONLY, DEADLINE_US, &err);

		if (status == 0 && before != 0)
			puts("ok");
		else if (status != before)
			printf("%d %s\n", status, err.text);
		before = status;
		fflush(stdout);
		nanosleep(&pause, NULL);
	}
}

int main(int argc, char **argv)
{
	struct star_error err = { 0 };
	struct star_cluster *cluster;
	struct star_table *table;
	uint64_t keys[KEYS_MAX];
	const int count = argc - 3;
	float *values;

	if (count < 1 || count > KEYS_MAX) {
		fprintf(stderr, "usage: star-watch PS TABLE KEY...\n");
		return 2;
	}
	for (int i = 0; i < count; i++)
		keys[i] = strtoull(argv[3 + i], NULL, 10);
	cluster = star_open(argv[1], DEADLINE_US, &err);
	table = cluster ? star_lookup(cluster, argv[2], DEADLINE_US, &err) : NULL;
	if (!table)
		return fail(&err);
	values = malloc((size_t)count * star_elements(table) * sizeof(float));
	if (!values)
		return EXIT_FAILURE;
	watch(table, keys, (uint32_t)count, values);
}
