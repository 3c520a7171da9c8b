/* SPDX-License-Identifier: BSD-3-Clause */
/* Schemas, and lines of files that they describe. The first two bytes: how long the schema is; the rest are lines, of
 * which the first names the columns where the schema says so. What is accepted keeps its bounds. */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "input/columns.h"

static char *copy(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1);

	FUZZ_CHECK(text, "no memory");
	memcpy(text, data, bytes);
	text[bytes] = 0;
	return text;
}

static void check_row(const struct input_schema *s, const struct row *row)
{
	const struct input_shape shape = input_schema_shape(s);
	uint64_t ids = shape.fields;

	for (uint32_t i = 0; i < shape.dense; i++)
		FUZZ_CHECK(isfinite(row->dense[i]), "number %u", i);
	for (uint32_t i = 0; i < shape.lists; i++)
		ids += row->lengths[i];
	FUZZ_CHECK(row->count == ids && ids <= shape.fields + shape.list_ids && row->count <= row->room, "%u ids",
		   row->count);
	for (uint32_t i = 0; i < row->count; i++)
		FUZZ_CHECK(row->ids[i] >= 0, "id %u", i);
	FUZZ_CHECK(row->label == 0 || row->label == 1, "label");
	FUZZ_CHECK(shape.more_labels < INPUT_SCHEMA_LABELS_MAX && input_schema_label(s, shape.more_labels) &&
			   !input_schema_label(s, shape.more_labels + 1),
		   "%u labels", shape.more_labels + 1);
	for (uint32_t i = 0; i < shape.more_labels; i++)
		FUZZ_CHECK(row->more_labels[i] == 0 || row->more_labels[i] == 1, "label %u", i + 1);
}

static void parse_lines(const struct input_schema *s, char *text)
{
	struct columns columns;
	struct row row = { 0 };
	bool header = s->header;
	char *line;

	FUZZ_CHECK(input_columns_init(&columns, s) == 0, "no memory");
	while ((line = strsep(&text, "\n"))) {
		struct star_error err = { 0 };
		const int status = header ? input_columns_header(&columns, line, &err)
					  : input_columns_row(&columns, line, &row, &err);

		FUZZ_CHECK(status < 0 ? err.code == status && err.text[0] : status <= !header, "status %d", status);
		if (header && status < 0) /* reading ends */
			break;
		if (!header && status > 0)
			check_row(s, &row);
		header = false;
	}
	input_row_fini(&row);
	input_columns_fini(&columns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, data + bytes };
	struct star_error err = { 0 };
	const size_t wanted = take16(&in), left = input_left(&in), n = wanted < left ? wanted : left;
	struct input_schema *s = input_schema_parse((const char *)in.at, n, "schema", &err);

	FUZZ_CHECK(s || (err.code < 0 && err.text[0]), "an error without a message");
	if (s) {
		char *text = copy(in.at + n, left - n);

		FUZZ_CHECK(s->count && s->count <= INPUT_SCHEMA_COLUMNS_MAX, "%u columns", s->count);
		for (uint32_t i = 0; i < s->count; i++) {
			const int column = input_schema_column(s, s->columns[i].name, &err);
			const bool has = s->columns[i].kind == COLUMN_CATEGORY || s->columns[i].kind == COLUMN_LIST;

			FUZZ_CHECK(column == (has ? (int)i : -EINVAL), "column %u is %d", i, column);
		}
		parse_lines(s, text);
		free(text);
	}
	input_schema_destroy(s);
	return 0;
}
