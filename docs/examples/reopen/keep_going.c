/* SPDX-License-Identifier: BSD-3-Clause */
/* The second example of docs/libstar.rst: calls that do not wait, and a node that was restarted. Usage: keep_going
 * HOST:PORT[,...] */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "star.h"

enum { COUNT = 2, DIM = 4, STEPS = 100, TRIES = 10 };
static const uint64_t deadline_us = 20000000;

static struct star_table *open_table(const char *nodes, struct star_cluster **cluster, struct star_error *err)
{
	const struct star_spec spec = {
		.name = "kept", .dim = DIM, .dtype = "float32", .optimizer = "sgd", .rate = 0.1f
	};

	*cluster = star_open(nodes, deadline_us, err);
	return *cluster ? star_table_create(*cluster, &spec, deadline_us, err) : NULL;
}

/* async: the rows of the next step come while this one's gradients leave */
static int step(struct star_cluster *cluster, struct star_table *table, struct star_error *err)
{
	const uint64_t now[COUNT] = { 1, 2 }, next[COUNT] = { 3, 4 };
	float gradients[COUNT * DIM] = { 1 }, rows[COUNT * DIM];
	const struct star_op push = {
		.kind = STAR_PUSH, .table = table, .keys = now, .count = COUNT, .values = gradients, .step = 1
	};
	const struct star_op pull = { .kind = STAR_PULL, .table = table, .keys = next, .count = COUNT, .values = rows };
	struct star_request *pushed, *pulled;
	int pull_status = 0, status;

	pushed = star_execute_async(cluster, &push, 1, deadline_us, NULL, NULL, err);
	if (!pushed)
		return err->code;
	pulled = star_execute_async(cluster, &pull, 1, deadline_us, NULL, NULL, err);
	/* Both are waited for in any case: until then their keys and values are libstar's. */
	pull_status = pulled ? star_request_wait(pulled, err) : err->code;
	status = star_request_wait(pushed, pull_status < 0 ? NULL : err);
	return pull_status < 0 ? pull_status : status;
}

/* reopen: a node that was restarted has lost what it held, or has begun with its checkpoint: all handles are made
 * again */
static int run(const char *nodes, struct star_error *err)
{
	struct star_cluster *cluster = NULL;
	struct star_table *table = open_table(nodes, &cluster, err);
	int status = table ? 0 : err->code, tries = 0;

	for (int i = 0; status == 0 && i < STEPS; i++) {
		status = step(cluster, table, err);
		while (status == -ESTALE && tries++ < TRIES) {
			star_close(cluster);
			table = open_table(nodes, &cluster, err);
			status = table ? 0 : err->code;
		}
	}
	if (cluster)
		star_close(cluster);
	return status;
}
/* end */

int main(int argc, char **argv)
{
	struct star_error err = { 0 };

	if (argc != 2) {
		fprintf(stderr, "usage: %s HOST:PORT[,HOST:PORT...]\n", argv[0]);
		return EXIT_FAILURE;
	}
	if (run(argv[1], &err) == 0)
		return EXIT_SUCCESS;
	fprintf(stderr, "%s\n", err.text);
	return EXIT_FAILURE;
}
