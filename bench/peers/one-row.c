/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pulls of one row by star_pull, one after the other, of which bench/instructions has callgrind count some: those by
 * counted_pull. Between two of them there are others, since callgrind writes a file after each, which takes long.
 */
#include <stdio.h>
#include <stdlib.h>

#include "client/star.h"

enum { DIM = 16, KEYS = 32, CALLS_MAX = 10000 };
#define DEADLINE_US UINT64_C(30000000)

struct puller {
	struct star_table *table;
	struct star_error err;
	float first[KEYS];
	uint64_t pulls;
};

static void pull(struct puller *p)
{
	const uint64_t key = p->pulls % KEYS;
	float row[DIM];

	if (p->err.code || star_pull(p->table, &key, 1, row, 0, DEADLINE_US, &p->err) < 0)
		return;
	if (p->pulls++ < KEYS)
		p->first[key] = row[0];
	else if (row[0] != p->first[key])
		p->err = (struct star_error){ -1, "a pull has read another row" };
}

void counted_pull(struct puller *p);

__attribute__((noinline)) void counted_pull(struct puller *p)
{
	pull(p);
}

int main(int argc, char **argv)
{
	const long calls = argc == 3 ? atol(argv[2]) : 0;
	struct puller p = { .table = NULL };
	struct star_cluster *cluster;

	if (calls < 1 || calls > CALLS_MAX) {
		fprintf(stderr, "usage: one-row CLUSTER CALLS\n");
		return 2;
	}
	cluster = star_open(argv[1], 0, &p.err);
	p.table = cluster ? star_table_create(cluster,
					      &(struct star_spec){ .name = "one-row",
								   .dtype = "float32",
								   .dim = DIM,
								   .initializer = "uniform",
								   .scale = 1 },
					      0, &p.err)
			  : NULL;
	for (long i = 0; p.table && i < calls && !p.err.code; i++) {
		for (int each = 0; each < KEYS; each++)
			pull(&p);
		counted_pull(&p);
	}
	if (p.err.code) {
		fprintf(stderr, "one-row: %s\n", p.err.text);
		return 1;
	}
	star_close(cluster);
	return 0;
}
