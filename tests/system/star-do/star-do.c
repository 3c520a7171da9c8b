/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker that executes commands: star-do PS [DEADLINE_US] reads JSON objects, one per line, and answers each by one,
 * {"error": ..., "code": ...} if libstar refuses.
 *
 *   {"do": "create", "name": "t", "dim": 4 or "shape": [10, 4], "dtype", "optimizer", "initializer", "options",
 *    "scale", "rate", "seed"}
 *   {"do": "pull", "push", "push_pull" or "delete", "table": "t",
 *    "keys": [1, 2] or {"from": 0, "count": 9, "repeat": 1}, "values": [...] or a number for all, "dtype", "step",
 *    "rate", "scale", "read_only", "versions": [...], "hash": true, "bits": true,
 *    "clip": 1.5}
 *   {"do": "push", ..., "tag": 5} with STAR_ACCUMULATE
 *   {"do": "commit", "table": "t", "tag": 5, "scale", "rate", "open": true}
 *   {"do": "together", "table": "t", "pushes": [{"keys", "values"}, ...]}   all in flight at the same time; "each" has
 *    {} or an error for each
 *   {"do": "checkpoint", "kind": "full"}   by star_checkpoint
 *   {"do": "empty", "table": "t"}   by star_table_empty
 *   {"do": "drop", "table": "t"}   by star_table_drop; its handle stays, until the table is created again
 *   {"do": "open"}   closes the cluster, and opens it again; its tables are forgotten
 *
 * Rows are returned as "values", or as the CRC-32 of their bytes, or as the "bits" of the values as float64 in
 * hexadecimal, which of many rows takes a small part of the time, here and where they are read. Numbers are those of
 * the type on the wire. clip: by star_clip_global_norm, whose norm is returned.
 */
#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"
#include "star.h"
#include "tensor/convert.h"
#include "tensor/dtype.h"

enum { TABLES_MAX = 64 };
static uint64_t deadline_us = 60000000;

static struct star_cluster *cluster;
static const char *address;
static struct {
	const char *name;
	struct star_table *table;
	uint64_t row; /* elements that a key stands for */
	unsigned dtype;
} tables[TABLES_MAX];
static unsigned tables_count;

static void *memory(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);

	if (!p)
		exit(EXIT_FAILURE);
	memset(p, 0, (bytes + 64) / 64 * 64);
	return p;
}

static json_t *failed(const struct star_error *err)
{
	return json_pack("{s:s, s:i}", "error", err->text, "code", err->code);
}

static json_t *create(const json_t *line)
{
	const json_t *sizes = json_object_get(line, "shape");
	uint64_t shape[16] = { 0 };
	struct star_spec spec = {
		.name = json_string_value(json_object_get(line, "name")),
		.dtype = json_string_value(json_object_get(line, "dtype")),
		.dim = (uint32_t)json_integer_value(json_object_get(line, "dim")),
		.ndim = (uint32_t)json_array_size(sizes),
		.shape = shape,
		.initializer = json_string_value(json_object_get(line, "initializer")),
		.scale = (float)json_number_value(json_object_get(line, "scale")),
		.seed = (uint64_t)json_integer_value(json_object_get(line, "seed")),
		.optimizer = json_string_value(json_object_get(line, "optimizer")),
		.rate = (float)json_number_value(json_object_get(line, "rate")),
		.options = json_string_value(json_object_get(line, "options")),
	};
	struct star_error err = { 0 };
	struct star_table *table;

	for (size_t i = 0; i < json_array_size(sizes) && i < 16; i++)
		shape[i] = (uint64_t)json_integer_value(json_array_get(sizes, i));
	table = (sizes ? star_variable_create : star_table_create)(cluster, &spec, deadline_us, &err);
	if (!table)
		return failed(&err);
	if (tables_count == TABLES_MAX)
		exit(EXIT_FAILURE);
	tables[tables_count].name = strdup(spec.name);
	tables[tables_count].table = table;
	tables[tables_count].row = sizes ? star_elements(table) / shape[0] : star_elements(table);
	tables[tables_count++].dtype = spec.dtype ? dtype_parse(spec.dtype) : STAR_FLOAT32;
	return json_pack("{s:I, s:I, s:I}", "elements", (json_int_t)star_elements(table), "blocks",
			 (json_int_t)star_blocks(table), "bytes", (json_int_t)star_bytes(table, NULL));
}

/* Its place in tables, as it was created last; tables_count: there is none. */
static unsigned find(const char *name)
{
	unsigned t = tables_count;

	while (t > 0 && (!name || strcmp(tables[t - 1].name, name) != 0))
		t--;
	return t > 0 ? t - 1 : tables_count;
}

static uint64_t *keys_of(const json_t *keys, uint32_t *count)
{
	const json_int_t from = json_integer_value(json_object_get(keys, "from"));
	const json_int_t repeat = json_integer_value(json_object_get(keys, "repeat"));
	uint64_t *list;

	*count = (uint32_t)(json_is_array(keys) ? (json_int_t)json_array_size(keys)
						: json_integer_value(json_object_get(keys, "count")));
	if (!keys || (json_is_array(keys) && !*count))
		return NULL;
	list = memory(*count * sizeof(*list));
	for (uint32_t i = 0; i < *count; i++)
		list[i] = json_is_array(keys) ? (uint64_t)json_integer_value(json_array_get(keys, i))
					      : (uint64_t)(from + (repeat ? i / repeat : i));
	return list;
}

/* One number of a row of that type. */
static double number_at(const void *row, unsigned dtype, uint64_t i)
{
	switch (dtype) {
	case STAR_INT8:
		return ((const int8_t *)row)[i];
	case STAR_INT32:
		return ((const int32_t *)row)[i];
	default:
		return (double)((const int64_t *)row)[i];
	}
}

/* `rows` rows of n numbers each, from bytes of that type. */
static double *doubles_of(const uint8_t *bytes, unsigned dtype, uint64_t rows, uint64_t n)
{
	double *doubles = memory(rows * n * sizeof(*doubles));
	float *scratch = memory(n * sizeof(*scratch));

	for (uint64_t r = 0; r < rows; r++) {
		const uint8_t *row = bytes + r * dtype_row_bytes(dtype, n);

		if (dtype_is_real(dtype))
			tensor_convert_row(doubles + r * n, STAR_FLOAT64, row, dtype, (uint32_t)n, scratch);
		for (uint64_t i = 0; i < n && !dtype_is_real(dtype); i++)
			doubles[r * n + i] = number_at(row, dtype, i);
	}
	free(scratch);
	return doubles;
}

static json_t *numbers_of(const double *doubles, uint64_t n)
{
	json_t *list = json_array();

	for (uint64_t i = 0; i < n; i++)
		json_array_append_new(list,
				      doubles[i] - doubles[i] == 0 ? json_real(doubles[i]) : json_string("not finite"));
	return list;
}

/* NULL: one of them is not finite, which is told by name. */
static json_t *bits_of(const double *doubles, uint64_t n)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *bytes = (const uint8_t *)doubles;
	char *text = memory(n * sizeof(*doubles) * 2);
	json_t *string;

	for (uint64_t i = 0; i < n; i++) {
		if (doubles[i] - doubles[i] != 0) {
			free(text);
			return NULL;
		}
	}
	for (uint64_t i = 0; i < n * sizeof(*doubles); i++) {
		text[2 * i] = digits[bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 15];
	}
	string = json_stringn_nocheck(text, n * sizeof(*doubles) * 2);
	free(text);
	return string;
}

/* A number that JSON has none for is given as a string. */
static float float_of(const json_t *value)
{
	return json_is_string(value) ? strtof(json_string_value(value), NULL) : (float)json_number_value(value);
}

static void fill(uint8_t *bytes, unsigned dtype, uint64_t rows, uint64_t n, const json_t *values)
{
	float *floats = memory(n * sizeof(*floats)), *scratch = memory(n * sizeof(*scratch));

	for (uint64_t r = 0; r < rows && dtype_is_real(dtype); r++) {
		for (uint64_t i = 0; i < n; i++)
			floats[i] = float_of(json_is_array(values) ? json_array_get(values, r * n + i) : values);
		tensor_convert_row(bytes + r * dtype_row_bytes(dtype, n), dtype, floats, STAR_FLOAT32, (uint32_t)n,
				   scratch);
	}
	free(floats);
	free(scratch);
}

static void set_rows(json_t *result, const uint8_t *bytes, unsigned dtype, uint64_t rows, uint64_t n, bool as_bits)
{
	double *doubles = doubles_of(bytes, dtype, rows, n);
	json_t *bits = as_bits ? bits_of(doubles, rows * n) : NULL;

	if (bits)
		json_object_set_new(result, "bits", bits);
	else
		json_object_set_new(result, "values", numbers_of(doubles, rows * n));
	free(doubles);
}

static json_t *outcome(const struct star_op *op, unsigned dtype, uint64_t rows, uint64_t n, const json_t *line,
		       double norm)
{
	json_t *result = json_object();
	const void *bytes = op->kind == STAR_PULL ? op->values : op->results;
	json_t *versions = op->versions ? json_array() : NULL;
	char text[16];

	if (bytes && json_is_true(json_object_get(line, "hash"))) {
		snprintf(text, sizeof(text), "%08x", base_crc32(bytes, rows * dtype_row_bytes(dtype, n)));
		json_object_set_new(result, "hash", json_string(text));
	} else if (bytes) {
		set_rows(result, bytes, dtype, rows, n, json_is_true(json_object_get(line, "bits")));
	}
	for (uint64_t i = 0; versions && i < (op->count ? op->count : star_blocks(op->table)); i++)
		json_array_append_new(versions, json_integer(op->versions[i]));
	if (versions)
		json_object_set_new(result, "versions", versions);
	if (norm >= 0)
		json_object_set_new(result, "norm", json_real(norm));
	return result;
}

static json_t *operate(const json_t *line, enum star_op_kind kind)
{
	const char *name = json_string_value(json_object_get(line, "table"));
	const json_t *given = json_object_get(line, "versions"), *clip = json_object_get(line, "clip");
	const unsigned rates =
		(json_object_get(line, "rate") ? STAR_RATE : 0) | (json_object_get(line, "scale") ? STAR_SCALE : 0);
	struct star_op op = {
		.kind = kind,
		.flags = rates | (json_is_true(json_object_get(line, "read_only")) ? STAR_READ_ONLY
				  : json_is_true(json_object_get(line, "open"))	   ? STAR_OPEN
										   : 0),
		.tag = (uint64_t)json_integer_value(json_object_get(line, "tag")),
		.rate = float_of(json_object_get(line, "rate")),
		.scale = float_of(json_object_get(line, "scale")),
		.step = (uint64_t)json_integer_value(json_object_get(line, "step")),
		.dtype = json_string_value(json_object_get(line, "dtype")),
	};
	struct star_error err = { 0 };
	uint64_t rows, n, *keys;
	double norm = -1;
	const unsigned t = find(name);
	unsigned dtype;
	json_t *result;

	if (t == tables_count)
		exit(EXIT_FAILURE);
	op.table = tables[t].table;
	op.keys = keys = keys_of(json_object_get(line, "keys"), &op.count);
	dtype = op.dtype ? dtype_parse(op.dtype) : tables[t].dtype;
	/* A whole variable is one row of all; in scaled_int8 it is not read here as numbers. */
	rows = op.count ? op.count : 1;
	n = op.count ? tables[t].row : star_elements(op.table);
	if (kind == STAR_PUSH && op.tag)
		op.flags |= STAR_ACCUMULATE;
	if (kind != STAR_DELETE && kind != STAR_COMMIT) {
		op.values = memory(rows * dtype_row_bytes(dtype, n) + star_bytes(op.table, op.dtype));
		fill(op.values, dtype, rows, n, json_object_get(line, "values"));
	}
	if (kind == STAR_PUSH_PULL)
		op.results = memory(rows * dtype_row_bytes(dtype, n));
	if (given) {
		op.versions = memory((json_array_size(given) + rows + star_blocks(op.table)) * sizeof(uint32_t));
		for (size_t i = 0; i < json_array_size(given); i++)
			op.versions[i] = (uint32_t)json_integer_value(json_array_get(given, i));
	}
	if ((clip && star_clip_global_norm(&op, 1, float_of(clip), &norm, &err) < 0) ||
	    star_execute(cluster, &op, 1, deadline_us, &err) < 0)
		result = failed(&err);
	else
		result = outcome(&op, dtype, rows, n, line, norm);
	free(keys);
	free(op.values);
	free(op.results);
	free(op.versions);
	return result;
}

/* Pushes of float32 that are in flight at once. */
static json_t *together(const json_t *line)
{
	enum { PUSHES_MAX = 64 };
	const char *name = json_string_value(json_object_get(line, "table"));
	const json_t *pushes = json_object_get(line, "pushes"), *push;
	struct star_request *requests[PUSHES_MAX] = { NULL };
	struct star_error errs[PUSHES_MAX] = { { 0 } };
	struct star_op ops[PUSHES_MAX] = { { .kind = STAR_PUSH } };
	uint64_t *keys[PUSHES_MAX];
	json_t *each = json_array();
	const unsigned t = find(name);
	size_t i;

	if (t == tables_count || json_array_size(pushes) > PUSHES_MAX) {
		json_decref(each);
		return json_pack("{s:s}", "error", "an unknown table, or too many pushes");
	}
	json_array_foreach(pushes, i, push)
	{
		ops[i] = (struct star_op){ .kind = STAR_PUSH, .table = tables[t].table };
		ops[i].keys = keys[i] = keys_of(json_object_get(push, "keys"), &ops[i].count);
		ops[i].values = memory(ops[i].count * tables[t].row * sizeof(float));
		fill(ops[i].values, STAR_FLOAT32, ops[i].count, tables[t].row, json_object_get(push, "values"));
		requests[i] = star_execute_async(cluster, &ops[i], 1, deadline_us, NULL, NULL, &errs[i]);
	}
	for (i = 0; i < json_array_size(pushes); i++) {
		const int rc = requests[i] ? star_request_wait(requests[i], &errs[i]) : errs[i].code;

		json_array_append_new(each, rc < 0 ? failed(&errs[i]) : json_object());
		free(keys[i]);
		free(ops[i].values);
	}
	return json_pack("{s:o}", "each", each);
}

static json_t *open_again(void)
{
	struct star_error err = { 0 };

	star_close(cluster);
	while (tables_count)
		free((void *)(uintptr_t)tables[--tables_count].name);
	cluster = star_open(address, deadline_us, &err);
	if (cluster)
		return json_object();
	fprintf(stderr, "star-do: %s\n", err.text);
	exit(EXIT_FAILURE);
}

static json_t *checkpoint(const json_t *line)
{
	struct star_error err = { 0 };

	if (star_checkpoint(cluster, json_string_value(json_object_get(line, "kind")), deadline_us, &err) < 0)
		return failed(&err);
	return json_object();
}

static json_t *empty(const json_t *line)
{
	const unsigned t = find(json_string_value(json_object_get(line, "table")));
	struct star_error err = { 0 };

	if (star_table_empty(t < tables_count ? tables[t].table : NULL, deadline_us, &err) < 0)
		return failed(&err);
	return json_object();
}

static json_t *drop(const json_t *line)
{
	const unsigned t = find(json_string_value(json_object_get(line, "table")));
	struct star_error err = { 0 };

	if (star_table_drop(t < tables_count ? tables[t].table : NULL, deadline_us, &err) < 0)
		return failed(&err);
	return json_object();
}

static json_t *perform(const json_t *line)
{
	static const char *const kinds[] = {
		[STAR_PULL] = "pull", [STAR_PUSH] = "push", [STAR_PUSH_PULL] = "push_pull", [STAR_DELETE] = "delete"
	};
	const char *what = json_string_value(json_object_get(line, "do"));

	for (unsigned kind = STAR_PULL; what && kind <= STAR_DELETE; kind++)
		if (strcmp(what, kinds[kind]) == 0)
			return operate(line, (enum star_op_kind)kind);
	if (what && strcmp(what, "commit") == 0)
		return operate(line, STAR_COMMIT);
	if (what && strcmp(what, "together") == 0)
		return together(line);
	if (what && strcmp(what, "open") == 0)
		return open_again();
	if (what && strcmp(what, "drop") == 0)
		return drop(line);
	if (what && strcmp(what, "empty") == 0)
		return empty(line);
	if (what && strcmp(what, "checkpoint") == 0)
		return checkpoint(line);
	return what && strcmp(what, "create") == 0 ? create(line) : json_pack("{s:s}", "error", "what is to be done?");
}

int main(int argc, char **argv)
{
	enum { KEPT_BYTES = 32 << 20 };
	struct star_error err = { 0 };
	char *line = NULL;
	size_t room = 0;

	/* What a push took is kept for the next one: to find and clear pages again would take longer than the push. */
	mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
	mallopt(M_TRIM_THRESHOLD, 2 * KEPT_BYTES);
	address = argv[1];
	if (argc == 3)
		deadline_us = strtoull(argv[2], NULL, 10);
	cluster = argc == 2 || argc == 3 ? star_open(address, deadline_us, &err) : NULL;
	if (!cluster) {
		fprintf(stderr, "star-do: %s\n", err.code ? err.text : "usage: star-do PS [DEADLINE_US]");
		return EXIT_FAILURE;
	}
	while (getline(&line, &room, stdin) > 0) {
		json_t *json = json_loads(line, 0, NULL), *result = perform(json);
		char *text = json_dumps(result, JSON_COMPACT);

		puts(text);
		fflush(stdout);
		free(text);
		json_decref(result);
		json_decref(json);
	}
	star_close(cluster);
	for (unsigned t = 0; t < tables_count; t++)
		free((void *)(uintptr_t)tables[t].name);
	free(line);
	return EXIT_SUCCESS;
}
