/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of files that a schema describes to rows. Outside bytes: bounded by INPUT_LINE_MAX. Threads: one at a time. */
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
	const char *positive, *negative; /* of a label; NULL: 1 and 0, or any other */
};

struct input_schema {
	char *text; /* what names point into */
	char separator;
	bool header, quotes;
	uint32_t count;
	struct schema_column *columns;
	uint32_t *by_name; /* places in columns, in the order of their names */
	struct input_shape shape;
};

/* Of files that are open one after the other. */
struct columns {
	const struct input_schema *schema;
	uint32_t *place; /* of each column of the schema, in a line */
	char **words;	 /* of a line */
	uint32_t count;
};

/* 0 or -ENOMEM. */
int input_columns_init(struct columns *columns, const struct input_schema *schema);
void input_columns_fini(struct columns *columns);

/* A file's first line, where the schema says that it names the columns. The line is changed. 0 or -EINVAL. */
int input_columns_header(struct columns *columns, char *line, struct star_error *err);

/* As input_row_parse. Behind the ids of categories those of lists come, in the schema's order; row->lengths has how
 * many each of them has. */
int input_columns_row(struct columns *columns, char *line, struct row *row, struct star_error *err);

#endif
