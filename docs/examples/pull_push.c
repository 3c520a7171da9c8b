/* SPDX-License-Identifier: BSD-3-Clause */
/* The example of docs/libstar.rst: one table, one pull, one push. Usage: pull_push HOST:PORT[,HOST:PORT...] */
#include <stdio.h>
#include <stdlib.h>

#include "star.h"

int main(int argc, char **argv)
{
	enum { COUNT = 3, DIM = 4 };
	const uint64_t keys[COUNT] = { 7, 42, 7000000000 };
	const struct star_spec spec = { .name = "example",
					.dim = DIM,
					.initializer = "uniform",
					.scale = 0.1f,
					.optimizer = "adagrad",
					.rate = 0.05f };
	const uint64_t deadline_us = 5000000;
	struct star_error err = { 0 };
	struct star_cluster *cluster;
	struct star_table *table;
	float rows[COUNT * DIM], gradients[COUNT * DIM];

	if (argc != 2) {
		fprintf(stderr, "usage: %s HOST:PORT[,HOST:PORT...]\n", argv[0]);
		return EXIT_FAILURE;
	}
	/* open */
	cluster = star_open(argv[1], deadline_us, &err);
	if (!cluster)
		goto fail;
	table = star_table_create(cluster, &spec, deadline_us, &err);
	if (!table)
		goto fail;
	/* train */
	if (star_pull(table, keys, COUNT, rows, 0, deadline_us, &err) < 0)
		goto fail;
	for (int i = 0; i < COUNT * DIM; i++)
		gradients[i] = rows[i]; /* of the loss |rows|^2 / 2 */
	if (star_push(table, keys, COUNT, gradients, deadline_us, &err) < 0)
		goto fail;
	/* evaluate */
	if (star_pull(table, keys, COUNT, rows, STAR_READ_ONLY, deadline_us, &err) < 0)
		goto fail;
	/* end */
	for (int i = 0; i < COUNT; i++)
		printf("%llu: %g %g %g %g\n", (unsigned long long)keys[i], rows[i * DIM], rows[i * DIM + 1],
		       rows[i * DIM + 2], rows[i * DIM + 3]);
	star_close(cluster);
	return EXIT_SUCCESS;
fail:
	fprintf(stderr, "%s: %s\n", argv[0], err.text);
	star_close(cluster);
	return EXIT_FAILURE;
}
