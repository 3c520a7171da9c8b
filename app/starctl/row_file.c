/* SPDX-License-Identifier: BSD-3-Clause */
/* File names for rows, and NumPy's types. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/rows.h"
#include "tensor/dtype.h"

enum row_format row_format_of(const char *path, struct star_error *err)
{
	static const struct {
		const char *ending;
		enum row_format format;
	} known[] = { { ".jsonl", ROW_LINES }, { ".json", ROW_LINES }, { ".csv", ROW_CSV }, { ".npy", ROW_NPY } };
	const size_t bytes = path ? strlen(path) : 0;

	if (!path || strcmp(path, "-") == 0)
		return ROW_LINES;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const size_t n = strlen(known[i].ending);

		if (bytes > n && strcmp(path + bytes - n, known[i].ending) == 0)
			return known[i].format;
	}
	star_error_set(err, -EINVAL,
		       "\"%.200s\": the name determines the format, and must end with .jsonl, .csv or .npy; - means "
		       "JSON lines",
		       path);
	return 0;
}

unsigned row_parts(enum row_format format, const struct object_spec *spec)
{
	return format != ROW_NPY ? 1 : spec->dtype == STAR_SCALED_INT8 ? 3 : 2;
}

int row_part_path(enum row_format format, const char *path, unsigned part, char to[static ROW_PATH_MAX],
		  struct star_error *err)
{
	static const char *const parts[ROW_PARTS] = { "keys", "values", "scales" };
	const size_t bytes = strlen(path);

	if (bytes + 16 > ROW_PATH_MAX)
		return star_error_set(err, -ENAMETOOLONG, "the path %.200s... is too long", path);
	if (format == ROW_NPY)
		snprintf(to, ROW_PATH_MAX, "%.*s.%s.npy", (int)(bytes - strlen(".npy")), path, parts[part]);
	else
		snprintf(to, ROW_PATH_MAX, "%s", path);
	return 0;
}

bool row_key_parse(const char *text, uint64_t *key)
{
	const char *digits = text + (*text == '-');
	const bool hex = text[0] == '0' && (text[1] | 0x20) == 'x';
	char *end = NULL;

	errno = 0;
	if (hex ? isxdigit((unsigned char)text[2]) : isdigit((unsigned char)*digits))
		*key = digits > text ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, hex ? 16 : 10);
	return end && !*end && !errno;
}

const char *row_npy_type(unsigned dtype)
{
	switch (dtype) {
	case STAR_FLOAT16:
		return "<f2";
	case STAR_FLOAT32:
		return "<f4";
	case STAR_FLOAT64:
		return "<f8";
	case STAR_INT8:
		return "|i1";
	case STAR_INT32:
		return "<i4";
	case STAR_INT64:
		return "<i8";
	default:
		return NULL;
	}
}

unsigned row_npy_dtype(const struct object_spec *spec)
{
	return spec->dtype == STAR_BFLOAT16 ? STAR_FLOAT32 : spec->dtype == STAR_SCALED_INT8 ? STAR_INT8 : spec->dtype;
}
