/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of a running cluster: shown, and exported. */
#include "app/starctl/rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/checkpoints.h"
#include "ckpt/line.h"
#include "jsonrpc/member.h"

/* ---- get ---- */

struct shown {
	const struct row_source *source;
	json_t **rows; /* in the format of JSON lines, by the positions of their keys */
	size_t at;
	const uint64_t *keys;
	size_t count;
};

static json_t *row_json(const struct row_source *source, const uint8_t *record)
{
	char *text = NULL;
	size_t bytes;
	FILE *memory = open_memstream(&text, &bytes);
	json_t *json;

	if (!memory)
		return NULL;
	ckpt_line_row(memory, &source->spec, &source->shape, 0, record);
	fclose(memory);
	json = json_loadb(text, bytes, 0, NULL);
	free(text);
	return json;
}

static int keep_row(void *ctx, uint64_t key, const uint8_t *record, struct star_error *err)
{
	struct shown *shown = ctx;
	json_t **row = &shown->rows[shown->at++];

	(void)key;
	if (!record)
		return 0;
	json_decref(*row);
	*row = row_json(shown->source, record);
	return *row ? 0 : star_error_set(err, -ENOMEM, "out of memory");
}

static void print_numbers(const char *name, const json_t *numbers, FILE *out)
{
	const json_t *number;
	char text[48];
	size_t i;

	fprintf(out, "  %s", name);
	json_array_foreach(numbers, i, number)
	{
		if (json_is_real(number))
			snprintf(text, sizeof(text), "%.9g", json_real_value(number));
		else if (json_is_integer(number))
			snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(number));
		else
			snprintf(text, sizeof(text), "%s", json_string_value(number));
		fprintf(out, " %s", text);
	}
	fputc('\n', out);
}

/* "key 7: version 3, frequency 2", then its elements, line by line. */
static void print_row(uint64_t key, const json_t *row, FILE *out)
{
	const char *name, *comma = "";
	json_t *member;

	fprintf(out, "key %" PRIu64 ":", key);
	if (!row) {
		fprintf(out, " there is no row\n");
		return;
	}
	json_object_foreach((json_t *)row, name, member)
	{
		if (json_is_object(member) || json_is_array(member) || strcmp(name, "key") == 0)
			continue;
		fprintf(out, "%s %s %.9g", comma, name, json_number_value(member));
		comma = ",";
	}
	fputc('\n', out);
	json_object_foreach((json_t *)row, name, member)
	{
		if (json_is_array(member))
			print_numbers(name, member, out);
	}
	json_object_foreach(json_object_get(row, "slots"), name, member)
	{
		print_numbers(name, member, out);
	}
}

static int parse_key(const char *word, uint64_t *key, struct star_error *err)
{
	return row_key_parse(word, key) ? 0
					: star_error_set(err, -EINVAL,
							 "\"%.60s\" is not a key: a number from -2^63 to 2^64 - 1; "
							 "`startrain key` gives that of a column's text",
							 word);
}

static int print_rows(const struct invocation *invocation, struct shown *shown)
{
	json_t *list = json_array();

	for (size_t i = 0; i < shown->count; i++) {
		if (!invocation->json)
			print_row(shown->keys[i], shown->rows[i], invocation->out);
		else if (shown->rows[i])
			json_array_append(list, shown->rows[i]);
		else
			json_array_append_new(list,
					      json_pack("{s:o, s:b}", "key", jsonrpc_member_from_u64(shown->keys[i]),
							"missing", true));
	}
	if (invocation->json)
		print_json(list, invocation->out);
	else
		json_decref(list);
	return STARCTL_OK;
}

int run_rows_get(const struct invocation *invocation)
{
	const size_t count = (size_t)invocation->argc - 1;
	uint64_t *keys = malloc(count * sizeof(*keys));
	json_t **rows = calloc(count, sizeof(*rows));
	struct row_source source = { 0 };
	struct shown shown = { .source = &source, .rows = rows, .keys = keys, .count = count };
	struct star_error err = { 0 };
	int failed = STARCTL_FAILED, rc = keys && rows ? 0 : star_error_set(&err, -ENOMEM, "out of memory");

	for (size_t i = 0; rc == 0 && i < count; i++) {
		rc = parse_key(invocation->argv[1 + i], &keys[i], &err);
		failed = rc < 0 ? STARCTL_USAGE : STARCTL_FAILED;
	}
	if (rc == 0)
		rc = row_source_open(&source, invocation, invocation->argv[0], &err);
	for (uint32_t node = 0; rc == 0 && node < source.nodes_count; node++) {
		shown.at = 0;
		rc = row_source_read(&source, node, keys, count, keep_row, &shown, &err);
	}
	rc = rc == 0 ? print_rows(invocation, &shown) : fail(invocation, &err, failed);
	for (size_t i = 0; rows && i < count; i++)
		json_decref(rows[i]);
	row_source_close(&source);
	free(rows);
	free(keys);
	return rc;
}

/* ---- export ---- */

struct exported {
	struct row_writer *writer;
	struct checkpoint_progress progress;
	uint64_t rows, total;
};

static int export_row(void *ctx, uint64_t key, const uint8_t *record, struct star_error *err)
{
	struct exported *e = ctx;

	(void)key;
	if (!record)
		return 0; /* it was removed meanwhile */
	e->rows++;
	checkpoint_progress_report(&e->progress, e->rows < e->total ? e->rows : e->total, e->total);
	return row_writer_put(e->writer, record, err);
}

/* Rows may be the output, so an error only goes to standard error. */
static int fail_rows(const struct invocation *invocation, const struct star_error *err)
{
	struct invocation quiet = *invocation;

	quiet.json = false;
	return fail(&quiet, err, STARCTL_FAILED);
}

int run_tables_export(const struct invocation *invocation)
{
	const char *path = invocation->argc > 1 ? invocation->argv[1] : "-";
	struct row_source source = { 0 };
	struct exported e = { 0 };
	struct star_error err = { 0 };
	const enum row_format format = row_format_of(path, &err);
	const bool to_file = strcmp(path, "-") != 0;
	int rc;

	if (!format)
		return fail(invocation, &err, STARCTL_USAGE);
	rc = row_source_open(&source, invocation, invocation->argv[0], &err);
	if (rc == 0) {
		e.writer = row_writer_open(&source, format, path, invocation->out, &err);
		rc = e.writer ? 0 : err.code;
	}
	for (uint32_t i = 0; i < source.nodes_count; i++)
		e.total += source.nodes[i].rows;
	checkpoint_progress_begin(&e.progress, invocation, "export");
	e.progress.rows = true;
	if (rc == 0)
		rc = row_source_walk(&source, export_row, &e, &err);
	checkpoint_progress_end(&e.progress);
	if (e.writer && row_writer_close(e.writer, rc == 0, rc == 0 ? &err : NULL) < 0)
		rc = err.code;
	row_source_close(&source);
	if (rc < 0)
		return to_file ? fail(invocation, &err, STARCTL_FAILED) : fail_rows(invocation, &err);
	if (to_file && invocation->json)
		print_json(json_pack("{s:s, s:I}", "table", invocation->argv[0], "rows", (json_int_t)e.rows),
			   invocation->out);
	else if (to_file)
		fprintf(invocation->out, "%" PRIu64 " rows of %s are in %s\n", e.rows, invocation->argv[0], path);
	return STARCTL_OK;
}
