/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses lines of files that a schema describes, into rows. Lines are not trusted; INPUT_LINE_MAX bounds them. One
 * thread at a time. */
#ifndef INPUT_COLUMNS_H
#define INPUT_COLUMNS_H

#include "input/row.h"
#include "input/schema.h"

enum column_kind { COLUMN_LABEL, COLUMN_NUMBER, COLUMN_CATEGORY, COLUMN_LIST, COLUMN_IGNORE };
enum column_scale { SCALE_STANDARD, SCALE_LOG, SCALE_RAW };

struct schema_column {
	const char *name;
	enum column_kind kind;
	uint32_t line;
	enum column_scale scale; /* of a number */
	bool has_missing;
	double missing;
	char separator; /* of a list */
	uint32_t most;
	const char *positive, *negative; /* of a label; NULL: 1, and 0 or any other text */
};

struct input_schema {
	char *text; /* the schema's text; names point into it */
	char separator;
	bool header, quotes;
	uint32_t count;
	struct schema_column *columns;
	uint32_t *by_name; /* indices in columns, sorted by name */
	struct input_shape shape;
};

/* The parser of a series of files. */
struct columns {
	const struct input_schema *schema;
	uint32_t *place; /* for each column of the schema, its index in a line */
	char **words;	 /* the fields of a line */
	uint32_t count;
};

/* 0 or -ENOMEM. */
int input_columns_init(struct columns *columns, const struct input_schema *schema);
void input_columns_fini(struct columns *columns);

/* Parses a file's header line, if the schema says that there is one. The line is modified. 0 or -EINVAL. */
int input_columns_header(struct columns *columns, char *line, struct star_error *err);

/* As input_row_parse. The ids of lists follow those of categories, in the schema's order; row->lengths has the number
 * of ids in each list. */
int input_columns_row(struct columns *columns, char *line, struct row *row, struct star_error *err);

#endif
