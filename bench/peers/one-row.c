/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pulls of one row by star_pull, one after the other, of which bench/instructions has callgrind count some: those by
 * counted_pull. Between two of them there are others, since callgrind writes a file after each, which takes long. With
 * "burst": BURST such pulls in one star_execute, which is how a thread gives many small calls at once. With "ahead": as
 * many calls in flight, each begun and waited for by itself.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/star.h"

enum { DIM = 16, KEYS = 32, BURST = 16, CALLS_MAX = 10000 };
#define DEADLINE_US UINT64_C(30000000)

struct puller {
	struct star_cluster *cluster;
	struct star_table *table;
	void (*pull)(struct puller *p);
	struct star_error err;
	float first[KEYS];
	uint64_t pulls;
};

static void check_row(struct puller *p, uint64_t key, float value)
{
	if (p->pulls++ < KEYS)
		p->first[key] = value;
	else if (value != p->first[key])
		p->err = (struct star_error){ -1, "a pull has read another row" };
}

static void pull_one(struct puller *p)
{
	const uint64_t key = p->pulls % KEYS;
	float row[DIM];

	if (star_pull(p->table, &key, 1, row, 0, DEADLINE_US, &p->err) == 0)
		check_row(p, key, row[0]);
}

static void pull_burst(struct puller *p)
{
	struct star_op ops[BURST];
	float rows[BURST][DIM];
	uint64_t keys[BURST];

	for (unsigned i = 0; i < BURST; i++) {
		keys[i] = (p->pulls + i) % KEYS;
		ops[i] = star_op_pull(p->table, &keys[i], 1, rows[i]);
	}
	if (star_execute(p->cluster, ops, BURST, DEADLINE_US, &p->err) < 0)
		return;
	for (unsigned i = 0; i < BURST && !p->err.code; i++)
		check_row(p, keys[i], rows[i][0]);
}

static void pull_ahead(struct puller *p)
{
	struct star_request *requests[BURST];
	float rows[BURST][DIM];
	uint64_t keys[BURST];
	unsigned n = 0;

	for (; n < BURST; n++) {
		struct star_op op;

		keys[n] = (p->pulls + n) % KEYS;
		op = star_op_pull(p->table, &keys[n], 1, rows[n]);
		requests[n] = star_execute_async(p->cluster, &op, 1, DEADLINE_US, NULL, NULL, &p->err);
		if (!requests[n])
			break;
	}
	for (unsigned i = 0; i < n; i++)
		if (star_request_wait(requests[i], &p->err) == 0 && !p->err.code)
			check_row(p, keys[i], rows[i][0]);
}

static void pull(struct puller *p)
{
	if (!p->err.code)
		p->pull(p);
}

void counted_pull(struct puller *p);

__attribute__((noinline)) void counted_pull(struct puller *p)
{
	pull(p);
}

int main(int argc, char **argv)
{
	const bool bursts = argc == 4 && strcmp(argv[3], "burst") == 0;
	const bool ahead = argc == 4 && strcmp(argv[3], "ahead") == 0;
	const long calls = argc == 3 || bursts || ahead ? atol(argv[2]) : 0;
	struct puller p = { .pull = bursts ? pull_burst : ahead ? pull_ahead : pull_one };

	if (calls < 1 || calls > CALLS_MAX) {
		fprintf(stderr, "usage: one-row CLUSTER CALLS [burst|ahead]\n");
		return 2;
	}
	p.cluster = star_open(argv[1], 0, &p.err);
	p.table = p.cluster ? star_table_create(p.cluster,
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
	star_close(p.cluster);
	return 0;
}
