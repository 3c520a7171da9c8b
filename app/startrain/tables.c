/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/tables.h"

#include <stdio.h>
#include <string.h>

/* Each worker that uses DPDK has a port of its own, and so a file. */
static struct star_cluster *open_cluster(const struct options *o, uint32_t worker, struct star_error *err)
{
	const char *sign = strchr(o->ps, '%');
	char address[4096];

	if (!o->dpdk)
		return star_open(o->ps, o->deadline_us, err);
	if (sign)
		snprintf(address, sizeof(address), "dpdk:%.*s%u%s", (int)(sign - o->ps), o->ps, worker, sign + 1);
	else
		snprintf(address, sizeof(address), "dpdk:%s", o->ps);
	return star_open(address, o->deadline_us, err);
}

int tables_open(struct tables *t, const struct options *o, uint32_t worker, struct star_error *err)
{
	struct star_spec specs[SIDES] = {
		[WORDS_IN] = { .name = "words-in", .initializer = "uniform", .scale = 0.5f / (float)o->training.dim },
		[WORDS_OUT] = { .name = "words-out", .initializer = "zeros" },
	};

	char options[64];

	memset(t, 0, sizeof(*t));
	snprintf(options, sizeof(options), "initial_accumulator=%.9g", (double)o->training.initial_accumulator);
	t->deadline_us = o->deadline_us;
	t->cluster = open_cluster(o, worker, err);
	if (t->cluster == NULL)
		return err->code;
	for (int side = 0; side < SIDES; side++) {
		specs[side].dim = o->training.dim;
		specs[side].seed = o->training.seed;
		specs[side].optimizer = "adagrad";
		specs[side].rate = o->training.rate;
		specs[side].options = options;
		t->side[side] = star_table_create(t->cluster, &specs[side], o->deadline_us, err);
		if (t->side[side] == NULL) {
			tables_close(t);
			return err->code;
		}
	}
	return 0;
}

void tables_close(struct tables *t)
{
	if (t->cluster != NULL)
		star_close(t->cluster);
	t->cluster = NULL;
}

int tables_read(void *ctx, enum side side, const uint64_t *keys, uint32_t count, float *rows, struct star_error *err)
{
	struct tables *t = ctx;

	return star_pull(t->side[side], keys, count, rows, STAR_READ_ONLY, t->deadline_us, err);
}
