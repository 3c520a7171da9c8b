/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the columns of your own files: a small text file, with one line for each setting or column, in the files'
 * order:
 *
 *	separator tab            # tab (default), comma, semicolon, space, or any one character
 *	header yes               # the files' first line names the columns, which may then come in any order [no]
 *	quotes yes               # a value may be in "quotes" [yes with commas and semicolons, otherwise no]
 *	label clicked            # 0 or 1; or: label income positive=">50K" negative="<=50K"; one for each task
 *	number age               # standardized by mean and deviation in the training files
 *	number price log         # log(1 + x), 0 if x is missing or negative; raw: as it is
 *	number height missing=0  # the value of an empty one; without it an empty one is an error
 *	category workclass       # a word: its id is star_key() of its place in the schema and the word
 *	list tags separator="|" most=64   # zero or more words
 *	ignore comment
 *
 * '#' begins a comment; a name or value with blanks is written in "quotes". The text is not trusted: everything is
 * bounded, and errors give file, line and column. Threads: a schema is only read after its creation.
 */
#ifndef INPUT_SCHEMA_H
#define INPUT_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "star_error.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

enum {
	INPUT_SCHEMA_BYTES_MAX = 1 << 20,
	INPUT_SCHEMA_COLUMNS_MAX = 4096,
	INPUT_SCHEMA_NAME_MAX = 255,  /* bytes of a name */
	INPUT_SCHEMA_LIST_MAX = 4096, /* values of a list in a row */
	INPUT_SCHEMA_LABELS_MAX = 16,
};

struct input_schema;

/* NULL with err: -EINVAL (what is wrong in it, with file, line and column), -E2BIG, -ENOMEM, or the errno of
 * reading. */
struct input_schema *input_schema_read(const char *path, struct star_error *err);
/* The same for a text; name: that of the file, for messages. */
struct input_schema *input_schema_parse(const char *text, size_t bytes, const char *name, struct star_error *err);
void input_schema_destroy(struct input_schema *schema); /* NULL is allowed */

/* The column of categories, or of a list, with this name or number, counted from 0 in the schema's order, as star_key
 * takes it. -EINVAL with what to do. */
int input_schema_column(const struct input_schema *schema, const char *text, struct star_error *err);

/* The name of a label, counted from 0 in the schema's order; NULL: there are fewer. */
const char *input_schema_label(const struct input_schema *schema, uint32_t number);

/* Whether the training program has to standardize this one of a row's numbers (below input_shape.dense). */
bool input_schema_is_standardized(const struct input_schema *schema, uint32_t number);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
