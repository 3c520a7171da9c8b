/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/startrain/model.h"
#include "app/startrain/transport.h"
#include "tensor/convert.h"

static struct star_cluster *open_cluster(const struct options *o, uint32_t worker, struct star_error *err)
{
	char address[TRANSPORT_PS_TEXT];

	return transport_ps(o->ps, o->dpdk, worker, address, err) == 0 ? star_open(address, o->deadline_us, err) : NULL;
}

int tables_open(struct tables *t, const struct options *o, uint32_t worker, struct star_error *err)
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
	t->wire = o->wire;
	t->wire_dtype = dtype_parse(o->wire);
	t->dim = o->training.dim;
	t->cluster = open_cluster(o, worker, err);
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

size_t tables_wire_bytes(const struct tables *t, uint32_t count)
{
	return t->wire_dtype == STAR_FLOAT32 ? 0 : (size_t)count * dtype_row_bytes(t->wire_dtype, t->dim);
}

void tables_unpack(const struct tables *t, float *rows, const void *wire, uint32_t count)
{
	float scratch[MODEL_DIM_MAX];

	for (uint32_t i = 0; t->wire_dtype != STAR_FLOAT32 && i < count; i++)
		tensor_convert_row(rows + (size_t)i * t->dim, STAR_FLOAT32,
				   (const char *)wire + tables_wire_bytes(t, i), t->wire_dtype, t->dim, scratch);
}

void tables_pack(const struct tables *t, void *wire, const float *rows, uint32_t count)
{
	float scratch[MODEL_DIM_MAX];

	for (uint32_t i = 0; t->wire_dtype != STAR_FLOAT32 && i < count; i++)
		tensor_convert_row((char *)wire + tables_wire_bytes(t, i), t->wire_dtype, rows + (size_t)i * t->dim,
				   STAR_FLOAT32, t->dim, scratch);
}

int tables_read(void *ctx, enum side side, const uint64_t *keys, uint32_t count, float *rows, struct star_error *err)
{
	struct tables *t = ctx;
	const size_t bytes = tables_wire_bytes(t, count);
	void *wire = bytes ? malloc(bytes) : rows;
	struct star_op op = {
		.kind = STAR_PULL,
		.flags = STAR_READ_ONLY,
		.table = t->side[side],
		.keys = keys,
		.count = count,
		.values = wire,
		.dtype = t->wire,
	};

	int rc;

	if (!wire)
		return star_error_set(err, -ENOMEM, "not enough memory for %u rows", count);
	rc = star_execute(t->cluster, &op, 1, t->deadline_us, err);
	if (bytes) {
		if (rc == 0)
			tables_unpack(t, rows, wire, count);
		free(wire);
	}
	return rc;
}
