/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/tables.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int tables_open(struct tables *t, const struct options *o, struct star_error *err)
{
	struct star_spec specs[SIDES] = {
		[WORDS_IN] = { .name = "words-in", .initializer = "uniform", .scale = 0.5f / (float)o->training.dim },
		[WORDS_OUT] = { .name = "words-out", .initializer = "zeros" },
	};

	char options[512];
	int bytes;

	memset(t, 0, sizeof(*t));
	bytes = snprintf(options, sizeof(options), "initial_accumulator=%.9g%s%s",
			 (double)o->training.initial_accumulator, o->table ? ", " : "", o->table ? o->table : "");
	if (bytes >= (int)sizeof(options))
		return star_error_set(err, -EINVAL, "--table: the options are too long");
	t->deadline_us = o->deadline_us;
	t->cluster = star_open(o->ps, o->deadline_us, err);
	if (t->cluster == NULL)
		return err->code;
	for (int side = 0; side < SIDES; side++) {
		specs[side].dtype = o->dtype;
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

	struct star_op op = {
		.kind = STAR_PULL,
		.flags = STAR_READ_ONLY,
		.table = t->side[side],
		.keys = keys,
		.count = count,
		.values = rows,
		.dtype = "float32",
	};

	return star_execute(t->cluster, &op, 1, t->deadline_us, err);
}
