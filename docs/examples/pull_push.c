/* SPDX-License-Identifier: BSD-3-Clause */
/* The example of docs/libstar.rst: one table, some steps of training, one look. Usage: pull_push
 * HOST:PORT[,HOST:PORT...] */
#include <stdio.h>
#include <stdlib.h>

#include "star.h"

int main(int argc, char **argv)
{
	enum { COUNT = 3, DIM = 4, STEPS = 10 };
	const uint64_t keys[COUNT] = { 7, 42, 7000000000 };
	const struct star_spec spec = { .name = "example",
					.dim = DIM,
					.dtype = "float16",
					.initializer = "uniform",
					.scale = 0.1f,
					.optimizer = "adam",
					.rate = 0.05f,
					.options = "master=1, beta2=0.99, warmup_steps=5, steps_to_live=100000" };
	const uint64_t deadline_us = 5000000;
	struct star_error err = { 0 };
	struct star_cluster *cluster;
	struct star_table *table;
	struct star_op op;
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
	op = star_op_pull(table, keys, COUNT, rows);
	op.dtype = "float32";
	if (star_execute(cluster, &op, 1, deadline_us, &err) < 0)
		goto fail;
	/* train: each push brings the rows of the next step back */
	op = star_op_push_pull(table, keys, COUNT, gradients, rows);
	op.dtype = "float32";
	for (op.step = 1; op.step <= STEPS; op.step++) {
		for (int i = 0; i < COUNT * DIM; i++)
			gradients[i] = rows[i]; /* of the loss |rows|^2 / 2 */
		if (star_clip_global_norm(&op, 1, 0.1f, NULL, &err) < 0)
			goto fail;
		if (star_execute(cluster, &op, 1, deadline_us, &err) < 0)
			goto fail;
		op.scale = 0; /* and this step's clip with it */
		op.flags = 0;
	}
	/* evaluate */
	op = star_op_pull(table, keys, COUNT, rows);
	op.dtype = "float32";
	op.flags = STAR_READ_ONLY;
	if (star_execute(cluster, &op, 1, deadline_us, &err) < 0)
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
